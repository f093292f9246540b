// The shapes of receipts of work runs, of the statements around them, and of changes that wait for people.

import {
  amount, boolean, count, digest, gitHash, identifier, instant, list, object, openObject, optional, path, string, text, timestamp, uuid, word,
} from './shape.js';

const agentId = word(...Array.from({ length: 10 }, (_, number) => `agent-${number}`));
const strength = word('full', 'reduced', 'remote');
const artifact = object({ path, change: word('created', 'modified', 'deleted'), hash: optional(digest) });
const file = object({ path: text, hash: digest });
const delta = object({ path, line: optional(count(0)), removed: optional(count(0)), added: optional(count(0)) });
const account = object({ user: identifier, host: identifier, key: optional(identifier) });

const receipt = object({
  id: uuid,
  work_item_id: optional(identifier),
  agent_id: agentId,
  phase: word('run', 'reconcile'),
  started_at: timestamp,
  finished_at: timestamp,
  before_hash: digest,
  after_hash: digest,
  receipt_hash: digest,
  toolchain_version: identifier,
  diff_algorithm: optional(identifier),
  artifacts: list(artifact),
  proof_artifacts: list(file),
  delta_o: list(delta),
  delta_pi: list(delta),
  delta_lambda: list(delta),
  delta_q: list(delta),
  tool_trace: list(object({ at: optional(timestamp), tool: identifier, input: optional(openObject) })),
  tokens_used: optional(amount),
  cost_usd: optional(amount),
  test_log: optional(string),
  previous_receipt_hash: optional(digest),
  sandbox_strength: strength,
  connections: list(
    object({
      host: identifier,
      allowed: boolean,
      reason: optional(word('not_granted', 'private_address', 'unresolved', 'unreachable', 'malformed', 'too_many')),
    }),
  ),
  connections_left_off: optional(count(0)),
  earlier_run: optional(object({ relation: word('retry_of', 'undoes'), run: uuid, hash: digest })),
  status: word('succeeded', 'failed'),
  error: optional(text),
});

const workItem = object({
  id: identifier,
  agent_id: agentId,
  description: string,
  dependencies: list(identifier),
  constraints: optional(
    object({
      max_files: optional(count(0)),
      max_tool_ops: optional(count(0)),
      max_delta_size: optional(count(0)),
      timeout_ms: optional(count(1)),
    }),
  ),
  budget: object({ time_estimate_ms: amount, complexity: word('low', 'medium', 'high') }),
  input_files: optional(list(path)),
  output_files: optional(list(path)),
  test_command: optional(string),
});

const subject = object({
  name: text,
  digest: object({ blake3: optional(digest), gitBlob: optional(gitHash), gitCommit: optional(gitHash), sha256: optional(digest) }),
});

const bounds = object({
  max_files: count(0),
  max_tool_ops: count(0),
  max_delta_size: count(0),
  timeout_ms: count(1),
  max_tokens: optional(count(0)),
  max_cost_usd: optional(amount),
  allowed_paths: optional(list(text)),
  denied_paths: list(text),
  max_laws: optional(count(0)),
  max_invariants: optional(count(0)),
  max_projections: optional(count(0)),
  max_others: optional(count(0)),
  hosts: list(identifier),
  private_hosts: optional(boolean),
});

const statement = object({
  _type: word('https://in-toto.io/Statement/v1'),
  subject: list(subject),
  predicateType: word('urn:crealeph:predicate:work-run:v1', 'urn:crealeph:predicate:work-run:v2'),
  predicate: object({
    workspace: identifier,
    signers: list(identifier),
    work_item: optional(workItem),
    bounds: optional(bounds),
    admission: optional(
      object({
        admitted: boolean,
        reason: optional(text),
        files_touched: count(0),
        tool_ops: count(0),
        delta_size: count(0),
        run_hash: optional(digest),
      }),
    ),
    sandbox: optional(object({ strength, layers: list(identifier), missing: list(text) })),
    agent: optional(
      object({
        name: identifier,
        command: list(string),
        program: optional(text),
        program_blake3: optional(digest),
        version: optional(identifier),
        scripts: list(file),
        models: optional(list(identifier)),
      }),
    ),
    started_by: optional(account),
    verdicts: optional(
      list(
        object({
          decision: word('approved', 'rejected'),
          by: string,
          reason: string,
          at: timestamp,
          account: optional(account),
          key: optional(identifier),
          entry: optional(identifier),
        }),
      ),
    ),
    hidden: optional(object({ paths: list(text), left_off: optional(count(0)) })),
    merged: optional(list(digest)),
    files: optional(list(subject)),
    receipt,
  }),
});

const heldChange = object({
  run: uuid,
  item: identifier,
  task: string,
  agent: string,
  workspace: identifier,
  target: identifier,
  since: timestamp,
  baseState: digest,
  afterState: digest,
  files: count(0),
  paths: list(artifact),
  protected: boolean,
  tests: boolean,
  costUsd: optional(amount),
  testCommand: optional(string),
  testLog: optional(string),
  testsPassed: optional(count(0)),
  testsFailed: optional(count(0)),
  requester: optional(account),
  diffDigest: digest,
  diff: optional(string),
});

/** Whether a payload is the record of a change that waits for people. */
export function isHeldChange(payload) {
  return heldChange(payload) === null;
}

/** What is wrong with a statement; null if nothing is. */
export function statementProblem(value) {
  const problem = statement(value);
  if (problem) return problem;
  const predicate = value.get('predicate');
  const later = ['agent', 'started_by', 'verdicts', 'hidden'];
  if (value.get('predicateType').endsWith(':v1')) {
    const found = later.find((name) => predicate.has(name));
    return found ? `/predicate/${found}: it belongs to version 2` : null;
  }
  return predicate.has('started_by') ? null : '/predicate/started_by: version 2 says who started the run';
}

/** What is wrong with a receipt by its contract; null if nothing is. */
export function receiptProblem(value) {
  const problem = receipt(value);
  if (problem) return problem;
  if (instant(value.get('finished_at')) < instant(value.get('started_at'))) return '/finished_at: the run ended before it started';
  for (const [at, one] of value.get('artifacts').entries()) {
    if ((one.get('change') === 'deleted') === one.has('hash')) return `/artifacts/${at}: a file has a hash exactly if it is there`;
  }
  for (const [at, one] of value.get('connections').entries()) {
    if (one.get('allowed') && one.has('reason')) return `/connections/${at}: a connection that was let through has no reason`;
  }
  const hasFailed = value.get('status') === 'failed';
  if (hasFailed !== value.has('error')) return '/error: a failure says why, and a success does not';
  if (hasFailed && value.get('artifacts').length > 0) return '/artifacts: a failure leaves no artifacts';
  if (hasFailed && value.get('before_hash') !== value.get('after_hash')) return '/after_hash: a failure leaves the workspace as it was';
  return null;
}
