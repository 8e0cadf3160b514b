// The command line: finds the command, reads its flags, runs it, gives back the exit code. Standard
// output carries data, standard error talk.

import { parseArgs } from "node:util";
import { reasonOf } from "../config/checks.ts";
import { nearestName, readDuration } from "../config/values.ts";
import { AdminClient } from "./admin-client.ts";
import { adoptCommand } from "./adopt.ts";
import { bucketCommands } from "./bucket-commands.ts";
import { clusterCommands } from "./cluster-commands.ts";
import { type Call, type CliIo, type Command, flagsOf, type Starters } from "./command.ts";
import { configCommands } from "./config-commands.ts";
import { credsCommands } from "./creds-commands.ts";
import { exitCodes } from "./exit-codes.ts";
import { explainSignature } from "./explain-signature.ts";
import { runPolicyCommand } from "./policy.ts";
import { stateCommands } from "./state-commands.ts";
import { commandText, overviewText } from "./usage.ts";

export type { CliIo, Starters } from "./command.ts";

/** Every command but `policy`, which reads its own flags as `opa` does. */
export const commands: readonly Command[] = [
  ...configCommands,
  ...clusterCommands,
  ...bucketCommands,
  adoptCommand,
  ...credsCommands,
  ...stateCommands,
  explainSignature,
];

/** `argv`: what follows `headgate`. */
export async function runCli(
  argv: readonly string[],
  io: CliIo,
  starters: Starters,
): Promise<number> {
  const [first] = argv;
  if (first === undefined) {
    io.stderr(overviewText(commands));
    return exitCodes.usage;
  }
  if (first === "-h" || first === "--help" || first === "help") {
    io.stdout(overviewText(commands));
    return exitCodes.ok;
  }
  if (first === "policy") return await runPolicyCommand(argv.slice(1), io);
  if (first === "--version") return await runCli(["version"], io, starters);
  const command = findCommand(argv);
  if (command === null) return reportUnknown(argv, io);
  const rest = argv.slice(command.name.split(" ").length);
  if (rest.includes("-h") || rest.includes("--help")) {
    io.stdout(commandText(command));
    return exitCodes.ok;
  }
  const call = readCall(command, rest, { io, starters });
  if (typeof call === "string") {
    io.stderr(`${call}\n\n${commandText(command)}`);
    return exitCodes.usage;
  }
  return await command.run(call);
}

/** The command whose words stand first; the longest one. */
function findCommand(argv: readonly string[]): Command | null {
  const words = (command: Command) => command.name.split(" ");
  const found = commands.filter((command) =>
    words(command).every((word, index) => argv[index] === word),
  );
  return found.toSorted((a, b) => words(b).length - words(a).length)[0] ?? null;
}

function reportUnknown(argv: readonly string[], io: CliIo): number {
  const end = argv.findIndex((word) => word.startsWith("-"));
  const words = argv.slice(0, end === -1 ? argv.length : end);
  if (words.length === 0) {
    io.stderr("Flags come after the command\n");
    return exitCodes.usage;
  }
  const inGroup = commands.filter((command) => command.name.startsWith(`${words[0] ?? ""} `));
  if (inGroup.length > 0) {
    const nearest = nearestVerb(words, inGroup);
    const hint =
      nearest === null
        ? `Commands: ${inGroup.map(({ name }) => `headgate ${name}`).join(", ")}`
        : `Unknown command "${words.join(" ")}", nearest is "${nearest}"`;
    io.stderr(`${hint}\n`);
    return exitCodes.usage;
  }
  const names = commands.map(({ name }) => name);
  const nearest =
    nearestName(words.slice(0, 2).join(" "), names) ?? nearestName(words[0] ?? "", names);
  const hint = nearest === null ? "headgate -h lists all" : `nearest is "${nearest}"`;
  io.stderr(`Unknown command "${words.join(" ")}", ${hint}\n`);
  return exitCodes.usage;
}

/** The command of a group whose further words are closest; what stands behind them are operands. */
function nearestVerb(words: readonly string[], group: readonly Command[]): string | null {
  for (const count of [3, 2]) {
    const given = words.slice(1, count);
    if (given.length < count - 1) continue;
    const verbs = group.flatMap(({ name }) => {
      const own = name.split(" ");
      return own.length === count ? [own.slice(1).join(" ")] : [];
    });
    const nearest = nearestName(given.join(" "), verbs);
    if (nearest !== null) return `${words[0] ?? ""} ${nearest}`;
  }
  return null;
}

