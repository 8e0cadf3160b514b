// Reads over an upstream that misreads them: what a client gets is S3's answer or an error, with the
// right profile and with a wrong one, never another object's bytes.

import { GetObjectAttributesCommand } from "@aws-sdk/client-s3";
import fc from "fast-check";
import t from "tap";
import { rgwAnswer, rgwError } from "../support/fake-rgw.ts";
import { etagOfParts, type Fields, openScene, upstreamProfiles } from "../support/rgw-scene.ts";

t.test("GetObjectAttributes is made from what HEAD tells", async (t) => {
  for (const profile of upstreamProfiles) {
    const { rgw, headgate } = await openScene(t, profile);
    const single = rgw.put("/rep/single", "twelve bytes");
    rgw.put("/rep/parts", "x".repeat(100), { etag: etagOfParts(7) });
    rgw.put("/rep/xml", "<GetObjectAttributes/>", {
      lines: [
        "Content-Type: application/xml",
        "x-amz-storage-class: COLD",
        "x-amz-checksum-crc32: AAAAAA==",
        "x-amz-checksum-type: FULL_OBJECT",
        "x-amz-version-id: v1",
      ],
    });
    const of = async (
      Key: string,
      ObjectAttributes: ("ETag" | "Checksum" | "ObjectParts" | "StorageClass" | "ObjectSize")[],
    ) => {
      const command = new GetObjectAttributesCommand({ Bucket: "rep", Key, ObjectAttributes });
      return { ...(await headgate.s3.send(command)), $metadata: null };
    };
    const all = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"] as const;
    const LastModified = new Date("2026-11-29T12:00:00Z");
    t.strictSame(
      await of("single", [...all]),
      {
        $metadata: null,
        LastModified,
        ETag: single.etag,
        StorageClass: "STANDARD",
        ObjectSize: 12,
      },
      profile,
    );
    t.strictSame(await of("parts", ["ObjectParts", "ObjectSize"]), {
      $metadata: null,
      LastModified,
      ObjectParts: { TotalPartsCount: 7 },
      ObjectSize: 100,
    });
    t.strictSame(await of("xml", ["Checksum", "StorageClass"]), {
      $metadata: null,
      LastModified,
      VersionId: "v1",
      Checksum: { ChecksumCRC32: "AAAAAA==", ChecksumType: "FULL_OBJECT" },
      StorageClass: "COLD",
    });
  }
});

t.test(
  "an upstream that answers GetObjectAttributes is believed, unless it is an RGW",
  async (t) => {
    const { rgw, ask } = await openScene(t, "aws", { nameless: true });
    const document = "<GetObjectAttributesResponse><ETag>abc</ETag></GetObjectAttributesResponse>";
    rgw.intercept = (request) =>
      request.query.has("attributes")
        ? rgwAnswer("200 OK", ["Content-Type: application/xml"], document)
        : null;
    const headers: Fields = [["x-amz-object-attributes", "ETag"]];
    t.equal((await ask("GET", "/rep/k", { query: "attributes=", headers })).body, document);
    // What it answers is the object, whose owner can make it say anything.
    rgw.nameless = false;
    rgw.put("/rep/k", "content");
    const answer = await ask("GET", "/rep/k", { query: "attributes=", headers });
    t.match(answer.body, "<ETag>9a0364b9e99bb480dd25e1f0284c8555</ETag>");
  },
);

