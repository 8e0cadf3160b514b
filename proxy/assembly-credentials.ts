// The credential sources of a Config as running parts: what the gateway asks whose key signed a
// request, and what the upstream adapter asks for the keys to sign it again with.

import type { Metrics } from "./admin/metrics.ts";
import type { StoredKeyUse } from "./admin/ports.ts";
import type { Config } from "./config.ts";
import { CredentialChain, FixedCredentials } from "./gateway/credential-chain.ts";
import { ReloadingCredentials } from "./gateway/reloading-credentials.ts";
import { RgwCredentials } from "./gateway/rgw-credentials.ts";
import { SealedCredentials } from "./gateway/sealed-credentials.ts";
import type { Clock, Log, Meter, Snapshots, Timers } from "./placement/ports.ts";
import { FaultError } from "./placement/ports.ts";
import type { Credential, CredentialSource } from "./policy/credential.ts";
import type { AccessKeyId, ClusterId } from "./s3/names.ts";
import type { SigningCredentials } from "./s3/sigv4.ts";
import { type AskAdmin, rgwUserFinder } from "./upstream/admin-ops.ts";
import type { CallerKeys } from "./upstream/caller-keys.ts";
import { RenewingKeys } from "./upstream/cluster-keys.ts";

interface CredentialParts {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly fingerprint: (path: string) => Promise<string>;
  readonly log: Log;
  readonly meter: Meter;
  readonly askAdmin: AskAdmin;
  /** The keys of a cluster that sign now. */
  readonly clusterKeys: (cluster: ClusterId) => SigningCredentials | null;
  readonly snapshots: Pick<Snapshots, "current">;
}

export interface OpenCredentials {
  readonly source: CredentialSource;
  readonly storedKeyUse: StoredKeyUse;
  readonly close: () => void;
}

export function openCredentials(config: Config, parts: CredentialParts): OpenCredentials {
  const { log, meter, snapshots, clock, timers, fingerprint } = parts;
  const closing: (() => void)[] = [];
  const sources = config.auth.sources.map((source): CredentialSource => {
    switch (source.kind) {
      case "fixed":
        return new FixedCredentials(source.credentials);
      case "file": {
        const reloading = new ReloadingCredentials(source, { fingerprint, timers, log, meter });
        closing.push(() => reloading.close());
        return reloading;
      }
      case "etcd": {
        if (config.sealKeys === null)
          throw new FaultError("config", "Source etcd has no seal keys");
        const { impliedGrants } = source;
        return new SealedCredentials({ snapshots, keys: config.sealKeys, impliedGrants, log });
      }
      case "rgw-admin": {
        const { cluster } = source;
        return new RgwCredentials({
          ask: rgwUserFinder({
            cluster,
            keys: () => source.keys ?? parts.clusterKeys(cluster),
            ask: parts.askAdmin,
            clock,
          }),
          ttlMs: source.cacheTtlMs,
          negativeTtlMs: source.negativeTtlMs,
          maxStaleMs: source.maxStaleMs,
          maxEntries: source.maxEntries,
          grants: source.grants,
          clock,
          timers,
          log,
          meter,
        });
      }
    }
  });
  return {
    source: new CredentialChain(sources),
    storedKeyUse: storedKeyUse(config, sources),
    close: () => {
      for (const close of closing) close();
    },
  };
}

/** The clusters whose keys stand in files. */
export function openClusterKeys(
  { clusters }: Config,
  { timers, fingerprint, log }: Pick<CredentialParts, "timers" | "fingerprint" | "log">,
  meter: Pick<Metrics, "clusterKeysReloaded">,
): ReadonlyMap<ClusterId, RenewingKeys> {
  const renewing = new Map<ClusterId, RenewingKeys>();
  for (const { id, credentials, keyFiles } of clusters) {
    if (credentials === null || keyFiles === null) continue;
    const reloaded = (outcome: "ok" | "failed"): void => meter.clusterKeysReloaded(id, outcome);
    const options = { cluster: id, timers, fingerprint, log, reloaded };
    renewing.set(id, new RenewingKeys(credentials, keyFiles, options));
  }
  return renewing;
}

/** `sources`: those of the Config, in its order. */
function storedKeyUse(config: Config, sources: readonly CredentialSource[]): StoredKeyUse {
  const configured = config.auth.sources;
  const at = configured.findIndex(({ kind }) => kind === "etcd");
  const store = configured[at];
  return {
    isSource: store !== undefined,
    impliesGrants: store?.kind === "etcd" && store.impliedGrants.length > 0,
    async knownBefore(accessKeyId) {
      for (const [index, source] of sources.slice(0, Math.max(0, at)).entries()) {
        if (await knows(source, accessKeyId)) return configured[index]?.kind ?? null;
      }
      return null;
    },
  };
}

/** A source that cannot be asked now does not say so. */
async function knows(source: CredentialSource, accessKeyId: AccessKeyId): Promise<boolean> {
  try {
    return (await source.find(accessKeyId)) !== null;
  } catch {
    return false;
  }
}

/** The keys a caller has upstream: its own pair, and those its user has on clusters of their own. */
export function callerKeys(credentials: CredentialSource): CallerKeys {
  const keysOf = (credential: Credential | null) =>
    credential === null ? null : { own: credential, clusters: credential.clusters };
  return (accessKeyId) => {
    const found = credentials.find(accessKeyId);
    return found instanceof Promise ? found.then(keysOf) : keysOf(found);
  };
}
