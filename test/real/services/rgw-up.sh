#!/usr/bin/env bash
# Starts one tiny Ceph cluster with two radosgw daemons, "a" and "b", that are two separate S3 clusters:
# two realms, two zones, two pool prefixes. Loopback only; no systemd, no docker, nothing outside DIR.
# usage: rgw-up.sh [-d DIR] [-a PORT_A] [-b PORT_B] [-m MON_PORT] [-s memstore|bluestore] [-l LISTEN_ADDRESS] [-n DNS_NAME] [-u]
# Calling it again leaves alone what runs and starts what was killed. User: headgate-rgw on both.
#   -n  a bucket may be named in front of this name in Host; without it every Host is path style
#   -u  also the users and the key service that ceph/s3-tests expects, as in its s3tests.conf.SAMPLE
set -euo pipefail
W=${TMPDIR:-/tmp}/headgate-rgw PA=7481 PB=7482 MP=7470 STORE=memstore API=default LISTEN=127.0.0.1 DNS_NAME= SUITE_USERS=0
while getopts d:a:b:m:s:l:n:u o; do case $o in
  d) W=$OPTARG;; a) PA=$OPTARG;; b) PB=$OPTARG;; m) MP=$OPTARG;; s) STORE=$OPTARG;;
  l) LISTEN=$OPTARG;; n) DNS_NAME=$OPTARG;; u) SUITE_USERS=1;; *) exit 2;; esac; done
T0=$(date +%s.%N)
say() { printf '%6.1fs %s\n' "$(echo "$(date +%s.%N) - $T0" | bc 2>/dev/null || awk "BEGIN{print $(date +%s.%N)-$T0}")" "$*" >&2; }
die() { say "FAILED: $*"; exit 1; }
for b in ceph-mon ceph-osd radosgw radosgw-admin ceph monmaptool; do command -v $b >/dev/null || die "$b is not installed"; done

mkdir -p "$W"/{run,log,mon,osd,rgw}
W=$(cd "$W" && pwd)
export CEPH_CONF=$W/ceph.conf
[ -s "$W/fsid" ] || cat /proc/sys/kernel/random/uuid > "$W/fsid"
[ -s "$W/osd.uuid" ] || cat /proc/sys/kernel/random/uuid > "$W/osd.uuid"
FSID=$(cat "$W/fsid")

rgwsect() { # name port
cat <<S
[client.rgw.$1]
  rgw_frontends = beast endpoint=$LISTEN:$2 tcp_nodelay=1
  rgw_realm = $1
  rgw_zonegroup = $1
  rgw_zone = $1
${DNS_NAME:+  rgw_dns_name = $DNS_NAME}
S
}
suitesect() { # what a run of ceph/s3-tests needs of [client]
[ "$SUITE_USERS" = 1 ] || return 0
cat <<S
  rgw_crypt_require_ssl = false
  rgw_crypt_s3_kms_backend = testing
  rgw_crypt_s3_kms_encryption_keys = testkey-1=$(printf 'headgate test key number one ... ' | head -c 32 | base64) testkey-2=$(printf 'headgate test key number two ... ' | head -c 32 | base64)
  rgw_lc_debug_interval = 10
S
}
conf() { cat <<C
[global]
  fsid = $FSID
  mon_host = [v2:127.0.0.1:$MP/0]
  public_addr = 127.0.0.1
  cluster_addr = 127.0.0.1
  ms_bind_msgr1 = false
  ms_bind_ipv6 = false
  ms_bind_port_min = $((MP+30))
  ms_bind_port_max = $((MP+130))
  auth_cluster_required = none
  auth_service_required = none
  auth_client_required = none
  ms_mon_client_mode = crc
  ms_cluster_mode = crc
  ms_service_mode = crc
  ms_client_mode = crc
  run_dir = $W/run
  admin_socket = $W/run/\$name.asok
  pid_file = $W/run/\$name.pid
  log_file = $W/log/\$name.log
  log_to_syslog = false
  log_to_stderr = false
  mon_cluster_log_file = $W/log/cluster.log
  crash_dir = $W/log
  osd_pool_default_size = 1
  osd_pool_default_min_size = 1
  osd_pool_default_pg_num = 1
  osd_pool_default_pgp_num = 1
  osd_pool_default_pg_autoscale_mode = off
  osd_crush_chooseleaf_type = 0
  mon_allow_pool_size_one = true
  mon_allow_pool_delete = true
  mon_warn_on_pool_no_redundancy = false
  mon_max_pg_per_osd = 2000
  mon_data_avail_warn = 2
  mon_data_avail_crit = 1
[mon]
  mon_data = $W/mon/\$id
  paxos_propose_interval = 0.05
  paxos_min_wait = 0.01
  mon_osd_adjust_heartbeat_grace = false
  auth_allow_insecure_global_id_reclaim = false
[osd]
  osd_data = $W/osd/\$id
  osd_objectstore = $STORE
  memstore_device_bytes = 6442450944
  bluestore_block_size = 10737418240
  bluestore_block_create = true
  bluestore_fsck_on_mount = false
  osd_memory_target = 939524096
  osd_class_load_list = *
  osd_class_default_list = *
  osd_pool_default_flag_hashpspool = true
  # A radosgw that was killed: until then the others wait for its answer to every change of a bucket.
  osd_client_watch_timeout = 5
  osd_scrub_begin_hour = 3
  osd_scrub_end_hour = 4
[client]
  rgw_thread_pool_size = 64
  rgw_gc_obj_min_wait = 300
  rgw_gc_processor_period = 120
  rgw_gc_processor_max_time = 120
  rgw_enable_ops_log = false
  rgw_enable_usage_log = false
  rgw_run_sync_thread = false
$(suitesect)
$(rgwsect a "$PA")
$(rgwsect b "$PB")
C
}
conf > "$W/ceph.conf.new"
cmp -s "$W/ceph.conf.new" "$CEPH_CONF" 2>/dev/null && rm "$W/ceph.conf.new" || mv "$W/ceph.conf.new" "$CEPH_CONF"

