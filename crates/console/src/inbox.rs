//! Drafts and changes that await approval, and everything needed to decide about one of them.

use crealeph_contracts::approval::ProofKind;
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_decision::approval::{SubjectOutcome, SubjectState};
use crealeph_ledger::StoredEntry;
use crealeph_runtime::approvals::{InboxItem, SubjectBasis, SubjectCase, SubjectLikeness, missing_approvals};
use crealeph_runtime::entries::entry_json;
use crealeph_verify::EnrolledPasskey;
use maud::{Markup, html};

use crate::diff::{DiffBounds, diff};
use crate::frame::{Viewer, passkey_script};
use crate::ledger::json_block;
use crate::parts::{
    ago, badge, block, counted, empty, facts, line, next_page, path, query, short, time, words,
};
use crate::several::MAX_SEVERAL;

/// A page of the inbox.
#[derive(Clone, Debug)]
pub struct InboxView<'i> {
    /// What waits, newest first.
    pub items: &'i [InboxItem],
    /// Where the list continues.
    pub next: Option<String>,
}

/// The inbox.
pub fn inbox(viewer: &Viewer, page: &InboxView<'_>) -> Markup {
    html! {
        h1 { "Inbox" }
        @if page.items.is_empty() && page.next.is_none() {
            (empty("Nothing awaits approval. Drafts and held changes appear here:", Some("crealeph work run --agent NAME --hold \"…\"")))
        } @else {
            (marked_form())
            ul .cards { @for (item, mark) in page.items.iter().zip(marks(viewer, page.items)) { (card(viewer, item, mark)) } }
            (next_page(page.next.as_ref().map(|next| query("/inbox", &[("cursor", Some(next))]))))
        }
    }
}

/// What a subject can be marked as, and which of the page are like it: those with the same number.
type Mark = (usize, SubjectLikeness);

/// The marks of the subjects of a page, for those that the viewer may decide about with a passkey.
fn marks(viewer: &Viewer, items: &[InboxItem]) -> Vec<Option<Mark>> {
    let mut keys: Vec<String> = Vec::new();
    let mut marks = Vec::with_capacity(items.len());
    for item in items {
        marks.push(decidable(viewer, item).map(|likeness| {
            let key = likeness.key();
            let known = keys.iter().position(|known| *known == key);
            if known.is_none() {
                keys.push(key);
            }
            (known.unwrap_or(keys.len() - 1), likeness)
        }));
    }
    marks
}

fn card(viewer: &Viewer, item: &InboxItem, mark: Option<Mark>) -> Markup {
    let id = item.subject.id.as_str();
    html! {
        li data-row {
            h2 { a href={ "/inbox/" (path(id)) } { (title(&item.entry, item.change.as_deref())) } }
            @if let Some((number, likeness)) = mark {
                p hidden { label { input type="checkbox" data-mark=(id) data-alike=(number); " Mark to decide about several at once " span { (words(&likeness.to_string())) } } }
            }
            p {
                @match &item.change {
                    Some(change) => { "Change of " (counted(change.files.get(), "file")) " by " (line(&change.agent)) " for " code { (line(change.target.as_str())) }
                        @if change.protected { " " (badge("protected")) } @if change.tests { " " (badge("tests")) } }
                    None => { "Draft " (short(id)) }
                }
                " · " (time(&item.entry.created_at.to_string(), viewer.now))
            }
            @if let Some(why) = &item.subject.outdated { p { (badge("outdated")) " " (line(why)) } }
            @match &item.state {
                Some(state) => { (waiting(state)) (lapsed(state)) }
                None => p .quiet { "No one is enrolled, so a verdict is not signed." },
            }
        }
    }
}

fn waiting(state: &SubjectState) -> Markup {
    html! {
        p { "Rule " code { (line(state.rule.name.as_str())) } ": " (counted(missing_approvals(state), "approval")) " missing."
            @if !state.may_decide.is_empty() { " May decide: " (line(&state.may_decide.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", "))) "." }
            @else { " No one who is enrolled may decide." }
        }
    }
}

