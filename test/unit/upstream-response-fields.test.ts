// Which fields of an upstream's answer are about our connection to it, by Connection's own word too.

import t from "tap";
import { responseFields } from "../../proxy/upstream/response-fields.ts";

t.test("every field that any Connection line names stays here", async (t) => {
  const raw = [
    ["ETag", '"a"'],
    ["Connection", "X-One"],
    ["x-one", "1"],
    ["X-Two", "2"],
    ["connection", "close, x-two"],
    ["X-Three", "3"],
  ];
  const fields = responseFields(raw.flat().map((text) => Buffer.from(text, "latin1")));
  t.strictSame(fields, [
    ["etag", '"a"'],
    ["x-three", "3"],
  ]);
});
