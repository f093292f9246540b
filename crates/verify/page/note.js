// Verifier keys, signed notes and checkpoints, as C2SP defines them (signed-note, tlog-checkpoint).

import { concat, equal, fromBase64, hex, utf8 } from './bytes.js';
import { verifyEd25519 } from './signature.js';
import { forged, Finding, unreadable } from './finding.js';
import { sha256 } from './sha256.js';

const ED25519 = 1;
const MAX_NOTE_BYTES = 1 << 20;
const MAX_SIGNATURES = 100;

/** A key as `crealeph ledger key` and `crealeph work key` print it: `name+id+key`. Throws an Error that says what is wrong. */
export function parseKey(text) {
  const [name, id, ...rest] = text.replace(/\n+$/, '').split('+');
  const encoded = rest.join('+');
  if (id === undefined || rest.length === 0) throw new Error('a verifier key is `name+id+key`, as `crealeph ledger key` prints it');
  if (!isName(name)) throw new Error("the key's name is empty, or holds a space or a `+`");
  const typed = fromBase64(encoded);
  if (!typed) throw new Error('a verifier key is `name+id+key`, as `crealeph ledger key` prints it');
  if (typed[0] !== ED25519 || typed.length !== 33) throw new Error('the key is not an Ed25519 key');
  const expected = sha256(concat(utf8(`${name}\n`), typed)).subarray(0, 4);
  if (hex(expected) !== id) throw new Error("the key's id does not match its name and key; it was copied wrongly, or changed");
  return { name, id: expected, idText: `${name}+${id}`, publicKey: typed.subarray(1) };
}

/** Keys, one on each line; empty lines are left out. */
export function parseKeys(text) {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '').map(parseKey);
}

function isName(name) {
  return name !== '' && !/[\s\u0085+]/.test(name);
}

function noteParts(note) {
  const broken = (why) => unreadable(`the text is not a signed note: ${why}`);
  if (utf8(note).length > MAX_NOTE_BYTES) throw broken('it is too long');
  if (/[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/.test(note)) throw broken('it holds a control character');
  const blank = note.lastIndexOf('\n\n');
  if (blank < 0) throw broken('it has no blank line');
  if (!note.endsWith('\n') || blank + 2 >= note.length) throw broken('its last line has no line feed');
  const lines = note.slice(blank + 2, -1).split('\n');
  if (lines.length > MAX_SIGNATURES) throw broken('it has too many signatures');
  const signatures = lines.map((line) => {
    const found = /^\u2014 ([^ ]+) ([^ ]+)$/.exec(line);
    const bytes = found && isName(found[1]) ? fromBase64(found[2]) : null;
    if (!bytes || bytes.length <= 4) throw broken('a signature line is broken');
    return { name: found[1], id: bytes.subarray(0, 4), signature: bytes.subarray(4) };
  });
  return { text: note.slice(0, blank + 1), signatures };
}

/** The statement of a checkpoint. */
function checkpointOf(text) {
  const broken = (why) => unreadable(`the note is not a checkpoint: ${why}`);
  const [origin, size, root] = text.split('\n');
  if (root === undefined) throw broken('it has fewer than three lines');
  if (origin === '') throw broken('it names no log');
  if (!/^(0|[1-9][0-9]*)$/.test(size) || !Number.isSafeInteger(Number(size))) throw broken('its size is not a number, or not written plainly');
  const hash = fromBase64(root);
  if (hash?.length !== 32) throw broken('its root is not a hash');
  return { origin, size: Number(size), root: hash };
}

/**
 * A checkpoint that one of the keys has signed for its own log. A signature of a known key that does not match is a finding, and so
 * is a checkpoint that no known key has signed (`unsigned`).
 */
export async function openCheckpoint(note, keys) {
  const { text, signatures } = noteParts(note);
  const signers = [];
  for (const { name, id, signature } of signatures) {
    const key = keys.find((known) => known.name === name && equal(known.id, id));
    if (!key) continue;
    if (!(await verifyEd25519(key.publicKey, signature, utf8(text)))) {
      throw forged(`the signature of \`${name}\` is forged, or the text was changed`);
    }
    signers.push(key.name);
  }
  if (signers.length === 0) {
    const names = signatures.map(({ name }) => `\`${name}\``).join(', ');
    throw new Finding('unsigned', `no known key has signed the note; it is signed as ${names}`);
  }
  const checkpoint = checkpointOf(text);
  if (!signers.includes(checkpoint.origin)) {
    throw unreadable(`the checkpoint is of the log \`${checkpoint.origin}\`, and the key is for \`${signers.join(', ')}\``);
  }
  return checkpoint;
}

/** The statement of a checkpoint, whichever key signed it; it must at least be signed in the name of its log. */
export function statedCheckpoint(note) {
  const { text, signatures } = noteParts(note);
  const checkpoint = checkpointOf(text);
  if (!signatures.some(({ name }) => name === checkpoint.origin)) {
    throw forged(`the checkpoint has no signature as \`${checkpoint.origin}\`, which it is a statement of`);
  }
  return checkpoint;
}
