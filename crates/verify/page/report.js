// Checks what the reader chose, and says of each file what was checked, on what that rests, and what was found.
//
// A result is { name, state, headline, checks, details }: `state` is good (a key of the reader's own has signed it), unproven
// (it is consistent, and nobody known vouches for it) or bad. A check is { what, basis }.

import { hex, textOf } from './bytes.js';
import { ExportVerifier } from './export.js';
import { bytesOf, kindOf, linesOf, Pauses } from './files.js';
import { Finding, unreadable } from './finding.js';
import { parseKeys } from './note.js';
import { verifyProof } from './proof.js';
import { fits, verifyReceipt } from './receipt.js';

const OWN_KEY = 'the key that you gave';
const NO_KEY = 'nothing that you had before: no key was given, so this proves consistency, not origin';
const HASHES = 'hashes that were computed again from the bytes';
const MAX_LISTED = 100;
/** What no statement can name: the ledger's copy of it, and what came later. */
const UNNAMED = ['entry.json', 'CLEANED.dsse.json'];

const number = new Intl.NumberFormat('en');

/** Verifies files. `given` has the texts that the reader typed: `keys`, `checkpoint`, `root`. Throws an Error about those. */
export async function verifyFiles(files, given, onProgress) {
  const sorted = await Promise.all(files.map(async (file) => ({ file, kind: await kindOf(file) })));
  const ofKind = (...kinds) => sorted.filter(({ kind }) => kinds.includes(kind)).map(({ file }) => file);
  const texts = (kind) => Promise.all(ofKind(kind).map((file) => file.text()));
  const pinned = {
    keys: parseKeys([given.keys, ...(await texts('key'))].join('\n')),
    kept: [given.checkpoint, ...(await texts('checkpoint'))].filter((note) => note.trim() !== ''),
    root: [given.root, ...(await texts('root'))].map((text) => text.trim()).find((text) => text !== '') ?? null,
  };
  const results = [];
  for (const file of ofKind('export')) results.push(await result(file.name, () => checkExport(file, pinned, onProgress)));
  for (const file of ofKind('proof')) results.push(await result(file.name, () => checkProof(file, pinned)));
  const others = ofKind('other');
  if (ofKind('receipt', 'envelope').length > 0) {
    results.push(await result('the run', () => checkRun(ofKind('receipt'), ofKind('envelope'), others, pinned)));
  } else {
    for (const file of others) results.push(await result(file.name, () => Promise.reject(notKnown())));
  }
  return results;
}

function notKnown() {
  return unreadable('this is no export, proof, receipt, key or checkpoint that this page knows');
}

/** A finding becomes a result of its own, with the checks that were made before it. */
async function result(name, check) {
  const checks = [];
  try {
    return { name, checks, details: [], ...(await check(checks)) };
  } catch (error) {
    if (!(error instanceof Finding)) throw error;
    const place = error.seq === null ? '' : `, entry ${number.format(error.seq)}`;
    return { name, checks, details: [], state: 'bad', headline: `Not verified (${error.kind}${place})`, finding: error.message };
  }
}

async function checkExport(file, pinned, onProgress) {
  const verifier = new ExportVerifier(pinned.keys.filter((key) => !key.name.startsWith('crealeph-workspace/')));
  const pauses = new Pauses();
  try {
    for (const note of pinned.kept) await verifier.keep(note.endsWith('\n') ? note : `${note}\n`);
    for await (const { text, read } of linesOf(file)) {
      if (text === null) throw unreadable(`the line after entry ${verifier.tree.size} is not UTF-8`, verifier.tree.size + 1);
      await verifier.line(text);
      if (await pauses.take()) onProgress(file.name, read / file.size, verifier.tree.size);
    }
  } finally {
    pauses.end();
  }
  return exportResult(verifier.finish(), verifier, pinned);
}

function exportResult(found, verifier, pinned) {
  const { entries, signedEntries } = found;
  const isSigned = signedEntries > 0;
  const checks = [
    { what: `${count(entries, 'entry', 'entries')} of tenant ${found.tenant} in the log ${found.origin}: none was changed, left out or moved.`, basis: HASHES },
    { what: 'Every entry is one that a ledger would have taken: times, ids, keys, lineage, executions, access.', basis: 'the published rules of a log' },
    {
      what: isSigned
        ? `${count(found.checkpoints, 'checkpoint', 'checkpoints')} signed; entries 1 to ${number.format(signedEntries)} are covered, ${number.format(entries - signedEntries)} after them not yet.`
        : `${count(found.unknownCheckpoints, 'checkpoint', 'checkpoints')} in the export state the same history; whose signatures they bear is unknown.`,
      basis: isSigned ? OWN_KEY : NO_KEY,
    },
    pinned.kept.length > 0
      ? { what: 'The log extends the checkpoint that you kept.', basis: 'the checkpoint that you gave' }
      : { what: 'The log was not compared with an earlier one.', basis: 'nothing: without a checkpoint that you kept, a history that its signer rewrote cannot be seen' },
  ];
  if (found.legacyEntries > 0) checks.push({ what: `${count(found.legacyEntries, 'entry is', 'entries are')} right by the rules of their time alone.`, basis: 'the rules before that place of the log' });
  const approvals = approvalChecks(found, pinned);
  checks.push(...approvals);
  const state = isSigned && approvals.every(({ isRefuted }) => !isRefuted) ? 'good' : 'unproven';
  if (approvals.some(({ isRefuted }) => isRefuted)) {
    throw new Finding('forged', `the approvals rest on the key ${found.approvalRoot}, and you expect ${pinned.root}; believe none of them`);
  }
  return {
    state,
    headline: state === 'good' ? 'Verified' : 'Consistent, but its origin is not proved',
    checks,
    details: [{ label: 'Root of the tree (SHA-256)', text: hex(found.root) }, ...verdictDetails(verifier.approvals)],
  };
}

