// What Headgate uses of two things that come without types: the WebAssembly JavaScript interface
// (the "dom" library is off) and @open-policy-agent/opa-wasm 1.10, whose published types are absent.
// ABI: openpolicyagent.org/docs/latest/wasm (version 1.2 and later).

declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
    static imports(module: Module): { module: string; name: string; kind: string }[];
    static exports(module: Module): { name: string; kind: string }[];
  }
  class Memory {
    readonly buffer: ArrayBuffer;
    grow(pages: number): number;
  }
  class Global {
    readonly value: number;
  }
  function compile(bytes: Uint8Array): Promise<Module>;
}

declare module "@open-policy-agent/opa-wasm" {
  interface LoadedPolicy {
    readonly minorVersion: number;
    readonly mem: WebAssembly.Memory;
    readonly entrypoints: Readonly<Record<string, number>>;
    readonly dataAddr: number;
    readonly dataHeapPtr: number;
    readonly wasmInstance: {
      readonly exports: {
        builtins: () => number;
        opa_json_dump: (value: number) => number;
        /** Reserved 0, entrypoint, data, input, its length, heap, format 0 (JSON text). */
        opa_eval: (...values: readonly number[]) => number;
      };
    };
    setData(data: unknown): void;
  }

  const opa: {
    loadPolicySync(
      module: WebAssembly.Module,
      memory: { initial: number; maximum: number },
      builtins: Readonly<Record<string, (...values: never[]) => unknown>>,
    ): LoadedPolicy;
  };
  export default opa;
}
