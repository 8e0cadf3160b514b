// The matrix of uploads against every kind of upstream: who signs × how the body is protected × how long
// it is × what is wrong with it × what the cluster can do, the full product for bodies that fit into the
// held tail. Here what the table is, and the kinds that are S3; the kinds that are RGW are in
// gateway-payload-matrix-rgw.test.ts, longer bodies in gateway-payload-matrix-long.test.ts.

import t from "tap";
import { profileNames, profiles } from "../../proxy/placement/profiles.ts";
import { matrixChecksum, matrixChecksums } from "../support/matrix-checksums.ts";
import { writtenForm } from "../support/upload-form-writing.ts";
import {
  auths,
  callers,
  countBy,
  type Fault,
  faults,
  type PayloadForm,
  payloads,
  rowName,
  type UploadCase,
} from "../support/upload-matrix.ts";
import { kinds, openMatrix, shortRows } from "../support/upload-matrix-demo.ts";
import { runMatrix } from "../support/upload-matrix-run.ts";
import { writtenUpload } from "../support/upload-writing.ts";

t.test("the table is the whole product, for every profile", async (t) => {
  t.strictSame([auths.length, payloads.length, faults.length], [16, 10, 41]);
  t.equal(shortRows.length, 5543, "rows for each kind");
  t.equal(new Set(shortRows.map(rowName)).size, shortRows.length, "none is there twice");
  for (const column of ["operation", "auth", "payload", "fault"] as const) {
    t.comment(`${column}: ${JSON.stringify(countBy(shortRows, (row) => row[column]))}`);
  }
  t.comment(`bytes: ${JSON.stringify(countBy(shortRows, ({ data }) => data.length))}`);
  t.strictSame(new Set(shortRows.map(({ auth }) => auth)), new Set(auths));
  t.strictSame(new Set(shortRows.map(({ payload }) => payload)), new Set(payloads));
  t.strictSame(new Set(shortRows.map(({ fault }) => fault)), new Set(faults));
  t.strictSame(kinds, ["aws", "rgw-pacific", "rgw-reef", "rgw-squid", "s3-generic"]);
  for (const name of profileNames) {
    t.ok(
      kinds.some((kind) => profiles[kind] === profiles[name]),
      `${name} is, fact for fact, one that is run`,
    );
  }
});

t.setTimeout(600_000);

for (const kind of kinds.filter((name) => profiles[name].backend === "s3")) {
  t.test(`${kind}: every signature, payload, length and fault`, async (t) => {
    t.strictSame(await runMatrix(await openMatrix(t, kind), shortRows), []);
  });
}

t.test("what the matrix asks of a form is what its bytes say", async (t) => {
  const data = Buffer.alloc(20_000, "abc");
  const text = (auth: UploadCase["auth"], payload: PayloadForm, fault: Fault): string => {
    const given: UploadCase = {
      operation: "PutObject",
      auth,
      payload,
      data,
      fault,
      algorithm: "crc32",
      bucket: "b",
      key: "k",
      query: "",
      host: "h",
      inChunks: false,
    };
    const write = callers[auth].place === "form" ? writtenForm : writtenUpload;
    const { bytes, closes } = write(given);
    return `${bytes.toString("latin1")}${closes}`;
  };
  const sum = matrixChecksum("crc32", data);
  t.match(text("header", "unsigned-trailer", "none"), `x-amz-checksum-crc32:${sum}`);
  t.notMatch(text("header", "unsigned-trailer", "bad checksum"), sum);
  t.notMatch(text("header", "signed-chunks", "no end"), "\r\n0;");
  t.match(text("header", "signed-chunks", "none"), "\r\n0;");
  t.match(text("header", "signed-trailer", "extra bytes"), /\r\n\r\nGARBAGEno$/);
  const same: string[] = [];
  for (const row of shortRows.filter((one) => one.data.length === 65_536)) {
    const { auth, payload, fault } = row;
    const isSame = text(auth, payload, fault) === text(auth, payload, "none");
    if (fault !== "none" && isSame) same.push(rowName(row));
  }
  t.strictSame(same, [], "every fault shows in the bytes");
  t.equal(matrixChecksums.length, 5);
});
