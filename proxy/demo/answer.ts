// What a demo operation answers with, and how refusals become S3 error documents. Operations return an
// answer or throw an S3Error; nothing here touches a socket.

import { errorDocument } from "../s3/error-document.ts";
import type { S3Error } from "../s3/errors.ts";
import type { HeaderList } from "../s3/headers.ts";

export interface DemoAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: Uint8Array | null;
}

/** An XML answer with its length. */
export function documentAnswer(document: string, status = 200): DemoAnswer {
  const body = Buffer.from(document, "utf8");
  return {
    status,
    headers: [
      ["content-type", "application/xml"],
      ["content-length", String(body.length)],
    ],
    body,
  };
}

/** An answer without a body. 204 and 304 carry no Content-Length, as RGW has it. */
export function emptyAnswer(status: number, headers: HeaderList = []): DemoAnswer {
  if (status === 204 || status === 304) return { status, headers, body: null };
  return { status, headers: [...headers, ["content-length", "0"]], body: null };
}

/** The error document of a refusal; without a body for 304. */
export function refusalAnswer(
  error: S3Error,
  request: { readonly resource: string; readonly requestId: string },
): DemoAnswer {
  if (error.status === 304) return emptyAnswer(304);
  const answer = documentAnswer(errorDocument(error, request), error.status);
  if (error.retryAfterSeconds === null) return answer;
  return {
    ...answer,
    headers: [...answer.headers, ["retry-after", String(error.retryAfterSeconds)]],
  };
}
