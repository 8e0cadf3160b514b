// What each cluster is taken to do: what its configuration says, until its answers show that it is
// another kind of server. Then only that holds which both kinds do, so that a wrong profile leads to a
// refusal and never to a condition that nobody heeds. What an operator overrides stays as it was said.

import type { HeaderList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import {
  type FactOverrides,
  type ProfileFacts,
  profileFacts,
  profiles,
  withOverrides,
} from "./profiles.ts";
import { type ServerKind, serverKind } from "./server-kind.ts";

interface ConfiguredFacts {
  /** `rgw-reef`; of any other name nothing is known. */
  readonly profile: string;
  readonly overrides: FactOverrides | undefined;
}

/** A profile that the cluster's answers belie. */
export interface ProfileMismatch {
  readonly profile: string;
  /** Facts that are taken otherwise than configured: `honoursConditionalDelete`. */
  readonly facts: readonly string[];
}

export interface ClusterFactsOptions {
  readonly configured: (cluster: ClusterId) => ConfiguredFacts;
  /** Called when a cluster is seen to be what its profile is not, once in a process. */
  readonly onMismatch: (cluster: ClusterId, mismatch: ProfileMismatch) => void;
}

interface Shown {
  /** Kinds that its answers were of; several where different servers stand behind one cluster. */
  readonly kinds: ReadonlySet<ServerKind>;
  /** Whether it took a body in framing; `null`: none was sent yet. */
  readonly takesTrailers: boolean | null;
}

const nothing: Shown = { kinds: new Set(), takesTrailers: null };

interface Judged {
  readonly profile: string;
  readonly shown: Shown | undefined;
  readonly facts: ProfileFacts;
}

export class ClusterFacts {
  readonly #options: ClusterFactsOptions;
  readonly #shown = new Map<ClusterId, Shown>();
  readonly #judged = new Map<ClusterId, Judged>();

  constructor(options: ClusterFactsOptions) {
    this.#options = options;
  }

  of(cluster: ClusterId): ProfileFacts {
    const { profile, overrides } = this.#options.configured(cluster);
    const shown = this.#shown.get(cluster);
    const known = this.#judged.get(cluster);
    if (known !== undefined && known.profile === profile && known.shown === shown) {
      return known.facts;
    }
    const facts = believed(profile, overrides, shown);
    this.#judged.set(cluster, { profile, shown, facts });
    return facts;
  }

  /** Whether an answer was looked at, so that a wrong kind would have been noticed. */
  isShown(cluster: ClusterId): boolean {
    return this.#shown.has(cluster);
  }

  /** What it was seen to be; `null`: not yet, or it does not tell. */
  kind(cluster: ClusterId): ServerKind | null {
    const kinds = this.#shown.get(cluster)?.kinds;
    return kinds?.has("rgw") === true ? "rgw" : kinds?.has("other") === true ? "other" : null;
  }

  /** Whether it was seen to be an RGW, and nothing else. */
  isRgw(cluster: ClusterId): boolean {
    const kinds = this.#shown.get(cluster)?.kinds;
    return kinds?.size === 1 && kinds.has("rgw");
  }

  /** `null`: nothing is taken otherwise than configured. */
  mismatch(cluster: ClusterId): ProfileMismatch | null {
    const { profile, overrides } = this.#options.configured(cluster);
    const own = new Map<string, unknown>(Object.entries(profileFacts(profile, overrides)));
    const facts = Object.entries(this.of(cluster))
      .filter(([name, value]) => name !== "backend" && own.get(name) !== value)
      .map(([name]) => name);
    return facts.length === 0 ? null : { profile, facts };
  }

  /**
   * Takes note of an answer. True: the server has told what it is and need not be looked at again.
   * An answer of 500 or above without a mark may be somebody's in between, and tells nothing.
   */
  note(
    cluster: ClusterId,
    { status, headers }: { readonly status: number; readonly headers: HeaderList },
  ): boolean {
    const kind = serverKind(headers);
    if (kind === null && status >= 500) return false;
    const { kinds, takesTrailers } = this.#shown.get(cluster) ?? nothing;
    if (!this.isShown(cluster) || (kind !== null && !kinds.has(kind))) {
      const seen = new Set([...kinds, ...(kind ? [kind] : [])]);
      this.#show(cluster, { kinds: seen, takesTrailers });
    }
    return kind !== null;
  }

  /** Whether bodies may be sent to it in framing: it took one, or its operator says that it does. */
  framingIsShown(cluster: ClusterId): boolean {
    return (
      this.#shown.get(cluster)?.takesTrailers === true ||
      this.#options.configured(cluster).overrides?.takesTrailers === true
    );
  }

  /** Takes note of what became of a body in framing. */
  noteFraming(cluster: ClusterId, takesTrailers: boolean): void {
    this.#show(cluster, { ...(this.#shown.get(cluster) ?? nothing), takesTrailers });
  }

  #show(cluster: ClusterId, shown: Shown): void {
    const before = this.mismatch(cluster);
    this.#shown.set(cluster, shown);
    const mismatch = before === null ? this.mismatch(cluster) : null;
    if (mismatch !== null) this.#options.onMismatch(cluster, mismatch);
  }
}

/** The facts of a profile as far as they agree with what was seen, with the overrides above all. */
function believed(
  profile: string,
  overrides: FactOverrides | undefined,
  shown: Shown | undefined,
): ProfileFacts {
  const own = profileFacts(profile);
  let facts = own;
  if (own.backend === "rgw" && shown?.kinds.has("other") === true) {
    facts = agreed(facts, profiles["s3-generic"]);
  }
  if (own.backend === "s3" && shown?.kinds.has("rgw") === true) {
    facts = agreed(facts, profiles["rgw-pacific"]);
  }
  if (shown?.takesTrailers === false) facts = { ...facts, takesTrailers: false };
  return facts === own ? profileFacts(profile, overrides) : withOverrides(facts, overrides);
}

/** Where the two differ the cautious value, which is right whatever the server does. */
function agreed(facts: ProfileFacts, least: ProfileFacts): ProfileFacts {
  const other = new Map<string, unknown>(Object.entries(least));
  const cautious = new Map<string, unknown>(Object.entries(profiles["s3-generic"]));
  const lowered = Object.entries(facts)
    .filter(([name, value]) => other.get(name) !== value)
    .map(([name]) => [name, cautious.get(name)]);
  const made: ProfileFacts = { ...facts, ...Object.fromEntries(lowered), backend: least.backend };
  // What an RGW compares is no matter of caution: a quoted ETag never matches there.
  return made.honoursConditionalPut
    ? { ...made, conditionalEtagQuotes: least.conditionalEtagQuotes }
    : made;
}
