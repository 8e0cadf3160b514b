// `headgate explain-signature FILE`: verifies a pasted request as the gateway would and says what
// differs (pasted-request.ts says in which forms). Works on text alone: no configuration, no network.
// The secret is read and never printed.

import { reasonOf } from "../config/checks.ts";
import {
  readAuthorization,
  readV2Authorization,
  type SignedAuthorization,
} from "../s3/authorization.ts";
import type { V2Authorization } from "../s3/authorization-v2.ts";
import { S3Error } from "../s3/errors.ts";
import { type RequestHead, readRequestHead } from "../s3/request-head.ts";
import { formatAmzDate, SigningKeys } from "../s3/sigv4.ts";
import { verifySignature } from "../s3/verify.ts";
import { verifySignatureV2 } from "../s3/verify-v2.ts";
import type { Call, Command } from "./command.ts";
import { exitCodes } from "./exit-codes.ts";
import { loggedCanonicalRequest, readPastedRequest } from "./pasted-request.ts";

export const explainSignature: Command = {
  name: "explain-signature",
  operands: "FILE",
  summary:
    "Say why a pasted request head or presigned URL does not verify (- reads standard input)",
  flags: {
    method: { value: "METHOD", summary: "Method that a presigned URL is used with (GET)" },
    "secret-key-file": {
      value: "FILE",
      summary: "File holding the secret of the key (AWS_SECRET_ACCESS_KEY)",
    },
    signed: { value: "FILE", summary: "Canonical request that the client logged, to compare with" },
  },
  admin: false,
  run: (call) => Promise.resolve(run(call)),
};

function run(call: Call): number {
  const { io } = call;
  try {
    const pasted = readText(call, call.operands[0] ?? "");
    const signed = readSigned(call, pasted);
    const head = readPasted(pasted, call.text("method") ?? "GET");
    const authorization = readV2Authorization(head) ?? readAuthorization(head);
    switch (authorization.kind) {
      case "error":
        throw authorization.error;
      case "anonymous":
        throw new Untold("The request carries no signature, so it would be taken for anonymous");
      case "header":
      case "presigned":
        return explain({ head, authorization, signed, secret: readSecret(call) }, call);
      case "header-v2":
      case "presigned-v2":
        return explainV2({ head, authorization, secret: readSecret(call) }, call);
    }
  } catch (caught) {
    if (caught instanceof Untold) io.stderr(`${caught.message}\n`);
    else if (caught instanceof S3Error) io.stdout(`${caught.code}: ${caught.message}\n`);
    else throw caught;
    return caught instanceof Untold ? exitCodes.usage : exitCodes.failed;
  }
}

/** What keeps the command from answering at all. */
class Untold extends Error {}

interface Question {
  readonly head: RequestHead;
  readonly authorization: SignedAuthorization;
  readonly secret: string;
  readonly signed: string | null;
}

function explain(question: Question, call: Call): number {
  const { head, authorization, secret, signed } = question;
  const { accessKeyId, sessionToken, signedAtMs } = authorization;
  const result = verifySignature({
    head,
    authorization,
    credentials: { accessKeyId, secretAccessKey: secret, sessionToken },
    // Its age is told apart: an old request may be pasted to learn about its signature.
    nowMs: signedAtMs,
    regions: [],
    keys: new SigningKeys(1),
    requireContentSha256: true,
    mayExplain: () => true,
  });
  const out = call.io.stdout;
  if (result.kind === "verified") {
    out(`The signature is right for access key "${accessKeyId}"\n`);
    if (result.path === "raw") out("It was made over the path as sent, which is not canonical\n");
    out(ageText(authorization, call.io.clock.nowMs()));
    return exitCodes.ok;
  }
  const { code, message, details } = result.error;
  out(`${code}: ${message}\n`);
  const canonical = details["CanonicalRequest"];
  if (canonical === undefined) return exitCodes.failed;
  out(`\nString to sign, as the request came:\n${indent(details["StringToSign"] ?? "")}`);
  out(`\nCanonical request, as the request came:\n${indent(canonical)}`);
  if (signed !== null) out(`\n${comparison(canonical, signed)}`);
  else
    out(
      "\nCompare it line by line with the one that the client logged, or give that as --signed\n",
    );
  return exitCodes.failed;
}

