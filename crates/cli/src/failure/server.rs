//! Failures of the server, of keys and of webhooks.

use std::borrow::Cow;

use crealeph_runtime::access::AccessError;
use crealeph_runtime::client::{ClientError, ServerRefusal};
use crealeph_runtime::known_logs::KnownLogError;
use crealeph_runtime::receipts::{OutboxError, SignerEnrolmentError};
use crealeph_runtime::webhook::WebhookError;
use crealeph_server::ServeError;

use super::{JUDGED, NOT_JUDGED};
use crate::commands::known_code;

/// Why a command about the server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerFailure {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Access(#[from] AccessError),
    #[error(transparent)]
    Signer(#[from] SignerEnrolmentError),
    #[error(transparent)]
    Outbox(#[from] OutboxError),
    #[error("there is no key for the server")]
    NoServerKey,
    #[error("no server is named")]
    NoServer,
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("the server refused `{name}`, everything before it is written: {}", .why.detail)]
    Line { name: String, why: Box<ServerRefusal> },
    #[error("this command cannot use a server: it works on a local ledger or workspace")]
    NoServerForm(Option<&'static str>),
    #[error(
        "{0} cannot be used with --server: the tenant comes from the key, the configuration is the server's"
    )]
    Excluded(&'static str),
    #[error("{flag} cannot be used with --server: {why}")]
    NotThere { flag: &'static str, why: &'static str },
    #[error(
        "the server's statement differs from what it showed, so nothing is signed: it would change {what}"
    )]
    NotShown { what: &'static str },
    #[error("found no run `{word}` on the server: {cut}")]
    NotLookedAt { word: String, cut: String },
    #[error(transparent)]
    KnownLog(#[from] KnownLogError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
}

impl ServerFailure {
    pub(super) fn code(&self) -> &'static str {
        match self {
            ServerFailure::Serve(error) => error.code(),
            ServerFailure::Access(error) => error.code(),
            ServerFailure::Signer(error) => error.code(),
            ServerFailure::Outbox(error) => error.code(),
            ServerFailure::NoServerKey => "no_server_key",
            ServerFailure::NoServer => "bad_address",
            ServerFailure::Client(error) => client_code(error),
            ServerFailure::Line { why, .. } => known_code(&why.code),
            ServerFailure::NoServerForm(_) => "no_server_form",
            ServerFailure::Excluded(_) | ServerFailure::NotThere { .. } => "usage",
            ServerFailure::NotShown { .. } => "not_what_was_shown",
            ServerFailure::NotLookedAt { .. } => "too_large",
            ServerFailure::KnownLog(KnownLogError::OtherLog { .. }) => "not_what_was_shown",
            ServerFailure::KnownLog(_) => "unreadable",
            ServerFailure::Webhook(error) => error.code(),
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            ServerFailure::Access(error) if error.is_refusal() => JUDGED,
            ServerFailure::Signer(error) if error.is_refusal() => JUDGED,
            ServerFailure::Outbox(OutboxError::Unreportable { .. } | OutboxError::Runs(_)) => JUDGED,
            ServerFailure::Webhook(error) if error.is_refusal() => JUDGED,
            ServerFailure::Client(ClientError::Refused(why)) if matches!(why.status, 404 | 409 | 422) => {
                JUDGED
            }
            ServerFailure::Line { .. }
            | ServerFailure::NotShown { .. }
            | ServerFailure::KnownLog(KnownLogError::OtherLog { .. }) => JUDGED,
            _ => NOT_JUDGED,
        }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            ServerFailure::Serve(error) => error.hint().map(Cow::Borrowed),
            ServerFailure::Access(error) => error.hint(),
            ServerFailure::Signer(error) => error.hint(),
            ServerFailure::Outbox(OutboxError::Runs(error)) => error.hint().map(Cow::Borrowed),
            ServerFailure::Outbox(_) => None,
            ServerFailure::NoServerKey => {
                Some("set CREALEPH_SERVER_KEY, or name a file with --server-key".into())
            }
            ServerFailure::NoServer => Some("name it with --report-to URL".into()),
            ServerFailure::Client(error) => client_hint(error),
            ServerFailure::Line { why, .. } => why.hint.clone().map(Cow::Owned),
            ServerFailure::NoServerForm(Some(instead)) => Some(Cow::Borrowed(instead)),
            ServerFailure::NoServerForm(None) => Some(
                "leave --server out, unset CREALEPH_SERVER or name a --ledger; `crealeph ledger --help` and docs/server.md say which commands can use a server"
                    .into(),
            ),
            ServerFailure::Excluded(_) | ServerFailure::NotThere { .. } => None,
            ServerFailure::NotShown { .. } => {
                Some("do not use this server until you know the cause; its operator may not know it either".into())
            }
            ServerFailure::KnownLog(KnownLogError::OtherLog { path, .. }) => {
                let path = path.display();
                Some(format!("nothing is signed; if the ledger was replaced on purpose, remove `{path}`").into())
            }
            ServerFailure::NotLookedAt { .. } => Some("give the whole id of the run".into()),
            ServerFailure::KnownLog(_) => None,
            ServerFailure::Webhook(error) => error.hint(),
        }
    }
}

/// What a server refused keeps its code, if this version knows it.
fn client_code(error: &ClientError) -> &'static str {
    match error {
        ClientError::Refused(why) => known_code(&why.code),
        error => error.code(),
    }
}

fn client_hint(error: &ClientError) -> Option<Cow<'static, str>> {
    match error {
        ClientError::Away { .. } => Some("check the address, and that `crealeph serve` runs there".into()),
        ClientError::Answer { .. } => {
            Some("check the address, and that server and command are of one version".into())
        }
        ClientError::TooLarge { .. } => Some("ask for fewer with --limit".into()),
        ClientError::Refused(why) => why.hint.clone().map(Cow::Owned),
        ClientError::Address(_) | ClientError::Token | ClientError::Certificates(_) => None,
    }
}
