// The demo cluster's checksums of parts, uploads and copies, as S3 takes and refuses them.

import {
  type ChecksumAlgorithm,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  type CompleteMultipartUploadCommandInput,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  ListPartsCommand,
  S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { demoCluster, demoCredentials } from "../support/demo-cluster.ts";
import { matrixChecksum } from "../support/matrix-checksums.ts";
import { headTold, piecesOf, rightlyTold, toldOf, valuesIn } from "../support/object-checksums.ts";

const of = { Bucket: "photos", Key: "k" };
const body = Buffer.from("0123456789abcdef!");
const sizes = [10, 7];
const pieces = piecesOf(body, sizes);
const [head = body, tail = body] = pieces;

async function openDemo(t: Test): Promise<S3Client> {
  const server = await demoCluster(t, { minPartBytes: 1 });
  const { accessKeyId, secretAccessKey } = demoCredentials;
  const client = new S3Client({
    endpoint: server.url,
    region: "us-east-1",
    forcePathStyle: true,
    maxAttempts: 1,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    credentials: { accessKeyId, secretAccessKey },
  });
  t.teardown(() => client.destroy());
  await client.send(new CreateBucketCommand({ Bucket: of.Bucket }));
  return client;
}

function sha1Of(piece: Buffer): string {
  return matrixChecksum("sha1", piece);
}

t.test("a composite checksum is of parts that came with theirs", async (t) => {
  const s3 = await openDemo(t);
  const begin = { ...of, ChecksumAlgorithm: "SHA1" } as const;
  const whole = new CreateMultipartUploadCommand({ ...begin, ChecksumType: "FULL_OBJECT" });
  await t.rejects(s3.send(whole), { name: "InvalidRequest" }, "a SHA is not of the whole object");
  const untold = new CreateMultipartUploadCommand({ ...of, ChecksumType: "COMPOSITE" });
  await t.rejects(s3.send(untold), { name: "InvalidRequest" }, "no algorithm");
  const begun = await s3.send(new CreateMultipartUploadCommand(begin));
  t.match(begun, { ChecksumAlgorithm: "SHA1", ChecksumType: "COMPOSITE" });
  const upload = { ...of, UploadId: begun.UploadId };
  const first = { ...upload, PartNumber: 1, Body: head };
  for (const [given, code] of [
    [{}, "InvalidRequest"],
    [{ ChecksumCRC32: matrixChecksum("crc32", head) }, "InvalidRequest"],
    [{ ChecksumSHA1: sha1Of(tail) }, "BadDigest"],
  ] as const) {
    await t.rejects(s3.send(new UploadPartCommand({ ...first, ...given })), { name: code });
  }
  const Parts: CompletedPart[] = [];
  for (const [index, Body] of pieces.entries()) {
    const part = { ...upload, PartNumber: index + 1, Body, ChecksumSHA1: sha1Of(Body) };
    const { ETag, ChecksumSHA1 } = await s3.send(new UploadPartCommand(part));
    Parts.push({ ETag, ChecksumSHA1, PartNumber: index + 1 });
  }
  const listed = await s3.send(new ListPartsCommand(upload));
  t.match(listed, { ChecksumAlgorithm: "SHA1", ChecksumType: "COMPOSITE" });
  t.strictSame(
    listed.Parts?.map(({ ChecksumSHA1 }) => ChecksumSHA1),
    pieces.map(sha1Of),
  );
  const complete = (
    parts: CompletedPart[],
    given: Partial<CompleteMultipartUploadCommandInput> = {},
  ) => {
    const MultipartUpload = { Parts: parts };
    return s3.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload, ...given }));
  };
  const bare = Parts.map(({ ETag, PartNumber }) => ({ ETag, PartNumber }));
  await t.rejects(complete(bare), { name: "InvalidRequest" });
  const wrong = Parts.map((part) => ({ ...part, ChecksumSHA1: sha1Of(body) }));
  await t.rejects(complete(wrong), { name: "InvalidPart" });
  await t.rejects(complete(Parts, { ChecksumType: "FULL_OBJECT" }), { name: "InvalidRequest" });
  await t.rejects(complete(Parts, { ChecksumSHA1: sha1Of(body) }), { name: "BadDigest" });
  const done = await complete(Parts);
  const right = rightlyTold(body, { algorithm: "sha1", type: "COMPOSITE" }, sizes);
  t.strictSame(valuesIn(done), right.head);
  t.strictSame(await toldOf(s3, of), right);
});

t.test("a copy is summed up anew, but for what is of the whole source", async (t) => {
  const s3 = await openDemo(t);
  const begun = await s3.send(
    new CreateMultipartUploadCommand({
      ...of,
      ChecksumAlgorithm: "CRC32",
      ChecksumType: "FULL_OBJECT",
    }),
  );
  const upload = { ...of, UploadId: begun.UploadId };
  const Parts: CompletedPart[] = [];
  // Parts may come without where the object's is made of its bytes.
  for (const [index, Body] of pieces.entries()) {
    const { ETag } = await s3.send(
      new UploadPartCommand({ ...upload, PartNumber: index + 1, Body }),
    );
    Parts.push({ ETag, PartNumber: index + 1 });
  }
  const MultipartUpload = { Parts };
  const done = { ...upload, MultipartUpload };
  const wrong = new CompleteMultipartUploadCommand({ ...done, ChecksumCRC32: "AAAAAA==" });
  await t.rejects(s3.send(wrong), { name: "BadDigest" });
  await s3.send(new CompleteMultipartUploadCommand(done));
  const to = { ...of, Key: "copy", CopySource: "photos/k" };
  for (const [asked, algorithm] of [
    [undefined, "crc32"],
    ["CRC64NVME", "crc64nvme"],
    ["CRC32C", "crc32c"],
  ] as const) {
    const given: { readonly ChecksumAlgorithm?: ChecksumAlgorithm } =
      asked === undefined ? {} : { ChecksumAlgorithm: asked };
    const { CopyObjectResult = {} } = await s3.send(new CopyObjectCommand({ ...to, ...given }));
    const right = rightlyTold(body, { algorithm, type: "FULL_OBJECT" }, []);
    t.strictSame(valuesIn(CopyObjectResult), right.head);
    t.strictSame(await headTold(s3, { ...of, Key: "copy" }), right.head);
  }
  const again = await s3.send(
    new CreateMultipartUploadCommand({ ...of, ChecksumAlgorithm: "SHA1" }),
  );
  const part = { ...of, UploadId: again.UploadId, PartNumber: 1, CopySource: "photos/k" };
  const { CopyPartResult = {} } = await s3.send(new UploadPartCopyCommand(part));
  t.strictSame(valuesIn(CopyPartResult).values, { sha1: sha1Of(body) });
});
