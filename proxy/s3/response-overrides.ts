// What `response-content-type=…` and its like put into the answer of a read (S3 API Reference GetObject). A
// server writes the value as it stands: a line end in it would begin a field, or an answer, of the
// client's own making, so no value with a control character is sent on (RFC 9110 §5.5).

import { S3Error } from "./errors.ts";
import type { QueryList } from "./headers.ts";
import { objectReadParameters } from "./subresource.ts";

const prefix = "response-";

// oxlint-disable-next-line no-control-regex -- all but the tab, which a field may hold
const control = /[\u0000-\u0008\u000a-\u001f\u007f]/;

/** The field that a parameter sets, `content-type` of `response-content-type`; `null` for any other. */
export function overriddenField(parameter: string): string | null {
  const sets = parameter.startsWith(prefix) && objectReadParameters.has(parameter);
  return sets ? parameter.slice(prefix.length) : null;
}

/** The refusal of a value that no field can hold. */
export function overrideError(query: QueryList): S3Error | null {
  const wrong = query.find(
    ([name, value]) => overriddenField(name) !== null && control.test(value ?? ""),
  );
  if (wrong === undefined) return null;
  return new S3Error("InvalidArgument", {
    message: "Header value cannot hold a control character",
    details: { ArgumentName: wrong[0] },
  });
}
