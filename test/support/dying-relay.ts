// A relay of bare sockets in front of one cluster that stands still at a point of an exchange which a
// test names, so that the cluster can die exactly there. Dead, it refuses connections as a machine does
// without a server; what the cluster has stored is there when it is revived.

import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";

/**
 * `head`: the request's head arrived, the cluster has seen nothing. `body`: it has half of the request's
 * body; as `head` where there is none. `request`: the request was taken whole and not begun. `done`: the
 * cluster did it, and no byte of its answer went out. `answer_head`, `answer_body`: half of that went out;
 * an answer without a body passes.
 */
export type DeathPoint = "head" | "body" | "request" | "done" | "answer_head" | "answer_body";

/** One exchange as it passed. */
export interface RelayedExchange {
  readonly method: string;
  /** Raw, `/b/a%20b?x=`. */
  readonly target: string;
  readonly bodyBytes: number;
  /** Of its answer there is a body, as far as that was seen. */
  answerHasBody: boolean;
}

type Match = (exchange: RelayedExchange) => boolean;

interface Hold {
  readonly match: Match;
  readonly point: DeathPoint;
  readonly reached: () => void;
}

export interface DyingRelay {
  readonly url: string;
  /** Exchanges so far, in the order in which their heads came. */
  readonly exchanges: readonly RelayedExchange[];
  /** Stands still in the next exchange that matches. Resolves when it does. */
  hold(match: Match, point: DeathPoint): Promise<void>;
  /** Cuts every connection and refuses new ones. What is held never goes on. */
  die(): Promise<void>;
  revive(): Promise<void>;
}

/** @param scope what it ends with. */
export async function dyingRelay(
  scope: { readonly teardown: (end: () => Promise<void>) => void },
  target: string,
): Promise<DyingRelay> {
  const { hostname, port: targetPort } = new URL(target);
  const exchanges: RelayedExchange[] = [];
  const holds = new Set<Hold>();
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): void => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
  };
  const listen = async (port: number): Promise<Server> => {
    const server = createServer({ noDelay: true }, (near) => {
      const far = connect({ port: Number(targetPort), host: hostname, noDelay: true });
      keep(near);
      keep(far);
      relay(near, far, { exchanges, holds });
    });
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return server;
  };
  let server = await listen(0);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("No port");
  const { port } = address;
  const die = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    holds.clear();
    await closed;
  };
  scope.teardown(die);
  return {
    url: `http://127.0.0.1:${port}`,
    exchanges,
    hold: (match, point) =>
      new Promise((resolve) => {
        holds.add({ match, point, reached: resolve });
      }),
    die,
    async revive() {
      server = await listen(port);
    },
  };
}

/** Hands one connection's bytes on, exchange after exchange (one at a time), up to a hold. */
function relay(
  near: Socket,
  far: Socket,
  seen: { readonly exchanges: RelayedExchange[]; readonly holds: Set<Hold> },
): void {
  let head = Buffer.alloc(0);
  let exchange: RelayedExchange | null = null;
  let hold: Hold | null = null;
  let bodyLeft = 0;
  let answer = new AnswerCount("done", "");
  let isStill = false;

  const stand = (): void => {
    isStill = true;
    near.pause();
    far.pause();
    hold?.reached();
  };

  const begin = (text: string): RelayedExchange => {
    const [method = "", target = ""] = text.split(" ", 2);
    const bodyBytes = Number(/^content-length: (\d+)/im.exec(text)?.[1] ?? "0");
    const begun = { method, target, bodyBytes, answerHasBody: false };
    seen.exchanges.push(begun);
    hold = [...seen.holds].find(({ match }) => match(begun)) ?? null;
    if (hold !== null) seen.holds.delete(hold);
    bodyLeft = bodyBytes;
    answer = new AnswerCount(hold?.point ?? null, method);
    return begun;
  };

  const takeBody = (bytes: Buffer): void => {
    if (isStill || exchange === null || bytes.length === 0) return;
    bodyLeft -= bytes.length;
    const limit = hold?.point === "body" ? exchange.bodyBytes >> 1 : 0;
    if (hold?.point === "body" && exchange.bodyBytes - bodyLeft > limit) {
      const before = exchange.bodyBytes - bodyLeft - bytes.length;
      far.write(bytes.subarray(0, limit - before));
      stand();
      return;
    }
    if (hold?.point !== "request") far.write(bytes);
    else if (bodyLeft === 0) stand();
  };

  near.on("data", (bytes: Buffer) => {
    if (isStill) return;
    if (exchange !== null && bodyLeft > 0) {
      takeBody(bytes);
      return;
    }
    head = Buffer.concat([head, bytes]);
    const end = head.indexOf("\r\n\r\n");
    if (end === -1) return;
    const [first, rest] = [head.subarray(0, end + 4), head.subarray(end + 4)];
    head = Buffer.alloc(0);
    exchange = begin(first.toString("latin1"));
    if (hold?.point === "head" || (hold?.point === "body" && exchange.bodyBytes < 2)) stand();
    else if (hold?.point !== "request") far.write(first);
    else if (bodyLeft === 0) stand();
    takeBody(rest);
  });

  far.on("data", (bytes: Buffer) => {
    if (isStill) return;
    if (hold?.point === "done") {
      stand();
      return;
    }
    const taken = answer.take(bytes);
    if (answer.hasBody && exchange !== null) exchange.answerHasBody = true;
    if (taken !== null) {
      near.write(bytes.subarray(0, taken));
      stand();
      return;
    }
    near.write(bytes);
  });

  near.on("end", () => far.end());
  far.on("end", () => near.end());
  near.on("close", () => far.destroy());
  far.on("close", () => near.destroy());
}

/** How much of an answer came, and where it is to be cut. */
class AnswerCount {
  hasBody = false;
  readonly #point: DeathPoint | null;
  readonly #method: string;
  #head: Buffer | null = Buffer.alloc(0);
  #bytes = 0;
  /** `null` where it is not cut, or not known yet. */
  #cut: number | null;

  constructor(point: DeathPoint | null, method: string) {
    this.#point = point;
    this.#method = method;
    this.#cut = point === "answer_head" ? 24 : null;
  }

  /** How many of these bytes go on before it is cut; `null`: all of them, and it is not. */
  take(bytes: Buffer): number | null {
    const before = this.#bytes;
    this.#bytes += bytes.length;
    if (this.#head !== null) this.#read(Buffer.concat([this.#head, bytes]));
    if (this.#cut === null || this.#bytes < this.#cut) return null;
    return Math.max(0, this.#cut - before);
  }

  #read(head: Buffer): void {
    const end = head.indexOf("\r\n\r\n");
    this.#head = end === -1 ? head : null;
    if (end === -1) return;
    const text = head.toString("latin1", 0, end);
    const length = Number(/^content-length: (\d+)/im.exec(text)?.[1] ?? "0");
    const isChunked = /^transfer-encoding: /im.test(text);
    this.hasBody = this.#method !== "HEAD" && (isChunked || length > 1);
    // Of a chunked one the first bytes are not the end. Behind a whole answer the connection would stand
    // still for the next request.
    if (this.#point === "answer_body" && this.hasBody)
      this.#cut = end + 4 + (isChunked ? 10 : length >> 1);
  }
}
