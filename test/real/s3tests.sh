#!/usr/bin/env bash
# Runs ceph/s3-tests through Headgate in front of one RGW: the tests of s3tests-mustpass.txt, which are
# those that pass against RGW 16.2 and 18.2 alone. Prints the names that are lost; exit 1 if there are any.
# usage: s3tests.sh [-d DIR] [-n WORKERS] [-k (keep DIR)] CHECKOUT [options of pytest, such as -k WORD]
# CHECKOUT: a work tree of ceph/s3-tests. Needs what a lab needs, opa, and `npm run build` before it.
set -euo pipefail
HERE=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
HOME_DIR=$(cd "$HERE/../.." && pwd)
W='' WORKERS=2 KEEP=0
while getopts d:n:k o; do case $o in d) W=$OPTARG;; n) WORKERS=$OPTARG;; k) KEEP=1;; *) exit 2;; esac; done
shift $((OPTIND - 1))
[ $# -ge 1 ] || { sed -n 's/^# usage: //p' "$0" >&2; exit 2; }
CHECKOUT=$(cd "$1" && pwd); shift
CHOSEN=$(($# > 0))
export PATH=$PATH:$HOME/go/bin:/usr/sbin
W=${W:-$(mktemp -d "${TMPDIR:-/tmp}/headgate-s3tests-XXXXXX")}; mkdir -p "$W"; W=$(cd "$W" && pwd)
VENV=${HEADGATE_LAB_ROOT:-/var/cache/headgate-lab}/s3tests
HEADGATE=''
finish() {
  if [ -n "$HEADGATE" ]; then kill "$HEADGATE" 2>/dev/null || true; wait "$HEADGATE" 2>/dev/null || true; fi
  "$HERE/services/rgw-down.sh" -k -d "$W/rgw" -p >/dev/null || true
  [ "$KEEP" = 1 ] || rm -rf "$W"
}
trap finish EXIT
trap 'exit 130' INT TERM

if [ ! -e "$VENV/whole" ]; then
  rm -rf "$VENV"; mkdir -p "$(dirname "$VENV")"
  # Nothing of Debian's: its awscrt changes how boto3 signs.
  /usr/bin/python3 -m venv "$VENV"
  "$VENV/bin/pip" install -q --disable-pip-version-check boto3==1.43.107 pytest pytest-timeout pytest-xdist munch isodate pytz httplib2 lxml requests
  touch "$VENV/whole"
fi
"$HERE/services/rgw-up.sh" -d "$W/rgw" -a 17082 -b 17083 -m 17100 -u
cp "$HERE/s3tests.yaml" "$W/config.yaml"
(cd "$HOME_DIR" && opa build -t wasm -e headgate/authz/decision -e headgate/route/decision -o "$W/allow-all.tar.gz" \
  test/real/s3tests-policy.rego policies/headgate/route/route.rego)
(cd "$W" && exec node "$HOME_DIR/dist/proxy/main.js" run -c "$W/config.yaml") >"$W/headgate.log" 2>&1 &
HEADGATE=$!
node "$HOME_DIR/dist/proxy/main.js" wait --ready --timeout 60s --admin-url http://127.0.0.1:17081 || { tail -5 "$W/headgate.log"; exit 1; }

cat >"$W/s3tests.conf" <<C
[DEFAULT]
host = 127.0.0.1
port = 17080
is_secure = False
ssl_verify = False
[fixtures]
bucket prefix = hg-{random}-
iam name prefix = hg-
iam path prefix = /hg/
[s3 main]
display_name = M. Tester
user_id = testid
email = tester@ceph.com
api_name = default
access_key = 0555b35654ad1656d804
secret_key = h7GhxuBLTrlhVUyxSPUKUV8r/2EI4ngqJxD7iBdBYLhwluN30JaT3Q==
[s3 alt]
display_name = john.doe
user_id = 56789abcdef0123456789abcdef0123456789abcdef0123456789abcdef01234
email = john.doe@example.com
access_key = NOPQRSTUVWXYZABCDEFG
secret_key = nopqrstuvwxyzabcdefghijklmnabcdefghijklm
[s3 tenant]
display_name = testx\$tenanteduser
user_id = testx\$9876543210abcdef0123456789abcdef0123456789abcdef0123456789abcdef
email = tenanteduser@example.com
tenant = testx
access_key = HIJKLMNOPQRSTUVWXYZA
secret_key = opqrstuvwxyzabcdefghijklmnopqrstuvwxyzab
[iam]
display_name = youruseridhere
user_id = 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
email = s3@example.com
access_key = ABCDEFGHIJKLMNOPQRST
secret_key = abcdefghijklmnopqrstuvwxyzabcdefghijklmn
[iam root]
user_id = none
email = none
access_key = none
secret_key = none
[iam alt root]
user_id = none
email = none
access_key = none
secret_key = none
C
# Without the release that sends checksums by itself: they are another test's subject.
export AWS_REQUEST_CHECKSUM_CALCULATION=when_required AWS_RESPONSE_CHECKSUM_VALIDATION=when_required
export AWS_EC2_METADATA_DISABLED=true S3TEST_CONF=$W/s3tests.conf PYTHONDONTWRITEBYTECODE=1
mapfile -t TESTS < <(sed 's#^#s3tests/functional/#' "$HERE/s3tests-mustpass.txt")
(cd "$CHECKOUT" && "$VENV/bin/python" -m pytest -p no:cacheprovider -q -o addopts= -W ignore --timeout 180 --tb=short -rA \
  -n "$WORKERS" "$@" "${TESTS[@]}") >"$W/pytest.log" 2>&1 || true
grep -E '^(PASSED|FAILED|ERROR) ' "$W/pytest.log" | sed -E 's#^(\w+) \S*functional/(\S+)#\1 \2#' | sort -u >"$W/outcomes" || true
tail -1 "$W/pytest.log"
grep -E '^(FAILED|ERROR) ' "$W/outcomes" | cut -c 1-300 || true
PASSED=$(grep -c '^PASSED ' "$W/outcomes" || true)
RUN=$(cut -d ' ' -f 2 "$W/outcomes" | sort -u | wc -l)
curl -s -o /dev/null -m 5 http://127.0.0.1:17082/ || { echo "the RGW is gone"; PASSED=-1; }
echo "$PASSED of $RUN tests pass, ${#TESTS[@]} are listed"
# All that are listed must have run and passed; of a choice by options, all that were chosen.
if [ "$CHOSEN" = 1 ]; then WANTED=$RUN; else WANTED=${#TESTS[@]}; fi
[ "$PASSED" = "$WANTED" ] && [ "$RUN" = "$WANTED" ] && [ "$WANTED" -gt 0 ]
