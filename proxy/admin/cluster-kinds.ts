// What clusters were seen to be, beside what their profiles say: two fields of a cluster's answers here.

import type { ProfileMismatch } from "../placement/cluster-facts.ts";
import type { ServerKind } from "../placement/server-kind.ts";
import type { ClusterId } from "../s3/names.ts";

export interface KindPorts {
  readonly clusterKinds: {
    /** `null`: not seen yet, or its answers do not tell. */
    kind(cluster: ClusterId): ServerKind | null;
    /** `null`: nothing is taken otherwise than its profile says. */
    mismatch(cluster: ClusterId): ProfileMismatch | null;
  };
}

/** `profile_mismatch`: the facts that are therefore not taken as the profile says. */
export function kindFields(
  id: ClusterId,
  { clusterKinds }: KindPorts,
): Readonly<Record<"seen_as" | "profile_mismatch", unknown>> {
  const facts = clusterKinds.mismatch(id)?.facts ?? [];
  return { seen_as: clusterKinds.kind(id), profile_mismatch: facts.map(factSetting) };
}

/** As `clusters[].overrides` spells a fact: `takes_trailers`. */
export function factSetting(fact: string): string {
  return fact.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
