// The three clients of the contract, unchanged, through two processes: put, get, list and delete of
// odd keys and four sizes, each read back from the RGW it lies on. Beside them a process that does
// nothing shows that an idle minute asks the state store for nothing.

import { createReadStream, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  ListPartsCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { clientPair, type Headgate } from "./support/headgate.ts";
import { oddKeys, sizesBytes } from "./support/keys.ts";
import { type Lab, withLab } from "./support/lab.ts";
import { run, runOk } from "./support/processes.ts";
import { answerOf, inParallel, keysOf, put, read, sha256, testBytes } from "./support/s3.ts";

interface Item {
  readonly key: string;
  readonly bytes: Buffer;
  readonly file: string;
}

function writeItems(dir: string, keys: readonly string[]): readonly Item[] {
  return sizesBytes.flatMap((size) => {
    const bytes = testBytes(size, `size ${size}`);
    const file = join(dir, `${size}.bin`);
    writeFileSync(file, bytes);
    return keys.map((key) => ({ key: `${key} ${size}`, bytes, file }));
  });
}

/** Every item lies on exactly one RGW, with its bytes. */
async function checkOnClusters(
  t: Test,
  lab: Lab,
  bucket: string,
  items: readonly Item[],
): Promise<void> {
  const direct = [lab.direct("a"), lab.direct("b")];
  await inParallel(items, 4, async ({ key, bytes }) => {
    const found = await Promise.all(direct.map((client) => read(client, bucket, key)));
    const copies = found.filter((copy) => copy !== null);
    t.equal(copies.length, 1, `${JSON.stringify(key)} lies on one cluster`);
    t.equal(sha256(copies[0] ?? new Uint8Array()), sha256(bytes), "with its bytes");
  });
}

async function checkGone(t: Test, lab: Lab, bucket: string): Promise<void> {
  t.strictSame(await keysOf(lab.direct("a"), bucket), [], "nothing is left on a");
  t.strictSame(await keysOf(lab.direct("b"), bucket), [], "nothing is left on b");
}

function sorted(items: readonly Item[]): readonly string[] {
  return items
    .map(({ key }) => key)
    .toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

function createBucket(client: S3Client, bucket: string) {
  return client.send(new CreateBucketCommand({ Bucket: bucket }));
}

/** Debian's aws-cli where it is installed beside another one. */
const awsCommand = "/usr/bin/aws";

async function aws(headgate: Headgate, args: readonly string[]): Promise<string> {
  return runOk(awsCommand, ["--endpoint-url", headgate.url, "--no-cli-pager", ...args], {
    env: {
      AWS_ACCESS_KEY_ID: clientPair.accessKeyId,
      AWS_SECRET_ACCESS_KEY: clientPair.secretAccessKey,
      AWS_REGION: "us-east-1",
      AWS_EC2_METADATA_DISABLED: "true",
      AWS_MAX_ATTEMPTS: "1",
      AWS_CONFIG_FILE: "/dev/null",
      AWS_SHARED_CREDENTIALS_FILE: "/dev/null",
    },
  });
}

withLab(t, ["aws", "python3"], async (lab, test) => {
  const clusters = lab.clusters({ a: 50, b: 50 });
  const installation = { clusters, prefix: "/headgate-clients/" };
  const first = await lab.headgate({ ...installation, name: "first" });
  const second = await lab.headgate({ ...installation, name: "second" });
  const idle = await lab.headgate({ clusters, prefix: "/headgate-idle/", name: "idle" });
  await createBucket(lab.client(idle), "untouched");
  await put(lab.client(idle), "untouched", "kept", "kept");
  const idleSince = performance.now();
  const idleRanges = await idle.metric("headgate_state_requests_total", { kind: "range" });

  test("AWS SDK v3 puts, lists, gets and deletes every size under every odd key", async (t) => {
    const writer = lab.client(first);
    const reader = lab.client(second);
    const items = writeItems(lab.dir, oddKeys);
    await createBucket(writer, "sdk");
    await inParallel(items, 4, ({ key, bytes }) => put(writer, "sdk", key, bytes));
    t.strictSame(await keysOf(reader, "sdk", 7), sorted(items));
    await inParallel(items, 4, async ({ key, bytes }) => {
      const got = await read(reader, "sdk", key);
      t.equal(sha256(got ?? Buffer.from("absent")), sha256(bytes), JSON.stringify(key));
    });
    await checkOnClusters(t, lab, "sdk", items);
    await inParallel(items, 4, ({ key }) =>
      writer.send(new DeleteObjectCommand({ Bucket: "sdk", Key: key })),
    );
    t.equal(await read(reader, "sdk", items[0]?.key ?? ""), null);
    await checkGone(t, lab, "sdk");
  });

  test("AWS SDK v3 puts a stream of known length", async (t) => {
    const [item] = writeItems(lab.dir, ["stream"]).slice(-1);
    if (item === undefined) throw new Error("There is no item");
    const client = lab.client(first);
    await createBucket(client, "streams");
    const body = createReadStream(item.file);
    const sizes = { ContentLength: item.bytes.length };
    await client.send(
      new PutObjectCommand({ Bucket: "streams", Key: item.key, Body: body, ...sizes }),
    );
    await checkOnClusters(t, lab, "streams", [item]);
  });

  test("a multipart upload begun on one process is completed on the other", async (t) => {
    const [one, two] = [lab.client(first), lab.client(second)];
    await createBucket(one, "multipart");
    const target = { Bucket: "multipart", Key: "large/ö+%" };
    const { UploadId } = await one.send(new CreateMultipartUploadCommand(target));
    const parts = [testBytes(5 * 2 ** 20, "part 1"), testBytes(123_457, "part 2")];
    const etags: { readonly PartNumber: number; readonly ETag: string | undefined }[] = [];
    for (const [index, Body] of parts.entries()) {
      const PartNumber = index + 1;
      const client = index === 0 ? one : two;
      const { ETag } = await client.send(
        new UploadPartCommand({ ...target, UploadId, PartNumber, Body }),
      );
      etags.push({ PartNumber, ETag });
    }
    const { Parts } = await two.send(new ListPartsCommand({ ...target, UploadId }));
    t.strictSame(
      (Parts ?? []).map(({ PartNumber, Size }) => [PartNumber, Size]),
      [
        [1, 5 * 2 ** 20],
        [2, 123_457],
      ],
    );
    const MultipartUpload = { Parts: etags };
    await two.send(new CompleteMultipartUploadCommand({ ...target, UploadId, MultipartUpload }));
    const bytes = Buffer.concat(parts);
    await checkOnClusters(t, lab, "multipart", [{ key: target.Key, bytes, file: "" }]);

    const aborted = await one.send(new CreateMultipartUploadCommand({ ...target, Key: "gone" }));
    const gone = { Bucket: "multipart", Key: "gone", UploadId: aborted.UploadId };
    await two.send(new AbortMultipartUploadCommand(gone));
    const answer = await answerOf(one.send(new ListPartsCommand(gone)));
    t.equal(answer.status, 404);
    const strange = { ...target, UploadId: "not-a-handle" };
    t.match(await answerOf(one.send(new ListPartsCommand(strange))), {
      status: 404,
      code: "NoSuchUpload",
    });
  });

  test("boto3 puts, lists, gets and deletes every size under every odd key", async (t) => {
    const items = writeItems(lab.dir, oddKeys);
    await createBucket(lab.client(first), "boto3");
    const kept = items.slice(0, 1);
    const plan = {
      endpoint: second.url,
      ...clientPair,
      bucket: "boto3",
      put: items.map(({ key, file }) => ({ key, file })),
      delete: items.slice(1).map(({ key }) => key),
    };
    const script = join(import.meta.dirname, "support", "boto3_client.py");
    const output = await runOk("/usr/bin/python3", [script], { input: JSON.stringify(plan) });
    const answer: { readonly listed: string[]; readonly read: Record<string, string> } =
      JSON.parse(output);
    t.strictSame(answer.listed, sorted(items));
    for (const { key, bytes } of items) t.equal(answer.read[key], sha256(bytes), key);
    await checkOnClusters(t, lab, "boto3", kept);
    const left = [lab.direct("a"), lab.direct("b")].map((client) => keysOf(client, "boto3"));
    t.strictSame((await Promise.all(left)).flat(), sorted(kept), "the others are deleted");
  });

  test("aws-cli puts, lists, gets and deletes odd keys and every size", async (t) => {
    await aws(first, ["s3api", "create-bucket", "--bucket", "cli"]);
    // One process a call: every small size under every key, the large one under two.
    const items = writeItems(lab.dir, oddKeys).filter(
      ({ key, bytes }) =>
        bytes.length < 2 ** 20 || key.startsWith(oddKeys[0]) || key.startsWith(oddKeys[3]),
    );
    t.equal(items.length, 3 * oddKeys.length + 2);
    await inParallel(items, 3, ({ key, file }) => {
      const target = ["--bucket", "cli", "--key", key];
      return aws(first, ["s3api", "put-object", ...target, "--body", file]);
    });
    const listed = await aws(second, ["s3api", "list-objects-v2", "--bucket", "cli"]);
    const { Contents }: { readonly Contents: readonly { readonly Key: string }[] } =
      JSON.parse(listed);
    t.strictSame(
      Contents.map(({ Key }) => Key),
      sorted(items),
    );
    await checkOnClusters(t, lab, "cli", items);
    await inParallel([...items.entries()], 3, async ([index, { key, bytes }]) => {
      const copy = join(lab.dir, `copy-${index}.bin`);
      await aws(second, ["s3api", "get-object", "--bucket", "cli", "--key", key, copy]);
      t.equal(sha256(readFileSync(copy)), sha256(bytes), JSON.stringify(key));
    });
    const onePerKey = items.filter(({ bytes }) => bytes.length === 65_536);
    await inParallel(onePerKey, 3, ({ key }) =>
      aws(second, ["s3api", "delete-object", "--bucket", "cli", "--key", key]),
    );
    await aws(second, ["s3", "rm", "s3://cli", "--recursive", "--only-show-errors"]);
    await checkGone(t, lab, "cli");
  });

  test("aws s3 cp uploads in parts and its presigned URL reads them back", async (t) => {
    await aws(first, ["s3", "mb", "s3://copies"]);
    const [item] = writeItems(lab.dir, ["folder/large"]).slice(-1);
    if (item === undefined) throw new Error("There is no item");
    await aws(first, ["s3", "cp", "--no-progress", item.file, `s3://copies/${item.key}`]);
    await checkOnClusters(t, lab, "copies", [item]);
    const url = await aws(second, ["s3", "presign", `s3://copies/${item.key}`]);
    const answer = await fetch(url.trim());
    t.equal(answer.status, 200);
    t.equal(sha256(new Uint8Array(await answer.arrayBuffer())), sha256(item.bytes));
    const part = await fetch(url.trim(), { headers: { range: "bytes=10-19" } });
    t.equal(part.status, 206);
    t.same(Buffer.from(await part.arrayBuffer()), item.bytes.subarray(10, 20));
    const { stdout } = await run("curl", [
      "-s",
      "-o",
      "/dev/null",
      "-w",
      "%{http_code}",
      first.url,
    ]);
    t.equal(stdout, "403", "a request without a signature is refused");
  });

  test("an idle minute makes no range call to the state store", async (t) => {
    await sleep(Math.max(0, 60_000 - (performance.now() - idleSince)));
    const now = await idle.metric("headgate_state_requests_total", { kind: "range" });
    t.equal(now, idleRanges);
    t.ok(idleRanges > 0, "and the snapshot at its start was counted");
    const bytes = Buffer.from("kept");
    await checkOnClusters(t, lab, "untouched", [{ key: "kept", bytes, file: "" }]);
    const served = await read(lab.client(idle), "untouched", "kept");
    t.equal(Buffer.from(served ?? []).toString(), "kept", "and the map it kept still serves");
  });
});
