// Bodies that are aws-chunked although their hash says UNSIGNED-PAYLOAD.

import t from "tap";
import { readAuthorization } from "../../proxy/s3/authorization.ts";
import type { HeaderField } from "../../proxy/s3/headers.ts";
import { readPayload } from "../../proxy/s3/payload.ts";
import { readRequestHead } from "../../proxy/s3/request-head.ts";

function modeOf(fields: readonly HeaderField[], operation: "PutObject" | "UploadPart"): string {
  const scope = "AK/20261129/us-east-1/s3/aws4_request";
  const all: readonly HeaderField[] = [
    ["Host", "h"],
    ["x-amz-date", "20261129T120000Z"],
    ["x-amz-content-sha256", "UNSIGNED-PAYLOAD"],
    [
      "Authorization",
      `AWS4-HMAC-SHA256 Credential=${scope}, SignedHeaders=host, Signature=${"0".repeat(64)}`,
    ],
    ...fields,
  ];
  const read = readRequestHead({ method: "PUT", target: "/b/k", rawHeaders: all.flat() });
  if (read.kind === "error") return read.error.code;
  const authorization = readAuthorization(read.head);
  if (authorization.kind === "error") return authorization.error.code;
  const payload = readPayload(read.head, authorization, { operation });
  return payload.kind === "error" ? payload.error.code : `${payload.mode} ${payload.lengthBytes}`;
}

t.test("framing that the head tells of is taken off", (t) => {
  const length: HeaderField = ["Content-Length", "54"];
  const decoded: HeaderField = ["x-amz-decoded-content-length", "5"];
  const encoding: HeaderField = ["Content-Encoding", "aws-chunked,gzip"];
  const chunks: HeaderField = ["Transfer-Encoding", "chunked"];
  const framed = "streaming-unsigned-trailer 5";
  t.equal(modeOf([length, decoded, encoding], "PutObject"), framed);
  t.equal(modeOf([chunks, decoded, encoding], "UploadPart"), framed);
  t.equal(modeOf([length, decoded], "PutObject"), "unsigned 54", "a left-over length alone");
  t.equal(modeOf([length, encoding], "PutObject"), "unsigned 54", "a left-over token alone");
  const plain: HeaderField = ["x-amz-decoded-content-length", "54"];
  t.equal(modeOf([length, plain, encoding], "PutObject"), "unsigned 54", "no room for framing");
  t.end();
});
