"""Steps of boto3 beside the objects: settings of buckets and objects, presigned requests, errors."""

import json

from boto3_common import LARGE, PARTS, ClientError, connect, fetch, read, refused, s3, step
from steps import BUCKET, ENDPOINT, equal, kept_key, test_bytes

# --- sub-resources
def tagging():
    s3.put_object(Bucket=BUCKET, Key="tagged", Body=b"t", Tagging="a=1&b=two%20words")
    tags = s3.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"]
    equal({tag["Key"]: tag["Value"] for tag in tags}, {"a": "1", "b": "two words"})
    wanted = [{"Key": "c", "Value": "3"}]
    s3.put_object_tagging(Bucket=BUCKET, Key="tagged", Tagging={"TagSet": wanted})
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"], wanted)
    equal(s3.get_object(Bucket=BUCKET, Key="tagged")["TagCount"], 1)
    s3.delete_object_tagging(Bucket=BUCKET, Key="tagged")
    equal(s3.get_object_tagging(Bucket=BUCKET, Key="tagged")["TagSet"], [])
    s3.put_bucket_tagging(Bucket=BUCKET, Tagging={"TagSet": wanted})
    equal(s3.get_bucket_tagging(Bucket=BUCKET)["TagSet"], wanted)


def acl():
    s3.put_object(Bucket=BUCKET, Key="acl", Body=b"a", ACL="public-read")
    equal(len(s3.get_object_acl(Bucket=BUCKET, Key="acl")["Grants"]), 2)
    s3.put_object_acl(Bucket=BUCKET, Key="acl", ACL="private")
    answer = s3.get_object_acl(Bucket=BUCKET, Key="acl")
    equal(len(answer["Grants"]), 1)
    grants = {"Owner": answer["Owner"], "Grants": answer["Grants"]}
    s3.put_object_acl(Bucket=BUCKET, Key="acl", AccessControlPolicy=grants)
    s3.put_bucket_acl(Bucket=BUCKET, ACL="public-read")
    equal(len(s3.get_bucket_acl(Bucket=BUCKET)["Grants"]), 2)
    s3.put_bucket_acl(Bucket=BUCKET, ACL="private")


def policy():
    statement = {
        "Effect": "Deny",
        "Principal": {"AWS": ["arn:aws:iam:::user/nobody"]},
        "Action": ["s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{BUCKET}/*"],
    }
    text = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    s3.put_bucket_policy(Bucket=BUCKET, Policy=text)
    equal(json.loads(s3.get_bucket_policy(Bucket=BUCKET)["Policy"])["Version"], "2012-10-17")
    s3.delete_bucket_policy(Bucket=BUCKET)
    refused(lambda: s3.get_bucket_policy(Bucket=BUCKET), 404, "NoSuchBucketPolicy")


def cors():
    rules = [{"AllowedMethods": ["GET"], "AllowedOrigins": ["https://example.com"]}]
    s3.put_bucket_cors(Bucket=BUCKET, CORSConfiguration={"CORSRules": rules})
    found = s3.get_bucket_cors(Bucket=BUCKET)["CORSRules"][0]
    equal(found["AllowedOrigins"], ["https://example.com"])
    asked = {"Origin": "https://example.com", "Access-Control-Request-Method": "GET"}
    status, headers, _ = fetch(f"{ENDPOINT}/{BUCKET}/source", "OPTIONS", headers=asked)
    equal(status, 200, "status of the preflight")
    equal(headers.get("access-control-allow-origin"), "https://example.com")
    asked["Origin"] = "https://example.org"
    equal(fetch(f"{ENDPOINT}/{BUCKET}/source", "OPTIONS", headers=asked)[0], 403, "another origin")
    s3.delete_bucket_cors(Bucket=BUCKET)
    refused(lambda: s3.get_bucket_cors(Bucket=BUCKET), 404, "NoSuchCORSConfiguration")


def absent_settings():
    """What no RGW here keeps is answered as unset or not implemented, never as a list of keys."""
    for name in (
        "get_bucket_ownership_controls",
        "get_bucket_accelerate_configuration",
        "list_bucket_analytics_configurations",
        "list_bucket_inventory_configurations",
        "list_bucket_metrics_configurations",
        "get_bucket_encryption",
    ):
        try:
            answer = getattr(s3, name)(Bucket=BUCKET)
        except ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            equal(status in (404, 501), True, f"{name}: {status}")
            equal(bool(error.response["Error"].get("Message")), True, f"message of {name}")
        else:
            equal(set(answer) - {"ResponseMetadata", "IsTruncated"}, set(), name)


