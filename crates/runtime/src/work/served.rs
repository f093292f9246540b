//! The workspace that a server is started in. Owns who sees its runs: only the tenant that its configuration names; and checks
//! that its `.crealeph` belongs to the user whenever it is read.

use std::path::PathBuf;
use std::sync::Arc;

use crealeph_contracts::scalar::TenantId;
use crealeph_workspace::{OwnershipError, Registry};

use super::reader::RunReader;
use super::store::{RunStore, RunsError};

/// Why a workspace is not shown.
#[derive(Debug, thiserror::Error)]
pub enum ServedError {
    /// Its `.crealeph` is not the user's own.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// Its runs cannot be read.
    #[error(transparent)]
    Runs(#[from] RunsError),
}

/// A workspace on the server's own machine.
#[derive(Debug)]
pub struct ServedWorkspace {
    folder: PathBuf,
    tenant: TenantId,
    registry: Registry,
    /// Read on from where the last request ended.
    runs: Arc<RunStore>,
}

impl ServedWorkspace {
    /// A folder by its real path, whose runs are recorded for this tenant of the server's ledger.
    pub fn new(folder: PathBuf, tenant: TenantId, registry: Registry) -> Self {
        ServedWorkspace { runs: Arc::new(RunStore::new(&folder)), folder, tenant, registry }
    }

    /// Its runs as they are now, for this tenant; absent if they are another's, or there are none.
    ///
    /// # Errors
    /// When its `.crealeph` is not the user's own, or the journal cannot be read.
    pub fn runs(&self, tenant: &TenantId) -> Result<Option<RunReader>, ServedError> {
        if *tenant != self.tenant || !self.registry.check(&self.folder)? {
            return Ok(None);
        }
        Ok(Some(RunReader::of(Arc::clone(&self.runs))?))
    }
}
