// List requests, the pages upstreams answer, and the answers clients get.

import t from "tap";
import type { QueryList } from "../../proxy/s3/headers.ts";
import type { ListPage } from "../../proxy/s3/listing.ts";
import { listDocument } from "../../proxy/s3/listing-document.ts";
import type { MergedPage } from "../../proxy/s3/listing-merge.ts";
import { maxListPageBytes, readListPage } from "../../proxy/s3/listing-page.ts";
import {
  type ListRequest,
  readListRequest,
  upstreamListQuery,
} from "../../proxy/s3/listing-request.ts";
import { entryOf } from "../support/s3-list-cluster.ts";

function requestOf(query: QueryList, version: 1 | 2 = 2): ListRequest {
  const reading = readListRequest(query, version);
  if (reading.kind === "error") throw reading.error;
  return reading.request;
}

function pageOf(body: string | Uint8Array): ListPage {
  const reading = readListPage(body);
  if (reading.kind === "error") throw new Error(reading.fault);
  return reading.page;
}

void t.test("reads a V2 request and leaves out what is V1", async (t) => {
  const query: QueryList = [
    ["list-type", "2"],
    ["prefix", "a/"],
    ["delimiter", "/"],
    ["max-keys", "7"],
    ["marker", "m"],
    ["continuation-token", "t"],
    ["start-after", "s"],
    ["fetch-owner", "true"],
    ["encoding-type", "url"],
    ["x-id", "ListObjectsV2"],
  ];
  t.strictSame(requestOf(query), {
    version: 2,
    prefix: "a/",
    delimiter: "/",
    maxKeys: 7,
    marker: "",
    continuationToken: "t",
    startAfter: "s",
    fetchOwner: true,
    encodingType: "url",
  });
  t.strictSame(requestOf(query, 1), {
    version: 1,
    prefix: "a/",
    delimiter: "/",
    maxKeys: 7,
    marker: "m",
    continuationToken: null,
    startAfter: null,
    fetchOwner: true,
    encodingType: "url",
  });
});

void t.test("takes S3's defaults, also for parameters without a value", async (t) => {
  const defaults = {
    version: 2,
    prefix: "",
    delimiter: "",
    maxKeys: 1000,
    marker: "",
    continuationToken: null,
    startAfter: null,
    fetchOwner: false,
    encodingType: null,
  };
  t.strictSame(requestOf([]), defaults);
  t.strictSame(
    requestOf([
      ["prefix", null],
      ["delimiter", ""],
      ["max-keys", ""],
      ["encoding-type", ""],
      ["fetch-owner", "false"],
    ]),
    defaults,
  );
  t.equal(requestOf([["continuation-token", ""]]).continuationToken, "");
});

void t.test("caps max-keys and refuses what is no count", async (t) => {
  const good: readonly [string, number][] = [
    ["0", 0],
    ["1", 1],
    ["1000", 1000],
    ["1001", 1000],
    ["2147483647", 1000],
    ["007", 7],
  ];
  for (const [text, wanted] of good) t.equal(requestOf([["max-keys", text]]).maxKeys, wanted, text);
  for (const text of ["-1", "x", "1.5", "1e2", "0x1", " 1", "2147483648", "99999999999999999999"]) {
    const reading = readListRequest([["max-keys", text]], 1);
    const error = reading.kind === "error" ? reading.error : null;
    t.equal(error?.code, "InvalidArgument", text);
    t.strictSame(error?.details, { ArgumentName: "max-keys", ArgumentValue: text });
  }
});

void t.test("refuses an unknown encoding, and an unordered list with a delimiter", async (t) => {
  const reading = readListRequest([["encoding-type", "base64"]], 2);
  t.equal(reading.kind === "error" && reading.error.code, "InvalidArgument");
  const unordered: QueryList = [["allow-unordered", "true"]];
  t.equal(readListRequest(unordered, 2).kind, "request");
  t.equal(readListRequest([...unordered, ["delimiter", "/"]], 2).kind, "error");
});

void t.test("asks upstreams in V2 with url encoding", async (t) => {
  const need = { cursor: 0, after: null, continuationToken: null, maxKeys: 5 };
  t.strictSame(upstreamListQuery(requestOf([], 1), need), [
    ["list-type", "2"],
    ["encoding-type", "url"],
    ["max-keys", "5"],
    ["fetch-owner", "true"],
  ]);
  const request = requestOf([
    ["prefix", "p"],
    ["delimiter", "/"],
  ]);
  t.strictSame(upstreamListQuery(request, { ...need, after: "a" }).slice(3), [
    ["prefix", "p"],
    ["delimiter", "/"],
    ["start-after", "a"],
  ]);
  t.strictSame(
    upstreamListQuery(request, { ...need, after: "a", continuationToken: "t" }).at(-1),
    ["continuation-token", "t"],
    "S3 ignores start-after beside a token",
  );
});

