//! Signed entries about approvals, as an outsider judges them (R33): in the order of the log, each statement by a key that was enrolled
//! before it and not revoked, for this tenant and log, under the namespace of its kind, with its own nonce; each landing
//! by enough verdicts that were not used before, and of a change one that was not void.
//!
//! The ledger's own writer uses the same judge before it appends, so an honest log has no findings. Whether a
//! verdict lapsed before it was used depends on more than these entries; `crealeph approval why` derives that.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::Entry;
use crealeph_contracts::approval::{
    ADMINS, APPROVALS, ApprovalDecision, ApprovalEntry, ApprovalRule, EnrolmentStatement, FIRST_ADMIN_KEY,
    LandingEnd, LandingOutcomeRecord, LandingRecord, LoggedApproval, ProofKind, RevocationStatement,
    RuleStatement, SignedKind, SignedPayload, SubjectKind, VerdictStatement, landing_key,
    landing_outcome_key, nonce_key,
};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::passkey::AuthenticatorFacts;
use crealeph_contracts::scalar::{LedgerId, Name, TenantId};
use crealeph_contracts::shape::Set;
use crealeph_contracts::uuid::Uuid;

use crate::finding::{Finding, FindingKind};
use crate::invitations::{EnrolledPasskey, Invitation, check_counter, prove};
use crate::ssh::{PersonKey, verify_signature};

/// The types of unsigned verdicts; they can only be written before the first enrolment.
const UNSIGNED_TYPES: [&str; 2] = ["review", "run_verdict"];

/// The people, keys and rules of a log so far.
#[derive(Clone, Debug, Default)]
pub struct ApprovalLog {
    tenant: String,
    origin: String,
    pub(crate) keys: BTreeMap<String, EnrolledKey>,
    pub(crate) groups: BTreeMap<Name, Set<Name>>,
    pub(crate) nonces: BTreeSet<Uuid>,
    pub(crate) invitations: BTreeMap<Uuid, Invitation>,
    rules: Vec<ApprovalRule>,
    verdicts: BTreeMap<LedgerId, RecordedVerdict>,
    /// The last landing of each subject.
    landings: BTreeMap<LedgerId, LastLanding>,
    root: Option<String>,
}

/// A key and its owner.
#[derive(Clone, Debug)]
pub(crate) struct EnrolledKey {
    pub(crate) person: Name,
    pub(crate) material: KeyMaterial,
    pub(crate) is_revoked: bool,
    /// The count of its last signature.
    pub(crate) counter: Option<u32>,
}

/// The kind of a person's key.
#[derive(Clone, Debug)]
pub enum KeyMaterial {
    /// An SSH key.
    Ssh {
        /// The key.
        key: PersonKey,
        /// The key on one line.
        line: String,
    },
    /// A passkey.
    Passkey(Box<EnrolledPasskey>),
}

impl KeyMaterial {
    /// How it proves that a statement is the person's.
    pub fn proof(&self) -> ProofKind {
        match self {
            KeyMaterial::Ssh { .. } => ProofKind::Ssh,
            KeyMaterial::Passkey(_) => ProofKind::Passkey,
        }
    }
}

#[derive(Clone, Debug)]
struct RecordedVerdict {
    statement: VerdictStatement,
    proof: ProofKind,
    is_used: bool,
}

#[derive(Clone, Debug)]
struct LastLanding {
    id: LedgerId,
    number: u64,
    verdicts: Vec<LedgerId>,
    /// Its outcome; absent while that is not recorded.
    end: Option<LandingEnd>,
}

/// A person of the log.
#[derive(Clone, Debug)]
pub struct EnrolledPerson {
    /// Their name.
    pub name: String,
    /// Their groups.
    pub groups: Vec<String>,
    /// Their keys; none if they were invited and have enrolled no passkey yet.
    pub keys: Vec<PersonKeyState>,
}

