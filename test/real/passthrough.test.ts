// Swift and the admin operations of a real RGW through the S3 listener: what the RGW itself verifies
// works as if nothing stood between, and nothing else of it can be reached.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import t from "tap";
import { formatAmzDate, SigningKeys, signRequest } from "../../proxy/s3/sigv4.ts";
import { withLab } from "./support/lab.ts";
import { rgwPair } from "./support/services.ts";

const signing = new SigningKeys(4);

/** A signed question to the admin API, as go-ceph asks it. */
async function askAdmin(url: string): Promise<Response> {
  const path = "/admin/user";
  const query = "format=json&uid=headgate-rgw";
  const { host } = new URL(url);
  const headers = signRequest(
    {
      method: "GET",
      path,
      query,
      host,
      headers: [],
      payloadHash: "UNSIGNED-PAYLOAD",
      region: "us-east-1",
      credentials: { ...rgwPair, sessionToken: null },
      amzDate: formatAmzDate(Date.now()),
    },
    signing,
  );
  return await fetch(`${url}${path}?${query}`, {
    headers: headers.map(([name, value]) => [name, value]),
  });
}

withLab(t, ["aws"], async (lab, test) => {
  const swift = ["--subuser=headgate-rgw:swift", "--uid=headgate-rgw"];
  await lab.rgw.admin("a", "subuser", "create", ...swift, "--access=full");
  await lab.rgw.admin(
    "a",
    "key",
    "create",
    ...swift,
    "--key-type=swift",
    "--secret-key=swift-secret",
  );
  await lab.rgw.admin("a", "caps", "add", "--uid=headgate-rgw", "--caps=users=read");
  const settings = { clusters: lab.clusters({ a: 1, b: 1 }) };
  const passing = await lab.headgate({
    ...settings,
    name: "passing",
    prefix: "/headgate-passing/",
    passthrough: { cluster: "a", paths: ["/swift", "/auth", "/admin", "/"] },
  });
  const plain = await lab.headgate({ ...settings, name: "plain", prefix: "/headgate-plain/" });

  test("Swift works with its own token, and only where it is passed", async (t) => {
    const health = await fetch(`${passing.url}/swift/healthcheck`);
    t.equal(health.status, 200);
    await health.text();
    const login = { "x-auth-user": "headgate-rgw:swift", "x-auth-key": "swift-secret" };
    const auth = await fetch(`${passing.url}/auth/v1.0`, { headers: login });
    t.ok(auth.ok, `${auth.status}`);
    const token = { "x-auth-token": auth.headers.get("x-auth-token") ?? "" };
    const container = `${passing.url}/swift/v1/holiday`;
    t.equal((await fetch(container, { method: "PUT", headers: token })).status, 201);
    const body = Buffer.alloc(6 * 1024 * 1024, "swift");
    const object = `${container}/a%20b/c`;
    t.equal((await fetch(object, { method: "PUT", headers: token, body })).status, 201);
    const got = await fetch(object, { headers: token });
    t.ok(Buffer.from(await got.arrayBuffer()).equals(body));
    const list = await (await fetch(container, { headers: token })).text();
    t.equal(list.trim(), "a b/c");
    t.equal((await fetch(object)).status, 401, "without a token the RGW says no");
    t.equal((await fetch(`${plain.url}/swift/healthcheck`)).status, 400);
    t.equal((await fetch(`${passing.url}/swift%2Fv1/holiday`, { headers: token })).status, 400);
  });

  test("topics are made and listed by the RGW, and only where actions are passed", async (t) => {
    const sns = async (url: string, ...args: readonly string[]): Promise<string> => {
      const [id, secret] = [rgwPair.accessKeyId, rgwPair.secretAccessKey];
      const env = { ...process.env, AWS_ACCESS_KEY_ID: id, AWS_SECRET_ACCESS_KEY: secret };
      const region = { AWS_DEFAULT_REGION: "us-east-1", AWS_EC2_METADATA_DISABLED: "true" };
      const all = ["--endpoint-url", url, "sns", ...args];
      return (await promisify(execFile)("aws", all, { env: { ...env, ...region } })).stdout;
    };
    t.match(await sns(passing.url, "create-topic", "--name", "changes"), /arn:aws:sns:.*:changes/);
    t.match(await sns(passing.url, "list-topics"), /:changes/);
    await t.rejects(sns(plain.url, "list-topics"), /calling the ListTopics operation/);
  });

  test("admin operations are verified by the RGW, and only where they are passed", async (t) => {
    const info = await askAdmin(passing.url);
    t.equal(info.status, 200);
    t.match(await info.text(), /"user_id":"headgate-rgw"/);
    const unsigned = await fetch(`${passing.url}/admin/user?uid=headgate-rgw`);
    t.equal(unsigned.status, 403);
    t.match(await unsigned.text(), /AccessDenied/);
    const elsewhere = await askAdmin(plain.url);
    t.equal(elsewhere.status, 400);
    t.match(await elsewhere.text(), /InvalidBucketName/);
  });
});
