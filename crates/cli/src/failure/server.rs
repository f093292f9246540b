//! What keeps the server from running, and keys from being granted.

use std::borrow::Cow;

use crealeph_runtime::access::AccessError;
use crealeph_server::ServeError;

use super::{JUDGED, NOT_JUDGED};

/// Why a command about the server failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServerFailure {
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error(transparent)]
    Access(#[from] AccessError),
}

impl ServerFailure {
    pub(super) fn code(&self) -> &'static str {
        match self {
            ServerFailure::Serve(error) => error.code(),
            ServerFailure::Access(error) => error.code(),
        }
    }

    pub(super) fn exit_code(&self) -> u8 {
        match self {
            ServerFailure::Access(
                AccessError::NoKey { .. } | AccessError::Past(_) | AccessError::TooLong { .. },
            ) => JUDGED,
            _ => NOT_JUDGED,
        }
    }

    pub(super) fn hint(&self) -> Option<Cow<'static, str>> {
        match self {
            ServerFailure::Serve(error) => error.hint().map(Cow::Borrowed),
            ServerFailure::Access(error) => error.hint(),
        }
    }
}
