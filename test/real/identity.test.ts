// Users of an RGW keep their keys: Headgate asks the RGW whose a key is, and signs with it again, so
// that owners stay true and the RGW's own ACLs decide. Nothing of a user is written down at Headgate.

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  CreateBucketCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListBucketsCommand,
  PutObjectAclCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { type Lab, withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { answerOf, type Pair, s3Client } from "./support/s3.ts";
import { rgwPair } from "./support/services.ts";

async function makeUser(lab: Lab, uid: string, pair: Pair): Promise<void> {
  for (const cluster of ["a", "b"] as const) await lab.rgw.makeUser(cluster, uid, pair);
}

async function ownerOf(lab: Lab, cluster: "a" | "b", bucket: string): Promise<string> {
  const stats: unknown = JSON.parse(
    await lab.rgw.admin(cluster, "bucket", "stats", `--bucket=${bucket}`),
  );
  if (typeof stats !== "object" || stats === null || !("owner" in stats)) return "";
  return String(stats.owner);
}

const pairOf = (name: string): Pair => ({
  accessKeyId: `KEYOF${name.toUpperCase()}`,
  secretAccessKey: `secret-of-${name}-for-tests-only`,
});

withLab(t, [], async (lab, test) => {
  for (const cluster of ["a", "b"] as const) {
    await lab.rgw.admin(cluster, "caps", "add", "--uid=headgate-rgw", "--caps=users=read");
  }
  await makeUser(lab, "alice", pairOf("alice"));
  await makeUser(lab, "bob", pairOf("bob"));
  await makeUser(lab, "acme$carol", pairOf("carol"));
  const headgate = await lab.headgate({
    name: "identity",
    clusters: lab.clusters({ a: 1, b: 1 }),
    prefix: "/headgate-identity/",
    identity: "same",
    sources: [{ source: "rgw-admin", cluster: "a", cache_ttl: "2s", negative_ttl: "1s" }],
  });
  const clientOf = (name: string) => s3Client(headgate.url, pairOf(name));
  const [alice, bob, carol] = [clientOf("alice"), clientOf("bob"), clientOf("carol")];
  t.teardown(() => {
    for (const client of [alice, bob, carol]) client.destroy();
  });

  test("a user of an RGW uses its own keys, and owns what it makes", async (t) => {
    await alice.send(new CreateBucketCommand({ Bucket: "of-alice" }));
    for (let index = 0; index < 8; index += 1) {
      await alice.send(
        new PutObjectCommand({ Bucket: "of-alice", Key: `k${index}`, Body: `text ${index}` }),
      );
    }
    const got = await alice.send(new GetObjectCommand({ Bucket: "of-alice", Key: "k3" }));
    t.equal(await got.Body?.transformToString(), "text 3");
    for (const cluster of ["a", "b"] as const) {
      t.equal(await ownerOf(lab, cluster, "of-alice"), "alice");
    }
    const listed = await alice.send(new ListBucketsCommand({}));
    t.equal(listed.Owner?.ID, "alice");
    t.strictSame(
      listed.Buckets?.map(({ Name }) => Name),
      ["of-alice"],
    );
    t.strictSame((await bob.send(new ListBucketsCommand({}))).Buckets ?? [], []);

    await carol.send(new CreateBucketCommand({ Bucket: "of-carol" }));
    await carol.send(new PutObjectCommand({ Bucket: "of-carol", Key: "k", Body: "tenant" }));
    t.equal(await ownerOf(lab, "a", "acme/of-carol"), "acme$carol");
    const hers = await carol.send(new ListBucketsCommand({}));
    t.strictSame(
      hers.Buckets?.map(({ Name }) => Name),
      ["of-carol"],
    );
  });

  test("the RGW's own ACLs decide about other users", async (t) => {
    const get = () => answerOf(bob.send(new GetObjectCommand({ Bucket: "of-alice", Key: "k1" })));
    t.match(await get(), { status: 403, code: "AccessDenied" });
    const put = new PutObjectCommand({ Bucket: "of-alice", Key: "k1", Body: "bob was here" });
    t.match(await answerOf(bob.send(put)), { status: 403, code: "AccessDenied" });
    t.match(await answerOf(bob.send(new CreateBucketCommand({ Bucket: "of-alice" }))), {
      status: 409,
      code: "BucketAlreadyExists",
    });
    t.equal((await fetch(`${headgate.url}/of-alice/k1`)).status, 403, "anonymous");
    // Straight to the RGWs: where the object is, its ACL is opened.
    const answers = await Promise.all(
      (["a", "b"] as const).map(async (cluster) => {
        const direct = s3Client(lab.rgw.url(cluster), pairOf("alice"));
        t.teardown(() => direct.destroy());
        const open = { Bucket: "of-alice", Key: "k1", ACL: "public-read" } as const;
        return (await answerOf(direct.send(new PutObjectAclCommand(open)))).status;
      }),
    );
    t.strictSame(
      answers.toSorted((left, right) => left - right),
      [200, 404],
    );
    t.match(await get(), { status: 200 });
    // A bucket that was there before, of a user whom the service user knows nothing of.
    const before = s3Client(lab.rgw.url("b"), pairOf("bob"));
    t.teardown(() => before.destroy());
    await before.send(new CreateBucketCommand({ Bucket: "bob-before" }));
    t.equal(
      (await answerOf(bob.send(new HeadBucketCommand({ Bucket: "bob-before" })))).status,
      200,
    );
    t.equal(
      (await answerOf(alice.send(new HeadBucketCommand({ Bucket: "bob-before" })))).status,
      403,
    );
  });

  test("keys come and go with the RGW's users, and count on while it is away", async (t) => {
    const dave = clientOf("dave");
    t.teardown(() => dave.destroy());
    const list = () => answerOf(dave.send(new ListBucketsCommand({})));
    t.match(await list(), { status: 403, code: "InvalidAccessKeyId" });
    await makeUser(lab, "dave", pairOf("dave"));
    await until("a key that was created counts", 30_000, async () =>
      (await list()).status === 200 ? true : null,
    );
    await lab.rgw.admin("a", "user", "suspend", "--uid=dave");
    await until("a suspended user is refused", 30_000, async () =>
      (await list()).code === "InvalidAccessKeyId" ? true : null,
    );
    await lab.rgw.admin("a", "user", "enable", "--uid=dave");
    await until("an enabled user counts again", 30_000, async () =>
      (await list()).status === 200 ? true : null,
    );
    const key = ["key", "rm", "--uid=dave", "--key-type=s3"];
    await lab.rgw.admin("a", ...key, `--access-key=${pairOf("dave").accessKeyId}`);
    await until("a key that was removed is refused", 30_000, async () =>
      (await list()).code === "InvalidAccessKeyId" ? true : null,
    );
    t.ok((await headgate.metric("headgate_credentials_lookups_total", { outcome: "unknown" })) > 0);
    t.notMatch(headgate.output, rgwPair.secretAccessKey);
    t.notMatch(headgate.output, /secret-of-/);

    // Without the capability every key is answered as an unknown one is: that must not count.
    await lab.rgw.admin("a", "caps", "rm", "--uid=headgate-rgw", "--caps=users=read");
    const erin = clientOf("erin");
    t.teardown(() => erin.destroy());
    await makeUser(lab, "erin", pairOf("erin"));
    await until("a source that may not ask is 503", 30_000, async () =>
      (await answerOf(erin.send(new ListBucketsCommand({})))).status === 503 ? true : null,
    );
    t.equal((await answerOf(alice.send(new ListBucketsCommand({})))).status, 200, "known before");
  });

  test("a key in etcd counts in every process, and etcd holds no secret", async (t) => {
    const start = async (name: string) => {
      const sealFile = join(lab.dir, "seal.keys");
      writeFileSync(sealFile, `${"ab".repeat(32)}\n`);
      return await lab.headgate({
        name,
        clusters: lab.clusters({ a: 1, b: 1 }),
        prefix: "/headgate-sealed/",
        identity: "same",
        sources: [{ source: "etcd" }],
        sealKeyFile: sealFile,
      });
    };
    const [one, other] = [await start("sealed-1"), await start("sealed-2")];
    const { accessKeyId, secretAccessKey } = pairOf("alice");
    const secretFile = join(lab.dir, "alice.sk");
    writeFileSync(secretFile, secretAccessKey);
    const client = s3Client(other.url, pairOf("alice"));
    t.teardown(() => client.destroy());
    const list = () => answerOf(client.send(new ListBucketsCommand({})));
    t.match(await list(), { code: "InvalidAccessKeyId" });
    const file = ["--secret-key-file", secretFile];
    const added = await one.cli("creds", "add", accessKeyId, "--uid", "alice", ...file);
    t.equal(added.code, 0, added.stderr);
    await until("the other process knows the key", 10_000, async () =>
      (await list()).status === 200 ? true : null,
    );
    const kept = await lab.etcd.ctl("get", "--prefix", "/headgate-sealed/");
    t.match(kept, `/headgate-sealed/credentials/${accessKeyId}`);
    t.notMatch(kept, secretAccessKey);
    t.equal((await other.cli("creds", "disable", accessKeyId)).code, 0);
    await until("the first process refuses the key", 10_000, async () => {
      const direct = s3Client(one.url, pairOf("alice"));
      const { code } = await answerOf(direct.send(new ListBucketsCommand({})));
      direct.destroy();
      return code === "InvalidAccessKeyId" ? true : null;
    });
  });
});
