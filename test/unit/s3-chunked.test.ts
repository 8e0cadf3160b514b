// The aws-chunked decoder: AWS's published example, every split of small bodies, and every fault of the
// framing, signatures and trailers.

import t from "tap";
import { ChunkedDecoder, type ChunkedOptions } from "../../proxy/s3/chunked.ts";
import {
  type ChunkFrame,
  chunkFrame,
  frameBytes,
  spoiled,
  withChunk,
} from "../support/s3-chunked.ts";
import { beginChecksum, decode, seed, signing, splits } from "../support/s3-decode.ts";

t.test("the published example decodes, and not with another byte or signature", async (t) => {
  const signatures = [
    "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
    "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
    "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
  ];
  const [first = "", second = "", last = ""] = signatures;
  const body = (text: string): Buffer =>
    Buffer.from(
      `10000;chunk-signature=${first}\r\n${"a".repeat(65536)}\r\n` +
        `400;chunk-signature=${second}\r\n${text.repeat(1024)}\r\n` +
        `0;chunk-signature=${last}\r\n\r\n`,
    );
  const options = { decodedLengthBytes: 66560, signing };
  t.equal(decode([body("a")], options), "a".repeat(66560));
  t.equal(decode([body("b")], options), "SignatureDoesNotMatch");
  t.strictSame(
    frameBytes(chunkFrame(Buffer.alloc(66560, "a"), { chunkBytes: 65536, seed })),
    body("a"),
    "the tests' own writer agrees with AWS",
  );
  for (const signature of signatures) {
    const other = body("a")
      .toString()
      .replace(signature, spoiled(`${signature}\r\n`).trim());
    t.equal(decode([Buffer.from(other)], options), "SignatureDoesNotMatch");
  }
});

t.test("the published example with a trailer decodes, and nothing else does", async (t) => {
  // https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
  const signatures = [
    "b474d8862b1487a5145d686f57f013e54db672cee1c953b3010fb58501ef5aa2",
    "1c1344b170168f8e65b41376b44b20fe354e373826ccbbe2c1d40a8cae51e5c7",
    "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
    "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435",
  ];
  const [first = "", second = "", last = "", trailer = ""] = signatures;
  const body =
    `10000;chunk-signature=${first}\r\n${"a".repeat(65536)}\r\n` +
    `400;chunk-signature=${second}\r\n${"a".repeat(1024)}\r\n` +
    `0;chunk-signature=${last}\r\n` +
    `x-amz-checksum-crc32c:sOO8/Q==\r\nx-amz-trailer-signature:${trailer}\r\n\r\n`;
  const options: Partial<ChunkedOptions> & { readonly decodedLengthBytes: number } = {
    decodedLengthBytes: 66560,
    signing: {
      ...signing,
      seed: "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e",
    },
    signedTrailer: true,
    trailer: "crc32c",
  };
  t.equal(decode([Buffer.from(body)], options), "a".repeat(66560));
  for (const signature of signatures) {
    const other = body.replace(signature, spoiled(`${signature}\r\n`).trim());
    t.equal(decode([Buffer.from(other)], options), "SignatureDoesNotMatch");
  }
});

const data = Buffer.from("hello, chunked\r\n world");
const crc32 = "x-amz-checksum-crc32";

interface Form {
  readonly name: string;
  readonly frame: (bytes: Buffer, checksum?: string) => ChunkFrame;
  readonly options: Partial<ChunkedOptions>;
}

function checksumOf(bytes: Buffer): string {
  const checksum = beginChecksum("crc32");
  checksum.update(bytes);
  return Buffer.from(checksum.digest()).toString("base64");
}

const forms: readonly Form[] = [
  {
    name: "signed",
    frame: (bytes) => chunkFrame(bytes, { chunkBytes: 10, seed }),
    options: { signing },
  },
  {
    name: "signed with trailer",
    frame: (bytes, value = checksumOf(bytes)) =>
      chunkFrame(bytes, { chunkBytes: 10, seed, trailer: [crc32, value] }),
    options: { signing, signedTrailer: true, trailer: "crc32" },
  },
  {
    name: "unsigned with trailer",
    frame: (bytes, value = checksumOf(bytes)) =>
      chunkFrame(bytes, { chunkBytes: 10, trailer: [crc32, value] }),
    options: { trailer: "crc32" },
  },
  {
    name: "unsigned without trailer",
    frame: (bytes) => chunkFrame(bytes, { chunkBytes: 10 }),
    options: {},
  },
];

