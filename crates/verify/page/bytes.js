// Bytes and their texts: UTF-8, hexadecimal, base64 in its one canonical form.

const encoder = new TextEncoder();
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The UTF-8 bytes of a string. */
export function utf8(text) {
  return encoder.encode(text);
}

/** The string of UTF-8 bytes, a byte order mark included; throws on anything that is not UTF-8. */
export function textOf(bytes) {
  return decoder.decode(bytes);
}

export function concat(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export function equal(one, other) {
  return one.length === other.length && one.every((byte, at) => byte === other[at]);
}

const PAIRS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

export function hex(bytes) {
  let digits = '';
  for (const byte of bytes) digits += PAIRS[byte];
  return digits;
}

/** Standard base64 with padding. */
export function base64(bytes) {
  let binary = '';
  for (let at = 0; at < bytes.length; at += 0x8000) binary += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(binary);
}

/** The bytes of standard base64 with padding; null for any other text, white space and stray bits included. */
export function fromBase64(text) {
  if (text.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  const binary = atob(text);
  const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
  return btoa(binary) === text ? bytes : null;
}

/** Base64url without padding. */
export function base64url(bytes) {
  return base64(bytes).replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

/** The bytes of base64url without padding; null for any other text. */
export function fromBase64url(text) {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) return null;
  const standard = text.replaceAll('-', '+').replaceAll('_', '/');
  return fromBase64(standard.padEnd(Math.ceil(standard.length / 4) * 4, '='));
}
