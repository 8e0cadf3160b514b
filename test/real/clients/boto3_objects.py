"""Steps of boto3 on objects: uploads of every kind, reads, conditions, lists, copies and deletes."""

import gzip
import io

from boto3_common import LARGE, LISTED, MIB, MODERN, PARTS, ClientError, read, refused, s3, step
from steps import BUCKET, FOLDER, ODD_KEYS, equal, kept_key, test_bytes

# --- buckets
step("create bucket", lambda: s3.create_bucket(Bucket=BUCKET))
step("head bucket", lambda: s3.head_bucket(Bucket=BUCKET))
step(
    "list buckets",
    lambda: equal(BUCKET in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]], True),
)
step("bucket location", lambda: s3.get_bucket_location(Bucket=BUCKET))


# --- upload and read back
def put_and_read(size):
    body = test_bytes(size, f"put {size}")
    key = kept_key(body, f"put-{size}")
    etag = s3.put_object(Bucket=BUCKET, Key=key, Body=body)["ETag"]
    equal(etag[0] + etag[-1], '""', "quotes of the ETag")
    answer = s3.get_object(Bucket=BUCKET, Key=key)
    equal(answer["Body"].read(), body)
    equal(answer.get("ContentEncoding", ""), "", "Content-Encoding")
    equal(answer["ETag"], etag)
    equal(s3.head_object(Bucket=BUCKET, Key=key)["ContentLength"], size)


for size in (0, 1, 8192, MIB):
    step(f"put and get {size} bytes", lambda size=size: put_and_read(size))


def put_file():
    body = test_bytes(300_000, "file")
    path = f"{FOLDER}/file.bin"
    with open(path, "wb") as file:
        file.write(body)
    key = kept_key(body, "file")
    with open(path, "rb") as file:
        s3.put_object(Bucket=BUCKET, Key=key, Body=file)
    equal(read(key), body)


step("put a file object", put_file)


def attributes():
    body = gzip.compress(b"compressed text")
    key = kept_key(body, "attributes")
    s3.put_object(
        Bucket=BUCKET,
        Key=key,
        Body=body,
        ContentType="text/plain; charset=utf-8",
        ContentEncoding="gzip",
        CacheControl="max-age=60",
        ContentDisposition='attachment; filename="a b.txt"',
        ContentLanguage="de",
        Metadata={"colour": "dark blue", "n": "1"},
    )
    head = s3.head_object(Bucket=BUCKET, Key=key)
    equal(head["ContentEncoding"], "gzip")
    equal(head["ContentType"], "text/plain; charset=utf-8")
    equal(head["CacheControl"], "max-age=60")
    equal(head["ContentDisposition"], 'attachment; filename="a b.txt"')
    equal(head["ContentLanguage"], "de")
    equal(head["Metadata"], {"colour": "dark blue", "n": "1"})
    equal(read(key), body)


step("headers and metadata", attributes)


def checksum(algorithm):
    body = test_bytes(20_000, algorithm)
    key = kept_key(body, f"checksum-{algorithm}")
    s3.put_object(Bucket=BUCKET, Key=key, Body=body, ChecksumAlgorithm=algorithm)
    answer = s3.get_object(Bucket=BUCKET, Key=key, ChecksumMode="ENABLED")
    equal(answer["Body"].read(), body)
    equal(answer.get("ContentEncoding", ""), "", "Content-Encoding")


for algorithm in ("CRC32", "SHA1", "SHA256"):
    step(f"checksum {algorithm}", lambda algorithm=algorithm: checksum(algorithm))


def wrong(code, **more):
    refused(
        lambda: s3.put_object(Bucket=BUCKET, Key="wrong", Body=b"right", **more), 400, code
    )
    refused(lambda: s3.head_object(Bucket=BUCKET, Key="wrong"), 404, message=False)


