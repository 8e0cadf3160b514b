// The README's tables of settings, metrics, commands and operations, made from the code that declares them. The
// README holds each between `<!-- settings -->` and `<!-- /settings -->`, and so on.

import { metricFacts } from "../../proxy/admin/metric-names.ts";
import { commands } from "../../proxy/cli/main-command.ts";
import { settings } from "../../proxy/config/schema.ts";
import { listSettings } from "../../proxy/config/setting-list.ts";
import { refusals } from "../../proxy/operations/refusals.ts";
import { S3Error } from "../../proxy/s3/errors.ts";
import type { OperationFacts, OperationRouting } from "../../proxy/s3/operation.ts";
import { operationFacts } from "../../proxy/s3/operation.ts";

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
  return line(head) + line(head.map(() => "---")) + rows.map(line).join("");
}

const code = (text: string): string => (text === "" ? "" : `\`${text}\``);

function settingsTable(): string {
  const rows = listSettings(settings).map((setting) => [
    code(setting.name),
    setting.defaultText === null
      ? ""
      : code(setting.defaultText === "" ? '""' : setting.defaultText),
    setting.description,
  ]);
  return table(["Setting", "Default", "Meaning"], rows);
}

function metricsTable(): string {
  const rows = Object.entries(metricFacts).map(([name, facts]) => [
    code(name),
    facts.type,
    facts.labels.map(code).join(" "),
    facts.help,
  ]);
  return table(["Metric", "Type", "Labels", "Meaning"], rows);
}

function cliTable(): string {
  const rows = commands.map(({ name, operands, summary }) => [
    code(`headgate ${name} ${operands}`.trimEnd()),
    summary,
  ]);
  rows.push([code("headgate policy build|test|check"), "Work on policy bundles"]);
  return table(["Command", "What it does"], rows);
}

/** How each kind of routing is told, in the order of the table. */
const routings: Readonly<Record<OperationRouting, string>> = {
  service: "every cluster, merged; 503 when one does not answer",
  everywhere:
    "all clusters of the bucket, or none; 503 while one does not answer, and the same request again finishes it",
  first: "the bucket's first cluster",
  every: "every cluster of the bucket; 503 when one failed, and the same request again finishes it",
  single:
    "the cluster of a bucket that is on one; one that is on several comes onto one first, or 409 (object lock: 409 unless it is versioned)",
  merged: "every cluster of the bucket, merged as one list; 503 when one does not answer",
  owner: "the key's cluster; 503 when it does not answer",
  upload: "the cluster where the upload began; 404 for an upload id of another bucket or key",
  split: "each key's cluster, one result a key",
  refused: "501",
};

function operationsTable(): string {
  const rows: string[][] = [];
  const facts: readonly [string, OperationFacts][] = Object.entries(operationFacts);
  for (const [routing, told] of Object.entries(routings)) {
    const names = facts.filter(([, fact]) => fact.supported && fact.routing === routing);
    if (names.length > 0) rows.push([names.map(([name]) => name).join(", "), told]);
  }
  const refusals = new Map<string, string[]>();
  for (const [name, { supported, refusal }] of facts) {
    if (supported) continue;
    const reason = refusal ?? "";
    refusals.set(reason, [...(refusals.get(reason) ?? []), name]);
  }
  for (const [reason, names] of refusals) {
    rows.push([names.join(", "), `501 \`NotImplemented\`: ${reason}`]);
  }
  return table(["Operations", "Where they go, and what they may be refused with"], rows);
}

function refusalsTable(): string {
  const rows = refusals.map(({ code: name, operations, why }) => [
    `${new S3Error(name).status} ${code(name)}`,
    typeof operations === "string" ? operations : operations.join(", "),
    why,
  ]);
  return table(["Answer", "Of", "When"], rows);
}

/** Name of a table's marks → its text. */
export const readmeTables = {
  settings: settingsTable,
  metrics: metricsTable,
  commands: cliTable,
  operations: operationsTable,
  refusals: refusalsTable,
} as const satisfies Record<string, () => string>;
