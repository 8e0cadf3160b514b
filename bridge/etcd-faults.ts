// Errors of etcd3 and gRPC → the bridge's. Anything a call did not answer is `state_unavailable`
// with unknown outcome; the cause is kept, the text never holds a credential.

import { FaultError } from "../proxy/placement/ports.ts";
import { WatchCompactedError } from "../proxy/placement/state-store.ts";

/** etcd's own words (`ErrCompacted` in etcd 3.4 `rpctypes/error.go`). */
const compactedText = "required revision has been compacted";

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** `what`: `read "/headgate/v1/buckets/"`, completing "Cannot …". */
export function etcdFault(what: string, error: unknown): FaultError | WatchCompactedError {
  const message = messageOf(error);
  if (message.includes(compactedText)) {
    return new WatchCompactedError(`Cannot ${what}: the revision is compacted`, { cause: error });
  }
  if (error instanceof FaultError) return error;
  return new FaultError("state_unavailable", `Cannot ${what}: etcd answered "${message}"`, error);
}
