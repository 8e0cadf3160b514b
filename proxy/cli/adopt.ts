// `headgate adopt [--dry-run] [--after NAME]`: all pages of the adoption, one after the other.

import type { Call, Command } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { fieldsOf, printProblem, rowsOf, tableText } from "./output.ts";

const pageLimit = 200;

async function adopt(call: Call): Promise<number> {
  const dry = call.has("dry-run");
  let after = call.text("after") ?? "";
  let rows: readonly Readonly<Record<string, unknown>>[] = [];
  let [known, unclear, conflicts] = [0, 0, 0];
  for (let isFirst = true; ; isFirst = false) {
    const query = new URLSearchParams({ after, limit: String(pageLimit), dry_run: String(dry) });
    const path = `/admin/v1/adopt?${query.toString()}`;
    const answer = await call.client.ask({ method: "POST", path, body: {} });
    if (answer.kind === "problem") {
      if (after !== "") call.io.stderr(`Go on with --after ${after}\n`);
      return printProblem(call, answer);
    }
    if (isFirst) tellPartial(call, answer.body);
    rows = rowsOf(answer.body, "buckets");
    if (call.json) call.io.stdout(`${JSON.stringify(answer.body)}\n`);
    else if (isFirst || rows.length > 0) call.io.stdout(pageText(rows));
    unclear += rows.filter(({ outcome }) => outcome === "unclear").length;
    conflicts += rows.filter(({ conflict }) => conflict === true).length;
    const { known: counted, next_after: next } = fieldsOf(answer.body);
    known += typeof counted === "number" ? counted : 0;
    if (typeof next !== "string") break;
    after = next;
  }
  const told = [`${known} known before`];
  if (conflicts > 0) told.push(`${conflicts} on several clusters`);
  if (unclear > 0) told.push(`${unclear} unclear, run it again`);
  call.io.stderr(`${dry ? "Nothing was changed" : "Done"}: ${told.join(", ")}\n`);
  return unclear > 0 ? exitCodes.failed : exitCodes.ok;
}

/** An RGW shows all its buckets only to keys that may see them. */
function tellPartial(call: Call, body: unknown): void {
  for (const { cluster, all } of rowsOf(body, "clusters")) {
    if (all === true) continue;
    call.io.stderr(
      `Cluster ${String(cluster)} lists the buckets of its own keys only; an RGW lists all to caps buckets=read\n`,
    );
  }
}

function pageText(rows: readonly Readonly<Record<string, unknown>>[]): string {
  const columns = ["bucket", "clusters", "outcome", "conflict", "detail"];
  return tableText(
    columns,
    rows.map((row) => ({
      ...row,
      clusters: Array.isArray(row["clusters"]) ? row["clusters"].join(",") : "",
    })),
  );
}

export const adoptCommand: Command = {
  name: "adopt",
  operands: "",
  summary: "Record all buckets that the clusters have already; with --dry-run, show them",
  flags: {
    "dry-run": { summary: "Show what would be recorded, change nothing" },
    after: { value: "NAME", summary: "Names behind this one, where an earlier run ended" },
  },
  admin: true,
  run: adopt,
};
