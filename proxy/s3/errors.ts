// The errors a client can see, by S3 code. `S3Error` is built from this table only, so that a code
// never travels with a wrong status. Codes: S3 API Reference "Error responses"; `DrainRefused` is ours.

const table = {
  AccessDenied: [403, "Access denied"],
  AuthorizationHeaderMalformed: [400, "The authorization header is malformed"],
  AuthorizationQueryParametersError: [400, "The authorization query parameters are malformed"],
  BadDigest: [400, "The body does not match the digest that was sent with it"],
  BadRequest: [400, "The request is not valid"],
  BucketAlreadyExists: [409, "The bucket name is not available"],
  BucketAlreadyOwnedByYou: [409, "The bucket exists already and is yours"],
  BucketNotEmpty: [409, "The bucket is not empty"],
  DrainRefused: [503, "The clusters that could take this write are draining"],
  EntityTooLarge: [400, "The body is larger than S3 allows"],
  EntityTooSmall: [400, "A part is smaller than S3 allows"],
  ExpiredToken: [400, "The session token has expired"],
  IllegalVersioningConfigurationException: [400, "The versioning configuration is not valid"],
  IncompleteBody: [400, "The body is shorter than its declared length"],
  InternalError: [500, "The proxy failed"],
  InvalidAccessKeyId: [403, "The access key id is not known"],
  InvalidArgument: [400, "An argument is not valid"],
  InvalidBucketName: [400, "The bucket name is not valid"],
  InvalidBucketState: [409, "The bucket is in a state that does not allow the request"],
  InvalidChunkSizeError: [400, "A chunk size is not valid"],
  InvalidDigest: [400, "The digest header is not valid"],
  InvalidLocationConstraint: [400, "The location constraint is not valid"],
  InvalidPart: [400, "A part was not found, or its ETag is another"],
  InvalidPartNumber: [416, "The requested part number cannot be satisfied"],
  InvalidPartOrder: [400, "The parts are not in ascending order"],
  InvalidPolicyDocument: [400, "The policy of the form is not valid"],
  InvalidRange: [416, "The range cannot be satisfied"],
  InvalidRequest: [400, "The request is not valid"],
  InvalidTag: [400, "A tag is not valid"],
  InvalidToken: [400, "The session token is not valid"],
  InvalidURI: [400, "The request target cannot be read"],
  KeyTooLongError: [400, "The key is longer than 1024 bytes"],
  MalformedPOSTRequest: [400, "The body is not a well-formed multipart/form-data"],
  MalformedTrailerError: [400, "The trailer is malformed"],
  MalformedXML: [400, "The XML body is malformed or not what the operation takes"],
  MaxPostPreDataLengthExceededError: [400, "The fields of the form are longer than S3 allows"],
  MethodNotAllowed: [405, "The method is not allowed for this resource"],
  MissingContentLength: [411, "The request needs a Content-Length"],
  MissingSecurityHeader: [400, "A required header is missing"],
  NoSuchBucket: [404, "The bucket does not exist"],
  NoSuchConfiguration: [404, "The configuration does not exist"],
  NoSuchKey: [404, "The key does not exist"],
  NoSuchUpload: [404, "The multipart upload does not exist"],
  NoSuchVersion: [404, "The version does not exist"],
  NotImplemented: [501, "The operation is not implemented"],
  OwnershipControlsNotFoundError: [404, "The bucket has no ownership controls"],
  PlacementBusy: [409, "The bucket holds objects that this change would have to move"],
  PreconditionFailed: [412, "A precondition did not hold"],
  RequestHeaderSectionTooLarge: [400, "The request head is larger than the limit"],
  RequestTimeTooSkewed: [403, "The request time differs too much from the server time"],
  RequestTimeout: [400, "The body stalled for longer than the limit"],
  ServerSideEncryptionConfigurationNotFoundError: [404, "The bucket has no default encryption"],
  ServiceUnavailable: [503, "The service cannot answer at present"],
  SignatureDoesNotMatch: [403, "The signature does not match the request"],
  SlowDown: [503, "The request cannot be served at this moment, try again"],
  VersionedBucketPinned: [409, "A versioned bucket cannot change its cluster"],
  XAmzContentSHA256Mismatch: [400, "The body does not match x-amz-content-sha256"],
} as const satisfies Record<string, readonly [number, string]>;

/** An S3 error code that Headgate itself raises. Upstream codes pass through as text. */
export type S3ErrorCode = keyof typeof table;

export interface S3ErrorOptions {
  /** Replaces the table's text. Sentence case, no final stop, never a secret. */
  readonly message?: string;
  /** Extra XML elements of the error document, `{ ServerTime: "…" }`. */
  readonly details?: Readonly<Record<string, string>>;
  readonly retryAfterSeconds?: number | null;
  readonly cause?: unknown;
  /** A policy's own refusal: its code and status in place of the table's. */
  readonly refused?: { readonly code: string; readonly status: number };
}

/**
 * An answer to the client that is an error: code, status and details of its XML document. The code is
 * one of the table, or one that a policy chose for its refusal.
 */
export class S3Error extends Error {
  override readonly name = "S3Error";
  readonly code: string;
  readonly status: number;
  readonly details: Readonly<Record<string, string>>;
  readonly retryAfterSeconds: number | null;

  constructor(code: S3ErrorCode, options: S3ErrorOptions = {}) {
    const [status, text] = table[code];
    super(options.message ?? text, { cause: options.cause });
    this.code = options.refused?.code ?? code;
    this.status = options.refused?.status ?? status;
    this.details = options.details ?? {};
    this.retryAfterSeconds = options.retryAfterSeconds ?? null;
  }
}

/** Whether a text is one of the codes that Headgate raises. */
export function isS3ErrorCode(text: string): text is S3ErrorCode {
  return Object.hasOwn(table, text);
}
