// What is refused, or not asked at all, before a cluster could take it for something else.

import t from "tap";
import { decisionInput, type InputFacts } from "../../proxy/gateway/decision-input.ts";
import type { OperationPorts, OperationRequest } from "../../proxy/operations/context.ts";
import { FramingProof } from "../../proxy/operations/framing-proof.ts";
import { selectContent } from "../../proxy/operations/object-setting.ts";
import { uploadRefusal } from "../../proxy/operations/upload-permission.ts";
import { putConditions } from "../../proxy/operations/write-conditions.ts";
import { type ProfileName, profileFacts } from "../../proxy/placement/profiles.ts";
import { readAuthorization } from "../../proxy/s3/authorization.ts";
import type { ClusterId } from "../../proxy/s3/names.ts";
import { readPayload } from "../../proxy/s3/payload.ts";
import { headOf } from "../support/s3-request.ts";

function only<T>(given: unknown): T {
  return given as T;
}

const cluster = only<ClusterId>("a");

t.test("an upload that cannot succeed is tried only where it surely does not", async (t) => {
  const body = { lengthBytes: 5, sha256: null, waitsForContinue: true };
  const request = only<OperationRequest>({
    operation: "PutObject",
    identity: { kind: "anonymous" },
    body,
    headers: [],
    query: [],
  });
  const asks = async (profile: ProfileName): Promise<boolean> => {
    let asked = false;
    const send = (): Promise<unknown> => {
      asked = true;
      const upstream = { status: 412, headers: [], body: { cancel: () => undefined } };
      return Promise.resolve({ ...upstream, body: Object.assign(emptyBody(), upstream.body) });
    };
    const facts = profileFacts(profile, undefined);
    const ports = { facts: () => facts, isShown: () => true, upstream: { send } };
    await uploadRefusal(request, only<OperationPorts>(ports), cluster);
    return asked;
  };
  t.equal(await asks("rgw-pacific"), true);
  t.equal(await asks("rgw-squid"), true);
  t.equal(await asks("aws"), true);
  t.equal(await asks("s3-generic"), false);
});

t.test("an anonymous caller begins no upload to find out what a cluster takes", async (t) => {
  const send = (): never => t.fail("asked") as never;
  const facts = profileFacts("aws", undefined);
  const ports = only<OperationPorts>({
    facts: () => facts,
    isShown: () => true,
    upstream: { send },
  });
  const request = only<OperationRequest>({ identity: { kind: "anonymous" } });
  for (const isShown of [false, true]) {
    const proof = new FramingProof({ isShown: () => isShown, note: () => undefined });
    t.equal((await proof.facts(cluster, request, ports)).takesTrailers, isShown);
  }
});

async function* emptyBody(): AsyncGenerator<Uint8Array> {}

t.test("SelectObjectContent needs a document", async (t) => {
  const request = only<OperationRequest>({ body: null, headers: [] });
  await t.rejects(selectContent(request, only<OperationPorts>({})), { code: "MalformedXML" });
});

t.test("the checksum of an append is read as that of a PutObject", async (t) => {
  const head = headOf({
    method: "PUT",
    target: "/b/k?append&position=0",
    headers: [
      ["content-length", "5"],
      ["x-amz-checksum-crc32", "NhCmhg=="],
    ],
  });
  const authorization = readAuthorization(head);
  if (authorization.kind === "error") throw authorization.error;
  const payload = readPayload(head, authorization, { operation: "AppendObject" });
  t.equal(payload.kind === "payload" && payload.checksum?.algorithm, "crc32");
});

t.test("policy sees a part number only where one stands", async (t) => {
  const numberOf = (text: string): number | null =>
    decisionInput(
      only<InputFacts>({
        operation: "UploadPart",
        address: { tenant: "", bucket: "b", key: "k" },
        query: [["partNumber", text]],
        headers: [],
        principal: { tenant: "" },
      }),
      null,
    ).partNumber;
  t.equal(numberOf("7"), 7);
  t.equal(numberOf("10000"), 10_000);
  for (const text of ["0x10", "1e3", "", " 1", "-1", "1.0", "123456"]) {
    t.equal(numberOf(text), null, text);
  }
});

t.test("a condition of a write in a bucket on several clusters is refused", async (t) => {
  const facts = profileFacts("rgw-squid", undefined);
  const ports = only<OperationPorts>({ facts: () => facts, isShown: () => true });
  const of = (candidates: readonly string[]) =>
    only<OperationRequest>({ headers: [["if-match", "*"]], query: [], candidates });
  t.strictSame(await putConditions(of(["a"]), ports, cluster), [["if-match", "*"]]);
  await t.rejects(putConditions(of(["a", "b"]), ports, cluster), { code: "NotImplemented" });
});
