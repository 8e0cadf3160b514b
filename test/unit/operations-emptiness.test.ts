// Whether a bucket is empty, as clusters may answer it: what is not the list that was asked for, or does not
// end, is never taken for an empty bucket.

import t from "tap";
import type { BucketPlace } from "../../proxy/operations/emptiness.ts";
import { holdsAnything, holdsObjects } from "../../proxy/operations/emptiness.ts";
import { anonymousIdentity, type Upstream } from "../../proxy/placement/ports.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import type { S3Operation } from "../../proxy/s3/operation.ts";
import { encodeQuery } from "../../proxy/s3/query.ts";
import { bucketNamed, clusterNamed } from "../support/placement-names.ts";

const lists = {
  ListMultipartUploads: { root: "ListMultipartUploadsResult", entry: "Upload" },
  ListObjectsV2: { root: "ListBucketResult", entry: "Contents" },
  ListObjectVersions: { root: "ListVersionsResult", entry: "DeleteMarker" },
} as const;
type Listing = keyof typeof lists;
const listings = ["ListMultipartUploads", "ListObjectsV2", "ListObjectVersions"] as const;

type Answer = string | readonly [status: number, body: string];

const whole = "<IsTruncated>false</IsTruncated>";
const more = "<IsTruncated>true</IsTruncated>";
const error = (code: string): string => `<Error><Code>${code}</Code></Error>`;

function isListing(operation: S3Operation): operation is Listing {
  return Object.hasOwn(lists, operation);
}

/** A cluster that gives these answers in turn to one question, and says "empty" to the others. */
function cluster(asked: Listing, answers: readonly Answer[]) {
  const queries: string[] = [];
  const send: Upstream["send"] = async (_cluster, { operation, query }) => {
    if (!isListing(operation)) throw new Error(`${operation} is no list`);
    const { root } = lists[operation];
    let answer: Answer | undefined = `<${root}>${whole}</${root}>`;
    if (operation === asked) {
      answer = answers[queries.length] ?? answers.at(-1);
      queries.push(encodeQuery(query));
    }
    const [status, text] = typeof answer === "string" ? [200, answer] : (answer ?? [500, ""]);
    const bytes = Buffer.from(text);
    return {
      status,
      headers: [],
      body: {
        takeWhole: () => bytes,
        pipe: async () => {},
        cancel: () => {},
        async *[Symbol.asyncIterator]() {
          yield bytes;
        },
      },
    };
  };
  return { upstream: { send }, queries };
}

const place = { tenant: noTenant, name: bucketNamed("b"), cluster: clusterNamed("a") } as const;

async function told(
  asked: Listing,
  answers: readonly Answer[],
  given: Partial<BucketPlace> = {},
): Promise<string> {
  const { upstream } = cluster(asked, answers);
  const { signal } = new AbortController();
  try {
    return (await holdsAnything([{ ...place, ...given }], { upstream }, signal))
      ? "holds"
      : "empty";
  } catch (caught) {
    return caught instanceof Error && "code" in caught ? String(caught.code) : String(caught);
  }
}

