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
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
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

async function completeWith(scene: Scene, answer: string) {
  const initiated =
    "<InitiateMultipartUploadResult><UploadId>2~x</UploadId></InitiateMultipartUploadResult>";
  scene.rgw.intercept = ({ query }) => (query.has("uploads") ? chunked([initiated]) : null);
  const begun = await scene.ask("POST", "/rep/k", { query: "uploads=", body: "" });
  const uploadId = /<UploadId>(.*?)<\/UploadId>/.exec(begun.body)?.[1] ?? "";
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
