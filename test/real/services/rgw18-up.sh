#!/usr/bin/env bash
# The lab of rgw-up.sh with the RGW of Debian trixie (18.2), on a host of another release: its packages
# live in a folder made once by debootstrap, and every daemon enters that folder in a mount namespace of
# its own, so nothing is mounted on the host and no package of it changes. Needs root.
# usage: rgw18-up.sh [-r ROOT] [-i (only make ROOT)] [options of rgw-up.sh, -d first of all]
# ROOT: ${HEADGATE_LAB_ROOT:-/var/cache/headgate-lab}/trixie; rgw-down.sh stops what this started.
set -euo pipefail
HERE=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
SUITE=trixie ROOT=${HEADGATE_LAB_ROOT:-/var/cache/headgate-lab}/trixie W='' ONLY=0 PASS=()
while getopts r:id:a:b:m:s:l:n:u o; do case $o in
  r) ROOT=$OPTARG;; i) ONLY=1;; d) W=$OPTARG;; u) PASS+=(-u);; [abmsln]) PASS+=("-$o" "$OPTARG");; *) exit 2;; esac; done
die() { echo "FAILED: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "needs root"
[ "$ONLY" = 1 ] || [ -n "$W" ] || die "needs -d DIR"

# usage: enter ROOT BIND|- COMMAND... It is exec all the way: the caller's $! is the daemon.
enter_script() { cat <<'S'
#!/usr/bin/env bash
# Written by rgw18-up.sh: runs a command inside ROOT, which sees BIND at its own path.
R=$1 B=$2; shift 2
# unshare cannot make the mounts private itself where / is no mount point, as in a chroot.
exec unshare -m --propagation unchanged bash -c 'set -e; R=$0 B=$1; shift
  mount --make-rprivate / 2>/dev/null || ! grep -q " shared:" /proc/self/mountinfo || { echo "the mounts are shared and cannot be made private" >&2; exit 1; }
  mount --rbind /proc "$R/proc"; mount --rbind /dev "$R/dev"
  if [ "$B" != - ]; then mkdir -p "$R$B"; mount --bind "$B" "$R$B"; fi
  # Without the wrappers below, which can be seen inside and would call themselves.
  PATH=/usr/sbin:/usr/bin:/sbin:/bin
  exec chroot "$R" "$@"' "$R" "$B" "$@"
S
}

make_root() { # a folder beside ROOT becomes ROOT when it is whole
  local new=$ROOT.new code mirror file
  command -v debootstrap >/dev/null || die "debootstrap is not installed"
  [ -e "/usr/share/debootstrap/scripts/$SUITE" ] || die "this debootstrap does not know $SUITE"
  code=$(. /etc/os-release; echo "$VERSION_CODENAME")
  # Where this host takes its own packages from.
  mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' | awk -v c="$code" '$2==c && $3=="main" {print $1; exit}')
  [ -n "$mirror" ] || die "no mirror for $code/main in the settings of apt: run apt-get update"
  rm -rf --one-file-system "$new"; mkdir -p "$new"
  debootstrap --variant=minbase --include=ca-certificates "$SUITE" "$new" "$mirror" >"$ROOT.log" 2>&1 || die "debootstrap: $(tail -3 "$ROOT.log")"
  # No package may start a daemon.
  printf '#!/bin/sh\nexit 101\n' >"$new/usr/sbin/policy-rc.d"; chmod 755 "$new/usr/sbin/policy-rc.d"
  # What apt needs to reach its mirror from here counts in the folder, too.
  for file in /etc/apt/apt.conf.d/*; do
    if grep -qE '^ *Acquire::(Check|http|https)' "$file"; then cp "$file" "$new/etc/apt/apt.conf.d/"; fi
  done
  cp -L /etc/resolv.conf "$new/etc/resolv.conf"
  enter_script >"$ROOT.enter"; chmod 755 "$ROOT.enter"
  "$ROOT.enter" "$new" - /usr/bin/env DEBIAN_FRONTEND=noninteractive LC_ALL=C sh -ec '
    apt-get update -qq
    apt-get install -y --no-install-recommends ceph-mon ceph-osd radosgw ceph-common
    apt-get clean; rm -rf /var/lib/apt/lists/*' >>"$ROOT.log" 2>&1 </dev/null || die "apt in $new: $(tail -3 "$ROOT.log")"
  touch "$new/.whole"
  rm -rf --one-file-system "$ROOT"; mv "$new" "$ROOT"
}

mkdir -p "$(dirname "$ROOT")"
if [ ! -e "$ROOT/.whole" ]; then
  exec 9>"$ROOT.lock"; flock 9
  [ -e "$ROOT/.whole" ] || make_root 9>&-
  exec 9>&-
fi
if [ "$ONLY" = 1 ]; then echo "$ROOT is there"; exit 0; fi

mkdir -p "$W/bin"; W=$(cd "$W" && pwd); ROOT=$(cd "$ROOT" && pwd)
enter_script >"$W/bin/.enter"; chmod 755 "$W/bin/.enter"
for tool in ceph ceph-mon ceph-osd radosgw radosgw-admin monmaptool; do
  printf '#!/bin/sh\nexec %q %q %q %s "$@"\n' "$W/bin/.enter" "$ROOT" "$W" "$tool" >"$W/bin/$tool.new"
  chmod 755 "$W/bin/$tool.new"; mv "$W/bin/$tool.new" "$W/bin/$tool"
done
PATH=$W/bin:$PATH exec "$HERE/rgw-up.sh" -d "$W" ${PASS[@]+"${PASS[@]}"}
