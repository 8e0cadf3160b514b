// What becomes of each field of a CopyObject, and of tags and locks of uploads in parts: on the bare RGW
// within itself, and through Headgate, where it is the same within a cluster and between two, and S3's.

import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  type CopyObjectCommandInput,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectAclCommand,
  GetObjectCommand,
  GetObjectTaggingCommand,
  HeadObjectCommand,
  ListPartsCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import { formBody, formEdge, formField, formFile, signedFields } from "../../support/s3-forms.ts";
import { clientPair } from "./headgate.ts";
import type { Lab, RealTest } from "./lab.ts";
import { until } from "./processes.ts";
import { answerOf, read, testBytes } from "./s3.ts";

/** What an object shows; null for nothing. */
interface Shown {
  readonly type: string | null;
  readonly cache: string | null;
  readonly meta: string;
  /** `a=1,b=2`. */
  readonly tags: string;
  readonly redirect: string | null;
  readonly storageClass: string | null;
  readonly lock: string | null;
  readonly hold: string | null;
  /** Of groups: `AllUsers READ`. */
  readonly acl: string;
}

async function shown(client: S3Client, Bucket: string, Key: string): Promise<Shown> {
  const of = { Bucket, Key };
  const head = await client.send(new HeadObjectCommand(of));
  const { TagSet = [] } = await client.send(new GetObjectTaggingCommand(of));
  const { Grants = [] } = await client.send(new GetObjectAclCommand(of));
  return {
    type: head.ContentType ?? null,
    cache: head.CacheControl ?? null,
    meta: JSON.stringify(head.Metadata),
    tags: TagSet.map((tag) => `${tag.Key}=${tag.Value}`).join(),
    redirect: head.WebsiteRedirectLocation ?? null,
    storageClass: head.StorageClass ?? null,
    lock: head.ObjectLockMode ?? null,
    hold: head.ObjectLockLegalHoldStatus ?? null,
    acl: Grants.flatMap(({ Grantee, Permission }) =>
      Grantee?.URI === undefined ? [] : [`${Grantee.URI.split("/").at(-1)} ${Permission}`],
    ).join(),
  };
}

/** A storage class that both clusters are given. */
const cold = "STANDARD_IA";

/** Gives a cluster that class, and waits until its radosgw has read so. */
async function addStorageClass(lab: Lab, cluster: "a" | "b", Bucket: string): Promise<void> {
  const named = ["--placement-id=default-placement", `--storage-class=${cold}`];
  const pool = `--data-pool=${cluster}.rgw.buckets.data`;
  const group = `--rgw-zonegroup=${cluster}`;
  await lab.rgw.admin(cluster, "zonegroup", "placement", "add", group, ...named);
  await lab.rgw.admin(cluster, "zone", "placement", "add", `--rgw-zone=${cluster}`, ...named, pool);
  await lab.rgw.admin(cluster, "period", "update", "--commit");
  const command = { Bucket, Key: "class", Body: "x", StorageClass: cold } as const;
  await until(`the storage class of ${cluster}`, 20_000, async () => {
    const { status } = await answerOf(lab.direct(cluster).send(new PutObjectCommand(command)));
    return status === 200 ? true : null;
  });
}

const replaced = {
  MetadataDirective: "REPLACE",
  ContentType: "text/new",
  Metadata: { n: "1" },
} as const;
const locked = {
  ObjectLockMode: "GOVERNANCE",
  ObjectLockRetainUntilDate: new Date(Date.now() + 3_600_000),
  ObjectLockLegalHoldStatus: "ON",
} as const;
const newShown = { type: "text/new", cache: null, meta: '{"n":"1"}' } as const;
const sourceShown: Shown = {
  type: "text/old",
  cache: "max-age=5",
  meta: '{"of":"source"}',
  tags: "old=1,z=a b",
  redirect: null,
  storageClass: null,
  lock: null,
  hold: null,
  acl: "",
};
/** A copy within an RGW keeps it, whatever is asked for. */
const kept = { redirect: "/r" } as const;

