//! `crealeph approve` and `crealeph reject`: a person's verdict, signed with their own key over exactly what is shown (R33).

use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::approval::{
    ApprovalDecision, ApprovalDocument as _, MAX_REASON_BYTES, MAX_SIGNED_BYTES, ProofKind, SignedPayload,
    VerdictStatement,
};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{LedgerId, Text};
use crealeph_contracts::short_id::NamedKind;
use crealeph_decision::builder::review::ReviewOpinion;
use crealeph_ledger::{AppendedEntry, Ledger};
use crealeph_runtime::approvals::{
    ApprovalError, Landed, RecordedVerdict, SubjectCase, SubjectReader, VerdictReport, is_unsigned_refused,
    verdict_statement,
};
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::review::settle;
use crealeph_verify::PersonKey;

use super::CommandOutcome;
use super::ids::{ShortIds, SubjectId, subject_id};
use super::ledger::Settled;
use super::place::{LogSource, Place};
use super::verdict_page::{ShownSubject, shown};
use super::work::WorkspaceArgs;
use crate::failure::{ApprovalFailure, ArgumentFailure, Failure, InputFailure, OutputFailure};
use crate::input::{Source, who};
use crate::output::{Output, note, note_page};
use crate::page::Page;
use crate::signing::SigningKey;
use crate::trusting;

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph approve 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f --reason 'fits the brand'
  crealeph reject 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f --reason 'wrong audience'
  crealeph approve 0190a6f0 --workspace ~/project
  crealeph --server https://crealeph.example.com approve 0190a6f0
  crealeph approve 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f --sign-with key.pub --write-statement verdict.json
  ssh-keygen -Y sign -n crealeph-verdict -f key verdict.json
  crealeph approve 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f --statement verdict.json --signature verdict.json.sig

What is signed is shown and must be confirmed; --yes skips that and marks the verdict unattended, which rules do not count unless
they say so. A draft lands with the last approval needed, and so does a held change if that approval is given in its workspace; otherwise the next
`crealeph work run` or `work recover` in the workspace lands it. Until someone is enrolled (`crealeph person add`) a verdict is
not signed, and stays marked unproven.

Exit codes: 0 done, 1 refused: it would not count, or is decided already, 2 cannot be done.";

/// The largest signature file that is read.
const MAX_SIGNATURE_BYTES: usize = 64 << 10;

/// What both verdicts take.
#[derive(Debug, Args)]
struct VerdictArgs {
    /// Draft id, run id of a held change, a prefix of one, or `@` for the newest that awaits approval
    subject: String,

    /// Do not ask; the verdict is marked unattended
    #[arg(long)]
    yes: bool,

    /// Key to sign with: private, or public if ssh-agent holds it [default: the enrolled one that is found]
    #[arg(long, value_name = "FILE")]
    sign_with: Option<PathBuf>,

    /// Write the statement to this file instead, to be signed elsewhere
    #[arg(long, value_name = "FILE", conflicts_with_all = ["yes", "statement"])]
    write_statement: Option<PathBuf>,

    /// Statement written earlier with --write-statement
    #[arg(long, value_name = "FILE", requires = "signature", conflicts_with_all = ["yes", "sign_with"])]
    statement: Option<PathBuf>,

    /// Signature over that statement, as `ssh-keygen -Y sign -n crealeph-verdict` makes it
    #[arg(long, value_name = "FILE", requires = "statement")]
    signature: Option<PathBuf>,

    /// Who decides, while no one is enrolled [default: the user's name]
    #[arg(long)]
    by: Option<String>,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

#[derive(Debug, Args)]
pub(super) struct Approve {
    #[command(flatten)]
    verdict: VerdictArgs,

    /// Reason for the decision
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Reject {
    #[command(flatten)]
    verdict: VerdictArgs,

    /// Reason for the decision
    #[arg(long)]
    reason: String,
}

impl Approve {
    pub(super) fn wants_json(&self) -> bool {
        self.verdict.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        self.verdict.run(ApprovalDecision::Approve, self.reason, output)
    }
}

impl Reject {
    pub(super) fn wants_json(&self) -> bool {
        self.verdict.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        self.verdict.run(ApprovalDecision::Reject, Some(self.reason), output)
    }
}

impl VerdictArgs {
    fn run(
        self,
        decision: ApprovalDecision,
        reason: Option<String>,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        let VerdictArgs { subject, yes, sign_with, write_statement, statement, signature, by, workspace } =
            self;
        let place = workspace.place_here()?;
        let asked = AskedVerdict {
            decision,
            reason,
            is_sure: yes,
            sign_with,
            write_statement,
            signed: statement.zip(signature),
            by,
            workspace: Some(workspace),
        };
        match &place {
            Place::Here(at) => asked.run(at, &subject, output),
            Place::Server(remote) => asked.run_remote(remote, &subject, output),
        }
    }
}

/// What a verdict is about, as it is read: from the ledger, or from a server.
pub(super) trait VerdictSource {
    /// The fingerprints of the keys that are enrolled.
    fn known_keys(&self) -> Result<Vec<String>, Failure>;

