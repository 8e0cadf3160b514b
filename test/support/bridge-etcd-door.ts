// A door between the bridge and a real etcd: every call passes as it is, and a test can hold back what
// open watches say and cancel them with a message on a connection that stays. A real etcd does that for
// reasons a test cannot bring about in time.

import {
  type ClientHttp2Session,
  connect,
  constants,
  createServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { Test } from "tap";

const watchPath = "/etcdserverpb.Watch/Watch";

/** A WatchResponse of watch 0 with `canceled` and `cancel_reason` in a gRPC frame; at most 127 bytes. */
function canceledFrame(reason: string): Buffer {
  const text = Buffer.from(reason);
  const fields = Buffer.from([0x10, 0x00, 0x20, 0x01, 0x32, text.length]);
  const head = Buffer.alloc(5);
  head.writeUInt32BE(fields.length + text.length, 1);
  return Buffer.concat([head, fields, text]);
}

export class EtcdDoor {
  readonly url: string;
  readonly #watches: Set<ServerHttp2Stream>;
  #isHolding = false;
  #disconnects = 0;

  private constructor(url: string, watches: Set<ServerHttp2Stream>) {
    this.url = url;
    this.#watches = watches;
  }

  static async open(t: Test, etcdUrl: string): Promise<EtcdDoor> {
    const upstream = connect(etcdUrl);
    upstream.on("error", () => undefined);
    const sessions = new Set<ServerHttp2Session>();
    const watches = new Set<ServerHttp2Stream>();
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    t.teardown(async () => {
      for (const session of [upstream, ...sessions]) session.destroy();
      await new Promise((resolve) => server.close(resolve));
    });
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("no port");
    const door = new EtcdDoor(`http://127.0.0.1:${address.port}`, watches);
    server.on("session", (session) => {
      sessions.add(session);
      session.on("close", () => {
        door.#disconnects += 1;
      });
      session.on("error", () => undefined);
    });
    server.on("stream", (stream, headers) => door.#pass(stream, headers, upstream));
    return door;
  }

  /** How many connections to it have ended so far. */
  get disconnects(): number {
    return this.#disconnects;
  }

  get openWatches(): number {
    return this.#watches.size;
  }

  /** From now on nothing that etcd says on a watch arrives, until `cancelWatches`. */
  holdEvents(): void {
    this.#isHolding = true;
  }

  /** Cancels every open watch as etcd does: with a message, on a connection that stays. */
  cancelWatches(reason: string): void {
    for (const stream of this.#watches) stream.write(canceledFrame(reason));
    this.#watches.clear();
    this.#isHolding = false;
  }

  #pass(
    stream: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    upstream: ClientHttp2Session,
  ): void {
    const call = upstream.request(headers);
    const isWatch = headers[":path"] === watchPath;
    if (isWatch) this.#watches.add(stream);
    let trailers: IncomingHttpHeaders = {};
    stream.on("error", () => undefined);
    call.on("error", () => undefined);
    stream.on("close", () => {
      this.#watches.delete(stream);
      call.close(constants.NGHTTP2_CANCEL);
    });
    stream.on("wantTrailers", () => stream.sendTrailers(trailers));
    stream.pipe(call);
    call.on("response", (head, flags) => {
      const isWhole = (flags & constants.NGHTTP2_FLAG_END_STREAM) !== 0;
      if (!stream.destroyed)
        stream.respond(head, { endStream: isWhole, waitForTrailers: !isWhole });
    });
    call.on("trailers", (fields) => {
      trailers = fields;
    });
    call.on("data", (chunk: Buffer) => {
      // A watch that was canceled is no longer among them: its stream says nothing more.
      if (!stream.writable || (isWatch && (this.#isHolding || !this.#watches.has(stream)))) return;
      stream.write(chunk);
    });
    call.on("end", () => stream.end());
  }
}
