// UploadPartCopy: asked of the cluster where both ends are and the source's name survives; read and
// uploaded here for all else. What kills a radosgw never reaches one, and is asked of one server only.

import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  UploadPartCopyCommand,
  type UploadPartCopyCommandInput,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { count, keys, lastField, openCopies, put, sent } from "../support/copies.ts";
import { rgwAnswer, rgwError } from "../support/fake-rgw.ts";
import { limitedKeys, type TestHeadgate } from "../support/headgate.ts";
import { adapter, rawServer } from "../support/raw-upstream.ts";
import { openScene } from "../support/rgw-scene.ts";

type Target = "near" | "far";

async function begin(headgate: TestHeadgate, Bucket: Target, Key = "copy"): Promise<string> {
  const answer = await headgate.s3.send(new CreateMultipartUploadCommand({ Bucket, Key }));
  return answer.UploadId ?? "";
}

async function copyPart(
  headgate: TestHeadgate,
  input: Partial<UploadPartCopyCommandInput> & { readonly UploadId: string },
) {
  const { Bucket = "far", Key = "copy", PartNumber = 1, CopySource = "src/k", ...rest } = input;
  const { UploadId } = input;
  return await headgate.s3.send(
    new UploadPartCopyCommand({ Bucket, Key, PartNumber, CopySource, ...rest, UploadId }),
  );
}

async function complete(
  headgate: TestHeadgate,
  Bucket: Target,
  upload: { readonly UploadId: string; readonly etags: readonly (string | undefined)[] },
): Promise<void> {
  const Parts = upload.etags.map((ETag, index) => ({ ETag, PartNumber: index + 1 }));
  const { UploadId } = upload;
  await headgate.s3.send(
    new CompleteMultipartUploadCommand({
      Bucket,
      Key: "copy",
      UploadId,
      MultipartUpload: { Parts },
    }),
  );
}

function stored(headgate: TestHeadgate, bucket: Target): string | undefined {
  const cluster = headgate.clusters[bucket === "near" ? "a" : "b"];
  return cluster
    ?.objects(bucket)
    .find(({ key }) => key === "copy")
    ?.bytes.toString("utf8");
}

/** Whether a cluster was asked to copy a part. */
function asked(headgate: TestHeadgate, from: number): boolean {
  const exchanges = headgate.clusters["a"]?.exchanges().slice(from) ?? [];
  return exchanges.some(({ rawHeaders }) => rawHeaders.includes("x-amz-copy-source"));
}

t.test("parts are copied within and between clusters, whole or by range", async (t) => {
  const headgate = await openCopies(t);
  const content = "0123456789".repeat(20_000);
  await put(headgate, "k é+", content);
  const CopySource = "/src/k%20%C3%A9%2B";
  for (const Bucket of ["near", "far"] as const) {
    const UploadId = await begin(headgate, Bucket);
    const before = count(headgate, "a");
    const etags: (string | undefined)[] = [];
    for (const [index, range] of ["bytes=0-9", "bytes=5-199999", undefined].entries()) {
      const PartNumber = index + 1;
      const given = range === undefined ? {} : { CopySourceRange: range };
      const answer = await copyPart(headgate, {
        Bucket,
        UploadId,
        PartNumber,
        CopySource,
        ...given,
      });
      t.ok(answer.CopyPartResult?.LastModified instanceof Date);
      etags.push(answer.CopyPartResult?.ETag);
    }
    t.equal(asked(headgate, before), Bucket === "near");
    if (Bucket === "near") t.equal(lastField(headgate, "a", "x-amz-copy-source"), CopySource);
    await complete(headgate, Bucket, { UploadId, etags });
    t.ok(stored(headgate, Bucket) === content.slice(0, 10) + content.slice(5) + content, Bucket);
  }
});

t.test("a source that a radosgw does not survive is read and uploaded", async (t) => {
  for (const profile of ["rgw-pacific", "rgw-reef", "s3-generic", "aws"] as const) {
    const headgate = await openCopies(t, profile);
    for (const [key, source] of [
      ["any%.txt", "/src/any%25.txt"],
      ["any%zz", "src/any%25zz"],
      ["a%41", "src%2Fa%2541"],
      // Decoded before it is cut, this would name the object "secret".
      ["secret?versionId=null", "/src/secret%3FversionId%3Dnull"],
    ] as const) {
      await put(headgate, key, `content of ${key}`);
      const UploadId = await begin(headgate, "near");
      const before = count(headgate, "a");
      const answer = await copyPart(headgate, { Bucket: "near", UploadId, CopySource: source });
      t.equal(asked(headgate, before), profile === "aws", `${profile}: ${source}`);
      const etags = [answer.CopyPartResult?.ETag];
      await complete(headgate, "near", { UploadId, etags });
      t.equal(stored(headgate, "near"), `content of ${key}`);
    }
  }
});

