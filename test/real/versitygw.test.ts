// Uploads in every form and with every fault through Headgate over versitygw, a server that verifies
// trailers and checksums itself: what Headgate hands on is right to a judge who is not of its making, and
// checksums are kept with the objects.

import { CreateBucketCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { profileFacts } from "../../proxy/placement/profiles.ts";
import { clusterKeys, startTestHeadgate } from "../support/headgate.ts";
import { requireCommands } from "../support/requires.ts";
import { bodyOf, uploadRows } from "../support/upload-matrix.ts";
import { endedIn } from "../support/upload-matrix-demo.ts";
import { runMatrix } from "../support/upload-matrix-run.ts";
import { objectsOf } from "./support/matrix-objects.ts";
import { s3Client } from "./support/s3.ts";
import { startVersitygw, versityInstallLine } from "./support/versitygw.ts";

const requirement = requireCommands(t, ["versitygw"], versityInstallLine);

/** What versitygw does otherwise than AWS; found by `cluster ping --probe`. */
const overrides =
  "keeps_aws_chunked: true, reads_conditions_fully: false, honours_conditional_copy: false";

t.test("versitygw", requirement, async (t) => {
  const versitygw = await startVersitygw(clusterKeys);
  t.teardown(() => versitygw.stop());
  const direct = s3Client(versitygw.url, clusterKeys);
  t.teardown(() => direct.destroy());
  const headgate = await startTestHeadgate(t, {
    clusters: { v: 1 },
    servers: {},
    endpoints: { v: versitygw.url },
    clusterSettings: `profile: aws
    overrides: {${overrides}}`,
  });

  await t.test("every payload and fault comes out as it must", async (t) => {
    let buckets = 0;
    const rows = uploadRows({ auths: ["header"], bodies: [0, 65_536, 200_000].map(bodyOf) });
    t.equal(rows.length, 439);
    const wrong = await runMatrix(
      {
        url: headgate.url,
        facts: { ...profileFacts("aws"), keepsAwsChunked: true },
        algorithms: ["crc32"],
        async bucket() {
          buckets += 1;
          const Bucket = `matrix-${buckets}`;
          await headgate.s3.send(new CreateBucketCommand({ Bucket }));
          return Bucket;
        },
        objects: objectsOf(direct),
        ended: endedIn(headgate),
      },
      rows,
    );
    t.strictSame(wrong, []);
  });

  await t.test("the probe finds it to be like AWS, but for what is overridden", async (t) => {
    const { body } = await headgate.admin("POST", "/clusters/v/ping?probe=true");
    t.match(body, { reachable: true, status: 200, probe: { best_profiles: ["aws"] } });
    t.match(body, { probe: { configured_profile: "aws", differs: [] } });
  });
});
