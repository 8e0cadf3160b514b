"""Signs requests with botocore, none of which is sent: a list of jobs on stdin, of requests on stdout."""

import json
import sys

from botocore.auth import HmacV1Auth, HmacV1QueryAuth, S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

plan = json.load(sys.stdin)
credentials = Credentials(plan["accessKeyId"], plan["secretAccessKey"])


def signer(job):
    expires = job["expires"]
    if job["version"] == 2:
        return HmacV1Auth(credentials) if expires is None else HmacV1QueryAuth(credentials, expires=expires)
    if expires is None:
        return S3SigV4Auth(credentials, "s3", "us-east-1")
    return S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=expires)


signed = []
for job in plan["jobs"]:
    url = f"http://{job['host']}{job['path']}"
    if job["query"]:
        url += f"?{job['query']}"
    request = AWSRequest(
        method=job["method"],
        url=url,
        headers=dict(job["headers"]),
        # A URL is presigned without the body that will be sent to it.
        data=job["body"].encode() if job["expires"] is None else b"",
        auth_path=job["authPath"],
    )
    signer(job).add_auth(request)
    signed.append(
        {
            "target": request.url.split(job["host"], 1)[1],
            "headers": [[name.lower(), value] for name, value in request.headers.items()],
        }
    )
json.dump(signed, sys.stdout)
