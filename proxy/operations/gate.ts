// The gate between a client's body and an upstream: it holds back the last min(64 KiB, length) bytes
// until the body is verified and the commit point agreed (placement.md rule 14). Refusing makes the
// upstream see a broken body, so that the object never exists; a body that fits into the held tail
// is not begun upstream before the commit point.

import type { RequestBody } from "../placement/ports.ts";
import type { ProfileFacts } from "../placement/profiles.ts";
import { S3Error } from "../s3/errors.ts";
import type { HeaderField, HeaderList } from "../s3/headers.ts";
import type { ClientBody } from "./context.ts";
import { PieceBuffer, readWhole } from "./piece-buffer.ts";

const heldTailBytes = 64 * 1024;

export interface GatedBody {
  readonly body: RequestBody;
  /** What made the gate refuse or the client's body fail; null while nothing did. */
  fault(): Error | null;
}

export interface GateOptions {
  /** Compare the SHA-256 that the client signed; off where there is none. */
  readonly verifySha256: boolean;
  /** Throws to refuse. Called once, after the last byte arrived and was verified. */
  readonly commit: () => Promise<void>;
}

/** Opens the gate for one upload. @throws what `commit` or the client's body throws, for short bodies. */
export async function openGate(source: ClientBody, options: GateOptions): Promise<GatedBody> {
  if (isHeldWhole(source.lengthBytes)) {
    const bytes = await readWhole(source.chunks({ verifySha256: true }));
    await options.commit();
    return { body: { kind: "bytes", bytes }, fault: () => null };
  }
  const chunks = new HeldTail(
    source.chunks({ verifySha256: options.verifySha256 }),
    options.commit,
  );
  return {
    body: { kind: "stream", lengthBytes: source.lengthBytes, chunks },
    fault: () => chunks.fault,
  };
}

/** Reads a short body whole, for XML documents. @throws S3Error EntityTooLarge beyond the limit. */
export async function readShortBody(body: ClientBody, limitBytes: number): Promise<Uint8Array> {
  if (body.lengthBytes > limitBytes) throw new S3Error("EntityTooLarge");
  return await readWhole(body.chunks({ verifySha256: true }));
}

/**
 * Hands a checksum that the client sent behind its body on to an upstream that keeps checksums: in the
 * head where it is known by now, else behind the body again. What was verified here is verified and
 * kept there; other upstreams get the body alone.
 */
export function withChecksum(
  gated: GatedBody,
  source: ClientBody,
  upstream: { readonly headers: HeaderList; readonly facts: ProfileFacts },
): { readonly headers: HeaderList; readonly body: RequestBody } {
  const { headers, facts } = upstream;
  const { body } = gated;
  const trailer = source.trailer ?? null;
  if (trailer === null || !facts.verifiesChecksums) return { headers, body };
  if (body.kind === "bytes") {
    return { headers: [...headers, [trailer.field, trailer.value()]], body };
  }
  if (!mayBeFramed(source) || !facts.takesTrailers) return { headers, body };
  return {
    headers: facts.keepsAwsChunked ? headers : withAwsChunked(headers),
    body: { ...body, trailer },
  };
}

/** Whether the checksum of a body can only go behind it. */
export function mayBeFramed({ trailer = null, lengthBytes }: ClientBody): boolean {
  return trailer !== null && trailer.valueLength !== null && !isHeldWhole(lengthBytes);
}

/** Whether a body of that length is held whole before any of it goes on. */
export function isHeldWhole(lengthBytes: number): boolean {
  return lengthBytes <= heldTailBytes;
}

function withAwsChunked(headers: HeaderList): HeaderList {
  const own = headers.find(([name]) => name === "content-encoding")?.[1];
  const field: HeaderField = [
    "content-encoding",
    own === undefined ? "aws-chunked" : `aws-chunked,${own}`,
  ];
  return [...headers.filter(([name]) => name !== "content-encoding"), field];
}

type Step = IteratorResult<Uint8Array, unknown>;

/** Gives what came while at least `heldTailBytes` stay behind; the rest after `commit`. */
class HeldTail implements AsyncIterableIterator<Uint8Array> {
  fault: Error | null = null;
  readonly #source: AsyncIterator<Uint8Array>;
  readonly #commit: () => Promise<void>;
  readonly #held = new PieceBuffer();
  #committed = false;

  constructor(source: AsyncIterable<Uint8Array>, commit: () => Promise<void>) {
    this.#source = source[Symbol.asyncIterator]();
    this.#commit = commit;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<Step> {
    try {
      for (;;) {
        const value = this.#held.shift(this.#committed ? 0 : heldTailBytes);
        if (value !== null) return { done: false, value };
        if (this.#committed) return { done: true, value: undefined };
        const step = await this.#source.next();
        if (step.done !== true) {
          this.#held.push(step.value);
          continue;
        }
        await this.#commit();
        this.#committed = true;
      }
    } catch (caught) {
      this.fault = caught instanceof Error ? caught : new Error(String(caught));
      throw caught;
    }
  }

  async return(): Promise<Step> {
    await this.#source.return?.();
    return { done: true, value: undefined };
  }
}
