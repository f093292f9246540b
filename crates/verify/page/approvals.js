// What people signed, in the order of the log: each statement by a key that was enrolled before and not revoked, for this tenant
// and log, under the namespace of its kind, with a nonce of its own; each landing by enough verdicts that were not used before.
//
// Whether a verdict had lapsed when it was used depends on more than these entries; `crealeph approval why` derives that.

import { equal, fromBase64url, hex, utf8 } from './bytes.js';
import { blake3 } from './blake3.js';
import { canonical } from './json.js';
import { invalid } from './finding.js';
import { isHeldChange } from './receipt_shapes.js';
import { checkNewPasskey, readNewPasskey, verifyAssertion } from './passkey.js';
import { instant } from './shape.js';
import { parsePersonKey, verifySshSignature } from './ssh.js';
import { approvalProblem, builtInRule, NAMESPACES, ruleText } from './statements.js';
import { sha256 } from './sha256.js';

const MODULE = 'crealeph-approvals';
const ADMINS = 'admins';
const UNSIGNED_TYPES = ['review', 'run_verdict'];
const MAX_INVITATION_NANOS = 30n * 86_400_000_000_000n;
/** An enrolment is accepted before its invitation expires, and may be written a little after that. */
const WRITING_NANOS = 600_000_000_000n;

export class ApprovalLog {
  constructor(origin, tenant) {
    this.origin = origin;
    this.tenant = tenant;
    /** Keys by fingerprint. */
    this.keys = new Map();
    this.groups = new Map();
    this.nonces = new Set();
    this.invitations = new Map();
    this.rules = [];
    this.verdicts = new Map();
    this.landings = new Map();
    this.heldChanges = new Map();
    /** The fingerprint of the first admin's key, on which all of this depends. */
    this.root = null;
  }

  /** The changes that were about to land and whose outcome is not recorded. */
  get unsettled() {
    return [...this.landings].filter(([, landing]) => landing.end === null).map(([subject]) => subject);
  }

  /** Judges the next entry and remembers it. Throws a Finding, and then remembers nothing of it. */
  async add(entry) {
    const kind = entry.get('type');
    if (this.root !== null && UNSIGNED_TYPES.includes(kind)) throw invalid('is an unsigned verdict after the first enrolment');
    if (entry.get('module') !== MODULE) return;
    const payload = entry.get('payload');
    const problem = approvalProblem(kind, payload);
    if (problem) throw invalid(`is about approvals and cannot be read: ${problem}`);
    const key = entry.get('key');
    if (kind === 'landing') this.land(payload, key, entry);
    else if (kind === 'landing_outcome') this.settle(payload, key);
    else if (kind === 'passkey_enrolment') this.enrolPasskey(payload, key, entry.get('createdAt'));
    else await this.addSigned(kind, payload, key, entry.get('id'));
  }

  async addSigned(kind, payload, key, id) {
    const statement = payload.get('statement');
    this.checkLog(statement);
    const take = {
      person_enrolment: () => this.enrol(statement, payload, key),
      person_invitation: () => this.invite(statement, payload, key),
      person_revocation: () => this.revoke(statement, payload, key),
      approval_rule: () => this.setRules(statement, payload, key),
      verdict: () => this.takeVerdict(statement, payload, key, id),
    };
    await take[kind]();
    this.nonces.add(statement.get('nonce'));
  }

  async enrol(statement, payload, key) {
    const person = statement.get('person');
    let enrolled;
    try {
      enrolled = parsePersonKey(statement.get('publicKey'));
    } catch (error) {
      throw invalid(`enrols a key that is not accepted: ${error.message}`);
    }
    if (enrolled.fingerprint !== statement.get('keyId')) throw invalid('enrols a key under another fingerprint');
    const known = this.keys.get(enrolled.fingerprint);
    if (known?.isRevoked) throw invalid('enrols a key that was revoked');
    if (known && known.person !== person) throw invalid(`enrols a key that belongs to \`${known.person}\``);
    const fresh = known ?? { person, key: enrolled, isRevoked: false, counter: null };
    if (this.root !== null) {
      await this.checkAdminStatement('person_enrolment', statement, payload, key);
    } else {
      const isOwn = statement.get('signedBy') === person && statement.get('signerKeyId') === enrolled.fingerprint;
      if (!isOwn || !statement.get('groups').includes(ADMINS) || key !== 'crealeph:first-admin') {
        throw invalid('is the first enrolment, and not one of an admin by their own key');
      }
      await provedBySsh(enrolled, 'person_enrolment', payload);
      this.root = enrolled.fingerprint;
    }
    this.groups.set(person, new Set(statement.get('groups')));
    this.keys.set(enrolled.fingerprint, fresh);
  }

