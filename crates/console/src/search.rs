//! Search: one field that finds ids, robots, paths and words of tasks.

use maud::{Markup, html};

use crate::frame::Viewer;
use crate::parts::{badge, empty, line, short, time, words};

/// Something that was found.
#[derive(Clone, Debug)]
pub struct SearchHit {
    /// What it is.
    pub kind: &'static str,
    /// Its id.
    pub id: String,
    /// What it is about.
    pub about: String,
    /// Where its page is.
    pub href: String,
    /// When it was recorded.
    pub at: Option<String>,
    /// Its state.
    pub state: Option<String>,
}

/// Results.
#[derive(Clone, Debug)]
pub struct SearchPage<'s> {
    /// What was searched for.
    pub words: &'s str,
    /// Results.
    pub hits: &'s [SearchHit],
    /// What was not looked at, and what is not shown.
    pub cuts: &'s [String],
}

/// The page of a search.
pub fn search(viewer: &Viewer, page: &SearchPage<'_>) -> Markup {
    html! {
        h1 { "Search" }
        form .filter action="/search" method="get" {
            label { span { "An id or its start, a robot, a path, words of a task" } input type="search" name="q" value=(page.words) maxlength="200"; }
            button type="submit" { "Search" }
        }
        @if page.hits.is_empty() && page.words.is_empty() {
            (empty("Type a search text.", None))
        } @else if page.hits.is_empty() {
            div .empty {
                p { "Nothing was found for " code { (line(page.words)) } "." }
                p { "Searched: the ids of entries, executions and runs and the names of robots, from their start; tasks, agents and changed paths of recorded runs, of open runs of this server's workspace and of held changes." }
                p { "Try the first eight characters of an id, the start of a robot's name, or fewer words: all of them must be there." }
            }
        } @else {
            div .scroll tabindex="0" role="group" aria-label="Results" {
                table {
                    thead { tr { th { "What" } th { "Id" } th { "About" } th { "State" } th { "When" } } }
                    tbody { @for hit in page.hits {
                        tr data-row {
                            td { (hit.kind) }
                            th scope="row" { a href=(hit.href) { (short(&hit.id)) } }
                            td { (line(&hit.about)) }
                            td { @if let Some(state) = &hit.state { (badge(state)) } }
                            td { @if let Some(at) = &hit.at { (time(at, viewer.now)) } }
                        }
                    } }
                }
            }
        }
        @for cut in page.cuts { p .cut { (words(cut)) } }
    }
}
