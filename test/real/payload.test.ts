// A body that is not what its signature says never becomes an object: the gate holds the tail back
// until the hash is right, and a client that leaves takes its upload with it. Against both generations of
// RGW, whose own list is read after every fault; one of them would die of a signed trailer that is wrong.
// The matrix of uploads runs pairwise here: who signs × how the body is protected × how long it is × what
// is wrong with it × which profile Headgate was given, the right one or a wrong one.

import { once } from "node:events";
import { type ClientRequest, request } from "node:http";
import { CreateBucketCommand, PutBucketPolicyCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { type ProfileName, profileNames, profiles } from "../../proxy/placement/profiles.ts";
import { clusterKeys, startTestHeadgate } from "../support/headgate.ts";
import { type Column, pairsOf, pairwise } from "../support/pairwise.ts";
import { auths, bodyOf, countBy, type UploadRow, uploadRows } from "../support/upload-matrix.ts";
import { endedIn, openBundle } from "../support/upload-matrix-demo.ts";
import { type MatrixOver, runMatrix } from "../support/upload-matrix-run.ts";
import { type Lab, type RealTest, withLab } from "./support/lab.ts";
import { objectsOf } from "./support/matrix-objects.ts";
import { until } from "./support/processes.ts";
import { keysOf, read, s3Client, sha256, testBytes } from "./support/s3.ts";
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

interface RealRow extends UploadRow {
  readonly profile: ProfileName;
}

const columns: readonly Column<RealRow>[] = [
  ({ auth }) => auth,
  ({ payload }) => payload,
  ({ data }) => data.length,
  ({ fault }) => fault,
  ({ profile }) => profile,
];
const allRows: readonly RealRow[] = uploadRows({ auths, bodies: sizesBytes.map(bodyOf) }).flatMap(
  (row) => profileNames.map((profile) => ({ ...row, profile })),
);
const rows = pairwise(allRows, columns);

/** Headgate with one profile over the RGW `a`, in this process. */
async function openMatrix(t: Test, lab: Lab, profile: ProfileName): Promise<MatrixOver> {
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1 },
    servers: {},
    endpoints: { a: lab.rgw.url("a") },
    clusterSettings: `profile: ${profile}`,
    auth: "sigv2: on",
    settings: `policy: {bundle: ${openBundle(t)}}`,
  });
  const direct = s3Client(lab.rgw.url("a"), clusterKeys);
  t.teardown(() => direct.destroy());
  let buckets = 0;
  return {
    url: headgate.url,
    facts: profiles[profileOf[lab.rgw.generation]],
    async bucket(open) {
      buckets += 1;
      const Bucket = `${open ? "open" : "closed"}-${profile}-${buckets}`;
      await headgate.s3.send(new CreateBucketCommand({ Bucket }));
      const everybody = {
        Effect: "Allow",
        Principal: "*",
        // What nobody owns its bucket's owner could not read.
        Action: ["s3:PutObject", "s3:GetObject"],
        Resource: `arn:aws:s3:::${Bucket}/*`,
      };
      const Policy = JSON.stringify({ Version: "2012-10-17", Statement: [everybody] });
      if (open) await direct.send(new PutBucketPolicyCommand({ Bucket, Policy }));
      return Bucket;
    },
    objects: objectsOf(direct),
    ended: endedIn(headgate),
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

  test("the rows have every pair of values of two columns", async (t) => {
    await lab.rgw.makeUser("a", "matrix", clusterKeys);
    const pairs = (of: readonly RealRow[]): ReadonlySet<string> =>
      new Set(of.flatMap((row) => pairsOf(row, columns)));
    t.equal(pairs(rows).size, pairs(allRows).size);
    t.equal(pairs(rows).size, 1527);
    t.comment(
      `${rows.length} rows of ${allRows.length}`,
      countBy(rows, ({ profile }) => profile),
    );
  });
  for (const profile of profileNames) {
    test(`uploads in every form and with every fault, under ${profile}`, async (t) => {
      const matrix = await openMatrix(t, lab, profile);
      const own = rows.filter((row) => row.profile === profile);
      t.ok(own.length > 40, `${own.length} uploads`);
      const safely = profiles[profile] !== matrix.facts;
      t.strictSame(await runMatrix(matrix, own, { safely }), []);
    });
  }
}

for (const generation of [16, 18] as const) withLab(t, [], testPayloads, { generation });
