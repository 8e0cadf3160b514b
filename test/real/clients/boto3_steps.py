"""All steps of boto3 with its default settings, for old and new releases alike."""

import boto3_objects  # noqa: F401
import boto3_settings  # noqa: F401
from boto3_common import steps

steps.end()
