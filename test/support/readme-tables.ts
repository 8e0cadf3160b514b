// The README's tables of settings, metrics and commands, made from the code that declares them. The
// README holds each between `<!-- settings -->` and `<!-- /settings -->`, and so on.

import { metricFacts } from "../../proxy/admin/metric-names.ts";
import { commands } from "../../proxy/cli/main-command.ts";
import { settings } from "../../proxy/config/schema.ts";
import { listSettings } from "../../proxy/config/setting-list.ts";

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

/** Name of a table's marks → its text. */
export const readmeTables = {
  settings: settingsTable,
  metrics: metricsTable,
  commands: cliTable,
} as const satisfies Record<string, () => string>;
