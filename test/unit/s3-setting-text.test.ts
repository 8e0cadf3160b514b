// Which documents of a setting say the same, and which do not.

import t from "tap";
import { aclOwner } from "../../proxy/s3/setting-document.ts";
import { isAwsDefault, isPrivateAcl, settingText } from "../../proxy/s3/setting-text.ts";

const textOf = (subresource: string, document: string): string | null =>
  settingText(subresource, Buffer.from(document));

const acl = (id: string, name: string, permission: string): string =>
  `<AccessControlPolicy><Owner><ID>${id}</ID><DisplayName>${name}</DisplayName></Owner><AccessControlList><Grant><Grantee xmlns:xsi="x" xsi:type="CanonicalUser"><ID>${id}</ID><DisplayName>${name}</DisplayName></Grantee><Permission>${permission}</Permission></Grant></AccessControlList></AccessControlPolicy>`;
const rule = (id: string, prefix: string): string =>
  `<Rule><ID>${id}</ID><Prefix>${prefix}</Prefix><Status>Enabled</Status></Rule>`;
const rules = (...all: readonly string[]): string =>
  `<LifecycleConfiguration xmlns="http://s3.amazonaws.com/doc/2006-03-01/">${all.join("")}</LifecycleConfiguration>`;
const corsRule = (origin: string, ...methods: readonly string[]): string =>
  `<CORSRule>${methods.map((method) => `<AllowedMethod>${method}</AllowedMethod>`).join("")}<AllowedOrigin>${origin}</AllowedOrigin></CORSRule>`;
const corsOf = (...all: readonly string[]): string =>
  `<CORSConfiguration>${all.join("")}</CORSConfiguration>`;
const topicOf = (id: string, arn: string): string =>
  `<NotificationConfiguration><TopicConfiguration><Id>${id}</Id><Topic>${arn}</Topic></TopicConfiguration></NotificationConfiguration>`;

t.test("documents that say the same in other words", async (t) => {
  for (const [subresource, left, right] of [
    ["policy", '{"a":1,"b":["x","y"]}', '{ "b": ["y", "x"],\n "a": 1 }'],
    ["acl", acl("one", "One", "FULL_CONTROL"), acl("two", "Two", "FULL_CONTROL")],
    [
      "lifecycle",
      rules(rule("x1", "a/"), rule("x2", "b/")),
      rules(rule("y", "b/"), rule("z", "a/")),
    ],
    [
      "tagging",
      "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag><Tag><Key>b</Key><Value/></Tag></TagSet></Tagging>",
      "<Tagging>\n<TagSet><Tag><Value></Value><Key>b</Key></Tag><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>",
    ],
    ["cors", corsOf(corsRule("*", "GET", "PUT")), corsOf(corsRule("*", "PUT", "GET"))],
    ["notification", topicOf("x", "arn:aws:sns:one:acme:t"), topicOf("y", "arn:aws:sns::acme:t")],
    [
      "publicAccessBlock",
      "<BlockPublicAccessBlockConfiguration><A>true</A></BlockPublicAccessBlockConfiguration>",
      "<PublicAccessBlockConfiguration><A>true</A></PublicAccessBlockConfiguration>",
    ],
  ] as const) {
    t.not(textOf(subresource, left), null);
    t.equal(textOf(subresource, left), textOf(subresource, right), subresource);
  }
  t.equal(aclOwner(Buffer.from(acl("one", "One", "READ"))), "one");
});

t.test("documents that say different things", async (t) => {
  for (const [subresource, left, right] of [
    ["policy", '{"a":[{"x":1},{"y":1}]}', '{"a":[{"y":1},{"x":1}]}'],
    ["policy", '{"a":"1"}', '{"a":1}'],
    ["acl", acl("one", "One", "FULL_CONTROL"), acl("one", "One", "READ")],
    ["acl", acl("one", "One", "READ"), acl("one", "One", "READ").replace("<ID>one", "<ID>two")],
    ["lifecycle", rules(rule("x", "a/")), rules(rule("x", "b/"))],
    ["lifecycle", rules(rule("x", "a/")), rules(rule("x", "a/"), rule("y", "a/"))],
    [
      "cors",
      corsOf(corsRule("a", "GET"), corsRule("*", "PUT")),
      corsOf(corsRule("*", "PUT"), corsRule("a", "GET")),
    ],
    ["notification", topicOf("x", "arn:aws:sns:z:acme:t"), topicOf("x", "arn:aws:sns:z:acme:u")],
    ["notification", topicOf("x", "arn:aws:sns:z:acme:t"), topicOf("x", "arn:aws:sns:z::t")],
    ["website", "<W><Suffix>a</Suffix></W>", "<W><Key>a</Key></W>"],
    ["cors", "not XML", "no XML either"],
  ] as const) {
    t.not(textOf(subresource, left), textOf(subresource, right), `${subresource}: ${left}`);
  }
});

