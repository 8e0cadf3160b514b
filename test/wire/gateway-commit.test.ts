// The commit point of an upload: a bucket that is deleted or placed elsewhere while the body is on its
// way refuses it after its last byte, and no cluster holds an object of it afterwards.

import { CreateBucketCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { TestHeadgate } from "../support/headgate.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { openRaw, type RawConnection, rawExchange, rawHead, until } from "../support/raw-http.ts";

const bucket = "moving";
/** Held back whole before the commit point, and streamed upstream up to its last 64 KiB. */
const sizes = [1000, 300_000] as const;

async function open(test: Test): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(test, { clusters: { a: 1, b: 1 } });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  return headgate;
}

function stored(headgate: TestHeadgate, id: "a" | "b"): readonly string[] {
  return headgate.clusters[id]?.objects(bucket).map(({ key }) => key) ?? [];
}

async function idle(headgate: TestHeadgate): Promise<void> {
  await until(async () => {
    const text = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
    return /^headgate_requests_in_flight 0$/m.test(text);
  });
}

/** A strict placement; answers the admin status. */
async function place(
  headgate: TestHeadgate,
  placement: Readonly<Record<string, number>>,
): Promise<number> {
  const body = { placement, mode: "strict" };
  return (await headgate.admin("PUT", `/buckets/${bucket}/placement`, body)).status;
}

/** An upload that lacks its last byte and was let in: the proxy has asked for the body. */
async function openUpload(
  t: Test,
  headgate: TestHeadgate,
  to: { readonly path: string; readonly size: number },
): Promise<RawConnection> {
  const { path, size } = to;
  const connection = await openRaw(headgate.url);
  t.teardown(() => connection.socket.destroy());
  const headers = [["expect", "100-continue"]] as const;
  await connection.write(
    rawHead(headgate.url, { method: "PUT", path, contentLength: size, headers }),
  );
  await connection.answer((text) => text.startsWith("HTTP/1.1 100 Continue\r\n\r\n"));
  await connection.write(Buffer.alloc(size - 1, 1));
  if (size > 64 * 1024) await until(() => reached(headgate, path).length > 0);
  return connection;
}

/** The clusters that an upload to this path was begun on. */
function reached(headgate: TestHeadgate, path: string): readonly string[] {
  return Object.entries(headgate.clusters).flatMap(([id, cluster]) =>
    cluster.exchanges().some(({ method, target }) => method === "PUT" && target.startsWith(path))
      ? [id]
      : [],
  );
}

/** Sends the last byte and gives what follows the 100 Continue. */
async function finish(connection: RawConnection): Promise<string> {
  await connection.write(Buffer.alloc(1, 1));
  const whole = /\r\n\r\nHTTP\/1\.1 (?:2[^]*\r\n\r\n|[^]*<\/Error>)$/;
  const { text } = await connection.answer((all) => whole.test(all));
  return text.slice(text.indexOf("\r\n\r\n") + 4);
}

for (const size of sizes) {
  t.test(`a bucket deleted during an upload of ${size} bytes stays deleted`, async (t) => {
    const headgate = await open(t);
    const path = `/${bucket}/late`;
    const upload = await openUpload(t, headgate, { path, size });
    const gone = await rawExchange(
      headgate.url,
      rawHead(headgate.url, { method: "DELETE", path: `/${bucket}` }),
    );
    t.equal(gone.status, 204);
    const answer = await finish(upload);
    t.match(answer, /^HTTP\/1\.1 (?:404|503) /);
    t.match(answer, /<Code>(?:NoSuchBucket|SlowDown)<\/Code>/);
    await idle(headgate);
    for (const id of ["a", "b"] as const) {
      t.strictSame(headgate.clusters[id]?.buckets(), [], `${id} has no bucket again`);
    }
    t.match(await headgate.admin("GET", `/buckets/${bucket}`), { status: 404 });

    await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
    t.strictSame([...stored(headgate, "a"), ...stored(headgate, "b")], [], "nor in a new one");
    await headgate.s3.send(new PutObjectCommand({ Bucket: bucket, Key: "late", Body: "x" }));
    t.equal([...stored(headgate, "a"), ...stored(headgate, "b")].length, 1, "which takes writes");
  });

  // With a in both, a keeps its bucket: nothing but the commit point stops the object there.
  for (const next of [{ b: 1 }, { a: 1, b: 100 }]) {
    const title = `${size} bytes refuses it: to ${Object.keys(next).join(" and ")}`;
    t.test(`a placement changed during an upload of ${title}`, async (t) => {
      const headgate = await open(t);
      t.equal(await place(headgate, { a: 1 }), 204);
      const path = `/${bucket}/late`;
      const upload = await openUpload(t, headgate, { path, size });
      t.equal(await place(headgate, next), 204, "an open upload is no object: it is empty");
      const answer = await finish(upload);
      t.match(answer, /^HTTP\/1\.1 503 /);
      t.match(answer, "<Code>SlowDown</Code>");
      t.match(answer, /retry-after: \d+\r\n/i);
      await idle(headgate);
      t.strictSame(stored(headgate, "a"), [], "nothing on the owner it began with");
      t.strictSame(stored(headgate, "b"), [], "and nothing on the one it has now");
      const begun = size > 64 * 1024 ? ["a"] : [];
      t.strictSame(reached(headgate, path), begun, "it was begun on a, or nowhere");

      await headgate.s3.send(new PutObjectCommand({ Bucket: bucket, Key: "late", Body: "again" }));
      t.strictSame(stored(headgate, "a"), []);
      t.strictSame(stored(headgate, "b"), ["late"], "a retry lands on b");
    });
  }
}

t.test("a placement changed and changed back stores the upload whole or not at all", async (t) => {
  const headgate = await open(t);
  t.equal(await place(headgate, { a: 1 }), 204);
  const path = `/${bucket}/late`;
  const upload = await openUpload(t, headgate, { path, size: 300_000 });
  t.equal(await place(headgate, { b: 1 }), 204);
  t.equal(await place(headgate, { a: 1 }), 204);
  const answer = await finish(upload);
  await idle(headgate);
  const isStored = answer.startsWith("HTTP/1.1 200 ");
  t.ok(isStored || /<Code>SlowDown<\/Code>/.test(answer), "stored or refused, and said so");
  const lengths = headgate.clusters["a"]?.objects(bucket).map(({ bytes }) => bytes.length);
  t.strictSame(lengths, isStored ? [300_000] : []);
  t.strictSame(stored(headgate, "b"), []);
});
