// Form uploads that are not whole or not well formed: refused by their fault, and no object afterwards.

import { randomBytes } from "node:crypto";
import t, { type Test } from "tap";
import type { DemoFault } from "../../proxy/demo/faults.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { openRaw, until } from "../support/raw-http.ts";
import {
  formBucket as bucket,
  type Condition,
  formConditions as conditions,
  type FormPart,
  formField as field,
  formFile as file,
  formBody,
  formEdge,
  openUploads,
  postForm as post,
  signedFields,
  startForForms as start,
  storedKeys,
} from "../support/s3-forms.ts";
import { startUserCluster } from "../support/user-cluster.ts";

t.test("a form that is not well formed is refused and leaves no object", async (t) => {
  const headgate = await start(t);
  const start5 = [field("key", "k"), ...signedFields(conditions)];
  const whole = formBody([...start5, file("12345")]);
  const long = formBody([...start5, file(randomBytes(6 * 1024 * 1024))]);
  const cut = (bytes: Buffer, by: number): Buffer => bytes.subarray(0, bytes.length - by);
  const rows: readonly (readonly [string, Uint8Array, string])[] = [
    ["no end", cut(whole, 6), "MalformedPOSTRequest"],
    ["no end of a long one", cut(long, 6), "MalformedPOSTRequest"],
    ["half an end", cut(whole, 3), "MalformedPOSTRequest"],
    ["no file", formBody(start5), "InvalidArgument"],
    ["no key", formBody([...signedFields(conditions), file("x")]), "InvalidArgument"],
    [
      "an empty key",
      formBody([field("key", ""), ...signedFields(conditions), file("x")]),
      "InvalidArgument",
    ],
    [
      "a key that is too long",
      formBody([field("key", "k".repeat(1025)), file("x")]),
      "KeyTooLongError",
    ],
    ["two files", formBody([...start5, file("x"), file("y")]), "InvalidArgument"],
    ["a field twice", formBody([field("key", "a"), ...start5, file("x")]), "InvalidArgument"],
    ["no name", formBody([{ name: "", value: "x" }, ...start5, file("x")]), "MalformedPOSTRequest"],
    [
      "an encoding",
      formBody([...start5, { ...file("eA=="), lines: ["Content-Transfer-Encoding: base64"] }]),
      "InvalidArgument",
    ],
    [
      "fields that are too long",
      formBody([field("a", "x".repeat(20_480)), ...start5, file("x")]),
      "MaxPostPreDataLengthExceededError",
    ],
    [
      "too many fields",
      formBody([...Array.from({ length: 257 }, (_, n) => field(`f${n}`, "")), file("x")]),
      "MaxPostPreDataLengthExceededError",
    ],
    [
      "headers that are too long",
      formBody([{ ...field("a", ""), lines: [`X: ${"x".repeat(9000)}`] }, file("x")]),
      "MaxPostPreDataLengthExceededError",
    ],
    [
      "too much behind the file",
      formBody([...start5, file("x"), field("b", "x".repeat(66_000))]),
      "MaxPostPreDataLengthExceededError",
    ],
    ["no form at all", Buffer.alloc(70_000, "x"), "MaxPostPreDataLengthExceededError"],
    ["nothing", Buffer.alloc(0), "MalformedPOSTRequest"],
  ];
  for (const [what, body, expected] of rows) {
    t.equal((await post(headgate, body)).code, expected, what);
    t.strictSame(storedKeys(headgate), [], `no object after ${what}`);
  }
  const bare = await post(headgate, whole, { "content-type": "multipart/form-data" });
  t.equal(bare.code, "MalformedPOSTRequest", "no boundary named");
  const next = await post(headgate, whole);
  t.equal(next.status, 204, "and the next one works");
});

t.test("no condition of a form is dropped", async (t) => {
  const headgate = await start(t);
  const body = (more: readonly FormPart[]): Buffer =>
    formBody([field("key", "k"), ...more, ...signedFields(conditions), file("12345")]);
  for (const [name, value] of [
    ["If-None-Match", "*"],
    ["If-Match", '"a"'],
    ["If-Unmodified-Since", "Sun, 29 Nov 2026 12:00:00 GMT"],
    ["x-amz-if-match-size", "5"],
  ] as const) {
    for (const answer of [
      await post(headgate, body([]), { [name]: value }),
      await post(headgate, body([field(name, value)])),
    ]) {
      t.match(answer, { status: 501, code: "NotImplemented" }, name);
    }
  }
  t.strictSame(storedKeys(headgate), []);
});

