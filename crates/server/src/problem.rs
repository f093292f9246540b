//! Errors: RFC 9457 problem documents, with the same stable codes as the command line. A problem that is not
//! the client's fault shows only its code; the log has the cause, under the request's id.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use crealeph_contracts::json::ComposeError;
use crealeph_contracts::violation::Violation;
use crealeph_ledger::{AppendError, EntryRefusal, LedgerError};
use crealeph_runtime::access::{AccessError, GrantEntryError};
use crealeph_runtime::approvals::ApprovalError;
use crealeph_runtime::builder::BuildError;
use crealeph_runtime::receipts::{ReceiptReportError, RunFileError, SignerEnrolmentError};
use crealeph_runtime::report::ReportError;
use crealeph_runtime::robot::StatusError;
use crealeph_runtime::validation::ViolationReport;
use crealeph_runtime::webhook::WebhookError;
use crealeph_runtime::work::{RunsError, WorkError};
use serde::Serialize;

use crate::reply::Reply;

/// The media type of a problem document.
pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";
/// How long a client should wait before it tries again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Why a request has no answer.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    kind: ProblemKind,
    detail: String,
    hint: Option<Box<str>>,
    violations: Vec<Violation>,
    /// The setting that was exceeded, and its value.
    limit: Option<Box<(&'static str, u64)>>,
    /// Which check refused it, if several could.
    check: Option<&'static str>,
}

/// What kind of problem: its status, and its code if that is the server's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProblemKind {
    BadRequest,
    BadParameter,
    Unauthenticated,
    Forbidden,
    HostRefused,
    OriginRefused,
    NoRoute,
    MethodNotAllowed,
    MediaType,
    TooLarge(StatusCode),
    RateLimited,
    Overloaded,
    TimedOut,
    Internal,
    /// With a status and a code of another part of the program.
    Other(StatusCode, &'static str),
}

impl ProblemKind {
    /// The stable code.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            ProblemKind::BadRequest => "bad_request",
            ProblemKind::BadParameter => "bad_parameter",
            ProblemKind::Unauthenticated => "unauthenticated",
            ProblemKind::Forbidden => "forbidden",
            ProblemKind::HostRefused => "host_refused",
            ProblemKind::OriginRefused => "origin_refused",
            ProblemKind::NoRoute => "no_route",
            ProblemKind::MethodNotAllowed => "method_not_allowed",
            ProblemKind::MediaType => "media_type",
            ProblemKind::TooLarge(_) => "too_large",
            ProblemKind::RateLimited => "rate_limited",
            ProblemKind::Overloaded => "overloaded",
            ProblemKind::TimedOut => "request_timeout",
            ProblemKind::Internal => "internal",
            ProblemKind::Other(_, code) => code,
        }
    }

    pub(crate) fn status(self) -> StatusCode {
        match self {
            ProblemKind::BadRequest | ProblemKind::BadParameter => StatusCode::BAD_REQUEST,
            ProblemKind::Unauthenticated => StatusCode::UNAUTHORIZED,
            ProblemKind::Forbidden | ProblemKind::HostRefused | ProblemKind::OriginRefused => {
                StatusCode::FORBIDDEN
            }
            ProblemKind::NoRoute => StatusCode::NOT_FOUND,
            ProblemKind::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
            ProblemKind::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            ProblemKind::RateLimited => StatusCode::TOO_MANY_REQUESTS,
            ProblemKind::Overloaded | ProblemKind::TimedOut => StatusCode::SERVICE_UNAVAILABLE,
            ProblemKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            ProblemKind::TooLarge(status) | ProblemKind::Other(status, _) => status,
        }
    }
}

/// A problem document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProblemDocument<'p> {
    #[serde(rename = "type")]
    kind: String,
    title: &'p str,
    status: u16,
    code: &'p str,
    detail: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<&'p str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    check: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<LimitHit>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    violations: Vec<ViolationReport<'p>>,
    request_id: &'p str,
}

#[derive(Serialize)]
struct LimitHit {
    name: &'static str,
    value: u64,
}

impl Problem {
    pub(crate) fn new(kind: ProblemKind, detail: impl Into<String>) -> Self {
        let detail = detail.into();
        Problem { kind, detail, hint: None, violations: Vec::new(), limit: None, check: None }
    }

    /// A parameter that cannot be used. Its value is not repeated: it could be a secret in the wrong place.
    pub(crate) fn parameter(name: &str, why: &str) -> Self {
        let name: String = name.chars().take(64).filter(|letter| !letter.is_control()).collect();
        Problem::new(ProblemKind::BadParameter, format!("the parameter `{name}` {why}"))
    }

