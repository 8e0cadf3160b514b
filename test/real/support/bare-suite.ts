// What a radosgw does for a client it does through Headgate, too: each row of the table of deaths, with
// nobody dying, sent to a bare radosgw and through Headgate over two. A status of success there that is
// none here is a defect, unless it stands below with its reason.

import type { Test } from "tap";
import { LossCase, type LossScene, prepare } from "../../support/loss-case.ts";
import { type LossRow, lossRows } from "../../support/loss-rows.ts";
import { clientPair, type Headgate } from "./headgate.ts";
import type { Lab } from "./lab.ts";
import { inParallel } from "./s3.ts";
import { type Generation, rgwPair } from "./services.ts";

/** Rows that a bare radosgw answers otherwise, and what is answered here. */
function otherwise(generation: Generation): readonly string[] {
  const accidents = [
    "GetBucketAnalyticsConfiguration",
    "GetBucketIntelligentTieringConfiguration",
    "GetBucketInventoryConfiguration",
    "GetBucketMetricsConfiguration",
    "GetBucketOwnershipControls",
    ...(generation === 16 ? ["GetBucketEncryption"] : []),
  ];
  return [
    // It lists the bucket.
    ...accidents.map((name) => `${name}: 200, here 404`),
    // Of the clusters' own user, whose usage is nobody else's business.
    "GetUsage: 200, here 501",
  ].sort();
}

const width = 4;

export async function barelyTheSame(t: Test, lab: Lab, headgate: Headgate): Promise<void> {
  const bare = { url: lab.rgw.url("a"), keys: rgwPair };
  const direct = { a: bare, b: { url: lab.rgw.url("b"), keys: rgwPair } };
  const { adminUrl } = headgate;
  const scenes: Readonly<Record<"bare" | "thru", LossScene>> = {
    bare: { headgate: bare, adminUrl, direct: { a: bare, b: bare }, bucket: "bare-shared" },
    thru: {
      headgate: { url: headgate.url, keys: clientPair },
      adminUrl,
      direct,
      bucket: "thru-shared",
    },
  };
  for (const scene of [scenes.bare, scenes.thru]) await prepare(scene);
  // A bare radosgw 16.2 aborts on the signed form of these rows.
  const rows = lossRows.filter(({ operation }) => operation !== null && operation !== "PostObject");
  const seen: { readonly row: LossRow; readonly bare: number; readonly thru: number }[] = [];
  await inParallel([...rows.entries()], width, async ([index, row]) => {
    const bare = await statusOf(row, new LossCase(scenes.bare, `bare-${index}x`, "a"));
    const thru = await statusOf(row, new LossCase(scenes.thru, `thru-${index}x`, "a"));
    seen.push({ row, bare, thru });
  });
  const less = seen.filter(({ bare, thru }) => isDone(bare) && !isDone(thru));
  t.strictSame(
    less.map(({ row, bare, thru }) => `${row.name}: ${bare}, here ${thru}`).sort(),
    otherwise(lab.rgw.generation),
  );
  t.ok(seen.filter(({ bare }) => isDone(bare)).length > 60, "most rows are done by a bare one");
}

async function statusOf(row: LossRow, at: LossCase): Promise<number> {
  const send = await row.setUp(at);
  return (await send()).status;
}

function isDone(status: number): boolean {
  return status >= 200 && status < 300;
}
