// Random requests, signed by two foreign signers, spelled and damaged at random, and asked of two
// servers: whatever one accepts the other must accept. Where they are meant to differ a case says so
// before it is sent. From a seed, so that a difference can be seen again.

import { createHash } from "node:crypto";
import { Agent, request as httpRequest } from "node:http";
import { join } from "node:path";
import { encodeComponent, encodePath } from "../../../proxy/s3/percent.ts";
import { smithyPresign, smithySign } from "../../support/s3-smithy.ts";
import { runOk } from "./processes.ts";
import type { Pair } from "./s3.ts";
import {
  changes,
  Dice,
  type Exception,
  tabException,
  versionTwoException,
  type Wire,
} from "./wire-changes.ts";

type Signer = "smithy" | "botocore";

/** What a signer is given. */
interface Job {
  readonly method: "GET" | "HEAD" | "PUT" | "DELETE" | "POST";
  readonly host: string;
  /** Canonical, `/b/a%20b`, or `/a%20b` where the host names the bucket. */
  readonly path: string;
  /** With the bucket, wherever it is named. */
  readonly authPath: string;
  readonly query: readonly (readonly [string, string])[];
  /** Values are characters, not yet bytes. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Whether the body's hash is signed; botocore does in the header and does not in a URL. */
  readonly hashed: boolean;
  readonly version: 2 | 4;
  /** Seconds a presigned URL is good for; null: signed in the header. */
  readonly expires: number | null;
}

export interface Case {
  readonly signer: Signer;
  readonly wire: Wire;
  /** What was done to it after it was signed. */
  readonly change: string;
  /** Why the two servers may differ; null: they must not. */
  readonly exception: Exception | null;
}

/** Both servers are asked under this name, or a bucket's in front of it; it is part of what is signed. */
export const dnsName = "s3.differential.test";

const pieces = Array.from("abcXYZ019-_.~ !\"#$%&'()*+,/:;<=>?@[\\]^`{|}").concat([
  "é",
  "日本",
  "😀",
  "//",
  "/../",
  "/./",
  "%2F",
  "%",
  "a%20b",
  "+",
  "\u00a0",
  "ß",
]);

function text(dice: Dice, most: number): string {
  return Array.from({ length: dice.below(most + 1) }, () => dice.one(pieces)).join("");
}

// ---- jobs ----

const valuePieces = ["a", "B", "  ", "\t", '"x  y"', "é", "1,2", "=", ";", ":", "/"];

function fieldText(dice: Dice): string {
  const value = Array.from({ length: 1 + dice.below(4) }, () => dice.one(valuePieces)).join("");
  return value.trim() === "" ? "v" : value.trim();
}

const fieldNames = [
  "x-amz-meta-a",
  "x-amz-meta-b-c",
  "content-type",
  "cache-control",
  "x_foo",
  "accept-encoding",
  "if-none-match",
  "x-forwarded-for",
];

/** One chance in as many as there are of it. */
const methods = ["GET", "GET", "GET", "HEAD", "PUT", "PUT", "PUT", "DELETE", "POST"] as const;

function makeFields(dice: Dice, inWrite: boolean): Readonly<Record<string, string>> {
  const headers: Record<string, string> = {};
  for (let count = dice.below(4); count > 0; count -= 1) {
    const name = dice.one(fieldNames);
    // Of a write a condition is 501 unless its cluster obeys it.
    if (!(inWrite && name === "if-none-match")) headers[name] = fieldText(dice);
  }
  return headers;
}

function makeQuery(
  dice: Dice,
  method: Job["method"],
  ofBucket: boolean,
): readonly (readonly [string, string])[] {
  // Headgate takes no name that it does not know in a write.
  const inRead = ofBucket ? ["prefix", "delimiter", "marker", "x-id"] : ["x-id", "v", "a", "a-b"];
  const names = writes(method) ? ["x-id"] : inRead;
  const query = new Map<string, string>();
  if (method === "POST") query.set("delete", "");
  for (let count = dice.below(4); count > 0; count -= 1) {
    query.set(dice.one(names), dice.maybe(80) ? `v${text(dice, 3)}` : "1");
  }
  return [...query];
}

function writes(method: Job["method"]): boolean {
  return method !== "GET" && method !== "HEAD";
}

