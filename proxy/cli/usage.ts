// The usage texts, made from the commands' own facts.

import { adminFlags, type Command, type FlagFacts, flagsOf } from "./command.ts";

function flagHead(name: string, facts: FlagFacts): string {
  const short = facts.short === undefined ? "" : `-${facts.short}, `;
  const value = facts.value === undefined ? "" : ` ${facts.value}`;
  return `${short}--${name}${value}`;
}

function columns(rows: readonly (readonly [string, string])[]): string {
  const width = Math.max(...rows.map(([head]) => head.length));
  return rows.map(([head, text]) => `  ${head.padEnd(width)}  ${text}\n`).join("");
}

export function overviewText(commands: readonly Command[]): string {
  const rows = commands.map(({ name, operands, summary }): [string, string] => [
    `${name} ${operands}`.trimEnd(),
    summary,
  ]);
  rows.push(["policy build|test|check", "Work on policy bundles; headgate policy -h"]);
  return `Usage: headgate COMMAND [flags]

A transparent S3 proxy that places objects over several clusters.

${columns(rows)}
Flags of commands that ask a running Headgate:
${columns(Object.entries(adminFlags).map(([name, facts]) => [flagHead(name, facts), facts.summary]))}
Exit codes: 0 done, 1 failed, 2 wrong usage, 4 not found, 5 conflict, 6 unreachable, 7 not ready.
headgate COMMAND -h tells more.
`;
}

export function commandText(command: Command): string {
  const flags = Object.entries(flagsOf(command));
  const operands = command.operands === "" ? "" : ` ${command.operands}`;
  const options = flags.map(([name, facts]): [string, string] => [
    flagHead(name, facts),
    facts.summary,
  ]);
  options.push(["-h, --help", "Show this"]);
  return `Usage: headgate ${command.name}${operands} [flags]

${command.summary}.

${columns(options)}`;
}
