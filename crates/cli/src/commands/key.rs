//! `crealeph key`: the API keys of the server.

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use crealeph_contracts::api_key::{KeyRequest, KeyRole};
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::scalar::{KeyId, RobotId, Text};
use crealeph_runtime::access::{KeyReport, create_key, list_keys, revoke_key};

use super::Verdict;
use super::ledger::{Settled, named};
use super::listing::{ListArgs, print_page};
use super::on_ledger::Task;
use super::place::Place;
use crate::failure::{ArgumentFailure, Failure};
use crate::output::{Output, note};

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph key create --role reader
  crealeph key create --role writer --robot shop --label 'nightly import' --expires 2027-01-01T00:00:00Z
  crealeph key list
  crealeph key revoke 5f0c9a1b2d3e4f60 --reason 'laptop lost'

Roles:
  reader    reads entries, proofs and checkpoints
  writer    reads, appends entries, and hands in verdicts that people signed
  operator  the same, runs the Builder, and reports receipts of work runs
  auditor   reads, exports the log, and sees who may do what
  admin     manages keys, signers, people, rules and webhooks, and reads no evidence

The token is printed once; the ledger has its digest. It names its tenant. A revoked key stops working at once, on every server of the ledger.

Exit codes: 0 done, 1 refused, 2 cannot be done.";

#[derive(Debug, Subcommand)]
pub(super) enum KeyTask {
    /// Grant a key and print its token, once
    Create(Create),
    /// List the keys of the tenant, revoked ones too
    List(ListArgs),
    /// Revoke a key, at once
    Revoke(Revoke),
}

#[derive(Debug, Args)]
pub(super) struct Create {
    /// Role: what the key allows
    #[arg(long, value_parser = roles())]
    role: String,
    /// Restrict it to one robot
    #[arg(long)]
    robot: Option<String>,
    /// Note on what it is for
    #[arg(long)]
    label: Option<String>,
    /// When it ends
    #[arg(long, value_name = "INSTANT")]
    expires: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// Id of the key, from `key list`
    id: String,
    /// Reason
    #[arg(long)]
    reason: Option<String>,
}

fn roles() -> PossibleValuesParser {
    PossibleValuesParser::new(KeyRole::ALL.iter().map(|role| role.as_str()))
}

impl Task for KeyTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<Verdict, Failure> {
        let at = at.here()?;
        match self {
            KeyTask::Create(create) => create.run(at, output)?,
            KeyTask::List(list) => {
                let page = list_keys(&at.open()?, &at.tenant, list.start()?, list.limit)?;
                print_page(
                    page,
                    in_words,
                    "there is no key; make one with `crealeph key create --role ROLE`",
                    at,
                    output,
                )?;
            }
            KeyTask::Revoke(revoke) => revoke.run(at, output)?,
        }
        Ok(Verdict::Good)
    }
}

impl Create {
    fn run(self, at: &Settled, output: &mut Output) -> Result<(), Failure> {
        let role = KeyRole::parse(&self.role);
        let role = role.ok_or_else(|| ArgumentFailure::option(self.role.as_str(), "a role"))?;
        let expires = self.expires.as_deref().map(|text| {
            Timestamp::parse(text).map_err(|why| ArgumentFailure::BadInstant(text.to_owned(), why))
        });
        let request = KeyRequest {
            role,
            robot_id: self.robot.as_deref().map(|robot| named("robot", robot, RobotId::parse)).transpose()?,
            label: self.label.as_deref().and_then(Text::new),
            expires: expires.transpose()?,
        };
        let created = create_key(&at.open()?, &at.tenant, request)?;
        match at.is_json(output) {
            true => output.report(&created)?,
            // On a line of its own, so that it can be copied.
            false => output.line(&created.token)?,
        }
        output.flush()?;
        let KeyReport { key_id, role, .. } = &created.report;
        note!("granted key {key_id} of role {role} for tenant `{}`", at.tenant);
        note!("save the token now: it is not shown again");
        Ok(())
    }
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

impl Revoke {
    fn run(self, at: &Settled, output: &mut Output) -> Result<(), Failure> {
        let id = named("key", &self.id, KeyId::parse)?;
        let reason = self.reason.as_deref().and_then(Text::new);
        let revoked = revoke_key(&at.open()?, &at.tenant, &id, reason)?;
        match at.is_json(output) {
            true => output.report(&revoked)?,
            false => output.line(&format!("revoked {}", revoked.key_id))?,
        }
        Ok(())
    }
}