step("a wrong MD5 stores nothing", lambda: wrong("BadDigest", ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg=="))
step(
    "a wrong checksum stores nothing",
    lambda: wrong("BadDigest", ChecksumSHA256="47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="),
)


# --- ranges and conditions
def ranges():
    body = test_bytes(10_000, "ranges")
    s3.put_object(Bucket=BUCKET, Key="ranges", Body=body)
    for text, wanted in (
        ("bytes=0-0", body[:1]),
        ("bytes=100-199", body[100:200]),
        ("bytes=9990-", body[9990:]),
        ("bytes=-7", body[-7:]),
    ):
        answer = s3.get_object(Bucket=BUCKET, Key="ranges", Range=text)
        equal(answer["Body"].read(), wanted, text)
        equal(answer["ResponseMetadata"]["HTTPStatusCode"], 206)
    refused(lambda: read("ranges", Range="bytes=10000-"), 416, "InvalidRange")


step("ranges", ranges)


def conditions():
    etag = s3.put_object(Bucket=BUCKET, Key="conditions", Body=b"one")["ETag"]
    equal(read("conditions", IfMatch=etag), b"one")
    refused(lambda: read("conditions", IfMatch='"0123456789abcdef0123456789abcdef"'), 412)
    error = refused(lambda: read("conditions", IfNoneMatch=etag), 304, message=False)
    headers = error.response["ResponseMetadata"]["HTTPHeaders"]
    equal(headers.get("etag"), etag, "ETag of the 304")
    seen = s3.head_object(Bucket=BUCKET, Key="conditions")["LastModified"]
    refused(lambda: read("conditions", IfModifiedSince=seen), 304, message=False)
    refused(lambda: s3.head_object(Bucket=BUCKET, Key="conditions", IfNoneMatch=etag), 304, message=False)


step("conditional reads", conditions)


def conditional_put():
    s3.put_object(Bucket=BUCKET, Key="once", Body=b"first", IfNoneMatch="*")
    again = lambda: s3.put_object(Bucket=BUCKET, Key="once", Body=b"second", IfNoneMatch="*")
    refused(again, 412, "PreconditionFailed")
    equal(read("once"), b"first")
    etag = s3.head_object(Bucket=BUCKET, Key="once")["ETag"]
    s3.put_object(Bucket=BUCKET, Key="once", Body=b"third", IfMatch=etag)
    equal(read("once"), b"third")
    stale = lambda: s3.put_object(Bucket=BUCKET, Key="once", Body=b"fourth", IfMatch=etag)
    refused(stale, 412, "PreconditionFailed")
    equal(read("once"), b"third")


def conditional_delete():
    s3.put_object(Bucket=BUCKET, Key="stays", Body=b"here")
    wrong_etag = '"0123456789abcdef0123456789abcdef"'
    try:
        s3.delete_object(Bucket=BUCKET, Key="stays", IfMatch=wrong_etag)
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        equal(status in (412, 501), True, f"status {status}")
    else:
        raise AssertionError("deleted although the ETag differs")
    equal(read("stays"), b"here")


def conditional_complete():
    upload = begin("completed-once", [test_bytes(100, "c")])
    s3.put_object(Bucket=BUCKET, Key="completed-once", Body=b"before")
    try:
        s3.complete_multipart_upload(**upload, IfNoneMatch="*")
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        equal(status in (412, 501), True, f"status {status}")
    else:
        raise AssertionError("completed over an object that exists")
    equal(read("completed-once"), b"before")


# --- multipart
def begin(key, parts, **more):
    """The arguments that complete an upload of these parts."""
    upload_id = s3.create_multipart_upload(Bucket=BUCKET, Key=key, **more)["UploadId"]
    target = {"Bucket": BUCKET, "Key": key, "UploadId": upload_id}
    done = []
    for number, part in enumerate(parts, 1):
        answer = s3.upload_part(**target, PartNumber=number, Body=part)
        done.append({"PartNumber": number, "ETag": answer["ETag"]})
    return {**target, "MultipartUpload": {"Parts": done}}


def multipart():
    upload = begin(LARGE, PARTS, ContentType="text/plain", Metadata={"kind": "large"})
    target = {name: upload[name] for name in ("Bucket", "Key", "UploadId")}
    sizes = [part["Size"] for part in s3.list_parts(**target)["Parts"]]
    equal(sizes, [len(part) for part in PARTS], "sizes of the parts")
    open_uploads = s3.list_multipart_uploads(Bucket=BUCKET)["Uploads"]
    equal(target["UploadId"] in [one["UploadId"] for one in open_uploads], True, "listed upload")
    answer = s3.complete_multipart_upload(**upload)
    head = s3.head_object(Bucket=BUCKET, Key=LARGE)
    equal(answer["ETag"], head["ETag"], "ETag of the answer")
    equal(head["ETag"].endswith('-2"'), True, head["ETag"])
    equal("localhost" in answer["Location"], False, answer["Location"])
    equal((head["ContentType"], head["Metadata"]), ("text/plain", {"kind": "large"}))
    equal(read(LARGE), b"".join(PARTS))


step("multipart upload", multipart)


def part_number():
    answer = s3.get_object(Bucket=BUCKET, Key=LARGE, PartNumber=2)
    equal(answer["Body"].read(), PARTS[1])
    equal(answer["PartsCount"], 2, "count of parts")
    equal(s3.head_object(Bucket=BUCKET, Key=LARGE, PartNumber=1)["ContentLength"], 5 * MIB)


step("read one part", part_number)


def object_attributes():
    wanted = ["ETag", "ObjectSize", "ObjectParts", "StorageClass"]
    answer = s3.get_object_attributes(Bucket=BUCKET, Key=LARGE, ObjectAttributes=wanted)
    equal(answer["ObjectSize"], sum(map(len, PARTS)))
    equal('"' in answer["ETag"], False, answer["ETag"])
    equal(answer["ObjectParts"]["TotalPartsCount"], 2)


step("object attributes", object_attributes)


def abort():
    target = {name: value for name, value in begin("aborted", [b"x"]).items() if name != "MultipartUpload"}
    s3.abort_multipart_upload(**target)
    refused(lambda: s3.list_parts(**target), 404, "NoSuchUpload")


step("abort an upload", abort)


class Stream(io.RawIOBase):
    """Bytes whose length cannot be known and that cannot be read twice."""

    def __init__(self, body):
        self.inner = io.BytesIO(body)

    def readable(self):
        return True

    def readinto(self, buffer):
        return self.inner.readinto(buffer)


def managed():
    body = test_bytes(12 * MIB + 5, "managed")
    path = f"{FOLDER}/managed.bin"
    with open(path, "wb") as file:
        file.write(body)
    key = kept_key(body, "managed")
    s3.upload_file(path, BUCKET, key)
    s3.download_file(BUCKET, key, f"{path}.back")
    with open(f"{path}.back", "rb") as file:
        equal(file.read(), body)


def managed_stream(size):
    body = test_bytes(size, f"stream {size}")
    key = kept_key(body, f"stream-{size}")
    s3.upload_fileobj(Stream(body), BUCKET, key)
    equal(read(key), body)


step("upload_file in parts", managed)
for size in (0, 5000, 9 * MIB):
    step(f"upload_fileobj of a stream of {size} bytes", lambda size=size: managed_stream(size))

if MODERN:
    step("conditional put", conditional_put)
    step("conditional delete", conditional_delete)
    step("conditional complete", conditional_complete)


# --- keys and lists
def odd_keys():
    s3.create_bucket(Bucket=LISTED)
    for key in ODD_KEYS:
        s3.put_object(Bucket=LISTED, Key=key, Body=key.encode())
        equal(read(key, LISTED), key.encode(), key)
        s3.copy_object(Bucket=LISTED, Key=f"copy/{key}", CopySource={"Bucket": LISTED, "Key": key})
        equal(read(f"copy/{key}", LISTED), key.encode(), key)


def pages(operation, field="Contents", size=4, **more):
    found = []
    settings = {"PageSize": size}
    for page in s3.get_paginator(operation).paginate(Bucket=LISTED, PaginationConfig=settings, **more):
        found += page.get(field, [])
    return found


def lists():
    keys = sorted([*ODD_KEYS, *[f"copy/{key}" for key in ODD_KEYS]], key=lambda key: key.encode())
    for operation in ("list_objects_v2", "list_objects"):
        equal([one["Key"] for one in pages(operation)], keys, operation)
        found = [one["Prefix"] for one in pages(operation, "CommonPrefixes", 3, Delimiter="/")]
        equal(found, sorted({key[: key.index("/") + 1] for key in keys if "/" in key}, key=str.encode), operation)
    found = [one["Key"] for one in pages("list_objects_v2", Prefix="copy/a b/")]
    equal(found, ["copy/a b/c d.txt"])
    found = s3.list_objects_v2(Bucket=LISTED, StartAfter="percent%2Fslash", FetchOwner=True)
    equal(found["Contents"][0]["Key"], "plus+sign")
    equal(bool(found["Contents"][0]["Owner"]["ID"]), True, "owner")
    versions = [one["Key"] for one in pages("list_object_versions", "Versions")]
    equal(versions, keys, "versions")


step("odd keys", odd_keys)
step("lists", lists)


# --- copies
def copies():
    body = b"copied"
    s3.put_object(Bucket=BUCKET, Key="source", Body=body, Metadata={"a": "1"}, ContentType="text/x")
    source = {"Bucket": BUCKET, "Key": "source"}
    answer = s3.copy_object(Bucket=BUCKET, Key=kept_key(body, "copy"), CopySource=source)
    equal(answer["CopyObjectResult"]["ETag"], s3.head_object(**source)["ETag"], "ETag of the copy")
    head = s3.head_object(Bucket=BUCKET, Key=kept_key(body, "copy"))
    equal((head["Metadata"], head["ContentType"]), ({"a": "1"}, "text/x"))
    replace = {"MetadataDirective": "REPLACE", "Metadata": {"b": "2"}}
    s3.copy_object(Bucket=BUCKET, Key="source", CopySource=source, **replace)
    equal(s3.head_object(**source)["Metadata"], {"b": "2"})
    absent = {"Bucket": BUCKET, "Key": "absent"}
    refused(lambda: s3.copy_object(Bucket=BUCKET, Key="x", CopySource=absent), 404, "NoSuchKey")
    wrong_etag = '"0123456789abcdef0123456789abcdef"'
    stale = {"CopySource": source, "CopySourceIfMatch": wrong_etag}
    refused(lambda: s3.copy_object(Bucket=BUCKET, Key="x", **stale), 412, "PreconditionFailed")


def copied_parts():
    for name, source in (("ranges", LARGE), ("percent", "100%")):
        if name == "percent":
            s3.put_object(Bucket=BUCKET, Key=source, Body=PARTS[1])
        key = kept_key(PARTS[1], f"copied-{name}")
        upload_id = s3.create_multipart_upload(Bucket=BUCKET, Key=key)["UploadId"]
        target = {"Bucket": BUCKET, "Key": key, "UploadId": upload_id}
        more = {"CopySourceRange": f"bytes={5 * MIB}-{5 * MIB + 70_000}"} if name == "ranges" else {}
        source = {"Bucket": BUCKET, "Key": source}
        answer = s3.upload_part_copy(**target, PartNumber=1, CopySource=source, **more)
        part = {"PartNumber": 1, "ETag": answer["CopyPartResult"]["ETag"]}
        s3.complete_multipart_upload(**target, MultipartUpload={"Parts": [part]})
        equal(read(key), PARTS[1])


def managed_copy():
    key = kept_key(b"".join(PARTS), "managed-copy")
    s3.copy({"Bucket": BUCKET, "Key": LARGE}, BUCKET, key)
    equal(read(key), b"".join(PARTS))


step("copy", copies)
step("copy in parts", copied_parts)
step("managed copy", managed_copy)


# --- deletes
def deletes():
    s3.delete_object(Bucket=LISTED, Key="copy/plus+sign")
    s3.delete_object(Bucket=LISTED, Key="copy/plus+sign")
    refused(lambda: read("copy/plus+sign", LISTED), 404, "NoSuchKey")
    keys = [*ODD_KEYS, *[f"copy/{key}" for key in ODD_KEYS]]
    objects = [{"Key": key} for key in keys]
    deleted = s3.delete_objects(Bucket=LISTED, Delete={"Objects": objects})
    equal(sorted(one["Key"] for one in deleted["Deleted"]), sorted(keys))
    equal(deleted.get("Errors", []), [])
    quiet = {"Objects": [{"Key": "absent"}], "Quiet": True}
    equal(s3.delete_objects(Bucket=LISTED, Delete=quiet).get("Deleted", []), [])
    equal(s3.list_objects_v2(Bucket=LISTED)["KeyCount"], 0)
    s3.delete_bucket(Bucket=LISTED)
    refused(lambda: s3.head_bucket(Bucket=LISTED), 404, message=False)


step("deletes", deletes)
