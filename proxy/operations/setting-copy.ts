// One setting of a bucket as several clusters tell it, and the request that makes one of them say what
// another says.

import type { CancelSignal } from "../placement/ports.ts";
import { UpstreamError } from "../placement/ports.ts";
import { contentMd5 } from "../s3/content-md5.ts";
import { documentFor, notificationIds } from "../s3/setting-document.ts";
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
  ports: DriftPorts,
  signal: CancelSignal,
): Promise<Copying> {
  const { place } = difference;
  const writes = copyOf(difference, ports);
  if (typeof writes === "string") return { kind: "failed", why: writes, passes: false };
  try {
    for (const write of writes) {
      const request = ownRequest(place, place.name, write);
      const response = await ports.upstream.send(place.cluster, request, signal);
      const { status } = response;
      await discard(response);
      if (status < 300) continue;
      const passes = status === 503 || isUnknownStatus(status);
      return { kind: "failed", why: `answers ${status}`, passes };
    }
    return { kind: "copied" };
  } catch (caught) {
    return { kind: "failed", why: whyFailed(caught), passes: caught instanceof UpstreamError };
  }
}

type SettingWrite = Parameters<typeof ownRequest>[2];

const nothing = new Uint8Array();

/** The requests that make a difference vanish, one after the other; text: why there are none. */
export function copyOf(
  { setting, place, kind, told, wanted }: SettingDifference,
  ports: Pick<OperationPorts, "facts">,
): readonly SettingWrite[] | string {
  if (setting.never !== null) return setting.never;
  if (kind === "unsupported") return "Not every cluster of the bucket knows the setting";
  const subresource = subresourceOf(setting.read);
  const query = queryOf(setting);
  const isNotification = subresource === "notification";
  const merges = isNotification && ports.facts(place.cluster).backend === "rgw";
  const remove = isNotification && !merges ? null : setting.remove;
  if (kind === "extra" && remove !== null) return [{ operation: remove, query }];
  const document = documentOf(wanted);
  if (document === null) return "There is nothing to copy";
  const bytes = documentFor(subresource, document, documentOf(told));
  const put: SettingWrite = {
    operation: setting.put,
    query,
    headers: [["content-md5", contentMd5(bytes)]],
    body: { kind: "bytes", bytes },
  };
  if (!merges || remove === null) return [put];
  // An RGW adds what it is given to what it has (16.2, 18.2).
  const kept = new Set(notificationIds(bytes));
  const others = notificationIds(documentOf(told) ?? nothing).filter((id) => !kept.has(id));
  return [put, ...others.map((id) => ({ operation: remove, query: [[subresource, id]] }) as const)];
}

function documentOf(told: SettingTold): Uint8Array | null {
  return "document" in told ? told.document : null;
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
