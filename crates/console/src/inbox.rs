//! Drafts and changes that await approval: all of them, or those that the viewer's approval counts for.

use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_decision::approval::{SubjectOutcome, SubjectState};
use crealeph_ledger::StoredEntry;
use crealeph_runtime::approvals::{Approver, InboxItem, SubjectLikeness};
use maud::{Markup, html};

use crate::frame::{Viewer, decide_script};
use crate::parts::{
    badge, counted, empty, filter_field, line, next_page, number, path, query, short, time, words,
};
use crate::several::MAX_SEVERAL;
use crate::subject::{PasskeyChoice, change_badges, standing, uncounted_words};

/// What waits for the viewer, or everything that waits.
pub const INBOX_SCOPES: [&str; 2] = ["me", "all"];

/// A page of the inbox.
#[derive(Clone, Debug)]
pub struct InboxView<'i> {
    /// What waits, newest first.
    pub items: &'i [InboxItem],
    /// Where the list continues.
    pub next: Option<String>,
    /// It is the first page.
    pub is_first: bool,
    /// How much of what waits was looked at for it.
    pub looked_at: u64,
    /// The robot that is filtered by.
    pub robot: Option<&'i str>,
    /// The viewer, if they can decide with a passkey.
    pub approver: Option<&'i Approver>,
    /// Whether it has only what the viewer's approval counts for.
    pub is_own: bool,
    /// Which of the two was asked for.
    pub asked_for: Option<&'i str>,
}

/// The inbox.
pub fn inbox(viewer: &Viewer, page: &InboxView<'_>) -> Markup {
    let next = page.next.as_deref();
    let pairs = [("for", page.asked_for), ("robot", page.robot), ("cursor", next)];
    html! {
        h1 { "Inbox" }
        (filter(page))
        @if page.items.is_empty() { (nothing(page)) } @else {
            (marked_form())
            ul .cards { @for (item, mark) in page.items.iter().zip(marks(page)) { (card(viewer, page.approver, item, mark)) } }
            @if page.is_own && next.is_some() { p .cut { "Found among " (number(page.looked_at)) " that wait. Older ones are on the next page." } }
        }
        (next_page(next.map(|_| query("/inbox", &pairs))))
        @if viewer.person.is_some() { (decide_script()) }
    }
}

/// For whom and of which robot; both are in the address.
fn filter(page: &InboxView<'_>) -> Markup {
    let other = |scope| query("/inbox", &[("for", Some(scope)), ("robot", page.robot)]);
    html! {
        @if page.approver.is_some() {
            p { @match page.is_own {
                true => { "What your approval counts for. " a href=(other("all")) { "Show all that waits" } }
                false => { "All that waits. " a href=(other("me")) { "Show what waits for you" } }
            } }
        } @else if page.asked_for == Some("me") {
            p .quiet { "All that waits: who you are is known only if you sign in with a passkey." }
        }
        form .filter action="/inbox" method="get" {
            @if let Some(scope) = page.asked_for { input type="hidden" name="for" value=(scope); }
            (filter_field("Robot", "robot", page.robot))
            button type="submit" { "Filter" }
        }
    }
}

fn nothing(page: &InboxView<'_>) -> Markup {
    if page.next.is_some() {
        let looked_at = number(page.looked_at);
        return match page.is_own {
            true => empty(
                &format!("None of {looked_at} that wait is for you. Older ones are on the next page."),
                None,
            ),
            false => empty("Nothing here matches. Older ones are on the next page.", None),
        };
    }
    match (page.is_first, page.is_own, page.robot) {
        (false, true, _) => empty("Nothing older waits for your approval.", None),
        (false, false, Some(_)) => empty("No older draft of this robot awaits approval.", None),
        (false, false, None) => empty("Nothing older awaits approval.", None),
        (true, true, _) => empty("Nothing waits for your approval.", None),
        (true, false, Some(_)) => empty("No draft of this robot awaits approval.", None),
        (true, false, None) => {
            let what = "Nothing awaits approval. Drafts and held changes appear here:";
            empty(what, Some("crealeph work run --agent NAME --hold \"…\""))
        }
    }
}

