// Settings of buckets and objects: written to every cluster of a bucket or to none that a reader sees,
// kept with the object they belong to, and never taken for a list, a creation or a deletion.

import {
  CreateBucketCommand,
  DeleteBucketCorsCommand,
  DeleteBucketEncryptionCommand,
  DeleteBucketOwnershipControlsCommand,
  DeleteObjectTaggingCommand,
  GetBucketAccelerateConfigurationCommand,
  GetBucketAclCommand,
  GetBucketCorsCommand,
  GetBucketEncryptionCommand,
  GetBucketMetricsConfigurationCommand,
  GetBucketOwnershipControlsCommand,
  GetBucketPolicyCommand,
  GetObjectTaggingCommand,
  HeadBucketCommand,
  ListBucketMetricsConfigurationsCommand,
  PutBucketCorsCommand,
  PutBucketEncryptionCommand,
  PutBucketPolicyCommand,
  PutObjectCommand,
  PutObjectTaggingCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import t from "tap";
import type { DemoServer } from "../../proxy/demo/server.ts";
import { readerKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";
import { holdingRelay } from "../support/holding-relay.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { openScene } from "../support/rgw-scene.ts";

const cors = {
  CORSRules: [{ AllowedMethods: ["GET"], AllowedOrigins: ["https://a.example"] }],
};

/** What a cluster was asked for, bodies aside: `PUT /b?cors`. */
function asked(cluster: DemoServer | undefined, method: string): readonly string[] {
  return (cluster?.exchanges() ?? []).flatMap((exchange) =>
    exchange.method === method ? [exchange.target] : [],
  );
}

async function policyOf(s3: S3Client, bucket: string): Promise<string | undefined> {
  return (await s3.send(new GetBucketPolicyCommand({ Bucket: bucket }))).Policy;
}

t.test("a setting is on every cluster of the bucket, and taken away from every one", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "settings" }));
  await t.rejects(s3.send(new GetBucketCorsCommand({ Bucket: "settings" })), {
    name: "NoSuchCORSConfiguration",
    $metadata: { httpStatusCode: 404 },
  });
  await s3.send(new PutBucketCorsCommand({ Bucket: "settings", CORSConfiguration: cors }));
  for (const id of ["a", "b", "c"]) {
    t.strictSame(asked(clusters[id], "PUT").slice(1), ["/settings?cors="], id);
  }
  // Whether it knows the setting, and what it says when the write has ended.
  t.strictSame(asked(clusters["b"], "GET"), ["/settings?cors=", "/settings?cors="]);
  const got = await s3.send(new GetBucketCorsCommand({ Bucket: "settings" }));
  t.strictSame(got.CORSRules?.[0]?.AllowedOrigins, ["https://a.example"]);
  t.equal(asked(clusters["b"], "GET").length, 2, "read from the first cluster only");
  await s3.send(new DeleteBucketCorsCommand({ Bucket: "settings" }));
  for (const id of ["a", "b", "c"]) {
    t.strictSame(asked(clusters[id], "DELETE"), ["/settings?cors="], id);
  }
  await s3.send(new GetBucketAclCommand({ Bucket: "settings" }));
});

t.test("a write that fails on one cluster changes nothing for readers, and heals", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "half" }));
  const put = (policy: string): Promise<unknown> =>
    s3.send(new PutBucketPolicyCommand({ Bucket: "half", Policy: policy }));
  await put('{"Version":"1"}');
  // The cluster that is asked first, and refuses: nobody else is asked.
  clusters["c"]?.setFault(({ method }) =>
    method === "PUT" ? { status: 403, code: "AccessDenied" } : null,
  );
  await t.rejects(put('{"Version":"2"}'), { name: "AccessDenied" });
  t.equal(asked(clusters["a"], "PUT").length, 2);
  t.equal(asked(clusters["b"], "PUT").length, 2);
  clusters["c"]?.setFault(null);
  for (const [id, fault] of [
    ["b", "reset"],
    ["a", { status: 500 }],
    ["a", "reset"],
  ] as const) {
    clusters[id]?.setFault(({ method }) => (method === "PUT" ? fault : null));
    await t.rejects(put('{"Version":"3"}'), {
      name: "ServiceUnavailable",
      message: /Send the same request again to finish it. Otherwise .* what the first one says/,
      $metadata: { httpStatusCode: 503 },
    });
    clusters[id]?.setFault(null);
    t.equal(await policyOf(s3, "half"), '{"Version":"1"}', "what is read is as it was");
  }
  await put('{"Version":"3"}');
  t.equal(await policyOf(s3, "half"), '{"Version":"3"}');
});

