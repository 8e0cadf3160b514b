// A body that is not what its signature says never becomes an object: the gate holds the tail back
// until the hash is right, and a client that leaves takes its upload with it. Against both generations of
// RGW, whose own list is read after every fault; one of them would die of a signed trailer that is wrong.

import { once } from "node:events";
import { type ClientRequest, request } from "node:http";
import {
  CreateBucketCommand,
  GetObjectCommand,
  NoSuchKey,
  type S3Client,
} from "@aws-sdk/client-s3";
import t from "tap";
import { profileFacts } from "../../proxy/placement/profiles.ts";
import { clientKeys } from "../support/headgate.ts";
import { auths, payloads } from "../support/upload-matrix.ts";
import {
  allRight,
  bodyOf,
  Matrix,
  type MatrixOver,
  bucket as matrixBucket,
} from "../support/upload-matrix-run.ts";
import { type Lab, type RealTest, withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { keysOf, read, sha256, testBytes } from "./support/s3.ts";
import { profileOf } from "./support/services.ts";
import { signedPut } from "./support/signed-put.ts";

/** Around the chunk of the matrix (8,192), the held-back tail (65,536), and past one part. */
const sizesBytes = [0, 1, 8192, 65_536, 65_537, 5 * 2 ** 20 + 1] as const;

async function answered(
  sent: ClientRequest,
): Promise<{ readonly status: number; readonly text: string }> {
  const [answer] = await once(sent, "response");
  const parts: Buffer[] = [];
  for await (const part of answer) parts.push(part);
  return { status: answer.statusCode, text: Buffer.concat(parts).toString("utf8") };
}

/** What one RGW holds, asked past Headgate. */
function objectsOf(direct: S3Client): MatrixOver["objects"] {
  return async (key) => {
    const { length: count } = await keysOf(direct, matrixBucket);
    try {
      const answer = await direct.send(new GetObjectCommand({ Bucket: matrixBucket, Key: key }));
      const bytes = (await answer.Body?.transformToByteArray()) ?? new Uint8Array();
      const encoding = answer.ContentEncoding;
      const fields = new Map(encoding === undefined ? [] : [["content-encoding", encoding]]);
      return { count, found: { bytes, fields } };
    } catch (caught) {
      if (caught instanceof NoSuchKey) return { count, found: null };
      throw caught;
    }
  };
}

async function testPayloads(lab: Lab, test: RealTest): Promise<void> {
  const headgate = await lab.headgate({
    name: "payload",
    clusters: lab.clusters({ a: 1, b: 1 }),
    prefix: "/headgate-payload/",
  });
  const client = lab.client(headgate);
  const bucket = "hashes";
  await client.send(new CreateBucketCommand({ Bucket: bucket }));

  async function onClusters(): Promise<readonly string[]> {
    const lists = [lab.direct("a"), lab.direct("b")].map((direct) => keysOf(direct, bucket));
    return (await Promise.all(lists)).flat();
  }

  for (const size of [1, 65_536, 65_537, 3 * 2 ** 20]) {
    test(`${size} bytes under a wrong hash are refused and absent upstream`, async (t) => {
      const bytes = testBytes(size, "wrong");
      const wrong = sha256(Buffer.from("something else"));
      const object = { bucket, key: `wrong-${size}`, bytes };
      const bad = signedPut(headgate, { ...object, payloadSha256: wrong });
      const sent = request(headgate.url, { method: "PUT", path: bad.path, headers: bad.headers });
      sent.end(bytes);
      const { status, text } = await answered(sent);
      t.equal(status, 400);
      t.match(text, "<Code>XAmzContentSHA256Mismatch</Code>");
      t.notOk((await onClusters()).includes(object.key));

      const good = signedPut(headgate, object);
      const again = request(headgate.url, {
        method: "PUT",
        path: good.path,
        headers: good.headers,
      });
      again.end(bytes);
      t.equal(
        (await answered(again)).status,
        200,
        "the same bytes under their own hash are stored",
      );
      t.equal(sha256((await read(client, bucket, object.key)) ?? new Uint8Array()), sha256(bytes));
    });
  }

  test("a client that leaves during its upload leaves no object", async (t) => {
    const bytes = testBytes(4 * 2 ** 20, "left");
    const { path, headers } = signedPut(headgate, { bucket, key: "left", bytes });
    const sent = request(headgate.url, { method: "PUT", path, headers });
    sent.once("error", () => undefined);
    sent.write(bytes.subarray(0, bytes.length - 1));
    await until("the upload upstream", 10_000, async () =>
      (await headgate.metric("headgate_requests_in_flight")) > 0 ? true : null,
    );
    sent.destroy();
    await until("no request in flight", 10_000, async () =>
      (await headgate.metric("headgate_requests_in_flight")) === 0 ? true : null,
    );
    t.notOk((await onClusters()).includes("left"));
    t.ok(headgate.runs);
  });

  const [cluster] = lab.clusters({ a: 1, b: 1 });
  const matrixGate = await lab.headgate({
    name: "matrix",
    clusters: cluster === undefined ? [] : [cluster],
    prefix: "/headgate-matrix/",
    client: clientKeys,
    sigv2: true,
  });
  await lab.direct("a").send(new CreateBucketCommand({ Bucket: matrixBucket }));
  const facts = profileFacts(profileOf[lab.rgw.generation]);
  const matrix = new Matrix(matrixGate, { facts, objects: objectsOf(lab.direct("a")) });
  // Every pair of who signs, how the body is protected and how long it is, with all faults.
  for (const [first, auth] of auths.entries()) {
    test(`uploads signed by ${auth}, in every form and with every fault`, async (t) => {
      for (const [second, payload] of payloads.entries()) {
        const size = sizesBytes[(first + second) % sizesBytes.length] ?? 0;
        const seen = await matrix.all(auth, payload, bodyOf(size));
        t.strictSame(seen, allRight(seen), `${payload}, ${size} bytes`);
      }
    });
  }
}

for (const generation of [16, 18] as const) withLab(t, [], testPayloads, { generation });
