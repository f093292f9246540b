// Runs that the reader chose: one by its files, or a folder of them, whose receipts must be one chain.

import { textOf } from './bytes.js';
import { count, HASHES, NO_KEY } from './basis.js';
import { ReceiptChain } from './chain.js';
import { bytesOf, pathOf, Pauses } from './files.js';
import { changed, Finding, unreadable } from './finding.js';
import { fits, verifyReceipt } from './receipt.js';
import { digest } from './shape.js';

const MAX_LISTED = 100;
/** Files that no statement can name: the ledger's copy of it, and later files. */
const UNNAMED = ['entry.json', 'CLEANED.dsse.json'];
const STATES = { what: 'The workspace before and after was not looked at.', basis: 'nothing; `crealeph work verify` checks it' };
const NO_CHAIN = { what: 'The receipts before and after this one were not looked at.', basis: 'nothing; choose the folder with all runs' };

/** The hashes of receipts that the reader kept, one on each line. Throws an Error about an invalid one. */
export function parseHeads(text) {
  const heads = text.split('\n').map((line) => line.trim()).filter((line) => line !== '');
  const broken = heads.find((head) => digest(head) !== null);
  if (broken !== undefined) throw new Error(`\`${broken.slice(0, 100)}\` is not the hash of a receipt, which has 64 lower-case hex digits`);
  return heads;
}

/** The chosen files by the run that they belong to: the nearest folder with a receipt or an envelope. `sorted` are files with their kinds. */
export function runsOf(sorted) {
  const runs = new Map();
  for (const { file, kind } of sorted.filter((one) => ['receipt', 'envelope'].includes(one.kind))) {
    const parts = pathOf(file).split('/').slice(0, -1);
    const folder = parts.join('/');
    const run = runs.get(folder) ?? { folder, name: parts.at(-1) ?? '', depth: parts.length, receipt: [], envelope: [], beside: [] };
    run[kind].push(file);
    runs.set(folder, run);
  }
  for (const { file } of sorted.filter(({ kind }) => kind === 'other')) {
    const parts = pathOf(file).split('/').slice(0, -1);
    while (parts.length > 0 && !runs.has(parts.join('/'))) parts.pop();
    if (parts.length > 0 || !file.webkitRelativePath) runs.get(parts.join('/'))?.beside.push(file);
  }
  return [...runs.values()].sort((one, other) => (one.folder < other.folder ? -1 : 1));
}

/** Whether the receipts must be a chain: there are several, the reader chose a folder of runs, or kept the hash of one. */
export function isChain(runs, pinned) {
  return runs.length > 1 || runs[0].depth > 1 || pinned.heads.length > 0;
}

/** One run alone. */
export async function checkRun(run, pinned) {
  const keys = workspaceKeys(pinned);
  const { receipt, envelope } = await bytesOfRun(run);
  const verified = await verifyReceipt(receipt, envelope, keys, keys.length === 0);
  const predicate = verified.statement.get('predicate');
  const { compared, uncovered, absent } = await checkFiles(run, predicate);
  const isSigned = verified.knownSigners.length > 0;
  const checks = [
    { what: `The receipt of run ${verified.receipt.get('id')} is the one in the signed statement of ${predicate.get('workspace')}, and both say the same.`, basis: HASHES },
    { what: isSigned ? `Signed by ${verified.knownSigners.join(', ')}.` : 'The signatures were not checked.', basis: isSigned ? pinned.keyBasis : NO_KEY },
    compared.length > 0 && { what: `As signed: ${compared.join(', ')}.`, basis: HASHES },
    uncovered.length > 0 && { what: `Not checked: ${uncovered.join(', ')}.`, basis: 'nothing: the statement does not cover it' },
    absent.length > 0 && { what: `Not among the files that you chose: ${absent.join(', ')}.`, basis: 'nothing' },
    NO_CHAIN,
    STATES,
  ];
  return { ...outcome(isSigned), checks: checks.filter(Boolean), details: [{ label: 'Receipt', text: textOf(receipt) }] };
}

