// Tags and lock of an object that are refused before any byte of it: by S3's rules, as an RGW counts.

import t from "tap";
import type { HeaderList } from "../../proxy/s3/headers.ts";
import { settingFieldsError } from "../../proxy/s3/setting-fields.ts";

const nowMs = Date.UTC(2026, 10, 30, 12);
const tags = (text: string): HeaderList => [["x-amz-tagging", text]];
const count = (length: number): HeaderList =>
  tags(Array.from({ length }, (_, at) => `a${at}=`).join("&"));
const hold = (status: string): HeaderList => [["x-amz-object-lock-legal-hold", status]];
const retention = (mode: string | null, until: string | null): HeaderList => [
  ...(mode === null ? [] : [["x-amz-object-lock-mode", mode] as const]),
  ...(until === null ? [] : [["x-amz-object-lock-retain-until-date", until] as const]),
];

t.test("what is wrong whatever the bucket", async (t) => {
  for (const [headers, code] of [
    [[], null],
    [tags(""), null],
    [count(10), null],
    [count(11), "BadRequest"],
    [tags(`${"a".repeat(128)}=${"b".repeat(256)}`), null],
    [tags("=b"), "InvalidTag"],
    [tags(`${"a".repeat(129)}=`), "InvalidTag"],
    [tags(`a=${"b".repeat(257)}`), "InvalidTag"],
    [tags(`${"%C3%A4".repeat(64)}=${"%C3%A4".repeat(128)}`), null],
    [tags(`${"%C3%A4".repeat(65)}=`), "InvalidTag"],
    [tags(`a=${"%C3%A4".repeat(129)}`), "InvalidTag"],
    [tags("a=1&a=2"), "InvalidTag"],
    [tags("a=1&A=2"), null],
    [tags("aws:a=1"), "InvalidTag"],
    [tags("awsa=1"), null],
    [retention("GOVERNANCE", null), "InvalidArgument"],
    [retention(null, "2099-01-01T00:00:00Z"), "InvalidArgument"],
    [retention("governance", "2099-01-01T00:00:00Z"), "InvalidArgument"],
    [retention("", "2099-01-01T00:00:00Z"), "InvalidArgument"],
    [retention("GOVERNANCE", "2026-11-30T12:00:00Z"), "InvalidArgument"],
    [retention("GOVERNANCE", "2026-11-30T12:00:01Z"), null],
    [retention("COMPLIANCE", "2099-01-01"), null],
    [retention("COMPLIANCE", "2099-01-01T00:00:00.123456789Z"), null],
    [retention("COMPLIANCE", "2099-01-01T00:00:00"), "InvalidArgument"],
    [retention("COMPLIANCE", "2099-01-01T00:00:00+02:00"), "InvalidArgument"],
    [retention("COMPLIANCE", "2099-02-30T00:00:00Z"), "InvalidArgument"],
    [retention("COMPLIANCE", "2099-13-01T00:00:00Z"), "InvalidArgument"],
    [retention("COMPLIANCE", "tomorrow"), "InvalidArgument"],
    [hold("ON"), null],
    [hold("OFF"), null],
    [hold("on"), "InvalidArgument"],
    [hold(""), "InvalidArgument"],
    [[...count(11), ...hold("on")], "BadRequest"],
  ] as const) {
    const error = settingFieldsError(headers, nowMs);
    t.equal(error?.code ?? null, code, JSON.stringify(headers));
    if (error !== null) t.equal(error.status, 400);
  }
});
