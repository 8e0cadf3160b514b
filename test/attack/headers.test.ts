// Header fields: what must not become part of a request that we sign, what must not travel in either
// direction, and how much of it a client may send (s3-protocol.md 2.6).

import t from "tap";
import { type Attack, bucket, openTarget, repel, signed, withLines } from "../support/attack.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { openRaw, rawExchange, rawHead } from "../support/raw-http.ts";
import { rawServer } from "../support/raw-upstream.ts";

const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");

const latin1Of = (text: string): string => Buffer.from(text, "utf8").toString("latin1");

/** The head of an answer that has no body, whatever length it names. */
async function headAnswer(url: string, head: string): Promise<string> {
  const connection = await openRaw(url);
  await connection.write(head);
  const { text } = await connection.answer((all) => all.includes("\r\n\r\n"));
  connection.socket.destroy();
  return text;
}

/** `name: value` lines of an HTTP head, names lower-case. */
function linesOf(head: string): readonly string[] {
  const lines = head.split("\r\n\r\n")[0]?.split("\r\n").slice(1) ?? [];
  return lines.map((line) => line.replace(/^[^:]*/, (name) => name.toLowerCase()));
}

t.test("what a client did not sign is not signed for it", async (t) => {
  const target = await openTarget(t);
  const put = signed(target.url, "PUT", `/${bucket}/k`, 0);
  const lines = [
    "x-amz-acl: public-read",
    "x-amz-copy-source: /target/kept",
    "x-amz-tagging: a=b",
    "x-amz-meta-a: b",
    "x-amz-storage-class: GLACIER",
    "X-AMZ-GRANT-FULL-CONTROL: id=evil",
    "x-amz-bypass-governance-retention: true",
    "x-amz-website-redirect-location: http://evil",
    "x-amz-server-side-encryption-customer-key: AAAA",
    "x-amz-checksum-crc32: AAAAAA==",
    "x-amz-decoded-content-length: 0",
    "x-amz-trailer: x-amz-checksum-crc32",
  ];
  await repel(
    t,
    target,
    lines.map((line): Attack => {
      return {
        name: line,
        bytes: [withLines(put, line)],
        answer: "403 AccessDenied",
        goesOn: true,
      };
    }),
  );
  t.strictSame(target.stored(), []);
});

t.test("fields whose repetition would let two readers differ are refused", async (t) => {
  const target = await openTarget(t);
  const head = signed(target.url);
  const names = ["authorization", "x-amz-date", "x-amz-content-sha256"];
  const copies = names.map((name) => {
    const line = linesOf(head).find((each) => each.startsWith(`${name}:`)) ?? "";
    return { name: `two ${name}`, bytes: [withLines(head, line)], answer: "400 InvalidRequest" };
  });
  const nominated = [
    "x-amz-date",
    "Authorization",
    "host",
    "content-length",
    "Content-MD5",
    "x-amz-acl",
  ];
  await repel(t, target, [
    ...copies,
    ...nominated.map((name) => ({
      name: `Connection: ${name}`,
      bytes: [withLines(head, `connection: keep-alive, ${name}`)],
      answer: "400 InvalidRequest",
    })),
  ]);
});

t.test("no parameter writes lines into an answer", async (t) => {
  const target = await openTarget(t);
  const at = { method: "GET", path: `/${bucket}/kept` };
  const texts = ["a%0D%0Ab%3A%20c", "a%0Ab", "a%0Db", "%01", "a%7F", "%1B%5B2J"];
  const names = [
    ["cache-control", "content-disposition", "content-encoding"],
    ["content-language", "content-type", "expires"],
  ].flat();
  const queries = [
    ...texts.map((text) => `response-content-disposition=${text}`),
    ...names.map((name) => `response-${name}=a%0D%0A%0D%0AHTTP%2F1.1%20200`),
  ];
  await repel(t, target, [
    ...queries.map((query) => ({
      name: query,
      bytes: [rawHead(target.url, { ...at, query })],
      answer: "400 InvalidArgument",
      goesOn: true,
    })),
    {
      name: "an operation that an RGW may take for a read of the object",
      bytes: [rawHead(target.url, { ...at, query: `attributes=&response-expires=${texts[0]}` })],
      answer: "400 InvalidArgument",
      goesOn: true,
    },
  ]);
  const head = rawHead(target.url, {
    ...at,
    method: "HEAD",
    query: `response-expires=${texts[0]}`,
  });
  t.equal((await headAnswer(target.url, head)).slice(9, 12), "400");
  t.strictSame(
    target.reached().filter((line) => line.includes("response-")),
    [],
  );
  const shown = "a%09b%20%E6%97%A5";
  const query = `response-content-disposition=${shown}`;
  const { status, text } = await rawExchange(target.url, rawHead(target.url, { ...at, query }));
  t.equal(status, 200);
  t.ok(linesOf(text).includes(`content-disposition: a\tb ${latin1Of("日")}`), text);
});

