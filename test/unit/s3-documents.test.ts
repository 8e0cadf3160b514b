// The documents of buckets and of multipart uploads.

import { createHash } from "node:crypto";
import t from "tap";
import {
  bucketListDocument,
  bucketLocationDocument,
  bucketPage,
  type ListedBucket,
  locationConstraintDocument,
  mergeBuckets,
  readBucketConfiguration,
  readBucketList,
  readListBucketsRequest,
} from "../../proxy/s3/bucket-document.ts";
import {
  completeRequestDocument,
  completeResultDocument,
  initiateDocument,
  maxCompleteBytes,
  multipartEtag,
  objectLocation,
  quoteEtag,
  readCompleteRequest,
  readCompleteResult,
  readInitiateResult,
  rewriteListParts,
} from "../../proxy/s3/multipart-document.ts";

const declaration = `<?xml version="1.0" encoding="UTF-8"?>\n`;
const namespace = `xmlns="http://s3.amazonaws.com/doc/2006-03-01/"`;

// ---- buckets ----

function locationOf(body: string): string | null {
  const reading = readBucketConfiguration(Buffer.from(body));
  return reading.kind === "error" ? reading.error.code : reading.location;
}

void t.test("reads where a new bucket is wanted", async (t) => {
  t.equal(locationOf(""), null);
  t.equal(locationOf("<CreateBucketConfiguration/>"), null);
  t.equal(
    locationOf(
      "<CreateBucketConfiguration><LocationConstraint></LocationConstraint></CreateBucketConfiguration>",
    ),
    null,
  );
  t.equal(locationOf(locationConstraintDocument("eu-west-1")), "eu-west-1");
});

void t.test("refuses a bucket configuration it cannot carry out", async (t) => {
  t.equal(locationOf("junk"), "MalformedXML");
  t.equal(locationOf("   "), "MalformedXML");
  t.equal(locationOf("<LocationConstraint>eu</LocationConstraint>"), "MalformedXML");
  t.equal(
    locationOf("<CreateBucketConfiguration><X/></CreateBucketConfiguration>"),
    "MalformedXML",
  );
  t.equal(
    locationOf("<CreateBucketConfiguration><Tags/></CreateBucketConfiguration>"),
    "NotImplemented",
  );
  t.equal(
    locationOf(`<CreateBucketConfiguration>${" ".repeat(20_000)}</CreateBucketConfiguration>`),
    "MalformedXML",
  );
});

void t.test("writes a bucket's location", async (t) => {
  t.equal(
    bucketLocationDocument("a&b"),
    `${declaration}<LocationConstraint ${namespace}>a&amp;b</LocationConstraint>`,
  );
  t.match(bucketLocationDocument("us-east-1"), `${namespace}></LocationConstraint>`);
});

function bucket(name: string, creationDate: string): ListedBucket {
  return { name, creationDate, extra: [] };
}

void t.test("reads a list of buckets", async (t) => {
  const body =
    `<ListAllMyBucketsResult ${namespace}><Owner><ID>testid</ID><DisplayName>M. Tester</DisplayName></Owner>` +
    `<Buckets><Bucket><Name>b</Name><CreationDate>2026-11-30T00:00:26.452Z</CreationDate><BucketRegion>x</BucketRegion></Bucket>` +
    `<Bucket><Name>a</Name></Bucket></Buckets><ContinuationToken>t</ContinuationToken></ListAllMyBucketsResult>`;
  t.strictSame(readBucketList(body), {
    kind: "list",
    list: {
      owner: { id: "testid", displayName: "M. Tester" },
      buckets: [
        {
          name: "b",
          creationDate: "2026-11-30T00:00:26.452Z",
          extra: [{ name: "BucketRegion", text: "x", children: [] }],
        },
        bucket("a", ""),
      ],
      continuationToken: "t",
    },
  });
  t.strictSame(readBucketList("<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>"), {
    kind: "list",
    list: { owner: null, buckets: [], continuationToken: null },
  });
});

void t.test("takes no other document for a list of buckets", async (t) => {
  const notAList = { kind: "error", fault: "not_a_list" };
  t.strictSame(readBucketList("<ListAllMyBucketsResult/>"), notAList);
  t.strictSame(readBucketList("<Error><Buckets/></Error>"), notAList);
  t.strictSame(
    readBucketList("<ListAllMyBucketsResult><Buckets><Bucket/></Buckets></ListAllMyBucketsResult>"),
    notAList,
  );
  t.strictSame(readBucketList("<"), { kind: "error", fault: "malformed" });
});

