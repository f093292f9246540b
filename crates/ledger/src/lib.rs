//! The append-only ledger: one interface, two backends (a SQLite file, PostgreSQL), a Merkle log
//! per tenant with signed checkpoints and proofs.
//!
//! Invariants: nothing enters that its contract refuses, and recorded entries never change; a batch is written completely or
//! not at all, and what was acknowledged survives a crash; one event identity or client key has one entry, with any
//! number of writers. The ledger knows no policy, no agents and no HTTP; only its writer reads the clock.

mod accepted;
mod audit;
mod checkpoint;
mod clock;
mod columns;
mod difference;
mod entry;
mod error;
mod event;
mod facts;
mod follow;
mod heart;
mod identity;
mod ids;
mod kept;
mod keys;
mod lease;
mod ledger;
mod limits;
mod log;
mod marker;
mod merge;
mod merkle;
mod migrate;
mod pending;
mod plan;
mod pool;
mod position;
mod postgresql;
mod processes;
mod proposed;
mod query;
mod queue;
mod reach;
mod read;
mod recent;
mod reserved;
mod row;
mod signed_head;
mod sqlite;
mod store;
mod subscription;
mod transfer;
mod view;
mod writer;

pub use accepted::{
    Acceptance, AcceptanceLimits, AcceptedRequest, Cancellation, RequestName, RequestOutcome,
    RequestToAccept, RequestToRun,
};
pub use audit::{AuditFault, AuditFaultKind};
pub use checkpoint::SignedCheckpoint;
pub use clock::Clock;
pub use entry::{Content, EXECUTION_EVENT, KEY_PREFIX, MAX_PAYLOAD_DEPTH, StoredEntry};
pub use error::{AppendError, EntryIdentity, EntryRefusal, LedgerError};
pub use follow::{AllLogsWatch, GrownLogs, LogWatch};
pub use heart::Heartbeat;
pub use ids::IdKind;
pub use keys::{Keyring, SigningKeyError};
pub use lease::{Lease, LeaseClaim, LeaseHolder, LeaseToken, MAX_LEASE};
pub use ledger::{Ledger, LedgerOptions, Location};
pub use limits::LedgerLimits;
pub use log::{InclusionProof, LogStats};
pub use migrate::{MigrationProgress, MigrationSummary};
pub use pending::{AppendResult, PendingAnswer};
pub use plan::AppendedEntry;
pub use position::{MAX_SEQ, Millis, Seq};
pub use processes::{Membership, ServerProcess};
pub use proposed::{NewId, Position};
pub use reach::LineageReach;
pub use read::{Cursor, Direction, EntryPage, Filter, LineageEntries, LineageEntry, Order, StoredCheckpoint};
pub use reserved::{RESERVED_KEYS, RESERVED_MODULES, RESERVED_TYPES};
pub use store::TenantLog;
pub use subscription::Subscription;
pub use transfer::{ExportSummary, ImportSummary};
pub use view::{LogPlace, LogView};
