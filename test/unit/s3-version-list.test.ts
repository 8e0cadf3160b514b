// Lists of versions and of uploads: one page out of several clusters' pages.

import fc from "fast-check";
import t from "tap";
import { compareKeys } from "../../proxy/s3/listing.ts";
import type { UploadListRequest } from "../../proxy/s3/upload-list.ts";
import {
  readUploadListRequest,
  readUploadPage,
  UploadChoice,
  uploadListDocument,
} from "../../proxy/s3/upload-list.ts";
import type { VersionPage } from "../../proxy/s3/version-list.ts";
import {
  readVersionListRequest,
  readVersionPage,
  versionListDocument,
  versionListQuery,
} from "../../proxy/s3/version-list.ts";
import { VersionMerge } from "../../proxy/s3/version-merge.ts";

// As RGW 16.2 writes it under encoding-type=url: keys encoded, markers and prefix not.
const fromRgw = `<?xml version="1.0" encoding="UTF-8"?><ListVersionsResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>v</Name><Prefix>a </Prefix><MaxKeys>2</MaxKeys><Delimiter>/</Delimiter><IsTruncated>true</IsTruncated><CommonPrefixes><Prefix>a /</Prefix></CommonPrefixes><KeyMarker></KeyMarker><VersionIdMarker></VersionIdMarker><NextKeyMarker>a é&amp;</NextKeyMarker><NextVersionIdMarker>v2</NextVersionIdMarker><Version><Key>a é&amp;</Key><VersionId>v3</VersionId><IsLatest>true</IsLatest><ETag>&quot;9d&quot;</ETag><Owner><ID>o</ID></Owner><Type>Normal</Type></Version><DeleteMarker><Key>a é&amp;</Key><VersionId>v2</VersionId><IsLatest>false</IsLatest></DeleteMarker></ListVersionsResult>`;

t.test("a cluster's list of versions is kept, names and markers encoded as asked", async (t) => {
  const reading = readVersionPage(Buffer.from(fromRgw));
  if (reading.kind === "error") throw new Error(reading.fault);
  const request = {
    prefix: "a ",
    delimiter: "/",
    maxKeys: 3,
    keyMarker: "a%",
    versionIdMarker: "m",
    encodingType: "url",
  } as const;
  const { items, truncated } = reading.page;
  const text = versionListDocument(request, { bucket: "ours", items, truncated });
  for (const part of [
    "<Name>ours</Name><Prefix>a%20</Prefix><KeyMarker>a%25</KeyMarker>",
    "<VersionIdMarker>m</VersionIdMarker><NextKeyMarker>a%20%C3%A9%26</NextKeyMarker>",
    "<NextVersionIdMarker>v2</NextVersionIdMarker>",
    "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>",
    "<CommonPrefixes><Prefix>a%20/</Prefix></CommonPrefixes>",
    "<Version><Key>a%20%C3%A9%26</Key><VersionId>v3</VersionId><IsLatest>true</IsLatest><ETag>&quot;9d&quot;</ETag><Owner><ID>o</ID></Owner><Type>Normal</Type></Version>",
    "<DeleteMarker><Key>a%20%C3%A9%26</Key><VersionId>v2</VersionId><IsLatest>false</IsLatest></DeleteMarker>",
  ]) {
    t.ok(text.includes(part), part);
  }
  const plain = versionListDocument(
    { ...request, encodingType: null },
    { bucket: "b", items, truncated },
  );
  t.ok(plain.includes("<NextKeyMarker>a é&amp;</NextKeyMarker>"));
  t.notOk(plain.includes("EncodingType"));
});

t.test("what is no list of versions is not taken for one", async (t) => {
  const rows = [
    ["<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>", "not_a_list"],
    ["<ListVersionsResult></ListVersionsResult>", "not_a_list"],
    [fromRgw.replace("<Key>a é&amp;</Key>", ""), "not_a_list"],
    [fromRgw.replace("<Key>a é&amp;</Key>", "<Key>b</Key>"), "disordered"],
    ["<ListVersionsResult>", "malformed"],
  ] as const;
  for (const [document, fault] of rows) {
    t.match(readVersionPage(Buffer.from(document)), { kind: "error", fault }, fault);
  }
});

function answered(truncated: boolean, inner: string): VersionPage {
  const reading = readVersionPage(
    Buffer.from(
      `<ListVersionsResult><IsTruncated>${truncated}</IsTruncated>${inner}</ListVersionsResult>`,
    ),
  );
  if (reading.kind === "error") throw new Error(reading.fault);
  return reading.page;
}

