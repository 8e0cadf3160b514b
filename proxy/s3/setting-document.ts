// A setting's document as one cluster tells it, made into what another one takes. The owner of a bucket is
// another user on each cluster; RGW 16.2 tells a public access block under a root that it does not take
// back. Everything else is given as it was told.

import { childText, element, escapeText, readXml, s3Document, type XmlElement } from "./xml.ts";

/** 1000 lifecycle rules, and room. */
export const maxSettingBytes = 4 * 1024 * 1024;

/** As told → as taken. */
const takenRoots: ReadonlyMap<string, string> = new Map([
  ["BlockPublicAccessBlockConfiguration", "PublicAccessBlockConfiguration"],
]);

/** A document under the root that servers take it with. */
export function takenRoot(root: XmlElement): XmlElement {
  const name = takenRoots.get(root.name);
  return name === undefined ? root : { ...root, name };
}

/** @param there what the cluster tells now that the document is for; `null`: it tells nothing. */
export function documentFor(
  subresource: string,
  document: Uint8Array,
  there: Uint8Array | null,
): Uint8Array {
  if (subresource === "acl") {
    const [from, to] = [aclOwner(document), there === null ? null : aclOwner(there)];
    return from === null || to === null ? document : withAclOwner(document, from, to);
  }
  if (subresource !== "publicAccessBlock") return document;
  const reading = readXml(document, { maxBytes: maxSettingBytes });
  if (reading.kind === "error") return document;
  const taken = takenRoot(reading.root);
  if (taken === reading.root) return document;
  const values = taken.children.map(({ name, text }) => element(name, text));
  return Buffer.from(s3Document(taken.name, values), "utf8");
}

/** The id of the owner that an ACL names. */
export function aclOwner(document: Uint8Array): string | null {
  const reading = readXml(document, { maxBytes: maxSettingBytes });
  return reading.kind === "error" ? null : ownerOf(reading.root);
}

export function ownerOf(root: XmlElement): string | null {
  const owner = root.children.find(({ name }) => name === "Owner");
  return owner === undefined ? null : childText(owner, "ID");
}

/** An ACL that names `to` wherever it names `from`, as owner and as grantee. */
export function withAclOwner(document: Uint8Array, from: string, to: string): Uint8Array {
  if (from === to) return document;
  const reading = readXml(document, { maxBytes: maxSettingBytes });
  if (reading.kind === "error") return document;
  const { root } = reading;
  const children = root.children.map((child) => writeAcl(child, { from, to }));
  return Buffer.from(s3Document(root.name, children), "utf8");
}

interface Users {
  readonly from: string;
  readonly to: string;
}

function writeAcl(node: XmlElement, users: Users): string {
  const isNamed = childText(node, "ID") === users.from;
  const children = node.children.map((child) => {
    if (isNamed && child.name === "ID") return element("ID", users.to);
    // The name is that of the other one.
    return isNamed && child.name === "DisplayName" ? "" : writeAcl(child, users);
  });
  const text = node.children.length === 0 ? escapeText(node.text) : "";
  const kind = node.name === "Grantee" ? granteeKind(node) : "";
  return `<${node.name}${kind}>${text}${children.join("")}</${node.name}>`;
}

/** The only attribute in S3's documents that counts; which one follows from what the grantee has. */
function granteeKind(grantee: XmlElement): string {
  const has = (name: string): boolean => childText(grantee, name) !== null;
  const byAddress = has("EmailAddress") ? "AmazonCustomerByEmail" : "CanonicalUser";
  const kind = has("URI") ? "Group" : byAddress;
  return ` xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:type="${kind}"`;
}

/** The same of a grant in a header: `id="one", uri="http://…"`. */
export function withGrantee(grants: string, from: string, to: string): string {
  return grants
    .split(",")
    .map((grant) => {
      const [, name = "", id] = /^(\s*id\s*=\s*)"?([^"]*)"?\s*$/i.exec(grant) ?? [];
      return id === from ? `${name}"${to}"` : grant;
    })
    .join(",");
}

/** Ids of the notifications that a document names. */
export function notificationIds(document: Uint8Array): readonly string[] {
  const reading = readXml(document, { maxBytes: maxSettingBytes });
  if (reading.kind === "error") return [];
  return reading.root.children.flatMap((each) => childText(each, "Id") ?? []);
}