t.test("documents that say nothing", async (t) => {
  for (const [subresource, document] of [
    ["versioning", "<VersioningConfiguration/>"],
    ["logging", "<BucketLoggingStatus>\n</BucketLoggingStatus>"],
    ["publicAccessBlock", "<P><BlockPublicAcls>false</BlockPublicAcls></P>"],
    ["requestPayment", "<R><Payer>BucketOwner</Payer></R>"],
    ["policy", " "],
  ] as const) {
    t.equal(textOf(subresource, document), null, subresource);
  }
  t.not(textOf("requestPayment", "<R><Payer>Requester</Payer></R>"), null);
});

t.test("the ACL that a bucket begins with is its owner's alone", async (t) => {
  const isPrivate = (document: string): boolean => isPrivateAcl(Buffer.from(document));
  const begun = acl("one", "One", "FULL_CONTROL");
  const [grant = ""] = /<Grant>.*<\/Grant>/.exec(begun) ?? [];
  t.equal(isPrivate(begun), true);
  const all =
    '<Grantee xmlns:xsi="x" xsi:type="Group"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee>';
  for (const [what, document] of [
    ["another permission", acl("one", "One", "READ")],
    [
      "another's full control",
      begun.replace(/<ID>one<\/ID>(?=<D[^<]*<\/DisplayName><\/Grantee>)/, "<ID>two</ID>"),
    ],
    ["a second grant", begun.replace(grant, `${grant}${grant.replace("FULL_CONTROL", "READ")}`)],
    ["everybody's", begun.replace(/<Grantee.*<\/Grantee>/, all)],
    ["nobody's", begun.replace(grant, "")],
    ["no XML", "private"],
  ] as const) {
    t.not(document, begun, what);
    t.equal(isPrivate(document), false, what);
  }
});

t.test("what AWS gives each new bucket is nobody's setting", async (t) => {
  const names = [
    "BlockPublicAcls",
    "IgnorePublicAcls",
    "BlockPublicPolicy",
    "RestrictPublicBuckets",
  ];
  const block = (not: string) =>
    `<PublicAccessBlockConfiguration>${names.map((name) => `<${name}>${name !== not}</${name}>`).join("")}</PublicAccessBlockConfiguration>`;
  const owner = (who: string) =>
    `<OwnershipControls><Rule><ObjectOwnership>${who}</ObjectOwnership></Rule></OwnershipControls>`;
  const rule = (algorithm: string) =>
    `<Rule><ApplyServerSideEncryptionByDefault><SSEAlgorithm>${algorithm}</SSEAlgorithm></ApplyServerSideEncryptionByDefault><BucketKeyEnabled>false</BucketKeyEnabled></Rule>`;
  const encryption = (rules: string) =>
    `<ServerSideEncryptionConfiguration>${rules}</ServerSideEncryptionConfiguration>`;
  for (const [subresource, document, isDefault] of [
    ["publicAccessBlock", block(""), true],
    ...names.map((name) => ["publicAccessBlock", block(name), false] as const),
    ["ownershipControls", owner("BucketOwnerEnforced"), true],
    ["ownershipControls", owner("ObjectWriter"), false],
    ["encryption", encryption(rule("AES256")), true],
    ["encryption", encryption(rule("aws:kms")), false],
    ["encryption", encryption(rule("AES256") + rule("aws:kms")), false],
    ["encryption", encryption(""), false],
    ["cors", encryption(rule("AES256")), false],
    ["encryption", "AES256", false],
  ] as const) {
    t.equal(
      isAwsDefault(subresource, Buffer.from(document)),
      isDefault,
      `${subresource} ${document}`,
    );
  }
});
