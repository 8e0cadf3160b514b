// Opens an admin server on a loopback port and speaks HTTP to it with every header under control
// (fetch would not send Host or Origin).

import { randomBytes } from "node:crypto";
import { createServer, request as httpRequest } from "node:http";
import { AuditRing, auditedRegistry } from "../../proxy/admin/audit-ring.ts";
import { Metrics } from "../../proxy/admin/metrics.ts";
import type { PlacementChanges, ReadinessCheck } from "../../proxy/admin/ports.ts";
import { openAdminServer } from "../../proxy/admin/server.ts";
import type { Log, Registry, Snapshots } from "../../proxy/placement/ports.ts";
import type { SealKeys } from "../../proxy/placement/sealed-secret.ts";
import { type AdminMemory, fixedClock } from "./admin-state.ts";

interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** Parsed body; null when it is not JSON. */
  readonly json: unknown;
}

interface Ask {
  readonly body?: unknown;
  /** Sent as it is. */
  readonly rawBody?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface AdminFixture {
  readonly url: string;
  readonly logged: string[];
  ask(method: string, path: string, options?: Ask): Promise<Answer>;
  close(): Promise<void>;
}

export interface FixtureOptions {
  readonly state: AdminMemory;
  readonly token?: string | null;
  readonly checks?: readonly ReadinessCheck[];
  readonly placementChanges?: PlacementChanges;
  readonly sealKeys?: SealKeys | null;
  readonly registry?: Registry;
  readonly snapshots?: Snapshots;
}

export async function openAdminFixture(options: FixtureOptions): Promise<AdminFixture> {
  const { state } = options;
  const logged: string[] = [];
  const log: Log = { write: (level, event) => logged.push(`${level} ${event}`) };
  const ring = new AuditRing();
  let requests = 0;
  const server = await openAdminServer({
    host: "127.0.0.1",
    port: 0,
    token: options.token ?? null,
    ports: {
      registry: auditedRegistry(options.registry ?? state, { ring, clock: fixedClock }),
      snapshots: options.snapshots ?? state,
      clock: fixedClock,
      facts: {
        version: "0.1.0",
        nodeId: "node-1",
        startedAtMs: fixedClock.nowMs() - 5000,
        stateDriver: "memory",
      },
      readiness: { checks: () => options.checks ?? [] },
      metrics: new Metrics({
        clock: fixedClock,
        version: "0.1.0",
        nodeVersion: "v20",
        processMetrics: false,
      }),
      audit: ring,
      seals: { keys: options.sealKeys ?? null, random: { bytes: (count) => randomBytes(count) } },
      storedKeyUse: {
        isSource: true,
        knownBefore: () => Promise.resolve(null),
        impliesGrants: false,
      },
      clusterKinds: { kind: () => null, mismatch: () => null },
      ping: () => Promise.resolve({ kind: "unreachable", reason: "no cluster runs here" }),
      adopt: () =>
        Promise.resolve({ kind: "page", listed: [], known: 0, buckets: [], nextAfter: null }),
      drift: {
        show: () => Promise.resolve({ reference: null, clusters: [], drift: [] }),
        heal: () => Promise.resolve(null),
      },
      placementChanges: options.placementChanges ?? {
        putPlacement: () => Promise.resolve({ kind: "busy" }),
      },
    },
    requestId: () => {
      requests += 1;
      return `req-${requests}`;
    },
    createServer,
    log,
  });
  return {
    url: server.url,
    logged,
    ask: (method, path, ask = {}) => send(server.url + path, method, ask),
    close: () => server.close(),
  };
}

function send(url: string, method: string, ask: Ask): Promise<Answer> {
  const payload = ask.rawBody ?? (ask.body === undefined ? undefined : JSON.stringify(ask.body));
  const mutates = method !== "GET" && method !== "HEAD";
  const headers = { ...(mutates ? { "content-type": "application/json" } : {}), ...ask.headers };
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { method, headers, agent: false }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.on("error", reject);
      response.on("end", () => {
        const text = Buffer.concat(chunks).toString("utf8");
        const status = response.statusCode ?? 0;
        resolve({ status, headers: response.headers, text, json: parse(text) });
      });
    });
    request.on("error", reject);
    request.end(payload);
  });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // not JSON
  }
}
