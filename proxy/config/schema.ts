// Every setting of this release with its form, default and description: the one place a setting is
// declared. The settings table of the README, the environment names and the JSON Schema come from it.
// Contract with operators: unknown keys are errors, and a key appears here only once it functions.

import { z } from "zod";
import { profiles } from "../placement/profiles.ts";
import { parseClusterId } from "../s3/names.ts";
import { rewritableFields } from "../s3/request-head.ts";
import {
  type ListenAddress,
  type Reading,
  readDuration,
  readEndpoint,
  readListenAddress,
  readNetwork,
  readSize,
} from "./values.ts";

/** Turns a reader of values.ts into a zod step. */
function reading<I, O>(read: (input: I) => Reading<O>): (input: I, context: z.RefinementCtx) => O {
  return (input, context) => {
    const result = read(input);
    if (result.kind === "value") return result.value;
    context.addIssue({ code: "custom", message: result.message, input });
    return z.NEVER;
  };
}

function readOptionalAddress(at: string): Reading<ListenAddress | null> {
  return at === "" ? { kind: "value", value: null } : readListenAddress(at);
}

function readFence(at: string): Reading<number | null> {
  return at === "never" ? { kind: "value", value: null } : readDuration(at);
}

function kindOf(input: unknown): string {
  if (input === undefined) return "nothing";
  if (input === null) return "an empty value";
  if (Array.isArray(input)) return "a list";
  if (typeof input === "string") {
    return `text "${input.length > 40 ? `${input.slice(0, 40)}…` : input}"`;
  }
  return typeof input === "object" ? "a map" : JSON.stringify(input);
}

const expected = (wanted: string) => (issue: { readonly input?: unknown }) =>
  `Expected ${wanted}, got ${kindOf(issue.input)}`;
/** For secrets: the value must not be repeated. */
const expectedSecret = () => "Expected text";

const text = z.string({ error: expected("text") });
const secret = z.string({ error: expectedSecret }).min(1, "Secret is empty");
const path = z.string({ error: expected("a path") });
const flag = z.boolean({ error: expected("true or false") });
const rewritable: ReadonlySet<string> = new Set(rewritableFields);
const textMap = z.record(z.string(), text, { error: expected("a map") });

const durationText = z.string({
  error: (issue) =>
    typeof issue.input === "number"
      ? `Duration ${issue.input} has no unit, write "${issue.input}s" or "${issue.input}ms"`
      : expected("a duration")(issue),
});
const duration = durationText.transform(reading(readDuration));
/** For limits that would end everything at once, or never end anything, at 0. */
const positiveDuration = duration.refine((durationMs) => durationMs > 0, {
  error: "Duration is 0, needs 1ms or more",
});
const size = z
  .union([z.number(), z.string()], { error: expected("a size") })
  .transform(reading(readSize));
const listenAddress = text.transform(reading(readListenAddress));

function count(min: number, max: number) {
  return z
    .int({ error: expected("a whole number") })
    .min(min, `Number is below ${min}`)
    .max(max, `Number is above ${max}`);
}

function oneOf<const T extends readonly string[]>(names: T) {
  return z.enum(names, { error: expected(`one of ${names.join(", ")}`) });
}

function group<T extends z.ZodRawShape>(shape: T) {
  return z.strictObject(shape, { error: expected("a map") });
}

const fact = (description: string) => flag.optional().describe(`Override: ${description}`);

/** Single facts of a profile, for a cluster that differs from it; placement/profiles.ts says more. */
const overrides = group({
  takes_trailers: fact(
    "Takes STREAMING-UNSIGNED-PAYLOAD-TRAILER; `true`: without being tried first",
  ),
  verifies_checksums: fact("Checks x-amz-checksum-* and keeps it with the object"),
  keeps_aws_chunked: fact("Stores `aws-chunked` with the object when it is told of it"),
  reads_conditions_fully: fact("Reads ranges and conditions of GET and HEAD as RFC 9110 says"),
  honours_conditional_put: fact("Obeys If-Match and `If-None-Match: *` of PutObject"),
  conditional_etag_quotes: oneOf(["keep", "strip"])
    .optional()
    .describe("Override: how an ETag must stand in conditions of writes"),
  honours_conditional_delete: fact("Obeys conditions on DeleteObject"),
  honours_conditional_complete: fact("Obeys conditions on CompleteMultipartUpload"),
  honours_conditional_copy: fact("Obeys conditions on CopyObject's destination"),
  honours_copy_source_conditions: fact("Obeys x-amz-copy-source-if-*"),
  answers_object_attributes: fact("Answers GetObjectAttributes"),
  answers_part_number: fact("Reads `partNumber` of GET and HEAD"),
  survives_upload_part_copy: fact("Lives on after UploadPartCopy from a key with a bare `%`"),
  knows_settings: fact("Reads the sub-resource of each setting that is written, or refuses it"),
});

