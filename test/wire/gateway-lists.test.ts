// Lists of a spread bucket: one exact, ordered list whatever the page size, delimiter and version of
// the API, with tokens that are Headgate's own.

import { once } from "node:events";
import { createServer } from "node:http";
import {
  CreateBucketCommand,
  ListMultipartUploadsCommand,
  ListObjectsCommand,
  ListObjectsV2Command,
  ListObjectVersionsCommand,
  PutObjectCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { startTestHeadgate } from "../support/headgate.ts";
import { openScene } from "../support/rgw-scene.ts";

const keys = [
  "a",
  "a/1",
  "a/2",
  "a/b/3",
  "b with blank",
  "b+plus",
  "c%cent",
  "dir/",
  "dir/x",
  "\u{e000}-before-astral",
  "\u{1f680}-after",
];

const byBytes = (x: string, y: string): number => Buffer.compare(Buffer.from(x), Buffer.from(y));

async function fill(s3: S3Client): Promise<void> {
  await s3.send(new CreateBucketCommand({ Bucket: "list" }));
  for (const Key of keys) await s3.send(new PutObjectCommand({ Bucket: "list", Key, Body: Key }));
}

t.test("pages of any size give every key once, in byte order", async (t) => {
  const { s3 } = await startTestHeadgate(t);
  await fill(s3);
  for (const MaxKeys of [1, 2, 3, 1000]) {
    const found: (string | undefined)[] = [];
    let ContinuationToken: string | undefined;
    do {
      const page = await s3.send(
        new ListObjectsV2Command({ Bucket: "list", MaxKeys, ContinuationToken }),
      );
      found.push(...(page.Contents ?? []).map(({ Key }) => Key));
      t.ok((page.KeyCount ?? 0) <= MaxKeys);
      ContinuationToken = page.NextContinuationToken;
    } while (ContinuationToken !== undefined);
    t.strictSame(found, keys.toSorted(byBytes), `pages of ${MaxKeys}`);
    const marked: (string | undefined)[] = [];
    let Marker: string | undefined;
    for (;;) {
      const page = await s3.send(new ListObjectsCommand({ Bucket: "list", MaxKeys, Marker }));
      marked.push(...(page.Contents ?? []).map(({ Key }) => Key));
      if (page.IsTruncated !== true) break;
      Marker = page.NextMarker ?? marked.at(-1);
    }
    t.strictSame(marked, keys.toSorted(byBytes), `version 1, pages of ${MaxKeys}`);
  }
});

t.test("a delimiter rolls keys up in key order, over pages", async (t) => {
  const { s3 } = await startTestHeadgate(t);
  await fill(s3);
  const found: string[] = [];
  let ContinuationToken: string | undefined;
  do {
    const page = await s3.send(
      new ListObjectsV2Command({ Bucket: "list", Delimiter: "/", MaxKeys: 1, ContinuationToken }),
    );
    found.push(...(page.Contents ?? []).map(({ Key }) => Key ?? ""));
    found.push(...(page.CommonPrefixes ?? []).map(({ Prefix }) => Prefix ?? ""));
    ContinuationToken = page.NextContinuationToken;
  } while (ContinuationToken !== undefined);
  const rolled = new Set(keys.map((key) => (key.includes("/") ? `${key.split("/")[0]}/` : key)));
  t.strictSame(found, [...rolled].toSorted(byBytes));
  const inside = await s3.send(
    new ListObjectsV2Command({ Bucket: "list", Prefix: "a/", Delimiter: "/" }),
  );
  t.strictSame(
    inside.Contents?.map(({ Key }) => Key),
    ["a/1", "a/2"],
  );
  t.strictSame(
    inside.CommonPrefixes?.map(({ Prefix }) => Prefix),
    ["a/b/"],
  );
});

t.test(
  "a token of another list or of nobody is refused, a lost cluster makes no short list",
  async (t) => {
    const { s3, clusters } = await startTestHeadgate(t);
    await fill(s3);
    const first = await s3.send(new ListObjectsV2Command({ Bucket: "list", MaxKeys: 2 }));
    for (const ContinuationToken of ["forged", `${first.NextContinuationToken}x`]) {
      await t.rejects(s3.send(new ListObjectsV2Command({ Bucket: "list", ContinuationToken })), {
        name: "InvalidArgument",
      });
    }
    await t.rejects(
      s3.send(
        new ListObjectsV2Command({
          Bucket: "list",
          Prefix: "a",
          ContinuationToken: first.NextContinuationToken,
        }),
      ),
      { name: "InvalidArgument" },
    );
    const start = await s3.send(
      new ListObjectsV2Command({ Bucket: "list", ContinuationToken: "" }),
    );
    t.equal(start.KeyCount, keys.length, "an empty token means the start");
    clusters["c"]?.setFault(() => "reset");
    await t.rejects(s3.send(new ListObjectsV2Command({ Bucket: "list" })), {
      name: "ServiceUnavailable",
    });
  },
);

t.test(
  "a list document without end is cut, and what is held of long ones is given back",
  async (t) => {
    const { rgw, ask } = await openScene(t);
    const lists = [
      ["/rep", "list-type=2", "ListBucketResult"],
      ["/rep", "", "ListBucketResult"],
      ["/rep", "versions=", "ListVersionsResult"],
      ["/rep", "uploads=", "ListMultipartUploadsResult"],
      ["/", "", "ListAllMyBucketsResult"],
    ] as const;
    const padded = (root: string, length: number): string =>
      `<${root}>${" ".repeat(length)}<IsTruncated>false</IsTruncated><Buckets></Buckets></${root}>`;
    let answer = "";
    rgw.intercept = ({ method }) => (method === "GET" ? answer : null);
    for (const [path, query, root] of lists) {
      const sent = padded(root, 9 * 1024 * 1024);
      answer = `HTTP/1.1 200 OK\r\ncontent-length: 1000000000000\r\n\r\n${sent}`;
      const refused = await ask("GET", path, { query });
      t.match(refused, { status: 503, code: "ServiceUnavailable" }, `${path}?${query}`);
      // More than one caller may have held in all, were it not given back.
      const whole = padded(root, 7 * 1024 * 1024);
      answer = `HTTP/1.1 200 OK\r\ncontent-length: ${whole.length}\r\n\r\n${whole}`;
      for (const _ of [1, 2]) t.equal((await ask("GET", path, { query })).status, 200);
    }
  },
);

/** A cluster that has every bucket and refuses every list, at a length that no connection holds unread. */
async function refusing(t: Test): Promise<string> {
  const document = `<Error><Code>AccessDenied</Code><Message>${"x".repeat(400_000)}</Message></Error>`;
  const server = createServer((request, response) => {
    const headers = { "content-type": "application/xml", "content-length": document.length };
    if (request.method === "HEAD") response.writeHead(200);
    else response.writeHead(403, headers);
    response.end(request.method === "HEAD" ? "" : document);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("No port");
  return `http://127.0.0.1:${address.port}`;
}

t.test("where all clusters refuse a list no answer keeps a connection", async (t) => {
  const { client } = await startTestHeadgate(t, {
    endpoints: { a: await refusing(t), b: await refusing(t) },
    settings: "upstream: { max_sockets_per_endpoint: 1 }",
  });
  const s3 = client({ maxAttempts: 1 });
  const input = { Bucket: "found-there" };
  for (let n = 0; n < 2; n += 1) {
    for (const send of [
      async () => await s3.send(new ListObjectsV2Command(input)),
      async () => await s3.send(new ListObjectVersionsCommand(input)),
      async () => await s3.send(new ListMultipartUploadsCommand(input)),
    ]) {
      await t.rejects(send(), { name: "AccessDenied" });
    }
  }
});
