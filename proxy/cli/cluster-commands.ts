// `headgate cluster …`, `placement …`, `class …`: the default wheel and what may change it.

import { pingCommand } from "./cluster-ping.ts";
import { type Call, type Command, changeFlags } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { fieldsOf, fieldsText, makeChange, printAnswer, rowsOf, tableText } from "./output.ts";

const v1 = "/admin/v1";
const yes = { yes: { short: "y", summary: "Do not ask at a terminal" } } as const;

function clusterPath(call: Call, rest = ""): string {
  return `${v1}/clusters/${encodeURIComponent(call.operands[0] ?? "")}${rest}`;
}

function usage(call: Call, message: string): Promise<number> {
  call.io.stderr(`${message}\n`);
  return Promise.resolve(exitCodes.usage);
}

/** A weight as the API takes it; null: not one. */
function weightOf(text: string): number | "none" | null {
  if (text === "none") return text;
  return /^\d{1,3}$/.test(text) ? Number(text) : null;
}

async function drain(call: Call): Promise<number> {
  const [id = ""] = call.operands;
  const mode = call.text("mode") ?? "readonly";
  const confirm = call.has("yes") || call.has("dry-run") ? null : call.io.confirm;
  if (confirm !== null) {
    const sure = await confirm(`Drain cluster ${id} (${mode})? New writes go elsewhere.`);
    if (!sure) {
      call.io.stderr("Nothing was changed\n");
      return exitCodes.failed;
    }
  }
  const question = { method: "POST", path: clusterPath(call, "/drain"), body: { mode } } as const;
  return await makeChange(call, question, `Cluster ${id} drains (${mode})`);
}

function activate(call: Call): Promise<number> {
  const given = call.text("weight");
  const weight = given === null ? null : weightOf(given);
  if (given !== null && typeof weight !== "number") {
    return usage(call, `Weight "${given}" is not readable, write 0 to 100`);
  }
  const body = weight === null ? {} : { weight };
  const question = { method: "POST", path: clusterPath(call, "/activate"), body } as const;
  return makeChange(call, question, `Cluster ${call.operands[0] ?? ""} is live`);
}

function setWeight(call: Call): Promise<number> {
  const [id = "", given = ""] = call.operands;
  const weight = weightOf(given);
  if (typeof weight !== "number") {
    return usage(call, `Weight "${given}" is not readable, write 0 to 100`);
  }
  const question = { method: "PUT", path: clusterPath(call, "/weight"), body: { weight } } as const;
  return makeChange(call, question, `Cluster ${id} has weight ${weight}`);
}

/** `a=1 b=3 rest=1`, `a=none`, or `none` alone. */
function setWeights(call: Call): Promise<number> {
  const { operands } = call;
  if (operands.length === 1 && operands[0] === "none") return clearWeights(call);
  const weights: Record<string, number | "none"> = {};
  let rest: number | "none" | undefined;
  for (const operand of operands) {
    const [name = "", given = ""] = operand.split("=");
    const weight = operand.split("=").length === 2 ? weightOf(given) : null;
    if (weight === null || name === "") {
      return usage(call, `"${operand}" is not readable, write ID=N, ID=none or rest=N`);
    }
    if (name === "rest") rest = weight;
    else weights[name] = weight;
  }
  const body = rest === undefined ? { weights } : { weights, rest };
  return makeChange(call, { method: "PUT", path: `${v1}/weights`, body }, "Weights are set");
}

function clearWeights(call: Call): Promise<number> {
  const question = { method: "PUT", path: `${v1}/weights`, body: { clear: true } } as const;
  return makeChange(call, question, "Weights are cleared, every live cluster counts the same");
}

function classPath(call: Call): string {
  return `${v1}/storage-classes/${encodeURIComponent(call.operands[0] ?? "")}`;
}

export const clusterCommands: readonly Command[] = [
  {
    name: "cluster list",
    operands: "",
    summary: "List clusters with state and weight",
    flags: {},
    admin: true,
    run: (call) =>
      printAnswer(call, { method: "GET", path: `${v1}/clusters` }, (body) =>
        tableText(
          ["id", "state", "weight", "configured_weight", "backend"],
          rowsOf(body, "clusters"),
        ),
      ),
  },
  {
    name: "cluster show",
    operands: "ID",
    summary: "Show one cluster's record",
    flags: {},
    admin: true,
    run: (call) =>
      printAnswer(call, { method: "GET", path: clusterPath(call) }, (body) =>
        fieldsText(fieldsOf(body)),
      ),
  },
  {
    name: "cluster activate",
    operands: "ID",
    summary: "Let a pending cluster take new bytes",
    flags: { weight: { value: "N", summary: "0 to 100 (the mean of the others)" }, ...changeFlags },
    admin: true,
    run: activate,
  },
  {
    name: "cluster weight",
    operands: "ID N",
    summary: "Set the weight of a live cluster",
    flags: changeFlags,
    admin: true,
    run: setWeight,
  },
  {
    name: "cluster drain",
    operands: "ID",
    summary: "Stop new bytes going to a cluster; reads go on",
    flags: {
      mode: { value: "readonly|evacuate", summary: "How far to drain (readonly)" },
      ...changeFlags,
      ...yes,
    },
    admin: true,
    run: drain,
  },
  {
    name: "cluster undrain",
    operands: "ID",
    summary: "Take a draining cluster back, with its weight",
    flags: changeFlags,
    admin: true,
    run: (call) =>
      makeChange(
        call,
        { method: "POST", path: clusterPath(call, "/undrain"), body: {} },
        `Cluster ${call.operands[0] ?? ""} is live`,
      ),
  },
  pingCommand,
  {
    name: "placement show",
    operands: "",
    summary: "Show the configured share of each live cluster",
    flags: {},
    admin: true,
    run: (call) =>
      printAnswer(call, { method: "GET", path: `${v1}/placement` }, (body) =>
        tableText(["id", "weight", "share"], rowsOf(body, "clusters")),
      ),
  },
  {
    name: "placement set-weights",
    operands: "ID=N...",
    summary: "Set weights at once: ID=N, ID=none, rest=N, or none",
    flags: changeFlags,
    admin: true,
    run: setWeights,
  },
  {
    name: "placement clear-weights",
    operands: "",
    summary: "Let every live cluster count the same",
    flags: changeFlags,
    admin: true,
    run: clearWeights,
  },
  {
    name: "class list",
    operands: "",
    summary: "List storage classes that are pinned to a cluster",
    flags: {},
    admin: true,
    run: (call) =>
      printAnswer(call, { method: "GET", path: `${v1}/storage-classes` }, (body) =>
        tableText(["class", "cluster"], rowsOf(body, "classes")),
      ),
  },
  {
    name: "class set",
    operands: "CLASS CLUSTER",
    summary: "Pin a storage class to a cluster",
    flags: changeFlags,
    admin: true,
    run: (call) =>
      makeChange(
        call,
        { method: "PUT", path: classPath(call), body: { cluster: call.operands[1] ?? "" } },
        `Class ${call.operands[0] ?? ""} goes to ${call.operands[1] ?? ""}`,
      ),
  },
  {
    name: "class clear",
    operands: "CLASS",
    summary: "Take a storage class's pin away",
    flags: changeFlags,
    admin: true,
    run: (call) =>
      makeChange(
        call,
        { method: "DELETE", path: classPath(call) },
        `Class ${call.operands[0] ?? ""} is not pinned`,
      ),
  },
];
