// A Headgate over one demo cluster for the rows of upload-matrix.ts: every kind of caller is known to it,
// and anybody may write into buckets whose names begin with `open-`.

import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CreateBucketCommand, CreateMultipartUploadCommand } from "@aws-sdk/client-s3";
import type { Test } from "tap";
import { sumFields } from "../../proxy/demo/checksums.ts";
import {
  type ProfileFacts,
  type ProfileName,
  profileNames,
  profiles,
} from "../../proxy/placement/profiles.ts";
import { startClusters, startTestHeadgate, type TestHeadgate } from "./headgate.ts";
import { until } from "./raw-http.ts";
import { auths, bodyOf, type UploadRow, uploadRows } from "./upload-matrix.ts";
import type { MatrixOver } from "./upload-matrix-run.ts";

/** Profiles with facts of their own; each of the others has those of one of these. */
export const kinds: readonly ProfileName[] = profileNames.filter(
  (name, at) => profileNames.findIndex((other) => profiles[other] === profiles[name]) === at,
);

/** Headgate under a profile, over a cluster that behaves as `facts` say; as the profile when absent. */
export async function openMatrix(
  t: Test,
  profile: ProfileName,
  facts: ProfileFacts = profiles[profile],
): Promise<MatrixOver> {
  unwatch(t);
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1 },
    servers: await startClusters(t, ["a"], facts),
    clusterSettings: `profile: ${profile}`,
    auth: "sigv2: on",
    settings: `policy: {bundle: ${openBundle(t)}}`,
  });
  return matrixOver(headgate, facts);
}

/**
 * Takes away the domains that tell tap which test an uncaught error is of: they follow every promise and
 * socket, for a fifth of the time of thousands of uploads. Without them such an error ends the file.
 */
function unwatch(t: Test): void {
  t.hookDomain.destroy();
  for (let above = t.parent; above !== undefined; above = above.parent) above.hookDomain.destroy();
}

/** The default policy, with buckets that are open to everybody. */
export function openBundle(t: Test): string {
  const bundle = mkdtempSync(join(tmpdir(), "headgate-matrix-"));
  t.teardown(() => rmSync(bundle, { recursive: true }));
  cpSync(join(import.meta.dirname, "../../policies/default"), bundle, { recursive: true });
  writeFileSync(
    join(bundle, "data.json"),
    JSON.stringify({ headgate: { anonymous: { "open-*": ["write"] } } }),
  );
  return bundle;
}

function matrixOver(headgate: TestHeadgate, facts: ProfileFacts): MatrixOver {
  const { s3, url } = headgate;
  const cluster = headgate.clusters["a"];
  if (cluster === undefined) throw new Error("No cluster");
  let buckets = 0;
  return {
    url,
    facts,
    async bucket(open) {
      buckets += 1;
      const Bucket = `${open ? "open" : "closed"}-${buckets}`;
      const acl = open ? ({ ACL: "public-read-write" } as const) : {};
      await s3.send(new CreateBucketCommand({ Bucket, ...acl }));
      return Bucket;
    },
    async begin(Bucket) {
      const begun = await s3.send(new CreateMultipartUploadCommand({ Bucket, Key: "k" }));
      return begun.UploadId ?? "";
    },
    objects(bucket, wanted) {
      const objects = cluster.objects(bucket);
      const object = objects.find(({ key }) => key === wanted);
      const found =
        object === undefined
          ? null
          : {
              bytes: object.bytes,
              fields: new Map<string, string>([...object.headers, ...sumFields(object.sum)]),
            };
      return { count: objects.length, found };
    },
    parts(bucket, wanted) {
      const parts = cluster.parts(bucket);
      const part = parts.find(({ number }) => number === wanted);
      const found = part === undefined ? null : { bytes: part.bytes, fields: null };
      return { count: parts.length, found };
    },
    ended: endedIn(headgate),
  };
}

/** Waits for the line of a request in the access log. */
export function endedIn({ accessLog }: TestHeadgate): MatrixOver["ended"] {
  return async (bucket, key) => {
    const isLogged = (): boolean =>
      accessLog.findLast((one) => one.bucket === bucket && one.key === key) !== undefined;
    await until(isLogged);
  };
}

const shortBodies = [0, 1, 8191, 8192, 65_536].map(bodyOf);

/** Uploads that fit into the held tail: all callers put objects, one of them puts parts as well. */
export const shortRows: readonly UploadRow[] = [
  ...uploadRows({ auths, bodies: shortBodies }),
  ...uploadRows({ operation: "UploadPart", auths: ["header"], bodies: shortBodies }),
];