const cluster = group({
  id: text
    .refine((id) => parseClusterId(id) !== null, "Cluster id needs 1 to 63 of a-z, 0-9 and -")
    .describe("Cluster id, 1 to 63 of `a-z`, `0-9`, `-`"),
  endpoints: z
    .array(text.transform(reading(readEndpoint)), { error: expected("a list of URLs") })
    .min(1, "Cluster needs at least one endpoint")
    .describe("URLs of its S3 endpoints; several are one cluster"),
  profile: oneOf(Object.keys(profiles))
    .prefault("s3-generic")
    .describe(`Kind of server, one of ${Object.keys(profiles).join(", ")}`),
  identity: oneOf(["service", "same", "mapped"])
    .prefault("service")
    .describe(
      "Whose keys sign callers' requests upstream: `service` the cluster's, `same` the caller's own, `mapped` the pair its user has for this cluster",
    ),
  region: text.prefault("us-east-1").describe("Region in the upstream credential scope"),
  addressing: oneOf(["path", "virtual"])
    .prefault("path")
    .describe("How buckets are addressed: `path`, or `virtual`, as sub-domains"),
  host: text
    .refine((host) => /^[A-Za-z0-9.-]+(?::\d{1,5})?$/.test(host), "Host needs the form name:port")
    .optional()
    .describe("Host field to send, as `rgw_dns_name` needs it; unset: the endpoint's own"),
  forwarded_for: oneOf(["off", "append"])
    .prefault("off")
    .describe("`append`: send X-Forwarded-For, client first, for bucket policies on SourceIp"),
  overrides: overrides.prefault({}),
  weight: count(0, 100).optional().describe("Initial weight, 0 to 100; later the state store wins"),
  state: oneOf(["pending", "live", "draining_readonly", "evacuating"])
    .optional()
    .describe(
      "Initial state, `pending`, `live`, `draining_readonly`, `evacuating`; unset: `live` in a new installation, else `pending`",
    ),
  labels: textMap.prefault({}).describe("Text map that policy sees"),
  credentials: group({
    access_key_id: secret.optional().describe("Access key id"),
    access_key_id_file: path.optional().describe("File holding it"),
    secret_access_key: secret.optional().describe("Secret access key"),
    secret_access_key_file: path.optional().describe("File holding it"),
    session_token: secret.optional().describe("Session token, of keys issued with one"),
    session_token_file: path.optional().describe("File holding it"),
    reload_interval: positiveDuration
      .prefault("10s")
      .describe("How often these files are looked at for changes"),
  })
    .optional()
    .describe("Keys that sign upstream; without them the cluster is unreachable here"),
  tls: group({
    ca_file: path.optional().describe("PEM file of the CA that signed the endpoints"),
    insecure_skip_verify: flag.prefault(false).describe("Do not verify the endpoints"),
  }).prefault({}),
});

const listen = group({
  address: listenAddress.prefault("127.0.0.1:9000").describe("host:port of S3 traffic"),
  trusted_proxies: z
    .array(text.transform(reading(readNetwork)), { error: expected("a list of networks") })
    .prefault([])
    .describe(
      "Networks of proxies whose X-Forwarded-For, -Proto, -Host and -Port and X-Original-Accept-Encoding are believed",
    ),
  rewritten_headers: textMap
    .refine(
      (map) => Object.keys(map).every((name) => rewritable.has(name)),
      `Header is none of ${rewritableFields.join(", ")}`,
    )
    .prefault({})
    .describe(
      `Header that a hop in front rewrites or drops → value that clients signed, tried where a signature does not match; of ${rewritableFields.join(", ")}`,
    ),
  base_domains: z
    .array(text, { error: expected("a list of domains") })
    .prefault([])
    .describe("DNS suffixes of virtual-hosted-style buckets"),
  region: z
    .union([z.string(), z.array(z.string())], { error: expected("a region or a list of regions") })
    .prefault("*")
    .describe("Regions accepted in the credential scope; `*` accepts any"),
  max_header_bytes: size
    .refine((sizeBytes) => sizeBytes >= 4096, { error: "Size is below 4KiB" })
    .prefault("32KiB")
    .describe("Longest request head"),
  header_timeout: positiveDuration
    .prefault("10s")
    .describe("Time for a TLS handshake, and for a request head"),
  idle_timeout: positiveDuration.prefault("120s").describe("Keep-alive of an idle connection"),
  body_idle_timeout: positiveDuration
    .prefault("60s")
    .describe("Time without a body byte before abort; an XML document has twice that in all"),
  max_connections: count(1, 1_000_000).prefault(4096).describe("Open client connections"),
  max_in_flight: count(1, 1_000_000)
    .prefault(1024)
    .describe("Requests at a time; more are answered 503 SlowDown"),
  min_chunk_size: size
    .prefault("0")
    .describe("Smallest aws-chunked chunk but the last, AWS asks for 8KiB; 0: any"),
  unknown_checksums: oneOf(["pass", "reject"])
    .prefault("pass")
    .describe("Checksums that cannot be computed here: send on unverified, or refuse"),
  tls: group({
    cert_file: path.optional().describe("PEM file of the certificate and its issuers; unset: HTTP"),
    key_file: path.optional().describe("PEM file of its key, without a passphrase"),
    min_version: oneOf(["TLSv1.2", "TLSv1.3"]).prefault("TLSv1.2").describe("Oldest TLS accepted"),
  }).prefault({}),
});

