// Every setting that two RGWs have: written through Headgate and read back from both of them, changed on
// one past it, shown and healed; and one that only one of them can take, which neither has then.

import { createHash } from "node:crypto";
import { CreateBucketCommand } from "@aws-sdk/client-s3";
import type { Test } from "tap";
import { contentMd5 } from "../../../proxy/s3/content-md5.ts";
import { clientPair, type Headgate } from "./headgate.ts";
import type { Lab, RealTest } from "./lab.ts";
import { askRaw, type RawAnswer } from "./raw-request.ts";
import type { Pair } from "./s3.ts";
import { rgwPair } from "./services.ts";

const Bucket = "all-settings";

interface Row {
  readonly setting: string;
  /** What to ask for; what both RGWs say then holds the first, what is not asked for the second. */
  readonly one: Worded;
  readonly other: Worded;
  /** What leaves it unset; absent: DELETE. */
  readonly none?: Worded;
}

interface Worded {
  readonly says: string;
  readonly headers?: readonly (readonly [string, string])[];
  readonly body?: string;
}

const xml = (root: string, text: string, says: string): Worded => ({
  says,
  body: `<${root} xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${text}</${root}>`,
});
const canned = (name: string, says: string): Worded => ({ says, headers: [["x-amz-acl", name]] });
const policy = (says: string): Worded => ({
  says,
  body: JSON.stringify({
    Version: "2012-10-17",
    Statement: [
      {
        Sid: says,
        Effect: "Allow",
        Principal: { AWS: ["arn:aws:iam:::user/dana"] },
        Action: ["s3:ListBucket"],
        Resource: [`arn:aws:s3:::${Bucket}`],
      },
    ],
  }),
});
const cors = (says: string): Worded =>
  xml(
    "CORSConfiguration",
    `<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>https://${says}</AllowedOrigin></CORSRule>`,
    says,
  );
const lifecycle = (says: string): Worded =>
  xml(
    "LifecycleConfiguration",
    `<Rule><Filter><Prefix>${says}</Prefix></Filter><Status>Enabled</Status><Expiration><Days>3</Days></Expiration></Rule>`,
    says,
  );
const tags = (says: string): Worded =>
  xml("Tagging", `<TagSet><Tag><Key>k</Key><Value>${says}</Value></Tag></TagSet>`, says);
const topic = (says: string): Worded =>
  xml(
    "NotificationConfiguration",
    `<TopicConfiguration><Id>id-of-${says}</Id><Topic>arn:aws:sns:zonegroup::everywhere</Topic><Event>${says}</Event></TopicConfiguration>`,
    says,
  );
const payer = (says: string): Worded =>
  xml("RequestPaymentConfiguration", `<Payer>${says}</Payer>`, says);
const block = (name: string): Worded =>
  xml("PublicAccessBlockConfiguration", `<${name}>true</${name}>`, `<${name}>true`);

const rows: readonly Row[] = [
  {
    setting: "acl",
    one: canned("public-read", "global/AllUsers"),
    other: canned("authenticated-read", "global/AuthenticatedUsers"),
    none: canned("private", "FULL_CONTROL"),
  },
  { setting: "policy", one: policy("one"), other: policy("other") },
  {
    setting: "publicAccessBlock",
    one: block("IgnorePublicAcls"),
    other: block("RestrictPublicBuckets"),
  },
  { setting: "cors", one: cors("one.example"), other: cors("other.example") },
  { setting: "lifecycle", one: lifecycle("one/"), other: lifecycle("other/") },
  { setting: "tagging", one: tags("one"), other: tags("other") },
  {
    setting: "notification",
    one: topic("s3:ObjectCreated:*"),
    other: topic("s3:ObjectRemoved:*"),
  },
  {
    setting: "requestPayment",
    one: payer("Requester"),
    other: payer("BucketOwner"),
    none: payer("BucketOwner"),
  },
];
const encryption = xml(
  "ServerSideEncryptionConfiguration",
  "<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>AES256</SSEAlgorithm></ApplyServerSideEncryptionByDefault></Rule>",
  "AES256",
);
/** What an RGW 16.2 does not have, or its daemon does not serve; how it says so, here 501: it is not sent. */
const refused: readonly (readonly [setting: string, worded: Worded, status: number])[] = [
  ["encryption", encryption, 501],
  ["ownershipControls", xml("OwnershipControls", "<Rule></Rule>", "Rule"), 501],
  ["website", xml("WebsiteConfiguration", "<IndexDocument></IndexDocument>", "Index"), 405],
  ["logging", xml("BucketLoggingStatus", "<LoggingEnabled></LoggingEnabled>", "Logging"), 405],
];

const ids = ["a", "b"] as const;

