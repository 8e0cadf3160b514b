// Clusters in memory that have one setting of a bucket, and carry out what they are asked in the order that
// a test says: every request stands still until it is let through. All orders of a scene can be gone through,
// each once: of those that differ only in requests that do not see one another one is tried.

import type {
  ByteStream,
  Upstream,
  UpstreamRequest,
  UpstreamResponse,
} from "../../proxy/placement/ports.ts";
import { UpstreamError } from "../../proxy/placement/ports.ts";
import type { ClusterId } from "../../proxy/s3/names.ts";

interface Waiting {
  readonly number: number;
  readonly cluster: ClusterId;
  readonly writes: boolean;
  readonly go: () => void;
}

/** What a cluster makes of a document that it is given; default: it tells it as it is. */
export type Wording = (cluster: ClusterId, document: string) => string;

export class HeldSettings {
  /** Cluster → the document there; none where there is no entry. */
  readonly told = new Map<ClusterId, string>();
  readonly away = new Set<ClusterId>();
  /** Clusters that do not let us read. */
  forbidden: ReadonlySet<ClusterId> = new Set();
  writes = 0;
  readonly #wording: Wording;
  readonly #waiting: Waiting[] = [];
  #count = 0;

  constructor(wording: Wording = (_cluster, document) => document) {
    this.#wording = wording;
  }

  readonly upstream: Upstream = {
    send: async (cluster, request) => {
      const writes = request.method !== "GET";
      this.#count += 1;
      const number = this.#count;
      await new Promise<void>((resolve) => {
        this.#waiting.push({ number, cluster, writes, go: resolve });
      });
      if (this.away.has(cluster)) throw new UpstreamError("response_head", cluster);
      if (writes) this.#write(cluster, request);
      const document = this.told.get(cluster);
      if (writes) return answer(200, "");
      if (this.forbidden.has(cluster)) return answer(403, errorOf("AccessDenied"));
      return document === undefined ? answer(404, errorOf("NoSuchTagSet")) : answer(200, document);
    },
  };

  #write(cluster: ClusterId, { method, body }: UpstreamRequest): void {
    this.writes += 1;
    if (method === "DELETE") this.told.delete(cluster);
    else if (body?.kind === "bytes") {
      this.told.set(cluster, this.#wording(cluster, Buffer.from(body.bytes).toString("utf8")));
    }
  }

  /** Lets requests through until all of `running` have ended, each time the one that `choose` says. */
  async run(running: readonly Promise<unknown>[], choose: Chooser): Promise<void> {
    const state = { isOver: false };
    const over = Promise.all(running).then(() => {
      state.isOver = true;
    });
    for (await settled(); !state.isOver; await settled()) {
      const next = choose(this.#waiting);
      this.#waiting.splice(this.#waiting.indexOf(next), 1);
      next.go();
    }
    await over;
  }
}

/** Picks the request that is let through. */
export type Chooser = (waiting: readonly Waiting[]) => Waiting;

/** Promise chains that are ready run to their end. */
async function settled(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

function isIndependent(one: Waiting, other: Waiting): boolean {
  return one.cluster !== other.cluster || (!one.writes && !other.writes);
}

/** Runs a scene once for every order of its requests. @returns how many there are. */
export async function inEveryOrder(scene: (choose: Chooser) => Promise<void>): Promise<number> {
  let path: number[] = [];
  for (let count = 1; ; count += 1) {
    const widths: number[] = [];
    let last: Waiting | null = null;
    let lastSeen = new Set<Waiting>();
    await scene((waiting) => {
      const before = last;
      const here = waiting.filter(
        (one) =>
          before === null ||
          one.number > before.number ||
          !lastSeen.has(one) ||
          !isIndependent(before, one),
      );
      // Where all of them are told in another order already, any will do.
      const among = here.length === 0 ? waiting.slice(0, 1) : here;
      const next = among[path[widths.length] ?? 0];
      if (next === undefined) throw new Error("Nobody waits");
      path = widths.length < path.length ? path : [...path, 0];
      widths.push(among.length);
      lastSeen = new Set(waiting);
      last = next;
      return next;
    });
    path = path.slice(0, widths.length);
    while (path.length > 0 && (path.at(-1) ?? 0) + 1 >= (widths[path.length - 1] ?? 0)) path.pop();
    const end = path.pop();
    if (end === undefined) return count;
    path.push(end + 1);
  }
}

function errorOf(code: string): string {
  return `<Error><Code>${code}</Code></Error>`;
}

/** Of a cluster. */
export function answer(status: number, text: string): UpstreamResponse {
  return { status, headers: [], body: streamOf(text) };
}

function streamOf(text: string): ByteStream {
  const bytes = Buffer.from(text, "utf8");
  return {
    async *[Symbol.asyncIterator]() {
      yield bytes;
    },
    takeWhole: () => bytes,
    pipe: () => Promise.reject(new Error("Not piped")),
    cancel: () => undefined,
  };
}
