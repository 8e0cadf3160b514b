// Two Headgates over the same clusters that write one setting of a bucket at once, in every order in which
// their writes can come to the clusters.

import {
  CreateBucketCommand,
  DeleteBucketTaggingCommand,
  GetBucketTaggingCommand,
  HeadBucketCommand,
  PutBucketTaggingCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { handClock } from "../support/hand-clock.ts";
import { clusterKeys, startClusters, startTestHeadgate } from "../support/headgate.ts";
import { type HoldingRelay, holdingRelay } from "../support/holding-relay.ts";

const Bucket = "shared";

/** It writes through relays of its own, so that its requests are told from the other one's. */
async function writer(t: Test, servers: Awaited<ReturnType<typeof startClusters>>) {
  const endpoints: Record<string, string> = {};
  const relays: HoldingRelay[] = [];
  for (const [id, { url }] of Object.entries(servers)) {
    const relay = await holdingRelay(t, url);
    endpoints[id] = relay.url;
    relays.push(relay);
  }
  const clusters = Object.fromEntries(Object.keys(servers).map((id) => [id, 1]));
  // What it would do later by itself it never does.
  const { timers } = handClock();
  const options = { servers, clusters, endpoints, timers };
  const { s3, client, logLines } = await startTestHeadgate(t, options);
  return { s3, client, relays, logLines };
}

/** `[0, 0, 1, 1]`, `[0, 1, 0, 1]`, …: which of two writes next, each so many times. */
function ordersOf(ones: number, others: number): readonly (readonly (0 | 1)[])[] {
  if (ones === 0 && others === 0) return [[]];
  const first = ones === 0 ? [] : ordersOf(ones - 1, others).map((rest) => [0, ...rest] as const);
  const second =
    others === 0 ? [] : ordersOf(ones, others - 1).map((rest) => [1, ...rest] as const);
  return [...first, ...second];
}

async function tagOf(s3: S3Client): Promise<string | undefined> {
  try {
    return (await s3.send(new GetBucketTaggingCommand({ Bucket }))).TagSet?.[0]?.Value;
  } catch (caught) {
    if (caught instanceof Error && caught.name === "NoSuchTagSet") return undefined;
    throw caught;
  }
}

/** Without a value it is taken away. */
async function write(s3: S3Client, value?: string): Promise<number | undefined> {
  const { $metadata } =
    value === undefined
      ? await s3.send(new DeleteBucketTaggingCommand({ Bucket }))
      : await s3.send(
          new PutBucketTaggingCommand({
            Bucket,
            Tagging: { TagSet: [{ Key: "w", Value: value }] },
          }),
        );
  return $metadata.httpStatusCode;
}

for (const ids of [
  ["a", "b"],
  ["a", "b", "c"],
]) {
  t.test(`over ${ids.length} clusters they leave what one of them wrote`, async (t) => {
    const servers = await startClusters(t, ids);
    const writers = [await writer(t, servers), await writer(t, servers)] as const;
    await writers[0].s3.send(new CreateBucketCommand({ Bucket }));
    await writers[1].s3.send(new HeadBucketCommand({ Bucket }));
    const direct = ids.map((id) =>
      writers[0].client({ endpoint: servers[id]?.url ?? "", credentials: clusterKeys }),
    );
    let drifted = 0;
    // Which of the two is called the one makes no difference.
    for (const order of ordersOf(ids.length, ids.length).filter(([who]) => who === 0)) {
      const name = order.join("");
      // The relays hold what a client wrote; what a writer sends beyond that passes.
      for (const { relays } of writers) {
        for (const relay of relays) {
          let isFirst = true;
          relay.holds = (request) => {
            const isHeld = isFirst && /^(?:PUT|DELETE) \/shared\?tagging/.test(request);
            if (isHeld) isFirst = false;
            return isHeld;
          };
        }
      }
      const takesAway = order[1] === 1;
      const values = [`one ${name}`, takesAway ? undefined : `two ${name}`] as const;
      const running = [write(writers[0].s3, values[0]), write(writers[1].s3, values[1])] as const;
      const before = writers.map(({ logLines }) => logLines.length);
      const turns = { 0: 0, 1: 0 };
      for (const who of order) {
        // The first cluster is written last.
        turns[who] += 1;
        const held = await writers[who].relays.at(-turns[who])?.held();
        await held?.pass();
        if (turns[who] === ids.length) await running[who];
      }
      t.strictSame(await Promise.all(running), [200, takesAway ? 204 : 200]);
      const told = await Promise.all(direct.map(tagOf));
      t.equal(new Set(told).size, 1, `${name}: all say the same`);
      t.ok([...values].includes(told[0]), `${name}: ${told[0]}`);
      const lines = writers.flatMap(({ logLines }, who) => logLines.slice(before[who]));
      const healed = lines.filter(({ fields }) => fields["outcome"] === "healed");
      if (healed.length > 0) drifted += 1;
    }
    t.ok(drifted > 1, `${drifted} orders left drift to their writers`);
  });
}
