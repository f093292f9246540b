//! What every page has: head, navigation, search, who is signed in, and the page of a problem.

use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::Name;
use crealeph_contracts::violation::Violation;
use crealeph_ledger::Seq;
use maud::{DOCTYPE, Markup, html};

use crate::assets::asset_url;
use crate::parts::{counted, line, words};

/// What a page may load and do.
pub const CONTENT_SECURITY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// How many violations the page of a problem shows.
const SHOWN_VIOLATIONS: usize = 20;

/// Who looks at a page, and what they may do.
#[derive(Clone, Debug)]
pub struct Viewer {
    /// The tenant.
    pub tenant: String,
    /// The role, as it is named.
    pub role: &'static str,
    /// The robot that the session is restricted to.
    pub robot: Option<String>,
    /// Who it is, as entries name them.
    pub name: String,
    /// The person who signed in with a passkey.
    pub person: Option<Name>,
    /// What forms carry.
    pub form_token: String,
    /// Whether they may read evidence.
    pub reads: bool,
    /// Whether they may submit verdicts.
    pub decides: bool,
    /// Whether they may see who may do what.
    pub sees_grants: bool,
    /// Whether they may change webhooks.
    pub manages_webhooks: bool,
    /// When the page is made.
    pub now: Instant,
    /// The newest entry at that time: the page shows everything up to it. `None` if the page is not kept current.
    pub seq: Option<Seq>,
}

/// The part of the console that a page is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What awaits approval.
    Inbox,
    /// Robots.
    Robots,
    /// Executions of the Builder.
    Executions,
    /// Work runs.
    Work,
    /// Entries.
    Ledger,
    /// The policy.
    Policy,
    /// Tokens and cost.
    Usage,
    /// Keys, people, rules.
    Access,
    /// What was searched for.
    Search,
    /// A request that was refused.
    Problem,
}

impl Section {
    const LISTED: [(Section, &'static str, &'static str); 8] = [
        (Section::Inbox, "/inbox", "Inbox"),
        (Section::Robots, "/robots", "Robots"),
        (Section::Executions, "/executions", "Executions"),
        (Section::Work, "/runs", "Work"),
        (Section::Ledger, "/ledger", "Ledger"),
        (Section::Policy, "/policy", "Policy"),
        (Section::Usage, "/usage", "Usage"),
        (Section::Access, "/access", "Access"),
    ];

    fn is_shown(self, viewer: &Viewer) -> bool {
        match self {
            Section::Access => viewer.robot.is_none(),
            _ => viewer.reads,
        }
    }
}

/// A page before it is framed.
#[derive(Clone, Debug)]
pub struct PageFrame<'f> {
    /// Who looks at it.
    pub viewer: &'f Viewer,
    /// The part that it is of.
    pub section: Section,
    /// Its title.
    pub title: &'f str,
    /// The robot whose entries change it, empty for all entries; `None` if none does.
    pub live: Option<&'f str>,
}

impl PageFrame<'_> {
    /// The whole page.
    pub fn of(&self, content: Markup) -> String {
        self.of_types(content, &[])
    }

    /// The whole page, which entries of these types change too, whatever robot they are about. A type may have spaces in it, but no line
    /// break.
    pub fn of_types(&self, content: Markup, types: &[&str]) -> String {
        let PageFrame { viewer, section, title, live } = self;
        let types = (!types.is_empty()).then(|| types.join("\n"));
        let body = html! {
            a .skip href="#main" { "Skip to content" }
            header .top {
                a .brand href="/" { "CreAleph" }
                nav aria-label="Sections" {
                    ul {
                        @for (one, href, name) in Section::LISTED {
                            @if one.is_shown(viewer) {
                                li { a href=(href) aria-current=[(one == *section).then_some("page")] { (name) } }
                            }
                        }
                    }
                }
                @if viewer.reads {
                    form .search role="search" action="/search" method="get" {
                        input #search type="search" name="q" aria-label="Search: an id, robot, path or words of a task" placeholder="Search" autocomplete="off" maxlength="200";
                    }
                }
                details .who {
                    summary { (viewer.role) " · " (line(&viewer.tenant)) }
                    div .menu {
                        p { "Signed in as " code { (line(&viewer.name)) } }
                        @if let Some(robot) = &viewer.robot { p { "Restricted to the robot " code { (line(robot)) } } }
                        p { button type="button" .quiet data-times="" hidden { "Show times in UTC" } }
                        p { button type="button" .quiet data-shortcuts="" hidden { "Turn keyboard shortcuts off" } }
                        p { button type="button" .quiet data-updates="" hidden { "Pause updates" } }
                        form action="/sign-out" method="post" {
                            input type="hidden" name="form" value=(viewer.form_token);
                            button type="submit" .quiet { "Sign out" }
                        }
                    }
                }
            }
            main #main data-live=[*live] data-types=[types] data-stream=[viewer.seq.filter(|_| viewer.reads).map(|_| "")] data-now=(viewer.now.to_string()) data-seq=[viewer.seq] {
                div .changed role="status" aria-live="polite" hidden { }
                (content)
            }
            footer data-keys="" hidden {
                p { "Keys: " kbd { "/" } " search, " kbd { "j" } " " kbd { "k" } " move, " kbd { "Enter" } " open, " kbd { "?" } " all of them" }
            }
            dialog #keys aria-labelledby="keys-title" {
                h2 #keys-title { "Keyboard" }
                dl {
                    @for (key, what) in KEYS { div { dt { kbd { (key) } } dd { (what) } } }
                }
                form method="dialog" { button autofocus { "Close" } }
            }
        };
        document(title, body)
    }
}