t.test("no key, a broken escape or a made-up upload reaches no cluster", async (t) => {
  const headgate = await openCopies(t);
  const UploadId = await begin(headgate, "near");
  const before = count(headgate, "a");
  for (const [CopySource, id, code] of [
    ["/src/", UploadId, "InvalidArgument"],
    ["/src", UploadId, "InvalidArgument"],
    ["/src/any%.txt", UploadId, "InvalidArgument"],
    ["/src/any%25.txt", "made-up", "NoSuchUpload"],
  ] as const) {
    const sending = copyPart(headgate, { Bucket: "near", UploadId: id, CopySource });
    await t.rejects(sending, { name: code }, CopySource);
  }
  const limited = headgate.client({ credentials: limitedKeys });
  const command = new UploadPartCopyCommand({
    Bucket: "near",
    Key: "copy",
    PartNumber: 1,
    UploadId,
    CopySource: "/src/any%25.txt",
  });
  await t.rejects(limited.send(command), { name: "AccessDenied" });
  t.strictSame(sent(headgate, "a", before), []);
});

t.test("the version that an RGW copied is told, where it is known", async (t) => {
  const copied = '<ETag>"x"</ETag><LastModified>2026-11-30T00:00:00.000Z</LastModified>';
  const v2 = ["x-amz-version-id: v2"];
  /** What becomes of the source while it is copied, or the code of the copy's refusal. */
  type Meanwhile = "stays" | "changes" | "goes" | "NoSuchKey";
  const rows: readonly (readonly [string, readonly string[], Meanwhile, string | null, number])[] =
    [
      ["", v2, "stays", "v2", 2],
      ["", v2, "changes", null, 2],
      ["", v2, "goes", null, 2],
      ["", [], "stays", null, 1],
      ["?versionId=v1", v2, "stays", "v1", 0],
      ["?versionId=v1", v2, "NoSuchKey", null, 0],
    ];
  const scene = await openScene(t);
  const initiated =
    "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
  for (const [version, lines, meanwhile, told, looks] of rows) {
    for (const isPart of [true, false]) {
      const { rgw, ask } = scene;
      rgw.put("/rep/src", "x", { lines });
      rgw.intercept = ({ method, query, headers }) => {
        if (method === "POST") return rgwAnswer("200 OK", [], initiated);
        if (!headers.has("x-amz-copy-source")) return null;
        if (meanwhile === "NoSuchKey") return rgwError("404 Not Found", meanwhile);
        if (meanwhile === "changes") rgw.put("/rep/src", "x", { lines: ["x-amz-version-id: v3"] });
        if (meanwhile === "goes") rgw.objects.delete("/rep/src");
        const name = query.has("partNumber") ? "CopyPartResult" : "CopyObjectResult";
        return rgwAnswer("200 OK", [], `<${name}>${copied}</${name}>`);
      };
      const begun = await ask("POST", "/rep/dst", { query: "uploads=", body: "" });
      const uploadId = /<UploadId>(.*?)</.exec(begun.body)?.[1] ?? "";
      const before = rgw.requests.length;
      const { status, head, code } = await ask("PUT", "/rep/dst", {
        query: isPart ? `partNumber=1&uploadId=${uploadId}` : "",
        headers: [["x-amz-copy-source", `/rep/src${version}`]],
        body: "",
      });
      const what = `${version} ${lines.length} ${meanwhile} ${isPart}`;
      const refused = meanwhile === "NoSuchKey";
      t.strictSame([status, code], refused ? [404, "NoSuchVersion"] : [200, null], what);
      t.equal(/^x-amz-copy-source-version-id: (.*?)\r?$/m.exec(head)?.[1] ?? null, told, what);
      const looked = rgw.requests.slice(before).filter(({ method }) => method === "HEAD").length;
      if (isPart) t.equal(looked, looks, what);
    }
  }
});

