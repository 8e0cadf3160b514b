// What a browser needs of an answer that is Headgate's own document: what the clusters said of the
// origin, the bucket's first one where they differ.

import { CreateBucketCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { clientKeys, clusterKeys, startTestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { type Said, startUserCluster } from "../support/user-cluster.ts";

const origin = "https://a.example";
const end = "<IsTruncated>false</IsTruncated>";
const keys = Array.from({ length: 12 }, (_, index) => `k${index}`);
const deletion = `<Delete>${keys.map((key) => `<Object><Key>${key}</Key></Object>`).join("")}</Delete>`;

/** Pattern of the request line → the document of a cluster. */
const documents: readonly (readonly [RegExp, string])[] = [
  [/^GET .*list-type=2/, `<ListBucketResult>${end}</ListBucketResult>`],
  [/^GET .*versions/, `<ListVersionsResult>${end}</ListVersionsResult>`],
  [/^GET .*uploads/, `<ListMultipartUploadsResult>${end}</ListMultipartUploadsResult>`],
  [
    /^POST .*uploads/,
    "<R><UploadId>2~x</UploadId></R>".replaceAll("R>", "InitiateMultipartUploadResult>"),
  ],
  [/^POST .*delete/, "<DeleteResult/>"],
];

function saying(allowed: string, given: { says: boolean }): (line: string) => Said | null {
  return (line) => {
    const body = documents.find(([pattern]) => pattern.test(line))?.[1];
    if (body === undefined) return null;
    const fields = { "Access-Control-Allow-Origin": allowed, Vary: "Origin" };
    return { body, headers: given.says ? fields : { Vary: "Accept" } };
  };
}

t.test("documents of our own tell the browser what the clusters tell it", async (t) => {
  const service = { uid: "service", ...clusterKeys };
  const a = await startUserCluster(t, [service]);
  const b = await startUserCluster(t, [service]);
  const { s3, url } = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    servers: {},
    endpoints: { a: a.url, b: b.url },
  });
  await s3.send(new CreateBucketCommand({ Bucket: "browsed" }));
  const first = { says: true };
  a.say = saying(origin, first);
  b.say = saying("*", { says: true });
  const ask = async (
    method: string,
    query: string,
    more: { path?: string; body?: string; headers?: [string, string][] },
  ) => {
    const { path = "/browsed", body = "", headers = [["origin", origin]] } = more;
    const contentLength = Buffer.byteLength(body);
    const head = rawHead(url, { method, path, query, headers, contentLength, keys: clientKeys });
    const { status, text } = await rawExchange(url, head, body);
    t.equal(status, 200, text);
    return /^access-control-allow-origin: (.*)\r$/im.exec(text)?.[1] ?? /^vary:/im.exec(text)?.[0];
  };
  const rows: readonly (readonly [string, string, { path?: string; body?: string }])[] = [
    ["GET", "list-type=2", {}],
    ["GET", "", {}],
    ["GET", "versions=", {}],
    ["GET", "uploads=", {}],
    ["POST", "delete=", { body: deletion }],
  ];
  for (const [method, query, more] of rows) {
    const what = `${method} ${query}`;
    t.equal(await ask(method, query, more), origin, `${what}: both tell`);
    first.says = false;
    t.equal(await ask(method, query, more), "*", `${what}: one tells`);
    first.says = true;
    t.equal(await ask(method, query, { ...more, headers: [] }), undefined, `${what}: not asked`);
  }
  const upload = await ask("POST", "uploads=", { path: "/browsed/k" });
  t.ok(upload === origin || upload === "*", "the only cluster that was asked");
});