t.test("heads have a limit, and S3's words for it", async (t) => {
  const target = await openTarget(t);
  const head = signed(target.url);
  const tooLarge = "400 RequestHeaderSectionTooLarge";
  const many = Array.from({ length: 300 }, (_, at) => `x-${at}: a`);
  const rows: readonly Attack[] = [
    {
      name: "one long field",
      bytes: [withLines(head, `x-a: ${"a".repeat(33_000)}`)],
      answer: tooLarge,
    },
    {
      name: "1 MiB of fields",
      bytes: [withLines(head, `x-a: ${"a".repeat(1 << 20)}`)],
      answer: tooLarge,
    },
    {
      name: "a long target",
      bytes: [signed(target.url, "GET", `/${"k".repeat(40_000)}`)],
      answer: tooLarge,
    },
    { name: "a long method", bytes: ["G".repeat(40_000)], answer: "400 InvalidRequest" },
    { name: "many fields", bytes: [withLines(head, ...many)], answer: tooLarge },
    {
      name: "fields beyond those that Node keeps",
      bytes: [withLines(head, ...Array.from({ length: 2_500 }, () => "a: b"), "host: evil")],
      answer: tooLarge,
    },
  ];
  await repel(t, target, rows);
});

t.test("names that would be read as others do not travel", async (t) => {
  const target = await openTarget(t);
  const lines = [
    "rgwx-uid: admin",
    "x-goog-meta-role: admin",
    "x-goog-tagging: a=b",
    "x-goog-website-redirect-location: http://evil",
    "x-rgw-acl: public-read",
    "x-dho-acl: public-read",
    "x-object-meta-a: b",
    "x-container-meta-a: b",
    "x-account-meta-a: b",
    "x-minio-force-delete: true",
    "accept: text/html",
    "content_type: text/html",
    "cookie: a=b",
    "te: trailers",
    "trailer: x-amz-acl",
    "keep-alive: timeout=5",
    "proxy-authorization: Basic eA==",
    "upgrade: websocket",
    "connection: x-private, upgrade",
    "x-private: 1",
    "via: 1.1 evil",
    "x-forwarded-for: 10.0.0.1",
    "x-real-ip: 10.0.0.1",
    "amz-sdk-request: attempt=1",
  ];
  const { status } = await rawExchange(target.url, withLines(signed(target.url), ...lines));
  t.equal(status, 200);
  const raw = target.clusters["only"]?.exchanges().at(-1)?.rawHeaders ?? [];
  const names = raw.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
  const sent = lines
    .map((line) => line.split(":")[0] ?? "")
    .filter((name) => name !== "connection");
  t.strictSame(
    names.filter((name) => sent.includes(name)),
    [],
  );
});

t.test("names that RGW would read as a signed one are refused", async (t) => {
  const target = await openTarget(t);
  const put = signed(target.url, "PUT", `/${bucket}/k`, 0);
  const lines = [
    ["x_amz_copy_source: /target/kept"],
    ["X_Amz_Acl: public-read"],
    ["x-amz_acl: public-read"],
    ["x-amz-object-lock_mode: GOVERNANCE"],
    ["x_amz_meta_a: b"],
    ["x-amz_meta-a: b"],
    ["x-amz-meta-a_b: 1", "x-amz-meta-a-b: 2"],
    ["x-amz-meta-a_b-c: 1", "x-amz-meta-a-b_c: 2"],
  ];
  const anonymous = `PUT /${bucket}/k HTTP/1.1\r\nhost: s3.test\r\ncontent-length: 0\r\n\r\n`;
  await repel(
    t,
    target,
    [put, anonymous].flatMap((head) =>
      lines.map((each): Attack => {
        const bytes = [withLines(head, ...each)];
        return { name: each.join(), bytes, answer: "400 InvalidRequest" };
      }),
    ),
  );
  t.strictSame(target.stored(), []);
});

