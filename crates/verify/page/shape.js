// Shapes of documents. A shape is a function that gives null for a value that has it, or says what is wrong and where.

import { fromBase64url } from './bytes.js';

/** Anything but Unicode White_Space. */
const VISIBLE = /[^\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/;
const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const MAX_IDENTIFIER_BYTES = 256;
const MAX_PATH_BYTES = 4096;
/** 65,536 bytes in base64url. */
const MAX_BYTES_LENGTH = 87_382;
const MAX_HOST_LENGTH = 253;

const encoder = new TextEncoder();

/** Whether a string has at most so many bytes; no UTF-16 unit has more than three. */
function fits(value, most) {
  return value.length * 3 <= most || encoder.encode(value).length <= most;
}

function matching(what, holds) {
  return (value) => (holds(value) ? null : `${what} is expected`);
}

export const string = matching('a string', (value) => typeof value === 'string');
export const text = matching('a non-empty string', (value) => typeof value === 'string' && VISIBLE.test(value));
export const identifier = matching(
  'a non-empty string of at most 256 bytes without control characters',
  (value) => text(value) === null && !CONTROL.test(value) && fits(value, MAX_IDENTIFIER_BYTES),
);
export const boolean = matching('true or false', (value) => typeof value === 'boolean');
export const amount = matching('a number from 0', (value) => typeof value === 'number' && value >= 0);
export const openObject = matching('an object', (value) => value instanceof Map);
export const digest = matching('a digest of 64 lower-case hex digits', (value) => typeof value === 'string' && /^[0-9a-f]{64}$/.test(value));
export const gitHash = matching(
  'a git hash of 40 or 64 lower-case hex digits',
  (value) => typeof value === 'string' && /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(value),
);
export const uuid = matching(
  'a UUID in lower case',
  (value) => typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value),
);
export const timestamp = matching('an instant like 2026-01-02T03:04:05Z', (value) => typeof value === 'string' && instant(value) !== null);
export const path = matching('a path in the workspace', (value) => text(value) === null && isInside(value));

export const bytes = matching(
  '1 to 65,536 bytes in base64url without padding',
  (value) => typeof value === 'string' && value.length <= MAX_BYTES_LENGTH && (fromBase64url(value)?.length ?? 0) > 0,
);
export const passkeyOrigin = matching('an origin as browsers write it, by HTTPS or of localhost', isPasskeyOrigin);

export function count(least) {
  return matching(`an integer from ${least}`, (value) => Number.isSafeInteger(value) && value >= least);
}

export function word(...words) {
  return matching(words.join(' or '), (value) => words.includes(value));
}

export function list(element, least = 0) {
  return (value) => {
    if (!Array.isArray(value) || value.length < least) return `an array of at least ${least} elements is expected`;
    return firstProblem(value.entries(), () => element);
  };
}

export function optional(shape) {
  return Object.assign((value) => shape(value), { isOptional: true });
}

/** An object with exactly these members. A member that is null is not absent. */
export function object(members) {
  return (value) => {
    if (!(value instanceof Map)) return 'an object is expected';
    for (const [key, shape] of Object.entries(members)) {
      if (!shape.isOptional && !value.has(key)) return `\`${key}\` is missing`;
    }
    return firstProblem(value, (key) => (Object.hasOwn(members, key) ? members[key] : () => 'no such member is known'));
  };
}

function firstProblem(pairs, shapeOf) {
  for (const [key, value] of pairs) {
    const problem = shapeOf(key)(value);
    if (problem !== null) return `/${key}: ${problem}`;
  }
  return null;
}

/** An origin as browsers write it, of a page for which they create passkeys. */
function isPasskeyOrigin(value) {
  const found = typeof value === 'string' && /^(https?):\/\/([a-z0-9-]+(?:\.[a-z0-9-]+)*)(?::([1-9][0-9]{0,4}))?$/.exec(value);
  if (!found) return false;
  const [, scheme, host, port] = found;
  if (host.length > MAX_HOST_LENGTH || /^[0-9.]+$/.test(host) || Number(port ?? 1) > 65_535) return false;
  const isLocal = host === 'localhost' || host.endsWith('.localhost');
  return (scheme === 'https' || isLocal) && port !== (scheme === 'https' ? '443' : '80');
}

function isInside(value) {
  let depth = 0;
  for (const part of value.split('/')) {
    if (part === '..') depth -= 1;
    else if (part !== '' && part !== '.') depth += 1;
    if (depth < 0) return false;
  }
  return !value.includes('\0') && fits(value, MAX_PATH_BYTES);
}

const INSTANT = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.(\d{1,9}))?(?:Z|([+-])(\d{2}):(\d{2}))$/;

/** Nanoseconds since 1970 of the strict RFC 3339 form, as a BigInt; null if it is not one. */
export function instant(value) {
  const found = INSTANT.exec(value);
  if (!found) return null;
  const [year, month, day, hour, minute, second] = found.slice(1, 7).map(Number);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day) return null;
  const [zoneHours, zoneMinutes] = [Number(found[9] ?? 0), Number(found[10] ?? 0)];
  if (hour > 23 || minute > 59 || second > 59 || zoneHours > 23 || zoneMinutes > 59) return null;
  const zone = (found[8] === '-' ? -1 : 1) * (zoneHours * 3600 + zoneMinutes * 60);
  const seconds = date.getTime() / 1000 + hour * 3600 + minute * 60 + second - zone;
  return BigInt(seconds) * 1_000_000_000n + BigInt((found[7] ?? '').padEnd(9, '0'));
}
