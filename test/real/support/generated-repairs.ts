// What an RGW ignores, misreads or leaves out, with generated keys, bodies, parts, ETags and metadata, as
// S3 answers it. After every refusal the RGW itself is read: nothing was changed.

import assert from "node:assert/strict";
import {
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectsCommand,
  GetObjectAttributesCommand,
  ListObjectsCommand,
  PutObjectCommand,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import fc from "fast-check";
import { encodeComponent, encodePath } from "../../../proxy/s3/percent.ts";
import { bodies, generated, keys, metadata, nextNumber } from "./generated.ts";
import { md5, type Scene, storedAt } from "./generated-uploads.ts";
import { askRaw, type RawAnswer, type RawRequest } from "./raw-request.ts";
import { answerOf, inParallel } from "./s3.ts";

const mebibyte = 2 ** 20;

type Field = readonly [string, string];

export function repairProperties(scene: Scene): void {
  const { bucket, client, headgate } = scene;
  const property = (name: string) => ({ ...scene, name });
  const pathOf = (key: string) => encodePath(`/${bucket}/${key}`);
  const ask = async (request: RawRequest): Promise<RawAnswer> =>
    await askRaw(headgate.url, request);
  const put = async (key: string, body: Buffer, headers: readonly Field[] = []) =>
    await ask({ method: "PUT", path: pathOf(key), headers, body });
  const contentOf = async (key: string) => (await storedAt(scene, key))?.bytes;

  generated(
    property("conditions of PutObject are obeyed however their ETag is written"),
    fc.record({
      key: keys,
      first: bodies(),
      later: bodies(1),
      other: fc.uuid(),
      bare: fc.boolean(),
    }),
    async ({ key, first, later, other, bare }) => {
      const tag = (of: string) => (bare ? of : `"${of}"`);
      const [is, not] = [tag(md5(first)), tag(other.replaceAll("-", ""))];
      assert.equal((await put(key, first, [["if-match", is]])).status, 404, "absent");
      assert.equal((await put(key, first, [["if-none-match", "*"]])).status, 200);
      for (const condition of [
        ["if-none-match", "*"],
        ["if-none-match", is],
        ["if-none-match", `W/"${md5(first)}"`],
        ["if-match", not],
      ] as const) {
        const refused = await put(key, later, [condition]);
        assert.equal(
          `${refused.status} ${refused.code}`,
          "412 PreconditionFailed",
          condition.join(),
        );
        assert.ok((await contentOf(key))?.equals(first));
      }
      assert.equal((await put(key, later, [["if-match", is]])).status, 200);
      assert.equal((await put(key, first, [["if-none-match", is]])).status, 200);
      assert.equal((await put(key, later, [["if-match", "*"]])).status, 200);
      assert.ok((await contentOf(key))?.equals(later));
    },
  );

  generated(
    property("no condition of DELETE, Complete, copy or bulk delete is ignored"),
    fc.record({
      key: keys,
      body: bodies(),
      other: bodies(),
      names: fc.shuffledSubarray([...writeConditions], { minLength: 2 }),
    }),
    async ({ key, body, other, names }) => {
      assert.equal((await put(key, body)).status, 200);
      const source = `${key} source`;
      assert.equal((await put(source, other)).status, 200);
      const at = { Bucket: bucket, Key: key };
      const { UploadId = "" } = await client.send(new CreateMultipartUploadCommand(at));
      const part = { ...at, UploadId, PartNumber: 1, Body: other };
      const { ETag } = await client.send(new UploadPartCommand(part));
      const xml = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${ETag}</ETag></Part></CompleteMultipartUpload>`;
      const query = `uploadId=${encodeComponent(UploadId)}`;
      const path = pathOf(key);
      for (const name of names) {
        const condition: Field = [name, conditionValue(name, body)];
        for (const request of [
          { method: "DELETE", path, headers: [condition] },
          { method: "POST", path, query, headers: [condition], body: Buffer.from(xml) },
          {
            method: "PUT",
            path,
            headers: [condition, ["x-amz-copy-source", pathOf(source)] as const],
          },
        ]) {
          const refused = await ask(request);
          const seen = `${refused.status} ${refused.code}`;
          assert.equal(seen, "501 NotImplemented", `${request.method} ${condition.join()}`);
          assert.ok((await contentOf(key))?.equals(body));
        }
      }
      const Objects = [{ Key: key, ETag: `"${md5(body)}"` }];
      const bulk = new DeleteObjectsCommand({ Bucket: bucket, Delete: { Objects } });
      const { Errors = [] } = await client.send(bulk);
      assert.deepEqual([Errors[0]?.Key, Errors[0]?.Code], [key, "NotImplemented"]);
      assert.ok((await contentOf(key))?.equals(body));
      const done = await ask({ method: "POST", path, query, body: Buffer.from(xml) });
      assert.equal(done.status, 200, "the upload is still open");
    },
  );

  generated(
    property("a copy obeys conditions on its source, and tells an ETag in quotes"),
    fc.record({ from: keys, to: keys, body: bodies(), about: metadata, bare: fc.boolean() }),
    async ({ from, to, body, about, bare }) => {
      const fields = Object.entries(about).map(
        ([name, text]) => [`x-amz-meta-${name}`, text] as const,
      );
      assert.equal((await put(from, body, fields)).status, 200);
      const tag = (of: string) => (bare ? of : `"${of}"`);
      const copy = async (given: object) => {
        const CopySource = pathOf(from);
        const target = { Bucket: bucket, Key: to, CopySource, ...given };
        return await client.send(new CopyObjectCommand(target));
      };
      for (const given of [
        { CopySourceIfMatch: tag(md5(Buffer.from(from))) },
        { CopySourceIfNoneMatch: tag(md5(body)) },
      ]) {
        assert.equal((await answerOf(copy(given))).status, 412, JSON.stringify(given));
        assert.equal(await storedAt(scene, to), null);
      }
      const { CopyObjectResult } = await copy({ CopySourceIfMatch: tag(md5(body)) });
      assert.equal(CopyObjectResult?.ETag, `"${md5(body)}"`);
      assert.ok(CopyObjectResult.LastModified instanceof Date);
      const copied = await storedAt(scene, to);
      assert.ok(copied?.bytes.equals(body));
      assert.deepEqual(copied?.metadata, about);
    },
  );

  generated(
    property("an object of one part has attributes, its part, and 304 with its ETag"),
    fc.record({
      key: keys,
      body: bodies(),
      part: fc.integer({ min: 2, max: 10_000 }),
      age: fc.string({ unit: fc.constantFrom("0", "1", "7"), minLength: 1, maxLength: 4 }),
    }),
    async ({ key, body, part, age }) => {
      const path = pathOf(key);
      assert.equal((await put(key, body, [["cache-control", `max-age=${age}`]])).status, 200);
      const attributes = await client.send(
        new GetObjectAttributesCommand({
          Bucket: bucket,
          Key: key,
          ObjectAttributes: ["ETag", "ObjectSize", "ObjectParts"],
        }),
      );
      assert.equal(attributes.ETag, md5(body));
      assert.equal(attributes.ObjectSize, body.length);
      assert.equal(attributes.ObjectParts, undefined);

      const whole = await ask({ method: "GET", path, query: "partNumber=1" });
      assert.ok(whole.body.equals(body));
      const wanted = body.length === 0 ? undefined : `bytes 0-${body.length - 1}/${body.length}`;
      assert.equal(whole.headers["content-range"], wanted);
      const beyond = await ask({ method: "GET", path, query: `partNumber=${part}` });
      assert.equal(`${beyond.status} ${beyond.code}`, "416 InvalidPartNumber");

      const tag = `"${md5(body)}"`;
      for (const value of [tag, md5(body), `W/${tag}`, `"${age}", ${tag}`, "*"]) {
        for (const method of ["GET", "HEAD"]) {
          const same = await ask({ method, path, headers: [["if-none-match", value]] });
          assert.equal(same.status, 304, `${method} ${value}`);
          assert.equal(same.headers.etag, tag);
          // What RGW 16.2 judges by itself it answers without.
          const isBare = scene.lab.rgw.generation === 16 && !/[,*]/.test(value);
          const control = isBare ? undefined : `max-age=${age}`;
          assert.equal(same.headers["cache-control"], control, value);
          assert.equal(same.body.length, 0);
        }
      }
    },
  );

  generated(
    property("an object of several parts tells its ETag, how many there are, and each of them"),
    fc.record({
      key: keys,
      even: fc.boolean(),
      size: fc.integer({ min: 0, max: 70_000 }),
      last: fc.integer({ min: 1, max: 5 * mebibyte }),
      count: fc.integer({ min: 2, max: 3 }),
    }),
    async ({ key, even, size, last, count }) => {
      const partBytes = 5 * mebibyte + (even ? 0 : size);
      const bodiesOf = Array.from({ length: count }, (_, at) =>
        Buffer.alloc(at === count - 1 ? last : partBytes + (even ? 0 : at), `${key}${at}`),
      );
      const at = { Bucket: bucket, Key: key };
      const { UploadId } = await client.send(new CreateMultipartUploadCommand(at));
      const Parts: CompletedPart[] = [];
      for (const [index, Body] of bodiesOf.entries()) {
        const PartNumber = index + 1;
        const sent = new UploadPartCommand({ ...at, UploadId, PartNumber, Body });
        Parts.push({ PartNumber, ETag: (await client.send(sent)).ETag });
      }
      const complete = { ...at, UploadId, MultipartUpload: { Parts } };
      const done = await client.send(new CompleteMultipartUploadCommand(complete));
      const digests = bodiesOf.map((each) => Buffer.from(md5(each), "hex"));
      const etag = `${md5(Buffer.concat(digests))}-${count}`;
      assert.equal(done.ETag, `"${etag}"`);
      const attributes = await client.send(
        new GetObjectAttributesCommand({
          ...at,
          ObjectAttributes: ["ETag", "ObjectSize", "ObjectParts"],
        }),
      );
      const sizeBytes = bodiesOf.reduce((sum, each) => sum + each.length, 0);
      assert.equal(attributes.ETag, etag);
      assert.equal(attributes.ObjectSize, sizeBytes);
      assert.equal(attributes.ObjectParts?.TotalPartsCount, count);
      let first = 0;
      for (const [index, each] of bodiesOf.entries()) {
        const query = `partNumber=${index + 1}`;
        const got = await ask({ method: "GET", path: pathOf(key), query });
        // Where the parts begin cannot be told of every object; the whole of it is never a part.
        assert.equal(got.status, even || got.status === 206 ? 206 : 501);
        if (got.status === 206) {
          assert.ok(got.body.equals(each), `part ${index + 1}`);
          const range = `bytes ${first}-${first + each.length - 1}/${sizeBytes}`;
          assert.equal(got.headers["content-range"], range);
          assert.equal(got.headers["x-amz-mp-parts-count"], String(count));
        }
        first += each.length;
      }
      const beyond = { method: "GET", path: pathOf(key), query: `partNumber=${count + 1}` };
      assert.equal((await ask(beyond)).code, "InvalidPartNumber");
    },
  );

  generated(
    property("every error says what is wrong, in words and with its request"),
    fc.record({ key: keys, body: bodies(1), absent: fc.stringMatching(/^[a-z]{3,20}-none$/) }),
    async ({ key, body, absent }) => {
      const path = pathOf(key);
      assert.equal((await put(key, body)).status, 200);
      const gone = pathOf(`${key} absent`);
      const range: Field = ["range", `bytes=${body.length}-`];
      const rows: readonly (readonly [string, RawRequest])[] = [
        ["NoSuchKey", { method: "GET", path: gone }],
        ["NoSuchKey", { method: "GET", path: gone, query: "tagging=" }],
        ["NoSuchBucket", { method: "GET", path: `/${absent}` }],
        ["NoSuchBucket", { method: "PUT", path: encodePath(`/${absent}/${key}`), body }],
        ["NoSuchUpload", { method: "DELETE", path, query: `uploadId=${absent}` }],
        ["InvalidRange", { method: "GET", path, headers: [range] }],
        ["BadDigest", { method: "PUT", path, body, headers: [["content-md5", md5of(key)]] }],
        ["InvalidArgument", { method: "PUT", path: `/${bucket}`, query: "policy=", body }],
        ["PreconditionFailed", { method: "GET", path, headers: [["if-match", `"${absent}"`]] }],
      ];
      for (const [code, request] of rows) {
        const { code: told, body: document, headers } = await ask(request);
        const text = document.toString();
        assert.equal(told, code, `${request.method} ${request.query ?? ""}: ${text}`);
        assert.match(text, /<Message>[^<]{8,}<\/Message>/, code);
        const id = headers["x-amz-request-id"];
        assert.ok(typeof id === "string" && text.includes(`<RequestId>${id}</RequestId>`), text);
        assert.match(headers["content-type"] ?? "", /^application\/xml/);
      }
      assert.ok((await contentOf(key))?.equals(body));
    },
  );

  generated(
    property("a list in pages under encoding-type=url ends, and has every key once"),
    fc.record({
      names: fc.array(keys, { minLength: 3, maxLength: 9 }),
      size: fc.integer({ min: 1, max: 3 }),
      delimiter: fc.constantFrom("/", "%", " ", ""),
    }),
    async ({ names, size, delimiter }) => {
      const Bucket = `list-${nextNumber()}`;
      await client.send(new CreateBucketCommand({ Bucket }));
      await inParallel(names, 4, (Key) => client.send(new PutObjectCommand({ Bucket, Key })));
      const seen: string[] = [];
      let Marker = "";
      for (let page = 0; page < 40; page += 1) {
        const answer = await client.send(
          new ListObjectsCommand({
            Bucket,
            MaxKeys: size,
            EncodingType: "url",
            ...(delimiter === "" ? {} : { Delimiter: delimiter }),
            ...(Marker === "" ? {} : { Marker }),
          }),
        );
        const found = (answer.Contents ?? []).map(({ Key }) => fromUrl(Key));
        const rolled = (answer.CommonPrefixes ?? []).map(({ Prefix }) => fromUrl(Prefix));
        const rows = [...found, ...rolled].toSorted(byBytes);
        assert.ok(rows.length <= size);
        seen.push(...rows);
        if (answer.IsTruncated !== true) break;
        if (delimiter !== "") assert.equal(fromUrl(answer.NextMarker), rows.at(-1));
        Marker = rows.at(-1) ?? "";
      }
      const wanted = names.map((name) => {
        const at = delimiter === "" ? -1 : name.indexOf(delimiter);
        return at === -1 ? name : name.slice(0, at + delimiter.length);
      });
      assert.deepEqual(seen, [...new Set(wanted)].toSorted(byBytes));
    },
  );
}

const writeConditions = [
  "if-match",
  "if-none-match",
  "if-unmodified-since",
  "x-amz-if-match-size",
  "x-amz-if-match-last-modified-time",
] as const;

/** One that holds for the object, which must not be taken for obeyed either. */
function conditionValue(name: (typeof writeConditions)[number], body: Buffer): string {
  if (name === "if-match") return `"${md5(body)}"`;
  if (name === "if-none-match") return '"other"';
  return name === "x-amz-if-match-size" ? String(body.length) : new Date().toUTCString();
}

function md5of(text: string): string {
  return Buffer.from(md5(Buffer.from(text)), "hex").toString("base64");
}

function byBytes(left: string, right: string): number {
  return Buffer.compare(Buffer.from(left), Buffer.from(right));
}

function fromUrl(text: string | undefined): string {
  return decodeURIComponent((text ?? "").replaceAll("+", " "));
}
