// The probe on real radosgw daemons: it finds what they are, and they live on. Profiles that differ in
// nothing a probe sees are named together.

import { ListBucketsCommand } from "@aws-sdk/client-s3";
import t from "tap";
import { withLab } from "./support/lab.ts";
import { profileOf } from "./support/services.ts";

const found = {
  16: ["rgw-pacific", "rgw-quincy", "rgw-reef-early"],
  18: ["rgw-reef"],
} as const;

withLab(t, [], async (lab, test) => {
  const { generation } = lab.rgw;
  const headgate = await lab.headgate({
    name: "ping",
    clusters: lab.clusters({ a: 1, b: 1 }),
    prefix: "/headgate-ping/",
  });

  for (const id of ["a", "b"] as const) {
    test(`the probe finds what cluster ${id} is and leaves nothing behind`, async (t) => {
      const { body } = await headgate.admin("POST", `/clusters/${id}/ping?probe=true`, {});
      t.match(body, { reachable: true, status: 200, code: null });
      t.match(body, { probe: { configured_profile: profileOf[generation], differs: [] } });
      t.match(body, { probe: { best_profiles: found[generation] } });
      const { Buckets = [] } = await lab.direct(id).send(new ListBucketsCommand({}));
      t.notOk(Buckets.some(({ Name }) => Name?.startsWith("headgate-probe-")));
    });
  }
});
