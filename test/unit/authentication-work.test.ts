// An unknown key and a wrong signature do the same work, whatever was used before: counted in HMAC
// operations, since a clock would tell of the machine. What they say differs in nothing but the code.

import crypto from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import t, { type Test } from "tap";
import { type AuthenticationSettings, authenticate } from "../../proxy/gateway/authenticate.ts";
import {
  authenticateForm,
  type FormQuestion,
  readFormClaim,
} from "../../proxy/gateway/authenticate-form.ts";
import { ExplanationBudget } from "../../proxy/gateway/explanation-budget.ts";
import type { Credential } from "../../proxy/policy/credential.ts";
import { AuthorizationCache } from "../../proxy/s3/authorization.ts";
import { noTenant, parseAccessKeyId } from "../../proxy/s3/names.ts";
import type { RequestHead } from "../../proxy/s3/request-head.ts";
import { readRequestHead } from "../../proxy/s3/request-head.ts";
import { SigningKeys } from "../../proxy/s3/sigv4.ts";
import { rawHead } from "../support/raw-http.ts";

const nowMs = Date.UTC(2026, 10, 30, 12);

/** HMAC operations while `run` goes on: every one of the process, ours are all in proxy/s3. */
async function hmacsOf<T>(run: () => T | Promise<T>): Promise<{ count: number; result: T }> {
  const original = crypto.createHmac;
  let count = 0;
  crypto.createHmac = (...given: Parameters<typeof original>) => {
    count += 1;
    return original(...given);
  };
  syncBuiltinESMExports();
  try {
    return { result: await run(), count };
  } finally {
    crypto.createHmac = original;
    syncBuiltinESMExports();
  }
}

function credential(name: string): Credential {
  const accessKeyId = parseAccessKeyId(name);
  if (accessKeyId === null) throw new Error(name);
  const who = { account: name, displayName: null, tenant: noTenant, groups: [], grants: [] };
  return {
    accessKeyId,
    secretAccessKey: `secret of ${name}`,
    principal: { ...who, accessKey: name, scheme: "header" },
    status: "active",
    clusters: new Map(),
  };
}

function settings(explanations: number): AuthenticationSettings {
  const known = [credential("used"), credential("unused")];
  return {
    credentials: { find: (id) => known.find(({ accessKeyId }) => accessKeyId === id) ?? null },
    keys: new SigningKeys(100),
    cache: new AuthorizationCache(),
    limits: { maxSkewMs: 900_000, maxPresignSeconds: 604_800 },
    regions: [],
    explanations: new ExplanationBudget(explanations),
    baseDomains: [],
    sigv2: true,
    requireContentSha256: true,
  };
}

function headOf(text: string): RequestHead {
  const [first = "", ...lines] = text.split("\r\n").filter((line) => line !== "");
  const [method = "", target = ""] = first.split(" ");
  const rawHeaders = lines.flatMap((line) => {
    const at = line.indexOf(": ");
    return [line.slice(0, at), line.slice(at + 2)];
  });
  const read = readRequestHead({ method, target, rawHeaders });
  if (read.kind === "error") throw read.error;
  return read.head;
}

function signed(name: string, secret: string, path = "/b/a%20key"): RequestHead {
  const keys = { accessKeyId: name, secretAccessKey: secret };
  return headOf(rawHead("http://h", { method: "GET", path, query: "x=1", keys, atMs: nowMs }));
}

function v2(name: string): RequestHead {
  const date = new Date(nowMs).toUTCString();
  return headOf(
    `GET /b/k HTTP/1.1\r\nhost: h:1\r\ndate: ${date}\r\nauthorization: AWS ${name}:${"A".repeat(27)}=\r\n`,
  );
}

const who = [
  ["used", "a known key that was used"],
  ["unused", "a known key that never was"],
  ["nobody-1", "an unknown key"],
  ["nobody-2", "another one"],
] as const;

t.test("signature version 4: the same number of HMACs, first time and again", async (t) => {
  for (const explanations of [0, 1_000]) {
    const given = settings(explanations);
    const rightly = signed("used", "secret of used");
    const right = await hmacsOf(() => authenticate(rightly, nowMs, given));
    t.equal(right.result.kind, "caller");
    t.equal(right.count, 5, "a key of four steps, and the signature");
    const again = await hmacsOf(() => authenticate(rightly, nowMs, given));
    t.equal(again.count, 1, "the key is remembered");
    const counts = new Set<number>();
    for (let round = 0; round < 3; round += 1) {
      for (const [name, what] of who) {
        const wrongly = signed(name, "wrong");
        const { count, result } = await hmacsOf(() => authenticate(wrongly, nowMs, given));
        t.equal(result.kind, "failed", what);
        counts.add(count);
      }
    }
    t.equal(counts.size, 1, `${[...counts].join(", ")} with ${explanations} explanations`);
    t.ok(
      [...counts].every((count) => count > 5),
      "more spellings than one were tried",
    );
    const last = await hmacsOf(() => authenticate(rightly, nowMs, given));
    t.equal(last.count, 1, "refusals push no key out");
  }
});