  async invite(statement, payload, key) {
    this.checkNonce(statement, key);
    this.checkAdmin(statement);
    const [time, expires] = ['time', 'expires'].map((name) => instant(statement.get(name)));
    if (expires <= time || expires - time > MAX_INVITATION_NANOS) throw invalid('is an invitation for no time, or for over 30 days');
    await this.checkSignature('person_invitation', statement.get('signerKeyId'), payload);
    this.groups.set(statement.get('person'), new Set(statement.get('groups')));
    this.invitations.set(statement.get('nonce'), { statement, isUsed: false, isVoid: false });
  }

  /** A passkey that was enrolled with the secret of an invitation. */
  enrolPasskey(record, key, at) {
    const statement = record.get('statement');
    this.checkLog(statement);
    const nonce = statement.get('invitation');
    const invitation = this.invitations.get(nonce);
    if (!invitation) throw invalid('enrols a passkey without an invitation');
    const wanted = invitation.statement;
    const isSame = (name) => statement.get(name) === wanted.get(name);
    if (key !== `crealeph:invitation:${nonce}`) throw invalid('does not have the key of its invitation');
    if (invitation.isUsed) throw invalid('uses an invitation again');
    if (invitation.isVoid) throw invalid('uses an invitation of a person who was revoked since');
    if (instant(at) - instant(wanted.get('expires')) > WRITING_NANOS) throw invalid('uses an invitation that has expired');
    if (!isSame('person') || !isSame('origin')) throw invalid('enrols another person, or a passkey for another origin, than was invited');
    if (hex(sha256(utf8(record.get('secret')))) !== wanted.get('secretDigest')) throw invalid('does not have the secret of its invitation');
    const bytes = (name) => fromBase64url(record.get(name));
    const made = readNewPasskey(bytes('attestationObject'));
    const origin = statement.get('origin');
    checkNewPasskey(made, canonical(statement), origin, bytes('clientDataJson'));
    const isIt = made.keyId === record.get('keyId') && ['credentialId', 'publicKey'].every((name) => equal(made[name], bytes(name)));
    if (!isIt) throw invalid('names another passkey than the authenticator made');
    const isKnown = (known) => known.passkey && (known.passkey.keyId === made.keyId || equal(known.passkey.credentialId, made.credentialId));
    if ([...this.keys.values()].some(isKnown)) throw invalid('enrols a passkey that was enrolled before');
    invitation.isUsed = true;
    const passkey = { keyId: made.keyId, credentialId: made.credentialId, key: made.key, origin };
    this.keys.set(made.keyId, { person: statement.get('person'), passkey, isRevoked: false, counter: made.data.counter });
  }

  async revoke(statement, payload, key) {
    const [person, keyId] = [statement.get('person'), statement.get('keyId')];
    this.checkNonce(statement, key);
    this.checkAdmin(statement);
    const meant = [...this.keys].filter(([id, known]) => known.person === person && (keyId === undefined || keyId === id));
    const isInvited = (invitation) => keyId === undefined && invitation.statement.get('person') === person;
    const invited = [...this.invitations.values()].filter(isInvited);
    if (meant.length === 0 && invited.length === 0) throw invalid(`revokes a key that \`${person}\` never had`);
    await this.checkSignature('person_revocation', statement.get('signerKeyId'), payload);
    for (const [, known] of meant) known.isRevoked = true;
    for (const invitation of invited) invitation.isVoid = true;
  }

