// The chain of a workspace's receipts: from the first one on, each names the one before it by its hash. Finds forks, gaps, a second
// first receipt, receipts of other workspaces, and a chain that lost its end. The number in a finding is a position in the chain.

import { changed, Finding, unreadable } from './finding.js';
import { verifyReceipt } from './receipt.js';
import { uuid } from './shape.js';

const MAX_RECEIPTS = 1_000_000;

/** The receipts of one workspace, added in any order. */
export class ReceiptChain {
  /** Each must be signed by one of the keys. With `isUnproven` keys are not required, as with `verifyReceipt`. */
  constructor(workspace, keys, isUnproven = false) {
    this.workspace = workspace;
    this.keys = keys;
    this.isUnproven = isUnproven;
    this.receipts = new Map();
  }

  /** Checks the receipt at `path` in the folder called `folder`, and adds it; adding it twice changes nothing. */
  async add(path, folder, receiptBytes, envelopeBytes) {
    let verified;
    try {
      verified = await verifyReceipt(receiptBytes, envelopeBytes, this.keys, this.isUnproven);
      checkFolderName(verified.receipt, folder);
    } catch (error) {
      throw error instanceof Finding ? error.about(`the receipt \`${path}\``) : error;
    }
    const workspace = verified.statement.get('predicate').get('workspace');
    if (workspace !== this.workspace) {
      throw new Finding('forked', `the receipt \`${path}\` is of \`${workspace}\`, and the chain is of \`${this.workspace}\``);
    }
    if (this.receipts.size >= MAX_RECEIPTS) throw unreadable(`there are more than ${MAX_RECEIPTS} receipts`);
    const { receipt } = verified;
    this.receipts.set(receipt.get('receipt_hash'), {
      id: receipt.get('id'),
      previous: receipt.get('previous_receipt_hash') ?? null,
      earlier: receipt.get('earlier_run') ?? null,
    });
    return verified;
  }

  /** The hashes of the receipts from the first one on, if they are one chain that has every hash in `kept`. Throws a Finding. */
  ordered(kept) {
    const after = new Map();
    for (const [hash, { previous }] of this.receipts) after.set(previous, [...(after.get(previous) ?? []), hash].sort());
    const chain = [];
    for (let next = after.get(null); next; next = after.get(chain.at(-1))) {
      if (next.length > 1) throw this.fork(next, chain);
      chain.push(next[0]);
    }
    const place = chain.length + 1;
    const reached = new Set(chain);
    const unreached = [...after.keys()].filter((hash) => hash !== null && !reached.has(hash)).sort();
    // A receipt that exists and cannot be reached is not missing; the missing one comes before it.
    const missing = unreached.find((hash) => !this.receipts.has(hash)) ?? unreached[0];
    if (missing) {
      throw new Finding('missing', `the receipt with the hash \`${missing}\` is missing; it comes before ${this.names(after.get(missing))}`, place);
    }
    const lost = kept.find((hash) => !reached.has(hash));
    if (lost) throw new Finding('truncated', `the receipt with the hash \`${lost}\`, which you kept, is not in the chain`, place);
    this.checkEarlierRuns(chain);
    return chain;
  }

  /** The receipt that a retry or an undo depends on comes before it, and is of the run that it names. */
  checkEarlierRuns(chain) {
    const before = new Map();
    for (const [at, hash] of chain.entries()) {
      const { id, earlier } = this.receipts.get(hash);
      if (earlier && before.get(earlier.get('hash')) !== earlier.get('run')) {
        throw new Finding('missing', `receipt ${id} depends on run ${earlier.get('run')}, whose receipt does not come before it`, at + 1);
      }
      before.set(hash, id);
    }
  }

  fork(hashes, chain) {
    const where = chain.length === 0 ? 'are both the first receipt' : `both come after ${this.names(chain.slice(-1))}`;
    return new Finding('forked', `${this.names(hashes)} ${where}; the chain was forked`, chain.length + 1);
  }

  names(hashes) {
    return hashes.map((hash) => `receipt ${this.receipts.get(hash).id}`).join(' and ');
  }
}

/** A folder that is named like a run holds the receipt of that run. */
function checkFolderName(receipt, folder) {
  if (uuid(folder) === null && folder !== receipt.get('id')) {
    throw changed(`the folder is that of run ${folder}, and holds the receipt of run ${receipt.get('id')}`);
  }
}