/// A key of a person.
#[derive(Clone, Debug)]
pub struct PersonKeyState {
    /// The fingerprint; of a passkey, its id.
    pub fingerprint: String,
    /// Its kind.
    pub material: KeyMaterial,
    /// It no longer counts.
    pub is_revoked: bool,
}

pub(crate) type Judged<T> = Result<T, Finding>;

pub(crate) fn invalid(what: impl Into<String>) -> Finding {
    Finding::new(FindingKind::Invalid, what)
}

impl ApprovalLog {
    /// A log of which only name and tenant are known.
    pub fn new(origin: &str, tenant: &TenantId) -> Self {
        let (tenant, origin) = (tenant.as_str().to_owned(), origin.to_owned());
        ApprovalLog { tenant, origin, ..ApprovalLog::default() }
    }

    /// Whether anyone was ever enrolled.
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

    /// The changes whose landing has no recorded outcome: only their workspace knows whether they landed.
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

    /// How a key that is, or was, enrolled proves a statement.
    pub fn proof_of(&self, fingerprint: &str) -> Option<ProofKind> {
        self.keys.get(fingerprint).map(|key| key.material.proof())
    }

    /// Whether a person may enrol, revoke and set rules.
    pub fn is_admin(&self, person: &Name) -> bool {
        self.groups.get(person).is_some_and(|groups| groups.contains(&Name::from(ADMINS)))
    }

    /// The groups of a person who was enrolled or invited.
    pub fn groups_of(&self, person: &Name) -> Option<&Set<Name>> {
        self.groups.get(person)
    }

