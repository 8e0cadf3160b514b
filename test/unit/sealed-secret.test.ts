// Secrets in the state store: what a seal hides, and what it binds.

import { randomBytes } from "node:crypto";
import t from "tap";
import { rotateCredential } from "../../proxy/admin/credentials.ts";
import { SealedCredentials } from "../../proxy/gateway/sealed-credentials.ts";
import type { CredentialRecord } from "../../proxy/placement/records.ts";
import {
  nonceBytes,
  openSecret,
  type SealKeys,
  sealSecret,
} from "../../proxy/placement/sealed-secret.ts";
import { parseTenantName } from "../../proxy/s3/names.ts";
import { AdminMemory, adminSnapshot, fixedClock } from "../support/admin-state.ts";
import { accessKeyId, credentialRecord } from "../support/bridge-records.ts";

const key = () => randomBytes(32);
const [newest, older, foreign] = [key(), key(), key()];
const secret = "a secret of forty characters, or so ....";

function sealed(keys: SealKeys, more: Partial<CredentialRecord> = {}): CredentialRecord {
  const bound = credentialRecord("AK", {
    displayName: "Alice",
    groups: ["g"],
    grants: [{ buckets: ["b"], keys: ["*"], allow: ["read"] }],
    ...more,
  });
  return { ...bound, sealed: sealSecret(secret, bound, { keys, nonce: randomBytes(nonceBytes) }) };
}

t.test("a seal opens with any of the keys and with no other", async (t) => {
  const record = sealed([older]);
  t.equal(openSecret(record, [older]), secret);
  t.equal(openSecret(record, [newest, older]), secret, "after a new key was put first");
  t.equal(openSecret(record, [foreign]), null);
  t.notMatch(JSON.stringify(record), secret);
  t.not(sealed([older]).sealed, record.sealed, "never the same twice");
});

t.test("everything of a credential is bound to its seal", async (t) => {
  const record = sealed([newest]);
  const edits: Partial<CredentialRecord>[] = [
    { accessKeyId: accessKeyId("AK2") },
    { uid: "root" },
    { displayName: null },
    { tenant: parseTenantName("acme") ?? record.tenant },
    { groups: [] },
    { grants: [] },
    { grants: [{ buckets: ["*"], keys: ["*"], allow: ["read"] }] },
    { status: "suspended" },
  ];
  for (const edit of edits) {
    t.equal(openSecret({ ...record, ...edit }, [newest]), null, JSON.stringify(edit));
  }
  const bytes = Buffer.from(record.sealed, "base64url");
  for (const at of [0, nonceBytes, bytes.length - 1]) {
    const bent = Buffer.from(bytes);
    bent[at] = (bent[at] ?? 0) ^ 1;
    t.equal(openSecret({ ...record, sealed: bent.toString("base64url") }, [newest]), null);
  }
  for (const text of ["", "AAAA", record.sealed.slice(0, -4)]) {
    t.equal(openSecret({ ...record, sealed: text }, [newest]), null, `"${text}"`);
  }
});

t.test("a key of the state store is found, one that does not open is 503", async (t) => {
  const events: string[] = [];
  const records = [
    sealed([newest]),
    sealed([foreign], { accessKeyId: accessKeyId("ELSEWHERE") }),
    sealed([newest], { accessKeyId: accessKeyId("OFF"), status: "suspended", grants: [] }),
  ];
  const snapshot = {
    ...adminSnapshot({}),
    credentials: new Map(
      records.map((value) => [value.accessKeyId, { value, modRevision: 1n }] as const),
    ),
  };
  const everything = [{ buckets: ["*"], keys: ["*"], allow: ["read"] }];
  const source = new SealedCredentials({
    snapshots: { current: () => snapshot },
    keys: [newest],
    impliedGrants: everything,
    log: { write: (_level, event) => events.push(event) },
  });
  const found = source.find(accessKeyId("AK"));
  t.match(found, {
    secretAccessKey: secret,
    status: "active",
    principal: { account: "alice", displayName: "Alice", groups: ["g"] },
  });
  t.strictSame(found?.principal.grants, records[0]?.grants);
  t.equal(source.find(accessKeyId("AK")), found, "opened once");
  t.match(source.find(accessKeyId("OFF")), {
    status: "suspended",
    principal: { grants: everything },
  });
  t.equal(source.find(accessKeyId("NONE")), null);
  for (let round = 0; round < 2; round += 1) {
    t.throws(() => source.find(accessKeyId("ELSEWHERE")), { code: "ServiceUnavailable" });
  }
  t.strictSame(events, ["credentials.seal_not_opened"], "said once");
});

t.test("a record that was changed without the seal key is not sealed anew", async (t) => {
  const granted = sealed([newest]);
  const widened = { ...granted, grants: [{ buckets: ["*"], keys: ["*"], allow: ["admin"] }] };
  const memory = new AdminMemory({});
  const answer = async (record: CredentialRecord) => {
    const credentials = new Map([[record.accessKeyId, { value: record, modRevision: 1n }]]);
    const snapshot = { ...adminSnapshot({}), credentials };
    const request = {
      method: "POST",
      path: "/admin/v1/credentials/AK/rotate",
      params: new Map([["key", "AK"]]),
      query: new URLSearchParams(),
      body: {},
      requestId: "r",
      actor: { kind: "system", name: "test", remoteAddress: null },
      ifMatch: null,
      dryRun: true,
      signal: new AbortController().signal,
    } as const;
    return await rotateCredential(request, {
      registry: memory,
      snapshots: {
        current: () => snapshot,
        reached: () => memory.reached(),
        subscribe: () => () => {},
      },
      clock: fixedClock,
      seals: { keys: [newest], random: { bytes: (count) => randomBytes(count) } },
      storedKeyUse: {
        isSource: true,
        knownBefore: () => Promise.resolve(null),
        impliesGrants: false,
      },
    });
  };
  t.equal((await answer(granted)).status, 200);
  const refused = await answer(widened);
  t.equal(refused.status, 409);
  t.match(refused.body, "does not open");
});
