// Multipart uploads that outlive what happens to their cluster, and what a Complete may be answered with
// behind a status of 200: blanks that keep the connection, an error, or half of either.

import { createHash } from "node:crypto";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  PutObjectCommand,
  UploadPartCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import t from "tap";
import { rgwAnswer } from "../support/fake-rgw.ts";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { openScene, type Scene } from "../support/rgw-scene.ts";

const Bucket = "pinned";

function home(headgate: TestHeadgate, key: string): string | undefined {
  return Object.entries(headgate.clusters).find(([, cluster]) =>
    cluster.exchanges().some(({ method, target }) => method === "POST" && target.includes(key)),
  )?.[0];
}

t.test("an upload stays where it began, draining or not, whatever weights become", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  const { s3, admin } = headgate;
  await s3.send(new CreateBucketCommand({ Bucket }));
  for (let n = 0; n < 4; n += 1) {
    await s3.send(new PutObjectCommand({ Bucket, Key: `source-${n}`, Body: `copied ${n} ` }));
  }
  const at = { Bucket, Key: "upload" };
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(at));
  const kept = home(headgate, "/upload");
  const other = kept === "a" ? "b" : "a";
  t.equal((await admin("POST", `/clusters/${kept}/drain`, { mode: "evacuate" })).status, 204);
  await admin("PUT", `/clusters/${other}/weight`, { weight: 90 });
  const Parts: { PartNumber: number; ETag: string | undefined }[] = [];
  let whole = "";
  for (let n = 0; n < 4; n += 1) {
    const Body = `part ${n} `;
    const PartNumber = n * 2 + 1;
    const { ETag } = await s3.send(new UploadPartCommand({ ...at, UploadId, PartNumber, Body }));
    const copied = await s3.send(
      new UploadPartCopyCommand({
        ...at,
        UploadId,
        PartNumber: PartNumber + 1,
        CopySource: `${Bucket}/source-${n}`,
      }),
    );
    Parts.push({ PartNumber, ETag });
    Parts.push({ PartNumber: PartNumber + 1, ETag: copied.CopyPartResult?.ETag });
    whole += `${Body}copied ${n} `;
  }
  const listed: (number | undefined)[] = [];
  let PartNumberMarker: string | undefined;
  do {
    const page = await s3.send(
      new ListPartsCommand({ ...at, UploadId, MaxParts: 3, PartNumberMarker }),
    );
    t.strictSame([page.Bucket, page.Key, page.UploadId], [Bucket, "upload", UploadId]);
    listed.push(...(page.Parts ?? []).map(({ PartNumber }) => PartNumber));
    PartNumberMarker = page.IsTruncated === true ? page.NextPartNumberMarker : undefined;
  } while (PartNumberMarker !== undefined);
  t.strictSame(listed, [1, 2, 3, 4, 5, 6, 7, 8], "each part on one page");
  const open = await s3.send(new ListMultipartUploadsCommand({ Bucket }));
  t.strictSame(
    open.Uploads?.map(({ Key, UploadId: id }) => [Key, id]),
    [["upload", UploadId]],
  );
  await s3.send(
    new CompleteMultipartUploadCommand({ ...at, UploadId, MultipartUpload: { Parts } }),
  );
  const got = await s3.send(new GetObjectCommand(at));
  t.equal(await got.Body?.transformToString(), whole);
  t.strictSame(
    headgate.clusters[other]?.objects(Bucket).some(({ key }) => key === "upload"),
    false,
  );
  t.equal((await admin("POST", `/clusters/${kept}/undrain`, {})).status, 204);
});

