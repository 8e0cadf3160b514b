// XML as S3 speaks it: a writer of elements and a small reader that is safe on hostile input.
// The reader takes no DOCTYPE, no entity but the five of XML 1.0 §4.6 and numeric references, looks
// nothing up, never recurses and returns a union instead of throwing; its work is linear in the
// input. Attributes and namespaces are read over: S3 puts nothing there that we need.

import { Buffer, isUtf8 } from "node:buffer";

/** One element: `name` without namespace prefix, `text` its own character data, unescaped. */
export interface XmlElement {
  readonly name: string;
  readonly text: string;
  readonly children: readonly XmlElement[];
}

export type XmlFault =
  /** Larger than the caller's limit, or more elements than it takes. */
  | "too_large"
  | "too_deep"
  | "not_utf8"
  /** DOCTYPE, or an entity that only a DTD could define. */
  | "forbidden"
  | "malformed";

export type XmlReading =
  | { readonly kind: "document"; readonly root: XmlElement }
  | { readonly kind: "error"; readonly fault: XmlFault };

export interface XmlLimits {
  /** Of the input, in bytes; for a string, in UTF-16 units. */
  readonly maxBytes: number;
  /** Elements in the whole document; 131072 holds a Complete of 10000 parts with all checksums. */
  readonly maxElements?: number;
}

const maxDepth = 32;
const defaultMaxElements = 131_072;
/** S3's namespace, on the root of every document but Error. */
const s3Namespace = "http://s3.amazonaws.com/doc/2006-03-01/";

// ---- writer ----

