// The last file of the real suites: a green run in which half of them did not run is a failure. The
// runner takes files in order and one at a time, so all others have ended by now.

import t from "tap";
import { findCommand } from "../support/requires.ts";
import { forgetTestsThatRan, testsThatRan } from "./support/lab.ts";
import { serviceCommands } from "./support/services.ts";

/** How many tests the other files of this folder hold. Raise it with every test that is added. */
const expectedCount = 213;

const ran = testsThatRan();
const installed = serviceCommands.every((name) => findCommand(name) !== null);
const alone = ran.length === 0 && process.env["CI"] !== "true";

t.test(
  "every real test has run",
  { skip: alone ? (installed ? "this file runs alone" : "the services are not installed") : false },
  async (t) => {
    t.teardown(forgetTestsThatRan);
    t.ok(ran.length >= expectedCount, `${ran.length} of ${expectedCount} ran: ${ran.join(", ")}`);
  },
);
