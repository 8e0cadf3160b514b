"""What the Python clients share: the plan of a run from the environment, and steps that print one line each."""

import hashlib
import os
import traceback

ENDPOINT = os.environ["LAB_ENDPOINT"]
ACCESS_KEY = os.environ["LAB_ACCESS_KEY"]
SECRET_KEY = os.environ["LAB_SECRET_KEY"]
CA_FILE = os.environ.get("LAB_CA_FILE") or None
# A name of this run's own; every bucket is this name or begins with it.
BUCKET = os.environ["LAB_BUCKET"]
FOLDER = os.environ["LAB_FOLDER"]

ODD_KEYS = [
    "a b/c d.txt",
    "plus+sign",
    "100%25 sure %zz",
    "naïve/日本語/🗝",
    "two//slashes//",
    "up/../up/./dot",
    "/leading",
    "quote'(x)!*~&=?#;,:@$",
    "percent%2Fslash",
]


def test_bytes(size, seed):
    """Bytes that differ from seed to seed and from block to block."""
    block = hashlib.sha512(seed.encode()).digest()
    bytes_ = bytearray((block * (size // 64 + 1))[:size])
    for at in range(0, size - 4, 4096):
        bytes_[at : at + 4] = at.to_bytes(4, "big")
    return bytes(bytes_)


def kept_key(body, name):
    """The key of an object that stays: whoever reads it from the cluster can tell whether it is whole."""
    return f"kept/{hashlib.sha256(body).hexdigest()}/{name}"


class Steps:
    def __init__(self):
        self.count = 0

    def run(self, name, action):
        self.count += 1
        try:
            action()
            print(f"ok {name}", flush=True)
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno for frame in where if "clients" in frame.filename]
            text = f"{type(error).__name__}: {error}".replace("\n", " ")[:400]
            print(f"FAIL {name} line {lines[-1] if lines else 0}: {text}", flush=True)

    def end(self):
        print(f"end {self.count}", flush=True)


def equal(got, wanted, what="value"):
    if got != wanted:
        raise AssertionError(f"{what}: got {str(got)[:150]!r}, wanted {str(wanted)[:150]!r}")
