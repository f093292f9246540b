//! Claude Code's `stream-json`: tool calls in the assistant's messages, tokens by message, everything once more in the result.

use crealeph_contracts::receipt::ToolCall;
use crealeph_contracts::scalar::{Literal, Name};
use serde_json::Value;

use super::{Growing, sum, text};
use crate::work::trace::{TraceReport, input};

const UNKNOWN: Literal = Literal::new("unknown");
const USAGE: &[&str] =
    &["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
const MODEL_USAGE: &[&str] =
    &["inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens"];
/// How many messages are remembered at a time; those of sub-agents come between each other.
const MAX_OPEN: usize = 64;

/// What was read so far.
#[derive(Debug, Default)]
pub(in crate::work) struct Stream {
    /// The tokens of the last messages; a message comes in several events, each with its usage so far.
    open: Vec<(String, f64)>,
    /// The tokens of all messages.
    sum: f64,
    tokens: Growing,
    cost_usd: Growing,
}

impl Stream {
    pub(super) fn event(&mut self, event: &Value) -> Vec<TraceReport> {
        match text(event, "type") {
            "assistant" => self.message(event.get("message").unwrap_or(&Value::Null)),
            "result" => self.result(event),
            _ => Vec::new(),
        }
    }

    fn message(&mut self, message: &Value) -> Vec<TraceReport> {
        let used = message.get("usage").map_or(0.0, |usage| sum(usage, USAGE));
        let id = text(message, "id");
        match self.open.iter_mut().find(|(open, _)| open == id) {
            Some((_, before)) => {
                self.sum += (used - *before).max(0.0);
                *before = before.max(used);
            }
            None => {
                self.sum += used;
                if self.open.len() >= MAX_OPEN {
                    self.open.remove(0);
                }
                self.open.push((id.to_owned(), used));
            }
        }
        let content = message.get("content").and_then(Value::as_array).into_iter().flatten();
        let calls = content.filter(|block| text(block, "type") == "tool_use").map(|block| {
            let tool = Name::parse(text(block, "name")).unwrap_or_else(|_| UNKNOWN.into());
            let call = ToolCall { at: None, tool, input: block.get("input").map(input) };
            TraceReport { call: Some(call), tokens: None, cost_usd: None }
        });
        let mut reported: Vec<TraceReport> = calls.collect();
        if let Some(tokens) = self.tokens.to(self.sum) {
            reported.push(TraceReport { call: None, tokens: Some(tokens), cost_usd: None });
        }
        reported
    }

    /// The totals of the whole session; by model they hold what sub-agents used as well.
    fn result(&mut self, event: &Value) -> Vec<TraceReport> {
        let whole = event.get("usage").map_or(0.0, |usage| sum(usage, USAGE));
        let by_model = event.get("modelUsage").and_then(Value::as_object).into_iter().flatten();
        let by_model: f64 = by_model.map(|(_, usage)| sum(usage, MODEL_USAGE)).sum();
        let tokens = self.tokens.to(whole.max(by_model));
        let cost_usd = event.get("total_cost_usd").and_then(Value::as_f64);
        let cost_usd = cost_usd.and_then(|cost| self.cost_usd.to(cost));
        match tokens.is_some() || cost_usd.is_some() {
            true => vec![TraceReport { call: None, tokens, cost_usd }],
            false => Vec::new(),
        }
    }
}
