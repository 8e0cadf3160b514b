// Form uploads written by hand and signed by node:crypto alone: the bytes of multipart/form-data and the
// fields that S3 asks for.

import { createHmac } from "node:crypto";
import { CreateBucketCommand, ListMultipartUploadsCommand } from "@aws-sdk/client-s3";
import type { Test } from "tap";
import {
  clientKeys,
  startTestHeadgate,
  type TestHeadgate,
  type TestHeadgateOptions,
} from "./headgate.ts";

export const formEdge = "----headgate-test-edge";

export interface FormPart {
  readonly name: string;
  readonly value: string | Uint8Array;
  readonly filename?: string;
  /** Further header lines. */
  readonly lines?: readonly string[];
}

/** A whole form, the parts in their order. */
export function formBody(parts: readonly FormPart[], end = `\r\n--${formEdge}--\r\n`): Buffer {
  const bytes = parts.flatMap(({ name, value, filename, lines = [] }) => {
    const file = filename === undefined ? "" : `; filename="${filename}"`;
    const head = [`Content-Disposition: form-data; name="${name}"${file}`, ...lines];
    return [
      Buffer.from(`\r\n--${formEdge}\r\n${head.join("\r\n")}\r\n\r\n`, "utf8"),
      typeof value === "string" ? Buffer.from(value, "utf8") : Buffer.from(value),
    ];
  });
  return Buffer.concat([...bytes, Buffer.from(end)]).subarray(2);
}

export type Condition = Readonly<Record<string, string>> | readonly (string | number)[];

/** A policy document in base64. */
function policyText(conditions: readonly Condition[], seconds = 600): string {
  const expiration = new Date(Date.now() + seconds * 1000).toISOString();
  return Buffer.from(JSON.stringify({ expiration, conditions })).toString("base64");
}

type Keys = Pick<typeof clientKeys, "accessKeyId" | "secretAccessKey">;

/** The fields of a version 4 form. `conditions` are completed with those of the fields themselves. */
export function signedFields(
  conditions: readonly Condition[],
  options: { readonly keys?: Keys; readonly seconds?: number; readonly atMs?: number } = {},
): readonly FormPart[] {
  const { keys = clientKeys, atMs = Date.now() } = options;
  const amzDate = new Date(atMs).toISOString().replace(/[-:]|\.\d+/g, "");
  const scope = [amzDate.slice(0, 8), "us-east-1", "s3", "aws4_request"];
  const own = {
    "x-amz-algorithm": "AWS4-HMAC-SHA256",
    "x-amz-credential": [keys.accessKeyId, ...scope].join("/"),
    "x-amz-date": amzDate,
  };
  const policy = policyText(
    [...conditions, ...Object.entries(own).map(([name, value]) => ({ [name]: value }))],
    options.seconds,
  );
  let key: string | Buffer = `AWS4${keys.secretAccessKey}`;
  for (const part of scope) key = createHmac("sha256", key).update(part).digest();
  const signature = createHmac("sha256", key).update(policy).digest("hex");
  return Object.entries({ ...own, policy, "x-amz-signature": signature }).map(([name, value]) => ({
    name,
    value,
  }));
}

/** The fields of a version 2 form. */
export function signedFieldsV2(
  conditions: readonly Condition[],
  keys = clientKeys,
  seconds = 600,
): readonly FormPart[] {
  const policy = policyText(conditions, seconds);
  const signature = createHmac("sha1", keys.secretAccessKey).update(policy).digest("base64");
  return Object.entries({ AWSAccessKeyId: keys.accessKeyId, policy, signature }).map(
    ([name, value]) => ({ name, value }),
  );
}

// ---- a Headgate to post to ----

export const formBucket = "shown-forms";
export const formConditions: readonly Condition[] = [
  { bucket: formBucket },
  ["starts-with", "$key", ""],
];
export const formFile = (value: string | Uint8Array, filename = "a.txt"): FormPart => ({
  name: "file",
  value,
  filename,
});
export const formField = (name: string, value: string): FormPart => ({ name, value });

export async function startForForms(
  t: Test,
  options: TestHeadgateOptions = {},
): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(t, options);
  await headgate.s3.send(new CreateBucketCommand({ Bucket: formBucket }));
  return headgate;
}

export async function postForm(
  { url }: TestHeadgate,
  body: Uint8Array,
  headers: Readonly<Record<string, string>> = {},
) {
  const answer = await fetch(`${url}/${formBucket}`, {
    method: "POST",
    redirect: "manual",
    headers: { "content-type": `multipart/form-data; boundary=${formEdge}`, ...headers },
    body: Buffer.from(body),
  });
  const text = await answer.text();
  const code = /<Code>(\w+)<\/Code>/.exec(text)?.[1] ?? String(answer.status);
  return { status: answer.status, headers: answer.headers, text, code };
}

export const storedKeys = ({ clusters }: TestHeadgate): readonly string[] =>
  Object.values(clusters).flatMap((cluster) => cluster.objects(formBucket).map(({ key }) => key));

export async function openUploads({ s3 }: TestHeadgate): Promise<readonly unknown[]> {
  const listed = await s3.send(new ListMultipartUploadsCommand({ Bucket: formBucket }));
  return listed.Uploads ?? [];
}
