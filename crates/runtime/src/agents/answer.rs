//! The one judgement that every kind of agent's answer goes through: strictly parsed, complete, and an answer to its own
//! input (R16). Owns the sentence that an event has if there is no answer; it is bounded and says exactly why.

use crealeph_contracts::agent_output::AgentAnswer;
use crealeph_contracts::json::Limits;
use crealeph_contracts::{AgentInput, AgentOutput, Valid, Violations};
use crealeph_sandbox::Redactor;

use super::NoAnswer;

/// Violations that a reason spells out; the others are counted.
const SPELT_OUT: usize = 5;
/// The clause of what is not a JSON document.
const NOT_A_DOCUMENT: &str = "R3";
/// The longest reason, in bytes.
const MAX_REASON_BYTES: usize = 4096;

/// What an answer is that holds a secret: its artifacts would be recorded permanently.
pub(super) fn holds_secret() -> NoAnswer {
    NoAnswer::from("the answer contains a secret that the agent was granted; answer without it".to_owned())
}

/// Judges the text of an answer against its input. It must hold none of the secrets, as it is written and as it is meant.
pub(super) fn judge(
    text: &[u8],
    max_bytes: usize,
    input: &Valid<AgentInput>,
    secrets: &Redactor,
) -> Result<AgentAnswer, NoAnswer> {
    if secrets.finds(text) {
        return Err(holds_secret());
    }
    let no_document =
        |reason: &str| Err(NoAnswer { clauses: vec![NOT_A_DOCUMENT], ..NoAnswer::from(reason.to_owned()) });
    let written = text.trim_ascii();
    if written.is_empty() {
        return no_document("the answer is empty; an agent answers with one AgentOutput document");
    }
    if written.starts_with(b"```") {
        return no_document("the answer is fenced with ```; answer with the bare JSON document");
    }
    let answer = AgentAnswer::parse(text, &Limits::outside(max_bytes), input)
        .map_err(|violations| refused(&violations))?;
    if secrets.finds(answer.to_json().as_bytes()) { Err(holds_secret()) } else { Ok(answer) }
}

/// How many tokens the artifacts say they took, if any of them says so.
pub(super) fn tokens_used(output: &AgentOutput) -> Option<f64> {
    let artifacts = output.artifacts.iter().flat_map(|list| list.as_slice());
    artifacts
        .filter_map(|artifact| artifact.metadata.tokens_used)
        .map(|tokens| tokens.get())
        .reduce(|a, b| a + b)
}

/// A reason within its bound.
pub(super) fn bounded(reason: String) -> String {
    if reason.len() <= MAX_REASON_BYTES {
        return reason;
    }
    let mut short: String = start(&reason, MAX_REASON_BYTES - '…'.len_utf8()).to_owned();
    short.push('…');
    short
}

/// The last part of a text, in at most `max_bytes`.
pub(crate) fn end(text: &str, max_bytes: usize) -> &str {
    let from = text.ceil_char_boundary(text.len().saturating_sub(max_bytes));
    text.get(from..).unwrap_or_default()
}

fn start(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or_default()
}

fn refused(violations: &Violations) -> NoAnswer {
    let all = violations.as_slice();
    let shown: Vec<String> = all.iter().take(SPELT_OUT).map(ToString::to_string).collect();
    let mut reason = format!("the answer breaks its contract: {}", shown.join("; "));
    if all.len() > SPELT_OUT {
        reason.push_str(&format!("; and {} more", all.len() - SPELT_OUT));
    }
    let mut clauses: Vec<&'static str> = all.iter().map(|violation| violation.clause).collect();
    clauses.sort_unstable();
    clauses.dedup();
    NoAnswer { clauses, ..NoAnswer::from(bounded(reason)) }
}
