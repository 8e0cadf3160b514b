// Rows of the table of deaths for every setting that a bucket or an object can have: made from the table
// of operations, so that none is left out.

import { contentMd5 } from "../../proxy/s3/content-md5.ts";
import { isOperation, type OperationFacts, operationFacts } from "../../proxy/s3/operation.ts";
import type { LossCase, LossState } from "./loss-case.ts";
import type { LossRequest } from "./loss-request.ts";
import type { LossRow } from "./loss-rows.ts";

const policy = (bucket: string): string =>
  JSON.stringify({
    Version: "2012-10-17",
    Statement: [
      {
        Effect: "Deny",
        Principal: "*",
        Action: "s3:GetObjectTorrent",
        Resource: `arn:aws:s3:::${bucket.slice(1)}/*`,
      },
    ],
  });

const tags = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>";

/** Documents that clusters take; anything else has no setting of that name, or takes none. */
const documents: Readonly<Record<string, string>> = {
  cors: "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>https://a.example</AllowedOrigin></CORSRule></CORSConfiguration>",
  lifecycle:
    "<LifecycleConfiguration><Rule><ID>r</ID><Prefix>tmp/</Prefix><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule></LifecycleConfiguration>",
  tagging: tags,
  website:
    "<WebsiteConfiguration><IndexDocument><Suffix>i.html</Suffix></IndexDocument></WebsiteConfiguration>",
  notification: "<NotificationConfiguration></NotificationConfiguration>",
  requestPayment:
    "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>",
  logging: "<BucketLoggingStatus></BucketLoggingStatus>",
  versioning: "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>",
  "object-lock":
    "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>",
  publicAccessBlock:
    "<PublicAccessBlockConfiguration><BlockPublicAcls>true</BlockPublicAcls></PublicAccessBlockConfiguration>",
  "legal-hold": "<LegalHold><Status>ON</Status></LegalHold>",
  retention:
    "<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2099-01-01T00:00:00Z</RetainUntilDate></Retention>",
  restore: "<RestoreRequest><Days>1</Days></RestoreRequest>",
  select:
    "<SelectObjectContentRequest><Expression>select * from stdin</Expression><ExpressionType>SQL</ExpressionType><InputSerialization><CSV/></InputSerialization><OutputSerialization><CSV/></OutputSerialization></SelectObjectContentRequest>",
};

function writing(path: string, facts: OperationFacts): LossRequest {
  const subresource = facts.subresource ?? "";
  const { method } = facts;
  const query = queryOf(facts);
  if (subresource === "acl") {
    return { method, path, query, headers: [["x-amz-acl", "public-read"]] };
  }
  const body =
    subresource === "policy" ? policy(path) : (documents[subresource] ?? "<Configuration/>");
  return { method, path, query, body, headers: [["content-md5", contentMd5(Buffer.from(body))]] };
}

function queryOf({ subresource, parameter }: OperationFacts): string {
  if (subresource === "select") return "select=&select-type=2";
  return parameter === null ? `${subresource}=` : `${subresource}=&${parameter}=x`;
}

/** What a setting is before it is read or taken away. */
async function have(at: LossCase, path: string, facts: OperationFacts): Promise<void> {
  const { supported }: OperationFacts = facts;
  if (supported) await at.send(writing(path, { ...facts, method: "PUT" }));
}

function settingRow(operation: keyof typeof operationFacts): LossRow {
  const facts: OperationFacts = operationFacts[operation];
  const { method, scope, subresource } = facts;
  const isOwn = scope === "bucket";
  const pathOf = (at: LossCase): string => (isOwn ? at.ownBucket : at.on(at.home));
  const reads = method === "GET" || subresource === "select";
  const state = async (at: LossCase): Promise<LossState> =>
    subresource === "versioning"
      ? await versioned(at)
      : await at.setting(pathOf(at), `${subresource}=`);
  return {
    operation,
    name: operation,
    ...triedOf(operation, facts),
    async setUp(at) {
      const path = pathOf(at);
      await at.put(path, isOwn ? "" : "1,2\n");
      if (method === "GET" || method === "DELETE") await have(at, path, facts);
      const request =
        method === "PUT" || method === "POST"
          ? writing(path, facts)
          : { method, path, query: queryOf(facts) };
      return () => at.send(request);
    },
    state: reads ? null : state,
    streams: reads,
  };
}

/** Settings are one code; the one of them that is tried whole is CORS, and tags of an object. */
function triedOf(operation: string, { routing, scope, subresource }: OperationFacts) {
  if (routing === "single") return { tried: "exchanges" } as const;
  const isWhole = subresource === (scope === "bucket" ? "cors" : "tagging");
  return isWhole || operation === "GetBucketEncryption" ? {} : ({ tried: "two" } as const);
}

/** A bucket becomes versioned on one cluster; which one that is follows from its name. */
async function versioned(at: LossCase): Promise<LossState> {
  const told = Object.values(await at.setting(at.ownBucket, "versioning="));
  const count = told.filter((text) => text.includes("<Status>Enabled</Status>")).length;
  return { "clusters where it is versioned": String(count) };
}

/** All that a sub-resource names and that is served by the table of sub-resources alone. */
export const settingRows: readonly LossRow[] = Object.keys(operationFacts)
  .filter(isOperation)
  .filter((operation) => {
    const { supported, scope, subresource, routing }: OperationFacts = operationFacts[operation];
    if (!supported || subresource === null || scope === "service") return false;
    if (subresource === "attributes" || subresource === "append") return false;
    return scope === "bucket"
      ? routing === "first" || routing === "every" || routing === "single"
      : routing === "owner" && operation !== "CreateMultipartUpload";
  })
  .map(settingRow);
