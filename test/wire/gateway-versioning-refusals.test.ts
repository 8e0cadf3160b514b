// A refused PutBucketVersioning or PutObjectLockConfiguration leaves a spread bucket as it was: on all its
// clusters, with its settings, and nothing was written anywhere but what its one cluster refused.

import { createHash } from "node:crypto";
import {
  CreateBucketCommand,
  GetBucketCorsCommand,
  GetBucketVersioningCommand,
  GetObjectCommand,
  PutBucketCorsCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import t from "tap";
import type { FaultRule } from "../../proxy/demo/faults.ts";
import {
  clusterKeys,
  readerKeys,
  startClusters,
  startTestHeadgate,
  type TestHeadgate,
} from "../support/headgate.ts";
import { holdingRelay } from "../support/holding-relay.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { startUserCluster } from "../support/user-cluster.ts";

const versioned = (inner: string): string =>
  `<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${inner}</VersioningConfiguration>`;
const locked = (inner: string): string =>
  `<ObjectLockConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${inner}</ObjectLockConfiguration>`;
const enabled = versioned("<Status>Enabled</Status>");
const mfa = versioned("<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>");
const lock = locked("<ObjectLockEnabled>Enabled</ObjectLockEnabled>");
const otherHash = createHash("sha256").update("other").digest("hex");

const onWrite =
  (fault: ReturnType<FaultRule>): FaultRule =>
  ({ method, target }) =>
    method === "PUT" && target.includes("versioning") ? fault : null;
const onRead =
  (fault: ReturnType<FaultRule>): FaultRule =>
  ({ method, target }) =>
    method === "GET" && target.includes("versioning") ? fault : null;

interface Refusal {
  readonly query?: "versioning=" | "object-lock=";
  readonly body: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly payloadHash?: string;
  readonly keys?: typeof readerKeys;
  readonly fault?: FaultRule;
  readonly answer: readonly [status: number, code: string];
}

const malformed = [400, "MalformedXML"] as const;
const query = "object-lock=" as const;
const refusals: Readonly<Record<string, Refusal>> = {
  "broken XML": { body: "<bad", answer: malformed },
  "no body": { body: "", answer: malformed },
  "another root": { body: lock, answer: malformed },
  "the root deeper": { body: `<x>${enabled}</x>`, answer: malformed },
  "an unknown status": { body: versioned("<Status>Nonsense</Status>"), answer: malformed },
  "a status in small letters": { body: versioned("<Status>enabled</Status>"), answer: malformed },
  "an empty status": { body: versioned("<Status/>"), answer: malformed },
  "two statuses": {
    body: versioned("<Status>Enabled</Status><Status>Suspended</Status>"),
    answer: malformed,
  },
  "no status": { body: versioned(""), answer: [400, "IllegalVersioningConfigurationException"] },
  "unknown MFA": {
    body: versioned("<Status>Enabled</Status><MfaDelete>x</MfaDelete>"),
    answer: malformed,
  },
  "another SHA-256": {
    body: enabled,
    payloadHash: otherHash,
    answer: [400, "XAmzContentSHA256Mismatch"],
  },
  "another MD5": {
    body: enabled,
    headers: [["content-md5", "AAAAAAAAAAAAAAAAAAAAAA=="]],
    answer: [400, "BadDigest"],
  },
  "another CRC32": {
    body: enabled,
    headers: [["x-amz-checksum-crc32", "AAAAAA=="]],
    answer: [400, "BadDigest"],
  },
  "a body that is too long": {
    body: versioned(" ".repeat(1_100_000)),
    answer: [400, "EntityTooLarge"],
  },
  "a caller without the right": {
    body: enabled,
    keys: readerKeys,
    answer: [403, "AccessDenied"],
  },
  "lock: another root": { query, body: "<x/>", answer: malformed },
  "lock: not enabled": { query, body: locked(""), answer: malformed },
  "lock: another word": {
    query,
    body: lock.replace(">Enabled<", ">Disabled<"),
    answer: malformed,
  },
  "lock without versions": { query, body: lock, answer: [409, "InvalidBucketState"] },
  "versioning that may not be read": {
    body: enabled,
    fault: onRead({ status: 403, code: "AccessDenied" }),
    answer: [403, "AccessDenied"],
  },
  "versioning that is not known": {
    body: enabled,
    fault: onRead({ status: 501, code: "NotImplemented" }),
    answer: [501, "NotImplemented"],
  },
  "versioning that cannot be read": {
    body: enabled,
    fault: onRead({ status: 503, code: "SlowDown" }),
    answer: [503, "ServiceUnavailable"],
  },
  "a cluster that wants MFA": {
    body: mfa,
    headers: [["x-amz-mfa", "serial 123456"]],
    fault: onWrite({ status: 403, code: "AccessDenied" }),
    answer: [403, "AccessDenied"],
  },
  "a cluster that refuses": {
    body: enabled,
    fault: onWrite({ status: 409, code: "InvalidBucketState" }),
    answer: [409, "InvalidBucketState"],
  },
  "a cluster that is busy": {
    body: enabled,
    fault: onWrite({ status: 503, code: "SlowDown" }),
    answer: [503, "SlowDown"],
  },
};

function writesTo({ clusters }: TestHeadgate): readonly string[] {
  return Object.values(clusters).flatMap((cluster) =>
    cluster
      .exchanges()
      .filter(({ method }) => method !== "GET" && method !== "HEAD")
      .map(({ method, target }) => `${method} ${target}`),
  );
}

function holders({ clusters }: TestHeadgate, bucket: string): readonly string[] {
  return Object.keys(clusters).filter((id) =>
    clusters[id]?.buckets().some((name) => name === bucket),
  );
}

t.test("a refused request changes nothing", async (t) => {
  const headgate = await startTestHeadgate(t);
  const { s3, url, clusters, admin } = headgate;
  const Bucket = "shown-spread";
  await s3.send(new CreateBucketCommand({ Bucket }));
  const CORSRules = [{ AllowedMethods: ["GET"], AllowedOrigins: ["*"] }];
  await s3.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules } }));
  await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "kept" }));
  const record = async (): Promise<unknown> => {
    const { body } = await admin("GET", `/buckets/${Bucket}`);
    return { ...Object(body), revision: null };
  };
  const before = await record();
  for (const [name, refusal] of Object.entries(refusals)) {
    const { body, headers = [], payloadHash, keys, fault = null, answer } = refusal;
    for (const cluster of Object.values(clusters)) cluster.setFault(fault);
    const written = writesTo(headgate).length;
    const head = rawHead(url, {
      method: "PUT",
      path: `/${Bucket}`,
      query: refusal.query ?? "versioning=",
      headers,
      contentLength: body.length,
      ...(payloadHash === undefined ? {} : { payloadHash }),
      ...(keys === undefined ? {} : { keys }),
    });
    const { status, text } = await rawExchange(url, head, body);
    const [wantedStatus, code] = answer;
    t.equal(status, wantedStatus, name);
    t.ok(text.includes(`<Code>${code}</Code>`), `${name}: ${text}`);
    t.strictSame(await record(), before, name);
    t.strictSame(holders(headgate, Bucket), ["a", "b", "c"], name);
    const refusedThere = fault !== null && fault({ method: "PUT", target: "?versioning" }) !== null;
    t.equal(writesTo(headgate).length - written, refusedThere ? 1 : 0, name);
  }
  t.match(
    Object.values(clusters).flatMap((cluster) =>
      cluster.exchanges().filter(({ rawHeaders }) => rawHeaders.includes("serial 123456")),
    ),
    { length: 1 },
    "the cluster is told the MFA code",
  );
  for (const cluster of Object.values(clusters)) cluster.setFault(null);
  // It goes on as it was: spread, with its settings.
  for (let n = 0; n < 9; n += 1) {
    await s3.send(new PutObjectCommand({ Bucket, Key: `k${n}`, Body: "x" }));
  }
  const filled = Object.values(clusters).filter((one) => one.objects(Bucket).length > 0);
  t.ok(filled.length > 1, "objects go to several clusters");
  t.match(await s3.send(new GetBucketCorsCommand({ Bucket })), { CORSRules });
});

