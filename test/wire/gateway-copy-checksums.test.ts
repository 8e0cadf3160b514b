// The checksums of copies between clusters: the source's, or of the algorithm that the request names, on a
// cluster that keeps them; none, and no harm, on one that does not, whatever its profile says. Copies in
// parts of what was put whole, and those with CRC64NVME, are in test/real/versitygw.test.ts.

import {
  CompleteMultipartUploadCommand,
  CreateBucketCommand,
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  UploadPartCopyCommand,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { DemoFault, FaultRule } from "../../proxy/demo/faults.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { copy, count, keys, openCopies, sent } from "../support/copies.ts";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import type { MatrixChecksum } from "../support/matrix-checksums.ts";
import {
  algorithmNames,
  headTold,
  piecesOf,
  putSummed,
  rightlyTold,
  type Summed,
  summed,
  toldOf,
  valueOf,
  valuesIn,
} from "../support/object-checksums.ts";
import { rawServer } from "../support/raw-upstream.ts";

const mebi = 1024 * 1024;
const from = { Bucket: "src", Key: "k" };
const to = { Bucket: "far", Key: "copy" };
const inParts = [5 * mebi, 70_001] as const;
const bodyOf = (size: number) => Buffer.alloc(size, "0123456789abcdef!");

function full(algorithm: MatrixChecksum): Summed {
  return { algorithm, type: "FULL_OBJECT" };
}

function composite(algorithm: MatrixChecksum): Summed {
  return { algorithm, type: "COMPOSITE" };
}

const on =
  (method: string, part: string) =>
  (fault: DemoFault): FaultRule =>
  (request) =>
    request.method === method && request.target.includes(part) ? fault : null;
const badDigest = { status: 400, code: "BadDigest" } as const;

/** A cluster with the object `k` in the bucket `lying`, whose CRC32 it says is 0. */
async function lyingSource(test: Test, parts: number) {
  const size = parts === 1 ? 200_000 : 5 * mebi + 70_001;
  const etag = `"${"0".repeat(32)}${parts === 1 ? "" : `-${parts}`}"`;
  const told = `etag: ${etag}\r\nx-amz-checksum-crc32: AAAAAA==\r\nx-amz-checksum-type: FULL_OBJECT`;
  return await rawServer(test, async (connection) => {
    for (let head = await connection.head(); head !== null; head = await connection.head()) {
      const [method, target = ""] = head.split(" ", 2);
      if (!target.startsWith("/lying/k")) {
        const status = target.startsWith("/lying") ? "200 OK" : "404 Not Found";
        connection.write(`HTTP/1.1 ${status}\r\ncontent-length: 0\r\n\r\n`);
        continue;
      }
      const [, first, last] = /range: bytes=(\d+)-(\d+)/i.exec(head) ?? [];
      const isPart = first !== undefined || target.includes("partNumber");
      const length =
        first === undefined ? (isPart ? 5 * mebi : size) : Number(last) - Number(first) + 1;
      const status = isPart ? "206 Partial Content" : "200 OK";
      connection.write(`HTTP/1.1 ${status}\r\n${told}\r\ncontent-length: ${length}\r\n\r\n`);
      if (method === "GET") connection.write(bodyOf(length));
    }
  });
}

/** What is stored of the copy's Content-Encoding. */
function encodingOf({ clusters }: TestHeadgate): string | undefined {
  const stored = clusters["b"]?.objects("far").find(({ key }) => key === "copy");
  return new Map(stored?.headers).get("content-encoding");
}

/** What uploads to b carried: where their checksums stood, `head` or `trailer`. */
function placesOf(headgate: TestHeadgate, since: number): readonly string[] {
  const exchanges = headgate.clusters["b"]?.exchanges().slice(since) ?? [];
  return exchanges
    .filter(({ method }) => method === "PUT")
    .map(({ rawHeaders }) => {
      if (rawHeaders.includes("x-amz-trailer")) return "trailer";
      const names = rawHeaders.filter((_, index) => index % 2 === 0);
      return names.some((name) => /^x-amz-checksum-(?!type|algorithm)/.test(name))
        ? "head"
        : "none";
    });
}

t.test("in one piece", async (t) => {
  const headgate = await openCopies(t, "aws");
  for (const [size, source, sizes, asked, kept, place] of [
    [0, full("crc32"), [], null, full("crc32"), "head"],
    [7, full("sha256"), [], null, full("sha256"), "head"],
    [200_000, full("crc64nvme"), [], null, full("crc64nvme"), "head"],
    [7, full("crc32"), [], "crc32c", full("crc32c"), "head"],
    [200_000, full("crc32"), [], "sha256", full("sha256"), "trailer"],
    [200_000, full("sha1"), [], "sha1", full("sha1"), "head"],
    [200_000, null, [], "crc64nvme", full("crc64nvme"), "trailer"],
    [200_000, composite("crc32"), [120_000, 80_000], null, full("crc32"), "trailer"],
    [200_000, composite("sha256"), [120_000, 80_000], "crc32c", full("crc32c"), "trailer"],
    [7, composite("sha1"), [4, 3], null, full("sha1"), "head"],
    [200_000, null, [], null, null, "none"],
  ] as const) {
    const body = bodyOf(size);
    await putSummed(headgate.s3, { ...from, body, sizes, sum: source });
    const since = count(headgate, "b");
    const given = asked === null ? {} : { ChecksumAlgorithm: algorithmNames[asked] };
    const { CopyObjectResult = {} } = await copy(headgate, given);
    const name = `${size} bytes of ${source?.type} ${source?.algorithm}, ${asked} asked for`;
    const told = await toldOf(headgate.s3, to);
    if (kept === null) t.strictSame(told.head, { values: {}, type: undefined }, name);
    else {
      t.strictSame(told, rightlyTold(body, kept, []), name);
      t.strictSame(valuesIn(CopyObjectResult), told.head, name);
    }
    // The first that is sent behind a body is preceded by the proof that it is understood.
    t.equal(placesOf(headgate, since).at(-1), place, name);
    t.equal(encodingOf(headgate), "gzip", name);
  }
});

t.test("in parts", async (t) => {
  const headgate = await openCopies(t, "aws");
  const sizes = inParts;
  const body = bodyOf(5 * mebi + 70_001);
  for (const [source, asked, kept] of [
    [composite("crc32"), null, composite("crc32")],
    [full("crc32"), null, full("crc32")],
    [composite("sha256"), null, composite("sha256")],
    [composite("sha256"), "sha1", composite("sha1")],
    [composite("sha256"), "crc32c", full("crc32c")],
    [null, "crc32", full("crc32")],
    [null, null, null],
  ] as const) {
    await putSummed(headgate.s3, { ...from, body, sizes, sum: source });
    const since = count(headgate, "b");
    const given = asked === null ? {} : { ChecksumAlgorithm: algorithmNames[asked] };
    const { CopyObjectResult = {} } = await copy(headgate, given);
    const name = `of ${source?.type} ${source?.algorithm}, ${asked} asked for`;
    const told = await toldOf(headgate.s3, to);
    if (kept === null) t.strictSame(told.head, { values: {}, type: undefined }, name);
    else {
      t.strictSame(told, rightlyTold(body, kept, sizes), name);
      t.strictSame(valuesIn(CopyObjectResult), told.head, name);
    }
    const places = placesOf(headgate, since).slice(-2);
    t.strictSame(places, kept === null ? ["none", "none"] : ["trailer", "trailer"], name);
    const proven = headgate.clusters["b"]
      ?.exchanges()
      .slice(since)
      .filter(({ method, rawHeaders }) => {
        return method === "POST" && rawHeaders.includes(valueOf(body, full("crc32"), []));
      });
    t.equal(proven?.length, source?.type === "FULL_OBJECT" && source.algorithm === "crc32" ? 1 : 0);
  }
});

t.test("of a part", async (t) => {
  const headgate = await openCopies(t, "aws");
  const body = bodyOf(300_000);
  await putSummed(headgate.s3, { ...from, body, sizes: [], sum: full("sha1") });
  const sizes = [200_000, 7, 99_993];
  for (const sum of [composite("crc32"), full("crc64nvme"), composite("sha256"), null]) {
    const begun =
      sum === null
        ? {}
        : { ChecksumAlgorithm: algorithmNames[sum.algorithm], ChecksumType: sum.type };
    const { UploadId } = await headgate.s3.send(
      new CreateMultipartUploadCommand({ ...to, ...begun }),
    );
    const Parts = [];
    let first = 0;
    for (const [index, piece] of piecesOf(body, sizes).entries()) {
      const PartNumber = index + 1;
      const CopySourceRange = `bytes=${first}-${first + piece.length - 1}`;
      first += piece.length;
      const { CopyPartResult = {} } = await headgate.s3.send(
        new UploadPartCopyCommand({
          ...to,
          UploadId,
          PartNumber,
          CopySource: "src/k",
          CopySourceRange,
        }),
      );
      const { values } = valuesIn(CopyPartResult);
      t.strictSame(values, sum === null ? {} : { [sum.algorithm]: summed(sum.algorithm, piece) });
      Parts.push({ PartNumber, ...CopyPartResult });
    }
    const done = { ...to, UploadId, MultipartUpload: { Parts } };
    await headgate.s3.send(new CompleteMultipartUploadCommand(done));
    const told = await toldOf(headgate.s3, to);
    if (sum === null) t.strictSame(told.head.values, {});
    else t.strictSame(told, rightlyTold(body, sum, sizes));
  }
});

t.test("a cluster that takes none behind a body is told it in the head", async (t) => {
  const headgate = await openCopies(t, "aws", { overrides: "{takes_trailers: false}" });
  const sizes = inParts;
  const body = bodyOf(5 * mebi + 70_001);
  await putSummed(headgate.s3, { ...from, body, sizes, sum: composite("crc32") });
  const [a, b] = [count(headgate, "a"), count(headgate, "b")];
  await copy(headgate, {});
  t.strictSame(await toldOf(headgate.s3, to), rightlyTold(body, composite("crc32"), sizes));
  t.strictSame(placesOf(headgate, b), ["head", "head"]);
  t.equal(sent(headgate, "a", a).filter((line) => line === "GET /src/k").length, 4, "read twice");
});

for (const [what, profile, a, b] of [
  ["both keep none", "rgw-pacific", profiles["rgw-pacific"], profiles["rgw-pacific"]],
  ["the target only seems to keep them", "aws", profiles.aws, profiles["rgw-pacific"]],
  ["both only seem to", "aws", profiles["rgw-pacific"], profiles["rgw-pacific"]],
  ["an RGW is older than it seems", "rgw-squid", profiles["rgw-squid"], profiles["rgw-pacific"]],
  [
    "an RGW takes trailers and keeps none",
    "rgw-squid",
    profiles["rgw-squid"],
    profiles["rgw-reef"],
  ],
] as const) {
  t.test(`none is kept, and nothing is harmed, where ${what}`, async (t) => {
    const headgate = await openCopies(t, profile, { a, b });
    for (const sizes of [[], inParts]) {
      const body = bodyOf(sizes.length === 0 ? 200_000 : 5 * mebi + 70_001);
      const sum = a.verifiesChecksums ? composite("crc32") : null;
      await putSummed(headgate.s3, { ...from, body, sizes, sum: sizes.length === 0 ? null : sum });
      await copy(headgate, { ChecksumAlgorithm: "SHA256" });
      const [stored] = headgate.clusters["b"]?.objects("far") ?? [];
      t.ok(stored?.bytes.equals(body));
      t.equal(encodingOf(headgate), "gzip");
      t.strictSame((await headTold(headgate.s3, to)).values, {});
    }
    const { UploadId } = await headgate.s3.send(new CreateMultipartUploadCommand(to));
    const part = { ...to, UploadId, PartNumber: 1 };
    const copying = new UploadPartCopyCommand({ ...part, CopySource: "src/k" });
    t.strictSame(valuesIn((await headgate.s3.send(copying)).CopyPartResult ?? {}).values, {});
    t.equal(headgate.clusters["b"]?.parts("far")[0]?.sizeBytes, 5 * mebi + 70_001);
  });
}

t.test("an RGW that keeps them is told as it takes it", async (t) => {
  const headgate = await openCopies(t, "rgw-squid");
  for (const [sizes, sum, asked, kept] of [
    [[], full("sha1"), "CRC32", full("crc32")],
    [inParts, composite("sha256"), undefined, composite("sha256")],
  ] as const) {
    const body = bodyOf(5 * mebi + 70_001);
    await putSummed(headgate.s3, { ...from, body, sizes, sum });
    const since = count(headgate, "b");
    await copy(headgate, asked === undefined ? {} : { ChecksumAlgorithm: asked });
    t.strictSame(await headTold(headgate.s3, to), rightlyTold(body, kept, sizes).head);
    t.equal(placesOf(headgate, since).at(-1), "trailer");
    t.equal(encodingOf(headgate), "gzip");
  }
});

t.test("a target that stores framing never gets any", async (t) => {
  const headgate = await openCopies(t, "aws", { b: { ...profiles.aws, storesFraming: true } });
  const sizes = inParts;
  const body = bodyOf(5 * mebi + 70_001);
  await putSummed(headgate.s3, { ...from, body, sizes, sum: composite("sha256") });
  await copy(headgate, {});
  t.ok(headgate.clusters["b"]?.objects("far")[0]?.bytes.equals(body));
  t.strictSame(await toldOf(headgate.s3, to), rightlyTold(body, composite("sha256"), sizes));
});

const onSource = on("GET", "/src/k");

for (const [what, at, rule, sizes] of [
  ["the source breaks", "a", onSource({ cutAfterBytes: 100_000 }), []],
  ["the source breaks in a part", "a", onSource({ cutAfterBytes: 100_000 }), inParts],
  ["the source changes", "a", onSource({ status: 412 }), []],
  ["the source changes between its parts", "a", onSource({ status: 412 }), inParts],
  ["the bytes are not what was sent of them", "b", on("PUT", "/far/")(badDigest), []],
  ["the parts are not what the source was", "b", on("POST", "uploadId")(badDigest), inParts],
] as const) {
  t.test(`${what}: no object and no upload`, async (t) => {
    const headgate = await openCopies(t, "aws");
    const body = bodyOf(5 * mebi + 70_001);
    const sum = sizes.length === 0 ? full("crc32c") : composite("crc32");
    await putSummed(headgate.s3, { ...from, body, sizes, sum });
    headgate.clusters[at]?.setFault(rule);
    await t.rejects(copy(headgate, { ChecksumAlgorithm: "CRC32" }), {
      name: "ServiceUnavailable",
    });
    headgate.clusters[at]?.setFault(null);
    t.strictSame(keys(headgate, "far"), ["mine/first"]);
    t.notOk((await headgate.s3.send(new ListMultipartUploadsCommand({ Bucket: "far" }))).Uploads);
  });
}

for (const parts of [1, 2]) {
  t.test(`a source that is not what its checksum says, in ${parts}`, async (t) => {
    const source = await lyingSource(t, parts);
    const headgate = await startTestHeadgate(t, {
      clusters: { b: 1, c: 0 },
      endpoints: { c: source.url },
      clusterSettings: "profile: aws",
    });
    await headgate.s3.send(new CreateBucketCommand({ Bucket: "far" }));
    const lied = copy(headgate, { CopySource: "lying/k", TaggingDirective: "REPLACE" });
    await t.rejects(lied, { name: "ServiceUnavailable", $metadata: { httpStatusCode: 503 } });
    t.strictSame(headgate.clusters["b"]?.objects("far"), []);
    t.strictSame(headgate.clusters["b"]?.parts("far"), []);
    const completes = sent(headgate, "b").filter((line) => /^POST .*uploadId=/.test(line));
    t.equal(completes.length, parts === 1 ? 0 : 1, "it was the target that judged");
  });
}

t.test("an algorithm that is none is refused where checksums are kept", async (t) => {
  for (const profile of ["aws", "rgw-pacific"] as const) {
    const headgate = await openCopies(t, profile);
    await putSummed(headgate.s3, { ...from, body: bodyOf(7), sizes: [], sum: null });
    const wrong = headgate.client();
    wrong.middlewareStack.add(
      (next) => (args) => {
        if (
          typeof args.request === "object" &&
          args.request !== null &&
          "headers" in args.request
        ) {
          Object.assign(args.request.headers ?? {}, { "x-amz-checksum-algorithm": "CRC" });
        }
        return next(args);
      },
      { step: "build" },
    );
    const copying = copy({ ...headgate, s3: wrong }, {});
    if (profile === "aws") await t.rejects(copying, { name: "InvalidRequest" });
    else await copying;
    t.strictSame(
      keys(headgate, "far"),
      profile === "aws" ? ["mine/first"] : ["copy", "mine/first"],
    );
  }
});
