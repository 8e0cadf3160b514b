// How a test starts a process that must run as it would outside tap. tap patches child_process so that
// every Node process below it loads tap's own loaders through NODE_OPTIONS; `env -u` takes that away
// and then becomes the command itself, so the process id stays the right one.

/** `["env", ["-u", "NODE_OPTIONS", command, …]]`, for spawn. */
export function plainCommand(command: string, args: readonly string[]): [string, string[]] {
  return ["env", ["-u", "NODE_OPTIONS", command, ...args]];
}
