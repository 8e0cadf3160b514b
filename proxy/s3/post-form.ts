// What a form upload asks for, as the PutObject it becomes: key, header fields, and how success is
// answered (S3 API Reference "POST Object"). Only fields with a meaning that we know become headers; an
// `x-amz-*` that is none of them is refused rather than dropped, since its sender relies on it.

import { Buffer } from "node:buffer";
import { S3Error } from "./errors.ts";
import type { FormField, FormHead } from "./form-data.ts";
import type { HeaderField, HeaderList } from "./headers.ts";
import { type ObjectKey, parseObjectKey } from "./names.ts";
import { encodeComponent } from "./percent.ts";
import { ambiguousName } from "./request-head.ts";
import { childOf, childrenOf, childText, element, group, readXml, xmlDeclaration } from "./xml.ts";

type Fields = ReadonlyMap<string, FormField>;

/** How a form upload that worked is answered. */
export type FormSuccess =
  /** 204 and 200 without a body, 201 with a PostResponse document. */
  | { readonly kind: "status"; readonly status: 200 | 201 | 204 }
  /** 303 to where the form says. */
  | { readonly kind: "redirect"; readonly url: string };

/** S3 API Reference "Creating object key names": bytes of UTF-8. */
const maxKeyBytes = 1024;

/** The key, with the file's name in place of `${filename}`. */
export function formKey({ fields, filename }: FormHead): ObjectKey | S3Error {
  const field = fields.get("key");
  if (field === undefined) {
    const message =
      'Bucket POST must contain a field named "key". If it is given, check the order of the fields';
    return new S3Error("InvalidArgument", { message });
  }
  const text = field.value.replaceAll("${filename}", () => filename);
  if (Buffer.byteLength(text) > maxKeyBytes) return new S3Error("KeyTooLongError");
  const message = "The key of the form is empty or not valid";
  return parseObjectKey(text) ?? new S3Error("InvalidArgument", { message });
}

/** Fields that are a header of the same name. */
const plainHeaders: ReadonlySet<string> = new Set([
  "cache-control",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-md5",
  "content-type",
  "expires",
  "x-amz-sdk-checksum-algorithm",
  "x-amz-storage-class",
  "x-amz-website-redirect-location",
]);
const headerFamilies =
  /^x-amz-(?:meta-.+|checksum-.+|server-side-encryption(?:-.+)?|object-lock-.+)$/;
/** Fields of our own: they prove or steer and are no headers. */
const ownFields = /^x-amz-(?:algorithm|credential|date|signature|security-token)$/;

/** The header fields of the PutObject, lower-case names, values as latin1 text of their UTF-8. */
export function formHeaders(fields: Fields): HeaderList | S3Error {
  const headers: HeaderField[] = [];
  for (const [name, { value }] of fields) {
    if (ownFields.test(name)) continue;
    const made = headerOf(name, value);
    if (made instanceof S3Error) return made;
    if (made !== null) headers.push(made);
  }
  const misspelled = ambiguousName(headers);
  return misspelled === null ? headers : invalid(`Field "${misspelled}" could be read as another`);
}

function headerOf(name: string, value: string): HeaderField | S3Error | null {
  if (name === "tagging") {
    const tags = taggingHeader(value);
    return tags instanceof S3Error ? tags : ["x-amz-tagging", tags];
  }
  if (name !== "acl" && !plainHeaders.has(name) && !headerFamilies.test(name)) {
    return name.startsWith("x-amz-") ? invalid(`Field "${name}" is not supported`) : null;
  }
  if (!/^[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(name))
    return invalid("A field of the form has no valid name");
  const text = Buffer.from(value, "utf8").toString("latin1").trim();
  // oxlint-disable-next-line no-control-regex -- a line break would begin another header
  if (/[^\t\x20-\x7e\x80-\xff]/.test(text)) return invalid(`Field "${name}" is not valid`);
  return [name === "acl" ? "x-amz-acl" : name, text];
}

const maxTaggingBytes = 20 * 1024;

/** `<Tagging><TagSet><Tag>…` as the header has it: `a=1&b=2`. */
function taggingHeader(document: string): string | S3Error {
  const reading = readXml(document, { maxBytes: maxTaggingBytes, maxElements: 256 });
  const root = reading.kind === "error" ? null : reading.root;
  const set = root?.name === "Tagging" ? childOf(root, "TagSet") : null;
  if (set === null) return new S3Error("MalformedXML");
  const tags: string[] = [];
  for (const tag of childrenOf(set, "Tag")) {
    const [key, value] = [childText(tag, "Key"), childText(tag, "Value")];
    if (!key || value === null) return new S3Error("MalformedXML");
    tags.push(`${encodeComponent(key)}=${encodeComponent(value)}`);
  }
  return tags.join("&");
}

/** What `success_action_redirect`, `redirect` and `success_action_status` ask for. */
export function formSuccess(fields: Fields): FormSuccess {
  const url = fields.get("success_action_redirect")?.value ?? fields.get("redirect")?.value ?? "";
  // S3 takes a URL that it cannot read for none.
  if (/^https?:\/\/[\x21-\x7e]+$/i.test(url)) return { kind: "redirect", url };
  const status = fields.get("success_action_status")?.value;
  return { kind: "status", status: status === "200" ? 200 : status === "201" ? 201 : 204 };
}

export interface StoredFile {
  readonly bucket: string;
  readonly key: string;
  /** Quoted. */
  readonly etag: string;
  /** `http://host/bucket/a%20key`. */
  readonly location: string;
}

/** Where a browser is sent: the URL with bucket, key and etag in its query. */
export function redirectLocation(url: string, { bucket, key, etag }: StoredFile): string {
  const at = url.indexOf("#");
  const [base, fragment] = at === -1 ? [url, ""] : [url.slice(0, at), url.slice(at)];
  const said = { bucket, key, etag };
  const query = Object.entries(said).map(([name, value]) => `${name}=${encodeComponent(value)}`);
  return `${base}${base.includes("?") ? "&" : "?"}${query.join("&")}${fragment}`;
}

/** The document of a 201; the one of S3's that has no namespace. */
export function postResponseDocument({ bucket, key, etag, location }: StoredFile): string {
  const children = [
    element("Location", location),
    element("Bucket", bucket),
    element("Key", key),
    element("ETag", etag),
  ];
  return xmlDeclaration + group("PostResponse", children);
}

function invalid(message: string): S3Error {
  return new S3Error("InvalidArgument", { message });
}
