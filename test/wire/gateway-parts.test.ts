// GET and HEAD with partNumber over an upstream that does not read it: a part or an error, with the right
// profile and with a wrong one, never the whole object for a part.

import { createHash } from "node:crypto";
import t from "tap";
import { rgwAnswer } from "../support/fake-rgw.ts";
import { etagOfParts, openScene, upstreamProfiles } from "../support/rgw-scene.ts";

t.test("a part is a part or an error", async (t) => {
  for (const profile of upstreamProfiles) {
    const { rgw, ask } = await openScene(t, profile);
    const content = "0123456789";
    rgw.put("/rep/whole", content);
    rgw.put("/rep/one", content, { etag: etagOfParts(1) });
    rgw.put("/rep/three", content, { etag: etagOfParts(3) });
    rgw.put("/rep/empty", "");
    const rows = [
      ["/rep/whole", "1", 206, null],
      ["/rep/one", "1", 206, null],
      ["/rep/empty", "1", 200, null],
      ["/rep/whole", "2", 416, "InvalidPartNumber"],
      ["/rep/empty", "2", 416, "InvalidPartNumber"],
      ["/rep/three", "4", 416, "InvalidPartNumber"],
      ["/rep/three", "1", 501, "NotImplemented"],
      ["/rep/three", "3", 501, "NotImplemented"],
      ["/rep/none", "1", 404, "NoSuchKey"],
      ["/rep/whole", "0", 400, "InvalidArgument"],
      ["/rep/whole", "10001", 400, "InvalidArgument"],
      ["/rep/whole", "x", 400, "InvalidArgument"],
      ["/rep/whole", "", 400, "InvalidArgument"],
    ] as const;
    for (const [path, part, status, code] of rows) {
      const name = `${profile} ${path} ${part}`;
      const got = await ask("GET", path, { query: `partNumber=${part}` });
      t.match(got, { status, code }, name);
      t.equal((await ask("HEAD", path, { query: `partNumber=${part}` })).status, status, name);
      if (status !== 206) continue;
      t.equal(got.body, content);
      t.match(got.head, "content-range: bytes 0-9/10");
      t.equal(got.head.includes("x-amz-mp-parts-count: 1"), path === "/rep/one");
    }
    const both = { query: "partNumber=1", headers: [["range", "bytes=0-1"]] } as const;
    t.match(await ask("GET", "/rep/whole", both), { status: 400, code: "InvalidRequest" });
  }
});

t.test("parts of a size that gives the object's ETag are served, others are not", async (t) => {
  const partBytes = 5 * 1024 * 1024;
  const sizeBytes = partBytes + 70_001;
  const { rgw, ask } = await openScene(t);
  const content = Buffer.alloc(sizeBytes, "0123456789abcdefg");
  const count = Math.ceil(sizeBytes / partBytes);
  const pieces = Array.from({ length: count }, (_, at) =>
    content.subarray(at * partBytes, (at + 1) * partBytes),
  );
  const digests = pieces.map((piece) => createHash("md5").update(piece).digest());
  const digest = createHash("md5").update(Buffer.concat(digests)).digest("hex");
  rgw.put("/rep/k", content, { etag: `${digest}-${count}` });
  await Promise.all(
    [1, 2, 1].map((part) => ask("HEAD", "/rep/k", { query: `partNumber=${part}` })),
  );
  for (const [at, piece] of pieces.entries()) {
    const query = `partNumber=${at + 1}`;
    const got = await ask("GET", "/rep/k", { query });
    t.equal(got.status, 206);
    t.ok(Buffer.from(got.body, "latin1").equals(piece), `part ${at + 1} of ${count}`);
    const first = at * partBytes;
    const range = `content-range: bytes ${first}-${first + piece.length - 1}/${sizeBytes}\r\n`;
    t.match(got.head, range);
    t.match(got.head, `x-amz-mp-parts-count: ${count}`);
    const head = await ask("HEAD", "/rep/k", { query });
    t.match(head, { status: 206, body: "" });
    t.match(head.head, `content-length: ${piece.length}\r\n`);
  }
  const whole = rgw.requests.filter(
    ({ method, headers }) => method === "GET" && !headers.has("range"),
  );
  t.equal(whole.length, 1, "it was read once to prove its parts, whoever asked at once");
  t.equal((await ask("GET", "/rep/k", { query: `partNumber=${count + 1}` })).status, 416);
  // The same length, put otherwise.
  rgw.put("/rep/odd", content, { etag: etagOfParts(count) });
  t.match(await ask("GET", "/rep/odd", { query: "partNumber=1" }), { status: 501 });
});

t.test("an upstream that knows parts answers for them, whatever its profile says", async (t) => {
  for (const profile of upstreamProfiles) {
    const { rgw, ask } = await openScene(t, profile);
    rgw.intercept = ({ method, query }) =>
      query.get("partNumber") === "2"
        ? rgwAnswer(
            "206 Partial Content",
            ["Content-Range: bytes 3-5/9", `ETag: "${etagOfParts(3)}"`, "x-amz-mp-parts-count: 3"],
            method === "HEAD" ? "" : "mid",
            3,
          )
        : null;
    t.match(await ask("GET", "/rep/k", { query: "partNumber=2" }), { status: 206, body: "mid" });
  }
});
