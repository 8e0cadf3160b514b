// What one server tells of a setting, made into what another one takes.

import t from "tap";
import {
  documentFor,
  notificationIds,
  withAclOwner,
  withGrantee,
} from "../../proxy/s3/setting-document.ts";

const bytes = (text: string): Uint8Array => Buffer.from(text, "utf8");
const plain = (document: Uint8Array): string =>
  Buffer.from(document)
    .toString("utf8")
    .replace(/^<\?xml[^>]*>\n/, "")
    .replaceAll(/ xmlns(?::xsi)?="[^"]*"/g, "");

const user = (id: string): string => `<ID>${id}</ID><DisplayName>N</DisplayName>`;
const grant = (kind: string, grantee: string): string =>
  `<Grant><Grantee xsi:type="${kind}">${grantee}</Grantee><Permission>READ</Permission></Grant>`;
const aclOf = (owner: string, ...grants: readonly string[]): string =>
  `<AccessControlPolicy><Owner>${owner}</Owner><AccessControlList>${grants.join("")}</AccessControlList></AccessControlPolicy>`;

t.test("an ACL names the owner of the cluster that it is for, and nobody else anew", async (t) => {
  const others = [
    grant("CanonicalUser", user("other & <co>").replace(/& <co>/, "&amp; &lt;co&gt;")),
    grant("Group", "<URI>http://acs.amazonaws.com/groups/global/AllUsers</URI>"),
    grant("AmazonCustomerByEmail", "<EmailAddress>a@b.example</EmailAddress>"),
  ];
  const acl = bytes(aclOf(user("one"), grant("CanonicalUser", user("one")), ...others));
  const there = bytes(aclOf(user("two")));
  const wanted = aclOf("<ID>two</ID>", grant("CanonicalUser", "<ID>two</ID>"), ...others);
  t.equal(plain(documentFor("acl", acl, there)), wanted);
  t.equal(documentFor("acl", acl, bytes(aclOf(user("one")))), acl, "as it came");
  for (const unknown of [null, bytes("<AccessControlPolicy/>"), bytes("no XML")]) {
    t.equal(documentFor("acl", acl, unknown), acl);
  }
  const broken = bytes("<AccessControlPolicy>");
  t.equal(withAclOwner(broken, "one", "two"), broken);
});

t.test("a grant in a field names the other user by id alone", async (t) => {
  for (const [grants, wanted] of [
    ['id="one"', 'id="two"'],
    ["id=one", 'id="two"'],
    ['uri="one", ID = "one" ,id="onex"', 'uri="one", ID = "two",id="onex"'],
    ['emailAddress="one"', 'emailAddress="one"'],
    ["", ""],
  ] as const) {
    t.equal(withGrantee(grants, "one", "two"), wanted, grants);
  }
});

t.test("a public access block is given under the root that servers take", async (t) => {
  const values =
    "<BlockPublicAcls>false</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>";
  const told = bytes(
    `<BlockPublicAccessBlockConfiguration>${values}</BlockPublicAccessBlockConfiguration>`,
  );
  const taken = `<PublicAccessBlockConfiguration>${values}</PublicAccessBlockConfiguration>`;
  t.equal(plain(documentFor("publicAccessBlock", told, null)), taken);
  for (const same of [bytes(taken), bytes("no XML")]) {
    t.equal(documentFor("publicAccessBlock", same, null), same);
  }
  t.equal(documentFor("cors", told, null), told);
});

t.test("ids of notifications", async (t) => {
  const topic = (id: string): string => `<TopicConfiguration>${id}</TopicConfiguration>`;
  const all = [topic("<Id>a</Id>"), topic("<Id>b &amp; c</Id>"), topic("")].join("");
  const document = bytes(`<NotificationConfiguration>${all}</NotificationConfiguration>`);
  t.strictSame(notificationIds(document), ["a", "b & c"]);
  t.strictSame(notificationIds(bytes("<NotificationConfiguration/>")), []);
  t.strictSame(notificationIds(bytes("")), []);
});