void t.test("keeps a delimiter to itself that may begin inside the prefix", async (t) => {
  const need = { cursor: 0, after: null, continuationToken: null, maxKeys: 1 };
  const asked = (prefix: string, delimiter: string): boolean =>
    upstreamListQuery({ prefix, delimiter, fetchOwner: false }, need).some(
      ([name]) => name === "delimiter",
    );
  t.ok(asked("a/", "/"), "one character cannot overlap");
  t.ok(asked("a", "//"));
  t.ok(asked("", "//"));
  t.ok(asked("a-", "/-"), "its end does not matter");
  t.notOk(asked("a//", "/-"));
  t.notOk(asked("/", "//"));
  t.notOk(asked("x-a", "ab"));
});

// As RGW 16.2.15 wrote it to a V2 request with fetch-owner and encoding-type=url.
const rgwPage =
  `<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">` +
  `<EncodingType>url</EncodingType><Name>lst</Name><Prefix></Prefix><MaxKeys>2</MaxKeys><Delimiter>/</Delimiter>` +
  `<IsTruncated>true</IsTruncated><CommonPrefixes><Prefix>a%2Bb/</Prefix></CommonPrefixes><Contents>` +
  `<Key>c%20d%2Be%252F%26%3C%22&apos;%C3%A9%F0%9F%98%80%01%2F</Key><LastModified>2026-11-30T00:00:31.059Z</LastModified>` +
  `<ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>0</Size><StorageClass>STANDARD</StorageClass>` +
  `<Owner><ID>testid</ID><DisplayName>M. Tester</DisplayName></Owner><Type>Normal</Type></Contents>` +
  `<NextContinuationToken>c d%2F&#x0d;</NextContinuationToken><KeyCount>2</KeyCount></ListBucketResult>`;

void t.test("reads RGW's page", async (t) => {
  t.strictSame(readListPage(Buffer.from(rgwPage)), {
    kind: "page",
    page: {
      entries: [
        {
          key: `c d+e%2F&<"'é😀\u0001/`,
          lastModified: "2026-11-30T00:00:31.059Z",
          etag: '"d41d8cd98f00b204e9800998ecf8427e"',
          size: "0",
          storageClass: "STANDARD",
          owner: { id: "testid", displayName: "M. Tester" },
          extra: [{ name: "Type", text: "Normal", children: [] }],
        },
      ],
      commonPrefixes: ["a+b/"],
      truncated: true,
      nextContinuationToken: "c d%2F\r",
    },
  });
});

void t.test("reads AWS's spelling: a blank as plus, slashes raw, V1 with marker", async (t) => {
  const page = pageOf(
    `<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated><NextMarker>a+b</NextMarker>` +
      `<Contents><Key>a+b%2B/c*</Key><ChecksumAlgorithm>CRC32</ChecksumAlgorithm></Contents></ListBucketResult>`,
  );
  t.equal(page.entries[0]?.key, "a b+/c*");
  t.equal(page.entries[0]?.owner, null);
  t.equal(page.entries[0]?.extra[0]?.name, "ChecksumAlgorithm");
});

void t.test("takes keys as they stand when the answer does not say that it encodes", async (t) => {
  const reading = readListPage(
    `<ListBucketResult><IsTruncated> false\n</IsTruncated><Contents><Key>a+b%2F&amp;</Key></Contents></ListBucketResult>`,
  );
  t.equal(reading.kind === "page" && reading.page.entries[0]?.key, "a+b%2F&");
});

void t.test("takes no page that may be short or wrong", async (t) => {
  const list = (inner: string): string =>
    `<ListBucketResult><EncodingType>url</EncodingType>${inner}</ListBucketResult>`;
  const whole = "<IsTruncated>false</IsTruncated>";
  const cases: readonly [string, string][] = [
    [list(""), "not_a_list"],
    [list("<IsTruncated>maybe</IsTruncated>"), "not_a_list"],
    [`<Error><Code>x</Code>${whole}</Error>`, "not_a_list"],
    [list(`${whole}<Contents><Size>1</Size></Contents>`), "bad_key"],
    [list(`${whole}<Contents><Key></Key></Contents>`), "bad_key"],
    [list(`${whole}<Contents><Key>a%</Key></Contents>`), "bad_key"],
    [list(`${whole}<Contents><Key>a%FF</Key></Contents>`), "bad_key"],
    [list(`${whole}<CommonPrefixes><Prefix>%</Prefix></CommonPrefixes>`), "bad_key"],
    [list(whole).slice(0, -5), "malformed"],
    ["", "malformed"],
    [" ".repeat(maxListPageBytes + 1), "too_large"],
  ];
  for (const [body, fault] of cases) t.strictSame(readListPage(body), { kind: "error", fault });
});

