// A key pair that clients sign with and whom it stands for, as every credential source gives it. What
// its user may do are grants, which are data for policy; nothing here decides access.

import type { AccessKeyId, ClusterId } from "../s3/names.ts";
import type { Grant, Principal } from "./ports.ts";

/** Keys at an upstream. Never logged. */
export interface KeyPair {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Issued with the pair, which is then good with this token only; absent: the pair has none. */
  readonly sessionToken?: string;
}

export interface Credential extends KeyPair {
  readonly accessKeyId: AccessKeyId;
  /** `principal.scheme` is `header`; the gateway sets the real one. */
  readonly principal: Principal;
  /** A suspended key is refused as an unknown one is, and no later source is asked for it. */
  readonly status: "active" | "suspended";
  /** The user's pairs on clusters with identity `mapped`. */
  readonly clusters: ReadonlyMap<ClusterId, KeyPair>;
}

export interface CredentialSource {
  /**
   * The credential of a key id, or null: not known here. Answers at once whenever it can; a promise
   * only when somebody else has to be asked.
   * @throws S3Error ServiceUnavailable or SlowDown when it cannot be known now.
   */
  find(accessKeyId: AccessKeyId): Credential | null | Promise<Credential | null>;
}

/** What a user without grants may do where every cluster's own ACLs decide (identity `same`). */
export const everything: readonly Grant[] = Object.freeze([
  {
    buckets: ["*", "*:*"],
    keys: ["*"],
    allow: ["read", "list", "write", "delete", "admin"],
  },
]);
