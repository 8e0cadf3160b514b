// Limits of time that an operator set tighter than S3's own.

import t from "tap";
import { readAuthorization } from "../../proxy/s3/authorization.ts";
import { encodeQuery } from "../../proxy/s3/query.ts";
import { SigningKeys } from "../../proxy/s3/sigv4.ts";
import { verifySignature } from "../../proxy/s3/verify.ts";
import { credentials, headOf, nowMs } from "../support/s3-request.ts";
import { smithyPresign, smithySign } from "../support/s3-smithy.ts";

const keys = new SigningKeys(4);
const limits = { maxSkewMs: 59_000, maxPresignSeconds: 600 };
const request = {
  method: "GET",
  path: "/b/k",
  query: {},
  headers: { host: "s3.example.com" },
  region: "us-east-1",
  credentials,
};

function outcome(head: ReturnType<typeof headOf>, tight: boolean): string {
  const authorization = readAuthorization(head);
  if (authorization.kind === "error" || authorization.kind === "anonymous") return "not signed";
  const question = { head, authorization, credentials, nowMs, regions: [], keys };
  const result = verifySignature(tight ? { ...question, limits } : question);
  return result.kind === "error" ? result.error.code : result.kind;
}

t.test("a request a minute old is too old where the clock may differ by less", async (t) => {
  const headers = await smithySign({ ...request, epochMs: nowMs - 60_000 });
  const head = headOf({ target: "/b/k", headers: headers.filter(([name]) => name !== "host") });
  t.equal(outcome(head, false), "verified");
  t.equal(outcome(head, true), "RequestTimeTooSkewed");
});

t.test("a presigned URL may not live longer than the operator allows", async (t) => {
  for (const [seconds, tight] of [
    [600, "verified"],
    [601, "AccessDenied"],
  ] as const) {
    const query = await smithyPresign({ ...request, epochMs: nowMs }, seconds);
    const head = headOf({ target: `/b/k?${encodeQuery(query)}`, headers: [] });
    t.equal(outcome(head, false), "verified");
    t.equal(outcome(head, true), tight);
  }
});
