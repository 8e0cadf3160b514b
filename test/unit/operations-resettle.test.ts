// What becomes of a bucket's record when it moves for a write that one of its clusters takes, refuses, or
// may have taken; and when its process or the store fails in between.

import t from "tap";
import type { Resettlement, ResettlePorts } from "../../proxy/operations/context.ts";
import { Resettler } from "../../proxy/operations/resettle.ts";
import type { AuditLine, Upstream } from "../../proxy/placement/ports.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import type { BucketRecord, Revision } from "../../proxy/placement/records.ts";
import { onOneCluster } from "../../proxy/placement/routes.ts";
import { bucketRecord, clusterNamed } from "../support/placement-names.ts";

const roots: Readonly<Record<string, string>> = {
  ListMultipartUploads: "ListMultipartUploadsResult",
  ListObjectsV2: "ListBucketResult",
  ListObjectVersions: "ListVersionsResult",
};
const clock = { nowMs: () => 0, monotonicMs: () => 0, sleep: async () => {} };

/** `a+b rerouting +b`: the clusters of the route, the phase, the extra ones. */
function told({ route, phase, extra }: BucketRecord): string {
  return [[...route.weights.keys()].join("+"), phase, ...extra.map((id) => `+${id}`)].join(" ");
}

interface Scene {
  readonly ports: ResettlePorts;
  /** All that was done, in order. */
  readonly done: string[];
  readonly now: () => { readonly value: BucketRecord; readonly modRevision: Revision };
}

/** @param failing commit → what becomes of it: the store's fault, or somebody else's write before it. */
function scene(failing: Readonly<Record<number, "fails" | "lost">> = {}): Scene {
  const done: string[] = [];
  let now = { value: bucketRecord("b"), modRevision: 1n };
  let count = 0;
  const send: Upstream["send"] = async (cluster, { operation, method }) => {
    if (method === "DELETE") done.push(`${operation} ${cluster}`);
    const root = roots[operation];
    const bytes = Buffer.from(`<${root}><IsTruncated>false</IsTruncated></${root}>`);
    return {
      status: method === "DELETE" ? 204 : 200,
      headers: [],
      body: {
        takeWhole: () => bytes,
        pipe: async () => {},
        cancel: () => {},
        async *[Symbol.asyncIterator]() {
          yield bytes;
        },
      },
    };
  };
  const ports: ResettlePorts = {
    upstream: { send },
    facts: () => profiles["rgw-pacific"],
    identity: () => "service",
    region: () => "us-east-1",
    registry: {
      async commit([change]) {
        if (change?.kind !== "bucket" || change.record === null) throw new Error("Not a bucket");
        count += 1;
        const failure = failing[count];
        if (failure !== undefined) done.push(failure);
        if (failure === "fails") throw new Error("store");
        if (failure === "lost") now = { ...now, modRevision: now.modRevision + 1n };
        if (change.expected !== now.modRevision) return { kind: "conflict" };
        now = { value: change.record, modRevision: now.modRevision + 1n };
        done.push(told(now.value));
        return { kind: "committed", revision: now.modRevision };
      },
      members: async () => [],
      forgetMember: async () => "unknown",
    },
  };
  return { ports, done, now: () => now };
}

const audit: AuditLine = {
  action: "system:SettleBucket",
  resource: "/b",
  actor: { kind: "client", name: "someone", remoteAddress: null },
  requestId: "r",
  detail: "",
};

function change(write?: Resettlement["write"]): Resettlement {
  const { route, ...record } = bucketRecord("b");
  const weights = new Map([[clusterNamed("a"), 1]]);
  const single = onOneCluster({ ...record, route: { ...route, weights } });
  if (single === null) throw new Error("No route");
  return { ...single, gathers: true, audit, ...(write === undefined ? {} : { write }) };
}

const spread = "a+b settled";
const announced = "a+b rerouting";
const onItsWay = "a rerouting +b";
const opened = ["a settled +b", "DeleteBucket b", "a settled"];

const rows = {
  "a write that is taken": {
    stays: true,
    result: "settled",
    done: [announced, onItsWay, "write", ...opened],
  },
  "a write that is refused": {
    stays: false,
    result: "unavailable",
    done: [announced, onItsWay, "write", spread],
  },
  "the record is lost before the write": {
    stays: true,
    failing: { 2: "lost" },
    result: "contended",
    done: [announced, "lost"],
  },
  "the store fails before the write": {
    stays: true,
    failing: { 2: "fails" },
    result: "store",
    done: [announced, "fails", spread],
  },
  "the record is lost after the write": {
    stays: true,
    failing: { 3: "lost" },
    result: "contended",
    done: [announced, onItsWay, "write", "lost"],
  },
  "the store fails after the write": {
    stays: true,
    failing: { 3: "fails" },
    result: "store",
    done: [announced, onItsWay, "write", "fails"],
  },
} as const;

for (const [name, row] of Object.entries(rows)) {
  t.test(name, async (t) => {
    const failing: Readonly<Record<number, "fails" | "lost">> = "failing" in row ? row.failing : {};
    const { ports, done, now } = scene(failing);
    const resettler = new Resettler({ clock, deadAfterMs: 0 });
    const write = async (): Promise<boolean> => {
      done.push("write");
      return row.stays;
    };
    const result = await resettler.resettle(now(), change(write), ports).then(
      ({ kind }) => kind,
      (caught: unknown) => (caught instanceof Error ? caught.message : ""),
    );
    t.equal(result, row.result);
    t.strictSame(done, row.done);
  });
}

t.test("what is left on its way ends on the cluster that may have taken the write", async (t) => {
  const { ports, done, now } = scene({ 3: "fails" });
  const crashed = new Resettler({ clock, deadAfterMs: 0 });
  await t.rejects(
    crashed.resettle(
      now(),
      change(async () => true),
      ports,
    ),
    /store/,
  );
  const { route, placement } = now().value;
  done.length = 0;
  const system = {
    ...audit,
    actor: { kind: "system", name: "placement", remoteAddress: null },
  } as const;
  const follows = { route, placement, gathers: false, audit: system };
  const result = await new Resettler({ clock, deadAfterMs: 0 }).resettle(now(), follows, ports);
  t.equal(result.kind, "settled");
  t.strictSame(done, opened);
});
