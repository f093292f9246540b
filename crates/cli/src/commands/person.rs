//! `crealeph person`: who may approve, with which keys (R33).

use std::path::PathBuf;

use clap::{Args, Subcommand};
use crealeph_contracts::api_key::KeyRole;
use crealeph_contracts::approval::{ProofKind, SignedKind};
use crealeph_contracts::passkey::{MAX_INVITATION_DAYS, PasskeyOrigin};
use crealeph_contracts::scalar::{Name, Text};
use crealeph_runtime::approvals::{
    ApprovalHistory, InvitationTerms, PasskeyReport, PersonKeyReport, PersonReport, enrolment,
    first_enrolment, invitation, revocation,
};
use crealeph_verify::PersonKey;
use serde::Deserialize as _;
use serde_json::json;

use super::CommandOutcome;
use super::admin_log::AdminLog;
use super::key::roles;
use super::ledger::named;
use super::on_ledger::Task;
use super::place::Place;
use super::rule::in_force;
use crate::failure::{ArgumentFailure, Failure, SigningFailure};
use crate::input::Source;
use crate::output::{Output, note};
use crate::signing::SigningKey;

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph person add ana --key ~/.ssh/id_ed25519.pub --first-admin
  crealeph person add ben --key ben.pub --group maintainers
  crealeph person invite cy --group maintainers --origin https://crealeph.example.com
  crealeph person list --allowed-signers > allowed_signers
  crealeph person revoke ben --reason 'left the company'

The first admin enrols themselves, once in a tenant; admins (the group `admins`) enrol and revoke everyone else. Each enrolment is
signed with the admin's key: a file, or ssh-agent. Save the fingerprint that --first-admin prints: all approvals are based on it.

`invite` prints a link with which the person enrols a passkey, once. Give it to them over a channel that you trust. Only verdicts under
a rule that takes them can be proved with a passkey: `proof = [\"ssh\", \"passkey\"]` (`crealeph rule --help`).

With --server a statement is made and signed on this machine, and sent; the key for the server must be an admin's. The server names the
log it is for; if it named another one before, nothing is signed.

Once someone is enrolled, verdicts must be signed, even after everyone is revoked.

Exit codes: 0 done, 1 refused, 2 cannot be done.";

/// The largest public key file that is read.
const MAX_KEY_BYTES: usize = 64 << 10;

#[derive(Debug, Subcommand)]
pub(super) enum PersonTask {
    /// Enrol a person, or one more key of a person
    Add(Add),
    /// Invite a person to enrol a passkey: prints a link that can be used once
    Invite(Invite),
    /// List people, their groups and keys
    List {
        /// Print the file that `ssh-keygen -Y verify` takes
        #[arg(long)]
        allowed_signers: bool,
    },
    /// Revoke a person's keys; verdicts that did not land yet no longer count
    Revoke(Revoke),
}

#[derive(Debug, Args)]
pub(super) struct Add {
    /// Name of the person
    name: String,
    /// Public key of the person: Ed25519, ECDSA or a hardware key
    #[arg(long, value_name = "FILE.pub")]
    key: PathBuf,
    /// Group that the person is in; can be repeated; replaces earlier groups
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// Enrol the first admin of this tenant, signed with this very key
    #[arg(long)]
    first_admin: bool,
    /// Key to sign with: private, or public if ssh-agent holds it [default: the enrolled one that is found]
    #[arg(long, value_name = "FILE", conflicts_with = "first_admin")]
    sign_with: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Invite {
    /// Name of the person
    name: String,
    /// Group that the person is in from now on; can be repeated [default: their current groups]
    #[arg(long = "group", value_name = "GROUP")]
    groups: Vec<String>,
    /// What the person may do when they sign in with the passkey
    #[arg(long, value_parser = roles(), default_value = "writer")]
    role: KeyRole,
    /// Address of the server in browsers; the passkey works only there
    #[arg(long, value_name = "URL", default_value = "http://localhost:4114")]
    origin: String,
    /// For how many hours the link can be used
    #[arg(long, value_name = "HOURS", default_value_t = 24,
        value_parser = clap::value_parser!(u32).range(1..=24 * MAX_INVITATION_DAYS as i64))]
    hours: u32,
    /// Key to sign with: private, or public if ssh-agent holds it [default: the enrolled one that is found]
    #[arg(long, value_name = "FILE")]
    sign_with: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// Name of the person
    name: String,
    /// Fingerprint of one key, `SHA256:…` or `passkey:…` [default: all keys of the person]
    #[arg(long, value_name = "FINGERPRINT")]
    key_id: Option<String>,
    /// Reason
    #[arg(long)]
    reason: Option<String>,
    /// Key to sign with: private, or public if ssh-agent holds it [default: the enrolled one that is found]
    #[arg(long, value_name = "FILE")]
    sign_with: Option<PathBuf>,
}

