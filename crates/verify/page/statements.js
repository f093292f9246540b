// The documents that people sign about approvals, and those that record their signatures.

import {
  amount, boolean, bytes, count, digest, identifier, list, object, openObject, optional, passkeyOrigin, text, timestamp, uuid, word,
} from './shape.js';
import { canonical } from './json.js';
import { utf8 } from './bytes.js';

const MAX_BYTES = 1 << 20;
const log = { tenantId: identifier, logOrigin: identifier };
const byAdmin = { signedBy: identifier, signerKeyId: identifier, nonce: uuid, time: timestamp };

const rule = object({
  name: identifier,
  subject: word('draft', 'change'),
  objectives: optional(list(identifier, 1)),
  protected: optional(boolean),
  tests: optional(boolean),
  moreFilesThan: optional(count(0)),
  costAboveUsd: optional(amount),
  approvals: count(1),
  group: optional(identifier),
  ttlMinutes: optional(count(1)),
  unattended: boolean,
  requester: boolean,
  osRequester: boolean,
  proofs: list(word('ssh', 'passkey'), 1),
});

const SIGNED = {
  verdict: object({
    type: word('verdict'),
    ...log,
    subjectKind: word('draft', 'change'),
    subjectId: identifier,
    subjectDigest: digest,
    target: identifier,
    decision: word('approve', 'reject'),
    reason: optional(text),
    person: identifier,
    keyId: identifier,
    ruleDigest: digest,
    evidenceSeq: count(0),
    evidenceRoot: digest,
    baseState: optional(digest),
    nonce: uuid,
    time: timestamp,
    expires: optional(timestamp),
    unattended: boolean,
  }),
  person_enrolment: object({
    type: word('person_enrolment'),
    ...log,
    person: identifier,
    publicKey: text,
    keyId: identifier,
    groups: list(identifier),
    ...byAdmin,
  }),
  person_invitation: object({
    type: word('person_invitation'),
    ...log,
    person: identifier,
    groups: list(identifier),
    role: word('reader', 'writer', 'operator', 'auditor', 'admin'),
    origin: passkeyOrigin,
    secretDigest: digest,
    expires: timestamp,
    ...byAdmin,
  }),
  person_revocation: object({
    type: word('person_revocation'),
    ...log,
    person: identifier,
    keyId: optional(identifier),
    reason: optional(text),
    ...byAdmin,
  }),
  approval_rule: object({ type: word('approval_rule'), ...log, rules: list(rule), ...byAdmin }),
};

const signedPayload = object({
  statement: openObject,
  proof: word('ssh', 'passkey'),
  signature: text,
  passkey: optional(object({ credentialId: bytes, authenticatorData: bytes, clientDataJson: bytes })),
});

const RECORDS = {
  passkey_enrolment: object({
    statement: object({
      type: word('passkey_enrolment'),
      ...log,
      invitation: uuid,
      person: identifier,
      origin: passkeyOrigin,
      time: timestamp,
    }),
    secret: text,
    keyId: identifier,
    credentialId: bytes,
    publicKey: bytes,
    attestationObject: bytes,
    clientDataJson: bytes,
  }),
  landing: object({
    subjectKind: word('draft', 'change'),
    subjectId: identifier,
    subjectDigest: digest,
    number: count(0),
    verdicts: list(identifier, 1),
    ruleDigest: digest,
    checkedSeq: count(0),
  }),
  landing_outcome: object({ subjectId: identifier, number: count(0), landing: identifier, outcome: word('completed', 'void') }),
};

/** The namespace of signatures over each kind of statement. */
export const NAMESPACES = {
  verdict: 'crealeph-verdict',
  person_enrolment: 'crealeph-enrolment',
  person_invitation: 'crealeph-invitation',
  person_revocation: 'crealeph-revocation',
  approval_rule: 'crealeph-rule',
};

/** What is wrong with the payload of an entry about approvals; null if nothing is. */
export function approvalProblem(kind, payload) {
  if (utf8(canonical(payload)).length > MAX_BYTES) return 'it is too long';
  if (Object.hasOwn(RECORDS, kind)) return RECORDS[kind](payload);
  if (!Object.hasOwn(SIGNED, kind)) return 'it is of a type that approvals do not have';
  return signedPayload(payload) ?? SIGNED[kind](payload.get('statement'));
}

/** The rule for subjects that no other rule matches. */
export function builtInRule(subject) {
  return new Map(
    Object.entries({
      name: 'built-in', subject, approvals: 1, unattended: false, requester: false, osRequester: true, proofs: ['ssh'],
    }),
  );
}

/** A rule's canonical text: sets in it are sorted and without repeats. */
export function ruleText(given) {
  const sorted = new Map(given);
  for (const name of ['objectives', 'proofs']) {
    if (sorted.has(name)) sorted.set(name, sortedSet(name, sorted.get(name)));
  }
  return canonical(sorted);
}

function sortedSet(name, words) {
  const once = [...new Set(words)];
  // Kinds of proof are sorted in the order in which they are listed, other words by their characters.
  if (name === 'proofs') return ['ssh', 'passkey'].filter((kind) => once.includes(kind));
  const order = (one, other) => {
    const [left, right] = [utf8(one), utf8(other)];
    const at = left.findIndex((byte, place) => byte !== right[place]);
    return at < 0 ? left.length - right.length : left[at] - (right[at] ?? -1);
  };
  return once.sort(order);
}
