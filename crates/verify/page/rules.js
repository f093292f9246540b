// Entries that no honest ledger would have accepted: the rules from one entry of a log to the next.

import { eventProblem, gateProblem, orderProblem } from './event.js';
import { instant } from './shape.js';

const WRITTEN_TIME = '2026-01-01T00:00:00.000Z';

export class LogRules {
  constructor(origin) {
    this.entries = new Map();
    this.keys = new Set();
    this.events = new Set();
    this.executions = new Map();
    this.last = null;
    /** A log that began under the second rules says so in its name; an older one gets an entry that says so. */
    this.isSecond = origin.startsWith('crealeph-log/2-');
    /** How many entries are only valid by the rules of their time. */
    this.legacy = 0;
  }

  /** Judges the next entry and remembers it; null, or which rule it breaks. */
  add(entry, hasLostPayload) {
    const problem = writtenForm(entry);
    if (problem) return problem;
    const [id, key, kind] = [entry.get('id'), entry.get('key'), entry.get('type')];
    if (kind === 'log_rules' && key === 'crealeph:log_rules:2') this.isSecond = true;
    if (hasLostPayload) {
      if (this.isSecond) return 'has no payload';
      this.legacy += 1;
    }
    const createdAt = instant(entry.get('createdAt'));
    if (this.last !== null && createdAt < this.last) return 'is older than the entry before it';
    const observedAt = entry.get('observedAt');
    if (observedAt !== undefined && instant(observedAt) > createdAt) return `was observed at ${observedAt}, after it was created`;
    if (this.entries.has(id)) return 'has the id of an earlier entry';
    for (const on of entry.get('lineage')?.get('dependsOnLedgerIds') ?? []) {
      if (on.startsWith('key:') || !this.entries.has(on)) return `depends on \`${on}\`, which is not an earlier entry`;
    }
    if (kind === 'execution_event') {
      const refused = this.addEvent(entry);
      if (refused) return refused;
    }
    if (key !== undefined && this.keys.has(key)) return `has the key \`${key}\` of an earlier entry`;
    if (key !== undefined) this.keys.add(key);
    this.entries.set(id, { robotId: entry.get('robotId'), createdAt });
    this.last = createdAt;
    return null;
  }

  addEvent(entry) {
    const refused = (why) => `is an event that its contract refuses: ${why}`;
    const problem = eventProblem(entry, (id) => this.entries.get(id));
    if (problem) return refused(problem);
    const gate = gateProblem(entry);
    if (gate && this.isSecond) return refused(gate);
    if (gate) this.legacy += 1;
    const [payload, state] = [entry.get('payload'), entry.get('state')];
    const [robot, execution, attempt] = [entry.get('robotId'), payload.get('executionId'), payload.get('attempt')];
    const event = JSON.stringify([robot, execution, attempt, state]);
    if (this.events.has(event)) return `repeats the event \`${state}\` of attempt ${attempt} of an execution`;
    this.events.add(event);
    const name = JSON.stringify([robot, execution]);
    const last = this.executions.get(name);
    this.executions.set(name, { state, attempt });
    return last ? orderProblem(last, state, attempt) : null;
  }
}

/** The members of every entry, in the one form that a ledger writes. */
function writtenForm(entry) {
  const missing = ['module', 'source', 'state', 'payload'].find((name) => !entry.has(name));
  if (missing) return `has no \`${missing}\``;
  const createdAt = entry.get('createdAt');
  if (createdAt.length !== WRITTEN_TIME.length || !createdAt.endsWith('Z')) {
    return `has the createdAt \`${createdAt}\`, which no ledger writes: UTC with three digits and \`Z\``;
  }
  const lineage = entry.get('lineage');
  if (!lineage) return null;
  const ids = lineage.get('dependsOnLedgerIds');
  if (lineage.size === 0 || ids?.length === 0) return 'has an empty lineage, which no ledger writes';
  const isSorted = !ids || ids.every((id, at) => at === 0 || before(ids[at - 1], id));
  return isSorted ? null : 'has a lineage that is not a sorted set, which no ledger writes';
}

/** Whether one string comes before another by its characters. JavaScript compares by UTF-16 units, in which surrogates come too early. */
function before(one, other) {
  const [left, right] = [Array.from(one), Array.from(other)];
  for (let at = 0; at < Math.min(left.length, right.length); at += 1) {
    const difference = left[at].codePointAt(0) - right[at].codePointAt(0);
    if (difference !== 0) return difference < 0;
  }
  return left.length < right.length;
}
