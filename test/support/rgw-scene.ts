// A Headgate in front of one upstream that behaves as an RGW does, under a profile that may be wrong,
// and signed requests to it as bytes.

import type { Test } from "tap";
import { type FakeRgw, fakeRgw } from "./fake-rgw.ts";
import { startTestHeadgate, type TestHeadgate } from "./headgate.ts";
import { rawExchange, rawHead } from "./raw-http.ts";

export const upstreamProfiles = ["rgw-pacific", "s3-generic", "aws"] as const;
export type Profile = (typeof upstreamProfiles)[number];
export type Fields = readonly (readonly [string, string])[];

export interface Scene {
  readonly rgw: FakeRgw;
  readonly headgate: TestHeadgate;
  /** A signed request; the answer's head and body apart. */
  readonly ask: (
    method: string,
    path: string,
    given?: { readonly query?: string; readonly headers?: Fields; readonly body?: string },
  ) => Promise<SceneAnswer>;
}

interface SceneAnswer {
  readonly status: number;
  readonly head: string;
  readonly body: string;
  readonly code: string | null;
}

export interface SceneOptions {
  /** The upstream's answers do not tell that it is an RGW. */
  readonly nameless?: boolean;
  /** Of the cluster, as YAML flow: `honours_conditional_delete: true`. */
  readonly overrides?: string;
}

export async function openScene(
  t: Test,
  profile: Profile = "rgw-pacific",
  { nameless = false, overrides = "" }: SceneOptions = {},
): Promise<Scene> {
  const rgw = await fakeRgw(t);
  rgw.nameless = nameless;
  const headgate = await startTestHeadgate(t, {
    clusters: { only: 1 },
    servers: {},
    endpoints: { only: rgw.url },
    clusterSettings: `profile: ${profile}
    overrides: {${overrides}}`,
  });
  const ask: Scene["ask"] = async (method, path, given = {}) => {
    const { query = "", headers = [], body } = given;
    const length = body === undefined ? {} : { contentLength: Buffer.byteLength(body) };
    const head = rawHead(headgate.url, { method, path, query, headers, ...length });
    // HEAD announces what it does not send: the connection is to end.
    const closing = head.replace(/\r\n\r\n$/, "\r\nconnection: close\r\n\r\n");
    const { status, text } = await rawExchange(headgate.url, closing, body ?? "");
    const end = text.indexOf("\r\n\r\n");
    const rest = text.slice(end + 4);
    const code = /<Code>(.*?)<\/Code>/.exec(rest)?.[1] ?? null;
    return { status, head: text.slice(0, end).toLowerCase(), body: rest, code };
  };
  await ask("PUT", "/rep", { body: "" });
  return { rgw, headgate, ask };
}

/** An ETag of an object that was put in so many parts, without quotes. */
export const etagOfParts = (count: number) => `0123456789abcdef0123456789abcdef-${count}`;
