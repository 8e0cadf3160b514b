// An upstream's error as the client gets it: its code and its own elements, but our request id and
// host, since the upstream's name its zone, and a message where it left that empty (every RGW does,
// and aws-cli fails on it: rgw-18 and 16.2 seen). What it has against our signature is no fault of a
// client's, which would look for it in its own keys: 503, and the log says which. Log and metrics get
// the code, of an answer without a document (every one to HEAD) the code that its status stands for.

import { type ClusterIdentity, UpstreamError } from "../placement/ports.ts";
import { errorDocument } from "../s3/error-document.ts";
import { errorText } from "../s3/error-texts.ts";
import { S3Error, type S3ErrorCode } from "../s3/errors.ts";
import type { ClusterId } from "../s3/names.ts";
import type { XmlElement } from "../s3/xml.ts";
import { childText, readXml } from "../s3/xml.ts";
import type { OperationAnswer } from "./context.ts";
import { readDocument } from "./send.ts";

/** Longer than any error of S3; a longer body is passed on as it is not one. */
const errorLimitBytes = 64 * 1024;
/** Elements that we write ourselves, and those about our own request to the upstream. */
const left: ReadonlySet<string> = new Set([
  "Code",
  "Message",
  "Resource",
  "RequestId",
  "HostId",
  "AWSAccessKeyId",
  "CanonicalRequest",
  "CanonicalRequestBytes",
  "Endpoint",
  "Region",
  "SignatureProvided",
  "StringToSign",
  "StringToSignBytes",
  // Clients know an upload by another id.
  "UploadId",
]);

/** About what we write into every signature: scope, date. */
const aboutSigning: ReadonlySet<string> = new Set([
  "AuthorizationHeaderMalformed",
  "RequestTimeTooSkewed",
]);
/** About the keys that signed, which may be the caller's own. */
const aboutKeys: ReadonlySet<string> = new Set([
  "ExpiredToken",
  "InvalidAccessKeyId",
  "InvalidToken",
  "SignatureDoesNotMatch",
  "TokenRefreshRequired",
]);

/** RGW 16.2 calls a KMS key that it does not find InvalidAccessKeyId; of access keys it says nothing more. */
const aboutEncryption = /^Failed to retrieve the actual key/;

export interface ErrorContext {
  /** `/bucket/key`. */
  readonly resource: string;
  readonly requestId: string;
  /** Whose keys sign what a caller asks of a cluster. */
  readonly identity: (cluster: ClusterId) => ClusterIdentity;
}

export interface ErrorAnswer {
  readonly answer: OperationAnswer;
  /** Null: the answer does not tell. */
  readonly code: string | null;
}

/**
 * The same answer, its error document rewritten; anything that is none is left as it is.
 * @throws UpstreamError when the cluster refuses how we signed.
 */
export async function rewriteError(
  answer: OperationAnswer,
  context: ErrorContext,
): Promise<ErrorAnswer> {
  const { body, status, cluster } = answer;
  const code = codeOfStatus(status, context.resource);
  if (cluster === null || body === null || !isXml(answer)) return { answer, code };
  if (announcedLength(answer) > errorLimitBytes) return { answer, code };
  const bytes = body instanceof Uint8Array ? body : await readDocument({ body }, errorLimitBytes);
  const headers = answer.headers.filter(([name]) => name !== "content-length");
  // An answer to HEAD: it has no body, whatever length it announces.
  if (bytes.length === 0) return { answer: { ...answer, headers, body: null }, code };
  const reading = readXml(bytes, { maxBytes: errorLimitBytes });
  if (reading.kind === "error") return { answer: { ...answer, headers, body: bytes }, code };
  const told = childText(reading.root, "Code");
  if (!aboutEncryption.test(childText(reading.root, "Message") ?? "")) {
    assertSigned(told, cluster, context);
  }
  const text = rewritten(reading.root, status, context);
  if (text === null) return { answer: { ...answer, headers, body: bytes }, code };
  return { answer: { ...answer, headers, body: Buffer.from(text, "utf8") }, code: told };
}

/** `resource`: `/bucket/key` or `/bucket`. */
function codeOfStatus(status: number, resource: string): string | null {
  if (status === 404) return resource.includes("/", 1) ? "NoSuchKey" : "NoSuchBucket";
  return codes[status] ?? null;
}

const codes: Readonly<Record<number, S3ErrorCode>> = {
  400: "InvalidRequest",
  403: "AccessDenied",
  405: "MethodNotAllowed",
  412: "PreconditionFailed",
  416: "InvalidRange",
  500: "InternalError",
  501: "NotImplemented",
  503: "ServiceUnavailable",
};

/** Whether the code of a cluster's error may be about how we signed. */
export function isAboutSigning(code: string): boolean {
  return aboutSigning.has(code) || aboutKeys.has(code);
}

/** @throws UpstreamError when the code of a cluster's error is about how we signed. */
export function assertSigned(
  code: string | null,
  cluster: ClusterId,
  { identity }: Pick<ErrorContext, "identity">,
): void {
  if (code === null) return;
  const isOurs = aboutSigning.has(code) || (aboutKeys.has(code) && identity(cluster) !== "same");
  if (!isOurs) return;
  const message = `Cluster "${cluster}" refuses how a request to it is signed: ${code}`;
  throw new UpstreamError("response_head", cluster, { message });
}

function rewritten(root: XmlElement, status: number, context: ErrorContext): string | null {
  const code = childText(root, "Code");
  if (root.name !== "Error" || code === null || code === "") return null;
  const details: Record<string, string> = {};
  for (const child of root.children) {
    if (!left.has(child.name) && child.children.length === 0) details[child.name] = child.text;
  }
  const error = new S3Error("InternalError", {
    refused: { code, status },
    message: childText(root, "Message")?.trim() || errorText(code, status),
    details,
  });
  return errorDocument(error, { ...context, hostId: "headgate" });
}

function isXml({ headers }: OperationAnswer): boolean {
  return headers.some(([name, value]) => name === "content-type" && /\bxml\b/.test(value));
}

function announcedLength({ headers }: OperationAnswer): number {
  const length = headers.find(([name]) => name === "content-length")?.[1];
  return length === undefined ? 0 : Number(length);
}