t.test("ranges that S3 refuses are refused", async (t) => {
  const headgate = await openCopies(t);
  await put(headgate, "k", "hello");
  await put(headgate, "100%", "hello");
  for (const Bucket of ["near", "far"] as const) {
    const UploadId = await begin(headgate, Bucket);
    for (const CopySource of ["src/k", "src/100%25"]) {
      for (const [CopySourceRange, code] of [
        ["bytes=0-21", "InvalidRange"],
        ["bytes=5-5", "InvalidRange"],
        ["0-2", "InvalidArgument"],
        ["bytes=0", "InvalidArgument"],
        ["bytes=hello-world", "InvalidArgument"],
        ["bytes=2-", "InvalidArgument"],
        ["bytes=0-2,3-5", "InvalidArgument"],
      ] as const) {
        const sending = copyPart(headgate, { Bucket, UploadId, CopySource, CopySourceRange });
        await t.rejects(sending, { name: code }, `${Bucket} ${CopySource} ${CopySourceRange}`);
      }
    }
    await t.rejects(copyPart(headgate, { Bucket, UploadId, CopySource: "src/no" }), {
      name: "NoSuchKey",
    });
  }
});

t.test("conditions on the source are judged, others refused", async (t) => {
  const headgate = await openCopies(t, "rgw-reef");
  const { ETag = "" } = await put(headgate, "k");
  for (const Bucket of ["near", "far"] as const) {
    const UploadId = await begin(headgate, Bucket);
    await copyPart(headgate, { Bucket, UploadId, CopySourceIfMatch: ETag });
    for (const given of [{ CopySourceIfMatch: '"x"' }, { CopySourceIfNoneMatch: ETag }]) {
      const sending = copyPart(headgate, { Bucket, UploadId, ...given });
      await t.rejects(sending, { name: "PreconditionFailed" });
    }
  }
});

t.test("a source that breaks leaves no part", async (t) => {
  const headgate = await openCopies(t);
  await headgate.s3.send(
    new PutObjectCommand({ Bucket: "src", Key: "k", Body: Buffer.alloc(300_000, 1) }),
  );
  const UploadId = await begin(headgate, "far");
  headgate.clusters["a"]?.setFault(({ method }) =>
    method === "GET" ? { cutAfterBytes: 200_000 } : null,
  );
  await t.rejects(copyPart(headgate, { UploadId }), { name: "ServiceUnavailable" });
  headgate.clusters["a"]?.setFault(null);
  const parts = [{ PartNumber: 1, ETag: '"x"' }];
  const whole = { Bucket: "far", Key: "copy", UploadId, MultipartUpload: { Parts: parts } };
  await t.rejects(headgate.s3.send(new CompleteMultipartUploadCommand(whole)), {
    name: "InvalidPart",
  });
  t.strictSame(keys(headgate, "far"), ["mine/first"]);
});

/** What a radosgw does on its last request: the connection ends without an answer. */
async function dyingServer(t: Test) {
  return await rawServer(t, async (connection) => {
    for (;;) {
      const head = await connection.head();
      if (head === null) return;
      if (head.startsWith("HEAD")) connection.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
      else connection.socket.resetAndDestroy();
    }
  });
}

t.test("what kills a server is not asked of the next endpoint, nor again", async (t) => {
  for (const operation of [
    "UploadPartCopy",
    "CopyObject",
    "UploadPart",
    "DeleteObjects",
  ] as const) {
    const servers = [await dyingServer(t), await dyingServer(t)];
    const one = adapter(t, { endpoints: servers.map(({ url }) => url), maxAttempts: 5 });
    // Kept connections are those whose end looks like an idle close.
    for (let warm = 0; warm < 4; warm += 1) {
      const response = await one.send({ operation: "HeadObject", method: "HEAD" });
      t.equal(response.status, 200);
    }
    const bytes = Buffer.from("data");
    const copies = operation === "UploadPartCopy" || operation === "CopyObject";
    await one.failure({
      operation,
      method: operation === "DeleteObjects" ? "POST" : "PUT",
      headers: copies ? [["x-amz-copy-source", "/bucket/any%25.txt"]] : [],
      body: copies ? null : { kind: "bytes", bytes },
    });
    const killed = servers.filter(({ connections }) =>
      connections.some(({ socket }) => socket.destroyed),
    );
    t.equal(killed.length, 1, operation);
    t.strictSame(one.retries, []);
    // Of the other server connections are kept.
    t.ok(one.statistics().every(({ inFlight }) => inFlight === 0));
    await one.close();
  }
});
