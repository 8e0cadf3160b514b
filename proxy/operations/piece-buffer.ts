// Bytes that are held, in the order in which they came. A piece is what one read of a socket gave, and a
// client decides how small that is: each has an object and a store of its own behind it, about a
// hundred times a single byte. Small pieces are therefore copied together; large ones are kept as they are.

/** Below this a piece is copied; also the size of what such pieces are copied into. */
const blockBytes = 4096;

/** A queue of bytes. What it holds takes at most about twice their length, however small they came. */
export class PieceBuffer {
  readonly #pieces: Uint8Array[] = [];
  /** Behind all pieces: small ones, as far as it is filled. */
  #block: Uint8Array | null = null;
  #filledBytes = 0;
  #lengthBytes = 0;

  /** The piece must not change afterwards. */
  push(piece: Uint8Array): void {
    if (piece.length === 0) return;
    // What comes alone is kept as it is: most short bodies arrive in one piece.
    const isKept = piece.length >= blockBytes || this.#lengthBytes === 0;
    this.#lengthBytes += piece.length;
    if (isKept) {
      this.#endBlock();
      this.#pieces.push(piece);
      return;
    }
    for (let rest = piece; rest.length > 0; ) {
      this.#block ??= new Uint8Array(blockBytes);
      const part = rest.subarray(0, blockBytes - this.#filledBytes);
      this.#block.set(part, this.#filledBytes);
      this.#filledBytes += part.length;
      rest = rest.subarray(part.length);
      if (this.#filledBytes === blockBytes) this.#endBlock();
    }
  }

  /** The first bytes, in one run, if at least `leavingBytes` stay behind them; else `null`. */
  shift(leavingBytes = 0): Uint8Array | null {
    const firstBytes = this.#pieces[0]?.length ?? this.#filledBytes;
    if (firstBytes === 0 || this.#lengthBytes - firstBytes < leavingBytes) return null;
    if (this.#pieces.length === 0) this.#endBlock();
    const first = this.#pieces.shift();
    if (first === undefined) return null;
    this.#lengthBytes -= first.length;
    return first;
  }

  /** All that is held, in one run: the piece itself where there is but one. */
  whole(): Uint8Array {
    this.#endBlock();
    const [only] = this.#pieces;
    if (this.#pieces.length === 1 && only !== undefined) return only;
    return Buffer.concat(this.#pieces, this.#lengthBytes);
  }

  #endBlock(): void {
    const block = this.#block;
    if (block === null) return;
    const filled = block.subarray(0, this.#filledBytes);
    this.#block = null;
    this.#filledBytes = 0;
    // A copy of what is little: it must not keep a whole block.
    this.#pieces.push(filled.length < blockBytes / 2 ? filled.slice() : filled);
  }
}

/** Reads a stream to its end. */
export async function readWhole(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const held = new PieceBuffer();
  for await (const chunk of chunks) held.push(chunk);
  return held.whole();
}
