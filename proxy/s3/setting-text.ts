// What a setting of a bucket says, as text that is equal where two clusters say the same in other words:
// order that has no meaning, ids that a cluster makes up and names of its own users are evened out.
// Pure; used to tell whether the clusters of a bucket have drifted apart.

import { maxSettingBytes, ownerOf, takenRoot } from "./setting-document.ts";
import { childOf, childText, readXml, type XmlElement } from "./xml.ts";

/**
 * The text of a sub-resource's document, `{"Statement":[…]}`; `null` where it says nothing: RGW and S3
 * write out what is not set, as an empty element, `false` or the default.
 */
export function settingText(subresource: string, document: Uint8Array): string | null {
  if (subresource === "policy") return policyText(Buffer.from(document).toString("utf8"));
  const reading = readXml(document, { maxBytes: maxSettingBytes });
  // Bytes are equal or not, whatever they are.
  if (reading.kind === "error") return Buffer.from(document).toString("utf8");
  const root = takenRoot(reading.root);
  if (!says(root)) return null;
  if (subresource === "requestPayment" && childText(root, "Payer") === "BucketOwner") return null;
  const owner = subresource === "acl" ? ownerOf(root) : null;
  return JSON.stringify(canonical(root, { subresource, owner }));
}

/** Whether an ACL is what a bucket begins with: full control for its owner, and nothing else. */
export function isPrivateAcl(document: Uint8Array): boolean {
  const reading = readXml(document, { maxBytes: maxSettingBytes });
  if (reading.kind === "error") return false;
  const owner = ownerOf(reading.root);
  const list = childOf(reading.root, "AccessControlList");
  const [grant, ...others] = list?.children ?? [];
  if (owner === null || grant === undefined || others.length > 0) return false;
  const grantee = childOf(grant, "Grantee");
  const isOwners = grantee !== null && childText(grantee, "ID") === owner;
  return isOwners && childText(grant, "Permission") === "FULL_CONTROL";
}

const publicAccessBlocks = [
  "BlockPublicAcls",
  "IgnorePublicAcls",
  "BlockPublicPolicy",
  "RestrictPublicBuckets",
] as const;

/** Whether a setting is what AWS S3 gives each new bucket, since 2023 (S3 User Guide, default settings). */
export function isAwsDefault(subresource: string, document: Uint8Array): boolean {
  const reading = readXml(document, { maxBytes: maxSettingBytes });
  if (reading.kind === "error") return false;
  const { root } = reading;
  const [rule, ...others] = root.children;
  switch (subresource) {
    case "publicAccessBlock":
      return publicAccessBlocks.every((name) => childText(root, name) === "true");
    case "ownershipControls":
      return (
        others.length === 0 && childText(rule ?? root, "ObjectOwnership") === "BucketOwnerEnforced"
      );
    case "encryption": {
      const by = rule === undefined ? null : childOf(rule, "ApplyServerSideEncryptionByDefault");
      return others.length === 0 && by !== null && childText(by, "SSEAlgorithm") === "AES256";
    }
    default:
      return false;
  }
}

/** Whether a document says anything. */
function says(node: XmlElement): boolean {
  const text = node.text.trim();
  const own = node.children.length === 0 && text !== "" && text !== "false";
  return own || node.children.some(says);
}

type Canonical = readonly [name: string, text: string, children: readonly Canonical[]];

interface Reader {
  readonly subresource: string;
  /** In an ACL: each cluster has its own user, who owns the bucket there. */
  readonly owner: string | null;
}

/**
 * Whom a notification goes to. An RGW takes the ARN of a topic with any region, and tells it with its own
 * zonegroup (16.2, 18.2); on AWS a target is where its bucket is.
 */
const targets: ReadonlySet<string> = new Set(["Topic", "Queue", "CloudFunction"]);

/** Rules of which the first that fits counts. */
const ordered: ReadonlySet<string> = new Set(["CORSConfiguration", "RoutingRules"]);
/** Made up by the cluster where the client gave none, and without effect. */
const withIds: ReadonlySet<string> = new Set(["lifecycle", "notification", "cors"]);

function canonical(node: XmlElement, reader: Reader): Canonical {
  const children = node.children
    .filter((child) => !isDropped(child, reader))
    .map((child) => canonical(child, reader));
  if (!ordered.has(node.name)) children.sort(compare);
  const text = children.length === 0 ? node.text.trim() : "";
  return [node.name, evened(node.name, text, reader), children];
}

function evened(name: string, text: string, { subresource, owner }: Reader): string {
  if (owner !== null && name === "ID" && text === owner) return "(owner)";
  const isTarget = subresource === "notification" && targets.has(name);
  return isTarget ? text.replace(/^(arn:[^:]*:[^:]*:)[^:]*/, "$1") : text;
}

function isDropped({ name }: XmlElement, { subresource }: Reader): boolean {
  if (subresource === "acl") return name === "DisplayName";
  return withIds.has(subresource) && name.toUpperCase() === "ID";
}

function compare(a: Canonical, b: Canonical): number {
  const [left, right] = [JSON.stringify(a), JSON.stringify(b)];
  return left < right ? -1 : Number(left > right);
}

/** JSON with keys in order and lists of texts as the sets that they are. */
function policyText(text: string): string | null {
  try {
    return JSON.stringify(JSON.parse(text), (_key, value: unknown) => {
      if (Array.isArray(value)) {
        return value.every((each) => typeof each === "string") ? value.toSorted() : value;
      }
      if (typeof value !== "object" || value === null) return value;
      return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)));
    });
  } catch {
    return text.trim() === "" ? null : text;
  }
}
