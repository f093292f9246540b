//! The changes that a log holds for people (R33), as an outsider compares a landing with them: the change that lands is the held one, by its digest.

use std::collections::BTreeMap;

use crealeph_contracts::Entry;
use crealeph_contracts::approval::{ApprovalEntry, LoggedApproval, SubjectKind};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::held_change::{HELD_CHANGE, HeldChangeRecord};

use crate::finding::{Finding, FindingKind};

/// The module that holds changes.
const WORK: &str = "work";

/// The digests of the held changes of a log, by run.
#[derive(Clone, Debug, Default)]
pub(crate) struct HeldChanges(BTreeMap<String, Blake3>);

impl HeldChanges {
    /// Remembers a held change; other entries are ignored.
    pub(crate) fn add(&mut self, entry: &Entry) {
        let is_works = entry.module.as_ref().is_some_and(|module| module.as_str() == WORK);
        if !is_works || entry.kind.as_str() != HELD_CHANGE.as_str() {
            return;
        }
        let Some(payload) = &entry.payload else { return };
        if let Some(record) = HeldChangeRecord::of_payload(payload) {
            let digest = Blake3::of(payload.canonical().as_bytes());
            // The first one recorded is the one that people were shown.
            self.0.entry(record.run.to_string()).or_insert(digest);
        }
    }

    /// Refuses the landing of a change that is not the held one.
    pub(crate) fn check(&self, logged: &LoggedApproval) -> Result<(), Finding> {
        let ApprovalEntry::Landing(landing) = &logged.entry else { return Ok(()) };
        let is_held = || self.0.get(landing.subject_id.as_str()) == Some(&landing.subject_digest);
        if landing.subject_kind != SubjectKind::Change || is_held() {
            return Ok(());
        }
        let run = &landing.subject_id;
        Err(Finding::new(
            FindingKind::Invalid,
            format!("lands a change of run `{run}` that the log does not hold"),
        ))
    }
}
