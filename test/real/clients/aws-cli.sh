#!/usr/bin/env bash
# The steps of aws-cli, its commands `s3` and `s3api`, with default settings. LAB_AWS: the program.
. "$(dirname "$(readlink -f "$0")")/steps.sh"
export AWS_ACCESS_KEY_ID=$LAB_ACCESS_KEY AWS_SECRET_ACCESS_KEY=$LAB_SECRET_KEY AWS_DEFAULT_REGION=us-east-1
export AWS_EC2_METADATA_DISABLED=true AWS_CONFIG_FILE=/dev/null AWS_SHARED_CREDENTIALS_FILE=/dev/null AWS_PAGER=
if [ -n "$CA" ]; then export AWS_CA_BUNDLE=$CA; fi
aws() { command "$LAB_AWS" --endpoint-url "$LAB_ENDPOINT" "$@"; }
api() { aws s3api "$1" --bucket "$B" "${@:2}"; }

make_bucket() { aws s3 mb "s3://$B"; holds "$(aws s3 ls)" "$B"; }
put_and_get() { # file
  local key; key=$(kept "$1" "put-$1")
  aws s3 cp --no-progress "$1" "s3://$B/$key"
  aws s3 cp --no-progress "s3://$B/$key" back; same back "$1"
}
from_stdin() { aws s3 cp - "s3://$B/$(kept 1m.bin stdin)" <1m.bin; aws s3 cp "s3://$B/$(kept 1m.bin stdin)" - >back; same back 1m.bin; }
put_object() { # checksum options...
  local key; key=$(kept 8k.bin "api$*")
  api put-object --key "$key" --body 8k.bin --content-type text/plain --metadata a=1 "$@"
  is "$(api head-object --key "$key" --query '[ContentLength,ContentType,Metadata.a,ContentEncoding]' --output text | tr '\t' ' ')" '8192 text/plain 1 None'
}
range() { api get-object --key "$(kept large.bin put-large.bin)" --range bytes=100-299 part; tail -c +101 large.bin | head -c 200 >wanted; same part wanted; }
copy() { aws s3 cp "s3://$B/$(kept large.bin put-large.bin)" "s3://$B/$(kept large.bin copy)"; aws s3 mv "s3://$B/$(kept large.bin copy)" "s3://$B/$(kept large.bin moved)"; }
sync() { aws s3 sync --no-progress tree "s3://$B/tree"; aws s3 sync --no-progress "s3://$B/tree" tree.back; diff -r tree tree.back; is "$(aws s3 sync "s3://$B/tree" tree.back)" ''; }
list() {
  is "$(api list-objects-v2 --prefix tree/ --delimiter / --query 'CommonPrefixes[].Prefix' --output text)" $'tree/a b/\ttree/naïve/'
  is "$(api list-objects-v2 --prefix tree/ --page-size 2 --query 'length(Contents)')" 6
}
tags() { api put-object-tagging --key tree/plus+sign --tagging 'TagSet=[{Key=a,Value=1}]'; is "$(api get-object-tagging --key tree/plus+sign --query 'TagSet[0].Value' --output text)" 1; }
acl() { api put-object-acl --key tree/plus+sign --acl public-read; is "$(api get-object-acl --key tree/plus+sign --query 'length(Grants)')" 2; }
attributes() { is "$(api get-object-attributes --key "$(kept large.bin put-large.bin)" --object-attributes ObjectSize --query ObjectSize)" 12582917; }
presign() { fetch -f -o back "$(aws s3 presign "s3://$B/$(kept 8k.bin put-8k.bin)")"; same back 8k.bin; }
missing() {
  says 'An error occurred (404) when calling the HeadObject operation: ' aws s3 cp "s3://$B/absent" back
  says '(NoSuchKey) when calling the GetObject operation: ' api get-object --key absent back
  says '(NoSuchBucket)' aws s3 ls s3://no-such-bucket-here
}
wrong_secret() { AWS_SECRET_ACCESS_KEY=wrong says '(SignatureDoesNotMatch)' aws s3 ls; }
delete_objects() { is "$(api delete-objects --delete 'Objects=[{Key=tree/empty},{Key=absent}]' --query 'length(Deleted)')" 2; }
remove() { aws s3 rm --recursive "s3://$B/tree"; is "$(api list-objects-v2 --prefix tree/ --query 'length(Contents || `[]`)')" 0; says BucketNotEmpty aws s3 rb "s3://$B"; }

step 'make and list a bucket' make_bucket
for file in 0.bin 1.bin 8k.bin large.bin; do step "cp $file there and back" put_and_get "$file"; done
step 'cp from and to a pipe' from_stdin
step 'put-object' put_object
step 'put-object with SHA256' put_object --checksum-algorithm SHA256
step 'get-object of a range' range
step 'cp and mv inside' copy
step 'sync a folder of odd names' sync
step 'list' list
step 'tagging' tags
step 'ACL' acl
step 'object attributes' attributes
step 'presigned URL' presign
step 'errors of what is missing' missing
step 'error of a wrong secret' wrong_secret
step 'delete-objects' delete_objects
step 'rm --recursive and rb' remove
end
