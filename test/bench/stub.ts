// An upstream that costs as little as Node allows: HTTP/1.1 over bare sockets, one process of its own.
// GET and HEAD answer with as many bytes as the last number of the path says, PUT reads its body.
// usage: stub.js PORT; prints "ready".

import { createServer, type Socket } from "node:net";
import { HttpReader } from "./http-reader.ts";

const answers = new Map<string, Buffer>();

function answerFor(method: string, target: string): Buffer {
  const size = method === "GET" ? Number(/-(\d+)(?:\?|$)/.exec(target)?.[1] ?? 0) : 0;
  const cached = answers.get(`${method === "HEAD"} ${size}`);
  if (cached !== undefined) return cached;
  const head = [
    "HTTP/1.1 200 OK",
    "Date: Mon, 01 Jan 2024 00:00:00 GMT",
    'ETag: "d41d8cd98f00b204e9800998ecf8427e"',
    "Last-Modified: Mon, 01 Jan 2024 00:00:00 GMT",
    "Accept-Ranges: bytes",
    "Content-Type: application/octet-stream",
    "x-amz-request-id: tx00000000000000000000000",
    `Content-Length: ${size}`,
    "Connection: Keep-Alive",
    "",
    "",
  ].join("\r\n");
  const answer = Buffer.concat([Buffer.from(head), Buffer.alloc(size, "x")]);
  answers.set(`${method === "HEAD"} ${size}`, answer);
  return answer;
}

function serve(socket: Socket): void {
  const reader = new HttpReader("request");
  socket.setNoDelay(true);
  socket.on("error", () => socket.destroy());
  socket.on("data", (chunk) => {
    for (const message of reader.push(chunk)) {
      if (message.expectsContinue) socket.write("HTTP/1.1 100 Continue\r\n\r\n");
      const [method = "", target = ""] = message.startLine.split(" ");
      if (message.complete) socket.write(answerFor(method, target));
    }
  });
}

const server = createServer(serve);
server.listen(Number(process.argv[2]), "127.0.0.1", () => process.stdout.write("ready\n"));