alive() { [ -s "$W/run/$1.pid" ] && kill -0 "$(cat "$W/run/$1.pid")" 2>/dev/null; }
waitfor() { # seconds, command...
  local end=$(( $(date +%s) + $1 )); shift
  until "$@" >/dev/null 2>&1; do [ "$(date +%s)" -lt $end ] || return 1; sleep 0.1; done
}
port() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
c() { timeout 20 ceph --connect-timeout 10 "$@"; }

# memstore lives in the OSD's memory (osd_fast_shutdown skips its save): once that OSD is gone the cluster is
# void and would hang, so start over. Use -s bluestore for data that must survive rgw-down/rgw-up.
if [ "$STORE" = memstore ] && [ -e "$W/osd/0/ready" ] && ! alive osd.0; then
  say "memstore OSD is gone: starting from nothing"
  "$(dirname "$(readlink -f "$0")")/rgw-down.sh" -k -d "$W" >&2 || true
  rm -rf "$W"/mon/* "$W"/osd/* "$W"/rgw/*
fi
# --- mon
if ! alive mon.a; then
  port "$MP" && die "port $MP is taken"
  if [ ! -d "$W/mon/a/store.db" ]; then
    monmaptool --create --clobber --fsid "$FSID" --addv a "[v2:127.0.0.1:$MP/0]" "$W/monmap" >/dev/null
    ceph-mon -i a --mkfs --monmap "$W/monmap"
  fi
  ceph-mon -i a
fi
waitfor 15 port "$MP" || die "mon does not listen"
say "mon up"
# --- osd
if ! alive osd.0; then
  if [ ! -e "$W/osd/0/ready" ]; then
    rm -rf "$W/osd/0"; mkdir -p "$W/osd/0"
    c osd new "$(cat "$W/osd.uuid")" >/dev/null
    ceph-osd -i 0 --mkfs --osd-uuid "$(cat "$W/osd.uuid")" >"$W/log/osd.mkfs" 2>&1 || die "osd mkfs: $(tail -3 "$W/log/osd.mkfs")"
    touch "$W/osd/0/ready"
  fi
  ceph-osd -i 0 >"$W/log/osd.out" 2>&1 || die "osd: $(tail -3 "$W/log/osd.out")"
fi
osdup() { [ "$(c osd stat -f json | tr -d ' \n' | grep -o '"num_up_osds":[0-9]*')" = '"num_up_osds":1' ]; }
waitfor 30 osdup || die "osd does not come up"
say "osd up"

# --- realms, zones, pools
seed() { # name port
  local n=$1 p=$2 adm="timeout 60 radosgw-admin -n client.rgw.$1"
  [ -e "$W/rgw/$n.zone" ] && return 0
  $adm realm create --rgw-realm="$n" --default >/dev/null
  $adm zonegroup create --rgw-realm="$n" --rgw-zonegroup="$n" --endpoints="http://127.0.0.1:$p" --master --default >/dev/null
  # same api_name on both, as a client that sends LocationConstraint expects of one service
  $adm zonegroup get --rgw-realm="$n" --rgw-zonegroup="$n" | sed "s/\"api_name\": \"$n\"/\"api_name\": \"$API\"/" >"$W/rgw/$n.zg.json"
  $adm zonegroup set --rgw-realm="$n" --rgw-zonegroup="$n" --infile "$W/rgw/$n.zg.json" >/dev/null
  $adm zone create --rgw-realm="$n" --rgw-zonegroup="$n" --rgw-zone="$n" --endpoints="http://127.0.0.1:$p" --master --default >/dev/null
  $adm period update --commit --rgw-realm="$n" >/dev/null
  touch "$W/rgw/$n.zone"
}
user() { # rgw uid display-name email access-key secret-key [options...]
  local n=$1 uid=$2 name=$3 email=$4 key=$5 secret=$6; shift 6
  timeout 60 radosgw-admin -n "client.rgw.$n" user create --uid="$uid" --display-name="$name" \
    ${email:+--email="$email"} --access-key="$key" --secret-key="$secret" "$@" >/dev/null
}
users() { # name
  [ -e "$W/rgw/$1.users" ] && return 0
  user "$1" headgate-rgw Headgate '' HEADGATERGWACCESS001 headgate-rgw-secret-for-tests-only-0001 || return 1
  if [ "$SUITE_USERS" = 1 ]; then
    user "$1" testid 'M. Tester' tester@ceph.com 0555b35654ad1656d804 'h7GhxuBLTrlhVUyxSPUKUV8r/2EI4ngqJxD7iBdBYLhwluN30JaT3Q==' \
      --caps='users=*;buckets=*;metadata=*;usage=*;zone=*;roles=*;user-policy=*' || return 1
    user "$1" 56789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234 john.doe john.doe@example.com \
      NOPQRSTUVWXYZABCDEFG nopqrstuvwxyzabcdefghijklmnabcdefghijklm || return 1
    user "$1" 'testx$9876543210abcdef0123456789abcdef0123456789abcdef0123456789abcdef' tenanteduser tenanteduser@example.com \
      HIJKLMNOPQRSTUVWXYZA opqrstuvwxyzabcdefghijklmnopqrstuvwxyzab --caps='roles=*' || return 1
    user "$1" 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef youruseridhere s3@example.com \
      ABCDEFGHIJKLMNOPQRST abcdefghijklmnopqrstuvwxyzabcdefghijklmn --caps='user-policy=*;roles=*' || return 1
  fi
  touch "$W/rgw/$1.users"
}
rgw() { # name port
  # a radosgw that aborted keeps its pid for some seconds while it writes its dump: wait until it either serves or is gone
  local i; for i in $(seq 150); do alive "client.rgw.$1" || break; port "$2" && return 0; sleep 0.2; done
  port "$2" && die "port $2 is taken"
  # -f + setsid: in daemon mode the parent would sit for rgw_init_timeout (300 s) when the start fails
  # (and with -f it writes no pid file, so write it here: setsid execs in place, $! is radosgw)
  setsid radosgw -f -n "client.rgw.$1" </dev/null >"$W/log/rgw.$1.out" 2>&1 &
  echo $! > "$W/run/client.rgw.$1.pid"
  waitfor 60 port "$2" || die "radosgw $1 does not listen on $2: $(tail -3 "$W/log/client.rgw.$1.log")"
}
s3ok() { [ "$(curl -s -o /dev/null -m 5 -w '%{http_code}' "http://127.0.0.1:$1/")" = 200 ]; }
both() { "$1" a "$PA" & local x=$!; "$1" b "$PB" & local y=$!; wait $x && wait $y; }
  # realm objects share the .rgw.root pool: make the first before the second so the pool exists
  seed a "$PA"; say "realm a"; seed b "$PB"; say "realm b"
  both users || die "users"; say "users"
both rgw || die "radosgw"; say "radosgw listening"
waitfor 30 s3ok "$PA" || die "rgw a does not answer"; waitfor 30 s3ok "$PB" || die "rgw b does not answer"
say "ready: http://127.0.0.1:$PA (a) http://127.0.0.1:$PB (b)  CEPH_CONF=$CEPH_CONF"
