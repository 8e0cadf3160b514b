// Checksums that clients send with their uploads, and the AWS SDK with the settings that it has by
// default: it sends checksums with everything, and streams in aws-chunked framing.

import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { encodeQuery } from "../../proxy/s3/query.ts";
import { clientKeys, startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { type RawAnswer, rawExchange, rawHead } from "../support/raw-http.ts";
import { openScene } from "../support/rgw-scene.ts";
import { type ChunkFrame, chunkFrame, frameBytes, spoiled } from "../support/s3-chunked.ts";
import { smithyPresign } from "../support/s3-smithy.ts";
import { bucket, crc32Of, sha256 } from "../support/s3-uploads.ts";

const sizes = [0, 1, 8191, 8192, 65_536, 200_000];

async function open(t: Test): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(t);
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  return headgate;
}

function stored(
  headgate: TestHeadgate,
): readonly { readonly key: string; readonly body: string }[] {
  return Object.values(headgate.clusters).flatMap((cluster) =>
    cluster.objects(bucket).map(({ key, bytes }) => ({ key, body: sha256(bytes) })),
  );
}

t.test("a checksum in the head of a plain body is verified", async (t) => {
  const headgate = await open(t);
  for (const size of sizes) {
    const data = Buffer.alloc(size, 3);
    for (const payloadHash of ["UNSIGNED-PAYLOAD", sha256(data)]) {
      const put = async (checksum: string): Promise<RawAnswer> =>
        await rawExchange(
          headgate.url,
          rawHead(headgate.url, {
            method: "PUT",
            path: `/${bucket}/k`,
            payloadHash,
            headers: [["x-amz-checksum-crc32", checksum]],
            contentLength: size,
          }),
          data,
        );
      const wrong = await put("AAAAAQ==");
      t.equal(wrong.status, 400);
      t.match(wrong.text, "<Code>BadDigest</Code>");
      t.strictSame(stored(headgate), []);
      t.equal((await put(crc32Of(data))).status, 200);
      t.strictSame(stored(headgate), [{ key: "k", body: sha256(data) }]);
      await headgate.s3.send(new DeleteObjectCommand({ Bucket: bucket, Key: "k" }));
    }
  }
});

t.test("Content-MD5 is verified over a cluster that does not look at it", async (t) => {
  const { rgw, headgate } = await openScene(t, "s3-generic");
  const md5 = (bytes: Uint8Array): string => createHash("md5").update(bytes).digest("base64");
  for (const size of [0, 5, 65_536, 200_000]) {
    const data = Buffer.alloc(size, 3);
    const trailer = ["x-amz-checksum-crc32", crc32Of(data)] as const;
    const framed = frameBytes(chunkFrame(data, { chunkBytes: 65_536, trailer }));
    const rows: readonly (readonly [string, number, string | null])[] = [
      [md5(data), 200, null],
      [md5(Buffer.from("another")), 400, "BadDigest"],
      ["", 400, "InvalidDigest"],
      ["c2hvcnQ=", 400, "InvalidDigest"],
      [md5(data).slice(0, 22), 400, "InvalidDigest"],
    ];
    for (const [sent, status, code] of rows) {
      for (const isFramed of [false, true]) {
        const body = isFramed ? framed : data;
        const framing = [
          ["content-encoding", "aws-chunked"],
          ["x-amz-decoded-content-length", String(size)],
          ["x-amz-trailer", "x-amz-checksum-crc32"],
        ] as const;
        const head = rawHead(headgate.url, {
          method: "PUT",
          path: "/rep/md5",
          payloadHash: isFramed ? "STREAMING-UNSIGNED-PAYLOAD-TRAILER" : "UNSIGNED-PAYLOAD",
          headers: [["content-md5", sent], ...(isFramed ? framing : [])],
          contentLength: body.length,
        });
        rgw.objects.clear();
        const answer = await rawExchange(headgate.url, head, body);
        const name = `${size} bytes, ${sent}${isFramed ? ", framed" : ""}`;
        t.equal(answer.status, status, name);
        if (code !== null) t.match(answer.text, `<Code>${code}</Code>`, name);
        const kept = rgw.objects.get("/rep/md5")?.body;
        t.strictSame(kept === undefined ? null : sha256(kept), code === null ? sha256(data) : null);
      }
    }
  }
});

