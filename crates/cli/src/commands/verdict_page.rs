//! What a person is shown before they sign a verdict: exactly what is signed, and what it is based on.

use crealeph_contracts::approval::{ApprovalRule, VerdictStatement};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_contracts::json::pretty;
use crealeph_contracts::scalar::LedgerId;
use crealeph_ledger::StoredEntry;
use crealeph_runtime::approvals::{EvidenceReport, PolicyOutline, SubjectCase, rule_in_words};

use crate::page::{GUTTER, Page};
use crate::render::counted;

/// How many files of a change are listed; its diff has all of them.
const MAX_FILES: usize = 100;

/// A subject as a person is shown it: read from the ledger, or from what a server says.
pub(super) struct ShownSubject<'s> {
    pub(super) entry: &'s StoredEntry,
    pub(super) id: &'s LedgerId,
    pub(super) digest: Blake3,
    pub(super) rule: &'s ApprovalRule,
    pub(super) change: Option<&'s HeldChangeRecord>,
    pub(super) evidence: Vec<EvidenceReport>,
    pub(super) policy: Option<PolicyOutline>,
    pub(super) requester: Option<String>,
    /// The server whose word evidence and policy are.
    pub(super) server: Option<&'s str>,
}

impl<'s> ShownSubject<'s> {
    pub(super) fn of(case: &'s SubjectCase) -> Self {
        ShownSubject {
            entry: &case.entry,
            id: &case.subject.id,
            digest: case.subject.digest,
            rule: &case.state.rule,
            change: case.basis.change(),
            evidence: case.evidence_reports(),
            policy: case.policy_outline(),
            requester: case.subject.requester.as_ref().map(ToString::to_string),
            server: None,
        }
    }
}

/// Exactly what is signed, and what it is based on. `diff` is that of a change, if the ledger does not have it.
pub(super) fn shown(subject: &ShownSubject<'_>, statement: &VerdictStatement, diff: Option<&str>) -> Page {
    let mut page = Page::default();
    match subject.change {
        None => draft(&mut page, subject, statement),
        Some(record) => change(&mut page, record, statement, diff),
    }
    page.line(&match &subject.requester {
        Some(requester) => format!("  asked    by {requester}"),
        None => "  asked    who asked for it is not recorded".to_owned(),
    });
    page.line(&format!("  rule     {}: {}", subject.rule.name, rule_in_words(subject.rule)));
    if let Some(expires) = &statement.expires {
        page.line(&format!("  until    {}", expires.as_str()));
    }
    page.line(&format!("  digest   {}", subject.digest));
    page.line(&format!("  log      {} at entry {}", statement.log_origin, statement.evidence_seq));
    if let Some(server) = subject.server {
        page.line(&format!(
            "  server   {server}; which evidence is newest, and what the policy decided, is not verified"
        ));
    }
    page.line(&format!("  as       {} with {}", statement.person, statement.key_id));
    page
}

fn draft(page: &mut Page, subject: &ShownSubject<'_>, statement: &VerdictStatement) {
    let content = &subject.entry.content;
    page.line(&format!("{} {} {}, robot {}", statement.decision, content.kind, subject.id, content.robot_id));
    if let Some(payload) = subject.entry.to_entry().payload {
        page.quoted("  draft    ", &payload.with(pretty));
    }
    for used in &subject.evidence {
        let age = age_in_words(used.age_minutes);
        page.line(&format!("  evidence {} of {}, entry {}, {age} old", used.kind, used.at, used.seq));
    }
    if let Some(policy) = &subject.policy {
        page.line(&format!("  policy   {} for execution {}", policy.decision, policy.execution_id));
        page.line(&format!("  why      {}", policy.reason));
    }
}

fn change(page: &mut Page, record: &HeldChangeRecord, statement: &VerdictStatement, diff: Option<&str>) {
    page.line(&format!("{} change of run {}, item {}", statement.decision, record.run, record.item));
    page.quoted("  task     ", record.task.trim());
    page.line(&format!("  agent    {}", record.agent));
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
            diff.split_terminator('\n').for_each(|line| page.line(&format!("{GUTTER}{line}")));
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

fn age_in_words(minutes: f64) -> String {
    let minutes = minutes.max(0.0).floor() as u64;
    match minutes {
        0..=119 => format!("{minutes} min"),
        _ => format!("{} h", minutes / 60),
    }
}
