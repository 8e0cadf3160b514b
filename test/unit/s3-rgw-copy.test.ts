// Which copies an RGW makes as S3 would, by the request's fields and the source's.

import t from "tap";
import type { HeaderList } from "../../proxy/s3/headers.ts";
import { isWholeForRgw, rgwCopiesAsS3, rgwReadsPart } from "../../proxy/s3/rgw-copy.ts";

const copies = { metadata: "COPY", tagging: "COPY" } as const;
const replacesTags = { metadata: "COPY", tagging: "REPLACE" } as const;
const replacesMetadata = { metadata: "REPLACE", tagging: "COPY" } as const;
const replacesBoth = { metadata: "REPLACE", tagging: "REPLACE" } as const;
const tagged: HeaderList = [["x-amz-tagging-count", "2"]];
const unread: HeaderList = [["x-amz-tagging-count", "0"]];
const own: HeaderList = [["x-amz-tagging", "a=1"]];
const redirected: HeaderList = [["x-amz-website-redirect-location", "/z"]];
const locked: HeaderList = [["x-amz-object-lock-mode", "GOVERNANCE"]];
const cold: HeaderList = [["x-amz-storage-class", "COLD"]];
const held: HeaderList = [["x-amz-object-lock-legal-hold", "ON"]];

t.test("a copy within an RGW", async (t) => {
  for (const [directives, request, source, same] of [
    [copies, [], tagged, true],
    [copies, own, tagged, true],
    [copies, [["x-amz-acl", "private"]], [], true],
    [replacesTags, [], [], true],
    [replacesTags, [], unread, true],
    [replacesTags, [], tagged, false],
    [replacesTags, own, [], false],
    [replacesMetadata, [], [], true],
    [replacesMetadata, [], unread, true],
    [replacesMetadata, [], tagged, false],
    [replacesMetadata, own, [], false],
    [replacesBoth, [], tagged, true],
    [replacesBoth, own, tagged, false],
    [copies, redirected, [], false],
    [copies, [], redirected, false],
    [replacesMetadata, redirected, redirected, true],
    [copies, [], [["x-amz-storage-class", "STANDARD"]], true],
    [copies, [], cold, false],
    [copies, [["x-amz-storage-class", "STANDARD"]], cold, true],
    [replacesMetadata, [], cold, true],
    [copies, locked, [], false],
    [copies, [], locked, false],
    [copies, [], held, false],
    [replacesMetadata, held, [], false],
    [replacesMetadata, [], held, true],
    [replacesMetadata, [["x-amz-server-side-encryption", "AES256"]], [], false],
    [copies, [["x-amz-server-side-encryption-customer-key", "x"]], [], false],
    [replacesMetadata, [], [["x-amz-server-side-encryption", "aws:kms"]], false],
    [copies, [["x-amz-copy-source-server-side-encryption-customer-key", "x"]], [], false],
  ] as const) {
    const what = JSON.stringify([directives, request, source]);
    t.equal(rgwCopiesAsS3(request, source, directives), same, what);
  }
});

t.test("an object in parts on an RGW", async (t) => {
  for (const [fields, whole] of [
    [[], false],
    [own, true],
    [locked, true],
    [held, true],
    [[...redirected, ["x-amz-acl", "private"]], false],
  ] as const) {
    t.equal(isWholeForRgw(fields), whole, JSON.stringify(fields));
  }
});

t.test("a part that is copied within an RGW", async (t) => {
  t.ok(rgwReadsPart([["x-amz-server-side-encryption-customer-key", "x"]]));
  t.notOk(rgwReadsPart([["x-amz-copy-source-server-side-encryption-customer-key", "x"]]));
});
