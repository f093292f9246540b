// Passkeys (Web Authentication, level 3): the claims of a browser and an authenticator, from their bytes. ES256, EdDSA with
// Ed25519, and RS256. The maker of an authenticator is not judged.

import { base64url, concat, equal, fromBase64url, textOf, utf8 } from './bytes.js';
import { readCbor } from './cbor.js';
import { forged } from './finding.js';
import { JsonFault, parseJson } from './json.js';
import { isWeakEd25519, verifyEcdsa, verifyEd25519, verifyRsa } from './signature.js';
import { sha256 } from './sha256.js';

const MAX_CREDENTIAL_BYTES = 1023;
const FLAGS = { present: 0x01, verified: 0x04, copyable: 0x08, copied: 0x10, attested: 0x40, extended: 0x80 };

function unproved(why) {
  return forged(`is not proved: ${why}`);
}

/** The bytes after a CBOR map that must be at the start. */
function afterMap(bytes, what) {
  let read;
  try {
    read = readCbor(bytes);
  } catch (error) {
    throw unproved(`${what} is not CBOR: ${error.message}`);
  }
  if (!read.value?.map) throw unproved(`${what} is not a CBOR map`);
  return { pairs: read.value.map, rest: bytes.subarray(read.end), written: bytes.subarray(0, read.end) };
}

function authenticatorData(bytes) {
  if (bytes.length < 37) throw unproved('the authenticator data is cut off');
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const data = { partyHash: bytes.subarray(0, 32), flags: bytes[32], counter: view.getUint32(33), credentialId: null, publicKey: null };
  let rest = bytes.subarray(37);
  if (data.flags & FLAGS.attested) {
    const length = rest.length < 18 ? 0 : rest[16] * 256 + rest[17];
    if (length < 1 || length > MAX_CREDENTIAL_BYTES || rest.length < 18 + length) throw unproved('the credential id is not of 1 to 1,023 bytes');
    data.credentialId = rest.subarray(18, 18 + length);
    const key = afterMap(rest.subarray(18 + length), 'the public key');
    data.publicKey = key.written;
    rest = key.rest;
  }
  if (data.flags & FLAGS.extended) rest = afterMap(rest, 'the extensions').rest;
  if (rest.length > 0) throw unproved('the authenticator data goes on after its end');
  return data;
}

/** The key of a COSE_Key, which has exactly the members of its algorithm. */
function publicKeyOf(bytes) {
  const { pairs } = afterMap(bytes, 'the public key');
  const members = new Map(pairs);
  const is = (values) => Object.entries(values).every(([label, value]) => members.get(Number(label)) === value);
  const has = (label, length) => members.get(label) instanceof Uint8Array && (!length || members.get(label).length === length);
  let key = null;
  if (is({ 1: 2, 3: -7, '-1': 1 }) && has(-2, 32) && has(-3, 32)) {
    key = { algorithm: 'ES256', point: concat(Uint8Array.of(4), members.get(-2), members.get(-3)), count: 5 };
  } else if (is({ 1: 1, 3: -8, '-1': 6 }) && has(-2, 32) && !isWeakEd25519(members.get(-2))) {
    key = { algorithm: 'EdDSA', publicKey: members.get(-2), count: 4 };
  } else if (is({ 1: 3, 3: -257 }) && has(-1) && has(-2)) {
    key = { algorithm: 'RS256', modulus: members.get(-1), exponent: members.get(-2), count: 4 };
  }
  if (!key || pairs.length !== key.count) throw unproved('the passkey has an algorithm that is not taken, or is not a key of it');
  return key;
}

/** The passkey in an attestation object. Throws a Finding. */
export function readNewPasskey(object) {
  const { pairs, rest } = afterMap(object, 'the attestation object');
  const found = pairs.filter(([name]) => name === 'authData');
  if (rest.length > 0 || found.length !== 1 || !(found[0][1] instanceof Uint8Array)) throw unproved('the attestation object has no `authData`');
  const data = authenticatorData(found[0][1]);
  if (!data.credentialId) throw unproved('the attestation object holds no new key');
  const keyId = `passkey:${base64url(sha256(data.publicKey))}`;
  return { data, keyId, credentialId: data.credentialId, publicKey: data.publicKey, key: publicKeyOf(data.publicKey) };
}

