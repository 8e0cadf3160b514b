// Settings of buckets, versions and open uploads on real radosgw daemons, where an unknown sub-resource
// is a list, a creation or a deletion, and lists are in an order of their own.

import {
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteBucketEncryptionCommand,
  DeleteObjectCommand,
  GetBucketCorsCommand,
  GetBucketEncryptionCommand,
  GetBucketOwnershipControlsCommand,
  GetBucketVersioningCommand,
  GetObjectTaggingCommand,
  HeadBucketCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectVersionsCommand,
  PutBucketCorsCommand,
  PutBucketVersioningCommand,
  PutObjectCommand,
  PutObjectLockConfigurationCommand,
  PutObjectTaggingCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { compareKeys } from "../../proxy/s3/listing.ts";
import { encodeQuery } from "../../proxy/s3/query.ts";
import { readVersionPage, versionIdOf } from "../../proxy/s3/version-list.ts";
import type { Query } from "../support/list-definition.ts";
import { smithyPresign } from "../support/s3-smithy.ts";
import { barelyTheSame } from "./support/bare-suite.ts";
import { clientPair } from "./support/headgate.ts";
import { withLab } from "./support/lab.ts";
import {
  ask,
  differenceOf,
  habitDifference,
  heldBy,
  listKinds,
  oddKeys,
  questionOf,
} from "./support/list-questions.ts";
import { inParallel } from "./support/s3.ts";
import { rgwPair } from "./support/services.ts";
import { Dice } from "./support/wire-changes.ts";

/** What becomes of the metadata `my_key`. */
const underscored = { 16: "my-key", 18: "my_key" } as const;

const keys = ["a", "a b", "a-b", "a/1", "amp&<", "c%d", "ctl\u0001x", "é"];

withLab(t, [], async (lab, test) => {
  const headgate = await lab.headgate({
    name: "operations",
    clusters: lab.clusters({ a: 1, b: 1 }),
    prefix: "/headgate-operations/",
  });
  const s3 = lab.client(headgate);

  test("settings are on both clusters, unknown ones harm nothing", async (t) => {
    const Bucket = "op-settings";
    await s3.send(new CreateBucketCommand({ Bucket }));
    const rule = { AllowedMethods: ["GET"], AllowedOrigins: ["https://a.example"] };
    await s3.send(new PutBucketCorsCommand({ Bucket, CORSConfiguration: { CORSRules: [rule] } }));
    for (const cluster of ["a", "b"] as const) {
      const { CORSRules } = await lab.direct(cluster).send(new GetBucketCorsCommand({ Bucket }));
      t.match(CORSRules, [rule], cluster);
    }
    const asked = await fetch(`${headgate.url}/${Bucket}/k`, {
      method: "OPTIONS",
      headers: { origin: "https://a.example", "access-control-request-method": "GET" },
    });
    t.equal(asked.headers.get("access-control-allow-origin"), "https://a.example");
    await t.rejects(s3.send(new GetBucketEncryptionCommand({ Bucket })), {
      name: "ServerSideEncryptionConfigurationNotFoundError",
    });
    await t.rejects(s3.send(new GetBucketOwnershipControlsCommand({ Bucket })), {
      name: "OwnershipControlsNotFoundError",
    });
    await s3.send(new DeleteBucketEncryptionCommand({ Bucket }));
    for (const cluster of ["a", "b"] as const) {
      await lab.direct(cluster).send(new HeadBucketCommand({ Bucket }));
    }
    await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x", Metadata: { my_key: "1" } }));
    const { Metadata } = await s3.send(new HeadObjectCommand({ Bucket, Key: "k" }));
    t.strictSame(Metadata, { [underscored[lab.rgw.generation]]: "1" }, "as RGW has it, not lost");
    const TagSet = [{ Key: "colour", Value: "red" }];
    await s3.send(new PutObjectTaggingCommand({ Bucket, Key: "k", Tagging: { TagSet } }));
    t.strictSame((await s3.send(new GetObjectTaggingCommand({ Bucket, Key: "k" }))).TagSet, TagSet);
    const path = `/${Bucket}/presigned`;
    const fields = { "x-amz-meta-colour": "red + blue", "X-Amz-Tagging": "colour=red" };
    const query = await smithyPresign(
      {
        method: "PUT",
        path,
        query: fields,
        headers: { host: new URL(headgate.url).host },
        epochMs: Date.now(),
        region: "us-east-1",
        credentials: { ...clientPair, sessionToken: null },
      },
      60,
    );
    const url = `${headgate.url}${path}?${encodeQuery(query)}`;
    t.equal((await fetch(url, { method: "PUT", body: Buffer.from("x") })).status, 200);
    const presigned = { Bucket, Key: "presigned" };
    const kept = (await s3.send(new HeadObjectCommand(presigned))).Metadata;
    t.strictSame(kept, { colour: "red + blue" });
    t.strictSame((await s3.send(new GetObjectTaggingCommand(presigned))).TagSet, TagSet);
  });

  test("versions and delete markers of a versioned bucket are listed in pages", async (t) => {
    const Bucket = "op-versions";
    await s3.send(new CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }));
    t.equal((await s3.send(new GetBucketVersioningCommand({ Bucket }))).Status, "Enabled");
    await s3.send(
      new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status: "Enabled" } }),
    );
    for (const Key of keys) {
      for (const Body of ["1", "2"]) await s3.send(new PutObjectCommand({ Bucket, Key, Body }));
    }
    await s3.send(new DeleteObjectCommand({ Bucket, Key: "a" }));
    const seen: string[] = [];
    let marker = {};
    for (let turn = 0; turn < 40; turn += 1) {
      const page = await s3.send(
        new ListObjectVersionsCommand({ Bucket, MaxKeys: 3, EncodingType: "url", ...marker }),
      );
      const decode = (text: string | undefined): string => decodeURIComponent(text ?? "");
      const rows = [...(page.Versions ?? []), ...(page.DeleteMarkers ?? [])];
      seen.push(...rows.map(({ Key, VersionId }) => `${decode(Key)} ${VersionId}`));
      if (page.IsTruncated !== true) break;
      marker = {
        KeyMarker: decode(page.NextKeyMarker),
        VersionIdMarker: page.NextVersionIdMarker,
      };
    }
    t.equal(seen.length, keys.length * 2 + 1);
    t.equal(new Set(seen).size, seen.length);
  });

  test("a spread bucket becomes versioned in one request; one refused leaves it", async (t) => {
    const Bucket = "op-becomes";
    await s3.send(new CreateBucketCommand({ Bucket }));
    await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
    const statuses = async (): Promise<readonly (string | null)[]> =>
      await Promise.all(
        (["a", "b"] as const).map(async (cluster) => {
          const asked = lab.direct(cluster).send(new GetBucketVersioningCommand({ Bucket }));
          return await asked.then(
            ({ Status }) => Status ?? "never",
            () => null,
          );
        }),
      );
    const write = (Status: "Enabled" | "Suspended", MFADelete?: "Enabled") =>
      s3.send(
        new PutBucketVersioningCommand({ Bucket, VersioningConfiguration: { Status, MFADelete } }),
      );
    // The cluster's own word, once the bucket is on its way.
    await t.rejects(write("Enabled", "Enabled"), { name: "AccessDenied" });
    const ObjectLockConfiguration = { ObjectLockEnabled: "Enabled" } as const;
    await t.rejects(
      s3.send(new PutObjectLockConfigurationCommand({ Bucket, ObjectLockConfiguration })),
      { name: "InvalidBucketState" },
    );
    t.strictSame(await statuses(), ["never", "never"]);
    t.equal((await write("Suspended")).$metadata.attempts, 1);
    t.strictSame(new Set(await statuses()), new Set(["Suspended", null]));
    // Why a bucket on several clusters may not be: it has versions from now on.
    const { DeleteMarker } = await s3.send(new DeleteObjectCommand({ Bucket, Key: "k" }));
    t.equal(DeleteMarker, true);
  });

  test("open uploads of both clusters are one list in key order", async (t) => {
    const Bucket = "op-uploads";
    await s3.send(new CreateBucketCommand({ Bucket }));
    for (const Key of keys) await s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
    const seen: string[] = [];
    let marker = {};
    for (let turn = 0; turn < 40; turn += 1) {
      const page = await s3.send(
        new ListMultipartUploadsCommand({ Bucket, MaxUploads: 3, ...marker }),
      );
      seen.push(...(page.Uploads ?? []).map(({ Key }) => Key ?? ""));
      if (page.IsTruncated !== true) break;
      marker = { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker };
    }
    t.strictSame(seen, keys.toSorted(compareKeys));
    const rolled = await s3.send(new ListMultipartUploadsCommand({ Bucket, Delimiter: "/" }));
    t.strictSame(
      rolled.CommonPrefixes?.map(({ Prefix }) => Prefix),
      ["a/"],
    );
  });

  test("what a bare radosgw does for a client it does here", async (t) => {
    await barelyTheSame(t, lab, headgate);
  });

  const seed = Number(process.env["HEADGATE_LIST_SEED"] ?? 20_261_130);
  const count = Number(process.env["HEADGATE_LIST_QUESTIONS"] ?? 60);
  const ours = { url: headgate.url, pair: clientPair };
  const theirs = {
    a: { url: lab.rgw.url("a"), pair: rgwPair },
    b: { url: lab.rgw.url("b"), pair: rgwPair },
  };

  /** Keys with versions of every kind, on both clusters: what a has of a key hides what b has. */
  async function makeOld(keys: readonly string[]): Promise<void> {
    for (const id of ["a", "b"] as const) {
      const on = theirs[id];
      const bucket = "op-old";
      const set = async (status: string): Promise<unknown> =>
        await ask(on, "PUT", { bucket, query: [["versioning", ""]] }, versioning(status));
      const some = keys.filter((_, at) => at % 7 === 0 || at % 11 === (id === "a" ? 1 : 2));
      const each = async (nth: number, method: "PUT" | "DELETE"): Promise<void> => {
        const chosen = some.filter((_, at) => at % nth === 0);
        await inParallel(chosen, 8, (key) => ask(on, method, { bucket, key }));
      };
      await ask(on, "PUT", { bucket });
      await each(3, "PUT");
      await set("Enabled");
      for (const nth of [1, 2, 3]) await each(nth, "PUT");
      await each(4, "DELETE");
      await set("Suspended");
      await each(5, "PUT");
      await each(10, "DELETE");
    }
  }

  test("lists of odd keys are S3's, whatever is asked of them", async (t) => {
    t.comment(`${count} questions of each list, from seed ${seed}`);
    const dice = new Dice(seed);
    const keys = oddKeys(dice, 200);
    const bucket = "op-odd";
    await ask(ours, "PUT", { bucket });
    await inParallel(keys, 8, (key) => ask(ours, "PUT", { bucket, key }));
    const begun = keys.slice(0, 60).flatMap((key, at) => (at % 3 === 0 ? [key, key] : [key]));
    await inParallel(begun, 8, (key) =>
      ask(ours, "POST", { bucket, key, query: [["uploads", ""]] }),
    );
    await makeOld(keys);
    const odd = new Map(keys.map((key) => [key, ["null"]] as const));
    const old = new Map([
      ...(await heldBy(theirs.b, "op-old")),
      ...(await heldBy(theirs.a, "op-old")),
    ]);
    const uploads = new Map(begun.map((key) => [key, begun.filter((other) => other === key)]));
    const lists = [
      { kind: listKinds.ListObjects, bucket, held: odd },
      { kind: listKinds.ListObjectsV2, bucket, held: odd },
      { kind: listKinds.ListObjectVersions, bucket, held: odd },
      { kind: listKinds.ListObjectVersions, bucket: "op-old", held: old },
      { kind: listKinds.ListMultipartUploads, bucket, held: uploads },
    ];
    const asked = lists.flatMap((list) =>
      Array.from({ length: count }, () => ({
        ...list,
        question: questionOf([...list.held.keys()], dice),
      })),
    );
    const differences: string[] = [];
    await inParallel(asked, 4, async ({ kind, question, ...of }) => {
      const difference = await differenceOf(kind, question, { server: ours, ...of });
      if (difference !== null) differences.push(difference);
    });
    t.strictSame(differences.slice(0, 5), [], `of ${differences.length}`);
  });

  test("an RGW lists with the habits that the fakes have", async (t) => {
    const dice = new Dice(seed);
    const differences: string[] = [];
    for (const bucket of ["op-odd", "op-old"]) {
      const held = await heldBy(theirs.a, bucket);
      for (let turn = 0; turn < count; turn += 1) {
        const question = questionOf([...held.keys()], dice);
        const difference = await habitDifference(question, { server: theirs.a, bucket, held });
        if (difference !== null) differences.push(difference);
      }
    }
    t.strictSame(differences.slice(0, 5), [], `of ${differences.length}`);
  });

  test("a client that deletes what each page shows empties a bucket", async (t) => {
    const bucket = "op-old";
    let more: Query = [];
    for (let turn = 0; turn < 400; turn += 1) {
      const query: Query = [["versions", ""], ["max-keys", "7"], ...more];
      const { body } = await ask(ours, "GET", { bucket, query });
      const reading = readVersionPage(body);
      if (reading.kind === "error") throw new Error(reading.fault);
      const { items, truncated, next } = reading.page;
      await inParallel(items, 8, async (item) => {
        const version = [["versionId", versionIdOf(item)]] as const;
        await ask(ours, "DELETE", { bucket, key: item.text, query: version });
      });
      if (!truncated || next === null) break;
      more = [
        ["key-marker", next.keyMarker],
        ["version-id-marker", next.versionIdMarker],
      ];
    }
    t.strictSame([...(await heldBy(theirs.a, bucket))], [], "an RGW alone leaves some");
  });
});

function versioning(status: string): string {
  return `<VersioningConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Status>${status}</Status></VersioningConfiguration>`;
}
