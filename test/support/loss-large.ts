// Rows of the table of deaths with much to send: what is in flight when a cluster dies is far more than
// any buffer on its way. Over real clusters only, where it takes seconds and not minutes.

import { LossCase } from "./loss-case.ts";
import type { LossRow } from "./loss-rows.ts";

const mebibyte = 2 ** 20;
const large = (size: number, seed: string): Buffer => Buffer.alloc(size * mebibyte, seed);

/** Of all cases, since it stays as it is. */
const source = ({ scene, home, away }: LossCase): string =>
  new LossCase(scene, "large", home).on(away, "source");
const sources = new WeakMap<LossCase["scene"], Promise<void>>();

async function hasSource(at: LossCase): Promise<void> {
  const path = source(at);
  const put = sources.get(at.scene) ?? at.put(path, large(100, "source of a copy, "));
  sources.set(at.scene, put);
  await put;
}

export const largeRows: readonly LossRow[] = [
  {
    operation: "GetObject",
    name: "GetObject, 64 MiB",
    diesAt: ["answer_body"],
    async setUp(at) {
      const path = at.on(at.home);
      await at.put(path, large(64, "download, "));
      return () => at.send({ method: "GET", path });
    },
    state: null,
    streams: true,
  },
  {
    operation: "PutObject",
    name: "PutObject, 64 MiB",
    diesAt: ["body"],
    async setUp(at) {
      const path = at.on(at.home);
      const body = large(64, "upload, ");
      return () => at.send({ method: "PUT", path, body });
    },
    state: (at) => at.objects(at.on(at.home)),
  },
  {
    operation: "CopyObject",
    name: "CopyObject between clusters, 100 MiB",
    diesAt: ["body", "answer_body"],
    asks: /^PUT \S*[?&]partNumber=3\b|^GET \S*\/large\.source/,
    async setUp(at) {
      await hasSource(at);
      const path = at.on(at.home, "target");
      await at.put(path, "before");
      const headers = [["x-amz-copy-source", source(at)]] as const;
      return () => at.send({ method: "PUT", path, headers });
    },
    state: async (at) => ({
      ...(await at.objects(at.on(at.home, "target"))),
      ...(await at.uploads(at.on(at.home, "target"))),
    }),
  },
];