  async setRules(statement, payload, key) {
    await this.checkAdminStatement('approval_rule', statement, payload, key);
    this.rules = statement.get('rules');
  }

  async takeVerdict(statement, payload, key, id) {
    this.checkNonce(statement, key);
    this.checkSigner(statement.get('person'), statement.get('keyId'));
    await this.checkSignature('verdict', statement.get('keyId'), payload);
    this.verdicts.set(id, { statement, proof: payload.get('proof'), isUsed: false });
  }

  /** Remembers the digest of a change that waits for people: the first one recorded is the one they were shown. */
  hold(entry) {
    if (entry.get('module') !== 'work' || entry.get('type') !== 'held_change') return;
    const payload = entry.get('payload');
    const run = payload.get('run');
    if (isHeldChange(payload) && !this.heldChanges.has(run)) this.heldChanges.set(run, digestOf(canonical(payload)));
  }

  /** A landing: the next of its subject, by approvals of it by different people, none of them used or revoked. */
  land(landing, key, entry) {
    const [subject, id] = [landing.get('subjectId'), entry.get('id')];
    if (landing.get('checkedSeq') + 1 !== entry.get('seq')) throw invalid('is a landing that does not follow the place where it was checked');
    const last = this.landings.get(subject);
    const number = (last?.number ?? 0) + 1;
    if (landing.get('number') !== number || key !== `landing:${digestOf(subject)}:${number}`) throw invalid('is a landing out of turn');
    if (last && last.end !== 'void') throw invalid('lands again what has landed');
    const verdicts = [...new Set(landing.get('verdicts'))];
    const people = new Set();
    const rule = this.ruleOf(landing);
    for (const verdict of verdicts) {
      const problem = this.verdictProblem(landing, rule, this.verdicts.get(verdict), people);
      if (problem) throw invalid(`lands by \`${verdict}\`, ${problem}`);
    }
    this.checkQuorum(rule, people);
    for (const verdict of verdicts) this.verdicts.get(verdict).isUsed = true;
    // A draft lands in the same transaction.
    const end = landing.get('subjectKind') === 'draft' ? 'completed' : null;
    this.landings.set(subject, { id, number, verdicts, end });
  }

  /** Refuses the landing of a change that is not the one that the log holds. */
  checkHeld(entry) {
    if (entry.get('module') !== MODULE || entry.get('type') !== 'landing') return;
    const landing = entry.get('payload');
    if (landing.get('subjectKind') !== 'change') return;
    const run = landing.get('subjectId');
    if (this.heldChanges.get(run) !== landing.get('subjectDigest')) throw invalid(`lands a change of run \`${run}\` that the log does not hold`);
  }

  verdictProblem(landing, rule, verdict, people) {
    if (!verdict) return 'which is not a verdict';
    const { statement, proof, isUsed } = verdict;
    if (isUsed) return 'which another landing used';
    const isOfIt = ['subjectId', 'subjectDigest', 'ruleDigest'].every((name) => statement.get(name) === landing.get(name));
    if (statement.get('decision') !== 'approve' || !isOfIt) return 'which does not approve it';
    if (this.keys.get(statement.get('keyId'))?.isRevoked !== false) return 'whose key was revoked before';
    if (!rule.get('proofs').includes(proof)) return 'of a kind of proof that its rule does not accept';
    const person = statement.get('person');
    if (people.has(person)) return 'by a person who is counted already';
    people.add(person);
    return null;
  }

  /** The rule that a landing names, which must be in force. */
  ruleOf(landing) {
    const rules = [...this.rules, builtInRule(landing.get('subjectKind'))];
    const rule = rules.find((given) => digestOf(ruleText(given)) === landing.get('ruleDigest'));
    if (!rule) throw invalid('lands under a rule that is not in force');
    return rule;
  }

  checkQuorum(rule, people) {
    const group = rule.get('group');
    const counted = [...people].filter((person) => group === undefined || this.groups.get(person)?.has(group)).length;
    if (counted < rule.get('approvals')) {
      throw invalid(`lands by ${counted} approvals, and rule \`${rule.get('name')}\` requires ${rule.get('approvals')}`);
    }
  }

