// `cluster ping` and its probe, through the admin API, over demo clusters that play each profile: what
// was seen is what is played, and nothing is left behind.

import { CreateBucketCommand, PutObjectCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { factDifferences, matchProfiles } from "../../proxy/placement/profile-match.ts";
import { type ProfileFacts, profiles } from "../../proxy/placement/profiles.ts";
import { runHeadgate } from "../support/cli-run.ts";
import { startClusters, startTestHeadgate } from "../support/headgate.ts";

/** Facts that no request asks for, and one that is deadly to ask. */
const notAsked: ReadonlySet<string> = new Set([
  "backend",
  "knowsSettings",
  "survivesUploadPartCopy",
]);

function settingName(fact: string): string {
  return fact.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function wantedFacts(facts: ProfileFacts): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(facts)
      .filter(([name]) => !notAsked.has(name))
      .map(([name, value]) => [settingName(name), value]),
  );
}

interface Probe {
  readonly best_profiles: readonly string[];
  readonly configured_profile: string;
  readonly differs: readonly string[];
  readonly best_differs: readonly string[];
  readonly facts: readonly { readonly fact: string; readonly seen: unknown }[];
}

function probeOf(body: unknown): Probe {
  return (body as { readonly probe: Probe }).probe;
}

for (const kind of ["aws", "rgw-pacific", "rgw-reef", "rgw-squid", "s3-generic"] as const) {
  t.test(`a probe finds ${kind}`, async (t) => {
    const facts = profiles[kind];
    const servers = await startClusters(t, ["a"], facts);
    const headgate = await startTestHeadgate(t, { clusters: { a: 1 }, servers });
    const { status, body } = await headgate.admin("POST", "/clusters/a/ping?probe=true");
    t.equal(status, 200);
    const probe = probeOf(body);
    const seen = Object.fromEntries(probe.facts.map(({ fact, seen: value }) => [fact, value]));
    const wanted = wantedFacts(facts);
    for (const [fact, value] of Object.entries(seen)) t.equal(value, wanted[fact], fact);
    t.strictSame(Object.keys(seen).sort(), Object.keys(wanted).sort());
    t.ok(probe.best_profiles.includes(kind), probe.best_profiles.join());
    t.equal(probe.configured_profile, "s3-generic");
    if (kind !== "s3-generic") t.ok(probe.differs.length > 0);
    t.strictSame(servers["a"]?.buckets(), [], "nothing is left behind");
    const asked = servers["a"]?.exchanges() ?? [];
    t.ok(asked.length > 20);
    const deadly = asked.filter(
      ({ target, rawHeaders }) =>
        target.includes("partNumber=") && rawHeaders.includes("x-amz-copy-source"),
    );
    t.strictSame(deadly, [], "no UploadPartCopy");
  });
}

t.test("a probe in a bucket that is named leaves its objects alone", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1 } });
  const server = headgate.clusters["a"];
  await headgate.s3.send(new CreateBucketCommand({ Bucket: "kept" }));
  await headgate.s3.send(new PutObjectCommand({ Bucket: "kept", Key: "object", Body: "x" }));
  const made = await headgate.admin("POST", "/clusters/a/ping?probe=true&bucket=kept");
  t.ok(probeOf(made.body).best_profiles.includes("aws"));
  t.strictSame(
    server?.objects("kept").map(({ key, bytes }) => `${key} ${bytes.toString()}`),
    ["object x"],
  );
  t.strictSame(server?.buckets(), ["kept"]);
  const none = await headgate.admin("POST", "/clusters/a/ping?probe=true&bucket=none-such");
  t.match(none.body, { probe: { failed: /No object can be put/ } });
});

t.test("ping says whether a cluster answers, and why not", async (t) => {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1 } });
  const ping = async (path: string) => await headgate.admin("POST", `/clusters/${path}`);
  const good = await ping("a/ping");
  t.match(good.body, { cluster: "a", reachable: true, status: 200, code: null });
  t.match(good.body, { clock_skew_ms: 0 });
  t.equal((await ping("b/ping")).status, 400);
  t.equal((await ping("a/ping?probe=maybe")).status, 400);
  t.equal((await ping("a/ping?bucket=..")).status, 400);
  headgate.clusters["a"]?.setFault(() => ({ status: 403, code: "InvalidAccessKeyId" }));
  t.match((await ping("a/ping")).body, { status: 403, code: "InvalidAccessKeyId" });
  t.match((await ping("a/ping?probe=true")).body, { probe: { failed: /No bucket can be made/ } });
  headgate.clusters["a"]?.setFault(() => "reset");
  t.match((await ping("a/ping")).body, { reachable: false, reason: /failed in/ });
  await headgate.clusters["a"]?.close();
  t.match((await ping("a/ping")).body, { reachable: false, reason: /ECONNREFUSED/ });
});

t.test("the command shows what was seen and exits as it was", async (t) => {
  const servers = await startClusters(t, ["a"], profiles["rgw-reef"]);
  const headgate = await startTestHeadgate(t, { clusters: { a: 1 }, servers });
  const run = async (rest: string) =>
    await runHeadgate(`cluster ping a ${rest} --admin-url ${headgate.adminUrl}`);
  const plain = await run("");
  t.equal(plain.exit, 0);
  t.match(plain.out, /^Cluster a answers 200 in [\d.]+ ms, clock 0 s ahead of ours\n$/);
  const probed = await run("--probe");
  t.equal(probed.exit, 0);
  t.match(probed.out, /^takes_trailers +yes +no$/m);
  t.match(probed.out, /^Profile that fits best: rgw-reef; configured: s3-generic$/m);
  t.match(probed.out, /^Facts that even that one has otherwise: nothing$/m);
  t.match(probed.out, /^Facts that the configuration has otherwise: .*takes_trailers/m);
  t.match(JSON.parse((await run("-o json")).out), { reachable: true });
  const none = await run("--bucket none-such");
  t.equal(none.exit, 1);
  t.match(none.out, "The probe failed: No object can be put");
  t.equal((await runHeadgate(`cluster ping x --admin-url ${headgate.adminUrl}`)).exit, 4);
  servers["a"]?.setFault(() => ({ status: 403, code: "InvalidAccessKeyId" }));
  const refused = await run("");
  t.equal(refused.exit, 1);
  t.match(refused.out, "answers 403 InvalidAccessKeyId");
  servers["a"]?.setFault(() => "reset");
  const away = await run("");
  t.equal(away.exit, 6);
  t.match(away.out, "Cluster a does not answer");
});

t.test("the profile that differs least is the best, and says where it differs", (t) => {
  t.strictSame(matchProfiles(profiles["rgw-pacific"]), {
    best: ["rgw-pacific", "rgw-quincy", "rgw-reef-early"],
    differences: [],
  });
  const odd = { ...profiles.aws, answersPartNumber: false };
  t.strictSame(matchProfiles(odd), { best: ["aws"], differences: ["answersPartNumber"] });
  t.strictSame(factDifferences({ takesTrailers: true }, profiles["s3-generic"]), ["takesTrailers"]);
  t.equal(matchProfiles({}).best.length, Object.keys(profiles).length, "nothing seen fits all");
  t.end();
});