void t.test("merges buckets by name with the earliest date", async (t) => {
  const late = bucket("b", "2026-02-01T00:00:00.000Z");
  const early = bucket("b", "2026-01-01T00:00:00.000Z");
  const dateless = bucket("b", "");
  const other = bucket("a", "2026-03-01T00:00:00.000Z");
  for (const lists of [
    [[late], [early, other], [dateless]],
    [[dateless], [other, early], [late]],
  ]) {
    t.strictSame(mergeBuckets(lists), [other, early]);
  }
  t.strictSame(mergeBuckets([]), []);
});

void t.test("pages through merged buckets", async (t) => {
  const buckets = ["a1", "a2", "a3", "b1"].map((name) => bucket(name, ""));
  const request = { prefix: "a", region: "", maxBuckets: 2, continuationToken: null };
  const names = (after: string | null): readonly unknown[] => {
    const page = bucketPage(buckets, request, after);
    return [page.buckets.map(({ name }) => name), page.truncated, page.last];
  };
  t.strictSame(names(null), [["a1", "a2"], true, "a2"]);
  t.strictSame(names("a2"), [["a3"], false, "a3"]);
  t.strictSame(names("z"), [[], false, null]);
  t.equal(bucketPage(buckets, { ...request, maxBuckets: null }, null).buckets.length, 3);
});

void t.test("reads a ListBuckets request", async (t) => {
  t.strictSame(readListBucketsRequest([["max-buckets", "10000"]]), {
    kind: "request",
    request: { prefix: "", region: "", maxBuckets: 10_000, continuationToken: null },
  });
  for (const text of ["0", "10001", "-1", "x", "1.0"]) {
    const reading = readListBucketsRequest([["max-buckets", text]]);
    t.equal(reading.kind === "error" && reading.error.code, "InvalidArgument", text);
  }
});

void t.test("writes a list of buckets", async (t) => {
  const answer = {
    owner: { id: "o", displayName: "O" },
    buckets: [bucket("a", "d"), bucket("b", "")],
    prefix: "",
    continuationToken: null,
  };
  t.equal(
    bucketListDocument(answer),
    `${declaration}<ListAllMyBucketsResult ${namespace}><Owner><ID>o</ID><DisplayName>O</DisplayName></Owner>` +
      `<Buckets><Bucket><Name>a</Name><CreationDate>d</CreationDate></Bucket><Bucket><Name>b</Name></Bucket></Buckets></ListAllMyBucketsResult>`,
  );
  t.match(
    bucketListDocument({ ...answer, prefix: "p", continuationToken: "t" }),
    "<Prefix>p</Prefix><ContinuationToken>t</ContinuationToken>",
  );
});

// ---- multipart ----

const identity = { bucket: "b", key: "a&b\r", uploadId: "handle" };

void t.test("replaces the upload id of a new upload", async (t) => {
  const rgw = `${declaration}<InitiateMultipartUploadResult ${namespace}><Bucket>lst</Bucket><Key>m</Key><UploadId>2~4mN</UploadId></InitiateMultipartUploadResult>`;
  t.strictSame(readInitiateResult(rgw), { kind: "upload", uploadId: "2~4mN" });
  t.strictSame(readInitiateResult(rgw.replace("2~4mN", "")), {
    kind: "error",
    fault: "unexpected",
  });
  t.strictSame(readInitiateResult("<Error/>"), { kind: "error", fault: "unexpected" });
  t.strictSame(readInitiateResult(""), { kind: "error", fault: "malformed" });
  t.equal(
    initiateDocument(identity),
    `${declaration}<InitiateMultipartUploadResult ${namespace}><Bucket>b</Bucket><Key>a&amp;b&#xD;</Key><UploadId>handle</UploadId></InitiateMultipartUploadResult>`,
  );
});

function completeOf(...parts: readonly string[]): string {
  return `<CompleteMultipartUpload>${parts.map((part) => `<Part>${part}</Part>`).join("")}</CompleteMultipartUpload>`;
}

