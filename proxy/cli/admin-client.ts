// Speaks to the admin API on behalf of commands. Every outcome is a value with the exit code it means.

import { exitCodes } from "./exit-codes.ts";

/** The part of node:fetch that is used. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface AdminClientOptions {
  readonly url: string;
  readonly token: string | null;
  readonly timeoutMs: number;
}

export interface Question {
  readonly method: "GET" | "PUT" | "POST" | "DELETE";
  /** `/admin/v1/clusters`, already encoded. */
  readonly path: string;
  readonly body?: unknown;
  /** A bare revision, `12`. */
  readonly ifMatch?: string | null;
}

export type AdminAnswer =
  | {
      readonly kind: "answer";
      readonly status: number;
      /** Null: no body. */
      readonly body: unknown;
      readonly warning: string | null;
    }
  | { readonly kind: "problem"; readonly exit: number; readonly message: string };

export class AdminClient {
  readonly #options: AdminClientOptions;
  readonly #fetch: Fetch;

  constructor(fetch: Fetch, options: AdminClientOptions) {
    this.#fetch = fetch;
    this.#options = options;
  }

  /** Never rejects. */
  async ask(question: Question, timeoutMs = this.#options.timeoutMs): Promise<AdminAnswer> {
    const { url, token } = this.#options;
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (token !== null) headers["authorization"] = `Bearer ${token}`;
    if (typeof question.ifMatch === "string") headers["if-match"] = `"${question.ifMatch}"`;
    try {
      const response = await this.#fetch(new URL(question.path, url).href, {
        method: question.method,
        headers,
        redirect: "error",
        // Whole milliseconds only: a clock's fraction would be thrown out as an error of ours.
        signal: AbortSignal.timeout(Math.ceil(timeoutMs)),
        ...(question.body === undefined ? {} : { body: JSON.stringify(question.body) }),
      });
      const text = await response.text();
      if (!response.ok) return problemOf(response.status, text, url);
      const warning = response.headers.get("x-headgate-warning");
      return { kind: "answer", status: response.status, body: bodyOf(response, text), warning };
    } catch (error) {
      const message = `Cannot reach the admin API at ${url}: ${causeOf(error)}`;
      return { kind: "problem", exit: exitCodes.unreachable, message };
    }
  }
}

function bodyOf(response: Response, text: string): unknown {
  if (text === "") return null;
  const isJson = response.headers.get("content-type")?.startsWith("application/json") === true;
  return isJson ? parseJson(text) : text;
}

function problemOf(status: number, text: string, url: string): AdminAnswer {
  const parsed = parseJson(text);
  if (parsed === null && text.startsWith("<?xml")) {
    const message = `There is no admin API at ${url}: it answers as an S3 port, name another with --admin-url`;
    return { kind: "problem", exit: exitCodes.unreachable, message };
  }
  const fields = new Map<string, unknown>(
    typeof parsed === "object" && parsed !== null ? Object.entries(parsed) : [],
  );
  const code = fields.get("code");
  const message = fields.get("message");
  const name = typeof code === "string" ? code : `status ${status}`;
  const said = typeof message === "string" ? message : text.trim().slice(0, 200);
  const told =
    status === 401 ? `${said}, name the file of admin.auth.token_file with --token-file` : said;
  return { kind: "problem", exit: exitOf(status, name), message: `${name}: ${told}` };
}

function exitOf(status: number, code: string): number {
  if (code === "UnknownCluster" || status === 404) return exitCodes.notFound;
  if (status === 409 || status === 412) return exitCodes.conflict;
  if (code === "StateUnavailable") return exitCodes.unreachable;
  return status === 503 ? exitCodes.notReady : exitCodes.failed;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // shown as the text it is
  }
}

/** What is behind fetch's own `fetch failed`. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return "unknown";
  if (error.name === "TimeoutError") return "no answer in time";
  const { cause } = error;
  if (cause instanceof Error) {
    const code = "code" in cause && typeof cause.code === "string" ? cause.code : cause.message;
    const text = causes[code];
    return text === undefined ? code : `${text} (${code})`;
  }
  return error.message;
}

const causes: Readonly<Record<string, string>> = {
  ECONNREFUSED: "nothing listens there, --admin-url or HEADGATE_ADMIN_URL name another address",
  ECONNRESET: "the connection was cut",
  EHOSTUNREACH: "there is no way to that host",
  ENOTFOUND: "the host name is not known",
  ERR_SSL_WRONG_VERSION_NUMBER: "it does not speak TLS, write http://",
};
