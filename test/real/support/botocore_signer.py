"""Signs requests with botocore, none of which is sent: a list of jobs on stdin, of requests on stdout."""

import json
import sys

from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

plan = json.load(sys.stdin)
credentials = Credentials(plan["accessKeyId"], plan["secretAccessKey"])
signed = []
for job in plan["jobs"]:
    url = f"http://{job['host']}{job['path']}"
    if job["query"]:
        url += f"?{job['query']}"
    request = AWSRequest(method=job["method"], url=url, headers=dict(job["headers"]))
    if job["expires"] is None:
        S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
    else:
        S3SigV4QueryAuth(credentials, "s3", "us-east-1", expires=job["expires"]).add_auth(request)
    signed.append(
        {
            "target": request.url.split(job["host"], 1)[1],
            "headers": [[name.lower(), value] for name, value in request.headers.items()],
        }
    )
json.dump(signed, sys.stdout)
