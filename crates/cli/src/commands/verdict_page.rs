//! What a person is shown before they sign a verdict: exactly what is signed, and what it rests on.

use crealeph_contracts::approval::VerdictStatement;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::pretty;
use crealeph_runtime::approvals::{SubjectBasis, SubjectCase, rule_in_words};

use crate::page::{GUTTER, Page};
use crate::render::counted;

/// How many files of a change are listed; its diff has all of them.
const MAX_FILES: usize = 100;

/// Exactly what is signed, and what it rests on. `diff` is that of a change, if the ledger does not have it.
pub(super) fn shown(case: &SubjectCase, statement: &VerdictStatement, diff: Option<&str>) -> Page {
    let SubjectCase { subject, basis, history, state, .. } = case;
    let mut page = Page::default();
    match basis {
        SubjectBasis::Draft { .. } => draft(&mut page, case, statement),
        SubjectBasis::Change(record) => change(&mut page, record, statement, diff),
    }
    page.line(&format!("  rule     {}: {}", state.rule.name, rule_in_words(&state.rule)));
    if let Some(expires) = &statement.expires {
        page.line(&format!("  until    {}", expires.as_str()));
    }
    page.line(&format!("  digest   {}", subject.digest));
    page.line(&format!("  log      {} at entry {}", history.place.origin, history.place.seq));
    page.line(&format!("  as       {} with {}", statement.person, statement.key_id));
    page
}

fn draft(page: &mut Page, case: &SubjectCase, statement: &VerdictStatement) {
    let SubjectCase { entry, subject, basis, history, .. } = case;
    let now = history.place.now.instant();
    let content = &entry.content;
    page.line(&format!("{} {} {}, robot {}", statement.decision, content.kind, subject.id, content.robot_id));
    if let Some(payload) = entry.to_entry().payload {
        page.quoted("  draft    ", &payload.with(pretty));
    }
    for used in basis.evidence() {
        let age = age_of(now, used.at);
        page.line(&format!(
            "  evidence {} of {}, entry {}, {age} old",
            used.kind.as_str(),
            used.at,
            used.seq
        ));
    }
    if let SubjectBasis::Draft { record: Some(record), .. } = basis {
        page.line(&format!("  policy   {} for execution {}", record.policy.decision, record.execution_id));
        page.line(&format!("  why      {}", record.reason));
    }
    page.line("  asked    who asked for it is not recorded");
}

fn change(page: &mut Page, record: &HeldChangeRecord, statement: &VerdictStatement, diff: Option<&str>) {
    page.line(&format!("{} change of run {}, item {}", statement.decision, record.run, record.item));
    page.quoted("  task     ", record.task.trim());
    page.line(&format!("  agent    {}", record.agent));
    match &record.requester {
        Some(asked) => page.line(&format!("  asked    by {} on {}", asked.user, asked.host)),
        None => page.line("  asked    who asked for it is not recorded"),
    }
    page.line(&format!("  target   {}, workspace {}", record.target, record.workspace));
    page.line(&format!("  base     state {}", record.base_state));
    page.line(&format!("  after    state {}", record.after_state));
    files(page, record);
    if let Some(command) = &record.test_command {
        page.quoted("  test     ", command);
    }
    if let Some((passed, failed)) = record.tests_passed.zip(record.tests_failed) {
        page.line(&format!("  tests    {passed} passed, {failed} failed"));
    }
    if let Some(printed) = record.test_log.as_deref().filter(|printed| !printed.trim().is_empty()) {
        page.quoted("  printed  ", printed.trim_end());
    }
    page.line(&match record.cost_usd {
        Some(cost) => format!("  cost     {} US dollars (as the agent reported)", cost.get()),
        None => "  cost     not reported".to_owned(),
    });
    let is_it = |diff: &&str| Blake3::of(diff.as_bytes()) == record.diff_digest;
    match record.diff.as_deref().or(diff.filter(is_it)) {
        Some(diff) => {
            page.line("  diff");
            // All of it: what is signed is what was seen.
            diff.lines().for_each(|line| page.line(&format!("{GUTTER}{line}")));
        }
        None => page.line(
            "  diff     too large for the ledger; read it with `crealeph work diff` where the workspace is",
        ),
    }
    page.line(&format!("  diff is  {}", record.diff_digest));
}

fn files(page: &mut Page, record: &HeldChangeRecord) {
    let mut touched = counted(usize::try_from(record.files.get()).unwrap_or(usize::MAX), "file");
    for (is_so, words) in [(record.protected, ", protected paths"), (record.tests, ", tests")] {
        touched.push_str(if is_so { words } else { "" });
    }
    page.line(&format!("  touches  {touched}"));
    for file in record.paths.as_slice().iter().take(MAX_FILES) {
        page.line(&format!("{GUTTER}{} {}", file.change, file.path.as_str()));
    }
    let listed = record.paths.as_slice().len().min(MAX_FILES) as u64;
    if let Some(more) = record.files.get().checked_sub(listed).filter(|more| *more > 0) {
        page.line(&format!("{GUTTER}… and {more} more"));
    }
}

fn age_of(now: Instant, then: Instant) -> String {
    let minutes = now.nanos_since(then).max(0) / 60_000_000_000;
    match minutes {
        0..=119 => format!("{minutes} min"),
        _ => format!("{} h", minutes / 60),
    }
}
