//! `crealeph report`: what happened, for a person who was not there. The read model is in `runtime`; here it is requested and written.

mod approvals;
mod executions;
mod runs;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use crealeph_contracts::scalar::RobotId;
use crealeph_ledger::{Clock, Ledger, LedgerError};
use crealeph_runtime::builder::Scopes;
use crealeph_runtime::report::{
    ActivityReport, KeySource, LogProof, MAX_DETAILS, ProofStatus, ReportOrigin, ReportQuestion,
    ReportSource, ReportSubject, activity,
};
use crealeph_runtime::work::receipt::Signer;
use crealeph_runtime::work::{RunReader, WorkError};
use crealeph_server::ReportRenderer;
use crealeph_verify::VerifierKey;

use super::CommandOutcome;
use super::ids::execution_id;
use super::ledger::{Settled, named, parse_key, read_keys};
use super::on_ledger::Opened;
use super::place::{LogSource, Place, RemoteLog};
use super::work::{WorkspaceArgs, control};
use crate::failure::{ArgumentFailure, Failure, LedgerFailure, ServerFailure};
use crate::human_time::{self, Since};
use crate::new_file::NewFile;
use crate::output::{Output, note};
use crate::render::counted;
use crate::report::{Block, CONTENT_SECURITY, Document, Inline, Tone, code, html, markdown, only, text};

const EXAMPLES: &str = "\
Examples:
  crealeph report
  crealeph report --run @ --output run.html
  crealeph report --since 7d --robot shop-17 --output week.md
  crealeph report --execution e-1 --from log.export --key saved.key

A report says what was requested, what was decided, on which evidence and how old it was, what changed, what the tests said, who approved it, and
whether receipts, decisions and the log's checkpoint hold. HTML is one file that loads nothing. Without --format the name of the file
decides; else a terminal gets Markdown and a pipe JSON.

With --server the server makes the report, from its ledger and with the keys that it knows; a run is named by its whole id.

With --from it is made from an export instead of a ledger. --key proves who signed: give the keys that you saved with `crealeph work key` and
`crealeph ledger key`.

Exit codes: 0 made, 1 made, and something in it does not hold, or there is no such run or execution, 2 cannot be made.";

/// Report what happened, for a person who was not there
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Report {
    /// Only this run: its id or the start of it, its item, or `@` for the newest
    #[arg(long, value_name = "RUN", conflicts_with = "execution")]
    run: Option<String>,

    /// Only this execution: its id or the start of it, or `@` for the newest
    #[arg(long, value_name = "ID")]
    execution: Option<String>,

    /// Only what was started since then: `2h`, `3d`, a date, or a timestamp
    #[arg(long, value_name = "TIME", value_parser = human_time::since)]
    since: Option<Since>,

    /// Only what was done for this robot
    #[arg(long)]
    robot: Option<String>,

    /// How many of the newest runs and executions are shown in full; the others are listed
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = details)]
    limit: usize,

    /// Format [default: by the name of the file; else md on a terminal, json in a pipe]
    #[arg(long, conflicts_with = "json")]
    format: Option<ReportFormat>,

    /// Write into this new file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Read an export (`crealeph ledger export`) instead of the workspace and its ledger
    #[arg(long, value_name = "EXPORT")]
    from: Option<PathBuf>,

    /// File of public keys that you saved; can be repeated [default: the workspace's own keys]
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,

    #[command(flatten)]
    workspace: WorkspaceArgs,
}

/// How reports are written for people, here and by the server.
pub(super) const RENDERER: ReportRenderer = ReportRenderer {
    markdown: |report| markdown(&document(report)),
    html: |report| html(&document(report)),
    content_security: CONTENT_SECURITY,
};

/// How a report is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReportFormat {
    Md,
    Html,
    Json,
}

fn details(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number <= MAX_DETAILS);
    number.ok_or_else(|| format!("`{text}` is not a number from 0 to {MAX_DETAILS}"))
}

