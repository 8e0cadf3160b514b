// What is taken for true of a cluster once its answers have shown what it is.

import t from "tap";
import { ClusterFacts, type ProfileMismatch } from "../../proxy/placement/cluster-facts.ts";
import {
  type FactOverrides,
  type ProfileName,
  profileFacts,
  profileNames,
  profiles,
} from "../../proxy/placement/profiles.ts";
import { serverKind } from "../../proxy/placement/server-kind.ts";
import type { HeaderList } from "../../proxy/s3/headers.ts";
import { type ClusterId, parseClusterId } from "../../proxy/s3/names.ts";

const rgwId: HeaderList = [["x-amz-request-id", "tx00000b257c898f9090b59-006b0ce48e-1052-a"]];
const awsId: HeaderList = [["x-amz-request-id", "5F1C9A0B3D7E2468"]];

t.test("an answer tells the kind of its server, or nothing", async (t) => {
  const rows: readonly (readonly [HeaderList, string | null])[] = [
    [rgwId, "rgw"],
    [[["x-amz-request-id", "tx00000459f01f6fdf94468-006b0d2a68-106c-default"]], "rgw"],
    [[["x-rgw-object-type", "Normal"]], "rgw"],
    [
      [
        ["x-amz-request-id", "5F1C9A0B3D7E2468"],
        ["x-rgw-bucket-count", "1"],
      ],
      "rgw",
    ],
    [awsId, "other"],
    // OpenStack Swift's S3 API: like an RGW's, without instance and zone.
    [[["x-amz-request-id", "txd6c7e6a0a0a54d3aa4a1b-0062d5e1f3"]], "other"],
    [[["x-amz-request-id", ""]], "other"],
    [
      [
        ["server", "nginx"],
        ["x-amz-id-2", "tx"],
      ],
      null,
    ],
    [[], null],
  ];
  for (const [headers, kind] of rows) t.equal(serverKind(headers), kind, JSON.stringify(headers));
});

function id(text: string): ClusterId {
  const parsed = parseClusterId(text);
  if (parsed === null) throw new Error("No id");
  return parsed;
}

const cluster = id("c");

function factsOf(profile: string, overrides?: FactOverrides) {
  const said: ProfileMismatch[] = [];
  const facts = new ClusterFacts({
    configured: () => ({ profile, overrides }),
    onMismatch: (_, mismatch) => said.push(mismatch),
  });
  return { facts, said };
}

t.test("a profile counts as long as nothing belies it", async (t) => {
  for (const profile of profileNames) {
    const { facts, said } = factsOf(profile);
    const own = profileFacts(profile).backend === "rgw" ? rgwId : awsId;
    t.equal(facts.isShown(cluster), false);
    t.equal(facts.note(cluster, { status: 503, headers: [] }), false, "somebody in between");
    t.equal(facts.isShown(cluster), false);
    t.equal(facts.note(cluster, { status: 404, headers: [] }), false, "it may still tell");
    t.equal(facts.isShown(cluster), true);
    t.equal(facts.note(cluster, { status: 503, headers: own }), true);
    t.equal(facts.of(cluster), profileFacts(profile), profile);
    t.strictSame([facts.mismatch(cluster), said], [null, []]);
  }
});

t.test("of a server of another kind only what both kinds do is believed", async (t) => {
  const cautious = new Map<string, unknown>(Object.entries(profiles["s3-generic"]));
  for (const profile of profileNames) {
    const configured = profileFacts(profile);
    const isRgw = configured.backend === "rgw";
    const { facts, said } = factsOf(profile);
    for (let times = 0; times < 3; times += 1) {
      facts.note(cluster, { status: 200, headers: isRgw ? awsId : rgwId });
    }
    const believed = facts.of(cluster);
    t.equal(facts.of(cluster), believed, "made once");
    t.equal(believed.backend, isRgw ? "s3" : "rgw");
    const least = new Map<string, unknown>(
      Object.entries(profiles[isRgw ? "s3-generic" : "rgw-pacific"]),
    );
    const own = new Map<string, unknown>(Object.entries(configured));
    for (const [name, value] of Object.entries(believed)) {
      if (name === "backend" || name === "conditionalEtagQuotes") continue;
      const wanted = own.get(name) === least.get(name) ? own.get(name) : cautious.get(name);
      t.equal(value, wanted, `${profile} ${name}`);
    }
    t.equal(said.length, profile === "s3-generic" ? 0 : 1, `${profile}, said once`);
    if (profile === "aws") t.equal(believed.conditionalEtagQuotes, "strip");
  }
});

t.test("overrides count, also where they are all that was wrong", async (t) => {
  const all: FactOverrides = { ...profiles["rgw-pacific"] };
  const { facts, said } = factsOf("aws", all);
  facts.note(cluster, { status: 200, headers: rgwId });
  t.strictSame(said, []);
  t.equal(facts.kind(cluster), "rgw");
  const one = factsOf("aws", { honoursConditionalDelete: true });
  one.facts.note(cluster, { status: 200, headers: rgwId });
  t.equal(one.facts.of(cluster).honoursConditionalDelete, true);
  t.notOk(one.said[0]?.facts.includes("honoursConditionalDelete"));
  t.ok(one.said[0]?.facts.includes("honoursConditionalCopy"));
});

t.test(
  "what is seen is a cluster's own, and behind several servers the least of them",
  async (t) => {
    const { facts } = factsOf("rgw-reef" satisfies ProfileName);
    facts.note(id("other"), { status: 200, headers: awsId });
    facts.note(cluster, { status: 200, headers: rgwId });
    t.equal(facts.of(cluster), profiles["rgw-reef"]);
    facts.note(cluster, { status: 200, headers: awsId });
    t.equal(facts.of(cluster).honoursConditionalPut, false);
    facts.note(cluster, { status: 200, headers: rgwId });
    t.equal(facts.of(cluster).honoursConditionalPut, false);
  },
);
