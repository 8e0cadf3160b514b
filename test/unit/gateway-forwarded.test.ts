// What a proxy in front may say of a request, and what it may not.

import t from "tap";
import { type Arrival, arrivalOf, TrustedProxies } from "../../proxy/gateway/forwarded.ts";
import { readAuthorization } from "../../proxy/s3/authorization.ts";
import type { HeaderList } from "../../proxy/s3/headers.ts";
import { isWithin, parseIpAddress, parseIpNetwork } from "../../proxy/s3/ip-network.ts";
import { SigningKeys } from "../../proxy/s3/sigv4.ts";
import { verifySignature } from "../../proxy/s3/verify.ts";
import { credentials, headOf, nowMs } from "../support/s3-request.ts";
import { smithySign } from "../support/s3-smithy.ts";

const parts = {
  trustedProxies: new TrustedProxies(
    ["10.0.0.0/8", "2001:db8::/32"].flatMap((text) => parseIpNetwork(text) ?? []),
  ),
  baseDomains: ["s3.example.com"],
  rewrittenFields: [],
};

interface Given {
  readonly peer?: string;
  readonly secure?: boolean;
  readonly host?: string;
  readonly target?: string;
  readonly headers?: HeaderList;
}

function arrival({
  peer = "10.0.0.1",
  secure = false,
  host,
  target,
  headers = [],
}: Given): Arrival {
  const head = headOf({
    ...(host === undefined ? {} : { host }),
    ...(target === undefined ? {} : { target }),
    headers,
  });
  return arrivalOf(head, { address: peer, secure }, parts);
}

t.test("addresses and networks are read strictly and compared by their bits", async (t) => {
  const rows = [
    ["10.1.2.3", "10.0.0.0/8", true],
    ["11.1.2.3", "10.0.0.0/8", false],
    ["10.0.0.127", "10.0.0.0/25", true],
    ["10.0.0.128", "10.0.0.0/25", false],
    ["10.0.0.1", "10.0.0.1", true],
    ["10.0.0.2", "10.0.0.1", false],
    ["192.0.2.1", "0.0.0.0/0", true],
    ["::1", "0.0.0.0/0", false],
    ["::ffff:10.0.0.1", "10.0.0.0/8", true],
    ["::FFFF:a00:1", "10.0.0.0/8", true],
    ["2001:db8:1::", "2001:db8::/32", true],
    ["2001:db9::", "2001:db8::/32", false],
    ["fe80::1", "::/0", true],
    ["1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:0/125", false],
    ["1:2:3:4:5:6:7:7", "1:2:3:4:5:6:7:0/125", true],
  ] as const;
  for (const [text, network, expected] of rows) {
    const [address, within] = [parseIpAddress(text), parseIpNetwork(network)];
    const seen = address !== null && within !== null && isWithin(address, within);
    t.equal(seen, expected, `${text} in ${network}`);
  }
  const wrong = [
    "",
    "10",
    "10.0.0",
    "10.0.0.256",
    "010.0.0.1",
    "1.2.3.4.5",
    ":",
    ":::",
    "1::2::3",
    "g::",
    "12345::",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7::8",
    "fe80::1%eth0",
    "1.2.3.4::",
    "host",
  ];
  for (const text of wrong) t.equal(parseIpAddress(text), null, text);
  for (const text of ["10.0.0.0/33", "::/129", "10.0.0.0/", "10.0.0.0/8/8", "10.0.0.0/-1", "/8"]) {
    t.equal(parseIpNetwork(text), null, text);
  }
});

t.test("the client's address is the nearest that is no proxy of ours", async (t) => {
  const rows = [
    ["10.0.0.1", "192.0.2.7", "192.0.2.7"],
    ["10.0.0.1", "198.51.100.1, 192.0.2.7", "192.0.2.7"],
    ["10.0.0.1", "198.51.100.1, 192.0.2.7, 10.9.9.9", "192.0.2.7"],
    ["10.0.0.1", "10.1.1.1, 10.2.2.2", "10.1.1.1"],
    ["10.0.0.1", "192.0.2.7:4711", "192.0.2.7"],
    ["10.0.0.1", "[2001:db9::1]:4711", "2001:db9::1"],
    ["10.0.0.1", "2001:db9::1", "2001:db9::1"],
    ["10.0.0.1", "192.0.2.7, unknown", "10.0.0.1"],
    ["10.0.0.1", "", "10.0.0.1"],
    ["10.0.0.1", "::ffff:192.0.2.7", "192.0.2.7"],
    ["::ffff:10.0.0.1", "192.0.2.7", "192.0.2.7"],
    ["2001:db8::9", "192.0.2.7", "192.0.2.7"],
    ["192.0.2.1", "198.51.100.1", "192.0.2.1"],
    ["2001:db9::9", "192.0.2.7", "2001:db9::9"],
    ["", "192.0.2.7", ""],
  ] as const;
  for (const [peer, text, expected] of rows) {
    const headers: HeaderList = [["x-forwarded-for", text]];
    const { clientAddress, forwardedFor } = arrival({ peer, headers });
    t.equal(clientAddress, expected, `${peer}: ${text}`);
    const own = peer.replace(/^::ffff:/, "");
    const hops = forwardedFor.split(", ");
    t.strictSame([hops[0], hops.at(-1)], [expected, own], "sent on from the client to the peer");
  }
  t.equal(arrival({}).clientAddress, "10.0.0.1");
  const none = { ...parts, trustedProxies: new TrustedProxies([]) };
  const head = headOf({ headers: [["x-forwarded-for", "192.0.2.7"]] });
  t.equal(arrivalOf(head, { address: "10.0.0.1", secure: false }, none).clientAddress, "10.0.0.1");
});

