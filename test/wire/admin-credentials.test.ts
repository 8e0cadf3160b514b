// Client keys in the state store, from the command line to a signed request: they count at once, their
// secrets are told once at most, and what an RGW knew is imported.

import { GetObjectCommand, ListBucketsCommand } from "@aws-sdk/client-s3";
import t, { type Test } from "tap";
import { type CliWorld, runHeadgate } from "../support/cli-run.ts";
import { clientKeys, startTestHeadgate } from "../support/headgate.ts";

const secret = "a-secret-out-of-a-file-1234567890";
const invalid = { name: "InvalidAccessKeyId" };

async function start(t: Test, sources = "{source: etcd}") {
  const headgate = await startTestHeadgate(t, {
    clusters: { a: 1 },
    sources,
    settings: "keys: {seal_key_file: seal.keys}",
    files: { "seal.keys": "ab".repeat(32) },
  });
  const list = async (accessKeyId: string, secretAccessKey: string) => {
    const s3 = headgate.client({ credentials: { accessKeyId, secretAccessKey } });
    return await s3.send(new ListBucketsCommand({}));
  };
  const creds = async (line: string, files: CliWorld["files"] = {}) =>
    await runHeadgate(`creds ${line} --admin-url ${headgate.adminUrl}`, { files });
  return { ...headgate, list, creds };
}

/** A field of what the command line printed, `secret_key  …`. */
function printed(out: string, name: string): string {
  return new RegExp(`^${name} +(\\S+)$`, "m").exec(out)?.[1] ?? "";
}

t.test("a key counts from the moment it is added until it is taken away", async (t) => {
  const { list, creds, client, logLines, admin } = await start(t);
  await t.rejects(list("AK/1", secret), invalid);
  const added = await creds("add AK/1 --uid alice --allow read,list --secret-key-file s", {
    s: `${secret}\n`,
  });
  t.match(added, { exit: 0, out: "", err: "Key AK/1 is kept\n" });
  t.equal((await list("AK/1", secret)).$metadata.httpStatusCode, 200);
  const s3 = client({ credentials: { accessKeyId: "AK/1", secretAccessKey: secret } });
  await t.rejects(s3.send(new GetObjectCommand({ Bucket: "none", Key: "k" })), {
    name: "NoSuchBucket",
  });

  const made = await creds("add MADE --uid bob");
  const first = printed(made.out, "secret_key");
  t.match(first, /^[\w-]{40}$/, "a secret that was made is printed");
  await list("MADE", first);
  t.equal((await creds("add MADE --uid bob --groups ops")).out, "", "its secret stays, untold");
  await list("MADE", first);
  const rotated = await creds("rotate MADE");
  const second = printed(rotated.out, "secret_key");
  await t.rejects(list("MADE", first), { name: "SignatureDoesNotMatch" });
  await list("MADE", second);

  t.match(await creds("disable MADE"), { exit: 0 });
  await t.rejects(list("MADE", second), invalid);
  t.match(await creds("enable MADE"), { exit: 0 });
  await list("MADE", second);

  const shown = await creds("list");
  t.match(shown.out, /AK\/1 +alice +- +active/);
  const all = JSON.stringify([
    (await admin("GET", "/credentials")).body,
    (await admin("GET", "/credentials/MADE")).body,
    (await admin("GET", "/audit")).body,
    logLines,
    shown.out,
  ]);
  for (const text of [secret, first, second]) t.notMatch(all, text);
  t.match(all, "admin:RotateCredential");

  t.match(await creds("remove MADE --dry-run"), { exit: 0, out: /MADE/ });
  await list("MADE", second);
  t.match(await creds("remove MADE"), { exit: 0 });
  await t.rejects(list("MADE", second), invalid);
  t.match(await creds("rotate MADE"), { exit: 4, err: /NoSuchCredential/ });
  t.match(await creds("add X"), { exit: 2, err: /Needs --uid/ });
  t.match(await creds("add X --uid u --secret-key-file gone"), {
    exit: 1,
    err: /Cannot read file/,
  });
});

