// Conditions of writes and the ends of uploads over an upstream with RGW's habits: obeyed or 501, and
// what a client is told was stored is what its cluster holds.

import { createHash } from "node:crypto";
import { CreateBucketCommand, DeleteObjectsCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { type FakeRequest, rgwAnswer, rgwError } from "../support/fake-rgw.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import type { Fields, Scene } from "../support/rgw-scene.ts";
import { openScene } from "../support/rgw-scene.ts";
import { type ChunkFrame, spoiled } from "../support/s3-chunked.ts";
import { crc32Of, modes, sha256, bucket as streams, written } from "../support/s3-uploads.ts";

const md5 = (text: string) => createHash("md5").update(text).digest("hex");

t.test("conditions of PutObject are obeyed or refused, never dropped", async (t) => {
  const now = md5("now");
  const rows: readonly (readonly [Fields, number, number])[] = [
    // Fields, answer over the present object, answer over none.
    [[["if-match", `"${now}"`]], 200, 404],
    [[["if-match", now]], 200, 404],
    [[["if-match", ` "${now}"\t`]], 200, 404],
    [[["if-match", "*"]], 200, 404],
    [[["if-match", '"other"']], 412, 404],
    [[["if-match", `W/"${now}"`]], 412, 404],
    [[["if-match", `"other", "${now}"`]], 501, 501],
    [
      [
        ["if-match", '"other"'],
        ["if-match", `"${now}"`],
      ],
      501,
      501,
    ],
    [[["if-match", '"*"']], 501, 501],
    [[["if-match", ""]], 501, 501],
    [[["if-none-match", "*"]], 412, 200],
    [[["if-none-match", `"${now}"`]], 412, 412],
    [[["if-none-match", `W/"${now}"`]], 412, 412],
    [[["if-none-match", '"other"']], 200, 412],
    [[["if-none-match", `"other","${now}"`]], 501, 501],
    [[["if-none-match", '"*"']], 501, 501],
    [[["if-unmodified-since", "Sun, 29 Nov 2026 11:00:00 GMT"]], 501, 501],
    [[["x-amz-if-match-size", "3"]], 501, 501],
    [[["if-modified-since", "Sun, 29 Nov 2026 11:00:00 GMT"]], 200, 200],
  ];
  const { rgw, ask } = await openScene(t);
  for (const [headers, present, absent] of rows) {
    const name = JSON.stringify(headers);
    rgw.put("/rep/k", "now");
    rgw.objects.delete("/rep/none");
    const body = "then";
    t.equal((await ask("PUT", "/rep/k", { headers, body })).status, present, name);
    t.equal(rgw.objects.get("/rep/k")?.body.toString(), present === 200 ? "then" : "now", name);
    t.equal((await ask("PUT", "/rep/none", { headers, body })).status, absent, `absent ${name}`);
    t.equal(rgw.objects.has("/rep/none"), absent === 200, `absent ${name}`);
  }
});

t.test("an upstream of a wrong or unknown profile never overwrites on condition", async (t) => {
  const now = md5("now");
  for (const profile of ["aws", "s3-generic"] as const) {
    const { rgw, ask } = await openScene(t, profile);
    for (const headers of [
      [["if-none-match", "*"]],
      [["if-none-match", `"${now}"`]],
      [["if-none-match", now]],
      [["if-none-match", `W/"${now}"`]],
      [["if-none-match", `"a", "${now}"`]],
      [["if-match", '"a"']],
      [["if-match", '"*"']],
    ] satisfies Fields[]) {
      rgw.put("/rep/k", "now");
      const { status } = await ask("PUT", "/rep/k", { headers, body: "then" });
      t.ok(status === 412 || status === 501, `${profile} ${JSON.stringify(headers)} ${status}`);
      t.equal(rgw.objects.get("/rep/k")?.body.toString(), "now");
    }
  }
});

t.test("a server that takes * alone in If-None-Match is sent nothing else in it", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t, {
    clusters: { only: 1 },
    clusterSettings: "profile: aws",
  });
  const at = { Bucket: "starred", Key: "k" };
  await s3.send(new CreateBucketCommand({ Bucket: at.Bucket }));
  const put = (Body: string, IfNoneMatch: string) =>
    s3.send(new PutObjectCommand({ ...at, Body, IfNoneMatch }));
  await put("now", "*");
  await t.rejects(put("then", "*"), { name: "PreconditionFailed" });
  const before = clusters["only"]?.exchanges().length;
  await t.rejects(put("then", '"other"'), { name: "NotImplemented" });
  t.equal(clusters["only"]?.exchanges().length, before, "the cluster was not asked");
  t.equal(Buffer.from(clusters["only"]?.objects(at.Bucket)[0]?.bytes ?? []).toString(), "now");
});

