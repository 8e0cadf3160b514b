// Freezes a value with all that it holds, so that code which writes to its input throws. A Map or Set
// cannot be frozen by the language: its writing methods are replaced on the instance.

function refuse(): never {
  throw new TypeError("Cannot write to a frozen collection");
}

/** Freezes in place and gives the value back. Functions and buffers stay as they are. */
export function deepFreeze<T>(value: T): T {
  freeze(value, new Set());
  return value;
}

function freeze(value: unknown, seen: Set<object>): void {
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return;
  if (seen.has(value)) return;
  seen.add(value);
  if (value instanceof Map || value instanceof Set) {
    for (const [key, held] of value.entries()) {
      freeze(key, seen);
      freeze(held, seen);
    }
    for (const name of ["set", "add", "delete", "clear"]) {
      Object.defineProperty(value, name, { value: refuse });
    }
  }
  for (const key of Reflect.ownKeys(value)) freeze(Reflect.get(value, key), seen);
  Object.freeze(value);
}
