// No fact of a profile is dead: for each of them there is a request which, with that fact alone
// otherwise, reaches the upstream in another form or is answered otherwise.

import { Readable } from "node:stream";
import { PutObjectCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { probeCrc32 } from "../../proxy/operations/probe-requests.ts";
import { type ProfileFacts, profiles } from "../../proxy/placement/profiles.ts";
import { type FakeRequest, rgwAnswer, rgwError } from "../support/fake-rgw.ts";
import { type Fields, openScene, type Profile, type Scene } from "../support/rgw-scene.ts";

type Ask = (scene: Scene) => Promise<unknown>;

function asking(method: string, query: string, headers: Fields = [], body?: string): Ask {
  const given = { query, headers, ...(body === undefined ? {} : { body }) };
  return async ({ ask }) => (await ask(method, "/rep/k", given)).status;
}

/** One for every fact, or this does not compile. `backend`: a short list, should it be taken for that. */
const requests: Readonly<Record<keyof ProfileFacts, Ask>> = {
  backend: async ({ ask }) => (await ask("GET", "/rep", { query: "encryption=" })).status,
  takesTrailers: putWithTrailer,
  verifiesChecksums: putWithTrailer,
  keepsAwsChunked: putWithTrailer,
  readsConditionsFully: asking("GET", "", [["if-none-match", '"a", "b"']]),
  honoursConditionalPut: asking("PUT", "", [["if-none-match", "*"]], "x"),
  conditionalEtagQuotes: asking("PUT", "", [["if-match", '"a"']], "x"),
  honoursConditionalDelete: asking("DELETE", "", [["if-match", '"a"']]),
  honoursConditionalComplete: inUpload("POST", "", [["if-none-match", "*"]]),
  honoursConditionalCopy: copying([["if-none-match", "*"]]),
  honoursCopySourceConditions: copying([["x-amz-copy-source-if-none-match", '"a"']]),
  answersObjectAttributes: asking("GET", "attributes=", [["x-amz-object-attributes", "ETag"]]),
  answersPartNumber: asking("GET", "partNumber=1"),
  survivesUploadPartCopy: inUpload("PUT", "partNumber=1&", [["x-amz-copy-source", "/rep/100%25"]]),
  knowsSettings: async ({ rgw, ask }) => {
    rgw.intercept = ({ method }) =>
      method === "GET" ? rgwError("403 Forbidden", "AccessDenied") : null;
    return (await ask("PUT", "/rep", { query: "cors=", body: "<CORSConfiguration/>" })).status;
  },
};

function copying(conditions: Fields): Ask {
  return asking("PUT", "", [["x-amz-copy-source", "/rep/source"], ...conditions]);
}

/** The second of two: before the first the cluster may be asked whether it takes trailers. */
async function putWithTrailer({ headgate, rgw }: Scene): Promise<unknown> {
  const s3 = headgate.client({ requestChecksumCalculation: "WHEN_SUPPORTED" });
  const put = async (): Promise<unknown> => {
    const Body = Readable.from([Buffer.alloc(100_000)]);
    const given = { Bucket: "rep", Key: "k", Body, ContentLength: 100_000 };
    return (await s3.send(new PutObjectCommand(given))).$metadata.httpStatusCode;
  };
  rgw.intercept = framingTaken;
  await put();
  rgw.requests.length = 0;
  return await put();
}

function inUpload(method: string, query: string, headers: Fields): Ask {
  return async ({ rgw, ask }) => {
    const document =
      "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
    rgw.intercept = (request) =>
      request.query.has("uploads")
        ? rgwAnswer("200 OK", ["Content-Type: application/xml"], document)
        : null;
    const created = await ask("POST", "/rep/k", { query: "uploads=", body: "" });
    const uploadId = /<UploadId>(.*?)<\/UploadId>/.exec(created.body)?.[1];
    const part = "<Part><PartNumber>1</PartNumber><ETag>a</ETag></Part>";
    const body = `<CompleteMultipartUpload>${part}</CompleteMultipartUpload>`;
    const given = { query: `${query}uploadId=${uploadId}`, headers };
    const answer = await ask(method, "/rep/k", method === "POST" ? { ...given, body } : given);
    return answer.status;
  };
}

/** The answers of a server that knows the framing, to the question whether it does. */
function framingTaken({ query }: FakeRequest): string | null {
  const document =
    "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>";
  if (query.has("uploads")) {
    return rgwAnswer("200 OK", ["Content-Type: application/xml"], document);
  }
  const sum = `x-amz-checksum-crc32: ${probeCrc32}`;
  return query.has("partNumber") ? rgwAnswer("200 OK", ['ETag: "e"', sum]) : null;
}

const fresh: ReadonlySet<string> = new Set(["authorization", "host", "x-amz-date"]);

/** What reached an upstream that does not say what it is, and how that was answered. */
async function seen(t: Test, ask: Ask, profile: Profile, overrides: string): Promise<unknown> {
  const scene = await openScene(t, profile, { nameless: true, overrides });
  for (const key of ["k", "source", "100%25"]) scene.rgw.put(`/rep/${key}`, "content");
  scene.rgw.requests.length = 0;
  const answered = await ask(scene);
  const reached = scene.rgw.requests.map(({ method, path, query, headers, body }) => [
    `${method} ${path}?${query.toString()} ${body.length}`,
    [...headers].filter(([name]) => !fresh.has(name)),
  ]);
  return { answered, reached };
}

function settingName(fact: string): string {
  return fact.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

/** The facts of s3-generic in all but the kind of server. */
const genericRgw = "honours_conditional_put: false, conditional_etag_quotes: keep";

for (const [fact, ask] of Object.entries(requests)) {
  t.test(`it matters whether ${settingName(fact)}`, async (t) => {
    if (fact === "backend") {
      const other = await seen(t, ask, "s3-generic", "");
      t.strictNotSame(await seen(t, ask, "rgw-pacific", genericRgw), other);
      return;
    }
    const value = new Map<string, unknown>(Object.entries(profiles.aws)).get(fact);
    const flipped = value === "keep" ? "strip" : value !== true;
    const plain = await seen(t, ask, "aws", "");
    t.strictSame(
      await seen(t, ask, "aws", `${settingName(fact)}: ${String(value)}`),
      plain,
      "the same twice",
    );
    t.strictNotSame(await seen(t, ask, "aws", `${settingName(fact)}: ${flipped}`), plain);
  });
}