t.test("where the answer is lost the bucket is on the one cluster that was asked", async (t) => {
  const headgate = await startTestHeadgate(t);
  const { s3, clusters, admin } = headgate;
  const faults = { "says-500": { status: 500, code: "InternalError" }, resets: "reset" } as const;
  for (const [Bucket, fault] of Object.entries(faults)) {
    await s3.send(new CreateBucketCommand({ Bucket }));
    for (const cluster of Object.values(clusters)) cluster.setFault(onWrite(fault));
    const write = new PutBucketVersioningCommand({
      Bucket,
      VersioningConfiguration: { Status: "Enabled" },
    });
    const name = fault === "reset" ? "ServiceUnavailable" : "InternalError";
    await t.rejects(s3.send(write), { name });
    for (const cluster of Object.values(clusters)) cluster.setFault(null);
    const [home = "", ...others] = holders(headgate, Bucket);
    t.strictSame(others, []);
    t.match(await admin("GET", `/buckets/${Bucket}`), {
      body: { phase: "settled", route: { weights: { [home]: 1 }, spread: "bucket" } },
    });
    await s3.send(write);
    t.match(await s3.send(new GetBucketVersioningCommand({ Bucket })), { Status: "Enabled" });
  }
});

t.test("while its cluster is asked the bucket is read, and takes no bytes", async (t) => {
  const servers = await startClusters(t, ["a", "b"]);
  const relays = {
    a: await holdingRelay(t, servers["a"]?.url ?? ""),
    b: await holdingRelay(t, servers["b"]?.url ?? ""),
  };
  let aheadMs = 0;
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    servers,
    endpoints: { a: relays.a.url, b: relays.b.url },
    aheadMs: () => aheadMs,
  });
  const { s3, admin } = headgate;
  const Bucket = "asked";
  await s3.send(new CreateBucketCommand({ Bucket }));
  await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "kept" }));
  const home = servers["a"]?.objects(Bucket).length === 1 ? "a" : "b";
  relays[home].holds = (line) => line.startsWith("PUT") && line.includes("versioning");
  const write = (): Promise<unknown> =>
    s3.send(
      new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }),
    );
  const first = write();
  const held = await relays[home].held();
  // What a crash would leave: whoever takes it up ends on the cluster that may have versions now.
  t.match(await admin("GET", `/buckets/${Bucket}`), {
    body: { phase: "rerouting", route: { weights: { [home]: 1 }, spread: "bucket" } },
  });
  t.strictSame(holders(headgate, Bucket), ["a", "b"]);
  const got = await s3.send(new GetObjectCommand({ Bucket, Key: "k" }));
  t.equal(await got.Body?.transformToString(), "kept");
  const slow = { name: "SlowDown" };
  await t.rejects(s3.send(new PutObjectCommand({ Bucket, Key: "n", Body: "x" })), slow);
  await t.rejects(write(), slow, "another one does not take the first one's answer");
  // So long on its way that its maker may be gone: a write goes on with it.
  aheadMs += 21_000;
  const third = write();
  await s3.send(new GetObjectCommand({ Bucket, Key: "k" }));
  relays[home].holds = () => false;
  await held.pass();
  await first;
  await third;
  await s3.send(new PutObjectCommand({ Bucket, Key: "n", Body: "x" }));
  t.strictSame(holders(headgate, Bucket), [home]);
});