/** Input → what S3 makes of it, and what else a bare RGW does. */
const rows: readonly (readonly [
  input: Partial<CopyObjectCommandInput>,
  s3: Partial<Shown>,
  bare: Partial<Shown>,
])[] = [
  [{}, {}, kept],
  [{ Tagging: "new=1" }, {}, kept],
  [replaced, newShown, { tags: "" }],
  [
    { TaggingDirective: "REPLACE", Tagging: "new=1" },
    { tags: "new=1" },
    { ...kept, tags: "old=1,z=a b" },
  ],
  [{ TaggingDirective: "REPLACE" }, { tags: "" }, { ...kept, tags: "old=1,z=a b" }],
  [
    {
      ...replaced,
      TaggingDirective: "REPLACE",
      Tagging: "new=1",
    },
    { ...newShown, tags: "new=1" },
    { tags: "" },
  ],
  [{ WebsiteRedirectLocation: "/z" }, { redirect: "/z" }, kept],
  [{ ACL: "public-read" }, { acl: "AllUsers READ" }, kept],
  [
    { GrantRead: "uri=http://acs.amazonaws.com/groups/global/AuthenticatedUsers" },
    { acl: "AuthenticatedUsers READ" },
    kept,
  ],
  [{ StorageClass: "STANDARD" }, { storageClass: "STANDARD" }, kept],
  [{ StorageClass: cold }, { storageClass: cold }, kept],
];

/** Those that are refused → by Headgate, by a bare RGW. */
const refused: readonly (readonly [Partial<CopyObjectCommandInput>, number, number])[] = [
  [{ StorageClass: "GLACIER" }, 400, 400],
  [{ GrantRead: "id=nobody" }, 404, 404],
  // Not over plain HTTP; a copy within an RGW would be there without.
  [{ ServerSideEncryption: "AES256" }, 400, 200],
];

/** Uploads in two parts, past a helper that would take one for what is short. @returns the content */
async function putInParts(
  client: S3Client,
  to: { readonly Bucket: string; readonly Key: string; readonly Tagging?: string },
): Promise<Buffer> {
  const { Bucket, Key } = to;
  const body = testBytes(5 * 1024 * 1024 + 7, Key);
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(to));
  const Parts: { readonly PartNumber: number; readonly ETag: string | undefined }[] = [];
  for (const [index, Body] of [body.subarray(0, -7), body.subarray(-7)].entries()) {
    const part = { Bucket, Key, UploadId, PartNumber: index + 1, Body };
    const { ETag } = await client.send(new UploadPartCommand(part));
    Parts.push({ PartNumber: part.PartNumber, ETag });
  }
  const whole = { Bucket, Key, UploadId, MultipartUpload: { Parts } };
  await client.send(new CompleteMultipartUploadCommand(whole));
  return body;
}

/** Uploads as a browser does. */
async function postForm(
  url: string,
  {
    bucket,
    fields,
    content,
  }: {
    readonly bucket: string;
    readonly fields: readonly (readonly [name: string, value: string])[];
    readonly content: Buffer;
  },
): Promise<{ readonly status: number; readonly text: string }> {
  const conditions = fields.map(([name]) => ["starts-with", `$${name}`, ""]);
  const form = formBody([
    ...fields.map(([name, value]) => formField(name, value)),
    ...signedFields([{ bucket }, ...conditions], { keys: clientPair }),
    formFile(content),
  ]);
  const answer = await fetch(`${url}/${bucket}`, {
    method: "POST",
    headers: { "content-type": `multipart/form-data; boundary=${formEdge}` },
    body: Buffer.from(form),
  });
  return { status: answer.status, text: await answer.text() };
}

