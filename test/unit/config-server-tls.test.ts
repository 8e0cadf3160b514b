// The certificate of a listener is checked before anything listens, so that no client is the first to
// see what is wrong with it.

import t from "tap";
import { TestAuthority } from "../support/certificates.ts";
import { configOf, faultsOf, load } from "../support/config-load.ts";

const authority = new TestAuthority();
const good = authority.issue();
const at = (days: number): Date => new Date(Date.now() + days * 86_400_000);

function withFiles(files: Readonly<Record<string, string>>, tls = "cert_file: c, key_file: k") {
  const yaml = `listen:\n  tls: {${tls}}\nclusters: []\n`;
  return load(
    { "headgate.yaml": yaml, c: good.certPem, k: good.keyPem, ...files },
    { nowMs: Date.now() },
  );
}

t.test("a certificate with its key makes the listener speak TLS", async (t) => {
  const chain = `${good.certPem}\n${authority.certPem}`;
  const { config, warnings } = configOf(withFiles({ c: chain }));
  t.strictSame(config.listen.tls, { certPem: chain, keyPem: good.keyPem, minVersion: "TLSv1.2" });
  t.notMatch(warnings.map(({ message }) => message).join(), /ertificate/);
  const newest = configOf(withFiles({}, "cert_file: c, key_file: k, min_version: TLSv1.3"));
  t.equal(newest.config.listen.tls?.minVersion, "TLSv1.3");
  t.equal(configOf(load({ "headgate.yaml": "listen: {}" })).config.listen.tls, null);
  const empty = withFiles({}, 'cert_file: "", key_file: ""');
  t.equal(configOf(empty).config.listen.tls, null);
});

t.test("what clients would refuse is a fault", async (t) => {
  const other = authority.issue();
  const old = authority.issue({ notBefore: at(-20), notAfter: at(-1) });
  const early = authority.issue({ notBefore: at(1), notAfter: at(20) });
  const rows: readonly (readonly [string, ReturnType<typeof load>, RegExp])[] = [
    ["no key", withFiles({}, "cert_file: c"), /tls: Needs both cert_file and key_file/],
    ["no certificate", withFiles({}, "key_file: k"), /tls: Needs both cert_file and key_file/],
    ["absent", withFiles({}, "cert_file: c, key_file: n"), /key_file: .*it does not exist/],
    ["no PEM", withFiles({ c: "x" }), /cert_file: File ".*c" holds no readable PEM certificates/],
    [
      "broken PEM",
      withFiles({ c: good.certPem.replace(/[A-Z]{4}/, "!!!!") }),
      /no readable PEM cert/,
    ],
    ["key for cert", withFiles({ c: good.keyPem }), /no readable PEM certificates/],
    ["cert for key", withFiles({ k: good.certPem }), /key_file: .* no readable PEM private key/],
    ["mismatch", withFiles({ k: other.keyPem }), /does not belong to the first certificate/],
    ["order", withFiles({ c: authority.certPem + good.certPem }), /does not belong to the first/],
    ["expired", withFiles({ c: old.certPem, k: old.keyPem }), /Certificate 1 of 1 expired at 20/],
    ["early", withFiles({ c: early.certPem, k: early.keyPem }), /is not valid before 20/],
    ["issuer expired", withFiles({ c: good.certPem + old.certPem }), /Certificate 2 of 2 expired/],
    ["old TLS", withFiles({}, "cert_file: c, key_file: k, min_version: TLSv1.1"), /one of TLSv1.2/],
  ];
  for (const [name, loaded, expected] of rows) {
    t.match(faultsOf(loaded).join("\n"), expected, name);
    t.equal(faultsOf(loaded).length, 1, name);
    t.notMatch(faultsOf(loaded).join("\n"), /BEGIN|MIG/, "no byte of a key is repeated");
  }
});

t.test("what may surprise soon is a warning", async (t) => {
  const soon = authority.issue({ notAfter: at(3) });
  const warned = (files: Readonly<Record<string, string>>): string =>
    configOf(withFiles(files))
      .warnings.map(({ message }) => message)
      .join("\n");
  t.match(warned({ c: soon.certPem, k: soon.keyPem }), /Certificate 1 of 1 expires at/);
  const stranger = new TestAuthority("Somebody else").certPem;
  t.match(warned({ c: good.certPem + stranger }), /was not issued by the one behind it/);
});

t.test("the authority of a cluster is looked at, too", async (t) => {
  const yaml = "clusters: [{id: a, endpoints: [https://h:1], tls: {ca_file: ca}}]";
  const given = (ca: string) => load({ "headgate.yaml": yaml, ca });
  t.equal(configOf(given(authority.certPem)).config.clusters[0]?.tls.caPem, authority.certPem);
  t.match(faultsOf(given("x")).join(), /ca_file: File ".*ca" holds no readable PEM certificates/);
  t.match(faultsOf(load({ "headgate.yaml": yaml })).join(), /ca_file: .*it does not exist/);
});
