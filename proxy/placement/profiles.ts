// What each kind of upstream is known to do on the wire, where it matters to what we send or answer.
// Only facts seen on running servers stand here; an unknown server gets the cautious row.
// Seen on Ceph RGW 16.2.15 and 18.2.7, which agree in all that stands here.

/** One row of facts. "Cautious" is the value that is right whatever the server does. */
export interface ProfileFacts {
  readonly backend: "rgw" | "s3";
  /**
   * Verifies a hex x-amz-content-sha256 and stores nothing when it differs, so a verified client
   * hash may be passed on in place of one of our own. Cautious: false.
   */
  readonly verifiesPayloadHash: boolean;
  /** How an ETag in If-Match and If-None-Match of a write must stand; RGW never matches a quoted one. */
  readonly conditionalEtagQuotes: "keep" | "strip";
  /** Whether If-Match on DELETE is obeyed; ignored by RGW, which deletes. Cautious: false. */
  readonly honoursConditionalDelete: boolean;
  /** Whether conditions on CompleteMultipartUpload are obeyed; ignored by RGW. Cautious: false. */
  readonly honoursConditionalComplete: boolean;
}

const rgw: ProfileFacts = Object.freeze({
  backend: "rgw",
  verifiesPayloadHash: true,
  conditionalEtagQuotes: "strip",
  honoursConditionalDelete: false,
  honoursConditionalComplete: false,
});

const aws: ProfileFacts = Object.freeze({
  backend: "s3",
  verifiesPayloadHash: true,
  conditionalEtagQuotes: "keep",
  honoursConditionalDelete: true,
  honoursConditionalComplete: true,
});

const s3Generic: ProfileFacts = Object.freeze({
  ...aws,
  verifiesPayloadHash: false,
  honoursConditionalDelete: false,
  honoursConditionalComplete: false,
});

/** Every profile that a cluster's configuration may name. */
export const profiles = Object.freeze({
  aws,
  "rgw-pacific": rgw,
  "rgw-quincy": rgw,
  "rgw-reef-early": rgw,
  "rgw-reef": rgw,
  "rgw-squid": rgw,
  "s3-generic": s3Generic,
}) satisfies Record<string, ProfileFacts>;

export type ProfileName = keyof typeof profiles;

const byName: ReadonlyMap<string, ProfileFacts> = new Map(Object.entries(profiles));

/** Names for messages and checks, in the order of this table. */
export const profileNames: readonly string[] = [...byName.keys()];

export function isProfileName(text: string): text is ProfileName {
  return byName.has(text);
}

/** The facts of a named profile; those of `s3-generic` for a name this release does not know. */
export function profileFacts(name: string): ProfileFacts {
  return byName.get(name) ?? s3Generic;
}
