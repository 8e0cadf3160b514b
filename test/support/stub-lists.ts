// Clusters that answer HeadBucket and ListObjectsV2 and nothing else, as fast as can be: the last one holds
// all keys in the bucket `one`, the others a part each in the bucket `spread`, as if by the hash of the key.

import { createHash } from "node:crypto";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { AddressInfo } from "node:net";

export interface StubLists {
  readonly count: number;
  /** Of each key; a shorter one is as long as a usual name. */
  readonly keyBytes: number;
  /** `0`: any free one. The last is that of the cluster with all keys. */
  readonly ports: readonly number[];
}

/** Starts them; gives their ports. */
export async function startStubLists(
  lists: StubLists,
): Promise<{ readonly servers: readonly Server[]; readonly ports: readonly number[] }> {
  const parts = partsOf(lists);
  const servers = parts.map((keys) => stubOf(keys, keys === parts.at(-1)));
  await Promise.all(
    servers.map(async (server, part) => {
      await new Promise<void>((resolve) =>
        server.listen(lists.ports[part] ?? 0, "127.0.0.1", resolve),
      );
    }),
  );
  return { servers, ports: servers.map((server) => (server.address() as AddressInfo).port) };
}

function stubOf(keys: readonly string[], holdsAll: boolean): Server {
  return createServer({ noDelay: true, keepAliveTimeout: 60_000 }, (request, response) => {
    const document = answer(request, holdsAll ? "/one" : "/spread", keys);
    if (document === null) response.writeHead(404, { "content-length": "0" }).end();
    else {
      const length = String(Buffer.byteLength(document));
      response.writeHead(200, { "content-type": "application/xml", "content-length": length });
      response.end(document);
    }
  });
}

/** The keys of each cluster. */
function partsOf({ count, keyBytes, ports }: StubLists): readonly (readonly string[])[] {
  const all = Array.from({ length: count }, (_, index) =>
    `logs/2026-11-30/host-${index % 7}/${String(index).padStart(8, "0")}.json.gz`.padEnd(
      keyBytes,
      "-",
    ),
  ).sort();
  const parts: string[][] = ports.slice(1).map(() => []);
  for (const key of all) {
    parts[(createHash("md5").update(key).digest()[0] ?? 0) % parts.length]?.push(key);
  }
  return [...parts, all];
}

function rowOf(key: string): string {
  return (
    `<Contents><Key>${key}</Key><LastModified>2026-11-30T00:00:26.452Z</LastModified>` +
    "<ETag>&quot;d41d8cd98f00b204e9800998ecf8427e&quot;</ETag><Size>1024</Size>" +
    "<StorageClass>STANDARD</StorageClass><Type>Normal</Type></Contents>"
  );
}

/** The index of the first key behind `after`. */
function behind(keys: readonly string[], after: string): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((keys[middle] ?? "") <= after) low = middle + 1;
    else high = middle;
  }
  return low;
}

function listOf(keys: readonly string[], query: URLSearchParams): string {
  const most = Number(query.get("max-keys") ?? 1000);
  const at = behind(keys, query.get("start-after") ?? "");
  const page = keys.slice(at, at + most);
  const more = at + most < keys.length;
  return (
    '<?xml version="1.0" encoding="UTF-8"?><ListBucketResult ' +
    'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>bucket</Name><Prefix></Prefix>' +
    `<MaxKeys>${most}</MaxKeys><EncodingType>url</EncodingType><IsTruncated>${more}</IsTruncated>` +
    `${more ? "<NextContinuationToken>next</NextContinuationToken>" : ""}` +
    `<KeyCount>${page.length}</KeyCount>${page.map(rowOf).join("")}</ListBucketResult>`
  );
}

function answer(request: IncomingMessage, path: string, keys: readonly string[]): string | null {
  const url = new URL(request.url ?? "/", "http://stub");
  if (!url.pathname.startsWith(path)) return null;
  return request.method === "HEAD" ? "" : listOf(keys, url.searchParams);
}
