// A setting that nothing reads is a promise to operators that is not kept: every leaf of Config is
// named by the code outside of proxy/config.

import { readFileSync } from "node:fs";
import { join } from "node:path";
import t from "tap";
import { configOf, load } from "../support/config-load.ts";
import { sourceFiles } from "../support/source-tree.ts";

const root = join(import.meta.dirname, "../..");

const everything = {
  "headgate.yaml": [
    "listen: {base_domains: [s3.example]}",
    "admin: {auth: {token_file: t}}",
    "auth: {credentials: [{source: file, file: c.yaml}]}",
    "clusters:",
    "  - id: a",
    "    endpoints: [http://h:1]",
    "    labels: {zone: z}",
    "    credentials: {access_key_id: AK, secret_access_key: SK}",
    "classes: {GLACIER: a}",
    "keys: {handle_key_file: k}",
    "state:",
    "  driver: etcd",
    "  snapshot_file: s",
    "  etcd: {username: u, password: p, tls: {ca_file: t, cert_file: t, key_file: t}}",
  ].join("\n"),
  "c.yaml": "users: [{uid: u, keys: [{access_key: AK, secret_key: s}]}]",
  k: "ab".repeat(32),
  t: "0123456789abcdef",
};

/** `listen.address.port`; lists and maps of the operator's own keys are leaves. */
function leaves(value: unknown, path: readonly string[]): readonly string[] {
  if (Array.isArray(value) && typeof value[0] === "object" && !ArrayBuffer.isView(value[0])) {
    return leaves(value[0], path);
  }
  const isMap = typeof value === "object" && value !== null && !Array.isArray(value);
  if (!isMap || value instanceof Map || path.at(-1) === "labels") return [path.join(".")];
  return Object.entries(value).flatMap(([key, child]) => leaves(child, [...path, key]));
}

t.test("every leaf of the configuration is read outside of it", async (t) => {
  const { config } = configOf(load(everything));
  const file = configOf(load({ "headgate.yaml": "state: {driver: file}" })).config.state;
  const names = [...leaves(config, []), ...leaves(file, ["state"])];
  t.ok(names.length > 45, `${names.length} leaves`);
  t.ok(names.includes("clusters.tls.insecureSkipVerify") && names.includes("state.keyPem"));
  const sources = [...sourceFiles(root, "proxy"), ...sourceFiles(root, "bridge")]
    .filter((path) => !/^proxy\/(?:config|cli|demo)/.test(path))
    .map((path) =>
      readFileSync(join(root, path), "utf8").replaceAll(/^\s*(?:\/\/|\*|\/\*).*$/gm, ""),
    )
    .join("\n");
  const isRead = (name: string): boolean => new RegExp(`\\b${name}\\b`).test(sources);
  t.notOk(isRead("aSettingThatNothingReads"));
  for (const name of names) t.ok(isRead(name.split(".").at(-1) ?? ""), name);
});