const state = group({
  driver: oneOf(["memory", "file", "etcd"])
    .prefault("memory")
    .describe("Where placement is kept: `memory`, `file`, `etcd`"),
  file: group({
    path: path.prefault("/var/lib/headgate/state.json").describe("File of driver `file`"),
  }).prefault({}),
  etcd: group({
    endpoints: z
      .array(text.transform(reading(readEndpoint)), { error: expected("a list of URLs") })
      .min(1, "State store needs at least one endpoint")
      .prefault(["http://127.0.0.1:2379"])
      .describe("URLs of the etcd members"),
    prefix: text
      .refine((prefix) => /^\/(?:[^/]+\/)+$/.test(prefix), "Prefix needs the form /name/…/")
      .prefault("/headgate/v1/")
      .describe("Prefix of every key"),
    username: text.optional().describe("etcd user"),
    password: secret.optional().describe("Password of the etcd user"),
    password_file: path.optional().describe("File holding it"),
    tls: group({
      ca_file: path.optional().describe("PEM file of the CA that signed etcd"),
      cert_file: path.optional().describe("PEM file of the client certificate"),
      key_file: path.optional().describe("PEM file of its key"),
    }).prefault({}),
    dial_timeout: positiveDuration.prefault("3s").describe("Time to connect to etcd"),
  }).prefault({}),
  snapshot_file: path
    .prefault("")
    .describe("Last good state, used when etcd is away at start; empty: none"),
});

