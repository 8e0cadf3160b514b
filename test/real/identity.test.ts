// Users of an RGW keep their keys: Headgate asks the RGW whose a key is, and signs with it again, so
// that owners stay true and the RGW's own ACLs decide. Nothing of a user is written down at Headgate. Or
// users of Headgate alone act as users of the RGW that they are mapped to, and as nobody else.

import { cpSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import {
  CreateBucketCommand,
  GetBucketAclCommand,
  GetObjectAclCommand,
  GetObjectCommand,
  HeadBucketCommand,
  ListBucketsCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  PutBucketAclCommand,
  PutObjectAclCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { type Lab, type RealTest, withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { answerOf, keysOf, type Pair, put, read, s3Client } from "./support/s3.ts";
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

async function testIdentity(lab: Lab, test: RealTest): Promise<void> {
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
    for (const Key of ["k0", "k3"]) {
      const acl = await alice.send(new GetObjectAclCommand({ Bucket: "of-alice", Key }));
      t.equal(acl.Owner?.ID, "alice");
      t.strictSame(
        acl.Grants?.map(({ Grantee, Permission }) => [Grantee?.ID, Permission]),
        [["alice", "FULL_CONTROL"]],
      );
    }
    const acl = await alice.send(new GetBucketAclCommand({ Bucket: "of-alice" }));
    t.equal(acl.Owner?.ID, "alice");
    const { Owner, Grants } = acl;
    const same = { Bucket: "of-alice", AccessControlPolicy: { Owner, Grants } };
    t.equal((await answerOf(alice.send(new PutBucketAclCommand(same)))).status, 200);
    const inPages = { Bucket: "of-alice", MaxKeys: 3 };
    const second = await alice.send(new ListObjectsV2Command({ ...inPages, FetchOwner: true }));
    const first = await alice.send(new ListObjectsCommand(inPages));
    for (const { Contents = [] } of [first, second]) {
      t.strictSame(
        Contents.map(({ Key, Owner }) => [Key, Owner?.ID]),
        ["k0", "k1", "k2"].map((key) => [key, "alice"]),
      );
    }

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
  });

  test("a mapped user acts as its user of the RGW, one without as nobody", async (t) => {
    for (const cluster of ["a", "b"] as const) {
      await lab.rgw.makeUser(cluster, `twin-${cluster}`, pairOf(`twin-${cluster}`));
    }
    const keysOfUser = (name: string) => {
      const { accessKeyId, secretAccessKey } = pairOf(name);
      return { access_key: accessKeyId, secret_key: secretAccessKey };
    };
    const grants = [{ buckets: ["*"], allow: ["read", "list", "write", "delete", "admin"] }];
    const user = (uid: string) => ({ uid, keys: [keysOfUser(uid)], grants });
    const clusters = { a: keysOfUser("twin-a"), b: keysOfUser("twin-b") };
    const file = join(lab.dir, "mapped.yaml");
    const users = [{ ...user("gina"), clusters }, user("hans")];
    writeFileSync(file, JSON.stringify({ users }));
    const mapped = await lab.headgate({
      name: "mapped",
      clusters: lab.clusters({ a: 1, b: 1 }),
      prefix: "/headgate-mapped/",
      identity: "mapped",
      sources: [{ source: "file", file }],
    });
    const [gina, hans] = [
      s3Client(mapped.url, pairOf("gina")),
      s3Client(mapped.url, pairOf("hans")),
    ];
    t.teardown(() => gina.destroy());
    t.teardown(() => hans.destroy());
    await gina.send(new CreateBucketCommand({ Bucket: "of-gina" }));
    for (let index = 0; index < 8; index += 1) await put(gina, "of-gina", `k${index}`, "x");
    for (const cluster of ["a", "b"] as const) {
      t.equal(await ownerOf(lab, cluster, "of-gina"), `twin-${cluster}`);
      const direct = s3Client(lab.rgw.url(cluster), pairOf(`twin-${cluster}`));
      t.teardown(() => direct.destroy());
      const [Key] = await keysOf(direct, "of-gina");
      const acl = await direct.send(new GetObjectAclCommand({ Bucket: "of-gina", Key }));
      t.equal(acl.Owner?.ID, `twin-${cluster}`);
    }
    t.equal((await keysOf(gina, "of-gina")).length, 8);
    // Her ACL names the owner on a. What she sends back is written for her own user on each.
    const { Owner, Grants = [] } = await gina.send(new GetBucketAclCommand({ Bucket: "of-gina" }));
    t.equal(Owner?.ID, "twin-a");
    const toAll = {
      Type: "Group",
      URI: "http://acs.amazonaws.com/groups/global/AllUsers",
    } as const;
    const open = { Owner, Grants: [...Grants, { Grantee: toAll, Permission: "READ" as const }] };
    for (const [asked, expected] of [
      [{ AccessControlPolicy: open }, ["FULL_CONTROL", "READ"]],
      [{ GrantFullControl: `id="${Owner?.ID}"` }, ["FULL_CONTROL"]],
    ] as const) {
      await gina.send(new PutBucketAclCommand({ Bucket: "of-gina", ...asked }));
      for (const cluster of ["a", "b"] as const) {
        const direct = s3Client(lab.rgw.url(cluster), pairOf(`twin-${cluster}`));
        const acl = await direct.send(new GetBucketAclCommand({ Bucket: "of-gina" }));
        direct.destroy();
        t.equal(acl.Owner?.ID, `twin-${cluster}`);
        const grants = (acl.Grants ?? []).map(({ Grantee, Permission }) => [
          Permission,
          Grantee?.ID ?? Grantee?.URI,
        ]);
        const wanted = expected.map((permission) => [
          permission,
          permission === "READ" ? toAll.URI : `twin-${cluster}`,
        ]);
        const sorted = grants.toSorted(([left = ""], [right = ""]) => (left < right ? -1 : 1));
        t.strictSame(sorted, wanted, cluster);
      }
    }
    const get = new GetObjectCommand({ Bucket: "of-gina", Key: "k1" });
    for (const send of [
      () => hans.send(get),
      () => put(hans, "of-gina", "k1", "hans was here"),
      () => hans.send(new ListObjectsV2Command({ Bucket: "of-gina" })),
      () => hans.send(new ListBucketsCommand({})),
      () => hans.send(new CreateBucketCommand({ Bucket: "of-hans" })),
    ]) {
      t.match(await answerOf(send()), { status: 403, code: "AccessDenied" });
    }
    t.equal(Buffer.from((await read(gina, "of-gina", "k1")) ?? []).toString(), "x");
    for (const cluster of ["a", "b"] as const) {
      t.equal((await keysOf(lab.direct(cluster), "of-hans")).length, 0);
      const own = await lab.rgw.admin(cluster, "bucket", "list", "--uid=headgate-rgw");
      t.strictSame(JSON.parse(own), [], "the service user made nothing");
    }
  });

  test("an anonymous request reaches an RGW unsigned, and its ACLs decide", async (t) => {
    const bundle = join(lab.dir, "clusters-decide");
    cpSync(join(import.meta.dirname, "..", "..", "policies", "default"), bundle, {
      recursive: true,
    });
    writeFileSync(join(bundle, "data.json"), '{"headgate": {"clusters_decide": true}}');
    const open = await lab.headgate({
      name: "open",
      clusters: lab.clusters({ a: 1, b: 1 }),
      prefix: "/headgate-open/",
      identity: "same",
      sources: [{ source: "rgw-admin", cluster: "b" }],
      bundle,
    });
    await lab.rgw.admin("b", "caps", "add", "--uid=headgate-rgw", "--caps=users=read");
    const owner = s3Client(open.url, pairOf("alice"));
    const other = s3Client(open.url, pairOf("bob"));
    t.teardown(() => owner.destroy());
    t.teardown(() => other.destroy());
    const Bucket = "open-to-all";
    await owner.send(new CreateBucketCommand({ Bucket, ACL: "public-read" }));
    for (const [name, ACL] of [
      ["public", "public-read"],
      ["signed", "authenticated-read"],
      ["private", "private"],
    ] as const) {
      for (let index = 0; index < 4; index += 1) {
        const Key = `${name}-${index}`;
        await owner.send(new PutObjectCommand({ Bucket, Key, Body: Key, ACL }));
        const anonymous = await fetch(`${open.url}/${Bucket}/${Key}`);
        t.equal(anonymous.status, name === "public" ? 200 : 403, Key);
        t.equal((await anonymous.text()) === Key, name === "public");
        // Whoever signs may read what is open to all who do: nobody signed for the other.
        const { status } = await answerOf(other.send(new GetObjectCommand({ Bucket, Key })));
        t.equal(status, name === "private" ? 403 : 200, Key);
      }
    }
    const listed = await fetch(`${open.url}/${Bucket}?list-type=2&prefix=public-`);
    t.equal(listed.status, 200);
    t.match(await listed.text(), /<Key>public-0<.*<Key>public-3</s);
    const written = await fetch(`${open.url}/${Bucket}/new`, { method: "PUT", body: "x" });
    t.equal(written.status, 403);
    t.notOk((await keysOf(owner, Bucket)).includes("new"));
  });

  if (lab.rgw.generation === 16)
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

  // The last one: for half a minute its tool waits for the radosgw that is killed here.
  test("what was known counts on while the RGW may not be asked or is stopped", async (t) => {
    // Without the capability every key is answered as an unknown one is: that must not count.
    await lab.rgw.admin("a", "caps", "rm", "--uid=headgate-rgw", "--caps=users=read");
    const erin = clientOf("erin");
    t.teardown(() => erin.destroy());
    await makeUser(lab, "erin", pairOf("erin"));
    await until("a source that may not ask is 503", 30_000, async () =>
      (await answerOf(erin.send(new ListBucketsCommand({})))).status === 503 ? true : null,
    );
    t.equal((await answerOf(alice.send(new ListBucketsCommand({})))).status, 200, "known before");
    await lab.rgw.admin("a", "caps", "add", "--uid=headgate-rgw", "--caps=users=read");
    await until("a source that may ask again", 30_000, async () =>
      (await answerOf(erin.send(new ListBucketsCommand({})))).status === 200 ? true : null,
    );

    // Stopped: what is on the other RGW is served to whom it was known to, past cache_ttl.
    const onB = s3Client(lab.rgw.url("b"), pairOf("alice"));
    t.teardown(() => onB.destroy());
    const [there = ""] = await keysOf(onB, "of-alice");
    await lab.rgw.kill("a");
    const unavailable = { outcome: "unavailable" };
    await until("a question that failed after what was known is too old", 30_000, async () => {
      t.not(await read(alice, "of-alice", there), null);
      const failed = await headgate.metric("headgate_credentials_lookups_total", unavailable);
      return failed > 1 ? true : null;
    });
    const frank = clientOf("frank");
    t.teardown(() => frank.destroy());
    const asFrank = frank.send(new GetObjectCommand({ Bucket: "of-alice", Key: there }));
    t.equal((await answerOf(asFrank)).status, 503, "not InvalidAccessKeyId, which is final");
    await lab.rgw.up();
    await until("the RGW that was started again", 30_000, async () => {
      const answer = await answerOf(alice.send(new ListBucketsCommand({})));
      return answer.status === 200 ? true : null;
    });
    const asFrankAgain = frank.send(new ListBucketsCommand({}));
    t.match(await answerOf(asFrankAgain), { code: "InvalidAccessKeyId" });
  });
}

for (const generation of [16, 18] as const) withLab(t, [], testIdentity, { generation });
