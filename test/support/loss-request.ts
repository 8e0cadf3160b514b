// One signed S3 request over a connection of its own, and what came of it: an answer, or a connection
// that was cut before the answer was whole.

import { request as httpRequest, type IncomingMessage } from "node:http";
import { formatAmzDate, SigningKeys, signRequest } from "../../proxy/s3/sigv4.ts";

export interface LossRequest {
  readonly method: string;
  /** Canonical, `/b/k`. */
  readonly path: string;
  readonly query?: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string | Buffer;
  /** As nobody: preflights and forms. */
  readonly unsigned?: true;
}

export interface LossAnswer {
  /** 0: the connection was cut before a head. */
  readonly status: number;
  readonly code: string | null;
  readonly retryAfter: string | null;
  readonly etag: string | null;
  readonly text: string;
  /** It ended as its head had announced. */
  readonly isWhole: boolean;
}

export interface LossEndpoint {
  readonly url: string;
  readonly keys: { readonly accessKeyId: string; readonly secretAccessKey: string };
}

const signing = new SigningKeys(16);

export async function sendTo(
  { url, keys }: LossEndpoint,
  { method, path, query = "", headers = [], body = "", unsigned }: LossRequest,
): Promise<LossAnswer> {
  const { host, hostname, port } = new URL(url);
  const bytes = Buffer.from(body);
  const sorted = byName(query);
  const signed =
    unsigned === true
      ? []
      : signRequest(
          {
            method,
            path,
            query: sorted,
            host,
            headers,
            payloadHash: "UNSIGNED-PAYLOAD",
            region: "us-east-1",
            credentials: { ...keys, sessionToken: null },
            amzDate: formatAmzDate(Date.now()),
          },
          signing,
        );
  const fields = Object.fromEntries([...headers, ...signed]);
  const answer = await new Promise<IncomingMessage | null>((resolve) => {
    const sent = httpRequest({
      agent: false,
      hostname,
      port,
      method,
      path: query === "" ? path : `${path}?${sorted}`,
      headers: { ...fields, host, "content-length": bytes.length },
    });
    sent.once("response", resolve);
    sent.once("error", () => resolve(null));
    sent.end(bytes);
  });
  if (answer === null) return { ...cut, status: 0 };
  const chunks: Buffer[] = [];
  answer.on("data", (chunk: Buffer) => chunks.push(chunk));
  await new Promise<void>((resolve) => {
    answer.once("close", resolve);
    answer.once("error", () => resolve());
  });
  const text = Buffer.concat(chunks).toString("latin1");
  return {
    status: answer.statusCode ?? 0,
    code: /<Code>(\w+)<\/Code>/.exec(text)?.[1] ?? null,
    retryAfter: answer.headers["retry-after"] ?? null,
    etag: answer.headers.etag ?? null,
    text,
    isWhole: answer.complete,
  };
}

/** As it is signed. */
function byName(query: string): string {
  const names = query.split("&").map((text) => [text.split("=")[0] ?? "", text] as const);
  return names
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([, text]) => text)
    .join("&");
}

const cut = { code: null, retryAfter: null, etag: null, text: "", isWhole: false } as const;
