// A list that is being read while clusters drain, come back and change their weights: no key is left
// out and none comes twice, over real sockets; while clusters come and go, keys move, and the proxy is
// another one with newer keys; and tokens that were not made for this very list.

import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  ListBucketsCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  ListObjectsCommand,
  type ListObjectsCommandOutput,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  ListObjectVersionsCommand,
  type ListObjectVersionsCommandOutput,
  ListPartsCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import {
  clusterKeys,
  startClusters,
  startTestHeadgate,
  type TestHeadgate,
} from "../support/headgate.ts";

const Bucket = "read";
const keys = Array.from({ length: 40 }, (_, index) => `${index % 4}/key ${index}+%é`).toSorted();

async function open(test: Test): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(test);
  await headgate.s3.send(new CreateBucketCommand({ Bucket }));
  for (const Key of keys) {
    await headgate.s3.send(new PutObjectCommand({ Bucket, Key, Body: "x" }));
    await headgate.s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
  }
  const homes = Object.values(headgate.clusters).map((one) => one.objects(Bucket).length);
  test.ok(
    homes.every((count) => count > 0),
    "every cluster holds some",
  );
  return headgate;
}

const verbs = [
  ["POST", "/clusters/b/drain", { mode: "readonly" }],
  ["PUT", "/clusters/c/weight", { weight: 90 }],
  ["POST", "/clusters/b/undrain", {}],
  ["POST", "/clusters/a/drain", { mode: "evacuate" }],
  ["PUT", "/clusters/c/weight", { weight: 1 }],
  ["POST", "/clusters/a/undrain", {}],
] as const;

/** Changes a cluster between two pages, each time another way. */
function changes(headgate: TestHeadgate, test: Test): () => Promise<void> {
  let turn = 0;
  return async () => {
    const [method, path, body] = verbs[turn % verbs.length] ?? verbs[0];
    turn += 1;
    const { status } = await headgate.admin(method, path, body);
    test.ok(status < 300, `${method} ${path}: ${status}`);
  };
}

/** Reads a list to its end; who is asked may be another one for each page. */
type Walk = (s3: () => S3Client, between: () => Promise<void>) => Promise<(string | undefined)[]>;

const walks: Readonly<Record<string, Walk>> = {
  async ListObjectsV2(s3, between) {
    const seen: (string | undefined)[] = [];
    for (let more: Partial<ListObjectsV2Command["input"]> | null = {}; more !== null; ) {
      const page: ListObjectsV2CommandOutput = await s3().send(
        new ListObjectsV2Command({ Bucket, MaxKeys: 7, ...more }),
      );
      seen.push(...(page.Contents ?? []).map(({ Key }) => Key));
      more = page.IsTruncated === true ? { ContinuationToken: page.NextContinuationToken } : null;
      if (more !== null) await between();
    }
    return seen;
  },
  async ListObjects(s3, between) {
    const seen: (string | undefined)[] = [];
    for (let more: Partial<ListObjectsCommand["input"]> | null = {}; more !== null; ) {
      const page: ListObjectsCommandOutput = await s3().send(
        new ListObjectsCommand({ Bucket, MaxKeys: 7, ...more }),
      );
      seen.push(...(page.Contents ?? []).map(({ Key }) => Key));
      more = page.IsTruncated === true ? { Marker: page.NextMarker } : null;
      if (more !== null) await between();
    }
    return seen;
  },
  async ListObjectVersions(s3, between) {
    const seen: (string | undefined)[] = [];
    for (let more: Partial<ListObjectVersionsCommand["input"]> | null = {}; more !== null; ) {
      const page: ListObjectVersionsCommandOutput = await s3().send(
        new ListObjectVersionsCommand({ Bucket, MaxKeys: 7, ...more }),
      );
      seen.push(...(page.Versions ?? []).map(({ Key }) => Key));
      more =
        page.IsTruncated === true
          ? { KeyMarker: page.NextKeyMarker, VersionIdMarker: page.NextVersionIdMarker }
          : null;
      if (more !== null) await between();
    }
    return seen;
  },
  async ListMultipartUploads(s3, between) {
    const seen: (string | undefined)[] = [];
    for (let more: Partial<ListMultipartUploadsCommand["input"]> | null = {}; more !== null; ) {
      const page: ListMultipartUploadsCommandOutput = await s3().send(
        new ListMultipartUploadsCommand({ Bucket, MaxUploads: 7, ...more }),
      );
      seen.push(...(page.Uploads ?? []).map(({ Key }) => Key));
      more =
        page.IsTruncated === true
          ? { KeyMarker: page.NextKeyMarker, UploadIdMarker: page.NextUploadIdMarker }
          : null;
      if (more !== null) await between();
    }
    return seen;
  },
};

