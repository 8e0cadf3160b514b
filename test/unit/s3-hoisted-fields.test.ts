// What a presigned query holds as fields becomes fields, under the limits that fields have.

import t from "tap";
import type { HeaderList, QueryList } from "../../proxy/s3/headers.ts";
import { restoreHoisted } from "../../proxy/s3/hoisted-fields.ts";

const host = ["host", "h"] as const;

t.test("hoisted fields are fields again, the rest of the query stays", async (t) => {
  const rest: QueryList = [
    ["versionId", "v"],
    ["X-Amz-Signature", "s"],
    ["X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD"],
    ["x-amz-checksum-crc32", "AAAAAA=="],
    ["x-amz-sdk-checksum-algorithm", "CRC32"],
    ["x-amz-decoded-content-length", "1"],
  ];
  const hoisted: QueryList = [
    ["x-amz-meta-Colour", " blå\t"],
    ["X-Amz-Tagging", "a=b&c=d"],
    ["x-amz-acl", null],
    ["x-amz-storage-class", "COLD"],
  ];
  const headers: HeaderList = [host, ["x-amz-storage-class", "COLD"]];
  t.strictSame(restoreHoisted(headers, [...hoisted, ...rest]), {
    kind: "fields",
    headers: [
      ...headers,
      ["x-amz-meta-colour", "bl\u00c3\u00a5"],
      ["x-amz-tagging", "a=b&c=d"],
      ["x-amz-acl", ""],
    ],
    query: rest,
  });
  t.strictSame(restoreHoisted(headers, rest), { kind: "fields", headers, query: rest });
});

t.test("what could not be one field is refused", async (t) => {
  const many = (count: number): QueryList =>
    Array.from({ length: count }, (_, n) => [`x-amz-meta-${n}`, "1"] as const);
  const rows: readonly (readonly [string, HeaderList, QueryList])[] = [
    ["InvalidRequest", [["x-amz-acl", "private"]], [["x-amz-acl", "public-read"]]],
    ["InvalidRequest", [["x-amz-acl", "private"]], [["X-Amz-ACL", null]]],
    ["InvalidRequest", [], [["x-amz-meta-a", "1\r\nx-amz-acl: public-read"]]],
    ["InvalidRequest", [], [["x-amz-meta-a", "1\u0001"]]],
    ["InvalidRequest", [], [["x-amz-meta-a b", "1"]]],
    ["InvalidRequest", [], [["x-amz-meta-\u212a", "1"]]],
    ["InvalidRequest", [], [["x-amz-storage_class", "COLD"]]],
    ["InvalidRequest", [["x-amz-meta-a_b", "1"]], [["x-amz-meta-a-b", "1"]]],
    [
      "InvalidArgument",
      [],
      [
        ["x-amz-acl", "private"],
        ["X-Amz-Acl", "private"],
      ],
    ],
    ["RequestHeaderSectionTooLarge", [], many(256)],
  ];
  for (const [code, headers, query] of rows) {
    const restored = restoreHoisted([host, ...headers], query);
    t.equal(restored.kind === "error" && restored.error.code, code, JSON.stringify(query[0]));
  }
  t.equal(restoreHoisted([host], many(255)).kind, "fields");
});
