// What a demo cluster makes of an upload's bytes, as the profile it plays does: aws-chunked framing with
// a trailer taken off or not understood, checksums verified and kept or ignored. Written apart from the
// proxy's own decoder, which it is there to judge.

import type { ProfileFacts } from "../placement/profiles.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderField, type HeaderList } from "../s3/headers.ts";
import { checksumOf, digest } from "./checksums.ts";
import type { DemoFacts } from "./request.ts";

const trailerForm = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";

export interface TakenBody {
  readonly body: Buffer;
  /** The head as the operation sees it: encodings and checksums that stay with the object. */
  readonly headers: HeaderList;
}

/** Whether a body comes in framing that a demo cluster can take: never the signed forms. */
export function isTrailerForm(headers: HeaderList): boolean {
  return fieldValue(headers, "x-amz-content-sha256") === trailerForm;
}

/** @throws S3Error XAmzContentSHA256Mismatch, IncompleteBody, InvalidRequest, BadDigest */
export function takeBody(bytes: Buffer, headers: HeaderList, facts: DemoFacts): TakenBody {
  const framed = isTrailerForm(headers) && facts.storesFraming !== true;
  // A server that does not know the form takes its name for a hash.
  if (framed && !facts.takesTrailers) throw new S3Error("XAmzContentSHA256Mismatch");
  const { data, trailers } = framed ? unframed(bytes) : { data: bytes, trailers: [] };
  const body = framed ? declaredPart(data, headers, facts) : data;
  const kept = headers.filter(([name]) => checksumOf(name) === null);
  const sent = [...headers, ...trailers].filter(([name]) => checksumOf(name) !== null);
  if (facts.verifiesChecksums) {
    assertAnnounced(headers, trailers);
    for (const [name, value] of sent) assertChecksum(body, checksumOf(name) ?? "", value);
    kept.push(...sent);
  }
  return { body, headers: facts.keepsAwsChunked ? kept : withoutAwsChunked(kept) };
}

function unframed(bytes: Buffer): { readonly data: Buffer; readonly trailers: HeaderField[] } {
  const pieces: Buffer[] = [];
  const trailers: HeaderField[] = [];
  let at = 0;
  const line = (): string => {
    const end = bytes.indexOf("\r\n", at);
    if (end === -1) throw new S3Error("IncompleteBody");
    const text = bytes.toString("latin1", at, end);
    at = end + 2;
    return text;
  };
  for (;;) {
    const size = line();
    if (!/^[0-9a-f]+$/.test(size)) throw new S3Error("InvalidChunkSizeError");
    const length = Number.parseInt(size, 16);
    if (length === 0) break;
    pieces.push(bytes.subarray(at, at + length));
    at += length;
    if (line() !== "") throw new S3Error("InvalidRequest");
  }
  for (let text = line(); text !== ""; text = line()) {
    const [name = "", value = ""] = text.split(":");
    trailers.push([name, value]);
  }
  if (at !== bytes.length) throw new S3Error("InvalidRequest");
  return { data: Buffer.concat(pieces), trailers };
}

/** RGW 18.2 cuts what is longer than declared, without a word. */
function declaredPart(data: Buffer, headers: HeaderList, facts: ProfileFacts): Buffer {
  const declared = Number(fieldValue(headers, "x-amz-decoded-content-length") ?? Number.NaN);
  if (data.length > declared && facts.backend === "rgw") return data.subarray(0, declared);
  if (data.length !== declared) throw new S3Error("IncompleteBody");
  return data;
}

function assertAnnounced(headers: HeaderList, trailers: readonly HeaderField[]): void {
  const announced = fieldValue(headers, "x-amz-trailer");
  const names = trailers.map(([name]) => name).join(",");
  if (isTrailerForm(headers) && names !== (announced ?? "")) {
    throw new S3Error("MalformedTrailerError");
  }
}

function assertChecksum(body: Buffer, algorithm: string, value: string): void {
  // What is not computed here is kept as it came.
  const computed = digest(body, algorithm);
  if (computed !== null && computed.toString("base64") !== value) throw new S3Error("BadDigest");
}

function withoutAwsChunked(headers: HeaderList): HeaderList {
  return headers.flatMap(([name, value]): HeaderField[] => {
    if (name !== "content-encoding") return [[name, value]];
    const kept = value.split(",").filter((token) => token.trim() !== "aws-chunked");
    return kept.length === 0 ? [] : [[name, kept.join(",").trim()]];
  });
}
