// Who may do what, seen from a client: right and wrong signatures, presigned URLs, callers without
// grants, anonymous callers, and what the errors say and do not say.

import { createHash } from "node:crypto";
import {
  CreateBucketCommand,
  GetObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { encodeQuery } from "../../proxy/s3/query.ts";
import { clientKeys, readerKeys, startTestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { smithyPresign } from "../support/s3-smithy.ts";

const denied = { name: "AccessDenied", $metadata: { httpStatusCode: 403 } };

t.test("a caller does what its grants say and nothing else", async (t) => {
  const { s3, client, clusters } = await startTestHeadgate(t);
  for (const Bucket of ["shown-one", "hidden-one"]) {
    await s3.send(new CreateBucketCommand({ Bucket }));
    await s3.send(new PutObjectCommand({ Bucket, Key: "k", Body: "x" }));
  }
  const reader = client({ credentials: readerKeys });
  await reader.send(new GetObjectCommand({ Bucket: "shown-one", Key: "k" }));
  await reader.send(new ListObjectsV2Command({ Bucket: "shown-one" }));
  await t.rejects(reader.send(new GetObjectCommand({ Bucket: "hidden-one", Key: "k" })), {
    ...denied,
    message: "Access denied: policy does not allow GetObject to this caller",
  });
  await t.rejects(
    reader.send(new PutObjectCommand({ Bucket: "shown-one", Key: "new", Body: "x" })),
    denied,
  );
  await t.rejects(reader.send(new CreateBucketCommand({ Bucket: "shown-two" })), denied);
  await t.rejects(reader.send(new GetObjectCommand({ Bucket: "absent", Key: "k" })), denied);
  const keys = Object.values(clusters).flatMap((cluster) => cluster.objects("shown-one"));
  t.strictSame(
    keys.map(({ key }) => key),
    ["k"],
  );
});

t.test(
  "wrong signatures, unknown keys and skewed clocks are told apart and leak nothing",
  async (t) => {
    const { url, s3, accessLog } = await startTestHeadgate(t);
    await s3.send(new CreateBucketCommand({ Bucket: "keys" }));
    const get = async (keys: typeof clientKeys, atMs = Date.now()) =>
      await rawExchange(url, rawHead(url, { method: "GET", path: "/keys/k", keys, atMs }));
    const wrong = await get({ ...clientKeys, secretAccessKey: "other" });
    t.equal(wrong.status, 403);
    t.match(wrong.text, "<Code>SignatureDoesNotMatch</Code>");
    t.match(wrong.text, "<StringToSign>AWS4-HMAC-SHA256");
    t.match(wrong.text, "<CanonicalRequest>GET\n/keys/k\n");
    const request = rawHead(url, {
      method: "GET",
      path: "/keys/k",
      headers: [["content-type", "text/csv"]],
    });
    const charset = request.replace("text/csv", "text/csv; charset=utf-8");
    const changed = await rawExchange(url, charset);
    t.match(changed.text, "would if header &quot;content-type&quot; was &quot;text/csv&quot;");
    t.notMatch(wrong.text, clientKeys.secretAccessKey);
    const unknown = await get({ accessKeyId: "nobody", secretAccessKey: "other" });
    t.equal(unknown.status, 403);
    t.match(unknown.text, "<Code>InvalidAccessKeyId</Code>");
    const late = await get(clientKeys, Date.now() - 16 * 60_000);
    t.equal(late.status, 403);
    t.match(late.text, "<Code>RequestTimeTooSkewed</Code>");
    t.match(late.text, "<ServerTime>");
    t.strictSame(
      accessLog.slice(-4).map(({ errorCode }) => errorCode),
      [
        "SignatureDoesNotMatch",
        "SignatureDoesNotMatch",
        "InvalidAccessKeyId",
        "RequestTimeTooSkewed",
      ],
    );
    const anonymous = await fetch(`${url}/keys/k`);
    t.equal(anonymous.status, 403);
    t.match(
      await anonymous.text(),
      "<Code>AccessDenied</Code><Message>Access denied: policy does not allow GetObject to unsigned requests<",
    );
  },
);

t.test("presigned URLs write and read until they expire", async (t) => {
  const { url, s3 } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "presigned" }));
  const presign = async (method: string, epochMs: number): Promise<string> => {
    const path = "/presigned/a%20key";
    const query = await smithyPresign(
      {
        method,
        path,
        query: {},
        headers: { host: new URL(url).host },
        epochMs,
        region: "us-east-1",
        credentials: { ...clientKeys, sessionToken: null },
      },
      3600,
    );
    return `${path}?${encodeQuery(query)}`;
  };
  const put = await fetch(`${url}${await presign("PUT", Date.now())}`, {
    method: "PUT",
    body: "hi",
  });
  t.equal(put.status, 200);
  const got = await fetch(`${url}${await presign("GET", Date.now())}`);
  t.equal(await got.text(), "hi");
  const expired = await fetch(`${url}${await presign("GET", Date.now() - 3_700_000)}`);
  t.equal(expired.status, 403);
  t.match(await expired.text(), "<Code>AccessDenied</Code>");
  const swapped = await fetch(`${url}${await presign("GET", Date.now())}`, { method: "DELETE" });
  t.equal(swapped.status, 403);
  t.match(await swapped.text(), "<Code>SignatureDoesNotMatch</Code>");
});

t.test("x-amz-* headers that are not signed are refused before anything happens", async (t) => {
  const { url, s3, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "laundry" }));
  const head = rawHead(url, {
    method: "PUT",
    path: "/laundry/k",
    contentLength: 1,
    payloadHash: createHash("sha256").update("x").digest("hex"),
  });
  const smuggled = head.replace("\r\n\r\n", "\r\nx-amz-acl: public-read\r\n\r\n");
  const answer = await rawExchange(url, smuggled, "x");
  t.equal(answer.status, 403);
  t.match(answer.text, "x-amz-acl");
  for (const cluster of Object.values(clusters)) t.strictSame(cluster.objects("laundry"), []);
});

t.test("virtual-hosted-style and path-style name the same bucket", async (t) => {
  const { url, s3 } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "styles" }));
  await s3.send(new PutObjectCommand({ Bucket: "styles", Key: "a/b", Body: "x" }));
  const { port } = new URL(url);
  const head = rawHead(`http://styles.s3.test:${port}`, { method: "GET", path: "/a/b" });
  const answer = await rawExchange(url, head);
  t.equal(answer.status, 200);
  t.match(answer.text, /\r\n\r\nx$/);
});
