// A bucket of which clusters lost their part, behind Headgate or because they carried a request out late: it
// becomes whole again with its settings, and what is made anew is never taken for the word of the others.

import {
  CreateBucketCommand,
  DeleteBucketCommand,
  GetBucketPolicyCommand,
  PutBucketPolicyCommand,
  type S3Client,
} from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { clusterKeys, startTestHeadgate } from "../support/headgate.ts";
import { until } from "../support/raw-http.ts";

const unavailable = { name: "ServiceUnavailable", $metadata: { httpStatusCode: 503 } };
const Bucket = "whole";
const Policy = JSON.stringify({
  Version: "2012-10-17",
  Statement: [
    {
      Effect: "Deny",
      Principal: "*",
      Action: "s3:DeleteObject",
      Resource: `arn:aws:s3:::${Bucket}/*`,
    },
  ],
});

async function scene(t: Test) {
  const headgate = await startTestHeadgate(t, { clusters: { a: 1, b: 1 } });
  const { s3, clusters, client } = headgate;
  await s3.send(new CreateBucketCommand({ Bucket }));
  await s3.send(new PutBucketPolicyCommand({ Bucket, Policy }));
  const direct = (id: string): S3Client =>
    client({ endpoint: clusters[id]?.url ?? "", credentials: clusterKeys });
  /** Cluster → its policy; `null`: it has no bucket. */
  const policies = async (): Promise<readonly (string | null | undefined)[]> =>
    Promise.all(
      ["a", "b"].map(async (id) => {
        if (!clusters[id]?.buckets().some((name) => name === Bucket)) return null;
        const got = await direct(id)
          .send(new GetBucketPolicyCommand({ Bucket }))
          .catch(() => null);
        return got?.Policy;
      }),
    );
  return { ...headgate, direct, policies };
}

t.test("a bucket made again where one cluster lost it has its settings there", async (t) => {
  const { s3, direct, policies, admin } = await scene(t);
  for (const id of ["a", "b"]) {
    await direct(id).send(new DeleteBucketCommand({ Bucket }));
    await s3.send(new CreateBucketCommand({ Bucket }));
    t.strictSame(await policies(), [Policy, Policy], id);
    t.equal((await s3.send(new GetBucketPolicyCommand({ Bucket }))).Policy, Policy);
  }
  const { body } = await admin("POST", `/buckets/${Bucket}/drift`, {});
  t.match(body, { drift: [] });
  t.strictSame(await policies(), [Policy, Policy]);
});

t.test(
  "where its settings cannot be copied nothing bare is left, and an errand ends it",
  async (t) => {
    const { s3, clusters, direct, policies, admin } = await scene(t);
    await direct("a").send(new DeleteBucketCommand({ Bucket }));
    for (const fault of [{ status: 400 }, { status: 503 }, "reset"] as const) {
      clusters["a"]?.setFault(({ method, target }) =>
        method === "PUT" && target.includes("?policy") ? fault : null,
      );
      await t.rejects(s3.send(new CreateBucketCommand({ Bucket })), unavailable);
      t.strictSame(await policies(), [null, Policy]);
      t.match(await admin("GET", `/buckets/${Bucket}`), { body: { phase: "settled" } });
    }
    // It can be made there neither bare nor whole, and not be taken away.
    clusters["a"]?.setFault(({ method, target }) =>
      target.includes("?policy") || method === "DELETE" ? { status: 503 } : null,
    );
    await t.rejects(s3.send(new CreateBucketCommand({ Bucket })), unavailable);
    clusters["a"]?.setFault(null);
    t.strictSame(await policies(), [undefined, Policy]);
    await until(async () => (await policies())[0] === Policy);
    t.strictSame(
      await policies(),
      [Policy, Policy],
      "the bare one has not been taken for their word",
    );
  },
);