/** Version 2: the bucket is signed wherever it stands, so without settings Host is read both ways. */
function explainV2(
  question: Pick<Question, "head" | "secret"> & { readonly authorization: V2Authorization },
  call: Call,
): number {
  const { head, authorization, secret } = question;
  const { accessKeyId, sessionToken } = authorization;
  const [label = ""] = head.host.split(".");
  const results = [null, label].map((hostBucket) => ({
    hostBucket,
    result: verifySignatureV2({
      head,
      authorization,
      credentials: { accessKeyId, secretAccessKey: secret, sessionToken },
      hostBucket,
      nowMs: authorization.kind === "header-v2" ? authorization.signedAtMs : 0,
      limits: { maxSkewMs: 0, maxPresignSeconds: Number.MAX_SAFE_INTEGER },
      mayExplain: () => true,
    }),
  }));
  const out = call.io.stdout;
  const right = results.find(({ result }) => result.kind === "verified");
  if (right !== undefined) {
    out(`The version 2 signature is right for access key "${accessKeyId}"\n`);
    if (right.hostBucket !== null) {
      out(`It names the bucket "${label}" in Host, whose domain must be in listen.base_domains\n`);
    }
    out(ageTextV2(authorization, call.io.clock.nowMs()));
    return exitCodes.ok;
  }
  const [first] = results;
  if (first === undefined || first.result.kind === "verified") return exitCodes.failed;
  const { code, message, details } = first.result.error;
  out(`${code}: ${message}\n`);
  const text = details["StringToSign"];
  if (text !== undefined) out(`\nString to sign, as the request came:\n${indent(text)}`);
  return exitCodes.failed;
}

function ageTextV2(authorization: V2Authorization, nowMs: number): string {
  if (authorization.kind === "header-v2") return skewText(authorization.signedAtMs, nowMs);
  const { expiresAtMs } = authorization;
  const verb = expiresAtMs <= nowMs ? "expired" : "expires";
  return `It ${verb} at ${formatAmzDate(expiresAtMs)}\n`;
}

function ageText(authorization: SignedAuthorization, nowMs: number): string {
  const { kind, signedAtMs } = authorization;
  const signedAt = formatAmzDate(signedAtMs);
  if (kind === "presigned") {
    const endsAtMs = signedAtMs + authorization.expiresSeconds * 1000;
    const verb = endsAtMs < nowMs ? "expired" : "expires";
    return `It was signed at ${signedAt} and ${verb} at ${formatAmzDate(endsAtMs)}\n`;
  }
  return skewText(signedAtMs, nowMs);
}

function skewText(signedAtMs: number, nowMs: number): string {
  const minutes = Math.round((nowMs - signedAtMs) / 60_000);
  const far = Math.abs(minutes) > 15 ? ", which a server refuses as RequestTimeTooSkewed" : "";
  return `It was signed at ${formatAmzDate(signedAtMs)}, ${minutes} minutes before now${far}\n`;
}

/** The lines in which two canonical requests differ. */
function comparison(received: string, signed: string): string {
  const ours = received.split("\n");
  const theirs = signed.replaceAll("\r", "").replace(/\n$/, "").split("\n");
  const lines = Array.from({ length: Math.max(ours.length, theirs.length) }, (_, at) => at);
  const differing = lines.filter((at) => ours[at] !== theirs[at]);
  if (differing.length === 0) {
    return "Both canonical requests are the same, so the secret or the credential scope differs\n";
  }
  const told = differing.map(
    (at) => `  line ${at + 1}\n    signed   ${theirs[at] ?? ""}\n    received ${ours[at] ?? ""}\n`,
  );
  return `Lines that differ:\n${told.join("")}`;
}

function indent(text: string): string {
  return text
    .split("\n")
    .map((line) => `  ${line}\n`)
    .join("");
}

// ---- reading ----

function readText(call: Call, file: string): string {
  try {
    return call.io.readFile(file === "-" ? "/dev/stdin" : file);
  } catch (error) {
    throw new Untold(`Cannot read file "${file}": ${reasonOf(error)}`);
  }
}

/** What the client signed: in a file of its own, or in the log that was pasted. Null: not known. */
function readSigned(call: Call, pasted: string): string | null {
  const file = call.text("signed");
  if (file === null) return loggedCanonicalRequest(pasted);
  const text = readText(call, file);
  return loggedCanonicalRequest(text) ?? text;
}

function readSecret(call: Call): string {
  const file = call.text("secret-key-file");
  const secret = file === null ? call.io.env["AWS_SECRET_ACCESS_KEY"] : readText(call, file).trim();
  if (secret !== undefined && secret !== "") return secret;
  throw new Untold("Needs the secret of the key: --secret-key-file FILE or AWS_SECRET_ACCESS_KEY");
}

/** @throws S3Error as the gateway would answer, Untold for a text that is no request. */
function readPasted(text: string, method: string): RequestHead {
  const pasted = readPastedRequest(text, method);
  if (typeof pasted === "string") throw new Untold(pasted);
  const result = readRequestHead(pasted);
  if (result.kind === "error") throw result.error;
  return result.head;
}