fn lapsed(state: &SubjectState) -> Markup {
    let lapsed = state
        .verdicts
        .iter()
        .filter_map(|verdict| Some((verdict, verdict.uncounted.as_ref().filter(|why| why.is_lapse())?)));
    html! {
        @for (verdict, why) in lapsed {
            p { (badge("expired")) " The approval of " strong { (line(verdict.statement.person.as_str())) } " lapsed: " (line(&why.reason())) "."
                @if let Some(renewal) = why.renewal() { " " (words(renewal)) } }
        }
    }
}

/// What subjects like this one are, if the viewer may decide about several of them with a passkey.
fn decidable(viewer: &Viewer, item: &InboxItem) -> Option<SubjectLikeness> {
    let person = viewer.person.as_ref().filter(|_| viewer.decides)?;
    let state = item.state.as_ref()?;
    let is_theirs = state.may_decide.contains(person) && state.rule.proofs.contains(&ProofKind::Passkey);
    is_theirs.then(|| SubjectLikeness::of(&item.subject, state))
}

/// What leads to those that are marked; a script fills it.
fn marked_form() -> Markup {
    html! {
        form .marked action="/inbox/several" method="get" data-marked=(MAX_SEVERAL) hidden {
            input type="hidden" name="ids";
            p role="status" data-status="" {}
            p { button type="submit" { "Decide about them" } }
        }
    }
}

/// What a subject is called.
pub(crate) fn title(entry: &StoredEntry, change: Option<&HeldChangeRecord>) -> String {
    match change {
        Some(change) => first_line(&change.task),
        None => line(&format!("{} for {}", entry.content.kind, entry.content.robot_id)),
    }
}

/// The first line of a task.
pub(crate) fn first_line(text: &str) -> String {
    line(text.lines().find(|line| !line.trim().is_empty()).unwrap_or(text).trim())
}

