// Two RGWs that had their buckets before Headgate: adopted with those of all users, one name on both read
// as one, settings that drifted apart made alike, and a bucket that one of them lost.

import { readFileSync } from "node:fs";
import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetBucketCorsCommand,
  GetBucketLifecycleConfigurationCommand,
  type GetBucketLifecycleConfigurationCommandOutput,
  GetBucketPolicyCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutBucketAclCommand,
  PutBucketCorsCommand,
  PutBucketLifecycleConfigurationCommand,
  PutBucketPolicyCommand,
  PutBucketTaggingCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import t from "tap";
import { withLab } from "./support/lab.ts";
import { runOk } from "./support/processes.ts";
import { s3Client, sha256, testBytes } from "./support/s3.ts";
import { rgwPair } from "./support/services.ts";
import { testSettings } from "./support/settings-suite.ts";

const dana = { accessKeyId: "KEYOFDANA", secretAccessKey: "secret-of-dana-for-tests-only" };
const rule = {
  Status: "Enabled" as const,
  Filter: { Prefix: "tmp/" },
  Expiration: { Days: 3 },
};
const cors = { CORSRules: [{ AllowedMethods: ["GET"], AllowedOrigins: ["https://a.example"] }] };
const policyOf = (sid: string, bucket: string): string =>
  JSON.stringify({
    Version: "2012-10-17",
    Statement: [
      {
        Sid: sid,
        Effect: "Allow",
        Principal: { AWS: ["arn:aws:iam:::user/dana"] },
        Action: ["s3:ListBucket"],
        Resource: [`arn:aws:s3:::${bucket}`],
      },
    ],
  });

