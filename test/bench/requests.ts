// The requests that are sent over and over: signed once, good for the fifteen minutes of clock skew.

import { formatAmzDate, SigningKeys, signRequest, unsignedPayload } from "../../proxy/s3/sigv4.ts";

export const operations = [
  { name: "GET 1 KiB", method: "GET", sizeBytes: 1024 },
  { name: "GET 1 MiB", method: "GET", sizeBytes: 2 ** 20 },
  { name: "PUT 1 KiB", method: "PUT", sizeBytes: 1024 },
  { name: "PUT 1 MiB", method: "PUT", sizeBytes: 2 ** 20 },
] as const;

export type BenchOperation = (typeof operations)[number];

export const bucket = "bench";

/** The object that a GET reads and a PUT writes; the stub reads the size from its name. */
export function keyOf(operation: BenchOperation): string {
  return `${operation.method === "GET" ? "read" : "written"}-${operation.sizeBytes}`;
}

/** The bytes of a request head, with a SigV4 header over `UNSIGNED-PAYLOAD`. */
export function signedHead(
  request: {
    readonly method: string;
    readonly path: string;
    /** Canonical, without its question mark. */
    readonly query?: string;
    readonly bodyBytes: number;
  },
  to: {
    readonly host: string;
    readonly accessKeyId: string;
    readonly secretAccessKey: string;
  },
): string {
  const { method, path, query = "", bodyBytes } = request;
  const signed = signRequest(
    {
      method,
      path,
      query,
      host: to.host,
      headers: [],
      payloadHash: unsignedPayload,
      region: "us-east-1",
      credentials: { ...to, sessionToken: null },
      amzDate: formatAmzDate(Date.now()),
    },
    new SigningKeys(4),
  );
  const fields = signed.map(([name, value]) => `${name}: ${value}`);
  const length = method === "PUT" ? [`content-length: ${bodyBytes}`] : [];
  const target = query === "" ? path : `${path}?${query}`;
  return [`${method} ${target} HTTP/1.1`, `host: ${to.host}`, ...fields, ...length, "", ""].join(
    "\r\n",
  );
}
