//! How a command fails: what failed, on what, what next; a stable code for programs and an exit code for shells. One type
//! for each kind of operation; this file has what they share. A hint says what to do next; it is
//! data beside the message. Some errors of the crates below still give short advice at the end of their message.

mod approvals;
mod arguments;
mod builder;
mod input;
mod ledger;
mod output;
mod server;
mod trust;
mod work;

use std::borrow::Cow;
use std::io;
use std::path::PathBuf;

use crealeph_contracts::json::ComposeError;
use crealeph_contracts::text::with_causes;
use crealeph_decision::judge::ContextError;
use crealeph_decision::work::PlanError;
use crealeph_ledger::LedgerError;
use crealeph_runtime::access::AccessError;
use crealeph_runtime::agents::conformance::Uncalled;
use crealeph_runtime::approvals::ApprovalError;
use crealeph_runtime::builder::BuildError;
use crealeph_runtime::client::ClientError;
use crealeph_runtime::configuration::{ConfigError, RulesFileError};
use crealeph_runtime::receipts::{OutboxError, SignerEnrolmentError};
use crealeph_runtime::report::ReportError;
use crealeph_runtime::review::VerdictError;
use crealeph_runtime::robot::StatusError;
use crealeph_runtime::trust::{GrantError, TrustStoreError};
use crealeph_runtime::webhook::WebhookError;
use crealeph_runtime::work::receipt::SignerError;
use crealeph_runtime::work::replay::ReplayError;
use crealeph_runtime::work::{TasksError, WorkError};
use crealeph_sandbox::SandboxError;
use crealeph_server::ServeError;
use crealeph_workspace::OwnershipError;

pub(crate) use self::approvals::{ApprovalFailure, SigningFailure};
pub(crate) use self::arguments::ArgumentFailure;
pub(crate) use self::builder::BuilderFailure;
pub(crate) use self::input::InputFailure;
pub(crate) use self::ledger::LedgerFailure;
pub(crate) use self::output::OutputFailure;
pub(crate) use self::server::ServerFailure;
pub(crate) use self::trust::TrustFailure;
pub(crate) use self::work::WorkFailure;

use crate::interrupt::INTERRUPTED;
use crate::page::Page;

/// The exit code for input that was judged and refused.
const JUDGED: u8 = 1;
/// The exit code for what could not be judged or done.
const NOT_JUDGED: u8 = 2;

