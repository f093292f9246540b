//! `crealeph signer`: the keys of workspaces elsewhere whose receipts the ledger accepts.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::reported::SignerRequest;
use crealeph_contracts::scalar::Text;
use crealeph_runtime::receipts::SignerReport;

use super::CommandOutcome;
use super::listing::{ListArgs, print_page};
use super::on_ledger::Task;
use super::place::Place;
use crate::failure::{ArgumentFailure, Failure};
use crate::input::Source;
use crate::output::Output;

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph work key > laptop.key          # where the receipts are made
  crealeph signer add laptop.key --label 'Ana, laptop'
  crealeph signer list
  crealeph signer revoke 5f0c9a1b… --reason 'laptop lost'

Receipts made elsewhere are accepted (`crealeph work run --report-to`) if an enrolled key has signed them. Each enrolment and
revocation is an entry of the log. Receipts reported before a revocation stay.

Exit codes: 0 done, 1 refused, 2 cannot be done.";

/// The largest key file that is read.
const MAX_KEY_BYTES: usize = 64 << 10;
/// How many keys one file can enrol.
const MAX_KEYS: usize = 100;

#[derive(Debug, Subcommand)]
pub(super) enum SignerTask {
    /// Enrol the keys of a workspace, as `crealeph work key` prints them
    Add(Add),
    /// List the signers of the tenant, revoked ones too
    List(ListArgs),
    /// Revoke a signer: its receipts are no longer accepted
    Revoke(Revoke),
}

#[derive(Debug, Args)]
pub(super) struct Add {
    /// File of public keys, one a line
    file: PathBuf,
    /// Note on whose keys they are
    #[arg(long)]
    label: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Revoke {
    /// Id of the signer, from `signer list`
    id: String,
    /// Reason
    #[arg(long)]
    reason: Option<String>,
}

impl Task for SignerTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self {
            SignerTask::Add(add) => add.run(at, output)?,
            SignerTask::List(list) => {
                print_page(
                    at.signers(list.start()?, list.limit)?,
                    in_words,
                    "no signer is enrolled; receipts from elsewhere are refused",
                    at,
                    output,
                )?;
            }
            SignerTask::Revoke(revoke) => revoke.run(at, output)?,
        }
        Ok(CommandOutcome::Good)
    }
}

impl Add {
    fn run(self, at: &Place, output: &mut Output) -> Result<(), Failure> {
        let source = Source::new(Some(self.file));
        let text = source.text(source.read_bounded(MAX_KEY_BYTES)?)?;
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        if lines.is_empty() || lines.len() > MAX_KEYS {
            return Err(ArgumentFailure::option(source.name(), "a file of 1 to 100 public keys").into());
        }
        for line in lines {
            let key = Text::new(line.trim()).ok_or_else(|| ArgumentFailure::option(line, "a public key"))?;
            let label = self.label.as_deref().and_then(Text::new);
            let signer = at.add_signer(SignerRequest { key, label })?;
            match at.is_json(output) {
                true => output.report_line(&signer)?,
                false => output.line(&format!("enrolled {} of {}", signer.signer_id, signer.workspace))?,
            }
        }
        Ok(())
    }
}

fn in_words(signer: &SignerReport) -> String {
    let SignerReport { signer_id, workspace, state, created_at, label, .. } = signer;
    let label = label.as_ref().map_or_else(String::new, |label| format!("  {label}"));
    format!("{signer_id}  {state:<7} {created_at}  {workspace}{label}")
}

impl Revoke {
    fn run(self, at: &Place, output: &mut Output) -> Result<(), Failure> {
        let wanted = "a signer's id, 64 hex digits";
        let id = Blake3::parse(&self.id).ok_or_else(|| ArgumentFailure::option(self.id.as_str(), wanted))?;
        let reason = self.reason.as_deref().and_then(Text::new);
        let revoked = at.revoke_signer(&id, reason)?;
        match at.is_json(output) {
            true => output.report(&revoked)?,
            false => output.line(&format!("revoked {}", revoked.signer_id))?,
        }
        Ok(())
    }
}
