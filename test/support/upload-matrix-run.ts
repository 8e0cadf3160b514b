// Runs the cases of upload-matrix.ts through a Headgate over one demo cluster that plays a profile, and
// reads the cluster's own list after every one: what was refused is not there, what was taken is there
// whole, with nothing of its framing and with its checksum where the cluster keeps one.

import { CreateBucketCommand } from "@aws-sdk/client-s3";
import type { Test } from "tap";
import { type ProfileFacts, profiles } from "../../proxy/placement/profiles.ts";
import { startClusters, startTestHeadgate, type TestHeadgate } from "./headgate.ts";
import { openRaw } from "./raw-http.ts";
import { crc32Of } from "./s3-uploads.ts";
import {
  type Auth,
  type Fault,
  faults,
  outcomeOf,
  type PayloadForm,
  type UploadCase,
  writtenUpload,
} from "./upload-matrix.ts";

/** Profiles with different facts; the others equal one of them. */
export const kinds = ["aws", "rgw-pacific", "rgw-reef", "rgw-squid", "s3-generic"] as const;
export type Kind = (typeof kinds)[number];

export const bucket = "matrix";

export function bodyOf(size: number): Buffer {
  const bytes = Buffer.alloc(size);
  for (let at = 0; at < size; at += 1) bytes[at] = (at * 7 + (at >> 8)) & 0xff;
  return bytes;
}

export async function openMatrix(
  t: Test,
  kind: Kind,
  facts: ProfileFacts = profiles[kind],
): Promise<Matrix> {
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1 },
    servers: await startClusters(t, ["a"], facts),
    clusterSettings: `profile: ${kind}`,
    auth: "sigv2: on",
  });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  return new Matrix(headgate, { facts, objects: demoObjects(headgate) });
}

function demoObjects(headgate: TestHeadgate): MatrixOver["objects"] {
  return (wanted) => {
    const objects = headgate.clusters["a"]?.objects(bucket) ?? [];
    const object = objects.find(({ key }) => key === wanted);
    const found =
      object === undefined
        ? null
        : { bytes: object.bytes, fields: new Map<string, string>(object.headers) };
    return Promise.resolve({ count: objects.length, found });
  };
}

/** What uploads go to. */
export interface MatrixOver {
  readonly facts: ProfileFacts;
  /** Reads the cluster's own list, past the gateway: how many objects there are, and one of them. */
  readonly objects: (key: string) => Promise<{
    readonly count: number;
    readonly found: {
      readonly bytes: Uint8Array;
      readonly fields: ReadonlyMap<string, string>;
    } | null;
  }>;
}

/** What was seen of one upload, or `right`. */
type Seen = string;

export class Matrix {
  readonly #url: string;
  readonly #over: MatrixOver;
  #count = 0;
  #stored = 0;

  constructor({ url }: Pick<TestHeadgate, "url">, over: MatrixOver) {
    this.#url = url;
    this.#over = over;
  }

  /** Every fault that has a meaning for a form; fault → what was seen. */
  async all(
    auth: Auth,
    payload: PayloadForm,
    data: Buffer,
  ): Promise<Readonly<Record<string, Seen>>> {
    const seen: Record<string, Seen> = {};
    for (const fault of faults) {
      const one = this.#case(auth, payload, { data, fault });
      const wanted = outcomeOf(one);
      if (wanted !== null) seen[fault] = await this.#one(one, wanted);
    }
    return seen;
  }

  /** One upload whose answer may be any, as long as nothing is stored but the right object. */
  async safe(payload: PayloadForm, data: Buffer, fault: Fault): Promise<Seen> {
    const one = this.#case("header", payload, { data, fault });
    return outcomeOf(one) === null ? "right" : await this.#one(one, "whole");
  }

  #case(auth: Auth, payload: PayloadForm, of: { data: Buffer; fault: Fault }): UploadCase {
    this.#count += 1;
    const { host } = new URL(this.#url);
    return { auth, payload, ...of, path: `/${bucket}/k${this.#count}`, host };
  }

  async #one(given: UploadCase, wanted: string): Promise<Seen> {
    const { bytes, closes } = writtenUpload(given, this.#count % 2 === 0);
    const connection = await openRaw(this.#url);
    if (closes) connection.socket.end(bytes);
    else connection.socket.write(bytes);
    const { status, text } = await connection.answer();
    connection.socket.destroy();
    const code = /<Code>(\w+)<\/Code>/.exec(text)?.[1];
    const outcome = code === undefined ? String(status) : `${status} ${code}`;
    return await this.#judged(given, wanted, outcome);
  }

  async #judged(given: UploadCase, wanted: string, outcome: string): Promise<Seen> {
    const { count, found } = await this.#over.objects(given.path.slice(bucket.length + 2));
    const isStored = found !== null;
    if (isStored) this.#stored += 1;
    if (count !== this.#stored) return `${outcome}, other objects changed`;
    if (isStored && !given.data.equals(found.bytes)) return `${outcome}, another body is stored`;
    if (wanted === "whole") return "right";
    if (isStored !== (wanted === "200")) return `${outcome}, ${isStored ? "" : "not "}stored`;
    if (wanted === "cut") return outcome.startsWith("2") ? outcome : "right";
    if (outcome !== wanted) return outcome;
    return found === null ? "right" : this.#fieldsOf(given, found.fields);
  }

  #fieldsOf({ payload, data, auth }: UploadCase, fields: ReadonlyMap<string, string>): Seen {
    const encoding = fields.get("content-encoding");
    if (encoding !== undefined && encoding !== "gzip") return `content-encoding ${encoding}`;
    const sent = payload.endsWith("-trailer") || payload === "signed-chunks";
    // Of a long body behind its end, only where the cluster takes it there.
    const wanted = sent && this.#over.facts.verifiesChecksums ? crc32Of(data) : undefined;
    const checksum = fields.get("x-amz-checksum-crc32");
    return checksum === wanted ? "right" : `${auth} ${payload}: checksum ${checksum}`;
  }
}

export function allRight(seen: Readonly<Record<string, Seen>>): Readonly<Record<string, Seen>> {
  return Object.fromEntries(Object.keys(seen).map((fault) => [fault, "right"]));
}
