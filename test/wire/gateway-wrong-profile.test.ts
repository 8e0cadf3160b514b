// A cluster that is not what its profile says: noticed from its answers, before anybody's data rests on
// what it does not do. What it would ignore is refused or done here, and operators are told.

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import {
  CopyObjectCommand,
  CreateBucketCommand,
  DeleteObjectCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { DemoFacts } from "../../proxy/demo/request.ts";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { runHeadgate } from "../support/cli-run.ts";
import { type FakeRequest, fakeRgw, rgwAnswer } from "../support/fake-rgw.ts";
import { startClusters, startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { type Fields, openScene, type Scene } from "../support/rgw-scene.ts";

const md5 = (text: string) => createHash("md5").update(text).digest("hex");
const xml = ["Content-Type: application/xml"];

function mismatches({ logLines }: TestHeadgate): TestHeadgate["logLines"] {
  return logLines.filter(({ event }) => event === "cluster.profile_mismatch");
}

async function gauge({ adminUrl }: TestHeadgate, cluster: string): Promise<string | undefined> {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return new RegExp(
    `^headgate_cluster_profile_mismatch\\{cluster="${cluster}"\\} (\\d)$`,
    "m",
  ).exec(text)?.[1];
}

/** Begins an upload and gives the client's upload id. */
async function begin({ rgw, ask }: Scene, path: string): Promise<string> {
  const initiated =
    "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key><UploadId>2~up</UploadId></InitiateMultipartUploadResult>";
  rgw.intercept = ({ query }) =>
    query.has("uploads") ? rgwAnswer("200 OK", xml, initiated) : null;
  const { body } = await ask("POST", path, { query: "uploads=", body: "" });
  rgw.intercept = null;
  return /<UploadId>(.*?)<\/UploadId>/.exec(body)?.[1] ?? "";
}

t.test("an RGW that is configured as aws ignores no condition", async (t) => {
  const scene = await openScene(t, "aws");
  const { rgw, ask, headgate } = scene;
  const upload = `uploadId=${await begin(scene, "/rep/k")}`;
  const now = md5("now");
  const parts = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${now}</ETag></Part></CompleteMultipartUpload>`;
  const from = ["x-amz-copy-source", "/rep/source"] as const;
  const bare = ["x-amz-tagging-directive", "REPLACE"] as const;
  const put = { method: "PUT", query: "", body: "then" } as const;
  const copy = { method: "PUT", query: "" } as const;
  const complete = { method: "POST", query: upload, body: parts } as const;
  interface Row {
    readonly method: string;
    readonly query: string;
    readonly body?: string;
  }
  const rows: readonly (readonly [Row, Fields, number, string])[] = [
    // Request, its conditions, the answer, and what /rep/k then is.
    [{ method: "DELETE", query: "" }, [["if-match", `"${now}"`]], 501, "now"],
    [{ method: "DELETE", query: "" }, [["if-match", "*"]], 501, "now"],
    [{ method: "DELETE", query: "" }, [["x-amz-if-match-size", "7"]], 501, "now"],
    [complete, [["if-none-match", "*"]], 501, "now"],
    [complete, [["if-match", '"other"']], 501, "now"],
    [copy, [from, ["if-none-match", "*"]], 501, "now"],
    [copy, [from, ["if-match", '"other"']], 501, "now"],
    [copy, [from, ["x-amz-copy-source-if-match", '"other"']], 412, "now"],
    [copy, [from, ["x-amz-copy-source-if-none-match", `"${md5("source")}"`]], 412, "now"],
    [copy, [from, bare, ["x-amz-copy-source-if-match", `"${md5("source")}"`]], 200, "source"],
    [copy, [from, bare, ["x-amz-tagging", "a=1"]], 200, "source"],
    [put, [["if-none-match", "*"]], 412, "now"],
    [put, [["if-match", '"other"']], 412, "now"],
    [put, [["if-match", `"${now}"`]], 200, "then"],
  ];
  for (const [row, headers, status, left] of rows) {
    const name = `${row.method} ${JSON.stringify(headers)}`;
    rgw.put("/rep/k", "now");
    rgw.put("/rep/source", "source");
    rgw.requests.length = 0;
    t.equal((await ask(row.method, "/rep/k", { ...row, headers })).status, status, name);
    t.equal(rgw.objects.get("/rep/k")?.body.toString(), left, name);
    if (status === 501) t.strictSame(rgw.requests, [], `${name}: no cluster was asked`);
    t.notOk(rgw.requests.some((sent) => sent.headers.has("x-amz-copy-source")));
  }
  const entry = { Key: "k", ETag: '"other"' };
  const deletion = new DeleteObjectsCommand({ Bucket: "rep", Delete: { Objects: [entry] } });
  t.match(await headgate.s3.send(deletion), { Errors: [{ Key: "k", Code: "NotImplemented" }] });
  t.ok(rgw.objects.has("/rep/k"));
  t.equal(mismatches(headgate).length, 1, "said once");
  t.match(mismatches(headgate)[0]?.fields, { cluster: "only", profile: "aws" });
});

t.test("an RGW that is configured as aws gets and gives nothing that it misreads", async (t) => {
  const scene = await openScene(t, "aws");
  const { rgw, ask, headgate } = scene;
  rgw.put("/rep/k", "0123456789");
  const resumed: Fields = [
    ["range", "bytes=5-"],
    ["if-range", '"of before"'],
  ];
  const whole = await ask("GET", "/rep/k", { headers: resumed });
  t.strictSame([whole.status, whole.body], [200, "0123456789"], "no two objects in one");
  const uploaded = headgate.client({ requestChecksumCalculation: "WHEN_SUPPORTED" });
  const Body = Readable.from([Buffer.alloc(100_000)]);
  await uploaded.send(
    new PutObjectCommand({ Bucket: "rep", Key: "t", Body, ContentLength: 100_000 }),
  );
  t.equal(rgw.objects.get("/rep/t")?.body.length, 100_000);
  t.notOk(rgw.requests.at(-1)?.headers.has("x-amz-trailer"));
  const query = `partNumber=1&uploadId=${await begin(scene, "/rep/k")}`;
  rgw.put("/rep/100%25", "source");
  rgw.requests.length = 0;
  const headers: Fields = [["x-amz-copy-source", "/rep/100%25"]];
  t.equal((await ask("PUT", "/rep/k", { query, headers })).status, 200);
  t.notOk(
    rgw.requests.some((sent) => sent.headers.has("x-amz-copy-source")),
    "it would die",
  );
});

t.test("what an operator says of a single fact counts more than what is seen", async (t) => {
  const overrides = "honours_conditional_delete: true";
  const { rgw, ask, headgate } = await openScene(t, "aws", { overrides });
  rgw.put("/rep/k", "now");
  const headers: Fields = [["if-match", '"other"']];
  t.equal((await ask("DELETE", "/rep/k", { headers })).status, 204);
  t.equal(rgw.requests.at(-1)?.headers.get("if-match"), '"other"');
  const said = String(mismatches(headgate)[0]?.fields["not_relied_on"]);
  t.match(said, "honoursConditionalComplete");
  t.notMatch(said, "honoursConditionalDelete");
});

t.test("a cluster is looked at before the first thing that rests on its profile", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "headgate-test-"));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const rgw = await fakeRgw(t);
  // Begun anew with what it had: no answer of the cluster was seen, and none is needed to find a bucket.
  const begun = async (): Promise<TestHeadgate> =>
    await startTestHeadgate(t, {
      clusters: { only: 1 },
      servers: {},
      endpoints: { only: rgw.url },
      clusterSettings: "profile: aws",
      settings: `state: {driver: file, file: {path: ${join(folder, "state.json")}}}`,
    });
  const first = await begun();
  await first.s3.send(new CreateBucketCommand({ Bucket: "rep" }));
  await first.stop();
  const asked = async (ask: (headgate: TestHeadgate) => Promise<unknown>): Promise<unknown> => {
    const headgate = await begun();
    rgw.requests.length = 0;
    rgw.put("/rep/k", "now");
    await ask(headgate).catch((caught: unknown) =>
      t.match(caught, { name: /^(?:NotImplemented|PreconditionFailed|ServiceUnavailable)$/ }),
    );
    await headgate.stop();
    return rgw.requests.map(({ method, path }) => `${method} ${path}`);
  };
  const to = { Bucket: "rep", Key: "k" };
  const look = "HEAD /rep";
  t.strictSame(await asked(({ s3 }) => s3.send(new DeleteObjectCommand({ ...to, IfMatch: "x" }))), [
    look,
  ]);
  const refusing = (request: FakeRequest): string | null =>
    request.path === "/rep"
      ? rgwAnswer("503 Busy", []).replace(/x-amz-request-id.*\r\n/, "")
      : null;
  rgw.intercept = refusing;
  t.strictSame(
    await asked(({ s3 }) => s3.send(new DeleteObjectCommand({ ...to, IfMatch: "x" }))),
    [look],
    "what does not show itself is not trusted",
  );
  rgw.intercept = null;
  t.strictSame(
    await asked(({ s3 }) => s3.send(new PutObjectCommand({ ...to, IfNoneMatch: "*", Body: "x" }))),
    [look, "PUT /rep/k"],
  );
  t.strictSame(
    await asked(async ({ s3 }) => {
      await s3.send(new PutObjectCommand({ ...to, Body: "x" }));
      await s3.send(new DeleteObjectCommand(to));
      await s3.send(new DeleteObjectCommand({ ...to, IfMatch: "x" }));
    }),
    ["PUT /rep/k", "DELETE /rep/k"],
    "nothing more is asked than there is to be done",
  );
  t.strictSame(
    await asked(({ s3 }) => s3.send(new GetObjectCommand({ ...to, Range: "bytes=0-0" }))),
    ["GET /rep/k"],
  );
});

t.test("operators are told of a server that is not what its profile says", async (t) => {
  const { headgate, ask } = await openScene(t, "aws");
  t.equal(await gauge(headgate, "only"), "1");
  const { body } = await headgate.admin("GET", "/clusters/only");
  t.match(body, { seen_as: "rgw", profile: "aws" });
  t.match((await headgate.admin("POST", "/clusters/only/ping")).body, { seen_as: "rgw" });
  const ping = await runHeadgate(`cluster ping only --admin-url ${headgate.adminUrl}`);
  t.match(ping.out, /^It is a Ceph RGW, .* Not relied on: .*honours_conditional_delete/m);
  const show = await runHeadgate(`cluster show only --admin-url ${headgate.adminUrl}`);
  t.match(show.out, /^profile_mismatch +.*honours_conditional_copy/m);
  await ask("GET", "/rep/k");
  t.equal(mismatches(headgate).length, 1);
  for (const profile of ["rgw-pacific", "s3-generic"] as const) {
    const right = (await openScene(t, profile)).headgate;
    t.equal(await gauge(right, "only"), "0", profile);
    t.match((await right.admin("GET", "/clusters/only")).body, { profile_mismatch: [] });
    t.strictSame(mismatches(right), [], profile);
  }
});

t.test("a server that is no RGW is not trusted as one", async (t) => {
  const servers = await startClusters(t, ["a"], profiles["s3-generic"]);
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1 },
    servers,
    clusterSettings: "profile: rgw-reef",
  });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "rep" }));
  await headgate.s3.send(new PutObjectCommand({ Bucket: "rep", Key: "k", Body: "now" }));
  const put = new PutObjectCommand({ Bucket: "rep", Key: "k", Body: "then", IfNoneMatch: "*" });
  await t.rejects(headgate.s3.send(put), { name: "NotImplemented" });
  t.equal(servers["a"]?.objects("rep")[0]?.bytes.toString(), "now");
  t.equal(await gauge(headgate, "a"), "1");
  const ping = await runHeadgate(`cluster ping a --admin-url ${headgate.adminUrl}`);
  t.match(ping.out, /^It is no Ceph RGW/m);
});

t.test(
  "an RGW of an earlier release than configured ignores no condition of a copy's source",
  async (t) => {
    const servers = await startClusters(t, ["a"], profiles["rgw-pacific"]);
    const headgate = await startTestHeadgate(t, {
      clusters: { a: 1 },
      servers,
      clusterSettings: "profile: rgw-reef",
    });
    await headgate.s3.send(new CreateBucketCommand({ Bucket: "rep" }));
    await headgate.s3.send(new PutObjectCommand({ Bucket: "rep", Key: "from", Body: "then" }));
    await headgate.s3.send(new PutObjectCommand({ Bucket: "rep", Key: "k", Body: "now" }));
    const held = () =>
      servers["a"]
        ?.objects("rep")
        .find(({ key }) => key === "k")
        ?.bytes.toString();
    const etag = `"${md5("then")}"`;
    const copy = { Bucket: "rep", Key: "k", CopySource: "rep/from" };
    for (const failing of [
      { CopySourceIfMatch: '"other"' },
      { CopySourceIfNoneMatch: etag },
      { CopySourceIfModifiedSince: new Date(Date.now() - 1000), CopySourceIfNoneMatch: etag },
      { CopySourceIfUnmodifiedSince: new Date(0) },
    ]) {
      const refused = headgate.s3.send(new CopyObjectCommand({ ...copy, ...failing }));
      await t.rejects(refused, { name: "PreconditionFailed" }, JSON.stringify(failing));
      t.equal(held(), "now");
    }
    await headgate.s3.send(new CopyObjectCommand({ ...copy, CopySourceIfMatch: etag }));
    t.equal(held(), "then");
  },
);

const long = Buffer.alloc(100_000, "long");

interface Framing {
  readonly headgate: TestHeadgate;
  readonly server: DemoServer;
  /** Uploads with the checksum behind the body; gives the status. */
  readonly put: (Key: string) => Promise<number | undefined>;
  /** What was asked since the last time, but for the uploads themselves: `POST uploads`. */
  readonly asked: () => readonly string[];
}

async function openFraming(t: Test, facts: DemoFacts, settings: string): Promise<Framing> {
  const servers = await startClusters(t, ["a"], facts);
  const server = servers["a"];
  if (server === undefined) throw new Error("No cluster");
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1 },
    servers,
    clusterSettings: settings,
  });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "rep" }));
  const s3 = headgate.client({ requestChecksumCalculation: "WHEN_SUPPORTED" });
  let seen = server.exchanges().length;
  return {
    headgate,
    server,
    async put(Key) {
      const given = { Bucket: "rep", Key, Body: Readable.from([long]), ContentLength: long.length };
      const sent = s3.send(new PutObjectCommand(given)).catch((caught: unknown) => caught);
      const answer = (await sent) as { readonly $metadata?: { readonly httpStatusCode?: number } };
      return answer.$metadata?.httpStatusCode;
    },
    asked() {
      const since = server.exchanges().slice(seen);
      seen = server.exchanges().length;
      const texts = since.map(
        ({ method, target }) => `${method} ${/uploads|uploadId/.exec(target)?.[0]}`,
      );
      return texts.filter((text) => !text.endsWith("undefined"));
    },
  };
}

const question = ["POST uploads", "PUT uploadId", "DELETE uploadId"] as const;
const sumOf = ({ server }: Framing, wanted: string): string | undefined =>
  server.objects("rep").find(({ key }) => key === wanted)?.sum?.value;

t.test("a cluster shows that it takes framing before a client's body is sent in it", async (t) => {
  const framing = await openFraming(t, profiles.aws, "profile: aws");
  const { put, asked, server } = framing;
  const keys = ["1", "2", "3", "4"];
  t.strictSame(new Set(await Promise.all(keys.map(put))), new Set([200]));
  t.strictSame(asked(), question, "asked once for all");
  t.equal(await put("5"), 200);
  t.strictSame(asked(), [], "and never again");
  for (const key of [...keys, "5"]) t.match(sumOf(framing, key), /^.{6}==$/, "framed");
  t.ok(server.objects("rep").every(({ bytes }) => long.equals(bytes)));
  t.strictSame(server.parts("rep"), []);
});

t.test("a cluster that does not take framing gets bodies plain", async (t) => {
  const truths: readonly (readonly [string, DemoFacts])[] = [
    ["aws", { ...profiles["s3-generic"], storesFraming: true }],
    ["aws", profiles["s3-generic"]],
    ["rgw-squid", { ...profiles["rgw-pacific"], storesFraming: true }],
  ];
  for (const [profile, facts] of truths) {
    const { put, asked, server, headgate } = await openFraming(t, facts, `profile: ${profile}`);
    t.strictSame([await put("1"), asked()], [200, question]);
    t.strictSame([await put("2"), asked()], [200, []], "known from then on");
    t.ok(server.objects("rep").every(({ bytes }) => long.equals(bytes)));
    t.match(
      mismatches(headgate).map(({ fields }) => fields),
      [{ cluster: "a", profile, not_relied_on: "takesTrailers" }],
    );
    t.equal(await gauge(headgate, "a"), "1");
    const ping = await runHeadgate(`cluster ping a --probe --admin-url ${headgate.adminUrl}`);
    t.match(ping.out, /^takes_trailers +no +/m);
  }
});

t.test("a question about framing that fails leaves it open", async (t) => {
  const framing = await openFraming(t, profiles.aws, "profile: aws");
  const { put, asked, server, headgate } = framing;
  // What fails, the answer of the upload, and what was asked.
  const rows = [
    ["POST", { status: 403, code: "AccessDenied" }, 200, question.slice(0, 1)],
    ["POST", { status: 503, code: "SlowDown" }, 200, question.slice(0, 1)],
    ["PUT", { status: 503, code: "SlowDown" }, 200, question],
    ["PUT", { status: 400, code: "RequestTimeout" }, 200, question],
    ["PUT", "reset", 503, question],
  ] as const;
  for (const [method, fault, status, wanted] of rows) {
    const name = `${method} ${JSON.stringify(fault)}`;
    server.setFault((one) =>
      one.method === method && /uploads|uploadId/.test(one.target) ? fault : null,
    );
    t.equal(await put(name), status, name);
    t.strictSame([...new Set(asked())], wanted, name);
    t.equal(sumOf(framing, name), undefined, `${name}: not framed`);
    t.strictSame(server.parts("rep"), [], name);
  }
  t.equal(server.objects("rep").length, 4);
  t.ok(server.objects("rep").every(({ bytes }) => long.equals(bytes)));
  server.setFault(() => ({ status: 403, code: "AccessDenied" }));
  t.equal(await put("refused"), 403, "the upload meets what the question met");
  server.setFault(null);
  asked();
  t.equal(await put("last"), 200);
  t.strictSame(asked(), question);
  t.ok(sumOf(framing, "last"));
  t.strictSame(mismatches(headgate), []);
});

t.test("what an operator says of trailers is not asked", async (t) => {
  for (const said of [true, false]) {
    const settings = `profile: aws\n    overrides: {takes_trailers: ${said}}`;
    const framing = await openFraming(t, profiles.aws, settings);
    t.strictSame([await framing.put("1"), framing.asked()], [200, []]);
    t.equal(sumOf(framing, "1") !== undefined, said);
  }
});