/// The page of what waits: exactly what a verdict is bound to.
pub fn subject(viewer: &Viewer, case: &SubjectCase) -> Markup {
    let SubjectCase { entry, subject, basis, history, state, .. } = case;
    let (content, id) = (&entry.content, subject.id.as_str());
    let now = viewer.now;
    html! {
        h1 { (title(entry, basis.change())) " " (badge(state.outcome.as_str())) }
        @if let Some(why) = &subject.outdated { p { (badge("outdated")) " " (line(why)) } }
        (facts(vec![
            ("Id", html! { code { (line(id)) } }),
            ("Kind", html! { (subject.class.kind.as_str()) }),
            ("Since", time(&entry.created_at.to_string(), now)),
            ("Requester", html! { @match &subject.requester { Some(asked) => (line(&asked.to_string())), None => "not recorded" } }),
            ("Digest", html! { code { (subject.digest.to_string()) } }),
            ("Lands in", html! { code { (line(subject.target.as_str())) } }),
            ("Rule", html! { code { (line(state.rule.name.as_str())) } ", digest " code { (state.rule_digest.to_string()) } }),
        ]))
        @if history.judge.had_people() { (waiting(state)) } @else { p .quiet { "No one is enrolled, so a verdict is not signed." } }
        @match basis {
            SubjectBasis::Draft { record, evidence } => {
                section aria-labelledby="evidence" { h2 #evidence { "Evidence" }
                    ul { @for used in evidence { li { (used.kind.as_str()) ", entry " (used.seq) ", " time datetime=(used.at.to_string()) title=(used.at.to_string()) { (ago(used.at, now)) } } } }
                    @if evidence.is_empty() { p { "It is based on none." } }
                }
                @if let Some(record) = record {
                    section aria-labelledby="policy" { h2 #policy { "Policy" }
                        p { (badge(record.policy.decision.as_str())) " " (line(&record.reason)) " "
                            a href={ "/executions/" (path(content.robot_id.as_str())) "/" (path(record.execution_id.as_str())) } { "The execution" } }
                    }
                }
                section aria-labelledby="content" { h2 #content { "The draft" }
                    (json_block(&entry_json(entry), "The draft as JSON", Some(&format!("/v1/entries/{}", path(entry.id.as_str()))))) }
            }
            SubjectBasis::Change(change) => {
                (facts(vec![
                    ("Run", html! { a href={ "/runs/" (change.run) } { code { (change.run) } } }),
                    ("Agent", html! { (line(&change.agent)) }),
                    ("Files", html! { (change.files.get()) @if change.protected { " " (badge("protected")) } @if change.tests { " " (badge("tests")) } }),
                    ("Tests", html! { @match (&change.test_command, change.tests_passed, change.tests_failed) {
                        (Some(command), passed, failed) => { code { (line(command)) } @if let Some(passed) = passed { ", " (passed.get()) " passed" } @if let Some(failed) = failed { ", " (failed.get()) " failed" } }
                        (None, ..) => "none",
                    } }),
                    ("Cost", html! { @match change.cost_usd { Some(cost) => { "US$ " (format!("{:.2}", cost.get())) ", as the agent reported it" }, None => "not reported" } }),
                    ("Base state", html! { code { (change.base_state.to_string()) } }),
                ]))
                section aria-labelledby="task" { h2 #task { "Task" } (block(&change.task, "Task", None)) }
                section aria-labelledby="diff" { h2 #diff { "Change" }
                    @match &change.diff {
                        Some(text) => (diff(text, DiffBounds::PAGE, Some(&format!("/v1/inbox/{}/diff", path(id))))),
                        None => p { "The diff is too large for the ledger; in the workspace " code { "crealeph work diff" } " shows it. Its digest is " code { (change.diff_digest.to_string()) } "." },
                    }
                }
                @if let Some(log) = change.test_log.as_ref().filter(|log| !log.trim().is_empty()) { section aria-labelledby="tests" { h2 #tests { "What the tests printed" } (block(log, "Tests", None)) } }
            }
        }
        (decide(viewer, case))
        @if !state.verdicts.is_empty() {
            section aria-labelledby="verdicts" { h2 #verdicts { "Verdicts" }
                ul { @for verdict in &state.verdicts {
                    li { (badge(verdict.statement.decision.as_str())) " by " strong { (line(verdict.statement.person.as_str())) } " "
                        time datetime=(verdict.at.to_string()) title=(verdict.at.to_string()) { (ago(verdict.at, now)) }
                        @if let Some(why) = &verdict.uncounted { " " span .quiet { "does not count: " (line(&why.reason())) } } }
                } }
            }
        }
        (passkey_script())
        p { a href={ "/v1/approvals/" (path(id)) } { "Approval as JSON" } " · " a href={ "/ledger/" (path(entry.id.as_str())) } { "Its entry" } }
    }
}

/// Deciding with a passkey, for a person who has one that works here and may decide.
fn passkeys(viewer: &Viewer, case: &SubjectCase) -> Markup {
    let Some(person) = viewer.person.as_ref().filter(|_| viewer.decides) else { return html! {} };
    let own = case.history.judge.passkeys_of(person);
    if own.is_empty() {
        return html! {};
    }
    if !case.state.rule.proofs.contains(&ProofKind::Passkey) {
        return html! { p .quiet { "The rule accepts only SSH keys." } };
    }
    html! {
        div data-passkey-verdict="" hidden {
            p { "As " strong { (line(person.as_str())) } ", with your passkey. It signs exactly what this page shows, by its digest:" }
            form method="post" action={ "/inbox/" (path(case.subject.id.as_str())) } {
                (verdict_fields(viewer, &own, ["Approve", "Reject"]))
            }
            p data-status="" role="status" {}
        }
    }
}

/// What a person says with a verdict, and its two buttons.
pub(crate) fn verdict_fields(viewer: &Viewer, own: &[&EnrolledPasskey], buttons: [&str; 2]) -> Markup {
    let [approve, reject] = buttons;
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
        p {
            button type="button" name="decision" value="approve" { (approve) } " "
            button type="button" name="decision" value="reject" .quiet { (reject) }
        }
    }
}

/// How to decide.
fn decide(viewer: &Viewer, case: &SubjectCase) -> Markup {
    if !matches!(case.state.outcome, SubjectOutcome::Waiting { .. } | SubjectOutcome::Approved { .. }) {
        return html! {};
    }
    let id = case.subject.id.as_str();
    html! {
        section .decide aria-labelledby="decide" data-digest=(case.subject.digest.to_string()) data-rule=(case.state.rule_digest.to_string()) data-target=(case.subject.target.as_str()) {
            h2 #decide { "Decide" }
            (passkeys(viewer, case))
            p { "In a terminal, with your own key:" }
            pre tabindex="0" { code { "crealeph approve " (line(id)) "\ncrealeph reject " (line(id)) " --reason \"…\"" } }
        }
    }
}
