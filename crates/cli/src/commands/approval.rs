//! `crealeph approval`: who approved what, recomputed from the log or an export (R33).

use std::path::{Path, PathBuf};

use clap::Subcommand;
use crealeph_contracts::approval::{ProofKind, SignedKind};
use crealeph_contracts::json::Node;
use crealeph_contracts::passkey::AuthenticatorFacts;
use crealeph_contracts::scalar::LedgerId;
use crealeph_decision::approval::SubjectOutcome;
use crealeph_runtime::approvals::{
    ExplainedApproval, SubjectBasis, SubjectCase, SubjectReader, rule_in_words,
};
use crealeph_runtime::builder::Scopes;
use crealeph_verify::KeyMaterial;

use super::CommandOutcome;
use super::ids::{SubjectId, subject_id};
use super::ledger::named;
use super::on_ledger::{Opened, Task};
use super::place::Place;
use crate::failure::{ApprovalFailure, Failure, OutputFailure};
use crate::output::{Output, note};

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph approval why 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f
  crealeph approval why 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f --from log.export --root SHA256:…
  crealeph approval why 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f --statements signed/

Every signature is checked and every result is derived again. --root is the fingerprint of the first admin's key, as you saved it when
it was enrolled; without it the answer says `root unproven`. An export is checked with `crealeph ledger verify` first. With --server the
log is exported, which needs an auditor's key, and evaluated here.

Exit codes: 0 done, 1 refused: no such draft or change, or another root, 2 cannot be done.";

#[derive(Debug, Subcommand)]
pub(super) enum ApprovalTask {
    /// Explain the state of a draft or a held change: who decided, with which key, under which rule, what counts and why
    Why {
        /// Draft id, run id of a held change, or a prefix of one
        subject: String,
        /// Read from this export instead of the ledger
        #[arg(long, value_name = "EXPORT")]
        from: Option<PathBuf>,
        /// Fingerprint of the first admin's key
        #[arg(long, value_name = "FINGERPRINT")]
        root: Option<String>,
        /// Write each statement and its signature into this folder, with the file of signers for ssh-keygen
        #[arg(long, value_name = "FOLDER")]
        statements: Option<PathBuf>,
    },
}

impl Task for ApprovalTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let ApprovalTask::Why { subject, from, root, statements } = self;
        let opened = Opened::whole(at, from.as_deref(), output)?;
        let scopes = match at {
            Place::Here(at) => Scopes::load(&at.configuration, None)?,
            Place::Server(_) => Scopes::default(),
        };
        let (ledger, tenant) = opened.log.ledger()?;
        let reader = SubjectReader { ledger, tenant, scopes: &scopes };
        let id = match subject_id(reader, &subject)? {
            SubjectId::Draft(id) => id,
            SubjectId::Change(run) => named("run", &run.to_string(), LedgerId::parse)?,
        };
        let mut explained = reader.explain(reader.read(&id)?)?;
        let found = explained.root().map(str::to_owned);
        if let (Some(root), Some(found)) = (&root, &found)
            && root != found
        {
            return Err(ApprovalFailure::OtherRoot { found: found.clone() }.into());
        }
        explained.is_pinned = root.is_some();
        if let Some(folder) = &statements {
            write_statements(&opened, &explained.case, folder)?;
        }
        match at.is_json(output) {
            true => output.report(&explained.json()?)?,
            false => lines(&explained).iter().try_for_each(|line| output.line(line))?,
        }
        output.flush()?;
        if root.is_none()
            && let Some(found) = &found
        {
            note!(
                "root unproven: the approvals are based on {found}; give the fingerprint that you saved with --root"
            );
        }
        Ok(CommandOutcome::Good)
    }
}