/** The configuration as written, before defaults; `z.output` is the same with every form read. */
export const settings = group({
  version: z
    .literal(1, { error: expected("1") })
    .prefault(1)
    .describe("Version of this format"),
  node_id: text.prefault("").describe("Name of this process; empty: the host name"),
  listen: listen.prefault({}),
  admin: group({
    address: text
      .transform(reading(readOptionalAddress))
      .prefault("127.0.0.1:9001")
      .describe("host:port of the admin API, metrics and probes; empty: off"),
    auth: group({
      mode: oneOf(["token", "none"])
        .optional()
        .describe("`none` only on loopback; unset: `token` if there is a token file"),
      token_file: path.optional().describe("File holding the bearer token"),
    }).prefault({}),
  }).prefault({}),
  shutdown: group({
    delay: duration.prefault("5s").describe("Not ready but still serving, after SIGTERM"),
    drain_timeout: duration.prefault("300s").describe("Then wait for requests in flight"),
  }).prefault({}),
  auth: group({
    clock_skew: positiveDuration
      .prefault("15m")
      .describe("Largest difference of request time and clock"),
    presign_max_age: positiveDuration.prefault("168h").describe("Longest life of a presigned URL"),
    sigv2: oneOf(["off", "on"])
      .prefault("off")
      .describe("Whether Signature Version 2 is taken: header, presigned URL and form"),
    require_content_sha256: oneOf(["on", "off"])
      .prefault("on")
      .describe("Whether a header signature needs x-amz-content-sha256, as on AWS; `off`: as RGW"),
    presigned_query_checksums: oneOf(["ignore", "verify"])
      .prefault("ignore")
      .describe("Checksums in the query of a presigned upload; SDKs presign that of an empty body"),
    credentials: z
      .array(
        group({
          source: oneOf(["file", "etcd", "rgw-admin"]).describe(
            "Where client keys come from; the first that knows one wins",
          ),
          file: path.optional().describe("`file`: the credentials file"),
          reload_interval: positiveDuration
            .optional()
            .describe("`file`: how often it is looked at for changes (10s)"),
          cluster: text.optional().describe("`rgw-admin`: the cluster whose admin API is asked"),
          access_key_id: secret
            .optional()
            .describe("`rgw-admin`: keys with caps `users=read`; unset: those of the cluster"),
          access_key_id_file: path.optional().describe("File holding it"),
          secret_access_key: secret.optional().describe("`rgw-admin`: their secret"),
          secret_access_key_file: path.optional().describe("File holding it"),
          cache_ttl: positiveDuration
            .optional()
            .describe("`rgw-admin`: how long a key counts before it is asked for again (60s)"),
          negative_ttl: positiveDuration
            .optional()
            .describe("`rgw-admin`: how long an unknown key is remembered (10s)"),
          max_stale: duration
            .optional()
            .describe("`rgw-admin`: how much longer a known key counts while RGW is away (1h)"),
          max_entries: count(1, 10_000_000)
            .optional()
            .describe("`rgw-admin`: known keys, and unknown ones, that are remembered (10000)"),
        }),
        { error: expected("a list") },
      )
      .prefault([]),
  }).prefault({}),
  clusters: z.array(cluster, { error: expected("a list of clusters") }).prefault([]),
  upstream: group({
    connect_timeout: positiveDuration.prefault("3s").describe("Time to connect to an endpoint"),
    response_header_timeout: positiveDuration.prefault("30s").describe("Time for a response head"),
    body_idle_timeout: positiveDuration
      .prefault("60s")
      .describe("Time without a response body byte"),
    max_sockets_per_endpoint: count(1, 65_535).prefault(128).describe("Connections to an endpoint"),
    keepalive: positiveDuration.prefault("30s").describe("Idle time before a connection is closed"),
    retries: group({
      max_attempts: count(1, 10).prefault(2).describe("Attempts of a request without side effect"),
    }).prefault({}),
  }).prefault({}),
  policy: group({
    bundle: path.prefault("").describe("Bundle file or directory; empty: the built-in one"),
    memo: group({
      max_entries: count(0, 10_000_000).prefault(10_000).describe("Remembered decisions; 0: none"),
    }).prefault({}),
  }).prefault({}),
  buckets: group({
    location: oneOf(["region", "cluster"])
      .prefault("region")
      .describe(
        "What GetBucketLocation tells: `region`, what the first cluster says; `cluster`, the id of the cluster of a bucket that is on one",
      ),
  }).prefault({}),
  classes: textMap.prefault({}).describe("Initial storage class pins, `CLASS: cluster`"),
  keys: group({
    handle_key_file: path
      .optional()
      .describe(
        "Keys of upload handles, newest first, 64 hex digits a line; unset: kept in the state store",
      ),
    seal_key_file: path
      .optional()
      .describe("Keys that seal client secrets in the state store, in the same form"),
  }).prefault({}),
  member: group({
    lease_ttl: duration.prefault("30s").describe("Life of this process's lease"),
    fence_after: durationText
      .transform(reading(readFence))
      .prefault("10m")
      .describe("Time without the state store after which mutations are refused, or `never`"),
    mode: oneOf(["full", "observer"])
      .prefault("full")
      .describe("`observer` never mutates what several clusters may hold"),
  }).prefault({}),
  state: state.prefault({}),
  passthrough: group({
    cluster: text.optional().describe("Cluster that gets the paths below; unset: none does"),
    paths: z
      .array(text, { error: expected("a list of paths") })
      .prefault([])
      .describe(
        "Paths of its other APIs, `/swift/v1`, handed on unread and without policy; `/`: POST alone, STS, IAM and topics",
      ),
  }).prefault({}),
  access_log: group({
    format: oneOf(["json", "off"])
      .prefault("json")
      .describe("`json`: one JSON line a request; `off`: none"),
    path: path.prefault("-").describe("File, or `-`: standard output"),
  }).prefault({}),
  log: group({
    level: oneOf(["debug", "info", "warn", "error"]).prefault("info").describe("Least level shown"),
  }).prefault({}),
});

/** Settings after zod, in the file's own spelling. */
export type Settings = z.output<typeof settings>;

/** The JSON Schema (draft 2020-12) of a configuration file. */
export function settingsJsonSchema(): object {
  return z.toJSONSchema(settings, { io: "input", unrepresentable: "any" });
}