t.test("a parameter that only a header may be goes nowhere", async (t) => {
  const target = await openTarget(t);
  const source = "x-amz-copy-source=%2Ftarget%2Fkept";
  const rows = [
    ["PUT", `/k?acl=&${source}`],
    ["PUT", `/k?tagging=&X-Amz-Copy-Source=a`],
    ["PUT", `/k?acl=&x-amz-rename-source=a`],
    ["PUT", `/k?partNumber=1&uploadId=u&${source}-range`],
    ["PUT", `/k?acl=&rgwx-uid=admin`],
    ["GET", `/kept?acl=&newThing=`],
    ["POST", `?delete=&newThing=1`],
    ["OPTIONS", `/kept?${source}`],
  ] as const;
  await repel(
    t,
    target,
    rows.map(([method, rest]): Attack => {
      const bytes = [signed(target.url, method, `/${bucket}${rest}`, 0)];
      return { name: `${method} ${rest}`, bytes, answer: "501 NotImplemented", goesOn: true };
    }),
  );
});

t.test("bytes of metadata survive, repeated lines become one", async (t) => {
  const target = await openTarget(t);
  const headers = [
    ["x-amz-meta-utf8", "gr\xc3\xbcn \xe2\x82\xac"],
    ["x-amz-meta-latin1", "gr\xfcn"],
    ["x-amz-meta-twice", "1,2"],
    ["x-amz-meta-my_key", "kept"],
  ] as const;
  const path = `/${bucket}/m`;
  const put = rawHead(target.url, { method: "PUT", path, headers, contentLength: 0 }).replace(
    "x-amz-meta-twice: 1,2",
    "x-amz-meta-twice: 1\r\nX-Amz-Meta-Twice: 2",
  );
  const connection = await openRaw(target.url);
  await connection.write(latin1(put));
  t.match(await connection.answer(), { status: 200 });
  connection.socket.destroy();
  const { text } = await rawExchange(target.url, signed(target.url, "HEAD", `/${bucket}/m`));
  const lines = linesOf(text);
  for (const [name, value] of headers) {
    t.ok(lines.includes(`${name}: ${value}`), name);
  }
});

t.test("fields of a cluster's answer that are about the cluster stay here", async (t) => {
  const upstream = await rawServer(t, async (connection) => {
    for (;;) {
      const head = await connection.head();
      if (head === null) return;
      const isKey = head.includes("/there/k");
      const fields = [
        "Connection: x-private, keep-alive",
        "Keep-Alive: timeout=9",
        "X-Private: secret",
        "Proxy-Authenticate: Basic",
        "Proxy-Connection: keep-alive",
        "Upgrade: h2c",
        "Trailer: x-secret",
        "Server: Ceph Object Gateway",
        "Via: 1.1 rgw",
        "Set-Cookie: a=b",
        "X-Amz-Id-2: zone-a",
        "Location: http://10.0.0.1:7480/there/k",
        "x-amz-request-id: tx-upstream",
        "rgwx-secret: 1",
        'ETag: "abc"',
        "x-amz-meta-name: gr\xc3\xbcn",
        "Last-Modified: Mon, 30 Nov 2026 00:00:00 GMT",
      ];
      connection.write(
        `HTTP/1.1 200 OK\r\n${isKey ? `${fields.join("\r\n")}\r\n` : ""}Content-Length: 4\r\n\r\nbody`,
      );
    }
  });
  const { url } = await startTestHeadgate(t, {
    clusters: { only: 1 },
    endpoints: { only: upstream.url },
  });
  const answer = await rawExchange(url, rawHead(url, { method: "GET", path: "/there/k" }));
  t.equal(answer.status, 200);
  t.ok(answer.text.endsWith("\r\n\r\nbody"));
  const lines = linesOf(answer.text);
  const foreign =
    /^(?:x-private|proxy-|upgrade|trailer|server|via|set-cookie|x-amz-id-2|location|rgwx-)|tx-upstream|secret|7480|zone-a/;
  t.strictSame(
    lines.filter((line) => foreign.test(line)),
    [],
  );
  for (const line of ['etag: "abc"', "x-amz-meta-name: gr\xc3\xbcn", "content-length: 4"]) {
    t.ok(lines.includes(line), line);
  }
});
