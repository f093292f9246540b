//! What people signed, as an outsider judges it (R33): in the order of the log, each statement by a key that was enrolled
//! before it and not revoked, for this tenant and log, under the namespace of its kind, with a nonce of its own; each landing
//! by enough verdicts that nobody used before, and of a change one that was not void.
//!
//! The ledger's own writer asks the same judge before it appends, so an honest log has nothing to find here. Whether a
//! verdict lapsed before it was used depends on more than these entries; `crealeph approval why` derives that.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::Entry;
use crealeph_contracts::approval::{
    ADMINS, APPROVALS, ApprovalDecision, ApprovalEntry, ApprovalRule, EnrolmentStatement, FIRST_ADMIN_KEY,
    LandingEnd, LandingOutcomeRecord, LandingRecord, LoggedApproval, RevocationStatement, RuleStatement,
    SignedKind, SignedPayload, SubjectKind, VerdictStatement, landing_key, landing_outcome_key, nonce_key,
};
use crealeph_contracts::scalar::{LedgerId, Name, TenantId};
use crealeph_contracts::shape::Set;
use crealeph_contracts::uuid::Uuid;

use crate::finding::{Finding, FindingKind};
use crate::ssh::{PersonKey, verify_signature};

/// The types of verdicts that nobody signed; only before the first enrolment can one be written.
const UNSIGNED_TYPES: [&str; 2] = ["review", "run_verdict"];

/// The people, keys and rules of a log so far.
#[derive(Clone, Debug, Default)]
pub struct ApprovalLog {
    tenant: String,
    origin: String,
    keys: BTreeMap<String, EnrolledKey>,
    groups: BTreeMap<Name, Set<Name>>,
    nonces: BTreeSet<Uuid>,
    rules: Vec<ApprovalRule>,
    verdicts: BTreeMap<LedgerId, RecordedVerdict>,
    /// The last landing of each subject.
    landings: BTreeMap<LedgerId, LastLanding>,
    root: Option<String>,
}

/// A key and whose it is.
#[derive(Clone, Debug)]
struct EnrolledKey {
    person: Name,
    key: PersonKey,
    /// The key on one line.
    line: String,
    is_revoked: bool,
    /// The count of its last signature.
    counter: Option<u32>,
}

#[derive(Clone, Debug)]
struct RecordedVerdict {
    statement: VerdictStatement,
    is_used: bool,
}

#[derive(Clone, Debug)]
struct LastLanding {
    id: LedgerId,
    number: u64,
    verdicts: Vec<LedgerId>,
    /// What became of it; absent while that is not recorded.
    end: Option<LandingEnd>,
}

/// A person as the log has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EnrolledPerson {
    /// Their name.
    pub name: String,
    /// Their groups.
    pub groups: Vec<String>,
    /// Their keys: fingerprint, line, and whether it was revoked.
    pub keys: Vec<PersonKeyState>,
}

/// A key of a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PersonKeyState {
    /// The fingerprint.
    pub fingerprint: String,
    /// The public key on one line.
    pub line: String,
    /// It counts no more.
    pub is_revoked: bool,
}

type Judged<T> = Result<T, Finding>;

fn invalid(what: impl Into<String>) -> Finding {
    Finding::new(FindingKind::Invalid, what)
}

impl ApprovalLog {
    /// A log of which nothing but name and tenant is known.
    pub fn new(origin: &str, tenant: &TenantId) -> Self {
        let (tenant, origin) = (tenant.as_str().to_owned(), origin.to_owned());
        ApprovalLog { tenant, origin, ..ApprovalLog::default() }
    }

    /// Whether anybody was ever enrolled.
    pub fn had_people(&self) -> bool {
        self.root.is_some()
    }