function partOf(number: number | string, etag = "e"): string {
  return `<PartNumber>${number}</PartNumber><ETag>${etag}</ETag>`;
}

function completeFault(body: string): string {
  const reading = readCompleteRequest(Buffer.from(body));
  return reading.kind === "error" ? reading.error.code : "none";
}

void t.test("reads the parts of a Complete and can write them again", async (t) => {
  const checksum = { name: "ChecksumCRC32", text: "AAAA", children: [] };
  const body = completeOf(
    `<ETag>&quot;e1&quot;</ETag>\n<PartNumber> 1 </PartNumber><ChecksumCRC32>AAAA</ChecksumCRC32>`,
    partOf(10_000, "e2"),
  );
  const wanted = {
    kind: "parts" as const,
    parts: [
      { partNumber: 1, etag: '"e1"', checksums: [checksum] },
      { partNumber: 10_000, etag: "e2", checksums: [] },
    ],
  };
  t.strictSame(readCompleteRequest(Buffer.from(body)), wanted);
  t.strictSame(readCompleteRequest(Buffer.from(completeRequestDocument(wanted.parts))), wanted);
});

void t.test("refuses a Complete as S3 does", async (t) => {
  t.equal(completeFault(completeOf(partOf(1), partOf(2))), "none");
  t.equal(completeFault(completeOf(partOf(2), partOf(1))), "InvalidPartOrder");
  t.match(readCompleteRequest(Buffer.from(completeOf(partOf(1), partOf(2), partOf(2)))), {
    parts: [{ partNumber: 1 }, { partNumber: 2 }],
  });
  t.equal(completeFault(completeOf(partOf(0))), "InvalidArgument");
  t.equal(completeFault(completeOf(partOf(10_001))), "InvalidArgument");
  const malformed = [
    "",
    "xx",
    "<a/>",
    completeOf(),
    completeOf(""),
    completeOf("<PartNumber>1</PartNumber>"),
    completeOf("<ETag>e</ETag>"),
    completeOf(partOf(1, "")),
    completeOf(partOf("-1")),
    completeOf(partOf("1.0")),
    completeOf(partOf("9".repeat(20))),
    completeOf(...Array.from({ length: 10_001 }, (_, index) => partOf(index + 1))),
  ];
  for (const body of malformed) t.equal(completeFault(body), "MalformedXML", body.slice(0, 80));
  t.equal(completeFault(" ".repeat(maxCompleteBytes + 1)), "EntityTooLarge");
});

void t.test("takes 10000 parts with every checksum", async (t) => {
  const sha512 = `<ChecksumSHA512>${"A".repeat(88)}</ChecksumSHA512>`;
  const parts = Array.from(
    { length: 10_000 },
    (_, index) => `${partOf(index + 1, `&quot;${"a".repeat(32)}&quot;`)}${sha512}`,
  );
  t.equal(completeFault(completeOf(...parts)), "none");
});

void t.test("reads RGW 16.2's answer to Complete, which has no ETag", async (t) => {
  const rgw = `${declaration}<CompleteMultipartUploadResult ${namespace}><Location>s3-a.localhost/lst/m</Location><Bucket>lst</Bucket><Key>m</Key><ETag></ETag></CompleteMultipartUploadResult>`;
  t.strictSame(readCompleteResult(`   \n\n${rgw}`), {
    kind: "completed",
    etag: null,
    checksums: [],
  });
  const reef = rgw.replace(
    "<ETag></ETag>",
    "<ETag>abc-1</ETag><ChecksumCRC32>AAAA-1</ChecksumCRC32><ChecksumType>COMPOSITE</ChecksumType>",
  );
  t.strictSame(readCompleteResult(Buffer.from(reef)), {
    kind: "completed",
    etag: '"abc-1"',
    checksums: [
      { name: "ChecksumCRC32", text: "AAAA-1", children: [] },
      { name: "ChecksumType", text: "COMPOSITE", children: [] },
    ],
  });
});

