// Which profile fits what a cluster was seen to do. A fact that was not seen counts for nothing; where
// several profiles fit alike, the first of the table is named and the others beside it.

import { type ProfileFacts, type ProfileName, profileNames, profiles } from "./profiles.ts";

/** Facts that a probe saw; `backend` and what could not be told are left out. */
export type SeenFacts = { readonly [Name in keyof ProfileFacts]?: ProfileFacts[Name] };

export interface ProfileMatch {
  /** Those that differ least from what was seen, in the order of the table. */
  readonly best: readonly ProfileName[];
  /** Facts in which even those differ. */
  readonly differences: readonly string[];
}

export function matchProfiles(seen: SeenFacts): ProfileMatch {
  let best: ProfileName[] = [];
  let least = Number.POSITIVE_INFINITY;
  let differences: readonly string[] = [];
  for (const name of profileNames) {
    const found = factDifferences(seen, profiles[name]);
    if (found.length < least) {
      least = found.length;
      best = [];
      differences = found;
    }
    if (found.length === least) best.push(name);
  }
  return { best, differences };
}

/** Names of the facts that were seen to be otherwise. */
export function factDifferences(seen: SeenFacts, facts: ProfileFacts): readonly string[] {
  const own = new Map<string, unknown>(Object.entries(facts));
  return Object.entries(seen)
    .filter(([name, value]) => own.get(name) !== value)
    .map(([name]) => name);
}