    /// The fingerprint of the first admin's key, the root of trust.
    pub fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }

    /// How many verdicts people signed.
    pub fn verdicts(&self) -> usize {
        self.verdicts.len()
    }

    /// The changes whose landing has no recorded outcome: whether they landed is known where their workspace is.
    pub fn unsettled(&self) -> impl Iterator<Item = &LedgerId> {
        self.landings.iter().filter(|(_, landing)| landing.end.is_none()).map(|(subject, _)| subject)
    }

    /// How many times a subject was about to land.
    pub fn landings_of(&self, subject: &LedgerId) -> u64 {
        self.landings.get(subject).map_or(0, |landing| landing.number)
    }

    /// The rules in force, in the order in which they are tried.
    pub fn rules(&self) -> &[ApprovalRule] {
        &self.rules
    }

    /// The person of a key that may sign.
    pub fn person_of(&self, fingerprint: &str) -> Option<&Name> {
        self.keys.get(fingerprint).filter(|key| !key.is_revoked).map(|key| &key.person)
    }

    /// Whether somebody may enrol, revoke and set rules.
    pub fn is_admin(&self, person: &Name) -> bool {
        self.groups.get(person).is_some_and(|groups| groups.contains(&Name::from(ADMINS)))
    }

    /// Everybody who was ever enrolled, by name.
    pub fn people(&self) -> Vec<EnrolledPerson> {
        let keys = |person: &Name| {
            let own = self.keys.iter().filter(|(_, key)| key.person == *person);
            own.map(|(fingerprint, key)| PersonKeyState {
                fingerprint: fingerprint.clone(),
                line: key.line.clone(),
                is_revoked: key.is_revoked,
            })
            .collect()
        };
        let people = self.groups.iter().map(|(person, groups)| EnrolledPerson {
            name: person.as_str().to_owned(),
            groups: groups.as_slice().iter().map(|group| group.as_str().to_owned()).collect(),
            keys: keys(person),
        });
        people.collect()
    }

    /// Judges the next entry of the log and remembers it; `None` if it is not about approvals.
    ///
    /// # Errors
    /// With what an honest ledger would not have taken. The entry then leaves no trace here.
    pub fn add(&mut self, entry: &Entry) -> Result<Option<LoggedApproval>, Finding> {
        let kind = entry.kind.as_str();
        if self.had_people() && UNSIGNED_TYPES.contains(&kind) {
            return Err(invalid("is an unsigned verdict after the first enrolment"));
        }
        if entry.module.as_ref().is_none_or(|module| module.as_str() != APPROVALS.as_str()) {
            return Ok(None);
        }
        let payload = entry.payload.as_ref().ok_or_else(|| invalid("has no payload"))?;
        let (read, signed) = ApprovalEntry::read(kind, payload).map_err(invalid)?;
        let seq = entry.seq.map_or(0, |seq| seq.get());
        if let ApprovalEntry::Landing(landing) = &read
            && landing.checked_seq.get() + 1 != seq
        {
            return Err(invalid("is a landing that does not follow the place where it was checked"));
        }
        let key = entry.key.as_ref().map(|key| key.as_str());
        self.judge(&read, signed.as_ref(), key, &entry.id)?;
        Ok(Some(LoggedApproval {
            id: entry.id.clone(),
            seq,
            at: entry.created_at.instant(),
            entry: read,
            problem: None,
        }))
    }

    /// Judges what an entry says, and remembers it if it holds.
    ///
    /// # Errors
    /// The same.
    pub fn judge(
        &mut self,
        entry: &ApprovalEntry,
        signed: Option<&SignedPayload>,
        key: Option<&str>,
        id: &LedgerId,
    ) -> Result<(), Finding> {
        match (entry, signed) {
            (ApprovalEntry::Landing(landing), None) => self.land(landing, key, id),
            (ApprovalEntry::Outcome(outcome), None) => self.settle(outcome, key),
            (ApprovalEntry::Enrolment(statement), Some(signed)) => self.enrol(statement, signed, key),
            (ApprovalEntry::Revocation(statement), Some(signed)) => self.revoke(statement, signed, key),
            (ApprovalEntry::Rules(statement), Some(signed)) => self.set_rules(statement, signed, key),
            (ApprovalEntry::Verdict(statement, _), Some(signed)) => {
                self.take_verdict(statement, signed, key, id)
            }
            _ => Err(invalid("is not signed")),
        }
    }

    fn enrol(
        &mut self,
        statement: &EnrolmentStatement,
        signed: &SignedPayload,
        key: Option<&str>,
    ) -> Judged<()> {
        self.check_log(&statement.tenant_id, &statement.log_origin)?;
        let person_key = PersonKey::parse(statement.public_key.as_str())
            .map_err(|error| invalid(format!("enrols a key that is not taken: {error}")))?;
        let is_plain = person_key.line().is_ok_and(|line| line == statement.public_key.as_str());
        if !is_plain || person_key.fingerprint() != statement.key_id.as_str() {
            return Err(invalid("enrols a key under another fingerprint, or not in its plain form"));
        }
        match self.keys.get(person_key.fingerprint()) {
            Some(known) if known.is_revoked => return Err(invalid("enrols a key that was revoked")),
            Some(known) if known.person != statement.person => {
                return Err(invalid(format!("enrols a key that is `{}`'s", known.person)));
            }
            _ => {}
        }
        if self.had_people() {
            self.check_nonce(&statement.nonce, key)?;
            self.check_admin(&statement.signed_by, &statement.signer_key_id)?;
            self.check_signature(SignedKind::Enrolment, &statement.signer_key_id, signed)?;
        } else {
            let is_own =
                statement.signed_by == statement.person && statement.signer_key_id == statement.key_id;
            if !is_own || !statement.groups.contains(&Name::from(ADMINS)) || key != Some(FIRST_ADMIN_KEY) {
                return Err(invalid("is the first enrolment, and not one of an admin by their own key"));
            }
            check_one(&person_key, SignedKind::Enrolment, signed)?;
            self.root = Some(person_key.fingerprint().to_owned());
        }
        self.nonces.insert(statement.nonce);
        self.groups.insert(statement.person.clone(), statement.groups.clone());
        let fingerprint = person_key.fingerprint().to_owned();
        self.keys.entry(fingerprint).or_insert(EnrolledKey {
            person: statement.person.clone(),
            key: person_key,
            line: statement.public_key.as_str().to_owned(),
            is_revoked: false,
            counter: None,
        });
        Ok(())
    }

    fn revoke(
        &mut self,
        statement: &RevocationStatement,
        signed: &SignedPayload,
        key: Option<&str>,
    ) -> Judged<()> {
        self.check_log(&statement.tenant_id, &statement.log_origin)?;
        self.check_nonce(&statement.nonce, key)?;
        self.check_admin(&statement.signed_by, &statement.signer_key_id)?;
        let is_meant = |(fingerprint, key): &(&String, &mut EnrolledKey)| {
            let is_it = statement.key_id.as_ref().is_none_or(|id| id.as_str() == fingerprint.as_str());
            key.person == statement.person && is_it
        };
        if !self.keys.iter_mut().any(|key| is_meant(&key)) {
            return Err(invalid(format!("revokes a key that `{}` never had", statement.person)));
        }
        self.check_signature(SignedKind::Revocation, &statement.signer_key_id, signed)?;
        self.nonces.insert(statement.nonce);
        self.keys.iter_mut().filter(is_meant).for_each(|(_, key)| key.is_revoked = true);
        Ok(())
    }

    fn set_rules(
        &mut self,
        statement: &RuleStatement,
        signed: &SignedPayload,
        key: Option<&str>,
    ) -> Judged<()> {
        self.check_log(&statement.tenant_id, &statement.log_origin)?;
        self.check_nonce(&statement.nonce, key)?;
        self.check_admin(&statement.signed_by, &statement.signer_key_id)?;
        self.check_signature(SignedKind::Rules, &statement.signer_key_id, signed)?;
        self.nonces.insert(statement.nonce);
        self.rules = statement.rules.as_slice().to_vec();
        Ok(())
    }

    fn take_verdict(
        &mut self,
        statement: &VerdictStatement,
        signed: &SignedPayload,
        key: Option<&str>,
        id: &LedgerId,
    ) -> Judged<()> {
        self.check_log(&statement.tenant_id, &statement.log_origin)?;
        self.check_nonce(&statement.nonce, key)?;
        self.check_signer(&statement.person, &statement.key_id)?;
        self.check_signature(SignedKind::Verdict, &statement.key_id, signed)?;
        self.nonces.insert(statement.nonce);
        let verdict = RecordedVerdict { statement: statement.clone(), is_used: false };
        self.verdicts.insert(id.clone(), verdict);
        Ok(())
    }

    /// A landing: the next of its subject, by approvals of it by different people, none of them used or revoked.
    fn land(&mut self, landing: &LandingRecord, key: Option<&str>, id: &LedgerId) -> Judged<()> {
        let number = self.landings_of(&landing.subject_id) + 1;
        let is_next = landing.number.get() == number;
        if !is_next || key != Some(landing_key(&landing.subject_id, number).as_str()) {
            return Err(invalid("is a landing out of turn"));
        }
        let last = self.landings.get(&landing.subject_id);
        if last.is_some_and(|last| last.end != Some(LandingEnd::Void)) {
            return Err(invalid("lands again what has landed"));
        }
        let mut people = BTreeSet::new();
        for id in landing.verdicts.as_slice() {
            let verdict = self.verdicts.get(id);
            let verdict = verdict.ok_or_else(|| invalid(format!("lands by `{id}`, which is no verdict")))?;
            let VerdictStatement {
                subject_id, subject_digest, decision, rule_digest, person, key_id, ..
            } = &verdict.statement;
            let is_of_it = *subject_id == landing.subject_id
                && *subject_digest == landing.subject_digest
                && *rule_digest == landing.rule_digest;
            let problem = match () {
                () if verdict.is_used => "that another landing used",
                () if *decision != ApprovalDecision::Approve || !is_of_it => "that does not approve it",
                () if self.person_of(key_id.as_str()).is_none() => "whose key was revoked before",
                () if !people.insert(person.clone()) => "by a person who is counted already",
                () => continue,
            };
            return Err(invalid(format!("lands by a verdict {problem}, `{id}`")));
        }
        self.check_quorum(landing, &people)?;
        for id in landing.verdicts.as_slice() {
            if let Some(verdict) = self.verdicts.get_mut(id) {
                verdict.is_used = true;
            }
        }
        // A draft lands in the same transaction.
        let end = (landing.subject_kind == SubjectKind::Draft).then_some(LandingEnd::Completed);
        let verdicts = landing.verdicts.as_slice().to_vec();
        let last = LastLanding { id: id.clone(), number, verdicts, end };
        self.landings.insert(landing.subject_id.clone(), last);
        Ok(())
    }

    /// What became of a landing: of the last of its subject, once. A void one gives its verdicts back.
    fn settle(&mut self, outcome: &LandingOutcomeRecord, key: Option<&str>) -> Judged<()> {
        let number = outcome.number.get();
        if key != Some(landing_outcome_key(&outcome.subject_id, number).as_str()) {
            return Err(invalid("does not have the key of its landing"));
        }
        let last = self.landings.get_mut(&outcome.subject_id);
        let Some(last) = last.filter(|last| last.id == outcome.landing && last.number == number) else {
            return Err(invalid("is the outcome of a landing that is not there"));
        };
        if last.end.is_some() {
            return Err(invalid("is a second outcome of a landing"));
        }
        last.end = Some(outcome.outcome);
        if outcome.outcome == LandingEnd::Void {
            for id in &last.verdicts {
                if let Some(verdict) = self.verdicts.get_mut(id) {
                    verdict.is_used = false;
                }
            }
        }
        Ok(())
    }

    /// Whether enough of those who approved are in the group of the rule, which must be in force.
    fn check_quorum(&self, landing: &LandingRecord, people: &BTreeSet<Name>) -> Judged<()> {
        let built_in = ApprovalRule::built_in(landing.subject_kind);
        let is_it = |rule: &&ApprovalRule| rule.digest().is_ok_and(|digest| digest == landing.rule_digest);
        let Some(rule) = self.rules.iter().chain([&built_in]).find(is_it) else {
            return Err(invalid("lands under a rule that is not in force"));
        };
        let is_in = |person: &Name| match (&rule.group, self.groups.get(person)) {
            (Some(group), groups) => groups.is_some_and(|groups| groups.contains(group)),
            (None, _) => true,
        };
        let counted = people.iter().filter(|person| is_in(person)).count() as u64;
        if counted >= rule.approvals.get() {
            return Ok(());
        }
        let (name, wanted) = (&rule.name, rule.approvals);
        Err(invalid(format!("lands by {counted} approvals, and rule `{name}` wants {wanted}")))
    }

    fn check_log(&self, tenant: &TenantId, origin: &Name) -> Judged<()> {
        if tenant.as_str() != self.tenant {
            return Err(invalid(format!("holds a statement for another tenant, `{tenant}`")));
        }
        if origin.as_str() != self.origin {
            return Err(invalid(format!("holds a statement for another log, `{origin}`")));
        }
        Ok(())
    }

    fn check_nonce(&self, nonce: &Uuid, key: Option<&str>) -> Judged<()> {
        if self.nonces.contains(nonce) {
            return Err(invalid(format!("repeats the nonce {nonce}")));
        }
        match key == Some(nonce_key(nonce).as_str()) {
            true => Ok(()),
            false => Err(invalid("does not have the key of its nonce")),
        }
    }

    fn check_signer(&self, person: &Name, key_id: &Name) -> Judged<()> {
        match self.keys.get(key_id.as_str()) {
            Some(key) if key.person != *person => Err(invalid(format!(
                "is signed with {key_id}, which is `{}`'s, not `{person}`'s",
                key.person
            ))),
            Some(key) if key.is_revoked => {
                Err(invalid(format!("is signed with {key_id}, which was revoked")))
            }
            Some(_) => Ok(()),
            None => Err(invalid(format!("is signed with {key_id}, which was not enrolled before"))),
        }
    }

    fn check_admin(&self, person: &Name, key_id: &Name) -> Judged<()> {
        self.check_signer(person, key_id)?;
        match self.is_admin(person) {
            true => Ok(()),
            false => Err(invalid(format!(
                "is signed by `{person}`, who is not in the group `{}`",
                ADMINS.as_str()
            ))),
        }
    }

    /// The signature by an enrolled key; the count of a hardware key must rise, or be 0 as ever.
    fn check_signature(&mut self, kind: SignedKind, key_id: &Name, signed: &SignedPayload) -> Judged<()> {
        let Some(enrolled) = self.keys.get_mut(key_id.as_str()) else {
            return Err(invalid(format!("is signed with {key_id}, which was not enrolled before")));
        };
        let counter = check_one(&enrolled.key, kind, signed)?;
        if let (Some(last), Some(counter)) = (enrolled.counter, counter)
            && counter <= last
            && (last, counter) != (0, 0)
        {
            let what = format!("has the signature count {counter} after {last}: the hardware key was copied");
            return Err(invalid(what));
        }
        enrolled.counter = counter.or(enrolled.counter);
        Ok(())
    }
}

fn check_one(key: &PersonKey, kind: SignedKind, signed: &SignedPayload) -> Judged<Option<u32>> {
    let message = signed.statement.canonical();
    let facts = verify_signature(key, kind.namespace(), message.as_bytes(), signed.signature.as_str());
    let facts =
        facts.map_err(|error| Finding::new(FindingKind::Forged, format!("is not proved: {error}")))?;
    Ok(facts.counter)
}
