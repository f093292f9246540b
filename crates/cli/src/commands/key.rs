//! `crealeph key`: the API keys of the server, and the sessions of its console.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use crealeph_contracts::api_key::{KeyRequest, KeyRole};
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::scalar::{ClientKey, KeyId, RobotId, Text};
use crealeph_runtime::access::{KeyReport, LinkRequest, SessionReport, create_link};
use serde_json::json;

use super::CommandOutcome;
use super::ledger::{Settled, named};
use super::listing::{ListArgs, print_page};
use super::on_ledger::Task;
use super::place::Place;
use crate::failure::{ArgumentFailure, Failure};
use crate::output::{Output, note};

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph key create --role reader
  crealeph key link --role operator
  crealeph key create --role writer --robot shop --label 'nightly import' --expires 2027-01-01T00:00:00Z
  crealeph key list
  crealeph key revoke 5f0c9a1b2d3e4f60 --reason 'laptop lost'
  crealeph key sessions
  crealeph key end-session 8c1d2e3f4a5b6c70

Roles:
  reader    reads entries, proofs and checkpoints
  writer    reads, appends entries, and submits verdicts that people signed
  operator  the same, runs the Builder, and reports receipts of work runs
  auditor   reads, exports the log, and sees who may do what
  admin     manages keys, signers, people, rules and webhooks, and reads no evidence

The token is printed once; the ledger keeps its digest. It names its tenant. With --client-key, repeating the request grants no second key and shows no token. A revoked key stops working at once, on every server of the ledger, and so does a session of the console that is ended.

Exit codes: 0 done, 1 refused, 2 cannot be done.";

#[derive(Debug, Subcommand)]
pub(super) enum KeyTask {
    /// Grant a key and print its token, once
    Create(Create),
    /// Print a link that signs in to the console once, within ten minutes
    Link(Link),
    /// List the keys of the tenant, revoked ones too
    List(ListArgs),
    /// Revoke a key, at once
    Revoke(Revoke),
    /// List who is signed in to the console
    Sessions(ListArgs),
    /// End a session of the console, at once
    EndSession(EndSession),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Role: what the key allows
    #[arg(long, value_parser = roles())]
    role: KeyRole,
    /// Restrict it to one robot
    #[arg(long)]
    robot: Option<String>,
    /// Note on what it is for
    #[arg(long)]
    label: Option<String>,
    /// When it expires
    #[arg(long, value_name = "INSTANT")]
    expires: Option<String>,
    /// Your own name for this request, so that repeating it grants no second key
    #[arg(long, value_name = "KEY")]
    client_key: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Link {
    /// What the session allows
    #[arg(long, value_parser = roles())]
    role: KeyRole,
    /// Restrict the session to this robot
    #[arg(long)]
    robot: Option<String>,
    /// URL of the server
    #[arg(long, value_name = "URL", default_value = "http://localhost:4114", value_parser = web_address)]
    url: String,
}

#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// Id of the key, from `key list`
    id: String,
    /// Reason
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct EndSession {
    /// Id of the session, from `key sessions`
    id: String,
}

/// One of the roles.
pub(super) fn roles() -> impl TypedValueParser<Value = KeyRole> {
    PossibleValuesParser::new(KeyRole::ALL.iter().map(|role| role.as_str()))
        .try_map(|name| KeyRole::parse(&name).ok_or("is not a role"))
}

impl Task for KeyTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self {
            KeyTask::Create(create) => create.run(at, output)?,
            KeyTask::Link(link) => link.run(at.here()?, output)?,
            KeyTask::List(list) => {
                print_page(
                    at.keys(list.start()?, list.limit)?,
                    in_words,
                    "there is no key; create one with `crealeph key create --role ROLE`",
                    at,
                    output,
                )?;
            }
            KeyTask::Revoke(revoke) => revoke.run(at, output)?,
            KeyTask::Sessions(list) => {
                let sessions = at.sessions(list.start()?, list.limit)?;
                print_page(sessions, session_in_words, "no one is signed in to the console", at, output)?;
            }
            KeyTask::EndSession(end) => {
                let ended = at.end_session(&named("session", &end.id, KeyId::parse)?)?;
                match at.is_json(output) {
                    true => output.report(&ended)?,
                    false => output.line(&format!("ended {}", ended.session_id))?,
                }
            }
        }
        Ok(CommandOutcome::Good)
    }
}