impl Report {
    pub(super) fn wants_json(&self) -> bool {
        self.workspace.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let format = self.format_for(output);
        let report = match &self.from {
            Some(_) if self.workspace.at.server.is_named() => {
                return Err(ServerFailure::Excluded("--from").into());
            }
            Some(export) => self.of_export(export, output)?,
            None => match self.workspace.place_here()? {
                Place::Here(_) => self.of_workspace()?,
                Place::Server(remote) => self.of_server(&remote)?,
            },
        };
        let written = match format {
            ReportFormat::Md => (RENDERER.markdown)(&report),
            ReportFormat::Html => (RENDERER.html)(&report),
            ReportFormat::Json => String::new(),
        };
        match (&self.output, format) {
            (None, ReportFormat::Json) => output.report(&report)?,
            (None, _) => output.exactly(&written)?,
            (Some(path), _) => {
                let mut file = NewFile::create(path)?;
                let json = || serde_json::to_string(&report).map_err(std::io::Error::from);
                let bytes = match format {
                    ReportFormat::Json => json().map_err(|error| file.failure(error))? + "\n",
                    _ => written,
                };
                file.write_all(bytes.as_bytes()).map_err(|error| file.failure(error))?;
                file.finish()?;
                note!("wrote `{}`", path.display());
            }
        }
        Ok(if has_refused(&report) { CommandOutcome::Bad } else { CommandOutcome::Good })
    }

    fn format_for(&self, output: &Output) -> ReportFormat {
        let end = self.output.as_deref().and_then(Path::extension).and_then(|end| end.to_str());
        let by_name = match end {
            Some("html" | "htm") => Some(ReportFormat::Html),
            Some("md" | "markdown") => Some(ReportFormat::Md),
            Some("json") => Some(ReportFormat::Json),
            _ => None,
        };
        let asked = self.workspace.at.json.then_some(ReportFormat::Json).or(self.format).or(by_name);
        asked.unwrap_or(match output.is_for_person() || self.output.is_some() {
            true => ReportFormat::Md,
            false => ReportFormat::Json,
        })
    }

    fn of_export(&self, export: &Path, output: &Output) -> Result<ActivityReport, Failure> {
        let at = self.workspace.at.clone().settle()?;
        let place = Place::Here(Box::new(at));
        let opened = Opened::new(&place, Some(export), output)?;
        let log = opened.log.ledger()?;
        let question = self.question(Some(log))?;
        let keys = read_keys(&self.key)?;
        let source = ReportSource {
            log: Some(log),
            runs: None,
            origin: ReportOrigin::Export,
            signer: None,
            scopes: &Scopes::load(&place.here()?.configuration, None)?,
            keys: &keys,
            key_source: if keys.is_empty() { KeySource::Absent } else { KeySource::Kept },
        };
        Ok(activity(&question, &source)?)
    }

    /// The report as the server makes it; it is written here.
    fn of_server(&self, remote: &RemoteLog) -> Result<ActivityReport, Failure> {
        if !self.key.is_empty() {
            return Err(ServerFailure::Excluded("--key").into());
        }
        let log = LogSource::Server(remote.clone());
        let robot = self.robot.as_ref().map(|name| named("robot", name, RobotId::parse)).transpose()?;
        let execution = match &self.execution {
            Some(word) => Some(execution_id(&log, robot.clone(), word)?.0.to_string()),
            None => None,
        };
        let since = self.since.map(|since| since.instant(Clock::system().now().instant()));
        let query = [
            ("run", self.run.clone()),
            ("execution", execution),
            ("robot", robot.map(|robot| robot.to_string())),
            ("since", since.map(|since| since.to_string())),
            ("limit", Some(self.limit.to_string())),
        ];
        Ok(remote.client.get(&["report"], &query)?.read()?)
    }

