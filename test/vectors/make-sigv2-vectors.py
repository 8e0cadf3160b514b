# Writes test/vectors/sigv2-botocore.json: requests as botocore signs them with Signature Version 2.
# Run with any botocore beside this file, then `npx biome format --write test/vectors/sigv2-botocore.json`.
import json
import pathlib
from unittest import mock
from urllib.parse import urlsplit

from botocore.auth import HmacV1Auth, HmacV1QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
NOW = "Sun, 29 Nov 2026 12:00:00 GMT"
HOST = "http://s3.example.com"
key = Credentials("AKIDEXAMPLE", SECRET)
session = Credentials("AKIDEXAMPLE", SECRET, "to+ken/=")
vectors = []


def add(method, url, headers, credentials=key, query=False, auth_path=None):
    request = AWSRequest(method=method, url=url, headers=headers)
    if auth_path:
        request.auth_path = auth_path
    fixed_date = mock.patch("botocore.auth.formatdate", lambda usegmt: NOW)
    fixed_time = mock.patch("botocore.auth.time.time", lambda: 1795953600.0)
    with fixed_date, fixed_time:
        if query:
            HmacV1QueryAuth(credentials, expires=900).add_auth(request)
        else:
            HmacV1Auth(credentials, None, None).add_auth(request)
    url = urlsplit(request.url)
    sent = headers if query else request.headers
    fields = [[name.lower(), value] for name, value in sent.items()]
    if query:
        fields = [field for field in fields if not field[0].startswith("x-amz-")]
    target = url.path + ("?" + url.query if url.query else "")
    vectors.append({"method": method, "host": url.netloc, "target": target, "headers": fields})


meta = {"x-amz-meta-b": " two  blanks ", "x-amz-meta-a": "1", "x-amz-acl": "public-read"}
content = {"Content-Type": "text/plain", "Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
add("GET", HOST + "/", {})
add("GET", HOST + "/b?list-type=2&prefix=a%20b&acl", {})
add("PUT", HOST + "/b/a%20b%2Bc/%C3%A9", {**content, **meta})
add("GET", HOST + "/b/k?response-content-type=text%2Fplain%3B%20a%3Db&versionId=x%2Fy&partNumber=3", {})
add("POST", HOST + "/b/k?uploads", {"x-amz-date": NOW})
add("PUT", HOST + "/b/k?partNumber=2&uploadId=a%2Bb", {"Content-Type": "x/y"}, session)
add("GET", "http://b.s3.example.com/k/l?tagging", {}, auth_path="/b/k/l")
add("GET", HOST + "/b/k", {}, query=True)
add("GET", HOST + "/b/k?response-content-disposition=a%3B%20b%3Dx", {}, session, query=True)
add("PUT", HOST + "/b/k", {"Content-Type": "text/plain", "x-amz-acl": "private", "x-amz-meta-n": "é"}, query=True)
add("DELETE", "http://b.s3.example.com/k", {}, query=True, auth_path="/b/k")
path = pathlib.Path(__file__).with_name("sigv2-botocore.json")
path.write_text(json.dumps(vectors, indent=2, ensure_ascii=False) + "\n")
