// What operators may set: weights, states and placements.

import t from "tap";
import { checkPlacement } from "../../proxy/placement/placement-request.ts";
import { type ClusterState, clusterStates } from "../../proxy/placement/records.ts";
import {
  activateCluster,
  drainCluster,
  undrainCluster,
} from "../../proxy/placement/transitions.ts";
import {
  activationWeight,
  applyWeightCommand,
  meanWeight,
  sharesOf,
  shareText,
  type WeightCommand,
  weightRatio,
  weightsMoveKeys,
} from "../../proxy/placement/weights.ts";
import { clusterNamed, clusterRecord, weightsOf } from "../support/placement-names.ts";

const [a, b, c] = [clusterNamed("a"), clusterNamed("b"), clusterNamed("c")] as const;

function clusters(weights: Readonly<Record<string, number | null>>, state: ClusterState = "live") {
  return Object.entries(weights).map(([id, weight]) => ({ id: clusterNamed(id), state, weight }));
}

function assigned(weights: Readonly<Record<string, number | null>>) {
  return new Map(Object.entries(weights).map(([id, weight]) => [clusterNamed(id), weight]));
}

/** What `a=1 b=none rest=3` or `none` asks for. */
function commandOf(words: string): WeightCommand {
  if (words === "none") return { kind: "clear" };
  const given = words.split(" ").map((word) => {
    const [name = "", value = ""] = word.split("=");
    return [name, value === "none" ? value : Number(value)] as const;
  });
  const named = given.filter(([name]) => name !== "rest");
  return {
    kind: "set",
    named: new Map(named.map(([name, word]) => [clusterNamed(name), word])),
    rest: given.find(([name]) => name === "rest")?.[1] ?? null,
  };
}

/** The outcome of `set-weights`, with the weights as an object. */
function setWeights(words: string, known: Parameters<typeof applyWeightCommand>[1]) {
  const result = applyWeightCommand(commandOf(words), known);
  return result.kind === "ok"
    ? { ...result, weights: Object.fromEntries(result.weights) }
    : { ...result };
}

t.test("rest covers the clusters not named, others keep what they have", async (t) => {
  t.match(setWeights("a=3 rest=10", clusters({ a: null, b: null, c: null })), {
    kind: "ok",
    weights: { a: 3, b: 10, c: 10 },
    warn: false,
    moves: true,
  });
  t.match(setWeights("a=30", clusters({ a: 10, b: 20, c: 30 })), {
    weights: { a: 30, b: 20, c: 30 },
  });
});

t.test("in an unweighted installation every cluster must be covered", async (t) => {
  t.equal(setWeights("a=3", clusters({ a: null, b: null })).kind, "invalid");
  t.equal(setWeights("a=3 b=1", clusters({ a: null, b: null })).kind, "ok");
});

t.test("none gives one cluster the weight of one that joins", async (t) => {
  t.match(setWeights("c=none", clusters({ a: 100, b: 300, c: 7 })), {
    weights: { a: 100, b: 300, c: 200 },
  });
  t.match(setWeights("a=1 rest=none", clusters({ a: null, b: null })), { weights: { a: 1, b: 1 } });
  // Half weighted is no state: who has none is given the mean.
  t.match(setWeights("a=2", clusters({ a: 1, b: null })), { weights: { a: 2, b: 2 } });
});

t.test("none for all, all zero and none alone clear every weight", async (t) => {
  for (const words of ["none", "rest=none", "a=none b=none", "a=0 b=0", "rest=0"]) {
    t.match(
      setWeights(words, clusters({ a: 1, b: 2 })),
      { kind: "ok", weights: { a: null, b: null }, moves: true },
      words,
    );
  }
});

t.test("only live clusters take a weight, unknown ones are named", async (t) => {
  const known = [...clusters({ a: 1, b: 2 }), ...clusters({ c: 5 }, "evacuating")];
  t.strictSame(setWeights("c=1", known), { kind: "not_live", id: c, state: "evacuating" });
  t.strictSame(setWeights("d=1", known), { kind: "unknown_cluster", id: "d" });
  t.strictSame(setWeights("rest=9", known), {
    kind: "ok",
    weights: { a: 9, b: 9 },
    warn: false,
    moves: true,
  });
});