t.test("conditions that nobody would obey are refused, and nothing is done", async (t) => {
  const time = "Sun, 29 Nov 2026 12:00:00 GMT";
  const conditions: readonly (readonly [string, string])[] = [
    ["if-match", '"a"'],
    ["if-match", '"a", "b"'],
    ["if-match", "*"],
    ["if-none-match", "*"],
    ["if-none-match", '"a"'],
    ["x-amz-if-match-size", "4"],
    ["x-amz-if-match-last-modified-time", time],
    ["if-unmodified-since", time],
  ];
  const ofWrites = ['if-match: "a"', "if-none-match: *"];
  // By profile and operation; the same server, which does not tell what it is under the latter.
  const rows = [
    ["rgw-pacific", {}],
    [
      "aws",
      {
        PutObject: ofWrites,
        CopyObject: ofWrites,
        Complete: ofWrites,
        DeleteObject: ['if-match: "a"', "if-match: *"],
      },
    ],
  ] as const;
  for (const [profile, given] of rows) {
    const obeyed = new Map<string, readonly string[]>(Object.entries(given));
    const scene = await openScene(t, profile, { nameless: profile === "aws" });
    const { rgw, ask } = scene;
    const uploadId = `uploadId=${await begin(scene, "/rep/k")}`;
    const from = ["x-amz-copy-source", "/rep/source"] as const;
    const bulk = "<Delete><Object><Key>k</Key></Object></Delete>";
    const writes = {
      ...(profile === "aws" ? { PutObject: { method: "PUT", body: "then" } } : {}),
      CopyObject: { method: "PUT", more: [from] },
      Complete: { method: "POST", query: uploadId, body: completion([md5("p")]) },
      DeleteObject: { method: "DELETE" },
      DeleteObjects: { method: "POST", path: "/rep", query: "delete=", body: bulk },
      CreateMultipartUpload: { method: "POST", query: "uploads=", body: "" },
      UploadPart: { method: "PUT", query: `partNumber=1&${uploadId}`, body: "p" },
      UploadPartCopy: { method: "PUT", query: `partNumber=1&${uploadId}`, more: [from] },
    } satisfies Record<string, WriteRow>;
    for (const [operation, write] of Object.entries<WriteRow>(writes)) {
      const { method, path = "/rep/k", query = "", more = [], body } = write;
      const asked = async (condition: Fields, parameters: string): Promise<SceneAnswer> => {
        rgw.put("/rep/k", "now");
        rgw.put("/rep/source", "then");
        rgw.requests.length = 0;
        const headers = [...more, ...condition];
        return await ask(method, path, {
          query: parameters,
          headers,
          ...(body === undefined ? {} : { body }),
        });
      };
      const refused = ({ status, code }: SceneAnswer, name: string): void => {
        t.strictSame([status, code], [501, "NotImplemented"], name);
        t.strictSame(rgw.requests, [], `${name}: no cluster was asked`);
        t.equal(rgw.objects.get("/rep/k")?.body.toString(), "now", name);
      };
      for (const [field, value] of conditions) {
        const name = `${profile} ${operation} ${field}: ${value}`;
        const answer = await asked([[field, value]], query);
        if (obeyed.get(operation)?.includes(`${field}: ${value}`) !== true) refused(answer, name);
        else
          t.ok(
            rgw.requests.some(({ headers }) => headers.get(field) === value),
            name,
          );
      }
      const presigned = ["X-Amz-If-Match-Size=4", query].filter((text) => text !== "").join("&");
      refused(await asked([], presigned), `${profile} ${operation} ${presigned}`);
    }
  }
});

t.test("an entry of a bulk deletion is conditional on one ETag, or refused", async (t) => {
  const { rgw, headgate } = await openScene(t, "aws", { nameless: true });
  const none = { LastModifiedTime: undefined, Size: undefined };
  const entries = [
    { ...none, Key: "time", LastModifiedTime: new Date(0) },
    { ...none, Key: "size", ETag: '"a"', Size: 4 },
    { ...none, Key: "tags", ETag: '"a", "b"' },
    { ...none, Key: "nothing", ETag: "" },
    { ...none, Key: "no\u0001xml", ETag: '"a"' },
    { ...none, Key: "tag", ETag: '"a"' },
  ];
  rgw.requests.length = 0;
  const Delete = { Objects: entries };
  const { Errors = [] } = await headgate.s3.send(
    new DeleteObjectsCommand({ Bucket: "rep", Delete }),
  );
  const codes = Errors.map(({ Code }) => Code);
  t.strictSame(
    codes.slice(0, 5),
    Array.from({ length: 5 }, () => "NotImplemented"),
  );
  const [sent, ...more] = rgw.requests;
  t.strictSame(more, []);
  t.match(sent?.body.toString(), "<Delete");
  t.strictSame(sent?.body.toString().match(/<Key>.*?<\/ETag>/g), [
    "<Key>tag</Key><ETag>&quot;a&quot;</ETag>",
  ]);
});

