// A demo cluster: an S3 server with its data in memory, behind a real HTTP server on a loopback port.
// It verifies signatures and payload hashes, so what works against it is signed and framed rightly.
// Used by `npm start`, `headgate demo` and the wire tests; never a place to keep data.

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Clock, Random } from "../placement/ports.ts";
import { profiles } from "../placement/profiles.ts";
import { S3Error } from "../s3/errors.ts";
import { type BucketName, parseBucketName } from "../s3/names.ts";
import { type SigningCredentials, SigningKeys } from "../s3/sigv4.ts";
import { type AdmissionPorts, admit } from "./admission.ts";
import { type DemoAnswer, emptyAnswer, refusalAnswer } from "./answer.ts";
import { readBody } from "./body.ts";
import type { DemoFault, FaultRule } from "./faults.ts";
import { sortedParts } from "./multipart-operations.ts";
import { DemoStore, type StoredObject, type StoredPart } from "./object-store.ts";
import { answerRequest, publicWriteOperations } from "./operations.ts";
import type { DemoFacts, DemoPorts } from "./request.ts";

export interface DemoServerOptions {
  /** 0: any free port. */
  readonly port: number;
  readonly credentials: SigningCredentials;
  readonly clock: Pick<Clock, "nowMs">;
  readonly random: Random;
  /** Smallest multipart part but the last. Default 5 MiB, as on S3. */
  readonly minPartBytes?: number;
  /** The kind of server it plays; default that of AWS, which verifies everything. */
  readonly facts?: DemoFacts;
  readonly fault?: FaultRule;
}

/** What one request was, for tests that look at the wire. */
interface DemoExchange {
  readonly method: string;
  /** Raw, `/b/a%20b?x=`. */
  readonly target: string;
  /** Names and values in turn, as they came. */
  readonly rawHeaders: readonly string[];
}

export interface DemoServer {
  /** `http://127.0.0.1:41234`. */
  readonly url: string;
  readonly port: number;
  /** Objects of a bucket in key order; none when there is no such bucket. */
  objects(bucket: string): readonly StoredObject[];
  /** Parts of a bucket's unfinished uploads, in the order of their uploads and numbers. */
  parts(bucket: string): readonly StoredPart[];
  buckets(): readonly BucketName[];
  /** Requests so far, oldest first; the last thousand at most. */
  exchanges(): readonly DemoExchange[];
  /** Connections open at the moment. */
  connections(): Promise<number>;
  /** Replaces the fault rule; `null` for none. */
  setFault(rule: FaultRule | null): void;
  /** Cuts every connection and stops. */
  close(): Promise<void>;
}

const keptExchanges = 1000;
/** As long as RGW keeps an idle connection; beyond it the client's own limit decides. */
const keepAliveMs = 65_000;

