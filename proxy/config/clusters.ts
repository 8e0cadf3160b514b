// The clusters of a configuration: where they are, whose keys sign there, and what they do otherwise
// than their profile says. What the state store records of a cluster is only its beginning here.

import type { ClusterIdentity } from "../placement/ports.ts";
import type { FactOverrides } from "../placement/profiles.ts";
import { type ClusterId, parseClusterId } from "../s3/names.ts";
import type { Checks } from "./checks.ts";
import {
  type ClusterKeyFiles,
  type ClusterKeys,
  clusterKeyFiles,
  clusterKeys,
} from "./cluster-keys.ts";
import type { Settings } from "./schema.ts";
import { readChain } from "./server-tls.ts";
import type { SettingPath } from "./source-file.ts";

export interface ClusterConfig {
  readonly id: ClusterId;
  readonly endpoints: readonly string[];
  readonly profile: string;
  readonly identity: ClusterIdentity;
  readonly region: string;
  readonly addressing: "path" | "virtual";
  /** Null: the endpoint's own. */
  readonly host: string | null;
  /** Whether it is told where callers' requests came from. */
  readonly forwardedFor: "off" | "append";
  /** What this cluster does otherwise than its profile says. */
  readonly overrides: FactOverrides;
  /** Initial values; null: left to the rule for new clusters. */
  readonly weight: number | null;
  readonly state: "pending" | "live" | "draining_readonly" | "evacuating" | null;
  readonly labels: Readonly<Record<string, string>>;
  /** Null: the cluster is unreachable from this process. */
  readonly credentials: ClusterKeys | null;
  /** Null: no files of keys are to be read again. */
  readonly keyFiles: ClusterKeyFiles | null;
  readonly tls: { readonly caPem: string | null; readonly insecureSkipVerify: boolean };
}

export function clustersConfig(
  data: Settings,
  checks: Checks,
  options: { readonly embedded: boolean; readonly readFile: (path: string) => string },
): readonly ClusterConfig[] {
  const seen = new Set<string>();
  const clusters = data.clusters.flatMap((cluster, index): ClusterConfig[] => {
    const at: SettingPath = ["clusters", index];
    const id = parseClusterId(cluster.id);
    if (id === null) return [];
    if (seen.has(id)) checks.fault([...at, "id"], `Cluster "${id}" is given twice`);
    seen.add(id);
    const keys = cluster.credentials ?? null;
    if (keys === null) {
      checks.warn(at, `Cluster "${id}" has no credentials, so it is unreachable from here`);
    }
    if (cluster.tls.insecure_skip_verify) {
      checks.warn([...at, "tls"], `Endpoints of cluster "${id}" are not verified`);
    }
    return [
      {
        id,
        endpoints: cluster.endpoints,
        profile: cluster.profile,
        identity: cluster.identity,
        region: cluster.region,
        addressing: cluster.addressing,
        host: cluster.host ?? null,
        forwardedFor: cluster.forwarded_for,
        overrides: factOverrides(cluster.overrides),
        weight: cluster.weight ?? null,
        state: cluster.state ?? null,
        labels: cluster.labels,
        credentials: keys && clusterKeys(keys, [...at, "credentials"], checks),
        keyFiles: keys && clusterKeyFiles(keys, options.readFile),
        tls: {
          caPem: authority(cluster.tls.ca_file, [...at, "tls", "ca_file"], checks),
          insecureSkipVerify: cluster.tls.insecure_skip_verify,
        },
      },
    ];
  });
  if (clusters.length === 0 && !options.embedded) {
    checks.warn(["clusters"], "No clusters are configured, so no request can be forwarded");
  }
  return clusters;
}

/** What is no certificate would only show when the first request goes to the cluster. */
function authority(file: string | undefined, path: SettingPath, checks: Checks): string | null {
  const pem = checks.read(file, path);
  if (pem !== null && readChain(pem) === null) {
    checks.fault(path, `File "${file}" holds no readable PEM certificates`);
  }
  return pem;
}

function factOverrides(given: Settings["clusters"][number]["overrides"]): FactOverrides {
  return {
    takesTrailers: given.takes_trailers,
    verifiesChecksums: given.verifies_checksums,
    keepsAwsChunked: given.keeps_aws_chunked,
    readsConditionsFully: given.reads_conditions_fully,
    honoursConditionalPut: given.honours_conditional_put,
    conditionalEtagQuotes: given.conditional_etag_quotes,
    honoursConditionalDelete: given.honours_conditional_delete,
    honoursConditionalComplete: given.honours_conditional_complete,
    honoursConditionalCopy: given.honours_conditional_copy,
    honoursCopySourceConditions: given.honours_copy_source_conditions,
    answersObjectAttributes: given.answers_object_attributes,
    answersPartNumber: given.answers_part_number,
    survivesUploadPartCopy: given.survives_upload_part_copy,
    knowsSettings: given.knows_settings,
  };
}
