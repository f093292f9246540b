//! Approvals of a report, as facts of a document.

use crealeph_runtime::report::{ApprovalStory, VerdictStory};

use super::executions::state;
use crate::render::counted;
use crate::report::{Inline, Tone, code, text};

/// The state of a subject, every verdict on it, and the key that all of them are based on.
pub(super) fn facts(story: &ApprovalStory) -> Vec<(&'static str, Vec<Inline>)> {
    let mut facts = vec![("Approval", approval(story))];
    facts.extend(story.verdicts.iter().map(|verdict| ("Verdict", self::verdict(verdict))));
    if let Some(root) = &story.root {
        facts.push(("Root", vec![text("the first admin's key "), code(root)]));
    }
    facts
}

fn approval(approval: &ApprovalStory) -> Vec<Inline> {
    let mut line = vec![state(&approval.state)];
    if let (Some(rule), Some(count)) = (&approval.rule, approval.approvals) {
        let count = counted(usize::try_from(count).unwrap_or(usize::MAX), "approval");
        let group = approval.group.as_deref().map_or_else(|| "anyone enrolled".to_owned(), str::to_owned);
        line.extend([text("; rule "), code(rule), text(format!(": {count} by {group}"))]);
    }
    line
}

fn verdict(verdict: &VerdictStory) -> Vec<Inline> {
    let tone = if verdict.counted { Tone::Good } else { Tone::Open };
    let mut line = vec![text(format!("{} by {} at {}", verdict.decision, verdict.person, verdict.at))];
    if let Some(key) = &verdict.key {
        line.extend([text(", key "), code(key)]);
    }
    let counts = match &verdict.uncounted_reason {
        None => "counts".to_owned(),
        Some(why) => format!("does not count: {why}"),
    };
    line.extend([text(", "), Inline::Word(counts, tone)]);
    if let Some(reason) = &verdict.reason {
        line.push(text(format!("; {reason}")));
    }
    line
}
