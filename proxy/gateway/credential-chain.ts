// Where the gateway looks a key id up: its sources in order, the first that knows it wins. A key that
// is known but suspended ends the search, so that no later source can bring it back to life.

import type { Credential, CredentialSource } from "../policy/credential.ts";
import type { AccessKeyId } from "../s3/names.ts";

/** Sources in order. Suspended keys are unknown ones to whoever asks the chain. */
export class CredentialChain implements CredentialSource {
  readonly #sources: readonly CredentialSource[];

  constructor(sources: readonly CredentialSource[]) {
    this.#sources = sources;
  }

  find(accessKeyId: AccessKeyId): Credential | null | Promise<Credential | null> {
    return this.#findFrom(0, accessKeyId);
  }

  #findFrom(
    start: number,
    accessKeyId: AccessKeyId,
  ): Credential | null | Promise<Credential | null> {
    for (let index = start; index < this.#sources.length; index += 1) {
      const found = this.#sources[index]?.find(accessKeyId) ?? null;
      if (found instanceof Promise) return this.#afterwards(found, index, accessKeyId);
      if (found !== null) return active(found);
    }
    return null;
  }

  async #afterwards(
    asked: Promise<Credential | null>,
    index: number,
    accessKeyId: AccessKeyId,
  ): Promise<Credential | null> {
    const found = await asked;
    return found === null ? await this.#findFrom(index + 1, accessKeyId) : active(found);
  }
}

function active(credential: Credential): Credential | null {
  return credential.status === "active" ? credential : null;
}

/** Keys that stand in memory, replaced as a whole. */
export class FixedCredentials implements CredentialSource {
  #byId: ReadonlyMap<AccessKeyId, Credential> = new Map();

  constructor(credentials: readonly Credential[]) {
    this.replace(credentials);
  }

  replace(credentials: readonly Credential[]): void {
    this.#byId = new Map(credentials.map((one) => [one.accessKeyId, one]));
  }

  find(accessKeyId: AccessKeyId): Credential | null {
    return this.#byId.get(accessKeyId) ?? null;
  }
}