    /// The statement that the holder of a key signs.
    fn statement(&self, asked: &AskedVerdict, fingerprint: &str) -> Result<VerdictStatement, Failure>;

    /// What the person is shown before that.
    fn page(&self, statement: &VerdictStatement, diff: Option<&str>) -> Page;
}

impl VerdictSource for SubjectCase {
    fn known_keys(&self) -> Result<Vec<String>, Failure> {
        let people = self.history.judge.people();
        let keys = people.into_iter().flat_map(|person| person.keys);
        Ok(keys.filter(|key| !key.is_revoked).map(|key| key.fingerprint).collect())
    }

    fn statement(&self, asked: &AskedVerdict, fingerprint: &str) -> Result<VerdictStatement, Failure> {
        let signer = self.history.signer(fingerprint)?;
        Ok(verdict_statement(self, signer, asked.decision, asked.reason_text()?, asked.is_sure)?)
    }

    fn page(&self, statement: &VerdictStatement, diff: Option<&str>) -> Page {
        shown(&ShownSubject::of(self), statement, diff)
    }
}

/// A verdict that someone wants to give.
pub(super) struct AskedVerdict {
    pub(super) decision: ApprovalDecision,
    pub(super) reason: Option<String>,
    pub(super) is_sure: bool,
    pub(super) sign_with: Option<PathBuf>,
    pub(super) write_statement: Option<PathBuf>,
    /// A statement and its signature, made before.
    pub(super) signed: Option<(PathBuf, PathBuf)>,
    pub(super) by: Option<String>,
    /// Where a held change lands, if it is here.
    pub(super) workspace: Option<WorkspaceArgs>,
}

impl AskedVerdict {
    pub(super) fn run(
        self,
        at: &Settled,
        subject: &str,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        let ledger = at.open()?;
        let scopes = Scopes::load(&at.configuration, None)?;
        let is_signed = is_unsigned_refused(&ledger, &at.tenant)?;
        if is_signed && self.by.is_some() {
            return Err(ApprovalFailure::ByRefused.into());
        }
        let reader = SubjectReader { ledger: &ledger, tenant: &at.tenant, scopes: &scopes };
        match (subject_id(reader, subject)?, is_signed) {
            (SubjectId::Draft(id), false) => self.run_unsigned(at, &ledger, &id, output),
            (SubjectId::Draft(id), true) => self.run_draft(at, reader, &id, output),
            (SubjectId::Change(run), false) => self.decide_unsigned(at, &run, output),
            (SubjectId::Change(run), true) => self.run_change(at, reader, &run, output),
        }
    }

    fn run_draft(
        self,
        at: &Settled,
        reader: SubjectReader<'_>,
        id: &LedgerId,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        // The one who gave the last approval may have been interrupted before the landing.
        if self.decision == ApprovalDecision::Approve
            && let (Some(landed), _) = reader.land_draft(id)?
        {
            note!("enough people had already approved it; no verdict was added");
            return self.report((at, reader.ledger), id, None, Some(&landed), 0, output);
        }
        let Some(signed) = self.obtain(reader, id, None)? else { return Ok(self.unsigned_verdict()) };
        let RecordedVerdict { verdict, landed, missing } = reader.record_verdict(&signed)?;
        self.report((at, reader.ledger), id, Some(&verdict), landed.as_ref(), missing, output)
    }

    /// The signed statement: made elsewhere, or here and now; `None` if there is none to record.
    pub(super) fn obtain(
        &self,
        reader: SubjectReader<'_>,
        id: &LedgerId,
        diff: Option<&str>,
    ) -> Result<Option<SignedPayload>, Failure> {
        match &self.signed {
            Some((statement, signature)) => self.read_signed(id, statement, signature).map(Some),
            None => self.sign(&reader.read(id)?, diff),
        }
    }

