// Copies between clusters that fail: afterwards the object is not there, nor an upload of it.

import { CreateBucketCommand, PutObjectCommand, S3ServiceException } from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import t, { type Test } from "tap";
import type { DemoFault, FaultRule } from "../../proxy/demo/faults.ts";
import { copy, keys, openCopies, sent } from "../support/copies.ts";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { openRaw, rawHead, until } from "../support/raw-http.ts";
import { rawServer } from "../support/raw-upstream.ts";

function on(method: string, part: string, fault: DemoFault): FaultRule {
  return (request) => (request.method === method && request.target.includes(part) ? fault : null);
}

async function statusOf(sending: Promise<unknown>): Promise<number | undefined> {
  try {
    await sending;
    return 200;
  } catch (caught) {
    if (!(caught instanceof S3ServiceException)) throw caught;
    return caught.$metadata.httpStatusCode;
  }
}

function forbidden(method: string, part: string): FaultRule {
  return on(method, part, { status: 403, code: "AccessDenied" });
}

const inParts = 6 * 1024 * 1024;
const faults: readonly (readonly [
  what: string,
  at: "a" | "b",
  rule: FaultRule,
  size: number,
  status: number,
])[] = [
  ["the source breaks midway", "a", on("GET", "/src/k", { cutAfterBytes: 100_000 }), 200_000, 503],
  ["the source breaks at once", "a", on("GET", "/src/k", "reset"), 10, 503],
  ["the source is refused", "a", on("GET", "/src/k", { status: 500 }), 200_000, 503],
  ["the source changed", "a", on("GET", "/src/k", { status: 412 }), 200_000, 503],
  ["the source is forbidden", "a", forbidden("GET", "/src/k"), 10, 403],
  ["the source is forbidden", "a", forbidden("GET", "/src/k"), inParts, 403],
  ["a part is forbidden", "b", forbidden("PUT", "partNumber=2"), inParts, 403],
  ["the target breaks", "b", on("PUT", "/far/copy", "reset"), 200_000, 503],
  ["the target refuses", "b", forbidden("PUT", "/far/copy"), 10, 403],
  [
    "the source breaks in a part",
    "a",
    on("GET", "/src/k", { cutAfterBytes: 100_000 }),
    inParts,
    503,
  ],
  ["a part breaks", "b", on("PUT", "partNumber=2", "reset"), inParts, 503],
  ["a part is refused", "b", on("PUT", "partNumber=1", { status: 500 }), inParts, 503],
  ["no upload begins", "b", forbidden("POST", "uploads"), inParts, 403],
  [
    "Complete is refused",
    "b",
    on("POST", "uploadId", { status: 400, code: "InvalidPart" }),
    inParts,
    400,
  ],
];

for (const [what, at, rule, size, status] of faults) {
  t.test(`${what} (${size} bytes): no object and no upload`, async (t) => {
    const headgate = await openCopies(t);
    const params = { Bucket: "src", Key: "k", Body: Buffer.alloc(size, 1) };
    if (size === inParts) {
      const partSize = 5 * 1024 * 1024;
      await new Upload({ client: headgate.s3, params, partSize }).done();
    } else await headgate.s3.send(new PutObjectCommand(params));
    headgate.clusters[at]?.setFault(rule);
    t.equal(await statusOf(copy(headgate, {})), status);
    headgate.clusters[at]?.setFault(null);
    t.strictSame(keys(headgate, "far"), ["mine/first"]);
    const begun = sent(headgate, "b").filter((line) => line.startsWith("POST /far/copy?uploads"));
    const aborted = sent(headgate, "b").filter((line) => line.startsWith("DELETE /far/copy?"));
    const upload = size === inParts && what !== "no upload begins";
    t.strictSame([begun.length > 0, aborted.length], [size === inParts, upload ? 1 : 0]);
    await copy(headgate, {});
    t.strictSame(keys(headgate, "far"), ["copy", "mine/first"], "and goes through afterwards");
  });
}

t.test("a target that is not there leaves no read of the source open", async (t) => {
  const headgate = await openCopies(t);
  const Body = Buffer.alloc(1024 * 1024, 1);
  await headgate.s3.send(new PutObjectCommand({ Bucket: "src", Key: "k", Body }));
  await headgate.clusters["b"]?.close();
  for (let left = 5; left > 0; left -= 1) t.equal(await statusOf(copy(headgate, {})), 503);
  await until(async () => ((await headgate.clusters["a"]?.connections()) ?? 0) <= 2);
});

t.test("a Complete without an answer is not followed by an abort", async (t) => {
  const headgate = await openCopies(t);
  const params = { Bucket: "src", Key: "k", Body: Buffer.alloc(inParts, 1) };
  await new Upload({ client: headgate.s3, params, partSize: 5 * 1024 * 1024 }).done();
  headgate.clusters["b"]?.setFault(on("POST", "uploadId", "reset"));
  t.equal(await statusOf(copy(headgate, {})), 503);
  t.notOk(sent(headgate, "b").some((line) => line.startsWith("DELETE /far/copy?")));
});

