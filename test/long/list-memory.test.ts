// Many lists of long names at once, each of which reads a thousand keys of every cluster: all are answered,
// and the process grows by what it sets aside for lists, not by what they are asked for.

import t, { type Test } from "tap";
import { forgetPeak, residentBytes, startBareProcess } from "../support/bare-process.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { startStubLists } from "../support/stub-lists.ts";

/** Of 1.2 MiB a cluster and list: 1.2 GiB in all. */
const clients = 256;
/** Without a bound it was 281 MiB, with it 133. */
const growthLimitBytes = 224 * 1024 * 1024;

async function open(t: Test): Promise<{ readonly url: string; readonly pid: number }> {
  const ports = Array.from({ length: 5 }, () => 0);
  const lists = await startStubLists({ count: 20_000, keyBytes: 1024, ports });
  t.teardown(() => {
    for (const server of lists.servers) {
      server.closeAllConnections();
      server.close();
    }
  });
  const clusters = lists.ports.map((port, index) => [`c${index}`, `http://127.0.0.1:${port}`]);
  return await startBareProcess(t, Object.fromEntries(clusters));
}

t.test("many lists at once are bounded in memory", async (t) => {
  const { url, pid } = await open(t);
  const list = async (): Promise<number> => {
    // No key has the delimiter, but one might: every cluster is asked for a whole page.
    const query = "delimiter=%7C&list-type=2";
    const head = rawHead(url, { method: "GET", path: "/spread", query });
    const { status, text } = await rawExchange(url, head);
    if (status === 200) t.equal(text.split("<Contents>").length - 1, 1000);
    else t.match(text, "<Code>SlowDown</Code>");
    return status;
  };
  // Code is compiled and pools are open before the first figure.
  for (let n = 0; n < 20; n += 1) t.equal(await list(), 200);
  const before = residentBytes(pid);
  forgetPeak(pid);
  const began = performance.now();
  const statuses = await Promise.all(Array.from({ length: clients }, list));
  const growth = residentBytes(pid, "VmHWM") - before;
  const served = statuses.filter((status) => status === 200).length;
  t.comment(
    `${served} of ${clients} served in ${Math.round(performance.now() - began)} ms, ` +
      `resident ${before} bytes before, ${growth} more at most`,
  );
  t.ok(served > clients / 2);
  t.ok(growth < growthLimitBytes, `grew by ${Math.round(growth / 1024 / 1024)} MiB`);
  for (let n = 0; n < 20; n += 1) t.equal(await list(), 200, "nothing is left behind");
});
