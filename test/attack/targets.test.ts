// Request targets and hosts that ask for something else than they are checked for: another server,
// another bucket, another API of an RGW.

import { createServer } from "node:http";
import { CreateMultipartUploadCommand } from "@aws-sdk/client-s3";
import t from "tap";
import {
  type Attack,
  bucket,
  openTarget,
  repel,
  serves,
  signed,
  withLines,
} from "../support/attack.ts";
import { readerKeys } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";

t.test("targets that can be read in two ways are refused", async (t) => {
  const target = await openTarget(t);
  const { host } = new URL(target.url);
  const rows: readonly (readonly [string, string])[] = [
    ["absolute form", "http://169.254.169.254/latest/meta-data"],
    ["absolute form of ourselves", `http://${host}/${bucket}/kept`],
    ["absolute form with credentials", "http://a:b@c/"],
    ["asterisk", "*"],
    ["a fragment", `/${bucket}/kept#/../other`],
    ["a bare percent", `/${bucket}/100%`],
    ["half an escape", `/${bucket}/%4`],
    ["no hexadecimal escape", `/${bucket}/%zz`],
    ["overlong UTF-8", `/${bucket}/%c0%ae%c0%ae/x`],
    ["a surrogate", `/${bucket}/%ed%a0%80`],
    ["no UTF-8", `/${bucket}/%ff`],
    ["a bad query", `/${bucket}?prefix=%ff`],
    ["DEL", `/${bucket}/a\x7fb`],
    ["a control byte", `/${bucket}/a\x01b`],
    ["8 bits", `/${bucket}/\xe9`],
    ["authority form", `${host}`],
  ];
  const attacks = rows.map(([name, path]): Attack => {
    const bytes = [`GET ${path} HTTP/1.1\r\nhost: ${host}\r\n\r\n`];
    return { name, bytes, answer: "400 InvalidURI" };
  });
  await repel(t, target, attacks);
  const nul = signed(target.url, "GET", `/${bucket}/a%00b`);
  const fields = (lines: string): string => `GET /${bucket}/kept HTTP/1.1\r\n${lines}\r\n`;
  await repel(t, target, [
    { name: "NUL", bytes: [nul], answer: "400 InvalidURI", goesOn: true },
    { name: "no Host", bytes: [fields("")], answer: "400 InvalidRequest" },
    { name: "an empty Host", bytes: [fields("host:\r\n")], answer: "400 InvalidRequest" },
    {
      name: "two Hosts",
      bytes: [withLines(signed(target.url), "host: other.example")],
      answer: "400 InvalidRequest",
    },
    {
      name: "one Host twice",
      bytes: [withLines(signed(target.url), `host: ${host}`)],
      answer: "400 InvalidRequest",
    },
    { name: "a Host with a path", bytes: [fields("host: a/b\r\n")], answer: "400 InvalidRequest" },
    { name: "a Host with a user", bytes: [fields("host: a@b\r\n")], answer: "400 InvalidRequest" },
    {
      name: "CONNECT",
      bytes: [`CONNECT 169.254.169.254:80 HTTP/1.1\r\nhost: ${host}\r\n\r\n`],
      answer: "405 MethodNotAllowed",
    },
  ]);
});

t.test("other APIs of an RGW are no buckets, however they are spelled", async (t) => {
  const target = await openTarget(t);
  const { host } = new URL(target.url);
  const paths = [
    "/admin/user",
    "/%61dmin/user",
    "/admin%2Fuser",
    "/swift/v1",
    "/auth/v1.0",
    "/auth%2F",
  ];
  const hosts = ["admin.s3.test", "Swift.S3.test", "auth.s3.test"];
  await repel(t, target, [
    ...paths.map((path): Attack => {
      const bytes = [signed(target.url, "GET", path)];
      return { name: path, bytes, answer: "400 InvalidBucketName", goesOn: true };
    }),
    ...hosts.map((name): Attack => {
      const bytes = [signed(target.url, "GET", "/v1").replace(`host: ${host}`, `host: ${name}`)];
      return { name, bytes, answer: "400 InvalidBucketName", goesOn: true };
    }),
    {
      name: "TRACE",
      bytes: [signed(target.url, "TRACE")],
      answer: "405 MethodNotAllowed",
      goesOn: true,
    },
  ]);
});

t.test("dots and encoded slashes lead nowhere else", async (t) => {
  const target = await openTarget(t);
  // Left: as sent. Right: what a cluster is asked for, and what was signed.
  const rows = [
    [`/${bucket}/../admin/user`, `/${bucket}/../admin/user`],
    [`/${bucket}/%2e%2e/admin`, `/${bucket}/../admin`],
    [`/${bucket}/%2E%2E%2Fadmin`, `/${bucket}/../admin`],
    [`/${bucket}/..%5cadmin`, `/${bucket}/..%5Cadmin`],
    [`/${bucket}//kept`, `/${bucket}//kept`],
    [`/${bucket}/./kept`, `/${bucket}/./kept`],
    [`/${bucket}/%252e%252e/admin`, `/${bucket}/%252e%252e/admin`],
  ] as const;
  for (const [raw, canonical] of rows) {
    const head = signed(target.url, "GET", canonical).replace(canonical, raw);
    const { status, text } = await rawExchange(target.url, head);
    t.equal(`${status} ${/<Code>(\w+)</.exec(text)?.[1]}`, "404 NoSuchKey", raw);
    t.equal(target.reached().at(-1), `GET ${canonical}`);
  }
  const sneaky = signed(target.url).replace(`/${bucket}/kept`, `/${bucket}%2Fkept`);
  t.match(await rawExchange(target.url, sneaky), { status: 200 });
  t.equal(target.reached().at(-1), `GET /${bucket}/kept`);
  const asReader = rawHead(target.url, {
    method: "GET",
    path: `/${bucket}/kept`,
    keys: readerKeys,
  }).replace(`/${bucket}/kept`, `/${bucket}%2Fkept`);
  const before = target.reached().length;
  t.match(await rawExchange(target.url, asReader), { status: 403, text: "AccessDenied" });
  t.equal(target.reached().length, before, "policy decided on bucket and key");
  await serves(t, target);
});

