// CBOR (RFC 8949), as far as authenticators write it: whole numbers, strings, arrays, maps, tags and simple values.

import { concat, textOf } from './bytes.js';

/** How deep arrays, maps and tags nest at most. */
const MAX_DEPTH = 16;
const BREAK = Symbol('break');

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  raw(length) {
    if (length > this.bytes.length - this.at) throw new Error('it is cut off');
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  /** The number in a head: 24 to 27 say how many bytes follow, 31 that there is no length. */
  argument(low) {
    if (low < 24) return low;
    if (low === 31) return null;
    if (low > 27) throw new Error('it is not CBOR');
    let number = 0;
    for (const byte of this.raw(2 ** (low - 24))) number = number * 256 + byte;
    return number;
  }

  value(depth) {
    const [head] = this.raw(1);
    const [major, low] = [head >> 5, head & 31];
    const argument = this.argument(low);
    if (argument === null && (major < 2 || major === 6)) throw new Error('it is not CBOR');
    if (major === 0) return argument;
    if (major === 1) return -1 - argument;
    if (major === 2) return this.string(argument, 2);
    if (major === 3) return textOf(this.string(argument, 3));
    if (major === 7) return argument === null ? BREAK : { simple: low, argument };
    if (depth >= MAX_DEPTH) throw new Error('it nests too deep');
    if (major === 6) return { tag: argument, value: this.one(depth + 1) };
    if (major === 4) return this.list(argument, () => this.one(depth + 1), depth);
    return { map: this.list(argument, (key) => [key ?? this.one(depth + 1), this.one(depth + 1)], depth) };
  }

  one(depth) {
    const value = this.value(depth);
    if (value === BREAK) throw new Error('it ends where a value must be');
    return value;
  }

  string(length, major) {
    if (length !== null) return this.raw(length);
    const parts = [];
    for (;;) {
      const [head] = this.raw(1);
      if (head === 0xff) return concat(...parts);
      if (head >> 5 !== major || (head & 31) === 31) throw new Error('a chunk of a string has another type');
      parts.push(this.raw(this.argument(head & 31)));
    }
  }

  list(length, element, depth) {
    const elements = [];
    if (length !== null) {
      for (let at = 0; at < length; at += 1) elements.push(element());
      return elements;
    }
    for (;;) {
      const isMap = element.length === 1;
      const first = this.value(depth + 1);
      if (first === BREAK) return elements;
      elements.push(isMap ? element(first) : first);
    }
  }
}

/** The first value of some bytes, and where it ends. Maps are `{ map: pairs }`. Throws an Error. */
export function readCbor(bytes) {
  const reader = new Reader(bytes);
  const value = reader.one(0);
  return { value, end: reader.at };
}
