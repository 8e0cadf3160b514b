// What becomes of a bucket's record when it moves for a write that one of its clusters takes, refuses, or
// may have taken; and when its process or the store fails in between.

import t from "tap";
import type {
  Resettlement,
  ResettlePorts,
  ResettleResult,
} from "../../proxy/operations/context.ts";
import { Resettler } from "../../proxy/operations/resettle.ts";
import type {
  AuditLine,
  ClusterIdentity,
  Upstream,
  UpstreamIdentity,
} from "../../proxy/placement/ports.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import type { BucketRecord, Revision } from "../../proxy/placement/records.ts";
import { onOneCluster } from "../../proxy/placement/routes.ts";
import { bucketRecord, clusterNamed, routeOf } from "../support/placement-names.ts";

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

interface Setting {
  readonly value?: BucketRecord;
  readonly identity?: ClusterIdentity;
  /** Clusters where the bucket holds an object. */
  readonly holds?: readonly string[];
  /** Every question is refused. */
  readonly refuses?: boolean;
}

/** @param failing commit → what becomes of it: the store's fault, or somebody else's write before it. */
function scene(
  failing: Readonly<Record<number, "fails" | "lost">> = {},
  { value = bucketRecord("b"), identity = "service", holds = [], refuses = false }: Setting = {},
): Scene {
  const done: string[] = [];
  let now = { value, modRevision: 1n };
  let count = 0;
  const send: Upstream["send"] = async (cluster, { operation, method }) => {
    if (method === "DELETE") done.push(`${operation} ${cluster}`);
    const root = roots[operation];
    const held = holds.includes(cluster) && operation === "ListObjectsV2" ? "<Contents/>" : "";
    const bytes = Buffer.from(`<${root}>${held}<IsTruncated>false</IsTruncated></${root}>`);
    return {
      status: refuses ? 403 : method === "DELETE" ? 204 : 200,
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
    identity: () => identity,
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

const rerouting = bucketRecord("b", { phase: "rerouting" });
const single = change();
const noted = { ...rerouting, ...single, extra: [clusterNamed("b")] };
const owner: UpstreamIdentity = { kind: "anonymous" };
const onto = (weights: Readonly<Record<string, number>>): Pick<Resettlement, "route"> => ({
  route: routeOf(weights),
});

/** What was left behind, and what ends it. `asks`: that a cluster was asked, and refused. */
const left = {
  "announced, and nothing else is wanted": { value: rerouting, done: [spread] },
  "announced, holding something": {
    value: rerouting,
    to: onto({ a: 1 }),
    holds: ["a"],
    done: [spread],
    kind: "taken_back",
  },
  "announced, of somebody else": {
    value: rerouting,
    identity: "same",
    refuses: true,
    done: [spread],
    kind: "taken_back",
  },
  "announced, the owner's, whose rights are lacking": {
    value: rerouting,
    to: { identity: owner },
    identity: "mapped",
    refuses: true,
    asks: true,
    done: [spread],
    kind: "taken_back",
  },
  "announced, and frozen since": {
    value: { ...rerouting, frozen: true },
    to: onto({ a: 1 }),
    refuses: true,
    done: [spread],
    kind: "taken_back",
  },
  "made where it would come, holding something": {
    value: rerouting,
    to: onto({ c: 1 }),
    holds: ["b"],
    done: ["DeleteBucket c", spread],
    kind: "taken_back",
  },
  "never made by us where its owner would have made it": {
    value: rerouting,
    to: { ...onto({ a: 1, c: 1 }), identity: owner },
    identity: "same",
    refuses: true,
    done: [spread],
    kind: "taken_back",
  },
  "on its way to where all it has lies": {
    value: noted,
    to: { ...single, gathers: true },
    holds: ["a"],
    done: opened,
  },
  "on its way, the owner's": {
    value: noted,
    to: { ...single, identity: owner },
    identity: "same",
    done: opened,
  },
  "on its way, somebody else's": {
    value: noted,
    to: single,
    identity: "same",
    refuses: true,
    done: ["a settled +b"],
    kind: "taken_back",
  },
  "on its way, with something where it leaves": {
    value: noted,
    to: { ...single, gathers: true },
    holds: ["b"],
    done: ["a settled +b"],
    kind: "taken_back",
  },
  "settled by somebody else": {
    value: rerouting,
    identity: "same",
    failing: { 1: "lost" },
    done: ["lost"],
    kind: "contended",
  },
} as const;

for (const [name, row] of Object.entries<Left>(left)) {
  t.test(`left behind: ${name}`, async (t) => {
    const { ports, done, now } = scene(row.failing, row);
    const { route, placement } = row.value;
    const to = { route, placement, gathers: false, audit, ...row.to };
    const result = await new Resettler({ clock, deadAfterMs: 0 }).resettle(now(), to, ports);
    t.equal(result.kind, row.kind ?? "settled");
    t.strictSame(done, row.done);
    if (result.kind !== "taken_back") return;
    t.strictSame(result.record, now(), "whoever waits goes on with this");
    t.equal(result.cause !== null, row.asks === true, "asked no cluster in vain");
  });
}

interface Left extends Setting {
  readonly value: BucketRecord;
  readonly to?: Partial<Resettlement>;
  readonly failing?: Readonly<Record<number, "fails" | "lost">>;
  readonly asks?: boolean;
  readonly done: readonly string[];
  readonly kind?: ResettleResult["kind"];
}