    /// A bound of `[server]` was hit.
    pub(crate) fn bound(
        kind: ProblemKind,
        name: &'static str,
        value: u64,
        detail: impl Into<String>,
    ) -> Self {
        Problem { limit: Some(Box::new((name, value))), ..Problem::new(kind, detail) }
    }

    /// A document that breaks its contract.
    pub(crate) fn invalid(code: &'static str, violations: Vec<Violation>) -> Self {
        let kind = ProblemKind::Other(StatusCode::BAD_REQUEST, code);
        Problem { violations, ..Problem::new(kind, "the document is not valid; see `violations`") }
    }

    /// There is no such entry, of this tenant or that this key may see.
    pub(crate) fn unknown_id(what: &str) -> Self {
        let kind = ProblemKind::Other(StatusCode::NOT_FOUND, "unknown_id");
        Problem::new(kind, format!("there is no such {what}"))
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Problem { hint: Some(hint.into().into_boxed_str()), ..self }
    }

    /// Something that is not the client's fault: logged, and answered without its cause.
    fn ours(status: StatusCode, code: &'static str, cause: &dyn std::fmt::Display) -> Self {
        tracing::error!(code, "{cause}");
        let kind = ProblemKind::Other(status, code);
        let again = if status == StatusCode::SERVICE_UNAVAILABLE { "; try again" } else { "" };
        Problem::new(kind, format!("the server cannot do this now{again}"))
            .with_hint("its log has the cause under this request's id")
    }

    /// The name of the bound that caused it.
    pub(crate) fn bound_name(&self) -> Option<&'static str> {
        self.limit.as_ref().map(|limit| limit.0)
    }

    /// What happened, and what to do.
    pub(crate) fn words(&self) -> (&str, Option<&str>) {
        (&self.detail, self.hint.as_deref())
    }

    /// Everything that is wrong with a document.
    pub(crate) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// What kind of problem it is.
    pub(crate) fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// The status.
    pub(crate) fn status(&self) -> StatusCode {
        self.kind.status()
    }

    /// The document, for the request of this id.
    pub(crate) fn into_reply(self, request_id: &str) -> Reply {
        let status = self.status();
        let code = self.kind.code();
        let document = ProblemDocument {
            kind: format!("urn:crealeph:problem:{code}"),
            title: status.canonical_reason().unwrap_or("Problem"),
            status: status.as_u16(),
            code,
            detail: &self.detail,
            hint: self.hint.as_deref(),
            check: self.check,
            limit: self.limit.map(|limit| LimitHit { name: limit.0, value: limit.1 }),
            violations: self.violations.iter().map(ViolationReport::of).collect(),
            request_id,
        };
        let mut reply = Reply::json_of(&document);
        reply.status = status;
        reply.media_type = PROBLEM_TYPE;
        let headers = &mut reply.headers;
        match status {
            StatusCode::UNAUTHORIZED => set(headers, header::WWW_AUTHENTICATE, "Bearer realm=\"crealeph\""),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER.as_secs()));
            }
            _ => {}
        }
        reply
    }
}

fn set(headers: &mut HeaderMap, name: header::HeaderName, value: &'static str) {
    headers.insert(name, HeaderValue::from_static(value));
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        let code = error.code();
        match &error {
            LedgerError::Beyond { .. } | LedgerError::BadCursor { .. } | LedgerError::AmbiguousId(_) => {
                Problem::new(ProblemKind::Other(StatusCode::BAD_REQUEST, code), error.to_string())
            }
            LedgerError::Overloaded { .. } => Problem::new(
                ProblemKind::Other(StatusCode::SERVICE_UNAVAILABLE, code),
                "too many batches wait to be written; try again",
            ),
            LedgerError::OutcomeUnknown { .. } => {
                Problem::ours(StatusCode::SERVICE_UNAVAILABLE, code, &error)
                    .with_hint("it may have been written: send it again with the same keys to find out")
            }
            LedgerError::Busy { .. } | LedgerError::Failed { .. } | LedgerError::Closed => {
                Problem::ours(StatusCode::SERVICE_UNAVAILABLE, code, &error)
            }
            _ => Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, code, &error),
        }
    }
}

