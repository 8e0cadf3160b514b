// Prints answers: the API's JSON as it came, or a table of chosen columns.

import type { AdminAnswer, Question } from "./admin-client.ts";
import type { Call } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Fields of a JSON object; none for anything else. */
export function fieldsOf(value: unknown): Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value))
    : {};
}

/** The objects of a list under a key. */
export function rowsOf(body: unknown, key: string): readonly Fields[] {
  const list = fieldsOf(body)[key];
  return Array.isArray(list) ? list.map(fieldsOf) : [];
}

/** `-` for nothing, numbers and text as they are, JSON for the rest. */
function cellText(value: unknown): string {
  if (value === null || value === undefined || value === "") return "-";
  if (typeof value === "string") return value;
  return typeof value === "boolean" ? (value ? "yes" : "no") : JSON.stringify(value);
}

/** Aligned columns; a column of numbers only stands right. */
export function tableText(columns: readonly string[], rows: readonly Fields[]): string {
  const cells = rows.map((row) => columns.map((column) => cellText(row[column])));
  const widths = columns.map((name, index) =>
    Math.max(name.length, ...cells.map((row) => row[index]?.length ?? 0)),
  );
  const right = columns.map(
    (name) => rows.length > 0 && rows.every((row) => typeof row[name] === "number"),
  );
  const line = (texts: readonly string[]): string =>
    texts
      .map((text, index) => {
        const width = widths[index] ?? 0;
        return right[index] === true ? text.padStart(width) : text.padEnd(width);
      })
      .join("  ")
      .trimEnd();
  const head = columns.map((name) => name.toUpperCase().replaceAll("_", " "));
  return [head, ...cells].map((row) => `${line(row)}\n`).join("");
}

/** `name  value` lines of one object. */
export function fieldsText(fields: Fields): string {
  const width = Math.max(0, ...Object.keys(fields).map((name) => name.length));
  return Object.entries(fields)
    .map(([name, value]) => `${name.padEnd(width)}  ${cellText(value)}\n`)
    .join("");
}

/** Asks and prints what came; `show` makes the text of the table form. */
export async function printAnswer(
  call: Call,
  question: Question,
  show: (body: unknown) => string,
): Promise<number> {
  const answer = await call.client.ask(question);
  if (answer.kind === "problem") return printProblem(call, answer);
  if (answer.warning !== null) call.io.stderr(`Warning: ${answer.warning}\n`);
  call.io.stdout(call.json ? `${JSON.stringify(answer.body)}\n` : show(answer.body));
  return exitCodes.ok;
}

export function printProblem(
  call: Call,
  problem: Extract<AdminAnswer, { readonly kind: "problem" }>,
): number {
  call.io.stderr(`${problem.message}\n`);
  return problem.exit;
}

/** Makes a change, or shows its effect with `--dry-run`; says what was done on standard error. */
export async function makeChange(
  call: Call,
  question: Question,
  doneText: string,
): Promise<number> {
  const separator = question.path.includes("?") ? "&" : "?";
  const path = call.has("dry-run") ? `${question.path}${separator}dry_run=true` : question.path;
  const answer = await call.client.ask({ ...question, path, ifMatch: call.text("if-match") });
  if (answer.kind === "problem") return printProblem(call, answer);
  if (answer.warning !== null) call.io.stderr(`Warning: ${answer.warning}\n`);
  if (call.has("dry-run")) {
    const { effect, warning } = fieldsOf(answer.body);
    if (typeof warning === "string") call.io.stderr(`Warning: ${warning}\n`);
    call.io.stdout(call.json ? `${JSON.stringify(answer.body)}\n` : fieldsText(fieldsOf(effect)));
    return exitCodes.ok;
  }
  if (call.json) call.io.stdout("{}\n");
  else call.io.stderr(`${doneText}\n`);
  return exitCodes.ok;
}
