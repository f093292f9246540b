//! Who may do what: API keys, sessions, people, rules; and where entries are sent to: webhooks.

use crealeph_contracts::approval::ApprovalRule;
use crealeph_runtime::access::{KeyReport, SessionReport};
use crealeph_runtime::approvals::{EnrolledPerson, MAX_RULES};
use crealeph_runtime::webhook::WebhookReport;
use crealeph_verify::KeyMaterial;
use maud::{Markup, html};

use crate::frame::Viewer;
use crate::parts::{badge, counted, empty, line, path, query, short, time};

/// How many keys of one person are shown.
const SHOWN_KEYS: usize = 20;

/// A page of one of the lists, and where it continues.
#[derive(Clone, Debug)]
pub struct AccessList<'a, T> {
    /// Its rows.
    pub rows: &'a [T],
    /// Where it continues.
    pub next: Option<String>,
}

/// Who may do what.
#[derive(Clone, Debug)]
pub struct AccessPage<'a> {
    /// The API keys, oldest first; `None` if the viewer may not see them.
    pub keys: Option<AccessList<'a, KeyReport>>,
    /// The sessions that count, newest first; `None` if the viewer may not see them.
    pub sessions: Option<AccessList<'a, SessionReport>>,
    /// The session of the viewer.
    pub own_session: &'a str,
    /// Whether the viewer may end sessions of others.
    pub ends_sessions: bool,
    /// The webhooks, oldest first; `None` if the viewer may not see them.
    pub webhooks: Option<AccessList<'a, WebhookReport>>,
    /// People who may approve, by name.
    pub people: AccessList<'a, EnrolledPerson>,
    /// The fingerprint of the first admin's key.
    pub root: Option<&'a str>,
    /// The rules in force.
    pub rules: &'a [ApprovalRule],
}

impl<T> AccessList<'_, T> {
    fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.next.is_none()
    }

    /// The link to the rest of the list, by its parameter and its section.
    fn more(&self, name: &str, section: &str, words: &str) -> Markup {
        html! { @if let Some(next) = &self.next {
            p .next { a rel="next" href={ (query("/access", &[(name, Some(next))])) "#" (section) } { (words) } }
        } }
    }
}