t.test("lists go on over drains and weights that change between their pages", async (t) => {
  const headgate = await open(t);
  for (const [name, walk] of Object.entries(walks)) {
    t.strictSame(await walk(() => headgate.s3, changes(headgate, t)), keys, name);
    for (const id of ["a", "b"]) await headgate.admin("POST", `/clusters/${id}/undrain`, {});
  }
});

const hex = (digit: number): string => String(digit).repeat(64);
/** Handle keys as four starts have them, newest first. */
const rotations = [[1], [2, 1], [3, 2, 1], [4, 3, 2]].map((digits) => digits.map(hex).join("\n"));

t.test("lists go on where clusters came, went and gave keys away, under newer keys", async (t) => {
  const servers = await startClusters(t, ["a", "b", "c", "d"]);
  const start = async (ids: string, turn: number): Promise<TestHeadgate> =>
    await startTestHeadgate(t, {
      clusters: Object.fromEntries(Array.from(ids, (id) => [id, 1])),
      servers,
      settings: "keys: {handle_key_file: handle.keys}",
      files: { "handle.keys": rotations[turn] ?? "" },
    });
  const first = await start("abc", 0);
  await first.s3.send(new CreateBucketCommand({ Bucket }));
  for (const Key of keys) await first.s3.send(new PutObjectCommand({ Bucket, Key, Body: "x" }));
  const at = (id: string): S3Client =>
    first.client({ endpoint: servers[id]?.url ?? "", credentials: clusterKeys });
  const direct = new Map(Array.from("abcd", (id) => [id, at(id)]));
  await direct.get("d")?.send(new CreateBucketCommand({ Bucket }));
  /** Every n-th key of a cluster. */
  const move = async (from: string, to: string, nth: number): Promise<void> => {
    const held = servers[from]?.objects(Bucket).filter((_, index) => index % nth === 0) ?? [];
    t.ok(held.length > 0, `${from} has some to give to ${to}`);
    for (const { key: Key } of held) {
      await direct.get(to)?.send(new PutObjectCommand({ Bucket, Key, Body: "x" }));
      await direct.get(from)?.send(new DeleteObjectCommand({ Bucket, Key }));
    }
  };
  const second = await start("abcd", 1);
  const third = await start("bcd", 2);
  const { ListMultipartUploads, ...others } = walks;
  for (const [name, walk] of Object.entries(others)) {
    let turn = 0;
    const asked = [first, second, third];
    const read = await walk(
      () => (asked[Math.min(turn, 2)] ?? first).s3,
      async () => {
        turn += 1;
        if (turn === 1) await move("b", "d", 2);
        if (turn === 2) await move("a", "c", 1);
        if (turn === 3) await move("d", "b", 2);
      },
    );
    t.strictSame(read, keys, name);
    await move("c", "a", 2);
  }
  const begun = new Map<string, string | undefined>();
  for (const Key of keys) {
    const upload = await first.s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
    begun.set(Key, upload.UploadId);
  }
  const uploadsAt = async (id: string): Promise<readonly (string | undefined)[]> => {
    const list = await direct.get(id)?.send(new ListMultipartUploadsCommand({ Bucket }));
    return list?.Uploads?.map(({ Key }) => Key) ?? [];
  };
  const gone = await uploadsAt("a");
  t.ok(gone.length > 0 && gone.length < keys.length);
  let turn = 0;
  const asked = [first, second, third];
  const uploads = await ListMultipartUploads?.(
    () => (asked[Math.min(turn, 2)] ?? first).s3,
    async () => {
      turn += 1;
    },
  );
  const stayed = (names: readonly (string | undefined)[] = []) =>
    names.filter((name) => !gone.includes(name));
  t.strictSame(stayed(uploads), stayed(keys), "uploads of the clusters that stay");
  const [Key = ""] = await uploadsAt("b");
  const upload = { Bucket, Key, UploadId: begun.get(Key) };
  for (const PartNumber of [1, 2, 4]) {
    await first.s3.send(new UploadPartCommand({ ...upload, PartNumber, Body: "x" }));
  }
  const parts: (number | undefined)[] = [];
  let PartNumberMarker = "0";
  for (const { s3 } of asked) {
    const list = await s3.send(new ListPartsCommand({ ...upload, MaxParts: 1, PartNumberMarker }));
    parts.push(...(list.Parts ?? []).map(({ PartNumber }) => PartNumber));
    t.equal(list.IsTruncated, parts.length < 3);
    PartNumberMarker = list.NextPartNumberMarker ?? "";
  }
  t.strictSame(parts, [1, 2, 4]);
  const page = await first.s3.send(new ListObjectsV2Command({ Bucket, MaxKeys: 7 }));
  const fourth = await start("abcd", 3);
  await t.rejects(
    fourth.s3.send(
      new ListObjectsV2Command({ Bucket, ContinuationToken: page.NextContinuationToken }),
    ),
    { name: "InvalidArgument" },
    "no key of the fourth start made it",
  );
});