t.test("signature version 2 and forms: the same number of HMACs", async (t) => {
  for (const explanations of [0, 1_000]) {
    const given = settings(explanations);
    const counts = new Set<number>();
    for (const [name] of [...who, ...who]) {
      const { count, result } = await hmacsOf(() => authenticate(v2(name), nowMs, given));
      t.equal(result.kind, "failed");
      counts.add(count);
    }
    t.equal(counts.size, 1, `${[...counts].join(", ")} with ${explanations} explanations`);
    t.ok([...counts].every((count) => count > (explanations === 0 ? 0 : 5)));
  }
  await formCounts(t, settings(0));
});

/** A form that was signed at noon, with a signature that nobody made. */
function formOf(name: string, nowAtMs: number): FormQuestion {
  const fields = new Map(
    Object.entries({
      policy: Buffer.from("{}").toString("base64"),
      "x-amz-algorithm": "AWS4-HMAC-SHA256",
      "x-amz-credential": `${name}/20261130/us-east-1/s3/aws4_request`,
      "x-amz-date": "20261130T120000Z",
      "x-amz-signature": "0".repeat(64),
    }).map(([key, value]) => [key, { name: key, value }] as const),
  );
  const head = headOf("POST /b HTTP/1.1\r\nhost: h:1\r\n");
  return { head, fields, nowMs: nowAtMs };
}

async function formCounts(t: Test, given: AuthenticationSettings): Promise<void> {
  const counts = new Set<number>();
  const codes = new Map<string, string>();
  for (const [name] of [...who, ...who]) {
    const claim = readFormClaim(formOf(name, nowMs), given);
    if (claim.kind === "failed") throw claim.error;
    const { count, result } = await hmacsOf(() => authenticateForm(claim, given));
    counts.add(count);
    codes.set(name, result.kind === "failed" ? result.error.code : "none");
  }
  t.equal(counts.size, 1, [...counts].join(", "));
  t.strictSame(Object.fromEntries(codes), {
    used: "SignatureDoesNotMatch",
    unused: "SignatureDoesNotMatch",
    "nobody-1": "InvalidAccessKeyId",
    "nobody-2": "InvalidAccessKeyId",
  });
}

t.test("no key is looked up for what none would make right", async (t) => {
  const asked: string[] = [];
  const find = (id: string): null => {
    asked.push(id);
    return null;
  };
  const given = { ...settings(0), regions: ["us-east-1"], credentials: { find } };
  const lateMs = nowMs + 3_600_000;
  const elsewhere = { ...given, regions: ["eu-west-1"] };
  const head = signed("used", "secret of used");
  const bare = { ...head, headers: [...head.headers, ["x-amz-acl", "private"] as const] };
  for (const [what, run] of [
    ["RequestTimeTooSkewed", () => authenticate(head, lateMs, given)],
    ["AuthorizationHeaderMalformed", () => authenticate(head, nowMs, elsewhere)],
    ["AccessDenied", () => authenticate(bare, nowMs, given)],
    ["RequestTimeTooSkewed", () => authenticate(v2("used"), lateMs, given)],
  ] as const) {
    const result = await run();
    t.equal(result.kind === "failed" && result.error.code, what);
  }
  for (const [what, at, laws] of [
    ["InvalidArgument", nowMs, elsewhere],
    ["AccessDenied", nowMs - 3_600_000, given],
    ["AccessDenied", nowMs + 8 * 86_400_000, given],
  ] as const) {
    const claim = readFormClaim(formOf("used", at), laws);
    t.equal(claim.kind === "failed" && claim.error.code, what, `form: ${what}`);
  }
  t.strictSame(asked, []);
  await authenticate(head, nowMs, given);
  t.strictSame(asked, ["used"], "any other is");
});

t.test("a suspended key and an unknown one cannot be told apart", async (t) => {
  const given = settings(0);
  const answers = await Promise.all(
    ["nobody-1", "nobody-2"].map(async (name) => {
      const result = await authenticate(signed(name, "wrong"), nowMs, given);
      return result.kind === "failed"
        ? [result.error.code, result.error.message, result.error.details]
        : [];
    }),
  );
  t.strictSame(answers[0], ["InvalidAccessKeyId", "The access key id is not known", {}]);
  t.strictSame(answers[0], answers[1]);
});
