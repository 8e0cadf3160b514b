// Runs the cases of upload-matrix.ts through a Headgate over one demo cluster that plays a profile, and
// reads the cluster's own list after every one: what was refused is not there, what was taken is there
// whole, with nothing of its framing and with its checksum where the cluster keeps one.

import { CreateBucketCommand } from "@aws-sdk/client-s3";
import type { Test } from "tap";
import { type ProfileFacts, profiles } from "../../proxy/placement/profiles.ts";
import { startClusters, startTestHeadgate, type TestHeadgate } from "./headgate.ts";
import { type MatrixChecksum, matrixChecksum, matrixChecksums } from "./matrix-checksums.ts";
import { openRaw } from "./raw-http.ts";
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
  return new Matrix(headgate, {
    facts,
    objects: demoObjects(headgate),
    algorithms: matrixChecksums,
  });
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
  /** Taken in turn; CRC32 alone where the cluster's list shows no other. */
  readonly algorithms?: readonly MatrixChecksum[];
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

  /** One upload over a profile that may be wrong: refused and not stored, or right and stored. */
  async safe(payload: PayloadForm, data: Buffer, fault: Fault): Promise<Seen> {
    const one = this.#case("header", payload, { data, fault });
    const wanted = outcomeOf(one);
    if (wanted === null) return "right";
    return await this.#one(one, fault === "none" && wanted === "200" ? "whole" : "refused");
  }

  #case(auth: Auth, payload: PayloadForm, of: { data: Buffer; fault: Fault }): UploadCase {
    this.#count += 1;
    const { host } = new URL(this.#url);
    const { algorithms = ["crc32"] } = this.#over;
    const cheap = of.data.length > 1_000_000 ? ["crc32" as const] : algorithms;
    const algorithm = cheap[this.#count % cheap.length] ?? "crc32";
    return { auth, payload, ...of, algorithm, path: `/${bucket}/k${this.#count}`, host };
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
    const isTaken = outcome.startsWith("2");
    const mayBeStored = wanted === "200" || (wanted === "whole" && isTaken);
    if (isStored !== mayBeStored) return `${outcome}, ${isStored ? "" : "not "}stored`;
    if (!isAnswer(wanted, outcome)) return outcome;
    if (wanted !== "200") return "right";
    return found === null ? "right" : this.#fieldsOf(given, found.fields);
  }

  #fieldsOf(
    { payload, data, auth, algorithm }: UploadCase,
    fields: ReadonlyMap<string, string>,
  ): Seen {
    const encoding = fields.get("content-encoding");
    if (encoding !== undefined && encoding !== "gzip") return `content-encoding ${encoding}`;
    const sent = payload.endsWith("-trailer") || payload === "signed-chunks";
    // Of a long body behind its end, only where the cluster takes it there.
    const wanted =
      sent && this.#over.facts.verifiesChecksums ? matrixChecksum(algorithm, data) : undefined;
    const checksum = fields.get(`x-amz-checksum-${algorithm}`);
    return checksum === wanted ? "right" : `${auth} ${payload}: ${algorithm} ${checksum}`;
  }
}

/** Whether an answer is one that is owed; what is stored is judged beside it. */
function isAnswer(wanted: string, outcome: string): boolean {
  if (wanted === "whole") return /^[245]/.test(outcome);
  if (wanted === "refused") return /^[45]/.test(outcome);
  return wanted === "cut" ? !outcome.startsWith("2") : outcome === wanted;
}

export function allRight(seen: Readonly<Record<string, Seen>>): Readonly<Record<string, Seen>> {
  return Object.fromEntries(Object.keys(seen).map((fault) => [fault, "right"]));
}
