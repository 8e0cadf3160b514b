// An upstream's error as the client gets it: its code and its own elements, but our request id and
// host, since the upstream's name its zone, and a message where it left that empty (every RGW does,
// and aws-cli fails on it: rgw-18 and 16.2 seen).

import { errorDocument } from "../s3/error-document.ts";
import { isS3ErrorCode, S3Error } from "../s3/errors.ts";
import type { XmlElement } from "../s3/xml.ts";
import { childText, readXml } from "../s3/xml.ts";
import type { OperationAnswer } from "./context.ts";

/** Longer than any error of S3; a longer body is passed on as it is not one. */
const errorLimitBytes = 64 * 1024;
/** Elements that we write ourselves. */
const ours: ReadonlySet<string> = new Set(["Code", "Message", "Resource", "RequestId", "HostId"]);

export interface ErrorContext {
  /** `/bucket/key`. */
  readonly resource: string;
  readonly requestId: string;
}

/** The same answer, its error document rewritten; anything that is none is left as it is. */
export async function rewriteError(
  answer: OperationAnswer,
  context: ErrorContext,
): Promise<OperationAnswer> {
  const { body, status } = answer;
  if (status < 400 || body === null || body instanceof Uint8Array) return answer;
  if (!isXml(answer) || announcedLength(answer) > errorLimitBytes) return answer;
  const parts: Uint8Array[] = [];
  for await (const chunk of body) parts.push(chunk);
  const bytes = Buffer.concat(parts);
  const reading = readXml(bytes, { maxBytes: errorLimitBytes });
  const text = reading.kind === "document" ? rewritten(reading.root, status, context) : null;
  const headers = answer.headers.filter(([name]) => name !== "content-length");
  return { ...answer, headers, body: text === null ? bytes : Buffer.from(text, "utf8") };
}

function rewritten(root: XmlElement, status: number, context: ErrorContext): string | null {
  const code = childText(root, "Code");
  if (root.name !== "Error" || code === null || code === "") return null;
  const details: Record<string, string> = {};
  for (const child of root.children) {
    if (!ours.has(child.name) && child.children.length === 0) details[child.name] = child.text;
  }
  const error = new S3Error("InternalError", {
    refused: { code, status },
    message: childText(root, "Message") || messageOf(code),
    details,
  });
  return errorDocument(error, { ...context, hostId: "headgate" });
}

function messageOf(code: string): string {
  return isS3ErrorCode(code) ? new S3Error(code).message : "The request was refused";
}

function isXml({ headers }: OperationAnswer): boolean {
  return headers.some(([name, value]) => name === "content-type" && /\bxml\b/.test(value));
}

function announcedLength({ headers }: OperationAnswer): number {
  const length = headers.find(([name]) => name === "content-length")?.[1];
  return length === undefined ? Number.POSITIVE_INFINITY : Number(length);
}