/// Why a command could not do its work.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Arguments(#[from] ArgumentFailure),
    #[error(transparent)]
    Input(#[from] InputFailure),
    #[error(transparent)]
    Output(#[from] OutputFailure),
    #[error(transparent)]
    Trust(#[from] TrustFailure),
    #[error(transparent)]
    Configuration(#[from] ConfigError),
    #[error(transparent)]
    Ledger(#[from] LedgerFailure),
    #[error(transparent)]
    Builder(#[from] BuilderFailure),
    #[error(transparent)]
    Work(#[from] WorkFailure),
    #[error(transparent)]
    Approval(#[from] ApprovalFailure),
    #[error(transparent)]
    Server(#[from] ServerFailure),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error("the demo failed: `{command}` ended with exit code {code}, expected {expected}")]
    Demo { command: String, folder: PathBuf, expected: String, code: i32 },
    #[error("there is no `{0}` on the PATH")]
    NoProgram(&'static str),
    #[error("interrupted; nothing was written")]
    Interrupted,
    #[error("cannot handle signals")]
    Signals(#[source] io::Error),
}

/// Errors of the crates below, each with the operation that it belongs to.
macro_rules! belongs {
    ($($error:ty => $operation:ty),+ $(,)?) => {
        $(impl From<$error> for Failure {
            fn from(error: $error) -> Self {
                <$operation>::from(error).into()
            }
        })+
    };
}

belongs! {
    ContextError => InputFailure,
    RulesFileError => InputFailure,
    ComposeError => OutputFailure,
    OwnershipError => TrustFailure,
    TrustStoreError => TrustFailure,
    GrantError => TrustFailure,
    LedgerError => LedgerFailure,
    BuildError => BuilderFailure,
    VerdictError => BuilderFailure,
    StatusError => BuilderFailure,
    ApprovalError => ApprovalFailure,
    SigningFailure => ApprovalFailure,
    Uncalled => BuilderFailure,
    WorkError => WorkFailure,
    TasksError => WorkFailure,
    PlanError => WorkFailure,
    SignerError => WorkFailure,
    ReplayError => WorkFailure,
    ServeError => ServerFailure,
    AccessError => ServerFailure,
    SignerEnrolmentError => ServerFailure,
    OutboxError => ServerFailure,
    ClientError => ServerFailure,
    WebhookError => ServerFailure,
}

impl From<ReportError> for Failure {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Runs(error) => WorkError::from(error).into(),
            ReportError::Ledger(error) => error.into(),
            ReportError::Execution(error) => error.into(),
            ReportError::Approvals(error) => error.into(),
            ReportError::NoExecution(id) => BuilderFailure::NoExecution(id.to_string()).into(),
            ReportError::Name(error) => BuildError::from(error).into(),
        }
    }
}

impl Failure {
    /// What failed, and every cause behind it.
    pub(crate) fn message(&self) -> String {
        with_causes(self)
    }

    /// What to do next.
    pub(crate) fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            Failure::Arguments(failure) => failure.hint(),
            Failure::Input(failure) => failure.hint(),
            Failure::Output(failure) => failure.hint(),
            Failure::Trust(failure) => failure.hint(),
            Failure::Ledger(failure) => failure.hint(),
            Failure::Builder(failure) => failure.hint(),
            Failure::Work(failure) => failure.hint(),
            Failure::Approval(failure) => failure.hint(),
            Failure::Server(failure) => failure.hint(),
            Failure::Demo { folder, .. } => Some(format!("try it yourself in `{}`", folder.display()).into()),
            Failure::NoProgram(name) => {
                Some(format!("install it, on Debian with `apt install {name}`").into())
            }
            Failure::Configuration(_) | Failure::Sandbox(_) | Failure::Interrupted | Failure::Signals(_) => {
                None
            }
        }
    }

    /// Message and hint for a person. Only our own lists have several lines; any other line break is escaped.
    pub(crate) fn page(&self) -> Page {
        let mut page = Page::default();
        if let Failure::Trust(TrustFailure::Untrusted { asked, .. }) = self {
            asked.as_str().lines().for_each(|line| page.line(line));
        }
        let listed = if let Failure::Input(input) = self { input.violations() } else { None };
        match listed {
            Some((first, violations)) => {
                page.line(&format!("error: {first}"));
                violations.iter().for_each(|violation| page.line(&format!("  {violation}")));
            }
            None => page.line(&format!("error: {}", self.message())),
        }
        if let Some(hint) = self.hint() {
            page.line(&format!("hint: {hint}"));
        }
        page
    }

    /// The stable code.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Failure::Arguments(failure) => failure.code(),
            Failure::Input(failure) => failure.code(),
            Failure::Output(failure) => failure.code(),
            Failure::Trust(failure) => failure.code(),
            Failure::Configuration(ConfigError::Rules(_)) => "bad_rules",
            Failure::Configuration(_) => "bad_configuration",
            Failure::Ledger(failure) => failure.code(),
            Failure::Builder(failure) => failure.code(),
            Failure::Work(failure) => failure.code(),
            Failure::Approval(failure) => failure.code(),
            Failure::Server(failure) => failure.code(),
            Failure::Sandbox(error) => error.code(),
            Failure::Demo { .. } => "demo_failed",
            Failure::NoProgram(_) => "no_program",
            Failure::Interrupted => "cancelled",
            Failure::Signals(_) => "signals",
        }
    }

    /// 1 if the input was judged and refused, 2 if it could not be judged, 130 if the command was interrupted.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Input(failure) => failure.exit_code(),
            Failure::Ledger(failure) => failure.exit_code(),
            Failure::Builder(failure) => failure.exit_code(),
            Failure::Work(failure) => failure.exit_code(),
            Failure::Approval(failure) => failure.exit_code(),
            Failure::Server(failure) => failure.exit_code(),
            Failure::Demo { .. } => JUDGED,
            Failure::Interrupted => INTERRUPTED,
            _ => NOT_JUDGED,
        }
    }

    /// Whether it may be over soon, so that trying again makes sense.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Failure::Ledger(LedgerFailure::Ledger(error)) => error.is_passing(),
            Failure::Server(ServerFailure::Client(ClientError::Away { .. })) => true,
            Failure::Server(ServerFailure::Client(ClientError::Refused(why))) => why.status == 503,
            _ => false,
        }
    }

    /// No one reads our output any more; that is not an error.
    pub(crate) fn is_closed_pipe(&self) -> bool {
        matches!(self, Failure::Output(failure) if failure.is_closed_pipe())
    }
}
