// HTML form uploads over the wire: who may upload what under which name, how it is answered, and that
// the file arrives byte for byte whatever its length and whatever stands behind it.

import { createHash, randomBytes } from "node:crypto";
import { GetObjectCommand, HeadObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { clientKeys, readerKeys, type TestHeadgate } from "../support/headgate.ts";
import {
  formBucket as bucket,
  type Condition,
  formConditions as conditions,
  type FormPart,
  formField as field,
  formFile as file,
  formBody,
  formEdge,
  openUploads,
  postForm as post,
  signedFields,
  signedFieldsV2,
  startForForms as start,
  storedKeys,
} from "../support/s3-forms.ts";

async function content({ s3 }: TestHeadgate, Key: string): Promise<Buffer> {
  const got = await s3.send(new GetObjectCommand({ Bucket: bucket, Key }));
  return Buffer.from((await got.Body?.transformToByteArray()) ?? []);
}

t.test("a signed form becomes the object that it describes", async (t) => {
  const headgate = await start(t);
  const metadata = {
    "x-amz-meta-Who": "Léo",
    "Content-Type": "text/x-note",
    "Cache-Control": "no-store",
  };
  const more = Object.entries(metadata).map(([name, value]) => field(name, value));
  const allowed = Object.keys(metadata).map((name) => ["starts-with", `$${name}`, ""]);
  const answer = await post(
    headgate,
    formBody([
      field("key", "notes/${filename}"),
      ...more,
      ...signedFields([...conditions, ...allowed]),
      file("line 1\r\n--line 2\r\n\r\n", "C:\\notes\\é b.txt"),
      field("submit", "Upload"),
    ]),
  );
  t.equal(answer.status, 204);
  t.equal(answer.text, "");
  const Key = "notes/é b.txt";
  t.equal(answer.headers.get("location"), `${headgate.url}/${bucket}/notes/%C3%A9%20b.txt`);
  t.equal((await content(headgate, Key)).toString(), "line 1\r\n--line 2\r\n\r\n");
  const head = await headgate.s3.send(new HeadObjectCommand({ Bucket: bucket, Key }));
  t.match(head, {
    ContentType: "text/x-note",
    CacheControl: "no-store",
    ETag: answer.headers.get("etag"),
  });
  t.equal(Buffer.from(head.Metadata?.["who"] ?? "", "latin1").toString(), "Léo");
  const logged = headgate.accessLog.find(({ operation }) => operation === "PostObject");
  t.match(logged, { bucket, key: Key, requester: clientKeys.accessKeyId, status: 204 });
});

t.test("success is answered as the form asks", async (t) => {
  const headgate = await start(t);
  const answered = async (fields: readonly FormPart[], key = "a b/c.txt") => {
    const allowed = fields.map(({ name }) => ["starts-with", `$${name}`, ""]);
    const signed = signedFields([...conditions, ...allowed]);
    return await post(headgate, formBody([field("key", key), ...fields, ...signed, file("x")]));
  };
  const etag = `"${createHash("md5").update("x").digest("hex")}"`;
  for (const [asked, expected] of [
    ["200", 200],
    ["204", 204],
    ["404", 204],
    ["", 204],
  ] as const) {
    const answer = await answered([field("success_action_status", asked)]);
    t.equal(answer.status, expected, asked);
    t.equal(answer.text, "");
    t.equal(answer.headers.get("etag"), etag);
  }
  const created = await answered([field("success_action_status", "201")]);
  t.equal(created.status, 201);
  t.match(created.text, "<PostResponse><Location>");
  t.match(created.text, `<Bucket>${bucket}</Bucket><Key>a b/c.txt</Key><ETag>&quot;`);
  t.match(created.text, `<Location>${headgate.url}/${bucket}/a%20b/c.txt</Location>`);
  const query = `bucket=${bucket}&key=a%20b%2Fc.txt&etag=${encodeURIComponent(etag)}`;
  for (const [name, url, expected] of [
    ["success_action_redirect", "http://x.test/done", `http://x.test/done?${query}`],
    ["redirect", "https://x.test/?a=1#f", `https://x.test/?a=1&${query}#f`],
  ] as const) {
    const answer = await answered([field(name, url)]);
    t.equal(answer.status, 303, url);
    t.equal(answer.headers.get("location"), expected);
  }
  const unreadable = await answered([field("success_action_redirect", "javascript:alert(1)")]);
  t.equal(unreadable.status, 204, "no URL of the web");
});

t.test("a file arrives byte for byte, whatever its length and what stands behind it", async (t) => {
  const headgate = await start(t, { clusters: { a: 1 } });
  const mega = 1024 * 1024;
  const ends = [
    ["a short end", `\r\n--${formEdge}--`],
    ["the usual end", `\r\n--${formEdge}--\r\n`],
    ["an epilogue", `\r\n--${formEdge}--\r\n${"e".repeat(60_000)}`],
    [
      "a field",
      `\r\n--${formEdge}\r\nContent-Disposition: form-data; name="b"\r\n\r\nx\r\n--${formEdge}--\r\n`,
    ],
  ] as const;
  const sizes = [
    0,
    1,
    65_536,
    65_537,
    3 * mega,
    5 * mega - 1,
    5 * mega + 65_536,
    5 * mega + 65_700,
    11 * mega,
  ];
  for (const size of sizes) {
    const bytes = randomBytes(size);
    // What looks like the beginning of an end must stay in the file.
    if (size > 100) bytes.write(`\r\n--${formEdge.slice(0, -1)}`, size - 70, "latin1");
    for (const [what, end] of size > mega ? ends.slice(2) : ends) {
      const parts = [field("key", "sized"), ...signedFields(conditions), file(bytes)];
      const answer = await post(headgate, formBody(parts, end));
      t.equal(answer.status, 204, `${size} bytes with ${what}`);
      t.ok(bytes.equals(await content(headgate, "sized")), "the bytes are those sent");
    }
  }
  t.strictSame(await openUploads(headgate), [], "no upload is left behind");
});

t.test("who may upload is said by the form's own signature", async (t) => {
  const headgate = await start(t, { auth: "sigv2: off" });
  const head = [field("key", "k")];
  const authorization = `AWS4-HMAC-SHA256 Credential=x/20261129/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=${"0".repeat(64)}`;
  const wrong = { ...clientKeys, secretAccessKey: "other" };
  const without = (name: string) => signedFields(conditions).filter((part) => part.name !== name);
  const rows: readonly (readonly [string, readonly FormPart[], string, Record<string, string>?])[] =
    [
      ["a wrong secret", signedFields(conditions, { keys: wrong }), "SignatureDoesNotMatch"],
      [
        "an unknown key",
        signedFields(conditions, { keys: { ...wrong, accessKeyId: "nobody" } }),
        "InvalidAccessKeyId",
      ],
      ["a caller without grants", signedFields(conditions, { keys: readerKeys }), "AccessDenied"],
      ["nobody", [], "AccessDenied"],
      ["nobody, with a foreign scheme", [], "AccessDenied", { authorization: "Basic eDp5" }],
      ["an expired policy", signedFields(conditions, { seconds: -1 }), "AccessDenied"],
      [
        "an old signature",
        signedFields(conditions, { atMs: Date.now() - 8 * 86_400_000 }),
        "AccessDenied",
      ],
      [
        "a signature of tomorrow",
        signedFields(conditions, { atMs: Date.now() + 86_400_000 }),
        "AccessDenied",
      ],
      ["a second identity", signedFields(conditions), "InvalidArgument", { authorization }],
      [
        "both versions",
        [...signedFields(conditions), field("AWSAccessKeyId", "x")],
        "InvalidArgument",
      ],
      ["version 2 while it is off", signedFieldsV2(conditions), "InvalidRequest"],
      [
        "a token that was not issued",
        [
          ...signedFields([...conditions, { "x-amz-security-token": "t" }]),
          field("x-amz-security-token", "t"),
        ],
        "InvalidToken",
      ],
      ["no policy", without("policy"), "InvalidArgument"],
      ["no signature", without("x-amz-signature"), "InvalidArgument"],
      ["no credential", without("x-amz-credential"), "InvalidArgument"],
      [
        "a policy alone",
        signedFields(conditions).filter(({ name }) => name === "policy"),
        "InvalidArgument",
      ],
      [
        "version 4A",
        [...without("x-amz-algorithm"), field("x-amz-algorithm", "AWS4-ECDSA-P256-SHA256")],
        "NotImplemented",
      ],
    ];
  for (const [what, fields, expected, headers] of rows) {
    const answer = await post(headgate, formBody([...head, ...fields, file("x")]), headers);
    t.equal(answer.code, expected, what);
    t.notMatch(answer.text, clientKeys.secretAccessKey);
  }
  t.strictSame(storedKeys(headgate), []);
  const foreign = formBody([...head, ...signedFields(conditions), file("x")]);
  t.equal((await post(headgate, foreign, { authorization: "Basic eDp5" })).status, 204);
});

t.test("version 2 forms and anonymous ones, where they are allowed", async (t) => {
  const headgate = await start(t, { auth: "sigv2: on" });
  const signed = formBody([field("key", "v2"), ...signedFieldsV2(conditions), file("x")]);
  t.equal((await post(headgate, signed)).status, 204);
  const wrong = { ...clientKeys, secretAccessKey: "other" };
  const refused = formBody([field("key", "w"), ...signedFieldsV2(conditions, wrong), file("x")]);
  t.equal((await post(headgate, refused)).code, "SignatureDoesNotMatch");
  t.strictSame(storedKeys(headgate), ["v2"]);
});

const tooSmall =
  /smaller than 6 bytes.*<ProposedSize>5<\/ProposedSize><MinSizeAllowed>6<\/MinSizeAllowed>/;
const tooLarge =
  /larger than 10 bytes, .* the policy .*<ProposedSize>11<\/ProposedSize><MaxSizeAllowed>10</;

t.test("a policy allows what it names and nothing else", async (t) => {
  const headgate = await start(t);
  const rows: readonly (readonly [string, readonly FormPart[], readonly Condition[], string])[] = [
    [
      "a condition on a field that is absent",
      [],
      [...conditions, { acl: "private" }],
      "AccessDenied",
    ],
    ["a field without a condition", [field("x-amz-meta-a", "1")], conditions, "AccessDenied"],
    [
      "another value",
      [field("acl", "public-read")],
      [...conditions, { acl: "private" }],
      "AccessDenied",
    ],
    [
      "another bucket",
      [field("bucket", "other")],
      [{ bucket: "other" }, ["starts-with", "$key", ""]],
      "AccessDenied",
    ],
    ["no bucket named", [], [["starts-with", "$key", ""]], "AccessDenied"],
    ["another prefix", [], [{ bucket }, ["starts-with", "$key", "other/"]], "AccessDenied"],
    [
      "a type of a list",
      [field("Content-Type", "text/a,image/b")],
      [...conditions, ["starts-with", "$Content-Type", "text/"]],
      "AccessDenied",
    ],
    ["a longer file", [], [...conditions, ["content-length-range", 0, 4]], "EntityTooLarge"],
    ["a shorter file", [], [...conditions, ["content-length-range", 6, 10]], "EntityTooSmall"],
    ["an empty condition", [], [...conditions, {}], "InvalidPolicyDocument"],
    ["a range of one", [], [...conditions, ["content-length-range", 0]], "InvalidPolicyDocument"],
    ["an unknown condition", [], [...conditions, ["in", "$acl", "x"]], "InvalidPolicyDocument"],
    [
      "a source to copy",
      [field("x-amz-copy-source", "/b/k")],
      [...conditions, ["starts-with", "$x-amz-copy-source", ""]],
      "InvalidArgument",
    ],
    [
      "a header in a header",
      [field("x-amz-meta-a", "1\r\nx-amz-acl: public-read")],
      [...conditions, ["starts-with", "$x-amz-meta-a", ""]],
      "InvalidArgument",
    ],
    ["a wrong checksum", [field("x-amz-checksum-crc32", "AAAAAA==")], conditions, "BadDigest"],
    [
      "a wrong MD5",
      [field("Content-MD5", "1B2M2Y8AsgTpgAmY7PhCfg==")],
      [...conditions, ["starts-with", "$Content-MD5", ""]],
      "BadDigest",
    ],
    [
      "tags that are no XML",
      [field("tagging", "a=b")],
      [...conditions, ["starts-with", "$tagging", ""]],
      "MalformedXML",
    ],
  ];
  for (const [what, fields, policy, expected] of rows) {
    const parts = [field("key", "k"), ...fields, ...signedFields(policy), file("12345")];
    const answer = await post(headgate, formBody(parts));
    t.equal(answer.code, expected, what);
    if (expected === "AccessDenied") t.match(answer.text, "Invalid according to Policy: ", what);
    t.strictSame(storedKeys(headgate), [], `no object after ${what}`);
  }
  const said = async (policy: readonly Condition[], value = "12345"): Promise<string> => {
    const parts = [field("key", "k"), ...signedFields([...conditions, ...policy]), file(value)];
    return (await post(headgate, formBody(parts))).text;
  };
  t.match(
    await said([{ acl: "private" }]),
    "Policy Condition failed: [&quot;eq&quot;,&quot;$acl&quot;,&quot;private&quot;]",
  );
  const range: Condition = ["content-length-range", 6, 10];
  t.match(await said([range]), tooSmall);
  t.match(await said([range], "12345678901"), tooLarge);
  t.match(await said([range], "1".repeat(200_000)), "<MaxSizeAllowed>10</MaxSizeAllowed>");
  const long: Condition = ["content-length-range", 300_000, 400_000];
  t.match(await said([long], "1".repeat(200_000)), "<MinSizeAllowed>300000</MinSizeAllowed>");
  t.strictSame(storedKeys(headgate), [], "no object of a size that the policy does not allow");
  const fine = [
    field("kEy", "k"),
    field("x-ignore-me", "1"),
    field("aCl", "private"),
    field("x-amz-checksum-crc32", "y/U6HA=="),
    ...signedFields([...conditions, ["EQ", "$AcL", "private"], ["content-length-range", 5, 5]]),
    file("12345"),
  ];
  t.equal((await post(headgate, formBody(fine))).status, 204, "names compare without case");
});
