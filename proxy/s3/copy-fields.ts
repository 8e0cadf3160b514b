// Which fields make the destination of a copy that is read here and written here: metadata and content
// fields of the source or of the request, as x-amz-metadata-directive says, the rest of the request's
// own (S3 API Reference CopyObject). ACL, storage class and encryption never come from the source.

import { copySourceField } from "./copy-source.ts";
import { S3Error } from "./errors.ts";
import { fieldValue, type HeaderList } from "./headers.ts";

type Directive = "COPY" | "REPLACE";

export interface CopyDirectives {
  readonly metadata: Directive;
  readonly tagging: Directive;
}

export type DirectivesResult =
  | { readonly kind: "directives"; readonly directives: CopyDirectives }
  | { readonly kind: "error"; readonly error: S3Error };

const metadataField = "x-amz-metadata-directive";
const taggingDirectiveField = "x-amz-tagging-directive";
const taggingField = "x-amz-tagging";

const contentFields: ReadonlySet<string> = new Set([
  "cache-control",
  "content-disposition",
  "content-encoding",
  "content-language",
  "content-type",
  "expires",
]);
/** Said of the request, not of the object that it makes. */
const requestFields: ReadonlySet<string> = new Set([
  metadataField,
  taggingDirectiveField,
  taggingField,
  "content-md5",
  "if-match",
  "if-none-match",
  "range",
  "x-amz-sdk-checksum-algorithm",
  "x-amz-source-expected-bucket-owner",
]);

export function readDirectives(headers: HeaderList): DirectivesResult {
  const metadata = directiveOf(headers, metadataField);
  const tagging = directiveOf(headers, taggingDirectiveField);
  if (metadata !== null && tagging !== null) {
    return { kind: "directives", directives: { metadata, tagging } };
  }
  const name = metadata === null ? metadataField : taggingDirectiveField;
  const message = `Header "${name}" must be "COPY" or "REPLACE"`;
  return { kind: "error", error: new S3Error("InvalidArgument", { message }) };
}

/** In any case, as RGW reads it. */
function directiveOf(headers: HeaderList, name: string): Directive | null {
  const text = (fieldValue(headers, name) ?? "COPY").trim().toUpperCase();
  return text === "COPY" || text === "REPLACE" ? text : null;
}

/** Whether a copy of an object to itself would change nothing, which S3 refuses. */
export function changesNothing(headers: HeaderList, { metadata }: CopyDirectives): boolean {
  if (metadata === "REPLACE") return false;
  return !headers.some(
    ([name]) =>
      name === "x-amz-storage-class" ||
      name === "x-amz-website-redirect-location" ||
      name.startsWith("x-amz-server-side-encryption"),
  );
}

/** The fields of the new object. @param tags what `x-amz-tagging` is to say; empty for none. */
export function destinationFields(
  request: HeaderList,
  source: HeaderList,
  options: { readonly directives: CopyDirectives; readonly tags: string },
): HeaderList {
  const { directives, tags } = options;
  const own = request.filter(
    ([name]) =>
      !requestFields.has(name) &&
      !name.startsWith(copySourceField) &&
      !name.startsWith("x-amz-checksum-"),
  );
  const replaces = directives.metadata === "REPLACE";
  return [
    ...(replaces ? own : [...own.filter(isNotDescribing), ...source.filter(isDescribing)]),
    ...(tags === "" ? [] : [[taggingField, tags] as const]),
  ];
}

/** The tags that the request itself names. */
export function requestTags(headers: HeaderList): string {
  return fieldValue(headers, taggingField) ?? "";
}

function isDescribing([name]: HeaderList[number]): boolean {
  return contentFields.has(name) || name.startsWith("x-amz-meta-");
}

function isNotDescribing(field: HeaderList[number]): boolean {
  return !isDescribing(field);
}

const customerField = /^x-amz-server-side-encryption-customer-/;

/** What a part of the new object needs beside its bytes: the key it is encrypted with. */
export function partFields(request: HeaderList): HeaderList {
  return request.filter(([name]) => customerField.test(name));
}

/** What reading the source needs: the key that it is encrypted with, and whose bucket it must be. */
export function sourceReadFields(request: HeaderList): HeaderList {
  const fields: HeaderList[number][] = [];
  for (const [name, value] of request) {
    const bare = name.replace(/^x-amz-copy-source-(?=server-side-encryption-customer-)/, "x-amz-");
    if (bare !== name) fields.push([bare, value]);
    if (name === "x-amz-source-expected-bucket-owner") {
      fields.push(["x-amz-expected-bucket-owner", value]);
    }
  }
  return fields;
}
