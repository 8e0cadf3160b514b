#!/usr/bin/env bash
# Runs ceph/s3-tests through Headgate in front of one RGW, or of two: the tests of s3tests-mustpass.txt, which
# are those that pass against RGW 16.2 and 18.2 alone. Prints the names that are lost; exit 1 if there are any,
# but for those that s3tests-losses.txt gives up over two RGWs.
# usage: s3tests.sh [-d DIR] [-n WORKERS] [-k (keep DIR)] [-s object|prefix|bucket] [-p PORT] CHECKOUT [options of pytest, such as -k WORD]
#   -s  over two RGWs, every bucket on both, and spread so
#   -p  the first of the ports, default 17080
# CHECKOUT: a work tree of ceph/s3-tests. Needs what a lab needs, opa, and `npm run build` before it.
set -euo pipefail
HERE=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
HOME_DIR=$(cd "$HERE/../.." && pwd)
W='' WORKERS=2 KEEP=0 SPREAD='' PORT=17080
while getopts d:n:ks:p: o; do case $o in
  d) W=$OPTARG;; n) WORKERS=$OPTARG;; k) KEEP=1;; s) SPREAD=$OPTARG;; p) PORT=$OPTARG;; *) exit 2;; esac; done
case $SPREAD in ''|object|prefix|bucket) ;; *) exit 2;; esac
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
"$HERE/services/rgw-up.sh" -d "$W/rgw" -a $((PORT + 2)) -b $((PORT + 3)) -m $((PORT + 20)) -u
{
  cat "$HERE/s3tests.yaml"
  # The second is as the first but for its name and port.
  [ -z "$SPREAD" ] || sed "1,/^clusters:/d;s/id: a/id: b/;s/17082/17083/" "$HERE/s3tests.yaml"
} | sed -E "s/127\.0\.0\.1:1708([0-3])/127.0.0.1:@\1/;s/@0/$PORT/;s/@1/$((PORT + 1))/;s/@2/$((PORT + 2))/;s/@3/$((PORT + 3))/" >"$W/config.yaml"
sed "s/^default spread := .*/default spread := \"${SPREAD:-object}\"/" "$HOME_DIR/policies/headgate/route/route.rego" >"$W/route.rego"
cp "$HERE/s3tests-policy.rego" "$W/authz.rego"
(cd "$W" && opa build -t wasm -e headgate/authz/decision -e headgate/route/decision -o allow-all.tar.gz authz.rego route.rego)
(cd "$W" && exec node "$HOME_DIR/dist/proxy/main.js" run -c "$W/config.yaml") >"$W/headgate.log" 2>&1 &
HEADGATE=$!
node "$HOME_DIR/dist/proxy/main.js" wait --ready --timeout 60s --admin-url "http://127.0.0.1:$((PORT + 1))" || { tail -5 "$W/headgate.log"; exit 1; }

cat >"$W/s3tests.conf" <<C
[DEFAULT]
host = 127.0.0.1
port = $PORT
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
# A test that passes and whose teardown fails has two lines, and is lost.
grep -E '^(FAILED|ERROR) ' "$W/outcomes" | cut -d ' ' -f 2 | sort -u >"$W/lost" || true
KNOWN=/dev/null; [ -z "$SPREAD" ] || KNOWN=$HERE/s3tests-losses.txt
GIVEN_UP=$(grep -cxFf <(grep -v '^#' "$KNOWN" | grep .) "$W/lost" || true)
# Without a pattern grep counts nothing at all.
GIVEN_UP=${GIVEN_UP:-0}
LOST=$(wc -l <"$W/lost")
RUN=$(cut -d ' ' -f 2 "$W/outcomes" | sort -u | wc -l)
for rgw in 2 3; do
  curl -s -o /dev/null -m 5 "http://127.0.0.1:$((PORT + rgw))/" || { echo "RGW $((rgw - 1)) is gone"; exit 1; }
done
echo "$((RUN - LOST)) of $RUN tests pass, ${#TESTS[@]} are listed, $GIVEN_UP of $LOST losses are known"
# All that are listed must have run; of a choice by options, all that were chosen.
if [ "$CHOSEN" = 1 ]; then WANTED=$RUN; else WANTED=${#TESTS[@]}; fi
[ "$LOST" = "$GIVEN_UP" ] && [ "$RUN" = "$WANTED" ] && [ "$WANTED" -gt 0 ]
