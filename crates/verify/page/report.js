// Checks the files that the reader chose, and says for each what was checked, on what basis, and with what result.
//
// A result is { name, state, headline, checks, details }: `state` is good (a key of the reader's own has signed it), unproven
// (it is consistent, but no known key vouches for it) or bad. A check is { what, basis }.

import { hex, textOf } from './bytes.js';
import { count, HASHES, NO_KEY, ownKey } from './basis.js';
import { ExportVerifier } from './export.js';
import { bytesOf, kindOf, linesOf, Pauses } from './files.js';
import { Finding, unreadable } from './finding.js';
import { parseKeys } from './note.js';
import { verifyProof } from './proof.js';
import { checkChain, checkRun, isChain, parseHeads, runsOf } from './runs.js';

const MAX_LISTED = 100;

const number = new Intl.NumberFormat('en');

/** Verifies files. `given` has the texts that the reader typed: `keys`, `checkpoint`, `root`, `heads`. Throws an Error about those. */
export async function verifyFiles(files, given, onProgress) {
  const sorted = [];
  for (const file of files) sorted.push({ file, kind: await kindOf(file) });
  const ofKind = (...kinds) => sorted.filter(({ kind }) => kinds.includes(kind)).map(({ file }) => file);
  const texts = (kind) => Promise.all(ofKind(kind).map((file) => file.text()));
  const pinned = {
    keys: parseKeys([given.keys, ...(await texts('key'))].join('\n')),
    kept: [given.checkpoint, ...(await texts('checkpoint'))].filter((note) => note.trim() !== ''),
    keyBasis: ownKey(given.keys.trim() === '' ? ofKind('key').map(({ name }) => name) : []),
    heads: parseHeads(given.heads),
    root: [given.root, ...(await texts('root'))].map((text) => text.trim()).find((text) => text !== '') ?? null,
  };
  const results = [];
  for (const file of ofKind('export')) results.push(await result(file.name, () => checkExport(file, pinned, onProgress)));
  for (const file of ofKind('proof')) results.push(await result(file.name, () => checkProof(file, pinned)));
  const runs = runsOf(sorted);
  if (runs.length > 0 && isChain(runs, pinned)) {
    results.push(await result('the runs', () => checkChain(runs, pinned, onProgress), 'receipt'));
  } else if (runs.length > 0) {
    results.push(await result('the run', () => checkRun(runs[0], pinned)));
  }
  const unknown = runs.some(({ folder }) => folder === '') ? [] : ofKind('other').filter((file) => !file.webkitRelativePath);
  for (const file of unknown) results.push(await result(file.name, () => Promise.reject(notKnown())));
  return results;
}

function notKnown() {
  return unreadable('this is not an export, proof, receipt, key or checkpoint that this page can read');
}

/** A finding becomes a result of its own, with the checks that were made before it. `counted` is the unit of its number. */
async function result(name, check, counted = 'entry') {
  const checks = [];
  try {
    return { name, checks, details: [], ...(await check(checks)) };
  } catch (error) {
    if (!(error instanceof Finding)) throw error;
    const place = error.seq === null ? '' : `, ${counted} ${number.format(error.seq)}`;
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
      if (await pauses.take()) onProgress(file.name, read / file.size, count(verifier.tree.size, 'entry', 'entries'));
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
        : `${count(found.unknownCheckpoints, 'checkpoint', 'checkpoints')} in the export state the same history; who signed them is unknown.`,
      basis: isSigned ? pinned.keyBasis : NO_KEY,
    },
    pinned.kept.length > 0
      ? { what: 'The log extends the checkpoint that you kept.', basis: 'the checkpoint that you gave' }
      : { what: 'The log was not compared with an earlier one.', basis: 'nothing: without a checkpoint that you kept, a history that its signer rewrote cannot be seen' },
  ];
  if (found.legacyEntries > 0) checks.push({ what: `${count(found.legacyEntries, 'entry is', 'entries are')} valid only under the rules of their time.`, basis: 'the rules before that place of the log' });
  const approvals = approvalChecks(found, pinned);
  checks.push(...approvals);
  const state = isSigned && approvals.every(({ isRefuted }) => !isRefuted) ? 'good' : 'unproven';
  if (approvals.some(({ isRefuted }) => isRefuted)) {
    throw new Finding('forged', `the approvals are based on the key ${found.approvalRoot}, and you expect ${pinned.root}; trust none of them`);
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
      { what: proven.isSigned ? 'The checkpoint is signed by the log.' : 'The checkpoint names the log; its signature was not checked.', basis: proven.isSigned ? pinned.keyBasis : NO_KEY },
    ],
    details: [{ label: 'Entry', text: proven.source }],
  };
}

function decoded(bytes, what) {
  try {
    return textOf(bytes);
  } catch {
    throw unreadable(`${what} is not UTF-8`);
  }
}
