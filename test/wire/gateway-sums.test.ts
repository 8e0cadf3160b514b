// What clusters count themselves, added up where a bucket or a user is on several: RGW's counts in
// HeadBucket, and its usage of a user.

import { CreateBucketCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { system } from "../../proxy/main.ts";
import type { Timers } from "../../proxy/placement/ports.ts";
import { clusterKeys, startTestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import type { ClusterUser, Said, UserCluster } from "../support/user-cluster.ts";
import { startUserCluster } from "../support/user-cluster.ts";

const service: ClusterUser = { uid: "service", ...clusterKeys };
const keys = { accessKeyId: "AK-alice", secretAccessKey: "secret-of-alice" };
const alice: ClusterUser = { uid: "alice", ...keys };
const credentials = `users:\n  - {uid: alice, keys: [{access_key: AK-alice, secret_key: secret-of-alice}]}\n`;

interface Scene {
  readonly a: UserCluster;
  readonly b: UserCluster;
  readonly ask: (method: string, path: string, query?: string) => ReturnType<typeof rawExchange>;
}

/** An only bucket, `spread`, of alice on two RGWs that know her. */
async function open(t: Test, given: { identity?: string; timers?: Timers } = {}): Promise<Scene> {
  const a = await startUserCluster(t, [service, alice]);
  const b = await startUserCluster(t, [service, alice]);
  const { identity = "same", timers } = given;
  const grants = `, grants: [{buckets: ["*"], allow: [read, list, write, delete, admin]}]}\n`;
  const { client, url } = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    servers: {},
    endpoints: { a: a.url, b: b.url },
    identities: { a: identity, b: "same" },
    credentials: identity === "same" ? credentials : credentials.replace(/}\n$/, grants),
    clusterSettings: "profile: rgw-pacific",
    ...(timers === undefined ? {} : { timers }),
  });
  await client({ credentials: keys }).send(new CreateBucketCommand({ Bucket: "spread" }));
  const ask: Scene["ask"] = async (method, path, query = "") =>
    await rawExchange(url, rawHead(url, { method, path, query, keys }));
  return { a, b, ask };
}

const counts = (objects: string, bytes: string): Said => ({
  headers: { "X-RGW-Object-Count": objects, "X-RGW-Bytes-Used": bytes, "X-RGW-Quota-Max": "7" },
});

function fieldsOf(text: string): Record<string, string> {
  return Object.fromEntries(
    [...text.matchAll(/^(x-rgw-[a-z-]+): (.*)\r$/gim)].map(([, name = "", value = ""]) => [
      name.toLowerCase().slice("x-rgw-".length),
      value,
    ]),
  );
}

t.test("HeadBucket adds up what each cluster holds, or does not tell", async (t) => {
  let impatient = false;
  const timers: Timers = {
    after: (ms, run) => system.timers.after(impatient && ms === 1_000 ? 1 : ms, run),
  };
  const { a, b, ask } = await open(t, { timers });
  const quota = { "quota-max": "7" };
  const cases: readonly (readonly [string, Said | null, Said | "hold", object])[] = [
    [
      "both",
      counts("3", "9007199254740993"),
      counts("4", "2"),
      { "object-count": "7", "bytes-used": "9007199254740995", ...quota },
    ],
    ["refused by the other", counts("3", "10"), { status: 403 }, quota],
    ["gone from the other", counts("3", "10"), { status: 404 }, quota],
    ["broken", counts("3", "10"), { status: 500 }, quota],
    [
      "one count only",
      counts("3", "10"),
      { headers: { "X-RGW-Object-Count": "1" } },
      { "object-count": "4", ...quota },
    ],
    ["no number", counts("3", "10"), counts("-1", "1"), { "bytes-used": "11", ...quota }],
    ["no answer", counts("3", "10"), "hold", quota],
    ["none", { headers: {} }, counts("4", "2"), {}],
  ];
  for (const [name, first, other, expected] of cases) {
    a.say = () => first;
    b.say = () => other;
    impatient = other === "hold";
    const asked = b.asked.length;
    const { status, text } = await ask("HEAD", "/spread");
    t.equal(status, 200, name);
    t.strictSame(fieldsOf(text), expected, name);
    t.equal(b.asked.length - asked, name === "none" ? 0 : 1, name);
  }
  a.say = () => ({ status: 403 });
  t.equal((await ask("HEAD", "/spread")).status, 403, "the first cluster decides");
});