impl Create {
    fn run(self, at: &Place, output: &mut Output) -> Result<(), Failure> {
        let expires = self.expires.as_deref().map(|text| {
            Timestamp::parse(text).map_err(|why| ArgumentFailure::BadInstant(text.to_owned(), why))
        });
        let request = KeyRequest {
            role: self.role,
            robot_id: self.robot.as_deref().map(|robot| named("robot", robot, RobotId::parse)).transpose()?,
            label: self.label.as_deref().and_then(Text::new),
            expires: expires.transpose()?,
            client_key: self
                .client_key
                .as_deref()
                .map(|key| named("client key", key, ClientKey::parse))
                .transpose()?,
        };
        let created = at.create_key(request)?;
        match (at.is_json(output), &created.token) {
            (true, _) => output.report(&created)?,
            // On a separate line, so that it can be copied.
            (false, Some(token)) => output.line(token)?,
            (false, None) => {}
        }
        output.flush()?;
        let KeyReport { key_id, role, .. } = &created.report;
        match &created.token {
            Some(_) => {
                note!("granted key {key_id} of role {role} for tenant `{}`", at.tenant());
                note!("save the token now: it is not shown again");
            }
            None => note!("this request has granted key {key_id} before; its token is not shown again"),
        }
        Ok(())
    }
}

impl Link {
    fn run(self, at: &Settled, output: &mut Output) -> Result<(), Failure> {
        let robot_id = self.robot.as_deref().map(|name| named("robot", name, RobotId::parse)).transpose()?;
        let link = create_link(&at.open()?, &at.tenant, LinkRequest { role: self.role, robot_id })?;
        let url = sign_in_url(&self.url, &link.token);
        match at.is_json(output) {
            true => output.report_line(&json!({ "url": url, "linkId": link.link_id, "tenantId": link.tenant_id, "role": link.role, "expires": link.expires }))?,
            false => output.line(&url)?,
        }
        output.flush()?;
        note!(
            "this link signs in once, until {}, as {} of the tenant `{}`",
            link.expires,
            link.role,
            at.tenant
        );
        Ok(())
    }
}

/// An address that a browser opens.
fn web_address(text: &str) -> Result<String, &'static str> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let is_plain = |rest: &str| {
        !rest.is_empty()
            && !rest.contains(['?', '#', '@'])
            && rest.bytes().all(|byte| byte.is_ascii_graphic())
    };
    match rest.is_some_and(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("must begin with https:// or http:// and name a host, without `?`, `#` or `@`"),
    }
}

/// The link that signs in with a token.
pub(super) fn sign_in_url(server: &str, token: &str) -> String {
    format!("{}/sign-in?code={token}", server.trim_end_matches('/'))
}

fn in_words(key: &KeyReport) -> String {
    let KeyReport { key_id, role, state, created_at, .. } = key;
    let mut line = format!("{key_id}  {role:<8} {state:<7} {created_at}");
    for (before, text) in [("  until ", &key.expires), ("  robot ", &key.robot_id), ("  ", &key.label)] {
        if let Some(text) = text {
            line.push_str(before);
            line.push_str(text);
        }
    }
    line
}

fn session_in_words(session: &SessionReport) -> String {
    let SessionReport { session_id, role, opened_by, created_at, expires, .. } = session;
    let robot = session.robot_id.as_ref().map_or_else(String::new, |robot| format!("  robot {robot}"));
    format!("{session_id}  {role:<8} {created_at}  until {expires}  {opened_by}{robot}")
}

impl Revoke {
    fn run(self, at: &Place, output: &mut Output) -> Result<(), Failure> {
        let id = named("key", &self.id, KeyId::parse)?;
        let reason = self.reason.as_deref().and_then(Text::new);
        let revoked = at.revoke_key(&id, reason)?;
        match at.is_json(output) {
            true => output.report(&revoked)?,
            false => output.line(&format!("revoked {}", revoked.key_id))?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_a_web_address() {
        for good in ["http://localhost:4114", "https://crealeph.example.com/", "https://example.com/team"] {
            assert_eq!(web_address(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "localhost:4114",
            "ftp://x",
            "https://",
            "http://a b",
            "https://a@b",
            "https://a?b",
            "https://a#b",
        ] {
            assert!(web_address(bad).is_err(), "{bad}");
        }
        assert_eq!(sign_in_url("https://a/", "t"), "https://a/sign-in?code=t");
    }
}
