// The ways in which honest clients and the hops behind them write one and the same request: path in
// canonical form or as sent, a raw `+` as a blank or as itself, Host with its port or without, blanks
// within quotes, a pinned hash, fields that a hop is known to rewrite. Whoever verifies tries them in
// order (s3-protocol.md 2.3 to 2.5); all mean the same request but for `+`, whose reading is told.

import type { SignedAuthorization } from "./authorization.ts";
import { type HeaderField, type HeaderList, type QueryList, trimBlanks } from "./headers.ts";
import { contentSha256 } from "./payload.ts";
import { decodeOnce, encodePath } from "./percent.ts";
import { encodeQuery, parseQuery } from "./query.ts";
import type { RequestHead } from "./request-head.ts";
import { type CanonicalParts, canonicalValue, unsignedPayload } from "./sigv4.ts";

/** Spellings of Host besides the one that came. */
const maxOtherHosts = 2;

interface SignedHead {
  readonly head: RequestHead;
  readonly authorization: SignedAuthorization;
}

export interface Candidate {
  readonly parts: Omit<CanonicalParts, "method" | "signedHeaders">;
  readonly query: QueryList;
  readonly path: "canonical" | "raw";
}

/** The request as most clients write it: canonical path, values as they came. */
export function usualCandidate(request: SignedHead): Candidate {
  const { head } = request;
  const path = encodePath(decodeOnce(head.rawPath) ?? head.rawPath);
  const query = signedQuery(request, head.query);
  const fields = signedFields(request, canonicalValue);
  const [payloadHash] = payloadHashes(request);
  return { parts: { path, query, fields, payloadHash }, query: head.query, path: "canonical" };
}

/** The other ways, likeliest first. */
export function* otherCandidates(request: SignedHead, usual: Candidate): Generator<Candidate> {
  const { fields, payloadHash } = usual.parts;
  const [, otherHash] = payloadHashes(request);
  const hashes = otherHash === undefined ? [payloadHash] : [payloadHash, otherHash];
  const lists = [fields, ...otherFields(request, fields)];
  for (const base of [...otherTargets(request, usual), usual]) {
    for (const text of hashes) {
      for (const list of lists) {
        if (base === usual && text === payloadHash && list === fields) continue;
        yield { ...base, parts: { ...base.parts, fields: list, payloadHash: text } };
      }
    }
  }
}

/** The usual candidate with the path as sent, with a raw `+` as a plus, and both. */
function otherTargets(request: SignedHead, usual: Candidate): readonly Candidate[] {
  const { head } = request;
  const targets: Candidate[] = [];
  const plus = head.rawQuery.includes("+") ? parseQuery(head.rawQuery, "plus") : null;
  if (plus !== null) {
    const parts = { ...usual.parts, query: signedQuery(request, plus) };
    targets.push({ ...usual, parts, query: plus });
  }
  if (usual.parts.path === head.rawPath) return targets;
  const raw = [usual, ...targets].map(
    (candidate): Candidate => ({
      ...candidate,
      parts: { ...candidate.parts, path: head.rawPath },
      path: "raw",
    }),
  );
  return [...targets, ...raw];
}

function signedQuery(request: SignedHead, query: QueryList): string {
  if (request.authorization.kind === "header") return encodeQuery(query);
  // Only this one is left out, and only of a presigned query.
  return encodeQuery(query.filter(([name]) => name !== "X-Amz-Signature"));
}

/** A presigned upload with a pinned body may have been signed with either spelling. */
function payloadHashes(request: SignedHead): readonly [string, string?] {
  const { kind } = request.authorization;
  const sent = contentSha256(request.head, kind);
  // Only plain words, as it may come from the query, where a line break would be legal.
  if (sent === null || !/^[0-9A-Za-z-]+$/.test(sent)) return [unsignedPayload];
  return kind === "presigned" && sent !== unsignedPayload ? [sent, unsignedPayload] : [sent];
}

function signedFields(
  request: SignedHead,
  spelling: (value: string) => string,
): readonly HeaderField[] {
  const { headers } = request.head;
  return request.authorization.signedHeaders.map((name) => {
    let joined: string | null = null;
    for (const [candidate, value] of headers) {
      if (candidate !== name) continue;
      joined = joined === null ? spelling(value) : `${joined},${spelling(value)}`;
    }
    return [name, joined ?? ""] as const;
  });
}

function otherFields(request: SignedHead, fields: HeaderList): readonly HeaderList[] {
  const { host, alternativeHosts = [] } = request.head;
  const hosts = [...alternativeHosts, ...otherHosts(host)].slice(0, maxOtherHosts);
  const lists = hosts.map((host) =>
    fields.map((field) => (field[0] === "host" ? (["host", host] as const) : field)),
  );
  const quoted = signedFields(request, quotedValue);
  const differs = quoted.some(([, text], at) => text !== fields[at]?.[1]);
  return [...rewrittenFields(request, fields), ...(differs ? [quoted] : []), ...lists];
}

/** The fields as they stood before a hop rewrote or dropped one, each alone and all together. */
function rewrittenFields(
  { head: { alternativeFields = [] } }: SignedHead,
  fields: HeaderList,
): readonly HeaderList[] {
  const replaced = (list: HeaderList, [name, value]: HeaderField): HeaderList =>
    list.map((field) => (field[0] === name ? [name, canonicalValue(value)] : field));
  const alternatives = alternativeFields.filter(([name, value]) =>
    fields.some((field) => field[0] === name && field[1] !== canonicalValue(value)),
  );
  const each = alternatives.map((alternative) => replaced(fields, alternative));
  return each.length < 2 ? each : [...each, alternatives.reduceRight(replaced, fields)];
}

/** Runs of blanks collapse outside double quotes and stay inside them, as older guidance has it. */
function quotedValue(value: string): string {
  if (!value.includes('"')) return canonicalValue(value);
  const pieces = value.split(/("[^"]*")/);
  return trimBlanks(
    pieces.map((piece, at) => (at % 2 === 1 ? piece : piece.replace(/[ \t]+/g, " "))).join(""),
  );
}

/** Clients and hops differ over whether the scheme's default port belongs into Host. */
function otherHosts(host: string): readonly string[] {
  const port = /:(\d+)$/.exec(host.slice(host.lastIndexOf("]") + 1))?.[1];
  if (port === undefined) return [`${host}:443`, `${host}:80`];
  return port === "443" || port === "80" ? [host.slice(0, -port.length - 1)] : [];
}