/// A mark, and what is alike: those with the same number, in these words.
type Mark = (usize, String);

/// The marks of the subjects of a page, for those that the viewer may decide about with a passkey.
fn marks(page: &InboxView<'_>) -> Vec<Option<Mark>> {
    let mut keys: Vec<String> = Vec::new();
    let mut number_of = |key: String| {
        let known = keys.iter().position(|known| *known == key);
        if known.is_none() {
            keys.push(key);
        }
        known.unwrap_or(keys.len() - 1)
    };
    let marks = page.items.iter().map(|item| {
        let (likeness, choice) = decidable(page.approver?, item)?;
        let only = if choice.no_approval.is_some() { ", which you can only reject" } else { "" };
        Some((number_of(format!("{}{only}", likeness.key())), format!("{likeness}{only}")))
    });
    marks.collect()
}

fn card(viewer: &Viewer, approver: Option<&Approver>, item: &InboxItem, mark: Option<Mark>) -> Markup {
    let id = item.subject.id.as_str();
    html! {
        li data-row {
            h2 { a href={ "/inbox/" (path(id)) } { (title(&item.entry, item.change.as_deref())) } }
            @if let Some((number, alike)) = mark {
                p hidden { label { input type="checkbox" data-mark=(id) data-alike=(number); " Mark to decide about several at once " span { (words(&alike)) } } }
            }
            p {
                @match &item.change {
                    Some(change) => { "Change of " (counted(change.files.get(), "file")) " by " (line(&change.agent)) " for " code { (line(change.target.as_str())) } (change_badges(change)) }
                    None => { "Draft " (short(id)) }
                }
                " · " (time(&item.entry.created_at.to_string(), viewer.now))
            }
            @if let Some(why) = &item.subject.outdated { p { (badge("outdated")) " " (line(why)) } }
            @match &item.state {
                Some(state) => { (standing(state, item.change.as_deref())) (lapsed(state)) @if let Some(approver) = approver { (not_theirs(approver, item, state)) } }
                None => p .quiet { "No one is enrolled, so a verdict is not signed." },
            }
        }
    }
}

/// Why it does not wait for the viewer, if it waits for others.
fn not_theirs(approver: &Approver, item: &InboxItem, state: &SubjectState) -> Markup {
    let is_waiting = matches!(state.outcome, SubjectOutcome::Waiting { .. });
    let why = approver.outlook(&item.subject, state).approval.filter(|_| is_waiting);
    html! { @if let Some(why) = why { p .quiet { "Your approval would not count: " (words(&uncounted_words(&why, state))) "." } } }
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

/// What subjects like this one are, and what the viewer can decide about them, if anything.
fn decidable(approver: &Approver, item: &InboxItem) -> Option<(SubjectLikeness, PasskeyChoice)> {
    let state = item.state.as_ref()?;
    let choice = PasskeyChoice::of(approver, &item.subject, state);
    let is_any = choice.no_approval.is_none() || choice.no_rejection.is_none();
    is_any.then(|| (SubjectLikeness::of(&item.subject, state), choice))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_page_that_is_not_all_does_not_say_that_nothing_waits() {
        let page = |is_first, is_own, next: Option<&str>| {
            let next = next.map(str::to_owned);
            let looked_at = 50;
            let view = InboxView {
                items: &[],
                next,
                is_first,
                looked_at,
                robot: None,
                approver: None,
                is_own,
                asked_for: None,
            };
            inbox(&Viewer::sample(), &view).into_string()
        };
        assert!(page(true, true, None).contains("Nothing waits for your approval."));
        assert!(page(true, false, None).contains("Nothing awaits approval. Drafts"));
        assert!(page(false, true, None).contains("Nothing older waits for your approval."));
        assert!(page(false, false, None).contains("Nothing older awaits approval."));
        for (is_own, said) in [(true, "None of 50 that wait is for you."), (false, "Nothing here matches.")] {
            let shown = page(true, is_own, Some("7"));
            assert!(
                shown.contains(said) && shown.contains("cursor=7") && shown.contains("on the next page"),
                "{shown}"
            );
        }
    }
}
