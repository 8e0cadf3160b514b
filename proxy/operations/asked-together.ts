// One question to several clusters at once. All of them must answer: the first that fails or refuses
// decides, and the answers of the others are dropped, those still to come too. An answer that nobody reads
// would hold its connection to the cluster for good.

import type { CancelListener, CancelSignal, UpstreamResponse } from "../placement/ports.ts";
import type { OperationAnswer } from "./context.ts";

/** `document`: to be read. `nothing`: the cluster has nothing to tell. `refused`: that is the answer to all. */
export type Reply =
  | { readonly kind: "document"; readonly response: UpstreamResponse }
  | { readonly kind: "nothing" }
  | { readonly kind: "refused"; readonly answer: OperationAnswer };

/** `null` in place of an answer: nothing to tell. In the order asked. */
export type Asked =
  | { readonly kind: "answered"; readonly responses: readonly (UpstreamResponse | null)[] }
  | Extract<Reply, { kind: "refused" }>;

/**
 * Waits for the heads of all answers.
 * @param ask sends with the signal given, and reads no document
 * @throws what the first failing `ask` throws
 */
export async function askTogether<T>(
  questions: readonly T[],
  ask: (question: T, signal: CancelSignal) => Promise<Reply>,
  signal: CancelSignal,
): Promise<Asked> {
  const asked = questions.map((question) => {
    const own = new OwnSignal(signal);
    return { own, reply: ask(question, own) };
  });
  return await new Promise<Asked>((resolve, reject) => {
    const responses: (UpstreamResponse | null)[] = questions.map(() => null);
    let missing = questions.length;
    let decided = false;
    /** The first one's counts; a later one must not drop it. */
    const decide = (index: number): void => {
      if (decided) return;
      decided = true;
      for (const [at, { own, reply }] of asked.entries()) {
        if (at === index) continue;
        own.giveUp();
        reply.then(drop, () => {});
      }
    };
    const note = (reply: Reply, index: number): void => {
      if (reply.kind === "refused") {
        decide(index);
        resolve(reply);
        return;
      }
      if (reply.kind === "document") responses[index] = reply.response;
      missing -= 1;
      if (missing === 0) resolve({ kind: "answered", responses });
    };
    for (const [index, { reply }] of asked.entries()) {
      reply.then(
        (given) => note(given, index),
        (caught: Error) => {
          decide(index);
          reject(caught);
        },
      );
    }
    if (missing === 0) resolve({ kind: "answered", responses });
  });
}

/**
 * Reads all answers at once, each by `read`. Where one cannot be read, none of the others is any more.
 * @param read is called for every answer that is not `null`
 */
export async function readTogether<T>(
  responses: readonly (UpstreamResponse | null)[],
  read: (response: UpstreamResponse, index: number) => Promise<T>,
): Promise<readonly (T | null)[]> {
  try {
    return await Promise.all(
      responses.map(async (response, index) =>
        response === null ? null : await read(response, index),
      ),
    );
  } catch (caught) {
    for (const response of responses) response?.body.cancel();
    throw caught;
  }
}

function drop(reply: Reply): void {
  if (reply.kind === "document") reply.response.body.cancel();
  if (reply.kind !== "refused") return;
  const { body } = reply.answer;
  if (body !== null && !(body instanceof Uint8Array)) body.cancel();
}

/** Aborted with another one, or alone. */
class OwnSignal implements CancelSignal {
  readonly #outer: CancelSignal;
  readonly #listeners = new Set<CancelListener>();
  #reason: Error | null = null;

  constructor(outer: CancelSignal) {
    this.#outer = outer;
  }

  get aborted(): boolean {
    return this.#reason !== null || this.#outer.aborted;
  }

  get reason(): unknown {
    return this.#reason ?? this.#outer.reason;
  }

  addEventListener(type: "abort", listener: CancelListener): void {
    this.#listeners.add(listener);
    this.#outer.addEventListener(type, listener);
  }

  removeEventListener(type: "abort", listener: CancelListener): void {
    this.#listeners.delete(listener);
    this.#outer.removeEventListener(type, listener);
  }

  giveUp(): void {
    this.#reason = new Error("Another cluster has decided the answer");
    for (const listener of this.#listeners) {
      this.removeEventListener("abort", listener);
      listener.handleEvent();
    }
  }
}
