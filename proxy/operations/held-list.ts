// How lists hold what their clusters answer (list-room.ts), from when it is asked for until their own answer
// was sent.

import type { UpstreamResponse } from "../placement/ports.ts";
import type { OperationAnswer, OperationPorts, OperationRequest } from "./context.ts";
import type { ListHold } from "./list-room.ts";
import { documentLimitBytes, readDocument } from "./send.ts";

/** Runs a list. What it holds is given back when its answer was sent. */
export async function heldList(
  request: OperationRequest,
  ports: Pick<OperationPorts, "listRoom">,
  run: (hold: ListHold) => Promise<OperationAnswer>,
): Promise<OperationAnswer> {
  const hold = ports.listRoom.open(request.caller, request.signal);
  try {
    const answer = await run(hold);
    return { ...answer, release: () => hold.end() };
  } catch (caught) {
    hold.end();
    throw caught;
  }
}

/**
 * Reads a document whole, as far as there is room for it, and holds it.
 * @param expectedBytes held for it already
 * @throws S3Error as `readDocument`, SlowDown
 */
export async function readHeld(
  response: UpstreamResponse,
  hold: ListHold,
  expectedBytes: number,
): Promise<Uint8Array> {
  let left = expectedBytes;
  const document = await readDocument(response, documentLimitBytes, async (bytes) => {
    const beyond = bytes - left;
    left = Math.max(0, left - bytes);
    if (beyond > 0) await hold.take(beyond);
  });
  hold.give(left);
  return document;
}
