// A server that ignores what it does not know of a request takes the write of a setting for that of the
// object or the bucket itself. Whatever its profile says, it gets none: what is there stays as it was.

import t from "tap";
import { type OperationFacts, operationFacts } from "../../proxy/s3/operation.ts";
import { rgwAnswer, rgwError } from "../support/fake-rgw.ts";
import { startTestHeadgate } from "../support/headgate.ts";
import { rawExchange, rawHead } from "../support/raw-http.ts";
import { openScene, upstreamProfiles } from "../support/rgw-scene.ts";

const list = '<?xml version="1.0"?><ListBucketResult><Name>rep</Name></ListBucketResult>';
const tags = "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>";

interface Write {
  readonly name: string;
  readonly method: string;
  readonly path: string;
  readonly query: string;
}

/** Every write that a sub-resource of an object or of a bucket names. */
const writes = Object.entries(operationFacts).flatMap(
  ([name, facts]: [string, OperationFacts]): readonly Write[] => {
    const { method, scope, subresource, routing, supported } = facts;
    const isOfObject = scope === "object" && routing === "owner" && subresource !== "uploads";
    const isOfBucket = routing === "every" || routing === "single";
    if (!supported || subresource === null || method === "GET") return [];
    if (!isOfObject && !isOfBucket) return [];
    const more = new Map([
      ["append", "&position=0"],
      ["select", "&select-type=2"],
    ]);
    const query = `${subresource}=${more.get(subresource) ?? ""}`;
    return [{ name, method, path: isOfObject ? "/rep/k" : "/rep", query }];
  },
);

for (const profile of upstreamProfiles) {
  t.test(`what is there stays as it was, as ${profile}`, async (t) => {
    const { rgw, ask } = await openScene(t, profile, { nameless: true });
    t.ok(writes.length > 30);
    rgw.intercept = ({ method, path }) =>
      method === "GET" && path === "/rep" ? rgwAnswer("200 OK", [], list) : null;
    // One that looks like a setting is none either.
    for (const content of ["the object", tags]) {
      rgw.put("/rep/k", content);
      for (const { name, method, path, query } of writes) {
        const before = rgw.requests.length;
        const body = method === "DELETE" ? {} : { body: tags };
        const { status, code } = await ask(method, path, { query, ...body });
        const isBucketDeletion = method === "DELETE" && path === "/rep";
        if (isBucketDeletion) t.equal(status, 204, `${name}: what is not there is gone`);
        else t.match({ status, code }, { status: 501, code: "NotImplemented" }, name);
        t.strictSame(
          rgw.requests.slice(before).filter((one) => !/^(?:GET|HEAD)$/.test(one.method)),
          [],
          `${name}: nothing is written`,
        );
      }
      t.equal(rgw.objects.get("/rep/k")?.body.toString(), content);
    }
    const read = await ask("GET", "/rep", { query: "cors=" });
    t.match(read, { status: 501, code: "NotImplemented" }, "nor is a list taken for a setting");
    t.equal((await ask("PUT", "/rep/none", { query: "tagging=", body: tags })).code, "NoSuchKey");
    t.notOk(rgw.objects.has("/rep/none"));
  });
}