t.test("a copy source that a radosgw dies of never reaches one", async (t) => {
  const target = await openTarget(t, { clusterSettings: "profile: rgw-pacific" });
  const Key = "copy";
  const begun = await target.s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key }));
  const upload = `partNumber=1&uploadId=${encodeURIComponent(begun.UploadId ?? "")}`;
  const copy = (source: string, query: string): string =>
    rawHead(target.url, {
      method: "PUT",
      path: `/${bucket}/${Key}`,
      query,
      headers: [["x-amz-copy-source", source]],
      contentLength: 0,
    });
  const malformed = [
    `/${bucket}/%`,
    `${bucket}/%`,
    `/${bucket}/a%`,
    `/${bucket}/%2`,
    `/${bucket}/%zz`,
    `/${bucket}/`,
    `${bucket}/`,
    `/${bucket}`,
    `${bucket}%2F`,
    `%2F${bucket}%2F`,
    `/${bucket}%2F%`,
    `/${bucket}/%00`,
    `/${bucket}/%ff`,
    `/${bucket}/?versionId=`,
    `/${bucket}/k?versionId=%`,
    `//${bucket}/k`,
    "/",
    "%",
    "",
  ];
  const queries = [upload, ""];
  await repel(
    t,
    target,
    malformed.flatMap((source) =>
      queries.map((query) => ({
        name: `"${source}" ${query === "" ? "whole" : "as a part"}`,
        bytes: [copy(source, query)],
        answer: "400 InvalidArgument",
        goesOn: true,
      })),
    ),
  );
  const anonymous = `PUT /${bucket}/${Key}?${upload} HTTP/1.1\r\nhost: ${new URL(target.url).host}\r\nx-amz-copy-source: /${bucket}/%25\r\ncontent-length: 0\r\n\r\n`;
  await repel(t, target, [
    { name: "anonymous", bytes: [anonymous], answer: "403 AccessDenied", goesOn: true },
  ]);
  // Well formed: read by its name and put as a part; no server is asked to read the name again.
  const before = target.reached().length;
  for (const source of ["%25", "%2525", "a%25zz", "%2525%32%35", "%252F", "%25?versionId=%25"]) {
    const { status, text } = await rawExchange(target.url, copy(`/${bucket}/${source}`, upload));
    t.match(`${status} ${/<Code>(\w+)</.exec(text)?.[1]}`, /^404 NoSuch(?:Key|Version)$/, source);
    t.notMatch(target.reached().slice(before).join(), "PUT", source);
  }
  const exchanges = target.clusters["only"]?.exchanges() ?? [];
  const names = exchanges.flatMap(({ rawHeaders }) => rawHeaders.map((text) => text.toLowerCase()));
  t.notOk(names.includes("x-amz-copy-source"), "no cluster was asked to copy");
  await serves(t, target);
});

t.test("no field of a client chooses the server", async (t) => {
  const hit: string[] = [];
  const decoy = createServer((request, response) => {
    hit.push(request.url ?? "");
    response.end();
  });
  await new Promise<void>((resolve) => decoy.listen(0, "127.0.0.1", resolve));
  t.teardown(() => decoy.close());
  const address = decoy.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const evil = `127.0.0.1:${address.port}`;
  const target = await openTarget(t);
  const { host } = new URL(target.url);
  const lines = [
    `x-forwarded-host: ${evil}`,
    `forwarded: host=${evil}`,
    `x-forwarded-proto: https`,
    `x-original-url: http://${evil}/`,
    `x-rewrite-url: /admin/user`,
    `x-host: ${evil}`,
  ];
  const { status } = await rawExchange(target.url, withLines(signed(target.url), ...lines));
  t.equal(status, 200);
  for (const name of [evil, "169.254.169.254", "metadata.google.internal"]) {
    const head = signed(target.url).replace(`host: ${host}`, `host: ${name}`);
    t.match(await rawExchange(target.url, head), { status: 403 }, name);
  }
  for (const path of [`/${evil}/x`, "/169.254.169.254/latest", "/[::1]/x"]) {
    const { text } = await rawExchange(target.url, signed(target.url, "GET", path));
    t.match(
      text,
      /<Code>(?:InvalidBucketName|NoSuchBucket|InvalidURI|SignatureDoesNotMatch)</,
      path,
    );
  }
  t.strictSame(hit, []);
  const own = new URL(target.clusters["only"]?.url ?? "").host;
  for (const { rawHeaders } of target.clusters["only"]?.exchanges() ?? []) {
    const names = rawHeaders.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase());
    t.equal(rawHeaders[2 * names.indexOf("host") + 1], own);
    t.strictSame(
      names.filter((name) => name.includes("forwarded")),
      [],
    );
  }
});
