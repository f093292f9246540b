//! What people decide about when a run's change is held (R33): the payload of the entry `held_change`. Owns its fields. A verdict
//! names its canonical text by digest, so an approver on another machine signs exactly what the workspace lands.

use crate::contract::read_own;
use crate::digest::Blake3;
use crate::instant::Timestamp;
use crate::json::{ComposeError, JsonObject, canonical_of};
use crate::provenance::LocalUser;
use crate::receipt::ReceiptArtifact;
use crate::scalar::{Amount, Count, ItemId, Literal, Name};
use crate::shape::{List, object};
use crate::uuid::Uuid;
use crate::violation::Violation;

/// The type of the entry.
pub const HELD_CHANGE: Literal = Literal::new("held_change");
/// The state of the entry.
pub const HELD: Literal = Literal::new("held");
/// How its key begins; the run's id follows.
pub const HELD_CHANGE_KEY: &str = "held_change:";
/// The target of a change that lands in the workspace's files.
pub const WORKSPACE_TARGET: Literal = Literal::new("workspace");
/// The size limit of a record. Parts that do not fit are left out: the diff first, then the tests' output, then paths.
pub const MAX_HELD_CHANGE_BYTES: usize = 2 << 20;
/// How many paths a record lists if it would be too large with all of them.
const MAX_CUT_PATHS: usize = 100;
const WHAT: &str = "the held change";

object! {
    /// A change that waits for people, with what they need to judge it.
    HeldChangeRecord / HeldChangeRecordParts ["held_change", "R4"] {
        /// The run that made it.
        run: Uuid = "run",
        /// Its item.
        item: ItemId = "item",
        /// What the agent was asked to do.
        task: Box<str> = "task",
        /// The agent's name in the configuration.
        agent: Box<str> = "agent",
        /// The workspace, by the name that its receipts are signed with.
        workspace: Name = "workspace",
        /// Where it lands: `workspace` or `branch:NAME`.
        target: Name = "target",
        /// Since when it waits.
        since: Timestamp = "since",
        /// The state of the workspace that it was made on.
        base_state: Blake3 = "baseState",
        /// The state that it leads to from there.
        after_state: Blake3 = "afterState",
        /// How many files it touches.
        files: Count = "files",
        /// The files; the first of them if the record would be too large.
        paths: List<ReceiptArtifact> = "paths",
        /// It touches protected paths.
        protected: bool = "protected",
        /// It touches tests.
        tests: bool = "tests",
        /// What the run cost in US dollars, as its agent reported it.
        cost_usd: Option<Amount> = "costUsd",
        /// The command that tested it.
        test_command: Option<Box<str>> = "testCommand",
        /// What the tests printed; absent without tests, or if it is too large.
        test_log: Option<Box<str>> = "testLog",
        /// How many tests passed, if the runner said so.
        tests_passed: Option<Count> = "testsPassed",
        /// How many failed.
        tests_failed: Option<Count> = "testsFailed",
        /// Who started the run; absent if that is not known.
        requester: Option<LocalUser> = "requester",
        /// BLAKE3 of the diff.
        diff_digest: Blake3 = "diffDigest",
        /// The diff; absent if it is too large.
        diff: Option<Box<str>> = "diff",
    }
}

impl HeldChangeRecord {
    /// The same record within the size limit, and its canonical text.
    ///
    /// # Errors
    /// If it is too large even without the parts that can be left out.
    pub fn fitted(mut self) -> Result<(Self, String), ComposeError> {
        let leave_out: [fn(&mut Self); 4] = [
            |_| (),
            |record| record.diff = None,
            |record| record.test_log = None,
            |record| record.paths = record.paths.as_slice().iter().take(MAX_CUT_PATHS).cloned().collect(),
        ];
        for leave_out in leave_out {
            leave_out(&mut self);
            let text = self.to_canonical()?;
            if text.len() <= MAX_HELD_CHANGE_BYTES {
                return Ok((self, text));
            }
        }
        let reason = format!("it has more than {MAX_HELD_CHANGE_BYTES} bytes");
        Err(ComposeError { what: WHAT, reason })
    }

    /// Reads a record, or reports everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, MAX_HELD_CHANGE_BYTES, "R33")
    }

    /// The record that an entry holds.
    pub fn of_payload(payload: &JsonObject) -> Option<Self> {
        Self::parse(payload.as_str().as_bytes()).ok()
    }

    /// The canonical text.
    ///
    /// # Errors
    /// If it cannot be composed.
    pub fn to_canonical(&self) -> Result<String, ComposeError> {
        canonical_of(WHAT, self)
    }

    /// What a verdict names it by: the digest of the canonical text.
    ///
    /// # Errors
    /// The same as [`Self::to_canonical`].
    pub fn digest(&self) -> Result<Blake3, ComposeError> {
        Ok(Blake3::of(self.to_canonical()?.as_bytes()))
    }
}

/// The key of the entry of a run's held change.
pub fn held_change_key(run: &str) -> String {
    format!("{HELD_CHANGE_KEY}{run}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn record(diff_bytes: usize, log_bytes: usize) -> HeldChangeRecord {
        let zero = "0".repeat(64);
        let text = format!(
            r#"{{"run":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","item":"w","task":"t","agent":"a","workspace":"n","target":"workspace","since":"2026-01-02T03:04:05.000Z","baseState":"{zero}","afterState":"{zero}","files":1,"paths":[],"protected":false,"tests":false,"diffDigest":"{zero}","diff":"{}","testLog":"{}"}}"#,
            "d".repeat(diff_bytes),
            "l".repeat(log_bytes)
        );
        read_own(text.as_bytes(), usize::MAX, "R33").unwrap()
    }

    #[test]
    fn oversized_parts_are_left_out_and_the_digest_covers_the_rest() {
        let (small, text) = record(10, 10).fitted().unwrap();
        assert!(small.diff.is_some() && small.test_log.is_some());
        assert_eq!(HeldChangeRecord::parse(text.as_bytes()).unwrap(), small);
        let (large, _) = record(MAX_HELD_CHANGE_BYTES, 10).fitted().unwrap();
        assert!(large.diff.is_none() && large.test_log.is_some());
        let (larger, _) = record(10, MAX_HELD_CHANGE_BYTES).fitted().unwrap();
        assert!(larger.diff.is_none() && larger.test_log.is_none());
        let changed = HeldChangeRecord { tests: true, ..small.clone() };
        assert_ne!(changed.digest().unwrap(), small.digest().unwrap());
    }
}
