// Held bytes: in order and whole, in few stores however small they came, and not copied when they are large.

import { Readable } from "node:stream";
import t from "tap";
import { PieceBuffer, readWhole } from "../../proxy/operations/piece-buffer.ts";

function numbered(lengthBytes: number): Buffer {
  return Buffer.from(Array.from({ length: lengthBytes }, (_, at) => at % 251));
}

/** Views of copies, each with a store of its own as a read of a socket gives it. */
function cut(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += pieces.at(-1)?.length ?? 0) {
    const size = sizes[pieces.length % sizes.length] ?? 1;
    pieces.push(new Uint8Array(bytes.subarray(at, at + size)));
  }
  return pieces;
}

function filled(pieces: readonly Uint8Array[]): PieceBuffer {
  const held = new PieceBuffer();
  for (const piece of pieces) held.push(piece);
  return held;
}

function drained(held: PieceBuffer): Uint8Array[] {
  const out: Uint8Array[] = [];
  for (let piece = held.shift(); piece !== null; piece = held.shift()) out.push(piece);
  return out;
}

t.test("what is held is what came, in at most twice its bytes and few stores", async (t) => {
  const bytes = numbered(200_000);
  const ways = [
    [1],
    [2, 3],
    [4095],
    [1, 4096],
    [2047, 4096],
    [2049, 4096],
    [70_000, 1, 1],
    [65_536],
  ];
  for (const sizes of ways) {
    const name = `pieces of ${sizes.join(" and ")}`;
    const pieces = cut(bytes, sizes);
    t.ok(bytes.equals(filled(pieces).whole()), `${name}: whole`);
    const out = drained(filled(pieces));
    t.ok(bytes.equals(Buffer.concat(out)), `${name}: in order`);
    const stores = new Set(out.map((piece) => piece.buffer));
    const storedBytes = [...stores].reduce((sum, store) => sum + store.byteLength, 0);
    t.ok(storedBytes <= 2 * bytes.length, `${name}: ${storedBytes} bytes`);
    t.ok(stores.size <= 2 + (2 * bytes.length) / 4096, `${name}: ${stores.size} stores`);
  }
});

t.test("small pieces of a large store do not keep it", async (t) => {
  const held = new PieceBuffer();
  for (let at = 0; at < 100; at += 1) held.push(new Uint8Array(65_536).subarray(at, at + 1));
  const [first, ...others] = drained(held);
  t.equal(first?.length, 1, "the first came alone");
  t.strictSame(
    others.map((piece) => [piece.length, piece.buffer.byteLength]),
    [[99, 99]],
  );
});

t.test("large pieces, and one that came alone, are not copied", async (t) => {
  const alone = numbered(10);
  t.equal(await readWhole(Readable.from([alone])), alone);
  const pieces = cut(numbered(300_000), [65_536]);
  t.strictSame(
    drained(filled(pieces)).map((piece) => pieces.indexOf(piece)),
    [0, 1, 2, 3, 4],
  );
  t.equal((await readWhole(Readable.from([]))).length, 0);
});

t.test("bytes are given while enough stay behind them", async (t) => {
  const held = filled([new Uint8Array(5000), new Uint8Array(10), new Uint8Array(10)]);
  t.equal(held.shift(21), null);
  t.equal(held.shift(20)?.length, 5000);
  t.equal(held.shift(1), null);
  held.push(new Uint8Array(1));
  held.push(new Uint8Array(0));
  t.equal(held.shift()?.length, 21, "asking in vain changes nothing");
  t.equal(held.shift(), null);
});
