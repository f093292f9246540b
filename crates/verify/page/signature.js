// Signatures by WebCrypto: Ed25519, ECDSA on P-256 and P-384, and RSA.

import { base64url, hex } from './bytes.js';

/**
 * Encodings of points of small order, with which a signature can match any text. The last byte's high bit is the sign of x.
 */
const WEAK = new Set(
  [
    '0000000000000000000000000000000000000000000000000000000000000000',
    '0100000000000000000000000000000000000000000000000000000000000000',
    '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
    'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
    'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
    'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  ].flatMap((point) => [point, point.slice(0, 62) + (Number.parseInt(point.slice(62), 16) | 0x80).toString(16)]),
);

/** Whether a public Ed25519 key proves nothing. */
export function isWeakEd25519(publicKey) {
  return WEAK.has(hex(publicKey));
}

/** Whether a key has signed a message. Throws an Error in a browser that cannot tell. */
export async function verifyEd25519(publicKey, signature, message) {
  if (publicKey.length !== 32 || signature.length !== 64 || isWeakEd25519(publicKey)) return false;
  if (WEAK.has(hex(signature.subarray(0, 32)))) return false;
  const key = await imported(publicKey, { name: 'Ed25519' });
  return key !== null && crypto.subtle.verify({ name: 'Ed25519' }, key, signature, message);
}

/** The same for ECDSA; `signature` is r and s, each as long as the field. */
export async function verifyEcdsa(curve, publicKey, signature, message) {
  const key = await imported(publicKey, { name: 'ECDSA', namedCurve: curve });
  const hash = curve === 'P-256' ? 'SHA-256' : 'SHA-384';
  return key !== null && crypto.subtle.verify({ name: 'ECDSA', hash }, key, signature, message);
}

/** The same for RSASSA-PKCS1-v1_5 with SHA-256, and a modulus of 2,048 to 8,192 bits. */
export async function verifyRsa(modulus, exponent, signature, message) {
  if (modulus.length < 256 || modulus.length > 1024) return false;
  const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' };
  const key = await imported({ kty: 'RSA', n: base64url(modulus), e: base64url(exponent) }, algorithm, 'jwk');
  return key !== null && crypto.subtle.verify(algorithm, key, signature, message);
}

async function imported(publicKey, algorithm, form = 'raw') {
  if (!globalThis.crypto?.subtle) throw new Error('this browser gives the page no WebCrypto; open the file in a current browser');
  try {
    return await crypto.subtle.importKey(form, publicKey, algorithm, false, ['verify']);
  } catch (error) {
    if (error.name === 'NotSupportedError') {
      throw new Error(`this browser cannot check ${algorithm.name} signatures; use a current Chromium, Firefox or Safari`);
    }
    // Not a point of the curve.
    return null;
  }
}