t.test("an upload goes on under newer keys, as long as its own is one of them", async (t) => {
  const servers = await startClusters(t, ["a"]);
  const starts = await Promise.all(
    rotations.map((text) =>
      startTestHeadgate(t, {
        clusters: { a: 1 },
        servers,
        settings: "keys: {handle_key_file: handle.keys}",
        files: { "handle.keys": text },
      }),
    ),
  );
  const [first, second, third, fourth] = starts.map(({ s3 }) => s3);
  await first?.send(new CreateBucketCommand({ Bucket }));
  const begun = await first?.send(new CreateMultipartUploadCommand({ Bucket, Key: "k" }));
  const upload = { Bucket, Key: "k", UploadId: begun?.UploadId };
  const part = { ...upload, PartNumber: 1, Body: "x" };
  const uploaded = await second?.send(new UploadPartCommand(part));
  await t.rejects(async () => await fourth?.send(new UploadPartCommand(part)), {
    name: "NoSuchUpload",
  });
  const MultipartUpload = { Parts: [{ PartNumber: 1, ETag: uploaded?.ETag }] };
  await third?.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload }));
  t.strictSame(
    servers["a"]?.objects(Bucket).map(({ key }) => key),
    ["k"],
  );
});

t.test("a token is good for its own list alone", async (t) => {
  const headgate = await open(t);
  const { s3 } = headgate;
  await s3.send(new CreateBucketCommand({ Bucket: "other" }));
  const ask = async (input: Partial<ListObjectsV2Command["input"]>) =>
    await s3.send(new ListObjectsV2Command({ Bucket, MaxKeys: 3, ...input }));
  const token = (await ask({})).NextContinuationToken ?? "";
  t.match(token, /^[A-Za-z0-9_-]+$/);
  const middle = token.length >> 1;
  const flipped = token[middle] === "A" ? "B" : "A";
  const rows: readonly (readonly [string, Partial<ListObjectsV2Command["input"]>])[] = [
    ["made up", { ContinuationToken: "made-up" }],
    ["a key", { ContinuationToken: keys[3] }],
    ["cut", { ContinuationToken: token.slice(0, -1) }],
    ["cut to its content", { ContinuationToken: token.slice(0, -22) }],
    ["longer", { ContinuationToken: `${token}A` }],
    ["changed", { ContinuationToken: token.slice(0, middle) + flipped + token.slice(middle + 1) }],
    ["padded", { ContinuationToken: `${token}=` }],
    ["endless", { ContinuationToken: token.repeat(40) }],
    ["of another bucket", { ContinuationToken: token, Bucket: "other" }],
    ["of another prefix", { ContinuationToken: token, Prefix: "0" }],
    ["of another delimiter", { ContinuationToken: token, Delimiter: "/" }],
  ];
  for (const [what, input] of rows) {
    await t.rejects(
      ask(input),
      { name: "InvalidArgument", $metadata: { httpStatusCode: 400 } },
      what,
    );
  }
  const other = (await s3.send(new ListBucketsCommand({ MaxBuckets: 1 }))).ContinuationToken ?? "";
  await t.rejects(ask({ ContinuationToken: other }), { name: "InvalidArgument" });
  for (const input of [
    { ContinuationToken: token },
    { ContinuationToken: other, Prefix: "r" },
    { ContinuationToken: other.slice(1) },
  ]) {
    await t.rejects(s3.send(new ListBucketsCommand(input)), { name: "InvalidArgument" });
  }
  const rest = await s3.send(new ListBucketsCommand({ ContinuationToken: other }));
  t.strictSame(
    rest.Buckets?.map(({ Name }) => Name),
    [Bucket],
  );
  const next = await ask({ ContinuationToken: token, MaxKeys: 2, StartAfter: "zzz" });
  t.strictSame(
    next.Contents?.map(({ Key }) => Key),
    keys.slice(3, 5),
    "page size may change, and the token wins over start-after",
  );
});
