// Bytes of a copy's source as an upload to another cluster, with their checksum where one is wanted: in the
// head where it is known, else computed as they pass and sent behind them, or in the head of a body that is
// held whole. A cluster that takes none behind a body is told it in the head, and the source is read once
// more for it.

import type { UpstreamResponse } from "../placement/ports.ts";
import type { ProfileFacts } from "../placement/profiles.ts";
import { type ChecksumAlgorithm, checksumField } from "../s3/checksum.ts";
import type { HeaderList, QueryList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { type GatedBody, isHeldWhole, openGate, withChecksum } from "./gate.ts";
import { upstreamRequest } from "./send.ts";
import { lengthOf, openSource, type SourceBytes } from "./source-read.ts";

interface SentChecksum {
  readonly algorithm: ChecksumAlgorithm;
  /** Of these bytes, `NSRBwg==`; `null`: to be computed. */
  readonly value: string | null;
}

interface SourceUpload extends SourceBytes {
  readonly cluster: ClusterId;
  readonly operation: "PutObject" | "UploadPart";
  readonly query: QueryList;
  readonly headers: HeaderList;
  readonly checksum: SentChecksum | null;
  /** Throws to refuse. Called once, when all bytes but the held tail were read. */
  readonly commit: () => Promise<void>;
}

interface UploadedSource {
  readonly response: UpstreamResponse;
  /** The checksum that went with it; `null` where none did, or the upload was refused before its end. */
  readonly value: string | null;
}

/** Sends it. @throws S3Error, UpstreamError; what broke the source goes before what came of that */
export async function uploadSource(
  request: OperationRequest,
  ports: OperationPorts,
  upload: SourceUpload,
): Promise<UploadedSource> {
  const { cluster, operation, query, signal } = upload;
  const telling = await tellingOf(request, ports, upload);
  const { facts, algorithm, value } = telling;
  const headers = [...upload.headers, ...telling.fields];
  const body = await openSource(request, ports, { ...upload, algorithm });
  try {
    const gate = await openGate(body, { verifySha256: false, commit: upload.commit });
    const sent = { operation, query, ...withChecksum(gate, body, { headers, facts }) };
    const response = await sending(gate, () =>
      ports.upstream.send(cluster, upstreamRequest(request, sent), signal),
    );
    const computed = response.status === 200 ? (body.trailer?.value() ?? null) : null;
    return { response, value: value ?? computed };
  } finally {
    // A target that is not there has asked for none of it.
    body.cancel();
  }
}

async function sending<Result>(gate: GatedBody, send: () => Promise<Result>): Promise<Result> {
  try {
    return await send();
  } catch (caught) {
    throw gate.fault() ?? caught;
  }
}

/** How the cluster is told the checksum. */
interface Telling {
  readonly facts: ProfileFacts;
  /** In the head, as far as it is known before the bytes are. */
  readonly fields: HeaderList;
  readonly value: string | null;
  /** To be computed as they pass; `null` for none. */
  readonly algorithm: ChecksumAlgorithm | null;
}

async function tellingOf(
  request: OperationRequest,
  ports: OperationPorts,
  upload: SourceUpload,
): Promise<Telling> {
  const { cluster, checksum } = upload;
  const isHeld = isHeldWhole(lengthOf(upload));
  const facts =
    checksum === null || checksum.value !== null || isHeld
      ? ports.facts(cluster)
      : await ports.framing.facts(cluster, request, ports);
  if (checksum === null || !facts.verifiesChecksums) {
    return { facts, fields: [], value: null, algorithm: null };
  }
  const { algorithm } = checksum;
  const computes = checksum.value === null && (isHeld || facts.takesTrailers);
  if (computes) return { facts, fields: [], value: null, algorithm };
  const value = checksum.value ?? (await sumOf(request, ports, { ...upload, algorithm }));
  return { facts, fields: [[checksumField(algorithm), value]], value, algorithm: null };
}

async function sumOf(
  request: OperationRequest,
  ports: OperationPorts,
  of: SourceBytes & { readonly algorithm: ChecksumAlgorithm },
): Promise<string> {
  const body = await openSource(request, ports, of);
  for await (const _ of body.chunks({ verifySha256: false })) continue;
  if (!body.trailer) throw new Error("A source that is summed up has a sum");
  return body.trailer.value();
}
