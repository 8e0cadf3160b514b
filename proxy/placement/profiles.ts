// What each kind of upstream is known to do on the wire, where it matters to what we send or answer.
// A fact says what the server does, never what we do about it. Each is right when it is too low: an
// upstream that can more than its row says gets plainer requests, never wrong ones. Where one can less,
// an upload fails or is right, since bodies are verified before they are whole upstream; but it may
// ignore the condition of a write or a DELETE. `headgate cluster ping ID --probe` asks a cluster for most.
//
// Sources: wire probes of Ceph RGW 16.2.15 and 18.2.7 and of versitygw 1.8.0; for AWS the S3 API
// Reference; for RGW 17, 18.2.0 to 18.2.4 and 19.2 the release they share the code with, and where that
// is not known the lower value.

/** One row of facts. "Cautious" is the value that is right whatever the server does. */
export interface ProfileFacts {
  readonly backend: "rgw" | "s3";
  /**
   * Takes STREAMING-UNSIGNED-PAYLOAD-TRAILER. RGW does from 18.2.5 on; before, it takes the value for
   * a hash and answers 400; others may store the framing. Cautious: false.
   */
  readonly takesTrailers: boolean;
  /**
   * Checks x-amz-checksum-*, in the head or behind the body, and keeps it with the object. RGW up to
   * 18.2 reads none of them: a wrong one is stored like a right one. Cautious: false.
   */
  readonly verifiesChecksums: boolean;
  /**
   * Stores the `aws-chunked` of Content-Encoding with the object and sends it back; AWS takes it off.
   * Cautious: true.
   */
  readonly keepsAwsChunked: boolean;
  /**
   * Reads ranges and conditions of GET and HEAD as RFC 9110 says: lists of ETags, weak ones, `*`,
   * If-Range, a Range that is malformed or asks for nothing. RGW reads one ETag, no If-Range, and
   * makes a range of any text. Cautious: false.
   */
  readonly readsConditionsFully: boolean;
  /** Obeys If-Match with one ETag and `If-None-Match: *` of PutObject. Cautious: false. */
  readonly honoursConditionalPut: boolean;
  /** How an ETag in If-Match and If-None-Match of a write must stand; RGW never matches a quoted one. */
  readonly conditionalEtagQuotes: "keep" | "strip";
  /**
   * Whether If-Match on DELETE is obeyed; ignored by RGW, which deletes. The conditions on size and time
   * are for directory buckets, a service of AWS, and nowhere relied on. Cautious: false.
   */
  readonly honoursConditionalDelete: boolean;
  /** The same of CompleteMultipartUpload; ignored by RGW. Cautious: false. */
  readonly honoursConditionalComplete: boolean;
  /** The same of CopyObject, on its destination; ignored by RGW. Cautious: false. */
  readonly honoursConditionalCopy: boolean;
  /** Whether x-amz-copy-source-if-* are; ignored by RGW 16.2, obeyed by 18.2. Cautious: false. */
  readonly honoursCopySourceConditions: boolean;
  /** Answers GetObjectAttributes; RGW up to 18.2 answers the object itself. Cautious: false. */
  readonly answersObjectAttributes: boolean;
  /** Reads `partNumber` of GET and HEAD; RGW up to 18.2 answers the whole object. Cautious: false. */
  readonly answersPartNumber: boolean;
  /**
   * Lives on after UploadPartCopy from a key that is empty or holds a bare `%`; a radosgw aborts,
   * also for a caller without rights (16.2.15 and 18.2.7). Cautious: false.
   */
  readonly survivesUploadPartCopy: boolean;
  /**
   * Reads each sub-resource that a setting is written by, or refuses it. Others ignore some, and take the
   * write for that of the object or bucket itself, as an RGW does of a bucket's. Cautious: false.
   */
  readonly knowsSettings: boolean;
}

const pacific: ProfileFacts = Object.freeze({
  backend: "rgw",
  takesTrailers: false,
  verifiesChecksums: false,
  keepsAwsChunked: true,
  readsConditionsFully: false,
  honoursConditionalPut: true,
  conditionalEtagQuotes: "strip",
  honoursConditionalDelete: false,
  honoursConditionalComplete: false,
  honoursConditionalCopy: false,
  honoursCopySourceConditions: false,
  answersObjectAttributes: false,
  answersPartNumber: false,
  survivesUploadPartCopy: false,
  knowsSettings: false,
});

/** 18.2.5 and later. It takes trailers and looks at none, so nothing is gained by sending them. */
const reef: ProfileFacts = Object.freeze({
  ...pacific,
  takesTrailers: true,
  honoursCopySourceConditions: true,
});

/** 19.2 and later. */
const squid: ProfileFacts = Object.freeze({ ...reef, verifiesChecksums: true });

const aws: ProfileFacts = Object.freeze({
  backend: "s3",
  takesTrailers: true,
  verifiesChecksums: true,
  keepsAwsChunked: false,
  readsConditionsFully: true,
  honoursConditionalPut: true,
  conditionalEtagQuotes: "keep",
  honoursConditionalDelete: true,
  honoursConditionalComplete: true,
  honoursConditionalCopy: true,
  honoursCopySourceConditions: true,
  answersObjectAttributes: true,
  answersPartNumber: true,
  survivesUploadPartCopy: true,
  knowsSettings: true,
});

/** Every cautious value. */
const s3Generic: ProfileFacts = Object.freeze({
  ...pacific,
  backend: "s3",
  honoursConditionalPut: false,
  conditionalEtagQuotes: "keep",
});

/** Every profile that a cluster's configuration may name. */
export const profiles = Object.freeze({
  aws,
  "rgw-pacific": pacific,
  "rgw-quincy": pacific,
  "rgw-reef-early": pacific,
  "rgw-reef": reef,
  "rgw-squid": squid,
  "s3-generic": s3Generic,
}) satisfies Record<string, ProfileFacts>;

export type ProfileName = keyof typeof profiles;

const byName: ReadonlyMap<string, ProfileFacts> = new Map(Object.entries(profiles));

/** Names for messages and checks, in the order of this table. */
export const profileNames: readonly ProfileName[] = [...byName.keys()].filter(isProfileName);

export function isProfileName(text: string): text is ProfileName {
  return byName.has(text);
}

/** Single facts that a cluster's operator knows better than its profile does. */
export type FactOverrides = {
  readonly [Name in Exclude<keyof ProfileFacts, "backend">]?: ProfileFacts[Name] | undefined;
};

/** The facts of a named profile; those of `s3-generic` for a name this release does not know. */
export function profileFacts(name: string, overrides: FactOverrides = {}): ProfileFacts {
  return withOverrides(byName.get(name) ?? s3Generic, overrides);
}

export function withOverrides(facts: ProfileFacts, overrides: FactOverrides = {}): ProfileFacts {
  const given = Object.entries(overrides).filter(([, value]) => value !== undefined);
  return given.length === 0 ? facts : Object.freeze({ ...facts, ...Object.fromEntries(given) });
}
