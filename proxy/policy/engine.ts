// One compiled bundle with its data, ready to evaluate. Checked before it serves: ABI, imports,
// builtins, entrypoints. An evaluation never throws: whatever goes wrong inside (an abort, a trap, a
// thrown string) is a `trap`, and the WASM instance is replaced before the next one. The data of a
// serving instance is never changed: another data is another engine (policy.md §3, §10).

// oxlint-disable-next-line typescript/triple-slash-reference -- ambient declarations have no import
/// <reference path="./opa-wasm.d.ts" />

import opa from "@open-policy-agent/opa-wasm";
import { type Clock, type Entrypoint, FaultError, type Meter } from "../placement/ports.ts";
import { bindBuiltins, hostBuiltins, isDeterministic } from "./builtins.ts";
import type { JsonObject, MemoFields, PolicyBundle } from "./bundle.ts";
import { mergeData } from "./data.ts";
import { FieldMemo } from "./memo.ts";
import type {
  DecisionMemo,
  DecisionMemos,
  EvaluationContext,
  EvaluationOutcome,
  PolicyEngine,
} from "./ports.ts";

export interface EngineOptions {
  /** Evaluations are timed and counted with these; absent: they are not. */
  readonly measure?: {
    readonly clock: Pick<Clock, "monotonicMs">;
    readonly meter: Pick<Meter, "policyEvaluated">;
  };
  readonly entrypoints?: Readonly<Record<Entrypoint, string>>;
  /** Results kept for each entrypoint; 0 remembers nothing. Default 10,000. */
  readonly memoEntries?: number;
  /** An instance is replaced after so many evaluations. Default 1,000,000. */
  readonly maxEvaluations?: number;
  /** Memory an instance may have, data included. Default 64 MiB. */
  readonly maxMemoryBytes?: number;
}

export const defaultEntrypoints: Readonly<Record<Entrypoint, string>> = {
  authz: "headgate/authz/decision",
  route: "headgate/route/decision",
};

const pageBytes = 65_536;
/** What OPA's own runtime and a usual data document need; an instance grows by itself. */
const initialPages = 16;
/** Growth of an instance after which it is replaced: evaluations are meant to need none. */
const maxGrowthBytes = 8 * 2 ** 20;

/** What a module may import, and nothing else (OPA's ABI 1.x). */
const knownImports: ReadonlySet<string> = new Set([
  "memory",
  "opa_abort",
  "opa_println",
  "opa_builtin0",
  "opa_builtin1",
  "opa_builtin2",
  "opa_builtin3",
  "opa_builtin4",
]);

/**
 * Builds an engine whose data is the bundle's own with `data` on top (`data` wins where both name
 * a value).
 * @throws FaultError policy_load naming what is missing.
 */
export async function buildEngine(
  bundle: PolicyBundle,
  data: JsonObject,
  options: EngineOptions = {},
): Promise<PolicyEngine> {
  // Leaves the turn of whoever noticed the change; instantiation itself takes about a millisecond.
  await Promise.resolve();
  return openEngine(bundle, data, options);
}

/** The same at once, for a caller that must swap within one turn. */
export function openEngine(
  bundle: PolicyBundle,
  data: JsonObject,
  options: EngineOptions = {},
): PolicyEngine {
  checkImports(bundle);
  return new WasmEngine(bundle, mergeData(bundle.data, data), options);
}

interface Instance {
  readonly policy: ReturnType<typeof opa.loadPolicySync>;
  readonly limitBytes: number;
  evaluations: number;
  spoilt: boolean;
  /** A view of the whole memory; made again when the memory has grown. */
  bytes: Buffer;
}

class WasmEngine implements PolicyEngine {
  readonly revision: string;
  readonly memos: DecisionMemos;
  readonly #bundle: PolicyBundle;
  readonly #data: JsonObject;
  readonly #options: EngineOptions;
  readonly #entrypoints: Readonly<Record<Entrypoint, string>>;
  #instance: Instance | null;
  #context: EvaluationContext | null = null;

