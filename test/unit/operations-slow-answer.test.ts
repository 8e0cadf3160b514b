// An answer that takes longer than a client waits: 200 and blanks, then the document or an Error.

import t from "tap";
import type { OperationAnswer } from "../../proxy/operations/context.ts";
import { documentAnswer } from "../../proxy/operations/send.ts";
import { answerInTime } from "../../proxy/operations/slow-answer.ts";
import { UpstreamError } from "../../proxy/placement/ports.ts";
import { S3Error } from "../../proxy/s3/errors.ts";
import { parseBucketName, parseClusterId, parseObjectKey } from "../../proxy/s3/names.ts";
import { readXml, s3Document } from "../../proxy/s3/xml.ts";

const cluster = parseClusterId("a");
if (cluster === null) throw new Error("a cluster id does not parse");
const request = {
  requestId: "R1",
  bucket: parseBucketName("b"),
  key: parseObjectKey("k<"),
};
const done = documentAnswer(s3Document("CopyObjectResult", ["<ETag>e</ETag>"]), cluster);

/** An operation and a clock that both wait for the test. */
function fixture() {
  const waiting = new Set<() => void>();
  const events: string[] = [];
  let settle: (how: Promise<OperationAnswer>) => void = () => {};
  const running = new Promise<OperationAnswer>((resolve) => {
    settle = resolve;
  });
  const ports = {
    timers: {
      after(_ms: number, run: () => void) {
        waiting.add(run);
        return () => void waiting.delete(run);
      },
    },
    log: { write: (_level: string, event: string) => void events.push(event) },
    meter: { errorAnswered: (origin: string, code: string) => void events.push(origin, code) },
  };
  const answered = answerInTime(request, ports, async () => await running);
  const tick = async (): Promise<void> => {
    for (const run of waiting) run();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return {
    answered,
    settle: (how: Promise<OperationAnswer>) => settle(how),
    tick,
    waiting,
    events,
  };
}

t.test("what ends in time keeps its answer or its error, and no timer", async (t) => {
  const good = fixture();
  good.settle(Promise.resolve(done));
  t.equal(await good.answered, done);
  t.equal(good.waiting.size, 0);
  const bad = fixture();
  bad.settle(Promise.reject(new S3Error("PreconditionFailed")));
  await t.rejects(bad.answered, { code: "PreconditionFailed" });
  t.equal(bad.waiting.size, 0);
});

for (const [what, how, text, late] of [
  ["a result", () => Promise.resolve(done), /<CopyObjectResult [^>]*><ETag>e<\/ETag></, []],
  [
    "a refusal",
    () => Promise.reject(new S3Error("SlowDown")),
    /<Error><Code>SlowDown<\/Code>.*<Resource>\/b\/k&lt;</,
    ["proxy", "SlowDown", "answer.failed_late"],
  ],
  [
    "a broken cluster",
    () => Promise.reject(new UpstreamError("response_head", cluster)),
    /<Error><Code>ServiceUnavailable<\/Code>/,
    ["upstream", "ServiceUnavailable", "answer.failed_late"],
  ],
  [
    "a fault of ours",
    () => Promise.reject(new TypeError("x")),
    /<Error><Code>InternalError<\/Code>/,
    ["proxy", "InternalError", "answer.failed_late"],
  ],
  [
    "an answer that refuses",
    () => {
      const document = "<Error><Code>AccessDenied</Code><Message></Message></Error>";
      return Promise.resolve(documentAnswer(document, cluster, 403));
    },
    /<Error><Code>AccessDenied<\/Code><Message>.+<\/Message>/,
    ["proxy", "AccessDenied", "answer.failed_late"],
  ],
] as const) {
  t.test(`${what} that comes late stands behind blanks`, async (t) => {
    const { answered, settle, tick, waiting, events } = fixture();
    await tick();
    const answer = await answered;
    t.match(answer, { status: 200, headers: [["content-type", "application/xml"]] });
    const { body } = answer;
    if (body === null || body instanceof Uint8Array) throw new Error("The answer is no stream");
    t.equal(body.takeWhole(), null);
    const chunks: string[] = [];
    const piped = body.pipe({
      write: (chunk) => chunks.push(Buffer.from(chunk).toString("utf8")) % 2 === 0,
      drained: () => Promise.resolve(),
    });
    await tick();
    await tick();
    await tick();
    t.match(chunks.join(""), /^<\?xml [^>]*>\s+$/);
    t.ok(chunks.length > 2);
    settle(how());
    await piped;
    const whole = chunks.join("");
    t.match(whole, text);
    t.equal(readXml(whole, { maxBytes: 10_000 }).kind, "document");
    t.equal(waiting.size, 0);
    t.strictSame(events, late);
  });
}
