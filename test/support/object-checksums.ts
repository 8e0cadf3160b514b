// Objects with a checksum of one kind or another, put through an SDK, and what is told of them afterwards.
// The values are computed here, not by the code that the tests are about.

import { createHash } from "node:crypto";
import {
  type ChecksumAlgorithm,
  type ChecksumType,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  GetObjectAttributesCommand,
  HeadObjectCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { type MatrixChecksum, matrixChecksum, matrixChecksums } from "./matrix-checksums.ts";

/** As documents and SDKs name an algorithm. */
export const algorithmNames = {
  crc32: "CRC32",
  crc32c: "CRC32C",
  crc64nvme: "CRC64NVME",
  sha1: "SHA1",
  sha256: "SHA256",
} as const satisfies Record<MatrixChecksum, ChecksumAlgorithm>;

/** An object's checksum: its algorithm, its type, and the sizes of the parts that it is made of. */
export interface Summed {
  readonly algorithm: MatrixChecksum;
  readonly type: ChecksumType;
}

type Told = {
  readonly [Name in `Checksum${(typeof algorithmNames)[MatrixChecksum]}`]?: string | undefined;
} & { readonly ChecksumType?: ChecksumType | undefined };

/** A value as a field of an SDK's input. */
function valueField(algorithm: MatrixChecksum, value: string): Readonly<Record<string, string>> {
  return { [`Checksum${algorithmNames[algorithm]}`]: value };
}

/** What is told of an object or a part, all algorithms. */
export function valuesIn(told: Told) {
  const values = matrixChecksums.flatMap((algorithm) => {
    const value = told[`Checksum${algorithmNames[algorithm]}`];
    return value === undefined ? [] : [[algorithm, value] as const];
  });
  return { values: Object.fromEntries(values), type: told.ChecksumType };
}

/** Values that were computed already, which takes long; by algorithm and SHA-1. */
const known = new Map<string, string>();

/** The value of bytes. */
export function summed(algorithm: MatrixChecksum, bytes: Buffer): string {
  const name = `${algorithm} ${createHash("sha1").update(bytes).digest("hex")}`;
  const value = known.get(name) ?? matrixChecksum(algorithm, bytes);
  known.set(name, value);
  return value;
}

export function piecesOf(body: Buffer, sizes: readonly number[]): readonly Buffer[] {
  let at = 0;
  return sizes.map((size) => {
    at += size;
    return body.subarray(at - size, at);
  });
}

/** The value that an object must have; `sizes` of its parts, none for one put whole. */
export function valueOf(
  body: Buffer,
  { algorithm, type }: Summed,
  sizes: readonly number[],
): string {
  if (type === "FULL_OBJECT") return summed(algorithm, body);
  const parts = piecesOf(body, sizes).map((piece) =>
    Buffer.from(summed(algorithm, piece), "base64"),
  );
  return `${summed(algorithm, Buffer.concat(parts))}-${sizes.length}`;
}

interface To {
  readonly Bucket: string;
  readonly Key: string;
}

/** Puts an object, encoded as `gzip`, in parts of those sizes, or whole for none. */
export async function putSummed(
  s3: S3Client,
  to: To & {
    readonly body: Buffer;
    readonly sizes: readonly number[];
    readonly sum: Summed | null;
  },
): Promise<void> {
  const { body, sizes, sum, ...of } = to;
  const described = { ...of, ContentEncoding: "gzip" };
  const field = (piece: Buffer) =>
    sum === null ? {} : valueField(sum.algorithm, summed(sum.algorithm, piece));
  if (sizes.length === 0) {
    await s3.send(new PutObjectCommand({ ...described, Body: body, ...field(body) }));
    return;
  }
  const begun =
    sum === null
      ? {}
      : { ChecksumAlgorithm: algorithmNames[sum.algorithm], ChecksumType: sum.type };
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ ...described, ...begun }));
  const Parts: CompletedPart[] = [];
  for (const Body of piecesOf(body, sizes)) {
    const PartNumber = Parts.length + 1;
    const upload = { ...of, UploadId, PartNumber, Body, ...field(Body) };
    const { ETag } = await s3.send(new UploadPartCommand(upload));
    Parts.push({ PartNumber, ETag, ...field(Body) });
  }
  const MultipartUpload = { Parts };
  await s3.send(new CompleteMultipartUploadCommand({ ...of, UploadId, MultipartUpload }));
}

/** What HEAD says of an object's checksum. */
export async function headTold(s3: S3Client, of: To) {
  return valuesIn(await s3.send(new HeadObjectCommand({ ...of, ChecksumMode: "ENABLED" })));
}

/** What HEAD and GetObjectAttributes say of it. */
export async function toldOf(s3: S3Client, of: To) {
  const { Checksum = {}, ObjectParts = {} } = await s3.send(
    new GetObjectAttributesCommand({ ...of, ObjectAttributes: ["Checksum", "ObjectParts"] }),
  );
  return {
    head: await headTold(s3, of),
    attributes: valuesIn(Checksum),
    parts: (ObjectParts.Parts ?? []).map((part) => valuesIn(part).values),
  };
}

/** What `toldOf` must give of an object with that checksum. */
export function rightlyTold(body: Buffer, sum: Summed, sizes: readonly number[]) {
  const { algorithm, type } = sum;
  const value = valueOf(body, sum, sizes);
  return {
    head: { values: { [algorithm]: value }, type },
    attributes: { values: { [algorithm]: value.replace(/-\d+$/, "") }, type },
    parts: piecesOf(body, sizes).map((piece) => ({
      [algorithm]: summed(algorithm, piece),
    })),
  };
}
