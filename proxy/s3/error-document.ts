// The XML document of an error that Headgate itself raises: S3 API Reference "REST error responses".
// The message always has a text: aws-cli 1.45 breaks on an empty one, which is what RGW sends.

import type { S3Error } from "./errors.ts";
import { childText, element, group, optionalElement, readXml, xmlDeclaration } from "./xml.ts";

export interface ErrorContext {
  /** The path the client asked for, `/bucket/key`, as it was addressed. */
  readonly resource: string;
  readonly requestId: string;
  readonly hostId?: string;
}

/** The body of an error answer; sent with `content-type: application/xml`. */
export function errorDocument(error: S3Error, context: ErrorContext): string {
  return (
    xmlDeclaration +
    group("Error", [
      element("Code", error.code),
      element("Message", error.message),
      ...Object.entries(error.details).map(([name, text]) => lines(element(name, text))),
      element("Resource", context.resource),
      element("RequestId", context.requestId),
      optionalElement("HostId", context.hostId ?? null),
    ])
  );
}

/** A canonical request is read by people: XML keeps a line feed as it is. */
function lines(written: string): string {
  return written.replaceAll("&#xA;", "\n");
}

/** What an upstream's error document says; texts are the upstream's and may be empty. */
export interface UpstreamErrorDocument {
  readonly code: string;
  readonly message: string;
}

/** Reads an upstream's error answer; `null` when it is not an S3 error document. */
export function readErrorDocument(body: string | Uint8Array): UpstreamErrorDocument | null {
  const reading = readXml(body, { maxBytes: 65_536 });
  if (reading.kind === "error" || reading.root.name !== "Error") return null;
  const code = childText(reading.root, "Code");
  if (code === null || code === "") return null;
  return { code, message: childText(reading.root, "Message") ?? "" };
}
