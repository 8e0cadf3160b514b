// GET and HEAD with `partNumber`. RGW up to 18.2 does not read it and answers the whole object with a
// 200, which a client would take for one part of several; so here a whole object is never an answer to
// a part of one. Such an upstream tells how many parts there were and not where they begin: that is
// proven from the object's bytes (part-sizes.ts), or the answer is 501 (S3 API Reference GetObject).

import type { CancelSignal, UpstreamResponse } from "../placement/ports.ts";
import { isMultipart, partsOf } from "../s3/entity-tags.ts";
import { S3Error } from "../s3/errors.ts";
import { fieldValue, type HeaderList, type QueryList } from "../s3/headers.ts";
import type { ClusterId } from "../s3/names.ts";
import { hasParameter } from "../s3/query.ts";
import { unconditional } from "../s3/read-conditions.ts";
import { readPartNumber } from "../s3/upload-query.ts";
import type { ReadOptions } from "./conditional-read.ts";
import { askConditionally, changed, sameFailure } from "./conditional-read.ts";
import type { OperationPorts, OperationRequest } from "./context.ts";
import type { PartSizes } from "./part-sizes.ts";

/** @throws S3Error InvalidArgument for what is no part number, InvalidRequest together with Range. */
export function partNumberOf(request: OperationRequest): number | null {
  if (!hasParameter(request.query, "partNumber")) return null;
  const number = readPartNumber(request.query);
  if (number instanceof S3Error) throw number;
  if (fieldValue(request.headers, "range") !== null) {
    throw new S3Error("InvalidRequest", {
      message: "Cannot specify both Range header and partNumber query parameter",
    });
  }
  return number;
}

/** Asks one cluster for one part. */
export async function askForPart(
  cluster: ClusterId,
  request: OperationRequest,
  ports: OperationPorts,
  part: { readonly number: number; readonly read: ReadOptions },
): Promise<UpstreamResponse> {
  const { read, number } = part;
  const ask: Asking["ask"] = async (given, signal = request.signal) =>
    await askConditionally(cluster, { ...request, signal }, ports, { ...read, ...given });
  if (ports.facts(cluster).answersPartNumber) {
    const response = await ask({});
    const onlyPart = number === 1 && isEmpty(response);
    if (response.status !== 200 || knowsParts(response) || onlyPart) return response;
    response.body.cancel();
  }
  const head = await ask({ operation: "HeadObject" });
  if (head.status >= 300) return await sameFailure(head, read, () => ask({}));
  if (knowsParts(head)) return read.operation === "HeadObject" ? head : await ask({});
  return await askForRange(head, number, { read, ask, request, partSizes: ports.partSizes });
}

/** The upstream answered for a part, so it knows them. */
function knowsParts(response: UpstreamResponse): boolean {
  return response.status === 206 || fieldValue(response.headers, "x-amz-mp-parts-count") !== null;
}

function isEmpty(response: UpstreamResponse): boolean {
  return fieldValue(response.headers, "content-length") === "0";
}

interface Asking {
  readonly read: ReadOptions;
  readonly ask: (given: Partial<ReadOptions>, signal?: CancelSignal) => Promise<UpstreamResponse>;
  readonly request: Pick<OperationRequest, "caller" | "signal">;
  readonly partSizes: PartSizes;
}

/** Asks for the bytes of a part of the object that `head` shows, and of no other. */
async function askForRange(
  head: UpstreamResponse,
  number: number,
  via: Asking,
): Promise<UpstreamResponse> {
  const { read, ask, request, partSizes } = via;
  const etag = fieldValue(head.headers, "etag") ?? "";
  const count = partsOf(etag);
  if (number > count) {
    throw new S3Error("InvalidPartNumber", {
      details: { PartNumberRequested: String(number), ActualPartCount: String(count) },
    });
  }
  const query: QueryList = read.query.filter(([name]) => name !== "partNumber");
  const pinned: HeaderList = [...unconditional(read.headers), ["if-match", etag]];
  const sizeBytes = Number(fieldValue(head.headers, "content-length") ?? Number.NaN);
  const partBytes =
    count === 1
      ? sizeBytes
      : await partSizes.of(
          { etag, sizeBytes, count },
          {
            ...request,
            read: (signal) => ask({ operation: "GetObject", query, headers: pinned }, signal),
          },
        );
  if (partBytes === null) {
    throw new S3Error("NotImplemented", {
      message: `This cluster does not tell where the ${count} parts of the object begin, read it by Range`,
    });
  }
  const first = (number - 1) * partBytes;
  const range = `bytes=${first}-${Math.min(first + partBytes, sizeBytes) - 1}`;
  // Nothing is no range; S3 answers 200 there, and 206 with Content-Range for all else.
  const headers: HeaderList = isEmpty(head) ? pinned : [...pinned, ["range", range]];
  const response = await ask({ query, headers });
  if (response.status === 412) return await changed(response);
  if (!isMultipart(etag)) return response;
  return {
    ...response,
    headers: [...response.headers, ["x-amz-mp-parts-count", String(count)]],
  };
}
