// Tags and lock of a form in parts on an RGW: refused before its first byte, or written behind Complete. An
// object that stood at the key outlives every refusal.

import {
  DeleteObjectCommand,
  GetObjectLegalHoldCommand,
  GetObjectRetentionCommand,
  GetObjectTaggingCommand,
  PutObjectCommand,
  PutObjectLockConfigurationCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { FaultRule } from "../../proxy/demo/faults.ts";
import { system } from "../../proxy/main.ts";
import type { Timers } from "../../proxy/placement/ports.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { startClusters } from "../support/headgate.ts";
import { until } from "../support/raw-http.ts";
import {
  formBucket as bucket,
  type FormPart,
  formField as field,
  formFile as file,
  formBody,
  formConditions,
  postForm as post,
  signedFields,
  startForForms,
} from "../support/s3-forms.ts";

const date = "2099-01-01T00:00:00Z";
const conditions = [
  ...formConditions,
  ["starts-with", "$tagging", ""],
  ["starts-with", "$x-amz-object-lock-mode", ""],
  ["starts-with", "$x-amz-object-lock-retain-until-date", ""],
  ["starts-with", "$x-amz-object-lock-legal-hold", ""],
] as const;
const long = file(Buffer.alloc(6 * 1024 * 1024));
const formOf = (fields: readonly FormPart[]): Buffer =>
  formBody([field("key", "k"), ...fields, ...signedFields(conditions), long]);

const tagged = (...tags: readonly (readonly [name: string, value: string])[]): FormPart => {
  const rows = tags.map(([name, value]) => `<Tag><Key>${name}</Key><Value>${value}</Value></Tag>`);
  return field("tagging", `<Tagging><TagSet>${rows.join("")}</TagSet></Tagging>`);
};
const retained = (mode: string | null, until: string | null): readonly FormPart[] => [
  ...(mode === null ? [] : [field("x-amz-object-lock-mode", mode)]),
  ...(until === null ? [] : [field("x-amz-object-lock-retain-until-date", until)]),
];
const held = (status: string): FormPart => field("x-amz-object-lock-legal-hold", status);
const body = formOf([tagged(["a", "b &amp; c"]), ...retained("GOVERNANCE", date), held("ON")]);

const codes = { 403: "AccessDenied", 500: "InternalError" } as const;
const fails = (part: string, status: keyof typeof codes): FaultRule => {
  return ({ method, target }) =>
    method === "PUT" && target.includes(part) ? { status, code: codes[status] } : null;
};

async function scene(t: Test, { withLock }: { readonly withLock: boolean }) {
  const servers = await startClusters(t, ["a"], profiles["rgw-pacific"]);
  // Attempts and errands come soon.
  const soon = new Set([100, 1_000, 2_000, 4_000]);
  const timers: Timers = {
    after: (ms, run) => system.timers.after(soon.has(Math.ceil(ms)) ? 20 : ms, run),
  };
  const headgate = await startForForms(t, {
    clusters: { a: 1 },
    servers,
    timers,
    clusterSettings: "profile: rgw-pacific",
  });
  const ObjectLockConfiguration = { ObjectLockEnabled: "Enabled" } as const;
  const lock = { Bucket: bucket, ObjectLockConfiguration };
  if (withLock) await headgate.s3.send(new PutObjectLockConfigurationCommand(lock));
  const [cluster] = Object.values(servers);
  if (cluster === undefined) throw new Error("No cluster");
  const putOld = () =>
    headgate.s3.send(new PutObjectCommand({ Bucket: bucket, Key: "k", Body: "precious" }));
  const stored = () =>
    cluster
      .objects(bucket)
      .map(({ key, bytes }) => [key, bytes.length > 8 ? "new" : bytes.toString()]);
  return { headgate, cluster, putOld, stored };
}

t.test("what can be refused is refused before the first byte", async (t) => {
  const { headgate, cluster, putOld, stored } = await scene(t, { withLock: true });
  await putOld();
  const from = cluster.exchanges().length;
  const names = (count: number) => Array.from({ length: count }, (_, n) => [`a${n}`, ""] as const);
  for (const [what, fields, code] of [
    ["11 tags", [tagged(...names(11))], "BadRequest"],
    ["a long name", [tagged(["a".repeat(129), ""])], "InvalidTag"],
    ["a mode alone", retained("GOVERNANCE", null), "InvalidArgument"],
    ["a date that has passed", retained("COMPLIANCE", "2001-01-01"), "InvalidArgument"],
    ["an unknown hold", [held("on")], "InvalidArgument"],
  ] as const) {
    t.match(await post(headgate, formOf(fields)), { status: 400, code }, what);
  }
  const rule: FaultRule = ({ target }) => (target.includes("object-lock") ? { status: 500 } : null);
  cluster.setFault(rule);
  t.equal((await post(headgate, formOf([held("ON")]))).status, 503, "the lock is not told");
  cluster.setFault(null);
  const sent = cluster.exchanges().slice(from);
  t.notOk(sent.some(({ method }) => method !== "GET" && method !== "HEAD"));
  t.strictSame(stored(), [["k", "precious"]]);
  const most = tagged(...names(9), ["a".repeat(128), "b".repeat(256)]);
  const right = [most, ...retained("COMPLIANCE", "2099-01-01"), held("OFF")];
  t.equal((await post(headgate, formOf(right))).status, 204);
});

t.test("a lock is refused where the bucket has none", async (t) => {
  const { headgate, cluster, putOld, stored } = await scene(t, { withLock: false });
  await putOld();
  for (const fields of [retained("GOVERNANCE", date), [held("OFF")]]) {
    const answer = await post(headgate, formOf(fields));
    t.match(answer, { status: 400, code: "InvalidRequest" });
  }
  t.strictSame(stored(), [["k", "precious"]]);
  // Who may not ask for it may still be one who may lock an object.
  cluster.setFault(({ target }) =>
    target.includes("object-lock") ? { status: 403, code: "AccessDenied" } : null,
  );
  t.equal((await post(headgate, formOf([held("ON")]))).status, 204);
});

t.test("a form in parts has its tags and its lock, or is no object", async (t) => {
  const { headgate, cluster, stored } = await scene(t, { withLock: true });
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
  ] as const) {
    await headgate.s3.send(new DeleteObjectCommand({ Bucket: bucket, Key: "k" }));
    cluster.setFault(rule);
    const from = cluster.exchanges().length;
    t.match(await post(headgate, body), answer, what);
    cluster.setFault(null);
    t.strictSame(stored(), isThere ? [["k", "new"]] : [], what);
    const sent = cluster.exchanges().slice(from);
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
    t.strictSame(Retention, { Mode: "GOVERNANCE", RetainUntilDate: new Date(date) });
    const { LegalHold } = await headgate.s3.send(new GetObjectLegalHoldCommand(of));
    t.strictSame(LegalHold, { Status: "ON" });
  }
});

