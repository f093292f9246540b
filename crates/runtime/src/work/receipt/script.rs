//! The replay script of a success (R31): short enough to be read before it is run.

use crealeph_contracts::text::Shown;

use super::ReceiptFacts;

/// The script's name.
pub(super) fn name(facts: &ReceiptFacts) -> String {
    format!("replay-{}.sh", facts.agent_id)
}

/// The script's text.
pub(super) fn replay(facts: &ReceiptFacts, name: &str) -> String {
    let item = facts.item.as_ref().map(|item| item.id.as_str()).unwrap_or_default();
    let item = Shown::line(item);
    format!(
        r#"#!/usr/bin/env bash
# {name}
# Replays run {run} of work item `{item}` by {agent}, in a scratch folder that is removed afterwards.
# No workspace is touched. Needs bash, `crealeph`, and the folder this script lies in: the run in its workspace,
# or what `crealeph work export` made of it.
#
#   ./{name}             applies the recorded change to the recorded state before
#   ./{name} --on DIR    starts from the files in DIR instead, for example a fresh clone
#   ./{name} --rerun     runs the agent again instead of applying what it did
set -euo pipefail

RUN="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"
EXPECTED_HASH="{after}"

# Restores the state {before},
# replays the run on it, and prints the hash of the state that comes of it.
ACTUAL_HASH="$("${{CREALEPH:-crealeph}}" work replay "$RUN" --print-hash "$@")"

if [ "$ACTUAL_HASH" != "$EXPECTED_HASH" ]; then
  echo "error: the replay gives the state $ACTUAL_HASH, and the run gave $EXPECTED_HASH" >&2
  exit 1
fi
echo "replayed: the state is $EXPECTED_HASH, as the receipt says"
"#,
        run = facts.id,
        agent = facts.agent_id,
        before = facts.before,
        after = facts.after,
    )
}
