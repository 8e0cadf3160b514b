// Uploads that an RGW refuses, cuts, stores with marks of their framing, or dies of, with generated keys,
// bodies, chunks, checksums and metadata: each is whole on the RGW afterwards, or it is refused and absent.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import {
  CreateMultipartUploadCommand,
  GetObjectCommand,
  ListPartsCommand,
  NoSuchKey,
  type S3Client,
} from "@aws-sdk/client-s3";
import fc from "fast-check";
import { encodePath } from "../../../proxy/s3/percent.ts";
import { matrixChecksum, matrixChecksums } from "../../support/matrix-checksums.ts";
import { modes } from "../../support/s3-uploads.ts";
import { bodies, generated, keys, metadata } from "./generated.ts";
import type { Headgate } from "./headgate.ts";
import type { Lab, RealTest } from "./lab.ts";
import { askFramed, askRaw, type RawAnswer } from "./raw-request.ts";

export interface Scene {
  readonly lab: Lab;
  readonly test: RealTest;
  readonly headgate: Headgate;
  /** Through Headgate, which puts everything on `a`. */
  readonly client: S3Client;
  /** Straight to `a`. */
  readonly direct: S3Client;
  readonly bucket: string;
}

interface Stored {
  readonly bytes: Buffer;
  readonly metadata: Readonly<Record<string, string>>;
  readonly encoding: string;
}

/** What the RGW itself has under a key. */
export async function storedAt(scene: Scene, key: string): Promise<Stored | null> {
  try {
    const at = { Bucket: scene.bucket, Key: key };
    const answer = await scene.direct.send(new GetObjectCommand(at));
    const bytes = Buffer.from((await answer.Body?.transformToByteArray()) ?? []);
    const pairs = Object.entries(answer.Metadata ?? {}).map(
      ([name, value]) => [name, Buffer.from(value, "latin1").toString("utf8")] as const,
    );
    const encoding = answer.ContentEncoding ?? "";
    return { bytes, metadata: Object.fromEntries(pairs), encoding };
  } catch (caught) {
    if (caught instanceof NoSuchKey) return null;
    throw caught;
  }
}

export function md5(bytes: Uint8Array): string {
  return createHash("md5").update(bytes).digest("hex");
}

async function assertStored(scene: Scene, key: string, wanted: Stored): Promise<void> {
  const found = await storedAt(scene, key);
  assert.ok(found !== null, "it is stored");
  assert.ok(found.bytes.equals(wanted.bytes), `${found.bytes.length} other bytes are stored`);
  assert.deepEqual({ ...found, bytes: null }, { ...wanted, bytes: null });
}

async function assertRefused(scene: Scene, key: string, answer: RawAnswer): Promise<void> {
  assert.ok(answer.status >= 400 && answer.status < 500, `it is answered ${answer.status}`);
  assert.equal(await storedAt(scene, key), null);
}

const framing = fc.record({
  mode: fc.constantFrom(...modes),
  algorithm: fc.constantFrom(...matrixChecksums),
  chunkBytes: fc.integer({ min: 1000, max: 70_000 }),
  inHttpChunks: fc.boolean(),
});

interface Upload {
  readonly key: string;
  readonly data: Buffer;
  readonly how: typeof framing extends fc.Arbitrary<infer T> ? T : never;
  readonly query?: string;
  readonly fields?: readonly (readonly [string, string])[];
  /** Of which the checksum is sent, `data` when absent. */
  readonly summed?: Buffer;
  /** Bytes more than there are that are declared. */
  readonly off?: number;
  readonly changeTrailer?: (trailer: string) => string;
}

async function upload(scene: Scene, given: Upload): Promise<RawAnswer> {
  const { key, data, how, fields = [], summed = data } = given;
  const name = `x-amz-checksum-${how.algorithm}`;
  const sum = matrixChecksum(how.algorithm, summed);
  const { payloadHash: payload, signed: isSigned } = how.mode;
  const about = how.mode.trailer ? (["x-amz-trailer", name] as const) : ([name, sum] as const);
  const length = ["x-amz-decoded-content-length", String(data.length + (given.off ?? 0))] as const;
  return await askFramed(
    scene.headgate.url,
    {
      method: "PUT",
      path: encodePath(`/${scene.bucket}/${key}`),
      ...(given.query === undefined ? {} : { query: given.query }),
      headers: [...fields, length, about],
      body: data,
    },
    {
      ...how,
      payload,
      isSigned,
      ...(how.mode.trailer ? { trailer: [name, sum] as const } : {}),
      ...(given.changeTrailer === undefined ? {} : { changeTrailer: given.changeTrailer }),
    },
  );
}

function metadataFields(of: Readonly<Record<string, string>>): readonly [string, string][] {
  return Object.entries(of).map(([name, value]) => [`x-amz-meta-${name}`, value]);
}

/** Encodings with aws-chunked among them or not at all, as clients write them. */
const encodings = fc
  .tuple(
    fc.subarray(["gzip", "br", "x-own"]),
    fc.nat(3),
    fc.constantFrom("aws-chunked", "AWS-Chunked", ""),
    fc.constantFrom(",", ", ", " , "),
  )
  .map(([kept, at, own, comma]) => ({
    kept,
    text: [...kept.slice(0, at), own, ...kept.slice(at)].filter((one) => one !== "").join(comma),
  }));

