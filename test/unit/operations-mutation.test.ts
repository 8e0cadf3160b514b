// How long a mutation counts for the acknowledgements of its member.

import t from "tap";
import { mutate } from "../../proxy/operations/mutation.ts";
import { UpstreamError } from "../../proxy/placement/ports.ts";
import { parseClusterId } from "../../proxy/s3/names.ts";

const cluster = parseClusterId("a");
if (cluster === null) throw new Error("a cluster id does not parse");

function fixture() {
  const seen = { begun: 0, ended: 0, later: [] as (() => void)[] };
  const request = {
    commit: async () => {
      seen.begun += 1;
      return () => {
        seen.ended += 1;
      };
    },
  };
  const ports = {
    quarantineMs: 120_000,
    timers: {
      after(_ms: number, run: () => void) {
        seen.later.push(run);
        return () => {};
      },
    },
  };
  return { seen, request, ports };
}

t.test("a definite answer ends it, an unknown outcome only after the quarantine", async (t) => {
  for (const [status, ends] of [
    [200, 1],
    [403, 1],
    [503, 1],
    [500, 0],
    [504, 0],
  ] as const) {
    const { seen, request, ports } = fixture();
    await mutate(request, ports, async (mutation) => {
      await mutation.commit();
      return { status };
    });
    t.equal(seen.ended, ends, `${status}`);
    for (const run of seen.later) run();
    t.equal(seen.ended, 1);
  }
  for (const [phase, ends] of [
    ["connect", 1],
    ["request_body", 0],
    ["response_head", 0],
  ] as const) {
    const { seen, request, ports } = fixture();
    const broken = mutate(request, ports, async (mutation) => {
      await mutation.commit();
      throw new UpstreamError(phase, cluster);
    });
    await t.rejects(broken, { name: "UpstreamError" });
    t.equal(seen.ended, ends, phase);
  }
});

t.test("a commit that comes after the end is refused and counted for nobody", async (t) => {
  const { seen, request, ports } = fixture();
  const late: (() => Promise<void>)[] = [];
  await mutate(request, ports, async (mutation) => {
    late.push(() => mutation.commit());
    return { status: 503 };
  });
  for (const commit of late) await t.rejects(commit(), { code: "SlowDown" });
  t.equal(seen.begun, 1);
  t.equal(seen.begun, seen.ended);
  t.equal(seen.later.length, 0);
});