  /** The outcome of the last landing of a subject, once. A void one returns its verdicts. */
  settle(outcome, key) {
    const [subject, number] = [outcome.get('subjectId'), outcome.get('number')];
    if (key !== `landing_outcome:${digestOf(subject)}:${number}`) throw invalid('does not have the key of its landing');
    const last = this.landings.get(subject);
    if (last?.id !== outcome.get('landing') || last.number !== number) throw invalid('is the outcome of a landing that is not there');
    if (last.end !== null) throw invalid('is a second outcome of a landing');
    last.end = outcome.get('outcome');
    if (last.end === 'void') for (const verdict of last.verdicts) this.verdicts.get(verdict).isUsed = false;
  }

  async checkAdminStatement(kind, statement, payload, key) {
    this.checkNonce(statement, key);
    this.checkAdmin(statement);
    await this.checkSignature(kind, statement.get('signerKeyId'), payload);
  }

  checkLog(statement) {
    const [tenant, origin] = [statement.get('tenantId'), statement.get('logOrigin')];
    if (tenant !== this.tenant) throw invalid(`holds a statement for another tenant, \`${tenant}\``);
    if (origin !== this.origin) throw invalid(`holds a statement for another log, \`${origin}\``);
  }

  checkNonce(statement, key) {
    const nonce = statement.get('nonce');
    if (this.nonces.has(nonce)) throw invalid(`repeats the nonce ${nonce}`);
    if (key !== `crealeph:nonce:${nonce}`) throw invalid('does not have the key of its nonce');
  }

  checkSigner(person, keyId) {
    const known = this.keys.get(keyId);
    if (!known) throw invalid(`is signed with ${keyId}, which was not enrolled before`);
    if (known.person !== person) throw invalid(`is signed with ${keyId}, which belongs to \`${known.person}\`, not to \`${person}\``);
    if (known.isRevoked) throw invalid(`is signed with ${keyId}, which was revoked`);
  }

  checkAdmin(statement) {
    const person = statement.get('signedBy');
    this.checkSigner(person, statement.get('signerKeyId'));
    if (!this.groups.get(person)?.has(ADMINS)) throw invalid(`is signed by \`${person}\`, who is not in the group \`${ADMINS}\``);
  }

  /** The count of signatures of a hardware key or passkey must rise, or always be 0. */
  async checkSignature(kind, keyId, payload) {
    const enrolled = this.keys.get(keyId);
    const expected = enrolled.passkey ? 'passkey' : 'ssh';
    if (payload.get('proof') !== expected) throw invalid(`has a proof of the kind \`${payload.get('proof')}\`, and ${keyId} is of \`${expected}\``);
    const counter = await (enrolled.passkey ? provedByPasskey(enrolled.passkey, kind, payload) : provedBySsh(enrolled.key, kind, payload));
    if (enrolled.counter !== null && counter !== null && counter <= enrolled.counter && (enrolled.counter !== 0 || counter !== 0)) {
      throw invalid(`has the signature count ${counter} after ${enrolled.counter}: the hardware key or passkey was copied`);
    }
    enrolled.counter = counter ?? enrolled.counter;
  }
}

async function provedBySsh(key, kind, payload) {
  if (payload.get('proof') !== 'ssh' || payload.has('passkey')) throw invalid('has a passkey in addition to the signature of an SSH key');
  const message = utf8(canonical(payload.get('statement')));
  const { counter } = await verifySshSignature(key, NAMESPACES[kind], message, payload.get('signature'));
  return counter;
}

/** Admin statements need an SSH key: a page could ask a passkey for anything. */
function provedByPasskey(passkey, kind, payload) {
  if (kind !== 'verdict') throw invalid('is signed with a passkey, and admin statements need an SSH key');
  if (!payload.has('passkey')) throw invalid('has no proof by its passkey');
  return verifyAssertion(passkey, canonical(payload.get('statement')), payload.get('passkey'), payload.get('signature'));
}

function digestOf(text) {
  return hex(blake3(utf8(text)));
}
