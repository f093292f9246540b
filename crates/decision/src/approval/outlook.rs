//! Whether a verdict that a person gives now would count, before it is given. It says what [`super::derive`] would say of that verdict, so
//! that no one is asked to sign what does not count.

use crealeph_contracts::approval::{ApprovalDecision, ProofKind};
use crealeph_contracts::scalar::Name;

use super::people::People;
use super::state::SubjectState;
use super::verdicts::{ApprovalSubject, Uncounted, VerdictGiver};

/// Why the verdicts of a person on a subject would not count now, if they would not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerdictOutlook {
    /// Why an approval would not count.
    pub approval: Option<Uncounted>,
    /// Why a rejection would not count.
    pub rejection: Option<Uncounted>,
}

impl VerdictOutlook {
    /// Of a person who has a key with this kind of proof, which may sign, and decides attended.
    pub fn of(
        people: &People,
        subject: &ApprovalSubject,
        state: &SubjectState,
        (person, proof): (&Name, ProofKind),
    ) -> VerdictOutlook {
        let rule = &state.rule;
        let is_in_group = people.is_member(person, rule.group.as_ref(), u64::MAX);
        let giver = VerdictGiver { person, proof, is_in_group, is_unattended: false };
        let has_approved = state.verdicts.iter().any(|verdict| {
            verdict.uncounted.is_none()
                && verdict.statement.decision == ApprovalDecision::Approve
                && verdict.statement.person == *person
        });
        let repeated = || has_approved.then_some(Uncounted::Repeated);
        VerdictOutlook {
            approval: giver.uncounted(subject, rule).or_else(repeated),
            rejection: match () {
                () if !rule.proofs.contains(&proof) => Some(Uncounted::ProofKind),
                () if !is_in_group => Some(Uncounted::NotInGroup),
                () => None,
            },
        }
    }

    /// Of someone who has no key that may sign.
    pub fn without_key() -> VerdictOutlook {
        VerdictOutlook { approval: Some(Uncounted::NotEnrolled), rejection: Some(Uncounted::NotEnrolled) }
    }
}
