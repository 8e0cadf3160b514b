// Behind a trusted proxy: the bucket, the Location and the access log are those of the client's request.

import { CreateBucketCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { startTestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";

const forwarded = [
  ["x-forwarded-for", "198.51.100.9, 192.0.2.7"],
  ["x-forwarded-host", "shown.s3.test"],
  ["x-forwarded-proto", "https"],
] as const;

for (const [listen, trusted] of [
  ["trusted_proxies: [127.0.0.0/8]", true],
  ["trusted_proxies: [10.0.0.0/8]", false],
] as const) {
  t.test(`what a peer forwards with ${listen}`, async (t) => {
    const { url, s3, accessLog } = await startTestHeadgate(t, { listen });
    await s3.send(new CreateBucketCommand({ Bucket: "shown" }));
    await s3.send(new PutObjectCommand({ Bucket: "shown", Key: "k", Body: "x" }));
    const { host } = new URL(url);
    // Signed as the client did, sent on with the proxy's own Host and fields.
    const signed = rawHead("http://shown.s3.test", { method: "GET", path: "/k" });
    const lines = forwarded.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const sent = signed.replace("host: shown.s3.test\r\n", `host: ${host}\r\n${lines}`);
    const answer = await rawExchange(url, sent);
    t.equal(answer.status, trusted ? 200 : 403);
    if (trusted) t.match(answer.text, /\r\n\r\nx$/);
    const last = accessLog.at(-1);
    t.equal(last?.remoteAddress, trusted ? "192.0.2.7" : "127.0.0.1");
    t.equal(last?.bucket, trusted ? "shown" : "k");
  });
}
