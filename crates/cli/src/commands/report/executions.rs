//! Executions of a report, as parts of a document.

use crealeph_contracts::json::{Limits, parse, pretty};
use crealeph_runtime::report::{
    ActivityReport, ArtifactStory, AttemptStory, EvidenceStory, ExecutionRow, ExecutionStory,
};

use super::{approvals, cut, shown_in_full};
use crate::render::counted;
use crate::report::{Block, Inline, QuoteKind, Tone, code, only, text};

/// Adds the executions.
pub(super) fn blocks(report: &ActivityReport, blocks: &mut Vec<Block>) {
    let section = &report.executions;
    if section.rows.is_empty() {
        return;
    }
    blocks.push(Block::Heading { level: 2, text: only(text("Executions")) });
    blocks.push(Block::Table {
        head: vec!["Execution", "At", "Robot", "State", "Action"],
        rows: section.rows.iter().map(row).collect(),
    });
    blocks.extend(shown_in_full(section.rows.len(), section.stories.len(), "execution"));
    section.stories.iter().for_each(|story| self::story(story, blocks));
}

fn row(row: &ExecutionRow) -> Vec<Vec<Inline>> {
    vec![
        only(code(&row.short_id)),
        only(text(&row.at)),
        only(text(row.robot_id.as_str())),
        only(state(&row.state)),
        only(text(row.action.as_deref().unwrap_or("-"))),
    ]
}

/// The word for a state.
pub(super) fn state(word: &str) -> Inline {
    let tone = match word {
        "succeeded" | "planned" | "landed" | "approved" => Tone::Good,
        "failed" | "rejected" => Tone::Bad,
        _ => Tone::Open,
    };
    Inline::Word(word.to_owned(), tone)
}

fn story(story: &ExecutionStory, blocks: &mut Vec<Block>) {
    let row = &story.row;
    blocks.push(Block::Heading {
        level: 3,
        text: vec![text("Execution "), code(&row.short_id), text(": "), state(&row.state)],
    });
    let mut facts =
        vec![("Id", only(code(row.execution_id.as_str()))), ("Robot", only(code(row.robot_id.as_str())))];
    if story.dry_run == Some(true) {
        facts.push(("Requested", only(text("drafts only (dry run)"))));
    }
    for entry in &story.unreadable {
        facts.push(("Unreadable", vec![text("the record in entry "), code(entry)]));
    }
    blocks.push(Block::Facts(facts));
    if let Some(objective) = &story.objective {
        let title = format!("Asked{}", cut(objective.left_out_bytes));
        blocks.push(Block::Quote { title, text: objective.text.clone(), kind: QuoteKind::Text });
    }
    if story.attempts_left_out > 0 {
        let words = format!("{} older attempts are left out.", story.attempts_left_out);
        blocks.push(Block::Paragraph(only(text(words))));
    }
    story.attempts.iter().for_each(|attempt| self::attempt(attempt, blocks));
    story.artifacts.iter().for_each(|artifact| self::artifact(artifact, blocks));
    if story.has_more_artifacts {
        blocks.push(Block::Paragraph(only(text("It made more artifacts, which are left out."))));
    }
}

fn attempt(attempt: &AttemptStory, blocks: &mut Vec<Block>) {
    let tone = if attempt.decision == "ALLOW" { Tone::Good } else { Tone::Bad };
    let mut facts = vec![
        ("Attempt", vec![text(format!("{}, ended ", attempt.attempt)), state(&attempt.state)]),
        (
            "Decided",
            vec![
                Inline::Word(attempt.decision.clone(), tone),
                text(format!(" at {}, confidence {}", attempt.decided_at, attempt.confidence)),
            ],
        ),
    ];
    for rule in &attempt.rules {
        facts.push(("Rule", vec![code(&rule.rule_id), text(format!(": {}", rule.message))]));
    }
    let ran = if attempt.agent_ran { "was called" } else { "was not called" };
    facts.push(("Agent", only(text(ran))));
    facts.push(("Outcome", only(text(&attempt.reason))));
    facts.push(("Evidence", only(text(format!("{} as a whole", attempt.coherence)))));
    if let Some(replay) = &attempt.replay {
        let words = match replay.follows {
            true => vec![
                Inline::Word("follows".to_owned(), Tone::Good),
                text(": the decision was derived again from the log, with the same result"),
            ],
            false => vec![
                Inline::Word("does not follow".to_owned(), Tone::Bad),
                text(format!(": {} differs", replay.differs.join(", "))),
            ],
        };
        facts.push(("Replay", words));
    }
    blocks.push(Block::Facts(facts));
    if !attempt.evidence.is_empty() {
        blocks.push(Block::Table {
            head: vec!["Evidence", "Observed", "Age then", "Entry"],
            rows: attempt.evidence.iter().map(|used| evidence(used, attempt.max_age_minutes)).collect(),
        });
    }
}

fn evidence(used: &EvidenceStory, max_age_minutes: f64) -> Vec<Vec<Inline>> {
    let fresh = match used.is_fresh {
        _ if used.is_outdated => {
            Inline::Word("outdated: what it is based on is not the newest".to_owned(), Tone::Bad)
        }
        true => Inline::Word("fresh".to_owned(), Tone::Good),
        false => Inline::Word(format!("not fresh: the limit is {max_age_minutes} minutes"), Tone::Bad),
    };
    let age = match used.age_minutes {
        age if age < 0 => "from the future".to_owned(),
        age => counted(usize::try_from(age).unwrap_or(usize::MAX), "minute"),
    };
    vec![
        only(text(used.kind.as_ref())),
        only(text(&used.at)),
        vec![text(format!("{age}, ")), fresh],
        only(code(used.entry.as_str())),
    ]
}

fn artifact(artifact: &ArtifactStory, blocks: &mut Vec<Block>) {
    let mut facts = vec![(
        "Made",
        vec![
            text(format!("{}, ", artifact.kind)),
            state(&artifact.state),
            text(", entry "),
            code(artifact.entry.as_str()),
        ],
    )];
    if let Some(approval) = &artifact.approval {
        facts.extend(approvals::facts(approval));
    }
    blocks.push(Block::Facts(facts));
    let title = format!("Content{}", cut(artifact.content.left_out_bytes));
    blocks.push(Block::Quote { title, text: indented(&artifact.content.text), kind: QuoteKind::Long });
}

/// JSON with a line a value; the start of a document that was cut stays as it is.
fn indented(json: &str) -> String {
    let (document, faults) = parse(json.as_bytes(), &Limits::own(usize::MAX));
    let whole = document.filter(|_| faults.is_empty());
    whole.map_or_else(|| json.to_owned(), |document| pretty(document.root()))
}
