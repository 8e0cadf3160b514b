#!/usr/bin/env bash
# Stops what rgw-up.sh started in DIR, by pid file, after a look that each pid still is that daemon.
# usage: rgw-down.sh [-d DIR] [-k (KILL at once)] [-p (purge the data)]
set -u
W=${TMPDIR:-/tmp}/headgate-rgw PURGE=0 SIG=TERM
while getopts d:kp o; do case $o in d) W=$OPTARG;; k) SIG=KILL;; p) PURGE=1;; *) exit 2;; esac; done
[ -d "$W/run" ] || { echo "nothing at $W"; exit 0; }
W=$(cd "$W" && pwd)
ours() { # pid
  kill -0 "$1" 2>/dev/null && tr '\0' '\n' < "/proc/$1/environ" 2>/dev/null | grep -qxF "CEPH_CONF=$W/ceph.conf"
}
stop() { # name: TERM, wait up to 15 s, then KILL
  local f=$W/run/$1.pid p; [ -s "$f" ] || return 0; p=$(cat "$f")
  if ours "$p"; then
    kill -$SIG "$p"
    for _ in $(seq 150); do kill -0 "$p" 2>/dev/null || break; sleep 0.1; done
    ours "$p" && { kill -KILL "$p"; echo "$1 ($p) needed KILL"; } || echo "$1 ($p) stopped"
  fi
  rm -f "$f"
}
stop client.rgw.a & stop client.rgw.b & wait   # each takes ~5 s on TERM
stop osd.0; stop mon.a
[ "$PURGE" = 1 ] && rm -rf "$W"
exit 0
