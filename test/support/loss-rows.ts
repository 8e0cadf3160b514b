// The table of deaths: every operation, what stands before it, and what it changes. How a cluster dies
// in it, and what has to hold then, is loss-law.ts.

import { createHash } from "node:crypto";
import type { S3Operation } from "../../proxy/s3/operation.ts";
import type { DeathPoint } from "./dying-relay.ts";
import type { LossCase, LossState, Side } from "./loss-case.ts";
import type { LossAnswer, LossRequest } from "./loss-request.ts";
import { settingRows } from "./loss-settings.ts";
import { adoptRow } from "./loss-upkeep.ts";
import { formBody, formEdge, formField, formFile, signedFields } from "./s3-forms.ts";

export interface LossRow {
  /** `null`: no S3 operation of its own. */
  readonly operation: S3Operation | null;
  readonly name: string;
  /** Makes what stands before it; gives how it is sent, as often as wanted. */
  readonly setUp: (at: LossCase) => Promise<() => Promise<LossAnswer>>;
  /**
   * How many deaths are tried: all when absent; one in each exchange where there are many exchanges or
   * much to send; two where other rows run through the same code.
   */
  readonly tried?: "exchanges" | "two";
  /** What it changes, by name; `null`: nothing. */
  readonly state: ((at: LossCase) => Promise<LossState>) | null;
  /** Where it is to die, rather than anywhere; once for each cluster that it asks. */
  readonly diesAt?: readonly DeathPoint[];
  /** What it asks of clusters, where that does not name the case. */
  readonly asks?: RegExp;
  /** Its answer's body goes on as it comes, so it may be cut. */
  readonly streams?: boolean;
  /** Statuses of a repetition that say that it is done already. */
  readonly again?: readonly number[];
  /** Names of the state that an answer of success says to be done; all where there is no such list. */
  readonly claims?: (answer: LossAnswer, names: readonly string[]) => readonly string[];
  /** In place of sending it again: what takes it back. */
  readonly takeBack?: (at: LossCase) => Promise<LossAnswer>;
}

/** More than the gate holds back. */
const long = (seed: string): Buffer => Buffer.alloc(200_000, seed);
const mebibyte = 2 ** 20;

function reading(
  operation: S3Operation,
  request: (at: LossCase) => LossRequest,
  prepare: (at: LossCase) => Promise<unknown> = async () => undefined,
  name: string = operation,
): LossRow {
  return {
    operation,
    name,
    setUp: async (at) => {
      await prepare(at);
      return () => at.send(request(at));
    },
    state: null,
    streams: true,
  };
}

const hasLong = (at: LossCase): Promise<void> => at.put(at.on(at.home), long("g"));
/** A read of what all cases share. */
function shared(operation: S3Operation, asks: RegExp, request: LossRequest): LossRow {
  return { ...reading(operation, () => request), asks };
}

function list(operation: S3Operation, query: string, asks: RegExp): LossRow {
  const ofListed = new RegExp(`^GET /listed${asks.source}`);
  return shared(operation, ofListed, { method: "GET", path: "/listed", query });
}

