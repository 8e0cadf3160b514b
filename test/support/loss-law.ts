// How a cluster dies in the middle of an operation, and what has to hold then: an error in place of half
// an answer, everything either as it was or as it should become, nothing lost that was acknowledged, and
// the same request finishes it once the cluster is back.

import { setTimeout } from "node:timers/promises";
import { type OperationFacts, operationFacts } from "../../proxy/s3/operation.ts";
import { settingText } from "../../proxy/s3/setting-text.ts";
import type { DeathPoint, DyingRelay, RelayedExchange } from "./dying-relay.ts";
import { digest, LossCase, type LossScene, type LossState, type Side, sides } from "./loss-case.ts";
import type { LossAnswer } from "./loss-request.ts";
import type { LossRow } from "./loss-rows.ts";

export type Relays = Readonly<Record<Side, DyingRelay>>;

/** What a row comes to when nobody dies. */
export interface Reference {
  /** Of its case. */
  readonly id: string;
  readonly answer: LossAnswer;
  readonly before: LossState;
  readonly after: LossState;
  readonly exchanges: Readonly<Record<Side, readonly RelayedExchange[]>>;
}

export async function referenceOf(
  scene: LossScene,
  row: LossRow,
  given: { readonly relays: Relays; readonly id: string; readonly home: Side },
): Promise<Reference> {
  const { relays, id, home } = given;
  const at = new LossCase(scene, id, home);
  const send = await row.setUp(at);
  const before = await stateOf(row, at);
  const begun = { a: relays.a.exchanges.length, b: relays.b.exchanges.length };
  const first = await send();
  const exchanges = {
    a: relays.a.exchanges.slice(begun.a),
    b: relays.b.exchanges.slice(begun.b),
  };
  // Some ask to be sent again by themselves.
  const answer = named(first.status === 503 ? await repeated(send) : first, at);
  return { id, answer, before, after: await stateOf(row, at), exchanges };
}

async function stateOf(row: LossRow, at: LossCase): Promise<LossState> {
  const state = (await row.state?.(at)) ?? {};
  const entries = Object.entries(state).map(([name, value]) => [own(name, at), own(value, at)]);
  return Object.fromEntries(entries);
}

/** Names differ from case to case. */
function own(text: string, at: LossCase): string {
  return text.replaceAll(at.id, "CASE").replaceAll(/(CASE(?:\.[a-z]+|-))\d+/g, "$1");
}

function named(answer: LossAnswer, at: LossCase): LossAnswer {
  const text = own(answer.text, at)
    .replaceAll(
      /<(RequestId|HostId|UploadId|LastModified|CreationDate|Initiated|ID)>[^<]*</g,
      "<$1><",
    )
    .replaceAll(/<UploadId>[^<]*</g, "<UploadId><");
  return { ...answer, text };
}

/** Where a cluster dies: `connect` before anything is asked of it, else in its nth exchange. */
export interface Death {
  readonly side: Side;
  readonly point: DeathPoint | "connect";
  readonly nth: number;
}

/** The deaths that are tried of a row; `turn`, its number, spreads samples over all there are. */
export function deathsOf({ tried }: LossRow, reference: Reference, turn: number): readonly Death[] {
  const unasked = sides.map((side) => ({ side, point: "connect", nth: 0 }) as const);
  const exchanges = sides.flatMap((side) =>
    reference.exchanges[side].map((exchange, nth) =>
      pointsOf(exchange).map((point) => ({ side, point, nth })),
    ),
  );
  const all = [...unasked, ...exchanges.flat()];
  if (tried === "exchanges") {
    return [...unasked, ...exchanges.flatMap((deaths, nth) => sample(deaths, turn + nth))];
  }
  if (tried === "two") return [...new Set([...sample(all, turn), ...sample(all, 5 * turn + 2)])];
  return all;
}

function sample(deaths: readonly Death[], turn: number): readonly Death[] {
  return deaths.slice(turn % deaths.length).slice(0, 1);
}

export function pointsOf({ method, bodyBytes, answerHasBody }: RelayedExchange): DeathPoint[] {
  const reads = method === "GET" || method === "HEAD" || method === "OPTIONS";
  return [
    "head",
    ...(bodyBytes > 1 ? (["body"] as const) : []),
    ...(reads ? [] : (["request"] as const)),
    "done",
    "answer_head",
    ...(answerHasBody ? (["answer_body"] as const) : []),
  ];
}

/** What was wrong with an answer to a request whose cluster died; `null`: nothing. */
function faultOfAnswer(
  row: LossRow,
  answer: LossAnswer,
  { reference, point }: { readonly reference: Reference; readonly point: Death["point"] },
): string | null {
  const { status, code, isWhole, text } = answer;
  if (!isWhole) {
    const mayBeCut = point === "answer_body" && (row.streams === true || status >= 300);
    if (!mayBeCut || status === 0) return `was cut after status ${status}`;
    return null;
  }
  if (status === 503) return row.operation === null ? null : faultOfRefusal(answer);
  if (isLate(answer)) return isRight(answer) ? null : `200 with ${code}`;
  if (status !== reference.answer.status) return `status ${status} ${code}`;
  if (row.state !== null || row.claims !== undefined) return null;
  return text === reference.answer.text
    ? null
    : `another answer: ${digest(text)} ${text.slice(0, 300)}`;
}

