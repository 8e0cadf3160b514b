// A cluster that knows users: every key pair is somebody's, a bucket is its maker's, and nobody else
// may touch it; the admin API of an RGW stands beside it. Signatures are verified, so that a request
// that arrives was signed with the right secret. Keeps what it was asked, by whom.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Test } from "tap";
import { system } from "../../proxy/main.ts";
import { AuthorizationCache, readAuthorization } from "../../proxy/s3/authorization.ts";
import { readRequestHead } from "../../proxy/s3/request-head.ts";
import { SigningKeys } from "../../proxy/s3/sigv4.ts";
import { verifySignature } from "../../proxy/s3/verify.ts";

export interface ClusterUser {
  readonly uid: string;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly suspended?: boolean;
  readonly tenant?: string;
  readonly subuser?: string;
}

export interface UserCluster {
  readonly url: string;
  readonly users: ClusterUser[];
  /** Bucket → uid. */
  readonly owners: Map<string, string>;
  /** `GET /b/k as alice`, in order; `anonymous` without a signature. */
  readonly asked: string[];
  /** Answers every admin request with this status while set. */
  adminStatus: number | null;
  /** What it says in place of its own answer; `hold`: nothing, ever. */
  say: (line: string) => Said | "hold" | null;
}

export interface Said {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

const limits = { maxSkewMs: 900_000, maxPresignSeconds: 604_800 };

export async function startUserCluster(
  t: Test,
  users: readonly ClusterUser[],
): Promise<UserCluster> {
  const keys = new SigningKeys(64);
  const cache = new AuthorizationCache();
  const cluster: UserCluster = {
    url: "",
    users: [...users],
    owners: new Map(),
    asked: [],
    adminStatus: null,
    say: () => null,
  };
  const whoAsks = (request: IncomingMessage): ClusterUser | "anonymous" | "wrong" => {
    const read = readRequestHead({
      method: request.method ?? "",
      target: request.url ?? "",
      rawHeaders: request.rawHeaders,
    });
    if (read.kind === "error") return "wrong";
    const authorization = readAuthorization(read.head, cache);
    if (authorization.kind === "anonymous") return "anonymous";
    if (authorization.kind !== "header") return "wrong";
    const user = cluster.users.find((one) => one.accessKeyId === authorization.accessKeyId);
    if (user === undefined) return "wrong";
    const verified = verifySignature({
      head: read.head,
      authorization,
      credentials: { ...user, sessionToken: null },
      nowMs: system.clock.nowMs(),
      keys,
      regions: [],
      limits,
    });
    return verified.kind === "verified" ? user : "wrong";
  };
  const server = createServer((request, response) => {
    request.resume().on("end", () => {
      const user = whoAsks(request);
      const name = typeof user === "string" ? user : user.uid;
      cluster.asked.push(`${request.method} ${request.url} as ${name}`);
      if (user === "wrong") return refuse(response, 403, "InvalidAccessKeyId");
      const said = cluster.say(`${request.method} ${request.url} as ${name}`);
      if (said === "hold") return;
      if (said !== null) {
        response.writeHead(said.status ?? 200, { ...said.headers });
        response.end(said.body);
        return;
      }
      if (request.url?.startsWith("/admin/user?") === true)
        return admin(cluster, user, request, response);
      serve(cluster, user === "anonymous" ? null : user, request, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("No port");
  return Object.assign(cluster, { url: `http://127.0.0.1:${address.port}` });
}

function refuse(response: ServerResponse, status: number, code: string): void {
  response.writeHead(status, { "content-type": "application/xml" });
  response.end(`<Error><Code>${code}</Code><Message/></Error>`);
}

/** As RGW 16.2: 403 for a key it does not know as well as for a caller without the capability. */
function admin(
  cluster: UserCluster,
  caller: ClusterUser | "anonymous",
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const wanted = new URL(request.url ?? "", cluster.url).searchParams.get("access-key");
  const user = cluster.users.find(({ accessKeyId }) => accessKeyId === wanted);
  const mayAsk = typeof caller !== "string" && caller.uid === "service";
  const status = cluster.adminStatus ?? (mayAsk && user !== undefined ? 200 : 403);
  response.writeHead(status, { "content-type": "application/json" });
  if (status !== 200 || user === undefined) {
    response.end(`{"Code":"${status === 403 ? "AccessDenied" : "InternalError"}","Message":""}`);
    return;
  }
  const { uid, tenant = "", subuser } = user;
  const key = {
    user: subuser === undefined ? uid : `${uid}:${subuser}`,
    access_key: user.accessKeyId,
    secret_key: user.secretAccessKey,
  };
  const suspended = user.suspended === true ? 1 : 0;
  response.end(JSON.stringify({ user_id: uid, tenant, display_name: uid, suspended, keys: [key] }));
}

function serve(
  cluster: UserCluster,
  user: ClusterUser | null,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const { pathname, search: query } = new URL(request.url ?? "", cluster.url);
  const [, bucket = "", key] = decodeURIComponent(pathname).split("/");
  const uid = user?.uid ?? "anonymous";
  if (bucket === "") return listOwn(cluster, uid, response);
  if (request.method === "PUT" && key === undefined) {
    return make(cluster, user === null ? null : { bucket, uid }, response);
  }
  const refusal =
    refusalOf(cluster.owners.get(bucket), uid) ?? missingOf(`${request.method} ${query}`);
  if (refusal !== null) return refuse(response, ...refusal);
  if (request.method === "DELETE") {
    if (key === undefined) cluster.owners.delete(bucket);
    response.writeHead(204);
  }
  const root = documentRoots.find(([parameter]) => query.includes(parameter))?.[1] ?? "Result";
  response.end(`<${root}><IsTruncated>false</IsTruncated></${root}>`);
}

/** What its empty documents are called. */
const documentRoots: readonly (readonly [parameter: string, root: string])[] = [
  ["location", "LocationConstraint"],
  ["list-type", "ListBucketResult"],
  ["uploads", "ListMultipartUploadsResult"],
  ["versions", "ListVersionsResult"],
  ["versioning", "VersioningConfiguration"],
];

function refusalOf(owner: string | undefined, uid: string): [number, string] | null {
  if (owner === undefined) return [404, "NoSuchBucket"];
  return owner === uid ? null : [403, "AccessDenied"];
}

/** Its buckets have no policies; every other setting is empty. */
function missingOf(asked: string): [number, string] | null {
  return asked.startsWith("GET ?policy") ? [404, "NoSuchBucketPolicy"] : null;
}

function listOwn(cluster: UserCluster, uid: string, response: ServerResponse): void {
  const own = [...cluster.owners].filter(([, owner]) => owner === uid).map(([name]) => name);
  const listed = own.map((name) => `<Bucket><Name>${name}</Name></Bucket>`).join("");
  response.end(
    `<ListAllMyBucketsResult><Owner><ID>${uid}</ID></Owner><Buckets>${listed}</Buckets></ListAllMyBucketsResult>`,
  );
}

function make(
  cluster: UserCluster,
  wanted: { readonly bucket: string; readonly uid: string } | null,
  response: ServerResponse,
): void {
  if (wanted === null) return refuse(response, 403, "AccessDenied");
  const { bucket, uid } = wanted;
  if (!cluster.owners.has(bucket)) cluster.owners.set(bucket, uid);
  if (cluster.owners.get(bucket) !== uid) return refuse(response, 409, "BucketAlreadyExists");
  response.end();
}