function makeBody(dice: Dice, method: Job["method"]): string {
  if (method === "POST") return deletion(dice);
  return method === "PUT" ? `body of ${dice.below(1000)}` : "";
}

/** A key, or none: a list or DeleteObjects, but nothing that makes or removes the bucket. */
function makeKey(dice: Dice, method: Job["method"]): string {
  const ofBucket = method === "POST" || (!writes(method) && dice.maybe(15));
  return ofBucket ? "" : `${text(dice, 8)}${dice.one(["k", "/", "é"])}`;
}

function makeJob(dice: Dice, bucket: string, signer: Signer): Job {
  const method = dice.one(methods);
  const key = makeKey(dice, method);
  const inHost = dice.maybe(30);
  const authPath = encodePath(key === "" ? `/${bucket}` : `/${bucket}/${key}`);
  return {
    method,
    host: inHost ? `${bucket}.${dnsName}` : dnsName,
    path: inHost ? encodePath(`/${key}`) : authPath,
    authPath: inHost && key === "" ? `${authPath}/` : authPath,
    query: makeQuery(dice, method, key === ""),
    headers: makeFields(dice, writes(method)),
    body: makeBody(dice, method),
    hashed: dice.maybe(60),
    version: signer === "botocore" && dice.maybe(25) ? 2 : 4,
    expires: dice.maybe(40) ? dice.one([60, 3600, 604_800]) : null,
  };
}

function deletion(dice: Dice): string {
  const keys = Array.from({ length: 1 + dice.below(3) }, () => `absent-${dice.below(1000)}`);
  const objects = keys.map((key) => `<Object><Key>${key}</Key></Object>`);
  return `<Delete>${objects.join("")}</Delete>`;
}

function queryText(query: readonly (readonly [string, string])[]): string {
  return query
    .map(([name, value]) => `${encodeComponent(name)}=${encodeComponent(value)}`)
    .join("&");
}

async function signWithSmithy(job: Job, pair: Pair): Promise<Wire> {
  const request = {
    method: job.method,
    path: job.path,
    query: Object.fromEntries(job.query),
    headers: { host: job.host, ...job.headers, ...hashOf(job) },
    epochMs: Date.now(),
    region: "us-east-1",
    credentials: { ...pair, sessionToken: null },
  };
  if (job.expires === null) {
    const headers = await smithySign(request);
    const query = queryText(job.query);
    const target = query === "" ? job.path : `${job.path}?${query}`;
    return { method: job.method, target, headers, body: job.body };
  }
  const query = queryText(await smithyPresign(request, job.expires));
  const headers = Object.entries(request.headers);
  return { method: job.method, target: `${job.path}?${query}`, headers, body: job.body };
}

function hashOf({ body, hashed, expires }: Job): Readonly<Record<string, string>> {
  if (hashed) return { "x-amz-content-sha256": createHash("sha256").update(body).digest("hex") };
  return expires === null ? { "x-amz-content-sha256": "UNSIGNED-PAYLOAD" } : {};
}

async function signWithBotocore(jobs: readonly Job[], pair: Pair): Promise<readonly Wire[]> {
  const plan = {
    ...pair,
    jobs: jobs.map((job) => ({
      ...job,
      // In Version 2 a name with "=" is another one; clients send it without.
      query:
        job.version === 2
          ? queryText(job.query).replace(/^delete=/, "delete")
          : queryText(job.query),
      headers: Object.entries(job.headers),
    })),
  };
  const script = join(import.meta.dirname, "botocore_signer.py");
  const answer: unknown = JSON.parse(
    await runOk("python3", [script], { input: JSON.stringify(plan) }),
  );
  const signed = answer as readonly Pick<Wire, "target" | "headers">[];
  return signed.map(({ target, headers }, index) => {
    const { method = "GET", host = dnsName, body = "" } = jobs[index] ?? {};
    const named = headers.some(([name]) => name === "host");
    return { method, target, headers: named ? headers : [["host", host], ...headers], body };
  });
}