/// What is printed about a subject.
fn lines(explained: &ExplainedApproval) -> Vec<String> {
    let SubjectCase { subject, state, entry, .. } = &explained.case;
    let judged = explained.judged();
    let mut lines = vec![format!("{} {} is {}", entry.content.kind, subject.id, state.outcome.as_str())];
    if let SubjectBasis::Change(record) = &explained.case.basis {
        lines.push(format!("  item     {}, workspace {}", record.item, record.workspace));
        lines.push(format!("  target   {}, on state {}", record.target, record.base_state));
    }
    lines.push(format!("  digest   {}", subject.digest));
    lines.push(format!("  rule     {}: {}", judged.state.rule.name, rule_in_words(&judged.state.rule)));
    for used in judged.basis.evidence() {
        lines.push(format!("  evidence {} of {}, entry {}", used.kind.as_str(), used.at, used.seq));
    }
    for verdict in &judged.state.verdicts {
        let statement = &verdict.statement;
        lines.push(format!(
            "  {} by {} at {}, entry {}",
            statement.decision, statement.person, verdict.at, verdict.seq
        ));
        lines.push(format!("    key    {}", statement.key_id));
        lines.extend(verdict.authenticator.as_ref().map(authenticator_line));
        if let Some(reason) = &statement.reason {
            lines.push(format!("    reason {}", reason.as_str()));
        }
        lines.push(match &verdict.uncounted {
            None => "    counts".to_owned(),
            Some(why) => format!("    does not count: {}", why.reason()),
        });
        lines.extend(
            verdict.uncounted.as_ref().and_then(|why| why.renewal()).map(|way| format!("    renew  {way}")),
        );
    }
    if let Some((landing, _)) = state.outcome.landing() {
        let words = match (&state.outcome, &explained.case.basis, &judged.subject.outdated) {
            (SubjectOutcome::Landing { .. }, ..) => "its outcome is not recorded yet".to_owned(),
            (_, SubjectBasis::Change(_), _) => "its outcome is recorded".to_owned(),
            (_, _, None) => "its evidence was the newest then".to_owned(),
            (_, _, Some(why)) => format!("its evidence was outdated then: {why}"),
        };
        lines.push(format!("  landed   entry {landing}; {words}"));
    } else if let Some(why) = &subject.outdated {
        lines.push(format!("  outdated {why}"));
    }
    lines.push(format!("  root     {}, {}", explained.root().unwrap_or("-"), explained.root_state()));
    lines
}

/// What the authenticator of a passkey said of itself.
fn authenticator_line(facts: &AuthenticatorFacts) -> String {
    let kept = match (facts.is_backed_up, facts.is_backup_eligible) {
        (true, _) => "copied to other devices",
        (false, true) => "may be copied to other devices",
        (false, false) => "on one device",
    };
    let verified = if facts.is_user_verified { "user verified" } else { "user not verified" };
    format!("    used   at {}, {verified}, {kept}, signature count {}", facts.origin, facts.counter)
}

/// Writes the signed bytes of each verdict and its signature, for `ssh-keygen -Y verify`; of one with a passkey, what the passkey signed.
fn write_statements(opened: &Opened, draft: &SubjectCase, folder: &Path) -> Result<(), Failure> {
    let unwritable = |source| OutputFailure::Unwritable { path: folder.to_owned(), source };
    std::fs::create_dir_all(folder).map_err(unwritable)?;
    for verdict in &draft.state.verdicts {
        let Some(entry) = opened.log.get(&verdict.id)? else { continue };
        let payload = entry.to_entry().payload;
        let parts = payload.and_then(|payload| {
            payload.with(|payload| {
                let statement = crealeph_contracts::json::canonical(payload.member("statement")?);
                let proof = match verdict.proof {
                    ProofKind::Ssh => payload.member("signature").and_then(Node::string)?.into_owned(),
                    ProofKind::Passkey => crealeph_contracts::json::canonical(payload),
                };
                Some((statement, proof))
            })
        });
        let Some((statement, proof)) = parts else { continue };
        let end = match verdict.proof {
            ProofKind::Ssh => "json.sig",
            ProofKind::Passkey => "passkey.json",
        };
        std::fs::write(folder.join(format!("{}.json", verdict.id)), statement).map_err(unwritable)?;
        std::fs::write(folder.join(format!("{}.{end}", verdict.id)), proof).map_err(unwritable)?;
    }
    let mut signers = String::new();
    for person in draft.history.judge.people() {
        for key in &person.keys {
            let KeyMaterial::Ssh { line, .. } = &key.material else { continue };
            let namespace = SignedKind::Verdict.namespace();
            signers.push_str(&format!("{} namespaces=\"{namespace}\" {line}\n", person.name));
        }
    }
    Ok(std::fs::write(folder.join("allowed_signers"), signers).map_err(unwritable)?)
}
