// Key pairs that were issued with a session token: good with that token only, in every form of
// authorization; and no token is good with a pair that has none. The token ends here.

import { createHmac } from "node:crypto";
import { CreateBucketCommand, GetObjectCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { encodeQuery } from "../../proxy/s3/query.ts";
import { clientKeys, sessionKeys, startTestHeadgate } from "../support/headgate.ts";
import {
  formBody,
  formBucket,
  formConditions,
  formField,
  formFile,
  postForm,
  signedFields,
  startForForms,
  storedKeys,
} from "../support/s3-forms.ts";
import { smithyPresign } from "../support/s3-smithy.ts";

const { sessionToken, ...pair } = sessionKeys;
const tokens = [
  ["the token", { ...pair, sessionToken }, null],
  ["no token", pair, "InvalidToken"],
  ["another token", { ...pair, sessionToken: `${sessionToken.slice(0, -1)}x` }, "InvalidToken"],
  ["a longer token", { ...pair, sessionToken: `${sessionToken}x` }, "InvalidToken"],
  ["a token with a pair that has none", { ...clientKeys, sessionToken }, "InvalidToken"],
] as const;

t.test("headers and presigned URLs", async (t) => {
  const { url, s3, client } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "tokens" }));
  await s3.send(new PutObjectCommand({ Bucket: "tokens", Key: "k", Body: "x" }));
  for (const [what, credentials, refusal] of tokens) {
    const get = client({ credentials }).send(new GetObjectCommand({ Bucket: "tokens", Key: "k" }));
    if (refusal === null) await t.resolves(get, what);
    else await t.rejects(get, { name: refusal, $metadata: { httpStatusCode: 400 } }, what);
    const token = "sessionToken" in credentials ? credentials.sessionToken : null;
    const query = await smithyPresign(
      {
        method: "GET",
        path: "/tokens/k",
        query: {},
        headers: { host: new URL(url).host },
        epochMs: Date.now(),
        region: "us-east-1",
        credentials: { ...credentials, sessionToken: token },
      },
      60,
    );
    const answer = await fetch(`${url}/tokens/k?${encodeQuery(query)}`);
    const text = await answer.text();
    t.match(text, refusal === null ? /^x$/ : `<Code>${refusal}</Code>`, `${what}, presigned`);
    t.notMatch(text, sessionToken, "no answer shows a token");
  }
});

t.test("signature version 2, in the query", async (t) => {
  const { url, s3 } = await startTestHeadgate(t, { auth: "sigv2: on" });
  await s3.send(new CreateBucketCommand({ Bucket: "tokens" }));
  await s3.send(new PutObjectCommand({ Bucket: "tokens", Key: "k", Body: "x" }));
  for (const [what, credentials, refusal] of tokens) {
    const expires = Math.floor(Date.now() / 1000) + 60;
    const token = "sessionToken" in credentials ? credentials.sessionToken : null;
    const field = token === null ? "" : `x-amz-security-token:${token}\n`;
    const signature = createHmac("sha1", credentials.secretAccessKey)
      .update(`GET\n\n\n${expires}\n${field}/tokens/k`)
      .digest("base64");
    const query = encodeQuery([
      ["AWSAccessKeyId", credentials.accessKeyId],
      ["Expires", String(expires)],
      ["Signature", signature],
      ...(token === null ? [] : [["x-amz-security-token", token] as const]),
    ]);
    const text = await (await fetch(`${url}/tokens/k?${query}`)).text();
    t.match(text, refusal === null ? /^x$/ : `<Code>${refusal}</Code>`, what);
  }
});

t.test("forms", async (t) => {
  const headgate = await startForForms(t);
  for (const [what, credentials, refusal] of tokens) {
    const token = "sessionToken" in credentials ? credentials.sessionToken : null;
    const own = token === null ? [] : [formField("x-amz-security-token", token)];
    const conditions = [
      ...formConditions,
      ...own.map(() => ["starts-with", "$x-amz-security-token", ""] as const),
    ];
    const parts = [formField("key", "k"), ...own];
    const signed = signedFields(conditions, { keys: credentials });
    const answer = await postForm(headgate, formBody([...parts, ...signed, formFile("x")]));
    t.equal(answer.code, refusal ?? "204", what);
  }
  t.strictSame(storedKeys(headgate), ["k"]);
  const [stored] = Object.values(headgate.clusters).flatMap((one) => one.objects(formBucket));
  t.notMatch(JSON.stringify(stored), sessionToken);
});
