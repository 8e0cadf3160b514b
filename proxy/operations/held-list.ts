// How lists hold what their clusters answer (list-room.ts), from when it arrives until their own answer
// was sent. Nothing is read before all clusters have begun to answer: what a list waits for with nothing
// to show holds up no other one.

import type { CancelSignal, UpstreamResponse } from "../placement/ports.ts";
import type { Asked, Reply } from "./asked-together.ts";
import { askTogether } from "./asked-together.ts";
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
    await hold.begin();
    const answer = await run(hold);
    return { ...answer, release: () => hold.end() };
  } catch (caught) {
    hold.end();
    throw caught;
  }
}

/** `askTogether` for a list. */
export async function askHeld<T>(
  questions: readonly T[],
  ask: (question: T, signal: CancelSignal) => Promise<Reply>,
  hold: ListHold,
): Promise<Asked> {
  hold.ask();
  return await askTogether(questions, ask, hold.signal);
}

/**
 * Reads a document whole, as far as there is room for it, and holds it.
 * @throws S3Error as `readDocument`, SlowDown
 */
export async function readHeld(response: UpstreamResponse, hold: ListHold): Promise<Uint8Array> {
  return await readDocument(response, documentLimitBytes, async (bytes) => await hold.take(bytes));
}
