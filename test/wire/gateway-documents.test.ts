// Documents that are read from clusters or clients and written anew: keys that XML and URLs spell in
// several ways, pages as long as they get, buckets of several clusters, locations, digests.

import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { CreateBucketCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { type FakeRequest, type FakeRgw, fakeRgw, rgwAnswer } from "../support/fake-rgw.ts";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { openScene, type Profile } from "../support/rgw-scene.ts";

const xml = ["Content-Type: application/xml"];

async function asked(url: string, path: string, query: string): Promise<string> {
  const { text } = await rawExchange(url, rawHead(url, { method: "GET", path, query }));
  return Buffer.from(text, "latin1").toString("utf8");
}

function texts(document: string, name: string): readonly string[] {
  return [...document.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, "g"))].map(
    (match) => match[1] ?? "",
  );
}

t.test("a list tells a blank from a plus, and sorts keys by their bytes", async (t) => {
  // https://github.com/brekkylab/backlot/issues/178
  const { url, s3 } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "list" }));
  const keys = ["100%.csv", "a b.txt", "a%20b.txt", "a&b.txt", "a+b.txt", "a/b", "한글/x y.txt"];
  for (const Key of keys) await s3.send(new PutObjectCommand({ Bucket: "list", Key, Body: "x" }));
  const plain = keys.map((key) => key.replace("&", "&amp;"));
  const encoded = keys.map((key) => encodeURIComponent(key).replaceAll("%2F", "/"));
  for (const version of ["list-type=2", ""]) {
    for (const [encoding, all] of [
      ["", plain],
      ["encoding-type=url", encoded],
    ] as const) {
      const query = (more: string): string =>
        [encoding, version, more]
          .filter((part) => part !== "")
          .toSorted()
          .join("&");
      const name = query("");
      const whole = await asked(url, "/list", query(""));
      t.strictSame(texts(whole, "Key"), all, name);
      t.equal(whole.includes("<EncodingType>url</EncodingType>"), encoding !== "", name);
      const rolled = await asked(url, "/list", query("delimiter=%2F"));
      t.strictSame(texts(rolled, "Key"), all.slice(0, 5), name);
      const prefixes = [...rolled.matchAll(/<CommonPrefixes><Prefix>([^<]*)</g)].map(
        (one) => one[1],
      );
      const korean = encoding === "" ? "한글/" : `${encodeURIComponent("한글")}/`;
      t.strictSame(prefixes, ["a/", korean], name);
    }
  }
});

t.test("a page of a thousand keys is read whatever its entities", async (t) => {
  // https://github.com/directus/directus/issues/27697
  const { rgw, headgate } = await openScene(t);
  const count = 1_000;
  const rows = Array.from({ length: count }, (_, n) => {
    const key = `k&amp;&lt;&gt;&#39;${String(n).padStart(4, "0")}`;
    return `<Contents><Key>${key}</Key><LastModified>2026-11-29T12:00:00.000Z</LastModified><ETag>&quot;${"0".repeat(32)}&quot;</ETag><Size>1</Size></Contents>`;
  });
  const page = `<ListBucketResult><Name>rep</Name><IsTruncated>false</IsTruncated>${rows.join("")}</ListBucketResult>`;
  rgw.intercept = ({ method }) => (method === "GET" ? rgwAnswer("200 OK", xml, page) : null);
  for (const query of ["list-type=2", "prefix=k"]) {
    const text = await asked(headgate.url, "/rep", query);
    t.match(text, /^HTTP\/1.1 200/);
    const keys = texts(text, "Key");
    t.equal(keys.length, count);
    t.match(keys.at(-1), /^k&amp;&lt;&gt;['&].*0999$/);
  }
});

function bucketsOf(names: readonly string[]): string {
  const rows = names.map(
    (name) =>
      `<Bucket><Name>${name}</Name><CreationDate>2026-11-29T12:00:00.000Z</CreationDate></Bucket>`,
  );
  return `<ListAllMyBucketsResult><Owner><ID>o</ID></Owner><Buckets>${rows.join("")}</Buckets></ListAllMyBucketsResult>`;
}

async function openTwo(t: Parameters<typeof fakeRgw>[0]): Promise<{
  readonly a: FakeRgw;
  readonly b: FakeRgw;
  readonly headgate: TestHeadgate;
}> {
  const a = await fakeRgw(t);
  const b = await fakeRgw(t);
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    servers: {},
    endpoints: { a: a.url, b: b.url },
    clusterSettings: "profile: rgw-pacific",
  });
  return { a, b, headgate };
}

