//! The errors of the ledger (a file, a database), and the refusals of batches that must not be written.
//!
//! Every error says what failed and on what, and has a stable code; its hint says what to do next.

use std::borrow::Cow;

use crealeph_contracts::json::ComposeError;
use crealeph_contracts::scalar::LedgerId;
use crealeph_contracts::short_id::AmbiguousId;
use crealeph_contracts::violation::Violation;
use crealeph_decision::execution;

use crate::difference::MAX_NAMED;

use crate::position::Seq;

/// The ledger itself failed; nothing was acknowledged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum LedgerError {
    /// There is no ledger.
    #[error("there is no ledger at `{place}`")]
    Missing { place: String },
    /// There is something, but not a ledger.
    #[error("`{place}` is not a ledger: {reason}")]
    Foreign { place: String, reason: String },
    /// A ledger of a later version.
    #[error("`{place}` has schema version {found}, and this program supports up to {known}")]
    Newer { place: String, found: u32, known: u32 },
    /// A ledger of an earlier version.
    #[error(
        "`{place}` has schema version {found} and this program needs {known}: entries can be listed, exported and verified, nothing can be appended and no snapshot derived"
    )]
    Outdated { place: String, found: u32, known: u32 },
    /// The newest entry is dated far ahead of the clock.
    #[error(
        "the newest entry of tenant `{tenant}` is dated {newest}, more than {seconds} s ahead of the clock, which says {now}"
    )]
    ClockBehind { tenant: String, newest: String, now: String, seconds: i64 },
    /// The database's clock and the machine's differ too much.
    #[error(
        "the clock of `{place}` says {database} and this machine's says {machine}, more than {seconds} s apart"
    )]
    ClocksDiffer { place: String, database: String, machine: String, seconds: i64 },
    /// The file already exists.
    #[error("`{place}` already exists; nothing was changed")]
    Exists { place: String },
    /// The file was replaced or removed while it was in use.
    #[error(
        "`{place}` or its write-ahead log was replaced or removed while it was in use; the last batch is not acknowledged and may be lost with the file"
    )]
    Replaced { place: String },
    /// Someone else holds the write lock.
    #[error("`{place}` is locked by another process for more than {wait_ms} ms")]
    Busy { place: String, wait_ms: u64 },
    /// The disk is full.
    #[error("the disk of `{place}` is full")]
    Full { place: String },
    /// It cannot be written.
    #[error("`{place}` cannot be written: {reason}")]
    ReadOnly { place: String, reason: String },
    /// The database refuses it to this login.
    #[error("the database `{place}` refused: {reason}")]
    Denied { place: String, reason: String, next: String },
    /// The stored data is not what was written.
    #[error("`{place}` is damaged: {what}")]
    Damaged { place: String, seq: Option<Seq>, what: String },
    /// The other side of an encrypted connection is not who it should be.
    #[error("the connection to `{place}` cannot be trusted: {reason}")]
    Untrusted { place: String, reason: String },
    /// Reading or writing failed.
    #[error("`{place}` failed: {reason}")]
    Failed { place: String, reason: String },
    /// The connection broke in the middle of a commit, and the ledger could not reconnect to find out the outcome.
    #[error("the connection to `{place}` broke during a commit: {reason}")]
    OutcomeUnknown { place: String, reason: String },
    /// A query beyond a limit.
    #[error("{what} is {found} and the limit is {limit}")]
    Beyond { what: &'static str, found: usize, limit: usize },
    /// The prefix of several ids.
    #[error(transparent)]
    AmbiguousId(#[from] AmbiguousId),
    /// A cursor that this ledger did not issue.
    #[error("`{cursor}` is not a cursor of this ledger")]
    BadCursor { cursor: String },
    /// More batches are waiting than allowed.
    #[error("{waiting} batches already wait for the writer")]
    Overloaded { waiting: usize },
    /// The ledger was closed while the batch waited.
    #[error("the ledger was closed before the batch was written")]
    Closed,
    /// The signing keys.
    #[error(transparent)]
    Keys(#[from] crate::keys::SigningKeyError),
    /// A lease that someone else has taken since, or that was released.
    #[error("the lease `{name}` was lost{}; nothing was written",
        .holder.as_ref().map_or_else(String::new, |holder| format!(" to `{holder}`")))]
    LeaseLost { name: String, holder: Option<String> },
    /// The signer has signed another history of this log.
    #[error("the log in `{place}` does not extend what was signed: {signed} were signed, and {found}")]
    NotExtended { place: String, signed: String, found: String, file: std::path::PathBuf },
    /// An export that must not be imported.
    #[error(
        "the export is refused at line {line}: {reason}; nothing after the last whole batch was imported"
    )]
    BadExport { line: u64, reason: String },
}

impl LedgerError {
    /// Whether waiting may help: a server that does not answer, or a lock that another process holds.
    pub fn is_passing(&self) -> bool {
        matches!(self, LedgerError::Failed { .. } | LedgerError::Busy { .. })
    }

