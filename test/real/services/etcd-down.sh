#!/usr/bin/env bash
# Stops what etcd-up.sh started in DIR. usage: etcd-down.sh [-d DIR] [-k (KILL: a crash)] [-p (purge the data)]
set -u
W=${TMPDIR:-/tmp}/headgate-etcd SIG=TERM PURGE=0
while getopts d:kp o; do case $o in d) W=$OPTARG;; k) SIG=KILL;; p) PURGE=1;; *) exit 2;; esac; done
[ -d "$W/run" ] || exit 0; W=$(cd "$W" && pwd)
if [ -s "$W/run/etcd.pid" ]; then
  p=$(cat "$W/run/etcd.pid")
  if tr '\0' '\n' <"/proc/$p/environ" 2>/dev/null | grep -qxF "HEADGATE_ETCD_DIR=$W"; then
    kill -CONT "$p"; kill -$SIG "$p"
    for _ in $(seq 100); do kill -0 "$p" 2>/dev/null || break; sleep 0.1; done
  fi
  rm -f "$W/run/etcd.pid"
fi
[ "$PURGE" = 1 ] && rm -rf "$W"; exit 0
