// Events of executions: their contract (builder-execution-v1), and the order in which they may follow each other.

import { amount, boolean, count, identifier, instant, list, object, openObject, optional, text, timestamp, word } from './shape.js';

const BLOCKED = 'COHERENCE_BLOCKED';
const MODEL_OUTPUT_INVALID = 'MODEL_OUTPUT_INVALID';
const REVIEW = 'PARTIAL_REQUIRES_REVIEW';
const ENVELOPE = ['actor', 'id', 'key', 'seq'];

const eventShape = object({
  tenantId: identifier,
  robotId: identifier,
  module: word('agent-builder'),
  source: word('agent-builder'),
  type: word('execution_event'),
  state: word('planned', 'running', 'succeeded', 'failed', 'cancelled'),
  createdAt: timestamp,
  payload: object({
    executionId: identifier,
    workflowVersion: identifier,
    agentVersion: identifier,
    executionContractVersion: word('v1'),
    attempt: count(1),
    target: identifier,
    action: identifier,
    snapshotAt: timestamp,
    coherenceStatus: word('coherent', 'partial', 'stale'),
    dryRun: boolean,
    result: optional(openObject),
    error: optional(object({ code: text, message: text, retryable: boolean })),
    cancelReason: optional(text),
    externalRefs: optional(openObject),
    durationMs: optional(amount),
  }),
  lineage: object({ dependsOnLedgerIds: list(identifier, 1), rerunOfExecutionId: optional(identifier) }),
});

/** The rules for every event ever recorded; null, or what is wrong. `find` gives robot and time of an earlier entry. */
export function eventProblem(entry, find) {
  const event = new Map([...entry].filter(([key]) => !ENVELOPE.includes(key)));
  const problem = eventShape(event);
  if (problem) return problem;
  const [payload, lineage, state] = [event.get('payload'), event.get('lineage'), event.get('state')];
  const snapshotAt = instant(payload.get('snapshotAt'));
  if (snapshotAt > instant(event.get('createdAt'))) return 'its snapshot is newer than itself';
  if (lineage.get('rerunOfExecutionId') === payload.get('executionId')) return 'it is a rerun of its own execution';
  if (state === 'failed' && !payload.has('error')) return 'it failed and does not say why';
  if (state === 'cancelled' && !payload.has('cancelReason')) return 'it was cancelled and does not say why';
  if ((state === 'failed' || state === 'cancelled') && payload.has('result')) return `it is ${state} and has a result`;
  if (payload.get('coherenceStatus') === 'stale') {
    if (state !== 'failed') return `it is based on a stale snapshot and is ${state}`;
    const error = payload.get('error');
    if (error.get('code') !== BLOCKED || error.get('retryable')) return `a stale execution fails with ${BLOCKED}, and not retryable`;
  }
  for (const id of lineage.get('dependsOnLedgerIds')) {
    const known = find(id);
    if (!known) return `it is based on \`${id}\`, which is not an earlier entry`;
    if (known.robotId !== event.get('robotId')) return `it is based on \`${id}\`, which belongs to another robot`;
    if (known.createdAt > snapshotAt) return `it is based on \`${id}\`, which is newer than its snapshot`;
  }
  return null;
}

/** What the gating matrix refuses of an event that is otherwise valid. */
export function gateProblem(entry) {
  const payload = entry.get('payload');
  const [state, coherence] = [entry.get('state'), payload.get('coherenceStatus')];
  const code = payload.get('error')?.get('code');
  const reason = payload.get('cancelReason');
  if (coherence === 'stale' || state === 'running') return null;
  if (state === 'succeeded' && !payload.get('dryRun')) return 'an execution succeeds only with dryRun true';
  if (coherence === 'coherent') {
    if (state === 'failed' && code === BLOCKED) return `a coherent execution does not fail with ${BLOCKED}`;
    if (state === 'cancelled' && reason === REVIEW) return `a coherent execution is not cancelled with ${REVIEW}`;
    return null;
  }
  if (state === 'planned') return 'an execution on a partial snapshot is never planned';
  if (state === 'failed' && code !== BLOCKED && code !== MODEL_OUTPUT_INVALID) return `a partial execution does not fail with ${code}`;
  if (state === 'cancelled' && reason !== REVIEW) return `a partial execution is cancelled with ${REVIEW} alone`;
  return null;
}

const NEXT = { planned: ['running'], running: ['succeeded', 'failed', 'cancelled'], failed: ['planned', 'running'], succeeded: [], cancelled: [] };

/** Whether an event may follow the last one of its execution; null, or why not. */
export function orderProblem(last, state, attempt) {
  if (!NEXT[last.state].includes(state)) return `is an event \`${state}\` after \`${last.state}\`, which the state machine does not allow`;
  const isLater = last.state === 'failed' ? attempt > last.attempt : attempt >= last.attempt;
  return isLater ? null : `is an event of attempt ${attempt} after \`${last.state}\` of attempt ${last.attempt}`;
}
