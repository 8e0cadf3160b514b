// A drain commanded on one process is in force on the other within a second: no new byte on the
// draining cluster, reads go on, and undrain gives the weight back.

import { setTimeout as sleep } from "node:timers/promises";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { answerOf, inParallel, keysOf, put, read, testBytes } from "./support/s3.ts";

const refused = { status: 503, code: "DrainRefused", retryAfter: "300" } as const;

withLab(t, [], async (lab, test) => {
  const installation = {
    clusters: lab.clusters({ a: 50, b: 50 }),
    prefix: "/headgate-drain/",
  };
  const first = await lab.headgate({ ...installation, name: "first" });
  const second = await lab.headgate({ ...installation, name: "second" });
  const client = lab.client(second);
  const [a, b] = [lab.direct("a"), lab.direct("b")];
  const keys = Array.from({ length: 40 }, (_, index) => `object-${index}`);
  /** Key → upload id, of uploads in the bucket "wheel" that begin before the drain. */
  const uploads = new Map<string, string>();

  test("buckets hold objects on both clusters before the drain", async (t) => {
    await client.send(new CreateBucketCommand({ Bucket: "wheel" }));
    await inParallel(keys, 4, (key) => put(client, "wheel", key, key));
    t.ok((await keysOf(a, "wheel")).length > 0);
    t.ok((await keysOf(b, "wheel")).length > 0);
    await client.send(new CreateBucketCommand({ Bucket: "pinned" }));
    await first.change("PUT", "/buckets/pinned/placement", {
      placement: { a: 100 },
      mode: "strict",
    });
    await until("the strict bucket on a", 5_000, async () => {
      const { status } = await answerOf(put(client, "pinned", "kept", "kept"));
      return status === 200 ? true : null;
    });
    t.strictSame(await keysOf(a, "pinned"), ["kept"]);
    t.strictSame(await keysOf(b, "pinned"), []);
    for (let index = 0; index < 8; index += 1) {
      const at = { Bucket: "wheel", Key: `parts-${index}` };
      const { UploadId = "" } = await client.send(new CreateMultipartUploadCommand(at));
      uploads.set(at.Key, UploadId);
    }
  });

  test("a drain on one process refuses strict writes on the other within a second", async (t) => {
    const { code, stderr } = await first.cli(
      "cluster",
      "drain",
      "a",
      "--mode",
      "readonly",
      "--yes",
    );
    t.equal(code, 0, stderr);
    await sleep(1000);
    for (const key of ["kept", "new-1", "new-2"]) {
      t.strictSame(await answerOf(put(client, "pinned", key, "new")), refused);
    }
    const target = { Bucket: "pinned", Key: "parts" };
    t.strictSame(await answerOf(client.send(new CreateMultipartUploadCommand(target))), refused);
    t.strictSame(await keysOf(a, "pinned"), ["kept"]);
    t.equal((await second.cluster("a")).state, "draining_readonly");
    t.ok((await second.metric("headgate_cluster_refused_total", { reason: "drain_refused" })) > 0);
  });

  test("reads, lists and deletes of what lies on the draining cluster go on", async (t) => {
    t.same(Buffer.from((await read(client, "pinned", "kept")) ?? []).toString(), "kept");
    t.strictSame(await keysOf(client, "wheel"), keys.toSorted());
    const [onA] = await keysOf(a, "wheel");
    const target = { Bucket: "wheel", Key: onA ?? "" };
    t.equal((await answerOf(client.send(new HeadObjectCommand(target)))).status, 200);
    t.strictSame(await answerOf(put(client, "wheel", target.Key, "again")), refused);
    t.equal((await answerOf(client.send(new DeleteObjectCommand(target)))).status, 204);
    t.equal(await read(a, "wheel", target.Key), null);
    const [onB] = await keysOf(b, "wheel");
    t.equal((await answerOf(put(client, "wheel", onB ?? "", "again"))).status, 200);
  });

  test("an upload goes on where it began, draining or not, whatever weights become", async (t) => {
    await first.change("PUT", "/clusters/b/weight", { weight: 90 });
    await until("the new weight", 5_000, async () =>
      (await second.cluster("b")).weight === 90 ? true : null,
    );
    const { Uploads = [] } = await a.send(new ListMultipartUploadsCommand({ Bucket: "wheel" }));
    t.ok(Uploads.length > 0 && Uploads.length < uploads.size, "some are on a, some on b");
    const Key = Uploads[0]?.Key ?? "";
    const UploadId = uploads.get(Key) ?? "";
    const at = { Bucket: "wheel", Key };
    t.strictSame(await answerOf(client.send(new CreateMultipartUploadCommand(at))), refused);
    const upload = { ...at, UploadId };
    const Body = testBytes(5 * 1024 * 1024, Key);
    const sent = await client.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body }));
    const [source = ""] = await keysOf(b, "wheel");
    const CopySource = `/wheel/${source}`;
    const copied = await client.send(
      new UploadPartCopyCommand({ ...upload, PartNumber: 2, CopySource }),
    );
    const listed = await client.send(
      new ListPartsCommand({ ...upload, MaxParts: 1, PartNumberMarker: "1" }),
    );
    t.match(listed, { UploadId, IsTruncated: false, Parts: [{ PartNumber: 2 }] });
    const Parts = [sent.ETag, copied.CopyPartResult?.ETag].map((ETag, index) => ({
      PartNumber: index + 1,
      ETag,
    }));
    const complete = new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } });
    for (const time of ["once", "again"]) {
      t.equal((await answerOf(client.send(complete))).status, 200, time);
    }
    const whole = Buffer.concat([Body, (await read(b, "wheel", source)) ?? new Uint8Array()]);
    t.ok(whole.equals((await read(client, "wheel", Key)) ?? new Uint8Array()));
    t.ok((await keysOf(a, "wheel")).includes(Key), "on the cluster that drains");
    t.notOk((await keysOf(b, "wheel")).includes(Key));
    uploads.delete(Key);
    for (const [other, id] of uploads) {
      await client.send(
        new AbortMultipartUploadCommand({ Bucket: "wheel", Key: other, UploadId: id }),
      );
    }
    for (const cluster of [client, a, b]) {
      const open = await cluster.send(new ListMultipartUploadsCommand({ Bucket: "wheel" }));
      t.strictSame(open.Uploads, undefined);
    }
    await first.change("PUT", "/clusters/b/weight", { weight: 50 });
  });

  test("a new bucket of the default wheel puts nothing on the draining cluster", async (t) => {
    await client.send(new CreateBucketCommand({ Bucket: "later" }));
    await inParallel(keys, 4, (key) => put(client, "later", key, key));
    t.strictSame(await keysOf(a, "later"), []);
    t.equal((await keysOf(b, "later")).length, keys.length);
  });

  test("undrain gives the weight and the writes back", async (t) => {
    await first.change("POST", "/clusters/a/undrain", {});
    await sleep(1000);
    t.match(await second.cluster("a"), { state: "live", weight: 50 });
    t.equal((await answerOf(put(client, "pinned", "new", "new"))).status, 200);
    t.strictSame(await keysOf(a, "pinned"), ["kept", "new"]);
    await client.send(new CreateBucketCommand({ Bucket: "after" }));
    await inParallel(keys, 4, (key) => put(client, "after", key, key));
    t.ok((await keysOf(a, "after")).length > 0, "a is on the wheel again");
  });

  test("a transition that does not exist is a conflict", async (t) => {
    const answer = await first.admin("POST", "/clusters/a/undrain", {});
    t.match(answer, { status: 409, body: { code: "InvalidTransition", current_state: "live" } });
    const unknown = await first.admin("POST", "/clusters/none/drain", { mode: "readonly" });
    t.match(unknown, { status: 400, body: { code: "UnknownCluster" } });
    t.equal(Buffer.from((await read(a, "pinned", "kept")) ?? []).toString(), "kept");
    t.equal((await answerOf(put(client, "pinned", "still-live", "x"))).status, 200);
    t.strictSame(await keysOf(a, "pinned"), ["kept", "new", "still-live"], "a is as it was");
    t.strictSame(await keysOf(b, "pinned"), []);
  });
});
