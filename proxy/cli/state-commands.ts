// `headgate state`, `member list`, `status`, `audit`, `wait`: what a running Headgate says of itself.

import { readDuration } from "../config/values.ts";
import { type Call, type Command, changeFlags } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { fieldsOf, fieldsText, makeChange, printAnswer, rowsOf, tableText } from "./output.ts";

const v1 = "/admin/v1";
const memberColumns = ["id", "node_id", "mode", "alive", "version", "started_at"];
const pollMs = 200;

async function waitReady(call: Call): Promise<number> {
  if (!call.has("ready")) {
    call.io.stderr("Needs --ready\n");
    return exitCodes.usage;
  }
  const given = readDuration(call.text("timeout") ?? "30s");
  const limitMs = given.kind === "value" ? given.value : 0;
  const { clock } = call.io;
  const deadlineMs = clock.monotonicMs() + limitMs;
  const never = new AbortController().signal;
  for (;;) {
    const leftMs = deadlineMs - clock.monotonicMs();
    const question = { method: "GET", path: "/readyz" } as const;
    const answer = await call.client.ask(question, Math.max(1, Math.min(leftMs, 2000)));
    if (answer.kind === "answer") {
      call.io.stderr("Ready\n");
      return exitCodes.ok;
    }
    if (clock.monotonicMs() + pollMs >= deadlineMs) {
      call.io.stderr(`Not ready: ${answer.message}\n`);
      return exitCodes.notReady;
    }
    await clock.sleep(pollMs, never);
  }
}

export const stateCommands: readonly Command[] = [
  {
    name: "status",
    operands: "",
    summary: "Show health, version and members in short",
    flags: {},
    admin: true,
    run: (call) =>
      printAnswer(call, { method: "GET", path: `${v1}/cluster/status` }, (body) =>
        fieldsText(fieldsOf(body)),
      ),
  },
  {
    name: "state",
    operands: "",
    summary: "Show the applied revision, open buckets and members",
    flags: {},
    admin: true,
    run: (call) =>
      printAnswer(call, { method: "GET", path: `${v1}/state` }, (body) => {
        const { members: _members, open_buckets: _open, ...others } = fieldsOf(body);
        const { conflicts: _conflicts, ...rest } = others;
        const open = rowsOf(body, "open_buckets");
        const conflicts = rowsOf(body, "conflicts");
        return [
          fieldsText(rest),
          open.length === 0 ? "" : `\n${tableText(["tenant", "name", "phase"], open)}`,
          conflicts.length === 0 ? "" : `\n${tableText(["tenant", "name", "clusters"], conflicts)}`,
          `\n${tableText(memberColumns, rowsOf(body, "members"))}`,
        ].join("");
      }),
  },
  {
    name: "member list",
    operands: "",
    summary: "List the processes of this installation",
    flags: {},
    admin: true,
    run: (call) =>
      printAnswer(call, { method: "GET", path: `${v1}/members` }, (body) =>
        tableText(memberColumns, rowsOf(body, "members")),
      ),
  },
  {
    name: "member forget",
    operands: "ID",
    summary: "Declare a dead process gone, so that nobody awaits it",
    flags: { "dry-run": changeFlags["dry-run"] },
    admin: true,
    run: (call) => {
      const [id = ""] = call.operands;
      const path = `${v1}/members/${encodeURIComponent(id)}`;
      return makeChange(call, { method: "DELETE", path }, `Member ${id} is forgotten`);
    },
  },
  {
    name: "audit",
    operands: "",
    summary: "Show what was changed through this process, newest first",
    flags: { limit: { value: "N", summary: "At most this many (100)" } },
    admin: true,
    run: (call) => {
      const query = new URLSearchParams({ limit: call.text("limit") ?? "100" });
      const path = `${v1}/audit?${query.toString()}`;
      const columns = ["time", "action", "resource", "actor", "detail"];
      return printAnswer(call, { method: "GET", path }, (body) =>
        tableText(columns, rowsOf(body, "events")),
      );
    },
  },
  {
    name: "wait",
    operands: "",
    summary: "Wait until a running Headgate is ready; exit 7 when it is not in time",
    flags: { ready: { summary: "Wait for readiness" } },
    admin: true,
    run: waitReady,
  },
];
