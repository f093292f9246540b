//! One thing that waits for approval: everything that a person needs to decide about it, in the same form on its own page and beside others;
//! and what the viewer can decide about it, with the reason if their verdict would not count.

use std::collections::BTreeMap;

use crealeph_contracts::approval::{ProofKind, SubjectKind};
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_contracts::scalar::LedgerId;
use crealeph_decision::approval::{ApprovalSubject, SubjectOutcome, SubjectState, Uncounted};
use crealeph_decision::builder::Record;
use crealeph_runtime::approvals::{Approver, Evidence, SubjectBasis, SubjectCase, next_step};
use crealeph_runtime::entries::entry_json;
use crealeph_runtime::report::VerdictStory;
use crealeph_verify::EnrolledPasskey;
use maud::{Markup, html};

use crate::diff::{DiffBounds, diff};
use crate::executions::verdict_list;
use crate::frame::{Viewer, decide_script, passkey_script};
use crate::inbox::title;
use crate::ledger::json_block;
use crate::parts::{
    ago, badge, counted, cut_block, facts, line, number, path, short, start_of_block, time, words,
};

/// How much of a text is shown beside others.
const PART_BYTES: usize = 8 << 10;

/// A subject with what its page links to.
#[derive(Clone, Debug)]
pub struct SubjectView {
    /// The subject.
    pub case: SubjectCase,
    /// The entries that a draft is based on, by their place in the log.
    pub evidence_ids: BTreeMap<u64, LedgerId>,
}

/// A row of the facts.
type Fact = (&'static str, Markup);

/// Why a viewer's verdicts with a passkey would not count; `None` if they would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PasskeyChoice {
    pub(crate) no_approval: Option<String>,
    pub(crate) no_rejection: Option<String>,
}

impl PasskeyChoice {
    pub(crate) fn of(approver: &Approver, subject: &ApprovalSubject, state: &SubjectState) -> Self {
        let outlook = approver.outlook_with(ProofKind::Passkey, subject, state);
        let in_words = |why: &Uncounted| uncounted_words(why, state);
        let is_enough = is_enough(subject.class.kind, &state.outcome);
        let enough = is_enough.then(|| "enough people have approved it".to_owned());
        PasskeyChoice {
            no_approval: enough.or_else(|| outlook.approval.as_ref().map(in_words)),
            no_rejection: outlook.rejection.as_ref().map(in_words),
        }
    }
}

/// Whether no approval is needed any more. Another one of a draft makes up for a landing that was interrupted.
fn is_enough(kind: SubjectKind, outcome: &SubjectOutcome) -> bool {
    kind == SubjectKind::Change && matches!(outcome, SubjectOutcome::Approved { .. })
}

/// Why the viewer's verdict would not count, and what would help.
pub(crate) fn uncounted_words(why: &Uncounted, state: &SubjectState) -> String {
    let fixed = match why {
        Uncounted::OwnRequest => "you asked for it",
        Uncounted::Repeated => "you have approved it already",
        Uncounted::ProofKind => "the rule accepts only SSH keys",
        Uncounted::NotEnrolled => "you have no key of the kind that may sign here",
        Uncounted::NotInGroup => {
            let group = state.rule.group.as_ref().map_or("", |group| group.as_str());
            return format!("you are not in the group `{}`", group.replace('`', "'"));
        }
        other => {
            let reason = match other {
                Uncounted::Outdated(newer) => newer.clone(),
                other => other.reason(),
            };
            let help = other.renewal().map_or_else(String::new, |renewal| format!(". To help: {renewal}"));
            return format!("{reason}{help}");
        }
    };
    fixed.to_owned()
}

