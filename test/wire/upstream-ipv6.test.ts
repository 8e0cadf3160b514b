// A cluster at an IPv6 address: the brackets stand in Host and in what is signed.

import { once } from "node:events";
import { createServer } from "node:http";
import { networkInterfaces } from "node:os";
import t from "tap";
import { SigningKeys, signRequest } from "../../proxy/s3/sigv4.ts";
import { adapter, textOf } from "../support/raw-upstream.ts";

const addresses = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
const skip = addresses.some(({ address }) => address === "::1")
  ? false
  : "this machine has no IPv6 loopback";

t.test("an endpoint in brackets is reached, sent and signed as that", { skip }, async (t) => {
  // https://github.com/apache/ozone/pull/10809
  const server = createServer((request, response) => {
    const { host = "", authorization = "" } = request.headers;
    response.end(
      JSON.stringify({
        host,
        authorization,
        date: request.headers["x-amz-date"],
        url: request.url,
      }),
    );
  });
  server.listen(0, "::1");
  await once(server, "listening");
  t.teardown(() => server.close());
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const a = adapter(t, { endpoints: [`http://[::1]:${address.port}`] });
  const seen = JSON.parse(await textOf(await a.send()));
  t.equal(seen.host, `[::1]:${address.port}`);
  t.equal(seen.url, "/bucket/key");
  const signed = signRequest(
    {
      method: "GET",
      path: "/bucket/key",
      query: "",
      host: seen.host,
      headers: [],
      payloadHash: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
      region: "us-east-1",
      credentials: { accessKeyId: "ak", secretAccessKey: "sk", sessionToken: null },
      amzDate: seen.date,
    },
    new SigningKeys(1),
  );
  t.equal(seen.authorization, new Map(signed).get("authorization"));
});
