//! The judged entries about approvals of a log, found by their subject, so that the status of a subject is derived without
//! reading the verdicts on all others.

use std::collections::BTreeMap;

use crealeph_contracts::approval::{ApprovalDecision, ApprovalEntry, LoggedApproval};
use crealeph_contracts::scalar::LedgerId;

use super::people::People;

/// The entries about approvals, which were added in the order of the log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApprovalEntries {
    /// About people and rules.
    general: Vec<LoggedApproval>,
    /// Verdicts and landings of a subject, and what became of these.
    by_subject: BTreeMap<LedgerId, Vec<LoggedApproval>>,
    /// How many there are.
    count: usize,
}

impl ApprovalEntries {
    /// Adds the next entry of the log.
    pub fn add(&mut self, logged: LoggedApproval) {
        self.count += 1;
        let subject = match &logged.entry {
            ApprovalEntry::Verdict(statement, _) => &statement.subject_id,
            ApprovalEntry::Landing(landing) => &landing.subject_id,
            ApprovalEntry::Outcome(outcome) => &outcome.subject_id,
            ApprovalEntry::Enrolment(_)
            | ApprovalEntry::Invitation(_)
            | ApprovalEntry::Passkey(_)
            | ApprovalEntry::Revocation(_)
            | ApprovalEntry::Rules(_) => return self.general.push(logged),
        };
        self.by_subject.entry(subject.clone()).or_default().push(logged);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// All entries that decide the status of a subject, in the order of the log up to a place: who was enrolled and which rules
    /// applied, and the verdicts on it with its landings. An entry about another subject changes nothing: a valid landing uses
    /// verdicts on its own subject only.
    pub fn about(&self, subject: &LedgerId, up_to: u64) -> Vec<&LoggedApproval> {
        let own = self.by_subject.get(subject).map_or(&[][..], Vec::as_slice);
        let mut found: Vec<&LoggedApproval> = self.general.iter().chain(own).collect();
        found.retain(|logged| logged.seq <= up_to);
        found.sort_by_key(|logged| logged.seq);
        found
    }

    /// The people up to a place of the log.
    pub fn people(&self, up_to: u64) -> People {
        let until: Vec<&LoggedApproval> = self.general.iter().filter(|logged| logged.seq <= up_to).collect();
        People::of(&until)
    }

    /// Whether someone rejected a subject, with a key that was not revoked since.
    pub fn is_rejected(&self, subject: &LedgerId, people: &People) -> bool {
        let own = self.by_subject.get(subject).map_or(&[][..], Vec::as_slice);
        own.iter().any(|logged| match &logged.entry {
            ApprovalEntry::Verdict(statement, _) => {
                logged.problem.is_none()
                    && statement.decision == ApprovalDecision::Reject
                    && people.person_of(&statement.key_id).is_some()
            }
            _ => false,
        })
    }
}