/** S3 clients try again where they are told to; an answer to HEAD has no code. */
function faultOfRefusal(answer: LossAnswer): string | null {
  const { code, retryAfter } = answer;
  if (retryAfter === null) return `503 ${code} without Retry-After`;
  return isRight(answer) || answer.text === "" ? null : `503 ${code}`;
}

function isRight({ code }: LossAnswer): boolean {
  return code === "ServiceUnavailable" || code === "SlowDown";
}

/** An error behind a 200, of an operation that took longer than a client waits for a status. */
function isLate({ status, text }: LossAnswer): boolean {
  return status === 200 && /^<\?xml[^>]*>\s*<Error>/.test(text);
}

/** What is half done, or was acknowledged and is not there. */
function faultsOfState(
  row: LossRow,
  state: LossState,
  given: { readonly reference: Reference; readonly answer: LossAnswer; readonly side: Side },
): readonly string[] {
  const { reference, answer, side } = given;
  const names = Object.keys(state);
  const isDone = answer.isWhole && answer.status >= 200 && answer.status < 300 && !isLate(answer);
  const claimed = new Set(isDone ? (row.claims?.(answer, names) ?? names) : []);
  return names.flatMap((name) => {
    const [now, before, after] = [state[name], reference.before[name], reference.after[name]];
    if (now === after || (now === before && !claimed.has(name))) return [];
    // What was begun on the dead cluster could not be taken away there.
    if (now === "open" && name.startsWith(`${side} uploads`)) return [];
    return [`${name}: ${now} (before ${before}, after ${after})`];
  });
}

/** One row in which a cluster is about to die. */
export interface Dying {
  readonly row: LossRow;
  readonly at: LossCase;
  readonly reference: Reference;
  readonly death: Death;
  readonly send: () => Promise<LossAnswer>;
}

/** What came of it once the cluster is back: nothing, or what was wrong. */
export async function faultsOf(
  { row, at, reference, death, send }: Dying,
  given: LossAnswer,
): Promise<readonly string[]> {
  const answer = named(given, at);
  const { point, side } = death;
  const faults: string[] = [];
  const fault = faultOfAnswer(row, answer, { reference, point });
  if (fault !== null) faults.push(`answer: ${fault}`);
  const state = await stateOf(row, at);
  faults.push(
    ...faultsOfState(row, state, { reference, answer, side }).map((text) => `left: ${text}`),
  );
  const wanted = row.takeBack === undefined ? reference.after : reference.before;
  const again = await repeated(() => row.takeBack?.(at) ?? send());
  const isAgain = row.takeBack !== undefined || again.status === reference.answer.status;
  if (!isAgain && !(row.again ?? []).includes(again.status)) {
    faults.push(`again: status ${again.status} ${again.text}`);
  }
  if (row.state === null && named(again, at).text !== reference.answer.text) {
    faults.push(`again: another answer ${named(again, at).text.slice(0, 300)}`);
  }
  const isHealed = (name: string, value: string): boolean =>
    value === wanted[name] || (value === "open" && name.startsWith(`${side} uploads`));
  // A list of an RGW shows an upload for a moment after its end.
  let healed = await stateOf(row, at);
  for (let looks = 10; looks > 0; looks -= 1) {
    if (Object.entries(healed).every(([name, value]) => isHealed(name, value))) break;
    await setTimeout(200);
    healed = await stateOf(row, at);
  }
  for (const [name, value] of Object.entries(healed)) {
    if (isHealed(name, value)) continue;
    faults.push(`not healed: ${name}: ${value} (not ${wanted[name]})`);
  }
  return faults;
}

/**
 * Whether nothing is left of what Headgate does later by itself: both clusters say the same of a setting, or
 * no upload is open.
 */
export function isWhole({ operation }: LossRow, state: LossState): boolean {
  const uploads = Object.entries(state).filter(([name]) => name.includes("uploads of"));
  if (uploads.length > 0) return uploads.every(([, value]) => value === "none");
  const facts: OperationFacts | null = operation === null ? null : operationFacts[operation];
  const said = Object.values(state).map((text) =>
    text.startsWith("200 ")
      ? settingText(facts?.subresource ?? "", Buffer.from(text.slice(4)))
      : null,
  );
  return new Set(said).size === 1;
}

/** As a client repeats what is answered with 503. */
async function repeated(send: () => Promise<LossAnswer>): Promise<LossAnswer> {
  let answer = await send();
  for (let more = 2; more > 0 && answer.status === 503; more -= 1) answer = await send();
  return answer;
}