impl From<AppendError> for Problem {
    fn from(error: AppendError) -> Self {
        let (position, refusal) = match error {
            AppendError::Ledger(error) => return error.into(),
            AppendError::Refused { position, refusal } => (position, refusal),
        };
        let code = refusal.code();
        let status = match &refusal {
            EntryRefusal::Conflict { .. }
            | EntryRefusal::Transition(_)
            | EntryRefusal::IdTaken(_)
            | EntryRefusal::Moved { .. } => StatusCode::CONFLICT,
            EntryRefusal::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            EntryRefusal::UnknownLineage(_) => StatusCode::UNPROCESSABLE_ENTITY,
            _ => StatusCode::BAD_REQUEST,
        };
        let kind = ProblemKind::Other(status, code);
        match refusal {
            EntryRefusal::Invalid(violations) => {
                let detail = format!(
                    "entry {position} of the batch is not valid; see `violations`; nothing was written"
                );
                Problem { violations, ..Problem::new(kind, detail) }
            }
            refusal => {
                Problem::new(kind, format!("entry {position} of the batch: {refusal}; nothing was written"))
            }
        }
    }
}

impl From<ComposeError> for Problem {
    fn from(error: ComposeError) -> Self {
        Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, "too_large", &error)
    }
}

impl From<StatusError> for Problem {
    fn from(error: StatusError) -> Self {
        match error {
            StatusError::Ledger(error) => error.into(),
            error => Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, error.code(), &error),
        }
    }
}

impl From<BuildError> for Problem {
    fn from(error: BuildError) -> Self {
        let code = error.code();
        match error {
            BuildError::Ledger(error) => error.into(),
            BuildError::Unwritten(error) => error.into(),
            BuildError::Cancelled => {
                let kind = ProblemKind::Other(StatusCode::SERVICE_UNAVAILABLE, code);
                Problem::new(kind, "the server stopped before the run was over; nothing was written")
            }
            BuildError::Overtaken => Problem::ours(StatusCode::SERVICE_UNAVAILABLE, code, &error),
            BuildError::Unreadable { .. } => {
                Problem::new(ProblemKind::Other(StatusCode::CONFLICT, code), error.to_string())
            }
            error => Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, code, &error),
        }
    }
}

impl From<ApprovalError> for Problem {
    fn from(error: ApprovalError) -> Self {
        use ApprovalError::{
            Busy, Drafts, Ended, InvitationOver, Ledger, NoEntry, NoLongerApproved, NoPeople, NotFirst,
            OtherEvidence, Records, Refused, Reviewed, Uncounted, Unwritten,
        };
        let (code, hint) = (error.code(), error.hint());
        let check = match &error {
            Refused(finding) => Some(finding.kind.as_str()),
            Uncounted { code, .. } => Some(*code),
            OtherEvidence => Some("evidence"),
            _ => None,
        };
        let status = match error {
            Ledger(error) => return error.into(),
            Unwritten(error) => return error.into(),
            Records(error) => return error.into(),
            Drafts(error) => return Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, code, &error),
            Busy(_) => return Problem::ours(StatusCode::SERVICE_UNAVAILABLE, code, &error),
            NoEntry(_) => StatusCode::NOT_FOUND,
            NoPeople
            | NotFirst(_)
            | Ended { .. }
            | Reviewed { .. }
            | NoLongerApproved(_)
            | InvitationOver(_) => StatusCode::CONFLICT,
            ref error if error.is_refusal() => StatusCode::UNPROCESSABLE_ENTITY,
            error => return Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, code, &error),
        };
        let problem = Problem::new(ProblemKind::Other(status, code), error.to_string());
        Problem { check, hint: hint.map(|hint| hint.into_owned().into_boxed_str()), ..problem }
    }
}

impl From<SignerEnrolmentError> for Problem {
    fn from(error: SignerEnrolmentError) -> Self {
        use SignerEnrolmentError::{Entry, NoSigner, Revoked, TooMany};
        let (code, hint) = (error.code(), error.hint());
        let status = match error {
            Entry(error) => return error.into(),
            NoSigner { .. } => {
                let kind = ProblemKind::Other(StatusCode::NOT_FOUND, code);
                return Problem::new(kind, "there is no such signer");
            }
            Revoked(_) | TooMany => StatusCode::CONFLICT,
            _ => StatusCode::BAD_REQUEST,
        };
        let problem = Problem::new(ProblemKind::Other(status, code), error.to_string());
        Problem { hint: hint.map(|hint| hint.into_owned().into_boxed_str()), ..problem }
    }
}

