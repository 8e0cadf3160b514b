import t from "tap";
import { flagsOf } from "../../proxy/cli/command.ts";
import { commands } from "../../proxy/cli/main-command.ts";
import { runHeadgate } from "../support/cli-run.ts";

t.test("help tells every command, each command its flags", async (t) => {
  const overview = await runHeadgate("-h");
  t.equal(overview.exit, 0);
  t.equal(overview.err, "");
  for (const command of commands) {
    t.match(overview.out, `  ${command.name}`);
    const help = await runHeadgate(`${command.name} -h`);
    t.equal(help.exit, 0, command.name);
    t.match(help.out, `Usage: headgate ${command.name}`);
    for (const flag of Object.keys(flagsOf(command))) t.match(help.out, `--${flag}`);
    t.match(command.summary, /^[A-Z].*[^.]$/);
  }
  t.strictSame((await runHeadgate("")).exit, 2);
  t.match((await runHeadgate("policy -h")).out, "headgate policy build");
});

t.test("wrong usage is exit 2 and says what is meant", async (t) => {
  const wrong = async (line: string) => {
    const { exit, out, err } = await runHeadgate(line);
    t.equal(exit, 2, line);
    t.equal(out, "");
    return err;
  };
  t.equal(
    await wrong("clutser list"),
    'Unknown command "clutser list", nearest is "cluster list"\n',
  );
  t.equal(await wrong("validte"), 'Unknown command "validte", nearest is "validate"\n');
  t.match(await wrong("frobnicate now"), "headgate -h lists all");
  t.equal(await wrong("cluster lst"), 'Unknown command "cluster lst", nearest is "cluster list"\n');
  t.match(await wrong("cluster drian c"), 'nearest is "cluster drain"');
  t.match(await wrong("bucket placement gte b"), 'nearest is "bucket placement get"');
  t.match(await wrong("cluster explode"), "Commands: headgate cluster list");
  t.match(await wrong("cluster"), "Commands: headgate cluster list, headgate cluster show");
  t.match(await wrong("bucket placement"), "headgate bucket placement get");
  t.equal(await wrong("--json cluster list"), "Flags come after the command\n");
  t.match(await wrong("cluster drain"), /^Needs ID\n/);
  t.match(await wrong("cluster drain a b"), /^Needs ID\n/);
  t.match(await wrong("cluster list x"), /^Takes no operand\n/);
  t.match(await wrong("cluster list --verbose"), 'Unknown flag "--verbose"\n');
  t.match(
    await wrong("creds add K --secret-key s"),
    'Unknown flag "--secret-key", nearest is "--secret-key-file"',
  );
  t.match(await wrong("cluster list --time-out 1s"), 'nearest is "--timeout"');
  t.match(await wrong("cluster list -x"), 'Unknown flag "-x"');
  t.match(await wrong("validate --config"), 'Flag "--config" needs FILE');
  t.match(await wrong("validate -c"), 'Flag "--config" needs FILE');
  t.match(await wrong("validate -c --strict"), 'Flag "-c" needs FILE');
  t.match(await wrong("cluster list --json=yes"), 'Flag "--json" takes no value');
  t.match(await wrong("cluster list --token-file gone"), 'Cannot read token file "gone": it does');
  t.match(await wrong("cluster list -o yaml"), 'Output "yaml" needs json or table');
  t.match(await wrong("cluster list --timeout 5"), "Duration 5 has no unit");
  t.match(await wrong("cluster list --admin-url here"), 'Admin URL "here" is not readable');
  t.match(await wrong("cluster list --token-file gone"), 'Cannot read token file "gone"');
  t.match(await wrong("cluster weight a much"), 'Weight "much" is not readable');
  t.match(await wrong("placement set-weights a"), '"a" is not readable, write ID=N');
  t.match(await wrong("bucket placement set b --weights a:1"), "write --weights a=70,b=30");
  t.match(await wrong("run --cluster a"), "write --cluster ID=URL");
  t.match(await wrong("run --state redis:x"), "write memory, file:PATH or etcd:URL");
  t.match(await wrong("wait"), "Needs --ready");
});

