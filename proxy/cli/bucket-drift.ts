// `headgate bucket drift BUCKET [--heal] [--from ID]`: where the clusters of a bucket do not say the same.

import type { Call, Command } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { fieldsOf, printProblem, rowsOf, tableText } from "./output.ts";

async function drift(call: Call): Promise<number> {
  const path = `/admin/v1/buckets/${encodeURIComponent(call.operands[0] ?? "")}/drift`;
  const from = call.text("from");
  const answer = await call.client.ask(
    call.has("heal")
      ? { method: "POST", path, body: from === null ? {} : { from } }
      : { method: "GET", path: from === null ? path : `${path}?from=${encodeURIComponent(from)}` },
  );
  if (answer.kind === "problem") return printProblem(call, answer);
  const rows = rowsOf(answer.body, "drift");
  if (call.json) call.io.stdout(`${JSON.stringify(answer.body)}\n`);
  else call.io.stdout(tableText(["setting", "cluster", "kind", "outcome", "detail"], rows));
  const reference = fieldsOf(answer.body)["compared_with"];
  const left = rows.filter((row) => row["outcome"] !== "healed").length;
  const compared = typeof reference === "string" ? `compared with ${reference}` : "on no cluster";
  call.io.stderr(`${left === 0 ? "No drift is left" : `${left} differences`}, ${compared}\n`);
  return left === 0 && typeof reference === "string" ? exitCodes.ok : exitCodes.failed;
}

export const driftCommand: Command = {
  name: "bucket drift",
  operands: "BUCKET",
  summary: "Show how the settings of a bucket differ over its clusters; with --heal, even them out",
  flags: {
    heal: { summary: "Make the other clusters say what the first one says" },
    from: { value: "ID", summary: "Compare with this cluster, not with the first" },
  },
  admin: true,
  run: drift,
};