t.test("GetObjectAttributes fails as the object does", async (t) => {
  const { rgw, ask } = await openScene(t);
  const { etag } = rgw.put("/rep/k", "content");
  const rows: readonly (readonly [string, Fields, number, string | null])[] = [
    ["/rep/k", [], 400, "InvalidArgument"],
    ["/rep/k", [["x-amz-object-attributes", ""]], 400, "InvalidArgument"],
    ["/rep/k", [["x-amz-object-attributes", "ETag,Size"]], 400, "InvalidArgument"],
    ["/rep/k", [["x-amz-object-attributes", "etag"]], 400, "InvalidArgument"],
    [
      "/rep/k",
      [
        ["x-amz-max-parts", "x"],
        ["x-amz-object-attributes", "ETag"],
      ],
      400,
      "InvalidArgument",
    ],
    ["/rep/none", [["x-amz-object-attributes", "ETag"]], 404, "NoSuchKey"],
    [
      "/rep/k",
      [
        ["if-match", '"b"'],
        ["x-amz-object-attributes", "ETag"],
      ],
      412,
      "PreconditionFailed",
    ],
    [
      "/rep/k",
      [
        ["if-none-match", `"${etag}"`],
        ["x-amz-object-attributes", "ETag"],
      ],
      304,
      null,
    ],
    ["/rep/k", [["x-amz-object-attributes", "ETag, ObjectSize"]], 200, null],
  ];
  for (const [path, headers, status, code] of rows) {
    const answer = await ask("GET", path, { query: "attributes=", headers });
    t.match(answer, { status, code }, JSON.stringify(headers));
  }
  rgw.intercept = (request) =>
    request.query.get("versionId") === "v"
      ? rgwError("403 Forbidden", "AccessDenied", request)
      : null;
  const headers: Fields = [["x-amz-object-attributes", "ETag"]];
  const denied = await ask("GET", "/rep/k", { query: "attributes=&versionId=v", headers });
  t.match(denied, { status: 403, code: "AccessDenied" });
});

t.test("conditions of reads are judged as RFC 9110 says", async (t) => {
  for (const profile of ["rgw-pacific", "s3-generic"] as const) {
    const { rgw, ask } = await openScene(t, profile);
    const { etag } = rgw.put("/rep/k", "0123456789", {
      lines: ["Content-Type: text/plain", "Cache-Control: max-age=7", "Expires: 0"],
    });
    const tag = `"${etag}"`;
    const before = "Sun, 29 Nov 2026 11:59:59 GMT";
    const after = "Sun, 29 Nov 2026 12:00:01 GMT";
    const rows: readonly (readonly [Fields, number, string])[] = [
      [[["if-none-match", tag]], 304, ""],
      [[["if-none-match", etag]], 304, ""],
      [[["if-none-match", `W/${tag}`]], 304, ""],
      [[["if-none-match", `"a", ${tag}`]], 304, ""],
      [[["if-none-match", "*"]], 304, ""],
      [[["if-none-match", '"a","b"']], 200, "0123456789"],
      [
        [
          ["if-none-match", '"a"'],
          ["if-modified-since", after],
        ],
        200,
        "0123456789",
      ],
      [[["if-modified-since", after]], 304, ""],
      [[["if-modified-since", before]], 200, "0123456789"],
      [[["if-match", tag]], 200, "0123456789"],
      [[["if-match", `"a" , ${tag}`]], 200, "0123456789"],
      [[["if-match", "*"]], 200, "0123456789"],
      [
        [
          ["if-match", "*"],
          ["if-unmodified-since", before],
        ],
        200,
        "0123456789",
      ],
      [[["if-match", '"a", "b"']], 412, "PreconditionFailed"],
      [[["if-match", `W/${tag}`]], 412, "PreconditionFailed"],
      [[["if-unmodified-since", before]], 412, "PreconditionFailed"],
      [
        [
          ["if-range", tag],
          ["range", "bytes=2-3"],
        ],
        206,
        "23",
      ],
      [
        [
          ["if-range", '"older"'],
          ["range", "bytes=2-3"],
        ],
        200,
        "0123456789",
      ],
      [
        [
          ["if-range", before],
          ["range", "bytes=2-3"],
        ],
        200,
        "0123456789",
      ],
      [[["if-range", tag]], 200, "0123456789"],
      [
        [
          ["if-none-match", '"a", "b"'],
          ["range", "bytes=-2"],
        ],
        206,
        "89",
      ],
      [[["range", "bytes=2-3"]], 206, "23"],
      [[["range", "bytes=-0"]], 416, "InvalidRange"],
      [[["range", "bytes=10-"]], 416, "InvalidRange"],
      [[["range", "bytes=a-b"]], 200, "0123456789"],
      [[["range", "bytes=4-2"]], 200, "0123456789"],
      [[["range", "bytes=0-1,4-5"]], 200, "0123456789"],
      [[["range", "items=0-1"]], 200, "0123456789"],
    ];
    for (const [headers, status, content] of rows) {
      const name = `${profile} ${JSON.stringify(headers)}`;
      const got = await ask("GET", "/rep/k", { headers });
      t.equal(got.status, status, name);
      t.equal(got.code ?? got.body, content, name);
      if (status === 304) t.match(got.head, `etag: ${tag}`, name);
      if (status === 304) t.notMatch(got.head, /content-length|content-type/, name);
      if (status === 200) t.notMatch(got.head, "content-range", name);
      const head = await ask("HEAD", "/rep/k", { headers });
      t.match(head, { status, body: "" }, `HEAD ${name}`);
      if (status < 300) t.match(head.head, `content-length: ${content.length}`, name);
    }
    const since: Fields = [["if-modified-since", after]];
    t.match((await ask("GET", "/rep/k", { headers: since })).head, "cache-control: max-age=7");
    t.match(await ask("GET", "/rep/no", { headers: [["if-none-match", '"a","b"']] }), {
      status: 404,
      code: "NoSuchKey",
    });
  }
});

