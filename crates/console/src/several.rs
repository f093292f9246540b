//! Deciding about several similar subjects: what is signed for each is shown before the passkey is used. Each verdict is a statement of its
//! own with its own answer of the passkey; a script asks for them one by one and stops at the first that is not recorded.

use crealeph_runtime::approvals::{Approver, SubjectCase, SubjectLikeness};
use maud::{Markup, html};

use crate::frame::{Viewer, decide_script, passkey_script};
use crate::inbox::title;
use crate::parts::{badge, counted, empty, line, path, words};
use crate::subject::{PasskeyChoice, SubjectView, content, standing, subject_facts, verdict_fields};

/// About how many one page decides at most.
pub const MAX_SEVERAL: usize = 20;

/// Several subjects that are alike.
#[derive(Clone, Debug)]
pub struct SeveralPage<'s> {
    /// Those that can be decided, in order.
    pub cases: &'s [SubjectView],
    /// What they have in common.
    pub likeness: Option<&'s SubjectLikeness>,
    /// The viewer, if they can decide with a passkey.
    pub approver: Option<&'s Approver>,
    /// Those that were asked for and are decided already.
    pub decided: &'s [SubjectCase],
}

/// The page.
pub fn several(viewer: &Viewer, page: &SeveralPage<'_>) -> Markup {
    html! {
        h1 { "Decide about several" }
        @if let Some(likeness) = page.likeness {
            p { (counted(page.cases.len() as u64, "subject")) " of one kind: " (words(&likeness.to_string())) ". Each verdict is signed separately, over the digest that is shown with it." }
        } @else { (empty("None of these still awaits approval.", None)) }
        ol .cards { @for view in page.cases { (one(viewer, page.approver, view)) } }
        @for case in page.decided {
            p { (badge(case.state.outcome.as_str())) " " a href={ "/inbox/" (path(case.subject.id.as_str())) } { (title(&case.entry, case.basis.change())) } " is left out." }
        }
        (decide(viewer, page))
        (passkey_script())
        (decide_script())
    }
}

/// What is signed of one of them, with all that its own page says.
fn one(viewer: &Viewer, approver: Option<&Approver>, view: &SubjectView) -> Markup {
    let SubjectCase { entry, subject, basis, history, state, .. } = &view.case;
    let id = subject.id.as_str();
    let no_approval = approver.and_then(|approver| PasskeyChoice::of(approver, subject, state).no_approval);
    html! {
        li data-several=(id) data-digest=(subject.digest.to_string()) data-rule=(state.rule_digest.to_string()) data-target=(subject.target.as_str()) {
            h2 { a href={ "/inbox/" (path(id)) } { (title(entry, basis.change())) } }
            p data-outcome="" role="status" {}
            @if let Some(why) = &subject.outdated { p { (badge("outdated")) " " (line(why)) } }
            @if history.judge.had_people() { (standing(state, basis.change())) }
            @if let Some(why) = no_approval { p { "Your approval would not count: " (words(&why)) "." } }
            (subject_facts(viewer, view))
            (content(view, true))
        }
    }
}

fn decide(viewer: &Viewer, page: &SeveralPage<'_>) -> Markup {
    let Some(SubjectView { case: first, .. }) = page.cases.first() else { return html! {} };
    let choices: Vec<PasskeyChoice> = page.approver.map_or_else(Vec::new, |approver| {
        page.cases
            .iter()
            .map(|view| PasskeyChoice::of(approver, &view.case.subject, &view.case.state))
            .collect()
    });
    let can_approve = choices.iter().all(|choice| choice.no_approval.is_none());
    let can_reject = choices.iter().all(|choice| choice.no_rejection.is_none());
    let count = page.cases.len();
    let (approve, reject) = (format!("Approve all {count}"), format!("Reject all {count}"));
    let buttons = [("approve", approve.as_str(), can_approve), ("reject", reject.as_str(), can_reject)];
    let buttons: Vec<(&str, &str)> = buttons
        .into_iter()
        .filter(|(.., is_offered)| *is_offered)
        .map(|(value, label, _)| (value, label))
        .collect();
    let own = page.approver.map(|approver| (approver, first.history.judge.passkeys_of(&approver.person)));
    html! {
        section .decide aria-labelledby="decide" {
            h2 #decide { "Decide" }
            @match own {
                Some((approver, own)) if !own.is_empty() && !buttons.is_empty() => {
                    @if !can_approve { p { "Not all of these can be approved by you, so they can only be rejected together." } }
                    div data-passkey-several="" hidden {
                        p { "As " strong { (line(approver.person.as_str())) } ", with your passkey, once for each of them." }
                        form method="post" { (verdict_fields(viewer, &own, &buttons)) }
                        p data-status="" role="status" {}
                    }
                }
                Some((_, own)) if !own.is_empty() => p .quiet { "Your verdicts would not count for all of these; decide about those separately." },
                _ => p .quiet { "To decide about several here, sign in with a passkey that the rule accepts." },
            }
            @if first.basis.change().is_some() {
                p { "Changes that enough people have approved are carried out by the next " code { "crealeph work run" } " or " code { "crealeph work recover" } " in their workspaces." }
            }
            p { "In a terminal, with your own key:" }
            pre tabindex="0" { code { @for view in page.cases { @if can_approve { "crealeph approve " } @else { "crealeph reject " } (line(view.case.subject.id.as_str())) "\n" } } }
        }
    }
}
