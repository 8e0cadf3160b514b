"""What the steps of boto3 share: a client with default settings, and checks of what it gets."""

import ssl
import urllib.error
import urllib.request

import boto3
from botocore.exceptions import ClientError

from steps import ACCESS_KEY, BUCKET, CA_FILE, ENDPOINT, SECRET_KEY, Steps, equal, kept_key, test_bytes

MIB = 2**20
MODERN = tuple(int(part) for part in boto3.__version__.split(".")[:2]) >= (1, 36)
# Two parts, and the key of the object that an upload makes of them.
PARTS = [test_bytes(5 * MIB, "part one"), test_bytes(70_001, "part two")]
LARGE = kept_key(b"".join(PARTS), "multipart")
LISTED = f"{BUCKET}-lists"

def connect(access_key=ACCESS_KEY, secret_key=SECRET_KEY):
    return boto3.client(
        "s3",
        endpoint_url=ENDPOINT,
        region_name="us-east-1",
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        verify=CA_FILE,
    )


s3 = connect()
steps = Steps()
step = steps.run


def read(key, bucket=BUCKET, **more):
    return s3.get_object(Bucket=bucket, Key=key, **more)["Body"].read()


def refused(action, status, code=None, message=True):
    """The action fails with this status (and code), and says something."""
    try:
        action()
    except ClientError as error:
        equal(error.response["ResponseMetadata"]["HTTPStatusCode"], status, "status")
        if code is not None:
            equal(error.response["Error"]["Code"], code, "code")
        if message and not error.response["Error"].get("Message"):
            raise AssertionError("the error has no message")
        return error
    raise AssertionError(f"succeeded, wanted {status} {code}")


def lower(headers):
    return {name.lower(): value for name, value in headers.items()}


def fetch(url, method="GET", body=None, headers=None):
    """Status, headers (lower case) and body of a plain request."""
    context = ssl.create_default_context(cafile=CA_FILE) if CA_FILE else None
    request = urllib.request.Request(url, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, context=context) as answer:
            return answer.status, lower(answer.headers), answer.read()
    except urllib.error.HTTPError as error:
        return error.code, lower(error.headers), error.read()
