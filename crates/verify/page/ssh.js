// SSH keys of people and their signatures: SSHSIG as OpenSSH's PROTOCOL.sshsig defines it, with Ed25519, ECDSA on P-256 and P-384,
// and the hardware keys `sk-ssh-ed25519` and `sk-ecdsa`.

import { base64, concat, equal, fromBase64, textOf, utf8 } from './bytes.js';
import { isWeakEd25519, verifyEcdsa, verifyEd25519 } from './signature.js';
import { forged } from './finding.js';
import { sha256 } from './sha256.js';

const MAX_TEXT_BYTES = 16 << 10;
const USER_PRESENT = 0x01;
const USER_VERIFIED = 0x04;
const CURVES = {
  nistp256: { name: 'P-256', bytes: 32 },
  nistp384: { name: 'P-384', bytes: 48 },
};

/** Reads the length-prefixed fields of SSH's binary form. */
class Fields {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  raw(length) {
    if (this.at + length > this.bytes.length) throw new Error('it is cut off');
    this.at += length;
    return this.bytes.subarray(this.at - length, this.at);
  }

  number() {
    const field = this.raw(4);
    return new DataView(field.buffer, field.byteOffset, 4).getUint32(0);
  }

  field() {
    return this.raw(this.number());
  }

  word() {
    return textOf(this.field());
  }

  /** A number from 0 that fits into so many bytes, at that length. */
  integer(length) {
    let value = this.field();
    if (value[0] >= 0x80) throw new Error('a number of the signature is negative');
    if (value[0] === 0) value = value.subarray(1);
    if (value.length > length) throw new Error('a number of the signature is too large');
    return concat(new Uint8Array(length - value.length), value);
  }

  end() {
    if (this.at !== this.bytes.length) throw new Error('something follows its end');
  }
}

function field(bytes) {
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, bytes.length);
  return concat(length, bytes);
}

/** The parts of a public key in binary form; throws an Error that says why it is not accepted. */
function keyParts(blob) {
  const fields = new Fields(blob);
  const algorithm = fields.word();
  const isHardware = algorithm.startsWith('sk-');
  const parts = { algorithm, isHardware };
  if (algorithm === 'ssh-ed25519' || algorithm === 'sk-ssh-ed25519@openssh.com') {
    parts.publicKey = fields.field();
    if (parts.publicKey.length !== 32) throw new Error('the key is not 32 bytes long');
    if (isWeakEd25519(parts.publicKey)) throw new Error('it is a weak key: anyone could forge its signatures');
  } else if (/^(ecdsa-sha2-nistp(256|384)|sk-ecdsa-sha2-nistp256@openssh\.com)$/.test(algorithm)) {
    const curve = fields.word();
    parts.curve = CURVES[curve];
    parts.publicKey = fields.field();
    if (!algorithm.includes(curve) || parts.publicKey.length !== 1 + 2 * parts.curve.bytes || parts.publicKey[0] !== 4) {
      throw new Error('the key is not an uncompressed point of its curve');
    }
  } else {
    throw new Error(`it is a key of type ${algorithm}`);
  }
  if (isHardware) parts.application = fields.field();
  fields.end();
  return parts;
}

/** A person's key from its one line without a comment. Throws an Error that says why it is not accepted. */
export function parsePersonKey(line) {
  const [algorithm, encoded, ...more] = line.split(' ');
  const blob = line.length <= MAX_TEXT_BYTES && encoded ? fromBase64(encoded) : null;
  if (!blob || more.length > 0) throw new Error('it is not an OpenSSH public key in its plain form');
  const parts = keyParts(blob);
  if (parts.algorithm !== algorithm) throw new Error('it says another algorithm than it has');
  const fingerprint = `SHA256:${base64(sha256(blob)).replace(/=+$/, '')}`;
  return { ...parts, blob, fingerprint };
}

/** The binary form of an armoured signature. */
function unarmoured(armoured) {
  const found = /^\s*-----BEGIN SSH SIGNATURE-----\r?\n([\s\S]*?)\r?\n-----END SSH SIGNATURE-----(\r?\n)?$/.exec(armoured);
  const bytes = found && armoured.length <= MAX_TEXT_BYTES ? fromBase64(found[1].replaceAll(/\r?\n/g, '')) : null;
  if (!bytes) throw new Error('it is not armoured');
  return bytes;
}

function readSignature(armoured) {
  try {
    const fields = new Fields(unarmoured(armoured));
    if (textOf(fields.raw(6)) !== 'SSHSIG' || fields.number() !== 1) throw new Error('it is not of version 1');
    const read = {
      publicKey: fields.field(),
      namespace: fields.word(),
      reserved: fields.field(),
      hash: fields.word(),
      signature: fields.field(),
    };
    fields.end();
    if (read.hash !== 'sha256' && read.hash !== 'sha512') throw new Error(`it uses the hash ${read.hash}`);
    return read;
  } catch (error) {
    throw forged(`is not proved: it is not an SSH signature: ${error.message}`);
  }
}

/**
 * Checks that a key has signed a message for a namespace. Returns the count of a hardware key's signatures, null for other keys.
 * Throws a Finding.
 */
export async function verifySshSignature(key, namespace, message, armoured) {
  const read = readSignature(armoured);
  if (read.namespace !== namespace) {
    throw forged(`is not proved: the signature is for the namespace \`${read.namespace.slice(0, 60)}\`, and \`${namespace}\` is needed`);
  }
  if (!equal(read.publicKey, key.blob)) throw forged(`is not proved: the signature is by another key, not by ${key.fingerprint}`);
  const algorithm = read.hash === 'sha256' ? 'SHA-256' : 'SHA-512';
  const hashed = new Uint8Array(await crypto.subtle.digest(algorithm, message));
  const signed = concat(utf8('SSHSIG'), field(utf8(namespace)), field(read.reserved), field(utf8(read.hash)), field(hashed));
  let facts;
  try {
    facts = await checkSignature(key, read.signature, signed);
  } catch (error) {
    if (error instanceof RangeError || error.constructor === Error) throw forged(`is not proved: ${error.message}`);
    throw error;
  }
  if (!facts.holds) throw forged('is not proved: the signature does not match the statement: one of them was changed, or it was made over another text');
  if (key.isHardware && !(facts.flags & USER_PRESENT)) throw forged('is not proved: no one touched the hardware key when it signed');
  return { counter: facts.counter, isUserVerified: Boolean(facts.flags & USER_VERIFIED) };
}

async function checkSignature(key, blob, signed) {
  const fields = new Fields(blob);
  if (fields.word() !== key.algorithm) throw new Error('the signature is of another kind than the key');
  const raw = fields.field();
  let [message, flags, counter] = [signed, 0, null];
  if (key.isHardware) {
    const trailer = fields.raw(5);
    flags = trailer[0];
    counter = new DataView(trailer.buffer, trailer.byteOffset + 1, 4).getUint32(0);
    message = concat(sha256(key.application), trailer, sha256(signed));
  }
  fields.end();
  if (!key.curve) return { holds: await verifyEd25519(key.publicKey, raw, message), flags, counter };
  const numbers = new Fields(raw);
  const pair = concat(numbers.integer(key.curve.bytes), numbers.integer(key.curve.bytes));
  numbers.end();
  return { holds: await verifyEcdsa(key.curve.name, key.publicKey, pair, message), flags, counter };
}
