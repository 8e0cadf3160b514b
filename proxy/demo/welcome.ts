// What a new user reads at `npm start`: where things listen, lines to paste, and what is not kept.

import type { EmbeddedCluster } from "./embedded.ts";

export interface WelcomeOptions {
  /** `http://127.0.0.1:9000`. */
  readonly endpoint: string;
  /** `http://127.0.0.1:9001`, or `null` without an admin listener. */
  readonly adminUrl: string | null;
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly clusters: readonly Pick<EmbeddedCluster, "id" | "weight">[];
}

/** The greeting, ending with a line feed. Every command in it works as it stands. */
export function welcomeText(options: WelcomeOptions): string {
  const { endpoint, adminUrl, accessKeyId, secretAccessKey, clusters } = options;
  const weights = clusters.map(({ id, weight }) => `${id} (weight ${weight})`).join(", ");
  const curl = [
    "  curl --aws-sigv4 aws:amz:us-east-1:s3",
    `--user ${accessKeyId}:${secretAccessKey}`,
    "-H 'x-amz-content-sha256: UNSIGNED-PAYLOAD'",
  ].join(" ");
  return `${[
    `Headgate serves S3 on ${endpoint}${adminUrl === null ? "" : `, its admin API on ${adminUrl}`}.`,
    `Behind it: embedded clusters ${weights}.`,
    "Everything is kept in memory: objects and settings are gone when this process ends.",
    "Ctrl-C ends it as in production, after shutdown.delay; a second Ctrl-C ends it at once.",
    "",
    "Try it from another terminal. aws-cli:",
    `  export AWS_ACCESS_KEY_ID=${accessKeyId} AWS_SECRET_ACCESS_KEY=${secretAccessKey}`,
    "  export AWS_DEFAULT_REGION=us-east-1",
    `  aws --endpoint-url ${endpoint} s3 mb s3://hello`,
    `  echo hello | aws --endpoint-url ${endpoint} s3 cp - s3://hello/greeting.txt`,
    `  aws --endpoint-url ${endpoint} s3 ls s3://hello`,
    "",
    "boto3, with the same variables:",
    `  python3 -c 'import boto3; s3 = boto3.client("s3", endpoint_url="${endpoint}"); print(s3.get_object(Bucket="hello", Key="greeting.txt")["Body"].read())'`,
    "",
    "curl:",
    `${curl} -T /etc/hostname ${endpoint}/hello/hostname`,
    `${curl} ${endpoint}/hello/hostname`,
    "",
    ...(adminUrl === null
      ? []
      : ["Take a cluster out of writing and back:", ...drainLines(adminUrl), ""]),
    "",
  ]
    .join("\n")
    .trimEnd()}\n`;
}

function drainLines(adminUrl: string): readonly string[] {
  const post = "  curl -X POST -H 'content-type: application/json'";
  return [
    `${post} -d '{"mode":"readonly"}' ${adminUrl}/admin/v1/clusters/c/drain`,
    `${post} -d '{}' ${adminUrl}/admin/v1/clusters/c/undrain`,
  ];
}
