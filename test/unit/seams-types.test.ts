// Seams that the compiler holds: what reaches a metric's label is one of a written set, and clusters,
// buckets and keys are no plain text. The lines below are never run; each must be a type error, which
// `// @ts-expect-error` makes the compiler demand, in `npm run check` and in this test.

import t from "tap";
import ts from "typescript";
import type { OperationPorts, OperationRequest } from "../../proxy/operations/context.ts";
import type {
  Meter,
  RequestSample,
  Upstream,
  UpstreamRequest,
} from "../../proxy/placement/ports.ts";
import type { ClusterId } from "../../proxy/s3/names.ts";

export function labelsAreClosedSets(meter: Meter, cluster: ClusterId, sample: RequestSample): void {
  meter.authFailed("malformed");
  // @ts-expect-error No such reason
  meter.authFailed("bad luck");
  meter.decided("authz", "allow");
  // @ts-expect-error No such entrypoint
  meter.decided("quota", "allow");
  // @ts-expect-error No such outcome
  meter.decided("route", "perhaps");
  // @ts-expect-error No such entrypoint
  meter.policyEvaluated("quota", 0);
  // @ts-expect-error No such outcome
  meter.policyMemo("stale");
  // @ts-expect-error No such origin
  meter.errorAnswered("weather", "SlowDown");
  // @ts-expect-error No such reason
  meter.writeRefused(cluster, "drained");
  // @ts-expect-error No such outcome
  meter.upstreamRetried(cluster, "maybe");
  // @ts-expect-error No such call
  meter.storeCalled("scan");
  // @ts-expect-error No such reason
  meter.watchRestarted("boredom");
  // @ts-expect-error No such operation
  meter.requestEnded({ ...sample, operation: "PutThing" });
  // @ts-expect-error A path is no operation
  meter.upstreamEnded({ cluster, operation: "/b/k", status: 200, durationSeconds: 0 });
}

export function labelsHoldNoPlainText(meter: Meter, sample: RequestSample, text: string): void {
  // @ts-expect-error Text is no cluster
  meter.writeRouted(text, "settled", 1);
  // @ts-expect-error Text is no cluster
  meter.writeRefused(text, "no_candidate");
  // @ts-expect-error Text is no cluster
  meter.upstreamRetried(text, "ok");
  // @ts-expect-error Text is no cluster
  meter.requestEnded({ ...sample, cluster: text });
  // @ts-expect-error Text is no reason
  meter.authFailed(text);
}

export function operationsAreGiven(
  request: OperationRequest,
  ports: OperationPorts,
  sent: UpstreamRequest,
): void {
  const candidates: readonly ClusterId[] = request.candidates;
  const upstream: Upstream = ports.upstream;
  // @ts-expect-error Candidates are not to be changed
  request.candidates.push(...candidates);
  // @ts-expect-error An operation has no view to decide from
  request.view.toString();
  // @ts-expect-error An operation cannot ask policy
  ports.policy.toString();
  // @ts-expect-error Text is no cluster
  void upstream.send("a", sent, request.signal);
}

t.test("every misuse of a seam is a type error, and nothing else is", { timeout: 60_000 }, (t) => {
  const { config } = ts.readConfigFile("tsconfig.json", (path) => ts.sys.readFile(path));
  const { options } = ts.parseJsonConfigFileContent({ ...config, include: [] }, ts.sys, ".");
  const program = ts.createProgram([import.meta.filename], { ...options, noEmit: true });
  const file = program.getSourceFile(import.meta.filename);
  const found = ts.getPreEmitDiagnostics(program, file);
  const texts = found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, " "));
  t.strictSame(texts, []);
  t.equal(file?.text.match(/^ {2}\/\/ @ts-expect-error /gm)?.length, 21);
  t.end();
});