// Besides markup: what XML 1.0 does not allow raw, and the blanks that a parser would normalise.
// S3 writes them as numeric references although XML 1.0 has no such characters; clients read them.
// oxlint-disable-next-line no-control-regex -- control characters are what is looked for
const escaped = /[&<>"\u0000-\u001f\u007f\ufffe\uffff]/;
// oxlint-disable-next-line no-control-regex -- as above
const escapedAll = /[&<>"\u0000-\u001f\u007f\ufffe\uffff]/g;

function escapeCharacter(character: string): string {
  switch (character) {
    case "&":
      return "&amp;";
    case "<":
      return "&lt;";
    case ">":
      return "&gt;";
    case '"':
      return "&quot;";
    default:
      return `&#x${character.charCodeAt(0).toString(16).toUpperCase()};`;
  }
}

/** Character data for an element: `"a&b"` gives `&quot;a&amp;b&quot;`. */
export function escapeText(text: string): string {
  return escaped.test(text) ? text.replace(escapedAll, escapeCharacter) : text;
}

/** `<Name>escaped text</Name>`. */
export function element(name: string, text: string): string {
  return `<${name}>${escapeText(text)}</${name}>`;
}

/** Like `element`, or nothing at all for `null`. */
export function optionalElement(name: string, text: string | null): string {
  return text === null ? "" : element(name, text);
}

/** An element around elements that are written already. */
export function group(name: string, children: readonly string[]): string {
  return `<${name}>${children.join("")}</${name}>`;
}

/** A whole document with declaration line and S3's namespace on its root. */
export function s3Document(name: string, children: readonly string[]): string {
  return `${xmlDeclaration}<${name} xmlns="${s3Namespace}">${children.join("")}</${name}>`;
}

/** The first line of every document. */
export const xmlDeclaration = '<?xml version="1.0" encoding="UTF-8"?>\n';

/** Writes a read element again, attributes and comments gone, text before children. */
export function writeElement(node: XmlElement): string {
  return `<${node.name}>${escapeText(node.text)}${node.children.map(writeElement).join("")}</${node.name}>`;
}

// ---- access ----

/** The first child of that name. */
export function childOf(node: XmlElement, name: string): XmlElement | null {
  for (const child of node.children) if (child.name === name) return child;
  return null;
}

/** The text of the first child of that name; `null` when there is none. */
export function childText(node: XmlElement, name: string): string | null {
  return childOf(node, name)?.text ?? null;
}

/** All children of that name, in order. */
export function childrenOf(node: XmlElement, name: string): readonly XmlElement[] {
  return node.children.filter((child) => child.name === name);
}

// ---- reader ----

interface OpenElement {
  readonly name: string;
  text: string;
  readonly children: OpenElement[];
}

interface Frame {
  readonly node: OpenElement;
  /** With prefix, as the end tag must repeat it. */
  readonly rawName: string;
}

const blankOnly = /^[ \t\r\n]*$/;
const namedEntities: Readonly<Record<string, string>> = {
  amp: "&",
  lt: "<",
  gt: ">",
  quot: '"',
  apos: "'",
};

/** How a step of the reader says that it stopped. */
class Stop {
  readonly fault: XmlFault;
  constructor(fault: XmlFault) {
    this.fault = fault;
  }
}

/**
 * Reads a whole document. Blanks before the declaration are taken: upstreams send them to keep a
 * slow Complete alive. Line ends are kept as they are (an S3 key may hold a carriage return).
 */
export function readXml(input: string | Uint8Array, limits: XmlLimits): XmlReading {
  if (input.length > limits.maxBytes) return { kind: "error", fault: "too_large" };
  const source = typeof input === "string" ? input : decodeUtf8(input);
  if (source === null) return { kind: "error", fault: "not_utf8" };
  const result = readDocument(source, limits.maxElements ?? defaultMaxElements);
  return result instanceof Stop
    ? { kind: "error", fault: result.fault }
    : { kind: "document", root: result };
}

/** Several times faster than a fatal TextDecoder, and keeps ASCII input in one byte a character. */
function decodeUtf8(bytes: Uint8Array): string | null {
  if (!isUtf8(bytes)) return null;
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("utf8");
}

/** What is open while a document is read. */
interface Progress {
  readonly source: string;
  readonly stack: Frame[];
  root: OpenElement | null;
  elementsLeft: number;
}

function readDocument(source: string, maxElements: number): XmlElement | Stop {
  if (source.includes("\0")) return new Stop("malformed");
  const progress: Progress = { source, stack: [], root: null, elementsLeft: maxElements };
  let at = source.startsWith("\ufeff") ? 1 : 0;
  for (;;) {
    const open = source.indexOf("<", at);
    const textEnd = open === -1 ? source.length : open;
    if (textEnd > at) {
      const failed = takeText(progress.stack.at(-1)?.node ?? null, source.slice(at, textEnd));
      if (failed !== null) return failed;
    }
    if (open === -1) break;
    const next = takeMarkup(progress, open);
    if (next instanceof Stop) return next;
    at = next;
  }
  const { root, stack } = progress;
  return root === null || stack.length > 0 ? new Stop("malformed") : root;
}

/** Takes what begins with `<`; gives where reading goes on. */
function takeMarkup(progress: Progress, open: number): number | Stop {
  const { source, stack } = progress;
  switch (source.charCodeAt(open + 1)) {
    case 0x2f: {
      const frame = stack.pop();
      const end = frame === undefined ? -1 : endTag(source, open, frame.rawName);
      return end === -1 ? new Stop("malformed") : end;
    }
    case 0x21:
    case 0x3f:
      return readOver(source, open, stack.at(-1)?.node ?? null);
    default:
      return takeStartTag(progress, open);
  }
}

function takeStartTag(progress: Progress, open: number): number | Stop {
  const { source, stack } = progress;
  const tag = startTag(source, open);
  if (tag === null) return new Stop("malformed");
  if (stack.length === maxDepth) return new Stop("too_deep");
  progress.elementsLeft -= 1;
  if (progress.elementsLeft < 0) return new Stop("too_large");
  const name = localName(tag.rawName);
  const parent = stack.at(-1)?.node ?? null;
  if (tag.empty) return attach(progress, parent, { name, text: "", children: [] }) ?? tag.end;
  // Most elements hold text only: those are finished here, without the stack.
  const textEnd = source.indexOf("<", tag.end);
  if (textEnd !== -1 && source.charCodeAt(textEnd + 1) === 0x2f) {
    const end = endTag(source, textEnd, tag.rawName);
    if (end === -1) return new Stop("malformed");
    const text = unescapeText(source.slice(tag.end, textEnd));
    if (text instanceof Stop) return text;
    return attach(progress, parent, { name, text, children: [] }) ?? end;
  }
  const node: OpenElement = { name, text: "", children: [] };
  stack.push({ node, rawName: tag.rawName });
  return attach(progress, parent, node) ?? tag.end;
}

function attach(progress: Progress, parent: OpenElement | null, node: OpenElement): Stop | null {
  if (parent !== null) parent.children.push(node);
  else if (progress.root === null) progress.root = node;
  else return new Stop("malformed");
  return null;
}

function localName(rawName: string): string {
  const colon = rawName.lastIndexOf(":");
  return colon === -1 ? rawName : rawName.slice(colon + 1);
}

/** Adds character data to the open element; outside the root only blanks may stand. */
function takeText(node: OpenElement | null, raw: string): Stop | null {
  if (node === null) return blankOnly.test(raw) ? null : new Stop("malformed");
  const text = unescapeText(raw);
  if (text instanceof Stop) return text;
  node.text += text;
  return null;
}

function unescapeText(raw: string): string | Stop {
  if (!raw.includes("&")) return raw;
  let text = "";
  let at = 0;
  for (;;) {
    const open = raw.indexOf("&", at);
    if (open === -1) return text + raw.slice(at);
    // The longest that is taken is `&#x0010FFFF;` with a few more leading zeros.
    const end = raw.slice(open, open + 16).indexOf(";");
    if (end === -1) return new Stop("malformed");
    const character = reference(raw.slice(open + 1, open + end));
    if (character instanceof Stop) return character;
    text += raw.slice(at, open) + character;
    at = open + end + 1;
  }
}

function reference(body: string): string | Stop {
  if (Object.hasOwn(namedEntities, body)) return namedEntities[body] ?? "";
  if (!body.startsWith("#")) {
    return new Stop(/^[A-Za-z_][\w.-]*$/.test(body) ? "forbidden" : "malformed");
  }
  const digits = /^#(?:x([0-9A-Fa-f]+)|([0-9]+))$/.exec(body);
  if (digits === null) return new Stop("malformed");
  const point =
    digits[1] === undefined ? Number.parseInt(digits[2] ?? "", 10) : Number.parseInt(digits[1], 16);
  // NUL and surrogates are in no key; other control characters are, S3 writes them so.
  if (point === 0 || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) {
    return new Stop("malformed");
  }
  return String.fromCodePoint(point);
}

/** Where reading goes on behind `</name >`; -1 when that is not what stands there. */
function endTag(source: string, open: number, rawName: string): number {
  const nameEnd = open + 2 + rawName.length;
  if (!source.startsWith(rawName, open + 2)) return -1;
  const close = skipBlanks(source, nameEnd);
  return source.charCodeAt(close) === 0x3e ? close + 1 : -1;
}

function skipBlanks(source: string, from: number): number {
  let at = from;
  for (;;) {
    const code = source.charCodeAt(at);
    if (code !== 0x20 && code !== 0x09 && code !== 0x0a && code !== 0x0d) return at;
    at += 1;
  }
}

interface StartTag {
  readonly rawName: string;
  readonly empty: boolean;
  readonly end: number;
}

function startTag(source: string, open: number): StartTag | null {
  const rawName = nameAt(source, open + 1);
  if (rawName === null) return null;
  let at = open + 1 + rawName.length;
  for (;;) {
    const next = skipBlanks(source, at);
    const code = source.charCodeAt(next);
    if (code === 0x3e) return { rawName, empty: false, end: next + 1 };
    if (code === 0x2f) {
      if (source.charCodeAt(next + 1) !== 0x3e) return null;
      return { rawName, empty: true, end: next + 2 };
    }
    if (next === at) return null;
    at = attributeEnd(source, next);
    if (at === -1) return null;
  }
}

function nameAt(source: string, from: number): string | null {
  let at = from;
  while (isNameCode(source.charCodeAt(at))) at += 1;
  if (at === from) return null;
  const first = source.charCodeAt(from);
  // Digits, `-` and `.` may stand in a name but not begin it.
  return first === 0x2d || first === 0x2e || (first >= 0x30 && first <= 0x39)
    ? null
    : source.slice(from, at);
}

/** Letters, digits, `-`, `.`, `:`, `_` and all beyond ASCII, which is wider than XML 1.0 [4a]. */
function isNameCode(code: number): boolean {
  return (
    (code >= 0x61 && code <= 0x7a) ||
    (code >= 0x41 && code <= 0x5a) ||
    (code >= 0x30 && code <= 0x3a) ||
    code === 0x2d ||
    code === 0x2e ||
    code === 0x5f ||
    code >= 0x80
  );
}

/** Reads over `name = "value"`; -1 when malformed. The value is not kept, nor its references. */
function attributeEnd(source: string, from: number): number {
  const name = nameAt(source, from);
  if (name === null) return -1;
  const equals = skipBlanks(source, from + name.length);
  if (source.charCodeAt(equals) !== 0x3d) return -1;
  const quoteAt = skipBlanks(source, equals + 1);
  const quote = source[quoteAt];
  if (quote !== '"' && quote !== "'") return -1;
  const close = source.indexOf(quote, quoteAt + 1);
  if (close === -1) return -1;
  return source.slice(quoteAt, close).includes("<") ? -1 : close + 1;
}

/** Comments, processing instructions and CDATA; a DOCTYPE stops the reader. */
function readOver(source: string, open: number, node: OpenElement | null): number | Stop {
  if (source.startsWith("<?", open)) return behind(source, "?>", open + 2);
  if (source.startsWith("<!--", open)) return behind(source, "-->", open + 4);
  if (!source.startsWith("<![CDATA[", open)) {
    return new Stop(
      /^<!DOCTYPE|^<!ENTITY/i.test(source.slice(open, open + 9)) ? "forbidden" : "malformed",
    );
  }
  const end = behind(source, "]]>", open + 9);
  if (end instanceof Stop || node === null) return new Stop("malformed");
  node.text += source.slice(open + 9, end - 3);
  return end;
}

function behind(source: string, terminator: string, from: number): number | Stop {
  const found = source.indexOf(terminator, from);
  return found === -1 ? new Stop("malformed") : found + terminator.length;
}