t.test("what a server says to the question decides", async (t) => {
  const { rgw, ask } = await openScene(t, "s3-generic", { nameless: true });
  rgw.put("/rep/k", "the object");
  const acl = "<AccessControlPolicy></AccessControlPolicy>";
  const lock = "NoSuchObjectLockConfiguration";
  // Request, the answer to the question and to a HEAD, the client's answer, whether it was sent.
  const rows = [
    ["PUT", "tagging", rgwAnswer("200 OK", [], tags), 200, 200, true],
    ["DELETE", "tagging", rgwError("404 Not Found", "NoSuchTagSet"), 200, 200, true],
    ["PUT", "tagging", rgwAnswer("200 OK", ['ETag: "1"'], tags), 200, 501, false],
    ["PUT", "tagging", rgwAnswer("200 OK", [], acl), 200, 501, false],
    ["PUT", "tagging", rgwError("404 Not Found", "NoSuchVersion"), 200, 404, false],
    ["PUT", "tagging", rgwError("405 Method Not Allowed", "MethodNotAllowed"), 200, 405, false],
    ["PUT", "retention", rgwError("404 Not Found", lock), 200, 200, true],
    ["PUT", "retention", rgwError("400 Bad Request", "InvalidRequest"), 200, 400, false],
    ["PUT", "legal-hold", rgwError("503 Service Unavailable", "SlowDown"), 200, 503, false],
    ["PUT", "acl", rgwAnswer("200 OK", [], acl), 200, 200, true],
    ["PUT", "acl", rgwError("403 Forbidden", "AccessDenied"), 200, 200, true],
    ["PUT", "acl", rgwError("403 Forbidden", "AccessDenied"), 403, 403, false],
    ["PUT", "acl", rgwError("403 Forbidden", "InvalidObjectState"), 200, 403, false],
    ["POST", "restore", rgwAnswer("200 OK", [], acl), 200, 200, true],
    ["POST", "restore", rgwError("501 Not Implemented", "NotImplemented"), 200, 200, true],
    ["POST", "restore", rgwError("404 Not Found", "NoSuchKey"), 200, 404, false],
  ] as const;
  for (const [method, name, answer, head, status, isSent] of rows) {
    const before = rgw.requests.length;
    rgw.intercept = (request) => {
      if (request.method === "GET") return answer;
      if (request.method === "HEAD") return rgwAnswer(`${head} As Said`, [], "");
      return rgwAnswer("200 OK", []);
    };
    const body = method === "DELETE" ? {} : { body: tags };
    const got = await ask(method, "/rep/k", { query: `${name}=`, ...body });
    const what = `${method} ${name} ${answer.split("\r\n", 1)[0]}`;
    t.equal(got.status, status, what);
    const sent = rgw.requests.slice(before).filter((one) => one.method === method);
    t.equal(sent.length, isSent ? 1 : 0, what);
  }
});

// Path, query, what the cluster answers where it is set, and its code where it is not.
const askedOnce = [
  ["/rep/k", "tagging=", rgwAnswer("200 OK", [], tags), "NoSuchTagSet"],
  [
    "/rep/k",
    "retention=",
    rgwAnswer("200 OK", [], "<Retention/>"),
    "NoSuchObjectLockConfiguration",
  ],
  ["/rep", "tagging=", rgwAnswer("200 OK", [], tags), "NoSuchTagSet"],
  ["/rep", "cors=", rgwAnswer("200 OK", [], "<CORSConfiguration/>"), "NoSuchCORSConfiguration"],
  ["/rep", "policy=", rgwAnswer("200 OK", [], "{}"), "NoSuchBucketPolicy"],
  [
    "/rep",
    "encryption=",
    rgwAnswer("200 OK", [], "<ServerSideEncryptionConfiguration/>"),
    "ServerSideEncryptionConfigurationNotFoundError",
  ],
  [
    "/rep",
    "id=a&metrics=",
    rgwAnswer("200 OK", [], "<MetricsConfiguration/>"),
    "NoSuchConfiguration",
  ],
] as const;

for (const profile of ["aws", "s3-generic"] as const) {
  t.test(`what a cluster was seen to know, as ${profile}`, async (t) => {
    const isBelieved = profile === "aws";
    for (const isSet of [true, false]) {
      const { rgw, ask } = await openScene(t, profile, { nameless: true });
      const askedFor = async (path: string, query: string, answer: string): Promise<string> => {
        const before = rgw.requests.length;
        rgw.intercept = ({ method }) => (method === "GET" ? answer : rgwAnswer("200 OK", []));
        const { status } = await ask("PUT", path, { query, body: tags });
        const methods = rgw.requests.slice(before).map(({ method }) => method);
        return [status, ...methods].join(" ");
      };
      for (const [path, query, set, code] of askedOnce) {
        const told = isSet ? set : rgwError("404 Not Found", code);
        const what = `${path}?${query} ${isSet ? "set" : "not set"}`;
        const denied = rgwError("403 Forbidden", "AccessDenied");
        t.equal(await askedFor(path, query, told), "200 GET PUT", what);
        t.equal(
          await askedFor(path, query, told),
          isBelieved ? "200 PUT" : "200 GET PUT",
          `${what}: again`,
        );
        if (isBelieved) t.equal(await askedFor(path, query, denied), "200 PUT", `${what}: unasked`);
      }
      const others = await askedFor("/rep/k", "legal-hold=", rgwAnswer("200 OK", [], tags));
      t.equal(others, "501 GET", "nothing follows for another one");
    }
  });

  t.test(`who may write and not read, as ${profile}`, async (t) => {
    const { rgw, ask } = await openScene(t, profile, { nameless: true });
    const rows = [
      ["PUT", "/rep/k", "tagging="],
      ["DELETE", "/rep/k", "tagging="],
      ["POST", "/rep/k", "restore="],
      ["PUT", "/rep", "cors="],
      ["DELETE", "/rep", "policy="],
      ["PUT", "/rep", "encryption="],
    ] as const;
    for (const writing of ["200 OK", "403 Forbidden"] as const) {
      for (const [method, path, query] of rows) {
        const before = rgw.requests.length;
        rgw.intercept = (request) =>
          /^(?:GET|HEAD)$/.test(request.method) || writing === "403 Forbidden"
            ? rgwError("403 Forbidden", "AccessDenied", request)
            : rgwAnswer(writing, []);
        const given = method === "DELETE" ? {} : { body: tags };
        const { status } = await ask(method, path, { query, ...given });
        const sent = rgw.requests.slice(before).filter((one) => !/GET|HEAD/.test(one.method));
        const what = `${method} ${path}?${query}, ${writing}`;
        if (profile === "aws") {
          t.equal(status >= 400, writing === "403 Forbidden", what);
          t.equal(sent.length, 1, `${what}: the server itself decides`);
        } else {
          t.equal(status, 403, what);
          t.equal(sent.length, 0, `${what}: nothing is written`);
        }
      }
    }
    // That the content cannot be given is told of the object: nobody asked for its setting.
    const before = rgw.requests.length;
    rgw.intercept = () => rgwError("403 Forbidden", "InvalidObjectState");
    t.equal((await ask("PUT", "/rep/k", { query: "tagging=", body: tags })).status, 403);
    t.strictSame(
      rgw.requests.slice(before).map(({ method }) => method),
      ["GET"],
    );
  });
}