interface WriteRow {
  readonly method: string;
  readonly path?: string;
  readonly query?: string;
  readonly more?: Fields;
  readonly body?: string;
}

type SceneAnswer = Awaited<ReturnType<Scene["ask"]>>;
type Rgw = Pick<Scene, "rgw" | "ask">;

const initiated =
  "<InitiateMultipartUploadResult><Bucket>zone-b</Bucket><Key>zone-k</Key><UploadId>2~up</UploadId></InitiateMultipartUploadResult>";

/** Begins an upload and gives the client's upload id. */
async function begin({ rgw, ask }: Rgw, path: string): Promise<string> {
  rgw.intercept = ({ query }) =>
    query.has("uploads") ? rgwAnswer("200 OK", ["Content-Type: application/xml"], initiated) : null;
  const { body } = await ask("POST", path, { query: "uploads=", body: "" });
  rgw.intercept = null;
  return /<UploadId>(.*?)<\/UploadId>/.exec(body)?.[1] ?? "";
}

function completion(etags: readonly string[]): string {
  const parts = etags.map(
    (etag, at) => `<Part><PartNumber>${at + 1}</PartNumber><ETag>${etag}</ETag></Part>`,
  );
  return `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
}

function completed(etag: string): string {
  const document = `<CompleteMultipartUploadResult><Location>http://zone-a.internal:7481/zone-b/k</Location><Bucket>zone-b</Bucket><Key>zone-k</Key><ETag>${etag}</ETag></CompleteMultipartUploadResult>`;
  return rgwAnswer("200 OK", ["Content-Type: application/xml"], document);
}

t.test("Complete answers the ETag and the client's own names", async (t) => {
  const parts = ["one", "two", "three"].map(md5);
  const digest = createHash("md5")
    .update(Buffer.from(parts.join(""), "hex"))
    .digest("hex");
  for (const told of ["", `${digest}-3`, `&quot;${digest}-3&quot;`]) {
    const scene = await openScene(t);
    const uploadId = await begin(scene, "/rep/a%20b");
    scene.rgw.intercept = ({ method }) => (method === "POST" ? completed(told) : null);
    const given = { query: `uploadId=${uploadId}`, body: completion(parts) };
    const { status, body } = await scene.ask("POST", "/rep/a%20b", given);
    t.equal(status, 200);
    t.match(body, `<ETag>&quot;${digest}-3&quot;</ETag>`);
    t.match(body, `<Location>${scene.headgate.url}/rep/a%20b</Location>`);
    t.match(body, "<Bucket>rep</Bucket><Key>a b</Key>");
    t.notMatch(body, "zone");
  }
});

t.test("an ETag that parts do not tell is looked up", async (t) => {
  const scene = await openScene(t);
  const uploadId = await begin(scene, "/rep/k");
  scene.rgw.put("/rep/k", "all", { etag: "encrypted-1" });
  scene.rgw.intercept = ({ method }) => (method === "POST" ? completed("") : null);
  const given = { query: `uploadId=${uploadId}`, body: completion(["not-an-md5"]) };
  t.match((await scene.ask("POST", "/rep/k", given)).body, "<ETag>&quot;encrypted-1&quot;</ETag>");
});

t.test("an upload that is gone is never told to have become another object", async (t) => {
  const parts = [md5("one")];
  const digest = createHash("md5")
    .update(Buffer.from(md5("one"), "hex"))
    .digest("hex");
  const listed = (status: string) => (request: FakeRequest) => {
    if (request.method === "POST") return rgwError("500 Internal Server Error", "InternalError");
    if (!request.query.has("uploadId")) return null;
    return status.startsWith("404")
      ? rgwError(status, "NoSuchKey", request)
      : rgwAnswer("200 OK", [], "<ListPartsResult/>");
  };
  const rows = [
    // RGW 16.2 and 18.2, over a present object: 200 with its ETag.
    [() => completed("00000000000000000000000000000000"), null, 404, "NoSuchUpload"],
    [() => completed(`${"0".repeat(32)}-1`), null, 404, "NoSuchUpload"],
    // Over none: 500.
    [listed("404 Not Found"), null, 404, "NoSuchUpload"],
    [listed("404 Not Found"), "another", 404, "NoSuchUpload"],
    // It was completed after all.
    [listed("404 Not Found"), `${digest}-1`, 200, null],
    // It is still there: the error is one.
    [listed("200 OK"), null, 500, "InternalError"],
  ] as const;
  for (const [intercept, etag, status, code] of rows) {
    const scene = await openScene(t);
    const uploadId = await begin(scene, "/rep/k");
    if (etag !== null) scene.rgw.put("/rep/k", "x", { etag });
    scene.rgw.intercept = (request) =>
      request.method === "HEAD" || request.query.size === 0 ? null : intercept(request);
    const given = { query: `uploadId=${uploadId}`, body: completion(parts) };
    t.match(await scene.ask("POST", "/rep/k", given), { status, code });
  }
});