const KEYS: [(&str, &str); 15] = [
    ("/", "search"),
    ("j", "next row"),
    ("k", "previous row"),
    ("Enter", "open the row"),
    ("x", "mark the row of the inbox, to decide about several at once"),
    ("a", "go to approve the row, or the open draft or change"),
    ("r", "go to reject it, with a reason"),
    ("g i", "inbox"),
    ("g r", "robots"),
    ("g e", "executions"),
    ("g w", "work"),
    ("g l", "ledger"),
    ("g p", "policy"),
    ("g u", "usage"),
    ("g a", "access"),
];

/// A page without navigation, as sign-in and problems have it.
pub(crate) fn plain(title: &str, content: Markup) -> String {
    let body = html! {
        main #main .narrow {
            p { a .brand href="/" { "CreAleph" } }
            (content)
        }
    };
    document(title, body)
}

/// What asks a passkey, for pages that do or may after they are renewed.
pub(crate) fn passkey_script() -> Markup {
    html! { script src=(asset_url("passkeys.js")) type="module" {} }
}

/// The keys and marks of pages where something is decided.
pub(crate) fn decide_script() -> Markup {
    html! { script src=(asset_url("decide.js")) defer {} }
}

/// What appends the output of a run in progress.
pub(crate) fn output_script() -> Markup {
    html! { script src=(asset_url("output.js")) defer {} }
}

fn document(title: &str, body: Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (line(title)) " · CreAleph" }
                link rel="icon" href=(asset_url("icon.svg")) type="image/svg+xml";
                link rel="stylesheet" href=(asset_url("console.css"));
                script src=(asset_url("console.js")) defer {}
            }
            body { (body) }
        }
    };
    page.into_string()
}

/// Why a request has no answer.
#[derive(Clone, Copy, Debug)]
pub struct ProblemPage<'p> {
    /// The status in words.
    pub title: &'p str,
    /// What happened.
    pub detail: &'p str,
    /// What to do.
    pub hint: Option<&'p str>,
    /// Everything that is wrong with a document that was sent.
    pub violations: &'p [Violation],
    /// The stable code.
    pub code: &'p str,
    /// The id of the request.
    pub request_id: &'p str,
}

/// The page of a problem; with navigation for someone who is signed in.
pub fn problem(viewer: Option<&Viewer>, page: &ProblemPage<'_>) -> String {
    let ProblemPage { title, detail, hint, violations, code, request_id } = *page;
    let left_out = violations.len().saturating_sub(SHOWN_VIOLATIONS);
    let content = html! {
        h1 { (title) }
        p { (words(detail)) }
        @if let Some(hint) = hint { p { (words(hint)) } }
        @if !violations.is_empty() {
            section aria-labelledby="violations" { h2 #violations { "Violations" }
                ul { @for violation in violations.iter().take(SHOWN_VIOLATIONS) { li { (line(&violation.to_string())) } } }
                @if left_out > 0 { p .cut { (counted(left_out as u64, "more violation")) " not shown." } }
            }
        }
        dl .facts {
            div { dt { "Code" } dd { code { (code) } } }
            div { dt { "Request" } dd { code { (line(request_id)) } } }
        }
        p { a href="/" { "Go to the start" } }
    };
    match viewer {
        Some(viewer) => PageFrame { viewer, section: Section::Problem, title, live: None }.of(content),
        None => plain(title, content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_with_a_space_in_it_stays_one_type() {
        let viewer = Viewer::sample();
        let frame = PageFrame { viewer: &viewer, section: Section::Ledger, title: "Ledger", live: None };
        let page = frame.of_types(html! {}, &["price list", "signal"]);
        assert!(page.contains("data-types=\"price list\nsignal\""), "{page}");
        assert!(asset_text("console.js").contains("dataset.types?.split('\\n')"), "and is read so");
    }

    fn asset_text(name: &str) -> String {
        let url = asset_url(name);
        let found = url.strip_prefix("/assets/").and_then(crate::assets::asset);
        found.map_or_else(String::new, |asset| asset.text.to_string())
    }
}
