// Runs the rows of upload-matrix.ts through a Headgate over one cluster, and reads the cluster's own
// list after every one: what was refused is not there, what was taken is there whole, with its own
// metadata, with nothing of its framing, and with its checksum where the cluster keeps one.

import type { ProfileFacts } from "../../proxy/placement/profiles.ts";
import { type MatrixChecksum, matrixChecksums } from "./matrix-checksums.ts";
import { openRaw } from "./raw-http.ts";
import { writtenForm } from "./upload-form-writing.ts";
import {
  callers,
  forms,
  type Outcome,
  outcomeOf,
  rowName,
  type UploadCase,
  type UploadRow,
} from "./upload-matrix.ts";
import {
  checksumOf,
  contentType,
  hasHeadChecksum,
  type WrittenUpload,
  writtenUpload,
} from "./upload-writing.ts";

/** What a cluster holds of a bucket, or of an upload. */
interface Held {
  /** How many objects, or parts, there are in all. */
  readonly count: number;
  readonly found: {
    readonly bytes: Uint8Array;
    /** `null`: a part has none of its own. */
    readonly fields: ReadonlyMap<string, string> | null;
  } | null;
}

/** What uploads go to. */
export interface MatrixOver {
  readonly url: string;
  /** What the cluster does, whatever the gateway was told of it. */
  readonly facts: ProfileFacts;
  /** Taken in turn; all when absent. */
  readonly algorithms?: readonly MatrixChecksum[];
  /** A bucket for some rows, open to anonymous writes or not. */
  readonly bucket: (open: boolean) => Promise<string>;
  /** Begins an upload of `k` and gives its id. */
  readonly begin?: (bucket: string) => Promise<string>;
  /** Reads the cluster's own list, past the gateway. */
  readonly objects: (bucket: string, key: string) => Held | Promise<Held>;
  /** Parts of unfinished uploads. */
  readonly parts?: (bucket: string, number: number) => Held;
  /** Waits until the gateway has ended a request that got no answer. */
  readonly ended: (bucket: string, key: string) => Promise<void>;
}

export interface RunOptions {
  /**
   * The gateway may be told wrong things of the cluster: what is right may be refused then, and a fault
   * may be found by another name, but nothing may be stored otherwise than whole and right.
   */
  readonly safely?: boolean;
  /** Rows at a time; each lane has buckets of its own. */
  readonly lanes?: number;
}

/** Runs rows and tells of those that went wrong: `header, hash, 1 bytes, cut: 200, stored`. */
export async function runMatrix(
  over: MatrixOver,
  rows: readonly UploadRow[],
  { safely = false, lanes = 4 }: RunOptions = {},
): Promise<readonly string[]> {
  const wrong: string[] = [];
  let next = 0;
  const lane = async (): Promise<void> => {
    const places = new Places(over);
    while (next < rows.length) {
      const at = next;
      next += 1;
      const row = rows[at];
      if (row === undefined) return;
      const seen = await runRow(row, at, { over, places, safely });
      if (seen !== "right") wrong.push(`${rowName(row)}: ${seen}`);
    }
    wrong.push(...(await places.changed()));
  };
  // Nearly every row makes an error somewhere, and nobody looks where.
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    await Promise.all(Array.from({ length: lanes }, lane));
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
  return wrong;
}

/** After so many rows a lane takes new buckets, so that lists stay short. */
const rowsOfBucket = 64;

interface Place {
  readonly bucket: string;
  readonly uploadId: string | null;
  rows: number;
  stored: number;
}

/** The buckets of one lane, and what must be in them. */
class Places {
  readonly #over: MatrixOver;
  readonly #present = new Map<string, Place>();
  readonly #all: Place[] = [];

  constructor(over: MatrixOver) {
    this.#over = over;
  }

