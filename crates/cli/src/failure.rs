//! How a command fails: what failed, on what, what next; a stable code for programs and an exit code for shells.

use std::io;
use std::path::PathBuf;

use crealeph_contracts::json::ComposeError;
use crealeph_contracts::violation::Violation;
use crealeph_decision::judge::ContextError;
use crealeph_decision::work::PlanError;
use crealeph_ledger::{LedgerError, Refusal};
use crealeph_runtime::agents::conformance::Uncalled;
use crealeph_runtime::builder::BuildError;
use crealeph_runtime::configuration::{ConfigError, RulesFileError};
use crealeph_runtime::review::VerdictError;
use crealeph_runtime::robot::StatusError;
use crealeph_runtime::trust::{GrantError, TrustStoreError};
use crealeph_runtime::work::receipt::SignerError;
use crealeph_runtime::work::replay::ReplayError;
use crealeph_runtime::work::{RunsError, TasksError, WorkError};
use crealeph_sandbox::SandboxError;
use crealeph_workspace::OwnershipError;

use crate::interrupt::INTERRUPTED;
use crate::page::Page;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("there is no file `{}`; check the path, or give `-` for standard input", .0.display())]
    NotFound(PathBuf),
    #[error("`{}` is a directory; name a file in it", .0.display())]
    IsDirectory(PathBuf),
    #[error("`{}` is not a file but a link, a pipe or a device; name a file", .0.display())]
    NotAFile(PathBuf),
    #[error("the files of the run do not match its receipt: {0}; see `crealeph work verify`")]
    Mismatch(String),
    #[error("`{}` is a pipe that nobody writes to; start the writer first", .0.display())]
    NoWriter(PathBuf),
    #[error("cannot read `{}`; check its permissions", .path.display())]
    Unreadable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{}` is not UTF-8 text; check that it is the file you mean", .0.display())]
    NotText(PathBuf),
    #[error("cannot write `{}`; check that the folder exists and has room", .path.display())]
    Unwritable {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{what}` is longer than the {limit} bytes that are read; make it smaller")]
    TooLarge { what: String, limit: usize },
    #[error("`{name}` is not a valid {expected}:\n{}", listed(.violations))]
    Invalid { name: String, expected: &'static str, violations: Vec<Violation> },
    #[error("`{name}` is not a context:\n{}", listed(.violations))]
    NoContext { name: String, violations: Vec<Violation> },
    #[error(transparent)]
    Context(#[from] ContextError),
    #[error(transparent)]
    Compose(#[from] ComposeError),
    #[error(transparent)]
    Rules(#[from] RulesFileError),
    #[error("`{0}` is not an instant: {1}")]
    BadInstant(String, &'static str),
    #[error("the entries are of several {what}: {known}; say which with {flag}")]
    Several { what: &'static str, known: String, flag: &'static str },
    #[error(
        "SNAPSHOT_EMPTY: no entry of robot `{0}` counts; append a signal, fusion, idea, copy, benchmark or playbook, \
         or check the robot and --tenant"
    )]
    SnapshotEmpty(String),
    #[error("there is no entry in `{0}`; give entries as JSON Lines")]
    NoEntries(String),
    #[error("`{name}` holds more than {limit} {what}; split it")]
    TooMany { name: String, limit: usize, what: &'static str },
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("there is no ledger at `{place}`, but there is one in `{}`; go there", .folder.display())]
    LedgerAbove { place: String, folder: PathBuf },
    #[error(
        "the export is of tenant `{found}`, not of `{meant}`, and nothing was written; say --tenant {found} to take it in"
    )]
    OtherTenant { found: String, meant: String },
    #[error("`{name}` is refused, everything before it is written: {refusal}")]
    Refused { name: String, refusal: Box<Refusal> },
    #[error("`{name}` is not a {what}: {why}")]
    BadName { what: &'static str, name: String, why: String },
    #[error("say which robot: `crealeph snapshot ROBOT`")]
    RobotMissing,
    #[error("there is no entry `{name}` of tenant `{tenant}`; check the id and --tenant")]
    NoEntry { name: String, tenant: String },
    #[error("tenant `{tenant}` has nothing in `{place}` yet; append something, or check --tenant")]
    NoLog { tenant: String, place: String },
    #[error("`{name}` proves nothing: {why}")]
    Unproven { name: String, why: String },
    #[error("`{}` holds no public key; keep what `crealeph ledger key` prints", .0.display())]
    NoKey(PathBuf),
    #[error("the public key cannot be used")]
    VerifierKey(#[source] crealeph_verify::VerifierKeyError),
    #[error(transparent)]
    Signer(#[from] SignerError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Review(#[from] VerdictError),
    #[error(transparent)]
    Robot(#[from] StatusError),
    #[error("interrupted; nothing was written")]
    Interrupted,
    #[error("the program cannot be told of signals")]
    Signals(#[source] io::Error),
    #[error("the ledger holds no trace of execution `{0}` of this tenant; check the id and --tenant")]
    NoExecution(String),
    #[error("the ledger holds no execution of this tenant yet; ask for one with `crealeph build`")]
    NoExecutions,
    #[error("the execution has no record{}; see its events with `crealeph execution show`", of_attempt(*attempt))]
    NoRecord { attempt: Option<u64> },
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    #[error(transparent)]
    Work(#[from] WorkError),
    #[error(transparent)]
    Tasks(#[from] TasksError),
    #[error("there is no agent `{name}` in `{}`; {}", .path.display(), choice(.known))]
    NoAgent { name: String, path: PathBuf, known: String },
    #[error(
        "there is no `{}` here to name agents; make one with `crealeph init`, or check a command: `agent check -- COMMAND`",
        .0.display()
    )]
    NoConfiguration(PathBuf),
    #[error(transparent)]
    Uncalled(#[from] Uncalled),
    #[error("`{0}` is not {1}")]
    BadOption(String, &'static str),
    #[error("`{}` is there already and nothing was written; move it away, or name another place", .0.display())]
    Taken(PathBuf),
    #[error("there is no `{0}` on the PATH; install it, on Debian with `apt install {0}`")]
    NoProgram(&'static str),
    #[error(
        "there is no file `{0}`; name a file of work items, or with --agent the agent that is to do a task in words"
    )]
    NoItems(String),
    #[error("there is no `{}`; a receipt is checked with the signed statement beside it, so keep the two together", .0.display())]
    NoStatement(PathBuf),
    #[error("who decides is not known, since USER is not set; say who with --by")]
    NoName,
    #[error("`{}` is not empty; name a new or an empty folder", .0.display())]
    NotEmpty(PathBuf),
    #[error(
        "the demo did not go as told: `{command}` ended with exit code {code}, and {expected} were told; \
         try it yourself in `{}`",
        .folder.display()
    )]
    Demo { command: String, folder: PathBuf, expected: String, code: i32 },
    #[error(
        "`{0}` in CREALEPH_OUTPUT is not known; say `text` for a person or `json` for a program, or unset it"
    )]
    BadReader(String),
    #[error(
        "`{}` grants what you have not trusted, and nothing was done; run `{command}` to look and accept, or in a script \
         `{command} --yes`",
        .path.display()
    )]
    Untrusted { path: PathBuf, command: String, asked: Page },
    #[error("`{}` is not trusted, and nothing was done", .0.display())]
    Declined(PathBuf),
    #[error("nobody can be asked here; if you trust it, run `{0}`")]
    NobodyToAsk(String),
    #[error(
        "there is no place for your own state, since neither XDG_STATE_HOME nor HOME is an absolute path; set one"
    )]
    NoUserState,
    #[error(
        "your state directory `{}` lies in the workspace `{}`, where agents work; set XDG_STATE_HOME to a folder elsewhere",
        .state.display(), .workspace.display()
    )]
    StateInside { state: PathBuf, workspace: PathBuf },
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    #[error(transparent)]
    TrustStore(#[from] TrustStoreError),
    #[error(transparent)]
    Grants(#[from] GrantError),
    /// The arguments, told by their parser.
    #[error("{0}")]
    Usage(String),
    #[error("cannot write to standard output; make room, or send it elsewhere")]
    Output(#[source] io::Error),
}

impl Failure {
    /// What failed, and every cause behind it.
    pub(crate) fn message(&self) -> String {
        let mut message = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            message.push_str(": ");
            message.push_str(&cause.to_string());
            source = cause.source();
        }
        message
    }

    /// The same for a person. Only what is a list of ours has lines of its own; whatever else breaks a line is escaped.
    pub(crate) fn page(&self) -> Page {
        let mut page = Page::default();
        match self {
            Failure::Invalid { name, expected, violations } => {
                page.line(&format!("error: `{name}` is not a valid {expected}:"));
                violations.iter().for_each(|violation| page.line(&format!("  {violation}")));
            }
            Failure::NoContext { name, violations } => {
                page.line(&format!("error: `{name}` is not a context:"));
                violations.iter().for_each(|violation| page.line(&format!("  {violation}")));
            }
            Failure::Untrusted { asked, .. } => {
                asked.as_str().lines().for_each(|line| page.line(line));
                page.line(&format!("error: {}", self.message()));
            }
            _ => page.line(&format!("error: {}", self.message())),
        }
        page
    }

    /// The stable code.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Failure::NotFound(_) | Failure::NoItems(_) | Failure::NoStatement(_) => "not_found",
            Failure::IsDirectory(_) => "is_directory",
            Failure::Unreadable { .. } | Failure::NotAFile(_) => "unreadable",
            Failure::Mismatch(_) => "altered",
            Failure::NoWriter(_) => "no_writer",
            Failure::NotText(_) => "not_text",
            Failure::Unwritable { .. } => "unwritable",
            Failure::TooLarge { .. } | Failure::TooMany { .. } | Failure::Compose(_) => "too_large",
            Failure::Invalid { .. } => "invalid",
            Failure::NoContext { .. } | Failure::Context(_) => "bad_context",
            Failure::Rules(_) | Failure::Configuration(ConfigError::Rules(_)) => "bad_rules",
            Failure::BadInstant(..) => "bad_timestamp",
            Failure::Several { .. } => "ambiguous",
            Failure::SnapshotEmpty(_) => "SNAPSHOT_EMPTY",
            Failure::NoEntries(_) => "no_entries",
            Failure::Plan(PlanError::Cycle(_)) => "cycle",
            Failure::Plan(PlanError::DuplicateId(_)) => "duplicate_id",
            Failure::Ledger(error) => error.code(),
            Failure::LedgerAbove { .. } => "ledger_missing",
            Failure::OtherTenant { .. } => "other_tenant",
            Failure::Refused { refusal, .. } => refusal.code(),
            Failure::BadName { .. } | Failure::RobotMissing => "bad_name",
            Failure::NoEntry { .. } => "unknown_id",
            Failure::NoLog { .. } => "no_log",
            Failure::Unproven { .. } => "unproven",
            Failure::Usage(_) => "usage",
            Failure::Configuration(_) => "bad_configuration",
            Failure::Build(error) => error.code(),
            Failure::Review(error) => error.code(),
            Failure::Robot(error) => error.code(),
            Failure::Interrupted => "cancelled",
            Failure::Signals(_) => "signals",
            Failure::NoExecution(_) | Failure::NoExecutions | Failure::NoRecord { .. } => "unknown_id",
            Failure::NoAgent { .. } | Failure::NoConfiguration(_) => "unknown_agent",
            Failure::Uncalled(_) => "agent_not_called",
            Failure::Work(error) => error.code(),
            Failure::Tasks(TasksError::Ledger(error)) => error.code(),
            Failure::Tasks(TasksError::Records(error)) => error.code(),
            Failure::Tasks(TasksError::None(_)) => "unknown_id",
            Failure::Tasks(TasksError::TooMany(_)) => "too_large",
            Failure::Tasks(TasksError::Task(_) | TasksError::Unreadable(_)) => "invalid",
            Failure::VerifierKey(_) | Failure::Signer(_) | Failure::NoKey(_) => "bad_key",
            Failure::Replay(_) => "bad_run",
            Failure::Sandbox(error) => error.code(),
            Failure::BadOption(..) | Failure::BadReader(_) => "bad_option",
            Failure::Taken(_) | Failure::NotEmpty(_) => "taken",
            Failure::Demo { .. } => "demo_failed",
            Failure::NoProgram(_) => "no_program",
            Failure::NoName => "bad_name",
            Failure::Untrusted { .. } | Failure::Declined(_) | Failure::NobodyToAsk(_) => "untrusted",
            Failure::NoUserState | Failure::StateInside { .. } | Failure::TrustStore(_) => "user_state",
            Failure::Ownership(OwnershipError::Io { .. } | OwnershipError::Git(_)) => "workspace",
            Failure::Ownership(_) => "foreign_state",
            Failure::Grants(_) => "bad_configuration",
            Failure::Output(_) => "output",
        }
    }

    /// 1 where the input was judged and refused, 2 where it could not be judged, 130 where somebody interrupted.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Invalid { .. }
            | Failure::Mismatch(_)
            | Failure::Plan(_)
            | Failure::Tasks(TasksError::None(_) | TasksError::Task(_))
            | Failure::Work(
                WorkError::Plan(_)
                | WorkError::Outside(_)
                | WorkError::Overlap { .. }
                | WorkError::Policy { .. }
                | WorkError::NotHeld(_)
                | WorkError::Altered { .. }
                | WorkError::Runs(RunsError::Unknown(_) | RunsError::NoneYet),
            )
            | Failure::SnapshotEmpty(_)
            | Failure::Refused { .. }
            | Failure::Demo { .. }
            | Failure::NoEntry { .. }
            | Failure::Unproven { .. }
            | Failure::NoExecution(_)
            | Failure::NoExecutions
            | Failure::NoRecord { .. }
            | Failure::Replay(ReplayError::OtherStart { .. } | ReplayError::NotAReceipt(_))
            | Failure::Review(
                VerdictError::NoEntry(_)
                | VerdictError::NotReviewed(_)
                | VerdictError::NotTheBuilders(_)
                | VerdictError::Settled { .. },
            )
            | Failure::Ledger(LedgerError::BadExport { .. } | LedgerError::Damaged { .. }) => 1,
            Failure::Interrupted | Failure::Build(BuildError::Cancelled) => INTERRUPTED,
            _ => 2,
        }
    }

    /// Whoever read our output has gone; that is no failure of ours.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

fn choice(known: &str) -> String {
    if known.is_empty() { "it names none".to_owned() } else { format!("known are: {known}") }
}

fn of_attempt(attempt: Option<u64>) -> String {
    attempt.map_or_else(String::new, |attempt| format!(" of attempt {attempt}"))
}

fn listed(violations: &[Violation]) -> String {
    violations.iter().map(|violation| format!("  {violation}")).collect::<Vec<_>>().join("\n")
}
