// DeleteObjects over clusters: split by owner, answered key by key in the request's order, decided key by
// key; a cluster that fails spoils its own keys only.

import { createHash } from "node:crypto";
import { CreateBucketCommand, DeleteObjectsCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { rgwAnswer } from "../support/fake-rgw.ts";
import {
  limitedKeys,
  readerKeys,
  startTestHeadgate,
  type TestHeadgate,
} from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { openScene } from "../support/rgw-scene.ts";

const bucket = "bulk";

async function open(test: Test, keys: readonly string[], settings = ""): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(test, { clusters: { a: 1, b: 1, c: 1 }, settings });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  for (const Key of keys) {
    await headgate.s3.send(new PutObjectCommand({ Bucket: bucket, Key, Body: "x" }));
  }
  return headgate;
}

function left(headgate: TestHeadgate): readonly string[] {
  const keys = Object.values(headgate.clusters).flatMap((one) =>
    one.objects(bucket).map(({ key }) => key),
  );
  return keys.sort();
}

function asked(headgate: TestHeadgate): number {
  const all = Object.values(headgate.clusters).flatMap((one) => one.exchanges());
  return all.filter(({ method, target }) => method === "POST" && target.includes("delete")).length;
}

async function post(
  headgate: Pick<TestHeadgate, "url">,
  body: string,
  headers: readonly (readonly [string, string])[] = [],
): Promise<string> {
  const head = rawHead(headgate.url, {
    method: "POST",
    path: `/${bucket}`,
    query: "delete=",
    headers,
    contentLength: Buffer.byteLength(body),
  });
  return (await rawExchange(headgate.url, head, body)).text;
}

function md5(text: string): string {
  return createHash("md5").update(text).digest("base64");
}

const names = Array.from({ length: 60 }, (_, index) => `dir/key ${index} é+%25&<x>`);

t.test("keys of all clusters go in one request each, answered in order", async (t) => {
  const headgate = await open(t, [...names, "stays"]);
  const wanted = [...names, "absent", names[0] ?? ""];
  const answer = await headgate.s3.send(
    new DeleteObjectsCommand({
      Bucket: bucket,
      Delete: { Objects: wanted.map((Key) => ({ Key })) },
    }),
  );
  t.strictSame(
    answer.Deleted?.map(({ Key }) => Key),
    wanted,
    "an absent key and one named twice, too",
  );
  t.equal(answer.Errors, undefined);
  t.strictSame(left(headgate), ["stays"]);
  t.equal(asked(headgate), 3);
});

t.test("quiet answers failures only", async (t) => {
  const headgate = await open(t, names);
  const answer = await headgate.s3.send(
    new DeleteObjectsCommand({
      Bucket: bucket,
      Delete: {
        Quiet: true,
        Objects: [...names, "k".repeat(1025)].map((Key) => ({ Key })),
      },
    }),
  );
  t.equal(answer.Deleted, undefined);
  t.match(answer.Errors, [{ Key: "k".repeat(1025), Code: "KeyTooLongError" }]);
  t.strictSame(left(headgate), []);
});

for (const [fault, code] of [
  ["reset", "InternalError"],
  [{ status: 503, code: "SlowDown" }, "SlowDown"],
  [{ status: 500 }, "InternalError"],
  [{ cutAfterBytes: 40 }, "InternalError"],
] as const) {
  t.test(`a cluster that fails with ${JSON.stringify(fault)} fails its own keys`, async (t) => {
    const headgate = await open(t, names);
    const held = headgate.clusters["b"]?.objects(bucket).map(({ key }) => key) ?? [];
    t.ok(held.length > 0 && held.length < names.length);
    headgate.clusters["b"]?.setFault(({ method }) => (method === "POST" ? fault : null));
    const answer = await headgate.s3.send(
      new DeleteObjectsCommand({
        Bucket: bucket,
        Delete: { Objects: names.map((Key) => ({ Key })) },
      }),
    );
    const failed = answer.Errors ?? [];
    t.strictSame(new Set(failed.map(({ Key }) => Key)), new Set(held));
    t.equal(failed.length, held.length);
    t.ok(failed.every(({ Code, Message }) => Code === code && (Message ?? "") !== ""));
    t.equal(answer.Deleted?.length, names.length - held.length);
    const done = typeof fault === "object" && "cutAfterBytes" in fault;
    t.strictSame(left(headgate), done ? [] : [...held].sort(), "no success is told of what failed");
  });
}

