// The file store: the common suite on a real disk, restarts, a lock, damaged files, a full disk.

import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import t, { type Test } from "tap";
import type { DurableFiles } from "../../bridge/durable-files.ts";
import { FileStore } from "../../bridge/file-store.ts";
import { nodeFiles } from "../../bridge/node-files.ts";
import { WatchCompactedError } from "../../proxy/placement/state-store.ts";
import { conforms } from "../support/bridge-conformance.ts";
import { CountingMeter, faultKind, HandClock, never } from "../support/bridge-parts.ts";

async function freshPath(t: Test): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "headgate-state-"));
  t.teardown(() => rm(folder, { recursive: true, force: true }));
  return join(folder, "deep", "state.json");
}

function openAt(path: string, files: DurableFiles = nodeFiles): Promise<FileStore> {
  return FileStore.open({ clock: new HandClock(), meter: new CountingMeter(), path, files });
}

conforms(t, async (t) => {
  const clock = new HandClock();
  const path = await freshPath(t);
  const meter = new CountingMeter();
  const store = await FileStore.open({ clock, meter, path, files: nodeFiles });
  t.teardown(() => store.close());
  return {
    store,
    compact: (revision) => store.compact(revision),
    pass: async (ttlSeconds) => {
      await clock.advance(ttlSeconds * 1000);
      // The expiry writes the file before anybody sees it.
      await store.range("/", { signal: never });
    },
  };
});

t.test("a restart keeps values and revisions, drops leases and history", async (t) => {
  const path = await freshPath(t);
  const first = await openAt(path);
  const created = await first.txn([], [{ kind: "put", key: "/a", value: "1" }], []);
  const lease = await first.lease(10);
  await first.txn([], [{ kind: "put", key: "/live", value: "1", lease }], []);
  const last = await first.txn(
    [],
    [
      { kind: "put", key: "/a", value: "2" },
      { kind: "put", key: "/b", value: "ü" },
    ],
    [],
  );
  await first.close();
  const second = await openAt(path);
  t.teardown(() => second.close());
  const { entries, revision } = await second.range("/", { signal: never });
  t.equal(revision, last.revision);
  t.strictSame(entries, [
    { key: "/a", value: "2", createRevision: created.revision, modRevision: last.revision },
    { key: "/b", value: "ü", createRevision: last.revision, modRevision: last.revision },
  ]);
  const old = second.watch("/", created.revision, never)[Symbol.asyncIterator]();
  await t.rejects(old.next(), WatchCompactedError);
  const next = await second.txn([], [{ kind: "put", key: "/c", value: "3" }], []);
  t.equal(next.revision, last.revision + 1n);
});

t.test("a second process is refused, and may open it afterwards", async (t) => {
  const path = await freshPath(t);
  const first = await openAt(path);
  t.equal(await faultKind(openAt(path)), "state_unavailable");
  await first.close();
  await (await openAt(path)).close();
});

t.test("the lock of a dead process is taken over", async (t) => {
  const path = await freshPath(t);
  await (await openAt(path)).close();
  // No process has this id: it is above the kernel's limit.
  await writeFile(`${path}.lock`, "4194305\n");
  await (await openAt(path)).close();
});

t.test("a damaged file is a clear error and is left as it is", async (t) => {
  const path = await freshPath(t);
  const store = await openAt(path);
  await store.txn([], [{ kind: "put", key: "/a", value: "1" }], []);
  await store.close();
  const good = await readFile(path, "utf8");
  for (const bad of ["", good.slice(0, -5), "[]", good.replace('"schema":1', '"schema":2')]) {
    await writeFile(path, bad);
    await t.rejects(openAt(path), { name: "FaultError", message: /^Cannot open state file "/ });
    t.equal(await readFile(path, "utf8"), bad);
  }
  await writeFile(path, good);
  const again = await openAt(path);
  t.equal((await again.range("/a", { signal: never })).entries[0]?.value, "1");
  await again.close();
});

t.test("what the disk refused did not happen", async (t) => {
  const path = await freshPath(t);
  let isFull = false;
  const files: DurableFiles = {
    ...nodeFiles,
    replace: (where, chunks) =>
      isFull ? Promise.reject(new Error("ENOSPC")) : nodeFiles.replace(where, chunks),
  };
  const store = await openAt(path, files);
  t.teardown(() => store.close());
  const { revision } = await store.txn([], [{ kind: "put", key: "/a", value: "1" }], []);
  isFull = true;
  t.equal(
    await faultKind(store.txn([], [{ kind: "put", key: "/a", value: "2" }], [])),
    "state_unavailable",
  );
  const held = await store.range("/a", { signal: never });
  t.equal(held.entries[0]?.value, "1");
  t.equal(held.revision, revision);
  isFull = false;
  const next = await store.txn([], [{ kind: "put", key: "/a", value: "3" }], []);
  t.equal(next.revision, revision + 1n);
});
