// A relay in front of a cluster that keeps the requests a test names until they are let through, one by one
// in whatever order: what several writers do at once is then done in an order that is known.

import { once } from "node:events";
import { request as ask, createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Test } from "tap";

export interface HeldRequest {
  /** `PUT /again`. */
  readonly request: string;
  /** Lets it through. Resolves when its answer has gone back. */
  pass(): Promise<void>;
  /** Lets it through, and closes the connection in place of its answer. */
  lose(): Promise<void>;
  /** Closes the connection: the cluster never hears of it. */
  drop(): void;
  /** Answers in the cluster's place. */
  answer(status: number, document: string): void;
}

interface CarriedRequest {
  readonly request: string;
  readonly status: number;
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[];
}

export interface HoldingRelay {
  readonly url: string;
  /** `PUT /again`. Default: none is held. */
  holds: (request: string) => boolean;
  /** What the cluster answered, oldest first. */
  readonly carried: readonly CarriedRequest[];
  /** The next request that is held, once it has come. */
  held(): Promise<HeldRequest>;
}

export async function holdingRelay(t: Test, target: string): Promise<HoldingRelay> {
  const queue: HeldRequest[] = [];
  const wanting: ((held: HeldRequest) => void)[] = [];
  const carried: CarriedRequest[] = [];
  const forward = async (
    request: IncomingMessage,
    response: ServerResponse,
    isLost: boolean,
  ): Promise<void> => {
    const { method, url = "", headers } = request;
    const far = ask(`${target}${url}`, { method, headers, agent: false });
    request.pipe(far);
    const [answer]: [IncomingMessage] = await new Promise((resolve, reject) => {
      far.once("response", (message: IncomingMessage) => resolve([message]));
      far.once("error", reject);
    });
    const status = answer.statusCode ?? 0;
    carried.push({ request: `${method ?? ""} ${url}`, status, rawHeaders: request.rawHeaders });
    if (isLost) {
      answer.resume();
      response.destroy();
      return;
    }
    response.writeHead(status, answer.rawHeaders);
    answer.pipe(response);
    await once(response, "close");
  };
  const relay: HoldingRelay & { url: string } = {
    url: "",
    carried,
    holds: () => false,
    held: async () => {
      const next = queue.shift();
      return next ?? (await new Promise<HeldRequest>((resolve) => wanting.push(resolve)));
    },
  };
  const server = createServer((request, response) => {
    const sent = async (isLost: boolean): Promise<void> => {
      try {
        await forward(request, response, isLost);
      } catch {
        response.destroy();
      }
    };
    const text = `${request.method ?? ""} ${request.url ?? ""}`;
    if (!relay.holds(text)) {
      void sent(false);
      return;
    }
    const held: HeldRequest = {
      request: text,
      pass: () => sent(false),
      lose: () => sent(true),
      drop: () => response.destroy(),
      answer: (status, document) => {
        request.resume();
        response.writeHead(status, { "content-type": "application/xml" }).end(document);
      },
    };
    const wants = wanting.shift();
    if (wants === undefined) queue.push(held);
    else wants(held);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("No port");
  relay.url = `http://127.0.0.1:${address.port}`;
  return relay;
}