type Values = Readonly<Record<string, string | boolean | (string | boolean)[] | undefined>>;

/** Reads flags and operands; a text tells what is wrong. */
function readCall(
  command: Command,
  argv: readonly string[],
  world: { readonly io: CliIo; readonly starters: Starters },
): Call | string {
  const parsed = parseFlags(command, argv);
  if (typeof parsed === "string") return parsed;
  const { values, operands } = parsed;
  const wanted = command.operands === "" ? [] : command.operands.split(" ");
  const open = command.operands.endsWith("...");
  if (operands.length < wanted.length || (!open && operands.length > wanted.length)) {
    return wanted.length === 0 ? "Takes no operand" : `Needs ${command.operands}`;
  }
  const text = (flag: string): string | null => {
    const value = values[flag];
    return typeof value === "string" ? value : null;
  };
  const output = text("output") ?? "table";
  if (output !== "json" && output !== "table") return `Output "${output}" needs json or table`;
  const client = command.admin ? readClient(text, world.io) : noClient(world.io);
  if (typeof client === "string") return client;
  return {
    operands,
    text,
    texts: (flag) => {
      const value = values[flag];
      return Array.isArray(value) ? value.filter((each) => typeof each === "string") : [];
    },
    has: (flag) => values[flag] === true,
    ...world,
    client,
    json: values["json"] === true || output === "json",
  };
}

function parseFlags(
  command: Command,
  argv: readonly string[],
): { readonly values: Values; readonly operands: readonly string[] } | string {
  const options = Object.fromEntries(
    Object.entries(flagsOf(command)).map(([name, facts]) => [
      name,
      {
        type: facts.value === undefined ? ("boolean" as const) : ("string" as const),
        multiple: facts.multiple ?? false,
        ...(facts.short === undefined ? {} : { short: facts.short }),
      },
    ]),
  );
  try {
    const parsed = parseArgs({ args: [...argv], options, allowPositionals: true, strict: true });
    return { values: parsed.values, operands: parsed.positionals };
  } catch (error) {
    return flagFault(error, command);
  }
}

/** What node:util has against a flag, in our words. */
function flagFault(error: unknown, command: Command): string {
  const told = error instanceof Error ? error.message : "";
  const [, given = ""] = /'(?:-\w, )?(--?[\w-]+)/.exec(told) ?? [];
  const name = given.replace(/^-+/, "");
  const facts = flagsOf(command);
  const known = facts[name] ?? Object.values(facts).find(({ short }) => short === name);
  if (known?.value !== undefined) return `Flag "${given}" needs ${known.value}`;
  if (known !== undefined) return `Flag "${given}" takes no value`;
  const names = Object.keys(facts);
  const nearest = names.find((each) => each.startsWith(name)) ?? nearestName(name, names);
  if (given === "" || name.length < 2 || nearest === null) return `Unknown flag "${given}"`;
  return `Unknown flag "${given}", nearest is "--${nearest}"`;
}

function readClient(text: (flag: string) => string | null, io: CliIo): AdminClient | string {
  const url = text("admin-url") ?? io.env["HEADGATE_ADMIN_URL"] ?? "http://127.0.0.1:9001";
  if (!URL.canParse(url) || !/^https?:$/.test(new URL(url).protocol)) {
    return `Admin URL "${url}" is not readable, write http://host:port`;
  }
  const timeout = readDuration(text("timeout") ?? "10s");
  if (timeout.kind === "wrong") return timeout.message;
  const file = text("token-file") ?? io.env["HEADGATE_ADMIN_AUTH_TOKEN_FILE"] ?? null;
  const token = file === null ? null : readToken(file, io);
  if (typeof token === "object" && token !== null) {
    return `Cannot read token file "${file}": ${token.reason}`;
  }
  return new AdminClient(io.fetch, { url, token, timeoutMs: timeout.value });
}

function readToken(file: string, io: CliIo): string | { readonly reason: string } {
  try {
    return io.readFile(file).trim();
  } catch (error) {
    return { reason: reasonOf(error) };
  }
}

function noClient(io: CliIo): AdminClient {
  return new AdminClient(io.fetch, { url: "http://127.0.0.1:9001", token: null, timeoutMs: 1 });
}
