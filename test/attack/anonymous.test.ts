// What an anonymous caller can make a cluster do: whatever it may do there itself. Its fields travel
// without any signature of ours, so none of them can borrow the cluster's keys.

import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t from "tap";
import { startTestHeadgate } from "../support/headgate.ts";
import { rawExchange } from "../support/raw-http.ts";
import { rawServer } from "../support/raw-upstream.ts";

const emptySha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

t.test("fields of an anonymous request are never signed by us", async (t) => {
  const bundle = mkdtempSync(join(tmpdir(), "headgate-anonymous-"));
  t.teardown(() => rmSync(bundle, { recursive: true }));
  cpSync(join(import.meta.dirname, "../../policies/default"), bundle, { recursive: true });
  writeFileSync(join(bundle, "data.json"), '{"headgate": {"clusters_decide": true}}');
  const heads: string[] = [];
  const upstream = await rawServer(t, async (connection) => {
    for (;;) {
      const head = await connection.head();
      if (head === null) return;
      heads.push(head);
      connection.write('HTTP/1.1 200 OK\r\netag: "a"\r\ncontent-length: 0\r\n\r\n');
    }
  });
  const { url } = await startTestHeadgate(t, {
    clusters: { only: 1 },
    endpoints: { only: upstream.url },
    settings: `policy: {bundle: ${bundle}}`,
  });
  const { host } = new URL(url);
  const send = async (line: string, ...fields: readonly string[]): Promise<string> => {
    const lines = [`host: ${host}`, "content-length: 0", ...fields].map((each) => `${each}\r\n`);
    const { status, text } = await rawExchange(url, `${line} HTTP/1.1\r\n${lines.join("")}\r\n`);
    return `${status} ${/<Code>(\w+)</.exec(text)?.[1] ?? ""}`.trim();
  };
  const forKey = (): readonly string[] => heads.filter((head) => /^\w+ \/open\/k/.test(head));

  t.equal(
    await send(
      "PUT /open/k",
      "x-amz-acl: public-read",
      "x-amz-meta-a: 1",
      "x-amz-date: 20261130T000000Z",
      "x-amz-security-token: stolen",
      `x-amz-content-sha256: ${emptySha256}`,
      "x-goog-meta-role: admin",
      "x-minio-force-delete: true",
      "accept: text/html",
      "cookie: session=1",
    ),
    "200",
  );
  const [put = ""] = forKey();
  t.match(put, /x-amz-acl: public-read/i, "the cluster judges it as anonymous");
  t.notMatch(put, /authorization|x-amz-date|security-token|signature|goog|minio|\naccept:|cookie/i);
  const sent = forKey().length;
  const refused = [
    [await send("PUT /open/k", "x-amz-copy-source: /secret/k"), "403 AccessDenied"],
    [await send("PUT /open/k", "x_amz_copy_source: /secret/k"), "400 InvalidRequest"],
    [
      await send("PUT /open/k?partNumber=1&uploadId=x", "x-amz-copy-source: /s/k"),
      "403 AccessDenied",
    ],
    [
      await send("PUT /open/k", "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD"),
      "400 InvalidRequest",
    ],
    [await send("GET /admin/user"), "400 InvalidBucketName"],
    [await send("GET /open/k?X-Amz-Signature=a"), "400 AuthorizationQueryParametersError"],
  ] as const;
  for (const [answer, expected] of refused) t.equal(answer, expected);
  t.equal(forKey().length, sent, "nothing more reached the cluster");
});
