// Exports, line by line: every entry against its leaf, the rules of a log and the number before it; every checkpoint against the
// tree so far. The first problem is thrown as a Finding.

import { equal, hex } from './bytes.js';
import { ApprovalLog } from './approvals.js';
import { entryProblem, leafOf, readAround } from './entry.js';
import { changed, Finding, unreadable } from './finding.js';
import { GrantLog } from './grants.js';
import { openCheckpoint, statedCheckpoint } from './note.js';
import { LogRules } from './rules.js';
import { identifier } from './shape.js';
import { Tree } from './tree.js';

const FORMAT = 'crealeph-ledger-export-v1';
/** The longest line, in characters. */
export const MAX_LINE = 64 << 20;

export class ExportVerifier {
  /**
   * `keys` are the reader's own. With keys, a checkpoint that none of them has signed is a finding, unless `isLenient`;
   * without, it is counted as unknown.
   */
  constructor(keys, { isLenient = keys.length === 0 } = {}) {
    this.keys = keys;
    this.isLenient = isLenient;
    this.kept = [];
    this.origin = null;
    this.tree = new Tree();
    this.grants = new GrantLog();
    this.signedEntries = 0;
    this.checkpoints = 0;
    this.unknownCheckpoints = 0;
  }

  /** Adds a checkpoint that the reader kept elsewhere; before the first line. */
  async keep(note) {
    try {
      this.kept.push(await openCheckpoint(note, this.keys));
    } catch (error) {
      if (!(error instanceof Finding)) throw error;
      throw new Finding(error.kind === 'unsigned' ? 'forged' : error.kind, `the checkpoint you kept: ${error.message}`);
    }
    this.checkKept();
  }

  async line(line) {
    const next = this.tree.size + 1;
    const read = line.length <= MAX_LINE ? readAround(line) : null;
    if (!read) throw changed(`the line where entry ${next} should be is not JSON; entry ${next} was changed`, next);
    const isObject = read.value instanceof Map;
    if (this.origin === null) this.readHeader(isObject ? read.value : new Map());
    else if (isObject && typeof read.value.get('checkpoint') === 'string') await this.readCheckpoint(read.value.get('checkpoint'));
    else await this.readEntry(read, isObject);
  }

  readHeader(header) {
    if (header.get('format') !== FORMAT) throw unreadable(`the first line does not say ${FORMAT}`);
    const [origin, tenant] = [header.get('origin'), header.get('tenantId')];
    if (typeof origin !== 'string' || typeof tenant !== 'string') throw unreadable('the first line does not name the log and its tenant');
    const isName = origin !== '' && new TextEncoder().encode(origin).length <= 256 && !/[\n+ ]/.test(origin);
    if (!isName || identifier(tenant) !== null) throw unreadable('the first line names a log or tenant that no ledger has');
    if (this.keys.length > 0 && !this.keys.some((key) => key.name === origin)) {
      throw unreadable(`the export is of the log \`${origin}\`, and the key is for \`${this.keys[0].name}\``);
    }
    const foreign = this.kept.find((kept) => kept.origin !== origin);
    if (foreign) throw unreadable(`the checkpoint you kept is of the log \`${foreign.origin}\`, and the export of \`${origin}\``);
    const stated = header.get('entries');
    this.stated = typeof stated === 'number' && stated >= 0 ? Math.trunc(stated) : null;
    this.rules = new LogRules(origin);
    this.approvals = new ApprovalLog(origin, tenant);
    this.tenant = tenant;
    this.origin = origin;
  }

  async readEntry(read, isObject) {
    const next = this.tree.size + 1;
    if (!isObject || !read.value.has('entry') || read.value.size !== 2) throw changed(`the line of entry ${next} is not one of an export`, next);
    const leaf = leafOf(read);
    if (!leaf) throw changed(`entry ${next} is not in canonical form; it was changed`, next);
    const { entry, id, seq, hash } = leaf;
    if (seq > next) throw new Finding('missing', `entry ${next} is missing; entry ${seq} (\`${id}\`) is in its place`, next);
    if (seq < next) throw new Finding('reordered', `entry ${seq} (\`${id}\`) is where entry ${next} should be; entries were reordered`, next);
    const problem = entryProblem(entry);
    if (problem) throw changed(`entry ${seq} (\`${id}\`) is not an entry (${problem}); it was changed`, seq);
    if (read.value.get('leaf') !== hex(hash)) throw changed(`entry ${seq} (\`${id}\`) does not match its leaf hash; it was changed`, seq);
    if (entry.get('tenantId') !== this.tenant) throw changed(`entry ${seq} (\`${id}\`) belongs to another tenant`, seq);
    await this.checkRules(entry, read.hasLostPayload);
    this.tree.add(hash);
    this.checkKept();
  }