function versions(...rows: readonly string[]): string {
  return rows
    .map((row) => row.split(" "))
    .map(([key, id]) => `<Version><Key>${key}</Key><VersionId>${id}</VersionId></Version>`)
    .join("");
}

const request = {
  prefix: "",
  delimiter: "",
  maxKeys: 2,
  keyMarker: "",
  versionIdMarker: "",
  encodingType: null,
} as const;
const start = { keyMarker: "", versionIdMarker: "" };

function textsOf(merge: VersionMerge): readonly string[] | null {
  return merge.result()?.items.map(({ text }) => text) ?? null;
}

t.test("a cluster is asked until it gave a page, or has no more", async (t) => {
  const rolled = { ...request, prefix: "a/", delimiter: "//" };
  const merge = new VersionMerge({ request: rolled, starts: [start], plain: true });
  const empty = answered(true, "<NextKeyMarker>a/0</NextKeyMarker>");
  t.equal(merge.feed(0, empty), "taken");
  const need = { cursor: 0, prefix: "a/", delimiter: "", maxKeys: 2 };
  const asked = { ...need, keyMarker: "a/0", versionIdMarker: "" };
  t.strictSame(merge.needs(), [asked], "empty is not the end, and // is rolled up here");
  t.strictSame(versionListQuery(asked), [
    ["versions", null],
    ["max-keys", "2"],
    ["prefix", "a/"],
    ["key-marker", "a/0"],
  ]);
  t.equal(merge.feed(0, empty), "stalled");
  const rolling = new VersionMerge({ request: rolled, starts: [start], plain: true });
  rolling.feed(0, answered(true, versions("a/1 null", "a/b//1 null")));
  const [next] = rolling.needs();
  t.equal(Buffer.byteLength(next?.keyMarker ?? ""), 1024, "behind all of the prefix");
  t.equal(next?.maxKeys, 1, "only to know whether anything follows");
  rolling.feed(0, answered(false, ""));
  t.match(rolling.result(), {
    items: [{ text: "a/1" }, { kind: "prefix", text: "a/b//" }],
    truncated: false,
  });
  const lost = new VersionMerge({ request, starts: [start], plain: true });
  t.equal(lost.feed(0, answered(true, "")), "stalled", "it does not say where it goes on");
});

t.test("behind a key alone its versions are left out, should they come again", async (t) => {
  const from = { keyMarker: "k", versionIdMarker: "" };
  const merge = new VersionMerge({ request, starts: [from], plain: false });
  merge.feed(0, answered(true, versions("k 3", "k 2")));
  t.match(merge.needs(), [{ keyMarker: "k", versionIdMarker: "2", maxKeys: 2 }]);
  merge.feed(0, answered(false, versions("k 1", "l 1")));
  t.strictSame(textsOf(merge), ["l"]);
});

/** Versions as an RGW writes them. */
function typed(...rows: readonly string[]): string {
  return versions(...rows).replaceAll("</Version>", "<Type>Normal</Type></Version>");
}

function behind(sought: string, maxKeys = 2): VersionMerge {
  const from = { keyMarker: "k", versionIdMarker: sought };
  return new VersionMerge({ request: { ...request, maxKeys }, starts: [from], plain: false });
}

t.test(
  "a page behind a version is one question to a cluster that gives its key again",
  async (t) => {
    const merge = behind("2");
    const need = { cursor: 0, prefix: "", delimiter: "", keyMarker: "k", versionIdMarker: "" };
    t.strictSame(merge.needs(), [{ ...need, maxKeys: 10 }], "and most keys have few");
    merge.feed(0, answered(true, typed("k 3", "k 2", "k 1", "kk 5")));
    t.match(merge.result(), { items: [{ text: "k" }, { text: "kk" }], truncated: true });
    for (const [sought, page, texts] of [
      ["null", answered(true, typed("l null", "m null")), ["l", "m"]],
      ["null", answered(true, typed("k 2", "k null", "k 1", "l 1")), ["k", "l"]],
      ["gone", answered(false, typed("k 2", "k 1")), ["k", "k"]],
      ["gone", answered(true, typed("k 2", "l 1")), ["k", "l"]],
    ] as const) {
      const other = behind(sought);
      other.feed(0, page);
      t.strictSame(textsOf(other), texts, sought);
    }
    const plain = new VersionMerge({
      request,
      starts: [{ keyMarker: "k", versionIdMarker: "null" }],
      plain: true,
    });
    t.match(
      plain.needs(),
      [{ keyMarker: "k", versionIdMarker: "", maxKeys: 2 }],
      "it has no others",
    );
  },
);

