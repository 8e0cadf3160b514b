// The parameters of requests about one multipart upload: the number of a part, and which parts a list is to
// show. RGW takes numbers that no Complete can name, and reads a page of none as one that goes on for ever
// (16.2.15 and 18.2.7); S3 refuses the first and ends the second.

import { S3Error } from "./errors.ts";
import type { QueryList } from "./headers.ts";
import { queryValue } from "./query.ts";

/** S3 User Guide "Amazon S3 multipart upload limits". */
export const maxPartNumber = 10_000;
const maxPageParts = 1000;
const maxInteger = 2_147_483_647;

export const partNumberText = "Part number must be an integer between 1 and 10000, inclusive";

/** The number in `partNumber`, 1 to 10000, or why it is none: InvalidArgument. */
export function readPartNumber(query: QueryList): number | S3Error {
  const text = queryValue(query, "partNumber");
  const number = integerIn(text ?? "", maxPartNumber);
  return number === null || number < 1 ? wrong("partNumber", text, partNumberText) : number;
}

/** What an upstream is asked for, and whether its client wants to see no part at all. */
export interface PartsPage {
  readonly query: QueryList;
  readonly isEmpty: boolean;
}

/** The page that a ListParts asks for, of 1000 parts at most, or why it is none: InvalidArgument. */
export function readPartsPage(query: QueryList): PartsPage | S3Error {
  for (const name of ["max-parts", "part-number-marker"]) {
    const text = queryValue(query, name) ?? "";
    if (text !== "" && integerIn(text, maxInteger) === null) {
      return wrong(name, text, `Argument ${name} must be an integer between 0 and ${maxInteger}`);
    }
  }
  const asked = queryValue(query, "max-parts") ?? "";
  if (asked === "") return { query, isEmpty: false };
  const count = Math.min(Number(asked), maxPageParts);
  const others = query.filter(([name]) => name !== "max-parts");
  return { query: [...others, ["max-parts", String(Math.max(count, 1))]], isEmpty: count === 0 };
}

function integerIn(text: string, most: number): number | null {
  const number = /^\d{1,10}$/.test(text) ? Number(text) : null;
  return number !== null && number <= most ? number : null;
}

function wrong(name: string, value: string | null, message: string): S3Error {
  const details = { ArgumentName: name, ArgumentValue: value ?? "" };
  return new S3Error("InvalidArgument", { message, details });
}