/** Every run by itself, and the receipts of all as one chain. */
export async function checkChain(runs, pinned, onProgress) {
  const keys = workspaceKeys(pinned);
  const isUnproven = keys.length === 0;
  const workspace = await workspaceOf(runs[0], keys, isUnproven);
  const chain = new ReceiptChain(workspace, keys, isUnproven);
  const [pauses, judged] = [new Pauses(), new Map()];
  try {
    for (const [at, run] of runs.entries()) {
      const { receipt, envelope } = await bytesOfRun(run);
      const verified = await chain.add(pathOf(run.receipt[0]), run.name, receipt, envelope);
      const files = await checkFiles(run, verified.statement.get('predicate'));
      judged.set(verified.receipt.get('receipt_hash'), { status: verified.receipt.get('status'), ...files });
      if (await pauses.take()) onProgress(workspace, at / runs.length, count(at, 'receipt', 'receipts'));
    }
  } finally {
    pauses.end();
  }
  const ordered = chain.ordered(pinned.heads);
  const sum = (name) => [...judged.values()].reduce((total, run) => total + run[name].length, 0);
  const [compared, uncovered, absent] = ['compared', 'uncovered', 'absent'].map(sum);
  const checks = [
    { what: `${count(ordered.length, 'receipt', 'receipts')} of ${workspace}: one chain, whole from the first one on; none between was removed, inserted or moved.`, basis: HASHES },
    isUnproven ? { what: 'The signatures were not checked.', basis: NO_KEY } : { what: 'Each is signed.', basis: pinned.keyBasis },
    pinned.heads.length > 0
      ? { what: 'The chain has the receipts that you kept.', basis: 'the hashes that you gave' }
      : { what: 'Whether the chain lost its end was not checked.', basis: 'nothing: without the hash of a receipt that you kept, a missing end cannot be seen' },
    compared > 0 && { what: `${count(compared, 'file', 'files')} beside the receipts: as signed.`, basis: HASHES },
    uncovered > 0 && { what: `${count(uncovered, 'file', 'files')} beside the receipts: not checked.`, basis: 'nothing: no statement covers them' },
    absent > 0 && { what: `${count(absent, 'file', 'files')} that statements name: not there.`, basis: 'nothing' },
    STATES,
  ];
  const details = [{ label: 'Receipts, newest first', text: receiptLines(ordered, chain, judged) }];
  return { ...outcome(!isUnproven), checks: checks.filter(Boolean), details };
}

/** The workspace of the first receipt. */
async function workspaceOf(run, keys, isUnproven) {
  const { receipt, envelope } = await bytesOfRun(run);
  try {
    const { statement } = await verifyReceipt(receipt, envelope, keys, isUnproven);
    return statement.get('predicate').get('workspace');
  } catch (error) {
    throw error instanceof Finding ? error.about(`the receipt \`${pathOf(run.receipt[0])}\``) : error;
  }
}

function receiptLines(ordered, chain, judged) {
  const lines = [...ordered.entries()].slice(-MAX_LISTED).reverse().map(([at, hash]) => {
    const { status, compared } = judged.get(hash);
    const beside = compared.length > 0 ? `, with ${compared.join(', ')}` : '';
    return `${at + 1} run ${chain.receipts.get(hash).id} ${status}, hash ${hash}${beside}`;
  });
  const left = ordered.length - lines.length;
  return [...lines, ...(left > 0 ? [`and ${left} before them`] : [])].join('\n');
}

/** Each file next to the receipt, as the statement names it. */
async function checkFiles(run, predicate) {
  const stated = predicate.get('files') ?? [];
  const [compared, uncovered] = [[], []];
  for (const file of run.beside) {
    const name = run.folder === '' ? file.name : pathOf(file).slice(run.folder.length + 1);
    const subject = stated.find((one) => one.get('name') === name);
    if (!subject && predicate.has('files') && !UNNAMED.includes(name)) {
      throw changed(`the file \`${pathOf(file)}\` is with the run, and no statement names it`);
    }
    if (subject && !(await fits(subject, await bytesOf(file)))) {
      throw changed(`the file \`${pathOf(file)}\` is not the one that was signed`);
    }
    (subject ? compared : uncovered).push(name);
  }
  const absent = stated.map((one) => one.get('name')).filter((name) => !compared.includes(name));
  return { compared, uncovered, absent };
}

async function bytesOfRun(run) {
  if (run.receipt.length !== 1 || run.envelope.length !== 1) {
    const where = run.folder === '' ? '' : ` in \`${run.folder}\``;
    throw unreadable(`choose the two files of one run together: \`RECEIPT.json\` and \`RECEIPT.dsse.json\`${where}`);
  }
  return { receipt: await bytesOf(run.receipt[0]), envelope: await bytesOf(run.envelope[0]) };
}

function workspaceKeys(pinned) {
  return pinned.keys.filter((key) => !key.name.startsWith('crealeph-log/'));
}

function outcome(isSigned) {
  return isSigned ? { state: 'good', headline: 'Verified' } : { state: 'unproven', headline: 'Consistent, but its origin is not proved' };
}
