// Rows of a table that are too many to be run, thinned so that each pair of values of two columns that
// the table has is still there. Always the same rows for the same table.

export type Column<Row> = (row: Row) => string | number;

/** The chosen rows, in the order of the table. */
export function pairwise<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
): readonly Row[] {
  const rowsOf = new Map<string, number[]>();
  const pairs = rows.map((row, at) => {
    const names = pairsOf(row, columns);
    for (const name of names) {
      const having = rowsOf.get(name) ?? [];
      having.push(at);
      rowsOf.set(name, having);
    }
    return names;
  });
  const missing = new Set(rowsOf.keys());
  const chosen = new Set<number>();
  // The rarest pairs leave the least choice, so they choose first.
  for (const [name, having] of [...rowsOf].toSorted(([, a], [, b]) => a.length - b.length)) {
    if (!missing.has(name)) continue;
    // Begun elsewhere each time, so that of equal rows not always the first are taken.
    const begin = (chosen.size * 7919) % having.length;
    const turned = [...having.slice(begin), ...having.slice(0, begin)];
    const best = mostMissing(turned, (at) => pairs[at]?.filter((one) => missing.has(one)).length);
    chosen.add(best);
    for (const covered of pairs[best] ?? []) missing.delete(covered);
  }
  return rows.filter((_, at) => chosen.has(at));
}

/** `0 header 1 hash`: a pair of values and where they stand. */
export function pairsOf<Row>(row: Row, columns: readonly Column<Row>[]): readonly string[] {
  const values = columns.map((column, at) => `${at} ${column(row)}`);
  return values.flatMap((value, at) => values.slice(at + 1).map((other) => `${value} ${other}`));
}

const lookedAt = 300;

/** Of rows spread evenly over those that have a pair, the one with the most pairs that are missing. */
function mostMissing(having: readonly number[], gain: (at: number) => number | undefined): number {
  const step = Math.max(1, Math.floor(having.length / lookedAt));
  let best = having[0] ?? 0;
  let bestGain = -1;
  for (let index = 0; index < having.length; index += step) {
    const at = having[index] ?? 0;
    const gained = gain(at) ?? 0;
    if (gained > bestGain) [best, bestGain] = [at, gained];
  }
  return best;
}
