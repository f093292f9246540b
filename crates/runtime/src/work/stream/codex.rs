//! `codex exec --json`: items that start and complete, tokens when a turn does. Codex reports no cost.

use std::collections::BTreeSet;

use crealeph_contracts::receipt::ToolCall;
use crealeph_contracts::scalar::{Literal, Name};
use serde_json::{Map, Value};

use super::{Growing, sum, text};
use crate::work::trace::{TraceReport, input};

const UNKNOWN: Literal = Literal::new("unknown");
/// What is said or thought, not done.
const WORDS: &[&str] = &["agent_message", "reasoning", "error"];
/// What an item says of itself that is no input.
const NOT_INPUT: &[&str] =
    &["id", "type", "status", "aggregated_output", "exit_code", "result", "error", "server", "tool"];
/// How many items are remembered.
const MAX_ITEMS: usize = 100_000;

/// What was read so far.
#[derive(Debug, Default)]
pub(in crate::work) struct Stream {
    seen: BTreeSet<String>,
    tokens: Growing,
}

impl Stream {
    pub(super) fn event(&mut self, event: &Value) -> Vec<TraceReport> {
        match text(event, "type") {
            "item.started" | "item.completed" => {
                event.get("item").and_then(|item| self.item(item)).into_iter().collect()
            }
            "turn.completed" => {
                // Cached and reasoning tokens are parts of these two.
                let used =
                    event.get("usage").map_or(0.0, |usage| sum(usage, &["input_tokens", "output_tokens"]));
                let tokens = self.tokens.to(used);
                tokens
                    .map(|tokens| TraceReport { call: None, tokens: Some(tokens), cost_usd: None })
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    /// An item is one tool call, reported when it is first met: some only complete.
    fn item(&mut self, item: &Value) -> Option<TraceReport> {
        let kind = text(item, "type");
        let is_new = self.seen.len() >= MAX_ITEMS || self.seen.insert(text(item, "id").to_owned());
        if WORDS.contains(&kind) || !is_new {
            return None;
        }
        let name = match text(item, "server") {
            "" => kind.to_owned(),
            server => format!("{server}.{}", text(item, "tool")),
        };
        let members = item.as_object()?.iter().filter(|(key, _)| !NOT_INPUT.contains(&key.as_str()));
        let given: Map<String, Value> = members.map(|(key, value)| (key.clone(), value.clone())).collect();
        let tool = Name::parse(&name).unwrap_or_else(|_| UNKNOWN.into());
        let call = ToolCall { at: None, tool, input: Some(input(&Value::Object(given))) };
        Some(TraceReport { call: Some(call), tokens: None, cost_usd: None })
    }
}