t.test("what the API is sent is read strictly", async (t) => {
  const { admin } = await start(t);
  const wrong = async (body: unknown, key = "AK") => {
    const { status, body: answer } = await admin("PUT", `/credentials/${key}`, body);
    return [
      status,
      typeof answer === "object" && answer !== null && "code" in answer ? answer.code : "",
    ];
  };
  const invalidCredential = [400, "InvalidCredential"];
  t.strictSame(await wrong({}), invalidCredential, "no user");
  t.strictSame(await wrong({ uid: "u" }, "a%20b"), invalidCredential, "a blank in the key id");
  t.strictSame(await wrong({ uid: "u", secret_key: "short" }), invalidCredential);
  t.strictSame(await wrong({ uid: "u", tenant: "a/b" }), invalidCredential);
  t.strictSame(await wrong({ uid: "u", tenant: {} }), invalidCredential);
  t.strictSame(await wrong({ uid: "u", status: "off" }), invalidCredential);
  t.strictSame(await wrong({ uid: "u", groups: [1] }), invalidCredential);
  t.strictSame(
    await wrong({ uid: "u", grants: [{ buckets: ["b"], allow: ["raed"] }] }),
    invalidCredential,
  );
  t.strictSame(
    await wrong({ uid: "u", grants: [{ buckets: ["b"], allow: [], more: 1 }] }),
    invalidCredential,
  );
  t.strictSame(await wrong({ uid: "u", secret: "x" }), [400, "MalformedRequest"]);
  t.strictSame(await wrong({ uid: "u" }), [201, ""]);
});

t.test("what is kept and will not be used, or allows nothing, is warned of", async (t) => {
  const shadowed = await start(t, "{source: file, file: credentials.yaml}, {source: etcd}");
  const { accessKeyId } = clientKeys;
  const unused = `Warning: Key ${accessKeyId} is not used from here: source file knows it`;
  const fromFile = { s: secret };
  for (const line of [
    `add ${accessKeyId} --uid u --allow read --dry-run`,
    `add ${accessKeyId} --uid u --allow read`,
    `add ${accessKeyId} --uid u --allow read --secret-key-file s`,
    `rotate ${accessKeyId}`,
    `enable ${accessKeyId}`,
  ]) {
    const { exit, err } = await shadowed.creds(line, fromFile);
    t.equal(exit, 0, line);
    t.match(err, unused, line);
  }
  const nothing = "may only list buckets, unless a policy of your own";
  const { out, err } = await shadowed.creds("add NEW --uid u");
  t.match(printed(out, "secret_key"), /^[\w-]{40}$/);
  t.match(err, nothing);
  t.equal((await shadowed.creds("add NEW --uid u --allow read")).err, "Key NEW is kept\n");
  const users = { u: JSON.stringify(rgwUsers) };
  for (const line of ["import u --dry-run", "import u", "import u --to file"]) {
    const told = (await shadowed.creds(line, users)).err;
    t.equal(told.split("may only list buckets").length, 2, `${line}: said once`);
  }
  const noSource = await startTestHeadgate(t, {
    clusters: { a: 1 },
    settings: "keys: {seal_key_file: seal.keys}",
    files: { "seal.keys": "ab".repeat(32) },
  });
  const added = await runHeadgate(`creds add AK --uid u --admin-url ${noSource.adminUrl}`);
  t.match(added.err, "auth.credentials has no source etcd");
  t.match(await runHeadgate(`creds list --admin-url ${noSource.url}`), {
    exit: 6,
    err: /^There is no admin API at http:.*: it answers as an S3 port/,
  });
});

t.test("without seal keys nothing is sealed", async (t) => {
  const { admin } = await startTestHeadgate(t, { clusters: { a: 1 } });
  t.match(await admin("PUT", "/credentials/AK", { uid: "u" }), {
    status: 501,
    body: { code: "NotImplemented" },
  });
  t.match(await admin("GET", "/credentials"), { status: 200, body: { credentials: [] } });
});

// ---- import ----

