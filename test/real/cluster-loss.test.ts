// One of two RGWs is killed in the middle of an operation over both: an error in place of half an
// answer, and once it is back nothing is half done, or the same request finishes it.

import {
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  DeleteObjectsCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  type ListObjectsV2CommandOutput,
  type S3Client,
  UploadPartCommand,
} from "@aws-sdk/client-s3";
import { Upload } from "@aws-sdk/lib-storage";
import t from "tap";
import { withLab } from "./support/lab.ts";
import { until } from "./support/processes.ts";
import { answerOf, inParallel, keysOf, put, read, sha256, testBytes } from "./support/s3.ts";

const largeBytes = 100 * 2 ** 20;
const partBytes = 8 * 2 ** 20;

async function page(client: S3Client, token?: string): Promise<ListObjectsV2CommandOutput> {
  return await client.send(
    new ListObjectsV2Command({ Bucket: "spread", MaxKeys: 20, ContinuationToken: token }),
  );
}

withLab(t, [], async (lab, test) => {
  const headgate = await lab.headgate({
    name: "loss",
    clusters: lab.clusters({ a: 1, b: 1 }),
    prefix: "/headgate-loss/",
  });
  const client = lab.client(headgate);
  const [a, b] = [lab.direct("a"), lab.direct("b")];
  const keys = Array.from({ length: 120 }, (_, index) => `key-${1000 + index}`);

  const both = async (): Promise<readonly string[]> => [
    ...(await keysOf(a, "spread")),
    ...(await keysOf(b, "spread")),
  ];

  /** Both clusters answer again, at themselves and through Headgate. */
  async function restored(): Promise<void> {
    await lab.rgw.up();
    await until("both clusters again", 30_000, async () => {
      const { status } = await answerOf(page(client));
      return status === 200 ? true : null;
    });
  }

  test("a list that is being read goes on where it stood once the cluster is back", async (t) => {
    await client.send(new CreateBucketCommand({ Bucket: "spread" }));
    await inParallel(keys, 8, (key) => put(client, "spread", key, key));
    const first = await page(client);
    await lab.rgw.kill("b");
    const seen = (first.Contents ?? []).map(({ Key }) => Key);
    t.equal((await answerOf(page(client, first.NextContinuationToken))).status, 503);
    const uploads = new ListMultipartUploadsCommand({ Bucket: "spread" });
    t.equal((await answerOf(client.send(uploads))).status, 503);
    await restored();
    for (let token = first.NextContinuationToken; token !== undefined; ) {
      const next = await page(client, token);
      seen.push(...(next.Contents ?? []).map(({ Key }) => Key));
      token = next.NextContinuationToken;
    }
    t.strictSame(seen, keys, "no key is left out and none comes twice");
  });

  test("a bulk delete fails for the keys of the dead cluster alone, and is repeated", async (t) => {
    const onB = await keysOf(b, "spread");
    t.ok(onB.length > 0 && onB.length < keys.length);
    await lab.rgw.kill("b");
    const Delete = { Objects: keys.map((Key) => ({ Key })) };
    const remove = new DeleteObjectsCommand({ Bucket: "spread", Delete });
    const answer = await client.send(remove);
    t.strictSame(
      (answer.Errors ?? []).map(({ Key }) => Key),
      onB,
      "its keys in the order of the request",
    );
    t.equal(answer.Deleted?.length, keys.length - onB.length);
    await restored();
    t.strictSame(await both(), onB, "what failed is there, what did not is gone");
    const again = await client.send(remove);
    t.strictSame([again.Errors, again.Deleted?.length], [undefined, keys.length]);
    t.strictSame(await both(), []);
  });

  /** Keys that belong to each cluster. */
  async function owned(): Promise<{ readonly a: string; readonly b: string }> {
    const names = Array.from({ length: 12 }, (_, index) => `owned-${index}`);
    await inParallel(names, 4, (key) => put(client, "spread", key, key));
    const [[onA = ""], [onB = ""]] = await Promise.all([keysOf(a, "spread"), keysOf(b, "spread")]);
    if (onA === "" || onB === "") throw new Error("One cluster holds nothing");
    return { a: onA, b: onB };
  }

  for (const victim of ["a", "b"] as const) {
    test(`a copy from a to b during which ${victim} dies is whole or not there`, async (t) => {
      const key = await owned();
      const bytes = testBytes(largeBytes, victim);
      const params = { Bucket: "spread", Key: key.a, Body: bytes };
      await new Upload({ client, params, partSize: partBytes }).done();
      const copy = (): Promise<{ readonly $metadata: { readonly httpStatusCode?: number } }> =>
        client.send(
          new CopyObjectCommand({ Bucket: "spread", Key: key.b, CopySource: `spread/${key.a}` }),
        );
      const copying = answerOf(copy());
      const uploads = new ListMultipartUploadsCommand({ Bucket: "spread" });
      await until("parts of the copy", 30_000, async () => {
        const { Uploads } = await b.send(uploads);
        return (Uploads ?? []).some(({ Key }) => Key === key.b) ? true : null;
      });
      await lab.rgw.kill(victim);
      t.equal((await copying).status, 503);
      await restored();
      if (victim === "a") {
        const { Uploads } = await b.send(uploads);
        t.equal(Uploads, undefined, "the upload at the target is aborted");
      }
      const kept = await read(client, "spread", key.b);
      t.equal(Buffer.from(kept ?? []).toString(), key.b, "what stood there stands");
      t.equal((await answerOf(copy())).status, 200, "and the same request does it");
      t.equal(sha256((await read(client, "spread", key.b)) ?? new Uint8Array()), sha256(bytes));
      t.notOk((await keysOf(a, "spread")).includes(key.b), "on its own cluster alone");
    });
  }

  test("a Complete of a dead cluster is 503, and the same request finishes it", async (t) => {
    const key = (await owned()).b;
    const at = { Bucket: "spread", Key: key };
    const { UploadId } = await client.send(new CreateMultipartUploadCommand(at));
    const bytes = testBytes(3 * partBytes, "complete");
    const Parts: { PartNumber: number; ETag: string | undefined }[] = [];
    for (const PartNumber of [1, 2, 3]) {
      const Body = bytes.subarray((PartNumber - 1) * partBytes, PartNumber * partBytes);
      const { ETag } = await client.send(
        new UploadPartCommand({ ...at, UploadId, PartNumber, Body }),
      );
      Parts.push({ PartNumber, ETag });
    }
    const complete = new CompleteMultipartUploadCommand({
      ...at,
      UploadId,
      MultipartUpload: { Parts },
    });
    const running = answerOf(client.send(complete));
    await lab.rgw.kill("b");
    const seen = (await running).status;
    t.ok(seen === 503 || seen === 200, `it was answered ${seen}`);
    if (seen !== 200) t.equal((await answerOf(client.send(complete))).status, 503);
    await restored();
    t.equal((await answerOf(client.send(complete))).status, 200, "done, or done again");
    t.equal(sha256((await read(client, "spread", key)) ?? new Uint8Array()), sha256(bytes));
    const head = await client.send(new HeadObjectCommand(at));
    t.match(head.ETag, /^"[0-9a-f]{32}-3"$/);
  });
});
