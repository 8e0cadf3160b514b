// Turns what zod found into faults with a place and, for unknown keys, the nearest valid one.

import type { z } from "zod";
import { validKeys } from "./setting-list.ts";
import type { ConfigFault, SettingPath } from "./source-file.ts";
import { nearestName } from "./values.ts";

type Locate = (
  path: SettingPath,
  part: "key" | "value",
) => Pick<ConfigFault, "source" | "position">;

/** One fault an issue; an issue about several unknown keys gives one for each. */
export function issueFaults(
  issues: readonly z.core.$ZodIssue[],
  root: z.core.$ZodType,
  locate: Locate,
): readonly ConfigFault[] {
  return issues.flatMap((issue): readonly ConfigFault[] => {
    const path = issue.path.map((part) => (typeof part === "number" ? part : String(part)));
    if (issue.code !== "unrecognized_keys") {
      const message = issue.message.startsWith("Invalid input") ? zodText(issue) : issue.message;
      return [{ ...locate(path, "value"), path, message }];
    }
    const valid = validKeys(root, path);
    return issue.keys.map((key) => {
      const at = [...path, key];
      const nearest = nearestName(key, valid);
      const message =
        nearest === null
          ? `Unknown key, valid are ${valid.join(", ")}`
          : `Unknown key, nearest is "${nearest}"`;
      return { ...locate(at, "key"), path: at, message };
    });
  });
}

/** Our wording where the schema gave none. */
function zodText(issue: z.core.$ZodIssue): string {
  if (issue.code === "invalid_type") {
    const missing = issue.message.endsWith("received undefined");
    const wanted = { array: "a list", object: "a map", string: "text" }[issue.expected as string];
    return missing
      ? `Key is missing, needs ${wanted ?? issue.expected}`
      : `Expected ${wanted ?? issue.expected}`;
  }
  if (issue.code === "invalid_value") return `Expected one of ${issue.values.join(", ")}`;
  return issue.message;
}
