// BLAKE3 of a whole message, after the paper (O'Connor, Aumasson, Neves, Wilcox-O'Hearn, 2020). No key, 32 bytes out.

const INITIAL = Uint32Array.of(
  0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
);
const PERMUTATION = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
const ROUNDS = 7;
const BLOCK = 64;
const CHUNK = 1024;
const CHUNK_START = 1;
const CHUNK_END = 2;
const PARENT = 4;
const ROOT = 8;

/** For each round, the position of each message word. */
const SCHEDULE = [Array.from({ length: 16 }, (_, at) => at)];
for (let round = 1; round < ROUNDS; round += 1) SCHEDULE.push(PERMUTATION.map((at) => SCHEDULE[round - 1][at]));

const state = new Uint32Array(16);
const words = new Uint32Array(16);

function mix(a, b, c, d, x, y) {
  state[a] += state[b] + x;
  let turned = state[d] ^ state[a];
  state[d] = (turned >>> 16) | (turned << 16);
  state[c] += state[d];
  turned = state[b] ^ state[c];
  state[b] = (turned >>> 12) | (turned << 20);
  state[a] += state[b] + y;
  turned = state[d] ^ state[a];
  state[d] = (turned >>> 8) | (turned << 24);
  state[c] += state[d];
  turned = state[b] ^ state[c];
  state[b] = (turned >>> 7) | (turned << 25);
}

/** The next chaining value, from `words`. */
function compress(chaining, counter, length, flags) {
  state.set(chaining);
  state.set(INITIAL.subarray(0, 4), 8);
  state[12] = counter >>> 0;
  state[13] = Math.floor(counter / 2 ** 32);
  state[14] = length;
  state[15] = flags;
  for (const order of SCHEDULE) {
    mix(0, 4, 8, 12, words[order[0]], words[order[1]]);
    mix(1, 5, 9, 13, words[order[2]], words[order[3]]);
    mix(2, 6, 10, 14, words[order[4]], words[order[5]]);
    mix(3, 7, 11, 15, words[order[6]], words[order[7]]);
    mix(0, 5, 10, 15, words[order[8]], words[order[9]]);
    mix(1, 6, 11, 12, words[order[10]], words[order[11]]);
    mix(2, 7, 8, 13, words[order[12]], words[order[13]]);
    mix(3, 4, 9, 14, words[order[14]], words[order[15]]);
  }
  const next = new Uint32Array(8);
  for (let at = 0; at < 8; at += 1) next[at] = state[at] ^ state[at + 8];
  return next;
}

/** Reads a block into `words`, little-endian; missing bytes count as zero. */
function load(bytes, from, to) {
  words.fill(0);
  for (let at = from; at < to; at += 1) words[(at - from) >>> 2] |= bytes[at] << (8 * ((at - from) & 3));
}

function chunkValue(bytes, number, extra) {
  const start = number * CHUNK;
  const end = Math.min(start + CHUNK, bytes.length);
  let chaining = INITIAL;
  let flags = CHUNK_START;
  for (let at = start; ; at += BLOCK) {
    const stop = Math.min(at + BLOCK, end);
    const isLast = at + BLOCK >= end;
    if (isLast) flags |= CHUNK_END | extra;
    load(bytes, at, stop);
    chaining = compress(chaining, number, stop - at, flags);
    if (isLast) return chaining;
    flags = 0;
  }
}

/** The value of `count` chunks from `first` on. The left half of a tree is the largest power of two that leaves a rest. */
function treeValue(bytes, first, count, extra) {
  if (count === 1) return chunkValue(bytes, first, extra);
  let left = 1;
  while (left * 2 < count) left *= 2;
  const one = treeValue(bytes, first, left, 0);
  const other = treeValue(bytes, first + left, count - left, 0);
  words.set(one);
  words.set(other, 8);
  return compress(INITIAL, 0, BLOCK, PARENT | extra);
}

/** The BLAKE3 hash of bytes. */
export function blake3(bytes) {
  const value = treeValue(bytes, 0, Math.max(1, Math.ceil(bytes.length / CHUNK)), ROOT);
  const digest = new Uint8Array(32);
  const view = new DataView(digest.buffer);
  value.forEach((word, at) => view.setUint32(at * 4, word, true));
  return digest;
}
