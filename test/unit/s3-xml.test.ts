// The XML reader on what S3 sends and on what an attacker sends; the writer's escaping.

import fc from "fast-check";
import t from "tap";
import { errorDocument, readErrorDocument } from "../../proxy/s3/error-document.ts";
import { S3Error } from "../../proxy/s3/errors.ts";
import {
  childrenOf,
  childText,
  element,
  escapeText,
  group,
  optionalElement,
  readXml,
  s3Document,
  writeElement,
  type XmlElement,
} from "../../proxy/s3/xml.ts";

const limits = { maxBytes: 32 * 1024 * 1024 };

function rootOf(input: string | Uint8Array): XmlElement {
  const reading = readXml(input, limits);
  if (reading.kind === "error") throw new Error(reading.fault);
  return reading.root;
}

function faultOf(input: string | Uint8Array, maxBytes = limits.maxBytes): string {
  const reading = readXml(input, { maxBytes });
  return reading.kind === "error" ? reading.fault : "none";
}

void t.test("reads elements, text and order", async (t) => {
  const root = rootOf("<a><b>1</b><c/><b> 2 </b><d></d></a>");
  t.strictSame(root, {
    name: "a",
    text: "",
    children: [
      { name: "b", text: "1", children: [] },
      { name: "c", text: "", children: [] },
      { name: "b", text: " 2 ", children: [] },
      { name: "d", text: "", children: [] },
    ],
  });
  t.equal(childText(root, "b"), "1");
  t.equal(childText(root, "z"), null);
  t.equal(childrenOf(root, "b").length, 2);
});

void t.test(
  "reads over declaration, namespaces, attributes, comments and instructions",
  async (t) => {
    const root = rootOf(
      `\ufeff<?xml version='1.0' encoding="UTF-8"?>\n<!-- <x> & -->\n<s:A xmlns:s="u" q = '>"' >` +
        `<?pi <b>?><s:B\n a="1"\tb='2'/>x<!---->y<![CDATA[<&]]]>z</s:A >\n<!-- end -->\n`,
    );
    t.equal(root.name, "A");
    t.equal(root.text, "xy<&]z");
    t.strictSame(
      root.children.map((child) => child.name),
      ["B"],
    );
  },
);

void t.test("takes blanks before the declaration, as a slow Complete sends them", async (t) => {
  t.equal(rootOf(`  \n \r\n<?xml version="1.0"?><a>1</a>`).text, "1");
});

void t.test("decodes the five entities and numeric references", async (t) => {
  t.equal(
    rootOf("<a>&lt;&gt;&amp;&quot;&apos;&#65;&#x42;&#x1F600;&#13;&#x1;</a>").text,
    `<>&"'AB😀\r\u0001`,
  );
  t.equal(rootOf("<a>&amp;lt;</a>").text, "&lt;", "decoded once");
  t.equal(rootOf("<a>&#x0000041;</a>").text, "A");
});

void t.test("keeps line ends and raw control characters", async (t) => {
  t.equal(rootOf("<a>1\r\n2\u0001</a>").text, "1\r\n2\u0001");
});

void t.test("refuses what a DTD could do", async (t) => {
  const bomb = `<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY lol "lol"><!ENTITY l2 "&lol;&lol;">]><lolz>&l2;</lolz>`;
  t.equal(faultOf(bomb), "forbidden");
  t.equal(faultOf(`<!doctype a SYSTEM "file:///etc/passwd"><a/>`), "forbidden");
  t.equal(faultOf(`<a><!ENTITY x "y"></a>`), "forbidden");
  t.equal(faultOf("<a>&xxe;</a>"), "forbidden");
  t.equal(faultOf("<a>&nbsp;</a>"), "forbidden");
  t.equal(faultOf("<a>&constructor;</a>"), "forbidden");
});

void t.test("refuses malformed documents", async (t) => {
  const malformed = [
    "",
    "   ",
    "text",
    "<",
    "<a",
    "<a>",
    "<a><b></a>",
    "<a><b></a></b>",
    "</a>",
    "<a></a></a>",
    "<a/><b/>",
    "<a/>text",
    "text<a/>",
    "<a></ab>",
    "<ab></a>",
    "<s:a></a>",
    "<1a/>",
    "< a/>",
    "<a / >",
    "<a b/>",
    "<a b=1/>",
    `<a b="1/>`,
    `<a b="<"/>`,
    `<a b="1"c="2"/>`.replace('"c', '"=c'),
    "<a>&</a>",
    "<a>&;</a>",
    "<a>&lt</a>",
    "<a>& lt;</a>",
    "<a>&#;</a>",
    "<a>&#x;</a>",
    "<a>&#xZZ;</a>",
    "<a>&#-1;</a>",
    "<a>&#0;</a>",
    "<a>&#xD800;</a>",
    "<a>&#x110000;</a>",
    "<a>&#99999999999;</a>",
    "<a><!-- </a>",
    "<a><![CDATA[ </a>",
    "<![CDATA[x]]><a/>",
    "<a><? </a>",
    "<a><!x></a>",
    "<a>\0</a>",
    "\0<a/>",
  ];
  for (const input of malformed) t.equal(faultOf(input), "malformed", JSON.stringify(input));
});