const reads: readonly LossRow[] = [
  shared("ListBuckets", /^GET \/(?:\?(?!usage)|$)/, {
    method: "GET",
    path: "/",
    query: "prefix=listed",
  }),
  reading("GetUsage", () => ({ method: "GET", path: "/", query: "usage=" })),
  shared("HeadBucket", /^HEAD \/listed$/, { method: "HEAD", path: "/listed" }),
  list("ListObjects", "prefix=key-", /\?.*prefix=key-/),
  list("ListObjectsV2", "list-type=2&prefix=key", /\?.*prefix=key(?!-)/),
  list("ListObjectVersions", "versions=", /\?.*versions/),
  list("ListMultipartUploads", "uploads=", /\?.*uploads/),
  reading("OptionsObject", (at) => ({
    method: "OPTIONS",
    path: at.on(at.home),
    headers: [
      ["origin", "https://a.example"],
      ["access-control-request-method", "GET"],
    ],
    unsigned: true,
  })),
  reading("GetObject", (at) => ({ method: "GET", path: at.on(at.home) }), hasLong),
  reading("HeadObject", (at) => ({ method: "HEAD", path: at.on(at.home) }), hasLong),
  reading(
    "GetObjectAttributes",
    (at) => ({
      method: "GET",
      path: at.on(at.home),
      query: "attributes=",
      headers: [["x-amz-object-attributes", "ETag,ObjectSize"]],
    }),
    hasLong,
  ),
  reading(
    "GetObject",
    (at) => ({ method: "GET", path: `${at.ownBucket}/k` }),
    async (at) => {
      await at.must({ method: "PUT", path: at.ownBucket }, at.home);
      await at.must({ method: "PUT", path: `${at.ownBucket}/k`, body: "found" }, at.home);
    },
    "GetObject in a bucket that is found",
  ),
  reading(
    "GetObject",
    (at) => ({ method: "GET", path: `${at.ownBucket}/k` }),
    onBoth,
    "GetObject in a bucket that two clusters have",
  ),
];

/** A bucket that both clusters had before, with the key on both. */
async function onBoth(at: LossCase): Promise<void> {
  for (const side of ["a", "b"] as const) {
    await at.must({ method: "PUT", path: at.ownBucket }, side);
    await at.must({ method: "PUT", path: `${at.ownBucket}/k`, body: `of ${side}` }, side);
  }
}

const listParts: LossRow = {
  operation: "ListParts",
  name: "ListParts",
  async setUp(at) {
    const path = at.on(at.home);
    const upload = await at.begin(path);
    await at.part(path, upload, 1, "part");
    return () => at.send({ method: "GET", path, query: `uploadId=${upload}` });
  },
  state: null,
};

// ---- buckets ----

const tagging = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>";
const bucketState = (at: LossCase): Promise<LossState> => at.bucketThere(at.ownBucket);
const createBucket: LossRow = {
  operation: "CreateBucket",
  name: "CreateBucket",
  setUp: async (at) => () => at.send({ method: "PUT", path: at.ownBucket }),
  state: bucketState,
};

const buckets: readonly LossRow[] = [
  createBucket,
  {
    ...createBucket,
    name: "CreateBucket, then deleted",
    takeBack: (at) => at.send({ method: "DELETE", path: at.ownBucket }),
  },
  {
    operation: "DeleteBucket",
    name: "DeleteBucket",
    async setUp(at) {
      const path = at.ownBucket;
      await at.must({ method: "PUT", path });
      await at.must({ method: "PUT", path, query: "tagging=", body: tagging });
      return () => at.send({ method: "DELETE", path });
    },
    // What a reader finds of it is all of it or nothing.
    async state(at) {
      const { text, code } = await at.send({
        method: "GET",
        path: at.ownBucket,
        query: "tagging=",
      });
      return { ...(await bucketState(at)), "view of tags": code ?? text };
    },
    again: [404],
  },
];

// ---- objects ----

function writing(
  operation: S3Operation,
  name: string,
  given: {
    /** What stands there before it. */
    readonly before?: (at: LossCase) => Promise<unknown>;
    readonly path?: (at: LossCase) => string;
    readonly request: Omit<LossRequest, "path">;
    readonly again?: readonly number[];
  },
): LossRow {
  const path = given.path ?? ((at: LossCase): string => at.on(at.home));
  return {
    operation,
    name,
    async setUp(at) {
      await (given.before ?? ((one) => one.put(path(one), "before")))(at);
      return () => at.send({ path: path(at), ...given.request });
    },
    state: (at) => at.objects(path(at)),
    ...(given.again === undefined ? {} : { again: given.again }),
  };
}

