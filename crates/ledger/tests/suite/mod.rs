//! The conformance suite: what any backend must do, as one list of cases that each backend's tests run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod accepting;
mod appending;
mod concurrency;
mod documents;
mod leases;
mod migrating;
mod proposed;
mod provable;
mod reading;
mod subscribing;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::Limits as JsonLimits;
use crealeph_contracts::scalar::{LedgerId, TenantId};
use crealeph_ledger::{AppendedEntry, Clock, Ledger, LedgerOptions, Location, Millis};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

/// One requirement for every backend.
pub(crate) type Case = (&'static str, fn(&dyn Fixture));

/// Every case.
pub(crate) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    cases.extend_from_slice(appending::CASES);
    cases.extend_from_slice(documents::CASES);
    cases.extend_from_slice(reading::CASES);
    cases.extend_from_slice(migrating::CASES);
    cases.extend_from_slice(concurrency::CASES);
    cases.extend_from_slice(proposed::CASES);
    cases.extend_from_slice(leases::CASES);
    cases.extend_from_slice(accepting::CASES);
    cases.extend_from_slice(provable::CASES);
    cases.extend_from_slice(subscribing::CASES);
    cases
}

/// Runs every case, each in its own place, and names the one that fails.
pub(crate) fn run(fixture: &dyn Fixture) {
    for (name, case) in cases() {
        eprintln!("conformance: {name}");
        case(fixture);
    }
}

/// Gives each case its own place.
pub(crate) trait Fixture: Sync {
    /// A place without a ledger.
    fn place(&self) -> Place;
    /// Runs statements on a place's own database, bypassing the program.
    fn execute(&self, place: &Place, sql: &str) -> Result<(), String>;
    /// The statements that turn a ledger into one of a version that filled in less.
    fn older(&self) -> &'static str;
    /// The statements that turn a ledger into one of the version before this one.
    fn previous(&self) -> &'static str;
    /// The statements that turn a ledger into one of the version right before this one.
    fn before(&self) -> &'static str;
    /// Runs statements that no trigger refuses.
    fn tamper(&self, place: &Place, sql: &str) -> Result<(), String>;
    /// The columns that identify entries in the tables.
    fn columns(&self) -> Columns;
}

/// How a backend names places.
pub(crate) struct Columns {
    /// The first columns of an entry.
    pub(crate) place: &'static str,
    /// The sequence number of an entry, and that of an edge's child.
    pub(crate) seq: &'static str,
    pub(crate) child: &'static str,
    /// The setting that makes a connection one of the version before this version of the schema.
    pub(crate) older_login: &'static str,
}

/// A place, and the folder for its keys.
pub(crate) struct Place {
    pub(crate) location: Location,
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn options(&self) -> LedgerOptions {
        LedgerOptions { keys: Some(self.folder.path().join("keys")), ..LedgerOptions::default() }
    }

    pub(crate) fn init(&self) -> Ledger {
        Ledger::init(&self.location, self.options()).unwrap()
    }

    pub(crate) fn open(&self) -> Ledger {
        Ledger::open(&self.location, self.options()).unwrap()
    }
}

/// A clock that a test moves.
#[derive(Clone)]
pub(crate) struct Hands(Arc<AtomicI64>);

impl Hands {
    pub(crate) fn at(millis: i64) -> Hands {
        Hands(Arc::new(AtomicI64::new(millis)))
    }

    pub(crate) fn set(&self, millis: i64) {
        self.0.store(millis, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let hands = Arc::clone(&self.0);
        Clock::from_fn(move || Millis::new(hands.load(Ordering::SeqCst)))
    }
}

pub(crate) fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

pub(crate) fn local() -> TenantId {
    tenant("local")
}

pub(crate) fn draft(json: &str) -> Draft {
    Draft::parse(json.as_bytes(), &JsonLimits::default())
        .unwrap_or_else(|wrong| panic!("{wrong:?} in {json}"))
}

/// A plain entry of robot `r`: its type, payload, and further members as JSON.
pub(crate) fn entry(kind: &str, payload: &str, more: &str) -> Draft {
    let comma = if more.is_empty() { "" } else { "," };
    draft(&format!(
        r#"{{"robotId":"r","module":"m","source":"s","type":"{kind}","state":"final","payload":{payload}{comma}{more}}}"#
    ))
}

/// An execution event of robot `r`; `more` goes into the payload.
pub(crate) fn event(
    execution: &str,
    state: &str,
    attempt: u64,
    snapshot_at: &str,
    on: &[&LedgerId],
    more: &str,
) -> Draft {
    let ids: Vec<String> = on.iter().map(|id| format!("\"{id}\"")).collect();
    let outcome = match state {
        "failed" => r#","error":{"code":"X","message":"x","retryable":true}"#,
        "cancelled" => r#","cancelReason":"x""#,
        _ => "",
    };
    // By the gate a coherent execution succeeds only as a dry run (§5).
    let dry_run = state == "succeeded";
    draft(&format!(
        r#"{{"robotId":"r","module":"agent-builder","source":"agent-builder","type":"execution_event","state":"{state}",
        "payload":{{"executionId":"{execution}","workflowVersion":"1","agentVersion":"1","executionContractVersion":"v1",
        "attempt":{attempt},"target":"t","action":"a","snapshotAt":"{snapshot_at}","coherenceStatus":"coherent",
        "dryRun":{dry_run}{outcome}{more}}},"lineage":{{"dependsOnLedgerIds":[{}]}}}}"#,
        ids.join(",")
    ))
}

pub(crate) fn append(ledger: &Ledger, batch: Vec<Draft>) -> Vec<AppendedEntry> {
    ledger.append(&local(), batch).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn append_one(ledger: &Ledger, one: Draft) -> AppendedEntry {
    append(ledger, vec![one]).remove(0)
}

/// Numbers that look random and are the same on every run.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}
