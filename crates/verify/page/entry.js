// One entry: its shape, its canonical text and its leaf in the log.

import { hex, utf8 } from './bytes.js';
import { blake3 } from './blake3.js';
import { canonical, JsonFault, parseJson } from './json.js';
import { count, identifier, list, object, openObject, optional, timestamp } from './shape.js';
import { leafHash } from './tree.js';

/** How an older version stored an entry whose payload nested too deep for it: without a payload. */
const LOST_PAYLOAD = '"payload":,"robotId":';
const EMPTY_PAYLOAD = '"payload":{},"robotId":';

const lineage = object({
  dependsOnLedgerIds: optional(list(identifier)),
  executionId: optional(identifier),
  rerunOfExecutionId: optional(identifier),
});

const entryShape = object({
  id: identifier,
  seq: optional(count(0)),
  tenantId: optional(identifier),
  robotId: identifier,
  module: optional(identifier),
  source: optional(identifier),
  type: identifier,
  state: optional(identifier),
  createdAt: timestamp,
  observedAt: optional(timestamp),
  payload: optional(openObject),
  lineage: optional(lineage),
  key: optional(identifier),
  actor: optional(identifier),
});

/** What is wrong with an entry's form; null if nothing is. */
export function entryProblem(entry) {
  return entryShape(entry);
}

/** Reads a line or file that holds an entry, including one that lost its payload; null if it is not JSON. */
export function readAround(text) {
  const lost = text.includes(LOST_PAYLOAD);
  const readable = lost ? text.replace(LOST_PAYLOAD, () => EMPTY_PAYLOAD) : text;
  try {
    return { ...parseJson(readable), text: readable, hasLostPayload: lost };
  } catch (error) {
    if (error instanceof JsonFault) return null;
    throw error;
  }
}

/** The leaf of the member `entry` of a document that was read; null if the entry is not in canonical form, or has no id or number. */
export function leafOf({ value, spans, text, hasLostPayload }) {
  const entry = value.get('entry');
  const source = text.slice(...spans.get('entry'));
  if (canonical(entry) !== source || !(entry instanceof Map)) return null;
  const [id, seq] = [entry.get('id'), entry.get('seq')];
  if (typeof id !== 'string' || !Number.isSafeInteger(seq) || seq < 1) return null;
  const stored = hasLostPayload ? source.replace(EMPTY_PAYLOAD, () => LOST_PAYLOAD) : source;
  const record = canonical(new Map([['blake3', hex(blake3(utf8(stored)))], ['id', id], ['seq', seq]]));
  return { entry, id, seq, source, hash: leafHash(utf8(record)) };
}