const merged: MergedPage = {
  entries: [
    {
      ...entryOf("a b/é+'", '"e1"'),
      owner: { id: "o", displayName: null },
      extra: [{ name: "ChecksumAlgorithm", text: "CRC32", children: [] }],
    },
  ],
  commonPrefixes: ["c&/"],
  truncated: true,
  last: { kind: "prefix", text: "c&/" },
};

function written(query: QueryList, version: 1 | 2, page = merged): string {
  const document = listDocument(requestOf(query, version), {
    bucket: "b",
    page,
    nextContinuationToken: "tok",
  });
  const start = `<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">`;
  return document.slice(start.length, -"</ListBucketResult>".length);
}

void t.test("writes V2", async (t) => {
  t.equal(
    written([["start-after", "s"]], 2),
    `<Name>b</Name><Prefix></Prefix><StartAfter>s</StartAfter><NextContinuationToken>tok</NextContinuationToken>` +
      `<KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys><IsTruncated>true</IsTruncated>` +
      `<Contents><Key>a b/é+'</Key><ETag>&quot;e1&quot;</ETag><Size>1</Size><ChecksumAlgorithm>CRC32</ChecksumAlgorithm></Contents>` +
      `<CommonPrefixes><Prefix>c&amp;/</Prefix></CommonPrefixes>`,
  );
});

void t.test("writes V2 with url encoding, owners and the token it was given", async (t) => {
  const query: QueryList = [
    ["encoding-type", "url"],
    ["fetch-owner", "true"],
    ["continuation-token", ""],
    ["delimiter", "&"],
    ["prefix", "é"],
  ];
  t.equal(
    written(query, 2, { ...merged, truncated: false }),
    `<Name>b</Name><Prefix>%C3%A9</Prefix><ContinuationToken></ContinuationToken>` +
      `<KeyCount>2</KeyCount><MaxKeys>1000</MaxKeys><Delimiter>%26</Delimiter><EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>` +
      `<Contents><Key>a%20b/%C3%A9%2B%27</Key><ETag>&quot;e1&quot;</ETag><Size>1</Size><Owner><ID>o</ID></Owner><ChecksumAlgorithm>CRC32</ChecksumAlgorithm></Contents>` +
      `<CommonPrefixes><Prefix>c%26/</Prefix></CommonPrefixes>`,
  );
});

void t.test("writes V1 with Marker always and NextMarker when truncated, encoded", async (t) => {
  const empty: MergedPage = { entries: [], commonPrefixes: [], truncated: false, last: null };
  t.equal(
    written([], 1, empty),
    `<Name>b</Name><Prefix></Prefix><Marker></Marker><MaxKeys>1000</MaxKeys><IsTruncated>false</IsTruncated>`,
  );
  const encoded = written(
    [
      ["encoding-type", "url"],
      ["marker", "m m"],
    ],
    1,
  );
  t.match(encoded, "<Marker>m%20m</Marker><NextMarker>c%26/</NextMarker>");
  t.match(encoded, "<Owner><ID>o</ID></Owner>", "V1 always shows owners");
  t.match(written([], 1), "<NextMarker>c&amp;/</NextMarker>");
  t.notMatch(encoded, /KeyCount|Token/);
  // botocore reads it as it stands, Java's client decodes it: both read what was asked for, if they can.
  const rows = [
    ["a b/é\n", "a b/é&#xA;"],
    ["a+b", "a%2Bb"],
    ["a%20b", "a%2520b"],
    ["x\u0001", "x%01"],
    ["x\uffff", "x%EF%BF%BF"],
  ] as const;
  for (const [prefix, text] of rows) {
    const url = [["encoding-type", "url"] as const, ["prefix", prefix] as const];
    t.ok(written(url, 1).includes(`<Prefix>${text}</Prefix>`), text);
  }
});

void t.test("a page that was written is read as the same page", async (t) => {
  for (const query of [[], [["encoding-type", "url"]]] as const) {
    const odd = ["\u0001", "\r\n", "%2F", "+", " ", "&lt;", "é", "\u{10ffff}"];
    const page: MergedPage = {
      entries: odd.map((key) => entryOf(key, "e")),
      commonPrefixes: odd,
      truncated: true,
      last: null,
    };
    const document = listDocument(requestOf(query), {
      bucket: "b",
      page,
      nextContinuationToken: "t+%2F",
    });
    const read = pageOf(Buffer.from(document));
    t.strictSame(read.entries, page.entries);
    t.strictSame(read.commonPrefixes, odd);
    t.equal(read.nextContinuationToken, "t+%2F");
  }
});