export function testSettings(lab: Lab, headgate: Headgate, test: RealTest): void {
  const send = async (
    { url, pair }: { readonly url: string; readonly pair: Pair },
    method: string,
    setting: string,
    worded: Omit<Worded, "says"> = {},
  ): Promise<RawAnswer> => {
    const body = Buffer.from(worded.body ?? "");
    const headers = [["content-md5", contentMd5(body)] as const, ...(worded.headers ?? [])];
    const about = { path: `/${Bucket}`, query: `${setting}=`, headers, pair };
    return await askRaw(url, { method, body, ...about });
  };
  const through = { url: headgate.url, pair: clientPair };
  const direct = (id: "a" | "b") => ({ url: lab.rgw.url(id), pair: rgwPair });
  const told = async (setting: string) =>
    await Promise.all(
      ids.map(async (id) => (await send(direct(id), "GET", setting)).body.toString("utf8")),
    );
  const drift = async (heal: boolean) => {
    const path = `/buckets/${Bucket}/drift`;
    return (await headgate.admin(heal ? "POST" : "GET", path, heal ? {} : undefined)).body;
  };
  const bothSay = async (t: Test, { setting, one, other }: Row, what: string): Promise<void> => {
    for (const text of await told(setting)) {
      t.match(text, one.says, `${setting}: ${what}`);
      t.notOk(text.includes(other.says), `${setting}: ${what}, and nothing else`);
    }
  };
  const isFine = (t: Test, { status }: RawAnswer, what: string): void => {
    t.ok([200, 204].includes(status), `${what}: ${status}`);
  };

  test("each setting is on both RGWs, and made so again where one was changed", async (t) => {
    await lab.client(headgate).send(new CreateBucketCommand({ Bucket }));
    for (const id of ids) t.equal((await makeTopic(direct(id), "everywhere")).status, 200);
    for (const row of rows) {
      isFine(t, await send(through, "PUT", row.setting, row.one), `PUT ${row.setting}`);
      await bothSay(t, row, "as written");
    }
    t.match(await drift(false), { compared_with: "a", drift: [] });
    const names = rows.map(({ setting }) => setting);
    const all = (outcome: string) =>
      names.map((setting) => ({ setting, cluster: "b", outcome, detail: null }));

    for (const { setting, other } of rows) {
      isFine(t, await send(direct("b"), "PUT", setting, other), `other ${setting}`);
    }
    t.match(await drift(false), { drift: all("found") });
    t.match(await drift(true), { drift: all("healed") }, "what said something else");
    for (const row of rows) await bothSay(t, row, "healed");

    const takeAway = async (id: "a" | "b"): Promise<void> => {
      for (const { setting, none } of rows) {
        const method = none === undefined ? "DELETE" : "PUT";
        isFine(t, await send(direct(id), method, setting, none), `no ${setting}`);
      }
    };
    await takeAway("b");
    t.match(await drift(true), { drift: all("healed") }, "what was missing");
    for (const row of rows) await bothSay(t, row, "given back");

    await takeAway("a");
    t.match(await drift(true), { drift: all("healed") }, "what was too much");
    for (const { setting, one } of rows) {
      t.notMatch((await told(setting))[1], one.says, `${setting}: taken away`);
    }
    t.match(await drift(false), { drift: [] });

    for (const [setting, worded, status] of lab.rgw.generation === 16 ? refused : []) {
      t.equal((await send(through, "PUT", setting, worded)).status, status, setting);
    }
  });

  test("what only one RGW can take neither has, and the answer is that one's", async (t) => {
    for (const id of ids) {
      await lab.rgw.makeUser(id, `only-${id}`, { accessKeyId: id, secretAccessKey: id });
      await makeTopic(direct(id), `only-${id}`);
    }
    for (const row of rows) await send(through, "PUT", row.setting, row.one);
    for (const id of ids) {
      for (const [setting, worded] of [
        ["acl", { headers: [["x-amz-grant-read", `id="only-${id}"`]] }],
        [
          "notification",
          { body: topic("s3:ObjectCreated:Put").body?.replace("everywhere", `only-${id}`) ?? "" },
        ],
      ] as const) {
        const bare = await Promise.all(
          ids.map(async (at) =>
            at === id ? null : await send(direct(at), "PUT", setting, worded),
          ),
        );
        const refusal = bare.find((each) => each !== null);
        const { status, code } = await send(through, "PUT", setting, worded);
        t.strictSame([status, code], [refusal?.status, refusal?.code], `${setting} ${id}`);
        t.equal(status, 404);
        const row = rows.find((each) => each.setting === setting);
        if (row !== undefined) await bothSay(t, row, `refused ${id}`);
        t.notMatch((await told(setting)).join(""), `only-${id}`);
      }
    }
    t.match(await drift(false), { drift: [] });
  });
}

/** RGW's topics are made at the cluster itself. */
async function makeTopic(at: { readonly url: string; readonly pair: Pair }, name: string) {
  const form = new URLSearchParams({
    Action: "CreateTopic",
    Name: name,
    "Attributes.entry.1.key": "push-endpoint",
    "Attributes.entry.1.value": "http://127.0.0.1:9",
  });
  const body = Buffer.from(form.toString());
  return await askRaw(at.url, {
    method: "POST",
    path: "/",
    pair: at.pair,
    headers: [["content-type", "application/x-www-form-urlencoded"]],
    payload: createHash("sha256").update(body).digest("hex"),
    body,
  });
}
