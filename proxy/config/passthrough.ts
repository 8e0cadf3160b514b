// Paths of one cluster's other APIs (Swift, admin operations) that the S3 listener hands on unread. A
// list of plain prefixes: whatever could be spelled in a second way is a fault here.

import { type ClusterId, parseClusterId } from "../s3/names.ts";
import type { Checks } from "./checks.ts";
import type { Settings } from "./schema.ts";
import type { SettingPath } from "./source-file.ts";

export interface PassthroughConfig {
  readonly cluster: ClusterId;
  /** `/swift/v1`: no escapes, no dot segments, no slash at the end; `/`: POST to it alone. */
  readonly paths: readonly string[];
}

const plainPath = /^(?:\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$/;

/** Null: nothing is passed through. */
export function passthroughConfig(
  { passthrough, clusters }: Settings,
  checks: Checks,
): PassthroughConfig | null {
  const at: SettingPath = ["passthrough"];
  const { cluster: name, paths } = passthrough;
  if (name === undefined && paths.length === 0) return null;
  if (name === undefined || paths.length === 0) {
    checks.fault(at, "Needs both cluster and paths, or neither");
    return null;
  }
  const cluster = clusters.some(({ id }) => id === name) ? parseClusterId(name) : null;
  if (cluster === null) {
    checks.fault([...at, "cluster"], `Cluster "${name}" is not under clusters`, [["clusters"]]);
  }
  for (const [index, path] of paths.entries()) {
    const place = [...at, "paths", index];
    if (path === "/") {
      checks.warn(
        place,
        'POST to "/", with actions of STS, IAM and topics, is handed on without policy',
      );
    } else if (plainPath.test(path)) {
      checks.warn(place, `Path "${path}" is handed on without policy, and hides ${hidden(path)}`);
    } else {
      checks.fault(
        place,
        `Path "${path}" is not a plain prefix, write /name or /name/name of A-Z, a-z, 0-9, ., _, ~ and -`,
      );
    }
  }
  return cluster === null ? null : { cluster, paths };
}

/** What of S3 a client cannot reach any more by path. */
function hidden(path: string): string {
  const [, bucket = "", ...names] = path.split("/");
  if (names.length === 0) return `a bucket "${bucket}"`;
  const key = names.join("/");
  return `the key "${key}", and keys under "${key}/", of a bucket "${bucket}"`;
}
