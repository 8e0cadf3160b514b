// A user's usage as Ceph RGW tells it (`GET /?usage`) over several clusters: one document of the same
// form, in which what is counted is added up by user, bucket and category. Quotas are limits of each
// cluster; those of the first one are kept.

import { childText, writeElement, type XmlElement, xmlDeclaration } from "./xml.ts";

/** Elements whose text is a count, of bytes or of things. */
const counts: ReadonlySet<string> = new Set([
  "BytesSent",
  "BytesReceived",
  "Ops",
  "SuccessfulOps",
  "TotalBytes",
  "TotalBytesRounded",
  "TotalEntries",
  "Bytes",
  "Bytes_Rounded",
]);

/** What tells one of several elements of a name from the others: the text of the first that it has. */
const named: Readonly<Record<string, readonly string[]>> = {
  User: ["Owner", "User"],
  Bucket: ["Bucket"],
  Entry: ["Category", "Bucket"],
};

const count = /^\d{1,30}$/;

/** One document of those of several clusters, which must be at least one. */
export function usageDocument(roots: readonly XmlElement[]): string {
  return xmlDeclaration + writeElement(merged(roots));
}

/** As deep as the reader of XML goes. */
function merged(alike: readonly XmlElement[]): XmlElement {
  const [first = nothing] = alike;
  const groups = new Map<string, XmlElement[]>();
  for (const child of alike.flatMap(({ children }) => children)) {
    const id = idOf(child);
    const group = groups.get(id);
    if (group === undefined) groups.set(id, [child]);
    else group.push(child);
  }
  const children = [...groups.values()].map(merged);
  return { name: first.name, text: textOf(alike, first), children };
}

const nothing: XmlElement = { name: "Usage", text: "", children: [] };

function idOf(node: XmlElement): string {
  for (const name of named[node.name] ?? []) {
    const text = childText(node, name);
    if (text !== null) return `${node.name} ${text}`;
  }
  return node.name;
}

function textOf(alike: readonly XmlElement[], { name, text }: XmlElement): string {
  if (!counts.has(name) || !alike.every((node) => count.test(node.text))) return text;
  return alike.reduce((sum, node) => sum + BigInt(node.text), 0n).toString();
}