t.test("what all clusters fail alike with is the answer of the request", async (t) => {
  const plain = ["x", "y", "z", "w"].map((key) => `<Object><Key>${key}</Key></Object>`);
  // Named in a path each, since no document can hold it.
  const odd = "<Object><Key>odd&#x1;</Key></Object>";
  for (const ids of [["a"], ["a", "b"]]) {
    const clusters = Object.fromEntries(ids.map((id) => [id, 1]));
    const headgate = await startTestHeadgate(t, { clusters });
    await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
    for (const objects of [plain, [odd], [odd, ...plain]]) {
      for (const [fault, status, text] of [
        [{ status: 403, code: "AccessDenied" }, 403, /<Code>AccessDenied</],
        [{ status: 404, code: "NoSuchBucket" }, 404, /<Code>NoSuchBucket</],
        [{ status: 500 }, 500, /<Code>InternalError<\/Code><Message>The cluster failed</],
        [{ status: 307 }, 503, /<Code>ServiceUnavailable</],
        ["reset", 503, /<Code>ServiceUnavailable</],
      ] as const) {
        for (const cluster of Object.values(headgate.clusters)) cluster.setFault(() => fault);
        const answer = await post(headgate, `<Delete>${objects.join("")}</Delete>`);
        const what = `${JSON.stringify(fault)} of ${ids.length} for ${objects.length}`;
        t.match(answer, new RegExp(`^HTTP/1.1 ${status} `), what);
        t.match(answer, text, what);
      }
    }
    // Something that is refused by itself makes a row of each.
    for (const cluster of Object.values(headgate.clusters)) {
      cluster.setFault(() => ({ status: 403, code: "AccessDenied" }));
    }
    const long = `<Object><Key>${"k".repeat(1025)}</Key></Object>`;
    const rows = await post(headgate, `<Delete>${[long, odd, ...plain].join("")}</Delete>`);
    t.match(rows, /^HTTP\/1.1 200 /);
    t.equal(rows.match(/<Code>AccessDenied</g)?.length, 5);
  }
});

t.test("a cluster that does not answer is not asked for what is left", async (t) => {
  const headgate = await open(t, []);
  for (const cluster of Object.values(headgate.clusters)) cluster.setFault(() => "reset");
  const before = headgate.clusters["a"]?.exchanges().length ?? 0;
  const rows = Array.from({ length: 30 }, (_, at) => `<Object><Key>${at}&#x1;</Key></Object>`);
  t.match(await post(headgate, `<Delete>${rows.join("")}</Delete>`), /^HTTP\/1.1 503 /);
  const asked = headgate.clusters["a"]?.exchanges().slice(before) ?? [];
  const times = asked.filter(({ method }) => method === "DELETE").length;
  t.ok(times === 1 || times === 2, `${times}: once, and again on a new connection`);
});

t.test("each key is decided on as its own DeleteObject", async (t) => {
  const headgate = await open(t, ["mine/a", "mine/b", "theirs/a"]);
  const limited = headgate.client({ credentials: limitedKeys });
  const reader = headgate.client({ credentials: readerKeys });
  const command = new DeleteObjectsCommand({
    Bucket: bucket,
    Delete: { Objects: [{ Key: "theirs/a" }, { Key: "mine/a" }, { Key: "theirs/none" }] },
  });
  const answer = await limited.send(command);
  t.match(answer.Deleted, [{ Key: "mine/a" }]);
  t.match(answer.Errors, [
    { Key: "theirs/a", Code: "AccessDenied" },
    { Key: "theirs/none", Code: "AccessDenied" },
  ]);
  await t.rejects(reader.send(command), { name: "AccessDenied" });
  t.strictSame(left(headgate), ["mine/b", "theirs/a"]);
});

