//! Work runs of a report, as parts of a document.

use crealeph_runtime::report::{
    AccountStory, ActivityReport, AdmissionStory, BoundStory, ChangeStory, ReceiptProof, RunRow, RunStory,
    RunVerdictStory, TestStory,
};
use crealeph_runtime::work::reason_in_words;

use super::super::work::is_made_id;
use super::{approvals, cut, proof, shown_in_full};
use crate::render::counted;
use crate::report::{Block, Inline, QuoteKind, Tone, code, listed, only, text};

/// How much of a task is shown in a table.
const MAX_TASK_CHARS: usize = 60;

type Fact = (&'static str, Vec<Inline>);

/// Adds the runs.
pub(super) fn blocks(report: &ActivityReport, blocks: &mut Vec<Block>) {
    let section = &report.runs;
    if section.rows.is_empty() {
        return;
    }
    blocks.push(Block::Heading { level: 2, text: only(text("Work runs")) });
    blocks.push(Block::Table {
        head: vec!["Run", "Started", "Agent", "Status", "Files", "Task"],
        rows: section.rows.iter().map(row).collect(),
    });
    blocks.extend(shown_in_full(section.rows.len(), section.stories.len(), "run"));
    section.stories.iter().for_each(|story| self::story(story, blocks));
}

fn row(row: &RunRow) -> Vec<Vec<Inline>> {
    let files = row.files.map_or_else(|| "-".to_owned(), |files| files.to_string());
    vec![
        only(code(&row.short_id)),
        only(text(&row.started_at)),
        only(text(row.agent.as_deref().unwrap_or("-"))),
        only(status(&row.status)),
        only(text(files)),
        only(text(shortened(&row.task))),
    ]
}

/// The start of a task, as it fits into a table.
fn shortened(task: &str) -> String {
    let start: String = task.chars().take(MAX_TASK_CHARS).collect();
    if start.len() < task.len() { format!("{start}…") } else { start }
}

fn status(word: &str) -> Inline {
    let tone = match word {
        "success" | "succeeded" => Tone::Good,
        "failure" | "failed" | "timeout" | "denied" => Tone::Bad,
        _ => Tone::Open,
    };
    Inline::Word(word.to_owned(), tone)
}

fn story(story: &RunStory, blocks: &mut Vec<Block>) {
    let row = &story.row;
    blocks.push(Block::Heading {
        level: 3,
        text: vec![text("Run "), code(&row.short_id), text(": "), status(&row.status)],
    });
    if let Some(asked) = &story.description {
        let title = format!("Asked{}", cut(asked.left_out_bytes));
        blocks.push(Block::Quote { title, text: asked.text.clone(), kind: QuoteKind::Text });
    }
    let mut facts = who(story);
    if let Some(admission) = &story.admission {
        facts.push(("Limits", self::admission(admission)));
    }
    facts.push(("Changed", changed(&story.change)));
    if let Some(tests) = &story.tests {
        facts.push(("Tests", self::tests(tests)));
    }
    match &story.approval {
        Some(approval) => facts.extend(approvals::facts(approval)),
        None => facts.extend(story.verdicts.iter().map(|verdict| ("Verdict", self::verdict(verdict)))),
    }
    facts.extend(sandbox_rows(story));
    facts.push(("Receipt", receipt(&story.proof)));
    blocks.push(Block::Facts(facts));
    if let Some(reason) = &story.reason {
        let title = format!("Why it did not succeed{}", cut(reason.left_out_bytes));
        blocks.push(Block::Quote {
            title,
            text: reason_in_words(&reason.text).into_owned(),
            kind: QuoteKind::Text,
        });
    }
    files(&story.change, blocks);
    let output = story.tests.as_ref().and_then(|tests| tests.output.as_ref());
    if let Some(output) = output {
        let title = match output.left_out_bytes {
            0 => "Output of the tests".to_owned(),
            bytes => format!("End of the output of the tests ({bytes} bytes before it are left out)"),
        };
        blocks.push(Block::Quote { title, text: output.text.clone(), kind: QuoteKind::Long });
    }
    if let Some(diff) = &story.change.diff {
        let title = format!("Diff{}", cut(diff.left_out_bytes));
        blocks.push(Block::Quote { title, text: diff.text.clone(), kind: QuoteKind::Diff });
    }
}

/// Which run, by which agent, started by whom.
fn who(story: &RunStory) -> Vec<Fact> {
    let row = &story.row;
    let mut facts = vec![("Id", only(code(row.run.to_string())))];
    if let Some(item) = row.item.as_ref().filter(|item| !is_made_id(item)) {
        facts.push(("Item", only(code(item))));
    }
    if let Some(earlier) = &story.earlier_run {
        let relation = match earlier.relation.as_ref() {
            "undoes" => "undoes run ",
            _ => "retries run ",
        };
        facts.push(("Based on", vec![text(relation), code(earlier.run.to_string())]));
    }
    let mut times = vec![text(format!("started {}", row.started_at))];
    times.extend(story.finished_at.iter().map(|at| text(format!("ended {at}"))));
    facts.push(("Time", listed(times)));
    if let Some(agent) = &story.program {
        let mut parts = vec![text(&agent.name)];
        parts.extend(agent.program.iter().map(code));
        parts.extend(agent.version.iter().map(|version| text(format!("version {version}"))));
        parts.extend(agent.models.iter().map(|model| text(format!("model {model}"))));
        facts.push(("Agent", listed(parts)));
    } else if let Some(agent) = &row.agent {
        facts.push(("Agent", only(text(agent))));
    }
    if let Some(account) = &story.started_by {
        facts.push(("Started by", self::account(account)));
    }
    facts
}

fn account(account: &AccountStory) -> Vec<Inline> {
    let mut line = vec![text(format!("{} on {}", account.user, account.host))];
    if let Some(key) = &account.key {
        line.extend([text(", key "), code(key)]);
    }
    line
}

fn admission(admission: &AdmissionStory) -> Vec<Inline> {
    let bound = |bound: &BoundStory| {
        let limit = bound.limit.map_or_else(String::new, |limit| format!(" of {limit}"));
        text(format!("{}{limit} {}", bound.used, bound.what))
    };
    let mut line = vec![match admission.admitted {
        true => Inline::Word("kept".to_owned(), Tone::Good),
        false => Inline::Word("exceeded".to_owned(), Tone::Bad),
    }];
    line.push(text(": "));
    line.extend(listed(admission.bounds.iter().map(bound)));
    line
}

fn changed(change: &ChangeStory) -> Vec<Inline> {
    let count = change.files.len() + usize::try_from(change.files_left_out).unwrap_or(0);
    if count == 0 {
        return only(text("nothing"));
    }
    let mut words = counted(count, "file");
    if let (Some(added), Some(removed)) = (change.added, change.removed) {
        let lines = counted(usize::try_from(added).unwrap_or(usize::MAX), "line");
        words.push_str(&format!(", {lines} added, {removed} removed"));
    }
    if change.is_discarded {
        words.push_str("; discarded, so the workspace is as it was");
    }
    let mut line = vec![text(words)];
    if let Some(commit) = &change.commit {
        line.extend([text("; commit "), code(&commit.commit), text(" on "), code(&commit.branch)]);
    }
    line
}

fn files(change: &ChangeStory, blocks: &mut Vec<Block>) {
    if change.files.is_empty() {
        return;
    }
    let number = |count: Option<u64>| text(count.map_or_else(|| "-".to_owned(), |count| count.to_string()));
    let rows = change.files.iter().map(|file| {
        vec![
            only(code(&file.path)),
            only(text(file.change.as_deref().unwrap_or("discarded"))),
            only(number(file.added)),
            only(number(file.removed)),
        ]
    });
    blocks.push(Block::Table { head: vec!["File", "Change", "Added", "Removed"], rows: rows.collect() });
    if change.files_left_out > 0 {
        let words = format!("{} more files are left out.", change.files_left_out);
        blocks.push(Block::Paragraph(only(text(words))));
    }
}

fn tests(tests: &TestStory) -> Vec<Inline> {
    let mut line = Vec::new();
    line.extend(tests.command.iter().map(code));
    if let (Some(passed), Some(failed)) = (tests.passed, tests.failed) {
        line.push(text(format!("{passed} passed, {failed} failed")));
    }
    listed(line)
}

fn verdict(verdict: &RunVerdictStory) -> Vec<Inline> {
    let tone = if verdict.decision == "approved" { Tone::Good } else { Tone::Bad };
    let mut line = vec![
        Inline::Word(verdict.decision.to_string(), tone),
        text(format!(" by {} at {}: {}", verdict.by, verdict.at, verdict.reason)),
    ];
    if let Some(account) = &verdict.account {
        line.push(text("; entered by "));
        line.extend(self::account(account));
    }
    if let Some(key) = &verdict.key {
        line.extend([text("; signed with key "), code(key)]);
    }
    line
}

/// What held the agent, what it reached, what it used.
fn sandbox_rows(story: &RunStory) -> Vec<Fact> {
    let mut facts = Vec::new();
    if let Some(strength) = &story.sandbox {
        let missing = story.sandbox_missing.iter().map(|missing| text(format!("without {missing}")));
        facts.push(("Sandbox", listed([text(strength)].into_iter().chain(missing))));
    }
    let mut network: Vec<Inline> = story
        .connections
        .iter()
        .map(|connection| {
            let fate = match (connection.allowed, connection.reason.as_deref()) {
                (true, _) => "reached".to_owned(),
                (false, None) => "refused".to_owned(),
                (false, Some(reason)) => format!("refused: {}", reason.replace('_', " ")),
            };
            text(format!("{} ({fate})", connection.host))
        })
        .collect();
    if story.connections_left_out > 0 {
        network.push(text(format!("{} more", story.connections_left_out)));
    }
    if !network.is_empty() {
        facts.push(("Network", listed(network)));
    }
    let mut hidden: Vec<Inline> = story.hidden.iter().map(code).collect();
    if story.hidden_left_out > 0 {
        hidden.push(text(format!("{} more", story.hidden_left_out)));
    }
    if !hidden.is_empty() {
        facts.push(("Hidden", listed(hidden)));
    }
    let tokens = story.tokens.map(|tokens| format!("{tokens} tokens"));
    let cost = story.cost_usd.map(|cost| format!("{cost} US dollars"));
    let used: Vec<Inline> = [tokens, cost].into_iter().flatten().map(text).collect();
    if !used.is_empty() {
        let mut line = listed(used);
        line.push(text(" (as the agent reported)"));
        facts.push(("Used", line));
    }
    facts
}

fn receipt(receipt: &ReceiptProof) -> Vec<Inline> {
    let mut line = vec![proof(receipt.status)];
    line.extend(receipt.detail.iter().map(|detail| text(format!(": {detail}"))));
    for signer in &receipt.signers {
        line.extend([text(", signed by "), code(signer)]);
    }
    if let Some(hash) = &receipt.receipt_hash {
        line.extend([text(", hash "), code(hash)]);
    }
    if let Some(seq) = receipt.entry_seq {
        let covered = if receipt.is_in_checkpoint { "covered" } else { "not covered yet" };
        line.push(text(format!(", entry {seq} of the log, {covered} by its checkpoint")));
    }
    if !receipt.absent_files.is_empty() {
        line.push(text("; removed since: "));
        line.extend(listed(receipt.absent_files.iter().map(code)));
    }
    line
}
