// Weights of the default wheel: all at once (`set-weights`, AIStore's words) and shown as shares.

import { isWeight } from "../placement/placement-request.ts";
import type { RegistryChange } from "../placement/ports.ts";
import type { Revision } from "../placement/records.ts";
import type { PlacementSnapshot } from "../placement/snapshot.ts";
import {
  type AssignedWeights,
  applyWeightCommand,
  sharesOf,
  shareText,
  type WeightChange,
  type WeightCommand,
  type WeightWord,
} from "../placement/weights.ts";
import { type ClusterId, parseClusterId } from "../s3/names.ts";
import { type ChangePorts, change, type Plan } from "./change.ts";
import {
  type AdminReply,
  type AdminRequest,
  invalidTransition,
  json,
  malformed,
  problem,
  unknownCluster,
  unknownKeys,
} from "./reply.ts";
import { clustersRevision, wheelWeights } from "./shares.ts";

/** GET /admin/v1/placement: the configured shares. */
export function showPlacement(_request: AdminRequest, ports: ChangePorts): AdminReply {
  const view = ports.snapshots.current();
  const { uniform } = sharesOf(wheelWeights(view.clusters));
  const clusters = sharesBody(wheelWeights(view.clusters));
  return json(200, { uniform, clusters }, clustersRevision(view));
}

function sharesBody(weights: AssignedWeights): readonly unknown[] {
  const { tenths } = sharesOf(weights);
  return [...weights]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([id, weight]) => ({ id, weight, share: shareText(tenths.get(id) ?? 0) }));
}

/** PUT /admin/v1/weights `{weights: {a: 1, b: "none"}, rest: 1}` or `{clear: true}` */
export function putWeights(request: AdminRequest, ports: ChangePorts): Promise<AdminReply> {
  const command = readCommand(request.body);
  if (command.kind === "wrong") return Promise.resolve(command.reply);
  return change(request, ports, (view) => {
    const records = [...view.clusters.values()].map(({ value }) => value);
    return weightPlan(applyWeightCommand(command, records), view, {
      action: "admin:UpdateClusterWeights",
      resource: "wheel",
      revision: clustersRevision(view),
    });
  });
}

type CommandReading = WeightCommand | { readonly kind: "wrong"; readonly reply: AdminReply };

function readCommand(body: Readonly<Record<string, unknown>>): CommandReading {
  const unknown = unknownKeys(body, ["weights", "rest", "clear"]);
  if (unknown !== null) return { kind: "wrong", reply: unknown };
  const { weights = {}, rest = null, clear } = body;
  if (clear === true) return { kind: "clear" };
  if (clear !== undefined) return wrong('Body key "clear" needs true');
  if (rest !== null && !isWord(rest)) return { kind: "wrong", reply: wrongWord("rest") };
  const named = readNamed(weights);
  if (named.kind === "wrong") return named;
  if (named.words.size === 0 && rest === null) return wrong("The body names no weight");
  return { kind: "set", named: named.words, rest };
}

function readNamed(
  weights: unknown,
):
  | Extract<CommandReading, { readonly kind: "wrong" }>
  | { readonly kind: "words"; readonly words: ReadonlyMap<ClusterId, WeightWord> } {
  if (typeof weights !== "object" || weights === null || Array.isArray(weights)) {
    return wrong('Body key "weights" needs a map of cluster to weight');
  }
  const words = new Map<ClusterId, WeightWord>();
  for (const [name, word] of Object.entries(weights)) {
    const id = parseClusterId(name);
    if (id === null) return { kind: "wrong", reply: unknownCluster(name) };
    if (!isWord(word)) return { kind: "wrong", reply: wrongWord(name) };
    words.set(id, word);
  }
  return { kind: "words", words };
}

function wrong(message: string): { readonly kind: "wrong"; readonly reply: AdminReply } {
  return { kind: "wrong", reply: malformed(message) };
}

function isWord(value: unknown): value is WeightWord {
  return value === "none" || isWeight(value);
}

function wrongWord(name: string): AdminReply {
  return problem(400, "InvalidWeight", `Weight of "${name}" needs 0 to 100 or none`);
}

/** What a weight command comes to: the records whose weight differs. */
export function weightPlan(
  applied: WeightChange,
  view: PlacementSnapshot,
  of: { readonly action: string; readonly resource: string; readonly revision: Revision },
): Plan {
  const reply = (answer: AdminReply): Plan => ({ kind: "reply", reply: answer });
  switch (applied.kind) {
    case "invalid":
      return reply(problem(400, "InvalidWeight", applied.message));
    case "unknown_cluster":
      return reply(unknownCluster(applied.id));
    case "not_live": {
      const refused = { currentState: applied.state, requestedMode: "weight" };
      return reply(invalidTransition(applied.id, refused));
    }
    case "ok":
      break;
  }
  const changes = [...applied.weights].flatMap(([id, weight]): RegistryChange[] => {
    const entry = view.clusters.get(id);
    if (entry === undefined || entry.value.weight === weight) return [];
    const record = { ...entry.value, weight };
    return [{ kind: "cluster", id, expected: entry.modRevision, record }];
  });
  return {
    kind: "changes",
    revision: of.revision,
    changes,
    audit: {
      action: of.action,
      resource: of.resource,
      detail: [...applied.weights].map(([id, weight]) => `${id}=${weight ?? "none"}`).join(" "),
    },
    effect: {
      before: sharesBody(wheelWeights(view.clusters)),
      after: sharesBody(applied.weights),
      moves_keys: applied.moves,
    },
    warning: applied.warn ? "The largest weight is 10 times the smallest or more" : null,
  };
}
