// Which requests make a cluster say what another one says of a setting: by what each of them said, and by
// what kind of server is asked.

import t from "tap";
import {
  differenceOf,
  type SettingTold,
  writtenSetting,
} from "../../proxy/operations/drift-reading.ts";
import { copyOf } from "../../proxy/operations/setting-copy.ts";
import { profiles } from "../../proxy/placement/profiles.ts";
import { noTenant } from "../../proxy/s3/names.ts";
import type { S3Operation } from "../../proxy/s3/operation.ts";
import { settingText } from "../../proxy/s3/setting-text.ts";
import { bucketNamed, clusterNamed } from "../support/placement-names.ts";

const place = { tenant: noTenant, name: bucketNamed("copied"), cluster: clusterNamed("b") };

function toldOf(subresource: string, document: string | null): SettingTold {
  if (document === null) return { kind: "unset", document: null };
  const bytes = Buffer.from(document, "utf8");
  const text = settingText(subresource, bytes);
  return text === null
    ? { kind: "unset", document: bytes }
    : { kind: "set", text, document: bytes };
}

/** `PUT ?notification`, or why there is none. */
function requests(
  put: S3Operation,
  subresource: string,
  [wanted, told]: readonly [string | null, string | null],
  profile: keyof typeof profiles,
): readonly string[] | string {
  const setting = writtenSetting(put, null);
  const pair = [toldOf(subresource, wanted), toldOf(subresource, told)] as const;
  const kind = differenceOf(...pair);
  if (setting === null || kind === null) return "alike";
  const difference = { setting, place, kind, wanted: pair[0], told: pair[1] };
  const writes = copyOf(difference, { facts: () => profiles[profile] });
  if (typeof writes === "string") return writes;
  return writes.map(({ operation, query = [], body = null }) => {
    const fields = query.map(([name, value]) => (value === null ? name : `${name}=${value}`));
    const sent = body?.kind === "bytes" ? ` ${Buffer.from(body.bytes).toString("utf8")}` : "";
    return `${operation} ${fields.join("&")}${sent}`;
  });
}

const topics = (...ids: readonly string[]): string =>
  `<N>${ids.map((id) => `<TopicConfiguration><Id>${id}</Id><Topic>${id}</Topic></TopicConfiguration>`).join("")}</N>`;
const notify = "PutBucketNotificationConfiguration notification";

t.test("notifications are taken away from an RGW one by one, elsewhere by a PUT", async (t) => {
  for (const [profile, wanted, told, expected] of [
    ["rgw-pacific", [], ["x"], ["DeleteBucketNotification notification"]],
    ["aws", [], ["x"], [`${notify} ${topics()}`]],
    [
      "rgw-pacific",
      ["w", "x"],
      ["x", "y", "z"],
      [
        `${notify} ${topics("w", "x")}`,
        "DeleteBucketNotification notification=y",
        "DeleteBucketNotification notification=z",
      ],
    ],
    ["aws", ["w"], ["y"], [`${notify} ${topics("w")}`]],
    ["rgw-reef", ["w"], [], [`${notify} ${topics("w")}`]],
  ] as const) {
    const pair = [topics(...wanted), topics(...told)] as const;
    const name = `${profile}: ${wanted.join()} for ${told.join()}`;
    const put = "PutBucketNotificationConfiguration";
    t.strictSame(requests(put, "notification", pair, profile), expected, name);
  }
});

t.test("what is unset is taken away, or written as it is told", async (t) => {
  const tags = "<Tagging><TagSet><Tag><Key>k</Key></Tag></TagSet></Tagging>";
  const paid = "<R><Payer>Requester</Payer></R>";
  const unpaid = "<R><Payer>BucketOwner</Payer></R>";
  for (const [put, subresource, pair, expected] of [
    ["PutBucketTagging", "tagging", [null, tags], ["DeleteBucketTagging tagging"]],
    ["PutBucketTagging", "tagging", [tags, null], [`PutBucketTagging tagging ${tags}`]],
    [
      "PutBucketRequestPayment",
      "requestPayment",
      [unpaid, paid],
      [`PutBucketRequestPayment requestPayment ${unpaid}`],
    ],
    ["PutBucketRequestPayment", "requestPayment", [null, paid], "There is nothing to copy"],
  ] as const) {
    t.strictSame(requests(put, subresource, pair, "rgw-pacific"), expected);
  }
});
