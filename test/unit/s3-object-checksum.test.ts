// Which checksum an object has, and which a copy of it is to have.

import t from "tap";
import type { HeaderList } from "../../proxy/s3/headers.ts";
import {
  begunChecksum,
  completeChecksumFields,
  copyChecksum,
  listedAlgorithm,
  objectChecksum,
  uploadChecksumFields,
} from "../../proxy/s3/object-checksum.ts";

const crc = "NSRBwg==";
const field = (name: string, value: string) => [`x-amz-checksum-${name}`, value] as const;
const etag = (suffix = "") => ["etag", `"${"0".repeat(32)}${suffix}"`] as const;
const full = field("type", "FULL_OBJECT");
const composite = field("type", "COMPOSITE");

t.test("what HEAD tells of an object's checksum", async (t) => {
  for (const [head, type, whole] of [
    [[etag(), field("crc32", crc)], null, crc],
    [[etag(), field("crc32", crc), full], "FULL_OBJECT", crc],
    [[etag("-2"), full, field("crc32", crc)], "FULL_OBJECT", crc],
    // Of the parts, or of what nobody tells.
    [[etag("-2"), field("crc32", crc)], null, null],
    [[etag("-2"), field("crc32", crc), composite], "COMPOSITE", null],
    [[etag("-2"), field("crc32", `${crc}-2`)], "COMPOSITE", null],
    [[etag("-2"), field("crc32", `${crc}-2`), full], "COMPOSITE", null],
    [[etag(), field("crc32", crc), field("type", "OTHER")], null, crc],
    [[etag(), field("sha1", "x"), field("other", crc), field("crc32", crc)], null, crc],
  ] as const) {
    const told = { algorithm: "crc32", type, whole };
    t.strictSame(objectChecksum(head), told, JSON.stringify(head));
  }
  const none: readonly HeaderList[] = [
    [etag()],
    [field("crc32", "x")],
    [field("other", crc)],
    [full, field("algorithm", "CRC32")],
  ];
  for (const head of none) t.equal(objectChecksum(head), null);
});

t.test("a copy's is of the algorithm that is asked for, else of the source's", async (t) => {
  const source = [etag(), field("crc32", crc), full];
  const present = objectChecksum(source);
  const asked = (name: string) => copyChecksum([field("algorithm", name)], source);
  t.strictSame(copyChecksum([], source), {
    kind: "checksum",
    checksum: { algorithm: "crc32", source: present },
  });
  t.strictSame(asked(" crc32 "), copyChecksum([], source));
  for (const [name, algorithm] of [
    ["SHA256", "sha256"],
    ["CRC64NVME", "crc64nvme"],
    ["crc32c", "crc32c"],
  ] as const) {
    t.strictSame(asked(name), { kind: "checksum", checksum: { algorithm, source: null } });
  }
  t.strictSame(copyChecksum([], [etag()]), { kind: "checksum", checksum: null });
  for (const name of ["", "CRC", "CRC32,SHA1", "toString", "type"]) {
    t.match(asked(name), { kind: "error", error: { code: "InvalidRequest" } }, name);
  }
});

t.test("an upload in parts has the source's type where it can", async (t) => {
  const ofType = (type: "FULL_OBJECT" | "COMPOSITE" | null) => type;
  for (const [algorithm, source, type] of [
    ["crc32", null, "FULL_OBJECT"],
    ["crc32", "FULL_OBJECT", "FULL_OBJECT"],
    ["crc32", "COMPOSITE", "COMPOSITE"],
    ["crc32c", "COMPOSITE", "COMPOSITE"],
    ["crc64nvme", "COMPOSITE", "FULL_OBJECT"],
    ["sha256", null, "COMPOSITE"],
    ["sha256", "FULL_OBJECT", "COMPOSITE"],
    ["xxhash3", "FULL_OBJECT", "COMPOSITE"],
  ] as const) {
    const present = source === null ? null : { algorithm, type: ofType(source), whole: null };
    t.strictSame(uploadChecksumFields({ algorithm, source: present }), [
      field("algorithm", algorithm.toUpperCase()),
      field("type", type),
    ]);
  }
});

t.test("what an upload has is what its cluster says", async (t) => {
  const told = [field("algorithm", "CRC32"), full];
  t.strictSame(begunChecksum(told), { algorithm: "crc32", type: "FULL_OBJECT" });
  t.strictSame(begunChecksum([field("algorithm", "sha1")]), { algorithm: "sha1", type: null });
  t.equal(begunChecksum([full]), null);
  t.equal(begunChecksum([field("algorithm", "BLAKE3")]), null);
  for (const [document, algorithm] of [
    ["<ListPartsResult><ChecksumAlgorithm>SHA256</ChecksumAlgorithm></ListPartsResult>", "sha256"],
    [
      "<ListPartsResult><Part><ChecksumAlgorithm>SHA256</ChecksumAlgorithm></Part></ListPartsResult>",
      null,
    ],
    ["<ListPartsResult><ChecksumAlgorithm/></ListPartsResult>", null],
    ["<ListBucketResult><ChecksumAlgorithm>SHA256</ChecksumAlgorithm></ListBucketResult>", null],
    ["", null],
  ] as const) {
    t.equal(listedAlgorithm(Buffer.from(document)), algorithm, document);
  }
  const source = { algorithm: "crc32", type: "FULL_OBJECT", whole: crc } as const;
  const proof = (
    upload: "FULL_OBJECT" | "COMPOSITE" | null,
    algorithm: "crc32" | "sha1" = "crc32",
  ) => completeChecksumFields({ algorithm, source }, { algorithm, type: upload });
  t.strictSame(proof("FULL_OBJECT"), [field("crc32", crc), full]);
  for (const none of [proof("COMPOSITE"), proof(null), proof("FULL_OBJECT", "sha1")]) {
    t.strictSame(none, []);
  }
  const ofParts = { ...source, type: "COMPOSITE", whole: null } as const;
  const upload = { algorithm: "crc32", type: "FULL_OBJECT" } as const;
  t.strictSame(completeChecksumFields({ algorithm: "crc32", source: ofParts }, upload), []);
});
