//! Who may do what: API keys, sessions, people, rules; and where entries are sent to: webhooks.

use crealeph_contracts::approval::ApprovalRule;
use crealeph_runtime::access::{KeyReport, SessionReport};
use crealeph_runtime::approvals::EnrolledPerson;
use crealeph_runtime::webhook::WebhookReport;
use crealeph_verify::KeyMaterial;
use maud::{Markup, html};

use crate::frame::Viewer;
use crate::parts::{badge, empty, line, path, short, time};

/// Who may do what.
#[derive(Clone, Debug)]
pub struct AccessPage<'a> {
    /// The API keys; `None` if the viewer may not see them.
    pub keys: Option<&'a [KeyReport]>,
    /// There are more keys.
    pub has_more_keys: bool,
    /// The sessions that count; `None` if the viewer may not see them.
    pub sessions: Option<&'a [SessionReport]>,
    /// There are more sessions.
    pub has_more_sessions: bool,
    /// The session of the viewer.
    pub own_session: &'a str,
    /// Whether the viewer may end sessions of others.
    pub ends_sessions: bool,
    /// The webhooks; `None` if the viewer may not see them.
    pub webhooks: Option<&'a [WebhookReport]>,
    /// There are more webhooks.
    pub has_more_webhooks: bool,
    /// People who may approve.
    pub people: &'a [EnrolledPerson],
    /// The fingerprint of the first admin's key.
    pub root: Option<&'a str>,
    /// The rules in force.
    pub rules: &'a [ApprovalRule],
}

/// The page.
pub fn access(viewer: &Viewer, page: &AccessPage<'_>) -> Markup {
    html! {
        h1 { "Access" }
        section aria-labelledby="people" { h2 #people { "People" }
            @if page.people.is_empty() { (empty("No one is enrolled. The first person enrols themselves as admin:", Some("crealeph person add NAME --key ~/.ssh/id_ed25519.pub --first-admin"))) }
            @else {
                @if let Some(root) = page.root { p { "All enrolments are based on the first admin's key " code { (line(root)) } ". Compare it with the one that you saved." } }
                div .scroll tabindex="0" role="group" aria-label="People" { table {
                    thead { tr { th { "Person" } th { "Groups" } th { "Keys" } } }
                    tbody { @for person in page.people { tr data-row {
                        th scope="row" { (line(&person.name)) }
                        td { (line(&person.groups.join(", "))) }
                        td { ul { @for key in &person.keys { li { (key_kind(&key.material)) " " code { (line(&key.fingerprint)) } @if key.is_revoked { " " (badge("revoked")) } } } } }
                    } } }
                } }
            }
        }
        section aria-labelledby="rules" { h2 #rules { "Approval rules" }
            @if page.rules.is_empty() { (empty("No rule is set, so one approval by anyone enrolled is enough.", Some("crealeph rule set rules.toml"))) }
            @else { ul { @for rule in page.rules { li { code { (line(rule.name.as_str())) } } } } p { a href="/v1/rules" { "Rules as JSON" } } }
        }
        @if let Some(keys) = page.keys {
            section aria-labelledby="keys-list" { h2 #keys-list { "API keys" }
                @if keys.is_empty() { (empty("There is no API key.", Some("crealeph key create --role reader"))) } @else {
                    div .scroll tabindex="0" role="group" aria-label="API keys" { table {
                        thead { tr { th { "Key" } th { "Role" } th { "State" } th { "Robot" } th { "Label" } th { "Granted" } th { "Expires" } } }
                        tbody { @for key in keys { tr data-row {
                            th scope="row" { (short(&key.key_id)) } td { (key.role) } td { (badge(&key.state)) }
                            td { @if let Some(robot) = &key.robot_id { (line(robot)) } } td { @if let Some(label) = &key.label { (line(label)) } }
                            td { (time(&key.created_at, viewer.now)) } td { @if let Some(expires) = &key.expires { (time(expires, viewer.now)) } }
                        } } }
                    } }
                    @if page.has_more_keys { p .cut { "There are more; " code { "crealeph key list" } " lists all." } }
                }
            }
        }
        @if let Some(sessions) = page.sessions { (session_list(viewer, page, sessions)) }
        @if let Some(webhooks) = page.webhooks { (webhook_list(viewer, webhooks, page.has_more_webhooks)) }
    }
}

fn session_list(viewer: &Viewer, page: &AccessPage<'_>, sessions: &[SessionReport]) -> Markup {
    html! {
        section aria-labelledby="sessions" { h2 #sessions { "Sessions" }
            p { "Who is signed in to the console now." }
            div .scroll tabindex="0" role="group" aria-label="Sessions" { table {
                thead { tr { th { "Session" } th { "Opened by" } th { "Role" } th { "Robot" } th { "Opened" } th { "Expires" } @if page.ends_sessions { th { "Change" } } } }
                tbody { @for session in sessions { tr data-row {
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
            @if page.has_more_sessions { p .cut { "There are more; " code { "crealeph key sessions" } " lists all." } }
        }
    }
}

fn webhook_list(viewer: &Viewer, webhooks: &[WebhookReport], has_more: bool) -> Markup {
    html! {
        section aria-labelledby="webhooks" { h2 #webhooks { "Webhooks" }
            @if webhooks.is_empty() { (empty("No other program is notified of new entries.", Some("crealeph webhook create https://example.com/hook"))) } @else {
                div .scroll tabindex="0" role="group" aria-label="Webhooks" { table {
                    thead { tr { th { "Webhook" } th { "State" } th { "Delivered to" } th { "Entries" } th { "Label" } th { "Created" } @if viewer.manages_webhooks { th { "Change" } } } }
                    tbody { @for webhook in webhooks { tr data-row {
                        th scope="row" { (short(&webhook.webhook_id)) }
                        td { (badge(&webhook.state)) @if let Some(reason) = &webhook.reason { " " (line(reason)) } }
                        td { code { (line(&webhook.url)) } }
                        td { (line(&sent_entries(webhook))) }
                        td { @if let Some(label) = &webhook.label { (line(label)) } }
                        td { (time(&webhook.created_at, viewer.now)) }
                        @if viewer.manages_webhooks { td { @if webhook.state != "deleted" { (webhook_form(viewer, webhook)) } } }
                    } } }
                } }
                @if has_more { p .cut { "There are more; " code { "crealeph webhook list" } " lists all." } }
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
