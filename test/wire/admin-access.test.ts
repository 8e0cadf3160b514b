import { createServer } from "node:http";
import t from "tap";
import { openAdminServer } from "../../proxy/admin/server.ts";
import { FaultError } from "../../proxy/placement/ports.ts";
import { openAdminFixture } from "../support/admin-client.ts";
import { AdminMemory, adminCluster } from "../support/admin-state.ts";

const state = () => new AdminMemory({ clusters: [adminCluster("a"), adminCluster("b")] });
const drain = "/admin/v1/clusters/a/drain";

t.test("without a token only this machine's own programs may ask", async (t) => {
  const memory = state();
  const admin = await openAdminFixture({ state: memory });
  t.teardown(() => admin.close());
  const { host } = new URL(admin.url);
  const status = async (headers: Record<string, string>, method = "GET") =>
    (await admin.ask(method, method === "GET" ? "/admin/v1/clusters" : drain, { headers })).status;

  t.equal(await status({}), 200);
  t.equal(await status({ host: "localhost:1" }), 200);
  t.equal(await status({ host: "[::1]:9001" }), 200);
  t.equal(await status({ host: "rebound.example" }), 403, "DNS rebinding");
  t.equal(await status({ host: "127.0.0.1.example" }), 403);
  t.equal(await status({ host: "localhost@x" }), 403);
  t.equal(await status({ origin: `http://${host}` }), 200);
  t.equal(await status({ origin: "http://localhost:1" }), 403, "another local port");
  t.equal(await status({ origin: "null" }), 403);
  t.equal(await status({ origin: "https://evil.example" }), 403);
  t.equal(await status({ "sec-fetch-site": "cross-site" }), 403);
  t.equal(await status({ "content-type": "text/plain" }, "POST"), 415, "a form cannot do this");
  t.equal(await status({ "content-type": "application/jsonx" }, "POST"), 415);
  t.equal(await status({ origin: "https://evil.example" }, "POST"), 403);
  t.equal(memory.current().clusters.get(adminCluster("a").id)?.value.state, "live", "untouched");
  t.equal(await status({ "content-type": "application/json; charset=utf-8" }, "POST"), 204);
});

t.test("with a token its bearers may ask, and probes", async (t) => {
  const admin = await openAdminFixture({ state: state(), token: "0123456789abcdef" });
  t.teardown(() => admin.close());
  const status = async (authorization?: string) => {
    const headers = authorization === undefined ? {} : { authorization };
    return (await admin.ask("GET", "/admin/v1/clusters", { headers })).status;
  };
  t.equal(await status(), 401);
  t.equal(await status("Bearer 0123456789abcdeX"), 401);
  t.equal(await status("Bearer 0123456789abcde"), 401);
  t.equal(await status("Basic 0123456789abcdef"), 401);
  t.equal(await status("Bearer 0123456789abcdef"), 200);
  for (const path of ["/healthz", "/livez", "/readyz", "/metrics"]) {
    t.equal((await admin.ask("GET", path, { headers: { host: "pod.ip" } })).status, 200, path);
  }
  t.equal((await admin.ask("GET", "/version")).status, 401);
  const denied = await admin.ask("POST", drain);
  t.strictSame(
    [denied.status, denied.headers["www-authenticate"], denied.json],
    [401, "Bearer", { code: "Unauthorized", message: "The request needs the admin bearer token" }],
  );
});

t.test("a listener that others reach is not opened without a token", async (t) => {
  const admin = await openAdminFixture({ state: state() });
  t.teardown(() => admin.close());
  await t.rejects(
    openAdminServer({
      host: "0.0.0.0",
      port: 0,
      token: null,
      ports: {} as never,
      requestId: () => "r",
      createServer,
      log: { write: () => undefined },
    }),
    new FaultError("config", 'Cannot open admin listener: "0.0.0.0" needs a token'),
  );
});

t.test("bodies are bounded, JSON and without unknown keys", async (t) => {
  const memory = state();
  const admin = await openAdminFixture({ state: memory });
  t.teardown(() => admin.close());
  const ask = async (rawBody: string) => {
    const { status, json } = await admin.ask("POST", drain, { rawBody });
    return { status, json };
  };
  t.match(await ask("{"), { status: 400, json: { code: "MalformedRequest" } });
  t.match(await ask("[]"), { status: 400, json: { code: "MalformedRequest" } });
  t.match(await ask('{"mod": "evacuate"}'), {
    status: 400,
    json: { code: "MalformedRequest", message: 'Unknown key "mod" in the body, valid are mode' },
  });
  t.match(await ask('{"mode": "now"}'), { status: 400, json: { code: "MalformedRequest" } });
  t.match(await ask(`{"mode": "${"x".repeat(17_000)}"}`), {
    status: 400,
    json: { message: "The body is larger than 16 KiB" },
  });
  t.equal(memory.audit.length, 0);
});

t.test("paths, methods and request ids", async (t) => {
  const admin = await openAdminFixture({ state: state() });
  t.teardown(() => admin.close());
  t.match(await admin.ask("GET", "/nothing"), { status: 404, json: { code: "NoSuchPath" } });
  t.match(await admin.ask("GET", "/admin/v1/decisions"), {
    status: 501,
    json: { code: "NotImplemented" },
  });
  t.match(await admin.ask("DELETE", drain), { status: 405, headers: { allow: "POST" } });
  t.match(await admin.ask("GET", "/admin/v1/clusters/%zz"), { status: 501 });
  const id = async (given?: string) => {
    const headers = given === undefined ? {} : { "x-request-id": given };
    return (await admin.ask("GET", "/healthz", { headers })).headers["x-request-id"];
  };
  t.equal(await id("trace-1.2"), "trace-1.2");
  t.match(await id("two words"), /^req-\d+$/, "only harmless ids are echoed");
  const head = await admin.ask("HEAD", "/healthz");
  t.strictSame([head.status, head.text, head.headers["content-length"]], [200, "", "3"]);
});
