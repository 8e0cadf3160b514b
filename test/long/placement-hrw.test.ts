// Ten million random values of E against the oracle, and many steps of it.

import t from "tap";
import {
  differences,
  powerValues,
  randomValues,
  stepValues,
} from "../support/placement-compare.ts";

t.test("the shipped E equals the oracle's for 10^7 random values", async (t) => {
  t.strictSame(differences(powerValues()), []);
  t.strictSame(differences(stepValues(20_000, 11n)), []);
  t.strictSame(differences(randomValues(10_000_000, 7n)), []);
});
