// `headgate bucket …`: records of buckets and their own placement.

import { driftCommand } from "./bucket-drift.ts";
import { type Call, type Command, changeFlags } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { fieldsOf, fieldsText, makeChange, printAnswer, rowsOf, tableText } from "./output.ts";

const v1 = "/admin/v1";

function bucketPath(call: Call, rest = ""): string {
  return `${v1}/buckets/${encodeURIComponent(call.operands[0] ?? "")}${rest}`;
}

function list(call: Call): Promise<number> {
  const query = new URLSearchParams();
  for (const name of ["prefix", "tenant", "after", "limit"]) {
    const given = call.text(name);
    if (given !== null) query.set(name, given);
  }
  const path = `${v1}/buckets?${query.toString()}`;
  return printAnswer(call, { method: "GET", path }, (body) => {
    const next = fieldsOf(body)["next_after"];
    if (typeof next === "string") call.io.stderr(`More: --after ${next}\n`);
    const columns = ["name", "tenant", "origin", "mode", "phase", "frozen", "owner"];
    return tableText(columns, rowsOf(body, "buckets"));
  });
}

/** `--weights a=70,b=30`. */
function setPlacement(call: Call): Promise<number> {
  const given = call.text("weights") ?? "";
  const placement: Record<string, number> = {};
  for (const part of given.split(",")) {
    const match = /^([^=]+)=(\d{1,3})$/.exec(part.trim());
    if (match === null) {
      call.io.stderr(`Weights "${given}" are not readable, write --weights a=70,b=30\n`);
      return Promise.resolve(exitCodes.usage);
    }
    placement[match[1] ?? ""] = Number(match[2]);
  }
  const mode = call.text("mode");
  const spread = call.text("spread");
  const body = {
    placement,
    ...(mode === null ? {} : { mode }),
    ...(spread === null ? {} : { spread }),
  };
  const question = { method: "PUT", path: bucketPath(call, "/placement"), body } as const;
  return makeChange(call, question, `Bucket ${call.operands[0] ?? ""} has a placement of its own`);
}

function freeze(verb: "freeze" | "unfreeze"): Command["run"] {
  return (call) =>
    makeChange(
      call,
      { method: "POST", path: bucketPath(call, `/${verb}`), body: {} },
      `Bucket ${call.operands[0] ?? ""} is ${verb === "freeze" ? "frozen" : "not frozen"}`,
    );
}

export const bucketCommands: readonly Command[] = [
  {
    name: "bucket list",
    operands: "",
    summary: "List bucket records",
    flags: {
      prefix: { value: "TEXT", summary: "Names that begin with this" },
      tenant: { value: "NAME", summary: "Buckets of one tenant" },
      after: { value: "NAME", summary: "Names behind this one" },
      limit: { value: "N", summary: "At most this many (1000)" },
    },
    admin: true,
    run: list,
  },
  {
    name: "bucket show",
    operands: "BUCKET",
    summary: "Show one bucket's record; tenant:bucket names a tenant",
    flags: {},
    admin: true,
    run: (call) =>
      printAnswer(call, { method: "GET", path: bucketPath(call) }, (body) =>
        fieldsText(fieldsOf(body)),
      ),
  },
  {
    name: "bucket placement get",
    operands: "BUCKET",
    summary: "Show a bucket's own placement",
    flags: {},
    admin: true,
    run: (call) =>
      printAnswer(call, { method: "GET", path: bucketPath(call, "/placement") }, (body) =>
        fieldsText(fieldsOf(body)),
      ),
  },
  {
    name: "bucket placement set",
    operands: "BUCKET",
    summary: "Give a bucket its own placement; it must be empty if keys would move",
    flags: {
      weights: { value: "a=70,b=30", summary: "Clusters with weights 0 to 100" },
      mode: { value: "weighted|strict", summary: "strict never leaves the placement (weighted)" },
      spread: { value: "object|prefix|bucket", summary: "What is spread (object)" },
      ...changeFlags,
    },
    admin: true,
    run: setPlacement,
  },
  {
    name: "bucket placement clear",
    operands: "BUCKET",
    summary: "Take a bucket's own placement away",
    flags: changeFlags,
    admin: true,
    run: (call) =>
      makeChange(
        call,
        { method: "DELETE", path: bucketPath(call, "/placement") },
        `Bucket ${call.operands[0] ?? ""} has no placement of its own`,
      ),
  },
  driftCommand,
  {
    name: "bucket freeze",
    operands: "BUCKET",
    summary: "Keep a bucket where it is, whatever changes",
    flags: changeFlags,
    admin: true,
    run: freeze("freeze"),
  },
  {
    name: "bucket unfreeze",
    operands: "BUCKET",
    summary: "Let a bucket follow changes again",
    flags: changeFlags,
    admin: true,
    run: freeze("unfreeze"),
  },
];