/** Checks that a passkey was made for a statement on a page of an origin. */
export function checkNewPasskey(made, statement, origin, clientData) {
  checkClientData(clientData, 'webauthn.create', statement, origin);
  checkData(made.data, origin);
}

/** Checks that a passkey has proved a statement. Returns the count of its signatures. Throws a Finding. */
export async function verifyAssertion(passkey, statement, assertion, signature) {
  const bytes = (name) => fromBase64url(assertion.get(name));
  if (!equal(bytes('credentialId'), passkey.credentialId)) throw unproved('it is by another passkey than the statement names');
  const [clientData, written] = [bytes('clientDataJson'), bytes('authenticatorData')];
  checkClientData(clientData, 'webauthn.get', statement, passkey.origin);
  const data = authenticatorData(written);
  checkData(data, passkey.origin);
  const raw = fromBase64url(signature);
  if (!raw) throw unproved('the signature is not base64url without padding');
  const message = concat(written, sha256(clientData));
  if (!(await hasSigned(passkey.key, raw, message))) throw unproved('the signature does not match');
  return data.counter;
}

async function hasSigned(key, signature, message) {
  if (key.algorithm === 'EdDSA') return verifyEd25519(key.publicKey, signature, message);
  if (key.algorithm === 'RS256') return verifyRsa(key.modulus, key.exponent, signature, message);
  const pair = fromDer(signature);
  return pair !== null && verifyEcdsa('P-256', key.point, pair, message);
}

/** The two numbers of an ECDSA signature on P-256, each of 32 bytes; null if it is not DER. */
function fromDer(bytes) {
  if (bytes[0] !== 0x30 || bytes[1] !== bytes.length - 2) return null;
  const numbers = [];
  let at = 2;
  for (let count = 0; count < 2; count += 1) {
    const [tag, length, first, second] = bytes.subarray(at);
    const isShortest = length > 0 && first < 0x80 && !(first === 0 && length > 1 && second < 0x80);
    const digits = bytes.subarray(at + 2 + (first === 0 ? 1 : 0), at + 2 + length);
    if (tag !== 2 || !isShortest || at + 2 + length > bytes.length || digits.length > 32) return null;
    numbers.push(concat(new Uint8Array(32 - digits.length), digits));
    at += 2 + length;
  }
  return at === bytes.length ? concat(...numbers) : null;
}

function checkClientData(bytes, purpose, statement, origin) {
  let data;
  try {
    data = parseJson(textOf(bytes)).value;
  } catch (error) {
    if (error instanceof JsonFault || error instanceof TypeError) throw unproved('the client data is not JSON');
    throw error;
  }
  const member = (name) => (data instanceof Map ? data.get(name) : undefined);
  if (member('type') !== purpose) throw unproved(`the browser was asked for something else than \`${purpose}\``);
  if (member('challenge') !== base64url(sha256(utf8(statement)))) throw unproved('the passkey was asked about another statement');
  if (member('origin') !== origin) throw unproved(`the page that asked is not at \`${origin}\``);
  const isFramed = member('crossOrigin') ?? false;
  if (isFramed !== false || member('crossOrigin') === null || member('topOrigin') !== undefined) {
    throw unproved('the page that asked was inside a page of another site');
  }
}

function checkData(data, origin) {
  const [party] = origin.slice(origin.indexOf('://') + 3).split(':');
  const has = (flag) => (data.flags & flag) !== 0;
  if (!equal(data.partyHash, sha256(utf8(party)))) throw unproved(`the authenticator answered for another relying party than \`${party}\``);
  if (!has(FLAGS.present)) throw unproved('no one touched the authenticator');
  if (!has(FLAGS.verified)) throw unproved('the authenticator saw no PIN, face or finger');
  if (has(FLAGS.copied) && !has(FLAGS.copyable)) throw unproved('the passkey is backed up and cannot be');
}
