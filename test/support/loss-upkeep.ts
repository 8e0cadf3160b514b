// Rows of the table of deaths for what is no S3 operation: adoption and the reconciler, over the admin
// listener.

import type { LossRow } from "./loss-rows.ts";

const tags = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>";

/** Of the case's own bucket, whose name is told without its number. */
const recorded = /"bucket":"CASE-"[^}]*"outcome":"recorded"/;

/** Recorded or not, whichever cluster has it. */
export const adoptRow: LossRow = {
  operation: null,
  name: "adopt",
  tried: "exchanges",
  asks: /^GET \/(?:\?(?!usage)|$)/,
  async setUp(at) {
    await at.must({ method: "PUT", path: at.ownBucket }, at.home);
    return () => at.admin("POST", "/adopt");
  },
  state: async (at) => ({
    [`record of ${at.ownBucket}`]: String(
      (await at.admin("GET", `/buckets${at.ownBucket}`)).status,
    ),
  }),
  claims: ({ text }, names) => (recorded.test(text) ? names : []),
};

/** What one cluster has is copied to the other; takes two looks, half a second apart. */
export const driftRow: LossRow = {
  operation: null,
  name: "drift --heal",
  async setUp(at) {
    const path = at.ownBucket;
    await at.put(path, "");
    await at.must({ method: "PUT", path, query: "tagging=", body: tags }, "a");
    return () => at.admin("POST", `/buckets${path}/drift`);
  },
  state: (at) => at.setting(at.ownBucket, "tagging="),
  claims: ({ text }, names) => (text.includes(`"outcome":"healed"`) ? names : []),
};
