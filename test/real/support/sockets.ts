// Established TCP connections of one process, read from /proc: what is still open after a fault.

import { readdirSync, readFileSync, readlinkSync } from "node:fs";

const established = "01";

export interface OpenConnection {
  readonly localPort: number;
  readonly remotePort: number;
}

/** Inode numbers of the sockets that a process holds. */
function socketInodes(pid: number): ReadonlySet<string> {
  const folder = `/proc/${pid}/fd`;
  const inodes = new Set<string>();
  for (const name of readdirSync(folder)) {
    const inode = /^socket:\[(\d+)\]$/.exec(linkOf(`${folder}/${name}`))?.[1];
    if (inode !== undefined) inodes.add(inode);
  }
  return inodes;
}

/** A descriptor may be gone by the time it is looked at. */
function linkOf(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return "";
  }
}

/** `0100007F:1F90` → 8080. */
function portOf(address: string): number {
  return Number.parseInt(address.split(":").at(-1) ?? "", 16);
}

/** The established connections that a process holds, over IPv4 and IPv6. */
export function openConnections(pid: number): readonly OpenConnection[] {
  const inodes = socketInodes(pid);
  return ["tcp", "tcp6"].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, "utf8")
      .split("\n")
      .slice(1)
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === established && inodes.has(inode ?? ""))
      .map(([, local = "", remote = ""]) => ({
        localPort: portOf(local),
        remotePort: portOf(remote),
      })),
  );
}