const trailerChanges = fc.oneof(
  fc.nat(63).map((at) => ({
    name: `another digit ${at}`,
    change: (text: string) =>
      text.replace(new RegExp(`(trailer-signature:[0-9a-f]{${at}})(.)`), (_all, head, digit) =>
        digit === "0" ? `${head}1` : `${head}0`,
      ),
  })),
  fc.nat(63).map((length) => ({
    name: `${length} digits`,
    change: (text: string) =>
      text.replace(new RegExp(`(trailer-signature:[0-9a-f]{${length}})[0-9a-f]+`), "$1"),
  })),
  fc.constant({
    name: "no signature",
    change: (text: string) => text.replace(/x-amz-trailer-signature:.*\r\n/, ""),
  }),
  fc.constant({
    name: "no checksum",
    change: (text: string) => text.replace(/x-amz-checksum-.*\r\n/, ""),
  }),
  fc.constant({ name: "nothing", change: () => "" }),
  fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 30 }).map((junk) => ({
    name: `junk ${junk}`,
    change: (text: string) => `${junk}\r\n${text}`,
  })),
);

export function uploadProperties(scene: Scene): void {
  const { bucket } = scene;
  const property = (name: string) => ({ ...scene, name });

  generated(
    property("an upload in HTTP chunks has its decoded length, on an object and on a part"),
    fc.record({ key: keys, data: bodies(1), how: framing, about: metadata, part: fc.nat(9998) }),
    async ({ key, data, part, about, ...given }) => {
      const how = { ...given.how, inHttpChunks: true };
      const answer = await upload(scene, { key, data, how, fields: metadataFields(about) });
      assert.equal(answer.status, 200, answer.body.toString());
      assert.equal(answer.headers.etag, `"${md5(data)}"`);
      await assertStored(scene, key, { bytes: data, metadata: about, encoding: "" });

      const at = { Bucket: bucket, Key: `${key} in parts` };
      const { UploadId = "" } = await scene.client.send(new CreateMultipartUploadCommand(at));
      const query = `partNumber=${part + 1}&uploadId=${encodeURIComponent(UploadId)}`;
      const asPart = await upload(scene, { key: at.Key, data, how, query });
      assert.equal(asPart.status, 200, asPart.body.toString());
      const { Parts } = await scene.client.send(new ListPartsCommand({ ...at, UploadId }));
      const parts = Parts?.map(({ PartNumber, Size, ETag }) => [PartNumber, Size, ETag]);
      assert.deepEqual(parts, [[part + 1, data.length, `"${md5(data)}"`]]);
    },
  );

  generated(
    property("aws-chunked leaves Content-Encoding, and nothing else does"),
    fc.record({
      key: keys,
      data: bodies(),
      how: framing,
      encoding: encodings,
      plain: fc.boolean(),
    }),
    async ({ key, data, how, encoding, plain }) => {
      const fields = encoding.text === "" ? [] : [["content-encoding", encoding.text] as const];
      const path = encodePath(`/${bucket}/${key}`);
      const answer = plain
        ? await askRaw(scene.headgate.url, { method: "PUT", path, headers: fields, body: data })
        : await upload(scene, { key, data, how, fields });
      assert.equal(answer.status, 200, answer.body.toString());
      const found = await storedAt(scene, key);
      assert.ok(found !== null && found.bytes.equals(data));
      const tokens = found.encoding.split(",").map((token) => token.trim());
      assert.deepEqual(
        tokens.filter((token) => token !== ""),
        encoding.kept,
      );
    },
  );

  generated(
    property("a checksum in the head or behind the body is compared with the body"),
    fc.record({ key: keys, data: bodies(), how: framing, spoil: bodies(1), plain: fc.boolean() }),
    async ({ key, data, how, spoil, plain }) => {
      const put = async (summed: Buffer): Promise<RawAnswer> => {
        if (!plain) return await upload(scene, { key, data, how, summed });
        const sum = matrixChecksum(how.algorithm, summed);
        return await askRaw(scene.headgate.url, {
          method: "PUT",
          path: encodePath(`/${bucket}/${key}`),
          headers: [[`x-amz-checksum-${how.algorithm}`, sum]],
          body: data,
        });
      };
      const wrong = await put(Buffer.concat([data, spoil]));
      assert.equal(`${wrong.status} ${wrong.code}`, "400 BadDigest");
      await assertRefused(scene, key, wrong);
      const right = await put(data);
      assert.equal(right.status, 200, right.body.toString());
      await assertStored(scene, key, { bytes: data, metadata: {}, encoding: "" });
    },
  );

  generated(
    property("a body of another length than was declared is refused"),
    fc.record({
      key: keys,
      data: bodies(1),
      how: framing,
      off: fc.integer({ min: -200_000, max: 200_000 }).filter((off) => off !== 0),
    }),
    async ({ key, data, how, off }) => {
      const wrong = await upload(scene, { key, data, how, off: Math.max(off, -data.length) });
      await assertRefused(scene, key, wrong);
    },
  );

  generated(
    property("an upload of nothing in chunks is an empty object"),
    fc.record({ key: keys, how: framing, about: metadata }),
    async ({ key, how, about }) => {
      const data = Buffer.alloc(0);
      const answer = await upload(scene, { key, data, how, fields: metadataFields(about) });
      assert.equal(answer.status, 200, answer.body.toString());
      await assertStored(scene, key, { bytes: data, metadata: about, encoding: "" });
    },
  );

  generated(
    property("no trailer kills a radosgw, and a wrong one is refused"),
    fc.record({ key: keys, data: bodies(), how: framing, spoil: trailerChanges }),
    async ({ key, data, how, spoil }) => {
      const mode = modes.find(({ signed, trailer }) => signed && trailer) ?? how.mode;
      const changeTrailer = spoil.change;
      const wrong = await upload(scene, { key, data, how: { ...how, mode }, changeTrailer });
      await assertRefused(scene, key, wrong);
    },
  );
}
