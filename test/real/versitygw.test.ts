// Uploads in every form and with every fault through Headgate over versitygw, a server that verifies
// trailers and checksums itself: what Headgate hands on is right to a judge who is not of its making, and
// checksums are kept with the objects, those of copies from one server to another among them.

import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { profileFacts } from "../../proxy/placement/profiles.ts";
import { clusterKeys, startTestHeadgate } from "../support/headgate.ts";
import type { MatrixChecksum } from "../support/matrix-checksums.ts";
import {
  algorithmNames,
  headTold,
  piecesOf,
  putSummed,
  rightlyTold,
  type Summed,
  valueOf,
  valuesIn,
} from "../support/object-checksums.ts";
import { requireCommands } from "../support/requires.ts";
import { bodyOf, uploadRows } from "../support/upload-matrix.ts";
import { endedIn } from "../support/upload-matrix-demo.ts";
import { runMatrix } from "../support/upload-matrix-run.ts";
import { objectsOf } from "./support/matrix-objects.ts";
import { s3Client, testBytes } from "./support/s3.ts";
import { startVersitygw, versityInstallLine } from "./support/versitygw.ts";

const requirement = requireCommands(t, ["versitygw"], versityInstallLine);

/** What versitygw does otherwise than AWS; found by `cluster ping --probe`. */
const overrides =
  "keeps_aws_chunked: true, reads_conditions_fully: false, honours_conditional_copy: false";

t.test("versitygw", requirement, async (t) => {
  const versitygw = await startVersitygw(clusterKeys);
  t.teardown(() => versitygw.stop());
  const direct = s3Client(versitygw.url, clusterKeys);
  t.teardown(() => direct.destroy());
  const headgate = await startTestHeadgate(t, {
    clusters: { v: 1 },
    servers: {},
    endpoints: { v: versitygw.url },
    clusterSettings: `profile: aws
    overrides: {${overrides}}`,
  });

  await t.test("every payload and fault comes out as it must", async (t) => {
    let buckets = 0;
    const rows = uploadRows({ auths: ["header"], bodies: [0, 65_536, 200_000].map(bodyOf) });
    t.equal(rows.length, 439);
    const wrong = await runMatrix(
      {
        url: headgate.url,
        facts: { ...profileFacts("aws"), keepsAwsChunked: true },
        algorithms: ["crc32"],
        async bucket() {
          buckets += 1;
          const Bucket = `matrix-${buckets}`;
          await headgate.s3.send(new CreateBucketCommand({ Bucket }));
          return Bucket;
        },
        objects: objectsOf(direct),
        ended: endedIn(headgate),
      },
      rows,
    );
    t.strictSame(wrong, []);
  });

  await t.test("the probe finds it to be like AWS, but for what is overridden", async (t) => {
    const { body } = await headgate.admin("POST", "/clusters/v/ping?probe=true");
    t.match(body, { reachable: true, status: 200, probe: { best_profiles: ["aws"] } });
    t.match(body, { probe: { configured_profile: "aws", differs: [] } });
  });

  await t.test("copies to another have the checksums that S3 says", async (t) => {
    const other = await startVersitygw(clusterKeys);
    t.teardown(() => other.stop());
    const { s3 } = await startTestHeadgate(t, {
      clusters: { v: 0, w: 1 },
      servers: {},
      endpoints: { v: versitygw.url, w: other.url },
      clusterSettings: `profile: aws
    overrides: {${overrides}}`,
    });
    const target = s3Client(other.url, clusterKeys);
    t.teardown(() => target.destroy());
    await direct.send(new CreateBucketCommand({ Bucket: "sources" }));
    await s3.send(new CreateBucketCommand({ Bucket: "copies" }));
    const mebi = 1024 * 1024;
    const short = testBytes(200_000, "short");
    const long = testBytes(70 * mebi, "long");
    const eights = [...Array.from({ length: 8 }, () => 8 * mebi), 6 * mebi];
    const from = { Bucket: "sources", Key: "k" };
    const to = { Bucket: "copies", Key: "k" };
    for (const [body, sizes, source, asked, kept, keptSizes] of [
      [short, [], full("sha256"), null, full("sha256"), []],
      [short, [], full("crc64nvme"), "crc32", full("crc32"), []],
      [long, [], full("crc32"), null, full("crc32"), [64 * mebi, 6 * mebi]],
      [long, [], full("sha256"), null, composite("sha256"), [64 * mebi, 6 * mebi]],
      [long, eights, composite("sha256"), null, composite("sha256"), eights],
      [long, eights, composite("sha256"), "crc32", full("crc32"), eights],
    ] as const) {
      await putSummed(direct, { ...from, body, sizes, sum: source });
      const given = asked === null ? {} : { ChecksumAlgorithm: algorithmNames[asked] };
      const copying = { ...to, CopySource: "sources/k", ...given };
      const { CopyObjectResult = {} } = await s3.send(new CopyObjectCommand(copying));
      const name = `${body.length} bytes in ${sizes.length}, ${source.algorithm} to ${asked}`;
      const head = await headTold(target, to);
      t.strictSame(head, rightlyTold(body, kept, keptSizes).head, name);
      t.strictSame(valuesIn(CopyObjectResult), head, name);
    }

    // The server's own default, computed by it; and of parts by the client's SDK.
    await direct.send(new PutObjectCommand({ ...from, Body: long }));
    const head = await headTold(direct, from);
    t.match(head, { values: { crc64nvme: /=$/ }, type: "FULL_OBJECT" });
    await s3.send(new CopyObjectCommand({ ...to, CopySource: "sources/k" }));
    t.strictSame(await headTold(target, to), head);

    for (const sum of [composite("crc32"), full("crc64nvme"), composite("sha256")]) {
      const begun = { ChecksumAlgorithm: algorithmNames[sum.algorithm], ChecksumType: sum.type };
      const upload = await s3.send(new CreateMultipartUploadCommand({ ...to, ...begun }));
      const { UploadId } = upload;
      const Parts = [];
      const sizes = [5 * mebi, 7];
      const body = long.subarray(0, 5 * mebi + 7);
      let first = 0;
      for (const [index, { length }] of piecesOf(body, sizes).entries()) {
        const range = { CopySourceRange: `bytes=${first}-${first + length - 1}` };
        first += length;
        const part = { ...to, UploadId, PartNumber: index + 1, CopySource: "sources/k", ...range };
        const { CopyPartResult } = await s3.send(new UploadPartCopyCommand(part));
        Parts.push({ PartNumber: index + 1, ...CopyPartResult });
      }
      const done = { ...to, UploadId, MultipartUpload: { Parts } };
      await s3.send(new CompleteMultipartUploadCommand(done));
      const told = { values: { [sum.algorithm]: valueOf(body, sum, sizes) }, type: sum.type };
      t.strictSame(await headTold(target, to), told);
    }
  });
});

function full(algorithm: MatrixChecksum): Summed {
  return { algorithm, type: "FULL_OBJECT" };
}

function composite(algorithm: MatrixChecksum): Summed {
  return { algorithm, type: "COMPOSITE" };
}