t.test("generated conditions give what RFC 9110 says", async (t) => {
  const { rgw, ask } = await openScene(t);
  const { etag } = rgw.put("/rep/k", "0123456789");
  const tag = fc.record({ opaque: fc.constantFrom(etag, "a", "b,c", ""), weak: fc.boolean() });
  const tags = fc.array(tag, { minLength: 1, maxLength: 4 });
  const text = (list: readonly { readonly opaque: string; readonly weak: boolean }[]) =>
    list.map(({ opaque, weak }) => `${weak ? "W/" : ""}"${opaque}"`).join(", ");
  const conditions = fc.record({ match: fc.option(tags), noneMatch: fc.option(tags) });
  await fc.assert(
    fc.asyncProperty(conditions, fc.boolean(), async ({ match, noneMatch }, ranged) => {
      const headers: Fields = [
        ...(match === null ? [] : [["if-match", text(match)] as const]),
        ...(noneMatch === null ? [] : [["if-none-match", text(noneMatch)] as const]),
        ...(ranged ? [["range", "bytes=4-5"] as const] : []),
      ];
      const failed = match?.some(({ opaque, weak }) => opaque === etag && !weak) === false;
      const same = noneMatch?.some(({ opaque }) => opaque === etag) === true;
      const sent = ranged ? 206 : 200;
      const { status } = await ask("GET", "/rep/k", { headers });
      t.equal(status, failed ? 412 : same ? 304 : sent, JSON.stringify(headers));
    }),
    { numRuns: 40 },
  );
});

t.test("a 412 to If-None-Match of a read is 304", async (t) => {
  const { rgw, ask } = await openScene(t, "aws");
  rgw.intercept = ({ method }) =>
    method === "GET" ? rgwError("412 Precondition Failed", "PreconditionFailed") : null;
  t.match(await ask("GET", "/rep/k", { headers: [["if-none-match", '"a"']] }), { status: 304 });
  t.match(await ask("GET", "/rep/k", { headers: [["if-match", '"a"']] }), { status: 412 });
});

t.test("an object that changes while it is looked at is never mixed", async (t) => {
  const { rgw, ask } = await openScene(t);
  rgw.put("/rep/k", "0123456789");
  const { etag } = rgw.put("/rep/k", "0123456789");
  // What was looked at is gone when it is read.
  rgw.intercept = ({ method }) => {
    if (method === "GET") rgw.put("/rep/k", "abcdefghij");
    return null;
  };
  for (const headers of [
    [
      ["if-range", `"${etag}"`],
      ["range", "bytes=5-9"],
    ],
    [["if-none-match", '"a", "b"']],
  ] satisfies Fields[]) {
    rgw.put("/rep/k", "0123456789");
    const got = await ask("GET", "/rep/k", { headers });
    t.match(got, { status: 503, code: "SlowDown" });
    t.match(got.head, "retry-after: 1");
  }
  rgw.put("/rep/k", "0123456789");
  t.match(await ask("GET", "/rep/k", { query: "partNumber=1" }), { status: 503 });
});
