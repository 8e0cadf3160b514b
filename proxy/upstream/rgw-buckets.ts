// Every bucket of a Ceph RGW, whoever owns it: GET /admin/bucket, signed with keys that have the
// capability `buckets=read`. Without it an RGW lists the buckets of the keys' own user only.

import type { CancelSignal } from "../placement/ports.ts";
import type { ClusterId } from "../s3/names.ts";
import { type AskAdmin, readAnswer } from "./admin-ops.ts";

/** A million names, and room. */
const answerLimitBytes = 128 * 1024 * 1024;

/** `["logs", "acme/logs"]`; `null`: the keys may not ask, or this is no such server. */
export async function listRgwBuckets(
  cluster: ClusterId,
  options: {
    readonly keys: { readonly accessKeyId: string; readonly secretAccessKey: string };
    readonly ask: AskAdmin;
  },
  signal: CancelSignal,
): Promise<readonly string[] | null> {
  const { keys, ask } = options;
  const query = [["format", "json"]] as const;
  const response = await ask(cluster, { resource: "bucket", query, keys }, signal);
  const text = await readAnswer(response, answerLimitBytes);
  if (response.status !== 200 || text === null) return null;
  try {
    const names: unknown = JSON.parse(text);
    if (!Array.isArray(names)) return null;
    return names.every((name) => typeof name === "string") ? names : null;
  } catch {
    return null; // another kind of server answers here
  }
}