t.test("every split of a body gives its data", async (t) => {
  for (const { name, frame, options } of forms) {
    for (const bytes of [Buffer.alloc(0), Buffer.from("x"), data]) {
      const whole = frameBytes(frame(bytes));
      const seen = new Set(
        splits(whole).map((pieces) =>
          decode(pieces, { ...options, decodedLengthBytes: bytes.length }),
        ),
      );
      t.strictSame([...seen], [bytes.toString("latin1")], `${name}, ${bytes.length} bytes`);
    }
  }
});

t.test("every cut of a body is incomplete", async (t) => {
  for (const { name, frame, options } of forms) {
    const whole = frameBytes(frame(data));
    const seen = new Set<string>();
    for (let at = 0; at < whole.length; at += 1) {
      seen.add(decode([whole.subarray(0, at)], { ...options, decodedLengthBytes: data.length }));
    }
    t.strictSame([...seen], ["IncompleteBody"], name);
  }
});

type Spoil = (frame: ChunkFrame) => ChunkFrame;

const spoilLine =
  (at: number): Spoil =>
  (frame) =>
    withChunk(frame, at, ({ line }) => ({ line: spoiled(line) }));
const firstLine =
  (change: (line: string) => string): Spoil =>
  (frame) =>
    withChunk(frame, 0, ({ line }) => ({ line: change(line) }));
const size = (text: string): Spoil => firstLine((line) => line.replace(/^a/, text));