impl From<ReceiptReportError> for Problem {
    fn from(error: ReceiptReportError) -> Self {
        use ReceiptReportError::{Another, Busy, Ledger, Refused, Unwritten};
        let (code, hint) = (error.code(), error.hint());
        let (status, check) = match &error {
            Ledger(error) => return error.clone().into(),
            Unwritten(error) => return error.clone().into(),
            Busy(_) => return Problem::ours(StatusCode::SERVICE_UNAVAILABLE, code, &error),
            Refused(finding) => (StatusCode::UNPROCESSABLE_ENTITY, Some(finding.kind.as_str())),
            Another(_) => (StatusCode::CONFLICT, None),
            _ => return Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, code, &error),
        };
        let problem = Problem::new(ProblemKind::Other(status, code), error.to_string());
        Problem { check, hint: hint.map(|hint| hint.into_owned().into_boxed_str()), ..problem }
    }
}

impl From<ReportError> for Problem {
    fn from(error: ReportError) -> Self {
        match error {
            ReportError::Ledger(error) => error.into(),
            ReportError::Execution(error) => error.into(),
            ReportError::Approvals(error) => error.into(),
            ReportError::Runs(error) => error.into(),
            ReportError::NoExecution(_) => Problem::unknown_id("execution"),
            error @ ReportError::Name(_) => {
                Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, "bad_name", &error)
            }
        }
    }
}

impl From<RunFileError> for Problem {
    fn from(error: RunFileError) -> Self {
        match error {
            RunFileError::Ledger(error) => error.into(),
            error @ (RunFileError::NotHere { .. } | RunFileError::Altered { .. }) => {
                Problem::new(ProblemKind::Other(StatusCode::NOT_FOUND, "not_here"), error.to_string())
            }
            RunFileError::Runs(error) => error.into(),
        }
    }
}

impl From<RunsError> for Problem {
    fn from(error: RunsError) -> Self {
        match error {
            RunsError::Unknown(_) | RunsError::NoneYet | RunsError::OnlyOne | RunsError::Ambiguous(_) => {
                Problem::unknown_id("run")
            }
            error => Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, "runs", &error),
        }
    }
}

impl From<WorkError> for Problem {
    fn from(error: WorkError) -> Self {
        let code = error.code();
        match error {
            WorkError::Runs(error) => error.into(),
            WorkError::Ledger(error) => error.into(),
            WorkError::NotUndoable { .. }
            | WorkError::InTheWay { .. }
            | WorkError::Altered { .. }
            | WorkError::Policy { .. }
            | WorkError::NoAgent { .. } => {
                Problem::new(ProblemKind::Other(StatusCode::CONFLICT, code), error.to_string())
            }
            error => Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, code, &error),
        }
    }
}

impl From<GrantEntryError> for Problem {
    fn from(error: GrantEntryError) -> Self {
        let code = error.code();
        match error {
            GrantEntryError::Ledger(error) => error.into(),
            GrantEntryError::Unwritten(error) => error.into(),
            error if error.is_refusal() => {
                Problem::new(ProblemKind::Other(StatusCode::BAD_REQUEST, code), error.to_string())
            }
            error => Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, code, &error),
        }
    }
}

impl From<AccessError> for Problem {
    fn from(error: AccessError) -> Self {
        let code = error.code();
        let status = match error {
            AccessError::NoKey { .. } => {
                return Problem::new(ProblemKind::Other(StatusCode::NOT_FOUND, code), "there is no such key");
            }
            AccessError::NoSession { .. } => {
                let kind = ProblemKind::Other(StatusCode::NOT_FOUND, code);
                return Problem::new(kind, "there is no such session");
            }
            AccessError::OtherRequest(_) => StatusCode::CONFLICT,
            AccessError::Entry(error) => return error.into(),
            _ => StatusCode::BAD_REQUEST,
        };
        Problem::new(ProblemKind::Other(status, code), error.to_string())
    }
}

impl From<WebhookError> for Problem {
    fn from(error: WebhookError) -> Self {
        let code = error.code();
        let status = match &error {
            WebhookError::NoWebhook { .. } => {
                let kind = ProblemKind::Other(StatusCode::NOT_FOUND, code);
                return Problem::new(kind, "there is no such webhook");
            }
            WebhookError::TooMany { limit } => {
                let kind = ProblemKind::Other(StatusCode::BAD_REQUEST, code);
                return Problem::bound(kind, "max_webhooks", *limit as u64, error.to_string());
            }
            WebhookError::Entry(error) => return error.clone().into(),
            WebhookError::OtherRequest(_) => StatusCode::CONFLICT,
            WebhookError::Busy(_) => return Problem::ours(StatusCode::SERVICE_UNAVAILABLE, code, &error),
            error if error.is_refusal() => StatusCode::BAD_REQUEST,
            _ => return Problem::ours(StatusCode::INTERNAL_SERVER_ERROR, code, &error),
        };
        Problem::new(ProblemKind::Other(status, code), error.to_string())
    }
}