t.test("a client that leaves in the middle of a write leaves it on all clusters", async (t) => {
  const servers = await startClusters(t, ["a", "b"]);
  const relay = await holdingRelay(t, servers["b"]?.url ?? "");
  const { s3, logLines } = await startTestHeadgate(t, {
    servers,
    clusters: { a: 1, b: 1 },
    endpoints: { b: relay.url },
  });
  await s3.send(new CreateBucketCommand({ Bucket: "left" }));
  relay.holds = (request) => request.startsWith("PUT");
  const leaving = new AbortController();
  const put = new PutBucketPolicyCommand({ Bucket: "left", Policy: '{"Version":"1"}' });
  const sent = s3.send(put, { abortSignal: leaving.signal });
  const held = await relay.held();
  leaving.abort();
  await t.rejects(sent, { name: "AbortError" });
  await t.rejects(policyOf(s3, "left"), { name: "NoSuchBucketPolicy" });
  await held.pass();
  for (let policy: unknown = null; policy === null; ) {
    policy = await policyOf(s3, "left").catch(() => null);
  }
  t.strictSame(asked(servers["a"], "PUT"), ["/left", "/left?policy="]);
  t.strictSame(
    logLines.filter(({ event }) => event.startsWith("unfinished")),
    [],
  );
});

t.test("what a cluster does not know is answered as not set, and never written", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "unknown" }));
  const Bucket = "unknown";
  await t.rejects(s3.send(new GetBucketEncryptionCommand({ Bucket })), {
    name: "ServerSideEncryptionConfigurationNotFoundError",
    $metadata: { httpStatusCode: 404 },
  });
  await t.rejects(s3.send(new GetBucketOwnershipControlsCommand({ Bucket })), {
    name: "OwnershipControlsNotFoundError",
  });
  await t.rejects(s3.send(new GetBucketMetricsConfigurationCommand({ Bucket, Id: "x" })), {
    name: "NoSuchConfiguration",
  });
  const list = await s3.send(new ListBucketMetricsConfigurationsCommand({ Bucket }));
  t.equal(list.IsTruncated, false);
  t.equal(
    (await s3.send(new GetBucketAccelerateConfigurationCommand({ Bucket }))).Status,
    undefined,
  );
  const put = new PutBucketEncryptionCommand({
    Bucket,
    ServerSideEncryptionConfiguration: {
      Rules: [{ ApplyServerSideEncryptionByDefault: { SSEAlgorithm: "AES256" } }],
    },
  });
  await t.rejects(s3.send(put), { name: "NotImplemented", $metadata: { httpStatusCode: 501 } });
  // On an RGW that does not know them these would delete the bucket.
  await s3.send(new DeleteBucketEncryptionCommand({ Bucket }));
  await s3.send(new DeleteBucketOwnershipControlsCommand({ Bucket }));
  for (const cluster of Object.values(clusters)) {
    t.strictSame(asked(cluster, "DELETE"), []);
    t.strictSame(cluster.buckets(), ["unknown"]);
  }
  await s3.send(new HeadBucketCommand({ Bucket }));
});

t.test("a document that is not what was signed for or summed up changes nothing", async (t) => {
  const { s3, url, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "checked" }));
  const put = async (
    query: string,
    headers: readonly (readonly [string, string])[],
    body: string,
  ): Promise<string> => {
    const request = { method: "PUT", path: "/checked", query, headers };
    const head = rawHead(url, { ...request, contentLength: Buffer.byteLength(body) });
    return (await rawExchange(url, head, body)).text;
  };
  const body = "<Tagging><TagSet></TagSet></Tagging>";
  const rows = [
    ["content-md5", "1B2M2Y8AsgTpgAmY7PhCfg==", "BadDigest"],
    ["content-md5", "short", "InvalidDigest"],
    ["x-amz-checksum-crc32", "AAAAAA==", "BadDigest"],
    ["x-amz-checksum-sha1", "AAAA", "InvalidRequest"],
  ] as const;
  for (const [name, value, code] of rows) {
    t.match(await put("tagging=", [[name, value]], body), `<Code>${code}</Code>`, value);
  }
  t.match(await put("policy=", [], " ".repeat(1024 * 1024 + 1)), "<Code>EntityTooLarge</Code>");
  for (const cluster of Object.values(clusters)) t.equal(asked(cluster, "PUT").length, 1);
  t.match(await put("tagging=", [], body), "HTTP/1.1 200");
});

