// Asks a cluster what it can do: `headgate cluster ping ID --probe`. Each question is a small request that
// every S3 server survives, in a bucket made for it and taken away again or one that the operator names.
// Never asked: UploadPartCopy, which kills a radosgw for some sources, and signed-trailer streams.

import type { SeenFacts } from "../placement/profile-match.ts";
import { fieldTokens } from "../s3/headers.ts";
import { completeRequestDocument, readInitiateResult } from "../s3/multipart-document.ts";
import type { BucketName } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import {
  askCluster,
  etagOf,
  isOfProbeBytes,
  type ProbeAnswer,
  type ProbeAsk,
  type ProbeTarget,
  probeBytes,
  probeCrc32,
  trailingBody,
  wrongCrc32,
} from "./probe-requests.ts";

/** One run: keys of its own under `prefix`. */
class Probe {
  readonly #target: ProbeTarget;
  readonly #bucket: BucketName;
  readonly #prefix: string;

  constructor(target: ProbeTarget, bucket: BucketName, prefix: string) {
    this.#target = target;
    this.#bucket = bucket;
    this.#prefix = prefix;
  }

  ask(operation: S3Operation, name: string, ask: ProbeAsk = {}): Promise<ProbeAnswer> {
    const key = `${this.#prefix}${name}`;
    return askCluster(operation, this.#target, { bucket: this.#bucket, key, ...ask });
  }

  put(name: string, ask: ProbeAsk = {}): Promise<ProbeAnswer> {
    return this.ask("PutObject", name, { body: { kind: "bytes", bytes: probeBytes }, ...ask });
  }

  source(name: string): string {
    return `/${this.#bucket}/${this.#prefix}${name}`;
  }
}

/** Names of the objects that a run may leave behind, which `removeProbe` deletes. */
const names = ["object", "trailer", "checksum", "copy", "parts"] as const;

/**
 * Asks for every fact that can be asked for. What cannot be told of an answer is left out.
 * @throws UpstreamError where the cluster does not answer
 */
export async function probeFacts(
  target: ProbeTarget,
  bucket: BucketName,
  prefix: string,
): Promise<SeenFacts> {
  const probe = new Probe(target, bucket, prefix);
  const put = await probe.put("object");
  if (put.status !== 200) return {};
  const etag = etagOf(put);
  return {
    ...(await seenOfBodies(probe)),
    ...(await seenOfReads(probe, etag)),
    ...(await seenOfWrites(probe, etag)),
    ...(await seenOfCopies(probe, etag)),
    ...(await seenOfParts(probe)),
    ...(await seenOfDelete(probe)),
  };
}

/** Deletes what a run put. */
export async function removeProbe(
  target: ProbeTarget,
  bucket: BucketName,
  prefix: string,
): Promise<void> {
  const probe = new Probe(target, bucket, prefix);
  for (const name of names) await probe.ask("DeleteObject", name);
}

async function seenOfBodies(probe: Probe): Promise<SeenFacts> {
  const trailer = await probe.ask("PutObject", "trailer", {
    headers: [["content-encoding", "aws-chunked"]],
    body: trailingBody(probeCrc32),
  });
  // One that does not know the framing may store it.
  const takesTrailers = trailer.status === 200 && isOfProbeBytes(trailer.headers);
  const checksum = await probe.put("checksum", {
    headers: [["x-amz-checksum-crc32", wrongCrc32]],
  });
  // A server that takes no framing is told of it by a plain body, which some refuse.
  const encoded = takesTrailers
    ? trailer
    : await probe.put("trailer", { headers: [["content-encoding", "aws-chunked"]] });
  const kept = encoded.status === 200 ? await probe.ask("HeadObject", "trailer") : null;
  return {
    takesTrailers,
    verifiesChecksums: checksum.status !== 200,
    ...(kept === null
      ? {}
      : { keepsAwsChunked: fieldTokens(kept.headers, "content-encoding").includes("aws-chunked") }),
  };
}

async function seenOfReads(probe: Probe, etag: string): Promise<SeenFacts> {
  const list = await probe.ask("GetObject", "object", {
    headers: [["if-none-match", `"no-such-etag", ${etag}`]],
  });
  const attributes = await probe.ask("GetObjectAttributes", "object", {
    query: [["attributes", null]],
    headers: [["x-amz-object-attributes", "ObjectSize"]],
  });
  const part = await probe.ask("GetObject", "object", { query: [["partNumber", "2"]] });
  return {
    readsConditionsFully: list.status === 304,
    answersObjectAttributes: attributes.text.includes("<ObjectSize>"),
    answersPartNumber: part.status !== 200,
  };
}

async function seenOfWrites(probe: Probe, etag: string): Promise<SeenFacts> {
  const absent = await probe.put("object", { headers: [["if-none-match", "*"]] });
  const quoted = await probe.put("object", { headers: [["if-match", etag]] });
  if (quoted.status === 200) {
    const other = await probe.put("object", { headers: [["if-match", '"no-such-etag"']] });
    const obeys = absent.status === 412 && other.status !== 200;
    return { honoursConditionalPut: obeys, conditionalEtagQuotes: "keep" };
  }
  const bare = await probe.put("object", { headers: [["if-match", etag.replaceAll('"', "")]] });
  const honoursConditionalPut = absent.status === 412 && bare.status === 200;
  return honoursConditionalPut
    ? { honoursConditionalPut, conditionalEtagQuotes: "strip" }
    : { honoursConditionalPut };
}

async function seenOfCopies(probe: Probe, etag: string): Promise<SeenFacts> {
  const from = ["x-amz-copy-source", probe.source("object")] as const;
  const copy = await probe.ask("CopyObject", "copy", { headers: [from] });
  if (copy.status !== 200) return {};
  const source = await probe.ask("CopyObject", "copy", {
    headers: [from, ["x-amz-copy-source-if-none-match", etag]],
  });
  const destination = await probe.ask("CopyObject", "copy", {
    headers: [from, ["if-none-match", "*"]],
  });
  return {
    honoursCopySourceConditions: source.status !== 200,
    honoursConditionalCopy: destination.status === 412,
  };
}

async function seenOfParts(probe: Probe): Promise<SeenFacts> {
  const created = await probe.ask("CreateMultipartUpload", "parts", { query: [["uploads", null]] });
  const reading = readInitiateResult(created.text);
  if (created.status !== 200 || reading.kind === "error") return {};
  const uploadId = ["uploadId", reading.uploadId] as const;
  const body = { kind: "bytes", bytes: probeBytes } as const;
  const part = await probe.ask("UploadPart", "parts", {
    query: [["partNumber", "1"], uploadId],
    body,
  });
  await probe.put("parts");
  const document = completeRequestDocument([{ partNumber: 1, etag: etagOf(part), checksums: [] }]);
  const completed = await probe.ask("CompleteMultipartUpload", "parts", {
    query: [uploadId],
    headers: [["if-none-match", "*"]],
    body: { kind: "bytes", bytes: Buffer.from(document) },
  });
  const refused = completed.status === 412;
  if (completed.status !== 200) {
    await probe.ask("AbortMultipartUpload", "parts", { query: [uploadId] });
  }
  return completed.status === 200 || refused ? { honoursConditionalComplete: refused } : {};
}

async function seenOfDelete(probe: Probe): Promise<SeenFacts> {
  const deleted = await probe.ask("DeleteObject", "object", {
    headers: [["if-match", '"no-such-etag"']],
  });
  if (deleted.status < 300) return { honoursConditionalDelete: false };
  return deleted.status === 412 ? { honoursConditionalDelete: true } : {};
}