t.test("an object that took the place of another one stays, and has them later", async (t) => {
  const { headgate, cluster, putOld, stored } = await scene(t, { withLock: true });
  const removal: FaultRule = ({ method }) =>
    method === "DELETE" ? { status: 403, code: "AccessDenied" } : null;
  const unremovable: FaultRule = (request) => removal(request) ?? fails("tagging=", 500)(request);
  const ended = () =>
    headgate.logLines.filter(({ fields }) => fields["errand"] === "form-settings");
  for (const [what, old, rule] of [
    ["the cluster fails", true, fails("tagging=", 500)],
    ["a setting is refused", true, fails("retention=", 403)],
    ["it cannot be removed", false, unremovable],
  ] as const) {
    await headgate.s3.send(new DeleteObjectCommand({ Bucket: bucket, Key: "k" }));
    if (old) await putOld();
    cluster.setFault(rule);
    const from = ended().length;
    const text = /is stored, but without/;
    t.match(await post(headgate, body), { status: 503, text }, what);
    cluster.setFault(null);
    t.strictSame(stored(), [["k", "new"]], what);
    await until(() => ended().some(({ event }, at) => at >= from && event === "unfinished.done"));
    const of = { Bucket: bucket, Key: "k" };
    const { TagSet } = await headgate.s3.send(new GetObjectTaggingCommand(of));
    t.strictSame(TagSet, [{ Key: "a", Value: "b & c" }], what);
    const { LegalHold } = await headgate.s3.send(new GetObjectLegalHoldCommand(of));
    t.strictSame(LegalHold, { Status: "ON" }, what);
  }
});

t.test("what was put in its place meanwhile is left alone", async (t) => {
  const { headgate, cluster, putOld, stored } = await scene(t, { withLock: true });
  await putOld();
  cluster.setFault(fails("tagging=", 500));
  t.equal((await post(headgate, body)).status, 503);
  await putOld();
  cluster.setFault(null);
  await until(() => headgate.logLines.some(({ event }) => event === "unfinished.void"));
  t.strictSame(stored(), [["k", "precious"]]);
  const of = { Bucket: bucket, Key: "k" };
  const { TagSet } = await headgate.s3.send(new GetObjectTaggingCommand(of));
  t.strictSame(TagSet, []);
});
