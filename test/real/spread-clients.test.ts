// Real clients on buckets that are spread by object over two RGWs: they walk the same steps as on one
// cluster, and what they leave is whole, each object on one cluster and on both of them some.

import t from "tap";
import { ClientRuns, checkKept, checkSteps } from "./support/client-matrix.ts";
import { clientInstallLine, clientPrograms } from "./support/client-programs.ts";
import { withLab } from "./support/lab.ts";
import { keysOf } from "./support/s3.ts";

const names = new Set(["cli2", "s3cmd", "rclone", "restic", "boto-old", "boto-new"]);
const programs = clientPrograms.filter(({ name }) => names.has(name));

withLab(
  t,
  [...new Set(programs.flatMap(({ needs }) => needs))],
  async (lab, test) => {
    const headgate = await lab.headgate({
      name: "spread",
      clusters: lab.clusters({ a: 1, b: 1 }),
      prefix: "/headgate-spread/",
      sigv2: true,
    });
    const clients = new ClientRuns(lab, [headgate], { programs });
    for (const { program, outcome } of clients.runs) {
      test(`${program.title} over two clusters`, async (t) => {
        checkSteps(t, program, await outcome);
      });
    }
    test("what clients left over two clusters is whole, and on both", async (t) => {
      const client = lab.client(headgate);
      const held = { a: 0, b: 0 };
      for (const run of clients.runs) {
        await checkKept(t, client, run);
        const [onA, onB] = await Promise.all([
          keysOf(lab.direct("a"), run.bucket),
          keysOf(lab.direct("b"), run.bucket),
        ]);
        held.a += onA.length;
        held.b += onB.length;
        t.strictSame(
          [...onA, ...onB].toSorted((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y))),
          await keysOf(client, run.bucket, 3),
          "each on one cluster, and one list in small pages shows them all",
        );
      }
      t.ok(held.a > 20 && held.b > 20, `${held.a} and ${held.b} objects`);
    });
  },
  { timeoutMs: 560_000, install: clientInstallLine },
);