t.test("ListParts of an unknown upload is NoSuchUpload, of an unknown bucket is not", async (t) => {
  const scene = await openScene(t);
  const uploadId = await begin(scene, "/rep/k");
  for (const [told, code] of [
    ["NoSuchKey", "NoSuchUpload"],
    ["NoSuchUpload", "NoSuchUpload"],
    ["NoSuchBucket", "NoSuchBucket"],
  ] as const) {
    scene.rgw.intercept = (request) => rgwError("404 Not Found", told, request);
    const got = await scene.ask("GET", "/rep/k", { query: `uploadId=${uploadId}` });
    t.match(got, { status: 404, code });
    t.notMatch(got.body, "1052-a");
  }
});

t.test("an append whose body is not what it says leaves the object as it is", async (t) => {
  const { rgw, headgate, ask } = await openScene(t);
  await ask("PUT", `/${streams}`, { body: "" });
  const path = `/${streams}/log`;
  const before = Buffer.from("begun");
  rgw.put(path, before);
  // A radosgw appends nothing of a body that breaks off.
  rgw.intercept = ({ method, query, headers, body }) => {
    if (method !== "PUT" || !query.has("append")) return null;
    const present = rgw.objects.get(path)?.body ?? Buffer.alloc(0);
    if (body.length < Number(headers.get("content-length"))) return "";
    if (Number(query.get("position")) !== present.length) return rgwError("409 Conflict", "X");
    rgw.put(path, Buffer.concat([present, body]));
    return rgwAnswer("200 OK", ['ETag: "a"']);
  };
  const present = (): Buffer => rgw.objects.get(path)?.body ?? Buffer.alloc(0);
  const send = async ([head, body]: readonly [string, Buffer]) => {
    const { status, text } = await rawExchange(headgate.url, head, body);
    return `${status} ${/<Code>(\w+)</.exec(text)?.[1] ?? ""}`.trim();
  };
  const query = `append=&position=${before.length}`;
  const plain = (data: Buffer, payloadHash: string, checksum: string) => {
    const headers = [["x-amz-checksum-crc32", checksum]] as const;
    const contentLength = data.length;
    const request = { method: "PUT", path, query, headers, payloadHash, contentLength };
    return [rawHead(headgate.url, request), data] as const;
  };
  const spoil = (frame: ChunkFrame): ChunkFrame => ({ ...frame, last: spoiled(frame.last) });
  for (const data of [Buffer.from("more"), Buffer.alloc(200_000, "more")]) {
    const wrongSum = "AAAAAQ==";
    const rows: (readonly [string, readonly [string, Buffer], string])[] = [
      [
        "hash",
        plain(data, sha256(Buffer.from("x")), crc32Of(data)),
        "400 XAmzContentSHA256Mismatch",
      ],
      ["checksum", plain(data, "UNSIGNED-PAYLOAD", wrongSum), "400 BadDigest"],
      ["checksum of a signed body", plain(data, sha256(data), wrongSum), "400 BadDigest"],
    ];
    for (const mode of modes) {
      const upload = { key: "log", query, data, inHttpChunks: false };
      const sum = written(headgate.url, mode, { ...upload, checksum: wrongSum });
      rows.push([`checksum, ${mode.name}`, sum, "400 BadDigest"]);
      if (!mode.signed) continue;
      const chunk = written(headgate.url, mode, { ...upload, spoil });
      rows.push([`last chunk, ${mode.name}`, chunk, "403 SignatureDoesNotMatch"]);
    }
    for (const [what, sent, answer] of rows) {
      t.equal(await send(sent), answer, `${what}, ${data.length} bytes`);
      t.ok(present().equals(before), `${what}: nothing is appended`);
    }
  }
  const more = Buffer.from("!");
  t.equal(await send(plain(more, "UNSIGNED-PAYLOAD", crc32Of(more))), "200");
  let text = "begun!";
  t.equal(present().toString(), text, "a right one is");
  for (const mode of modes) {
    const next = `append=&position=${text.length}`;
    const upload = { key: "log", query: next, data: more, inHttpChunks: false };
    t.equal(await send(written(headgate.url, mode, upload)), "200", mode.name);
    text += "!";
    t.equal(present().toString(), text, "decoded");
  }
});
