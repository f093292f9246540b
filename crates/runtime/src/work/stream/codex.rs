//! `codex exec --json`: items that start and complete, tokens when a turn does. Codex reports no cost.

use std::collections::BTreeSet;

use crealeph_contracts::json::{Node, NodeKind};

use super::{Growing, sum, text};
use crate::work::trace::{TraceReport, input_of};

/// What is said or thought, not done.
const WORDS: &[&str] = &["agent_message", "reasoning", "error"];
/// The members of an item that are not its input.
const NOT_INPUT: &[&str] =
    &["id", "type", "status", "aggregated_output", "exit_code", "result", "error", "server", "tool"];
/// How many items are distinguished.
const MAX_ITEMS: usize = 100_000;

/// What was read so far.
#[derive(Debug, Default)]
pub(in crate::work) struct Stream {
    seen: BTreeSet<String>,
    tokens: Growing,
}

impl Stream {
    pub(super) fn event(&mut self, event: Node<'_>, is_sound: bool) -> Vec<TraceReport> {
        let reported = match &*text(event, "type") {
            "item.started" | "item.completed" => {
                event.member("item").and_then(|item| self.item(item, is_sound))
            }
            "turn.completed" => {
                // Cached and reasoning tokens are parts of these two.
                let used =
                    event.member("usage").map_or(0.0, |usage| sum(usage, &["input_tokens", "output_tokens"]));
                TraceReport::usage(self.tokens.to(used), None)
            }
            _ => None,
        };
        reported.into_iter().collect()
    }

    /// An item is one tool call, reported when it is first met: some only complete.
    fn item(&mut self, item: Node<'_>, is_sound: bool) -> Option<TraceReport> {
        let kind = text(item, "type");
        let is_new = self.seen.len() >= MAX_ITEMS || self.seen.insert(text(item, "id").into_owned());
        if WORDS.contains(&&*kind) || !is_new || item.kind() != NodeKind::Object {
            return None;
        }
        let tool = match &*text(item, "server") {
            "" => kind.into_owned(),
            server => format!("{server}.{}", text(item, "tool")),
        };
        let given = item.members().filter(|(key, _)| !NOT_INPUT.contains(&&*key.text_value()));
        Some(TraceReport::call(&tool, Some(input_of(given, is_sound))))
    }
}
