// A demo cluster for tests, with a fixed pair of keys and ids that count up.

import type { Test } from "tap";
import type { FaultRule } from "../../proxy/demo/faults.ts";
import { type DemoServer, startDemoServer } from "../../proxy/demo/server.ts";
import type { ProfileFacts } from "../../proxy/placement/profiles.ts";

export const demoCredentials = {
  accessKeyId: "demo-test-key",
  secretAccessKey: "demo-test-secret",
  sessionToken: null,
} as const;

const wallClock = { nowMs: () => Date.now(), monotonicMs: () => performance.now() };

export interface DemoClusterOptions {
  readonly minPartBytes?: number;
  readonly facts?: ProfileFacts;
  readonly fault?: FaultRule;
}

/** Starts a demo cluster on a free port; it ends with the test. */
export async function demoCluster(t: Test, options: DemoClusterOptions = {}): Promise<DemoServer> {
  let count = 0;
  const server = await startDemoServer({
    port: 0,
    credentials: demoCredentials,
    clock: wallClock,
    random: {
      bytes(length) {
        count += 1;
        const bytes = new Uint8Array(length);
        new DataView(bytes.buffer).setUint32(length - 4, count);
        return bytes;
      },
    },
    ...options,
  });
  t.teardown(() => server.close());
  return server;
}
