// The same random requests, signed by AWS's own signers, asked of Headgate and of the RGW behind it:
// both accept the same ones, but where a case names beforehand why they differ. More cases or another
// seed: HEADGATE_DIFFERENTIAL_CASES, HEADGATE_DIFFERENTIAL_SEED.

import { CreateBucketCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { compare, dnsName, makeCases } from "./support/differential.ts";
import { type Lab, type RealTest, withLab } from "./support/lab.ts";
import { rgwPair } from "./support/services.ts";

const count = Number(process.env["HEADGATE_DIFFERENTIAL_CASES"] ?? 600);

async function testDifferential(lab: Lab, test: RealTest): Promise<void> {
  const headgate = await lab.headgate({
    name: "differential",
    clusters: lab.clusters({ a: 1, b: 0 }).slice(0, 1),
    prefix: "/headgate-differential/",
    client: rgwPair,
    baseDomains: [dnsName],
    sigv2: true,
  });
  const bucket = "differential";
  await lab.direct("a").send(new CreateBucketCommand({ Bucket: bucket }));

  test("requests are accepted by Headgate if and only if the RGW accepts them", async (t) => {
    const seed = Number(process.env["HEADGATE_DIFFERENTIAL_SEED"] ?? 20_261_130);
    const cases = await makeCases(count, { seed, bucket, pair: rgwPair });
    const servers = { ours: headgate.url, theirs: lab.rgw.url("a") };
    const { accepted, refused, exceptions, differences } = await compare(cases, servers);
    t.comment(`${count} cases from seed ${seed}: ${accepted} accepted, ${refused} refused`);
    for (const [why, times] of exceptions) t.comment(`${times} times ${why}`);
    t.strictSame(differences.slice(0, 20), [], `of ${differences.length}`);
    t.ok(accepted > count / 3, "enough cases were accepted to say something");
    t.ok(refused > count / 5, "enough cases were refused to say something");
  });
}

withLab(t, [], testDifferential, { dnsName, timeoutMs: 280_000 + count * 50 });
