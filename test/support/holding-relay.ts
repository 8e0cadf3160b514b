// A relay in front of a cluster that keeps the requests a test names until they are let through, one by one
// in whatever order: what several writers do at once is then done in an order that is known.

import { once } from "node:events";
import { request as ask, createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { Test } from "tap";

interface HeldRequest {
  /** Lets it through. Resolves when its answer has gone back. */
  pass(): Promise<void>;
}

export interface HoldingRelay {
  readonly url: string;
  /** `PUT /again`. Default: none is held. */
  holds: (request: string) => boolean;
  /** The next request that is held, once it has come. */
  held(): Promise<HeldRequest>;
}

export async function holdingRelay(t: Test, target: string): Promise<HoldingRelay> {
  const queue: HeldRequest[] = [];
  const wanting: ((held: HeldRequest) => void)[] = [];
  const forward = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const { method, url = "", headers } = request;
    const far = ask(`${target}${url}`, { method, headers, agent: false });
    request.pipe(far);
    const [answer]: [IncomingMessage] = await new Promise((resolve, reject) => {
      far.once("response", (message: IncomingMessage) => resolve([message]));
      far.once("error", reject);
    });
    response.writeHead(answer.statusCode ?? 0, answer.rawHeaders);
    answer.pipe(response);
    await once(response, "close");
  };
  const relay: HoldingRelay & { url: string } = {
    url: "",
    holds: () => false,
    held: async () => {
      const next = queue.shift();
      return next ?? (await new Promise<HeldRequest>((resolve) => wanting.push(resolve)));
    },
  };
  const server = createServer((request, response) => {
    const passed = async (): Promise<void> => {
      try {
        await forward(request, response);
      } catch {
        response.destroy();
      }
    };
    if (!relay.holds(`${request.method ?? ""} ${request.url ?? ""}`)) {
      void passed();
      return;
    }
    const held = { pass: passed };
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