t.test("a handle is worth nothing elsewhere, and an aborted upload is gone", async (t) => {
  const { s3, admin, client, clusters } = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  for (const name of [Bucket, "elsewhere"]) {
    await s3.send(new CreateBucketCommand({ Bucket: name }));
  }
  const at = { Bucket, Key: "k" };
  const created = await s3.send(new CreateMultipartUploadCommand(at));
  const UploadId = created.UploadId ?? "";
  const wrong: readonly (typeof at & { UploadId: string })[] = [
    { ...at, Key: "l", UploadId },
    { ...at, Bucket: "elsewhere", UploadId },
    { ...at, UploadId: UploadId.slice(0, -1) },
    { ...at, UploadId: `${UploadId}A` },
    { ...at, UploadId: `B${UploadId.slice(1)}` },
    { ...at, UploadId: "2~made-up" },
  ];
  const Parts = [{ PartNumber: 1, ETag: '"x"' }];
  for (const upload of wrong) {
    for (const send of [
      () => s3.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: "x" })),
      () => s3.send(new ListPartsCommand(upload)),
      () => s3.send(new AbortMultipartUploadCommand(upload)),
      () => s3.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } })),
    ]) {
      const refusal = { name: "NoSuchUpload", $metadata: { httpStatusCode: 404 } };
      await t.rejects(send, refusal, JSON.stringify(upload));
    }
  }
  t.equal((await client().send(new ListPartsCommand({ ...at, UploadId }))).Key, "k", "it is open");
  for (const id of ["a", "b"]) await admin("POST", `/clusters/${id}/drain`, { mode: "readonly" });
  await s3.send(new UploadPartCommand({ ...at, UploadId, PartNumber: 1, Body: "x" }));
  const abort = new AbortMultipartUploadCommand({ ...at, UploadId });
  for (const cluster of Object.values(clusters)) cluster.setFault(() => "reset");
  await t.rejects(s3.send(abort), {
    name: "ServiceUnavailable",
    $metadata: { httpStatusCode: 503 },
  });
  for (const cluster of Object.values(clusters)) cluster.setFault(null);
  const still = await s3.send(new ListMultipartUploadsCommand({ Bucket }));
  t.strictSame(
    still.Uploads?.map((upload) => upload.UploadId),
    [UploadId],
    "an abort that did not arrive leaves the upload as it was",
  );
  const parts = await s3.send(new ListPartsCommand({ ...at, UploadId }));
  t.equal(parts.Parts?.length, 1);
  await s3.send(abort);
  await t.rejects(s3.send(new ListPartsCommand({ ...at, UploadId })), { name: "NoSuchUpload" });
  const none = await s3.send(new ListMultipartUploadsCommand({ Bucket }));
  t.equal(none.Uploads, undefined);
});

const numbers = ["0", "-1", "1.5", "10001", "", "x", "1e3", "99999999999999999999"];

t.test("a part that no Complete can name is refused before its body is read", async (t) => {
  const { s3, url, clusters } = await startTestHeadgate(t, { clusters: { a: 1 } });
  await s3.send(new CreateBucketCommand({ Bucket }));
  const at = { Bucket, Key: "k" };
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(at));
  const before = clusters["a"]?.exchanges().length;
  const source = [["x-amz-copy-source", `/${Bucket}/k`]] as const;
  for (const number of numbers) {
    for (const headers of [[], source]) {
      const query = `partNumber=${number}&uploadId=${UploadId}`;
      const contentLength = headers.length === 0 ? 5 * 1024 * 1024 : 0;
      const head = rawHead(url, {
        method: "PUT",
        path: `/${Bucket}/k`,
        query,
        headers,
        contentLength,
      });
      const { status, text } = await rawExchange(url, head);
      t.equal(status, 400, number);
      t.match(text, /<Code>InvalidArgument<.*<ArgumentName>partNumber</s, number);
    }
  }
  t.equal(clusters["a"]?.exchanges().length, before, "no cluster was asked");
  for (const PartNumber of [1, 10_000]) {
    await s3.send(new UploadPartCommand({ ...at, UploadId, PartNumber, Body: "x" }));
  }
  const parts = clusters["a"]?.parts(Bucket) ?? [];
  t.strictSame(
    parts.map(({ number }) => number),
    [1, 10_000],
  );
});

