// Runs the aws-chunked decoder over a body in pieces, with the credentials of AWS's published examples.

import { openChecksums } from "../../proxy/gateway/checksums.ts";
import type { ChunkSigning } from "../../proxy/s3/chunk-signatures.ts";
import { ChunkedDecoder, type ChunkedOptions } from "../../proxy/s3/chunked.ts";
import { SigningKeys } from "../../proxy/s3/sigv4.ts";
import type { ChunkSeed } from "./s3-chunked.ts";

export const beginChecksum = await openChecksums();

// https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming.html
export const seed: ChunkSeed = {
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  amzDate: "20130524T000000Z",
  scope: "20130524/us-east-1/s3/aws4_request",
  seed: "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
};
export const signing: ChunkSigning = {
  key: new SigningKeys(1).key(
    { accessKeyId: "AKIAIOSFODNN7EXAMPLE", sessionToken: null, ...seed },
    "20130524",
    "us-east-1",
    "s3",
  ),
  ...seed,
};

/** What comes out: the data, or the code of the error. */
export function decode(
  pieces: readonly Buffer[],
  options: Partial<ChunkedOptions> & Pick<ChunkedOptions, "decodedLengthBytes">,
): string {
  const decoder = new ChunkedDecoder({
    signing: null,
    signedTrailer: false,
    trailer: null,
    beginChecksum,
    ...options,
  });
  const data: Uint8Array[] = [];
  for (const piece of pieces) {
    const result = decoder.push(piece);
    if (result.kind === "error") return result.error.code;
    data.push(...result.pieces);
  }
  return decoder.end()?.code ?? Buffer.concat(data).toString("latin1");
}

export function splits(bytes: Buffer): readonly (readonly Buffer[])[] {
  const all: Buffer[][] = [[bytes], [...bytes].map((byte) => Buffer.of(byte))];
  for (let at = 1; at < bytes.length; at += 1)
    all.push([bytes.subarray(0, at), bytes.subarray(at)]);
  return all;
}