    /// How the command ends if there is nothing to record.
    pub(super) fn unsigned_verdict(&self) -> CommandOutcome {
        if self.write_statement.is_some() { CommandOutcome::Good } else { CommandOutcome::Bad }
    }

    /// Before anyone was enrolled: one verdict, by a name that proves nothing.
    fn run_unsigned(
        self,
        at: &Settled,
        ledger: &Ledger,
        id: &LedgerId,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        self.check_unsigned()?;
        let (opinion, written) = unsigned(ledger, at, id, self.decision, self.reason.as_deref(), self.by)?;
        let (review, planned) = (written.first(), written.get(1));
        if at.is_json(output) {
            let report = VerdictReport {
                subject: id.to_string(),
                decision: self.decision.to_string(),
                proven: false,
                verdict: review.map(|entry| entry.id.to_string()),
                landed: None,
                planned: planned.map(|entry| entry.id.to_string()),
                missing: 0,
            };
            output.report(&report)?;
        } else {
            let ids = planned.iter().map(|entry| entry.id.as_str()).chain([id.as_str()]);
            let short = ShortIds::find(&LogSource::of(ledger, &at.tenant), NamedKind::Entry, ids)?;
            output.line(&format!(
                "{} {}, unproven: no one is enrolled",
                opinion.as_str(),
                short.of(id.as_str())
            ))?;
            if let Some(planned) = planned {
                output.line(&format!("planned as {}", short.of(planned.id.as_str())))?;
            }
        }
        Ok(CommandOutcome::Good)
    }

    /// Refuses flags about signatures while no one is enrolled.
    pub(super) fn check_unsigned(&self) -> Result<(), ApprovalError> {
        let is_about_signing =
            self.signed.is_some() || self.write_statement.is_some() || self.sign_with.is_some();
        if is_about_signing { Err(ApprovalError::NoPeople) } else { Ok(()) }
    }

    /// Shows what is to be signed, asks, and signs it; `None` if the person said no, or it is to be signed elsewhere. `diff` is that of
    /// a change, if the ledger does not have it.
    pub(super) fn sign(
        &self,
        source: &dyn VerdictSource,
        diff: Option<&str>,
    ) -> Result<Option<SignedPayload>, Failure> {
        if let (Some(path), Some(key)) = (&self.write_statement, &self.sign_with) {
            let statement = source.statement(self, public_key(key)?.fingerprint())?;
            write_exactly(path, &statement.to_canonical()?)?;
            note_page(&source.page(&statement, diff));
            note!("written to `{}`; sign it with ssh-keygen -Y sign -n crealeph-verdict", path.display());
            return Ok(None);
        }
        // A key that is named needs no list.
        let known = if self.sign_with.is_some() { Vec::new() } else { source.known_keys()? };
        let is_known = |fingerprint: &str| known.iter().any(|key| key == fingerprint);
        let key = SigningKey::find(self.sign_with.as_deref(), is_known)?;
        let statement = source.statement(self, key.public().fingerprint())?;
        if let Some(path) = &self.write_statement {
            write_exactly(path, &statement.to_canonical()?)?;
            return Ok(None);
        }
        note_page(&source.page(&statement, diff));
        if !self.is_sure {
            if !trusting::can_ask() {
                return Err(ApprovalFailure::NobodyToAsk.into());
            }
            if !trusting::ask(&format!("Sign this as {}?", statement.person))? {
                return Ok(None);
            }
        }
        Ok(Some(key.sign(&statement)?))
    }

    /// The reason, if one is given.
    pub(super) fn reason_text(&self) -> Result<Option<Text>, Failure> {
        Ok(match self.reason.as_deref() {
            Some(reason) if reason.len() > MAX_REASON_BYTES => {
                let what = "the reason".to_owned();
                return Err(InputFailure::TooLarge { what, limit: MAX_REASON_BYTES }.into());
            }
            Some(reason) => Some(Text::new(reason).ok_or_else(|| {
                ArgumentFailure::option_with_hint(reason, "a reason", "give one with --reason")
            })?),
            None => None,
        })
    }

