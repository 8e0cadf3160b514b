// A mutation's time between its commit point and its end, which a member's acknowledgements wait for
// (placement.md rule 3). It ends with a definite answer; where the outcome is unknown it ends only when
// the upstream can no longer carry it out. A commit that comes after its end is refused, so that no
// count outlives the request that it belongs to.

import { UpstreamError } from "../placement/ports.ts";
import { S3Error } from "../s3/errors.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";

export class Mutation {
  readonly #request: Pick<OperationRequest, "commit">;
  #end: (() => void) | null = null;
  #over = false;

  constructor(request: Pick<OperationRequest, "commit">) {
    this.#request = request;
  }

  /** Passes the commit point. @throws S3Error to refuse. */
  async commit(): Promise<void> {
    const end = await this.#request.commit();
    if (this.#over) {
      end();
      throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
    }
    this.#end = end;
  }

  /** Takes the count over; null when the commit point was not passed. */
  finish(): (() => void) | null {
    this.#over = true;
    const end = this.#end;
    this.#end = null;
    return end;
  }
}

/** Runs a mutation to its end, whichever that is. */
export async function mutate<T extends { readonly status: number }>(
  request: Pick<OperationRequest, "commit">,
  ports: Pick<OperationPorts, "timers" | "quarantineMs">,
  run: (mutation: Mutation) => Promise<T>,
): Promise<T> {
  const mutation = new Mutation(request);
  let known = true;
  try {
    const answer = await run(mutation);
    known = !isUnknownStatus(answer.status);
    return answer;
  } catch (caught) {
    known = !(caught instanceof UpstreamError) || caught.phase === "connect";
    throw caught;
  } finally {
    const end = mutation.finish();
    if (end !== null) {
      if (known) end();
      else ports.timers.after(ports.quarantineMs, end);
    }
  }
}

/** Whether the upstream may have done what it was asked, or may still do it (placement.md §1). */
export function isUnknownStatus(status: number): boolean {
  return unknownStatuses.has(status);
}

const unknownStatuses: ReadonlySet<number> = new Set([500, 502, 504]);
