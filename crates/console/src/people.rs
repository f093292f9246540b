//! Who may do what: API keys, people, rules.

use crealeph_contracts::approval::ApprovalRule;
use crealeph_runtime::access::KeyReport;
use crealeph_runtime::approvals::EnrolledPerson;
use crealeph_verify::KeyMaterial;
use maud::{Markup, html};

use crate::frame::Viewer;
use crate::parts::{badge, empty, line, short, time};

/// Who may do what.
#[derive(Clone, Debug)]
pub struct AccessPage<'a> {
    /// The API keys; `None` if the viewer may not see them.
    pub keys: Option<&'a [KeyReport]>,
    /// There are more keys.
    pub has_more_keys: bool,
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
            @if page.people.is_empty() { (empty("Nobody is enrolled. The first person enrols themselves as admin:", Some("crealeph person add NAME --key ~/.ssh/id_ed25519.pub --first-admin"))) }
            @else {
                @if let Some(root) = page.root { p { "All of them rest on the first admin's key " code { (line(root)) } ". Compare it with the one that you kept." } }
                div .scroll tabindex="0" role="group" aria-label="People" { table {
                    thead { tr { th { "Person" } th { "Groups" } th { "Keys" } } }
                    tbody { @for person in page.people { tr data-row="" {
                        th scope="row" { (line(&person.name)) }
                        td { (line(&person.groups.join(", "))) }
                        td { ul { @for key in &person.keys { li { (key_kind(&key.material)) " " code { (line(&key.fingerprint)) } @if key.is_revoked { " " (badge("revoked")) } } } } }
                    } } }
                } }
            }
        }
        section aria-labelledby="rules" { h2 #rules { "Approval rules" }
            @if page.rules.is_empty() { (empty("No rule was set, so one approval by anyone enrolled is enough.", Some("crealeph rule set rules.toml"))) }
            @else { ul { @for rule in page.rules { li { code { (line(rule.name.as_str())) } } } } p { a href="/v1/rules" { "Rules as JSON" } } }
        }
        @if let Some(keys) = page.keys {
            section aria-labelledby="keys-list" { h2 #keys-list { "API keys" }
                @if keys.is_empty() { (empty("There is no API key.", Some("crealeph key create --role reader"))) } @else {
                    div .scroll tabindex="0" role="group" aria-label="API keys" { table {
                        thead { tr { th { "Key" } th { "Role" } th { "State" } th { "Robot" } th { "Label" } th { "Granted" } th { "Expires" } } }
                        tbody { @for key in keys { tr data-row="" {
                            th scope="row" { (short(&key.key_id)) } td { (key.role) } td { (badge(&key.state)) }
                            td { @if let Some(robot) = &key.robot_id { (line(robot)) } } td { @if let Some(label) = &key.label { (line(label)) } }
                            td { (time(&key.created_at, viewer.now)) } td { @if let Some(expires) = &key.expires { (time(expires, viewer.now)) } }
                        } } }
                    } }
                    @if page.has_more_keys { p .cut { "There are more; " code { "crealeph key list" } " lists all." } }
                }
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