t.test("chunks may be chained to the signature of a presigned URL", async (t) => {
  const headgate = await open(t);
  const { host } = new URL(headgate.url);
  const data = Buffer.alloc(100_000, 4);
  const headers = {
    host,
    "x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
    "x-amz-decoded-content-length": String(data.length),
  };
  const path = `/${bucket}/k`;
  const query = await smithyPresign(
    {
      method: "PUT",
      path,
      query: {},
      headers,
      epochMs: Date.now(),
      region: "us-east-1",
      credentials: { ...clientKeys, sessionToken: null },
    },
    60,
  );
  const parameter = (name: string): string => query.find(([given]) => given === name)?.[1] ?? "";
  const amzDate = parameter("X-Amz-Date");
  const seed = {
    secretAccessKey: clientKeys.secretAccessKey,
    amzDate,
    scope: `${amzDate.slice(0, 8)}/us-east-1/s3/aws4_request`,
    seed: parameter("X-Amz-Signature"),
  };
  const put = async (frame: ChunkFrame): Promise<number> => {
    const body = frameBytes(frame);
    const fields = Object.entries({ ...headers, "content-length": body.length });
    const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const head = `PUT ${path}?${encodeQuery(query)} HTTP/1.1\r\n${lines}\r\n`;
    return (await rawExchange(headgate.url, head, body)).status;
  };
  const frame = chunkFrame(data, { chunkBytes: 65_536, seed });
  t.equal(await put({ ...frame, last: spoiled(frame.last) }), 403);
  t.strictSame(stored(headgate), []);
  t.equal(await put(frame), 200);
  t.strictSame(stored(headgate), [{ key: "k", body: sha256(data) }]);
});

t.test("the AWS SDK works with its default settings", async (t) => {
  const headgate = await open(t);
  const s3 = headgate.client({
    requestChecksumCalculation: "WHEN_SUPPORTED",
    responseChecksumValidation: "WHEN_SUPPORTED",
  });
  const payloads = payloadsSent(s3);
  for (const size of [...sizes, 3_000_000]) {
    const data = Buffer.alloc(size, 5);
    const algorithms = [undefined, "CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"] as const;
    for (const algorithm of algorithms) {
      for (const form of ["buffer", "stream"] as const) {
        const Key = `${form}-${algorithm}-${size}`;
        const named = algorithm === undefined ? {} : { ChecksumAlgorithm: algorithm };
        const Body = form === "buffer" ? data : Readable.from(pieces(data), { objectMode: false });
        const input = {
          Bucket: bucket,
          Key,
          Body,
          ContentLength: size,
          ContentEncoding: "gzip",
          ...named,
        };
        await s3.send(new PutObjectCommand(input));
        const got = await s3.send(new GetObjectCommand({ Bucket: bucket, Key }));
        t.equal(got.ContentEncoding, "gzip");
        t.equal(
          sha256((await got.Body?.transformToByteArray()) ?? Buffer.from("absent")),
          sha256(data),
          Key,
        );
      }
    }
  }
  t.ok(payloads.has("STREAMING-UNSIGNED-PAYLOAD-TRAILER"), [...payloads].join());
  const Key = "parts";
  const part = Buffer.alloc(300_000, 9);
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key }));
  const Parts = [];
  for (const PartNumber of [1, 2]) {
    const Body = PartNumber === 1 ? part : Readable.from(pieces(part), { objectMode: false });
    const input = { Bucket: bucket, Key, UploadId, PartNumber, Body, ContentLength: part.length };
    const { ETag } = await s3.send(new UploadPartCommand(input));
    Parts.push({ PartNumber, ETag });
  }
  const complete = { Bucket: bucket, Key, UploadId, MultipartUpload: { Parts } };
  await s3.send(new CompleteMultipartUploadCommand(complete));
  const got = await s3.send(new GetObjectCommand({ Bucket: bucket, Key }));
  t.equal(
    sha256((await got.Body?.transformToByteArray()) ?? Buffer.alloc(0)),
    sha256(Buffer.concat([part, part])),
  );
});

/** Collects every x-amz-content-sha256 that a client sends. */
function payloadsSent(s3: S3Client): ReadonlySet<string> {
  const seen = new Set<string>();
  s3.middlewareStack.add(
    (next) => async (args) => {
      const request: unknown = args.request;
      if (typeof request === "object" && request !== null && "headers" in request) {
        const headers = new Headers(Object.entries(request.headers ?? {}));
        seen.add(headers.get("x-amz-content-sha256") ?? "");
      }
      return await next(args);
    },
    { step: "finalizeRequest", priority: "low" },
  );
  return seen;
}

/** Uneven pieces, as a file or a pipe gives them. */
function* pieces(data: Buffer): Generator<Buffer> {
  for (let at = 0; at < data.length; at += 10_007) yield data.subarray(at, at + 10_007);
}