t.test("the scheme is what the nearest trusted proxy says", async (t) => {
  const rows = [
    ["10.0.0.1", "https", false, true],
    ["10.0.0.1", "HTTPS", false, true],
    ["10.0.0.1", "https, http", true, false],
    ["10.0.0.1", "gopher", true, true],
    ["192.0.2.1", "https", false, false],
    ["192.0.2.1", "http", true, true],
  ] as const;
  for (const [peer, text, secure, expected] of rows) {
    const headers: HeaderList = [["x-forwarded-proto", text]];
    t.equal(arrival({ peer, secure, headers }).secure, expected, `${peer}: ${text}`);
  }
});

t.test("Host is the forwarded one, from a trusted peer and where it is one", async (t) => {
  const rows = [
    ["10.0.0.1", "b.s3.example.com", "b.s3.example.com"],
    ["10.0.0.1", "evil.example, b.s3.example.com:81", "b.s3.example.com:81"],
    ["10.0.0.1", "b@evil", "inner:9000"],
    ["10.0.0.1", "", "inner:9000"],
    ["192.0.2.1", "b.s3.example.com", "inner:9000"],
  ] as const;
  for (const [peer, text, expected] of rows) {
    const { head } = arrival({ peer, host: "inner:9000", headers: [["x-forwarded-host", text]] });
    t.equal(head.host, expected, text);
    t.strictSame(
      head.headers.filter(([name]) => name === "host"),
      [["host", expected]],
    );
  }
});

async function signedFor(host: string): Promise<HeaderList> {
  const headers = await smithySign({
    method: "GET",
    path: "/k",
    query: {},
    headers: { host, "x-amz-content-sha256": "UNSIGNED-PAYLOAD" },
    epochMs: nowMs,
    region: "us-east-1",
    credentials,
  });
  return headers.filter(([name]) => name !== "host");
}

t.test(
  "a signature holds for the Host that the client signed, and for one bucket only",
  async (t) => {
    // https://github.com/seaweedfs/seaweedfs/pull/7623
    const rows: readonly (readonly [string, string, HeaderList, string])[] = [
      // signed, received, forwarded fields, outcome
      ["s3.test", "inner:9000", [["x-forwarded-host", "s3.test"]], "verified"],
      [
        "s3.test:8443",
        "inner",
        [
          ["x-forwarded-host", "s3.test"],
          ["x-forwarded-port", "8443"],
        ],
        "verified",
      ],
      ["s3.test", "inner", [["x-forwarded-host", "s3.test:443"]], "verified"],
      ["inner:9000", "inner:9000", [["x-forwarded-host", "s3.test"]], "verified"],
      [
        "inner:9000",
        "inner:9000",
        [["x-forwarded-host", "b.s3.example.com"]],
        "SignatureDoesNotMatch",
      ],
      [
        "a.s3.example.com",
        "a.s3.example.com",
        [["x-forwarded-host", "b.s3.example.com"]],
        "SignatureDoesNotMatch",
      ],
      ["other", "inner:9000", [["x-forwarded-host", "s3.test"]], "SignatureDoesNotMatch"],
    ];
    for (const [signed, host, fields, expected] of rows) {
      const headers = [...(await signedFor(signed)), ...fields];
      const { head } = arrival({ host, target: "/k", headers });
      const authorization = readAuthorization(head);
      if (authorization.kind !== "header") throw new Error("Header is not read");
      const keys = new SigningKeys(4);
      const result = verifySignature({
        head,
        authorization,
        credentials,
        nowMs,
        regions: [],
        keys,
      });
      const seen = result.kind === "error" ? result.error.code : result.kind;
      t.equal(seen, expected, `${signed} at ${host} ${JSON.stringify(fields)}`);
    }
  },
);
