// What an operation is given and what it gives back. Operations know clusters by id and speak S3
// through the Upstream port; URLs, sockets, signatures and policy are other layers' business.

import type {
  AuditLine,
  BodyTrailer,
  ByteStream,
  CancelSignal,
  Clock,
  ClusterIdentity,
  Log,
  Membership,
  Meter,
  Registry,
  Snapshots,
  Timers,
  Upstream,
  UpstreamIdentity,
} from "../placement/ports.ts";
import type { ProfileFacts } from "../placement/profiles.ts";
import type { BucketPlacement, BucketRecord, Route } from "../placement/records.ts";
import type { Versioned } from "../placement/snapshot.ts";
import type { HandleKeys } from "../placement/upload-handle.ts";
import type { BeginChecksum } from "../s3/checksum.ts";
import type { CopySource } from "../s3/copy-source.ts";
import type { DeleteEntry, Deletion } from "../s3/delete-document.ts";
import type { S3Error } from "../s3/errors.ts";
import type { HeaderList, QueryList } from "../s3/headers.ts";
import type { BucketName, ClusterId, ObjectKey, TenantName } from "../s3/names.ts";
import type { S3Operation } from "../s3/operation.ts";
import type { FormSuccess } from "../s3/post-form.ts";
import type { ListRoom } from "./list-room.ts";
import type { PartSizes } from "./part-sizes.ts";
import type { ShownSettings } from "./shown-settings.ts";
import type { Errands } from "./unfinished.ts";

/** What a bucket should become. */
export interface Resettlement {
  readonly route: Route;
  readonly placement: BucketPlacement | null;
  /**
   * Somebody wants it on one cluster, so what it holds there may stay. Never where it only follows
   * policy: a drain of all but one cluster would keep a bucket there for good.
   */
  readonly gathers: boolean;
  /** Whose request it is; absent: our own. Where a cluster knows its users their keys must sign. */
  readonly identity?: UpstreamIdentity;
  /**
   * What it becomes that for, asked of a cluster while nobody writes to the bucket and before it is gone
   * from any. Whether it is to stay there: `false` where that was refused. Never throws.
   */
  readonly write?: () => Promise<boolean>;
  readonly audit: AuditLine;
}

export type ResettleResult =
  | { readonly kind: "settled"; readonly record: Versioned<BucketRecord> }
  /** What was left behind is not gone on with: it stays where it is. `cause`: what failed, or `null`. */
  | {
      readonly kind: "taken_back";
      readonly record: Versioned<BucketRecord>;
      readonly cause: unknown;
    }
  /** It holds something. */
  | { readonly kind: "busy" }
  /** Somebody else is changing it. */
  | { readonly kind: "contended" }
  /** A member or a cluster does not answer, or the cluster refused the write; nothing was changed. */
  | { readonly kind: "unavailable" };

export type ResettlePorts = Pick<
  OperationPorts,
  "registry" | "upstream" | "facts" | "identity" | "region"
>;

/** Moves empty buckets to another route; resettle.ts. */
export interface Resettling {
  /** The bucket was just seen to hold something, so listing it again is of no use for a while. */
  noteNonEmpty(tenant: TenantName, bucket: BucketName): void;
  /** Whether another attempt is of no use yet: it held something, or the last attempt failed. */
  staysForNow(tenant: TenantName, bucket: BucketName): boolean;
  /** Whether a record has stood in a phase but `settled` so long that its maker is gone. */
  abandoned(entry: Versioned<BucketRecord>): boolean;
  /**
   * Settles an empty bucket on another route. One attempt per bucket and process at a time. What was left
   * behind is ended by it in any case: on that route, or where it is.
   */
  resettle(
    entry: Versioned<BucketRecord>,
    to: Resettlement,
    ports: ResettlePorts,
  ): Promise<ResettleResult>;
}

/** Which cluster takes a body with its checksum behind it (framing-proof.ts). */
interface FramingFacts {
  /** The facts of a cluster that an upload goes to, `takesTrailers` only where it was shown. */
  facts(
    cluster: ClusterId,
    request: OperationRequest,
    ports: Pick<OperationPorts, "upstream" | "facts" | "isShown" | "log">,
  ): Promise<ProfileFacts>;
}

/** Parts that live as long as the process. */
export interface OperationPorts {
  readonly upstream: Upstream;
  readonly snapshots: Snapshots;
  readonly registry: Registry;
  readonly membership: Membership;
  readonly resettler: Resettling;
  readonly facts: (cluster: ClusterId) => ProfileFacts;
  /** Whether one of its answers was looked at, and `facts` would say if it is not what it should be. */
  readonly isShown: (cluster: ClusterId) => boolean;
  /** Whether its answers tell that it is a Ceph RGW, and none that it is something else. */
  readonly isRgw: (cluster: ClusterId) => boolean;
  readonly framing: FramingFacts;
  readonly shownSettings: ShownSettings;
  /** Computes the checksums of what is read here for a cluster to write. */
  readonly beginChecksum: BeginChecksum;
  /** Whose keys sign a caller's requests there; our own are always the cluster's. */
  readonly identity: (cluster: ClusterId) => ClusterIdentity;
  /** The cluster's region, `us-east-1`. */
  readonly region: (cluster: ClusterId) => string;
  /** What GetBucketLocation tells: what the first cluster says, or the id of an only cluster. */
  readonly bucketLocation: "region" | "cluster";
  readonly handleKeys: HandleKeys;
  readonly partSizes: PartSizes;
  /** Memory for what clusters answer to lists. */
  readonly listRoom: ListRoom;
  /** What a request could not finish. */
  readonly unfinished: Errands;
  readonly clock: Clock;
  readonly timers: Timers;
  /** Longer than an upstream can take to carry out what it was asked (Q, placement.md §1). */
  readonly quarantineMs: number;
  readonly meter: Meter;
  readonly log: Log;
}

