// Conditions and ranges of reads: which an upstream that knows single strong tags can be sent, and what
// an object's state makes of the others.

import fc from "fast-check";
import t from "tap";
import { canonicalRange } from "../../proxy/s3/byte-range.ts";
import {
  isMultipart,
  matchesStrongly,
  matchesWeakly,
  partsOf,
  readTagCondition,
} from "../../proxy/s3/entity-tags.ts";
import type { HeaderList } from "../../proxy/s3/headers.ts";
import { judgeConditions, planConditions } from "../../proxy/s3/read-conditions.ts";

const strong = (opaque: string) => ({ weak: false, opaque });
const weak = (opaque: string) => ({ weak: true, opaque });
const past = "Sun, 29 Nov 2026 11:59:59 GMT";
const modified = "Sun, 29 Nov 2026 12:00:00 GMT";
const future = "Sun, 29 Nov 2026 12:00:01 GMT";
const object: HeaderList = [
  ["etag", '"now-2"'],
  ["last-modified", modified],
];

t.test("entity tags are read one by one, quoted or bare", async (t) => {
  const rows = [
    ['"a"', [strong("a")]],
    ["a", [strong("a")]],
    ["  a-2\t", [strong("a-2")]],
    ['W/"a"', [weak("a")]],
    ['"a", W/"b" ,c', [strong("a"), weak("b"), strong("c")]],
    ['"a,b"', [strong("a,b")]],
    ['""', [strong("")]],
    ['"*"', [strong("*")]],
    ['"a",', [strong("a")]],
  ] as const;
  for (const [value, tags] of rows) {
    t.strictSame(readTagCondition(value), { kind: "tags", tags }, value);
  }
  t.strictSame(readTagCondition(" * "), { kind: "any" });
  for (const value of ["", " ", ",", '"a', 'a"', '"a" "b"', '*,"a"', "W/a", '"a"b']) {
    t.equal(readTagCondition(value), null, value);
  }
});

t.test("any list of tags reads back as itself", async (t) => {
  const opaque = fc.stringMatching(/^[a-z0-9+,/ -]{0,12}$/);
  const tag = fc.record({ weak: fc.boolean(), opaque });
  fc.assert(
    fc.property(fc.array(tag, { minLength: 1, maxLength: 5 }), (tags) => {
      const text = tags.map((one) => `${one.weak ? "W/" : ""}"${one.opaque}"`).join(" , ");
      const read = readTagCondition(text);
      t.strictSame(read, { kind: "tags", tags: tags.map((one) => ({ ...one })) }, text);
      if (read === null) return;
      for (const one of tags) {
        t.ok(matchesWeakly(read, `"${one.opaque}"`));
        const named = tags.some((other) => !other.weak && other.opaque === one.opaque);
        t.equal(matchesStrongly(read, `"${one.opaque}"`), named);
      }
    }),
    { numRuns: 50 },
  );
});

t.test("an ETag tells how many parts it was made of", async (t) => {
  const md5 = "d41d8cd98f00b204e9800998ecf8427e";
  for (const [etag, parts, multipart] of [
    [`"${md5}"`, 1, false],
    [`"${md5}-1"`, 1, true],
    [`"${md5}-7"`, 7, true],
    [`${md5}-10000`, 10_000, true],
    ['"my-file-3"', 1, false],
    ["", 1, false],
  ] as const) {
    t.equal(partsOf(etag), parts, etag);
    t.equal(isMultipart(etag), multipart, etag);
  }
});

t.test("a range has one form or none", async (t) => {
  const rows = [
    ["bytes=0-9", "bytes=0-9"],
    ["bytes=5-", "bytes=5-"],
    ["bytes=-3", "bytes=-3"],
    [" Bytes=007-9 ", "bytes=7-9"],
    ["bytes=0-99999999999999999999", "bytes=0-9223372036854775806"],
    ["bytes=-99999999999999999999", "bytes=-9223372036854775806"],
    // Of no byte: S3 says 416, for which a start behind any end stands.
    ["bytes=-0", "bytes=9223372036854775806-"],
    ["bytes=99999999999999999999-", "bytes=9223372036854775806-"],
    // S3 ignores what follows and answers everything.
    ["bytes=3-1", null],
    ["bytes=0-1,4-5", null],
    ["bytes=a-b", null],
    ["bytes=-", null],
    ["bytes=", null],
    ["bytes=+1-2", null],
    ["bytes=--3", null],
    ["bytes=1-2-3", null],
    ["bytes =0-1", null],
    ["items=0-1", null],
    ["0-3", null],
  ] as const;
  for (const [value, expected] of rows) t.equal(canonicalRange(value), expected, value);
});

