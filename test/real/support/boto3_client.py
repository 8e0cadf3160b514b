"""Puts, lists, reads and deletes objects with boto3; one JSON plan on stdin, one JSON answer on stdout."""

import hashlib
import json
import sys

import boto3
from botocore.config import Config

plan = json.load(sys.stdin)
client = boto3.client(
    "s3",
    endpoint_url=plan["endpoint"],
    region_name="us-east-1",
    aws_access_key_id=plan["accessKeyId"],
    aws_secret_access_key=plan["secretAccessKey"],
    config=Config(s3={"addressing_style": "path"}, retries={"max_attempts": 1}),
)
bucket = plan["bucket"]
answer = {"read": {}, "deleted": []}
for item in plan["put"]:
    with open(item["file"], "rb") as file:
        client.put_object(Bucket=bucket, Key=item["key"], Body=file)
pages = client.get_paginator("list_objects_v2").paginate(
    Bucket=bucket, PaginationConfig={"PageSize": 7}
)
answer["listed"] = [entry["Key"] for page in pages for entry in page.get("Contents", [])]
for item in plan["put"]:
    body = client.get_object(Bucket=bucket, Key=item["key"])["Body"].read()
    answer["read"][item["key"]] = hashlib.sha256(body).hexdigest()
for key in plan["delete"]:
    client.delete_object(Bucket=bucket, Key=key)
    answer["deleted"].append(key)
json.dump(answer, sys.stdout)