withLab(t, ["rclone"], async (lab, test) => {
  const direct = { a: lab.direct("a"), b: lab.direct("b") } as const;
  for (const cluster of ["a", "b"] as const) {
    await lab.rgw.makeUser(cluster, "dana", dana);
    for (const Bucket of [`old-${cluster}`, "old-both"]) {
      await direct[cluster].send(new CreateBucketCommand({ Bucket }));
      for (const Key of ["same", `of-${cluster}`]) {
        await direct[cluster].send(new PutObjectCommand({ Bucket, Key, Body: cluster }));
      }
    }
  }
  const hers = s3Client(lab.rgw.url("b"), dana);
  t.teardown(() => hers.destroy());
  await hers.send(new CreateBucketCommand({ Bucket: "of-dana" }));
  const headgate = await lab.headgate({
    name: "adopt",
    clusters: lab.clusters({ a: 1, b: 1 }),
    prefix: "/headgate-adopt/",
  });
  const client = lab.client(headgate);
  const ask = (method: string, path: string, body?: unknown) => headgate.admin(method, path, body);
  const adopted = (bucket: string, clusters: readonly string[], outcome: string) => ({
    bucket,
    clusters,
    outcome,
    conflict: clusters.length > 1,
  });

  test("buckets of two RGWs are shown and recorded, those of other users with caps", async (t) => {
    const own = [
      adopted("old-a", ["a"], "new"),
      adopted("old-b", ["b"], "new"),
      adopted("old-both", ["a", "b"], "new"),
    ];
    const before = await ask("POST", "/adopt?dry_run=true", {});
    t.match(before, { status: 200, body: { clusters: [{ all: false }, { all: false }] } });
    t.match(before.body, { buckets: own });
    t.notMatch(JSON.stringify(before.body), "of-dana");
    for (const cluster of ["a", "b"] as const) {
      await lab.rgw.admin(cluster, "caps", "add", "--uid=headgate-rgw", "--caps=buckets=read");
    }
    const all = await ask("POST", "/adopt?dry_run=true", {});
    t.match(all.body, {
      clusters: [
        { cluster: "a", all: true },
        { cluster: "b", all: true },
      ],
      buckets: [adopted("of-dana", ["b"], "new"), ...own],
    });
    const done = await ask("POST", "/adopt", {});
    t.match(done.body, {
      buckets: [adopted("of-dana", ["b"], "recorded"), { bucket: "old-a", outcome: "recorded" }],
    });
    t.match(await ask("POST", "/adopt", {}), { body: { known: 4, buckets: [], next_after: null } });
    const found = await client.send(new GetObjectCommand({ Bucket: "old-b", Key: "of-b" }));
    t.equal(await found.Body?.transformToString(), "b");
  });

  test("a bucket on both RGWs is read and listed as one", async (t) => {
    const Bucket = "old-both";
    const listed = await client.send(new ListObjectsV2Command({ Bucket }));
    t.strictSame(
      listed.Contents?.map(({ Key }) => Key),
      ["of-a", "of-b", "same"],
    );
    for (const [Key, body] of [
      ["of-a", "a"],
      ["of-b", "b"],
      ["same", "a"],
    ] as const) {
      const got = await client.send(new GetObjectCommand({ Bucket, Key }));
      t.equal(await got.Body?.transformToString(), body, Key);
    }
    t.match(await ask("GET", "/state"), { body: { conflicts: [{ name: Bucket }] } });
  });

  test("settings of two RGWs that drifted apart are found and made alike", async (t) => {
    const Bucket = "drifting";
    await client.send(new CreateBucketCommand({ Bucket }));
    const drift = async (method: string, query = "") =>
      await ask(method, `/buckets/${Bucket}/drift${query}`, method === "POST" ? {} : undefined);
    t.match(await drift("GET"), { status: 200, body: { compared_with: "a", drift: [] } });
    // Without an ID each RGW makes one up, which is no drift.
    await client.send(
      new PutBucketLifecycleConfigurationCommand({
        Bucket,
        LifecycleConfiguration: { Rules: [rule] },
      }),
    );
    await client.send(new PutBucketPolicyCommand({ Bucket, Policy: policyOf("right", Bucket) }));
    const ids = await Promise.all(
      [direct.a, direct.b].map(async (each) => {
        const got: GetBucketLifecycleConfigurationCommandOutput = await each.send(
          new GetBucketLifecycleConfigurationCommand({ Bucket }),
        );
        return got.Rules?.[0]?.ID;
      }),
    );
    t.not(ids[0], ids[1], "made up by each");
    t.match(await drift("GET"), { body: { drift: [] } });

    await direct.b.send(new PutBucketPolicyCommand({ Bucket, Policy: policyOf("other", Bucket) }));
    await direct.b.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: cors }));
    await direct.b.send(new PutBucketAclCommand({ Bucket, ACL: "public-read" }));
    await direct.a.send(
      new PutBucketTaggingCommand({ Bucket, Tagging: { TagSet: [{ Key: "k", Value: "v" }] } }),
    );
    await direct.a.send(
      new PutBucketLifecycleConfigurationCommand({
        Bucket,
        LifecycleConfiguration: { Rules: [{ ...rule, ID: "given", Expiration: { Days: 9 } }] },
      }),
    );
    const expected = ["acl", "policy", "cors", "lifecycle", "tagging"];
    const shown = await drift("GET");
    t.match(shown.body, { drift: expected.map((setting) => ({ setting, outcome: "found" })) });
    const healed = await drift("POST");
    t.match(healed.body, { drift: expected.map((setting) => ({ setting, outcome: "healed" })) });
    t.match(await drift("GET"), { body: { drift: [] } });
    await t.rejects(direct.b.send(new GetBucketCorsCommand({ Bucket })), {
      name: "NoSuchCORSConfiguration",
    });
    const policy = await direct.b.send(new GetBucketPolicyCommand({ Bucket }));
    t.match(policy.Policy, "right");
  });

  testSettings(lab, headgate, test);

  test("a bucket that one RGW lost is made again there with its settings", async (t) => {
    const Bucket = "lost";
    await client.send(new CreateBucketCommand({ Bucket }));
    await client.send(new PutBucketPolicyCommand({ Bucket, Policy: policyOf("kept", Bucket) }));
    await direct.a.send(new DeleteBucketCommand({ Bucket }));
    const { body } = await ask("POST", `/buckets/${Bucket}/drift`, {});
    t.match(body, {
      drift: [
        { setting: "bucket", cluster: "a", outcome: "healed" },
        { setting: "policy", cluster: "a", outcome: "healed" },
      ],
    });
    t.match((await direct.a.send(new GetBucketPolicyCommand({ Bucket }))).Policy, "kept");
    for (let n = 0; n < 8; n += 1) {
      await client.send(new PutObjectCommand({ Bucket, Key: `k${n}`, Body: "x" }));
    }
    const listed = await client.send(new ListObjectsV2Command({ Bucket }));
    t.equal(listed.KeyCount, 8);
  });

  test("a spread bucket is gathered on one RGW by rclone, without Headgate", async (t) => {
    const Bucket = "leaving";
    await client.send(new CreateBucketCommand({ Bucket }));
    const keys = Array.from({ length: 24 }, (_, n) => `dir ${n % 3}/k+${n}`);
    for (const Key of keys) {
      const about = { ContentType: "text/x-leaving", Metadata: { of: "leaving" } };
      await client.send(new PutObjectCommand({ Bucket, Key, Body: `text of ${Key}`, ...about }));
    }
    const large = testBytes(9 * 1024 * 1024, "leaving");
    const upload = new Upload({ client, params: { Bucket, Key: "large", Body: large } });
    await upload.done();
    const listed = async (cluster: "a" | "b"): Promise<number> =>
      (await direct[cluster].send(new ListObjectsV2Command({ Bucket }))).KeyCount ?? 0;
    const [onA, onB] = [await listed("a"), await listed("b")];
    t.ok(onA > 0 && onB > 0 && onA + onB === 25, `${onA} and ${onB}`);
    await headgate.stop();

    const written = /```sh\n(rclone [^`]*)```/.exec(readFileSync("README.md", "utf8"))?.[1] ?? "";
    const [copy = "", check = "", purge = "", ...more] = written.trim().split("\n");
    t.match(
      [copy, check, purge, more.length],
      [/^rclone copy /, /^rclone check /, /^rclone purge /, 0],
    );
    // A bundle for the AWS SDKs is nothing that rclone 1.60 can use.
    const env: Record<string, string> = { AWS_CA_BUNDLE: "", RCLONE_CONFIG: "" };
    for (const cluster of ["a", "b"] as const) {
      const name = `RCLONE_CONFIG_${cluster.toUpperCase()}`;
      env[`${name}_TYPE`] = "s3";
      env[`${name}_PROVIDER`] = "Ceph";
      env[`${name}_ENDPOINT`] = lab.rgw.url(cluster);
      env[`${name}_ACCESS_KEY_ID`] = rgwPair.accessKeyId;
      env[`${name}_SECRET_ACCESS_KEY`] = rgwPair.secretAccessKey;
    }
    const shell = (line: string) =>
      runOk("sh", ["-c", line.replaceAll(/\b([ab]):B\b/g, `$1:${Bucket}`)], { env });
    await shell(copy);
    await shell(check);
    t.equal(await listed("a"), 25);
    for (const Key of keys) {
      const got = await direct.a.send(new GetObjectCommand({ Bucket, Key }));
      t.equal(await got.Body?.transformToString(), `text of ${Key}`);
      t.match(got, { ContentType: "text/x-leaving", Metadata: { of: "leaving" } });
    }
    const got = await direct.a.send(new GetObjectCommand({ Bucket, Key: "large" }));
    t.equal(sha256((await got.Body?.transformToByteArray()) ?? new Uint8Array()), sha256(large));
    await shell(purge);
    await t.rejects(listed("b"), { name: "NoSuchBucket" });

    // The bucket was the service user's.
    await lab.rgw.admin("a", "bucket", "link", `--bucket=${Bucket}`, "--uid=dana");
    await lab.rgw.admin("a", "bucket", "chown", `--bucket=${Bucket}`, "--uid=dana");
    const herOwn = s3Client(lab.rgw.url("a"), dana);
    t.teardown(() => herOwn.destroy());
    const [Key] = keys;
    const read = await herOwn.send(new GetObjectCommand({ Bucket, Key }));
    t.equal(await read.Body?.transformToString(), `text of ${Key}`);
    await herOwn.send(new PutObjectCommand({ Bucket, Key: "hers", Body: "x" }));
  });
});
