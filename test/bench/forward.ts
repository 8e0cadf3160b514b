// The floor of what Headgate can cost: node:http in, undici's Pool.dispatch out with raw headers, no
// look at the request at all. usage: forward.js PORT UPSTREAM_PORT; prints "ready".

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type Dispatcher, Pool } from "undici";

const [port = 0, upstreamPort = 0] = process.argv.slice(2).map(Number);
const pool = new Pool(`http://127.0.0.1:${upstreamPort}`, { connections: 128, pipelining: 1 });

const hopByHop = new Set(["connection", "keep-alive", "transfer-encoding", "expect"]);

function endToEnd(raw: readonly string[]): string[] {
  const kept: string[] = [];
  for (let at = 0; at < raw.length; at += 2) {
    const name = raw[at] ?? "";
    if (!hopByHop.has(name.toLowerCase())) kept.push(name, raw[at + 1] ?? "");
  }
  return kept;
}

/** The handler of one exchange: head, chunks with backpressure, end. */
function handlerFor(response: ServerResponse): Dispatcher.DispatchHandler {
  return {
    onRequestStart(controller) {
      response.once("close", () => {
        if (!response.writableFinished) controller.abort(new Error("The client left"));
      });
      response.on("drain", () => controller.resume());
    },
    onResponseStart(controller, statusCode) {
      const raw = (controller.rawHeaders ?? []) as readonly (string | Buffer)[];
      response.writeHead(statusCode, endToEnd(raw.map(String)));
    },
    onResponseData(controller, chunk) {
      if (!response.write(chunk)) controller.pause();
    },
    onResponseEnd() {
      response.end();
    },
    onResponseError() {
      response.destroy();
    },
  };
}

function forward(request: IncomingMessage, response: ServerResponse): void {
  const hasBody = request.headers["content-length"] !== undefined;
  pool.dispatch(
    {
      path: request.url ?? "/",
      method: (request.method ?? "GET") as Dispatcher.HttpMethod,
      headers: endToEnd(request.rawHeaders),
      body: hasBody ? request : null,
    },
    handlerFor(response),
  );
}

const server = createServer({ noDelay: true }, forward);
server.listen(port, "127.0.0.1", () => process.stdout.write("ready\n"));
