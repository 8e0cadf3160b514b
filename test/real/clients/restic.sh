#!/usr/bin/env bash
# The steps of restic with its default settings: a repository, backups, restores and a prune.
. "$(dirname "$(readlink -f "$0")")/steps.sh"
export AWS_ACCESS_KEY_ID=$LAB_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$LAB_SECRET_KEY RESTIC_PASSWORD=lab
export RESTIC_REPOSITORY=s3:$LAB_ENDPOINT/$B RESTIC_CACHE_DIR=$F/cache RESTIC_PROGRESS_FPS=0.01
re() { restic ${CA:+--cacert "$CA"} -q "$@"; }

first() { cp large.bin tree/large.bin; re backup tree; is "$(restic ${CA:+--cacert "$CA"} snapshots --json | grep -o '"short_id"' | wc -l)" 1; }
second() { echo more >tree/more; rm tree/large.bin; re backup tree; is "$(restic ${CA:+--cacert "$CA"} snapshots --json | grep -o '"short_id"' | wc -l)" 2; }
restore() { re restore latest --target back; diff -r tree back/tree; }
from_stdin() { re backup --stdin --stdin-filename piped <1m.bin; re dump latest /piped >piped; same piped 1m.bin; }
forget() { re forget --keep-last 1 --group-by '' --prune; is "$(restic ${CA:+--cacert "$CA"} snapshots --json | grep -o '"short_id"' | wc -l)" 1; }
wrong_secret() { AWS_SECRET_ACCESS_KEY=wrong says 'signature' re snapshots; }

step 'init' re init
step 'backup' first
step 'check with all data' re check --read-data
step 'backup what changed' second
step 'restore' restore
step 'backup from and dump to a pipe' from_stdin
step 'forget and prune' forget
step 'check again' re check --read-data
step 'error of a wrong secret' wrong_secret
end