t.test("what looks like no setting is asked for again", async (t) => {
  const { rgw, ask } = await openScene(t, "aws", { nameless: true });
  // Taken for what was not set, or for what it is; but it may as well be of the bucket, or of somebody between.
  const page = rgwAnswer("200 OK", [], "<html></html>");
  for (const answer of [rgwError("404 Not Found", "NoSuchBucket"), page]) {
    for (const query of ["cors=", "policy="]) {
      for (const _ of [1, 2]) {
        const before = rgw.requests.length;
        rgw.intercept = ({ method }) => (method === "GET" ? answer : rgwAnswer("200 OK", []));
        await ask("PUT", "/rep", { query, body: tags });
        t.equal(rgw.requests.slice(before)[0]?.method, "GET", query);
      }
    }
  }
  rgw.intercept = ({ method }) => (method === "GET" ? rgwAnswer("200 OK", [], list) : null);
  t.equal((await ask("PUT", "/rep", { query: "cors=", body: tags })).status, 501, "a list");
});

t.test("an RGW that shows what it is is not asked", async (t) => {
  const { rgw, ask } = await openScene(t, "s3-generic");
  const before = rgw.requests.length;
  const rows = [
    ["PUT", "/rep/k", "tagging="],
    ["PUT", "/rep/k", "retention="],
    ["DELETE", "/rep/k", "tagging="],
    ["POST", "/rep/k", "restore="],
    ["PUT", "/rep", "cors="],
    ["DELETE", "/rep", "policy="],
  ] as const;
  for (const [method, path, query] of rows) {
    await ask(method, path, { query, ...(method === "DELETE" ? {} : { body: tags }) });
  }
  const asked = rgw.requests.slice(before);
  t.strictSame(
    asked.map(({ method, path, query }) => [method, path, query.toString()]),
    rows,
  );
});

t.test("a server that knows settings keeps them as they are sent", async (t) => {
  const { url } = await startTestHeadgate(t, { clusterSettings: "profile: s3-generic" });
  const ask = async (method: string, path: string, query: string, body = ""): Promise<string> => {
    const head = rawHead(url, { method, path, query, contentLength: body.length });
    return (await rawExchange(url, head, body)).text;
  };
  await ask("PUT", "/rep", "");
  await ask("PUT", "/rep/k", "", "the object");
  const settings = {
    acl: "<AccessControlPolicy><Owner></Owner></AccessControlPolicy>",
    "legal-hold": "<LegalHold><Status>ON</Status></LegalHold>",
    retention: "<Retention><Mode>GOVERNANCE</Mode></Retention>",
    tagging: tags,
  };
  for (const [name, document] of Object.entries(settings)) {
    t.match(await ask("PUT", "/rep/k", `${name}=`, document), "HTTP/1.1 200", name);
    t.match(await ask("GET", "/rep/k", `${name}=`), document, name);
  }
  t.match(await ask("DELETE", "/rep/k", "tagging="), "HTTP/1.1 204");
  t.match(await ask("GET", "/rep/k", "tagging="), "<TagSet></TagSet>");
  t.match(await ask("GET", "/rep/k", ""), /\r\n\r\nthe object$/);
});
