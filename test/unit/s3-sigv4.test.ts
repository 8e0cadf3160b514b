// The signer against published examples and against @smithy/signature-v4, an independent one.

import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";

import fc from "fast-check";
import t from "tap";

import { encodeComponent, encodePath } from "../../proxy/s3/percent.ts";
import { encodeQuery } from "../../proxy/s3/query.ts";
import {
  canonicalRequest,
  canonicalValue,
  emptyPayloadHash,
  formatAmzDate,
  SigningKeys,
  signatureOf,
  signRequest,
  stringToSign,
} from "../../proxy/s3/sigv4.ts";
import { credentials, nowMs } from "../support/s3-request.ts";
import { smithySign } from "../support/s3-smithy.ts";

// S3 API Reference, "Signature Calculations for the Authorization Header", examples.
const example = {
  accessKeyId: "AKIAIOSFODNN7EXAMPLE",
  secretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
  sessionToken: null,
};
const host = "examplebucket.s3.amazonaws.com";
const amzDate = "20130524T000000Z";
const published = [
  {
    name: "GET object with a range",
    method: "GET",
    path: "/test.txt",
    query: "",
    fields: [
      ["host", host],
      ["range", "bytes=0-9"],
      ["x-amz-content-sha256", emptyPayloadHash],
      ["x-amz-date", amzDate],
    ],
    payloadHash: emptyPayloadHash,
    signature: "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
  },
  {
    name: "PUT object",
    method: "PUT",
    path: "/test%24file.text",
    query: "",
    fields: [
      ["date", "Fri, 24 May 2013 00:00:00 GMT"],
      ["host", host],
      ["x-amz-content-sha256", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"],
      ["x-amz-date", amzDate],
      ["x-amz-storage-class", "REDUCED_REDUNDANCY"],
    ],
    payloadHash: "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
    signature: "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
  },
  {
    name: "GET bucket lifecycle",
    method: "GET",
    path: "/",
    query: "lifecycle=",
    fields: [
      ["host", host],
      ["x-amz-content-sha256", emptyPayloadHash],
      ["x-amz-date", amzDate],
    ],
    payloadHash: emptyPayloadHash,
    signature: "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
  },
  {
    name: "GET bucket list",
    method: "GET",
    path: "/",
    query: "max-keys=2&prefix=J",
    fields: [
      ["host", host],
      ["x-amz-content-sha256", emptyPayloadHash],
      ["x-amz-date", amzDate],
    ],
    payloadHash: emptyPayloadHash,
    signature: "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
  },
] as const;

t.test("published examples have their published signatures", async (t) => {
  const key = new SigningKeys(1).key(example, "20130524", "us-east-1", "s3");
  for (const { name, fields, signature, ...request } of published) {
    const signedHeaders = fields.map(([field]) => field).join(";");
    const canonical = canonicalRequest({ ...request, fields, signedHeaders });
    const text = stringToSign(amzDate, "20130524/us-east-1/s3/aws4_request", canonical);
    t.equal(signatureOf(key, text), signature, name);
  }
});

t.test("an upstream request is signed as smithy signs it", async () => {
  const keys = new SigningKeys(8);
  const text = fc.string({ unit: "grapheme", minLength: 1, maxLength: 8 });
  const blankFree = fc.stringMatching(/^[!-~]{1,12}$/);
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        method: fc.constantFrom("GET", "PUT", "POST", "DELETE", "HEAD"),
        segments: fc.array(text, { maxLength: 4 }),
        query: fc.dictionary(text, fc.option(text), { maxKeys: 4 }),
        meta: fc.dictionary(fc.stringMatching(/^[a-z][a-z0-9-]{0,8}$/), blankFree, { maxKeys: 3 }),
        token: fc.option(blankFree),
        port: fc.constantFrom("", ":7480"),
      }),
      async ({ method, segments, query, meta, token, port }) => {
        const path = encodePath(`/b/${segments.join("/")}`);
        const host = `rgw-a.internal${port}`;
        const headers = Object.entries(meta).map(([k, v]) => [`x-amz-meta-${k}`, v] as const);
        const signing = { ...credentials, sessionToken: token };
        const ours = signRequest(
          {
            method,
            path,
            query: encodeQuery(Object.entries(query)),
            host,
            headers: [...headers, ["content-type", "text/plain"]],
            payloadHash: "UNSIGNED-PAYLOAD",
            region: "default",
            credentials: signing,
            amzDate: formatAmzDate(nowMs),
          },
          keys,
        );
        const theirs = await smithySign({
          method,
          path,
          query: Object.fromEntries(Object.entries(query).map(([k, v]) => [k, v ?? ""])),
          headers: {
            host,
            "content-type": "text/plain",
            "x-amz-content-sha256": "UNSIGNED-PAYLOAD",
            ...Object.fromEntries(headers),
          },
          epochMs: nowMs,
          region: "default",
          credentials: signing,
        });
        const authorization = (fields: readonly (readonly [string, string])[]) =>
          fields.find(([name]) => name === "authorization")?.[1];
        if (authorization(ours) !== authorization(theirs)) {
          throw new Error(`${authorization(ours)} is not ${authorization(theirs)}`);
        }
      },
    ),
    { numRuns: 150 },
  );
});