t.test("a ratio of 10 warns, of 100 is refused; zeroes do not count", async (t) => {
  t.equal(weightRatio([1, 9]), "ok");
  t.equal(weightRatio([1, 10]), "warn");
  t.equal(weightRatio([99, 1, 50]), "warn");
  t.equal(weightRatio([1, 100]), "refused");
  t.equal(weightRatio([0, 5, 5]), "ok");
  t.equal(weightRatio([]), "ok");
  const tera = 70_368_744_177_664;
  t.equal(weightRatio([tera, tera * 100 - 1]), "warn", "no rounding near the limit");
  t.equal(setWeights("a=1 b=100", clusters({ a: 1, b: 1 })).kind, "invalid");
  t.match(setWeights("a=1 b=10", clusters({ a: 1, b: 1 })), { kind: "ok", warn: true });
});

t.test("the mean is rounded to the nearest multiple of the gcd, halves up", async (t) => {
  t.equal(meanWeight([100, 200, 300]), 200);
  t.equal(meanWeight([100, 200, 300, 200, 500]), 300);
  t.equal(meanWeight([1, 2]), 2);
  t.equal(meanWeight([10, 20]), 20);
  t.equal(meanWeight([1, 1, 2]), 1);
  t.equal(meanWeight([7]), 7);
  t.equal(meanWeight([0, 4]), 4);
  t.equal(meanWeight([]), null);
  const large = Number.MAX_SAFE_INTEGER;
  t.equal(meanWeight([large, large, large]), large);
});

t.test("an activated cluster gets what was asked, its preference, or the mean", async (t) => {
  const joining = { id: c, state: "pending", weight: null } as const;
  const live = clusters({ a: 100, b: 300 });
  t.equal(activationWeight(7, joining, live), 7);
  t.equal(activationWeight(null, joining, live), 200);
  t.equal(activationWeight(null, { ...joining, weight: 50 }, live), 50);
  t.equal(activationWeight(null, { ...joining, weight: 0 }, live), 200);
  const unweighted = clusters({ a: null, b: null });
  t.equal(activationWeight(null, { ...joining, weight: 50 }, unweighted), null);
  const draining = clusters({ a: 100, b: 300 }, "draining_readonly");
  t.equal(activationWeight(null, joining, draining), 200, "no live one: all of them");
  t.equal(activationWeight(null, joining, clusters({ a: 9 }, "removed")), null);
  t.equal(activationWeight(null, { ...joining, weight: 60 }, []), 60, "the first cluster");
});

t.test("shares are shown to one decimal, equal ones as uniform", async (t) => {
  const shown = (weights: Readonly<Record<string, number | null>>) => {
    const { uniform, tenths } = sharesOf(assigned(weights));
    return [uniform, ...[...tenths.values()].map(shareText)];
  };
  t.strictSame(shown({ a: 100, b: 200, c: 300 }), [false, "16.7%", "33.3%", "50.0%"]);
  t.strictSame(shown({ a: 500, b: 100, c: 200, d: 300, e: 200 }), [
    false,
    "38.5%",
    "7.7%",
    "15.4%",
    "23.1%",
    "15.4%",
  ]);
  t.strictSame(shown({ a: 5, b: 5, c: 5 }), [true, "33.3%", "33.3%", "33.3%"]);
  t.strictSame(shown({ a: null, b: null }), [true, "50.0%", "50.0%"]);
  t.strictSame(shown({ a: 7 }), [true, "100.0%"]);
  t.strictSame(shown({ a: 5, b: 0 }), [false, "100.0%", "0.0%"]);
  t.strictSame(shown({ a: 0 }), [false, "0.0%"]);
});

t.test("proportional weights, and equal against none, move nothing", async (t) => {
  const moves = (
    before: Readonly<Record<string, number | null>>,
    after: Readonly<Record<string, number | null>>,
  ) => weightsMoveKeys(assigned(before), assigned(after));
  t.notOk(moves({ a: 1, b: 3 }, { a: 10, b: 30 }));
  t.notOk(moves({ a: 5, b: 5 }, { a: null, b: null }));
  t.notOk(moves({ a: 5, b: 0 }, { a: 1 }));
  t.ok(moves({ a: 5, b: 5 }, { a: 5, b: 6 }));
  t.ok(moves({ a: 5, b: 0 }, { a: null, b: null }));
  t.ok(moves({ a: 1, b: 2 }, { a: null, b: null }));
});