/** Starts a demo cluster on 127.0.0.1. */
export async function startDemoServer(options: DemoServerOptions): Promise<DemoServer> {
  const cluster = new DemoCluster(options);
  const server = createServer({ requestTimeout: 0, noDelay: true }, (message, response) => {
    void cluster.serve(message, response);
  });
  server.keepAliveTimeout = keepAliveMs;
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, "127.0.0.1", resolve);
  });
  const port = portOf(server.address());
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    objects: (bucket) => cluster.objects(bucket),
    parts: (bucket) => cluster.parts(bucket),
    buckets: () => cluster.store.buckets().map(({ name }) => name),
    exchanges: () => cluster.exchanges,
    connections: () =>
      new Promise((resolve, reject) => {
        server.getConnections((error, count) => {
          if (error === null) resolve(count);
          else reject(error);
        });
      }),
    setFault: (rule) => {
      cluster.fault = rule;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

class DemoCluster {
  readonly store = new DemoStore();
  readonly exchanges: DemoExchange[] = [];
  fault: FaultRule | null;
  readonly #admission: AdmissionPorts;
  readonly #ports: DemoPorts;
  readonly #newId: () => string;

  constructor(options: DemoServerOptions) {
    this.fault = options.fault ?? null;
    const nowMs = (): number => options.clock.nowMs();
    this.#newId = () => Buffer.from(options.random.bytes(16)).toString("hex");
    this.#admission = {
      credentials: options.credentials,
      keys: new SigningKeys(64),
      nowMs,
      isOpen: (operation, bucket) =>
        bucket !== null &&
        publicWriteOperations.has(operation) &&
        this.store.find(bucket)?.publicWrite === true,
    };
    this.#ports = {
      store: this.store,
      facts: options.facts ?? profiles.aws,
      nowMs,
      newId: this.#newId,
      minPartBytes: options.minPartBytes ?? 5 * 1024 * 1024,
    };
  }

  objects(bucket: string): readonly StoredObject[] {
    const name = parseBucketName(bucket);
    const found = name === null ? null : this.store.find(name);
    if (found === null) return [];
    return found.keys().flatMap((key) => found.object(key) ?? []);
  }

  parts(bucket: string): readonly StoredPart[] {
    const name = parseBucketName(bucket);
    const uploads = name === null ? undefined : this.store.find(name)?.uploads.values();
    return [...(uploads ?? [])].flatMap((upload) => sortedParts(upload));
  }

  /** One request from head to answer. Never rejects: what cannot be answered is a 500 or a cut. */
  async serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    try {
      await this.#serve(message, response);
    } catch {
      if (response.headersSent) {
        message.socket.destroy();
        return;
      }
      response.writeHead(500, { connection: "close", "content-length": "0" });
      response.end();
    }
  }

  async #serve(message: IncomingMessage, response: ServerResponse): Promise<void> {
    const method = message.method ?? "GET";
    const target = message.url ?? "/";
    this.exchanges.push({ method, target, rawHeaders: message.rawHeaders });
    if (this.exchanges.length > keptExchanges) this.exchanges.shift();
    const fault = this.fault?.({ method, target }) ?? null;
    if (fault === "stall") return;
    if (fault === "reset") {
      message.socket.resetAndDestroy();
      return;
    }
    const requestId = this.#requestId();
    const answer = await this.#answer(message, { fault, requestId });
    if (answer === null || response.destroyed) return;
    write(answer, { message, response, requestId, fault });
  }

  /** An RGW's names its instance and its zone. */
  #requestId(): string {
    const id = this.#newId();
    if (this.#ports.facts.backend !== "rgw") return id;
    return `tx${id.slice(0, 21)}-${id.slice(21, 31)}-1-demo`;
  }

  /** `null`: the connection broke, there is nobody to answer. */
  async #answer(
    message: IncomingMessage,
    context: { readonly fault: DemoFault | null; readonly requestId: string },
  ): Promise<DemoAnswer | null> {
    const { fault, requestId } = context;
    const target = message.url ?? "/";
    try {
      if (typeof fault === "object" && fault !== null && "status" in fault) {
        if (fault.code === undefined) return emptyAnswer(fault.status);
        throw new S3Error(fault.code);
      }
      const admitted = admit(
        { method: message.method ?? "GET", target, rawHeaders: message.rawHeaders },
        this.#admission,
      );
      const taken = await readBody(message, admitted, this.#ports.facts);
      return answerRequest({ ...admitted.request, ...taken }, this.#ports);
    } catch (caught) {
      if (message.destroyed && !message.complete) return null;
      const error =
        caught instanceof S3Error ? caught : new S3Error("InternalError", { cause: caught });
      return refusalAnswer(error, { resource: target.split("?", 1)[0] ?? target, requestId });
    }
  }
}

function write(
  answer: DemoAnswer,
  exchange: {
    readonly message: IncomingMessage;
    readonly response: ServerResponse;
    readonly requestId: string;
    readonly fault: DemoFault | null;
  },
): void {
  const { message, response, fault } = exchange;
  const fields: string[] = ["x-amz-request-id", exchange.requestId];
  for (const [name, value] of answer.headers) fields.push(name, value);
  // An unread body is taken in and dropped by node:http behind the answer, as RGW does it.
  response.writeHead(answer.status, fields);
  const body = message.method === "HEAD" ? null : answer.body;
  if (typeof fault === "object" && fault !== null && "cutAfterBytes" in fault) {
    response.write((body ?? Buffer.alloc(0)).subarray(0, fault.cutAfterBytes), () => {
      message.socket.destroy();
    });
    return;
  }
  response.end(body);
}

function portOf(address: AddressInfo | string | null): number {
  if (address === null || typeof address === "string") throw new Error("The server has no port");
  return address.port;
}
