// DeleteObjects in a bucket that was found on two clusters: of a key on both the copy behind goes first and
// the visible one last, so that whatever fails, no old copy comes to light and no key is told as deleted
// that can still be read.

import {
  CreateBucketCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { DemoFault } from "../../proxy/demo/faults.ts";
import { clusterKeys, startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";

const Bucket = "twice";
const both = ["k1", "k2"];
const kept = { Key: "kept" };

/** Cluster `a` stands before `b` in the order of a bucket that was found on both. */
async function open(t: Test): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  for (const [id, { url }] of Object.entries(headgate.clusters)) {
    const direct = new S3Client({
      endpoint: url,
      region: "us-east-1",
      forcePathStyle: true,
      credentials: clusterKeys,
    });
    t.teardown(() => direct.destroy());
    await direct.send(new CreateBucketCommand({ Bucket }));
    for (const Key of [...both, `only-${id}`, kept.Key]) {
      await direct.send(new PutObjectCommand({ Bucket, Key, Body: `of ${id}` }));
    }
  }
  await headgate.s3.send(new ListObjectsV2Command({ Bucket }));
  return headgate;
}

function keysOn(headgate: TestHeadgate, id: string): readonly string[] {
  return headgate.clusters[id]?.objects(Bucket).map(({ key }) => key) ?? [];
}

async function visible(headgate: TestHeadgate, Key: string): Promise<string | null> {
  try {
    const { Body } = await headgate.s3.send(new GetObjectCommand({ Bucket, Key }));
    return (await Body?.transformToString()) ?? "";
  } catch (caught) {
    if (caught instanceof Error && caught.name === "NoSuchKey") return null;
    throw caught;
  }
}

const wanted = [...both, "only-a", "only-b", "absent"];
/** Refused here, so that each of the others is answered for by itself. */
const tooLong = "k".repeat(1025);

/** Key → what was said of it. */
async function remove(headgate: TestHeadgate): Promise<Readonly<Record<string, unknown>>> {
  const Objects = [...wanted, tooLong].map((Key) => ({ Key }));
  const answer = await headgate.s3.send(new DeleteObjectsCommand({ Bucket, Delete: { Objects } }));
  const rows = [
    ...(answer.Deleted ?? []).map(({ Key }) => [Key, "deleted"] as const),
    ...(answer.Errors ?? []).map(({ Key, Code }) => [Key, Code] as const),
  ];
  return Object.fromEntries(rows);
}

const deletes = /^POST .*[?&]delete/;
const all = (code: string) => ({
  ...Object.fromEntries(wanted.map((key) => [key, code])),
  [tooLong]: "KeyTooLongError",
});

t.test("the copy behind goes first, the visible one last", async (t) => {
  const headgate = await open(t);
  const order: string[] = [];
  for (const [id, cluster] of Object.entries(headgate.clusters)) {
    cluster.setFault(({ method, target }) => {
      if (deletes.test(`${method} ${target}`)) order.push(`${id} ${keysOn(headgate, "b").length}`);
      return null;
    });
  }
  t.strictSame(await remove(headgate), all("deleted"));
  t.strictSame(order, ["b 4", "a 1"], "the front when all is gone behind it");
  t.strictSame([keysOn(headgate, "a"), keysOn(headgate, "b")], [[kept.Key], [kept.Key]]);
});

/** Whether the cluster did what it was asked before it failed, and what is told of each key. */
const faults: readonly (readonly [DemoFault, boolean, string])[] = [
  ["reset", false, "InternalError"],
  [{ status: 503, code: "SlowDown" }, false, "SlowDown"],
  [{ status: 500 }, false, "InternalError"],
  [{ status: 403, code: "AccessDenied" }, false, "AccessDenied"],
  [{ cutAfterBytes: 60 }, true, "InternalError"],
];

for (const failing of ["b", "a"]) {
  t.test(`${failing === "b" ? "behind" : "the front"} fails`, async (t) => {
    for (const [fault, done, code] of faults) {
      const what = JSON.stringify(fault);
      const headgate = await open(t);
      headgate.clusters[failing]?.setFault(({ method, target }) =>
        deletes.test(`${method} ${target}`) ? fault : null,
      );
      t.strictSame(await remove(headgate), all(code), what);
      t.equal(keysOn(headgate, "a").length, failing === "a" && done ? 1 : 4, what);
      t.equal(keysOn(headgate, "b").length, failing === "b" && !done ? 4 : 1, what);
      for (const Key of both) {
        const seen = await visible(headgate, Key);
        t.not(seen, "of b", `${what}: the copy behind never comes to light`);
      }
      headgate.clusters[failing]?.setFault(null);
      t.strictSame(await remove(headgate), all("deleted"), `${what}: the same request again`);
      t.strictSame([keysOn(headgate, "a"), keysOn(headgate, "b")], [[kept.Key], [kept.Key]]);
    }
  });
}

t.test("a copy that its cluster refuses to delete keeps the one before it", async (t) => {
  const headgate = await open(t);
  headgate.clusters["b"]?.setFault(({ method }) =>
    method === "POST" ? { status: 404, code: "NoSuchBucket" } : null,
  );
  t.strictSame(await remove(headgate), all("deleted"), "what is not there covers nothing");
  t.strictSame(keysOn(headgate, "a"), [kept.Key]);
});
