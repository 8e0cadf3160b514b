// Texts that errors show to who sent the request, without what is a secret in them: session tokens and
// customers' keys, as header lines of a canonical request and as parameters of its query.

const names = "x-amz-security-token|x-amz-(?:copy-source-)?server-side-encryption-customer-key";
// Nothing in front of a name may repeat: the text is anybody's, and reading it must take linear time.
const line = new RegExp(`^(${names}):.*$`, "gm");
const parameter = new RegExp(`((?:${names})=)[^&\\n]*`, "gi");

/** A canonical request or string to sign, its bytes of UTF-8 as characters. */
export function shownText(bytes: string): string {
  const text = Buffer.from(bytes, "latin1").toString("utf8");
  return text.replace(line, "$1:(not shown)").replace(parameter, "$1(not shown)");
}
