// `headgate creds …`: client keys in the state store, and the import of users that an RGW has. A secret
// comes from a file or is made by the server, which tells it once; none is ever taken from a flag,
// where other processes and shell histories would see it.

import { reasonOf } from "../config/checks.ts";
import type { AdminAnswer, Question } from "./admin-client.ts";
import { type Call, type Command, changeFlags } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { fieldsOf, fieldsText, makeChange, printAnswer, rowsOf, tableText } from "./output.ts";
import { credentialsFileOf, readRgwUsers, requestsOf } from "./rgw-users.ts";

const v1 = "/admin/v1";

function keyPath(key: string, rest = ""): string {
  return `${v1}/credentials/${encodeURIComponent(key)}${rest}`;
}

function list(call: Call): Promise<number> {
  const query = new URLSearchParams();
  for (const name of ["after", "limit"]) {
    const given = call.text(name);
    if (given !== null) query.set(name, given);
  }
  const path = `${v1}/credentials?${query.toString()}`;
  return printAnswer(call, { method: "GET", path }, (body) => {
    const next = fieldsOf(body)["next_after"];
    if (typeof next === "string") call.io.stderr(`More: --after ${next}\n`);
    const columns = ["access_key", "uid", "tenant", "status", "groups", "grants"];
    return tableText(columns, rowsOf(body, "credentials"));
  });
}

/** The grant that `--allow` and `--buckets` stand for; none without them. */
function grantsOf(call: Call): readonly unknown[] {
  const allow = call.text("allow");
  if (allow === null) return [];
  return [{ buckets: namesOf(call.text("buckets") ?? "*"), keys: ["*"], allow: namesOf(allow) }];
}

