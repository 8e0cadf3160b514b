// The lines a bench prints: one JSON object each. A ratio's two sides come from the same rounds.

export interface Row {
  /** `GET 1 KiB, 32 connections: headgate / nginx`. */
  readonly measure: string;
  readonly value: number | null;
  readonly unit: string;
  readonly ratio: number | null;
  readonly bar: number | null;
  readonly goal: number | null;
  readonly met: boolean | null;
  readonly rounds: number;
  /** (largest − smallest) / median over the rounds. */
  readonly spread: number | null;
  /** Why it was not measured. */
  readonly leftOut?: string;
}

export interface Bar {
  readonly bar: number;
  readonly goal: number;
}

function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

function round(value: number): number {
  return Number(value.toPrecision(4));
}

function spreadOf(values: readonly number[]): number {
  return round((Math.max(...values) - Math.min(...values)) / median(values));
}

export function valueRow(measure: string, unit: string, values: readonly number[]): Row {
  return {
    measure,
    value: round(median(values)),
    unit,
    ratio: null,
    bar: null,
    goal: null,
    met: null,
    rounds: values.length,
    spread: spreadOf(values),
  };
}

/** Median of the rounds' own ratios against a bar; `value` is the numerator's median. */
export function ratioRow(
  measure: string,
  unit: string,
  sides: { readonly over: readonly number[]; readonly under: readonly number[] },
  bar: Bar | null,
): Row {
  const ratios = sides.over.map((value, index) => value / (sides.under[index] ?? Number.NaN));
  const ratio = round(median(ratios));
  return {
    measure,
    value: round(median(sides.over)),
    unit,
    ratio,
    bar: bar?.bar ?? null,
    goal: bar?.goal ?? null,
    met: bar === null ? null : ratio <= bar.bar,
    rounds: ratios.length,
    spread: spreadOf(ratios),
  };
}

/** A difference in milliseconds against a bar in milliseconds. */
export function addedRow(
  measure: string,
  sides: { readonly over: readonly number[]; readonly under: readonly number[] },
  bar: Bar,
): Row {
  const added = sides.over.map((value, index) => value - (sides.under[index] ?? Number.NaN));
  const value = round(median(added));
  const spread = spreadOf(added);
  const met = value <= bar.bar;
  return { measure, value, unit: "ms", ratio: null, ...bar, met, rounds: added.length, spread };
}

export function leftOutRow(measure: string, reason: string): Row {
  return {
    measure,
    value: null,
    unit: "",
    ratio: null,
    bar: null,
    goal: null,
    met: null,
    rounds: 0,
    spread: null,
    leftOut: reason,
  };
}

/** One row as a line for people. */
export function lineOf(row: Row): string {
  if (row.leftOut !== undefined) return `${row.measure}: left out, ${row.leftOut}`;
  const ratio = row.ratio === null ? "" : ` ratio ${row.ratio}`;
  const bar = row.bar === null ? "" : ` (bar ${row.bar}, goal ${row.goal}: ${verdict(row)})`;
  return `${row.measure}: ${row.value} ${row.unit}${ratio}${bar}, spread ${row.spread}`;
}

function verdict(row: Row): string {
  const seen = row.ratio ?? row.value ?? 0;
  if (row.met !== true) return "NOT met";
  return row.goal !== null && seen <= row.goal ? "goal met" : "met";
}