    /// A statement that was signed elsewhere: it must be about this subject and say the same.
    pub(super) fn read_signed(
        &self,
        id: &LedgerId,
        statement: &Path,
        signature: &Path,
    ) -> Result<SignedPayload, Failure> {
        let source = Source::new(Some(statement.to_owned()));
        let bytes = source.read_bounded(MAX_SIGNED_BYTES)?;
        let read = VerdictStatement::parse(&bytes).map_err(|violations| InputFailure::Invalid {
            name: source.name(),
            expected: "verdict",
            violations,
        })?;
        if read.subject_id != *id || read.decision != self.decision {
            let value = format!("{} {}", read.decision, read.subject_id);
            return Err(ArgumentFailure::option(value, "what this command is about").into());
        }
        let signature = Source::new(Some(signature.to_owned()));
        let armoured = signature.text(signature.read_bounded(MAX_SIGNATURE_BYTES)?)?;
        // Whose the key is, the ledger says when it takes the verdict.
        Ok(SignedPayload {
            statement: JsonObject::of("the verdict", &read)?,
            proof: ProofKind::Ssh,
            signature: Text::new(&armoured)
                .ok_or_else(|| ArgumentFailure::option(signature.name(), "a signature"))?,
            passkey: None,
        })
    }

    fn report(
        &self,
        (at, ledger): (&Settled, &Ledger),
        id: &LedgerId,
        verdict: Option<&AppendedEntry>,
        landed: Option<&Landed>,
        missing: u64,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        let report = VerdictReport {
            subject: id.to_string(),
            decision: self.decision.to_string(),
            proven: true,
            verdict: verdict.map(|verdict| verdict.id.to_string()),
            landed: landed.map(|(landing, _)| landing.id.to_string()),
            planned: landed.map(|(_, planned)| planned.id.to_string()),
            missing,
        };
        print_recorded(&report, &LogSource::of(ledger, &at.tenant), at.is_json, output)?;
        Ok(CommandOutcome::Good)
    }
}

/// Prints the outcome of a verdict.
pub(super) fn print_recorded(
    report: &VerdictReport,
    log: &LogSource,
    is_json: bool,
    output: &mut Output,
) -> Result<(), Failure> {
    if is_json || !output.is_for_person() {
        return Ok(output.report(report)?);
    }
    let ids = report.planned.iter().map(String::as_str).chain([report.subject.as_str()]);
    let short = ShortIds::find(log, NamedKind::Entry, ids)?;
    let (id, missing) = (short.of(&report.subject), report.missing);
    if report.decision == ApprovalDecision::Reject.as_str() {
        return Ok(output.line(&format!("rejected {id}"))?);
    }
    match &report.planned {
        Some(planned) => {
            output.line(&format!("approved {id}"))?;
            output.line(&format!("planned as {}", short.of(planned)))?;
        }
        None if missing > 0 => output.line(&format!("approved {id}; {missing} more needed"))?,
        None => output.line(&format!("approved {id}"))?,
    }
    Ok(())
}

/// Writes a verdict that no one signed, while no one is enrolled.
pub(super) fn unsigned(
    ledger: &Ledger,
    at: &Settled,
    id: &LedgerId,
    decision: ApprovalDecision,
    reason: Option<&str>,
    by: Option<String>,
) -> Result<(ReviewOpinion, Vec<AppendedEntry>), Failure> {
    let text = |text: &str, what: &'static str, hint: &'static str| {
        Text::new(text).ok_or_else(|| ArgumentFailure::option_with_hint(text, what, hint))
    };
    let by = text(&who(by)?, "a name", "give one with --by")?;
    let reason = text(reason.unwrap_or("no reason given"), "a reason", "give one with --reason")?;
    let opinion = match decision {
        ApprovalDecision::Approve => ReviewOpinion::Approved,
        ApprovalDecision::Reject => ReviewOpinion::Rejected,
    };
    let written = settle(ledger, &at.tenant, id, opinion, &by, &reason)?;
    Ok((opinion, written))
}

/// A public key, or the public half of a private one.
fn public_key(path: &Path) -> Result<PersonKey, Failure> {
    let source = Source::new(Some(path.to_owned()));
    let text = source.text(source.read_bounded(MAX_SIGNATURE_BYTES)?)?;
    match PersonKey::parse(&text) {
        Ok(key) => Ok(key),
        Err(_) => Ok(SigningKey::open(path)?.public().clone()),
    }
}

/// Writes a new file with exactly this text, since every byte of it is signed.
fn write_exactly(path: &Path, text: &str) -> Result<(), Failure> {
    let unwritable = |source| OutputFailure::Unwritable { path: path.to_owned(), source };
    Ok(std::fs::write(path, text).map_err(unwritable)?)
}
