// How commands end: a contract with scripts; control.md (b).

export const exitCodes = {
  ok: 0,
  failed: 1,
  usage: 2,
  notFound: 4,
  conflict: 5,
  unreachable: 6,
  notReady: 7,
} as const;
