// What a real server holds of the buckets of the matrix of uploads: its own list, asked past Headgate.

import {
  GetObjectCommand,
  type GetObjectCommandOutput,
  ListObjectsV2Command,
  type S3Client,
} from "@aws-sdk/client-s3";
import type { MatrixOver } from "../../support/upload-matrix-run.ts";

/** Lists of one page: a lane takes a new bucket long before it is full. */
export function objectsOf(direct: S3Client): MatrixOver["objects"] {
  return async (bucket, wanted) => {
    const list = await direct.send(new ListObjectsV2Command({ Bucket: bucket }));
    const objects = list.Contents ?? [];
    const held = { count: objects.length };
    if (!objects.some(({ Key }) => Key === wanted)) return { ...held, found: null };
    const answer = await direct.send(
      new GetObjectCommand({ Bucket: bucket, Key: wanted, ChecksumMode: "ENABLED" }),
    );
    const bytes = (await answer.Body?.transformToByteArray()) ?? new Uint8Array();
    return { ...held, found: { bytes, fields: fieldsOf(answer) } };
  };
}

function fieldsOf(answer: GetObjectCommandOutput): ReadonlyMap<string, string> {
  const fields = [
    ["content-encoding", answer.ContentEncoding],
    ["content-type", answer.ContentType],
    ["x-amz-meta-row", answer.Metadata?.["row"]],
    ["x-amz-checksum-crc32", answer.ChecksumCRC32],
  ] as const;
  return new Map(
    fields.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
  );
}