const objects: readonly LossRow[] = [
  writing("PutObject", "PutObject, short", { request: { method: "PUT", body: "short" } }),
  writing("PutObject", "PutObject, long", { request: { method: "PUT", body: long("p") } }),
  writing("DeleteObject", "DeleteObject", { request: { method: "DELETE" } }),
  writing("AppendObject", "AppendObject", {
    before: async () => undefined,
    request: { method: "PUT", query: "append=&position=0", body: "appended" },
    again: [409],
  }),
  {
    operation: "DeleteObject",
    name: "DeleteObject in a bucket that two clusters have",
    async setUp(at) {
      await onBoth(at);
      return () => at.send({ method: "DELETE", path: `${at.ownBucket}/k` });
    },
    async state(at) {
      const path = `${at.ownBucket}/k`;
      const { code, text } = await at.send({ method: "GET", path });
      return { ...(await at.objects(path)), view: code ?? text };
    },
  },
  {
    operation: "DeleteObjects",
    name: "DeleteObjects",
    async setUp(at) {
      const paths = bulkPaths(at);
      for (const path of paths) await at.put(path, "bulk");
      const entries = paths.map((path) => `<Object><Key>${path.split("/")[2]}</Key></Object>`);
      const body = `<Delete>${entries.join("")}</Delete>`;
      const md5 = createHash("md5").update(body).digest("base64");
      const request = {
        method: "POST",
        path: `/${at.scene.bucket}`,
        query: "delete=",
        body,
        headers: [["content-md5", md5]],
      } as const;
      return () => at.send(request);
    },
    state: (at) => at.objects(...bulkPaths(at)),
    asks: /^POST \/loss\?delete/,
    claims: ({ text }, names) =>
      names.filter((name) => text.includes(`<Deleted><Key>${name.split("/")[2]}</Key></Deleted>`)),
  },
  ...(["short", "long"] as const).map(
    (length): LossRow => ({
      operation: "PostObject",
      name: `PostObject, ${length}`,
      ...(length === "long" ? { tried: "exchanges" as const } : {}),
      async setUp(at) {
        const path = at.on(at.home);
        await at.put(path, "before");
        const [, bucket = "", key = ""] = path.split("/");
        const fields = signedFields([{ bucket }, { key }], { keys: at.scene.headgate.keys });
        const file = length === "short" ? "file" : Buffer.alloc(5 * mebibyte + 100_000, "f");
        const body = formBody([formField("key", key), ...fields, formFile(file)]);
        const headers = [["content-type", `multipart/form-data; boundary=${formEdge}`]] as const;
        const request = {
          method: "POST",
          path: `/${bucket}`,
          headers,
          body,
          unsigned: true,
        } as const;
        return () => at.send(request);
      },
      state: async (at) => ({
        ...(await at.objects(at.on(at.home))),
        ...(await at.uploads(at.on(at.home))),
      }),
    }),
  ),
];

function bulkPaths(at: LossCase): readonly string[] {
  return (["a", "b"] as const).flatMap((side) => [
    at.on(side, `${side}x`),
    at.on(side, `${side}y`),
  ]);
}

// ---- copies ----

function copyRow(name: string, from: "home" | "away", size: "short" | "long" | "parts"): LossRow {
  const source = (at: LossCase): string => at.on(from === "home" ? at.home : at.away, "source");
  const target = (at: LossCase): string => at.on(at.home, "target");
  return {
    operation: "CopyObject",
    name,
    ...(size === "parts" ? { tried: "exchanges" as const } : {}),
    async setUp(at) {
      if (size === "parts") await putInParts(at, source(at));
      else await at.put(source(at), size === "short" ? "source" : long("s"));
      await at.put(target(at), "before");
      const headers = [["x-amz-copy-source", source(at)]] as const;
      // The first copy proves the size of the parts, by a read that none after it makes.
      if (size === "parts")
        await at.must({ method: "PUT", path: at.on(at.home, "first"), headers });
      return () => at.send({ method: "PUT", path: target(at), headers });
    },
    state: async (at) => ({
      ...(await at.objects(target(at))),
      ...(await at.uploads(target(at))),
    }),
  };
}

async function putInParts(at: LossCase, path: string): Promise<void> {
  const upload = await at.begin(path);
  const etags = [
    await at.part(path, upload, 1, Buffer.alloc(5 * mebibyte, "1")),
    await at.part(path, upload, 2, Buffer.alloc(1000, "2")),
  ];
  await at.must(completion(path, upload, etags));
}

