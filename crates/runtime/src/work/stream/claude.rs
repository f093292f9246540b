//! Claude Code's `stream-json`: tool calls in the assistant's messages, tokens by message, and totals again in the result.

use crealeph_contracts::json::Node;

use super::{Growing, sum, text};
use crate::work::trace::{TraceReport, input};

const USAGE: &[&str] =
    &["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens"];
const MODEL_USAGE: &[&str] =
    &["inputTokens", "cacheCreationInputTokens", "cacheReadInputTokens", "outputTokens"];
/// How many messages are distinguished at a time; those of sub-agents come between each other.
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
    pub(super) fn event(&mut self, event: Node<'_>, is_sound: bool) -> Vec<TraceReport> {
        match (&*text(event, "type"), event.member("message")) {
            ("system", _) => TraceReport::model(&text(event, "model")).into_iter().collect(),
            ("assistant", Some(message)) => self.message(message, is_sound),
            ("result", _) => self.result(event).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    fn message(&mut self, message: Node<'_>, is_sound: bool) -> Vec<TraceReport> {
        let used = message.member("usage").map_or(0.0, |usage| sum(usage, USAGE));
        let id = text(message, "id");
        match self.open.iter_mut().find(|(open, _)| *open == id) {
            Some((_, before)) => {
                self.sum += (used - *before).max(0.0);
                *before = before.max(used);
            }
            None => {
                self.sum += used;
                if self.open.len() >= MAX_OPEN {
                    self.open.remove(0);
                }
                self.open.push((id.into_owned(), used));
            }
        }
        let content = message.member("content").into_iter().flat_map(Node::elements);
        let calls = content.filter(|block| text(*block, "type") == "tool_use").map(|block| {
            let given = block.member("input").map(|value| input(value, is_sound));
            TraceReport::call(&text(block, "name"), given)
        });
        let mut reported: Vec<TraceReport> = calls.collect();
        // A sub-agent may use another one than the session.
        reported.extend(TraceReport::model(&text(message, "model")));
        reported.extend(TraceReport::usage(self.tokens.to(self.sum), None));
        reported
    }

    /// The totals of the whole run; by model they hold what sub-agents used as well.
    fn result(&mut self, event: Node<'_>) -> Option<TraceReport> {
        let whole = event.member("usage").map_or(0.0, |usage| sum(usage, USAGE));
        let by_model = event.member("modelUsage").into_iter().flat_map(Node::members);
        let by_model: f64 = by_model.map(|(_, usage)| sum(usage, MODEL_USAGE)).sum();
        let tokens = self.tokens.to(whole.max(by_model));
        let cost_usd = event.member("total_cost_usd").and_then(Node::number);
        TraceReport::usage(tokens, cost_usd.and_then(|cost| self.cost_usd.to(cost)))
    }
}