function approvalChecks(found, pinned) {
  if (found.approvalRoot === null) return [];
  const signed = `${count(found.verdicts, 'verdict', 'verdicts')} of people: each signed by a key that was enrolled before it, each landing by enough of them.`;
  const root = `The first admin's key is ${found.approvalRoot}.`;
  const unsettled = found.unsettledLandings.length;
  const checks = [
    { what: signed, basis: 'the signatures, and the first admin\'s key' },
    pinned.root === null
      ? { what: root, basis: 'the file itself: compare it with a fingerprint that you had before' }
      : { what: root, basis: 'the fingerprint that you gave', isRefuted: pinned.root !== found.approvalRoot },
  ];
  if (unsettled > 0) checks.push({ what: `Of ${count(unsettled, 'landing', 'landings')} it is not recorded whether the change landed.`, basis: 'the log' });
  return checks;
}

function verdictDetails(approvals) {
  const verdicts = [...approvals.verdicts.values()];
  if (verdicts.length === 0) return [];
  const lines = verdicts.slice(-MAX_LISTED).map(({ statement, isUsed }) => {
    const said = statement.get('decision') === 'approve' ? 'approves' : 'rejects';
    const used = isUsed ? ', used by a landing' : '';
    return `${statement.get('time')} ${statement.get('person')} ${said} ${statement.get('subjectKind')} ${statement.get('subjectId')} with ${statement.get('keyId')}${used}`;
  });
  const left = verdicts.length - lines.length;
  return [{ label: left > 0 ? `Verdicts (the last ${lines.length}, ${left} before them)` : 'Verdicts', text: lines.join('\n') }];
}

async function checkProof(file, pinned) {
  const keys = pinned.keys.filter((key) => !key.name.startsWith('crealeph-workspace/'));
  const proven = await verifyProof(decoded(await bytesOf(file), 'the proof'), keys);
  const { size, origin } = proven.checkpoint;
  return {
    state: proven.isSigned ? 'good' : 'unproven',
    headline: proven.isSigned ? 'Verified' : 'Consistent, but its origin is not proved',
    checks: [
      { what: `The entry ${proven.id} is entry ${number.format(proven.seq)} of ${number.format(size)} in the log ${origin}, exactly as shown below.`, basis: HASHES },
      { what: proven.isSigned ? 'The checkpoint is signed by the log.' : 'The checkpoint names the log; its signature was not checked.', basis: proven.isSigned ? OWN_KEY : NO_KEY },
    ],
    details: [{ label: 'Entry', text: proven.source }],
  };
}

async function checkRun(receipts, envelopes, others, pinned) {
  if (receipts.length !== 1 || envelopes.length !== 1) {
    throw unreadable('choose the two files of one run together: `RECEIPT.json` and `RECEIPT.dsse.json`');
  }
  const keys = pinned.keys.filter((key) => !key.name.startsWith('crealeph-log/'));
  const [receipt, envelope] = [await bytesOf(receipts[0]), await bytesOf(envelopes[0])];
  const verified = await verifyReceipt(receipt, envelope, keys, keys.length === 0);
  const predicate = verified.statement.get('predicate');
  const stated = predicate.get('files') ?? [];
  const [compared, uncovered] = [[], []];
  for (const file of others) {
    const subject = stated.find((one) => one.get('name') === file.name);
    if (!subject && predicate.has('files') && !UNNAMED.includes(file.name)) {
      throw new Finding('changed', `the file \`${file.name}\` lies with the run, and no statement names it`);
    }
    if (subject && !(await fits(subject, await bytesOf(file)))) {
      throw new Finding('changed', `the file \`${file.name}\` is not the one that was signed`);
    }
    (subject ? compared : uncovered).push(file.name);
  }
  const absent = stated.map((one) => one.get('name')).filter((name) => !compared.includes(name));
  const isSigned = verified.knownSigners.length > 0;
  const checks = [
    { what: `The receipt of run ${verified.receipt.get('id')} is the one in the signed statement of ${predicate.get('workspace')}, and both say the same.`, basis: HASHES },
    { what: isSigned ? `Signed by ${verified.knownSigners.join(', ')}.` : 'The signatures were not checked.', basis: isSigned ? OWN_KEY : NO_KEY },
    compared.length > 0 && { what: `As signed: ${compared.join(', ')}.`, basis: HASHES },
    uncovered.length > 0 && { what: `Not checked: ${uncovered.join(', ')}.`, basis: 'nothing: the statement does not cover it' },
    absent.length > 0 && { what: `Not among the files that you chose: ${absent.join(', ')}.`, basis: 'nothing' },
    { what: 'The workspace before and after, and the receipts before this one, were not looked at.', basis: 'nothing; `crealeph work verify` checks them' },
  ];
  return {
    state: isSigned ? 'good' : 'unproven',
    headline: isSigned ? 'Verified' : 'Consistent, but its origin is not proved',
    checks: checks.filter(Boolean),
    details: [{ label: 'Receipt', text: textOf(receipt) }],
  };
}

function decoded(bytes, what) {
  try {
    return textOf(bytes);
  } catch {
    throw unreadable(`${what} is not UTF-8`);
  }
}

function count(amount, one, several) {
  return `${number.format(amount)} ${amount === 1 ? one : several}`;
}
