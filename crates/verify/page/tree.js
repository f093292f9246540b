// Merkle trees of RFC 6962: SHA-256, a zero byte before a leaf, a one before two children.

import { concat, equal } from './bytes.js';
import { sha256 } from './sha256.js';

const LEAF = Uint8Array.of(0);
const NODE = Uint8Array.of(1);

export function leafHash(record) {
  return sha256(concat(LEAF, record));
}

function nodeHash(left, right) {
  return sha256(concat(NODE, left, right));
}

/** A tree that leaves are added to; it keeps the roots of its whole subtrees, largest first. */
export class Tree {
  constructor() {
    this.size = 0;
    this.subtrees = [];
  }

  add(leaf) {
    let hash = leaf;
    // One subtree is completed for each one bit that the count loses.
    for (let count = this.size; count % 2 === 1; count = Math.floor(count / 2)) hash = nodeHash(this.subtrees.pop(), hash);
    this.subtrees.push(hash);
    this.size += 1;
  }

  root() {
    let root = null;
    for (const subtree of this.subtrees.toReversed()) root = root ? nodeHash(subtree, root) : subtree;
    return root ?? sha256(new Uint8Array());
  }
}

/** The largest power of two below a count of at least 2. */
function split(count) {
  let left = 1;
  while (left * 2 < count) left *= 2;
  return left;
}

/** Whether the path leads from the leaf at `index` to the root of a tree of `size` leaves: MTH of the definition, from the outside in. */
export function verifyInclusion(leaf, index, size, path, root) {
  if (!(index < size)) return false;
  const sides = [];
  for (let at = index, count = size; count > 1; ) {
    const left = split(count);
    const isLeft = at < left;
    sides.push(isLeft);
    [at, count] = isLeft ? [at, left] : [at - left, count - left];
  }
  if (sides.length !== path.length) return false;
  let hash = leaf;
  for (const [step, isLeft] of sides.toReversed().entries()) {
    hash = isLeft ? nodeHash(hash, path[step]) : nodeHash(path[step], hash);
  }
  return equal(hash, root);
}

/** Whether the path shows that a tree of `older` leaves is the beginning of one of `newer`: SUBPROOF of the definition. */
export function verifyConsistency(older, newer, path, olderRoot, newerRoot) {
  if (older > newer) return false;
  if (older === newer) return path.length === 0 && equal(olderRoot, newerRoot);
  if (older === 0) return path.length === 0 && equal(olderRoot, sha256(new Uint8Array()));
  const rest = [...path];
  /** The roots of the old and the new part of `count` leaves, of which `old` are old; `isWhole` while that is the old tree itself. */
  const roots = (old, count, isWhole) => {
    if (old === count) {
      const known = isWhole ? olderRoot : rest.shift();
      return known && [known, known];
    }
    const left = split(count);
    if (old <= left) {
      const inner = roots(old, left, isWhole);
      const beside = rest.shift();
      return inner && beside && [inner[0], nodeHash(inner[1], beside)];
    }
    const inner = roots(old - left, count - left, false);
    const beside = rest.shift();
    return inner && beside && [nodeHash(beside, inner[0]), nodeHash(beside, inner[1])];
  };
  const found = roots(older, newer, true);
  return Boolean(found) && rest.length === 0 && equal(found[0], olderRoot) && equal(found[1], newerRoot);
}