def versions():
    bucket = f"{BUCKET}-versions"
    s3.create_bucket(Bucket=bucket)
    equal(s3.get_bucket_versioning(Bucket=bucket).get("Status"), None)
    enabled = {"Status": "Enabled"}
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=enabled)
    equal(s3.get_bucket_versioning(Bucket=bucket)["Status"], "Enabled")
    ids = [s3.put_object(Bucket=bucket, Key="v", Body=body)["VersionId"] for body in (b"1", b"2")]
    equal(read("v", bucket), b"2")
    equal(read("v", bucket, VersionId=ids[0]), b"1")
    deleted = s3.delete_object(Bucket=bucket, Key="v")
    equal(deleted["DeleteMarker"], True)
    refused(lambda: read("v", bucket), 404, "NoSuchKey")
    listed = s3.list_object_versions(Bucket=bucket)
    equal([one["VersionId"] for one in listed["Versions"]], ids[::-1])
    equal(len(listed["DeleteMarkers"]), 1)
    s3.delete_object(Bucket=bucket, Key="v", VersionId=deleted["VersionId"])
    equal(read("v", bucket), b"2")
    gone = [{"Key": "v", "VersionId": one} for one in ids]
    equal(len(s3.delete_objects(Bucket=bucket, Delete={"Objects": gone})["Deleted"]), 2)
    s3.delete_bucket(Bucket=bucket)


step("tagging", tagging)
step("ACL", acl)
step("bucket policy", policy)
step("CORS", cors)
step("settings that are absent", absent_settings)
step("versions", versions)


# --- presigned
def presigned_get():
    url = s3.generate_presigned_url("get_object", Params={"Bucket": BUCKET, "Key": LARGE})
    equal(fetch(url)[2], b"".join(PARTS))
    params = {"Bucket": BUCKET, "Key": LARGE, "ResponseContentType": "text/override"}
    _, headers, _ = fetch(s3.generate_presigned_url("get_object", Params=params))
    equal(headers["content-type"], "text/override")
    equal(fetch(f"{url}x")[0], 403, "a changed signature")


def presigned_put():
    body = test_bytes(70_000, "presigned")
    key = kept_key(body, "presigned put")
    url = s3.generate_presigned_url("put_object", Params={"Bucket": BUCKET, "Key": key})
    status, _, answer = fetch(url, "PUT", body, {"Content-Type": ""})
    equal(status, 200, answer)
    equal(read(key), body)


def presigned_post():
    body = test_bytes(70_000, "posted")
    key = kept_key(body, "posted")
    post = s3.generate_presigned_post(BUCKET, key, Conditions=[["content-length-range", 1, 80_000]])
    edge = "----------boundary"
    text = "".join(
        f'--{edge}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in post["fields"].items()
    )
    head = f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
    form = (text + head).encode() + body + f"\r\n--{edge}--\r\n".encode()
    kind = {"Content-Type": f"multipart/form-data; boundary={edge}"}
    status, _, answer = fetch(post["url"], "POST", form, kind)
    equal(status, 204, answer)
    equal(read(key), body)


step("presigned GET", presigned_get)
step("presigned PUT", presigned_put)
step("presigned POST", presigned_post)


# --- errors
def errors():
    refused(lambda: read("absent"), 404, "NoSuchKey")
    refused(lambda: s3.head_object(Bucket=BUCKET, Key="absent"), 404, "404")
    refused(lambda: read("absent", "no-such-bucket-here"), 404, "NoSuchBucket")
    refused(lambda: s3.delete_bucket(Bucket=BUCKET), 409, "BucketNotEmpty")
    refused(lambda: connect("UNKNOWNACCESSKEY0001").list_buckets(), 403, "InvalidAccessKeyId")
    refused(lambda: connect(secret_key="wrong").list_buckets(), 403, "SignatureDoesNotMatch")
    gone = {"Bucket": BUCKET, "Key": "x", "UploadId": "unknown"}
    parts = {"Parts": [{"PartNumber": 1, "ETag": '"0"'}]}
    refused(lambda: s3.complete_multipart_upload(**gone, MultipartUpload=parts), 404, "NoSuchUpload")
    refused(lambda: s3.abort_multipart_upload(**gone), 404, "NoSuchUpload")


step("errors", errors)
