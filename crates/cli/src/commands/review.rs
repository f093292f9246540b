//! `crealeph review`: the review by a person that PARTIAL_REQUIRES_REVIEW requires (R14).

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use crealeph_contracts::approval::ApprovalDecision;
use crealeph_contracts::scalar::{LedgerId, RobotId};
use crealeph_contracts::short_id::{IdWord, NamedKind};
use crealeph_ledger::{Cursor, Ledger};
use crealeph_runtime::approvals::is_unsigned_refused;
use crealeph_runtime::review::{VerdictError, waiting};
use serde_json::json;

use super::CommandOutcome;
use super::approve::{AskedVerdict, unsigned};
use super::ids::{ShortIds, entry_id, nth_waiting};
use super::ledger::{Settled, named};
use super::on_ledger::{Opened, Task};
use super::place::{LogSource, Place};
use crate::failure::{Failure, LedgerFailure};
use crate::output::{Output, note};

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph review list --robot robot-7
  crealeph review list --from log.export
  crealeph review show @
  crealeph review approve 0190a6f0-7c2e --by ana --reason 'fits the brand'
  crealeph review reject 0190a6f0-7c2e --by ana --reason 'wrong audience'

An approval appends the artifact again in state `planned`, depending on the draft and the review. A draft has one verdict;
repeating it changes nothing.

Exit codes: 0 done, 1 refused: no such draft, or it has another verdict, 2 cannot be done.";

#[derive(Debug, Subcommand)]
pub(super) enum ReviewTask {
    /// List drafts that await review, newest first
    List {
        /// Only this robot
        #[arg(long)]
        robot: Option<String>,
        /// Maximum number of results
        #[arg(long, default_value_t = 100)]
        limit: usize,
        /// Continue after this cursor, from the previous page
        #[arg(long)]
        cursor: Option<String>,
        /// Read an export (`crealeph ledger export`) instead of a ledger
        #[arg(long, value_name = "EXPORT")]
        from: Option<PathBuf>,
    },
    /// Print a draft
    Show {
        /// Draft id or its start, or `@` for the newest
        artifact: String,
    },
    /// Approve a draft for use
    Approve(Opined),
    /// Reject a draft
    Reject(Opined),
}

#[derive(Debug, Args)]
pub(super) struct Opined {
    /// Draft id or its start, or `@` for the newest
    artifact: String,
    /// Reason for the decision
    #[arg(long)]
    reason: String,
    /// Who decides [default: the user's name]
    #[arg(long)]
    by: Option<String>,
}

impl Task for ReviewTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self {
            ReviewTask::List { robot, limit, cursor, from } => {
                list(at, robot.as_deref(), (limit, cursor.as_deref()), from.as_deref(), output)?
            }
            ReviewTask::Show { artifact } => {
                let at = at.here()?;
                let ledger = at.open()?;
                let id = draft_id(&ledger, at, &artifact)?;
                let entry = ledger.get(&at.tenant, &id)?.ok_or(VerdictError::NoEntry(id))?;
                output.json(&entry.canonical())?;
            }
            ReviewTask::Approve(opined) => return opined.run(at.here()?, ApprovalDecision::Approve, output),
            ReviewTask::Reject(opined) => return opined.run(at.here()?, ApprovalDecision::Reject, output),
        }
        Ok(CommandOutcome::Good)
    }
}

fn list(
    at: &Place,
    robot: Option<&str>,
    (limit, cursor): (usize, Option<&str>),
    from: Option<&Path>,
    output: &mut Output,
) -> Result<(), Failure> {
    let robot = robot.map(|name| named("robot", name, RobotId::parse)).transpose()?;
    let cursor = cursor.map(Cursor::parse).transpose()?;
    let Opened { log, .. } = &Opened::whole(at, from, output)?;
    let (ledger, tenant) = log.ledger()?;
    let (drafts, next) = waiting(ledger, tenant, robot.as_ref(), cursor, limit)?;
    let is_json = at.is_json(output);
    let shown = || drafts.iter().filter(|_| !is_json);
    let ids = ShortIds::of_entries(log, shown())?;
    let executions = shown().filter_map(|draft| draft.content.execution_id.as_ref());
    let executions = executions.map(|id| id.as_str());
    let executions = ShortIds::find(log, NamedKind::Execution, executions)?;
    for draft in &drafts {
        if is_json {
            output.json_line(&draft.canonical())?;
        } else {
            let content = &draft.content;
            let execution = content.execution_id.as_ref().map_or("-", |id| executions.of(id.as_str()));
            let line = format!(
                "{}  {:<12} {}  robot {}, execution {execution}",
                ids.of(draft.id.as_str()),
                content.kind,
                draft.created_at,
                content.robot_id
            );
            output.line(&line)?;
        }
    }
    if drafts.is_empty() && next.is_none() && !is_json {
        output.line("no draft awaits review")?;
    }
    output.flush()?;
    if let Some(next) = next {
        note!("there may be more: add --cursor {next}");
    }
    Ok(())
}

/// The draft that a word means: `@` is the newest that awaits review, `@-` the one before.
pub(super) fn draft_id(ledger: &Ledger, at: &Settled, word: &str) -> Result<LedgerId, Failure> {
    let IdWord::Recent(newer) = IdWord::read(word) else {
        return entry_id(&LogSource::of(ledger, &at.tenant), word);
    };
    let page = |cursor, limit| Ok(waiting(ledger, &at.tenant, None, cursor, limit)?);
    let missing = || LedgerFailure::NoEntry { name: word.to_owned(), tenant: at.tenant.to_string() };
    Ok(nth_waiting(newer, page)?.ok_or_else(missing)?.id)
}

impl Opined {
    /// The older form of `crealeph approve` and `reject`, kept for one release.
    fn run(
        self,
        at: &Settled,
        decision: ApprovalDecision,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        note!("`crealeph review {decision}` is deprecated; use `crealeph {decision}`");
        let ledger = at.open()?;
        if !is_unsigned_refused(&ledger, &at.tenant)? {
            return self.run_unsigned(at, &ledger, decision, output);
        }
        let asked = AskedVerdict {
            decision,
            reason: Some(self.reason),
            is_sure: false,
            sign_with: None,
            write_statement: None,
            signed: None,
            by: self.by,
            workspace: None,
        };
        asked.run(at, &self.artifact, output)
    }

    fn run_unsigned(
        self,
        at: &Settled,
        ledger: &Ledger,
        decision: ApprovalDecision,
        output: &mut Output,
    ) -> Result<CommandOutcome, Failure> {
        let id = draft_id(ledger, at, &self.artifact)?;
        let (opinion, written) = unsigned(ledger, at, &id, decision, Some(&self.reason), self.by)?;
        let (review, planned) = (written.first(), written.get(1));
        if at.is_json(output) {
            let answer = json!({
                "artifact": id.as_str(),
                "verdict": opinion.as_str(),
                "review": review.map(|entry| entry.id.as_str()),
                "planned": planned.map(|entry| entry.id.as_str()),
                "idempotent": review.is_some_and(|entry| entry.is_repeat),
            });
            output.report(&answer)?;
            return Ok(CommandOutcome::Good);
        }
        let ids = planned.iter().map(|entry| entry.id.as_str()).chain([id.as_str()]);
        let short = ShortIds::find(&LogSource::of(ledger, &at.tenant), NamedKind::Entry, ids)?;
        output.line(&format!("{} {}", opinion.as_str(), short.of(id.as_str())))?;
        if let Some(planned) = planned {
            output.line(&format!("planned as {}", short.of(planned.id.as_str())))?;
        }
        Ok(CommandOutcome::Good)
    }
}
