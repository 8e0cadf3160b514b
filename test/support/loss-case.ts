// What one row of the table of deaths is run with: names of its own, whose clusters are known
// beforehand, and what the clusters hold, asked of themselves.

import { createHash } from "node:crypto";
import { keyOwner } from "../../proxy/placement/candidates.ts";
import { createdRecord } from "../../proxy/placement/discovery.ts";
import { owner, spreadText } from "../../proxy/placement/hrw.ts";
import { noTenant, type ObjectKey, parseBucketName, parseObjectKey } from "../../proxy/s3/names.ts";
import { type LossAnswer, type LossEndpoint, type LossRequest, sendTo } from "./loss-request.ts";
import { idOf } from "./raw-upstream.ts";

export type Side = "a" | "b";
export const sides: readonly Side[] = ["a", "b"];

export interface LossScene {
  readonly headgate: LossEndpoint;
  readonly adminUrl: string;
  /** The clusters themselves, past their relays. */
  readonly direct: Readonly<Record<Side, LossEndpoint>>;
  /** A bucket on both clusters, spread by object. */
  readonly bucket: string;
}

/** What all rows share: the bucket, and one to list that stays as it is. */
export async function prepare(scene: LossScene): Promise<void> {
  const at = new LossCase(scene, "shared", "a");
  for (const path of [`/${scene.bucket}`, "/listed"]) await at.put(path, "");
  const keys = Array.from({ length: 12 }, (_, n) => `/listed/key-${n}`);
  await Promise.all(
    keys.map(async (path) => {
      await at.put(path, path);
      await at.begin(path);
    }),
  );
}

/** What is there, by name; each is as it was before an operation or as it is afterwards. */
export type LossState = Readonly<Record<string, string>>;

const anyKey = keyOf("k");
const weights = new Map(sides.map((side) => [idOf(side), 1]));

export class LossCase {
  readonly scene: LossScene;
  /** Part of every name; for buckets too. */
  readonly id: string;
  /** Where its keys are that say nothing else. */
  readonly home: Side;

  constructor(scene: LossScene, id: string, home: Side) {
    this.scene = scene;
    this.id = id;
    this.home = home;
  }

  get away(): Side {
    return this.home === "a" ? "b" : "a";
  }

  /** `/loss/…`: a key of the bucket that all rows share, on a cluster. */
  on(side: Side, name = "k"): string {
    const bucket = parseBucketName(this.scene.bucket);
    if (bucket === null) throw new Error("Bad bucket");
    const route = { weights, mode: "weighted", spread: "object", source: "test" } as const;
    const record = createdRecord({
      tenant: noTenant,
      name: bucket,
      route,
      owner: "",
      createdAtMs: 0,
    });
    for (let n = 0; ; n += 1) {
      const text = `${this.id}.${name}${n}`;
      if (keyOwner(record, keyOf(text)) === idOf(side)) return `/${bucket}/${text}`;
    }
  }

  /** A bucket of this case alone; brought onto one cluster it is at home. */
  get ownBucket(): string {
    for (let n = 0; ; n += 1) {
      const bucket = parseBucketName(`${this.id}-${n}`);
      if (bucket === null) throw new Error("Bad bucket");
      const text = spreadText(noTenant, bucket, anyKey, "bucket");
      if (owner(weights, text) === idOf(this.home)) return `/${bucket}`;
    }
  }

  async send(request: LossRequest): Promise<LossAnswer> {
    return await sendTo(this.scene.headgate, request);
  }

  async direct(side: Side, request: LossRequest): Promise<LossAnswer> {
    return await sendTo(this.scene.direct[side], request);
  }

  /** A request without parameters to the admin listener. */
  async admin(method: string, path: string): Promise<LossAnswer> {
    const answer = await fetch(`${this.scene.adminUrl}/admin/v1${path}`, {
      method,
      ...(method === "POST" ? { body: "{}", headers: { "content-type": "application/json" } } : {}),
    });
    const { status, headers } = answer;
    const text = await answer.text();
    const retryAfter = headers.get("retry-after");
    return { status, text, code: null, retryAfter, etag: null, isWhole: true };
  }

  /** The same of setting things up. @throws unless it succeeded. */
  async must(request: LossRequest, side?: Side): Promise<LossAnswer> {
    const sent = side === undefined ? this.send(request) : this.direct(side, request);
    const answer = await sent;
    if (answer.status >= 200 && answer.status < 300) return answer;
    const { method, path, query } = request;
    throw new Error(`${method} ${path}?${query ?? ""}: ${answer.status} ${answer.text}`);
  }

  async put(path: string, body: string | Buffer): Promise<void> {
    await this.must({ method: "PUT", path, body });
  }

  /** The upload's handle. */
  async begin(path: string): Promise<string> {
    const { text } = await this.must({ method: "POST", path, query: "uploads=" });
    return /<UploadId>(.*)<\/UploadId>/.exec(text)?.[1] ?? "";
  }

  /** The part's ETag. */
  async part(path: string, upload: string, number: number, body: string | Buffer): Promise<string> {
    const query = `partNumber=${number}&uploadId=${upload}`;
    await this.must({ method: "PUT", path, query, body });
    return createHash("md5").update(body).digest("hex");
  }

  /** Objects at both clusters, and what a reader sees of them. */
  async objects(...paths: readonly string[]): Promise<LossState> {
    return await this.#at(paths, "GET", ({ status, text, code, etag }) =>
      status === 200 ? `${text.length} ${digest(text)} ${etag}` : `${status} ${code}`,
    );
  }

  async bucketThere(path: string): Promise<LossState> {
    return {
      ...(await this.#at([path], "HEAD", ({ status }) => String(status))),
      view: String((await this.send({ method: "HEAD", path })).status),
    };
  }

  async setting(path: string, query: string): Promise<LossState> {
    return await this.#at([path], "GET", ({ status, text, code }) => code ?? `${status} ${text}`, {
      query,
    });
  }

  /** Whether uploads of a key are open. */
  async uploads(path: string): Promise<LossState> {
    const [, bucket = "", key = ""] = path.split("/");
    const open = await this.#at(
      [`/${bucket}`],
      "GET",
      ({ text }) => (text.includes("<Upload>") ? "open" : "none"),
      { query: `prefix=${key}&uploads=` },
    );
    return Object.fromEntries(
      Object.entries(open).map(([name, value]) => [`${name.slice(0, 2)}uploads of ${key}`, value]),
    );
  }

  async #at(
    paths: readonly string[],
    method: string,
    tell: (answer: LossAnswer) => string,
    given: { readonly query?: string } = {},
  ): Promise<LossState> {
    const asked = paths.flatMap((path) => sides.map((side) => ({ path, side })));
    const told = await Promise.all(
      asked.map(async ({ path, side }) => {
        const answer = await this.direct(side, { method, path, ...given });
        if (!answer.isWhole) throw new Error(`Cluster ${side} does not answer`);
        return [`${side} ${path}`, tell(answer)] as const;
      }),
    );
    return Object.fromEntries(told);
  }
}

function keyOf(text: string): ObjectKey {
  const key = parseObjectKey(text);
  if (key === null) throw new Error(`"${text}" is no key`);
  return key;
}

export function digest(text: string): string {
  return createHash("md5").update(text, "latin1").digest("hex");
}