impl Task for PersonTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self {
            PersonTask::Add(add) => add.run(at, output)?,
            PersonTask::Invite(invite) => invite.run(at, output)?,
            PersonTask::List { allowed_signers } => list(at, allowed_signers, output)?,
            PersonTask::Revoke(revoke) => revoke.run(at, output)?,
        }
        Ok(CommandOutcome::Good)
    }
}

/// A person's name, in letters that every file of signers takes.
fn person(name: &str) -> Result<Name, Failure> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "._@+-".contains(c);
    if !name.chars().all(is_plain) {
        let reason = "use letters, digits and . _ @ + -".to_owned();
        return Err(ArgumentFailure::BadName { what: "name", name: name.to_owned(), reason }.into());
    }
    Ok(named("name", name, Name::parse)?)
}

impl Add {
    fn run(self, at: &Place, output: &mut Output) -> Result<(), Failure> {
        let name = person(&self.name)?;
        let source = Source::new(Some(self.key.clone()));
        let text = source.text(source.read_bounded(MAX_KEY_BYTES)?)?;
        let bad = |reason: String| SigningFailure::BadKey { path: self.key.clone(), reason };
        let key = PersonKey::parse(&text).map_err(|error| bad(error.to_string()))?;
        let groups = self.groups.iter().map(|group| named("group", group, Name::parse));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        let (log, signing, statement) = if self.first_admin {
            let log = AdminLog::open_or_start(at)?;
            let statement = first_enrolment(log.place()?, log.root(), name, &key, groups)?;
            (log, SigningKey::open(&self.key)?, statement)
        } else {
            let log = AdminLog::open(at)?;
            let (signing, signer) = log.signer(self.sign_with.as_deref())?;
            let statement = enrolment(log.place()?, name, &key, groups, signer)?;
            (log, signing, statement)
        };
        let entry = log.record(&signing, &statement)?;
        let fingerprint = key.fingerprint();
        if at.is_json(output) {
            let groups: Vec<&str> = statement.groups.as_slice().iter().map(Name::as_str).collect();
            output.report(&json!({
                "person": self.name, "keyId": fingerprint, "groups": groups, "entry": entry,
                "signedBy": statement.signed_by.as_str(),
            }))?;
        } else {
            output.line(&format!("enrolled {} with {fingerprint}", self.name))?;
        }
        if self.first_admin {
            note!("save this fingerprint elsewhere: {fingerprint}; approvals are checked against it");
        }
        Ok(())
    }
}

impl Invite {
    fn run(self, at: &Place, output: &mut Output) -> Result<(), Failure> {
        let bad = |why: &str| ArgumentFailure::BadName {
            what: "origin",
            name: self.origin.clone(),
            reason: why.to_owned(),
        };
        let origin = PasskeyOrigin::parse(&self.origin).map_err(bad)?;
        let groups = self.groups.iter().map(|group| named("group", group, Name::parse));
        let groups = groups.collect::<Result<Vec<_>, _>>()?;
        let (person, role, hours) = (person(&self.name)?, self.role, self.hours);
        let log = AdminLog::open(at)?;
        let groups = match groups.is_empty() {
            false => groups.into_iter().collect(),
            true => log.groups_of(&person)?,
        };
        let (signing, signer) = log.signer(self.sign_with.as_deref())?;
        let terms = InvitationTerms { person, groups, role, origin, hours };
        let invited = invitation(log.place()?, terms, signer)?;
        let entry = log.record(&signing, &invited.statement)?;
        let expires = invited.statement.expires.as_str();
        match at.is_json(output) {
            true => output.report(&json!({
                "person": self.name, "link": invited.link(), "token": invited.token, "expires": expires,
                "entry": entry,
            }))?,
            // On a separate line, so that it can be copied.
            false => output.line(&invited.link())?,
        }
        note!(
            "give this link only to {}: the first person who opens it is enrolled as {}; it expires at {expires}",
            self.name,
            self.name
        );
        if !in_force(at)?.iter().any(|rule| rule.proofs.contains(&ProofKind::Passkey)) {
            note!(
                "no rule accepts passkeys yet: add `proof = [\"ssh\", \"passkey\"]` to one (`crealeph rule set`)"
            );
        }
        Ok(())
    }
}

