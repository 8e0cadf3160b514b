#!/usr/bin/env bash
# Current boto3 and aws-cli in a virtual environment that sees no package of Debian's: its awscrt would
# change how boto3 signs. Made once, in ${HEADGATE_LAB_ROOT:-/var/cache/headgate-lab}/clients, and again
# when the releases of clients/requirements.txt change. usage: client-venv.sh
set -euo pipefail
HERE=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
WANTED=$HERE/../clients/requirements.txt VENV=${HEADGATE_LAB_ROOT:-/var/cache/headgate-lab}/clients
if cmp -s "$WANTED" "$VENV/requirements.txt"; then echo "$VENV is there"; exit 0; fi
mkdir -p "$(dirname "$VENV")"
rm -rf "$VENV"
/usr/bin/python3 -m venv "$VENV"
"$VENV/bin/pip" install -q --disable-pip-version-check -r "$WANTED"
cp "$WANTED" "$VENV/requirements.txt"
