// http-proxy 1.18.1 as its documentation shows it, with keep-alive to the upstream: what Node services
// put in front of S3 today. usage: http-proxy.js PORT UPSTREAM_PORT; prints "ready".

import { Agent, createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createRequire } from "node:module";

interface HttpProxyServer {
  web(request: IncomingMessage, response: ServerResponse): void;
  on(event: "error", listener: (error: Error, request: unknown, response: unknown) => void): void;
}
interface HttpProxyModule {
  createProxyServer(options: {
    readonly target: string;
    readonly agent: Agent;
    readonly changeOrigin: boolean;
  }): HttpProxyServer;
}

const httpProxy: HttpProxyModule = createRequire(import.meta.url)("http-proxy");
const [port = 0, upstreamPort = 0] = process.argv.slice(2).map(Number);
const proxy = httpProxy.createProxyServer({
  target: `http://127.0.0.1:${upstreamPort}`,
  agent: new Agent({ keepAlive: true, maxSockets: 128 }),
  changeOrigin: false,
});
proxy.on("error", (_error, _request, response) => {
  if (response instanceof Object && "destroy" in response) (response as ServerResponse).destroy();
});
const server = createServer((request, response) => proxy.web(request, response));
server.listen(port, "127.0.0.1", () => process.stdout.write("ready\n"));