t.test("what is no valid request deletes nothing", async (t) => {
  const headgate = await open(t, ["k"]);
  const object = "<Object><Key>k</Key></Object>";
  const one = `<Delete>${object}</Delete>`;
  for (const [body, headers, code] of [
    ["", [], "MalformedXML"],
    ["<Delete></Delete>", [], "MalformedXML"],
    ["<Remove><Object><Key>k</Key></Object></Remove>", [], "MalformedXML"],
    [`<Delete>${object}<Object></Object></Delete>`, [], "MalformedXML"],
    [`<Delete>${object}<Object><Key></Key></Object></Delete>`, [], "MalformedXML"],
    [`<Delete>${object.repeat(1001)}</Delete>`, [], "MalformedXML"],
    [
      `<!DOCTYPE x [<!ENTITY e "k">]><Delete><Object><Key>&e;</Key></Object></Delete>`,
      [],
      "MalformedXML",
    ],
    [`<Delete>${object}`, [], "MalformedXML"],
    [`<Delete>${" ".repeat(2 * 1024 * 1024)}${object}</Delete>`, [], "EntityTooLarge"],
    [one, [["content-md5", md5("other")]], "BadDigest"],
    [one, [["content-md5", "k"]], "InvalidDigest"],
    [one, [["x-amz-checksum-sha256", Buffer.alloc(32).toString("base64")]], "BadDigest"],
  ] as const) {
    const text = await post(headgate, body, headers);
    t.match(text, `<Code>${code}</Code>`, body.slice(0, 60));
  }
  const other = rawHead(headgate.url, {
    method: "POST",
    path: `/${bucket}`,
    query: "delete=",
    contentLength: one.length,
    payloadHash: createHash("sha256").update("other").digest("hex"),
  });
  const changed = await rawExchange(headgate.url, other, one);
  t.match(changed.text, "<Code>XAmzContentSHA256Mismatch</Code>", "another document than signed");
  t.strictSame(left(headgate), ["k"]);
  t.match(await post(headgate, one, [["content-md5", md5(one)]]), "HTTP/1.1 200");
  t.strictSame(left(headgate), []);
});

t.test("a digest is demanded where every cluster is an AWS S3", async (t) => {
  const document = "<Delete><Object><Key>k</Key></Object></Delete>";
  const digest = createHash("sha256").update(document).digest("base64");
  const settings = "profile: aws";
  const { url, s3, clusters } = await startTestHeadgate(t, { clusterSettings: settings });
  await s3.send(new CreateBucketCommand({ Bucket: bucket }));
  const rows: readonly (readonly [string, string, string])[] = [
    ["x-amz-checksum-algorithm", "SHA256", "InvalidRequest"],
    ["x-amz-meta-none", "", "InvalidRequest"],
    ["content-md5", md5(document), "200 OK"],
    ["x-amz-checksum-sha256", digest, "200 OK"],
  ];
  for (const [name, value, wanted] of rows) {
    await s3.send(new PutObjectCommand({ Bucket: bucket, Key: "k", Body: "x" }));
    t.match(await post({ url }, document, [[name, value]]), wanted, name);
    const kept = Object.values(clusters).flatMap((one) => one.objects(bucket)).length;
    t.equal(kept, wanted === "200 OK" ? 0 : 1, name);
  }
});

t.test("an RGW's clients need no digest, and a full body fits", async (t) => {
  const headgate = await open(t, ["k"]);
  t.match(await post(headgate, "<Delete><Object><Key>k</Key></Object></Delete>"), "HTTP/1.1 200");
  t.strictSame(left(headgate), []);
  const long = `<Object><Key>${"&amp;".repeat(10)}${"k".repeat(1000)}</Key><VersionId>v</VersionId></Object>`;
  const answer = await post(headgate, `<Delete>${long.repeat(1000)}</Delete>`);
  t.match(answer, "HTTP/1.1 200");
});

t.test("a key that XML cannot hold is deleted by its path", async (t) => {
  const odd = ["a\u0001b", "c\u000bd"];
  const headgate = await open(t, [...odd, "plain"]);
  const rows = ["a&#x1;b", "c&#xB;d", "plain"].map((key) => `<Object><Key>${key}</Key></Object>`);
  const text = await post(headgate, `<Delete>${rows.join("")}</Delete>`);
  t.equal(text.match(/<Deleted>/g)?.length, 3, text);
  t.strictSame(left(headgate), []);
});

