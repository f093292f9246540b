// Receipts of work runs: a canonical document, and a DSSE envelope around an in-toto statement of the very same bytes.

import { concat, equal, fromBase64, hex, textOf, utf8 } from './bytes.js';
import { blake3 } from './blake3.js';
import { canonical, JsonFault, parseJson } from './json.js';
import { verifyEd25519 } from './signature.js';
import { changed, Finding, forged, unreadable } from './finding.js';
import { receiptProblem, statementProblem } from './receipt_shapes.js';
import { sha256 } from './sha256.js';

const PAYLOAD_TYPE = 'application/vnd.in-toto+json';
const WORK_RUN = 'urn:crealeph:predicate:work-run:';
const MAX_SIGNATURES = 100;
const MAX_PARTS = 10_000;

/** Parses bytes; null if they are not JSON. */
function read(bytes) {
  try {
    return parseJson(textOf(bytes));
  } catch (error) {
    if (error instanceof JsonFault || error instanceof TypeError) return null;
    throw error;
  }
}

/**
 * Checks a receipt and its envelope. With `isUnproven`, keys are not required: then receipt and envelope belong together, and
 * nothing is proved about who made them. Throws a Finding.
 */
export async function verifyReceipt(receiptBytes, envelopeBytes, keys, isUnproven = false) {
  const signed = await openEnvelope(envelopeBytes, isUnproven ? [] : keys);
  if (!isUnproven && signed.known.length === 0) {
    const names = signed.others.slice(0, 10).map((id) => `\`${id}\``).join(', ');
    throw forged(`no known key has signed the statement; ${names === '' ? 'it is not signed' : `it is signed as ${names}`}`);
  }
  const statement = readStatement(signed);
  const stated = statement.get('predicate').get('receipt');
  if (!equal(receiptBytes, utf8(canonical(stated)))) throw changed(difference(receiptBytes, stated));
  checkReceipt(stated);
  await checkAgreement(statement, stated, receiptBytes);
  return { receipt: stated, statement, knownSigners: signed.known, otherSigners: signed.others };
}

async function openEnvelope(bytes, keys) {
  const parts = bytes.reduce((sum, byte) => sum + (byte === 0x2c || byte === 0x5b || byte === 0x7b ? 1 : 0), 0);
  if (parts > MAX_PARTS) throw unreadable(`the envelope has more than ${MAX_PARTS} parts; it is not an envelope`);
  const document = read(bytes);
  if (!document) throw unreadable('the envelope is not JSON');
  const envelope = document.value;
  if (!equal(utf8(canonical(envelope)), bytes)) throw changed('the envelope is not in canonical form; it was changed');
  if (!(envelope instanceof Map) || envelope.get('payloadType') !== PAYLOAD_TYPE || envelope.size !== 3) {
    throw unreadable('the envelope does not hold an in-toto statement');
  }
  const payload = typeof envelope.get('payload') === 'string' ? fromBase64(envelope.get('payload')) : null;
  if (!payload) throw changed("the envelope's payload is not base64; it was changed");
  const message = concat(utf8(`DSSEv1 ${PAYLOAD_TYPE.length} ${PAYLOAD_TYPE} ${payload.length} `), payload);
  if (!envelope.has('signatures')) throw unreadable('the envelope has no signatures');
  const [ids, known, others] = [[], [], []];
  const signatures = Array.isArray(envelope.get('signatures')) ? envelope.get('signatures') : [];
  for (const entry of signatures) {
    const [id, sig] = entry instanceof Map && entry.size === 2 ? [entry.get('keyid'), entry.get('sig')] : [];
    const signature = typeof sig === 'string' ? fromBase64(sig) : null;
    if (typeof id !== 'string' || !signature) throw changed('a signature of the envelope is broken; it was changed');
    if (ids.length >= MAX_SIGNATURES) throw unreadable(`the envelope has more than ${MAX_SIGNATURES} signatures`);
    ids.push(id);
    const key = keys.find(({ idText }) => idText === id);
    if (!key) others.push(id);
    else if (await verifyEd25519(key.publicKey, signature, message)) known.push(id);
    else throw forged(`the signature of \`${id}\` is forged, or the statement was changed`);
  }
  return { payload, ids, known, others };
}

function readStatement({ payload, ids, known }) {
  const statement = read(payload)?.value;
  const problem = statement === undefined ? 'it is not JSON' : statementProblem(statement);
  if (problem) {
    const type = statement instanceof Map ? statement.get('predicateType') : undefined;
    const isNewer = typeof type === 'string' && type.startsWith(WORK_RUN) && !['v1', 'v2'].includes(type.slice(WORK_RUN.length));
    const advice = isNewer ? `, but a \`${type}\`, which this verifier does not know` : `: ${problem}`;
    throw unreadable(`the signed statement is not about a work run${advice}`);
  }
  const predicate = statement.get('predicate');
  if (canonical(predicate.get('signers')) !== canonical(ids)) {
    throw changed('the envelope is not signed by exactly the keys its statement names');
  }
  const workspace = predicate.get('workspace');
  const foreign = known.find((id) => id.split('+')[0] !== workspace);
  if (foreign) throw forged(`the statement is of \`${workspace}\`, and the key \`${foreign}\` is for another workspace`);
  return statement;
}

