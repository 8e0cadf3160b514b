// Faults that a test can order from a demo cluster, request by request. Decided after the head was read
// and before anything is verified or stored.

import type { S3ErrorCode } from "../s3/errors.ts";

/** What a request looks like to a fault rule; `target` is raw, `/b/a%20b?x=`. */
interface FaultSubject {
  readonly method: string;
  readonly target: string;
}

export type DemoFault =
  /** Close the connection hard, without an answer. */
  | "reset"
  /** Never answer; the connection stays open. */
  | "stall"
  /** Answer at once, without reading the body. */
  | { readonly status: number; readonly code?: S3ErrorCode }
  /** Do the work and answer, but close the connection after so many body bytes. */
  | { readonly cutAfterBytes: number };

/** `null`: no fault. */
export type FaultRule = (request: FaultSubject) => DemoFault | null;
