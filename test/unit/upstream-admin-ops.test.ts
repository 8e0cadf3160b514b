// What an RGW's answer about a key means, by release: an unknown key is told from a question that the
// asking keys may not put, since the latter must never make a key that counts stop counting.

import t from "tap";
import { Cancellation } from "../../proxy/gateway/cancellation.ts";
import type { ByteStream } from "../../proxy/placement/ports.ts";
import { parseAccessKeyId, parseClusterId } from "../../proxy/s3/names.ts";
import { rgwUserFinder } from "../../proxy/upstream/admin-ops.ts";
import { handClock } from "../support/hand-clock.ts";

type Answer = readonly [status: number, document: string];

const keys = { accessKeyId: "SERVICE", secretAccessKey: "secret-of-service" };
const denied: Answer = [403, '{"Code":"AccessDenied","Message":""}'];
const invalid: Answer = [400, '{"Code":"InvalidArgument","Message":""}'];
const gone: Answer = [404, '{"Code":"NoSuchUser"}'];
const failed: Answer = [500, '{"Code":"UnknownError"}'];

function userOf(accessKey: string): Answer {
  const key = { user: "u", access_key: accessKey, secret_key: "s" };
  return [200, JSON.stringify({ user_id: "u", display_name: "U", suspended: 0, keys: [key] })];
}

function streamOf(text: string): ByteStream {
  return {
    async *[Symbol.asyncIterator]() {
      yield Buffer.from(text);
    },
    takeWhole: () => null,
    pipe: () => Promise.reject(new Error("Not piped")),
    cancel: () => undefined,
  };
}

function finder(answers: Readonly<Record<string, Answer>>) {
  const asked: string[] = [];
  const cluster = parseClusterId("a");
  const wanted = parseAccessKeyId("WANTED");
  if (cluster === null || wanted === null) throw new Error("No names");
  const clock = handClock();
  const find = rgwUserFinder({
    cluster,
    keys: () => keys,
    clock,
    ask: (_cluster, { query }) => {
      const key = query.find(([name]) => name === "access-key")?.[1] ?? "";
      asked.push(key);
      const [status, document] = answers[key] ?? failed;
      return Promise.resolve({ status, headers: [], body: streamOf(document) });
    },
  });
  return { asked, clock, find: () => find(wanted, new Cancellation()) };
}

t.test("what an answer means, by what the keys find of themselves", async (t) => {
  const rows = [
    ["the user", userOf("WANTED"), failed, "user"],
    ["somebody else's user", userOf("OTHER"), failed, "unknown"],
    ["404", gone, failed, "unknown"],
    ["RGW 16.2: 403", denied, userOf("SERVICE"), "unknown"],
    ["16.2, keys without the capability", denied, denied, "unavailable"],
    ["RGW 18.2: 400", invalid, userOf("SERVICE"), "unknown"],
    ["18.2, keys without the capability", denied, invalid, "unavailable"],
    ["every question is invalid", invalid, invalid, "unavailable"],
    ["the keys are nobody's", invalid, gone, "unavailable"],
    ["a failure", failed, userOf("SERVICE"), "unavailable"],
    ["another code with 400", [400, '{"Code":"InvalidRequest"}'], userOf("SERVICE"), "unavailable"],
    ["no document", [200, "<html>"], userOf("SERVICE"), "unavailable"],
  ] as const;
  for (const [name, told, ofItself, kind] of rows) {
    const { find } = finder({ WANTED: told, SERVICE: ofItself });
    t.equal((await find()).kind, kind, name);
  }
});

t.test("that the keys may ask is believed for a second", async (t) => {
  const { find, asked, clock } = finder({ WANTED: invalid, SERVICE: userOf("SERVICE") });
  for (const passes of [0, 999, 1]) {
    clock.pass(passes);
    t.equal((await find()).kind, "unknown");
  }
  t.strictSame(asked, ["WANTED", "SERVICE", "WANTED", "WANTED", "SERVICE"]);
});
