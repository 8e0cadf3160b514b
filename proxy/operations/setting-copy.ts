// One setting of a bucket as several clusters tell it, and the request that makes one of them say what
// another says.

import type { CancelSignal } from "../placement/ports.ts";
import { UpstreamError } from "../placement/ports.ts";
import { contentMd5 } from "../s3/content-md5.ts";
import { aclOwner } from "../s3/setting-text.ts";
import type { OperationPorts } from "./context.ts";
import {
  type ComparedSetting,
  type DriftKind,
  type DriftPorts,
  differenceOf,
  queryOf,
  type SettingTold,
  subresourceOf,
  tellSetting,
  whyFailed,
} from "./drift-reading.ts";
import type { Drift } from "./drift-report.ts";
import type { BucketPlace } from "./emptiness.ts";
import { isUnknownStatus } from "./mutation.ts";
import { discard, ownRequest } from "./send.ts";

/** A cluster that says something else than the one that it is compared with. */
export interface SettingDifference {
  readonly setting: ComparedSetting;
  readonly place: BucketPlace;
  readonly kind: DriftKind;
  readonly told: SettingTold;
  /** What the other one says. */
  readonly wanted: SettingTold;
}

/** Asks all places at once. @param places the one that the others are compared with first. */
export async function settingDifferences(
  setting: ComparedSetting,
  places: readonly BucketPlace[],
  ports: DriftPorts,
  signal: CancelSignal,
): Promise<readonly SettingDifference[]> {
  const [wanted, ...rest] = await Promise.all(
    places.map((place) => tellSetting(setting, place, ports, signal)),
  );
  return places.slice(1).flatMap((place, index) => {
    const told = rest[index];
    if (wanted === undefined || told === undefined) return [];
    const kind = differenceOf(wanted, told);
    return kind === null ? [] : [{ setting, place, kind, told, wanted }];
  });
}

/** Equal where two answers say the same of a setting. */
export function toldText(told: SettingTold): string {
  return told.kind === "set" ? told.text : told.kind;
}

/** `passes`: it may succeed later, or still be carried out though nobody was told. */
export type Copying =
  | { readonly kind: "copied" }
  | { readonly kind: "failed"; readonly why: string; readonly passes: boolean };

/** Makes a cluster say what is wanted there, where that can be done. */
export async function copySetting(
  difference: SettingDifference,
  ports: Pick<OperationPorts, "upstream">,
  signal: CancelSignal,
): Promise<Copying> {
  const { place } = difference;
  const write = copyOf(difference);
  if (typeof write === "string") return { kind: "failed", why: write, passes: false };
  try {
    const request = ownRequest(place, place.name, write);
    const response = await ports.upstream.send(place.cluster, request, signal);
    const { status } = response;
    await discard(response);
    if (status < 300) return { kind: "copied" };
    const passes = status === 503 || isUnknownStatus(status);
    return { kind: "failed", why: `answers ${status}`, passes };
  } catch (caught) {
    return { kind: "failed", why: whyFailed(caught), passes: caught instanceof UpstreamError };
  }
}

type SettingWrite = Parameters<typeof ownRequest>[2];

/** The request that makes a difference vanish; text: why there is none. */
export function copyOf({ setting, kind, told, wanted }: SettingDifference): SettingWrite | string {
  if (setting.never !== null) return setting.never;
  if (kind === "unsupported") return "Not every cluster of the bucket knows the setting";
  const query = queryOf(setting);
  if (kind === "extra" && setting.remove !== null) return { operation: setting.remove, query };
  const document = "document" in wanted ? wanted.document : null;
  if (document === null) return "There is nothing to copy";
  const bytes = wantedThere(setting, document, told);
  return {
    operation: setting.put,
    query,
    headers: [["content-md5", contentMd5(bytes)]],
    body: { kind: "bytes", bytes },
  };
}

/** An ACL names the owner, who is another user on another cluster. */
function wantedThere(
  { read }: ComparedSetting,
  document: Uint8Array,
  told: SettingTold,
): Uint8Array {
  if (read !== "GetBucketAcl" || told.kind !== "set") return document;
  const [from, to] = [aclOwner(document), aclOwner(told.document)];
  if (from === null || to === null || from === to) return document;
  const text = Buffer.from(document).toString("utf8");
  return Buffer.from(text.replaceAll(`<ID>${from}</ID>`, `<ID>${to}</ID>`), "utf8");
}

/** A difference as it is told. */
export function driftOf(
  { setting, place, kind, told, wanted }: SettingDifference,
  outcome: Drift["outcome"],
  why: string | null = null,
): Drift {
  const detail = why ?? whyUnreadable(wanted) ?? whyUnreadable(told);
  const name = subresourceOf(setting.read);
  return { setting: name, cluster: place.cluster, kind, outcome, detail };
}

function whyUnreadable(told: SettingTold): string | null {
  return told.kind === "unreadable" ? told.why : null;
}
