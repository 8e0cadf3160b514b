// What the admin surface works through beside placement/ports.ts. main hands in the instances.

import type { Actor } from "../placement/ports.ts";
import type { BucketPlacement, Revision } from "../placement/records.ts";
import type { AccessKeyId, BucketName, TenantName } from "../s3/names.ts";

/** Who changes what, as the audit line shows it. */
export interface ChangeContext {
  readonly actor: Actor;
  readonly requestId: string;
  /** The record must still be at this revision; null: whatever it is. */
  readonly expected: Revision | null;
  /** Say what would happen, write nothing. */
  readonly dryRun: boolean;
  readonly signal: AbortSignal;
}

export type PlacementChangeResult =
  /** Written, or, for a dry run, free to be written. `moves`: new keys may go elsewhere. */
  | { readonly kind: "changed" }
  /** The bucket holds objects that the change would have to move. */
  | { readonly kind: "busy" }
  /** It is versioned, which keeps it on its cluster. */
  | { readonly kind: "pinned" }
  | { readonly kind: "no_such_bucket" }
  /** `expected` did not hold, or other writers kept winning. */
  | { readonly kind: "conflict" }
  /** A cluster or the state store cannot be asked now. */
  | { readonly kind: "unavailable"; readonly message: string };

/** Changes of a bucket's placement, which need to know what the clusters hold. */
export interface PlacementChanges {
  /** `placement: null` clears it: the bucket goes back to the default rule. */
  putPlacement(
    target: { readonly tenant: TenantName; readonly bucket: BucketName },
    placement: BucketPlacement | null,
    context: ChangeContext,
  ): Promise<PlacementChangeResult>;
}

/** What becomes of a client key in the state store when a request is signed with it. */
export interface StoredKeyUse {
  /** `auth.credentials` has the state store among its sources. */
  readonly isSource: boolean;
  /** The kind of the source that knows a key id before the store is asked, `file`; null: none does. */
  readonly knownBefore: (accessKeyId: AccessKeyId) => Promise<string | null>;
  /** A user without grants may do whatever the clusters let it do. */
  readonly impliesGrants: boolean;
}

/** What this process says of itself. */
export interface ProcessFacts {
  readonly version: string;
  readonly nodeId: string;
  readonly startedAtMs: number;
  readonly stateDriver: "memory" | "file" | "etcd";
}

/** Whether this process may take traffic: configuration, policy, snapshot. Never upstream health. */
export interface ReadinessCheck {
  readonly name: "config" | "policy" | "snapshot" | "lifecycle";
  readonly ok: boolean;
  /** `revision 12, live`; why not, when it is not. */
  readonly detail: string;
}

export interface Readiness {
  checks(): readonly ReadinessCheck[];
}
