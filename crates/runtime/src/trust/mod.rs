//! Trust on first use: a configuration that came with a clone is not used before the user has seen what it would grant.
//! Owns the set of grants that a configuration asks for, and the record of what this user accepted. Asking is for the
//! command line.
//!
//! A change that narrows a grant is accepted silently; a change that widens one is shown.

mod grants;
mod store;

pub use grants::{Grant, GrantError, GrantSet, Part, Restriction, Widening};
pub use store::{Accepted, TrustStore, TrustStoreError};