/** What lists are made with. */
export type ListPorts = Pick<
  OperationPorts,
  "upstream" | "snapshots" | "handleKeys" | "membership" | "listRoom"
>;

/** A request body as the client sends it: verified only when its iteration has ended. */
export interface ClientBody {
  readonly lengthBytes: number;
  /** Lower-case hex SHA-256 that the client signed, or null for an unsigned payload. */
  readonly sha256: string | null;
  /** The client sends it when it is told to: not before the first byte is asked for. */
  readonly waitsForContinue?: boolean;
  /** The checksum that the client sends behind it, verified when the iteration has ended. */
  readonly trailer?: BodyTrailer | null;
  /** Ends by throwing S3Error when the client sends less, stalls or the bytes are not those signed. */
  chunks(options: { readonly verifySha256: boolean }): AsyncIterable<Uint8Array>;
}

/** The file of a form upload, whose form is right up to it. */
export interface FormFile {
  /** The file has at least this many bytes, and at most 64 KiB more. */
  readonly minBytes: number;
  readonly maxBytes: number;
  readonly success: FormSuccess;
  /** Its bytes, once. Ends by throwing S3Error unless the form was right to its end. */
  chunks(): AsyncIterable<Uint8Array>;
}

/** What a copy reads, once the caller may read it, and where it may be. */
export interface PlacedSource extends CopySource {
  /** With the caller's where the request named none. */
  readonly tenant: TenantName;
  readonly record: Versioned<BucketRecord> | null;
  /** Clusters that may hold it, front first. */
  readonly candidates: readonly ClusterId[];
}

/** One authenticated, authorised and placed request. */
export interface OperationRequest {
  readonly operation: S3Operation;
  readonly tenant: TenantName;
  readonly bucket: BucketName | null;
  readonly key: ObjectKey | null;
  /** Without authentication parameters. */
  readonly query: QueryList;
  /** End-to-end fields that may travel upstream. */
  readonly headers: HeaderList;
  readonly body: ClientBody | null;
  readonly record: Versioned<BucketRecord> | null;
  /** Clusters that may hold the key, front first; of the bucket when there is no key. */
  readonly candidates: readonly ClusterId[];
  /** Where a placing request puts its bytes; null when it places none. */
  readonly target: ClusterId | null;
  /** The route a new bucket is settled on; CreateBucket only. */
  readonly route: Route | null;
  /** What a new bucket's record says of its placement: set when policy placed this very request. */
  readonly placement: BucketPlacement | null;
  /** Where CreateBucket asks for the bucket; null or empty: anywhere. */
  readonly locationConstraint: string | null;
  /** What CopyObject and UploadPartCopy read; null for all else. */
  readonly source: PlacedSource | null;
  /** What PostObject uploads; null for all else. */
  readonly form: FormFile | null;
  /** What DeleteObjects names; null for all else. */
  readonly deletion: Deletion | null;
  /** The caller, for records and answers: access key id or `anonymous`. */
  readonly caller: string;
  readonly identity: UpstreamIdentity;
  /** The URL as the client addressed it, `http://127.0.0.1:9000/b/k`, for Location elements. */
  readonly location: string;
  readonly requestId: string;
  /**
   * Re-checks placement when all bytes but the held tail have arrived (placement.md rule 14).
   * Resolves with how to say that the mutation has ended; throws S3Error to refuse.
   */
  readonly commit: () => Promise<() => void>;
  readonly mayShow: (bucket: BucketName) => boolean;
  /** For each entry of DeleteObjects why the caller must not delete it; null where it may. */
  readonly mayDelete: (entries: readonly DeleteEntry[]) => Promise<readonly (S3Error | null)[]>;
  readonly signal: CancelSignal;
}

export interface OperationAnswer {
  readonly status: number;
  readonly headers: HeaderList;
  readonly body: ByteStream | Uint8Array | null;
  /** The cluster that served it; null when merged or answered by us. */
  readonly cluster: ClusterId | null;
  /** The Location field where we write one: that of an upstream names the upstream. */
  readonly location?: string;
  /** Gives back what it holds; to be called once, when it was sent or cannot be. */
  readonly release?: () => void;
}

export type RunOperation = (
  request: OperationRequest,
  ports: OperationPorts,
) => Promise<OperationAnswer>;