t.test("a client that leaves, or does not say the length, leaves no object", async (t) => {
  const headgate = await start(t, { clusters: { a: 1 } });
  const parts = [field("key", "k"), ...signedFields(conditions)];
  for (const size of [10, 7 * 1024 * 1024]) {
    const body = formBody([...parts, file(randomBytes(size))]);
    const { port } = new URL(headgate.url);
    const connection = await openRaw(headgate.url);
    const head = [
      `POST /${bucket} HTTP/1.1`,
      `host: 127.0.0.1:${port}`,
      `content-type: multipart/form-data; boundary=${formEdge}`,
      `content-length: ${body.length}`,
    ];
    await connection.write(`${head.join("\r\n")}\r\n\r\n`);
    await connection.write(body.subarray(0, body.length - 5));
    connection.socket.end();
    const answer = await connection.answer();
    t.match(answer.text, /^$|IncompleteBody/, `${size} bytes`);
    connection.socket.destroy();
    t.strictSame(storedKeys(headgate), []);
    await until(async () => (await openUploads(headgate)).length === 0);
  }
  const chunked = await fetch(`${headgate.url}/${bucket}`, {
    method: "POST",
    headers: { "content-type": `multipart/form-data; boundary=${formEdge}` },
    body: new Blob([formBody([...parts, file("x")])]).stream(),
    duplex: "half",
  } as RequestInit);
  t.equal(chunked.status, 411);
  t.strictSame(storedKeys(headgate), []);
});

t.test("a long form is aborted, but never behind a Complete without a clear answer", async (t) => {
  const isPart = /[?&]partNumber=2/;
  const isComplete = /^POST \S*[?&]uploadId=/;
  const rows: readonly (readonly [RegExp, DemoFault, number, boolean])[] = [
    [isPart, "reset", 503, true],
    [isComplete, { status: 400, code: "InvalidPart" }, 400, true],
    [isComplete, { status: 500 }, 500, false],
    [isComplete, "reset", 503, false],
    [isComplete, { cutAfterBytes: 30 }, 503, false],
  ];
  const parts = [field("key", "k"), ...signedFields(conditions)];
  const body = formBody([...parts, file(randomBytes(6 * 1024 * 1024))]);
  for (const [asked, fault, status, isAborted] of rows) {
    const headgate = await start(t, { clusters: { a: 1 } });
    const aborts: string[] = [];
    headgate.clusters["a"]?.setFault(({ method, target }) => {
      if (method === "DELETE") aborts.push(target);
      return asked.test(`${method} ${target}`) ? fault : null;
    });
    const what = `${asked.source} ${JSON.stringify(fault)}`;
    t.equal((await post(headgate, body)).status, status, what);
    t.equal(aborts.length, isAborted ? 1 : 0, what);
    const isDone = typeof fault === "object" && "cutAfterBytes" in fault;
    t.strictSame(storedKeys(headgate), isDone ? ["k"] : [], what);
    t.equal((await openUploads(headgate)).length, isAborted || isDone ? 0 : 1, what);
  }
});

t.test("an upload that cannot be aborted now is aborted later", async (t) => {
  const parts = [field("key", "k"), ...signedFields(conditions)];
  const body = formBody([...parts, file(randomBytes(6 * 1024 * 1024))]);
  for (const fault of ["reset", { status: 503, code: "SlowDown" }, { status: 403 }] as const) {
    const headgate = await start(t, { clusters: { a: 1 } });
    headgate.clusters["a"]?.setFault(({ method, target }) =>
      method === "DELETE" ? fault : target.includes("partNumber=2") ? "reset" : null,
    );
    t.equal((await post(headgate, body)).status, 503);
    const left = headgate.logLines.filter(({ event }) => event === "unfinished.added");
    t.match(left, [{ fields: { errand: "abort", cluster: "a", bucket } }]);
    t.equal((await openUploads(headgate)).length, 1);
  }
});

