// Keys that a Ceph RGW knows, asked for when they are first used and remembered for a while: known ones
// for `ttlMs`, unknown ones for `negativeTtlMs`. A key that was known goes on counting for `maxStaleMs`
// while the RGW is out of reach; any other is then 503, never InvalidAccessKeyId, which clients take
// for final. One question per key at a time, a bounded number in all, two bounded tables.

import type { CancelSignal, Clock, Log, Meter, Timers } from "../placement/ports.ts";
import type { Credential, CredentialSource } from "../policy/credential.ts";
import type { Grant } from "../policy/ports.ts";
import { S3Error } from "../s3/errors.ts";
import { type AccessKeyId, parseTenantName } from "../s3/names.ts";
import type { RgwUser } from "../s3/rgw-user.ts";
import { Cancellation } from "./cancellation.ts";
import { Lane } from "./lane.ts";

/** What an RGW says of a key id. */
export type RgwAnswer =
  | { readonly kind: "user"; readonly user: RgwUser }
  | { readonly kind: "unknown" }
  | { readonly kind: "unavailable"; readonly reason: string };

export interface RgwCredentialsOptions {
  readonly ask: (accessKeyId: AccessKeyId, signal: CancelSignal) => Promise<RgwAnswer>;
  readonly ttlMs: number;
  readonly negativeTtlMs: number;
  readonly maxStaleMs: number;
  /** Of each of the two tables. */
  readonly maxEntries: number;
  /** What every user may do. */
  readonly grants: readonly Grant[];
  readonly clock: Pick<Clock, "monotonicMs">;
  readonly timers: Timers;
  readonly log: Log;
  readonly meter: Pick<Meter, "credentialAsked">;
}

/** An answer takes an RGW some milliseconds; a caller waits for it no longer than this. */
const answerWithinMs = 5_000;
/**
 * RGW serves admin requests with the threads that serve objects. Keys that were known have a lane of
 * their own, so that a flood of made-up ids does not keep them from being asked for again.
 */
const laneLimits = { maxAtOnce: 16, maxWaiting: 1_000 };
/** After a failure it is not asked again for so long. */
const pauseMs = 1_000;

interface Known {
  readonly credential: Credential;
  readonly atMs: number;
}

export class RgwCredentials implements CredentialSource {
  readonly #options: RgwCredentialsOptions;
  readonly #known = new Map<AccessKeyId, Known>();
  readonly #unknownUntilMs = new Map<AccessKeyId, number>();
  readonly #flights = new Map<AccessKeyId, Promise<Credential | null>>();
  readonly #newKeys = new Lane(laneLimits);
  readonly #knownKeys = new Lane(laneLimits);
  #awayUntilMs = Number.NEGATIVE_INFINITY;
  #isAway = false;

  constructor(options: RgwCredentialsOptions) {
    this.#options = options;
  }