function completion(path: string, upload: string, etags: readonly string[]): LossRequest {
  const parts = etags.map(
    (etag, index) => `<Part><PartNumber>${index + 1}</PartNumber><ETag>${etag}</ETag></Part>`,
  );
  const body = `<CompleteMultipartUpload>${parts.join("")}</CompleteMultipartUpload>`;
  return { method: "POST", path, query: `uploadId=${upload}`, body };
}

const copies: readonly LossRow[] = [
  copyRow("CopyObject on a cluster", "home", "long"),
  copyRow("CopyObject between clusters, short", "away", "short"),
  copyRow("CopyObject between clusters, long", "away", "long"),
  copyRow("CopyObject between clusters, in parts", "away", "parts"),
];

// ---- uploads ----

/** An upload with what was sent of it: its parts are asked for through Headgate, whose handle it has. */
function uploadRow(
  operation: S3Operation,
  name: string,
  given: {
    readonly request: (at: LossCase, upload: string, path: string) => Promise<LossRequest>;
    readonly again?: readonly number[];
  },
): LossRow {
  const handles = new WeakMap<LossCase, string>();
  return {
    operation,
    name,
    async setUp(at) {
      const path = at.on(at.home);
      await at.put(path, "before");
      const upload = await at.begin(path);
      handles.set(at, upload);
      const request = await given.request(at, upload, path);
      return () => at.send(request);
    },
    async state(at) {
      const path = at.on(at.home);
      const query = `uploadId=${handles.get(at)}`;
      const { text, status } = await at.send({ method: "GET", path, query });
      const parts = [...text.matchAll(/<ETag>(.*?)<\/ETag>|<Size>\d+<\/Size>/g)].map(
        ([part]) => part,
      );
      return {
        ...(await at.objects(path)),
        ...(await at.uploads(path)),
        parts: `${status} ${parts.join(" ")}`,
      };
    },
    ...(given.again === undefined ? {} : { again: given.again }),
  };
}

function partRow(name: string, body: string | Buffer): LossRow {
  return uploadRow("UploadPart", name, {
    request: async (_at, upload, path) => ({
      method: "PUT",
      path,
      query: `partNumber=1&uploadId=${upload}`,
      body,
    }),
  });
}

function partCopyRow(name: string, side: (at: LossCase) => Side): LossRow {
  return uploadRow("UploadPartCopy", name, {
    async request(at, upload, path) {
      const source = at.on(side(at), "source");
      await at.put(source, long("s"));
      const headers = [["x-amz-copy-source", source]] as const;
      return { method: "PUT", path, query: `partNumber=1&uploadId=${upload}`, headers };
    },
  });
}

const uploads: readonly LossRow[] = [
  {
    operation: "CreateMultipartUpload",
    name: "CreateMultipartUpload",
    setUp: async (at) => () => at.send({ method: "POST", path: at.on(at.home), query: "uploads=" }),
    state: (at) => at.uploads(at.on(at.home)),
  },
  partRow("UploadPart, short", "part"),
  partRow("UploadPart, long", long("u")),
  partCopyRow("UploadPartCopy on a cluster", (at) => at.home),
  partCopyRow("UploadPartCopy between clusters", (at) => at.away),
  uploadRow("CompleteMultipartUpload", "CompleteMultipartUpload", {
    async request(at, upload, path) {
      return completion(path, upload, [await at.part(path, upload, 1, "completed")]);
    },
    again: [404],
  }),
  uploadRow("AbortMultipartUpload", "AbortMultipartUpload", {
    async request(at, upload, path) {
      await at.part(path, upload, 1, "aborted");
      return { method: "DELETE", path, query: `uploadId=${upload}` };
    },
    again: [404],
  }),
  listParts,
];

/** The table; two looks at drift take too long to be in it. */
export const lossRows: readonly LossRow[] = [
  ...reads,
  ...settingRows,
  ...buckets,
  ...objects,
  ...copies,
  ...uploads,
  adoptRow,
];