t.test("settings of an object are where the object is", async (t) => {
  const { s3, clusters } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "tagged" }));
  const keys = Array.from({ length: 12 }, (_, index) => `k${index}`);
  for (const Key of keys) {
    await s3.send(new PutObjectCommand({ Bucket: "tagged", Key, Body: Key }));
    await s3.send(
      new PutObjectTaggingCommand({
        Bucket: "tagged",
        Key,
        Tagging: { TagSet: [{ Key: "name", Value: Key }] },
      }),
    );
  }
  for (const Key of keys) {
    const { TagSet } = await s3.send(new GetObjectTaggingCommand({ Bucket: "tagged", Key }));
    t.strictSame(TagSet, [{ Key: "name", Value: Key }]);
  }
  const holders = Object.values(clusters).filter((cluster) => cluster.objects("tagged").length > 0);
  t.ok(holders.length > 1);
  await s3.send(new DeleteObjectTaggingCommand({ Bucket: "tagged", Key: "k0" }));
  const { TagSet } = await s3.send(new GetObjectTaggingCommand({ Bucket: "tagged", Key: "k0" }));
  t.strictSame(TagSet, []);
  await t.rejects(s3.send(new GetObjectTaggingCommand({ Bucket: "tagged", Key: "none" })), {
    name: "NoSuchKey",
  });
});

t.test("who may only read may read settings, and write none", async (t) => {
  const { s3, client } = await startTestHeadgate(t);
  await s3.send(new CreateBucketCommand({ Bucket: "shown-settings" }));
  await s3.send(new CreateBucketCommand({ Bucket: "hidden" }));
  const reader = client({ credentials: readerKeys });
  await reader.send(new GetBucketAclCommand({ Bucket: "shown-settings" }));
  await t.rejects(reader.send(new GetBucketAclCommand({ Bucket: "hidden" })), {
    name: "AccessDenied",
  });
  await t.rejects(
    reader.send(new PutBucketCorsCommand({ Bucket: "shown-settings", CORSConfiguration: cors })),
    { name: "AccessDenied" },
  );
});

t.test("what is taken away is 204, however an RGW says it", async (t) => {
  const { rgw, ask } = await openScene(t);
  const empty = "<Tagging><TagSet></TagSet></Tagging>";
  const some = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>";
  let tags = empty;
  rgw.intercept = ({ method, query }) => {
    const bytes = (status: string, body: string): string =>
      `HTTP/1.1 ${status}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
    if (method === "DELETE" && query.has("policy")) return bytes("200 OK", "");
    if (method === "DELETE" && query.has("tagging")) {
      return bytes("500 Internal Server Error", "<Error><Code>UnknownError</Code></Error>");
    }
    return query.has("tagging") ? bytes("200 OK", tags) : null;
  };
  t.equal((await ask("DELETE", "/rep", { query: "policy=" })).status, 204);
  rgw.put("/rep/k", "x");
  t.equal((await ask("DELETE", "/rep/k", { query: "tagging=" })).status, 204);
  tags = some;
  const failed = await ask("DELETE", "/rep/k", { query: "tagging=" });
  t.equal(failed.status, 500, "a failure that left tags behind stays one");
});

t.test(
  "an object that a cluster answers for a setting of it is 501, the setting is passed on",
  async (t) => {
    const { rgw, ask } = await openScene(t);
    const list = '<?xml version="1.0"?><ListBucketResult></ListBucketResult>';
    const settings = {
      acl: "<AccessControlPolicy><Owner></Owner></AccessControlPolicy>",
      "legal-hold": "<LegalHold><Status>ON</Status></LegalHold>",
      retention:
        '<?xml version="1.0" encoding="UTF-8"?><Retention><Mode>GOVERNANCE</Mode></Retention>',
      tagging:
        '<Tagging xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><TagSet></TagSet></Tagging>',
      torrent: "d4:infod6:lengthi1eee",
    };
    for (const [name, document] of Object.entries(settings)) {
      const got = async (body: string) => {
        rgw.put("/rep/k", body);
        const { status, code, body: text } = await ask("GET", "/rep/k", { query: `${name}=` });
        return { status, code, text };
      };
      t.match(await got(document), { status: 200, text: document }, name);
      for (const other of ["secret bytes", "", list, "d for dog", "x".repeat(9 * 1024 * 1024)]) {
        const answer = await got(other);
        if (name === "tagging" && other === "") {
          t.match(answer, { status: 200, text: "<TagSet></TagSet></Tagging>" }, "as an RGW has it");
          continue;
        }
        t.match(answer, { status: 501, code: "NotImplemented" }, `${name}: ${other.slice(0, 40)}`);
        t.notMatch(answer.text, "secret bytes", "nothing of the object");
      }
    }
  },
);

t.test("the usage of the proxy's own user is told to nobody", async (t) => {
  const { rgw, ask } = await openScene(t);
  const before = rgw.requests.length;
  const answer = await ask("GET", "/", { query: "usage=" });
  t.strictSame([answer.status, answer.code], [501, "NotImplemented"]);
  t.match(answer.body, "would tell of the proxy");
  t.equal(rgw.requests.length, before, "the cluster is not asked");
});
