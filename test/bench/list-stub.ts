// The clusters of test/support/stub-lists.ts in a process of their own.
// usage: list-stub.js COUNT KEY_BYTES PORT PORT PORT PORT PORT

import { startStubLists } from "../support/stub-lists.ts";

const [count = 0, keyBytes = 0, ...ports] = process.argv.slice(2).map(Number);
await startStubLists({ count, keyBytes, ports });
process.stdout.write("ready\n");
