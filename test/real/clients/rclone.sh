#!/usr/bin/env bash
# The steps of rclone with its default settings for an S3 of no known provider.
. "$(dirname "$(readlink -f "$0")")/steps.sh"
export RCLONE_CONFIG=$F/rclone.conf
printf '[lab]\ntype = s3\nprovider = Other\naccess_key_id = %s\nsecret_access_key = %s\nendpoint = %s\nregion = us-east-1\n' \
  "$LAB_ACCESS_KEY" "$LAB_SECRET_KEY" "$LAB_ENDPOINT" >"$RCLONE_CONFIG"
# Its defaults retry an error of the server for minutes.
rc() { rclone ${CA:+--ca-cert "$CA"} --retries 1 --low-level-retries 2 "$@"; }

bucket() { rc mkdir "lab:$B"; holds "$(rc lsd lab:)" "$B"; }
put_and_get() { local key; key=$(kept "$1" "put-$1"); rc copyto "$1" "lab:$B/$key"; rc copyto "lab:$B/$key" back; same back "$1"; }
from_stdin() { rc rcat "lab:$B/$(kept "$1" "stdin-$1")" <"$1"; rc cat "lab:$B/$(kept "$1" "stdin-$1")" >back; same back "$1"; }
tree() { rc copy tree "lab:$B/tree"; rc check tree "lab:$B/tree"; rc check --download tree "lab:$B/tree"; }
names() { is "$(rc lsf -R --files-only "lab:$B/tree" | LC_ALL=C sort)" "$(cd tree && find . -type f | sed 's#^\./##' | LC_ALL=C sort)"; is "$(rc lsf --dirs-only "lab:$B/tree")" $'a b/\nnaïve/'; }
sync() { rm -r "tree/a b"; echo new >tree/new; rc sync tree "lab:$B/tree"; rc check tree "lab:$B/tree"; }
range() { rc cat --offset 100 --count 200 "lab:$B/$(kept large.bin put-large.bin)" >part; tail -c +101 large.bin | head -c 200 >wanted; same part wanted; }
copies() { rc copyto "lab:$B/$(kept large.bin put-large.bin)" "lab:$B/$(kept large.bin copy)"; rc moveto "lab:$B/tree/new" "lab:$B/tree/moved é"; is "$(rc cat "lab:$B/tree/moved é")" new; }
touched() { rc touch -t 2020-01-02T03:04:05 "lab:$B/tree/moved é"; holds "$(rc lsl "lab:$B/tree/moved é")" '2020-01-02 03:04:05'; }
link() { fetch -f -o back "$(rc link "lab:$B/$(kept 8k.bin put-8k.bin)")"; same back 8k.bin; }
missing() { says "doesn't exist" rc copyto "lab:$B/absent" back; }
removed() { rc deletefile "lab:$B/tree/moved é"; rc purge "lab:$B/tree"; is "$(rc lsf "lab:$B/tree")" ''; }

step 'make and list a bucket' bucket
for file in 0.bin 1.bin 8k.bin large.bin; do step "copyto $file there and back" put_and_get "$file"; done
for file in 1.bin large.bin; do step "rcat $file" from_stdin "$file"; done
step 'copy and check a folder of odd names' tree
step 'list names' names
step 'sync' sync
step 'read a range' range
step 'copy and move inside' copies
step 'touch' touched
step 'public link' link
step 'error of what is missing' missing
step 'deletefile and purge' removed
end
