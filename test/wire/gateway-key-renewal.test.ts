// Keys of a cluster that are exchanged while requests run: what was refused with the old ones goes
// again with the new, and nobody is told which keys those were.
// https://github.com/envoyproxy/envoy/issues/41047

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  CreateBucketCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { startDemoServer } from "../../proxy/demo/server.ts";
import { system } from "../../proxy/main.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { until } from "../support/raw-http.ts";

const Bucket = "renewed";
const large = Buffer.alloc(200_000, 1);

const setOf = (turn: number) => ({
  accessKeyId: `AKID${turn}`,
  secretAccessKey: `secret ${turn}`,
  sessionToken: `token/${turn}==`,
});

async function start(t: Test, reloadInterval: string) {
  const folder = t.testdir({});
  const given = { ...setOf(0) };
  const write = (set: ReturnType<typeof setOf>): void => {
    for (const [name, text] of Object.entries(set)) writeFileSync(join(folder, name), `${text}\n`);
  };
  write(given);
  const { clock, random } = system;
  const server = await startDemoServer({
    port: 0,
    credentials: given,
    clock,
    random,
    minPartBytes: 1,
    facts: profiles.aws,
  });
  t.teardown(() => server.close());
  const file = (name: string) => join(folder, name);
  const headgate = await startTestHeadgate(t, {
    clusters: { only: 1 },
    servers: { only: server },
    clusterKeys: `{access_key_id_file: ${file("accessKeyId")}, secret_access_key_file: ${file("secretAccessKey")}, session_token_file: ${file("sessionToken")}, reload_interval: ${reloadInterval}}`,
  });
  await headgate.s3.send(new CreateBucketCommand({ Bucket }));
  return {
    headgate,
    write,
    exchange: (set: ReturnType<typeof setOf>) => Object.assign(given, set),
  };
}

t.test("three exchanges of keys pass without a failed request", async (t) => {
  const { headgate, write, exchange } = await start(t, "1h");
  const { s3, logLines, accessLog } = headgate;
  const at = (Key: string) => ({ Bucket, Key });
  await s3.send(new PutObjectCommand({ ...at("kept"), Body: "kept" }));
  for (const turn of [1, 2, 3]) {
    write(setOf(turn));
    exchange(setOf(turn));
    const rounds = [1, 2, 3, 4].flatMap((one) => [
      s3.send(new PutObjectCommand({ ...at(`${turn}-${one}`), Body: "short" })),
      s3.send(new GetObjectCommand(at("kept"))).then(({ Body }) => Body?.transformToString()),
      s3.send(new HeadObjectCommand(at("kept"))),
      s3.send(new ListObjectsV2Command({ Bucket })),
      s3.send(new DeleteObjectCommand(at(`gone-${one}`))),
    ]);
    await t.resolves(Promise.all(rounds));
    await s3.send(new PutObjectCommand({ ...at("large"), Body: large }));
  }
  t.strictSame(
    accessLog.filter(({ status }) => status >= 400),
    [],
  );
  const told = logLines.filter(({ event }) => event === "cluster.keys_reloaded");
  t.equal(told.length, 3);
  const metrics = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
  t.match(metrics, 'headgate_cluster_keys_reloads_total{cluster="only",outcome="ok"} 3');
  t.match(metrics, /headgate_upstream_retries_total\{cluster="only",outcome="ok"\} [1-9]/);
});

t.test("a body that cannot be sent again, and keys that nobody has, are 503", async (t) => {
  const { headgate, write, exchange } = await start(t, "1h");
  const { s3, clusters } = headgate;
  const put = () => s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: large }));
  const refused = async (asked: Promise<unknown>) => {
    const failure = await asked.then(
      () => null,
      (caught: unknown) => caught,
    );
    t.match(failure, { name: "ServiceUnavailable", $metadata: { httpStatusCode: 503 } });
    t.notMatch(JSON.stringify(failure), /AKID|token/);
  };
  exchange(setOf(1));
  await refused(put());
  await refused(s3.send(new ListObjectsV2Command({ Bucket })));
  write(setOf(1));
  await refused(put());
  t.strictSame(clusters["only"]?.objects(Bucket), []);
  await t.resolves(put(), "the refusal had the keys read again");
});

t.test("files are looked at without a refusal, too", async (t) => {
  const { headgate, write, exchange } = await start(t, "10ms");
  write(setOf(1));
  await until(() => headgate.logLines.some(({ event }) => event === "cluster.keys_reloaded"));
  exchange(setOf(1));
  await headgate.s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: large }));
  t.strictSame(
    headgate.accessLog.filter(({ status }) => status >= 400),
    [],
  );
});