/// What the rule asks for and has, and what remains to be done.
pub(crate) fn standing(state: &SubjectState, change: Option<&HeldChangeRecord>) -> Markup {
    let is_waiting = matches!(state.outcome, SubjectOutcome::Waiting { .. });
    html! {
        p { "Rule " code { (line(state.rule.name.as_str())) } ": "
            @match &state.outcome {
                SubjectOutcome::Waiting { missing } => { (counted(*missing, "approval")) " missing. " (deciders(state)) }
                SubjectOutcome::Approved { .. } => "enough people have approved it.",
                SubjectOutcome::Rejected { person, .. } => { "rejected by " strong { (line(person.as_str())) } "." }
                SubjectOutcome::Landing { .. } => "it is about to land.",
                SubjectOutcome::Landed { .. } => "it has landed.",
            }
        }
        @if let Some(next) = next_step(&state.outcome, change).filter(|_| !is_waiting) { p { "What remains: " (words(&next)) "." } }
    }
}

fn deciders(state: &SubjectState) -> Markup {
    let names: Vec<&str> = state.may_decide.iter().map(|name| name.as_str()).collect();
    match names.is_empty() {
        true => html! { "No one who is enrolled may decide." },
        false => html! { "May decide: " (line(&names.join(", "))) "." },
    }
}