    /// What to do next.
    pub fn hint(&self) -> Option<Cow<'static, str>> {
        Some(Cow::Borrowed(match self {
            LedgerError::Missing { .. } => "create one with `crealeph ledger init`",
            LedgerError::Foreign { .. } => "give another path or URL",
            LedgerError::Newer { .. } => "use a newer crealeph",
            LedgerError::Outdated { .. } => {
                "stop older programs that use it, back it up, and run `crealeph ledger migrate`"
            }
            LedgerError::ClockBehind { .. } => {
                "set the clock if it is wrong; if it was wrong then, use another tenant, or raise `max_clock_skew_seconds` under [ledger] so that new entries are dated like the newest"
            }
            LedgerError::ClocksDiffer { .. } => {
                "set the one that is wrong, or raise `max_clock_skew_seconds` under [ledger]"
            }
            LedgerError::Replaced { .. } => "restore the right file, start again, and send the batch again",
            LedgerError::Busy { .. } => "find the process that holds it, or try again",
            LedgerError::Full { .. } => "free some space and send the batch again",
            LedgerError::ReadOnly { .. } => "check the owner and mode of the file and its folder",
            LedgerError::Damaged { .. } => {
                "do not write to it, run `crealeph ledger verify`, restore a backup"
            }
            LedgerError::Untrusted { .. } => {
                "name the certificates to trust with `sslrootcert=FILE`, and the host as its certificate does"
            }
            LedgerError::Failed { .. } => {
                "acknowledged entries are safe; send the batch again when this is fixed"
            }
            LedgerError::OutcomeUnknown { .. } => {
                "send the batch again with the same keys to learn its outcome"
            }
            LedgerError::Beyond { .. } => "ask for less, or raise the limit",
            LedgerError::AmbiguousId(_) => "give more of its characters",
            LedgerError::BadCursor { .. } => "start without one",
            LedgerError::Overloaded { .. } => "slow down and try again",
            LedgerError::Closed => "open it and send the batch again",
            LedgerError::LeaseLost { .. } => "take it again, and look at what was done in the meantime",
            LedgerError::Denied { next, .. } => return Some(Cow::Owned(next.clone())),
            LedgerError::Keys(error) => return error.hint(),
            LedgerError::NotExtended { file, .. } => {
                return Some(Cow::Owned(format!(
                    "restore the backup that has them; to sign this other history anyway, remove `{}`: everyone who has \
                 the older checkpoint will find the fork",
                    file.display()
                )));
            }
            LedgerError::Exists { .. } | LedgerError::BadExport { .. } => return None,
        }))
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            LedgerError::Missing { .. } => "ledger_missing",
            LedgerError::Foreign { .. } => "ledger_foreign",
            LedgerError::Newer { .. } => "ledger_newer",
            LedgerError::Outdated { .. } => "ledger_outdated",
            LedgerError::ClockBehind { .. } | LedgerError::ClocksDiffer { .. } => "ledger_clock",
            LedgerError::Exists { .. } => "ledger_exists",
            LedgerError::Replaced { .. } => "ledger_replaced",
            LedgerError::Busy { .. } => "ledger_busy",
            LedgerError::Full { .. } => "ledger_full",
            LedgerError::ReadOnly { .. } => "ledger_read_only",
            LedgerError::Denied { .. } => "ledger_denied",
            LedgerError::Damaged { .. } => "ledger_damaged",
            LedgerError::Untrusted { .. } => "ledger_untrusted",
            LedgerError::Failed { .. } => "ledger_failed",
            LedgerError::OutcomeUnknown { .. } => "ledger_outcome_unknown",
            LedgerError::Beyond { .. } => "ledger_limit",
            LedgerError::AmbiguousId(_) => "ambiguous_id",
            LedgerError::BadCursor { .. } => "ledger_bad_cursor",
            LedgerError::Overloaded { .. } => "ledger_overloaded",
            LedgerError::Closed => "ledger_closed",
            LedgerError::Keys(_) => "ledger_keys",
            LedgerError::LeaseLost { .. } => "lease_lost",
            LedgerError::NotExtended { .. } => "ledger_not_extended",
            LedgerError::BadExport { .. } => "ledger_bad_export",
        }
    }
}

/// Why a batch was not written. A batch is written completely or not at all.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum AppendError {
    /// An entry of the batch must not be written.
    #[error("entry {position} of the batch: {refusal}")]
    Refused {
        position: usize,
        #[source]
        refusal: EntryRefusal,
    },
    /// The ledger could not write.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl AppendError {
    /// As an error of the ledger, for an entry that the ledger itself writes.
    pub(crate) fn into_ledger(self) -> LedgerError {
        match self {
            AppendError::Ledger(error) => error,
            AppendError::Refused { refusal, .. } => LedgerError::Failed {
                place: "an entry of the ledger's own".to_owned(),
                reason: refusal.to_string(),
            },
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            AppendError::Refused { refusal, .. } => refusal.code(),
            AppendError::Ledger(error) => error.code(),
        }
    }
}

