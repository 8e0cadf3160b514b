// What etcd's client is given for TLS and a user.

import { rootCertificates } from "node:tls";
import t from "tap";
import { type EtcdOptions, etcdClientOptions } from "../../bridge/etcd-options.ts";

const options: EtcdOptions = {
  endpoints: ["https://e1:2379", "https://e2:2379"],
  username: null,
  password: null,
  tls: null,
  dialTimeoutMs: 3000,
  dialRetryMs: 300,
};

/** The texts of what is sent; null: left to etcd3. */
function sent(tls: EtcdOptions["tls"]) {
  const { credentials } = etcdClientOptions({ ...options, tls });
  if (credentials === undefined) return null;
  const { rootCertificate: ca, certChain: cert, privateKey: key } = credentials;
  return { ca: ca.toString(), cert: cert?.toString() ?? null, key: key?.toString() ?? null };
}

t.test("certificates are given as they were configured", async (t) => {
  t.equal(sent(null), null);
  t.strictSame(sent({ ca: "CA", cert: null, key: null }), { ca: "CA", cert: null, key: null });
  t.strictSame(sent({ ca: "CA", cert: "C", key: "K" }), { ca: "CA", cert: "C", key: "K" });
});

t.test("a client certificate is sent without a CA file, too", async (t) => {
  t.ok(rootCertificates.length > 50);
  const ca = rootCertificates.join("\n");
  t.strictSame(sent({ ca: null, cert: "C", key: "K" }), { ca, cert: "C", key: "K" });
});

t.test("endpoints and user", async (t) => {
  const plain = etcdClientOptions(options);
  t.strictSame(plain.hosts, options.endpoints);
  t.notOk("auth" in plain);
  const { auth } = etcdClientOptions({ ...options, username: "u", password: "p" });
  t.match(auth, { username: "u", password: "p" });
});
