#!/usr/bin/env bash
# The steps of s3cmd with its default settings.
. "$(dirname "$(readlink -f "$0")")/steps.sh"
HOSTPORT=${LAB_ENDPOINT#*://}
case $LAB_ENDPOINT in https:*) TLS=True ;; *) TLS=False ;; esac
printf '[default]\naccess_key = %s\nsecret_key = %s\nhost_base = %s\nhost_bucket = %s\nuse_https = %s\nsignurl_use_https = %s\n' \
  "$LAB_ACCESS_KEY" "$LAB_SECRET_KEY" "$HOSTPORT" "$HOSTPORT" "$TLS" "$TLS" >"$F/.s3cfg"
sc() { s3cmd --config "$F/.s3cfg" ${CA:+--ca-certs="$CA"} --no-progress "$@"; }

bucket() { sc mb "s3://$B"; holds "$(sc ls)" "s3://$B"; }
put_and_get() { local key; key=$(kept "$1" "put-$1"); sc put "$1" "s3://$B/$key"; sc get --force "s3://$B/$key" back; same back "$1"; }
in_parts() { sc put --multipart-chunk-size-mb=5 large.bin "s3://$B/$(kept large.bin parts)"; sc get --force "s3://$B/$(kept large.bin parts)" back; same back large.bin; }
from_stdin() { sc put - "s3://$B/$(kept 1m.bin stdin)" <1m.bin; sc get "s3://$B/$(kept 1m.bin stdin)" - >back; same back 1m.bin; }
headers() {
  sc put --add-header='Cache-Control: max-age=60' --mime-type=text/x-lab 8k.bin "s3://$B/$(kept 8k.bin headers)"
  holds "$(sc info "s3://$B/$(kept 8k.bin headers)")" text/x-lab
  sc modify --add-header='x-amz-meta-colour: dark blue' "s3://$B/$(kept 8k.bin headers)"
  holds "$(sc info "s3://$B/$(kept 8k.bin headers)")" 'dark blue'
}
sync() { sc sync tree/ "s3://$B/tree/"; mkdir -p tree.back; sc sync "s3://$B/tree/" tree.back/; diff -r tree tree.back; }
names() { is "$(sc ls -r "s3://$B/tree/" | sed "s#.*s3://$B/tree/##" | LC_ALL=C sort)" "$(cd tree && find . -type f | sed 's#^\./##' | LC_ALL=C sort)"; holds "$(sc ls "s3://$B/tree/")" "DIR  s3://$B/tree/a b/"; }
copies() { sc cp "s3://$B/tree/plus+sign" "s3://$B/tree/copy é"; sc mv "s3://$B/tree/copy é" "s3://$B/tree/moved é"; sc get --force "s3://$B/tree/moved é" back; same back 1.bin; }
acl() { sc setacl --acl-public "s3://$B/tree/plus+sign"; holds "$(sc info "s3://$B/tree/plus+sign")" '*anon*: READ'; sc setacl --acl-private "s3://$B/tree/plus+sign"; }
policy() {
  printf '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":["*"]},"Action":["s3:GetObject"],"Resource":["arn:aws:s3:::%s/public/*"]}]}' "$B" >policy.json
  sc setpolicy policy.json "s3://$B"; holds "$(sc info "s3://$B")" "$B/public/"; sc delpolicy "s3://$B"; holds "$(sc info "s3://$B")" 'Policy:    none'
}
cors() {
  printf '<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>https://example.com</AllowedOrigin></CORSRule></CORSConfiguration>' >cors.xml
  sc setcors cors.xml "s3://$B"; holds "$(sc info "s3://$B")" https://example.com; sc delcors "s3://$B"
}
signed_url() { fetch -f -o back "$(sc signurl "s3://$B/$(kept 8k.bin put-8k.bin)" +600)"; same back 8k.bin; }
uploads() { sc multipart "s3://$B" >open; is "$(grep -c kept/ open || true)" 0; }
missing() { says 'ERROR' sc get --force "s3://$B/absent" back; says 'NoSuchBucket' sc ls s3://no-such-bucket-here; }
removed() { sc del -r --force "s3://$B/tree/"; is "$(sc ls -r "s3://$B/tree/")" ''; says BucketNotEmpty sc rb "s3://$B"; }

step 'make and list a bucket' bucket
for file in 0.bin 1.bin 8k.bin 1m.bin; do step "put and get $file" put_and_get "$file"; done
step 'put in parts' in_parts
step 'put from and get to a pipe' from_stdin
step 'headers and modify' headers
step 'sync a folder of odd names' sync
step 'list names' names
step 'copy and move inside' copies
step 'ACL' acl
step 'bucket policy' policy
step 'CORS' cors
step 'signed URL' signed_url
step 'open uploads' uploads
step 'errors of what is missing' missing
step 'delete a folder' removed
end