/** Fault, what it does, and the outcome in signed and unsigned forms; null: that form has no such thing. */
const faults: readonly (readonly [string, Spoil, string | null, string | null])[] = [
  ["first signature", spoilLine(0), "SignatureDoesNotMatch", null],
  ["middle signature", spoilLine(1), "SignatureDoesNotMatch", null],
  ["last signature", spoilLine(2), "SignatureDoesNotMatch", null],
  ["final signature", (f) => ({ ...f, last: spoiled(f.last) }), "SignatureDoesNotMatch", null],
  [
    "chunks swapped",
    (f) => ({
      ...f,
      chunks: [...f.chunks.slice(1, 2), ...f.chunks.slice(0, 1), ...f.chunks.slice(2)],
    }),
    "SignatureDoesNotMatch",
    null,
  ],
  [
    "other data",
    (f) => withChunk(f, 1, (chunk) => ({ data: Buffer.alloc(chunk.data.length, 1) })),
    "SignatureDoesNotMatch",
    null,
  ],
  ["no signature", firstLine(() => "a\r\n"), "InvalidRequest", null],
  [
    "a short signature",
    firstLine((l) => l.replace("\r", "").slice(0, -2) + "\r\n"),
    "InvalidRequest",
    null,
  ],
  [
    "upper-case signature",
    firstLine((l) => `a${l.slice(1, 18)}${l.slice(18).toUpperCase()}`),
    "SignatureDoesNotMatch",
    null,
  ],
  [
    "two extensions",
    firstLine((l) => l.replace("\r\n", ";x=y\r\n")),
    "InvalidRequest",
    "InvalidRequest",
  ],
  [
    "a signature",
    firstLine(() => `a;chunk-signature=${"0".repeat(64)}\r\n`),
    "SignatureDoesNotMatch",
    "InvalidRequest",
  ],
  ["upper-case size", size("A"), "fine", "fine"],
  ["leading zeros", size("000a"), "fine", "fine"],
  ["16 digits", size("000000000000000a"), "fine", "fine"],
  ["17 digits", size("0000000000000000a"), "InvalidChunkSizeError", "InvalidChunkSizeError"],
  ["blank before", size(" a"), "InvalidChunkSizeError", "InvalidChunkSizeError"],
  ["blank behind", size("a "), "InvalidChunkSizeError", "InvalidChunkSizeError"],
  ["plus", size("+a"), "InvalidChunkSizeError", "InvalidChunkSizeError"],
  ["minus", size("-a"), "InvalidChunkSizeError", "InvalidChunkSizeError"],
  ["0x", size("0xa"), "InvalidChunkSizeError", "InvalidChunkSizeError"],
  ["no size", size(""), "InvalidChunkSizeError", "InvalidChunkSizeError"],
  ["huge size", size("ffffffffffffffff"), "InvalidRequest", "InvalidRequest"],
  ["long line", size("0".repeat(300)), "InvalidChunkSizeError", "InvalidChunkSizeError"],
  [
    "lone LF behind the size",
    firstLine((l) => l.replace("\r", "")),
    "InvalidRequest",
    "InvalidRequest",
  ],
  [
    "lone LF behind data",
    (f) => withChunk(f, 1, () => ({ end: "\n" })),
    "InvalidRequest",
    "InvalidRequest",
  ],
  [
    "nothing behind data",
    (f) => withChunk(f, 1, () => ({ end: "" })),
    "InvalidRequest",
    "InvalidRequest",
  ],
  [
    "CR CR LF behind data",
    (f) => withChunk(f, 1, () => ({ end: "\r\r\n" })),
    "InvalidRequest",
    "InvalidRequest",
  ],
  [
    "lone LF behind the last size",
    (f) => ({ ...f, last: f.last.replace("\r", "") }),
    "InvalidRequest",
    "InvalidRequest",
  ],
  [
    "lone LF at the end",
    (f) => ({ ...f, blank: "\n" }),
    "MalformedTrailerError",
    "MalformedTrailerError",
  ],
  ["a byte behind the end", (f) => ({ ...f, blank: "\r\nx" }), "InvalidRequest", "InvalidRequest"],
  ["CRLF behind the end", (f) => ({ ...f, blank: "\r\n\r\n" }), "InvalidRequest", "InvalidRequest"],
  ["a second end", (f) => ({ ...f, blank: "\r\n0\r\n\r\n" }), "InvalidRequest", "InvalidRequest"],
  [
    "a chunk more",
    (f) => ({ ...f, chunks: [...f.chunks, ...f.chunks.slice(0, 1)] }),
    "InvalidRequest",
    "InvalidRequest",
  ],
  [
    "a trailer that was not announced",
    (f) => ({ ...f, trailer: `x-amz-meta-a:1\r\n${f.trailer}` }),
    "MalformedTrailerError",
    "MalformedTrailerError",
  ],
  [
    "another checksum",
    (f) => ({ ...f, trailer: `x-amz-checksum-crc32c:AAAAAA==\r\n${f.trailer}` }),
    "MalformedTrailerError",
    "MalformedTrailerError",
  ],
  [
    "a trailer without colon",
    (f) => ({ ...f, trailer: `x\r\n${f.trailer}` }),
    "MalformedTrailerError",
    "MalformedTrailerError",
  ],
  [
    "a long trailer",
    (f) => ({ ...f, trailer: "x".repeat(2000) }),
    "MalformedTrailerError",
    "MalformedTrailerError",
  ],
];

t.test("every fault of the framing is refused, however the body is split", async (t) => {
  for (const { name, frame, options } of forms) {
    for (const [fault, spoil, signed, unsigned] of faults) {
      const expected = options.signing === undefined ? unsigned : signed;
      if (expected === null) continue;
      const whole = frameBytes(spoil(frame(data)));
      const seen = new Set(
        splits(whole).map((pieces) =>
          decode(pieces, { ...options, decodedLengthBytes: data.length }),
        ),
      );
      t.strictSame(
        [...seen],
        [expected === "fine" ? data.toString("latin1") : expected],
        `${name}: ${fault}`,
      );
    }
  }
});