/** The contract of a receipt, and its own hash. */
function checkReceipt(receipt) {
  const problem = receiptProblem(receipt);
  if (problem) throw changed(`the receipt breaks its contract: ${problem}`);
  const rest = new Map([...receipt].filter(([key]) => key !== 'receipt_hash'));
  if (hex(blake3(utf8(canonical(rest)))) !== receipt.get('receipt_hash')) {
    throw changed('`receipt_hash` is not the hash of the rest of the receipt; one of them was changed');
  }
}

/** The statement's facts about the receipt must match it. */
async function checkAgreement(statement, receipt, bytes) {
  const subjects = [...statement.get('subject')];
  const own = subjects.shift();
  if (own?.get('name') !== 'RECEIPT.json' || !(await fits(own, bytes))) {
    throw changed('the first subject of the statement is not this `RECEIPT.json`');
  }
  for (const artifact of receipt.get('artifacts').filter((one) => one.has('hash'))) {
    const subject = subjects.shift();
    const path = artifact.get('path');
    if (subject?.get('name') !== path || statedDigests(subject).blake3 !== artifact.get('hash')) {
      throw changed(`the statement and the receipt disagree about \`${path}\``);
    }
  }
  const more = subjects.find((subject) => !subject.get('digest').has('gitCommit'));
  if (more) throw changed(`the statement has a subject that the receipt does not know: \`${more.get('name')}\``);
  const predicate = statement.get('predicate');
  if (predicate.get('work_item')?.get('id') !== receipt.get('work_item_id')) {
    throw changed('the statement and the receipt are of different work items');
  }
  const isRejected = (predicate.get('verdicts') ?? []).some((verdict) => verdict.get('decision') === 'rejected');
  if (isRejected && receipt.get('status') === 'succeeded') {
    throw changed('the statement says that the change was rejected, and the receipt that it landed');
  }
  if (predicate.has('sandbox') && predicate.get('sandbox').get('strength') !== receipt.get('sandbox_strength')) {
    throw changed("the statement and the receipt disagree about the sandbox's strength");
  }
}

/** The digests of a content in a statement: all of them must be there. */
function statedDigests(subject) {
  const [name, stated] = [subject.get('name'), subject.get('digest')];
  if (stated.has('gitCommit')) throw changed(`the statement names a commit for the file \`${name}\``);
  const missing = ['blake3', 'sha256', 'gitBlob'].find((kind) => !stated.has(kind));
  if (missing) throw new Finding('missing', `the statement has no ${missing} digest of \`${name}\``);
  return Object.fromEntries(stated);
}

/** Whether a content has the digests that a statement gives. */
export async function fits(subject, bytes) {
  const stated = statedDigests(subject);
  const blob = concat(utf8(`blob ${bytes.length}\0`), bytes);
  const git = hex(new Uint8Array(await crypto.subtle.digest('SHA-1', blob)));
  return stated.blake3 === hex(blake3(bytes)) && stated.sha256 === hex(sha256(bytes)) && stated.gitBlob === git;
}

/** The files that were reported with a receipt, each as the signed statement names it. */
export async function checkReportedFiles(verified, files) {
  const stated = verified.statement.get('predicate').get('files') ?? [];
  const seen = new Set();
  for (const file of files) {
    const name = file.get('name');
    const bytes = fromBase64(file.get('content'));
    if (!bytes) throw changed(`the file \`${name}\` is not base64`);
    const subject = stated.find((one) => one.get('name') === name);
    if (seen.has(name) || !subject || !(await fits(subject, bytes))) {
      throw changed(`the file \`${name}\` is not one that the signed statement names`);
    }
    seen.add(name);
  }
}

/** Where a receipt differs from the signed one, by field. */
function difference(bytes, stated) {
  const found = read(bytes)?.value;
  if (!(found instanceof Map)) return 'the receipt is not JSON; it was changed';
  const names = [...new Set([...stated.keys(), ...found.keys()])];
  const different = names.filter((name) => !found.has(name) || !stated.has(name) || canonical(found.get(name)) !== canonical(stated.get(name)));
  if (different.length === 0) return 'the receipt is not in canonical form; it was changed';
  const shown = different.slice(0, 20).map((name) => `\`${name.slice(0, 200)}\``);
  return `the receipt is not the signed one: ${shown.join(', ')} was changed`;
}