void t.test("limits size, depth and count", async (t) => {
  t.equal(faultOf("<a>12345</a>", 12), "none");
  t.equal(faultOf("<a>12345</a>", 11), "too_large");
  t.equal(faultOf(Buffer.from("<a>é</a>"), 8), "too_large", "bytes, not characters");
  t.equal(faultOf("<a>".repeat(32) + "</a>".repeat(32)), "none");
  t.equal(faultOf("<a>".repeat(33) + "</a>".repeat(33)), "too_deep");
  t.equal(faultOf(`${"<a>".repeat(32)}<a/>${"</a>".repeat(32)}`), "too_deep");
  t.equal(faultOf("<a>".repeat(1_000_000)), "too_deep");
  t.equal(faultOf(`<a>${"<b/>".repeat(131_072)}</a>`), "too_large");
  const few = readXml("<a><b/><b/></a>", { maxBytes: 100, maxElements: 2 });
  t.strictSame(few, { kind: "error", fault: "too_large" });
});

void t.test("refuses bytes that are not UTF-8", async (t) => {
  t.equal(faultOf(Buffer.from([0x3c, 0x61, 0x3e, 0xff, 0x3c, 0x2f, 0x61, 0x3e])), "not_utf8");
  t.equal(faultOf(Buffer.from("<a>\u00e9</a>", "latin1")), "not_utf8");
  t.equal(faultOf(Buffer.from("<?xml version='1.0'?><a/>", "utf16le")), "malformed");
});

void t.test("takes very long tokens in linear work", async (t) => {
  const long = 10 * 1024 * 1024;
  t.equal(rootOf(`<a b="${"x".repeat(long)}">1</a>`).text, "1");
  t.equal(rootOf(`<a>${"x".repeat(long)}</a>`).text.length, long);
  t.equal(faultOf(`<${"a".repeat(long)}`), "malformed");
  t.equal(faultOf(`<a ${" ".repeat(long)}`), "malformed");
  t.equal(faultOf(`<a b="${"x".repeat(long)}`), "malformed");
  t.equal(faultOf(`<a>&#${"1".repeat(long)};</a>`), "malformed");
  t.equal(faultOf(`<a>${"&".repeat(long)}</a>`), "malformed");
  t.equal(rootOf(`<a>${"&amp;".repeat(100_000)}</a>`).text.length, 100_000);
  t.equal(rootOf(`<a>${"x<!---->".repeat(100_000)}</a>`).text.length, 100_000);
});

void t.test("never throws, whatever the input", async (t) => {
  const bit = fc.constantFrom(
    "<",
    ">",
    "/",
    "!",
    "?",
    "&",
    ";",
    "#",
    '"',
    "'",
    "=",
    "a",
    "-",
    "[",
    "]",
    " ",
    "<a>",
    "</a>",
    "<![CDATA[",
    "\ud800",
  );
  fc.assert(
    fc.property(fc.array(bit, { maxLength: 40 }), (bits) => {
      const reading = readXml(bits.join(""), limits);
      return reading.kind === "document" || reading.fault.length > 0;
    }),
    { numRuns: 500 },
  );
  t.pass("no input threw");
});

void t.test("escapes as S3 does", async (t) => {
  t.equal(escapeText(`"a" <b> & 'c'`), `&quot;a&quot; &lt;b&gt; &amp; 'c'`);
  t.equal(
    escapeText("\u0000\u0001\t\n\r\u007f\ufffe\uffff"),
    "&#x0;&#x1;&#x9;&#xA;&#xD;&#x7F;&#xFFFE;&#xFFFF;",
  );
  t.equal(escapeText("é😀\u0085"), "é😀\u0085");
  t.equal(element("Key", "a&b"), "<Key>a&amp;b</Key>");
  t.equal(optionalElement("Key", null), "");
  t.equal(optionalElement("Key", ""), "<Key></Key>");
  t.equal(
    s3Document("A", [group("B", [element("C", "1")])]),
    `<?xml version="1.0" encoding="UTF-8"?>\n<A xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><B><C>1</C></B></A>`,
  );
});

void t.test("reads back whatever it wrote", async (t) => {
  fc.assert(
    fc.property(fc.string({ unit: "binary", maxLength: 60 }), (text) => {
      const wanted = text.replaceAll("\0", "");
      const root = rootOf(Buffer.from(element("a", wanted)));
      return root.text === wanted && writeElement(root) === element("a", wanted);
    }),
  );
  t.pass("round trip");
});

void t.test("writes an error document in S3's order", async (t) => {
  const error = new S3Error("RequestTimeTooSkewed", { details: { ServerTime: "now & then" } });
  t.equal(
    errorDocument(error, { resource: "/b/a<b", requestId: "R1", hostId: "H1" }),
    `<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>RequestTimeTooSkewed</Code>` +
      `<Message>The request time differs too much from the server time</Message>` +
      `<ServerTime>now &amp; then</ServerTime><Resource>/b/a&lt;b</Resource>` +
      `<RequestId>R1</RequestId><HostId>H1</HostId></Error>`,
  );
  t.notMatch(errorDocument(error, { resource: "/", requestId: "R1" }), /HostId/);
});

void t.test("reads an upstream's error document", async (t) => {
  const rgw = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code><Message></Message><BucketName>b</BucketName></Error>`;
  t.strictSame(readErrorDocument(rgw), { code: "NoSuchKey", message: "" });
  t.equal(readErrorDocument("<Error><Message>x</Message></Error>"), null);
  t.equal(readErrorDocument("<ListBucketResult/>"), null);
  t.equal(readErrorDocument("gateway timeout"), null);
});
