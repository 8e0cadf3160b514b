// Who may import whom, as dependency-cruiser rules (README "Layers"). Read by test/layers.test.ts,
// which also shows that every rule here fires.

import type { IForbiddenRuleType } from "dependency-cruiser";

/** Folder → the folders it may import, itself always included. The composition root may import everything. */
const mayImport = {
  "proxy/s3": [],
  "proxy/policy": ["proxy/placement", "proxy/s3"],
  "proxy/upstream": ["proxy/placement", "proxy/s3"],
  "proxy/operations": ["proxy/placement", "proxy/s3"],
  "proxy/workers": ["proxy/placement", "proxy/s3"],
  "proxy/gateway": ["proxy/operations", "proxy/policy", "proxy/placement", "proxy/s3"],
  "proxy/admin": [
    "proxy/operations",
    "proxy/workers",
    "proxy/policy",
    "proxy/placement",
    "proxy/s3",
  ],
  "proxy/cli": ["proxy/admin", "proxy/config", "proxy/policy", "proxy/placement", "proxy/s3"],
  "proxy/demo": ["proxy/placement", "proxy/s3"],
  bridge: ["proxy/placement", "proxy/s3"],
} as const satisfies Record<string, readonly string[]>;

/** What placement may know of the protocol: its words, not its rules. */
const protocolWords = "^proxy/s3/(?:names|headers|operation)\\.ts$";

/** The program and the assembly of its parts: the only files that know every part. */
const compositionRoot =
  "^proxy/(?:main|system|assembly(?:-options|-credentials|-admin|-demo)?)\\.ts$";

/** npm package → the only files that import it. */
const packageOwners = {
  undici: "^proxy/upstream/",
  "@open-policy-agent/opa-wasm": "^proxy/policy/engine",
  etcd3: "^bridge/etcd-",
  "prom-client": "^proxy/admin/metrics",
  "hash-wasm": "^proxy/gateway/checksums",
  "http-proxy-3": "^proxy/upstream/passthrough",
  zod: "^proxy/config",
} as const satisfies Record<string, string>;

function ruleName(folder: string): string {
  return `${folder.replace("proxy/", "")}-stays-in-its-layer`;
}

const layers: IForbiddenRuleType[] = Object.entries(mayImport).map(([folder, allowed]) => ({
  name: ruleName(folder),
  severity: "error",
  from: { path: `^${folder}/` },
  to: {
    path: "^(?:proxy|bridge|test|deploy)/",
    pathNot: [folder, ...allowed].map((name) =>
      name === "proxy/config" ? "^proxy/config" : `^${name}/`,
    ),
  },
}));

const packages: IForbiddenRuleType[] = Object.entries(packageOwners).map(([name, owner]) => ({
  name: `${name}-has-one-owner`,
  severity: "error",
  from: { pathNot: owner },
  to: { path: `(?:^|/)node_modules/${name}/` },
}));

export const layerRules: readonly IForbiddenRuleType[] = [
  ...layers,
  {
    name: "s3-is-pure",
    severity: "error",
    from: { path: "^proxy/s3/" },
    to: {
      dependencyTypes: ["core", "npm", "npm-dev", "npm-optional", "npm-peer", "unknown"],
      pathNot: "^(?:node:)?(?:crypto|buffer)$",
    },
  },
  {
    // An operation is given its candidates and reaches a cluster by the Upstream port alone.
    name: "operations-reach-out-by-ports",
    severity: "error",
    from: { path: "^proxy/operations/" },
    to: {
      dependencyTypes: ["core", "npm", "npm-dev", "npm-optional", "npm-peer", "unknown"],
      pathNot: "^(?:node:)?buffer$",
    },
  },
  {
    name: "placement-imports-only-names",
    severity: "error",
    from: { path: "^proxy/placement/" },
    to: { path: "^(?:proxy|bridge|test|deploy)/", pathNot: ["^proxy/placement/", protocolWords] },
  },
  {
    name: "only-main-wires",
    severity: "error",
    from: { path: "^(?:proxy|bridge)/", pathNot: [compositionRoot, "^proxy/(?:demo|upstream)/"] },
    to: { path: [compositionRoot, "^proxy/(?:demo|upstream)/"] },
  },
  {
    name: "bridge-island",
    severity: "error",
    from: { path: "^proxy/", pathNot: compositionRoot },
    to: { path: "^bridge/" },
  },
  { name: "no-circular", severity: "error", from: {}, to: { circular: true } },
  {
    name: "no-orphans",
    severity: "error",
    from: { orphan: true, path: "^(?:proxy|bridge)/" },
    to: {},
  },
  {
    name: "no-dev-dependency-in-src",
    severity: "error",
    from: { path: "^(?:proxy|bridge)/" },
    to: { dependencyTypes: ["npm-dev", "npm-no-pkg", "npm-unknown", "unknown"] },
  },
  ...packages,
];