  async for({ auth, operation }: UploadRow): Promise<Place> {
    const { open } = callers[auth];
    const kind = `${open} ${operation}`;
    const present = this.#present.get(kind);
    if (present !== undefined && present.rows < rowsOfBucket) {
      present.rows += 1;
      return present;
    }
    const bucket = await this.#over.bucket(open);
    const { begin } = this.#over;
    const isPart = operation === "UploadPart";
    if (isPart && begin === undefined) throw new Error("No uploads can be begun there");
    const uploadId = isPart ? ((await begin?.(bucket)) ?? null) : null;
    const place = { bucket, uploadId, rows: 1, stored: 0 };
    this.#present.set(kind, place);
    if (!this.#all.some((one) => one.bucket === bucket)) this.#all.push(place);
    return place;
  }

  /** Buckets that hold something else at the end than what was taken. */
  async changed(): Promise<readonly string[]> {
    const changed: string[] = [];
    for (const { bucket, uploadId, stored } of this.#all) {
      const held = await heldAt(this.#over, { bucket, uploadId }, { key: "", number: 0 });
      if (held.count !== stored)
        changed.push(`${bucket} holds ${held.count} at last, not ${stored}`);
    }
    return changed;
  }
}

function heldAt(
  over: MatrixOver,
  { bucket, uploadId }: Pick<Place, "bucket" | "uploadId">,
  { key, number }: { readonly key: string; readonly number: number },
): Held | Promise<Held> {
  if (uploadId === null) return over.objects(bucket, key);
  return over.parts?.(bucket, number) ?? { count: 0, found: null };
}

interface Running {
  readonly over: MatrixOver;
  readonly places: Places;
  readonly safely: boolean;
}

async function runRow(
  row: UploadRow,
  at: number,
  { over, places, safely }: Running,
): Promise<string> {
  const place = await places.for(row);
  const number = place.rows;
  const given = caseOf(row, at, { over, place });
  const right = outcomeOf(row) ?? "200";
  const isForm = callers[row.auth].place === "form";
  const outcome = await sent(over.url, isForm ? writtenForm(given) : writtenUpload(given));
  // Without an answer the gateway may still be at work.
  if (outcome === "") await over.ended(place.bucket, given.key);
  const held = await heldAt(over, place, { key: given.key, number });
  if (held.found !== null) place.stored += 1;
  if (held.count !== place.stored) return `${outcome}, other objects changed`;
  const wanted = safely ? safeOutcome(right) : right;
  const seen = judged(given, held, { wanted, outcome });
  const fields = held.found?.fields ?? null;
  if (seen !== "right" || fields === null) return seen;
  return storedFields(given, fields, { facts: over.facts, safely });
}

function caseOf(
  row: UploadRow,
  at: number,
  { over, place }: { readonly over: MatrixOver; readonly place: Place },
): UploadCase {
  const { algorithms = matrixChecksums } = over;
  const { bucket, uploadId, rows: number } = place;
  const isLarge = row.data.length > 1_000_000;
  const isPart = uploadId !== null;
  return {
    ...row,
    bucket,
    key: isPart ? "k" : `k${at}`,
    query: isPart ? `partNumber=${number}&uploadId=${encodeURIComponent(uploadId)}` : "",
    host: new URL(over.url).host,
    algorithm: (isLarge ? undefined : algorithms[at % algorithms.length]) ?? "crc32",
    inChunks: at % 2 === 0,
  };
}

/** The answer, and whether the body is there that must be, or none. */
function judged(
  { data }: UploadCase,
  { found }: Held,
  { wanted, outcome }: { readonly wanted: Outcome; readonly outcome: string },
): string {
  if (found !== null && !data.equals(found.bytes)) return `${outcome}, another body is stored`;
  const isTaken = outcome.startsWith("2");
  const mayBeStored = wanted.startsWith("2") || (wanted === "whole" && isTaken);
  if ((found !== null) !== mayBeStored) return `${outcome}, ${found === null ? "not " : ""}stored`;
  if (isAnswer(wanted, outcome)) return "right";
  return outcome === "" ? "no answer" : outcome;
}

function safeOutcome(right: Outcome): Outcome {
  if (right === "cut" || right === "whole") return right;
  return right.startsWith("2") ? "whole" : "refused";
}

/** Whether an answer is one that is owed; what is stored is judged beside it. */
function isAnswer(wanted: Outcome, outcome: string): boolean {
  if (wanted === "whole") return /^[245]/.test(outcome);
  if (wanted === "refused") return /^[45]/.test(outcome);
  return wanted === "cut" ? !outcome.startsWith("2") : outcome === wanted;
}

/** `400 BadDigest`, `200`; `""` where the connection ended without an answer. */
async function sent(url: string, { bytes, closes, bodyAt }: WrittenUpload): Promise<string> {
  const connection = await openRaw(url);
  const { socket } = connection;
  if (closes === "reset") {
    await connection.write(bytes.subarray(0, bodyAt));
    await connection.answer((text) => text.includes("\r\n\r\n"));
    await connection.write(bytes.subarray(bodyAt));
    socket.resetAndDestroy();
  } else if (closes === "end") socket.end(bytes);
  else socket.write(bytes);
  const { text } = await connection.answer(isWhole);
  socket.destroy();
  const final = text.replace(/^HTTP\/1\.1 100 .*?\r\n\r\n/s, "");
  if (final === "") return "";
  const code = /<Code>(\w+)<\/Code>/.exec(final)?.[1];
  return code === undefined ? final.slice(9, 12) : `${final.slice(9, 12)} ${code}`;
}

/** One answer with its body, behind those that only tell to go on. */
function isWhole(text: string): boolean {
  const final = text.replace(/^HTTP\/1\.1 100 .*?\r\n\r\n/s, "");
  const end = final.indexOf("\r\n\r\n");
  if (end === -1) return false;
  const length = /content-length: (\d+)/i.exec(final.slice(0, end))?.[1] ?? "0";
  return final.length >= end + 4 + Number(length);
}

/** What is kept beside the body. */
function storedFields(
  { payload, data, fault, algorithm, inChunks, auth }: UploadCase,
  fields: ReadonlyMap<string, string>,
  { facts, safely }: { readonly facts: ProfileFacts; readonly safely: boolean },
): string {
  const isForm = callers[auth].place === "form";
  const { framed, trailer } = forms[payload];
  const encoding = framed && inChunks && !isForm ? "gzip" : undefined;
  const wanted: [string, string | undefined][] = [
    ["content-encoding", encoding],
    ["content-type", contentType],
    ["x-amz-meta-row", payload],
  ];
  const summed = !isForm && (trailer || hasHeadChecksum({ payload, fault }));
  const sum = summed && facts.verifiesChecksums ? checksumOf(algorithm, data) : undefined;
  const name = `x-amz-checksum-${algorithm}`;
  // A cluster that may be another than it is said to be is not asked to keep one.
  if (!safely || fields.has(name)) wanted.push([name, sum]);
  for (const [name, value] of wanted) {
    if (fields.get(name) !== value) return `stored with ${name} ${fields.get(name)}, not ${value}`;
  }
  return "right";
}
