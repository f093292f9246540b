//! Why a check of evidence ends early: something is wrong, or it cannot be checked.

use crealeph_ledger::LedgerError;
use crealeph_verify::Finding;

use crate::failure::{ArgumentFailure, Failure, InputFailure, LedgerFailure, WorkFailure};

/// A file or ledger cannot be read, or something in it is wrong.
pub(super) enum Stop {
    Failure(Failure),
    Finding(Finding),
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(failure)
    }
}

macro_rules! stops {
    ($($failure:ty),+) => {
        $(impl From<$failure> for Stop {
            fn from(failure: $failure) -> Self {
                Stop::Failure(failure.into())
            }
        })+
    };
}

stops!(ArgumentFailure, InputFailure, LedgerError, LedgerFailure, WorkFailure);

impl From<Finding> for Stop {
    fn from(finding: Finding) -> Self {
        Stop::Finding(finding)
    }
}