t.test("a version behind many is asked for, and sought on where that gives nothing", async (t) => {
  const found = behind("2");
  found.feed(0, answered(true, typed("k 9", "k 8")));
  t.match(found.needs(), [{ prefix: "", keyMarker: "k", versionIdMarker: "2" }]);
  found.feed(0, answered(false, typed("k 1", "l 1")));
  t.strictSame(textsOf(found), ["k", "l"]);
  const lost = behind("2");
  lost.feed(0, answered(true, typed("k 9", "k 8")));
  lost.feed(0, answered(false, typed("l 1")));
  t.match(lost.needs(), [{ keyMarker: "k", versionIdMarker: "8", maxKeys: 1000 }]);
  lost.feed(0, answered(true, typed("k 7", "l 1")));
  t.match(lost.needs(), [{ keyMarker: "k", versionIdMarker: "" }], "gone: from the newest on");
  lost.feed(0, answered(true, typed("k 9", "k 8")));
  t.strictSame(textsOf(lost), ["k", "k"]);
  const old = behind("null");
  old.feed(0, answered(true, typed("k 9", "k 8")));
  t.match(old.needs(), [{ keyMarker: "k", versionIdMarker: "8" }], "never asked for behind null");
  old.feed(0, answered(true, typed("k 7", "k null")));
  t.match(old.needs(), [{ keyMarker: "k", versionIdMarker: "7" }]);
  old.feed(0, answered(true, typed("k null", "k 1", "l 1")));
  t.strictSame(textsOf(old), ["k", "l"]);
});

t.test("a cluster that steps over a key is asked for the key's versions alone", async (t) => {
  const merge = behind("null");
  merge.feed(0, answered(true, versions("l null", "m null")));
  t.match(merge.needs(), [{ prefix: "k", keyMarker: "", versionIdMarker: "" }]);
  merge.feed(0, answered(true, versions("k 2", "k null", "kk 5")));
  t.strictSame(textsOf(merge), ["l", "m"], "nothing stood behind it");
  const more = behind("null", 3);
  more.feed(0, answered(true, versions("l null", "m null")));
  more.feed(0, answered(true, versions("k null", "k 1", "kk 5")));
  t.strictSame(textsOf(more), ["k", "l", "m"]);
  const alone = behind("null");
  alone.feed(0, answered(true, typed("k null")));
  t.match(alone.needs(), [{ prefix: "", keyMarker: "k", versionIdMarker: "null" }]);
});

t.test("a page without rows is read over wherever it comes, but not for ever", async (t) => {
  const empty = (key: string, version: string): VersionPage =>
    answered(
      true,
      `<NextKeyMarker>${key}</NextKeyMarker><NextVersionIdMarker>${version}</NextVersionIdMarker>`,
    );
  const merge = behind("null");
  t.equal(merge.feed(0, empty("k", "3")), "taken");
  t.match(merge.needs(), [{ keyMarker: "k", versionIdMarker: "3" }]);
  merge.feed(0, answered(false, typed("k null", "k 1")));
  t.strictSame(textsOf(merge), ["k"]);
  t.equal(
    behind("null").feed(0, answered(true, "")),
    "stalled",
    "it does not say where it goes on",
  );
  const endless = behind("2");
  const fed = Array.from({ length: 11 }, (_, at) => endless.feed(0, empty("k", `e${at}`)));
  t.strictSame(fed, [...Array.from({ length: 10 }, () => "taken"), "stalled"]);
});

t.test("a full page asks on where another cluster's key may be all that follows", async (t) => {
  const merge = new VersionMerge({ request, starts: [start, start], plain: false });
  merge.feed(0, answered(false, versions("k 2", "k 1")));
  merge.feed(1, answered(true, versions("k b", "k a")));
  t.match(merge.needs(), [{ cursor: 1, keyMarker: "k", versionIdMarker: "a", maxKeys: 1 }]);
  merge.feed(1, answered(false, versions("k 0")));
  t.match(merge.result(), { truncated: false });
});

t.test("a version without a key is no place in a list", async (t) => {
  t.match(readVersionListRequest([["version-id-marker", "v"]]), {
    error: { code: "InvalidArgument" },
  });
  t.match(readVersionListRequest([["version-id-marker", ""]]), { kind: "request" });
});