    fn of_workspace(&self) -> Result<ActivityReport, Failure> {
        let folder = self.workspace.folder()?;
        let at = self.workspace.settle()?;
        let reader = RunReader::open(&folder).map_err(WorkError::from)?;
        let ledger = match at.open() {
            Ok(ledger) => Some(ledger),
            // Runs can be shown without a ledger.
            Err(failure) if reader.count() > 0 && is_missing(&failure) => None,
            Err(failure) => return Err(failure),
        };
        let log = ledger.as_ref().map(|ledger| (ledger, &at.tenant));
        let question = self.question(log)?;
        let signer = Signer::known(&control(&folder), &at.keys).ok();
        let kept = read_keys(&self.key)?;
        let (keys, key_source) = match kept.is_empty() {
            false => (kept, KeySource::Kept),
            true => {
                let keys = own_keys(signer.as_ref(), ledger.as_ref(), &at)?;
                let source = if keys.is_empty() { KeySource::Absent } else { KeySource::Own };
                (keys, source)
            }
        };
        let source = ReportSource {
            log,
            origin: ReportOrigin::Workspace,
            runs: Some(&reader),
            signer: signer.as_ref(),
            scopes: &Scopes::load(&at.configuration, None)?,
            keys: &keys,
            key_source,
        };
        Ok(activity(&question, &source)?)
    }

    fn question(
        &self,
        log: Option<(&Ledger, &crealeph_contracts::scalar::TenantId)>,
    ) -> Result<ReportQuestion, Failure> {
        let robot = self.robot.as_ref().map(|name| named("robot", name, RobotId::parse)).transpose()?;
        let subject = match (&self.run, &self.execution, log) {
            (Some(run), ..) => ReportSubject::Run(run.clone()),
            (None, Some(word), Some((ledger, tenant))) => {
                let (id, robot) = execution_id(&LogSource::of(ledger, tenant), robot.clone(), word)?;
                ReportSubject::Execution(id, robot)
            }
            (None, Some(_), None) => {
                return Err(ArgumentFailure::option("--execution", "possible without a ledger").into());
            }
            (None, None, _) => ReportSubject::Everything,
        };
        let since = self.since.map(|since| since.instant(Clock::system().now().instant()));
        Ok(ReportQuestion { subject, since, robot, details: self.limit })
    }
}

fn is_missing(failure: &Failure) -> bool {
    matches!(
        failure,
        Failure::Ledger(
            LedgerFailure::Ledger(LedgerError::Missing { .. }) | LedgerFailure::LedgerAbove { .. }
        )
    )
}

/// The keys next to the data, as far as this user can read them.
fn own_keys(
    signer: Option<&Signer>,
    ledger: Option<&Ledger>,
    at: &Settled,
) -> Result<Vec<VerifierKey>, Failure> {
    let mut texts = signer.map_or_else(Vec::new, Signer::verifier_keys);
    // A tenant without a log would get one.
    if let Some(ledger) = ledger
        && ledger.stats(&at.tenant)?.is_some()
    {
        texts.extend(ledger.verifier_keys(&at.tenant).into_iter().flatten());
    }
    Ok(texts.iter().map(|key| parse_key(key)).collect::<Result<_, _>>()?)
}

/// Whether something in a report does not hold.
fn has_refused(report: &ActivityReport) -> bool {
    let checkpoint = report.log.as_ref().and_then(|log| log.checkpoint.as_ref());
    let mut attempts = report.executions.stories.iter().flat_map(|story| &story.attempts);
    checkpoint.is_some_and(|it| it.status == ProofStatus::Refused)
        || report.runs.stories.iter().any(|run| run.proof.status == ProofStatus::Refused)
        || attempts.any(|attempt| attempt.replay.as_ref().is_some_and(|replay| !replay.follows))
}

/// The report as a document.
fn document(report: &ActivityReport) -> Document {
    let from = match report.origin {
        ReportOrigin::Workspace => "the workspace and its ledger",
        ReportOrigin::Export => "an export of the ledger",
        ReportOrigin::Ledger => "the ledger",
    };
    let mut blocks = vec![Block::Paragraph(only(text(format!("Made at {} from {from}.", report.made_at))))];
    blocks.push(Block::Facts(overview(report)));
    runs::blocks(report, &mut blocks);
    executions::blocks(report, &mut blocks);
    if report.runs.rows.is_empty() && report.executions.rows.is_empty() {
        blocks.push(Block::Paragraph(only(text("No run or execution matches."))));
    }
    if !report.unknown.is_empty() {
        blocks.push(Block::Heading { level: 2, text: only(text("What this report cannot know")) });
        let unknown = report.unknown.iter().map(|sentence| Block::Paragraph(only(text(sentence.as_ref()))));
        blocks.extend(unknown);
    }
    Document { title: "CreAleph report".to_owned(), blocks }
}

