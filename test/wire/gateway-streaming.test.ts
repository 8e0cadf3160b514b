// Uploads in aws-chunked framing, as current SDKs send them by default: what arrives on the clusters is
// the plain body and nothing of the framing, and after any fault there is no object anywhere.

import { CreateBucketCommand, DeleteObjectCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { startTestHeadgate, type TestHeadgate } from "../support/headgate.ts";
import { openRaw, type RawAnswer, rawExchange, rawHead, until } from "../support/raw-http.ts";
import { spoiled, withChunk } from "../support/s3-chunked.ts";
import {
  bucket,
  crc32Of,
  type Mode,
  modes,
  sha256,
  type Upload,
  written,
} from "../support/s3-uploads.ts";

const sizes = [0, 1, 8191, 8192, 65_536, 200_000];

async function open(t: Test): Promise<TestHeadgate> {
  const headgate = await startTestHeadgate(t);
  await headgate.s3.send(new CreateBucketCommand({ Bucket: bucket }));
  return headgate;
}

function stored(
  headgate: TestHeadgate,
): readonly { readonly key: string; readonly body: string }[] {
  return Object.values(headgate.clusters).flatMap((cluster) =>
    cluster.objects(bucket).map(({ key, bytes }) => ({ key, body: sha256(bytes) })),
  );
}

/** The fields of the upload of `key` as a cluster saw them. */
function sentUpstream(headgate: TestHeadgate, key: string): ReadonlyMap<string, string> {
  const exchanges = Object.values(headgate.clusters).flatMap((cluster) => cluster.exchanges());
  const found = exchanges.find(({ target }) => target.startsWith(`/${bucket}/${key}`));
  const fields = new Map<string, string>();
  const raw = found?.rawHeaders ?? [];
  for (let at = 0; at < raw.length; at += 2)
    fields.set((raw[at] ?? "").toLowerCase(), raw[at + 1] ?? "");
  return fields;
}

async function send(url: string, mode: Mode, upload: Upload): Promise<RawAnswer> {
  const [head, body] = written(url, mode, upload);
  return await rawExchange(url, head, body);
}

t.test("good bodies are stored plain, and the connection goes on", async (t) => {
  const headgate = await open(t);
  const expected: { key: string; body: string }[] = [];
  for (const mode of modes) {
    const connection = await openRaw(headgate.url);
    let answers = "";
    for (const [index, size] of sizes.entries()) {
      const data = Buffer.alloc(size, index + 1);
      for (const chunked of [false, true]) {
        const key = `${mode.name.replaceAll(" ", "-")}-${size}-${chunked}`;
        const [head, body] = written(headgate.url, mode, { key, data, inHttpChunks: chunked });
        await connection.write(head);
        await connection.write(body);
        const want = expected.push({ key, body: sha256(data) }) % (2 * sizes.length);
        const count = want === 0 ? 2 * sizes.length : want;
        const answer = await connection.answer(
          (text) => text.split("HTTP/1.1 200").length > count || / [45]\d\d /.test(text),
        );
        answers = answer.text;
        const sent = sentUpstream(headgate, key);
        t.equal(sent.get("content-length"), String(size), key);
        t.equal(sent.get("x-amz-content-sha256"), "UNSIGNED-PAYLOAD");
        t.strictSame(
          [
            "content-encoding",
            "x-amz-trailer",
            "x-amz-decoded-content-length",
            "x-amz-sdk-checksum-algorithm",
            "transfer-encoding",
          ].filter((name) => sent.has(name)),
          [],
        );
        t.equal(sent.get("x-amz-checksum-crc32"), mode.trailer ? undefined : crc32Of(data));
      }
    }
    t.notMatch(answers, /connection: close/i, mode.name);
    connection.socket.destroy();
  }
  const byKey = (left: { key: string }, right: { key: string }): number =>
    left.key < right.key ? -1 : 1;
  t.strictSame(stored(headgate).toSorted(byKey), expected.toSorted(byKey));
});

interface Fault {
  readonly name: string;
  readonly applies?: (mode: Mode, size: number) => boolean;
  readonly with: (size: number) => Partial<Upload>;
  readonly answer: string;
}

const chunkCount = (size: number): number => Math.ceil(size / 8192);
const badChunk =
  (at: (count: number) => number) =>
  (size: number): Partial<Upload> => ({
    spoil: (frame) =>
      withChunk(frame, at(chunkCount(size)), ({ line }) => ({ line: spoiled(line) })),
  });
const isSigned = ({ signed }: Mode, size: number): boolean => signed && size > 0;

const faults: readonly Fault[] = [
  {
    name: "bad seed",
    with: () => ({
      head: (head) => head.replace(/[0-9a-f](?=\r\n\r\n$)/, (digit) => (digit === "0" ? "1" : "0")),
    }),
    answer: "403 SignatureDoesNotMatch",
  },
  {
    name: "bad first chunk signature",
    applies: isSigned,
    with: badChunk(() => 0),
    answer: "403 SignatureDoesNotMatch",
  },
  {
    name: "bad middle chunk signature",
    applies: isSigned,
    with: badChunk((count) => count >> 1),
    answer: "403 SignatureDoesNotMatch",
  },
  {
    name: "bad last chunk signature",
    applies: isSigned,
    with: badChunk((count) => count - 1),
    answer: "403 SignatureDoesNotMatch",
  },
  {
    name: "bad final chunk",
    applies: ({ signed }) => signed,
    with: () => ({ spoil: (frame) => ({ ...frame, last: spoiled(frame.last) }) }),
    answer: "403 SignatureDoesNotMatch",
  },
  {
    name: "bad trailer signature",
    applies: ({ signed, trailer }) => signed && trailer,
    with: () => ({
      spoil: (frame) => ({
        ...frame,
        trailer: frame.trailer.replace(/[0-9a-f](?=\r\n$)/, (digit) => (digit === "0" ? "1" : "0")),
      }),
    }),
    answer: "403 SignatureDoesNotMatch",
  },
  { name: "wrong checksum", with: () => ({ checksum: "AAAAAQ==" }), answer: "400 BadDigest" },
  { name: "short", with: (size) => ({ decodedLength: size + 1 }), answer: "400 IncompleteBody" },
  {
    name: "long",
    applies: (_mode, size) => size > 0,
    with: (size) => ({ decodedLength: size - 1 }),
    answer: "400 InvalidRequest",
  },
  {
    name: "extra bytes",
    with: () => ({ spoil: (frame) => ({ ...frame, blank: "\r\nextra" }) }),
    answer: "400 InvalidRequest",
  },
  {
    name: "missing final chunk",
    with: () => ({ spoil: (frame) => ({ ...frame, last: "", trailer: "", blank: "" }) }),
    answer: "400 IncompleteBody",
  },
  {
    name: "missing blank line",
    with: () => ({ spoil: (frame) => ({ ...frame, blank: "" }) }),
    answer: "400 IncompleteBody",
  },
  {
    name: "lone LF",
    with: () => ({ spoil: (frame) => ({ ...frame, last: frame.last.replace("\r", "") }) }),
    answer: "400 InvalidRequest",
  },
  {
    name: "huge size line",
    with: () => ({ spoil: (frame) => ({ ...frame, last: `${"0".repeat(300)}${frame.last}` }) }),
    answer: "400 InvalidChunkSizeError",
  },
  {
    name: "missing trailer",
    applies: ({ trailer }) => trailer,
    with: () => ({
      spoil: (frame) => ({ ...frame, trailer: frame.trailer.replace(/^.*\r\n/, "") }),
    }),
    answer: "400 MalformedTrailerError",
  },
];

for (const mode of modes) {
  t.test(`no fault of a body leaves an object: ${mode.name}`, async (t) => {
    // https://github.com/afreidah/s3-orchestrator/issues/1536
    const headgate = await open(t);
    for (const size of sizes) {
      const data = Buffer.alloc(size, 7);
      for (const fault of faults) {
        if (fault.applies?.(mode, size) === false) continue;
        for (const chunked of [false, true]) {
          const upload = { key: "k", data, inHttpChunks: chunked, ...fault.with(size) };
          const { status, text } = await send(headgate.url, mode, upload);
          const code = /<Code>(\w+)<\/Code>/.exec(text)?.[1] ?? "";
          const closes = /connection: close/i.test(text) || fault.name === "bad seed";
          t.strictSame(
            { answer: `${status} ${code}`, closes, stored: stored(headgate) },
            { answer: fault.answer, closes: true, stored: [] },
            `${size} bytes, ${fault.name}, ${chunked}`,
          );
        }
      }
      const good = await send(headgate.url, mode, { key: "k", data, inHttpChunks: false });
      t.equal(good.status, 200, "the next request works");
      t.strictSame(stored(headgate), [{ key: "k", body: sha256(data) }]);
      await headgate.s3.send(new DeleteObjectCommand({ Bucket: bucket, Key: "k" }));
    }
  });
}

t.test("a body that breaks off inside its framing is never stored", async (t) => {
  const headgate = await open(t);
  for (const mode of modes) {
    for (const size of [10, 200_000]) {
      for (const chunked of [false, true]) {
        const upload = { key: "cut", data: Buffer.alloc(size, 7), inHttpChunks: chunked };
        const [head, body] = written(headgate.url, mode, upload);
        const connection = await openRaw(headgate.url);
        await connection.write(head);
        await connection.write(body.subarray(0, body.length - 1));
        connection.socket.destroy();
      }
    }
  }
  await until(() => headgate.accessLog.length === 1 + 4 * modes.length);
  t.strictSame(stored(headgate), []);
});

t.test("what the head says of a body is refused before a byte is read", async (t) => {
  // https://github.com/versity/versitygw/issues/1659
  const headgate = await open(t);
  const plain = (headers: readonly (readonly [string, string])[], payloadHash: string) =>
    rawHead(headgate.url, {
      method: "PUT",
      path: `/${bucket}/k`,
      headers,
      payloadHash,
      contentLength: 1,
    });
  const unsigned = "STREAMING-UNSIGNED-PAYLOAD-TRAILER";
  const heads: readonly (readonly [string, string])[] = [
    [plain([], unsigned), "411 MissingContentLength"],
    [plain([["x-amz-decoded-content-length", "x"]], unsigned), "400 InvalidArgument"],
    [plain([["x-amz-decoded-content-length", "5368709121"]], unsigned), "400 EntityTooLarge"],
    [
      plain(
        [
          ["x-amz-decoded-content-length", "1"],
          ["x-amz-trailer", "x-amz-meta-a"],
        ],
        unsigned,
      ),
      "400 InvalidRequest",
    ],
    [plain([], "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"), "501 NotImplemented"],
    [plain([["x-amz-checksum-crc32", "AAAA"]], "UNSIGNED-PAYLOAD"), "400 InvalidRequest"],
    [plain([["x-amz-checksum-xxhash3", "AAAA"]], "UNSIGNED-PAYLOAD"), "400 InvalidRequest"],
    [
      `PUT /${bucket}/k HTTP/1.1\r\nhost: ${new URL(headgate.url).host}\r\ncontent-length: 1\r\nx-amz-decoded-content-length: 1\r\nx-amz-content-sha256: ${unsigned}\r\n\r\n`,
      "400 InvalidRequest",
    ],
  ];
  for (const [head, expected] of heads) {
    const answer = await rawExchange(headgate.url, head);
    t.equal(`${answer.status} ${/<Code>(\w+)</.exec(answer.text)?.[1]}`, expected, head);
  }
  t.strictSame(stored(headgate), []);
});
