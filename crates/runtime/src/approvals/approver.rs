//! Someone who decides: which of their verdicts on what waits would count now, by the keys that they have.

use crealeph_contracts::approval::ProofKind;
use crealeph_contracts::scalar::Name;
use crealeph_decision::approval::{ApprovalSubject, People, SubjectOutcome, SubjectState, VerdictOutlook};

use super::history::ApprovalHistory;
use super::inbox::InboxItem;

/// A person, and what the log says of their keys and groups.
#[derive(Clone, Debug)]
pub struct Approver {
    /// The person.
    pub person: Name,
    people: People,
    /// The kinds of their keys that may sign.
    proofs: Vec<ProofKind>,
}

impl Approver {
    /// A person of a log.
    pub fn of(history: &ApprovalHistory, person: &Name) -> Approver {
        let people = history.entries.people(u64::MAX);
        let mut proofs = Vec::new();
        for proof in people.keys_of(person).filter_map(|key| history.judge.proof_of(key.as_str())) {
            if !proofs.contains(&proof) {
                proofs.push(proof);
            }
        }
        Approver { person: person.clone(), people, proofs }
    }

    /// Whether their verdicts with a kind of proof would count now.
    pub fn outlook_with(
        &self,
        proof: ProofKind,
        subject: &ApprovalSubject,
        state: &SubjectState,
    ) -> VerdictOutlook {
        match self.proofs.contains(&proof) {
            true => VerdictOutlook::of(&self.people, subject, state, (&self.person, proof)),
            false => VerdictOutlook::without_key(),
        }
    }

    /// Whether their verdicts would count now, with the key of theirs that serves best.
    pub fn outlook(&self, subject: &ApprovalSubject, state: &SubjectState) -> VerdictOutlook {
        let outlooks = self.proofs.iter().map(|proof| self.outlook_with(*proof, subject, state));
        let best = outlooks.min_by_key(|found| (found.approval.is_some(), found.rejection.is_some()));
        best.unwrap_or_else(VerdictOutlook::without_key)
    }

    /// Whether something waits for them: approvals are missing, and theirs would count.
    pub fn is_awaited(&self, item: &InboxItem) -> bool {
        item.state.as_ref().is_some_and(|state| {
            matches!(state.outcome, SubjectOutcome::Waiting { .. })
                && self.outlook(&item.subject, state).approval.is_none()
        })
    }
}
