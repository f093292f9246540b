//! Who was enrolled with which key, in which groups, at which place of the log.

use std::borrow::Borrow;
use std::collections::BTreeMap;

use crealeph_contracts::approval::{ApprovalEntry, LoggedApproval};
use crealeph_contracts::scalar::Name;
use crealeph_contracts::shape::Set;

/// The people of a log, by the entries about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct People {
    /// Enrolments by key: when, and whose it is.
    keys: BTreeMap<Name, (u64, Name)>,
    /// When a key was revoked first.
    revoked: BTreeMap<Name, u64>,
    /// The groups of a person, from a place on.
    groups: BTreeMap<Name, Vec<(u64, Set<Name>)>>,
}

impl People {
    /// The people of these entries, which are in the order of the log. An entry with a problem does not count.
    pub fn of<L: Borrow<LoggedApproval>>(log: &[L]) -> People {
        let mut people = People::default();
        for logged in log.iter().map(L::borrow).filter(|logged| logged.problem.is_none()) {
            match &logged.entry {
                ApprovalEntry::Enrolment(enrolment) => {
                    let (seq, person) = (logged.seq, enrolment.person.clone());
                    people.keys.entry(enrolment.key_id.clone()).or_insert((seq, person.clone()));
                    people.groups.entry(person).or_default().push((seq, enrolment.groups.clone()));
                }
                ApprovalEntry::Invitation(invitation) => {
                    let groups = people.groups.entry(invitation.person.clone()).or_default();
                    groups.push((logged.seq, invitation.groups.clone()));
                }
                ApprovalEntry::Passkey(record) => {
                    let person = record.statement.person.clone();
                    people.keys.entry(record.key_id.clone()).or_insert((logged.seq, person));
                }
                ApprovalEntry::Revocation(revocation) => {
                    let is_meant = |key: &Name| revocation.key_id.as_ref().is_none_or(|meant| meant == key);
                    let own = people.keys.iter().filter(|(_, (_, person))| *person == revocation.person);
                    let meant: Vec<Name> = own.map(|(key, _)| key.clone()).filter(is_meant).collect();
                    for key in meant {
                        people.revoked.entry(key).or_insert(logged.seq);
                    }
                }
                _ => {}
            }
        }
        people
    }

    /// Whether anyone was ever enrolled. From then on only signed verdicts count, even if no one is left.
    pub fn ever(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Whether a key was enrolled for a person before a place of the log.
    pub fn is_enrolled(&self, person: &Name, key: &Name, before: u64) -> bool {
        self.keys.get(key).is_some_and(|(seq, owner)| owner == person && *seq < before)
    }

    /// The person of a key that may sign now.
    pub fn person_of(&self, key: &Name) -> Option<&Name> {
        self.keys.get(key).filter(|_| !self.revoked.contains_key(key)).map(|(_, person)| person)
    }

    /// The keys of a person that may sign now.
    pub fn keys_of(&self, person: &Name) -> impl Iterator<Item = &Name> {
        let own = self.keys.iter().filter(move |(_, (_, owner))| owner == person);
        own.map(|(key, _)| key).filter(|key| !self.revoked.contains_key(*key))
    }

    /// The place where a key was revoked.
    pub fn revoked_at(&self, key: &Name) -> Option<u64> {
        self.revoked.get(key).copied()
    }

    /// Whether a person is in a group at a place of the log; without a group, every enrolled person is.
    pub fn is_member(&self, person: &Name, group: Option<&Name>, at: u64) -> bool {
        let Some(groups) = self.groups.get(person) else { return false };
        let Some(group) = group else { return true };
        let then = groups.iter().rev().find(|(seq, _)| *seq <= at);
        then.is_some_and(|(_, groups)| groups.contains(group))
    }

    /// Who is in a group now and has a key that may sign, by name.
    pub fn members(&self, group: Option<&Name>) -> Vec<&Name> {
        let may_sign = |person: &Name| self.keys_of(person).next().is_some();
        self.groups
            .keys()
            .filter(|person| self.is_member(person, group, u64::MAX) && may_sign(person))
            .collect()
    }
}
