// Behind a trusted proxy: the bucket, the Location and the access log are those of the client's request.

import { CreateBucketCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { handSigned, credentials as signer } from "../support/s3-request.ts";

const forwarded = [
  ["x-forwarded-for", "198.51.100.9, 192.0.2.7"],
  ["x-forwarded-host", "shown.s3.test"],
  ["x-forwarded-proto", "https"],
] as const;

/** What clusters were told of where requests came from. */
const told = ({ clusters }: TestHeadgate): ReadonlySet<string> =>
  new Set(
    Object.values(clusters).flatMap((server) =>
      server.exchanges().flatMap(({ rawHeaders }) => {
        const at = rawHeaders.findIndex((text) => text.toLowerCase() === "x-forwarded-for");
        return at === -1 ? [] : [rawHeaders[at + 1] ?? ""];
      }),
    ),
  );

for (const [listen, trusted, clusterSettings] of [
  ["trusted_proxies: [127.0.0.0/8]", true, "forwarded_for: append"],
  ["trusted_proxies: [10.0.0.0/8]", false, "forwarded_for: append"],
  ["trusted_proxies: [127.0.0.0/8]", true, "forwarded_for: off"],
] as const) {
  t.test(`what a peer forwards with ${listen} and ${clusterSettings}`, async (t) => {
    const headgate = await startTestHeadgate(t, { listen, clusterSettings });
    const { url, s3, accessLog } = headgate;
    await s3.send(new CreateBucketCommand({ Bucket: "shown" }));
    await s3.send(new PutObjectCommand({ Bucket: "shown", Key: "k", Body: "x" }));
    const { host } = new URL(url);
    // Signed as the client did, sent on with the proxy's own Host and fields.
    const signed = rawHead("http://shown.s3.test", { method: "GET", path: "/k" });
    const lines = forwarded.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const request = signed.replace("host: shown.s3.test\r\n", `host: ${host}\r\n${lines}`);
    const answer = await rawExchange(url, request);
    t.equal(answer.status, trusted ? 200 : 403);
    if (trusted) t.match(answer.text, /\r\n\r\nx$/);
    const last = accessLog.at(-1);
    t.equal(last?.remoteAddress, trusted ? "192.0.2.7" : "127.0.0.1");
    t.equal(last?.bucket, trusted ? "shown" : "k");
    const expected = trusted ? ["127.0.0.1", "192.0.2.7, 127.0.0.1"] : ["127.0.0.1"];
    const isTold = clusterSettings === "forwarded_for: append";
    t.strictSame([...told(headgate)], isTold ? expected : [], "what the clusters are told");
  });
}

t.test(
  "a signature holds over fields that hops are known to rewrite, and over no others",
  async (t) => {
    const credentials = `users: [{uid: u, keys: [{access_key: ${signer.accessKeyId}, secret_key: ${signer.secretAccessKey}}], grants: [{buckets: ["*"], allow: [list]}]}]`;
    const start = async (network: string) => {
      const listen = `trusted_proxies: [${network}], rewritten_headers: {te: trailers, expect: 100-continue}`;
      return (await startTestHeadgate(t, { listen, credentials })).url;
    };
    const [trusting, other] = [await start("127.0.0.0/8"), await start("10.0.0.0/8")];
    const te = ["te", "trailers"] as const;
    const encoding = ["accept-encoding", "identity"] as const;
    const hop = ["x-original-accept-encoding: identity", "accept-encoding: br"];
    for (const [what, url, signed, sent, status] of [
      ["as sent", other, [encoding, te], ["accept-encoding: identity", "te: trailers"], 200],
      ["Accept-Encoding by a trusted hop", trusting, [encoding], hop, 200],
      ["Accept-Encoding by any hop", other, [encoding], hop, 403],
      ["TE dropped", other, [te], [], 200],
      ["TE rewritten", other, [te], ["te: gzip"], 200],
      ["both", trusting, [encoding, te], hop, 200],
      ["another TE", other, [["te", "gzip"]], [], 403],
      ["Expect rewritten, TE dropped", other, [["expect", "100-continue"], te], ["expect: "], 200],
      ["a field of the object", trusting, [["content-type", "a/b"]], ["content-type: a/c"], 403],
    ] as const) {
      const { host } = new URL(url);
      const epochMs = Date.now();
      const amzDate = new Date(epochMs).toISOString().replace(/[-:]|\.\d+/g, "");
      const own = [
        ["host", host],
        ["x-amz-content-sha256", "UNSIGNED-PAYLOAD"],
        ["x-amz-date", amzDate],
      ] as const;
      const fields = [...own, ...signed].toSorted(([one], [two]) => (one < two ? -1 : 1));
      const authorization = handSigned({ path: "/", fields, epochMs });
      const lines = [...own.map((field) => field.join(": ")), `authorization: ${authorization}`];
      const answer = await rawExchange(
        url,
        `GET / HTTP/1.1\r\n${[...lines, ...sent].join("\r\n")}\r\n\r\n`,
      );
      t.equal(answer.status, status, what);
    }
  },
);
