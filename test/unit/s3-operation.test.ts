// Which operation a request is, and that nothing unknown passes for a supported one.

import * as sdk from "@aws-sdk/client-s3";
import t from "tap";

import { parseAddress } from "../../proxy/s3/address.ts";
import { classifyOperation } from "../../proxy/s3/classify.ts";
import type { HeaderList } from "../../proxy/s3/headers.ts";
import { isOperation, type OperationFacts, operationFacts } from "../../proxy/s3/operation.ts";
import { subresources } from "../../proxy/s3/subresource.ts";
import { headOf } from "../support/s3-request.ts";

interface Seen {
  readonly operation: string | null;
  readonly code: string | null;
}

function classify(line: string, headers: HeaderList = []): Seen {
  const [method = "", target = ""] = line.split(" ");
  const head = headOf({ method, target, headers });
  const address = parseAddress(head, []);
  if (address.kind === "error") throw address.error;
  const result = classifyOperation(head, address);
  return { operation: result.operation, code: result.kind === "error" ? result.error.code : null };
}

t.test("requests of this release have their operation", async (t) => {
  const rows = [
    ["GET /", "ListBuckets"],
    ["GET /?x-id=ListBuckets&max-buckets=5", "ListBuckets"],
    ["PUT /b", "CreateBucket"],
    ["PUT /b/", "CreateBucket"],
    ["HEAD /b", "HeadBucket"],
    ["DELETE /b", "DeleteBucket"],
    ["GET /b", "ListObjects"],
    ["GET /b/", "ListObjects"],
    ["GET /b?prefix=a&delimiter=/&marker=x&max-keys=2&encoding-type=url", "ListObjects"],
    ["GET /b?list-type=2&start-after=a&continuation-token=t&fetch-owner=true", "ListObjectsV2"],
    ["GET /b?location", "GetBucketLocation"],
    ["GET /b?location=", "GetBucketLocation"],
    ["GET /b/k", "GetObject"],
    ["GET /b/k?versionId=null&partNumber=1&response-content-type=a&x-id=GetObject", "GetObject"],
    ["GET /b/k?v=17", "GetObject"],
    ["GET /b/k?X-Amz-Algorithm=a&X-Amz-Signature=b&x-custom", "GetObject"],
    ["HEAD /b/k?versionId=1", "HeadObject"],
    ["PUT /b/k?x-id=PutObject", "PutObject"],
    ["DELETE /b/k?versionId=1", "DeleteObject"],
    ["POST /b/k?uploads", "CreateMultipartUpload"],
    ["POST /b/k?uploads=", "CreateMultipartUpload"],
    ["PUT /b/k?partNumber=1&uploadId=u", "UploadPart"],
    ["POST /b/k?uploadId=u", "CompleteMultipartUpload"],
    ["DELETE /b/k?uploadId=u", "AbortMultipartUpload"],
    ["GET /b/k?uploadId=u&max-parts=3&part-number-marker=1", "ListParts"],
  ] as const;
  for (const [line, operation] of rows) {
    t.strictSame(classify(line), { operation, code: null }, line);
  }
});

t.test("copies, forms, preflights and lists have their own names", async (t) => {
  const copy: HeaderList = [["x-amz-copy-source", "/b/other"]];
  const form: HeaderList = [["content-type", "multipart/form-data; boundary=x"]];
  const rows = [
    ["POST /b?delete", "DeleteObjects", []],
    ["PUT /b/k", "CopyObject", copy],
    ["PUT /b/k?partNumber=1&uploadId=u", "UploadPartCopy", copy],
    // https://github.com/minio/minio/issues/7994
    ["POST /b", "PostObject", form],
    ["GET /b?versions", "ListObjectVersions", []],
    ["GET /b?uploads&prefix=a", "ListMultipartUploads", []],
    ["POST /", "ServiceAction", []],
    ["GET /?Action=ListUsers&Version=2010", "ServiceAction", []],
    // https://github.com/floci-io/floci/issues/2412
    ["OPTIONS /b/k", "OptionsObject", []],
    ["OPTIONS /", "OptionsObject", []],
    ["PUT /b/k?x-amz-copy-source=/b/other", null, []],
    ["PUT /b/k?X-Amz-Copy-Source=/b/other", null, []],
    ["PUT /b/k", null, [["x-amz-write-offset-bytes", "10"]]],
    ["PUT /b/k?x-amz-write-offset-bytes=10", null, []],
  ] as const;
  for (const [line, operation, headers] of rows) {
    const served =
      operation !== null && isOperation(operation) && operationFacts[operation].supported;
    const code = served ? null : "NotImplemented";
    t.strictSame(classify(line, headers), { operation, code }, line);
  }
});

