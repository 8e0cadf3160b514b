// One RGW dies during a download and during an upload: the client sees a clean error, never a 404, no
// socket stays, and the other cluster goes on as before.

import { once } from "node:events";
import { request } from "node:http";
import { CreateBucketCommand, GetObjectCommand, type S3Client } from "@aws-sdk/client-s3";
import t from "tap";
import type { Headgate } from "./support/headgate.ts";
import { withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { answerOf, keysOf, put, read, sha256, testBytes } from "./support/s3.ts";
import { signedPut } from "./support/signed-put.ts";
import { openConnections } from "./support/sockets.ts";

const largeBytes = 64 * 2 ** 20;

withLab(t, [], async (lab, test) => {
  const headgate = await lab.headgate({
    name: "faults",
    clusters: lab.clusters({ a: 1, b: 1 }),
    prefix: "/headgate-faults/",
  });
  const client = lab.client(headgate);
  const onA = await makeStrict(headgate, client, "only-a", "a");
  const onB = await makeStrict(headgate, client, "only-b", "b");

  async function otherClusterServes(): Promise<boolean> {
    const { status } = await answerOf(put(client, onB, "steady", "steady"));
    const back = await read(client, onB, "steady");
    return status === 200 && Buffer.from(back ?? []).toString() === "steady";
  }

  const listenPort = Number(new URL(headgate.url).port);

  function connectionsTo(cluster: "a" | "b"): number {
    const port = Number(new URL(lab.rgw.url(cluster)).port);
    return openConnections(headgate.pid).filter(({ remotePort }) => remotePort === port).length;
  }

  function connectionsOfClients(): number {
    return openConnections(headgate.pid).filter(({ localPort }) => localPort === listenPort).length;
  }

  async function noSocketTo(cluster: "a" | "b"): Promise<void> {
    await until(`no socket to ${cluster}`, 10_000, () =>
      connectionsTo(cluster) === 0 ? true : null,
    );
  }

  async function nothingInFlight(): Promise<void> {
    await until("no request in flight", 10_000, async () =>
      (await headgate.metric("headgate_requests_in_flight")) === 0 ? true : null,
    );
  }

  test("a cluster that dies during a download cuts the download and answers 503", async (t) => {
    const bytes = testBytes(largeBytes, "download");
    await put(client, onA, "large", bytes);
    const answer = await client.send(new GetObjectCommand({ Bucket: onA, Key: "large" }));
    if (answer.Body === undefined) throw new Error("The answer has no body");
    const chunks = answer.Body.transformToWebStream().getReader();
    const head = await chunks.read();
    t.ok(head.value !== undefined && head.value.length > 0, "the first bytes arrive");
    t.ok(connectionsTo("a") > 0, "a socket to it is seen while it serves");
    await lab.rgw.kill("a");
    await t.rejects(async () => {
      for (let read = await chunks.read(); !read.done; ) read = await chunks.read();
    }, "the rest is cut, not completed");
    for (const key of ["large", "never-written"]) {
      const answered = await answerOf(client.send(new GetObjectCommand({ Bucket: onA, Key: key })));
      t.equal(answered.status, 503, "503, never 404");
    }
    t.ok(await otherClusterServes());
    await nothingInFlight();
    await noSocketTo("a");
    await lab.rgw.up();
    const back = await until("the cluster again", 20_000, () => read(client, onA, "large"));
    t.equal(sha256(back), sha256(bytes));
  });

  test("a cluster that dies during an upload fails the upload and leaves nothing", async (t) => {
    const bytes = testBytes(largeBytes, "upload");
    const { path, headers } = signedPut(headgate, { bucket: onA, key: "partly", bytes });
    const sent = request(headgate.url, { method: "PUT", path, headers });
    t.teardown(() => sent.destroy());
    const outcome = new Promise<number | string>((resolve) => {
      sent.once("response", (answer) => {
        answer.resume();
        resolve(answer.statusCode ?? 0);
      });
      sent.once("error", (error) => resolve(`cut: ${error.message}`));
    });
    sent.write(bytes.subarray(0, 8 * 2 ** 20));
    await once(sent, "drain");
    await until("a socket to it", 10_000, () => (connectionsTo("a") > 0 ? true : null));
    await lab.rgw.kill("a");
    sent.end(bytes.subarray(8 * 2 ** 20));
    const seen = await outcome;
    t.ok(seen === 503 || String(seen).startsWith("cut:"), `the client sees ${seen}`);
    t.ok(await otherClusterServes());
    await nothingInFlight();
    await noSocketTo("a");
    await lab.rgw.up();
    await until("the cluster again", 20_000, () => read(client, onA, "large"));
    t.notOk((await keysOf(lab.direct("a"), onA)).includes("partly"));
    t.equal((await answerOf(put(client, onA, "partly", bytes))).status, 200, "a retry succeeds");
  });

  test("a list over a dead cluster is 503, never short", async (t) => {
    await client.send(new CreateBucketCommand({ Bucket: "spread" }));
    const keys = Array.from({ length: 20 }, (_, index) => `key-${index}`);
    for (const key of keys) await put(client, "spread", key, key);
    await lab.rgw.kill("b");
    t.equal((await answerOf(keysOf503(client, "spread"))).status, 503);
    await nothingInFlight();
    await noSocketTo("b");
    await lab.rgw.up();
    await until("the whole list", 20_000, async () => {
      const listed = await keysOf(client, "spread");
      return listed.length === keys.length ? true : null;
    });
  });

  test("after the faults the listener holds no connection that its client closed", async (t) => {
    const client = lab.client(headgate);
    t.match(await answerOf(put(client, onA, "last", "last")), { status: 200 });
    t.ok(connectionsOfClients() > 0, "an open connection of a client is seen");
    lab.closeClients();
    await until("no connection of a client", 10_000, () =>
      connectionsOfClients() === 0 ? true : null,
    );
    t.equal(await headgate.metric("headgate_requests_in_flight"), 0);
    t.equal(Buffer.from((await read(lab.direct("a"), onA, "last")) ?? []).toString(), "last");
  });
});

async function keysOf503(client: S3Client, bucket: string) {
  await keysOf(client, bucket);
  return { $metadata: { httpStatusCode: 200 } };
}

/** A bucket whose objects stay on one cluster. */
async function makeStrict(
  headgate: Headgate,
  client: S3Client,
  bucket: string,
  cluster: string,
): Promise<string> {
  await client.send(new CreateBucketCommand({ Bucket: bucket }));
  await headgate.change("PUT", `/buckets/${bucket}/placement`, {
    placement: { [cluster]: 1 },
    mode: "strict",
  });
  await until(`a write to ${bucket}`, 5_000, async () => {
    const { status } = await answerOf(put(client, bucket, "made", "made"));
    return status === 200 ? true : null;
  });
  return bucket;
}