t.test("buckets of two clusters are paged by name, each once, whole or not at all", async (t) => {
  // https://github.com/versity/versitygw/issues/911
  const { a, b, headgate } = await openTwo(t);
  const named = (prefix: string, from: number, to: number): readonly string[] =>
    Array.from({ length: to - from }, (_, n) => `${prefix}-${String(from + n).padStart(4, "0")}`);
  const onA = [...named("odd", 0, 10), ...named("pre", 0, 700)];
  const onB = [...named("pre", 500, 1_200), "zzz"];
  const list = (names: readonly string[]) => (request: FakeRequest) =>
    request.path === "/" ? rgwAnswer("200 OK", xml, bucketsOf(names)) : null;
  a.intercept = list(onA);
  b.intercept = list(onB);
  const all = await asked(headgate.url, "/", "");
  t.strictSame(texts(all, "Name"), [...new Set([...onA, ...onB])].toSorted());
  const found: string[] = [];
  let token: string | undefined;
  do {
    const next = token === undefined ? "" : `continuation-token=${encodeURIComponent(token)}&`;
    const page = await asked(headgate.url, "/", `${next}max-buckets=100&prefix=pre`);
    const names = texts(page, "Name");
    t.ok(names.length <= 100);
    found.push(...names);
    token = texts(page, "ContinuationToken")[0];
    if (found.length !== 500) continue;
    b.intercept = () => rgwAnswer("503 Slow Down", []);
    const lost = await asked(headgate.url, "/", `${next}max-buckets=100&prefix=pre`);
    t.match(lost, /^HTTP\/1.1 503/, "never a short list");
    b.intercept = list(onB);
  } while (token !== undefined);
  t.strictSame(found, named("pre", 0, 1_200));
});

const located = (text: string): string =>
  `<CreateBucketConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${text}</CreateBucketConfiguration>`;
const constraint = (text: string): string => `<LocationConstraint>${text}</LocationConstraint>`;

t.test("a new bucket is asked for with the location that its cluster understands", async (t) => {
  // https://github.com/versity/versitygw/issues/2246
  const rows: readonly (readonly [string, Record<Profile, string | null>])[] = [
    // What the client sends; what the cluster gets, `""`: no body, or `null`: 400.
    ["", { aws: "", "s3-generic": "", "rgw-pacific": "" }],
    [located(""), { aws: "", "s3-generic": "", "rgw-pacific": "" }],
    [located(constraint("")), { aws: "", "s3-generic": "", "rgw-pacific": "" }],
    [located(constraint("us-east-1")), { aws: "", "s3-generic": "", "rgw-pacific": "" }],
    [located(constraint("only")), { aws: "", "s3-generic": "", "rgw-pacific": "" }],
    [
      located(constraint("eu-west-1")),
      { aws: null, "s3-generic": null, "rgw-pacific": "eu-west-1" },
    ],
    [
      located(constraint("default:ssd")),
      { aws: null, "s3-generic": null, "rgw-pacific": "default:ssd" },
    ],
  ];
  for (const profile of ["aws", "s3-generic", "rgw-pacific"] as const) {
    const { rgw, ask } = await openScene(t, profile, { nameless: true });
    for (const [n, [body, expected]] of rows.entries()) {
      const bucket = `new-${n}`;
      // A cluster where it is not yet.
      rgw.intercept = ({ method, path }) =>
        method === "HEAD" && path === `/${bucket}` ? rgwAnswer("404 Not Found", []) : null;
      rgw.requests.length = 0;
      const answer = await ask("PUT", `/${bucket}`, { body });
      const name = `${profile} ${body}`;
      const created = rgw.requests.filter(({ method }) => method === "PUT");
      if (expected[profile] === null) {
        t.match(answer, { status: 400, code: "InvalidLocationConstraint" }, name);
        t.equal(created.length, 0, name);
        continue;
      }
      t.equal(answer.status, 200, name);
      t.equal(created.length, 1, name);
      const sent = created[0]?.body ?? Buffer.alloc(0);
      t.equal(texts(sent.toString(), "LocationConstraint")[0] ?? "", expected[profile], name);
      const hash = created[0]?.headers.get("x-amz-content-sha256");
      const right = createHash("sha256").update(sent).digest("hex");
      t.ok(hash === right || hash === "UNSIGNED-PAYLOAD", `${name}: ${hash}`);
    }
  }
});