t.test("a line that does not end is refused at its limit, not kept", async (t) => {
  const limit = (before: string, filling: string): number => {
    const decoder = new ChunkedDecoder({
      decodedLengthBytes: 3,
      signing: null,
      signedTrailer: false,
      trailer: "crc32",
      beginChecksum,
    });
    t.equal(decoder.push(Buffer.from(before)).kind, "data");
    for (let count = 1; count < 10_000; count += 1) {
      if (decoder.push(Buffer.from(filling)).kind === "error") return count;
    }
    return Number.POSITIVE_INFINITY;
  };
  t.equal(limit("", "0"), 256, "size line");
  t.equal(limit("3\r\nabc", "\r"), 2, "behind data");
  t.equal(limit("3\r\nabc\r\n0\r\n", "x"), 1024, "trailer");
});

t.test("the declared length is the length", async (t) => {
  for (const { name, frame, options } of forms) {
    const whole = frameBytes(frame(data));
    const seen = [-1, 1].map((more) =>
      decode([whole], { ...options, decodedLengthBytes: data.length + more }),
    );
    t.strictSame(seen, ["InvalidRequest", "IncompleteBody"], name);
  }
});

t.test(
  "trailers: wrong, missing, repeated, out of order, and ends of line that clients write",
  async (t) => {
    const [, signed, unsigned] = forms;
    if (signed === undefined || unsigned === undefined) throw new Error("Two forms have trailers");
    const text = data.toString("latin1");
    const trailer = (form: Form, change: (trailer: string) => string, value?: string): string => {
      const frame = form.frame(data, value);
      const whole = frameBytes({ ...frame, trailer: change(frame.trailer) });
      const seen = new Set(
        splits(whole).map((pieces) =>
          decode(pieces, { ...form.options, decodedLengthBytes: data.length }),
        ),
      );
      return [...seen].join();
    };
    const same = (line: string): string => line;
    const signature = /x-amz-trailer-signature.*\r\n/;
    for (const form of [signed, unsigned]) {
      t.equal(trailer(form, same), text);
      t.equal(trailer(form, same, "AAAAAA=="), "BadDigest");
      t.equal(trailer(form, same, "AAAAAAA="), "InvalidRequest", "other base64");
      t.equal(trailer(form, same, "AAAAAAAA"), "InvalidRequest", "too long");
      t.equal(trailer(form, same, ""), "InvalidRequest", "empty");
      t.equal(
        trailer(form, (line) => line.replace(/^.*\r\n/, "")),
        "MalformedTrailerError",
      );
      t.equal(
        trailer(form, (line) => line.replace(/^(.*\r\n)/, "$1$1")),
        "MalformedTrailerError",
      );
      t.equal(
        trailer(form, (line) => line.replace(":", ": ").replace("\r\n", " \t\r\n")),
        text,
      );
      t.equal(
        trailer(form, (line) => line.replace("crc32", "CRC32")),
        text,
      );
      t.equal(
        trailer(form, (line) => line.replaceAll("\r\n", "\n")),
        text,
        "LF alone",
      );
      t.equal(
        trailer(form, (line) => line.replace("\r\n", "\n\r\n")),
        text,
        "as minio-go",
      );
    }
    t.equal(
      trailer(signed, (line) =>
        spoiled(line.replace(/^.*\r\n/, "")).replace(/^/, line.replace(signature, "")),
      ),
      "SignatureDoesNotMatch",
    );
    t.equal(
      trailer(signed, (line) => line.replace(signature, "")),
      "MalformedTrailerError",
    );
    t.equal(
      trailer(signed, (line) => line.replace(/(.*\r\n)(.*\r\n)/, "$2$1")),
      "MalformedTrailerError",
    );
    t.equal(
      trailer(signed, (line) => line.replace(/:....../, ":AAAAAA")),
      "SignatureDoesNotMatch",
      "another checksum under the old signature",
    );
    t.equal(
      trailer(signed, (line) => line.replace("\r\n", "\n\r\n\r\n")),
      "MalformedTrailerError",
    );
    t.equal(
      trailer(unsigned, (line) => `${line}x-amz-trailer-signature:${"0".repeat(64)}\r\n`),
      "MalformedTrailerError",
    );
  },
);
