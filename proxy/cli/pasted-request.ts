// A request as people have it at hand: a presigned URL, the head of a request, what `curl -v` prints of
// it, the debug log of botocore (aws-cli --debug, boto3.set_stream_logger) or of Python's http.client.
// Of several requests in a log the last one counts. What the client signed may stand in the log, too.

/** The parts of a head, as readRequestHead takes them. */
export interface PastedRequest {
  readonly method: string;
  readonly target: string;
  /** Names and values in turn. */
  readonly rawHeaders: readonly string[];
}

/** A text says why it is no request. `method`: that of a URL. */
export function readPastedRequest(text: string, method: string): PastedRequest | string {
  const url = /^\s*(https?:\/\/\S+)\s*$/.exec(text)?.[1];
  if (url !== undefined) return ofUrl(url, method, []);
  const logged = [...text.matchAll(/<AWSPreparedRequest (.*)>$/gm)].at(-1)?.[1];
  if (logged !== undefined) return ofBotocore(logged);
  const sent = [...text.matchAll(/^send: b(['"])(.*)\1$/gm)].map(([, , bytes = ""]) => bytes);
  const head = sent.findLast((bytes) => /^[A-Z]+ \S+ HTTP\//.test(bytes));
  return readHead(head === undefined ? text : unquoted(head));
}

/** The canonical request that botocore logged last; null: none. */
export function loggedCanonicalRequest(text: string): string | null {
  const logged = [...text.matchAll(/CanonicalRequest:\r?\n(.*?)\r?\n[^\n]*StringToSign:/gs)];
  return logged.at(-1)?.[1] ?? null;
}

function ofUrl(url: string, method: string, fields: readonly string[]): PastedRequest {
  const [, host = "", target = ""] = /^https?:\/\/([^/?]+)(.*)$/.exec(url) ?? [];
  return {
    method,
    target: target.startsWith("/") ? target : `/${target}`,
    rawHeaders: ["host", host, ...fields],
  };
}

/** `method=GET, url=http://h/b/k, headers={'X-Amz-Date': b'…', …}`; Host is added on the way out. */
function ofBotocore(logged: string): PastedRequest | string {
  const [, method = "", url = "", headers = ""] =
    /\bmethod=([A-Z]+), url=(\S+), headers=\{(.*)\}/.exec(logged) ?? [];
  if (method === "") return "Cannot read the request in the debug log";
  const fields = [...headers.matchAll(/'([^']+)': b?(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")/g)];
  return ofUrl(
    url,
    method,
    fields.flatMap(([, name = "", single, double]) => [name, unquoted(single ?? double ?? "")]),
  );
}

/** The bytes of a Python literal, one character a byte. */
function unquoted(literal: string): string {
  return literal.replaceAll(/\\(?:x([0-9a-f]{2})|(.))/g, (_, hex?: string, other = "") => {
    if (hex !== undefined) return String.fromCharCode(Number.parseInt(hex, 16));
    return other === "r" ? "\r" : other === "n" ? "\n" : other === "t" ? "\t" : other;
  });
}

/** A request line and fields up to an empty line, alone or within what `curl -v` prints. */
function readHead(text: string): PastedRequest | string {
  const all = text.split(/\r?\n/);
  // Of what `curl -v` prints only the lines that it sends count.
  const sent = all.filter((line) => /^> ?/.test(line));
  const lines = sent.length === 0 ? all : sent.map((line) => line.replace(/^> ?/, ""));
  const first = lines.findIndex((line) => line.trim() !== "");
  const requestLine = /^([A-Z]+) (\S+)(?: HTTP\/[0-9.]+)?$/.exec(lines[first]?.trim() ?? "");
  if (requestLine === null) {
    return 'Cannot read the request: it must begin like "GET /bucket/key HTTP/1.1", or be a URL, what curl -v prints or a debug log of botocore';
  }
  const [, method = "", target = ""] = requestLine;
  const rawHeaders: string[] = [];
  for (const line of lines.slice(first + 1)) {
    if (line.trim() === "") break;
    const colon = line.indexOf(":");
    if (colon < 1) return `Cannot read the line "${line}" as a header`;
    // Text is UTF-8, fields are bytes.
    const value = Buffer.from(line.slice(colon + 1).trim(), "utf8").toString("latin1");
    rawHeaders.push(line.slice(0, colon), value);
  }
  return { method, target, rawHeaders };
}
