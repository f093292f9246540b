//! `--report-to`, and `crealeph work report-pending`: receipts on their way to a server.

use clap::Args;
use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::client::ServerClient;
use crealeph_runtime::receipts::{Outbox, OutboxError, SentReports};
use crealeph_runtime::work::{RunReader, WorkError};
use serde_json::json;

use super::named_run::open;
use super::workspace_args::WorkspaceArgs;
use crate::commands::CommandOutcome;
use crate::failure::{Failure, ServerFailure};
use crate::output::{Output, note};
use crate::user_state;

const EXAMPLES: &str = "\
Examples:
  export CREALEPH_SERVER_KEY=…
  crealeph work run items.json --report-to https://crealeph.example.com
  crealeph work report-pending --report-to https://crealeph.example.com
  crealeph work report-pending @ --report-to http://127.0.0.1:7171 --server-key key.txt

An admin of the server enrols this workspace's key first: `crealeph work key` here, `crealeph signer add` there. Reports that could not be sent
are kept in the user's state folder, at most 1,000 reports or 256 MiB for a server; beyond that the oldest is dropped, and named.

Exit codes: 0 all sent, 1 some were refused, or there is no such run, 2 the server cannot be reached, or it cannot be done.";

/// Where receipts are reported to.
#[derive(Debug, Args)]
pub(super) struct ReportToArgs {
    /// Report receipts, diffs and logs to this server (https, or http on this machine)
    #[arg(long, value_name = "URL")]
    report_to: Option<String>,
}

/// A server and what waits for it.
pub(super) struct Reporter {
    target: ServerClient,
    outbox: Outbox,
}

impl ReportToArgs {
    /// The server, if there is one; what is wrong with its address or key is said before anything runs.
    pub(super) fn reporter(&self, workspace: &WorkspaceArgs) -> Result<Option<Reporter>, Failure> {
        let Some(url) = &self.report_to else { return Ok(None) };
        let target = workspace.at.server.client(url)?;
        let outbox = Outbox::open(&user_state::needed()?, &target)?;
        Ok(Some(Reporter { target, outbox }))
    }
}

impl Reporter {
    /// Keeps the reports of runs, and sends all that wait. The outcome of the runs does not depend on it, so failures are notes.
    pub(super) fn report(&self, reader: &RunReader, runs: &[Uuid]) {
        for run in runs {
            if let Err(error) = self.keep(reader, run) {
                note!("run {} is not reported: {}", reader.short(run), Failure::from(error).message());
            }
        }
        match self.outbox.send(&self.target) {
            Ok(sent) => self.tell(reader, &sent),
            Err(error) => note!("nothing is reported: {}", Failure::from(error).message()),
        }
    }

    fn keep(&self, reader: &RunReader, run: &Uuid) -> Result<(), OutboxError> {
        for dropped in self.outbox.keep(reader, run)? {
            note!("the report of run {dropped} was dropped: too many wait for {}", self.target.url());
        }
        Ok(())
    }

    fn tell(&self, reader: &RunReader, sent: &SentReports) {
        let url = self.target.url();
        for run in &sent.sent {
            note!("reported run {} to {url}", reader.short(run));
        }
        for (run, why) in &sent.refused {
            note!("{url} refused the receipt of run {}: {why}", reader.short(run));
        }
        if let Some(why) = &sent.away {
            note!("{url} takes no receipts now: {why}");
        }
        if sent.pending > 0 {
            note!(
                "{} wait(s) to be reported; `crealeph work report-pending --report-to {url}` sends them",
                sent.pending
            );
        }
    }
}

/// Send receipts that could not be reported to a server earlier
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct ReportPending {
    /// Runs to report as well: id or its start, `@` for the newest, or the id of an item
    runs: Vec<String>,

    #[command(flatten)]
    to: ReportToArgs,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

impl ReportPending {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let reporter = self.to.reporter(&self.workspace)?.ok_or(ServerFailure::NoServer)?;
        let reader = open(&self.workspace)?;
        for word in &self.runs {
            let run = reader.find(Some(word)).map_err(WorkError::from)?.run;
            reporter.keep(&reader, &run)?;
        }
        let sent = reporter.outbox.send(&reporter.target)?;
        if self.workspace.at.json || !output.is_for_person() {
            let refused: Vec<_> =
                sent.refused.iter().map(|(run, why)| json!({ "run": run.to_string(), "why": why })).collect();
            let runs: Vec<String> = sent.sent.iter().map(ToString::to_string).collect();
            output.report(
                &json!({ "sent": runs, "refused": refused, "away": sent.away, "pending": sent.pending }),
            )?;
        } else {
            reporter.tell(&reader, &sent);
            if sent.pending == 0 {
                output.line("nothing to report")?;
            }
        }
        Ok(match (&sent.away, sent.refused.is_empty()) {
            (Some(_), _) => CommandOutcome::Unjudged,
            (None, false) => CommandOutcome::Bad,
            (None, true) => CommandOutcome::Good,
        })
    }
}
