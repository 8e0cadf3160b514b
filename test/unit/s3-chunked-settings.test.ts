// What settings change of aws-chunked bodies: the smallest chunk, and checksums that cannot be computed.
// And the end of a body whose trailer has no CR, which minio-go writes in two ways.

import t from "tap";
import { ChunkedDecoder } from "../../proxy/s3/chunked.ts";
import { signatureOf } from "../../proxy/s3/sigv4.ts";
import { chunkFrame, frameBytes, spoiled } from "../support/s3-chunked.ts";
import { beginChecksum, decode, seed, signing } from "../support/s3-decode.ts";

t.test("only the last chunk may be shorter than the smallest", async (t) => {
  const data = Buffer.alloc(25, "x");
  for (const signed of [true, false]) {
    const body = frameBytes(chunkFrame(data, { chunkBytes: 10, ...(signed ? { seed } : {}) }));
    const seen = (minChunkBytes: number): string =>
      decode([body], { decodedLengthBytes: 25, minChunkBytes, signing: signed ? signing : null });
    t.equal(seen(0), data.toString());
    t.equal(seen(10), data.toString(), "the last one has 5");
    t.equal(seen(11), "InvalidChunkSizeError");
  }
  const one = frameBytes(chunkFrame(data, { chunkBytes: 100 }));
  t.equal(decode([one], { decodedLengthBytes: 25, minChunkBytes: 8192 }), data.toString());
});

t.test(
  "a trailer that cannot be computed is read, signed where the form is, and kept",
  async (t) => {
    const data = Buffer.from("hello");
    const trailer = ["x-amz-checksum-blake3", "AAAA"] as const;
    const body = frameBytes(chunkFrame(data, { chunkBytes: 10, trailer, seed }));
    const options = { decodedLengthBytes: 5, signing, signedTrailer: true, trailer: "blake3" };
    t.equal(decode([body], options), "hello");
    t.equal(
      decode([Buffer.from(body.toString().replace("AAAA", "AAAB"))], options),
      "SignatureDoesNotMatch",
    );
    const unsigned = (value: string): string =>
      decode(
        [
          frameBytes(
            chunkFrame(data, { chunkBytes: 10, trailer: ["x-amz-checksum-blake3", value] }),
          ),
        ],
        { decodedLengthBytes: 5, trailer: "blake3" },
      );
    t.equal(unsigned("AAAB"), "hello");
    for (const value of ["", "AA\x01A", "A".repeat(200)]) {
      t.equal(unsigned(value), "InvalidRequest", JSON.stringify(value));
    }
  },
);

t.test("the checksum can be had as it was sent, once it was seen", async (t) => {
  const data = Buffer.from("hello");
  const trailer = ["x-amz-checksum-crc32", "NhCmhg=="] as const;
  const body = frameBytes(chunkFrame(data, { chunkBytes: 10, trailer }));
  const decoder = new ChunkedDecoder({
    decodedLengthBytes: 5,
    signing: null,
    signedTrailer: false,
    trailer: "crc32",
    beginChecksum,
  });
  decoder.push(body.subarray(0, 10));
  t.equal(decoder.trailerText, null);
  decoder.push(body.subarray(10));
  t.equal(decoder.end(), null);
  t.equal(decoder.trailerText, "NhCmhg==");
});

t.test("half a line end behind a trailer without CR is no end", async (t) => {
  const body = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\n\r\n";
  const ends = [
    ["", "hello"],
    ["\r\n", "hello"],
    ["\r", "IncompleteBody"],
    ["\r\n\r", "InvalidRequest"],
  ] as const;
  for (const [end, seen] of ends) {
    const whole = [Buffer.from(`${body}${end}`)];
    t.equal(decode(whole, { decodedLengthBytes: 5, trailer: "crc32" }), seen, JSON.stringify(end));
  }
});

t.test("a wrong signature of a chunk or a trailer tells what it has to be made of", async (t) => {
  const trailer = ["x-amz-checksum-crc32", "NhCmhg=="] as const;
  const body = frameBytes(
    chunkFrame(Buffer.from("hello"), { chunkBytes: 3, trailer, seed }),
  ).toString("latin1");
  const signatures = [...body.matchAll(/(?:;chunk-|trailer-)signature[=:]([0-9a-f]{64})/g)];
  t.equal(signatures.length, 4);
  for (const [, right = ""] of signatures) {
    const decoder = new ChunkedDecoder({
      decodedLengthBytes: 5,
      signing,
      signedTrailer: true,
      trailer: "crc32",
      beginChecksum,
    });
    const wrong = spoiled(`${right}\r\n`).trim();
    const result = decoder.push(Buffer.from(body.replace(right, wrong), "latin1"));
    const details = result.kind === "error" ? result.error.details : {};
    t.equal(details["SignatureProvided"], wrong);
    t.equal(signatureOf(signing.key, details["StringToSign"] ?? ""), right);
  }
});