  find(accessKeyId: AccessKeyId): Credential | null | Promise<Credential | null> {
    const { clock, ttlMs } = this.#options;
    const nowMs = clock.monotonicMs();
    const known = this.#known.get(accessKeyId);
    if (known !== undefined && nowMs - known.atMs < ttlMs) {
      // Asked again before it is too old, so that a key in use never waits for its answer.
      if (nowMs - known.atMs > ttlMs / 2 && nowMs >= this.#awayUntilMs) this.#refresh(accessKeyId);
      return known.credential;
    }
    const unknownUntilMs = this.#unknownUntilMs.get(accessKeyId);
    if (unknownUntilMs !== undefined && nowMs < unknownUntilMs) return null;
    if (nowMs < this.#awayUntilMs) return this.#whileAway(accessKeyId);
    return this.#flight(accessKeyId);
  }

  /** @throws S3Error ServiceUnavailable unless the key was known not too long ago. */
  #whileAway(accessKeyId: AccessKeyId): Credential {
    const { clock, ttlMs, maxStaleMs } = this.#options;
    const known = this.#known.get(accessKeyId);
    if (known !== undefined && clock.monotonicMs() - known.atMs < ttlMs + maxStaleMs) {
      return known.credential;
    }
    throw new S3Error("ServiceUnavailable", {
      message: "The access key cannot be looked up at this moment",
      retryAfterSeconds: 1,
    });
  }

  #refresh(accessKeyId: AccessKeyId): void {
    if (this.#flights.has(accessKeyId) || this.#knownKeys.busy) return;
    // Whoever asks when it is too old meets the failure.
    this.#flight(accessKeyId).catch(() => undefined);
  }

  #flight(accessKeyId: AccessKeyId): Promise<Credential | null> {
    const running = this.#flights.get(accessKeyId);
    if (running !== undefined) return running;
    const lane = this.#known.has(accessKeyId) ? this.#knownKeys : this.#newKeys;
    const asking = lane.run(() => this.#askNow(accessKeyId));
    if (asking === null) throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
    const flight = asking.finally(() => this.#flights.delete(accessKeyId));
    this.#flights.set(accessKeyId, flight);
    return flight;
  }

  async #askNow(accessKeyId: AccessKeyId): Promise<Credential | null> {
    // Those who waited behind a failure need not meet it one by one.
    if (this.#options.clock.monotonicMs() < this.#awayUntilMs) return this.#whileAway(accessKeyId);
    return this.#learn(accessKeyId, await this.#ask(accessKeyId));
  }

  async #ask(accessKeyId: AccessKeyId): Promise<RgwAnswer> {
    const cancellation = new Cancellation();
    const stop = this.#options.timers.after(answerWithinMs, () =>
      cancellation.abort(new Error("No answer in time")),
    );
    try {
      return await this.#options.ask(accessKeyId, cancellation);
    } finally {
      stop();
    }
  }

  #learn(accessKeyId: AccessKeyId, answer: RgwAnswer): Credential | null {
    const { clock, log, meter, negativeTtlMs } = this.#options;
    meter.credentialAsked(answer.kind);
    const nowMs = clock.monotonicMs();
    if (answer.kind === "unavailable") {
      this.#awayUntilMs = nowMs + pauseMs;
      if (!this.#isAway) log.write("error", "credentials.unavailable", { reason: answer.reason });
      this.#isAway = true;
      return this.#whileAway(accessKeyId);
    }
    if (this.#isAway) log.write("info", "credentials.available", {});
    this.#isAway = false;
    const credential = answer.kind === "user" ? this.#credentialOf(accessKeyId, answer.user) : null;
    if (credential === null) {
      this.#known.delete(accessKeyId);
      this.#put(this.#unknownUntilMs, accessKeyId, nowMs + negativeTtlMs);
    } else {
      this.#unknownUntilMs.delete(accessKeyId);
      this.#put(this.#known, accessKeyId, { credential, atMs: nowMs });
    }
    return credential;
  }

  /** The newest last; beyond the bound the oldest goes. */
  #put<T>(table: Map<AccessKeyId, T>, id: AccessKeyId, value: T): void {
    table.delete(id);
    table.set(id, value);
    if (table.size <= this.#options.maxEntries) return;
    for (const oldest of table.keys()) {
      table.delete(oldest);
      break;
    }
  }

  #credentialOf(accessKeyId: AccessKeyId, user: RgwUser): Credential | null {
    const key = user.keys.find((one) => one.accessKeyId === accessKeyId);
    const tenant = parseTenantName(user.tenant);
    if (key === undefined || tenant === null) return null;
    return Object.freeze({
      accessKeyId,
      secretAccessKey: key.secretAccessKey,
      status: user.suspended ? "suspended" : "active",
      clusters: noClusters,
      principal: Object.freeze({
        accessKey: accessKeyId,
        account: user.uid,
        displayName: user.displayName === "" ? null : user.displayName,
        tenant,
        groups: key.subuser === null ? [] : [`subuser:${key.subuser}`],
        grants: this.#options.grants,
        scheme: "header",
      }),
    });
  }
}

const noClusters: Credential["clusters"] = new Map();