    /// Everyone who was ever enrolled or invited, by name.
    pub fn people(&self) -> Vec<EnrolledPerson> {
        let keys = |person: &Name| {
            let own = self.keys.iter().filter(|(_, key)| key.person == *person);
            own.map(|(fingerprint, key)| PersonKeyState {
                fingerprint: fingerprint.clone(),
                material: key.material.clone(),
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
    /// If an honest ledger would not have accepted it. The entry then leaves no trace here.
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
        let at = entry.created_at.instant();
        let authenticator = self.judge(&read, signed.as_ref(), key, &entry.id, at)?;
        Ok(Some(LoggedApproval { id: entry.id.clone(), seq, at, entry: read, authenticator, problem: None }))
    }

    /// Judges an entry that the ledger accepts at an instant, and remembers it if it is valid: what the authenticator said about
    /// itself, if a passkey proves it.
    ///
    /// # Errors
    /// The same.
    pub fn judge(
        &mut self,
        entry: &ApprovalEntry,
        signed: Option<&SignedPayload>,
        key: Option<&str>,
        id: &LedgerId,
        at: Instant,
    ) -> Result<Option<AuthenticatorFacts>, Finding> {
        match (entry, signed) {
            (ApprovalEntry::Verdict(statement, _), Some(signed)) => {
                return self.take_verdict(statement, signed, key, id);
            }
            (ApprovalEntry::Landing(landing), None) => self.land(landing, key, id),
            (ApprovalEntry::Outcome(outcome), None) => self.settle(outcome, key),
            (ApprovalEntry::Passkey(record), None) => self.enrol_passkey(record, key, at),
            (ApprovalEntry::Enrolment(statement), Some(signed)) => self.enrol(statement, signed, key),
            (ApprovalEntry::Invitation(statement), Some(signed)) => self.invite(statement, signed, key),
            (ApprovalEntry::Revocation(statement), Some(signed)) => self.revoke(statement, signed, key),
            (ApprovalEntry::Rules(statement), Some(signed)) => self.set_rules(statement, signed, key),
            _ => Err(invalid("is not signed")),
        }?;
        Ok(None)
    }

    fn enrol(
        &mut self,
        statement: &EnrolmentStatement,
        signed: &SignedPayload,
        key: Option<&str>,
    ) -> Judged<()> {
        self.check_log(&statement.tenant_id, &statement.log_origin)?;
        let person_key = PersonKey::parse(statement.public_key.as_str())
            .map_err(|error| invalid(format!("enrols a key that is not accepted: {error}")))?;
        let is_plain = person_key.line().is_ok_and(|line| line == statement.public_key.as_str());
        if !is_plain || person_key.fingerprint() != statement.key_id.as_str() {
            return Err(invalid("enrols a key under another fingerprint, or not in its plain form"));
        }
        match self.keys.get(person_key.fingerprint()) {
            Some(known) if known.is_revoked => return Err(invalid("enrols a key that was revoked")),
            Some(known) if known.person != statement.person => {
                return Err(invalid(format!("enrols a key that belongs to `{}`", known.person)));
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
            check_ssh(&person_key, SignedKind::Enrolment, signed)?;
            self.root = Some(person_key.fingerprint().to_owned());
        }
        self.nonces.insert(statement.nonce);
        self.groups.insert(statement.person.clone(), statement.groups.clone());
        let fingerprint = person_key.fingerprint().to_owned();
        self.keys.entry(fingerprint).or_insert(EnrolledKey {
            person: statement.person.clone(),
            material: KeyMaterial::Ssh { key: person_key, line: statement.public_key.as_str().to_owned() },
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
        let is_invited = |invitation: &&mut Invitation| {
            *invitation.person() == statement.person && statement.key_id.is_none()
        };
        let is_any_invited = self.invitations.values_mut().any(|invitation| is_invited(&invitation));
        if !self.keys.iter_mut().any(|key| is_meant(&key)) && !is_any_invited {
            return Err(invalid(format!("revokes a key that `{}` never had", statement.person)));
        }
        self.check_signature(SignedKind::Revocation, &statement.signer_key_id, signed)?;
        self.nonces.insert(statement.nonce);
        self.keys.iter_mut().filter(is_meant).for_each(|(_, key)| key.is_revoked = true);
        self.invitations.values_mut().filter(is_invited).for_each(|invitation| invitation.is_void = true);
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
    ) -> Judged<Option<AuthenticatorFacts>> {
        self.check_log(&statement.tenant_id, &statement.log_origin)?;
        self.check_nonce(&statement.nonce, key)?;
        self.check_signer(&statement.person, &statement.key_id)?;
        let facts = self.check_signature(SignedKind::Verdict, &statement.key_id, signed)?;
        self.nonces.insert(statement.nonce);
        let (statement, proof) = (statement.clone(), signed.proof);
        self.verdicts.insert(id.clone(), RecordedVerdict { statement, proof, is_used: false });
        Ok(facts)
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
        let rule = self.rule_of(landing)?;
        let mut people = BTreeSet::new();
        for id in landing.verdicts.as_slice() {
            let verdict = self.verdicts.get(id);
            let verdict =
                verdict.ok_or_else(|| invalid(format!("lands by `{id}`, which is not a verdict")))?;
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
                () if !rule.proofs.contains(&verdict.proof) => {
                    "of a kind of proof that its rule does not accept"
                }
                () if !people.insert(person.clone()) => "by a person who is counted already",
                () => continue,
            };
            return Err(invalid(format!("lands by a verdict {problem}, `{id}`")));
        }
        self.check_quorum(&rule, &people)?;
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

    /// The outcome of a landing: of the last of its subject, once. A void one returns its verdicts.
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

    /// The rule that a landing names, which must be in force.
    fn rule_of(&self, landing: &LandingRecord) -> Judged<ApprovalRule> {
        let built_in = ApprovalRule::built_in(landing.subject_kind);
        let is_it = |rule: &&ApprovalRule| rule.digest().is_ok_and(|digest| digest == landing.rule_digest);
        let rule = self.rules.iter().chain([&built_in]).find(is_it);
        rule.cloned().ok_or_else(|| invalid("lands under a rule that is not in force"))
    }

    /// Whether enough of those who approved are in the group of the rule.
    fn check_quorum(&self, rule: &ApprovalRule, people: &BTreeSet<Name>) -> Judged<()> {
        let is_in = |person: &Name| match (&rule.group, self.groups.get(person)) {
            (Some(group), groups) => groups.is_some_and(|groups| groups.contains(group)),
            (None, _) => true,
        };
        let counted = people.iter().filter(|person| is_in(person)).count() as u64;
        if counted >= rule.approvals.get() {
            return Ok(());
        }
        let (name, wanted) = (&rule.name, rule.approvals);
        Err(invalid(format!("lands by {counted} approvals, and rule `{name}` requires {wanted}")))
    }

    pub(crate) fn check_log(&self, tenant: &TenantId, origin: &Name) -> Judged<()> {
        if tenant.as_str() != self.tenant {
            return Err(invalid(format!("holds a statement for another tenant, `{tenant}`")));
        }
        if origin.as_str() != self.origin {
            return Err(invalid(format!("holds a statement for another log, `{origin}`")));
        }
        Ok(())
    }

    pub(crate) fn check_nonce(&self, nonce: &Uuid, key: Option<&str>) -> Judged<()> {
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
                "is signed with {key_id}, which belongs to `{}`, not to `{person}`",
                key.person
            ))),
            Some(key) if key.is_revoked => {
                Err(invalid(format!("is signed with {key_id}, which was revoked")))
            }
            Some(_) => Ok(()),
            None => Err(invalid(format!("is signed with {key_id}, which was not enrolled before"))),
        }
    }

    pub(crate) fn check_admin(&self, person: &Name, key_id: &Name) -> Judged<()> {
        self.check_signer(person, key_id)?;
        match self.is_admin(person) {
            true => Ok(()),
            false => Err(invalid(format!(
                "is signed by `{person}`, who is not in the group `{}`",
                ADMINS.as_str()
            ))),
        }
    }

    /// The signature by an enrolled key, and what its authenticator said about itself if it is a passkey's; the count of a hardware key or
    /// passkey must rise, or always be 0. Admin statements need SSH keys: a page could ask a passkey for anything.
    pub(crate) fn check_signature(
        &mut self,
        kind: SignedKind,
        key_id: &Name,
        signed: &SignedPayload,
    ) -> Judged<Option<AuthenticatorFacts>> {
        let Some(enrolled) = self.keys.get_mut(key_id.as_str()) else {
            return Err(invalid(format!("is signed with {key_id}, which was not enrolled before")));
        };
        if enrolled.material.proof() != signed.proof {
            let (found, expected) = (signed.proof, enrolled.material.proof());
            return Err(invalid(format!(
                "has a proof of the kind `{found}`, and {key_id} is of `{expected}`"
            )));
        }
        let (counter, facts) = match &enrolled.material {
            KeyMaterial::Ssh { key, .. } => (check_ssh(key, kind, signed)?, None),
            KeyMaterial::Passkey(passkey) if kind == SignedKind::Verdict => {
                let facts = prove(passkey, signed)?;
                (Some(facts.counter), Some(facts))
            }
            KeyMaterial::Passkey(_) => {
                return Err(invalid("is signed with a passkey, and admin statements need an SSH key"));
            }
        };
        check_counter(enrolled.counter, counter)?;
        enrolled.counter = counter.or(enrolled.counter);
        Ok(facts)
    }
}

fn check_ssh(key: &PersonKey, kind: SignedKind, signed: &SignedPayload) -> Judged<Option<u32>> {
    if signed.proof != ProofKind::Ssh || signed.passkey.is_some() {
        return Err(invalid("has a passkey in addition to the signature of an SSH key"));
    }
    let message = signed.statement.canonical();
    let facts = verify_signature(key, kind.namespace(), message.as_bytes(), signed.signature.as_str());
    let facts =
        facts.map_err(|error| Finding::new(FindingKind::Forged, format!("is not proved: {error}")))?;
    Ok(facts.counter)
}