t.test("pages of parts are those of S3, and every pager ends", async (t) => {
  const { s3, url, clusters } = await startTestHeadgate(t, { clusters: { a: 1 } });
  await s3.send(new CreateBucketCommand({ Bucket }));
  const at = { Bucket, Key: "k" };
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(at));
  const list = async (query: string) => {
    const all = `${query}&uploadId=${UploadId}`.replace(/^&/, "");
    const { text } = await rawExchange(
      url,
      rawHead(url, { method: "GET", path: `/${Bucket}/k`, query: all }),
    );
    return text;
  };
  for (const PartNumber of [2, 3, 5]) {
    await s3.send(new UploadPartCommand({ ...at, UploadId, PartNumber, Body: "x" }));
  }
  const pages: readonly (readonly [string, string, readonly number[], boolean])[] = [
    ["", "1000", [2, 3, 5], false],
    ["max-parts=0", "0", [], false],
    ["max-parts=1", "1", [2], true],
    ["max-parts=2&part-number-marker=2", "2", [3, 5], false],
    ["max-parts=3", "3", [2, 3, 5], false],
    ["max-parts=1000", "1000", [2, 3, 5], false],
    ["max-parts=1001", "1000", [2, 3, 5], false],
    ["max-parts=2147483647", "1000", [2, 3, 5], false],
    ["part-number-marker=4", "1000", [5], false],
    ["part-number-marker=5", "1000", [], false],
    ["part-number-marker=2147483647", "1000", [], false],
    ["max-parts=&part-number-marker=", "1000", [2, 3, 5], false],
  ];
  for (const [query, most, wanted, more] of pages) {
    const text = await list(query);
    const shown = [...text.matchAll(/<PartNumber>(\d+)</g)].map(([, number]) => Number(number));
    t.strictSame(shown, wanted, query);
    t.match(text, `<MaxParts>${most}</MaxParts>`, query);
    t.match(text, `<IsTruncated>${more}</IsTruncated>`, query);
    t.match(text, `<UploadId>${UploadId}</UploadId>`, query);
  }
  const before = clusters["a"]?.exchanges().length;
  for (const value of ["-1", "x", "1.5", "2147483648", "99999999999"]) {
    for (const name of ["max-parts", "part-number-marker"]) {
      const text = await list(`${name}=${value}`);
      t.match(text, new RegExp(`<Code>InvalidArgument<.*<ArgumentName>${name}<`, "s"), text);
    }
  }
  t.equal(clusters["a"]?.exchanges().length, before, "no cluster was asked");
});

