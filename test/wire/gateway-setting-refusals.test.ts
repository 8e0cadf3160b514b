// A write of a bucket's setting that one of its clusters refuses is refused as a whole, with that cluster's
// own answer: every cluster says again what it said before. And an ACL, which names the owner of a bucket,
// who may be another user on each cluster.

import { CreateBucketCommand, GetBucketAclCommand, PutBucketAclCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import type { S3ErrorCode } from "../../proxy/s3/errors.ts";
import { handClock } from "../support/hand-clock.ts";
import { clientKeys, clusterKeys, startTestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";

const bucket = "refusing";

interface Asked {
  readonly method: string;
  readonly subresource: string;
  readonly body?: string;
  readonly headers?: readonly (readonly [string, string])[];
}

async function ask(url: string, keys: typeof clientKeys, asked: Asked) {
  const { method, subresource, body = "", headers = [] } = asked;
  const query = `${subresource}=`;
  const contentLength = Buffer.byteLength(body);
  const head = rawHead(url, { method, path: `/${bucket}`, query, headers, keys, contentLength });
  const { status, text } = await rawExchange(url, head, body);
  const document = text.slice(text.indexOf("\r\n\r\n") + 4);
  return { status, document, code: /<Code>(.*?)<\/Code>/.exec(document)?.[1] ?? "" };
}

async function scene(t: Test) {
  const time = handClock();
  const headgate = await startTestHeadgate(t, { timers: time.timers });
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  const clusters = Object.values(headgate.clusters);
  const write = (asked: Asked) => ask(headgate.url, clientKeys, asked);
  const told = async (subresource: string) => {
    const answers = clusters.map(({ url }) =>
      ask(url, clusterKeys, { method: "GET", subresource }),
    );
    return (await Promise.all(answers)).map(({ status, document, code }) =>
      status === 200 ? document : code,
    );
  };
  const unfinished = () => headgate.logLines.filter(({ event }) => event.startsWith("unfinished"));
  return { ...headgate, time, write, told, unfinished };
}

const policy = (sid: string): string => `{"Statement":[{"Sid":"${sid}","Effect":"Deny"}]}`;
const xml = (root: string, rest: (n: string) => string) => (n: string) =>
  `<${root}>${rest(n)}</${root}>`;
const settings: Readonly<Record<string, (n: string) => string>> = {
  acl: xml("AccessControlPolicy", (n) => `<Owner><ID>o</ID></Owner><P>${n}</P>`),
  cors: xml("CORSConfiguration", (n) => `<CORSRule><AllowedOrigin>${n}</AllowedOrigin></CORSRule>`),
  lifecycle: xml("LifecycleConfiguration", (n) => `<Rule><Prefix>${n}</Prefix></Rule>`),
  logging: xml("BucketLoggingStatus", (n) => `<LoggingEnabled><P>${n}</P></LoggingEnabled>`),
  notification: xml("NotificationConfiguration", (n) => {
    return `<TopicConfiguration><Id>${n}</Id><Event>${n}</Event></TopicConfiguration>`;
  }),
  policy,
  publicAccessBlock: xml("PublicAccessBlockConfiguration", (n) => `<A>${n}</A>`),
  replication: xml("ReplicationConfiguration", (n) => `<Role>${n}</Role>`),
  requestPayment: xml("RequestPaymentConfiguration", (n) => `<Payer>${n}</Payer>`),
  tagging: xml("Tagging", (n) => `<TagSet><Tag><Key>${n}</Key><Value>v</Value></Tag></TagSet>`),
  website: xml("WebsiteConfiguration", (n) => `<Suffix>${n}</Suffix>`),
};
const withoutDelete: ReadonlySet<string> = new Set(["acl", "logging", "requestPayment"]);
const refusals: readonly { readonly status: number; readonly code: S3ErrorCode }[] = [
  { status: 404, code: "NoSuchKey" },
  { status: 400, code: "MalformedXML" },
  { status: 403, code: "AccessDenied" },
  { status: 409, code: "InvalidBucketState" },
  { status: 501, code: "NotImplemented" },
];

t.test("what a later cluster refuses is refused, and on none of them", async (t) => {
  const { clusters, write, told, unfinished } = await scene(t);
  let row = 0;
  for (const [subresource, document] of Object.entries(settings)) {
    const put = (n: string): Asked => ({ method: "PUT", subresource, body: document(n) });
    const rows: Asked[] = [put("first")];
    const later = withoutDelete.has(subresource) ? [] : [{ method: "DELETE", subresource }];
    for (const isSet of [false, true]) {
      if (isSet) await write(put("kept"));
      for (const asked of isSet ? [put("other"), ...later] : rows) {
        // The first cluster is written last.
        for (const id of ["b", "a"]) {
          const before = await told(subresource);
          t.equal(new Set(before).size, 1, subresource);
          const refusal = refusals[row % refusals.length] ?? { status: 403 };
          row += 1;
          clusters[id]?.setFault(({ method }) => (method === "GET" ? null : refusal));
          const name = `${asked.method} ${subresource} ${isSet}: ${id} answers ${refusal.status}`;
          t.match(await write(asked), refusal, name);
          clusters[id]?.setFault(null);
          // What there is no DELETE of is written as nothing.
          const plain = (texts: readonly string[]) =>
            texts.map((text) => text.replace(/^<\?xml.*\n/, "").replace(/ xmlns="[^"]*"/, ""));
          t.strictSame(plain(await told(subresource)), plain(before), name);
        }
      }
    }
  }
  t.strictSame(unfinished(), []);
});

t.test("a cluster that lost the bucket refuses nothing", async (t) => {
  const { clusters, write, unfinished } = await scene(t);
  const gone = { status: 404, code: "NoSuchBucket" } as const;
  clusters["b"]?.setFault(({ method }) => (method === "PUT" ? gone : null));
  const answer = await write({ method: "PUT", subresource: "policy", body: policy("x") });
  t.match(answer, { status: 503, code: "ServiceUnavailable" });
  t.equal(unfinished().length, 1);
});

t.test("what cannot be taken back at once is taken back later", async (t) => {
  const { clusters, write, told, time, unfinished } = await scene(t);
  await write({ method: "PUT", subresource: "policy", body: policy("kept") });
  clusters["b"]?.setFault(({ method }) =>
    method === "PUT" ? { status: 403, code: "AccessDenied" } : null,
  );
  let count = 0;
  clusters["c"]?.setFault(({ method }) => {
    if (method === "PUT") count += 1;
    return method === "PUT" && count > 1 ? "reset" : null;
  });
  const asked = { method: "PUT", subresource: "policy", body: policy("refused") };
  t.match(await write(asked), { status: 403, code: "AccessDenied" });
  t.strictSame(await told("policy"), [policy("kept"), policy("kept"), policy("refused")]);
  t.match(unfinished(), [{ event: "unfinished.added", fields: { setting: "policy" } }]);
  for (const id of ["b", "c"]) clusters[id]?.setFault(null);
  time.pass(1_000);
  for (let at: string | undefined = ""; at !== policy("kept"); ) [, , at] = await told("policy");
  t.equal(unfinished().filter(({ event }) => event === "unfinished.failed").length, 0);
});

const groups = "http://acs.amazonaws.com/groups/global";
const aclOf = (owner: string, name: string): string =>
  `<AccessControlPolicy><Owner><ID>${owner}</ID><DisplayName>${name}</DisplayName></Owner><AccessControlList><Grant><Grantee xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="CanonicalUser"><ID>${owner}</ID><DisplayName>${name}</DisplayName></Grantee><Permission>FULL_CONTROL</Permission></Grant></AccessControlList></AccessControlPolicy>`;

for (const owners of [
  ["svc-a", "svc-b", "svc-a"],
  ["svc", "svc", "svc"],
] as const) {
  t.test(`an ACL that was read is written for ${owners.join()}`, async (t) => {
    const { s3, clusters, told, logLines } = await scene(t);
    for (const [index, { url }] of Object.values(clusters).entries()) {
      const body = aclOf(owners[index] ?? "", "Someone");
      await ask(url, clusterKeys, { method: "PUT", subresource: "acl", body });
    }
    const { Owner, Grants = [] } = await s3.send(new GetBucketAclCommand({ Bucket: bucket }));
    t.equal(Owner?.ID, owners[0]);
    const toAll = { Type: "Group", URI: `${groups}/AllUsers` } as const;
    const other = { Type: "CanonicalUser", ID: "other", DisplayName: "Other & <Co>" } as const;
    const AccessControlPolicy = {
      Owner,
      Grants: [
        ...Grants,
        { Grantee: toAll, Permission: "READ" as const },
        { Grantee: other, Permission: "WRITE" as const },
      ],
    };
    for (const ChecksumAlgorithm of [undefined, "SHA256"] as const) {
      await s3.send(
        new PutBucketAclCommand({ Bucket: bucket, AccessControlPolicy, ChecksumAlgorithm }),
      );
      const texts = await told("acl");
      for (const [index, text] of texts.entries()) {
        const owner = owners[index] ?? "";
        const ids = [...text.matchAll(/<ID>(.*?)<\/ID>/g)].map(([, id]) => id);
        t.strictSame(ids, [owner, "other", owner], text);
        t.match(text, `<URI>${groups}/AllUsers</URI>`);
        t.match(text, "Other &amp; &lt;Co&gt;");
        const kinds = [...text.matchAll(/xsi:type="(.*?)"/g)].map(([, kind]) => kind);
        t.strictSame(kinds, ["CanonicalUser", "Group", "CanonicalUser"], text);
      }
      if (owners[0] === owners[1]) t.equal(new Set(texts).size, 1, "sent on as it came");
    }
    t.strictSame(
      logLines.filter(({ event }) => event === "bucket.drift"),
      [],
    );
  });
}

t.test("whose a bucket is must be told before its ACL is written", async (t) => {
  const { clusters, write, told } = await scene(t);
  const before = await told("acl");
  clusters["b"]?.setFault(({ method }) => (method === "GET" ? { status: 500 } : null));
  const asked = { method: "PUT", subresource: "acl", body: aclOf("x", "X") };
  t.match(await write(asked), { status: 503, code: "ServiceUnavailable" });
  clusters["b"]?.setFault(null);
  t.strictSame(await told("acl"), before);
});
