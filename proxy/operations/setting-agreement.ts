// Makes the clusters of a bucket agree on one setting: all get what the first says, as readers are told. No lock
// is needed: whoever writes to any looks at all of them afterwards, so the one who writes last sees what is left
// and copies; a copy is looked at in turn. One that says something else right after it was given the first one's
// word words it differently, or was written by somebody who will look. A writer begins to copy only where the
// first one says what it wrote: another word is a later writer's, or an old one, since S3 tells settings late.

import type { CancelSignal } from "../placement/ports.ts";
import type { ClusterId } from "../s3/names.ts";
import type { OperationPorts } from "./context.ts";
import type { ComparedSetting } from "./drift-reading.ts";
import type { Drift } from "./drift-report.ts";
import type { BucketPlace } from "./emptiness.ts";
import {
  type Copying,
  copyOf,
  copySetting,
  driftOf,
  type SettingDifference,
  settingDifferences,
  toldText,
} from "./setting-copy.ts";

/** Other writers change the first cluster's word this often at most before it is left for later. */
const maxRounds = 6;

export interface Agreement {
  /** What differed: `healed` where it does no more. */
  readonly drift: readonly Drift[];
  /** Whether it should be looked at again: a cluster did not answer, or did not come to rest. */
  readonly isOpen: boolean;
  /** Whether a cluster may still carry out a copy that it gave no answer to. */
  readonly isLate: boolean;
}

/** A copy that was made, or tried. */
interface Attempt {
  readonly difference: SettingDifference;
  readonly copying: Copying;
}

type FactPorts = Pick<OperationPorts, "facts">;

interface AgreeOptions {
  readonly signal: CancelSignal;
  /** What the first one has just been told (`toldText`), `null`: not known; default: its word counts. */
  readonly ours?: string | null;
}

/** @param places of the bucket, the one whose word counts first. */
export async function agree(
  setting: ComparedSetting,
  places: readonly BucketPlace[],
  ports: Pick<OperationPorts, "upstream" | "facts">,
  { signal, ours }: AgreeOptions,
): Promise<Agreement> {
  const attempts = new Map<ClusterId, Attempt>();
  let isLate = false;
  for (let round = 0; ; round += 1) {
    const differences = await settingDifferences(setting, places, ports, signal);
    const toCopy = differences.filter((difference) => isToCopy(difference, attempts, ports));
    if (toCopy.length === 0 || round === maxRounds) {
      const isOpen = isLate || toCopy.length > 0 || differences.some(mayPass);
      return { drift: driftOfAll(differences, attempts, ports), isOpen, isLate };
    }
    if (
      round === 0 &&
      ours !== undefined &&
      !toCopy.some((each) => toldText(each.wanted) === ours)
    ) {
      const drift = differences.map((difference) => driftOf(difference, "found"));
      return { drift, isOpen: true, isLate };
    }
    const made = await Promise.all(
      toCopy.map(async (difference) => ({
        difference,
        copying: await copySetting(difference, ports, signal),
      })),
    );
    for (const attempt of made) {
      const { copying, difference } = attempt;
      attempts.set(difference.place.cluster, attempt);
      isLate ||= copying.kind === "failed" && copying.passes;
    }
  }
}

/** The same, counted as a mutation of the bucket as long as a cluster may carry out any of it. */
export async function agreeCounted(
  setting: ComparedSetting,
  places: readonly BucketPlace[],
  ports: Pick<OperationPorts, "upstream" | "facts" | "membership" | "timers" | "quarantineMs">,
  options: AgreeOptions,
): Promise<Agreement> {
  const [first] = places;
  if (first === undefined) return { drift: [], isOpen: false, isLate: false };
  const end = ports.membership.beginMutation(first.tenant, first.name);
  let isLate = false;
  try {
    const agreement = await agree(setting, places, ports, options);
    ({ isLate } = agreement);
    return agreement;
  } finally {
    if (isLate) ports.timers.after(ports.quarantineMs, end);
    else end();
  }
}

function isToCopy(
  difference: SettingDifference,
  attempts: ReadonlyMap<ClusterId, Attempt>,
  ports: FactPorts,
): boolean {
  if (difference.kind === "unreadable") return false;
  if (typeof copyOf(difference, ports) === "string") return false;
  const last = attempts.get(difference.place.cluster);
  return last === undefined || toldText(last.difference.wanted) !== toldText(difference.wanted);
}

function driftOfAll(
  differences: readonly SettingDifference[],
  attempts: ReadonlyMap<ClusterId, Attempt>,
  ports: FactPorts,
): readonly Drift[] {
  const standing = new Set(differences.map(({ place }) => place.cluster));
  const healed = [...attempts.values()].filter(({ difference: { place } }) => {
    return !standing.has(place.cluster);
  });
  return [
    ...differences.map((difference) => driftLeft(difference, attempts, ports)),
    ...healed.map(({ difference }) => driftOf(difference, "healed")),
  ];
}

function driftLeft(
  difference: SettingDifference,
  attempts: ReadonlyMap<ClusterId, Attempt>,
  ports: FactPorts,
): Drift {
  if (difference.kind === "unreadable") return driftOf(difference, "found");
  const copying = attempts.get(difference.place.cluster)?.copying;
  if (copying?.kind === "copied") {
    return driftOf(difference, "failed", "Says something else although it took what it was given");
  }
  const why = copying?.why ?? copyOf(difference, ports);
  return driftOf(difference, "failed", typeof why === "string" ? why : null);
}

function mayPass({ told, wanted }: SettingDifference): boolean {
  return [told, wanted].some((each) => each.kind === "unreadable" && each.passes);
}