t.test("versions that were made behind the back say where the bucket goes", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  const { s3, clusters } = headgate;
  const direct = (id: string): S3Client => {
    const made = new S3Client({
      endpoint: clusters[id]?.url ?? "",
      region: "us-east-1",
      forcePathStyle: true,
      credentials: clusterKeys,
    });
    t.teardown(() => made.destroy());
    return made;
  };
  const write = (Bucket: string) =>
    new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } });
  const askLock = async (Bucket: string): Promise<number> => {
    const head = rawHead(headgate.url, {
      method: "PUT",
      path: `/${Bucket}`,
      query,
      contentLength: lock.length,
    });
    return (await rawExchange(headgate.url, head, lock)).status;
  };
  for (const id of ["a", "b"]) {
    for (const setting of ["versions", "lock"]) {
      const Bucket = `${setting}-on-${id}`;
      await s3.send(new CreateBucketCommand({ Bucket }));
      await direct(id).send(write(Bucket));
      if (setting === "lock") t.equal(await askLock(Bucket), 200);
      else await s3.send(write(Bucket));
      t.strictSame(holders(headgate, Bucket), [id]);
    }
  }
  await s3.send(new CreateBucketCommand({ Bucket: "on-both" }));
  for (const id of ["a", "b"]) await direct(id).send(write("on-both"));
  await t.rejects(s3.send(write("on-both")), { name: "VersionedBucketPinned" });
  t.equal(await askLock("on-both"), 409);
  t.strictSame(holders(headgate, "on-both"), ["a", "b"]);
});

t.test("a server that takes the question for a list is not told to keep versions", async (t) => {
  const users = [{ uid: "service", ...clusterKeys }];
  const [a, b] = [await startUserCluster(t, users), await startUserCluster(t, users)];
  const { s3 } = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    servers: {},
    endpoints: { a: a.url, b: b.url },
  });
  const Bucket = "listed";
  await s3.send(new CreateBucketCommand({ Bucket }));
  const bodies = { "<ListBucketResult/>": "NotImplemented", "<Hello/>": "ServiceUnavailable" };
  for (const [body, name] of Object.entries(bodies)) {
    b.say = (line) => (/^GET \S*versioning/.test(line) ? { body } : null);
    const write = { Bucket, VersioningConfiguration: { Status: "Enabled" } } as const;
    await t.rejects(s3.send(new PutBucketVersioningCommand(write)), { name });
    for (const { asked, owners } of [a, b]) {
      t.notOk(asked.some((line) => /^PUT \S*versioning/.test(line)));
      t.ok(owners.has(Bucket));
    }
  }
});
