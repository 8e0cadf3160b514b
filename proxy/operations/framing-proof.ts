// Whether a cluster takes a body with its checksum behind it, found out before the first such body of a
// client goes there: one that does not know the framing would store it as the object. It is tried on a few
// bytes, as the part of an upload that is aborted: what the answer says of them was read of the bytes
// alone, or of the framing. Asked once in a process, with the rights that the write itself needs.

import type { CancelSignal, UpstreamResponse } from "../placement/ports.ts";
import type { ProfileFacts } from "../placement/profiles.ts";
import { readErrorDocument } from "../s3/error-document.ts";
import type { HeaderList } from "../s3/headers.ts";
import { readInitiateResult } from "../s3/multipart-document.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import { isOfProbeBytes, probeCrc32, trailingBody } from "./probe-requests.ts";
import { provenFacts } from "./proven-facts.ts";
import { discard, readDocument, upstreamRequest } from "./send.ts";

/** Where it is kept what a cluster showed; `facts` follow it. */
export interface ShownFraming {
  /** It took a body, or its operator says that it does. */
  readonly isShown: (cluster: ClusterId) => boolean;
  readonly note: (cluster: ClusterId, takesTrailers: boolean) => void;
}

type Ports = Pick<OperationPorts, "upstream" | "facts" | "isShown" | "log">;

export class FramingProof {
  readonly #shown: ShownFraming;
  /** One question at a time and cluster: who comes meanwhile waits for its answer. */
  readonly #asking = new Map<ClusterId, Promise<void>>();

  constructor(shown: ShownFraming) {
    this.#shown = shown;
  }

  /**
   * The facts of a cluster that an upload goes to, `takesTrailers` only where it was shown. What is not
   * clear, as where the caller may not write, stays open: this upload goes unframed, and meets whatever it is.
   * @throws UpstreamError where the cluster does not answer, S3Error as `provenFacts`
   */
  async facts(cluster: ClusterId, request: OperationRequest, ports: Ports): Promise<ProfileFacts> {
    const facts = await provenFacts(cluster, request, ports);
    if (!facts.takesTrailers || !facts.verifiesChecksums || this.#shown.isShown(cluster)) {
      return facts;
    }
    // Nobody may abort what an unknown caller began.
    if (request.identity.kind !== "anonymous") await this.#asked(cluster, request, ports);
    const known = ports.facts(cluster);
    return this.#shown.isShown(cluster) ? known : { ...known, takesTrailers: false };
  }

  async #asked(cluster: ClusterId, request: OperationRequest, ports: Ports): Promise<void> {
    const present = this.#asking.get(cluster);
    if (present !== undefined) return await present;
    const asking = this.#ask(cluster, request, ports);
    this.#asking.set(cluster, asking);
    try {
      await asking;
    } finally {
      this.#asking.delete(cluster);
    }
  }

  async #ask(cluster: ClusterId, request: OperationRequest, ports: Ports): Promise<void> {
    const takes = await takesFramed(request, { cluster, ports });
    if (takes !== null) this.#shown.note(cluster, takes);
  }
}

interface Asked {
  readonly cluster: ClusterId;
  readonly ports: Ports;
}

/** Whoever asked may go: others wait for the answer too. */
const forAll: CancelSignal = new AbortController().signal;

/** `null`: it cannot be told. */
async function takesFramed(
  request: OperationRequest,
  { cluster, ports }: Asked,
): Promise<boolean | null> {
  const headers = request.headers.filter(([name]) => isOfPlace(name));
  const creating = upstreamRequest(request, {
    operation: "CreateMultipartUpload",
    query: [["uploads", null]],
    headers: [...headers, ["x-amz-checksum-algorithm", "CRC32"]],
  });
  const created = await ports.upstream.send(cluster, creating, forAll);
  const reading = readInitiateResult(await readDocument(created));
  if (created.status !== 200 || reading.kind === "error") return null;
  const { uploadId } = reading;
  try {
    const { keepsAwsChunked } = ports.facts(cluster);
    const uploading = upstreamRequest(request, {
      operation: "UploadPart",
      query: [
        ["partNumber", "1"],
        ["uploadId", uploadId],
      ],
      headers: [
        ...headers.filter(([name]) => isOfPart(name)),
        ...(keepsAwsChunked ? [] : awsChunked),
      ],
      body: trailingBody(probeCrc32),
    });
    return await judged(await ports.upstream.send(cluster, uploading, forAll));
  } finally {
    await abort(request, { cluster, ports, uploadId });
  }
}

const awsChunked: HeaderList = [["content-encoding", "aws-chunked"]];

async function judged(answer: UpstreamResponse): Promise<boolean | null> {
  if (answer.status === 200) {
    await discard(answer);
    return isOfProbeBytes(answer.headers);
  }
  const code = readErrorDocument(await readDocument(answer))?.code ?? "";
  const isMisread = answer.status === 400 || answer.status === 501;
  return isMisread && !passing.has(code) ? false : null;
}

/** With status 400, and about something else than the body. */
const passing: ReadonlySet<string> = new Set(["ExpiredToken", "RequestTimeout"]);

/** Leaves nothing behind, as far as it can. */
async function abort(
  request: OperationRequest,
  { cluster, ports, uploadId }: Asked & { readonly uploadId: string },
): Promise<void> {
  const aborting = upstreamRequest(request, {
    operation: "AbortMultipartUpload",
    query: [["uploadId", uploadId]],
    headers: request.headers.filter(([name]) => isOfRequest(name)),
  });
  try {
    const answer = await ports.upstream.send(cluster, aborting, forAll);
    await discard(answer);
    const { status } = answer;
    if (status === 204 || status === 404) return;
    ports.log.write("warn", "framing.upload_left", { cluster, status });
  } catch (caught) {
    ports.log.write("warn", "framing.upload_left", { cluster, cause: String(caught) });
  }
}

/** What a bucket may demand of every write. */
function isOfPlace(name: string): boolean {
  return name.startsWith("x-amz-server-side-encryption") || isOfRequest(name);
}

function isOfPart(name: string): boolean {
  return name.startsWith("x-amz-server-side-encryption-customer-") || isOfRequest(name);
}

function isOfRequest(name: string): boolean {
  return name === "x-amz-request-payer" || name === "x-amz-expected-bucket-owner";
}
