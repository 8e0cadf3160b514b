// A Headgate over two clusters, one bucket on each and a source, and copies between them.

import {
  CopyObjectCommand,
  type CopyObjectCommandInput,
  CreateBucketCommand,
  GetObjectCommand,
  PutObjectCommand,
} from "@aws-sdk/client-s3";
import type { Test } from "tap";
import type { DemoFacts } from "../../proxy/demo/request.ts";
import { type ProfileName, profiles } from "../../proxy/placement/profiles.ts";
import { startClusters, startTestHeadgate, type TestHeadgate } from "./headgate.ts";

/** What clusters are, where it is not what their profile says. */
interface OtherClusters {
  readonly a?: DemoFacts;
  readonly b?: DemoFacts;
  /** As YAML flow, `{takes_trailers: false}`. */
  readonly overrides?: string;
}

/** `near` and `src` are on cluster a, `far` on b. */
export async function openCopies(
  test: Test,
  profile: ProfileName = "rgw-pacific",
  { a = profiles[profile], b = profiles[profile], overrides = "{}" }: OtherClusters = {},
): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(test, {
    clusters: { a: 1, b: 1 },
    servers: { ...(await startClusters(test, ["a"], a)), ...(await startClusters(test, ["b"], b)) },
    clusterSettings: `profile: ${profile}
    overrides: ${overrides}`,
  });
  for (const [bucket, cluster] of [
    ["src", "a"],
    ["near", "a"],
    ["far", "b"],
  ] as const) {
    await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
    const body = { placement: { [cluster]: 1 }, mode: "strict" };
    const { status } = await headgate.admin("PUT", `/buckets/${bucket}/placement`, body);
    test.equal(status, 204);
    await headgate.s3.send(new PutObjectCommand({ Bucket: bucket, Key: "mine/first", Body: "1" }));
  }
  return headgate;
}

/** What is kept with a source and comes back with it. */
export const describedFields = {
  ContentType: "text/x-source",
  CacheControl: "max-age=17",
  ContentDisposition: 'attachment; filename="x"',
  ContentEncoding: "gzip",
  ContentLanguage: "de",
  Metadata: { of: "source" },
};
const described = { ...describedFields, Tagging: "a=1&b=c%20d" };

export async function put(headgate: TestHeadgate, key: string, body: string | Uint8Array = key) {
  const command = new PutObjectCommand({ Bucket: "src", Key: key, Body: body, ...described });
  return await headgate.s3.send(command);
}

export async function copy(headgate: TestHeadgate, input: Partial<CopyObjectCommandInput>) {
  const { Bucket = "far", Key = "copy", CopySource = "src/k", ...rest } = input;
  return await headgate.s3.send(new CopyObjectCommand({ Bucket, Key, CopySource, ...rest }));
}

export async function bytesOf(
  headgate: TestHeadgate,
  Bucket: string,
  Key = "copy",
): Promise<string> {
  const answer = await headgate.s3.send(new GetObjectCommand({ Bucket, Key }));
  return (await answer.Body?.transformToString()) ?? "";
}

export function keys(headgate: TestHeadgate, bucket: "near" | "far"): readonly string[] {
  const cluster = headgate.clusters[bucket === "near" ? "a" : "b"];
  return cluster?.objects(bucket).map(({ key }) => key) ?? [];
}

/** `PUT /far/copy`, by cluster and in order, from `from` on. */
export function sent(headgate: TestHeadgate, id: "a" | "b", from = 0): readonly string[] {
  const exchanges = headgate.clusters[id]?.exchanges() ?? [];
  return exchanges.slice(from).map(({ method, target }) => `${method} ${target}`);
}

export function count(headgate: TestHeadgate, id: "a" | "b"): number {
  return headgate.clusters[id]?.exchanges().length ?? 0;
}

export function lastField(headgate: TestHeadgate, id: "a" | "b", name: string): string | undefined {
  const raw = headgate.clusters[id]?.exchanges().at(-1)?.rawHeaders ?? [];
  return raw[raw.findIndex((text, index) => index % 2 === 0 && text === name) + 1];
}
