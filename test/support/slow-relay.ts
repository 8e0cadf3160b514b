// A relay of bare sockets in front of a cluster: it counts what passes, hands on no more than the other
// side takes, and can stop reading what comes from the proxy, as a cluster does that is overloaded.

import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { Test } from "tap";

export interface SlowRelay {
  readonly url: string;
  /** Bytes the cluster sent and the proxy's socket took. */
  sentToProxy(): number;
  /** Bytes of the proxy that were read. */
  readFromProxy(): number;
  /** Stops reading from the proxy, on every connection, until `read`. */
  hold(): void;
  read(): void;
}

/** Hands bytes on at the speed of the one that takes them. */
function handOn(from: Socket, to: Socket, held: () => boolean): void {
  from.on("data", (chunk: Buffer) => {
    if (!to.write(chunk)) from.pause();
  });
  to.on("drain", () => {
    if (!held()) from.resume();
  });
  from.on("end", () => to.end());
  from.on("error", () => undefined);
  from.on("close", () => to.destroy());
}

export async function slowRelay(t: Test, clusterPort: number): Promise<SlowRelay> {
  const near = new Set<Socket>();
  let isHeld = false;
  const server = createServer({ noDelay: true }, (socket) => {
    const far = connect(clusterPort, "127.0.0.1");
    near.add(socket);
    handOn(socket, far, () => isHeld);
    handOn(far, socket, () => false);
    if (isHeld) socket.pause();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.teardown(async () => {
    for (const socket of near) socket.destroy();
    server.close();
    await once(server, "close");
  });
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("No port");
  const sum = (count: (socket: Socket) => number): number =>
    [...near].reduce((total, socket) => total + count(socket), 0);
  return {
    url: `http://127.0.0.1:${address.port}`,
    sentToProxy: () => sum((socket) => socket.bytesWritten - socket.writableLength),
    readFromProxy: () => sum((socket) => socket.bytesRead),
    hold() {
      isHeld = true;
      for (const socket of near) socket.pause();
    },
    read() {
      isHeld = false;
      for (const socket of near) socket.resume();
    },
  };
}

/** Waits until a count has stood still for many turns of the event loop, and gives it. */
export async function settledCount(count: () => number): Promise<number> {
  let last = count();
  for (let still = 0; still < 60; still += 1) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    if (count() === last) continue;
    last = count();
    still = 0;
  }
  return last;
}
