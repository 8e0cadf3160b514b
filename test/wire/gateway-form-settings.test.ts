// Tags and lock of a form in parts on an RGW: written behind Complete, or the object is not there.

import {
  GetObjectLegalHoldCommand,
  GetObjectRetentionCommand,
  GetObjectTaggingCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import type { FaultRule } from "../../proxy/demo/faults.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { startClusters } from "../support/headgate.ts";
import {
  formBucket as bucket,
  formField as field,
  formFile as file,
  formBody,
  formConditions,
  postForm as post,
  signedFields,
  startForForms,
  storedKeys,
} from "../support/s3-forms.ts";

const until = "2099-01-01T00:00:00Z";
const conditions = [
  ...formConditions,
  ["starts-with", "$tagging", ""],
  ["starts-with", "$x-amz-object-lock-mode", ""],
  ["starts-with", "$x-amz-object-lock-retain-until-date", ""],
  ["starts-with", "$x-amz-object-lock-legal-hold", ""],
] as const;
const tagging =
  "<Tagging><TagSet><Tag><Key>a</Key><Value>b &amp; c</Value></Tag></TagSet></Tagging>";
const body = formBody([
  field("key", "k"),
  field("tagging", tagging),
  field("x-amz-object-lock-mode", "GOVERNANCE"),
  field("x-amz-object-lock-retain-until-date", until),
  field("x-amz-object-lock-legal-hold", "ON"),
  ...signedFields(conditions),
  file(Buffer.alloc(6 * 1024 * 1024)),
]);

t.test("a form in parts has its tags and its lock, or is no object", async (t) => {
  const servers = await startClusters(t, ["a"], profiles["rgw-pacific"]);
  const clusterSettings = "profile: rgw-pacific";
  const headgate = await startForForms(t, { clusters: { a: 1 }, servers, clusterSettings });
  const cluster = headgate.clusters["a"];
  const codes = { 403: "AccessDenied", 500: "InternalError" } as const;
  const fails = (part: string, status: keyof typeof codes): FaultRule => {
    return ({ method, target }) =>
      method === "PUT" && target.includes(part) ? { status, code: codes[status] } : null;
  };
  const denied: FaultRule = (request) =>
    request.method === "DELETE" && request.target.startsWith(`/${bucket}/k`)
      ? { status: 403, code: "AccessDenied" }
      : fails("tagging=", 500)(request);
  let once = true;
  const failsOnce: FaultRule = (request) => {
    const fault = once ? fails("tagging=", 500)(request) : null;
    if (fault !== null) once = false;
    return fault;
  };
  for (const [what, rule, answer, isThere] of [
    ["nothing fails", null, { status: 204 }, true],
    ["one attempt fails", failsOnce, { status: 204 }, true],
    ["tags are refused", fails("tagging=", 403), { status: 403, code: "AccessDenied" }, false],
    ["the lock is refused", fails("retention=", 403), { status: 403 }, false],
    ["the cluster fails", fails("legal-hold=", 500), { status: 503, text: /was removed/ }, false],
    ["nor can it be removed", denied, { status: 503, text: /is stored, but without/ }, true],
  ] as const) {
    cluster?.setFault(rule);
    const from = cluster?.exchanges().length ?? 0;
    t.match(await post(headgate, body), answer, what);
    cluster?.setFault(null);
    t.strictSame(storedKeys(headgate), isThere ? ["k"] : [], what);
    const sent = cluster?.exchanges().slice(from) ?? [];
    t.notOk(sent.some(({ method, target }) => method === "DELETE" && target.includes("uploadId")));
    if (answer.status !== 204) continue;
    const written = sent
      .filter(({ target }) => /[?](?:tagging|retention|legal-hold)=/.test(target))
      .filter(({ method }) => method === "PUT")
      .map(({ target }) => target.replace(/^.*[?]/, ""));
    const tries = what === "nothing fails" ? ["tagging="] : ["tagging=", "tagging="];
    t.strictSame(written, [...tries, "retention=", "legal-hold="]);
    const of = { Bucket: bucket, Key: "k" };
    const { TagSet } = await headgate.s3.send(new GetObjectTaggingCommand(of));
    t.strictSame(TagSet, [{ Key: "a", Value: "b & c" }]);
    const { Retention } = await headgate.s3.send(new GetObjectRetentionCommand(of));
    t.strictSame(Retention, { Mode: "GOVERNANCE", RetainUntilDate: new Date(until) });
    const { LegalHold } = await headgate.s3.send(new GetObjectLegalHoldCommand(of));
    t.strictSame(LegalHold, { Status: "ON" });
  }
});
