// Finds where HTTP/1.1 messages begin and end on a connection, for messages with a Content-Length
// only. Used by the stub and the load generator, where every microsecond is somebody else's.

export interface HttpMessage {
  /** `GET /bench/1k HTTP/1.1` or `HTTP/1.1 200 OK`. */
  readonly startLine: string;
  /** Whether the body has arrived as well; an incomplete message comes first with `false`. */
  readonly complete: boolean;
  readonly expectsContinue: boolean;
}

export class HttpReader {
  readonly #of: "request" | "response";
  #head: Buffer = Buffer.alloc(0);
  #startLine = "";
  #bodyLeft = -1;

  constructor(of: "request" | "response") {
    this.#of = of;
  }

  /** What this chunk completes. A head that asks for `100 Continue` is reported before its body. */
  push(chunk: Buffer): readonly HttpMessage[] {
    const found: HttpMessage[] = [];
    let rest = chunk;
    while (rest.length > 0) {
      if (this.#bodyLeft < 0) {
        this.#head = this.#head.length === 0 ? rest : Buffer.concat([this.#head, rest]);
        const end = this.#head.indexOf("\r\n\r\n");
        if (end < 0) return found;
        const text = this.#head.toString("latin1", 0, end);
        rest = this.#head.subarray(end + 4);
        this.#head = Buffer.alloc(0);
        this.#startLine = text.slice(0, text.indexOf("\r\n"));
        if (this.#of === "response" && this.#startLine.startsWith("HTTP/1.1 1")) continue;
        this.#bodyLeft = Number(/\r\ncontent-length: *(\d+)/i.exec(text)?.[1] ?? 0);
        if (this.#of === "request" && /\r\nexpect: *100-continue/i.test(text)) {
          found.push({ startLine: this.#startLine, complete: false, expectsContinue: true });
        }
      }
      const taken = Math.min(rest.length, this.#bodyLeft);
      this.#bodyLeft -= taken;
      rest = rest.subarray(taken);
      if (this.#bodyLeft > 0) return found;
      this.#bodyLeft = -1;
      found.push({ startLine: this.#startLine, complete: true, expectsContinue: false });
    }
    return found;
  }
}