/// The page.
pub fn access(viewer: &Viewer, page: &AccessPage<'_>) -> Markup {
    html! {
        h1 { "Access" }
        section aria-labelledby="people" { h2 #people { "People" } (people_list(page)) }
        section aria-labelledby="rules" { h2 #rules { "Approval rules" } (rule_list(page.rules)) }
        @if let Some(keys) = &page.keys { section aria-labelledby="keys-list" { h2 #keys-list { "API keys" } (key_list(viewer, keys)) } }
        @if let Some(sessions) = &page.sessions { (session_list(viewer, page, sessions)) }
        @if let Some(webhooks) = &page.webhooks { (webhook_list(viewer, webhooks)) }
    }
}

fn people_list(page: &AccessPage<'_>) -> Markup {
    let (people, left_out) = (&page.people, |keys: usize| keys.saturating_sub(SHOWN_KEYS) as u64);
    html! {
        @if people.is_empty() { (empty("No one is enrolled. The first person enrols themselves as admin:", Some("crealeph person add NAME --key ~/.ssh/id_ed25519.pub --first-admin"))) }
        @else {
            @if let Some(root) = page.root { p { "All enrolments are based on the first admin's key " code { (line(root)) } ". Compare it with the one that you saved." } }
            div .scroll tabindex="0" role="group" aria-label="People" { table {
                thead { tr { th { "Person" } th { "Groups" } th { "Keys" } } }
                tbody { @for person in people.rows { tr data-row {
                    th scope="row" { (line(&person.name)) }
                    td { (line(&person.groups.join(", "))) }
                    td {
                        ul { @for key in person.keys.iter().take(SHOWN_KEYS) { li { (key_kind(&key.material)) " " code { (line(&key.fingerprint)) } @if key.is_revoked { " " (badge("revoked")) } } } }
                        @if left_out(person.keys.len()) > 0 { p .cut { (counted(left_out(person.keys.len()), "more key")) " not shown; " code { "crealeph person list" } " lists all." } }
                    }
                } } }
            } }
            (people.more("people", "people", "More people"))
        }
    }
}

fn rule_list(rules: &[ApprovalRule]) -> Markup {
    let left_out = rules.len().saturating_sub(MAX_RULES) as u64;
    html! {
        @if rules.is_empty() { (empty("No rule is set, so one approval by anyone enrolled is enough.", Some("crealeph rule set rules.toml"))) }
        @else {
            ul { @for rule in rules.iter().take(MAX_RULES) { li { code { (line(rule.name.as_str())) } } } }
            @if left_out > 0 { p .cut { (counted(left_out, "more rule")) " not shown." } }
            p { a href="/v1/rules" { "Rules as JSON" } }
        }
    }
}

fn key_list(viewer: &Viewer, keys: &AccessList<'_, KeyReport>) -> Markup {
    html! {
        @if keys.is_empty() { (empty("There is no API key.", Some("crealeph key create --role reader"))) } @else {
            div .scroll tabindex="0" role="group" aria-label="API keys" { table {
                thead { tr { th { "Key" } th { "Role" } th { "State" } th { "Robot" } th { "Label" } th { "Granted" } th { "Expires" } } }
                tbody { @for key in keys.rows { tr data-row {
                    th scope="row" { (short(&key.key_id)) } td { (key.role) } td { (badge(&key.state)) }
                    td { @if let Some(robot) = &key.robot_id { (line(robot)) } } td { @if let Some(label) = &key.label { (line(label)) } }
                    td { (time(&key.created_at, viewer.now)) } td { @if let Some(expires) = &key.expires { (time(expires, viewer.now)) } }
                } } }
            } }
            (keys.more("keys", "keys-list", "Newer API keys"))
        }
    }
}

fn session_list(viewer: &Viewer, page: &AccessPage<'_>, sessions: &AccessList<'_, SessionReport>) -> Markup {
    html! {
        section aria-labelledby="sessions" { h2 #sessions { "Sessions" }
            p { "Who is signed in to the console now." }
            div .scroll tabindex="0" role="group" aria-label="Sessions" { table {
                thead { tr { th { "Session" } th { "Opened by" } th { "Role" } th { "Robot" } th { "Opened" } th { "Expires" } @if page.ends_sessions { th { "Change" } } } }
                tbody { @for session in sessions.rows { tr data-row {
                    th scope="row" { (short(&session.session_id)) @if session.session_id == page.own_session { " (yours)" } }
                    td { code { (line(&session.opened_by)) } }
                    td { (session.role) }
                    td { @if let Some(robot) = &session.robot_id { (line(robot)) } }
                    td { (time(&session.created_at, viewer.now)) }
                    td { (time(&session.expires, viewer.now)) }
                    @if page.ends_sessions { td {
                        form action={ "/sessions/" (path(&session.session_id)) "/end" } method="post" {
                            input type="hidden" name="form" value=(viewer.form_token);
                            button .quiet type="submit" aria-label={ "End the session " (session.session_id) } { "End" }
                        }
                    } }
                } } }
            } }
            (sessions.more("sessions", "sessions", "Older sessions"))
        }
    }
}

fn webhook_list(viewer: &Viewer, webhooks: &AccessList<'_, WebhookReport>) -> Markup {
    html! {
        section aria-labelledby="webhooks" { h2 #webhooks { "Webhooks" }
            @if webhooks.is_empty() { (empty("No other program is notified of new entries.", Some("crealeph webhook create https://example.com/hook"))) } @else {
                div .scroll tabindex="0" role="group" aria-label="Webhooks" { table {
                    thead { tr { th { "Webhook" } th { "State" } th { "Delivered to" } th { "Entries" } th { "Label" } th { "Created" } @if viewer.manages_webhooks { th { "Change" } } } }
                    tbody { @for webhook in webhooks.rows { tr data-row {
                        th scope="row" { (short(&webhook.webhook_id)) }
                        td { (badge(&webhook.state)) @if let Some(reason) = &webhook.reason { " " (line(reason)) } }
                        td { code { (line(&webhook.url)) } }
                        td { (line(&sent_entries(webhook))) }
                        td { @if let Some(label) = &webhook.label { (line(label)) } }
                        td { (time(&webhook.created_at, viewer.now)) }
                        @if viewer.manages_webhooks { td { @if webhook.state != "deleted" { (webhook_form(viewer, webhook)) } } }
                    } } }
                } }
                (webhooks.more("webhooks", "webhooks", "Newer webhooks"))
            }
        }
    }
}

/// Which entries are sent, and whether with what they hold.
fn sent_entries(webhook: &WebhookReport) -> String {
    let types = webhook.events.as_ref().map_or_else(|| "all types".to_owned(), |events| events.join(", "));
    let robot = webhook.robot_id.as_ref().map_or_else(String::new, |robot| format!(" of {robot}"));
    format!("{types}{robot}{}", if webhook.payloads { ", with payloads" } else { "" })
}

/// Enables a webhook that was disabled, or deletes it; folded, because its secret cannot be restored.
fn webhook_form(viewer: &Viewer, webhook: &WebhookReport) -> Markup {
    let id = &webhook.webhook_id;
    let (target, is_disabled) = (format!("/webhooks/{}", path(id)), webhook.state == "disabled");
    let field = format!("reason-{id}");
    html! {
        details { summary { @if is_disabled { "Enable or delete" } @else { "Delete" } }
            form action={ (target) "/delete" } method="post" {
                input type="hidden" name="form" value=(viewer.form_token);
                p { label for=(field) { "Reason, optional" } }
                p { input id=(field) name="reason" maxlength="4096" autocomplete="off"; }
                @if is_disabled { p { button type="submit" formaction={ (target) "/enable" } { "Enable; resume where it stopped" } } }
                p { button .quiet type="submit" { "Delete it and its secret" } }
            }
        }
    }
}

/// What a key of a person is, and where a passkey is used.
fn key_kind(material: &KeyMaterial) -> Markup {
    match material {
        KeyMaterial::Ssh { .. } => html! { "SSH key" },
        KeyMaterial::Passkey(own) => html! { "Passkey of " code { (line(own.origin.as_str())) } },
    }
}
