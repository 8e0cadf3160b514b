// Fields that SDKs move into a presigned query: every cluster gets them as fields, policy sees them as
// fields, and nothing of them is lost, doubled or turned into another operation.

import { createHmac } from "node:crypto";
import { CreateBucketCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { encodeQuery } from "../../proxy/s3/query.ts";
import { clientKeys, startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { smithyPresign } from "../support/s3-smithy.ts";

interface Upload {
  readonly path: string;
  readonly hoisted: Readonly<Record<string, string>>;
  /** Signed and sent as headers. */
  readonly headers?: Readonly<Record<string, string>>;
}

async function put({ url }: TestHeadgate, { path, hoisted, headers = {} }: Upload) {
  const query = await smithyPresign(
    {
      method: "PUT",
      path,
      query: hoisted,
      headers: { host: new URL(url).host, ...headers },
      epochMs: Date.now(),
      region: "us-east-1",
      credentials: { ...clientKeys, sessionToken: null },
    },
    60,
  );
  const target = `${url}${path}?${encodeQuery(query)}`;
  const answer = await fetch(target, { method: "PUT", body: "x", headers });
  return { status: answer.status, text: await answer.text() };
}

/** The PUTs of a path that reached clusters: cluster, target, and `x-amz-*` fields but the signer's. */
function arrived({ clusters }: TestHeadgate, path: string) {
  return Object.entries(clusters).flatMap(([id, cluster]) =>
    cluster
      .exchanges()
      .filter(({ method, target }) => method === "PUT" && target.split("?")[0] === path)
      .map(({ target, rawHeaders }) => {
        const fields: Record<string, string> = {};
        for (let at = 0; at < rawHeaders.length; at += 2) {
          const name = rawHeaders[at]?.toLowerCase() ?? "";
          const isSigners = ["x-amz-date", "x-amz-content-sha256"].includes(name);
          if (name.startsWith("x-amz-") && !isSigners) fields[name] = rawHeaders[at + 1] ?? "";
        }
        return { id, target, fields };
      }),
  );
}

t.test("hoisted fields reach the cluster as fields", async (t) => {
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    settings: "classes: {COLD: b}",
    auth: "sigv2: on",
  });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "hoists" }));
  const hoisted = {
    "x-amz-meta-colour": "red + blue",
    "X-Amz-Tagging": "a=b%20c&d=e",
    "x-amz-acl": "public-read",
    "x-amz-storage-class": "STANDARD",
    "x-amz-server-side-encryption": "AES256",
    "x-amz-website-redirect-location": "/there?x=1",
    "x-amz-object-lock-legal-hold": "OFF",
    "x-amz-grant-read": 'id="one"',
  };
  const fields = Object.fromEntries(
    Object.entries(hoisted).map(([name, value]) => [name.toLowerCase(), value]),
  );
  // What SDKs bake in about a body that they do not have goes nowhere.
  const baked = { "x-amz-sdk-checksum-algorithm": "CRC32", "x-amz-checksum-crc32": "AAAAAA==" };
  const all = { path: "/hoists/all", hoisted: { ...hoisted, ...baked } };
  t.strictSame(await put(headgate, all), { status: 200, text: "" });
  const [one, ...others] = arrived(headgate, all.path);
  t.strictSame([one?.target, one?.fields, others], [all.path, fields, []]);

  const same = { path: "/hoists/same", hoisted: { "x-amz-acl": "private", "x-amz-meta-a": "1" } };
  const alike = await put(headgate, { ...same, headers: { "x-amz-acl": "private" } });
  t.equal(alike.status, 200);
  t.strictSame(arrived(headgate, same.path)[0]?.fields, same.hoisted, "once, where it is in both");

  const refused: readonly (readonly [string, number, string, Upload])[] = [
    [
      "another value",
      400,
      "InvalidRequest",
      {
        path: "/hoists/no",
        hoisted: { "x-amz-acl": "public-read" },
        headers: { "x-amz-acl": "private" },
      },
    ],
    [
      "a line end",
      400,
      "InvalidRequest",
      { path: "/hoists/no", hoisted: { "x-amz-meta-a": "1\r\nx-amz-acl: public-read" } },
    ],
    [
      "two spellings",
      400,
      "InvalidArgument",
      { path: "/hoists/no", hoisted: { "x-amz-acl": "private", "X-Amz-Acl": "private" } },
    ],
    [
      "a copy",
      501,
      "NotImplemented",
      { path: "/hoists/no", hoisted: { "X-Amz-Copy-Source": "/hoists/all" } },
    ],
    [
      "a copy of a part",
      501,
      "NotImplemented",
      {
        path: "/hoists/no",
        hoisted: { partNumber: "1", uploadId: "u", "x-amz-copy-source": "/hoists/all" },
      },
    ],
    [
      "a customer key",
      400,
      "InvalidRequest",
      { path: "/hoists/no", hoisted: { "x-amz-server-side-encryption-customer-key": "a2V5" } },
    ],
  ];
  for (const [what, status, code, upload] of refused) {
    const answer = await put(headgate, upload);
    t.equal(answer.status, status, what);
    t.match(answer.text, `<Code>${code}</Code>`, what);
  }
  t.strictSame(arrived(headgate, "/hoists/no"), []);

  const expires = Math.floor(Date.now() / 1000) + 60;
  const text = `PUT\n\n\n${expires}\nx-amz-tagging:a=b\n/hoists/old`;
  const Signature = createHmac("sha1", clientKeys.secretAccessKey).update(text).digest("base64");
  const AWSAccessKeyId = clientKeys.accessKeyId;
  const proof = { AWSAccessKeyId, Expires: String(expires), Signature, "x-amz-tagging": "a=b" };
  const url = `${headgate.url}/hoists/old?${new URLSearchParams(proof).toString()}`;
  const old = await fetch(url, { method: "PUT", body: Buffer.from("x") });
  t.equal(old.status, 200);
  t.strictSame(
    arrived(headgate, "/hoists/old").map(({ target, fields: sent }) => [target, sent]),
    [["/hoists/old", { "x-amz-tagging": "a=b" }]],
    "version 2",
  );

  const placed = new Map<string, readonly string[]>();
  for (let n = 0; n < 12; n += 1) {
    const path = `/hoists/cold-${n}`;
    const { status } = await put(headgate, { path, hoisted: { "x-amz-storage-class": "COLD" } });
    const sent = arrived(headgate, path);
    placed.set(`${status} ${sent.map(({ id }) => id).join()}`, []);
    for (const {
      target,
      fields: { "x-amz-storage-class": is },
    } of sent) {
      t.strictSame([target, is], [path, "COLD"]);
    }
  }
  t.strictSame(
    [...placed.keys()].toSorted(),
    ["200 b", "501 "],
    "a class goes to its cluster only",
  );
});
