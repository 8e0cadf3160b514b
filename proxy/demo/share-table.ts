// Configured and measured shares side by side, with how far chance alone takes a measured one.

import type { ClusterId } from "../s3/names.ts";
import type { EmbeddedCluster } from "./embedded.ts";

export interface ShareTable {
  /** Aligned text, heading first. */
  readonly rows: readonly string[];
  /** The same as numbers; shares are 0 to 1. */
  readonly shares: readonly {
    readonly id: ClusterId;
    readonly weight: number;
    readonly configured_share: number;
    readonly held: number;
    readonly share: number;
  }[];
  /** The largest distance from the configured share, in standard deviations. */
  readonly worstSigma: number;
}

/** Compares what clusters hold with their weights. */
export function shareTable(
  clusters: readonly Pick<EmbeddedCluster, "id" | "weight">[],
  held: ReadonlyMap<ClusterId, number>,
): ShareTable {
  let weights = 0;
  for (const { weight } of clusters) weights += weight;
  let objects = 0;
  for (const count of held.values()) objects += count;
  const shares = clusters.map(({ id, weight }) => {
    const count = held.get(id) ?? 0;
    const share = objects === 0 ? 0 : count / objects;
    return { id, weight, configured_share: weight / weights, held: count, share };
  });
  let worstSigma = 0;
  const cells = shares.map(({ id, weight, configured_share: share, held: count, ...measured }) => {
    // Each object is an independent draw: the count has a binomial distribution.
    const deviation = Math.sqrt(objects * share * (1 - share));
    worstSigma = Math.max(worstSigma, Math.abs(count - objects * share) / deviation);
    return [
      id,
      String(weight),
      percent(share),
      `${Math.round(objects * share)} ± ${Math.round(deviation)}`,
      String(count),
      percent(measured.share),
    ];
  });
  const heading = ["cluster", "weight", "configured", "expected", "measured", "share"];
  return { rows: aligned([heading, ...cells]), shares, worstSigma };
}

function percent(ratio: number): string {
  return `${(ratio * 100).toFixed(1)} %`;
}

/** The first column to the left, the others to the right. */
function aligned(rows: readonly (readonly string[])[]): readonly string[] {
  const widths = rows[0]?.map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, column) => {
        const width = widths?.[column] ?? 0;
        return column === 0 ? cell.padEnd(width) : cell.padStart(width);
      })
      .join("  "),
  );
}
