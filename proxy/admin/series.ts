// Counters, gauges and histograms whose label sets are resolved once: the data path holds a cell and
// adds to it. Text is Prometheus exposition format 0.0.4. Own series because prom-client hashes an
// object of labels at each step (0.21 µs a counter here): a request takes a dozen steps.

/** One series; `value` is added to or set by its holder. */
export interface Cell {
  value: number;
}

/** One histogram series. */
export interface HistogramCell {
  readonly bounds: readonly number[];
  /** Per bucket, not cumulated; the last one is beyond every bound. */
  readonly counts: number[];
  sum: number;
}

export interface FamilyFacts {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly labels: readonly string[];
  readonly help: string;
}

/** Adds one observation, in the family's base unit. */
export function observe(cell: HistogramCell, measured: number): void {
  const { bounds, counts } = cell;
  let index = 0;
  while (index < bounds.length && measured > (bounds[index] ?? 0)) index += 1;
  counts[index] = (counts[index] ?? 0) + 1;
  cell.sum += measured;
}

/** All series of a counter or gauge. */
export class Family {
  readonly facts: FamilyFacts;
  readonly #cells = new Map<string, { readonly labels: string; readonly cell: Cell }>();

  constructor(facts: FamilyFacts) {
    this.facts = facts;
  }

  /** The series of these label values, in the order of the facts. */
  cell(first = "", second = "", third = ""): Cell {
    const key = `${first}\n${second}\n${third}`;
    const known = this.#cells.get(key);
    if (known !== undefined) return known.cell;
    const cell = { value: 0 };
    const labels = labelText(this.facts.labels, [first, second, third]);
    this.#cells.set(key, { labels, cell });
    return cell;
  }

  clear(): void {
    this.#cells.clear();
  }

  render(): string {
    const { name } = this.facts;
    let text = headText(this.facts);
    for (const { labels, cell } of this.#cells.values()) {
      text += `${name}${labels === "" ? "" : `{${labels}}`} ${cell.value}\n`;
    }
    return text;
  }
}

/** All series of a histogram. */
export class HistogramFamily {
  readonly facts: FamilyFacts;
  readonly #bounds: readonly number[];
  readonly #cells = new Map<string, { readonly labels: string; readonly cell: HistogramCell }>();

  constructor(facts: FamilyFacts, bounds: readonly number[]) {
    this.facts = facts;
    this.#bounds = bounds;
  }

  cell(first = "", second = ""): HistogramCell {
    const key = `${first}\n${second}`;
    const known = this.#cells.get(key);
    if (known !== undefined) return known.cell;
    const counts = Array.from({ length: this.#bounds.length + 1 }, () => 0);
    const cell = { bounds: this.#bounds, counts, sum: 0 };
    const labels = labelText(this.facts.labels, [first, second]);
    this.#cells.set(key, { labels, cell });
    return cell;
  }

  render(): string {
    const { name } = this.facts;
    let text = headText(this.facts);
    for (const { labels, cell } of this.#cells.values()) {
      const front = labels === "" ? "" : `${labels},`;
      let count = 0;
      for (const [index, bound] of [...this.#bounds, "+Inf"].entries()) {
        count += cell.counts[index] ?? 0;
        text += `${name}_bucket{${front}le="${bound}"} ${count}\n`;
      }
      const set = labels === "" ? "" : `{${labels}}`;
      text += `${name}_sum${set} ${cell.sum}\n${name}_count${set} ${count}\n`;
    }
    return text;
  }
}

function headText(facts: FamilyFacts): string {
  return `# HELP ${facts.name} ${facts.help}\n# TYPE ${facts.name} ${facts.type}\n`;
}

/** `a="x",b="y"` with the three escapes of the format. */
function labelText(names: readonly string[], values: readonly string[]): string {
  return names
    .map((name, index) => {
      const escaped = (values[index] ?? "")
        .replaceAll("\\", "\\\\")
        .replaceAll('"', '\\"')
        .replaceAll("\n", "\\n");
      return `${name}="${escaped}"`;
    })
    .join(",");
}