t.test("each version of a key is asked for and answered for by itself, in order", async (t) => {
  const { rgw, ask } = await openScene(t);
  const said = [
    "<Deleted><Key>k</Key><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>new</DeleteMarkerVersionId></Deleted>",
    "<Error><Key>k</Key><VersionId>locked</VersionId><Code>AccessDenied</Code><Message></Message></Error>",
    "<Deleted><Key>l</Key><VersionId>one</VersionId></Deleted>",
    "<Deleted><Key>k</Key><VersionId>one</VersionId></Deleted>",
    "<Deleted><Key>k</Key><VersionId>mark</VersionId><DeleteMarker>true</DeleteMarker><DeleteMarkerVersionId>mark</DeleteMarkerVersionId></Deleted>",
  ];
  const bodies: string[] = [];
  rgw.intercept = ({ method, body }) => {
    if (method !== "POST") return null;
    bodies.push(body.toString());
    return rgwAnswer("200 OK", [], `<DeleteResult>${said.join("")}</DeleteResult>`);
  };
  const wanted = ["k one", "k mark", "k", "l one", "k locked", "k one", "k lost"];
  const rows = wanted.map((text) => {
    const [key, version] = text.split(" ");
    const id = version === undefined ? "" : `<VersionId>${version}</VersionId>`;
    return `<Object><Key>${key}</Key>${id}</Object>`;
  });
  const { status, body } = await ask("POST", "/rep", {
    query: "delete=",
    body: `<Delete>${rows.join("")}</Delete>`,
  });
  t.equal(status, 200);
  t.strictSame(
    [...body.matchAll(/<(Deleted|Error)>(.*?)<\/\1>/g)].map(([, , text = ""]) =>
      text
        .replaceAll(/<\/\w+>/g, " ")
        .replaceAll(/<\w+>/g, "")
        .replace(/(?<=InternalError).*/, "")
        .trim(),
    ),
    [
      "k one",
      "k mark true mark",
      "k true new",
      "l one",
      "k locked AccessDenied Access denied",
      "k one",
      "k lost InternalError",
    ],
  );
  t.equal(bodies.length, 1);
  t.equal(
    bodies[0]?.match(/<Object>/g)?.length,
    wanted.length - 1,
    "one that is named twice goes once",
  );
});

t.test("a condition that would be ignored is refused for its key", async (t) => {
  const headgate = await open(t, ["k", "l"]);
  const rows = ["<Object><Key>k</Key><ETag>x</ETag></Object>", "<Object><Key>l</Key></Object>"];
  const text = await post(headgate, `<Delete>${rows.join("")}</Delete>`);
  t.match(text, /<Error><Key>k<\/Key><Code>NotImplemented<\/Code>/);
  t.match(text, /<Deleted><Key>l<\/Key><\/Deleted>/);
  t.strictSame(left(headgate), ["k"]);
});

t.test("one key under different conditions is one entry for each", async (t) => {
  const { url, s3, clusters } = await startTestHeadgate(t, { clusterSettings: "profile: aws" });
  await s3.send(new CreateBucketCommand({ Bucket: bucket }));
  const rows: readonly (readonly [string, string | null, readonly string[]])[] = [
    ["other", "mine", ["PreconditionFailed", "Deleted"]],
    ["mine", "other", ["Deleted", "NoSuchKey"]],
    ["other", "else", ["PreconditionFailed", "PreconditionFailed"]],
    ["other", null, ["PreconditionFailed", "Deleted"]],
  ];
  for (const [first, second, said] of rows) {
    const { ETag = "" } = await s3.send(
      new PutObjectCommand({ Bucket: bucket, Key: "k", Body: "x" }),
    );
    const row = (tag: string | null): string => {
      const condition = tag === null ? "" : `<ETag>${tag === "mine" ? ETag : `"${tag}"`}</ETag>`;
      return `<Object><Key>k</Key>${condition}</Object>`;
    };
    const document = `<Delete>${row(first)}${row(second)}</Delete>`;
    const text = await post({ url }, document, [["content-md5", md5(document)]]);
    const outcomes = text.match(/(?<=<)Deleted(?=>)|(?<=<Code>)\w+/g);
    t.strictSame([...(outcomes ?? [])], said, `${first}, ${second}`);
    const kept = Object.values(clusters).flatMap((one) => one.objects(bucket)).length;
    t.equal(kept, said.includes("Deleted") ? 0 : 1);
  }
});

t.test("an unsigned caller deletes nothing", async (t) => {
  const headgate = await open(t, ["k"]);
  const answer = await fetch(`${headgate.url}/${bucket}?delete`, {
    method: "POST",
    body: "<Delete><Object><Key>k</Key></Object></Delete>",
  });
  t.equal(answer.status, 403);
  t.strictSame(left(headgate), ["k"]);
});
