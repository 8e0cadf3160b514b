// Keys out of the state store: every member has all of them, sealed; a secret is opened when its key
// is first used and kept as long as its record stands. A record that this process cannot open is 503:
// the key is right, what is wrong is here.

import type { Log, Snapshots } from "../placement/ports.ts";
import type { CredentialRecord } from "../placement/records.ts";
import { openSecret, type SealKeys } from "../placement/sealed-secret.ts";
import type { Credential, CredentialSource } from "../policy/credential.ts";
import type { Grant } from "../policy/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { AccessKeyId } from "../s3/names.ts";

export interface SealedCredentialsOptions {
  readonly snapshots: Pick<Snapshots, "current">;
  readonly keys: SealKeys;
  /** What a user without grants of its own may do. */
  readonly impliedGrants: readonly Grant[];
  readonly log: Log;
}

const noClusters: Credential["clusters"] = new Map();

export class SealedCredentials implements CredentialSource {
  readonly #options: SealedCredentialsOptions;
  /** Null: cannot be opened. A record is never edited, so what was opened stays true for it. */
  readonly #opened = new WeakMap<CredentialRecord, Credential | null>();

  constructor(options: SealedCredentialsOptions) {
    this.#options = options;
  }

  find(accessKeyId: AccessKeyId): Credential | null {
    const record = this.#options.snapshots.current().credentials.get(accessKeyId)?.value;
    if (record === undefined) return null;
    let credential = this.#opened.get(record);
    if (credential === undefined) {
      credential = this.#open(record);
      this.#opened.set(record, credential);
    }
    if (credential !== null) return credential;
    throw new S3Error("ServiceUnavailable", {
      message: "The access key cannot be read at this moment",
      retryAfterSeconds: 30,
    });
  }

  #open(record: CredentialRecord): Credential | null {
    const { keys, impliedGrants, log } = this.#options;
    const secretAccessKey = openSecret(record, keys);
    if (secretAccessKey === null) {
      log.write("error", "credentials.seal_not_opened", { accessKey: record.accessKeyId });
      return null;
    }
    const { accessKeyId, uid, displayName, tenant, groups, grants, status } = record;
    return Object.freeze({
      accessKeyId,
      secretAccessKey,
      status,
      clusters: noClusters,
      principal: Object.freeze({
        accessKey: accessKeyId,
        account: uid,
        displayName,
        tenant,
        groups,
        grants: grants.length === 0 ? impliedGrants : grants,
        scheme: "header",
      }),
    });
  }
}
