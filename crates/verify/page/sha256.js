// SHA-256 (FIPS 180-4). WebCrypto has it too, but only asynchronously, and a tree of 100,000 leaves would wait 200,000 times.

/** The first 32 bits of the fractional part of a root of the first primes. */
function fractions(count, power) {
  const primes = [];
  for (let number = 2; primes.length < count; number += 1) if (primes.every((prime) => number % prime !== 0)) primes.push(number);
  return Uint32Array.from(primes, (prime) => root(BigInt(prime) << BigInt(32 * power), BigInt(power)));
}

/** The last 32 bits of the whole root: a double does not have enough of them. */
function root(value, power) {
  let [low, high] = [0n, 1n << 40n];
  while (high - low > 1n) {
    const middle = (low + high) >> 1n;
    if (middle ** power <= value) low = middle;
    else high = middle;
  }
  return Number(low & 0xffffffffn);
}

const INITIAL = fractions(8, 2);
const ROUND = fractions(64, 3);
const BLOCK = 64;

const words = new Uint32Array(64);

const turn = (word, by) => (word >>> by) | (word << (32 - by));

function compress(state, view, at) {
  for (let step = 0; step < 16; step += 1) words[step] = view.getUint32(at + step * 4);
  for (let step = 16; step < 64; step += 1) {
    const early = words[step - 15];
    const late = words[step - 2];
    const one = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
    const other = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
    words[step] = words[step - 16] + one + words[step - 7] + other;
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let step = 0; step < 64; step += 1) {
    const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[step] + words[step]) | 0;
    const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + first) | 0;
    d = c;
    c = b;
    b = a;
    a = (first + second) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((value, place) => {
    state[place] += value;
  });
}

/** The SHA-256 hash of bytes. */
export function sha256(bytes) {
  const padded = new Uint8Array(Math.ceil((bytes.length + 9) / BLOCK) * BLOCK);
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor((bytes.length * 8) / 2 ** 32));
  view.setUint32(padded.length - 4, (bytes.length * 8) % 2 ** 32);
  const state = Uint32Array.from(INITIAL);
  for (let at = 0; at < padded.length; at += BLOCK) compress(state, view, at);
  const digest = new Uint8Array(32);
  const out = new DataView(digest.buffer);
  state.forEach((word, place) => out.setUint32(place * 4, word));
  return digest;
}