t.test("single tags are sent on, all else is judged by us", async (t) => {
  const plan = (...headers: HeaderList) => planConditions(headers);
  for (const headers of [
    [["x-amz-meta-a", "1"]],
    [["if-match", '"a"']],
    [["if-match", 'W/"a"']],
    [["if-none-match", "a"]],
    [["if-modified-since", past]],
    [["if-none-match", 'malformed"']],
    [
      ["if-match", '"a"'],
      ["range", "bytes=0-1"],
    ],
  ] satisfies HeaderList[]) {
    t.strictSame(plan(...headers), { headers, judge: false }, JSON.stringify(headers));
  }
  t.strictSame(plan(["if-none-match", 'W/"a"']).headers, [["if-none-match", '"a"']]);
  t.strictSame(plan(["if-match", "*"], ["if-unmodified-since", past]).headers, []);
  t.strictSame(plan(["if-range", '"a"']), { headers: [], judge: false }, "nothing without Range");
  t.strictSame(plan(["if-range", '"a"'], ["range", "x"]), { headers: [], judge: false });
  for (const headers of [
    [["if-none-match", "*"]],
    [["if-none-match", '"a","b"']],
    [
      ["if-none-match", '"a"'],
      ["if-none-match", '"b"'],
    ],
    [["if-match", '"a", "b"']],
    [
      ["if-range", '"a"'],
      ["range", "bytes=0-1"],
    ],
  ] satisfies HeaderList[]) {
    t.equal(plan(...headers).judge, true, JSON.stringify(headers));
  }
});

t.test("conditions are judged in the order of RFC 9110", async (t) => {
  const send = (range: boolean) => ({ kind: "send", range }) as const;
  const failed = (condition: string) => ({ kind: "failed", condition }) as const;
  const unchanged = { kind: "not_modified" } as const;
  const rows: readonly (readonly [HeaderList, ReturnType<typeof judgeConditions>])[] = [
    [[["if-match", '"a", "now-2"']], send(true)],
    [[["if-match", '"a", "b"']], failed("If-Match")],
    [[["if-match", 'W/"now-2", "b"']], failed("If-Match")],
    [
      [
        ["if-match", '"now-2","b"'],
        ["if-unmodified-since", past],
      ],
      send(true),
    ],
    [[["if-unmodified-since", past]], failed("If-Unmodified-Since")],
    [[["if-unmodified-since", modified]], send(true)],
    [[["if-unmodified-since", "garbage"]], send(true)],
    [[["if-none-match", "*"]], unchanged],
    [[["if-none-match", '"a", W/"now-2"']], unchanged],
    [
      [
        ["if-none-match", '"a", "b"'],
        ["if-modified-since", future],
      ],
      send(true),
    ],
    [[["if-modified-since", modified]], unchanged],
    [[["if-modified-since", past]], send(true)],
    [[["if-modified-since", "garbage"]], send(true)],
    [
      [
        ["if-match", '"a","now-2"'],
        ["if-none-match", '"now-2"'],
      ],
      unchanged,
    ],
    [[["if-range", '"now-2"']], send(true)],
    [[["if-range", "now-2"]], send(true)],
    [[["if-range", '"a"']], send(false)],
    [[["if-range", 'W/"now-2"']], send(false)],
    [[["if-range", modified]], send(true)],
    [[["if-range", future]], send(false)],
  ];
  for (const [headers, expected] of rows) {
    t.strictSame(judgeConditions(headers, object), expected, JSON.stringify(headers));
  }
});
