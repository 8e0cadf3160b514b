#!/usr/bin/env bash
# Starts a loopback etcd of one node. usage: etcd-up.sh [-d DIR] [-p PORT (its peer port is PORT + 1)]
# Calling it again starts what was killed, with its data.
set -euo pipefail
W=${TMPDIR:-/tmp}/headgate-etcd PORT=7379
while getopts d:p: o; do case $o in d) W=$OPTARG;; p) PORT=$OPTARG;; *) exit 2;; esac; done
command -v etcd >/dev/null && command -v etcdctl >/dev/null || { echo "etcd-server and etcd-client are not installed" >&2; exit 1; }
mkdir -p "$W"/{run,log,data}; W=$(cd "$W" && pwd)
CLIENT=http://127.0.0.1:$PORT PEER=http://127.0.0.1:$((PORT+1)) PID=$W/run/etcd.pid
if ! { [ -s "$PID" ] && kill -0 "$(cat "$PID")" 2>/dev/null; }; then
  HEADGATE_ETCD_DIR=$W setsid etcd --name e --data-dir "$W/data" --unsafe-no-fsync \
    --listen-client-urls "$CLIENT" --advertise-client-urls "$CLIENT" \
    --listen-peer-urls "$PEER" --initial-advertise-peer-urls "$PEER" --initial-cluster "e=$PEER" \
    --logger zap --log-level warn --log-outputs "$W/log/etcd.log" </dev/null >"$W/log/etcd.out" 2>&1 &
  echo $! > "$PID"
fi
for _ in $(seq 150); do
  ETCDCTL_API=3 etcdctl --endpoints "$CLIENT" --command-timeout 2s endpoint health >/dev/null 2>&1 && exit 0
  kill -0 "$(cat "$PID")" 2>/dev/null || break
  sleep 0.1
done
echo "etcd did not become healthy; see $W/log" >&2; exit 1