export function copyFieldsSuite(
  lab: Lab,
  test: RealTest,
  { client, url }: { readonly client: S3Client; readonly url: string },
): void {
  const a = lab.direct("a");
  const b = lab.direct("b");
  const places = [
    ["near", client, "locks-a"],
    ["far", client, "locks-b"],
    ["bare", a, "locks-a"],
  ] as const;
  const obeysLock = lab.rgw.generation === 18;

  test("every field of a copy means what S3 says, within a cluster and between two", async (t) => {
    for (const [direct, Bucket] of [
      [a, "locks-a"],
      [b, "locks-b"],
    ] as const) {
      await direct.send(new CreateBucketCommand({ Bucket, ObjectLockEnabledForBucket: true }));
    }
    const CopySource = "locks-a/described";
    const source = {
      Bucket: "locks-a",
      Key: "described",
      Body: "x",
      ContentType: "text/old",
      CacheControl: "max-age=5",
      Metadata: { of: "source" },
      Tagging: "old=1&z=a%20b",
      WebsiteRedirectLocation: "/r",
      ACL: "public-read",
    } as const;
    await a.send(new PutObjectCommand(source));
    await a.send(new PutObjectCommand({ ...source, ...locked, Key: "locked" }));
    await Promise.all([addStorageClass(lab, "a", "locks-a"), addStorageClass(lab, "b", "locks-b")]);
    await a.send(new PutObjectCommand({ ...source, StorageClass: cold, Key: "cold" }));
    const bareLock = obeysLock ? {} : { lock: null, hold: null };
    const inherited = obeysLock ? {} : { lock: "GOVERNANCE", hold: "ON" };
    for (const [from, input, s3, bare] of [
      ...rows.map((row) => [CopySource, ...row] as const),
      [CopySource, locked, { lock: "GOVERNANCE", hold: "ON" }, { ...kept, ...bareLock }],
      ["locks-a/locked", {}, {}, { ...kept, ...inherited }],
      ["locks-a/cold", {}, {}, { ...kept, storageClass: cold }],
    ] as const) {
      for (const [place, by, Bucket] of places) {
        const to = { Bucket, Key: "copy" };
        await by.send(new CopyObjectCommand({ ...to, CopySource: from, ...input }));
        const found = await shown(Bucket === "locks-a" ? a : b, Bucket, "copy");
        const wanted = { ...sourceShown, ...s3, ...(place === "bare" ? bare : {}) };
        t.strictSame(found, wanted, `${place}: ${from} ${JSON.stringify(input)}`);
      }
    }
    for (const [input, through, bare] of refused) {
      for (const [place, by, Bucket] of places) {
        const sent = by.send(new CopyObjectCommand({ Bucket, Key: "no", CopySource, ...input }));
        const wanted = place === "bare" ? bare : through;
        t.equal((await answerOf(sent)).status, wanted, `${place}: ${JSON.stringify(input)}`);
      }
    }
  });

  test("an object in parts has its tags and its lock", async (t) => {
    // An RGW takes neither when an upload begins, nor can it read what it keeps of the tags.
    const of = { Bucket: "locks-a", Key: "in-parts" };
    const body = await putInParts(client, { ...of, Tagging: "a=1" });
    t.match(await shown(client, of.Bucket, of.Key), { tags: "", lock: null });
    await client.send(
      new CopyObjectCommand({ Bucket: "locks-b", Key: "c", CopySource: "locks-a/in-parts" }),
    );
    t.match(await shown(b, "locks-b", "c"), { tags: "" });
    const Tagging = { TagSet: [{ Key: "b", Value: "2" }] };
    await client.send(new PutObjectTaggingCommand({ ...of, Tagging }));
    for (const Bucket of ["locks-a", "locks-b"]) {
      const direct = Bucket === "locks-a" ? a : b;
      for (const [input, tags, lock] of [
        [{}, "b=2", null],
        [{ TaggingDirective: "REPLACE", Tagging: "c=3" }, "c=3", null],
        [locked, "b=2", "GOVERNANCE"],
      ] as const) {
        const to = { Bucket, Key: "of-parts", CopySource: "locks-a/in-parts" };
        await client.send(new CopyObjectCommand({ ...to, ...input }));
        t.match(await shown(direct, Bucket, "of-parts"), { tags, lock }, `${Bucket} ${tags}`);
        const content = Buffer.from((await read(direct, Bucket, "of-parts")) ?? "");
        t.ok(content.equals(body), "whole");
      }
    }
    const date = new Date(Date.now() + 3_600_000).toISOString();
    const tagging = "<Tagging><TagSet><Tag><Key>d</Key><Value>4</Value></Tag></TagSet></Tagging>";
    const fields = [
      ["key", "form"],
      ["tagging", tagging],
      ["x-amz-object-lock-mode", "GOVERNANCE"],
      ["x-amz-object-lock-retain-until-date", date],
      ["x-amz-object-lock-legal-hold", "ON"],
    ] as const;
    // Surely longer than what is put whole.
    const content = testBytes(6 * 1024 * 1024, "form");
    const answer = await postForm(url, { bucket: "locks-b", fields, content });
    t.equal(answer.status, 204, answer.text);
    const stored = await shown(b, "locks-b", "form");
    t.match(stored, { tags: "d=4", lock: "GOVERNANCE", hold: "ON" });
    // What is refused leaves the object that stood at the key.
    const stands = { Bucket: "unlocked", Key: "form" };
    await client.send(new CreateBucketCommand({ Bucket: stands.Bucket }));
    await client.send(new PutObjectCommand({ ...stands, Body: "precious" }));
    const tag = (name: string): string => `<Tag><Key>${name}</Key><Value>1</Value></Tag>`;
    const tags = Array.from({ length: 11 }, (_, at) => tag(`a${at}`));
    for (const [name, value, code] of [
      ["tagging", `<Tagging><TagSet>${tags.join("")}</TagSet></Tagging>`, "BadRequest"],
      ["tagging", `<Tagging><TagSet>${tag("a".repeat(200))}</TagSet></Tagging>`, "InvalidTag"],
      ["x-amz-object-lock-legal-hold", "ON", "InvalidRequest"],
    ] as const) {
      const refusedFields = [["key", "form"] as const, [name, value] as const];
      const form = { bucket: stands.Bucket, fields: refusedFields, content };
      t.match(await postForm(url, form), { status: 400, text: `<Code>${code}</Code>` });
      const standing = (await read(client, stands.Bucket, stands.Key)) ?? "";
      t.equal(Buffer.from(standing).toString(), "precious", code);
    }
  });

  test("what a customer encrypted is copied with its key", async (t) => {
    // As over TLS, which the lab has none of.
    await Promise.all(
      (["a", "b"] as const).map((id) => lab.rgw.configure(id, "rgw_crypt_require_ssl", "false")),
    );
    const [source, target] = ["s", "t"].map((letter) =>
      Buffer.alloc(32, letter).toString("base64"),
    );
    const key = { SSECustomerAlgorithm: "AES256", SSECustomerKey: target };
    const from = { CopySourceSSECustomerAlgorithm: "AES256", CopySourceSSECustomerKey: source };
    const CopySource = "locks-a/secret";
    const put = { Bucket: "locks-a", Key: "secret", Body: "secret", Tagging: "a=1" };
    await until("radosgw to take keys", 20_000, async () => {
      const command = new PutObjectCommand({ ...put, ...key, SSECustomerKey: source });
      return (await answerOf(client.send(command))).status === 200 ? true : null;
    });
    for (const [place, by, Bucket] of [
      ["near", client, "locks-a"],
      ["far", client, "locks-b"],
      ["bare", a, "locks-a"],
    ] as const) {
      const to = { Bucket, Key: "copy", CopySource };
      const copied = await answerOf(by.send(new CopyObjectCommand({ ...to, ...from, ...key })));
      t.equal(copied.status, place === "bare" ? 501 : 200, place);
      const without = await answerOf(by.send(new CopyObjectCommand({ ...to, ...key })));
      t.equal(without.status, place === "bare" ? 501 : 400, `${place}, without the source's key`);
      const of = { Bucket, Key: "parts" };
      const { UploadId } = await by.send(new CreateMultipartUploadCommand({ ...of, ...key }));
      const part = { ...of, UploadId, PartNumber: 1, CopySource, ...from, ...key };
      const sent = await answerOf(by.send(new UploadPartCopyCommand(part)));
      t.equal(sent.status, place === "bare" ? 400 : 200, `${place}, a part`);
      if (place === "bare") continue;
      const { Parts } = await by.send(new ListPartsCommand({ ...of, UploadId }));
      await by.send(
        new CompleteMultipartUploadCommand({ ...of, UploadId, MultipartUpload: { Parts } }),
      );
      for (const Key of ["copy", "parts"]) {
        const closed = await answerOf(client.send(new GetObjectCommand({ Bucket, Key })));
        t.equal(closed.status, 400, `${place}: ${Key} is not to be read without a key`);
        const open = await client.send(new GetObjectCommand({ Bucket, Key, ...key }));
        t.equal(await open.Body?.transformToString(), "secret");
      }
    }
  });
}
