// A relay of bare sockets in front of one cluster that stands still at a point of an exchange which a
// test names, so that the cluster can die exactly there. Dead, it refuses connections as a machine does
// without a server; what the cluster has stored is there when it is revived.

import { once } from "node:events";
import { connect, createServer, type Server, type Socket } from "node:net";
import type { Test } from "tap";

/**
 * `head`: the request's head arrived, the cluster has seen nothing. `body`: it has half of the request's
 * body. `request`: the request was taken whole and not begun. `done`: the cluster did it, and no byte of
 * its answer went out. `answer_head`, `answer_body`: half of that went out.
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

export async function dyingRelay(t: Pick<Test, "teardown">, target: string): Promise<DyingRelay> {
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
  t.teardown(die);
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
  let answer: Buffer | null = null;
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
    answer = Buffer.alloc(0);
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
    if (hold?.point === "head") stand();
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
    if (answer !== null && exchange !== null) {
      answer = Buffer.concat([answer, bytes]);
      const cut = hold === null ? null : cutOf(answer, hold.point);
      if (cut !== null) {
        near.write(answer.subarray(answer.length - bytes.length, cut));
        stand();
        return;
      }
      if (hasBody(answer, exchange.method)) {
        exchange.answerHasBody = true;
        if (hold === null) answer = null;
      }
    }
    near.write(bytes);
  });

  near.on("end", () => far.end());
  far.on("end", () => near.end());
  near.on("close", () => far.destroy());
  far.on("close", () => near.destroy());
}

/** Where an answer is cut, once that much of it is there; `null` before. */
function cutOf(answer: Buffer, point: DeathPoint): number | null {
  if (point === "answer_head") return Math.min(answer.length, 24);
  if (point !== "answer_body") return null;
  const end = answer.indexOf("\r\n\r\n");
  if (end === -1) return null;
  const length = /^content-length: (\d+)/im.exec(answer.toString("latin1", 0, end))?.[1];
  // Of a chunked one the first bytes are not the end.
  const cut = end + 4 + (length === undefined ? 10 : Number(length) >> 1);
  return answer.length < cut ? null : cut;
}

function hasBody(answer: Buffer, method: string): boolean {
  const end = answer.indexOf("\r\n\r\n");
  if (end === -1 || method === "HEAD") return false;
  const head = answer.toString("latin1", 0, end);
  return /^transfer-encoding: /im.test(head) || /^content-length: (?!0\r?$|0$|1$)/im.test(head);
}