t.test("a Complete that is not the one that was meant completes nothing", async (t) => {
  const { s3, url, clusters } = await startTestHeadgate(t, { clusters: { a: 1 } });
  await s3.send(new CreateBucketCommand({ Bucket }));
  const at = { Bucket, Key: "k" };
  const { UploadId } = await s3.send(new CreateMultipartUploadCommand(at));
  const part = new UploadPartCommand({ ...at, UploadId, PartNumber: 1, Body: "x" });
  const { ETag } = await s3.send(part);
  const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${ETag}</ETag></Part></CompleteMultipartUpload>`;
  const right = createHash("md5").update(body).digest("base64");
  for (const [digest, answer, left] of [
    [createHash("md5").update("other").digest("base64"), "<Code>BadDigest<", []],
    ["none", "<Code>InvalidDigest<", []],
    [right, "<CompleteMultipartUploadResult", ["k"]],
  ] as const) {
    const head = rawHead(url, {
      method: "POST",
      path: `/${Bucket}/k`,
      query: `uploadId=${UploadId}`,
      headers: [["content-md5", digest]],
      contentLength: body.length,
    });
    t.match((await rawExchange(url, head, body)).text, answer);
    t.strictSame(
      clusters["a"]?.objects(Bucket).map(({ key }) => key),
      left,
    );
  }
});

t.test("an error of an upload says what S3 says, in the client's words", async (t) => {
  const rows: readonly (readonly [string, string, string, number, string])[] = [
    ["DELETE", "409 Conflict", "BucketAlreadyExists", 409, "OperationAborted"],
    ["DELETE", "409 Conflict", "OperationAborted", 409, "OperationAborted"],
    ["DELETE", "404 Not Found", "NoSuchUpload", 404, "NoSuchUpload"],
    ["GET", "404 Not Found", "NoSuchKey", 404, "NoSuchUpload"],
    ["GET", "404 Not Found", "NoSuchBucket", 404, "NoSuchBucket"],
  ];
  for (const [method, line, code, status, told] of rows) {
    const scene = await openScene(t);
    const query = `uploadId=${await begin(scene)}`;
    const error = `<Error><Code>${code}</Code><Message></Message><UploadId>2~x</UploadId></Error>`;
    scene.rgw.intercept = (request) =>
      request.method === method ? rgwAnswer(line, ["Content-Type: application/xml"], error) : null;
    const answer = await scene.ask(method, "/rep/k", { query });
    t.match({ status: answer.status, code: answer.code }, { status, code: told }, code);
    t.match(answer.body, /<Message>[^<]+</);
    t.notMatch(answer.body, "2~x");
  }
});

const md5 = (text: string): string => createHash("md5").update(text).digest("hex");
const partEtag = md5("one");
const etag = `${createHash("md5").update(Buffer.from(partEtag, "hex")).digest("hex")}-1`;
const declaration = '<?xml version="1.0" encoding="UTF-8"?>';
const result = `<CompleteMultipartUploadResult><Location>http://zone/b/k</Location><Bucket>zone</Bucket><Key>k</Key><ETag>${etag}</ETag></CompleteMultipartUploadResult>`;
const failure =
  "<Error><Code>InternalError</Code><Message>We broke</Message><RequestId>zone</RequestId></Error>";
const blanks = " \n".repeat(2000);

/** A 200 in HTTP chunks. */
function chunked(pieces: readonly string[]): string {
  const chunks = pieces.map((piece) => `${piece.length.toString(16)}\r\n${piece}\r\n`).join("");
  return `HTTP/1.1 200 OK\r\nContent-Type: application/xml\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`;
}

/** The handle of an upload that its cluster calls `2~x`. */
async function begin(scene: Scene): Promise<string> {
  const initiated =
    "<InitiateMultipartUploadResult><UploadId>2~x</UploadId></InitiateMultipartUploadResult>";
  scene.rgw.intercept = ({ query }) => (query.has("uploads") ? chunked([initiated]) : null);
  const { body } = await scene.ask("POST", "/rep/k", { query: "uploads=", body: "" });
  return /<UploadId>(.*?)<\/UploadId>/.exec(body)?.[1] ?? "";
}

async function completeWith(scene: Scene, answer: string) {
  const uploadId = await begin(scene);
  scene.rgw.intercept = ({ method, query }) =>
    method === "POST" && query.has("uploadId") ? answer : null;
  const body = `<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>${partEtag}</ETag></Part></CompleteMultipartUpload>`;
  return await scene.ask("POST", "/rep/k", { query: `uploadId=${uploadId}`, body });
}

t.test("what stands in a 200 to Complete is what the client is told", async (t) => {
  const rows: readonly (readonly [string, readonly string[], number, string | null])[] = [
    ["blanks behind the declaration", [declaration, blanks, blanks, result], 200, null],
    ["blanks before the declaration", [blanks, declaration, result], 200, null],
    ["an error", [declaration, failure], 500, "InternalError"],
    ["an error behind blanks", [blanks, declaration, blanks, failure], 500, "InternalError"],
    ["blanks alone", [blanks], 503, "ServiceUnavailable"],
    ["another document", [declaration, "<ListPartsResult/>"], 503, "ServiceUnavailable"],
    ["half a result", [declaration, blanks, result.slice(0, 90)], 503, "ServiceUnavailable"],
  ];
  for (const [what, pieces, status, code] of rows) {
    const scene = await openScene(t);
    const answer = await completeWith(scene, chunked(pieces));
    t.match({ status: answer.status, code: answer.code }, { status, code }, what);
    t.notMatch(answer.body, "zone", what);
    if (status === 200) t.match(answer.body, `<ETag>&quot;${etag}&quot;</ETag>`);
  }
});