/// The identity by which an entry was recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryIdentity {
    /// Its client key.
    Key,
    /// Its execution, attempt and state.
    Event,
}

impl std::fmt::Display for EntryIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            EntryIdentity::Key => "key",
            EntryIdentity::Event => "event identity",
        })
    }
}

/// Why an entry must not be written.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the fields are named after what they hold")]
pub enum EntryRefusal {
    /// It breaks its contract.
    #[error("{}", listed(.0))]
    Invalid(Vec<Violation>),
    /// It cannot be read back (R3).
    #[error(transparent)]
    Unreadable(ComposeError),
    /// Its lineage names an entry that the tenant's ledger does not have.
    #[error("the ledger has no entry {} in this tenant; depend on entries that exist", quoted(.0))]
    UnknownLineage(Vec<String>),
    /// Already recorded, with other content (R10).
    #[error("IDEMPOTENCY_CONFLICT: entry `{existing}` has this {identity} and differs in {}; send the same content, or a new identity", differing(.differs))]
    Conflict { existing: LedgerId, identity: EntryIdentity, differs: Vec<String> },
    /// It may not follow the events before it (R9).
    #[error("{0}")]
    Transition(execution::EventRefusal),
    /// The id created for it belongs to another entry.
    #[error("the ledger already has an entry `{0}`; create a new id")]
    IdTaken(LedgerId),
    /// Its module, type or key is reserved for CreAleph.
    #[error(
        "the {member} `{value}` is reserved for CreAleph's own entries; use another {member}, see `reserved` in docs/ledger.md"
    )]
    Reserved { member: &'static str, value: String },
    /// It was decided on a state of the log that is no longer the newest.
    #[error("the log has grown from entry {after} to entry {last} since it was read; read it again")]
    Moved { after: Seq, last: Seq },
    /// It exceeds a limit.
    #[error("{what} is {found} and the limit is {limit}; make it smaller, or raise the limit")]
    TooLarge { what: &'static str, found: usize, limit: usize },
}

impl EntryRefusal {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            EntryRefusal::Invalid(_) | EntryRefusal::Unreadable(_) => "invalid_entry",
            EntryRefusal::UnknownLineage(_) => "unknown_id",
            EntryRefusal::Conflict { .. } => "IDEMPOTENCY_CONFLICT",
            EntryRefusal::Transition(
                execution::EventRefusal::AttemptLowered { .. }
                | execution::EventRefusal::AttemptNotRaised { .. },
            ) => "attempt_not_increased",
            EntryRefusal::Transition(_) => "illegal_transition",
            EntryRefusal::IdTaken(_) => "id_taken",
            EntryRefusal::Reserved { .. } => "reserved",
            EntryRefusal::Moved { .. } => "ledger_moved",
            EntryRefusal::TooLarge { .. } => "too_large",
        }
    }
}

fn differing(pointers: &[String]) -> String {
    let more = if pointers.len() >= MAX_NAMED { ", and perhaps more" } else { "" };
    format!("{}{more}", pointers.join(", "))
}

fn listed(violations: &[Violation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_lock_and_an_unreachable_server_are_worth_waiting_for() {
        let place = || "p".to_owned();
        let busy = LedgerError::Busy { place: place(), wait_ms: 5 };
        let failed = LedgerError::Failed { place: place(), reason: "r".to_owned() };
        let full = LedgerError::Full { place: place() };
        assert_eq!([&busy, &failed, &full].map(LedgerError::is_passing), [true, true, false]);
        let exists = LedgerError::Exists { place: place() };
        assert_eq!(
            (exists.hint(), full.hint()),
            (None, Some("free some space and send the batch again".into()))
        );
    }

    #[test]
    fn a_refused_batch_says_which_entry_and_what_differs() {
        let conflict = |identity, count: usize| {
            let differs = (0..count).map(|at| format!("/{at}")).collect();
            let existing = LedgerId::parse("L1").unwrap();
            AppendError::Refused {
                position: 3,
                refusal: EntryRefusal::Conflict { existing, identity, differs },
            }
        };
        let few = conflict(EntryIdentity::Key, 2).to_string();
        assert!(
            few.starts_with("entry 3 of the batch: ") && few.contains("has this key and differs in /0, /1;"),
            "{few}"
        );
        let many = conflict(EntryIdentity::Event, MAX_NAMED).to_string();
        assert!(many.contains("has this event identity") && many.contains("/19, and perhaps more"), "{many}");
        assert_eq!(conflict(EntryIdentity::Key, 1).code(), "IDEMPOTENCY_CONFLICT");
        assert_eq!(AppendError::from(LedgerError::Closed).code(), "ledger_closed");
        let own = conflict(EntryIdentity::Key, 1).into_ledger();
        assert!(matches!(&own, LedgerError::Failed { reason, .. } if reason.contains("/0")), "{own:?}");
        assert_eq!(AppendError::from(LedgerError::Closed).into_ledger(), LedgerError::Closed);
    }
}
