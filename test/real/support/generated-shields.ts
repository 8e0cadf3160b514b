// What kills a radosgw or steers it past its caller's rights, with generated names: sources of parts that
// it cannot read, copies that nobody signed, sub-resources that it does not know, fields that it takes for
// x-amz-*. The RGW is read after each: it lives, and nothing happened that was not asked for.

import assert from "node:assert/strict";
import {
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectAclCommand,
  ListObjectsV2Command,
  ListPartsCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import fc from "fast-check";
import { type OperationFacts, operationFacts } from "../../../proxy/s3/operation.ts";
import { encodePath } from "../../../proxy/s3/percent.ts";
import { bodies, generated, keys, nextNumber } from "./generated.ts";
import { md5, type Scene, storedAt } from "./generated-uploads.ts";
import { askRaw, type RawAnswer, type RawRequest } from "./raw-request.ts";
import { answerOf } from "./s3.ts";

const facts: readonly OperationFacts[] = Object.values(operationFacts);

/** Of every operation that a query name makes one, but those that a plain request is, too. */
function subresourcesOf(scope: "bucket" | "object"): readonly string[] {
  const names = facts.filter((one) => one.scope === scope).map(({ subresource }) => subresource);
  return [...new Set(names)].filter((name) => name !== null);
}

/** A name that is no operation's, as RGW takes all of them. */
const unknownNames = fc.stringMatching(/^[a-z]{3,12}Configuration$/);

export function shieldProperties(scene: Scene): void {
  const { lab, bucket, client, direct, headgate } = scene;
  const property = (name: string) => ({ ...scene, name });
  const pathOf = (key: string) => encodePath(`/${bucket}/${key}`);
  const ask = async (request: RawRequest): Promise<RawAnswer> =>
    await askRaw(headgate.url, request);

  const percentKeys = fc
    .tuple(keys, fc.constantFrom("%", "%2", "%zz", "%41", "%25"))
    .map(([key, escape]) => `${key}${escape}${nextNumber()}`);

  generated(
    property("a part is copied from a key that kills a radosgw"),
    fc.record({
      source: percentKeys,
      to: keys,
      body: bodies(2),
      part: fc.nat(9999),
      slash: fc.boolean(),
      cut: fc.boolean(),
    }),
    async ({ source, to, body, part, slash, cut }) => {
      await client.send(new PutObjectCommand({ Bucket: bucket, Key: source, Body: body }));
      const at = { Bucket: bucket, Key: to };
      const { UploadId = "" } = await client.send(new CreateMultipartUploadCommand(at));
      const range = [1, Math.floor(body.length / 2)] as const;
      const wanted = cut ? body.subarray(range[0], range[1] + 1) : body;
      const answer = await ask({
        method: "PUT",
        path: pathOf(to),
        query: `partNumber=${part + 1}&uploadId=${encodeURIComponent(UploadId)}`,
        headers: [
          ["x-amz-copy-source", pathOf(source).slice(slash ? 0 : 1)],
          ...(cut ? [["x-amz-copy-source-range", `bytes=${range.join("-")}`] as const] : []),
        ],
      });
      assert.equal(answer.status, 200, answer.body.toString());
      assert.match(answer.body.toString(), new RegExp(`(&quot;|")${md5(wanted)}`));
      const { Parts } = await client.send(new ListPartsCommand({ ...at, UploadId }));
      const parts = Parts?.map(({ PartNumber, Size, ETag }) => [PartNumber, Size, ETag]);
      assert.deepEqual(parts, [[part + 1, wanted.length, `"${md5(wanted)}"`]]);
    },
  );

  generated(
    property("no source that is empty, malformed or absent reaches a radosgw as a part"),
    fc.record({
      key: keys,
      absent: percentKeys,
      escape: fc.constantFrom("%", "%zz", "%2", "%%", "%\u0020"),
    }),
    async ({ key, absent, escape }) => {
      const at = { Bucket: bucket, Key: key };
      const { UploadId = "" } = await client.send(new CreateMultipartUploadCommand(at));
      const sources = [
        `/${bucket}/`,
        `${bucket}/`,
        `/${bucket}`,
        pathOf(absent),
        `${pathOf(absent)}${escape}`,
      ];
      for (const source of sources) {
        for (const id of [UploadId, "made-up"]) {
          for (const anonymous of [false, true]) {
            const query = `partNumber=1&uploadId=${encodeURIComponent(id)}`;
            const headers = [["x-amz-copy-source", source]] as const;
            const request = { method: "PUT", path: pathOf(key), query, headers, anonymous };
            const { status, code } = await ask(request);
            assert.ok(status >= 400 && status < 500, `${source}: ${status} ${code}`);
            if (anonymous) assert.equal(status, 403);
            assert.deepEqual(lab.rgw.dead(), [], source);
          }
        }
      }
      const { Parts } = await client.send(new ListPartsCommand({ ...at, UploadId }));
      assert.equal(Parts, undefined, "no empty part either");
    },
  );

  generated(
    property("nobody copies unsigned, not even what everybody may read and write"),
    fc.record({
      from: keys,
      to: keys,
      body: bodies(1),
      name: fc.constantFrom(
        "x-amz-copy-source",
        "X-Amz-Copy-Source",
        "x-amz-copy_source",
        "x-goog-copy-source",
      ),
    }),
    async ({ from, to, body, name }) => {
      const ACL = "public-read-write";
      const Bucket = `open-${nextNumber()}`;
      await direct.send(new CreateBucketCommand({ Bucket, ACL }));
      await direct.send(new PutObjectCommand({ Bucket, Key: from, Body: body, ACL }));
      const headers = [[name, encodePath(`/${Bucket}/${from}`)]] as const;
      const path = encodePath(`/${Bucket}/${to}`);
      const { status } = await ask({
        method: "PUT",
        path,
        headers,
        anonymous: true,
        body: Buffer.alloc(0),
      });
      // A name with an underscore is refused as such.
      assert.equal(status, name.includes("_") ? 400 : 403);
      const { Contents = [] } = await direct.send(new ListObjectsV2Command({ Bucket }));
      assert.deepEqual(
        Contents.map(({ Key }) => Key),
        [from],
      );
    },
  );

  generated(
    property("a sub-resource is never a list, the object, its deletion or a new bucket"),
    fc.record({
      inBucket: fc.shuffledSubarray([...subresourcesOf("bucket")], { minLength: 6, maxLength: 6 }),
      inObject: fc.shuffledSubarray([...subresourcesOf("object")], { minLength: 4, maxLength: 4 }),
      id: fc.option(fc.stringMatching(/^[a-z]{1,8}$/), { nil: null }),
      key: keys,
      body: bodies(40),
    }),
    async ({ inBucket, inObject, id, key, body }) => {
      const [Bucket, absent] = [`sub-${nextNumber()}`, `none-${nextNumber()}`];
      await client.send(new CreateBucketCommand({ Bucket }));
      await client.send(new PutObjectCommand({ Bucket, Key: key, Body: body }));
      const inside = { ...scene, bucket: Bucket };
      for (const [names, path] of [
        [inBucket, `/${Bucket}`],
        [inBucket, `/${absent}`],
        [inObject, encodePath(`/${Bucket}/${key}`)],
      ] as const) {
        for (const name of names) {
          for (const method of ["GET", "PUT", "DELETE", "POST"]) {
            const query = id === null ? `${name}=` : [`${name}=`, `id=${id}`].toSorted().join("&");
            const document =
              method === "PUT" || method === "POST" ? { body: Buffer.from("<x/>") } : {};
            const answer = await ask({ method, path, query, ...document });
            const what = `${method} ${path}?${query}: ${answer.status} ${answer.code}`;
            const text = answer.body.toString("latin1");
            assert.ok(answer.status < 500 || answer.status === 501, what);
            assert.doesNotMatch(text, /<ListBucketResult/, what);
            assert.ok(!answer.body.includes(body), what);
          }
        }
      }
      assert.ok((await storedAt(inside, key))?.bytes.equals(body), "the object is as it was");
      const listed = direct.send(new ListObjectsV2Command({ Bucket: absent }));
      assert.equal((await answerOf(listed)).code, "NoSuchBucket");
    },
  );

  generated(
    property("a name that is no sub-resource changes nothing but what was asked"),
    fc.record({ name: unknownNames, key: keys, body: bodies(1) }),
    async ({ name, key, body }) => {
      const put = { method: "PUT", path: pathOf(key), query: `${name}=`, body };
      const stored = await ask(put);
      const found = await storedAt(scene, key);
      if (stored.status === 200) assert.ok(found?.bytes.equals(body));
      else assert.equal(found, null, `${stored.status}`);
    },
  );

  generated(
    property("fields that an RGW takes for x-amz-* and Accept say nothing to it"),
    fc.record({
      prefix: fc.constantFrom(
        "x-goog-",
        "x-rgw-",
        "x-dho-",
        "x-emc-",
        "x-object-",
        "x-container-",
        "x-account-",
      ),
      upper: fc.boolean(),
      key: keys,
      body: bodies(1),
      accept: fc.constantFrom(
        "application/json",
        "text/plain",
        "application/json;q=0.9, */*;q=0.1",
      ),
      own: fc.stringMatching(/^[a-z]{1,10}$/),
    }),
    async ({ prefix, upper, key, body, accept, own }) => {
      const other = `${key} other`;
      await client.send(
        new PutObjectCommand({ Bucket: bucket, Key: other, Body: "another content" }),
      );
      const foreign = upper ? prefix.toUpperCase() : prefix;
      const unsigned = [
        [`${foreign}meta-${own}`, "x"],
        [`${foreign}acl`, "public-read"],
        [`${foreign}grant-read`, 'uri="http://acs.amazonaws.com/groups/global/AllUsers"'],
        [`${foreign}copy-source`, pathOf(other)],
        [`${foreign}storage-class`, "NOWHERE"],
        [`${foreign}website-redirect-location`, "/elsewhere"],
        [`${foreign}tagging`, `${own}=1`],
        ["accept", accept],
      ] as const;
      const path = pathOf(key);
      const stored = await ask({ method: "PUT", path, body, unsigned });
      assert.equal(stored.status, 200, stored.body.toString());
      const found = await storedAt(scene, key);
      assert.ok(found?.bytes.equals(body), "the body, and no copy");
      assert.deepEqual(found?.metadata, {});
      const acl = await direct.send(new GetObjectAclCommand({ Bucket: bucket, Key: key }));
      assert.equal(acl.Grants?.length, 1, "its owner's");
      const got = await ask({ method: "GET", path });
      for (const name of ["x-amz-website-redirect-location", "x-amz-tagging-count"]) {
        assert.equal(got.headers[name], undefined, name);
      }
      const listed = await ask({
        method: "GET",
        path: `/${bucket}`,
        query: "max-keys=1",
        unsigned,
      });
      assert.match(listed.headers["content-type"] ?? "", /xml/);
      assert.match(listed.body.toString(), /^<\?xml/);
      // So it is not for nothing: the RGW itself reads them.
      const bare = await fetch(`${lab.rgw.url("a")}/`, { headers: { accept: "application/json" } });
      assert.match(await bare.text(), /^\[/, "bare: a list in JSON");
    },
  );
}