function namesOf(text: string): readonly string[] {
  return text
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

/** Undefined: it cannot be read, which was said. Null: none was named. */
function secretOf(call: Call): string | null | undefined {
  const file = call.text("secret-key-file");
  if (file === null) return null;
  try {
    return readText(call, file).replace(/\r?\n$/, "");
  } catch (error) {
    call.io.stderr(`Cannot read file "${file}": ${reasonOf(error)}\n`);
    return undefined;
  }
}

function readText(call: Call, file: string): string {
  return call.io.readFile(file === "-" ? "/dev/stdin" : file);
}

async function add(call: Call): Promise<number> {
  const uid = call.text("uid");
  if (uid === null) {
    call.io.stderr("Needs --uid, the user that the key stands for\n");
    return exitCodes.usage;
  }
  const secret = secretOf(call);
  if (secret === undefined) return exitCodes.failed;
  const [key = ""] = call.operands;
  const body = {
    uid,
    display_name: call.text("display-name"),
    tenant: call.text("tenant"),
    groups: namesOf(call.text("groups") ?? ""),
    grants: grantsOf(call),
    ...(secret === null ? {} : { secret_key: secret }),
  };
  return await store(call, { method: "PUT", path: keyPath(key), body }, `Key ${key} is kept`);
}

async function rotate(call: Call): Promise<number> {
  const secret = secretOf(call);
  if (secret === undefined) return exitCodes.failed;
  const [key = ""] = call.operands;
  const body = secret === null ? {} : { secret_key: secret };
  const question: Question = { method: "POST", path: keyPath(key, "/rotate"), body };
  return await store(call, question, `Key ${key} has another secret`);
}

/** As any change, but a secret that the server made is printed: it is told this one time. */
async function store(call: Call, question: Question, done: string): Promise<number> {
  if (call.has("dry-run") || "secret_key" in fieldsOf(question.body)) {
    return await makeChange(call, question, done);
  }
  return await printAnswer(call, { ...question, ifMatch: call.text("if-match") }, (body) => {
    call.io.stderr(`${done}\n`);
    return body === null ? "" : fieldsText(fieldsOf(body));
  });
}

function setStatus(verb: "disable" | "enable"): Command["run"] {
  return (call) => {
    const [key = ""] = call.operands;
    const text = verb === "disable" ? "is refused" : "is accepted";
    const question = { method: "POST", path: keyPath(key, `/${verb}`), body: {} } as const;
    return makeChange(call, question, `Key ${key} ${text}`);
  };
}

function remove(call: Call): Promise<number> {
  const [key = ""] = call.operands;
  return makeChange(call, { method: "DELETE", path: keyPath(key) }, `Key ${key} is gone`);
}

async function importUsers(call: Call): Promise<number> {
  const [file = ""] = call.operands;
  const to = call.text("to") ?? "store";
  if (to !== "store" && to !== "file") {
    call.io.stderr(`Target "${to}" needs store or file\n`);
    return exitCodes.usage;
  }
  let text: string;
  try {
    text = readText(call, file);
  } catch (error) {
    call.io.stderr(`Cannot read file "${file}": ${reasonOf(error)}\n`);
    return exitCodes.failed;
  }
  const reading = readRgwUsers(text);
  if (reading.kind === "wrong") {
    call.io.stderr(`${reading.message}\n`);
    return exitCodes.failed;
  }
  for (const warning of reading.warnings) call.io.stderr(`Warning: ${warning}\n`);
  const grants = grantsOf(call);
  if (to === "file") {
    if (grants.length === 0) call.io.stderr(`Warning: ${noGrants}\n`);
    const document = credentialsFileOf(reading.users, grants);
    call.io.stdout(`${JSON.stringify(document, null, 2)}\n`);
    return exitCodes.ok;
  }
  return await storeUsers(call, requestsOf(reading.users, grants));
}

async function storeUsers(call: Call, requests: ReturnType<typeof requestsOf>): Promise<number> {
  let worst: number = exitCodes.ok;
  let kept = 0;
  const dryRun = call.has("dry-run");
  // What is said of many keys is said once.
  const warnings = new Set<string>();
  for (const { accessKeyId, body } of requests) {
    const path = `${keyPath(accessKeyId)}${dryRun ? "?dry_run=true" : ""}`;
    const answer = await call.client.ask({ method: "PUT", path, body });
    if (answer.kind === "answer") {
      kept += 1;
      for (const warning of warningsOf(answer)) warnings.add(warning);
    } else {
      call.io.stderr(`${accessKeyId}: ${answer.message}\n`);
      worst = answer.exit;
    }
  }
  for (const warning of warnings) call.io.stderr(`Warning: ${warning}\n`);
  if (call.json) call.io.stdout(`${JSON.stringify({ imported: kept })}\n`);
  else call.io.stderr(`${kept} keys${dryRun ? " would be" : ""} imported\n`);
  return worst;
}

/** Of a change, or of what a dry run says of one. */
function warningsOf(answer: Extract<AdminAnswer, { readonly kind: "answer" }>): readonly string[] {
  const { warning } = fieldsOf(answer.body);
  const told = typeof warning === "string" ? warning : answer.warning;
  return told === null ? [] : told.split("; ");
}

/** Of a file nobody knows yet which clusters it will stand before. */
const noGrants =
  "Without --allow these users may only list buckets, unless a policy of your own says otherwise or every cluster has identity same";

const grantFlags = {
  allow: {
    value: "LIST",
    summary: "Classes or operations that are granted, read,list,write,delete,admin (none)",
  },
  buckets: { value: "LIST", summary: "Bucket globs of that grant (*)" },
} as const;

const secretFlag = {
  "secret-key-file": {
    value: "FILE|-",
    summary: "File holding the secret; without it one is made and printed once",
  },
} as const;

export const credsCommands: readonly Command[] = [
  {
    name: "creds list",
    operands: "",
    summary: "List client keys in the state store, without secrets",
    flags: {
      after: { value: "KEY", summary: "Keys behind this one" },
      limit: { value: "N", summary: "At most this many (1000)" },
    },
    admin: true,
    run: list,
  },
  {
    name: "creds add",
    operands: "ACCESS_KEY",
    summary: "Keep a client key in the state store, or replace what it stands for",
    flags: {
      uid: { value: "ID", summary: "User that the key stands for" },
      tenant: { value: "NAME", summary: "Tenant of the user (none)" },
      "display-name": { value: "TEXT", summary: "Name of the user" },
      groups: { value: "LIST", summary: "Groups that policy sees" },
      ...grantFlags,
      ...secretFlag,
      ...changeFlags,
    },
    admin: true,
    run: add,
  },
  {
    name: "creds rotate",
    operands: "ACCESS_KEY",
    summary: "Give a client key another secret",
    flags: { ...secretFlag, ...changeFlags },
    admin: true,
    run: rotate,
  },
  {
    name: "creds disable",
    operands: "ACCESS_KEY",
    summary: "Refuse a client key from now on",
    flags: changeFlags,
    admin: true,
    run: setStatus("disable"),
  },
  {
    name: "creds enable",
    operands: "ACCESS_KEY",
    summary: "Accept a disabled client key again",
    flags: changeFlags,
    admin: true,
    run: setStatus("enable"),
  },
  {
    name: "creds remove",
    operands: "ACCESS_KEY",
    summary: "Take a client key out of the state store",
    flags: changeFlags,
    admin: true,
    run: remove,
  },
  {
    name: "creds import",
    operands: "FILE|-",
    summary: "Import what radosgw-admin user info prints: one user or a list of them",
    flags: {
      to: { value: "store|file", summary: "State store, or a credentials file on stdout (store)" },
      ...grantFlags,
      "dry-run": changeFlags["dry-run"],
    },
    admin: true,
    run: importUsers,
  },
];
