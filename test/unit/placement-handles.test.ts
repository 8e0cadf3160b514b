// Texts that clients carry for us: what we made comes back whole, anything else is nothing.

import fc from "fast-check";
import t from "tap";
import { listToken, readListToken } from "../../proxy/placement/list-token.ts";
import { FaultError } from "../../proxy/placement/ports.ts";
import { isProfileName, profileFacts, profileNames } from "../../proxy/placement/profiles.ts";
import { handleKeys } from "../../proxy/placement/sealed-text.ts";
import { readUploadHandle, uploadHandle } from "../../proxy/placement/upload-handle.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import { bucketNamed, clusterNamed, keyNamed, tenantNamed } from "../support/placement-names.ts";

const secret = (fill: number) => new Uint8Array(32).fill(fill);

function keysOf(current: number, ...previous: readonly number[]) {
  const keys = handleKeys(secret(current), previous.map(secret));
  if (keys === null) throw new Error("Test keys are refused");
  return keys;
}

const binding = {
  keys: keysOf(1),
  tenant: noTenant,
  bucket: bucketNamed("logs"),
  key: keyNamed("a/b c+d"),
};
const pin = { cluster: clusterNamed("rgw-a"), uploadId: "2~ZrTq_x-9.é" };

const list = {
  keys: binding.keys,
  tenant: noTenant,
  bucket: bucketNamed("logs"),
  prefix: "2026/",
  delimiter: "/",
};

t.test("a handle comes back as the upload it was made for", async (t) => {
  const handle = uploadHandle(pin, binding);
  t.match(handle, /^[A-Za-z0-9_-]{20,512}$/);
  t.strictSame(readUploadHandle(handle, binding), pin);
  const longest = { cluster: clusterNamed("c".repeat(63)), uploadId: "x".repeat(303) };
  const long = uploadHandle(longest, binding);
  t.equal(long.length, 512);
  t.strictSame(readUploadHandle(long, binding), longest);
  t.throws(() => uploadHandle({ ...longest, uploadId: "x".repeat(304) }, binding), FaultError);
});

t.test("a handle is worth nothing for another bucket, key, tenant or installation", async (t) => {
  // https://github.com/supabase/storage/issues/1390
  const handle = uploadHandle(pin, binding);
  const others = [
    { ...binding, bucket: bucketNamed("logt") },
    { ...binding, key: keyNamed("a/b c+e") },
    { ...binding, tenant: tenantNamed("acme") },
    { ...binding, bucket: bucketNamed("logsa"), key: keyNamed("/b c+d") },
    { ...binding, keys: keysOf(2) },
  ];
  for (const other of others) t.equal(readUploadHandle(handle, other), null);
});

t.test("two previous keys verify, an older one does not", async (t) => {
  const handle = uploadHandle(pin, binding);
  const position = { kind: "key", text: "2026/k" } as const;
  const token = listToken(position, list);
  for (const keys of [keysOf(2, 1), keysOf(3, 2, 1)]) {
    t.strictSame(readUploadHandle(handle, { ...binding, keys }), pin);
    t.strictSame(readListToken(token, { ...list, keys }), position);
  }
  t.equal(readUploadHandle(handle, { ...binding, keys: keysOf(4, 3, 2) }), null);
  t.equal(readListToken(token, { ...list, keys: keysOf(4, 3, 2) }), null);
  t.not(uploadHandle(pin, { ...binding, keys: keysOf(2, 1) }), handle, "the newest signs");
  t.equal(handleKeys(secret(4), [secret(3), secret(2), secret(1)]), null);
  t.equal(handleKeys(new Uint8Array(31)), null);
  t.equal(handleKeys(secret(1), [new Uint8Array(0)]), null);
});

t.test("a handle changed in any character is nothing", async (t) => {
  const handle = uploadHandle(pin, binding);
  for (let i = 0; i < handle.length; i += 1) {
    for (const other of ["A", "B", "_", "=", "+", " ", ""]) {
      if (handle[i] === other) continue;
      const edited = handle.slice(0, i) + other + handle.slice(i + 1);
      if (readUploadHandle(edited, binding) !== null) t.fail(`${String(i)}: ${edited}`);
    }
  }
  for (const text of [
    "",
    "A",
    "2~abc",
    `${handle}A`,
    `${handle}=`,
    `${handle}\n`,
    "A".repeat(513),
  ]) {
    t.equal(readUploadHandle(text, binding), null, JSON.stringify(text));
  }
});

t.test("any text but a handle is nothing", async (t) => {
  fc.assert(
    fc.property(fc.string({ maxLength: 600 }), (text) => readUploadHandle(text, binding) === null),
  );
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 384 }),
      (bytes) => readUploadHandle(Buffer.from(bytes).toString("base64url"), binding) === null,
    ),
  );
  t.pass();
});

t.test("a list token comes back as the position it was made of", async (t) => {
  const texts = ["2026/a b", "2026/😀/", "x".repeat(1024), "é".repeat(512)];
  for (const kind of ["key", "prefix"] as const) {
    for (const text of texts) {
      const token = listToken({ kind, text }, list);
      t.match(token, /^[A-Za-z0-9_-]+$/);
      t.strictSame(readListToken(token, list), { kind, text });
    }
  }
  t.equal(listToken({ kind: "key", text: "k".repeat(366) }, list).length, 512);
  t.equal(listToken({ kind: "key", text: "k".repeat(1024) }, list).length, 1390);
});

t.test("a list token is worth nothing for another list", async (t) => {
  const token = listToken({ kind: "key", text: "k" }, list);
  const others = [
    { ...list, prefix: "2026" },
    { ...list, delimiter: "" },
    { ...list, prefix: "2026//", delimiter: "" },
    { ...list, bucket: bucketNamed("logt") },
    { ...list, tenant: tenantNamed("acme") },
    { ...list, keys: keysOf(9) },
  ];
  for (const other of others) t.equal(readListToken(token, other), null);
  for (const text of ["", "k", "2026/k", `${token}A`, token.slice(1), "A".repeat(2049)]) {
    t.equal(readListToken(text, list), null);
  }
});

t.test("a handle is no token and a token no handle", async (t) => {
  const token = listToken({ kind: "key", text: "k" }, list);
  const alike = { ...list, prefix: binding.key, delimiter: "" };
  t.equal(readUploadHandle(token, { ...binding, key: keyNamed("2026/") }), null);
  t.equal(readListToken(uploadHandle(pin, binding), alike), null);
});

t.test("profiles tell RGW from S3 and unknown names get the cautious row", async (t) => {
  t.strictSame(profileNames, [
    "aws",
    "rgw-pacific",
    "rgw-quincy",
    "rgw-reef-early",
    "rgw-reef",
    "rgw-squid",
    "s3-generic",
  ]);
  for (const name of profileNames) {
    const facts = profileFacts(name);
    t.ok(isProfileName(name));
    t.ok(Object.isFrozen(facts));
    t.equal(facts.backend, name.startsWith("rgw-") ? "rgw" : "s3");
    t.equal(facts.conditionalEtagQuotes, name.startsWith("rgw-") ? "strip" : "keep");
  }
  t.equal(profileFacts("rgw-reef").honoursConditionalDelete, false);
  t.equal(profileFacts("aws").honoursConditionalDelete, true);
  t.equal(isProfileName("toString"), false);
  t.equal(profileFacts("toString"), profileFacts("s3-generic"));
  t.equal(profileFacts("s3-generic").honoursConditionalPut, false);
});