void t.test("tells an error inside a 200 from a success", async (t) => {
  const late = `  \r\n${declaration}<Error><Code>InternalError</Code><Message>m</Message></Error>`;
  t.strictSame(readCompleteResult(late), {
    kind: "failed",
    document: { code: "InternalError", message: "m" },
  });
  t.strictSame(readCompleteResult("<Error/>"), { kind: "error", fault: "unexpected" });
  t.strictSame(readCompleteResult("<ListPartsResult/>"), { kind: "error", fault: "unexpected" });
  t.strictSame(readCompleteResult("    "), { kind: "error", fault: "malformed" }, "cut off");
});

void t.test("writes our answer to Complete", async (t) => {
  const location = objectLocation("https", { host: "s3.example:9000", rawPath: "/b/a%26b" });
  t.equal(location, "https://s3.example:9000/b/a%26b");
  t.equal(
    completeResultDocument({
      location,
      bucket: "b",
      key: "a&b",
      etag: '"x-1"',
      checksums: [{ name: "ChecksumCRC32", text: "A", children: [] }],
    }),
    `${declaration}<CompleteMultipartUploadResult ${namespace}><Location>https://s3.example:9000/b/a%26b</Location>` +
      `<Bucket>b</Bucket><Key>a&amp;b</Key><ETag>&quot;x-1&quot;</ETag><ChecksumCRC32>A</ChecksumCRC32></CompleteMultipartUploadResult>`,
  );
});

void t.test("computes the ETag of an upload from its parts", async (t) => {
  const md5 = (data: string | Buffer): Buffer => createHash("md5").update(data).digest();
  const [one, two] = [md5("one"), md5("two")];
  const wanted = `"${md5(Buffer.concat([one, two])).toString("hex")}-2"`;
  t.equal(multipartEtag([`"${one.toString("hex")}"`, two.toString("hex").toUpperCase()]), wanted);
  t.equal(
    multipartEtag([md5("hello").toString("hex")]),
    `"${md5(md5("hello")).toString("hex")}-1"`,
    "one part has a count too",
  );
  t.equal(multipartEtag([]), null);
  t.equal(multipartEtag([one.toString("hex"), "not-md5"]), null);
  t.equal(quoteEtag("abc"), '"abc"');
  t.equal(quoteEtag('"abc"'), '"abc"');
  t.equal(quoteEtag('W/"abc"'), 'W/"abc"');
});

void t.test("rewrites the names in ListParts and keeps all else", async (t) => {
  const rgw =
    `${declaration}<ListPartsResult ${namespace}><Bucket>lst</Bucket><Key>m</Key><UploadId>2~4mN</UploadId><StorageClass>STANDARD</StorageClass>` +
    `<PartNumberMarker>0</PartNumberMarker><IsTruncated>false</IsTruncated><Owner><ID></ID><DisplayName></DisplayName></Owner>` +
    `<Part><LastModified>2026-11-30T00:00:31.315Z</LastModified><PartNumber>1</PartNumber><ETag>&quot;5d41&quot;</ETag><Size>5</Size></Part></ListPartsResult>`;
  const ours = rgw
    .replace("<Bucket>lst<", "<Bucket>b<")
    .replace("<Key>m<", "<Key>a&amp;b&#xD;<")
    .replace("2~4mN", "handle");
  t.strictSame(rewriteListParts(Buffer.from(rgw), identity), { kind: "document", document: ours });
  const encoded = rgw.replace("<Bucket>", "<EncodingType>url</EncodingType><Bucket>");
  const reading = rewriteListParts(encoded, identity);
  t.match(reading.kind === "document" ? reading.document : "", "<Key>a%26b%0D</Key>");
  // An RGW says of a page of no parts that more follow, and versitygw shows all of them.
  const endless = rgw.replace("<IsTruncated>false", "<MaxParts>1</MaxParts><IsTruncated>true");
  const none = rewriteListParts(endless, identity, true);
  const text = none.kind === "document" ? none.document : "";
  t.match(text, "<MaxParts>0</MaxParts><IsTruncated>false</IsTruncated>");
  t.notMatch(text, /<Part>|<NextPartNumberMarker>/);
  // No name is looked up where names of objects are.
  const odd = rgw.replace("<Part>", "<constructor>x</constructor><Part>");
  t.match(rewriteListParts(odd, identity), { document: /<constructor>x</ });
  for (const body of ["<Error/>", "<ListPartsResult/>"]) {
    t.strictSame(rewriteListParts(body, identity), { kind: "error", fault: "unexpected" });
  }
});