t.test(
  "the fields to add are date, payload hash, token when there is one, and authorization",
  async (t) => {
    const request = {
      method: "GET",
      path: "/b/k",
      query: "",
      host: "h",
      headers: [],
      payloadHash: "UNSIGNED-PAYLOAD",
      region: "default",
      amzDate: "20261129T120000Z",
    };
    const keys = new SigningKeys(1);
    const plain = signRequest({ ...request, credentials }, keys).map(([name]) => name);
    t.strictSame(plain, ["x-amz-date", "x-amz-content-sha256", "authorization"]);
    const session = { ...credentials, sessionToken: "token" };
    const withToken = signRequest({ ...request, credentials: session }, keys);
    t.strictSame(withToken[2], ["x-amz-security-token", "token"]);
    t.match(
      withToken[3]?.[1],
      /SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token,/,
    );
  },
);

t.test("only fields that no hop rewrites are signed", async (t) => {
  const fields = signRequest(
    {
      method: "PUT",
      path: "/b/k",
      query: "",
      host: "h",
      headers: [
        ["range", "bytes=0-1"],
        ["x-amz-meta-b", "1"],
        ["user-agent", "x"],
        ["accept-encoding", "identity"],
        ["content-md5", "m"],
        ["cache-control", "no-cache"],
      ],
      payloadHash: "UNSIGNED-PAYLOAD",
      region: "r",
      credentials,
      amzDate: "20261129T120000Z",
    },
    new SigningKeys(1),
  );
  const names = "content-md5;host;x-amz-content-sha256;x-amz-date;x-amz-meta-b";
  t.match(fields.at(-1)?.[1], `SignedHeaders=${names}, `);
});

t.test("a cached key serves the secret it was made from only", async (t) => {
  const keys = new SigningKeys(2);
  const first = keys.key(credentials, "20261129", "r", "s3");
  t.equal(keys.key(credentials, "20261129", "r", "s3"), first, "cached");
  const rotated = keys.key({ ...credentials, secretAccessKey: "new" }, "20261129", "r", "s3");
  t.not(signatureOf(rotated, "x"), signatureOf(first, "x"), "rotated secret");
  keys.key(credentials, "20261130", "r", "s3");
  keys.key(credentials, "20261201", "r", "s3");
  const again = keys.key(credentials, "20261129", "r", "s3");
  t.not(again, first, "dropped when two others came");
  t.equal(signatureOf(again, "x"), signatureOf(first, "x"), "and derived again");
});

t.test("the key in use stays when others are dropped", async (t) => {
  const keys = new SigningKeys(2);
  const first = keys.key(credentials, "20261129", "r", "s3");
  keys.key(credentials, "20261129", "x", "s3");
  keys.key(credentials, "20261129", "r", "s3");
  keys.key(credentials, "20261129", "y", "s3");
  t.equal(keys.key(credentials, "20261129", "r", "s3"), first);
});

t.test("header values are trimmed and runs of blanks collapsed, bytes and case kept", async (t) => {
  const values = [
    ["a b", "a b"],
    ["  a   b ", "a b"],
    ["a\tb", "a b"],
    ['"x  y"', '"x y"'],
    ["Mixed CASE", "Mixed CASE"],
    ["", ""],
    ["   ", ""],
    // UTF-8 of `à` is C3 A0, which as latin1 is a no-break space.
    ["\u00c3\u00a0\u00a0x", "\u00c3\u00a0\u00a0x"],
  ] as const;
  for (const [value, canonical] of values) t.equal(canonicalValue(value), canonical);
});

t.test("metadata given as latin1 text is hashed as its bytes", async (t) => {
  // https://github.com/minio/minio-js/issues/1300
  const text = stringToSign("d", "s", "x-amz-meta-first:L\u00c3\u00a9o");
  t.match(text, /\n[0-9a-f]{64}$/);
  const bytes = Buffer.from("x-amz-meta-first:Léo", "utf8");
  t.equal(text.slice(-64), createHash("sha256").update(bytes).digest("hex"));
});

t.test("encoding leaves the unreserved set and slashes of a path only", async (t) => {
  t.equal(encodePath("/b/it's(1)!*.txt"), "/b/it%27s%281%29%21%2A.txt");
  t.equal(encodePath("/b//a/../c/./x~_-."), "/b//a/../c/./x~_-.");
  t.equal(encodePath("/b/a b+c%d?e#f"), "/b/a%20b%2Bc%25d%3Fe%23f");
  t.equal(encodePath("/b/€😀"), "/b/%E2%82%AC%F0%9F%98%80");
  t.equal(encodeComponent("a/b=c&d"), "a%2Fb%3Dc%26d");
  t.equal(encodeComponent("\ud800"), "%EF%BF%BD", "a lone surrogate does not throw");
});
