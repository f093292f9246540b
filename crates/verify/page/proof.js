// A proof file: one entry, and that it is in the log that a checkpoint states (C2SP tlog-proof).

import { fromBase64 } from './bytes.js';
import { leafOf, readAround } from './entry.js';
import { Finding, unreadable } from './finding.js';
import { openCheckpoint, statedCheckpoint } from './note.js';
import { verifyInclusion } from './tree.js';

const FORMAT = 'crealeph-proof-v1';
const MAX_PATH = 64;

/**
 * Checks the text of a proof file. Without keys the checkpoint is read without its signature, and `isSigned` is false: that proves that
 * entry and checkpoint belong together, not whose they are.
 */
export async function verifyProof(text, keys) {
  const broken = (why) => unreadable(`the file is not a proof: ${why}`);
  const read = readAround(text);
  if (!read) throw broken('it is not JSON');
  if (!(read.value instanceof Map) || read.value.get('format') !== FORMAT || read.value.size !== 3) {
    throw broken(`it is not of the format ${FORMAT}`);
  }
  if (!read.value.has('entry')) throw broken('it holds no entry');
  const proof = read.value.get('proof');
  if (typeof proof !== 'string') throw broken('it holds no proof');
  const leaf = leafOf(read);
  if (!leaf) throw broken('the entry is not in canonical form');
  const { index, path, note } = readPath(proof, broken);
  const checkpoint = keys.length > 0 ? await openCheckpoint(note, keys) : statedCheckpoint(note);
  if (index + 1 !== leaf.seq) throw new Finding('changed', `the proof is for leaf ${index}, and the entry has sequence number ${leaf.seq}`);
  if (!verifyInclusion(leaf.hash, index, checkpoint.size, path, checkpoint.root)) {
    throw new Finding('changed', 'the entry is not in the log that the checkpoint states: entry or proof was changed', leaf.seq);
  }
  return { ...leaf, checkpoint, isSigned: keys.length > 0 };
}

function readPath(proof, broken) {
  const end = proof.indexOf('\n\n');
  if (end < 0) throw broken('the proof has no checkpoint');
  const [version, place, ...hashes] = proof.slice(0, end).split('\n');
  if (version !== 'c2sp.org/tlog-proof@v1') throw broken('the proof is not a tlog-proof of version 1');
  const index = /^index (0|[1-9][0-9]*)$/.exec(place ?? '');
  if (!index || !Number.isSafeInteger(Number(index[1]))) throw broken('it has no index that is written plainly');
  const path = hashes.map(fromBase64);
  if (path.some((hash) => hash?.length !== 32)) throw broken('a line of its path is not a hash');
  if (path.length > MAX_PATH) throw broken('its path is too long');
  return { index: Number(index[1]), path, note: proof.slice(end + 2) };
}