  constructor(bundle: PolicyBundle, data: JsonObject, options: EngineOptions) {
    this.revision = bundle.revision;
    this.#bundle = bundle;
    this.#data = data;
    this.#options = options;
    this.#entrypoints = options.entrypoints ?? defaultEntrypoints;
    const instance = this.#open();
    this.#instance = instance;
    this.memos = memosOf(bundle, instance, options.memoEntries ?? 10_000);
  }

  evaluate(
    entrypoint: Entrypoint,
    input: unknown,
    context: EvaluationContext | null = null,
  ): EvaluationOutcome {
    const { measure } = this.#options;
    if (measure === undefined) return this.#evaluate(entrypoint, input, context);
    const startMs = measure.clock.monotonicMs();
    const outcome = this.#evaluate(entrypoint, input, context);
    const durationSeconds = (measure.clock.monotonicMs() - startMs) / 1000;
    measure.meter.policyEvaluated(entrypoint, durationSeconds);
    return outcome;
  }

  /** Frees the instance. A request that still holds the old view gets a new one by asking. */
  close(): void {
    this.#instance = null;
  }

  #evaluate(
    entrypoint: Entrypoint,
    input: unknown,
    context: EvaluationContext | null,
  ): EvaluationOutcome {
    let instance: Instance | null = null;
    this.#context = context;
    try {
      instance = this.#ready();
      const id = instance.policy.entrypoints[this.#entrypoints[entrypoint]] ?? -1;
      return readResultSet(run(instance, id, JSON.stringify(input)));
    } catch (error) {
      if (instance !== null) instance.spoilt = true;
      return { kind: "trap", cause: toError(error) };
    } finally {
      this.#context = null;
    }
  }

  /** The serving instance, replaced when it trapped, grew, or has done its share. */
  #ready(): Instance {
    let instance = this.#instance;
    const maxEvaluations = this.#options.maxEvaluations ?? 1_000_000;
    if (
      instance === null ||
      instance.spoilt ||
      instance.evaluations >= maxEvaluations ||
      instance.bytes.length > instance.limitBytes
    ) {
      instance = this.#open();
      this.#instance = instance;
    }
    instance.evaluations += 1;
    return instance;
  }

  #open(): Instance {
    const maximum = Math.floor((this.#options.maxMemoryBytes ?? 64 * 2 ** 20) / pageBytes);
    const builtins = bindBuiltins(() => this.#context);
    try {
      const memory = { initial: Math.min(initialPages, maximum), maximum };
      const policy = opa.loadPolicySync(this.#bundle.module, memory, builtins);
      checkModule(this.#bundle, policy, this.#entrypoints);
      policy.setData(this.#data);
      const bytes = Buffer.from(policy.mem.buffer);
      const limitBytes = bytes.length + maxGrowthBytes;
      return { policy, limitBytes, evaluations: 0, spoilt: false, bytes };
    } catch (error) {
      if (error instanceof FaultError) throw error;
      throw loadFault(this.#bundle, toError(error).message, error);
    }
  }
}

/** Evaluates by OPA's ABI 1.2 fast path; the answer is the text of a result set, `[{"result": …}]`. */
function run(instance: Instance, entrypoint: number, input: string): string {
  const { policy } = instance;
  const at = (policy.dataHeapPtr + 7) & ~7;
  const length = Buffer.byteLength(input);
  const missing = at + length - policy.mem.buffer.byteLength;
  if (missing > 0) policy.mem.grow(Math.ceil(missing / pageBytes));
  refresh(instance);
  instance.bytes.write(input, at, "utf8");
  const { opa_eval: evaluate } = policy.wasmInstance.exports;
  const heap = (at + length + 7) & ~7;
  const answer = evaluate(0, entrypoint, policy.dataAddr, at, length, heap, 0);
  refresh(instance);
  return readText(instance.bytes, answer);
}

function refresh(instance: Instance): void {
  const { buffer } = instance.policy.mem;
  if (instance.bytes.buffer !== buffer) instance.bytes = Buffer.from(buffer);
}

function readText(bytes: Buffer, at: number): string {
  const end = bytes.indexOf(0, at);
  return bytes.toString("utf8", at, end === -1 ? bytes.length : end);
}

function readResultSet(text: string): EvaluationOutcome {
  const results: unknown = JSON.parse(text);
  if (!Array.isArray(results) || results.length === 0) return { kind: "undefined" };
  const [first] = results as readonly (JsonObject | null)[];
  return { kind: "defined", value: first?.["result"] };
}

// ---- loading ----

function checkImports(bundle: PolicyBundle): void {
  for (const { module, name } of WebAssembly.Module.imports(bundle.module)) {
    if (module !== "env" || !knownImports.has(name)) {
      throw loadFault(bundle, `it imports "${module}.${name}", which is not part of OPA's ABI 1`);
    }
  }
  const exports = WebAssembly.Module.exports(bundle.module).map(({ name }) => name);
  for (const name of ["opa_wasm_abi_version", "opa_wasm_abi_minor_version", "opa_eval"]) {
    if (!exports.includes(name)) {
      throw loadFault(bundle, `ABI version is below 1.2 ("${name}" is absent), needs 1.2 or later`);
    }
  }
}

function checkModule(
  bundle: PolicyBundle,
  policy: Instance["policy"],
  entrypoints: Readonly<Record<Entrypoint, string>>,
): void {
  if (policy.minorVersion < 2) {
    throw loadFault(bundle, `ABI version is 1.${policy.minorVersion}, needs 1.2 or later`);
  }
  const host = new Set(hostBuiltins());
  const missing = requiredBuiltins(policy).filter((name) => !host.has(name));
  if (missing.length > 0) {
    throw loadFault(bundle, `it needs builtins that are not here: ${missing.join(", ")}`);
  }
  for (const name of Object.values(entrypoints)) {
    if (!Object.hasOwn(policy.entrypoints, name)) {
      throw loadFault(bundle, `it has no entrypoint "${name}"`);
    }
  }
}

/** Names of the builtins that a module calls the host for. */
function requiredBuiltins(policy: Instance["policy"]): readonly string[] {
  const { builtins, opa_json_dump: dump } = policy.wasmInstance.exports;
  const names: unknown = JSON.parse(readText(Buffer.from(policy.mem.buffer), dump(builtins())));
  return typeof names === "object" && names !== null ? Object.keys(names) : [];
}

function memosOf(bundle: PolicyBundle, instance: Instance, maxEntries: number): DecisionMemos {
  const mayRemember = maxEntries > 0 && isDeterministic(requiredBuiltins(instance.policy));
  if (bundle.memo === null || !mayRemember) return { authz: null, route: null };
  return {
    authz: memoOf(bundle.memo.authz, maxEntries),
    route: memoOf(bundle.memo.route, maxEntries),
  };
}

/** None for an entrypoint that can read what no two requests share. */
function memoOf<Result>(fields: MemoFields, maxEntries: number): DecisionMemo<Result> | null {
  const unique = fields.some(([section, name]) => {
    if (section === undefined) return true;
    if (section !== "request") return false;
    return name === undefined || name === "id" || name === "time_ns";
  });
  return unique ? null : new FieldMemo<Result>(fields, maxEntries);
}

function loadFault(bundle: PolicyBundle, reason: string, cause?: unknown): FaultError {
  const message = `Cannot load policy bundle "${bundle.revision}": ${reason}`;
  return new FaultError("policy_load", message, cause);
}

/** OPA's SDK throws strings and plain objects. */
function toError(thrown: unknown): Error {
  if (thrown instanceof Error) return thrown;
  if (typeof thrown === "string") return new Error(thrown);
  if (typeof thrown === "object" && thrown !== null && "message" in thrown) {
    return new Error(String(thrown.message));
  }
  return new Error("The policy threw what is no error");
}
