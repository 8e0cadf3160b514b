// A bucket that is created again while it is deleted or moved, and one whose record is older than its end.

import {
  CreateBucketCommand,
  DeleteBucketCommand,
  DeleteObjectCommand,
  HeadBucketCommand,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { clusterKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";
import { holdingRelay } from "../support/holding-relay.ts";

const Bucket = "again";
const slowDown = { name: "SlowDown", $metadata: { httpStatusCode: 503 } };

async function scene(t: Test) {
  const servers = await startClusters(t, ["a", "b", "c"]);
  const door = await holdingRelay(t, servers["c"]?.url ?? "");
  const creations = (request: string): boolean => request === `PUT /${Bucket}`;
  const headgate = await startTestHeadgate(t, { servers, endpoints: { c: door.url } });
  const holders = (): readonly string[] =>
    Object.keys(servers).filter((id) => servers[id]?.buckets().some((name) => name === Bucket));
  return { ...headgate, door, creations, holders };
}

t.test("a bucket that is deleted while it is created again is gone", async (t) => {
  const { s3, door, creations, holders, admin } = await scene(t);
  await s3.send(new CreateBucketCommand({ Bucket }));
  door.holds = creations;
  const again = s3.send(new CreateBucketCommand({ Bucket })).catch((caught: unknown) => caught);
  const held = await door.held();
  await s3.send(new DeleteBucketCommand({ Bucket }));
  t.strictSame(holders(), []);
  door.holds = () => false;
  await held.pass();
  t.match(await again, slowDown);
  t.strictSame(holders(), [], "what was made is taken away");
  t.equal((await admin("GET", `/buckets/${Bucket}`)).status, 404);
  await t.rejects(s3.send(new HeadBucketCommand({ Bucket })), { name: "NotFound" });
  await s3.send(new CreateBucketCommand({ Bucket }));
  t.strictSame(holders(), ["a", "b", "c"], "and again it is a new one");
});

t.test("a change of route waits for a bucket that is created again", async (t) => {
  const { s3, door, creations, holders, admin } = await scene(t);
  await s3.send(new CreateBucketCommand({ Bucket }));
  door.holds = creations;
  const again = s3.send(new CreateBucketCommand({ Bucket })).catch((caught: unknown) => caught);
  const held = await door.held();
  const placement = { placement: { a: 1 } };
  const moved = admin("PUT", `/buckets/${Bucket}/placement`, placement);
  const phase = async (): Promise<unknown> =>
    JSON.stringify((await admin("GET", `/buckets/${Bucket}`)).body);
  while (!/"phase":"rerouting"/.test(String(await phase())));
  await t.rejects(s3.send(new CreateBucketCommand({ Bucket })), slowDown);
  t.strictSame(holders(), ["a", "b", "c"]);
  door.holds = () => false;
  await held.pass();
  t.match(await again, slowDown);
  t.ok([200, 204].includes((await moved).status));
  t.strictSame(holders(), ["a"]);
  await s3.send(new CreateBucketCommand({ Bucket }));
  t.strictSame(holders(), ["a"]);
});

t.test("a bucket that went behind its record is created afresh", async (t) => {
  const { client, clusters, s3, holders, admin } = await scene(t);
  const direct = new S3Client({
    endpoint: clusters["a"]?.url ?? "",
    region: "us-east-1",
    forcePathStyle: true,
    credentials: clusterKeys,
    requestChecksumCalculation: "WHEN_REQUIRED",
  });
  t.teardown(() => direct.destroy());
  await direct.send(new CreateBucketCommand({ Bucket }));
  await s3.send(new HeadBucketCommand({ Bucket }));
  t.match(await admin("GET", `/buckets/${Bucket}`), { body: { origin: "discovered" } });
  await s3.send(new CreateBucketCommand({ Bucket }));
  t.strictSame(holders(), ["a"], "one that is there stays as it was found");
  await direct.send(new DeleteBucketCommand({ Bucket }));
  await client({ maxAttempts: 4 }).send(new CreateBucketCommand({ Bucket }));
  t.strictSame(holders(), ["a", "b", "c"]);
  t.match(await admin("GET", `/buckets/${Bucket}`), { body: { origin: "created", extra: [] } });
  for (const Key of ["k1", "k2", "k3", "k4"]) {
    await s3.send(new PutObjectCommand({ Bucket, Key, Body: "x" }));
    await s3.send(new DeleteObjectCommand({ Bucket, Key }));
  }
  await s3.send(new DeleteBucketCommand({ Bucket }));
});
