// What the JavaScript clients share: the plan of a run from the environment, and steps that print one
// line each, as steps.py does.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";

function setting(name) {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}

export const endpoint = setting("LAB_ENDPOINT");
export const accessKeyId = setting("LAB_ACCESS_KEY");
export const secretAccessKey = setting("LAB_SECRET_KEY");
/** A name of this run's own; every bucket is this name or begins with it. */
export const bucket = setting("LAB_BUCKET");
export const folder = setting("LAB_FOLDER");

export const oddKeys = [
  "a b/c d.txt",
  "plus+sign",
  "100%25 sure %zz",
  "naïve/日本語/🗝",
  "two//slashes//",
  "up/../up/./dot",
  "/leading",
  "quote'(x)!*~&=?#;,:@$",
  "percent%2Fslash",
];

/** Bytes that differ from seed to seed and from block to block. */
export function testBytes(lengthBytes, seed) {
  const bytes = Buffer.alloc(lengthBytes, createHash("sha512").update(seed).digest());
  for (let at = 0; at + 4 <= lengthBytes; at += 4096) bytes.writeUInt32BE(at, at);
  return bytes;
}

/** The key of an object that stays: whoever reads it from the cluster can tell whether it is whole. */
export function keptKey(bytes, name) {
  return `kept/${createHash("sha256").update(bytes).digest("hex")}/${name}`;
}

/** Orders keys as S3 lists them. */
export function byBytes(a, b) {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

export function equalBytes(got, wanted, what = "bytes") {
  assert.equal(got.length, wanted.length, `length of ${what}`);
  assert.ok(Buffer.from(got).equals(wanted), `${what} differ`);
}

let count = 0;

export async function step(name, action) {
  count += 1;
  try {
    await action();
    process.stdout.write(`ok ${name}\n`);
  } catch (error) {
    const line = /clients\/((?!steps)[\w-]+\.mjs:\d+)/.exec(error.stack ?? "")?.[1] ?? "";
    const text = `${error.name}: ${error.message}`.replaceAll("\n", " ").slice(0, 400);
    process.stdout.write(`FAIL ${name} ${line} ${text}\n`);
  }
}

/** Ends the process: minio-js leaves sockets behind that would keep it until the server closes them. */
export function end() {
  process.stdout.write(`end ${count}\n`, () => process.exit(0));
}