const category = (name: string, bytes: number, ops: number): string =>
  `<Entry><Category>${name}</Category><BytesSent>${bytes}</BytesSent><BytesReceived>0</BytesReceived><Ops>${ops}</Ops><SuccessfulOps>${ops}</SuccessfulOps></Entry>`;
const bucket = (name: string, categories: string): string =>
  `<Bucket><Bucket>${name}</Bucket><Time>2026-11-30 00:00:00.000000Z</Time><Epoch>1796000400</Epoch><Categories>${categories}</Categories></Bucket>`;
const usage = (buckets: string, summary: string, used: string): string =>
  `<Usage><Entries><User><Owner>alice</Owner><Buckets>${buckets}</Buckets></User></Entries><Summary>${summary}</Summary><CapacityUsed><User><Buckets>${used}</Buckets></User></CapacityUsed></Usage>`;
const quotas = (bytes: string, entries: number): string =>
  `<QuotaMaxBytes>-1</QuotaMaxBytes><QuotaMaxBuckets>1000</QuotaMaxBuckets><TotalBytes>${bytes}</TotalBytes><TotalEntries>${entries}</TotalEntries>`;
const used = (name: string, bytes: number): string =>
  `<Entry><Bucket>${name}</Bucket><Bytes>${bytes}</Bytes><Bytes_Rounded>4096</Bytes_Rounded></Entry>`;

t.test("a user's usage is that of all clusters", async (t) => {
  const { a, b, ask } = await open(t);
  const declared = '<?xml version="1.0" encoding="UTF-8"?>';
  const ofA = usage(
    bucket("spread", category("get_obj", 5, 1) + category("put_obj", 0, 2)),
    quotas("9007199254740993", 2),
    used("spread", 10),
  );
  const ofB = usage(
    bucket("own", category("get_obj", 1, 1)) + bucket("spread", category("put_obj", 7, 3)),
    quotas("2", 1),
    used("own", 3) + used("spread", 32),
  );
  const both = usage(
    bucket("spread", category("get_obj", 5, 1) + category("put_obj", 7, 5)) +
      bucket("own", category("get_obj", 1, 1)),
    quotas("9007199254740995", 3),
    used("spread", 42).replace("4096", "8192") + used("own", 3),
  );
  a.say = () => ({ body: `${declared}${ofA}` });
  const answers: readonly (readonly [string, Said, number, string])[] = [
    ["both", { body: `${declared}${ofB}` }, 200, `${declared}\n${both}`],
    ["nobody there", { status: 403 }, 200, `${declared}\n${ofA}`],
    ["a fault", { status: 500 }, 503, "ServiceUnavailable"],
    ["a list instead", { body: "<ListAllMyBucketsResult/>" }, 503, "ServiceUnavailable"],
    [
      "a bad date",
      {
        status: 400,
        headers: { "content-type": "application/xml" },
        body: "<Error><Code>InvalidArgument</Code></Error>",
      },
      400,
      "InvalidArgument",
    ],
  ];
  for (const [name, said, expected, body] of answers) {
    b.say = () => said;
    const { status, text } = await ask("GET", "/", "usage=");
    t.equal(status, expected, name);
    if (status === 200) t.equal(text.slice(text.indexOf("\r\n\r\n") + 4), body, name);
    else t.match(text, body, name);
  }
  a.say = () => ({ status: 403 });
  b.say = () => ({ status: 403 });
  t.match(await ask("GET", "/", "usage="), { status: 403, text: "AccessDenied" });
});

t.test("usage is not told where a cluster knows the proxy alone", async (t) => {
  const { a, ask } = await open(t, { identity: "service" });
  a.say = () => ({ body: "<Usage/>" });
  t.match(await ask("GET", "/", "usage="), { status: 501, text: "NotImplemented" });
});
