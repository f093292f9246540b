//! Deciding about several similar subjects: what is signed for each is shown before the passkey is used. Each verdict is a statement of its
//! own with its own answer of the passkey; a script asks for them one by one and stops at the first that is not recorded.

use crealeph_contracts::approval::ProofKind;
use crealeph_runtime::approvals::{SubjectBasis, SubjectCase, SubjectLikeness};
use crealeph_runtime::entries::entry_json;
use maud::{Markup, html};

use crate::diff::{DiffBounds, diff};
use crate::frame::{Viewer, passkey_script};
use crate::inbox::{title, verdict_fields};
use crate::ledger::json_block;
use crate::parts::{badge, counted, empty, facts, line, path, time, words};

/// About how many one page decides at most.
pub const MAX_SEVERAL: usize = 20;

/// Several subjects that are alike.
#[derive(Clone, Debug)]
pub struct SeveralPage<'s> {
    /// Those that can be decided, in order.
    pub cases: &'s [SubjectCase],
    /// What they have in common.
    pub likeness: Option<&'s SubjectLikeness>,
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
        ol .cards { @for case in page.cases { (one(viewer, case)) } }
        @for case in page.decided {
            p { (badge(case.state.outcome.as_str())) " " a href={ "/inbox/" (path(case.subject.id.as_str())) } { (title(&case.entry, case.basis.change())) } " is left out." }
        }
        (decide(viewer, page.cases))
        (passkey_script())
    }
}

/// What is signed of one of them.
fn one(viewer: &Viewer, case: &SubjectCase) -> Markup {
    let SubjectCase { entry, subject, basis, .. } = case;
    let id = subject.id.as_str();
    html! {
        li data-several=(id) data-digest=(subject.digest.to_string()) data-rule=(case.state.rule_digest.to_string()) data-target=(subject.target.as_str()) {
            h2 { a href={ "/inbox/" (path(id)) } { (title(entry, basis.change())) } }
            p data-outcome="" role="status" {}
            @if let Some(why) = &subject.outdated { p { (badge("outdated")) " " (line(why)) } }
            (facts(vec![
                ("Digest", html! { code { (subject.digest.to_string()) } }),
                ("Lands in", html! { code { (line(subject.target.as_str())) } }),
                ("Since", time(&entry.created_at.to_string(), viewer.now)),
            ]))
            @match basis {
                SubjectBasis::Draft { .. } => details { summary { "The draft" }
                    (json_block(&entry_json(entry), "The draft as JSON", Some(&format!("/v1/entries/{}", path(entry.id.as_str()))))) },
                SubjectBasis::Change(change) => {
                    p { "Change of " (counted(change.files.get(), "file")) " by " (line(&change.agent))
                        @if change.protected { " " (badge("protected")) } @if change.tests { " " (badge("tests")) } }
                    @match &change.diff {
                        Some(text) => details { summary { "The change" } (diff(text, DiffBounds::PART, Some(&format!("/v1/inbox/{}/diff", path(id))))) },
                        None => p .quiet { "The diff is too large for the ledger; its digest is " code { (change.diff_digest.to_string()) } "." },
                    }
                }
            }
        }
    }
}

fn decide(viewer: &Viewer, cases: &[SubjectCase]) -> Markup {
    let Some(first) = cases.first() else { return html! {} };
    let person = viewer.person.as_ref().filter(|_| viewer.decides);
    let own = person.map_or_else(Vec::new, |person| first.history.judge.passkeys_of(person));
    let count = cases.len();
    html! {
        section .decide aria-labelledby="decide" {
            h2 #decide { "Decide" }
            @match person {
                Some(person) if !own.is_empty() && first.state.rule.proofs.contains(&ProofKind::Passkey) => {
                    div data-passkey-several="" hidden {
                        p { "As " strong { (line(person.as_str())) } ", with your passkey, once for each of them." }
                        form method="post" { (verdict_fields(viewer, &own, [&format!("Approve all {count}"), &format!("Reject all {count}")])) }
                        p data-status="" role="status" {}
                    }
                }
                _ => p .quiet { "To decide about several here, sign in with a passkey that the rule accepts." },
            }
            p { "In a terminal, with your own key:" }
            pre tabindex="0" { code { @for case in cases { "crealeph approve " (line(case.subject.id.as_str())) "\n" } } }
        }
    }
}