impl Revoke {
    fn run(self, at: &Place, output: &mut Output) -> Result<(), Failure> {
        let name = person(&self.name)?;
        let key_id = self.key_id.as_deref().map(|id| named("fingerprint", id, Name::parse)).transpose()?;
        let reason = self.reason.as_deref().and_then(Text::new);
        let log = AdminLog::open(at)?;
        let (signing, signer) = log.signer(self.sign_with.as_deref())?;
        let entry = log.record(&signing, &revocation(log.place()?, name, key_id, reason, signer)?)?;
        match at.is_json(output) {
            true => output.report(&json!({ "person": self.name, "keyId": self.key_id, "entry": entry }))?,
            false => output.line(&format!("revoked {}", self.name))?,
        }
        Ok(())
    }
}

fn list(at: &Place, allowed_signers: bool, output: &mut Output) -> Result<(), Failure> {
    // What a server says is printed as it is.
    let (documents, people) = match at {
        Place::Here(at) => {
            let history = ApprovalHistory::load(&at.open()?, &at.tenant)?;
            let root = history.as_ref().and_then(|history| history.judge.root());
            let people = history.as_ref().map_or_else(Vec::new, |history| history.judge.people());
            (None, people.iter().map(|person| PersonReport::of(person, root)).collect())
        }
        Place::Server(remote) => {
            let documents = remote.people()?.people;
            let read = |document| PersonReport::deserialize(document).map_err(|error| at.unreadable(&error));
            let people = documents.iter().map(read).collect::<Result<Vec<_>, _>>()?;
            (Some(documents), people)
        }
    };
    let is_json = at.is_json(output) && !allowed_signers;
    match documents.filter(|_| is_json) {
        Some(documents) => documents.iter().try_for_each(|document| output.report_line(document))?,
        None if is_json => people.iter().try_for_each(|person| output.report_line(person))?,
        None if allowed_signers => {
            let mut lines = people.iter().flat_map(signer_lines);
            lines.try_for_each(|line| output.document(&format!("{line}\n")))?
        }
        None => people.iter().flat_map(lines).try_for_each(|line| output.line(&line))?,
    }
    if people.is_empty() && !is_json && !allowed_signers {
        output.line("no one is enrolled; verdicts are not signed")?;
    }
    Ok(())
}

/// The lines of a person in the file that `ssh-keygen -Y verify` takes.
fn signer_lines(person: &PersonReport) -> Vec<String> {
    let namespaces: Vec<&str> = SignedKind::ALL.iter().map(|kind| kind.namespace()).collect();
    let keys = person.keys.iter().filter(|key| !key.revoked && key.passkey.is_none());
    let line = |key: &PersonKeyReport| {
        format!("{} namespaces=\"{}\" {}", person.person, namespaces.join(","), key.public_key)
    };
    keys.map(line).collect()
}

fn lines(person: &PersonReport) -> Vec<String> {
    let groups = if person.groups.is_empty() { "no group".to_owned() } else { person.groups.join(", ") };
    let mut lines = vec![format!("{} ({groups})", person.person)];
    for key in &person.keys {
        let revoked = if key.revoked { ", revoked" } else { "" };
        let first = if key.root { ", first admin" } else { "" };
        let place = match &key.passkey {
            None => String::new(),
            Some(PasskeyReport { origin, role, .. }) => format!(", at {origin}, {role}"),
        };
        lines.push(format!("  {}{place}{first}{revoked}", key.key_id));
    }
    if person.keys.is_empty() {
        lines.push("  no key: invited".to_owned());
    }
    lines
}
