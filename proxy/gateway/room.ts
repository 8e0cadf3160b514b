// A bounded amount of something that requests hold for a while: slots of callers whom nobody knows yet,
// memory for what is read whole. Whoever finds it full is asked to come back; nobody waits in it.

import type { ClientBody } from "../operations/context.ts";
import { S3Error } from "../s3/errors.ts";

export class Room {
  readonly #most: number;
  #taken = 0;

  constructor(most: number) {
    this.#most = most;
  }

  /** @throws S3Error SlowDown when less than `amount` is left. */
  take(amount: number): void {
    if (this.#taken + amount > this.#most) throw new S3Error("SlowDown", { retryAfterSeconds: 1 });
    this.#taken += amount;
  }

  give(amount: number): void {
    this.#taken -= amount;
  }
}

/**
 * A body that is read whole: its bytes take room from when they arrive, so that one that is only
 * announced takes none, until `release`, since what is read of them lives as long as the request.
 */
export function heldBody(
  body: ClientBody,
  room: Room,
): { readonly body: ClientBody; readonly release: () => void } {
  let heldBytes = 0;
  async function* chunks(how: Parameters<ClientBody["chunks"]>[0]): AsyncGenerator<Uint8Array> {
    for await (const chunk of body.chunks(how)) {
      room.take(chunk.length);
      heldBytes += chunk.length;
      yield chunk;
    }
  }
  const release = (): void => {
    room.give(heldBytes);
    heldBytes = 0;
  };
  return { body: { ...body, chunks }, release };
}