function subresourceOf(operation: string): string | null {
  const facts: OperationFacts | null = isOperation(operation) ? operationFacts[operation] : null;
  return facts?.subresource ?? null;
}

t.test(
  "a sub-resource in either spelling is never a list, a read, a write or a delete",
  async (t) => {
    // https://github.com/curl/curl/issues/10129
    const scopes = [
      ["/b", subresources.bucket],
      ["/b/k", subresources.object],
    ] as const;
    for (const [path, names] of scopes) {
      t.ok(names.size > 10);
      for (const name of names.keys()) {
        for (const method of ["GET", "HEAD", "PUT", "DELETE", "POST"]) {
          for (const query of [name, `${name}=`, `${name}=x`, `x-id=a&${name}&prefix=p`]) {
            const line = `${method} ${path}?${query}`;
            const { operation, code } = classify(line);
            const fine =
              code === "NotImplemented" ||
              code === "MethodNotAllowed" ||
              (operation !== null && subresourceOf(operation) === name);
            if (!fine) t.fail(`${line} is ${operation}`);
          }
        }
      }
    }
  },
);

t.test("a name nobody knows yet is refused where it could change the request", async (t) => {
  const rows = [
    ["GET /b?newThing", null],
    ["GET /b/k?newThing=", null],
    ["GET /b/k?ACL", null],
    ["DELETE /b?newThing=1", null],
    ["DELETE /b?uploadId=1", null],
    ["PUT /b?prefix=1", null],
    ["PUT /b/k?newThing=1", null],
    ["DELETE /b/k?lifecycle=1", null],
    ["GET /b/k?versioning", null],
    ["GET /b?acl&newThing", null],
    ["PUT /b/k?acl&x-amz-copy-source=/b/other", null],
    ["PUT /b/k?acl&X-Amz-Rename-Source=a", null],
    ["PUT /b/k?acl&newThing=1", null],
    ["OPTIONS /b/k?x_amz_copy_source=/b/other", null],
  ] as const;
  for (const [line, operation] of rows) {
    t.strictSame(classify(line), { operation, code: "NotImplemented" }, line);
  }
});

t.test("methods and parameters that do not fit are refused", async (t) => {
  const rows = [
    ["PATCH /b/k", "MethodNotAllowed"],
    ["get /b/k", "MethodNotAllowed"],
    ["CONNECT /b", "MethodNotAllowed"],
    ["PUT /", "MethodNotAllowed"],
    ["HEAD /", "MethodNotAllowed"],
    ["POST /b", "MethodNotAllowed"],
    ["POST /b/k", "MethodNotAllowed"],
    ["HEAD /b/k?uploadId=u", "MethodNotAllowed"],
    ["GET /b/k?uploads", "MethodNotAllowed"],
    ["PUT /b?location", "MethodNotAllowed"],
    ["GET /b?delete", "MethodNotAllowed"],
    ["PUT /b/k?uploadId=u", "InvalidArgument"],
    ["PUT /b/k?partNumber=1", "InvalidArgument"],
    ["GET /b?acl&policy", "InvalidArgument"],
    ["GET /b?list-type=3", "InvalidArgument"],
    ["GET /b?list-type", "InvalidArgument"],
  ] as const;
  for (const [line, code] of rows) t.strictSame(classify(line), { operation: null, code }, line);
});

t.test("facts: what places bytes", async (t) => {
  const names = Object.entries(operationFacts).flatMap(([name, { places }]) =>
    places ? [name] : [],
  );
  t.strictSame(names, [
    "CreateBucket",
    "PostObject",
    "PutObject",
    "CopyObject",
    "AppendObject",
    "RenameObject",
    "CreateMultipartUpload",
  ]);
});

t.test("the names are those of a client's SDK, and a few that only Ceph RGW has", async (t) => {
  const commands = Object.keys(sdk)
    .filter((name) => name.endsWith("Command") && !name.startsWith("$"))
    .map((name) => name.slice(0, -"Command".length));
  t.ok(commands.length > 100);
  t.strictSame(
    commands.filter((name) => !Object.hasOwn(operationFacts, name)),
    [],
  );
  t.strictSame(
    Object.keys(operationFacts).filter((name) => !commands.includes(name)),
    [
      "GetUsage",
      "ServiceAction",
      "PostObject",
      "DeleteBucketNotification",
      "AppendObject",
      "OptionsObject",
    ],
  );
});