fn overview(report: &ActivityReport) -> Vec<(&'static str, Vec<Inline>)> {
    let (runs, executions) = (&report.runs, &report.executions);
    let mut facts = Vec::new();
    for (name, count, has_more) in
        [("Runs", runs.rows.len(), runs.has_more), ("Executions", executions.rows.len(), executions.has_more)]
    {
        if count > 0 {
            facts.push((name, only(text(number(count, has_more)))));
        }
    }
    let count = |status| runs.stories.iter().filter(|run| run.proof.status == status).count();
    let mut receipts = Vec::new();
    for (status, tone) in [
        (ProofStatus::Verified, Tone::Good),
        (ProofStatus::Refused, Tone::Bad),
        (ProofStatus::Unproven, Tone::Open),
    ] {
        if count(status) > 0 {
            receipts.push(Inline::Word(format!("{} {}", count(status), proof_word(status)), tone));
        }
    }
    if !receipts.is_empty() {
        facts.push(("Receipts", crate::report::listed(receipts)));
    }
    if let Some(log) = &report.log {
        facts.extend(log_facts(log));
    }
    let keys = match report.key_source {
        KeySource::Kept => only(text("keys that you gave")),
        KeySource::Own => vec![
            text("the keys of the workspace itself; give "),
            code("--key"),
            text(" to check with keys that you saved"),
        ],
        KeySource::Ledger => only(text("the keys of the ledger and of the signers that are enrolled in it")),
        KeySource::Absent => only(text("no key, so nothing is proved about who signed")),
    };
    facts.push(("Checked with", keys));
    facts
}

fn log_facts(log: &LogProof) -> Vec<(&'static str, Vec<Inline>)> {
    let entries = usize::try_from(log.entries).unwrap_or(usize::MAX);
    let mut facts = vec![
        ("Log", vec![text(format!("{} of tenant ", counted_entries(entries))), code(&log.tenant_id)]),
        ("Root", only(code(&log.root))),
    ];
    let checkpoint = match &log.checkpoint {
        None => vec![text("none is signed; "), code("crealeph ledger checkpoint"), text(" signs one")],
        Some(checkpoint) => {
            let covered = usize::try_from(checkpoint.entries).unwrap_or(usize::MAX);
            let mut line = vec![
                proof(checkpoint.status),
                text(format!(", covers the first {}", counted_entries(covered))),
            ];
            line.extend(checkpoint.detail.iter().map(|detail| text(format!(": {detail}"))));
            line
        }
    };
    facts.push(("Checkpoint", checkpoint));
    facts
}

fn counted_entries(count: usize) -> String {
    match count {
        1 => "1 entry".to_owned(),
        _ => format!("{count} entries"),
    }
}

fn number(count: usize, has_more: bool) -> String {
    if has_more { format!("the newest {count}; older ones are left out") } else { count.to_string() }
}

/// How many are shown in full, if not all of them are.
fn shown_in_full(rows: usize, shown: usize, what: &str) -> Option<Block> {
    (shown < rows).then(|| {
        let left = counted(rows - shown, what);
        let words = format!("Shown in full: the newest {shown}; listed only: {left}; ");
        Block::Paragraph(vec![text(words), code("--limit"), text(" tells more.")])
    })
}

/// The word for the result of a check.
fn proof(status: ProofStatus) -> Inline {
    let tone = match status {
        ProofStatus::Verified => Tone::Good,
        ProofStatus::Refused => Tone::Bad,
        ProofStatus::Unproven | ProofStatus::Absent => Tone::Open,
    };
    Inline::Word(proof_word(status).to_owned(), tone)
}

fn proof_word(status: ProofStatus) -> &'static str {
    match status {
        ProofStatus::Verified => "verified",
        ProofStatus::Refused => "refused",
        ProofStatus::Unproven => "unproven",
        ProofStatus::Absent => "none yet",
    }
}

/// A note about omitted bytes.
fn cut(left_out_bytes: u64) -> String {
    match left_out_bytes {
        0 => String::new(),
        bytes => format!(" ({bytes} more bytes are left out)"),
    }
}
