// What anybody can send before it is known who they are is read in time that grows as its length does.
// The texts are many times longer than a head may be: a reading of squared time takes many seconds.

import t from "tap";
import { readAuthorization } from "../../proxy/s3/authorization.ts";
import { readV2Header } from "../../proxy/s3/authorization-v2.ts";
import { ChunkTrailer } from "../../proxy/s3/chunk-trailer.ts";
import { readTagCondition } from "../../proxy/s3/entity-tags.ts";
import { S3Error } from "../../proxy/s3/errors.ts";
import { FormHeadReader, formBoundary } from "../../proxy/s3/form-data.ts";
import type { HeaderField } from "../../proxy/s3/headers.ts";
import { shownText } from "../../proxy/s3/shown-text.ts";
import { likelyChanges } from "../../proxy/s3/signature-help.ts";
import { canonicalValue, SigningKeys } from "../../proxy/s3/sigv4.ts";
import { verifySignature } from "../../proxy/s3/verify.ts";
import { credentials, handSigned, headOf, nowMs, tryHead } from "../support/s3-request.ts";

const blanks = " ".repeat(256 * 1024);
const repeated = "x-amz-".repeat(50_000);
const limitMs = 5_000;

function verifies(value: string): boolean {
  const fields: readonly HeaderField[] = [
    ["host", "s3.example.com"],
    ["x-amz-content-sha256", "UNSIGNED-PAYLOAD"],
    ["x-amz-date", "20261129T120000Z"],
    ["x-amz-meta-a", value],
  ];
  const authorization = handSigned({ path: "/b/k", fields });
  const head = headOf({
    target: "/b/k",
    headers: [...fields.slice(1), ["authorization", authorization]],
  });
  const read = readAuthorization(head);
  if (read.kind !== "header") return false;
  const keys = new SigningKeys(1);
  const given = { head, authorization: read, credentials, nowMs, regions: [], keys };
  return verifySignature(given).kind === "verified";
}

const rows: readonly (readonly [what: string, read: () => unknown, reads: unknown])[] = [
  ["a signed value, blanks in quotes", () => verifies(`"a${blanks}b"`), true],
  ["a signed value, blanks behind a quote", () => verifies(`"a${blanks}b`), false],
  ["a value to sign", () => canonicalValue(`a${blanks}b`), "a b"],
  ["a tag with a quote too much", () => readTagCondition(`a,${blanks}b"`), null],
  ["a bare tag", () => readTagCondition(`${blanks}a${blanks}b${blanks}`)?.kind, "tags"],
  ["a quoted tag", () => readTagCondition(`"a"${blanks}b`), null],
  ["a version 2 signature", () => readV2Header(headOf(), `AWS${blanks}b`) instanceof S3Error, true],
  ["a text that an error shows", () => shownText(`${repeated}=a`), `${repeated}=a`],
  ["a line that an error shows", () => shownText(`${repeated}:a`), `${repeated}:a`],
  ["a trailer", () => trailerOf(`x-amz-checksum-crc32:${blanks}a${blanks}b`), "error"],
  ["a boundary", () => formBoundary(`multipart/form-data;${blanks}boundary=a${blanks}b`), null],
];

function trailerOf(line: string): string {
  const trailer = new ChunkTrailer({ announced: "crc32", chain: null });
  return trailer.line(line).kind;
}

for (const [what, read, reads] of rows) {
  t.test(`${what} is read at once`, async (t) => {
    const began = performance.now();
    const found = read();
    t.ok(performance.now() - began < limitMs, "in linear time");
    t.strictSame(found, reads);
  });
}

t.test("the shape of a part's end and of a version 2 header are what they were", async (t) => {
  for (const [end, kind] of [
    ["", "more"],
    [" ; ", "more"],
    [";", "more"],
    [" ;; ", "error"],
    [" x", "error"],
  ] as const) {
    const reader = new FormHeadReader("b");
    const line = `content-disposition: form-data; name="a"${end}`;
    t.equal(reader.push(Buffer.from(`--b\r\n${line}\r\n\r\n`)).kind, kind, end);
  }
  const signature = `${"A".repeat(27)}=`;
  const head = headOf({ headers: [["date", "Sun, 29 Nov 2026 12:00:00 GMT"]] });
  for (const [value, id] of [
    [`AWS k:${signature}`, "k"],
    [`AWS \t k:${signature} `, "k"],
    [`AWS a:b:${signature}`, "a:b"],
    [`AWSk:${signature}`, null],
    [`AWS :${signature}`, null],
    ["AWS k", null],
  ] as const) {
    const read = readV2Header(head, value);
    t.equal(read instanceof S3Error ? null : read.accessKeyId, id, value);
  }
});

t.test("a query has at most 256 parameters", async (t) => {
  const target = (count: number): string =>
    `/b?${Array.from({ length: count }, (_, at) => `p${at}`).join("&")}`;
  t.equal(headOf({ target: target(256) }).query.length, 256);
  const refused = tryHead({ target: target(257) });
  t.equal(refused instanceof S3Error && refused.code, "InvalidURI");
  t.equal(tryHead({ target: `/b?${"&".repeat(257)}` }) instanceof S3Error, true);
});

t.test("a head beyond 16 KiB gets no explanation", async (t) => {
  const changes = (bytes: number): number =>
    [...likelyChanges(headOf({ target: `/b/${"k".repeat(bytes)}` }), ["host"])].length;
  t.not(changes(15 * 1024), 0);
  t.equal(changes(17 * 1024), 0);
});