t.test("run gives the starter the configuration of its flags", async (t) => {
  const line =
    "run -c h.yaml --cluster a=http://h:1 --cluster b=http://h:2 --listen 127.0.0.1:5 --state etcd:http://e:1,http://f:2";
  const { exit, started, err } = await runHeadgate(line, {
    files: { "h.yaml": "log: {level: warn}" },
    env: { AWS_ACCESS_KEY_ID: "AK", AWS_SECRET_ACCESS_KEY: "SK", HEADGATE_ADMIN_URL: "http://x" },
  });
  t.equal(exit, 0);
  t.match(started, [
    {
      embedded: false,
      config: {
        logLevel: "warn",
        listen: { address: { port: 5 } },
        state: { driver: "etcd", endpoints: ["http://e:1", "http://f:2"] },
        clusters: [
          { id: "a", credentials: { accessKeyId: "AK", secretAccessKey: "SK" } },
          { id: "b", endpoints: ["http://h:2"] },
        ],
      },
    },
  ]);
  t.notMatch(err, "HEADGATE_ADMIN_URL");
  t.match((await runHeadgate("run --embedded")).started, [{ embedded: true }]);
  const placed = await runHeadgate("run --embedded --cluster a=http://h:1 --state file:/x");
  t.strictSame([placed.exit, placed.started.length], [1, 0]);
  t.match(
    placed.err,
    /^--cluster: clusters\[0\]: Flag --embedded .*\n--state: state\.driver: Flag/m,
  );
  const wrong = await runHeadgate("run --listen nowhere --embedded");
  t.strictSame([wrong.exit, wrong.started.length], [1, 0]);
  t.equal(
    wrong.err,
    '--listen: listen.address: Address "nowhere" is not readable, write host:port\n',
  );
  t.strictSame((await runHeadgate("demo --json")).started, [{ json: true }]);
});

t.test("validate and config show", async (t) => {
  const files = { "h.yaml": "listen:\n  adress: x", "ok.yaml": "log: {level: warn}" };
  const bad = await runHeadgate("validate -c h.yaml", { files });
  t.equal(bad.exit, 1);
  t.match(bad.err, /^Warning: h\.yaml:1:1: clusters: No clusters are configured/m);
  t.match(bad.err, /\nh\.yaml:2:3: listen\.adress: Unknown key, nearest is "address"\n$/);
  const good = await runHeadgate("validate -c ok.yaml", { files });
  t.equal(good.exit, 0);
  t.match(good.err, "Warning: ok.yaml:1:1: clusters: No clusters are configured");
  t.match(good.err, /Configuration is valid\n$/);
  t.equal(
    (await runHeadgate("validate --strict", { env: { HEADGATE_CONFIG: "ok.yaml" }, files })).exit,
    1,
  );
  const bundle = await runHeadgate("validate -c ok.yaml --policy policies/default", { files });
  t.match([bundle.exit, bundle.err], [0, /Configuration is valid\n$/]);
  const noBundle = {
    "b.yaml": "policy:\n  bundle: test/unit\nlog: {level: loud}",
    "only.yaml": "policy: {bundle: /nowhere/bundle}",
  };
  const both = await runHeadgate("validate -c b.yaml", { files: noBundle });
  t.equal(both.exit, 1);
  t.match(
    both.err,
    /^b\.yaml:3:14: log\.level: Expected one of/m,
    "the bundle hides no other fault",
  );
  t.match(both.err, /^b\.yaml:2:11: policy\.bundle: Cannot load policy bundle ".*test\/unit"/m);
  const only = await runHeadgate("validate -c only.yaml", { files: noBundle });
  t.match([only.exit, only.err], [1, 'Cannot load policy bundle "/nowhere/bundle"']);
  t.notMatch(only.err, "is valid");
  const shown = await runHeadgate("config show -c ok.yaml --source", { files });
  t.match(shown.out, /^log\.level +"warn" {2}# ok\.yaml$/m);
  t.match(shown.out, /^listen\.idle_timeout +"120s" {2}# default$/m);
  const json = await runHeadgate("config show -c ok.yaml --json", { files });
  t.match(JSON.parse(json.out), [{ name: "version", value: "1", origin: "default" }]);
  t.match(JSON.parse((await runHeadgate("config schema")).out), { type: "object" });
  t.equal((await runHeadgate("version")).out, "headgate 0.1.0\n");
});