const noMarker: UploadListRequest = {
  prefix: "",
  delimiter: "",
  maxUploads: 1000,
  keyMarker: "",
  uploadIdMarker: "",
  encodingType: null,
};

function pageOf(rows: readonly (readonly [key: string, id: string])[]): Uint8Array {
  const uploads = rows.map(
    ([key, id]) =>
      `<Upload><Key>${key}</Key><UploadId>${id}</UploadId><Initiated>t</Initiated></Upload>`,
  );
  return Buffer.from(
    `<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>${uploads.join("")}</ListMultipartUploadsResult>`,
  );
}

t.test("uploads are paged in the order of keys, whatever order they come in", async (t) => {
  const key = fc.string({
    unit: fc.constantFrom("a", "b", "-", "/", "é"),
    minLength: 1,
    maxLength: 4,
  });
  const row = fc.tuple(key, fc.constantFrom("x", "y"), fc.integer({ min: 1, max: 9 }));
  fc.assert(
    fc.property(
      fc.uniqueArray(row, { maxLength: 25, selector: ([k, c, id]) => `${c} ${id} ${k}` }),
      fc.integer({ min: 1, max: 4 }),
      fc.constantFrom("", "/"),
      (rows, maxUploads, delimiter) => {
        const names = rows.map(([k, c, id]) => {
          const cut = delimiter === "" ? -1 : k.indexOf(delimiter);
          return cut === -1 ? `${k} ${c} ${id}` : `${k.slice(0, cut + 1)} prefix`;
        });
        const seen: string[] = [];
        let request: UploadListRequest = { ...noMarker, delimiter, maxUploads };
        let place: string | null = null;
        for (let turn = 0; turn < 100; turn += 1) {
          const choice: UploadChoice = new UploadChoice(request, place);
          for (const cluster of ["x", "y"]) {
            const held = rows.filter(([, c]) => c === cluster);
            const reading = readUploadPage(pageOf(held.map(([k, , id]) => [k, String(id)])));
            if (reading.kind === "error") throw new Error(reading.fault);
            for (const upload of reading.uploads) {
              choice.add([{ ...upload, place: `${cluster} ${upload.uploadId}` }]);
            }
          }
          const { items, truncated }: ReturnType<UploadChoice["result"]> = choice.result();
          for (const item of items) {
            seen.push(`${item.key} ${item.kind === "upload" ? item.place : "prefix"}`);
          }
          const last = items.at(-1);
          if (!truncated || last === undefined) break;
          request = { ...request, keyMarker: last.key };
          place = last.kind === "upload" ? last.place : null;
        }
        const expected = [...new Set(names)].toSorted((a, b) => {
          const [left = "", right = ""] = [a.split(" ")[0], b.split(" ")[0]];
          return compareKeys(left, right) || (a < b ? -1 : 1);
        });
        return seen.join() === expected.join();
      },
    ),
    { numRuns: 300 },
  );
  t.pass("300 sets of uploads");
});

t.test("the answer shows handles, encoded markers and everything else as it stood", async (t) => {
  const reading = readUploadPage(pageOf([["a b", "1"]]));
  if (reading.kind === "error") throw new Error(reading.fault);
  const choice = new UploadChoice({ ...noMarker, maxUploads: 1 }, null);
  choice.add(reading.uploads.map((upload) => ({ ...upload, place: "x 1" })));
  const text = uploadListDocument(
    { ...noMarker, maxUploads: 1, prefix: "a ", encodingType: "url" },
    { bucket: "b", ...choice.result(), truncated: true, handleOf: () => "handle" },
  );
  t.ok(
    text.includes(
      "<NextKeyMarker>a%20b</NextKeyMarker><NextUploadIdMarker>handle</NextUploadIdMarker><Prefix>a%20</Prefix>",
    ),
  );
  t.ok(
    text.includes(
      "<Upload><Key>a%20b</Key><UploadId>handle</UploadId><Initiated>t</Initiated></Upload>",
    ),
  );
  for (const query of ["max-uploads=x", "max-uploads=-1", "encoding-type=hex"]) {
    const [name = "", value = ""] = query.split("=");
    t.match(readUploadListRequest([[name, value]]), { kind: "error" }, query);
  }
  t.match(readUploadListRequest([["upload-id-marker", "x"]]), { request: { uploadIdMarker: "" } });
  t.match(readUploadListRequest([["max-uploads", "5000"]]), { request: { maxUploads: 1000 } });
});