/** As radosgw-admin 16.2 prints users, shortened. */
const rgwUsers = [
  {
    user_id: "acme$alice",
    display_name: "Alice",
    suspended: 0,
    subusers: [{ id: "acme$alice:phone", permissions: "read" }],
    keys: [
      { user: "acme$alice", access_key: "ALICE1", secret_key: "alice-secret-1" },
      { user: "acme$alice:phone", access_key: "PHONE1", secret_key: "phone-secret-1" },
    ],
    swift_keys: [],
    caps: [],
  },
  {
    user_id: "gone",
    display_name: "",
    suspended: 1,
    keys: [{ user: "gone", access_key: "GONE1", secret_key: "gone-secret-1" }],
  },
  { user_id: "sys", display_name: "", suspended: 0, system: "true", keys: [] },
];

t.test("users of an RGW are imported into the state store", async (t) => {
  const { creds, list, admin } = await start(t);
  const files = { "users.json": JSON.stringify(rgwUsers) };
  const dry = await creds("import users.json --dry-run", files);
  t.match(dry, { exit: 0, err: /3 keys would be imported/ });
  await t.rejects(list("ALICE1", "alice-secret-1"), invalid);
  const imported = await creds("import users.json --allow read,list --buckets logs-*", files);
  t.match(imported, { exit: 0, out: "", err: /3 keys imported/ });
  for (const warning of [
    /User "gone" is suspended/,
    /User "sys" has no S3 key/,
    /User "sys" is a system or admin user/,
    /Subuser "alice:phone" becomes user "alice" in group "subuser:phone"/,
  ]) {
    t.match(imported.err, warning);
  }
  t.notMatch(imported.err, "secret-1");
  await list("ALICE1", "alice-secret-1");
  await list("PHONE1", "phone-secret-1");
  await t.rejects(list("GONE1", "gone-secret-1"), invalid);
  t.match(await admin("GET", "/credentials/PHONE1"), {
    body: {
      uid: "alice",
      tenant: "acme",
      groups: ["subuser:phone"],
      grants: [{ buckets: ["logs-*"], keys: ["*"], allow: ["read", "list"] }],
    },
  });
  const one = {
    "/dev/stdin": JSON.stringify({
      ...rgwUsers[0],
      keys: [{ user: "x", access_key: "ONE1", secret_key: "one-secret-1" }],
    }),
  };
  t.match(await creds("import -", one), { exit: 0, err: /1 keys imported/ });
  await list("ONE1", "one-secret-1");
});

t.test("or become a credentials file that a run takes", async (t) => {
  const files = { "users.json": JSON.stringify(rgwUsers) };
  const { exit, out } = await runHeadgate("creds import users.json --to file --allow list", {
    files,
  });
  t.equal(exit, 0);
  const { client } = await startTestHeadgate(t, { clusters: { a: 1 }, credentials: out });
  const list = async (accessKeyId: string, secretAccessKey: string) =>
    await client({ credentials: { accessKeyId, secretAccessKey } }).send(
      new ListBucketsCommand({}),
    );
  await list("ALICE1", "alice-secret-1");
  await list("PHONE1", "phone-secret-1");
  await t.rejects(list("GONE1", "gone-secret-1"), invalid);
});

t.test("nothing is taken of what is not a list of users", async (t) => {
  const told = async (text: string) =>
    (await runHeadgate("creds import f --to file", { files: { f: text } })).err;
  t.match(await told("{"), "The text is not JSON");
  t.match(await told("{}"), "The document is not a user as radosgw-admin prints it");
  t.match(await told(JSON.stringify([rgwUsers[0], { user_id: "x" }])), "Entry 2 is not a user");
  t.match(
    await told(
      JSON.stringify({ user_id: "x", keys: [{ user: "x", access_key: "a b", secret_key: "s" }] }),
    ),
    'A key of "x" has characters S3 does not allow',
  );
  t.match(
    await told(JSON.stringify({ user_id: "x", tenant: "a b", keys: [] })),
    'Tenant "a b" of "x" is not valid',
  );
});
