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
  mergeVersionPages,
  readVersionPage,
  VersionStream,
  versionListDocument,
  versionListQuery,
} from "../../proxy/s3/version-list.ts";
import { childText } from "../../proxy/s3/xml.ts";

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
  const page = mergeVersionPages([reading.page], 3);
  const text = versionListDocument(request, { bucket: "ours", page });
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
  const plain = versionListDocument({ ...request, encodingType: null }, { bucket: "b", page });
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

/** What a cluster that holds these (key, versions) answers. */
function clusterPage(
  held: ReadonlyMap<string, readonly string[]>,
  after: { readonly key: string; readonly versionId: string | null } | null,
  maxKeys: number,
): VersionPage {
  const all = [...held]
    .toSorted(([a], [b]) => compareKeys(a, b))
    .flatMap(([key, versions]) => versions.map((version) => ({ key, version })));
  const start =
    after === null
      ? 0
      : all.findLastIndex(
          ({ key, version }) =>
            compareKeys(key, after.key) < 0 ||
            (key === after.key && (after.versionId === null || version === after.versionId)),
        ) + 1;
  const rows = all.slice(start, start + maxKeys);
  const text = rows
    .map(
      ({ key, version }) => `<Version><Key>${key}</Key><VersionId>${version}</VersionId></Version>`,
    )
    .join("");
  const truncated = start + rows.length < all.length;
  const reading = readVersionPage(
    Buffer.from(
      `<ListVersionsResult><IsTruncated>${truncated}</IsTruncated>${text}</ListVersionsResult>`,
    ),
  );
  if (reading.kind === "error") throw new Error(reading.fault);
  return reading.page;
}

t.test("the versions of several clusters are those of the keys' first holders", async (t) => {
  const cluster = fc.dictionary(
    fc.string({ unit: fc.constantFrom("a", "b", "é", "\u{1f600}"), minLength: 1, maxLength: 3 }),
    fc.integer({ min: 1, max: 3 }),
    { maxKeys: 8 },
  );
  fc.assert(
    fc.property(
      fc.array(cluster, { minLength: 2, maxLength: 3 }),
      fc.integer({ min: 1, max: 5 }),
      (given, maxKeys) => {
        const clusters = given.map(
          (keys, index) =>
            new Map(
              Object.entries(keys).map(([key, count]) => [
                key,
                Array.from({ length: count }, (_, at) => `${key}-${index}-${at}`),
              ]),
            ),
        );
        const expected = [...new Set(clusters.flatMap((held) => [...held.keys()]))]
          .toSorted(compareKeys)
          .flatMap((key) => clusters.find((held) => held.has(key))?.get(key) ?? []);
        // A key stays with its holder from page to page only where clusters know the marker's version;
        // so shadowed keys are left out of paging here.
        const shadowed = clusters.some((held, at) =>
          clusters.some((other, below) => below > at && [...held.keys()].some((k) => other.has(k))),
        );
        const most = shadowed ? 1000 : maxKeys;
        const seen: string[] = [];
        let after: { readonly key: string; readonly versionId: string | null } | null = null;
        for (let turn = 0; turn < 100; turn += 1) {
          const from = after;
          const page = mergeVersionPages(
            clusters.map((held) => clusterPage(held, from, most)),
            most,
          );
          for (const item of page.items) {
            if (item.kind === "version") seen.push(childText(item.node, "VersionId") ?? "");
          }
          if (page.items.length > most) return false;
          if (!page.truncated) break;
          after = page.next;
        }
        return seen.join() === expected.join();
      },
    ),
    { numRuns: 300 },
  );
  t.pass("300 bucket contents");
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

t.test("a cluster is asked until it gave a page, or has no more", async (t) => {
  const request = {
    prefix: "a/",
    delimiter: "//",
    maxKeys: 2,
    keyMarker: "",
    versionIdMarker: "",
    encodingType: null,
  };
  const start = { keyMarker: "", versionIdMarker: "" };
  const stream = new VersionStream(request, start);
  const empty = answered(true, "<NextKeyMarker>a/0</NextKeyMarker>");
  t.equal(stream.feed(empty), "taken");
  t.strictSame(stream.need, { keyMarker: "a/0", versionIdMarker: "" }, "empty is not the end");
  t.equal(stream.feed(empty), "stalled");
  t.strictSame(versionListQuery(request, { keyMarker: "a/0", versionIdMarker: "" }), [
    ["versions", null],
    ["max-keys", "2"],
    ["prefix", "a/"],
    ["key-marker", "a/0"],
  ]);
  const rolling = new VersionStream(request, start);
  const version = (key: string): string =>
    `<Version><Key>${key}</Key><VersionId>null</VersionId></Version>`;
  rolling.feed(answered(true, version("a/1") + version("a/b//1")));
  t.equal(Buffer.byteLength(rolling.need?.keyMarker ?? ""), 1024, "behind all of the prefix");
  rolling.feed(answered(false, ""));
  t.match(rolling.page(), {
    items: [{ text: "a/1" }, { kind: "prefix", text: "a/b//" }],
    truncated: false,
  });
  const lost = new VersionStream(request, start);
  t.equal(lost.feed(answered(true, "")), "stalled", "it does not say where it goes on");
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
