// `headgate cluster ping ID [--probe] [--bucket B]`: whether a cluster answers, and what it was seen to do
// beside what its configuration says.

import type { Call, Command } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { fieldsOf, printProblem, rowsOf, tableText } from "./output.ts";

async function ping(call: Call): Promise<number> {
  const query = new URLSearchParams();
  const bucket = call.text("bucket");
  if (call.has("probe") || bucket !== null) query.set("probe", "true");
  if (bucket !== null) query.set("bucket", bucket);
  const id = encodeURIComponent(call.operands[0] ?? "");
  const path = `/admin/v1/clusters/${id}/ping${query.size === 0 ? "" : `?${query.toString()}`}`;
  const answer = await call.client.ask({ method: "POST", path, body: {} });
  if (answer.kind === "problem") return printProblem(call, answer);
  const fields = fieldsOf(answer.body);
  if (call.json) call.io.stdout(`${JSON.stringify(answer.body)}\n`);
  else call.io.stdout(pingText(fields) + probeText(fields["probe"]));
  if (fields["reachable"] !== true) return exitCodes.unreachable;
  const failed = fields["status"] !== 200 || "failed" in fieldsOf(fields["probe"]);
  return failed ? exitCodes.failed : exitCodes.ok;
}

type Fields = ReturnType<typeof fieldsOf>;

function textOf(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? "nothing" : value.join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

function pingText(fields: Fields): string {
  const { cluster, reachable, reason, status, code, latency_ms: latency, server } = fields;
  if (reachable !== true) return `Cluster ${textOf(cluster)} does not answer: ${textOf(reason)}\n`;
  const { clock_skew_ms: skew } = fields;
  const clock = typeof skew === "number" ? `, clock ${skew / 1000} s ahead of ours` : "";
  const name = typeof server === "string" ? `, server ${server}` : "";
  const answers = typeof code === "string" ? `${textOf(status)} ${code}` : textOf(status);
  const answered = `Cluster ${textOf(cluster)} answers ${answers} in ${textOf(latency)} ms${clock}${name}\n`;
  return answered + mismatchText(fields);
}

function mismatchText({ seen_as: seen, profile_mismatch: facts }: Fields): string {
  if (!Array.isArray(facts) || facts.length === 0) return "";
  const kind = seen === "rgw" ? "It is a Ceph RGW" : "It is no Ceph RGW";
  return `${kind}, which its profile is not for. Not relied on: ${textOf(facts)}\n`;
}

function probeText(probe: unknown): string {
  const fields = fieldsOf(probe);
  if (Object.keys(fields).length === 0) return "";
  if ("failed" in fields) return `The probe failed: ${textOf(fields["failed"])}\n`;
  const best = fieldsOf(probe)["best_profiles"];
  const own = fields["best_differs"];
  const lines = [
    `Profile that fits best: ${textOf(best)}; configured: ${textOf(fields["configured_profile"])}`,
    `Facts that even that one has otherwise: ${textOf(own)}`,
    `Facts that the configuration has otherwise: ${textOf(fields["differs"])}`,
  ];
  const table = tableText(["fact", "seen", "configured"], rowsOf(probe, "facts"));
  return `${table}${lines.join("\n")}\n`;
}

export const pingCommand: Command = {
  name: "cluster ping",
  operands: "ID",
  summary: "Ask whether a cluster answers; with --probe, what it can do",
  flags: {
    probe: { summary: "Find the profile that describes it, by small requests" },
    bucket: { value: "B", summary: "Probe in this bucket (one that is made for it)" },
  },
  admin: true,
  run: ping,
};