for (const asked of listings) {
  const { root, entry } = lists[asked];
  const list = (inner: string): string => `<${root}>${inner}</${root}>`;
  const isObjects = asked === "ListObjectsV2";
  const rows: readonly (readonly [name: string, answers: readonly Answer[], wanted: string])[] = [
    ["a whole list without entries", [list(whole)], "empty"],
    ["an entry", [list(`${whole}<${entry}/>`)], "holds"],
    ["an entry of a list that does not say whether it ends", [list(`<${entry}/>`)], "holds"],
    ["another document", ["<Hello/>"], "ServiceUnavailable"],
    ["another document with entries", [`<Hello>${whole}<${entry}/></Hello>`], "ServiceUnavailable"],
    ["no document", [""], "ServiceUnavailable"],
    ["HTML", ["<html><body>Not found<br></body></html>"], "ServiceUnavailable"],
    ["a list that does not say whether it ends", [list("")], "ServiceUnavailable"],
    ["a list that ends perhaps", [list("<IsTruncated>x</IsTruncated>")], "ServiceUnavailable"],
    ["a list that goes on nowhere", [list(more)], "ServiceUnavailable"],
    ["an error with status 200", [error("InternalError")], "ServiceUnavailable"],
    ["no such bucket", [[404, error("NoSuchBucket")]], "empty"],
    ["another 404", [[404, error("NoSuchKey")]], "ServiceUnavailable"],
    ["a 404 without a document", [[404, "404 page not found"]], "ServiceUnavailable"],
    [
      "not implemented",
      [[501, error("NotImplemented")]],
      isObjects ? "ServiceUnavailable" : "empty",
    ],
    ["forbidden", [[403, error("AccessDenied")]], "ServiceUnavailable"],
    ["a failure", [[500, list(whole)]], "ServiceUnavailable"],
    [
      "objects, for what it does not know",
      ["<ListBucketResult><Contents/></ListBucketResult>"],
      "holds",
    ],
    ["no objects, likewise", [`<ListBucketResult>${whole}</ListBucketResult>`], "empty"],
  ];
  t.test(asked, async (t) => {
    for (const [name, answers, wanted] of rows) t.equal(await told(asked, answers), wanted, name);
    const caller = { identity: anonymousIdentity };
    t.equal(await told(asked, [[403, ""]], caller), "AccessDenied", "refused to the caller");
  });
}

t.test("pages without entries are read over, to an end", async (t) => {
  const { signal } = new AbortController();
  const rows = {
    ListMultipartUploads: [
      "<NextKeyMarker>k&amp;</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>",
      "key-marker=k%26&max-uploads=1&upload-id-marker=u&uploads=",
    ],
    ListObjectsV2: [
      "<NextContinuationToken>k&amp;</NextContinuationToken>",
      "continuation-token=k%26&list-type=2&max-keys=1",
    ],
    ListObjectVersions: [
      "<NextKeyMarker>k&amp;</NextKeyMarker><NextVersionIdMarker/>",
      "key-marker=k%26&max-keys=1&versions=",
    ],
  } as const;
  for (const asked of listings) {
    const { root, entry } = lists[asked];
    const [markers, query] = rows[asked];
    const empty = `<${root}>${more}${markers}</${root}>`;
    for (const [end, wanted] of [
      [whole, false],
      [`${whole}<${entry}/>`, true],
    ] as const) {
      const { upstream, queries } = cluster(asked, [empty, empty, `<${root}>${end}</${root}>`]);
      t.equal(await holdsAnything([place], { upstream }, signal), wanted, asked);
      t.equal(queries.length, 3);
      t.equal(queries[2], query);
    }
    const { upstream, queries } = cluster(asked, [empty]);
    await t.rejects(holdsAnything([place], { upstream }, signal), { code: "ServiceUnavailable" });
    t.equal(queries.length, 10, "and not for ever");
  }
});

t.test("one cluster that holds something is enough; uploads do not keep a bucket", async (t) => {
  const { signal } = new AbortController();
  const { send } = cluster("ListObjectsV2", [
    "<ListBucketResult><Contents/></ListBucketResult>",
  ]).upstream;
  const upstream: Pick<Upstream, "send"> = {
    send: async (id, ...rest) => {
      if (id === "b") throw new Error("away");
      return await send(id, ...rest);
    },
  };
  const both = [{ ...place, cluster: clusterNamed("b") }, place];
  t.equal(await holdsAnything(both, { upstream }, signal), true);
  await t.rejects(holdsAnything(both.slice(0, 1), { upstream }, signal), /away/);
  const uploads = cluster("ListMultipartUploads", [
    "<ListMultipartUploadsResult><Upload/></ListMultipartUploadsResult>",
  ]);
  t.equal(await holdsObjects([place], uploads, signal), false);
  t.strictSame(uploads.queries, []);
});