t.test("every state takes exactly its commands, and the weight survives", async (t) => {
  const commands = {
    activate: (record: ReturnType<typeof clusterRecord>) => activateCluster(record, record.weight),
    readonly: (record: ReturnType<typeof clusterRecord>) => drainCluster(record, "readonly"),
    evacuate: (record: ReturnType<typeof clusterRecord>) => drainCluster(record, "evacuate"),
    undrain: undrainCluster,
  };
  const legal: Readonly<Record<ClusterState, Readonly<Record<string, ClusterState>>>> = {
    pending: { activate: "live" },
    live: { readonly: "draining_readonly", evacuate: "evacuating" },
    draining_readonly: { evacuate: "evacuating", undrain: "live" },
    evacuating: { undrain: "live" },
    removed: {},
  };
  for (const state of clusterStates) {
    const targets = legal[state];
    for (const [command, run] of Object.entries(commands)) {
      const record = clusterRecord("a", { state, weight: 37 });
      const result = run(record);
      const target = targets[command];
      if (target === undefined) {
        t.strictSame(
          result,
          { kind: "invalid_transition", currentState: state, requestedMode: command },
          `${state}: ${command}`,
        );
      } else {
        t.match(
          result,
          { kind: "ok", record: { state: target, weight: 37 } },
          `${state} ${command}`,
        );
      }
    }
  }
});

t.test("a cluster joins with the weight that it is given", async (t) => {
  t.match(activateCluster(clusterRecord("a", { state: "pending", weight: 5 }), 9), {
    record: { state: "live", weight: 9 },
  });
});

const known = new Map([
  [a, { state: "live" }],
  [b, { state: "pending" }],
  [c, { state: "removed" }],
] as const);

t.test("a placement is read with its defaults", async (t) => {
  t.strictSame(checkPlacement({ placement: { a: 70, b: 0 } }, known), {
    kind: "ok",
    placement: {
      weights: weightsOf({ a: 70, b: 0 }),
      mode: "weighted",
      spread: null,
      weighting: "weights",
    },
  });
  t.strictSame(
    checkPlacement(
      { placement: { b: 100 }, mode: "strict", spread: "prefix", weighting: "uniform" },
      known,
    ),
    {
      kind: "ok",
      placement: {
        weights: weightsOf({ b: 100 }),
        mode: "strict",
        spread: "prefix",
        weighting: "uniform",
      },
    },
  );
  t.equal(checkPlacement({ placement: { a: 1 }, mode: "", spread: null }, known).kind, "ok");
});

t.test("a wrong placement is told with the admin API's code", async (t) => {
  const code = (request: Parameters<typeof checkPlacement>[0]) => {
    const result = checkPlacement(request, known);
    return result.kind === "invalid" ? result.code : "ok";
  };
  const wrong = [undefined, null, "a", 5, [], [1], {}, { a: 0 }, { a: 0, b: 0 }];
  for (const placement of wrong) t.equal(code({ placement }), "InvalidPlacement");
  for (const weight of [-1, 101, 1.5, "5", null, true, Number.NaN]) {
    t.equal(code({ placement: { a: weight } }), "InvalidPlacement", String(weight));
  }
  t.equal(code({ placement: { c: 1 } }), "UnknownCluster", "a tombstone");
  t.equal(code({ placement: { a: 1, nowhere: 1 } }), "UnknownCluster");
  t.equal(code({ placement: { a: 1, "Not An Id": 1 } }), "UnknownCluster");
  t.equal(code(JSON.parse('{"placement": {"__proto__": 1}}')), "UnknownCluster");
  t.equal(code({ placement: { a: 1 }, mode: "loose" }), "InvalidPlacementMode");
  t.equal(code({ placement: { a: 1 }, mode: 1 }), "InvalidPlacementMode");
  t.equal(code({ placement: { a: 1 }, spread: "key" }), "InvalidPlacement");
  t.equal(code({ placement: { a: 1 }, weighting: "none" }), "InvalidPlacement");
});