t.test("more forms than there is memory for are asked to come back", async (t) => {
  const headgate = await start(t, { clusters: { a: 1 } });
  const whole = formBody([field("key", "k"), ...signedFields(conditions), file(Buffer.alloc(5e6))]);
  const open = async () => await begin(t, headgate, whole, 4096);
  // 5 MB each, of 256 MiB.
  const waiting = await Promise.all(Array.from({ length: 53 }, open));
  const refused = await (await open()).answer();
  t.equal(refused.status, 503);
  t.match(refused.text, "<Code>SlowDown</Code>");
  for (const { socket } of waiting) socket.destroy();
  await until(async () => (await post(headgate, whole)).status === 204);
});

/** A form on a socket of its own, up to `sentBytes`. */
async function begin(t: Test, { url }: { readonly url: string }, whole: Buffer, sentBytes: number) {
  const connection = await openRaw(url);
  t.teardown(() => connection.socket.destroy());
  await connection.write(
    `POST /${bucket} HTTP/1.1\r\nhost: ${new URL(url).host}\r\ncontent-length: ${whole.length}\r\n` +
      `content-type: multipart/form-data; boundary=${formEdge}\r\n\r\n`,
  );
  await connection.write(whole.subarray(0, sentBytes));
  return connection;
}

t.test("forms of unknown senders do not take the place of other requests", async (t) => {
  const headgate = await start(t, { clusters: { a: 1 }, listen: "max_in_flight: 24" });
  const whole = formBody([field("key", "k"), ...signedFields(conditions), file(Buffer.alloc(9e4))]);
  const known = await Promise.all([1, 2, 3, 4, 5].map(() => begin(t, headgate, whole, 8e4)));
  // Three of 24: an eighth.
  const waiting = await Promise.all([1, 2, 3].map(() => begin(t, headgate, whole, 40)));
  const refused = await (await begin(t, headgate, whole, 40)).answer();
  t.equal(refused.status, 503);
  t.match(refused.text, "<Code>SlowDown</Code>");
  t.strictSame(await openUploads(headgate), [], "all other requests are served");
  const [first, ...others] = waiting;
  for (const { socket } of others) socket.destroy();
  await until(async () => (await post(headgate, whole)).status === 204);
  await first?.write(whole.subarray(40));
  t.equal((await first?.answer())?.status, 204, "and whoever waited goes on");
  for (const connection of known) {
    await connection.write(whole.subarray(8e4));
    t.equal((await connection.answer()).status, 204, "a known sender took none of their places");
  }
});

t.test("no cluster is asked for the key of a form that is wrong whoever sends it", async (t) => {
  const cluster = await startUserCluster(t, [
    { uid: "service", accessKeyId: "cluster-service", secretAccessKey: "cluster-service-secret" },
  ]);
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1 },
    servers: {},
    endpoints: { a: cluster.url },
    sources: "{source: rgw-admin, cluster: a}",
  });
  const keys = { accessKeyId: "AK-nobody", secretAccessKey: "x" };
  const own = (seconds = 600) => signedFields(conditions, { keys, seconds });
  const twoDays = 2 * 86_400_000;
  const rows: readonly (readonly [string, readonly FormPart[], string])[] = [
    ["an expired policy", [field("key", "k"), ...own(-1)], "AccessDenied"],
    [
      "a field that it does not name",
      [field("key", "k"), field("acl", "x"), ...own()],
      "AccessDenied",
    ],
    [
      "a time ahead",
      [field("key", "k"), ...signedFields(conditions, { keys, atMs: Date.now() + twoDays })],
      "AccessDenied",
    ],
    [
      "a size beyond the policy",
      [
        field("key", "k"),
        ...signedFields([...conditions, ["content-length-range", 0, 9]], { keys }),
      ],
      "EntityTooLarge",
    ],
    [
      "a policy that is none",
      [
        field("key", "k"),
        ...own().map((part) => (part.name === "policy" ? { ...part, value: "!" } : part)),
      ],
      "InvalidPolicyDocument",
    ],
  ];
  const asked = cluster.asked.length;
  for (const [what, fields, code] of rows) {
    const body = formBody([...fields, file(Buffer.alloc(7e4))]);
    t.equal((await post(headgate, body)).code, code, what);
    t.equal(cluster.asked.length, asked, what);
  }
  const right = await post(headgate, formBody([field("key", "k"), ...own(), file("x")]));
  t.equal(right.code, "InvalidAccessKeyId");
  t.match(cluster.asked.slice(asked), [/access-key=AK-nobody/], "any other key is looked up");
});

