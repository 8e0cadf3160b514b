// Where each operation that a sub-resource names goes, over two clusters: read from the first one and
// written to every one where it is about the bucket, to the key's own cluster where about an object.

import { CreateBucketCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { type OperationFacts, operationFacts } from "../../proxy/s3/operation.ts";
import { clusterKeys, startTestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { type Said, startUserCluster } from "../support/user-cluster.ts";

type Named = OperationFacts & { readonly name: string; readonly subresource: string };

const all: readonly (readonly [string, OperationFacts])[] = Object.entries(operationFacts);

function served(scope: OperationFacts["scope"]): readonly Named[] {
  return all.flatMap(([name, facts]): Named[] => {
    const { subresource } = facts;
    const isIt = facts.scope === scope && facts.supported && subresource !== null;
    return isIt ? [{ ...facts, name, subresource }] : [];
  });
}

const initiated =
  "<InitiateMultipartUploadResult><UploadId>2~x</UploadId></InitiateMultipartUploadResult>";

/** What questions for settings are answered with, the first that fits. */
const settings: readonly (readonly [RegExp, string])[] = [
  [/[?&]uploads=/, initiated],
  [/^GET \S*\/\S+[?&]acl=/, "<AccessControlPolicy/>"],
  [/^GET \S*[?&]legal-hold=/, "<LegalHold/>"],
  [/^GET \S*[?&]retention=/, "<Retention/>"],
  [/^GET \S*\/\S+[?&]tagging=/, "<Tagging/>"],
  [/^GET \S*[?&]torrent=/, "d8:announce0:e"],
  [/^GET /, "<Setting/>"],
];

async function open(t: Test) {
  const users = [{ uid: "service", ...clusterKeys }];
  const a = await startUserCluster(t, users);
  const b = await startUserCluster(t, users);
  const { s3, url } = await startTestHeadgate(t, {
    clusters: { a: 1, b: 1 },
    servers: {},
    endpoints: { a: a.url, b: b.url },
    clusterSettings: "profile: rgw-pacific",
  });
  await s3.send(new CreateBucketCommand({ Bucket: "routed" }));
  const said = (line: string): Said => ({
    status: line.startsWith("DELETE") ? 204 : 200,
    headers: { "x-rgw-object-type": "Normal" },
    body: settings.find(([asked]) => asked.test(line))?.[1] ?? "",
  });
  for (const cluster of [a, b]) cluster.say = said;
  /** Asks, and gives which clusters were asked: for a setting by its method, for an object in any way. */
  const ask = async (facts: Named, path: string): Promise<readonly string[]> => {
    const { method, subresource, parameter, document, scope } = facts;
    const more =
      subresource === "append" ? ["position=0"] : parameter === null ? [] : [`${parameter}=x`];
    const query = [`${subresource}=`, ...more].toSorted().join("&");
    const before = [a.asked.length, b.asked.length];
    const body = document ? "<Document/>" : "";
    const head = rawHead(url, {
      method,
      path,
      query,
      headers: facts.name === "GetObjectAttributes" ? [["x-amz-object-attributes", "ETag"]] : [],
      ...(method === "GET" || method === "HEAD" ? {} : { contentLength: body.length }),
    });
    const { status } = await rawExchange(url, head, body);
    t.ok(status < 300, `${facts.name}: ${status}`);
    return [a, b].flatMap((cluster, index) => {
      const start = scope === "object" ? "" : method;
      const wanted = cluster.asked
        .slice(before[index])
        .filter((line) => line.startsWith(start) && line.includes(` ${path}`));
      return wanted.length === 0 ? [] : [index === 0 ? "a" : "b"];
    });
  };
  return { ask };
}

t.test("settings of a bucket", async (t) => {
  const { ask } = await open(t);
  const wanted: Readonly<Partial<Record<OperationFacts["routing"], readonly string[]>>> = {
    first: ["a"],
    every: ["a", "b"],
  };
  const rows = served("bucket").filter(({ routing }) => wanted[routing] !== undefined);
  t.ok(rows.length > 50, `${rows.length} operations`);
  for (const row of rows) t.strictSame(await ask(row, "/routed"), wanted[row.routing], row.name);
});

t.test("operations on one object", async (t) => {
  const { ask } = await open(t);
  const rows = served("object").filter(({ routing }) => routing === "owner");
  t.ok(rows.length > 10, `${rows.length} operations`);
  const homes = new Set<string>();
  for (let n = 0; n < 6; n += 1) {
    const seen = new Set<string>();
    for (const row of rows) seen.add((await ask(row, `/routed/key-${n}`)).join());
    t.equal(seen.size, 1, `every operation of key-${n} goes to one cluster: ${[...seen].join()}`);
    for (const home of seen) homes.add(home);
  }
  t.strictSame([...homes].toSorted(), ["a", "b"]);
});