/// The page of what waits: exactly what a verdict is bound to.
pub fn subject(viewer: &Viewer, approver: Option<&Approver>, view: &SubjectView) -> Markup {
    let SubjectCase { entry, subject, basis, history, state, .. } = &view.case;
    let id = subject.id.as_str();
    let verdicts: Vec<VerdictStory> = state.verdicts.iter().map(VerdictStory::of).collect();
    html! {
        h1 { (title(entry, basis.change())) " " (badge(state.outcome.as_str())) }
        @if let Some(why) = &subject.outdated { p { (badge("outdated")) " " (line(why)) } }
        @if history.judge.had_people() { (standing(state, basis.change())) } @else { p .quiet { "No one is enrolled, so a verdict is not signed." } }
        (subject_facts(viewer, view))
        (content(view, false))
        (decide(viewer, approver, &view.case))
        @if !verdicts.is_empty() { section aria-labelledby="verdicts" { h2 #verdicts { "Verdicts" } (verdict_list(&verdicts, viewer.now)) } }
        (passkey_script())
        (decide_script())
        p { a href={ "/v1/approvals/" (path(id)) } { "Approval as JSON" } " · " a href={ "/ledger/" (path(entry.id.as_str())) } { "Its entry" } }
    }
}

/// The facts that a person decides by.
pub(crate) fn subject_facts(viewer: &Viewer, view: &SubjectView) -> Markup {
    let SubjectCase { entry, subject, basis, state, .. } = &view.case;
    let asked = subject.requester.as_ref();
    let mut rows = vec![
        ("Id", html! { code { (line(subject.id.as_str())) } }),
        ("Kind", html! { (subject.class.kind.as_str()) }),
        ("Since", time(&entry.created_at.to_string(), viewer.now)),
        (
            "Requester",
            html! { @match asked { Some(asked) => (line(&asked.to_string())), None => "not recorded" } },
        ),
        ("Digest", html! { code { (subject.digest.to_string()) } }),
        ("Lands in", html! { code { (line(subject.target.as_str())) } }),
        (
            "Rule",
            html! { code { (line(state.rule.name.as_str())) } ", digest " code { (state.rule_digest.to_string()) } },
        ),
    ];
    match basis {
        SubjectBasis::Draft { record, evidence } => {
            rows.extend(record.iter().flat_map(|record| run_facts(entry.content.robot_id.as_str(), record)));
            rows.push(("Evidence", evidence_list(viewer, view, evidence)));
        }
        SubjectBasis::Change(change) => rows.extend(change_facts(change)),
    }
    facts(rows)
}

/// How a draft was made.
fn run_facts(robot: &str, record: &Record) -> [Fact; 4] {
    let tokens = record.agent.as_ref().and_then(|agent| agent.tokens_used);
    let execution = format!("/executions/{}/{}", path(robot), path(record.execution_id.as_str()));
    [
        (
            "Policy",
            html! { (badge(record.policy.decision.as_str())) " " (line(&record.reason)) " " a href=(execution) { "The execution" } },
        ),
        ("Agent", html! { (line(record.request.agent_version.as_str())) }),
        (
            "Tokens",
            html! { @match tokens { Some(tokens) => { (number(tokens.get().max(0.0) as u64)) ", as reported" } None => "not reported" } },
        ),
        ("Cost", html! { "not recorded: Builder agents report tokens only" }),
    ]
}

/// What a draft is based on, each with its age.
fn evidence_list(viewer: &Viewer, view: &SubjectView, evidence: &[Evidence]) -> Markup {
    let entry = |used: &Evidence| match view.evidence_ids.get(&used.seq) {
        Some(id) => html! { a href={ "/ledger/" (path(id.as_str())) } { (used.kind.as_str()) } },
        None => html! { (used.kind.as_str()) ", entry " (used.seq) },
    };
    html! {
        @if evidence.is_empty() { "none" }
        @else { ul { @for used in evidence { li {
            (entry(used)) ", " time datetime=(used.at.to_string()) title=(used.at.to_string()) { (ago(used.at, viewer.now)) } " "
            (badge(if used.is_fresh { "fresh" } else { "too old" }))
        } } } }
    }
}

fn change_facts(change: &HeldChangeRecord) -> [Fact; 7] {
    let counts = [(change.tests_passed, "passed"), (change.tests_failed, "failed")];
    let counts = counts.into_iter().filter_map(|(count, word)| Some((count?, word)));
    [
        ("Run", html! { a href={ "/runs/" (change.run) } { code { (change.run) } } }),
        ("Agent", html! { (line(&change.agent)) }),
        ("Files", html! { (change.files.get()) (change_badges(change)) }),
        (
            "Tests",
            html! { @match &change.test_command {
                Some(command) => { code { (line(command)) } @for (count, word) in counts { ", " (count.get()) " " (word) } }
                None => "none",
            } },
        ),
        (
            "Cost",
            html! { @match change.cost_usd { Some(cost) => { "US$ " (format!("{:.2}", cost.get())) ", as the agent reported it" }, None => "not reported" } },
        ),
        ("Workspace", html! { (line(change.workspace.as_str())) }),
        ("Base state", html! { code { (change.base_state.to_string()) } }),
    ]
}

/// What sets a change apart.
pub(crate) fn change_badges(change: &HeldChangeRecord) -> Markup {
    html! { @if change.protected { " " (badge("protected")) } @if change.tests { " " (badge("tests")) } }
}

/// What would land: the draft, or the change with its task and the output of its tests; folded beside others.
pub(crate) fn content(view: &SubjectView, is_folded: bool) -> Markup {
    let SubjectCase { entry, subject, basis, .. } = &view.case;
    let api = format!("/v1/inbox/{}", path(subject.id.as_str()));
    let change = match basis {
        SubjectBasis::Draft { .. } => {
            let raw = format!("/v1/entries/{}", path(entry.id.as_str()));
            let draft = json_block(&entry_json(entry), "The draft as JSON", Some(&raw));
            return part(is_folded, "content", "The draft", draft);
        }
        SubjectBasis::Change(change) => change,
    };
    let bounds = if is_folded { DiffBounds::PART } else { DiffBounds::PAGE };
    let log = change.test_log.as_ref().filter(|log| !log.trim().is_empty());
    html! {
        (part(is_folded, "task", "Task", text(&change.task, "Task", &api, is_folded)))
        @match &change.diff {
            Some(text) => (part(is_folded, "diff", "Change", diff(text, bounds, Some(&format!("{api}/diff"))))),
            None => p { "The diff is too large for the ledger; in the workspace " code { "crealeph work diff" } " shows it. Its digest is " code { (change.diff_digest.to_string()) } "." },
        }
        @if let Some(log) = log { (part(is_folded, "tests", "What the tests printed", text(log, "Tests", &api, is_folded))) }
    }
}

fn part(is_folded: bool, id: &str, title: &str, content: Markup) -> Markup {
    match is_folded {
        true => html! { details { summary { (title) } (content) } },
        false => html! { section aria-labelledby=(id) { h2 id=(id) { (title) } (content) } },
    }
}

/// A text from elsewhere, cut if it is long, with a link to all of it.
fn text(text: &str, label: &str, raw: &str, is_folded: bool) -> Markup {
    let start = match is_folded {
        true => text.get(..text.floor_char_boundary(PART_BYTES)).unwrap_or(text),
        false => text,
    };
    let (shown, left_out) = start_of_block(start);
    let left_out = left_out + (text.len() - start.len());
    let cut = (left_out > 0).then(|| format!("{} more bytes are not shown.", number(left_out as u64)));
    cut_block(&shown, cut, label, Some(raw))
}

/// How to decide; nothing if nothing can be decided any more.
fn decide(viewer: &Viewer, approver: Option<&Approver>, case: &SubjectCase) -> Markup {
    if !case.state.outcome.is_open() {
        return html! {};
    }
    let id = line(case.subject.id.as_str());
    let is_enough = is_enough(case.subject.class.kind, &case.state.outcome);
    html! {
        section .decide aria-labelledby="decide" data-digest=(case.subject.digest.to_string()) data-rule=(case.state.rule_digest.to_string()) data-target=(case.subject.target.as_str()) {
            h2 #decide { @if is_enough { "Reject it before it lands" } @else { "Decide" } }
            @if let Some(approver) = approver { (passkeys(viewer, approver, case)) }
            p { "In a terminal, with your own key:" }
            pre tabindex="0" { code { @if !is_enough { "crealeph approve " (id) "\n" } "crealeph reject " (id) " --reason \"…\"" } }
        }
    }
}

/// Deciding with a passkey: the verdicts that would count, and why the others would not.
fn passkeys(viewer: &Viewer, approver: &Approver, case: &SubjectCase) -> Markup {
    let person = &approver.person;
    let own = case.history.judge.passkeys_of(person);
    if own.is_empty() {
        return html! {};
    }
    let PasskeyChoice { no_approval, no_rejection } = PasskeyChoice::of(approver, &case.subject, &case.state);
    let is_enough = is_enough(case.subject.class.kind, &case.state.outcome);
    let buttons = [("approve", "Approve", &no_approval), ("reject", "Reject", &no_rejection)];
    let buttons: Vec<(&str, &str)> =
        buttons.iter().filter(|(.., why)| why.is_none()).map(|(value, label, _)| (*value, *label)).collect();
    html! {
        @if let Some(why) = no_approval.as_ref().filter(|_| !is_enough || buttons.is_empty()) {
            p { @if buttons.is_empty() { "Your verdict" } @else { "Your approval" } " would not count: " (words(why)) "." }
        }
        @if !buttons.is_empty() {
            div data-passkey-verdict="" hidden {
                p { "As " strong { (line(person.as_str())) } ", with your passkey. It signs exactly what this page shows, by its digest:" }
                form method="post" action={ "/inbox/" (path(case.subject.id.as_str())) } { (verdict_fields(viewer, &own, &buttons)) }
                p data-status="" role="status" {}
            }
        }
    }
}

/// What a person says with a verdict, and its buttons: what each decides, and what it is called.
pub(crate) fn verdict_fields(viewer: &Viewer, own: &[&EnrolledPasskey], buttons: &[(&str, &str)]) -> Markup {
    html! {
        input type="hidden" name="form" value=(viewer.form_token);
        input type="hidden" name="signed";
        p { label for="reason" { "Reason" } }
        p { input #reason name="reason" maxlength="4096" autocomplete="off"; }
        p {
            label for="passkey" { "Passkey " }
            select #passkey name="keyId" {
                @for one in own { option value=(one.passkey.key_id) { (short(&one.passkey.key_id)) } }
            }
        }
        p { @for (value, label) in buttons {
            button type="button" name="decision" value=(value) .quiet[*value == "reject"] { (label) } " "
        } }
    }
}
