// The end of a connection whose client is still sending: a body refused early, a head that does not
// parse. Closing at once makes the kernel answer the next byte with a reset, which throws away what the
// client has not read yet: it would see a broken pipe and not the S3 error. So the answer goes out, our
// side is closed, and what still comes is read and dropped for a bounded time and amount (RFC 9112 §9.6).

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Timers } from "../placement/ports.ts";

/** A client that sends this much against an answer it could have read is cut. */
const longestBytes = 256 * 1024 * 1024;
const longestMs = 30_000;
/** Without a byte, the client has stopped or gone. */
const idleMs = 5_000;

const lingering = new WeakSet<Socket>();

/** Whether a connection has had its last answer: nothing that comes on it is looked at any more. */
export function isLingering(socket: Socket): boolean {
  return lingering.has(socket);
}

/** Closes our side behind what was written; drops the rest of the body, then the connection. */
export function lingerOverBody(request: IncomingMessage, timers: Timers): void {
  const end = linger(request.socket, timers);
  request.on("data", end.received);
  // Whoever read the body has stopped; a listener that was left would keep it from flowing.
  request.removeAllListeners("readable");
  request.resume();
  request.once("end", end.close);
}

/** The same for a connection whose bytes mean nothing any more. */
export function lingerOverSocket(socket: Socket, timers: Timers): void {
  const end = linger(socket, timers);
  // Takes the bytes from the parser, which could only fail on them again.
  socket.removeAllListeners("data");
  socket.on("data", end.received);
  socket.resume();
}

interface Linger {
  readonly received: (bytes: Uint8Array) => void;
  /** Closes behind what is still to be written. */
  readonly close: () => void;
}

function linger(socket: Socket, timers: Timers): Linger {
  lingering.add(socket);
  const cut = (): void => {
    socket.destroy();
  };
  const cancelLongest = timers.after(longestMs, cut);
  let cancelIdle = timers.after(idleMs, cut);
  socket.once("close", () => {
    cancelLongest();
    cancelIdle();
  });
  socket.on("error", cut);
  const close = (): void => socket.destroySoon();
  socket.once("end", close);
  socket.end();
  let leftBytes = longestBytes;
  return {
    close,
    received(bytes) {
      leftBytes -= bytes.length;
      cancelIdle();
      cancelIdle = timers.after(leftBytes < 0 ? 0 : idleMs, cut);
    },
  };
}