/** Cases from a seed; half of them are sent as they were signed or only spelled otherwise. */
export async function makeCases(
  count: number,
  from: { readonly seed: number; readonly bucket: string; readonly pair: Pair },
): Promise<readonly Case[]> {
  const dice = new Dice(from.seed);
  const jobs = Array.from({ length: count }, (_, index) =>
    makeJob(dice, from.bucket, index < count / 2 ? "smithy" : "botocore"),
  );
  const half = jobs.slice(count / 2);
  const others = await signWithBotocore(half, from.pair);
  const cases: Case[] = [];
  for (const [index, job] of jobs.entries()) {
    const other = index < count / 2 ? undefined : others[index - (count - half.length)];
    const wire = other ?? (await signWithSmithy(job, from.pair));
    const harmless = changes.slice(0, 3);
    const change = dice.maybe(50) ? dice.one(harmless) : dice.one(changes.slice(3));
    const changed = change.apply(wire, dice);
    cases.push({
      signer: other === undefined ? "smithy" : "botocore",
      wire: { ...wire, ...changed },
      change: changed === null ? "nothing" : change.name,
      exception: changed === null ? tabException(wire) : exceptionOf(job, wire, change),
    });
  }
  return cases;
}

function exceptionOf(job: Job, wire: Wire, change: (typeof changes)[number]): Exception | null {
  const ofVersion = job.version === 2 ? versionTwoException(change.name, wire) : null;
  return ofVersion ?? change.exception ?? tabException(wire);
}

// ---- asking ----

interface Verdict {
  readonly accepted: boolean;
  readonly status: number;
  readonly code: string;
}

/**
 * Sends one case; accepted is what was not refused for its signature or its form, or for a name in the
 * query that Headgate does not take, which it says first.
 */
async function ask(url: string, wire: Wire, agent: Agent): Promise<Verdict> {
  const { hostname, port } = new URL(url);
  const { method, body } = wire;
  const length =
    body === "" && method !== "PUT" ? [] : [["content-length", `${body.length}`] as const];
  const known = wire.headers.filter(([name]) => name !== "content-length");
  const fields = [...known, ...length].flatMap(([name, value]) => [
    name,
    Buffer.from(value, "utf8").toString("latin1"),
  ]);
  return await new Promise((resolve, reject) => {
    const sent = httpRequest(
      { hostname, port, path: wire.target, method, headers: fields, agent, setHost: false },
      (answer) => {
        let body = "";
        answer.setEncoding("utf8");
        answer.on("data", (chunk: string) => {
          body += chunk;
        });
        answer.on("end", () => {
          const status = answer.statusCode ?? 0;
          const code = /<Code>([^<]*)/.exec(body)?.[1] ?? "";
          resolve({ accepted: ![400, 403, 501].includes(status), status, code });
        });
      },
    );
    sent.on("error", reject);
    sent.end(wire.body);
  });
}

interface Difference {
  readonly signer: Signer;
  readonly change: string;
  readonly method: string;
  readonly target: string;
  readonly headers: Wire["headers"];
  readonly ours: string;
  readonly theirs: string;
}

export interface Comparison {
  readonly accepted: number;
  readonly refused: number;
  /** How often each exception was seen to be one. */
  readonly exceptions: ReadonlyMap<string, number>;
  readonly differences: readonly Difference[];
}

/** Asks both servers every case. */
export async function compare(
  cases: readonly Case[],
  servers: { readonly ours: string; readonly theirs: string },
): Promise<Comparison> {
  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const exceptions = new Map<string, number>();
  const differences: Difference[] = [];
  let accepted = 0;
  const queue = [...cases];
  const worker = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const ours = await ask(servers.ours, next.wire, agent);
      const theirs = await ask(servers.theirs, next.wire, agent);
      if (ours.accepted) accepted += 1;
      if (ours.accepted === theirs.accepted) continue;
      const { exception, signer, change, wire } = next;
      if (exception !== null && ours.accepted === (exception.ours === "accepts")) {
        exceptions.set(exception.why, (exceptions.get(exception.why) ?? 0) + 1);
        continue;
      }
      differences.push({
        signer,
        change,
        method: wire.method,
        target: wire.target,
        headers: wire.headers,
        ours: `${ours.status} ${ours.code}`,
        theirs: `${theirs.status} ${theirs.code}`,
      });
    }
  };
  try {
    await Promise.all(Array.from({ length: 4 }, worker));
  } finally {
    agent.destroy();
  }
  return { accepted, refused: cases.length - accepted, exceptions, differences };
}
