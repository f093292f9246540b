//! What keeps the server from running, keys from being granted, and webhooks from being made.

use std::borrow::Cow;

use crealeph_runtime::access::AccessError;
use crealeph_runtime::receipts::{OutboxError, SignerEnrolmentError};
use crealeph_runtime::webhook::WebhookError;
use crealeph_server::ServeError;

use super::{JUDGED, NOT_JUDGED};

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
            ServerFailure::Webhook(error) => error.code(),
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            ServerFailure::Access(
                AccessError::NoKey { .. } | AccessError::Past(_) | AccessError::TooLong { .. },
            ) => JUDGED,
            ServerFailure::Signer(error) if error.is_refusal() => JUDGED,
            ServerFailure::Outbox(OutboxError::Unreportable { .. } | OutboxError::Runs(_)) => JUDGED,
            ServerFailure::Webhook(error) if error.is_refusal() => JUDGED,
            _ => NOT_JUDGED,
        }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            ServerFailure::Serve(error) => error.hint().map(Cow::Borrowed),
            ServerFailure::Access(error) => error.hint(),
            ServerFailure::Signer(error) => error.hint(),
            ServerFailure::Outbox(_) => None,
            ServerFailure::NoServerKey => {
                Some("set CREALEPH_SERVER_KEY, or name a file with --server-key".into())
            }
            ServerFailure::NoServer => Some("name it with --report-to URL".into()),
            ServerFailure::Webhook(error) => error.hint(),
        }
    }
}
