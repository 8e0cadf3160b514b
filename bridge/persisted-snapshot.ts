// The last good snapshot on disk, for a start while the store is away (placement.md rule 8).
// JSON lines: a head, one line a record, a foot with the count, so that a cut file is recognised.
// Values are encoded as in the store and come back through the same readers.

import type { PlacementSnapshot } from "../proxy/placement/snapshot.ts";
import type { StoreEntry } from "../proxy/placement/state-store.ts";
import {
  encodeBucket,
  encodeClass,
  encodeCluster,
  encodeCredential,
  encodeData,
  recordSchema,
  type Stamp,
} from "./codec.ts";
import { asInteger, asObject, asRevision, asString, parseJson, shapeFault } from "./json-reader.ts";
import type { Keyspace } from "./keyspace.ts";

const fileSchema = 1;
const linesPerChunk = 500;

/** Text chunks of some 500 records, so that a writer lets the event loop go on in between. */
export function* snapshotText(
  snapshot: PlacementSnapshot,
  keys: Keyspace,
  savedAt: string,
): Iterable<string> {
  const stamp: Stamp = { updatedAt: savedAt, updatedBy: "snapshot" };
  const head = { schema: fileSchema, records: recordSchema, prefix: keys.prefix };
  let chunk = `${JSON.stringify({ ...head, revision: snapshot.revision.toString(), saved_at: savedAt })}\n`;
  let count = 0;
  for (const [key, modRevision, value] of lines(snapshot, keys, stamp)) {
    chunk += `${JSON.stringify({ key, mod_revision: modRevision.toString(), value })}\n`;
    count += 1;
    if (count % linesPerChunk === 0) {
      yield chunk;
      chunk = "";
    }
  }
  yield `${chunk}${JSON.stringify({ count })}\n`;
}

function* lines(
  snapshot: PlacementSnapshot,
  keys: Keyspace,
  stamp: Stamp,
): Iterable<readonly [string, bigint, string]> {
  for (const { value, modRevision } of snapshot.clusters.values()) {
    yield [keys.cluster(value.id), modRevision, encodeCluster(value, stamp)];
  }
  for (const [name, { value, modRevision }] of snapshot.classes) {
    yield [keys.storageClass(name), modRevision, encodeClass(value, stamp)];
  }
  for (const { value, modRevision } of snapshot.buckets.all()) {
    yield [keys.bucket(value.tenant, value.name), modRevision, encodeBucket(value, stamp)];
  }
  for (const [path, value] of snapshot.data) {
    yield [keys.data(path), snapshot.revision, encodeData(value, stamp)];
  }
  for (const { value, modRevision } of snapshot.credentials.values()) {
    yield [keys.credential(value.accessKeyId), modRevision, encodeCredential(value, stamp)];
  }
}

/** @throws FaultError state_unavailable when the text is cut, foreign, or of another layout. */
export function readSnapshotText(
  text: string,
  keys: Keyspace,
): { readonly revision: bigint; readonly entries: readonly StoreEntry[] } {
  const rows = text.split("\n");
  if (rows.pop() !== "") throw shapeFault("snapshot file is cut: its last line does not end");
  const head = asObject(parseJson(rows[0] ?? ""), "head");
  asInteger(head["schema"], "schema", [fileSchema, fileSchema]);
  if (asString(head["prefix"], "prefix") !== keys.prefix) {
    throw shapeFault(`snapshot file is of another installation: "${String(head["prefix"])}"`);
  }
  const foot = asObject(parseJson(rows.at(-1) ?? ""), "foot");
  const body = rows.slice(1, -1);
  asInteger(foot["count"], "count", [body.length, body.length]);
  const entries = body.map((row) => {
    const line = asObject(parseJson(row), "line");
    const modRevision = asRevision(line["mod_revision"], "mod_revision");
    return {
      key: asString(line["key"], "key"),
      value: asString(line["value"], "value"),
      createRevision: modRevision,
      modRevision,
    };
  });
  return { revision: asRevision(head["revision"], "revision"), entries };
}