t.test("each part of a bulk delete has digests of its own", async (t) => {
  // https://github.com/aws/aws-sdk-js-v3/issues/6920
  const { a, b, headgate } = await openTwo(t);
  const { url } = headgate;
  const answerDelete = (request: FakeRequest): string | null => {
    if (request.method !== "POST") return null;
    const rows = texts(request.body.toString(), "Key").map(
      (key) => `<Deleted><Key>${key}</Key></Deleted>`,
    );
    return rgwAnswer("200 OK", xml, `<DeleteResult>${rows.join("")}</DeleteResult>`);
  };
  // Not there yet, so that it is created, on both.
  for (const rgw of [a, b]) {
    rgw.intercept = ({ method }) => (method === "HEAD" ? rgwAnswer("404 Not Found", []) : null);
  }
  const create = rawHead(url, { method: "PUT", path: "/bulk", contentLength: 0 });
  t.equal((await rawExchange(url, create)).status, 200);
  for (const rgw of [a, b]) rgw.intercept = answerDelete;
  const keys = Array.from({ length: 40 }, (_, n) => `k-${n}`);
  const rows = keys.map((key) => `<Object><Key>${key}</Key></Object>`);
  const body = `<Delete>${rows.join("")}</Delete>`;
  const sum = Buffer.alloc(4);
  sum.writeUInt32BE(crc32(body));
  const checksum = ["x-amz-checksum-crc32", sum.toString("base64")] as const;
  const md5 = ["content-md5", createHash("md5").update(body).digest("base64")] as const;
  const sha256 = createHash("sha256").update(body).digest("hex");
  for (const [headers, payloadHash] of [
    [[checksum, ["x-amz-sdk-checksum-algorithm", "CRC32"]], "UNSIGNED-PAYLOAD"],
    [[md5], "UNSIGNED-PAYLOAD"],
    [[], sha256],
    [[md5, checksum], sha256],
  ] as const) {
    for (const rgw of [a, b]) rgw.requests.length = 0;
    const contentLength = body.length;
    const request = { method: "POST", path: "/bulk", query: "delete=", headers, payloadHash };
    const answer = await rawExchange(url, rawHead(url, { ...request, contentLength }), body);
    t.equal(answer.status, 200);
    t.strictSame(texts(answer.text, "Key"), keys, "one result a key, in their order");
    const parts = [a, b].map((rgw) => rgw.requests.filter(({ method }) => method === "POST"));
    t.strictSame(
      parts.map(({ length }) => length),
      [1, 1],
    );
    for (const part of parts.flat()) {
      const digest = (name: string, form: "hex" | "base64") =>
        createHash(name).update(part.body).digest(form);
      t.equal(part.headers.get("content-md5"), digest("md5", "base64"));
      t.equal(part.headers.get("content-length"), String(part.body.length));
      t.equal(part.headers.get("x-amz-content-sha256"), digest("sha256", "hex"));
      const rest = [...part.headers.keys()].filter((name) => /checksum/.test(name));
      t.strictSame(rest, [], "nothing of the client's body");
    }
  }
});
