// Memory of the policy's instance: flat however long it serves, bounded whatever it is asked, and there
// for the next request when one needed too much.

import t from "tap";
import { openEngine } from "../../proxy/policy/engine.ts";
import { defaultBundle } from "../support/policy-views.ts";

/** Every memory that instances were given, in order. */
const memories: { readonly buffer: ArrayBuffer }[] = [];
const listed = new Proxy(WebAssembly.Memory, {
  construct(target, given, made) {
    const memory: unknown = Reflect.construct(target, given, made);
    if (!(memory instanceof target)) throw new Error("no memory was made");
    memories.push(memory);
    return memory;
  },
});
Object.defineProperty(WebAssembly, "Memory", { value: listed });

const bundle = await defaultBundle();
const sizes = (): readonly number[] => memories.map(({ buffer }) => buffer.byteLength);

function input(fillBytes: number, n: number): unknown {
  const grants = [{ buckets: ["*"], keys: ["*"], allow: ["read"] }];
  return {
    request: {
      bucket: `b-${n}`,
      key: "k".repeat(1024),
      class: "read",
      headers: { fill: "x".repeat(fillBytes) },
    },
    principal: { grants },
  };
}

t.test("evaluations leave nothing behind", async (t) => {
  // https://github.com/open-policy-agent/npm-opa-wasm/issues/143
  memories.length = 0;
  const engine = openEngine(bundle, {});
  t.teardown(() => engine.close());
  const largest = 128 * 1024;
  for (const entrypoint of ["authz", "route"] as const) {
    t.not(engine.evaluate(entrypoint, input(largest, 0)).kind, "trap");
  }
  const before = sizes();
  t.equal(before.length, 1);
  for (let n = 0; n < 5_000; n += 1) {
    const outcome = engine.evaluate("authz", input(n % 100 === 0 ? largest : n % 2_000, n));
    if (outcome.kind === "trap") t.fail(`evaluation ${n}`, { cause: outcome.cause });
  }
  t.strictSame(sizes(), before, "no page more, and no other instance");
});

t.test("what does not fit is a trap, and the next request is decided", async (t) => {
  memories.length = 0;
  const maxMemoryBytes = 2 * 2 ** 20;
  const engine = openEngine(bundle, {}, { maxMemoryBytes });
  t.teardown(() => engine.close());
  const small = input(10, 1);
  const decided = engine.evaluate("authz", small);
  t.equal(decided.kind, "defined");
  for (let n = 0; n < 5; n += 1) {
    t.equal(engine.evaluate("authz", input(4 * 2 ** 20, n)).kind, "trap");
    t.strictSame(engine.evaluate("authz", small), decided);
  }
  t.equal(memories.length, 6, "a new instance behind each trap");
  t.ok(Math.max(...sizes()) <= maxMemoryBytes, sizes().join());
});
