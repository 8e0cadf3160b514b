// What a cluster's refusal of a copy's source, or of a part of it, is for the client.

import t from "tap";
import { absentSource, refusedPart, refusedSource } from "../../proxy/operations/copy-refusal.ts";
import type { UpstreamResponse } from "../../proxy/placement/ports.ts";
import { S3Error } from "../../proxy/s3/errors.ts";
import { adminClusterId } from "../support/admin-state.ts";
import { answer } from "../support/held-settings.ts";

function refusal(status: number, code: string | null): UpstreamResponse {
  const text = code === null ? "" : `<Error><Code>${code}</Code><Message></Message></Error>`;
  return answer(status, text);
}

t.test("a source that HEAD has shown and GET refuses", async (t) => {
  for (const [status, code, told] of [
    [403, "InvalidObjectState", "403 InvalidObjectState"],
    [403, "AccessDenied", "403 AccessDenied"],
    [403, "SignatureDoesNotMatch", "503 ServiceUnavailable"],
    [403, null, "403 AccessDenied"],
    [400, "InvalidRequest", "400 InvalidRequest"],
    [404, "NoSuchKey", "503 SlowDown"],
    [412, "PreconditionFailed", "503 SlowDown"],
    [416, "InvalidRange", "503 SlowDown"],
    [200, null, "503 SlowDown"],
    [503, "SlowDown", "503 ServiceUnavailable"],
  ] as const) {
    const error = await refusedSource(refusal(status, code), { headers: [], source: null });
    t.equal(`${error.status} ${error.code}`, told, `${status} ${code}`);
    t.not(error.message, "");
  }
  const conditional = { headers: [["x-amz-copy-source-if-match", "x"]] as const, source: null };
  t.equal((await refusedSource(refusal(412, null), conditional)).status, 412);
});

t.test("a source that HEAD does not show", async (t) => {
  for (const [status, told] of [
    [404, "404 NoSuchKey"],
    [403, "403 AccessDenied"],
    [405, "400 InvalidRequest"],
    [400, "400 InvalidRequest"],
    [500, "503 ServiceUnavailable"],
  ] as const) {
    const error = absentSource({ status }, { source: null });
    t.equal(`${error.status} ${error.code}`, told);
  }
});

t.test("a part that is refused", async (t) => {
  const cluster = adminClusterId("b");
  const refused = await refusedPart(refusal(403, "QuotaExceeded"), cluster);
  t.match(refused, { status: 403, cluster });
  t.match(Buffer.from(refused.body as Uint8Array).toString(), "QuotaExceeded");
  for (const given of [refusal(500, null), refusal(503, "SlowDown"), refusal(200, null)]) {
    const error = await refusedPart(given, cluster).catch((caught: unknown) => caught);
    t.ok(error instanceof S3Error && error.status === 503, `${given.status}`);
  }
  await t.rejects(refusedPart(refusal(400, "BadDigest"), cluster), { code: "ServiceUnavailable" });
});