t.test("a client that leaves takes its copy with it", async (t) => {
  const headgate = await openCopies(t);
  const params = { Bucket: "src", Key: "k", Body: Buffer.alloc(inParts, 1) };
  await new Upload({ client: headgate.s3, params, partSize: 5 * 1024 * 1024 }).done();
  headgate.clusters["b"]?.setFault(on("PUT", "partNumber=2", "stall"));
  const connection = await openRaw(headgate.url);
  t.teardown(() => connection.socket.destroy());
  const headers = [["x-amz-copy-source", "src/k"]] as const;
  await connection.write(
    rawHead(headgate.url, { method: "PUT", path: "/far/copy", headers, contentLength: 0 }),
  );
  await until(() => sent(headgate, "b").some((line) => line.includes("partNumber=2")));
  connection.socket.destroy();
  await until(() => sent(headgate, "b").some((line) => line.startsWith("DELETE /far/copy?")));
  t.strictSame(keys(headgate, "far"), ["mine/first"]);
});

/** A cluster c that holds the bucket `slow` with an object `k`, the end of which waits for `release`. */
async function slowSource(test: Test, size: number) {
  let release: () => void = () => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const etag = `"${"0".repeat(32)}"`;
  const server = await rawServer(test, async (connection) => {
    for (let head = await connection.head(); head !== null; head = await connection.head()) {
      const [method, target] = head.split(" ", 2);
      const isObject = target === "/slow/k";
      if (!isObject) {
        const status = target?.startsWith("/slow") === true ? "200 OK" : "404 Not Found";
        connection.write(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\n\r\n`);
        continue;
      }
      connection.write(`HTTP/1.1 200 OK\r\netag: ${etag}\r\ncontent-length: ${size}\r\n\r\n`);
      if (method === "HEAD") continue;
      connection.write(Buffer.alloc(size - 1, 1));
      await released;
      connection.write(Buffer.alloc(1, 1));
    }
  });
  return { url: server.url, release };
}

for (const size of [1_000, 300_000]) {
  t.test(`a placement that changes during a copy of ${size} bytes refuses it`, async (t) => {
    const source = await slowSource(t, size);
    const headgate = await startTestHeadgate(t, {
      clusters: { a: 1, b: 1, c: 0 },
      endpoints: { c: source.url },
    });
    await headgate.s3.send(new CreateBucketCommand({ Bucket: "far" }));
    const place = async (placement: Readonly<Record<string, number>>) =>
      await headgate.admin("PUT", "/buckets/far/placement", { placement, mode: "strict" });
    t.equal((await place({ b: 1 })).status, 204);
    const copying = copy(headgate, { CopySource: "slow/k", TaggingDirective: "REPLACE" });
    const refused = t.rejects(copying, { name: "SlowDown", $metadata: { httpStatusCode: 503 } });
    const begun = (): boolean => sent(headgate, "b").includes("PUT /far/copy");
    if (size > 64 * 1024) await until(begun);
    else await until(async () => (await inFlight(headgate)) === 1);
    t.equal((await place({ a: 1 })).status, 204);
    source.release();
    await refused;
    await until(async () => (await inFlight(headgate)) === 0);
    for (const id of ["a", "b"]) t.strictSame(headgate.clusters[id]?.objects("far"), [], id);
    const again = { CopySource: "slow/k", TaggingDirective: "REPLACE" } as const;
    await copy(headgate, again);
    t.equal(headgate.clusters["a"]?.objects("far")[0]?.bytes.length, size, "a retry lands on a");
  });
}

t.test(
  "a source larger than one copy may be is refused before its bytes are asked for",
  async (t) => {
    // https://github.com/developmentseed/multistore/issues/119
    const source = await slowSource(t, 5 * 1024 ** 3 + 1);
    const headgate = await startTestHeadgate(t, {
      clusters: { a: 1, b: 1, c: 0 },
      endpoints: { c: source.url },
    });
    await headgate.s3.send(new CreateBucketCommand({ Bucket: "far" }));
    const before = [sent(headgate, "a").length, sent(headgate, "b").length] as const;
    await t.rejects(copy(headgate, { CopySource: "slow/k" }), {
      name: "InvalidRequest",
      $metadata: { httpStatusCode: 400 },
    });
    for (const [n, id] of (["a", "b"] as const).entries()) {
      t.notOk(sent(headgate, id, before[n]).some((line) => /^(?:PUT|POST) \/far\/copy/.test(line)));
      t.strictSame(headgate.clusters[id]?.objects("far"), []);
    }
  },
);

async function inFlight(headgate: TestHeadgate): Promise<number> {
  const text = await (await fetch(`${headgate.adminUrl}/metrics`)).text();
  return Number(/^headgate_requests_in_flight (\d+)$/m.exec(text)?.[1]);
}