t.test("fields that do not come in time end the request, whoever sends them", async (t) => {
  const headgate = await start(t, { listen: "header_timeout: 200ms" });
  const raw = await openRaw(headgate.url);
  const part = formBody([field("key", "k")]).subarray(0, 40);
  const { host } = new URL(headgate.url);
  await raw.write(
    `POST /${bucket} HTTP/1.1\r\nhost: ${host}\r\ncontent-length: 5000\r\n` +
      `content-type: multipart/form-data; boundary=${formEdge}\r\n\r\n`,
  );
  await raw.write(part);
  const { status, text } = await raw.answer();
  raw.socket.destroy();
  t.equal(status, 400);
  t.match(text, "<Code>RequestTimeout</Code>");
  t.match(text, /connection: close/i);
  t.strictSame(storedKeys(headgate), []);
});

t.test("what a form says gets into no head, no other key and no document", async (t) => {
  const headgate = await start(t, { clusters: { a: 1 } });
  const only = [{ bucket }, ["starts-with", "$key", "user/"]] as const;
  const send = async (fields: readonly FormPart[], filename = "a", extra: Condition[] = []) => {
    const body = formBody([...fields, ...signedFields([...only, ...extra]), file("x", filename)]);
    const connection = await begin(t, headgate, body, body.length);
    const { status, text } = await connection.answer();
    connection.socket.destroy();
    const [head = "", document = ""] = text.split("\r\n\r\n");
    const code = /<Code>(\w+)</.exec(document)?.[1] ?? "";
    return { what: `${status} ${code}`.trim(), head, document };
  };
  // The file's name is what a browser's user, or a page that drives it, may choose.
  for (const [filename, key] of [
    ["../../secret/k", "user/k"],
    ["..\\..\\k2", "user/k2"],
    ["..", "user/.."],
    ["${filename}", "user/${filename}"],
    ["$&$1$`", "user/$&$1$`"],
    ["a%2F..%2Fb", "user/a%2F..%2Fb"],
    ["?acl", "user/?acl"],
    ["<k>&amp;", "user/<k>&amp;"],
  ] as const) {
    const before = storedKeys(headgate).length;
    const answer = await send([field("key", "user/${filename}")], filename);
    t.equal(answer.what, "204", filename);
    t.equal(storedKeys(headgate).length, before + 1);
    t.ok(storedKeys(headgate).includes(key), key);
  }
  const kept = storedKeys(headgate);
  const key = field("key", "user/${filename}");
  for (const [what, fields, filename, code] of [
    ["a NUL in its name", [key], "a\0b", "400 InvalidArgument"],
    ["another prefix", [field("key", "${filename}")], "user", "403 AccessDenied"],
    ["a field of every object", [key, field("__proto__", "1")], "a", "403 AccessDenied"],
    ["another one", [key, field("constructor", "1")], "a", "403 AccessDenied"],
    [
      "a second bucket",
      [key, field("bucket", "other"), field("Bucket", "x")],
      "a",
      "400 InvalidArgument",
    ],
  ] as const) {
    t.equal((await send(fields, filename)).what, code, what);
  }
  t.strictSame(storedKeys(headgate), kept, "no object of a refused one");
  // Success is told where the form says, in one line of the head.
  const any = ["success_action_redirect", "success_action_status"].map((name) => [
    "starts-with",
    `$${name}`,
    "",
  ]);
  for (const url of [
    "http://x.test/\r\nset-cookie: a=b",
    "http://x.test/\nlocation: http://evil",
    "javascript:alert(1)",
    "data:text/html,x",
    "//evil.test/",
    "http://x.test/\u00e9",
    "http://x test/",
  ]) {
    const fields = [
      key,
      field("success_action_redirect", url),
      field("success_action_status", "1"),
    ];
    const { what, head } = await send(fields, "a", any);
    t.equal(what, "204", JSON.stringify(url));
    t.notMatch(head, /set-cookie|evil|javascript|data:|x.test/i);
  }
  const named = [key, field("success_action_redirect", ""), field("success_action_status", "201")];
  const { what, head, document } = await send(named, "<k>&\u2028", any);
  t.equal(what, "201");
  t.match(head, /\r\nlocation: http:\S+\/user\/%3Ck%3E%26/i);
  t.match(document, "<Key>user/&lt;k&gt;&amp;");
});
