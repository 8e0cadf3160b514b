// Header fields as an ordered list of [lower-case name, value] pairs, values as latin1 strings, one
// char a byte as node:http delivers them, so that bytes survive (RFC 9110 §5.5; s3-protocol.md 2.6).

export type HeaderField = readonly [name: string, value: string];
export type HeaderList = readonly HeaderField[];
/** A query parameter, decoded; `null` where the name stood without `=`. */
export type QueryParameter = readonly [name: string, value: string | null];
export type QueryList = readonly QueryParameter[];
