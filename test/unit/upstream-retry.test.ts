// Which failed attempts may be made again: every combination of what is known of them.

import t from "tap";
import { UpstreamError, type UpstreamPhase } from "../../proxy/placement/ports.ts";
import { mayRetry } from "../../proxy/upstream/retry.ts";
import { clusterNamed } from "../support/placement-names.ts";

const phases = [
  "connect",
  "request_head",
  "request_body",
  "response_head",
  "response_body",
  "trailer",
] as const satisfies readonly UpstreamPhase[];
const methods = ["GET", "HEAD", "DELETE", "OPTIONS", "PUT", "POST"] as const;

t.test("what may have happened, or cannot be sent anew, is never repeated", async (t) => {
  for (const phase of phases) {
    const again = methods.filter((method) => {
      const may = (bytesSent: number, sourceBegun: boolean, unsendable: boolean): boolean => {
        const error = new UpstreamError(phase, clusterNamed("a"), { bytesSent });
        return mayRetry(method, { error, sourceBegun, unsendable });
      };
      t.notOk(may(1, false, false), `${method}, ${phase}: a byte of the body was sent`);
      t.notOk(may(0, true, false), `${method}, ${phase}: the body is begun`);
      t.notOk(may(0, false, true), `${method}, ${phase}: unsendable`);
      return may(0, false, false);
    });
    const harmless = phase === "request_head" ? methods.slice(0, 4) : [];
    t.strictSame(again, phase === "connect" ? methods : harmless, phase);
  }
});