  async checkRules(entry, hasLostPayload) {
    const [seq, id] = [entry.get('seq'), entry.get('id')];
    const broken = this.rules.add(entry, hasLostPayload);
    if (broken) throw new Finding('invalid', broken).ofEntry(seq, id);
    try {
      this.approvals.hold(entry);
      await this.approvals.add(entry);
      this.approvals.checkHeld(entry);
      await this.grants.add(entry);
    } catch (error) {
      throw error instanceof Finding ? error.ofEntry(seq, id) : error;
    }
  }

  async readCheckpoint(note) {
    const size = this.tree.size;
    let [checkpoint, isSigned] = [null, true];
    try {
      try {
        checkpoint = await openCheckpoint(note, this.keys);
      } catch (error) {
        if (error.kind !== 'unsigned' || !this.isLenient) throw error;
        [checkpoint, isSigned] = [statedCheckpoint(note), false];
      }
    } catch (error) {
      if (!(error instanceof Finding)) throw error;
      const advice = error.kind === 'unsigned' ? 'if its key was rotated, give the newer key too' : 'compare it with one that was kept elsewhere';
      throw new Finding(error.kind, `the checkpoint after entry ${size}: ${error.message}; ${advice}`, size);
    }
    if (checkpoint.origin !== this.origin) {
      throw unreadable(`a checkpoint in the export is of the log \`${checkpoint.origin}\`, and the export of \`${this.origin}\``);
    }
    if (checkpoint.size > size) {
      throw new Finding('missing', `the checkpoint of ${checkpoint.size} entries comes after entry ${size}; entry ${size + 1} is missing`, size + 1);
    }
    if (checkpoint.size < size) throw new Finding('reordered', `a checkpoint of ${checkpoint.size} entries comes after entry ${size}`, size + 1);
    this.compare(checkpoint, 'the checkpoint in the export', isSigned);
    if (isSigned) this.checkpoints += 1;
    else this.unknownCheckpoints += 1;
  }

  checkKept() {
    for (const kept of this.kept) if (kept.size === this.tree.size) this.compare(kept, 'the checkpoint you kept', true);
  }

  compare(checkpoint, whose, isSigned) {
    const { size, root } = checkpoint;
    if (equal(root, this.tree.root())) {
      if (isSigned) this.signedEntries = Math.max(this.signedEntries, size);
      return;
    }
    const from = this.signedEntries + 1;
    throw new Finding(
      'forked',
      `${whose} of ${size} entries states another history: one of the entries ${from} to ${size} was changed together with its leaf hash, ` +
        `or the log was forked there; entries 1 to ${this.signedEntries} are as signed`,
      from,
    );
  }

  /** Returns the result for the export. */
  finish() {
    if (this.origin === null) throw unreadable('the export is empty');
    const entries = this.tree.size;
    const cut = this.kept.find((kept) => kept.size > entries);
    if (cut) {
      const what = `the log ends after entry ${entries}, and the checkpoint you kept has ${cut.size}; entry ${entries + 1} is missing`;
      throw new Finding('truncated', what, entries + 1);
    }
    if (this.stated !== null && this.stated > entries) {
      const what = `the export has ${this.stated} entries by its first line and ends after entry ${entries}; it was cut`;
      throw new Finding('truncated', what, entries + 1);
    }
    return {
      origin: this.origin,
      tenant: this.tenant,
      entries,
      root: this.tree.root(),
      checkpoints: this.checkpoints,
      signedEntries: this.signedEntries,
      unknownCheckpoints: this.unknownCheckpoints,
      legacyEntries: this.rules.legacy,
      approvalRoot: this.approvals.root,
      verdicts: this.approvals.verdicts.size,
      unsettledLandings: this.approvals.unsettled,
    };
  }
}
