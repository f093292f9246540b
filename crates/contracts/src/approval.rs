//! What people sign (R33): verdicts, enrolments, revocations and approval rules, and the record of a landing. The
//! RFC 8785 text of a statement is what is signed; it is stored with its signature, whole, and read back strictly.

use crate::contract::read_own;
use crate::digest::{Blake3, Sha256};
use crate::instant::{Instant, Timestamp};
use crate::json::{ComposeError, JsonObject, canonical_of};
use crate::passkey::{
    AuthenticatorFacts, InvitationStatement, PASSKEY_ENROLMENT, PasskeyAssertion, PasskeyRecord,
    PasskeyRequest, PasskeyStart, PasskeyStatement, SignInStatement,
};
use crate::scalar::{Amount, ApprovalCount, Count, LedgerId, Literal, Minutes, Name, TenantId, Text};
use crate::shape::{List, Set, Shape, object, words};
use crate::uuid::Uuid;
use crate::violation::Violation;

/// The module under which approvals are recorded. Entries of the same types by other modules are not ours.
pub const APPROVALS: Literal = Literal::new("crealeph-approvals");
/// The robot of the entries that are about a tenant, not about a robot.
pub const TENANT_ROBOT: Literal = Literal::new("crealeph-tenant");
/// The group whose members enrol and revoke people and set the rules.
pub const ADMINS: Literal = Literal::new("admins");
/// The key of the first admin's enrolment; a log has at most one. Keys that start with `crealeph:` were always reserved.
pub const FIRST_ADMIN_KEY: &str = "crealeph:first-admin";
/// The largest statement that is read.
pub const MAX_SIGNED_BYTES: usize = 1 << 20;
/// The longest reason, in bytes.
pub const MAX_REASON_BYTES: usize = 4_096;

words! {
    /// What kind of statement is signed. Each kind has its own entry type and its own signature namespace.
    SignedKind {
        /// A person says yes or no.
        Verdict = "verdict",
        /// A person and a key that is theirs.
        Enrolment = "person_enrolment",
        /// A person who may enrol a passkey.
        Invitation = "person_invitation",
        /// A key, or a person, that no longer counts.
        Revocation = "person_revocation",
        /// What needs how many approvals.
        Rules = "approval_rule",
    }
}

impl SignedKind {
    /// The namespace of its signatures, so that none can be used as another kind.
    pub fn namespace(self) -> &'static str {
        match self {
            SignedKind::Verdict => "crealeph-verdict",
            SignedKind::Enrolment => "crealeph-enrolment",
            SignedKind::Invitation => "crealeph-invitation",
            SignedKind::Revocation => "crealeph-revocation",
            SignedKind::Rules => "crealeph-rule",
        }
    }

    /// The type of its entries.
    pub fn entry_type(self) -> Literal {
        match self {
            SignedKind::Verdict => Literal::new("verdict"),
            SignedKind::Enrolment => Literal::new("person_enrolment"),
            SignedKind::Invitation => Literal::new("person_invitation"),
            SignedKind::Revocation => Literal::new("person_revocation"),
            SignedKind::Rules => Literal::new("approval_rule"),
        }
    }
}

/// The type of a landing's entry.
pub const LANDING: Literal = Literal::new("landing");
/// The type of the entry that says what became of the landing of a change.
pub const LANDING_OUTCOME: Literal = Literal::new("landing_outcome");

words! {
    /// What waits for a person.
    SubjectKind {
        /// A draft of the Builder (R14).
        Draft = "draft",
        /// A held change of a work run.
        Change = "change",
    }
}

words! {
    /// What a person says.
    ApprovalDecision {
        /// It may land.
        Approve = "approve",
        /// It may not.
        Reject = "reject",
    }
}

words! {
    /// How a person proves that a statement is theirs.
    ProofKind {
        /// A signature by an SSH key (SSHSIG).
        Ssh = "ssh",
        /// An assertion of a passkey.
        Passkey = "passkey",
    }
}

words! {
    /// What became of the landing of a change.
    LandingEnd {
        /// The change is where it was to land.
        Completed = "completed",
        /// Nothing of it is there, and its verdicts can be used again.
        Void = "void",
    }
}

words! {
    /// The `type` of a verdict.
    VerdictType {
        /// The only one.
        Verdict = "verdict",
    }
}

words! {
    /// The `type` of an enrolment.
    EnrolmentType {
        /// The only one.
        Enrolment = "person_enrolment",
    }
}

words! {
    /// The `type` of a revocation.
    RevocationType {
        /// The only one.
        Revocation = "person_revocation",
    }
}

words! {
    /// The `type` of a statement of rules.
    RulesType {
        /// The only one.
        Rules = "approval_rule",
    }
}

object! {
    /// A person's verdict on a subject, as it is signed.
    VerdictStatement / VerdictStatementParts ["verdict", "R4"] {
        /// What the statement is.
        kind: VerdictType = "type",
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The name of the tenant's log.
        log_origin: Name = "logOrigin",
        /// What kind of subject.
        subject_kind: SubjectKind = "subjectKind",
        /// The subject: the id of a draft, or of the run that made a change.
        subject_id: LedgerId = "subjectId",
        /// The digest of exactly what was shown.
        subject_digest: Blake3 = "subjectDigest",
        /// Where it lands: `ledger`, `workspace` or `branch:NAME`.
        target: Name = "target",
        /// Yes or no.
        decision: ApprovalDecision = "decision",
        /// Why.
        reason: Option<Text> = "reason",
        /// Who.
        person: Name = "person",
        /// The fingerprint of the key that signs.
        key_id: Name = "keyId",
        /// The digest of the rule that was in force.
        rule_digest: Blake3 = "ruleDigest",
        /// How many entries the log had when the subject was shown.
        evidence_seq: Count = "evidenceSeq",
        /// The root of the log's tree then.
        evidence_root: Sha256 = "evidenceRoot",
        /// The state of the workspace that a change was made on.
        base_state: Option<Blake3> = "baseState",
        /// A random number; it counts once.
        nonce: Uuid = "nonce",
        /// When it was signed, by the signer's clock.
        time: Timestamp = "time",
        /// When it lapses; absent if the rule sets no time.
        expires: Option<Timestamp> = "expires",
        /// Nobody was asked at the moment of signing.
        unattended: bool = "unattended",
    }
}

object! {
    /// A person and a key that is theirs, signed by an admin; the first one by the key itself.
    EnrolmentStatement / EnrolmentStatementParts ["person_enrolment", "R4"] {
        /// What the statement is.
        kind: EnrolmentType = "type",
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The name of the tenant's log.
        log_origin: Name = "logOrigin",
        /// Who is enrolled.
        person: Name = "person",
        /// The public key, in OpenSSH's form without a comment.
        public_key: Text = "publicKey",
        /// The key's fingerprint.
        key_id: Name = "keyId",
        /// The groups the person is in, from here on.
        groups: Set<Name> = "groups",
        /// The admin who signs.
        signed_by: Name = "signedBy",
        /// The fingerprint of the admin's key.
        signer_key_id: Name = "signerKeyId",
        /// A random number; it counts once.
        nonce: Uuid = "nonce",
        /// When it was signed.
        time: Timestamp = "time",
    }
}

object! {
    /// A key, or all keys of a person, that count no more.
    RevocationStatement / RevocationStatementParts ["person_revocation", "R4"] {
        /// What the statement is.
        kind: RevocationType = "type",
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The name of the tenant's log.
        log_origin: Name = "logOrigin",
        /// Whose.
        person: Name = "person",
        /// The fingerprint of the key; absent for every key the person has.
        key_id: Option<Name> = "keyId",
        /// Why.
        reason: Option<Text> = "reason",
        /// The admin who signs.
        signed_by: Name = "signedBy",
        /// The fingerprint of the admin's key.
        signer_key_id: Name = "signerKeyId",
        /// A random number; it counts once.
        nonce: Uuid = "nonce",
        /// When it was signed.
        time: Timestamp = "time",
    }
}

object! {
    /// What a class of subjects needs. Of several rules that fit a subject, the first one holds.
    ApprovalRule / ApprovalRuleParts ["approval_rule", "R4"] {
        /// Its name.
        name: Name = "name",
        /// Drafts or changes.
        subject: SubjectKind = "subject",
        /// Drafts of these objectives only; absent for all.
        objectives: Option<Set<Name, 1>> = "objectives",
        /// Changes that touch protected paths.
        protected: Option<bool> = "protected",
        /// Changes that touch tests.
        tests: Option<bool> = "tests",
        /// Changes of more files than this.
        more_files_than: Option<Count> = "moreFilesThan",
        /// Changes whose run cost more than this, in US dollars.
        cost_above_usd: Option<Amount> = "costAboveUsd",
        /// How many different people must approve.
        approvals: ApprovalCount = "approvals",
        /// Of which group; absent for anyone who is enrolled.
        group: Option<Name> = "group",
        /// For how many minutes a verdict counts; absent for no limit.
        ttl_minutes: Option<Minutes> = "ttlMinutes",
        /// Whether an unattended approval counts.
        unattended: bool = "unattended",
        /// Whether the person who asked for it may approve it.
        requester: bool = "requester",
        /// Whether something may be approved whose requester is known by an operating system name only.
        os_requester: bool = "osRequester",
        /// Which kinds of proof count.
        proofs: Set<ProofKind, 1> = "proofs",
    }
}

object! {
    /// All rules of a tenant, as an admin signs them. They replace those before.
    RuleStatement / RuleStatementParts ["approval_rule", "R4"] {
        /// What the statement is.
        kind: RulesType = "type",
        /// The tenant.
        tenant_id: TenantId = "tenantId",
        /// The name of the tenant's log.
        log_origin: Name = "logOrigin",
        /// The rules, in the order in which they are tried.
        rules: List<ApprovalRule> = "rules",
        /// The admin who signs.
        signed_by: Name = "signedBy",
        /// The fingerprint of the admin's key.
        signer_key_id: Name = "signerKeyId",
        /// A random number; it counts once.
        nonce: Uuid = "nonce",
        /// When it was signed.
        time: Timestamp = "time",
    }
}

object! {
    /// A statement with its signature: the payload of its entry.
    SignedPayload / SignedPayloadParts ["signed", "R4"] {
        /// The statement.
        statement: JsonObject = "statement",
        /// What kind of proof follows.
        proof: ProofKind = "proof",
        /// The signature: armoured (SSHSIG), or a passkey's in base64url.
        signature: Text = "signature",
        /// What a passkey signed with it; only with the proof `passkey`.
        passkey: Option<PasskeyAssertion> = "passkey",
    }
}

object! {
    /// What somebody wants to sign about a subject, as a client of the server asks for the statement.
    VerdictRequest / VerdictRequestParts ["verdict_request", "R4"] {
        /// The subject: the id of a draft, or of the run that made a change.
        subject: LedgerId = "subject",
        /// Yes or no.
        decision: ApprovalDecision = "decision",
        /// Why.
        reason: Option<Text> = "reason",
        /// The fingerprint of the key that will sign; of a passkey, its id.
        key_id: Name = "keyId",
        /// Nobody is asked at the moment of signing.
        unattended: Option<bool> = "unattended",
    }
}

object! {
    /// The payload of a landing: which verdicts it used up.
    LandingRecord / LandingRecordParts ["landing", "R4"] {
        /// What kind of subject.
        subject_kind: SubjectKind = "subjectKind",
        /// The subject.
        subject_id: LedgerId = "subjectId",
        /// The digest of what landed.
        subject_digest: Blake3 = "subjectDigest",
        /// Which landing of this subject, from 1.
        number: Count = "number",
        /// The entries of the verdicts that it used.
        verdicts: Set<LedgerId, 1> = "verdicts",
        /// The digest of the rule that it satisfied.
        rule_digest: Blake3 = "ruleDigest",
        /// How many entries the log had when quorum and lapse were checked; the landing is the next.
        checked_seq: Count = "checkedSeq",
    }
}

object! {
    /// The payload of a landing's outcome. The landing of a draft has none: it lands in the same transaction.
    LandingOutcomeRecord / LandingOutcomeRecordParts ["landing_outcome", "R4"] {
        /// The subject.
        subject_id: LedgerId = "subjectId",
        /// Which landing of this subject.
        number: Count = "number",
        /// The landing's entry.
        landing: LedgerId = "landing",
        /// What became of it.
        outcome: LandingEnd = "outcome",
    }
}

/// What an entry of the module [`APPROVALS`] says.
#[derive(Clone, Debug, PartialEq)]
pub enum ApprovalEntry {
    /// A person was enrolled.
    Enrolment(EnrolmentStatement),
    /// A person was invited to enrol a passkey.
    Invitation(InvitationStatement),
    /// An invited person enrolled a passkey.
    Passkey(Box<PasskeyRecord>),
    /// A key or a person was revoked.
    Revocation(RevocationStatement),
    /// The rules were set.
    Rules(RuleStatement),
    /// A person approved or rejected, with this proof.
    Verdict(VerdictStatement, ProofKind),
    /// A subject lands.
    Landing(LandingRecord),
    /// What became of the landing of a change.
    Outcome(LandingOutcomeRecord),
}

/// An entry about approvals in its place in the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedApproval {
    /// The entry's id.
    pub id: LedgerId,
    /// Its sequence number.
    pub seq: u64,
    /// When the ledger accepted it.
    pub at: Instant,
    /// What it says.
    pub entry: ApprovalEntry,
    /// What the authenticator that proved a verdict said about itself.
    pub authenticator: Option<AuthenticatorFacts>,
    /// Why an outsider would reject it; an entry with a problem never counts.
    pub problem: Option<String>,
}

impl ApprovalEntry {
    /// Reads the payload of an entry of the module; the error says why it cannot be one. Signatures are not checked.
    ///
    /// # Errors
    /// The first problem.
    pub fn read(kind: &str, payload: &JsonObject) -> Result<(Self, Option<SignedPayload>), String> {
        fn statement<T: ApprovalDocument>(text: &str) -> Result<T, String> {
            T::parse(text.as_bytes()).map_err(|violations| {
                let first = violations.first().map_or_else(String::new, ToString::to_string);
                format!("{} cannot be read: {first}", T::WHAT)
            })
        }
        if kind == LANDING.as_str() {
            return Ok((ApprovalEntry::Landing(statement(payload.as_str())?), None));
        }
        if kind == LANDING_OUTCOME.as_str() {
            return Ok((ApprovalEntry::Outcome(statement(payload.as_str())?), None));
        }
        if kind == PASSKEY_ENROLMENT.as_str() {
            return Ok((ApprovalEntry::Passkey(Box::new(statement(payload.as_str())?)), None));
        }
        let Some(kind) = SignedKind::parse(kind) else {
            return Err("it is of a type that approvals do not have".to_owned());
        };
        let signed: SignedPayload = statement(payload.as_str())?;
        let text = signed.statement.as_str();
        let entry = match kind {
            SignedKind::Verdict => ApprovalEntry::Verdict(statement(text)?, signed.proof),
            SignedKind::Enrolment => ApprovalEntry::Enrolment(statement(text)?),
            SignedKind::Invitation => ApprovalEntry::Invitation(statement(text)?),
            SignedKind::Revocation => ApprovalEntry::Revocation(statement(text)?),
            SignedKind::Rules => ApprovalEntry::Rules(statement(text)?),
        };
        Ok((entry, Some(signed)))
    }
}

impl ApprovalEntry {
    /// The nonce of a statement that a person signed.
    pub fn nonce(&self) -> Option<&Uuid> {
        match self {
            ApprovalEntry::Enrolment(statement) => Some(&statement.nonce),
            ApprovalEntry::Invitation(statement) => Some(&statement.nonce),
            ApprovalEntry::Revocation(statement) => Some(&statement.nonce),
            ApprovalEntry::Rules(statement) => Some(&statement.nonce),
            ApprovalEntry::Verdict(statement, _) => Some(&statement.nonce),
            ApprovalEntry::Passkey(_) | ApprovalEntry::Landing(_) | ApprovalEntry::Outcome(_) => None,
        }
    }
}

/// A document that people sign, or that is recorded about what they signed.
pub trait ApprovalDocument: Shape {
    /// Its name in an error.
    const WHAT: &'static str;

    /// Reads it strictly, or reports everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, MAX_SIGNED_BYTES, "R33")
    }

    /// The canonical text: the bytes that are signed or hashed.
    ///
    /// # Errors
    /// If its own reader would refuse it.
    fn to_canonical(&self) -> Result<String, ComposeError> {
        let text = canonical_of(Self::WHAT, self)?;
        match Self::parse(text.as_bytes()) {
            Ok(_) => Ok(text),
            Err(violations) => {
                let reason = violations.first().map_or_else(String::new, ToString::to_string);
                Err(ComposeError { what: Self::WHAT, reason })
            }
        }
    }
}

/// A document that is signed, as one of the kinds.
pub trait SignedStatement: ApprovalDocument {
    /// Which kind.
    const KIND: SignedKind;
}

macro_rules! documents {
    ($( $name:ident is $what:literal $(signed as $kind:ident)?, )*) => { $(
        impl ApprovalDocument for $name {
            const WHAT: &'static str = $what;
        }
        $( impl SignedStatement for $name {
            const KIND: SignedKind = SignedKind::$kind;
        } )?
    )* };
}

documents! {
    VerdictStatement is "the verdict" signed as Verdict,
    EnrolmentStatement is "the enrolment" signed as Enrolment,
    InvitationStatement is "the invitation" signed as Invitation,
    RevocationStatement is "the revocation" signed as Revocation,
    RuleStatement is "the rules" signed as Rules,
    ApprovalRule is "the rule",
    SignedPayload is "the signed statement",
    VerdictRequest is "the request for a verdict",
    PasskeyStatement is "the statement of a passkey's enrolment",
    PasskeyRecord is "the enrolment of a passkey",
    PasskeyStart is "the question about an invitation",
    PasskeyRequest is "the new passkey",
    SignInStatement is "the statement of a sign-in",
    LandingRecord is "the landing",
    LandingOutcomeRecord is "the landing's outcome",
}

impl ApprovalRule {
    /// The rule for a subject that no other rule matches: one approval by anyone who is enrolled, given at a terminal with an SSH key.
    pub fn built_in(subject: SubjectKind) -> Self {
        ApprovalRule {
            name: Name::from(Literal::new("built-in")),
            subject,
            objectives: None,
            protected: None,
            tests: None,
            more_files_than: None,
            cost_above_usd: None,
            approvals: ApprovalCount::ONE,
            group: None,
            ttl_minutes: None,
            unattended: false,
            requester: false,
            os_requester: true,
            proofs: Set::one(ProofKind::Ssh),
        }
    }

    /// What a verdict names it by: a rule with another text is another rule.
    ///
    /// # Errors
    /// If its own reader would refuse it.
    pub fn digest(&self) -> Result<Blake3, ComposeError> {
        Ok(Blake3::of(self.to_canonical()?.as_bytes()))
    }
}

/// The key of an entry whose statement has this nonce: a nonce is recorded once.
pub fn nonce_key(nonce: &Uuid) -> String {
    format!("crealeph:nonce:{nonce}")
}

/// The key of a subject's landing (R33).
pub fn landing_key(subject: &LedgerId, number: u64) -> String {
    format!("landing:{}:{number}", Blake3::of(subject.as_str().as_bytes()))
}

/// The key of a landing's outcome; there is only one.
pub fn landing_outcome_key(subject: &LedgerId, number: u64) -> String {
    format!("landing_outcome:{}:{number}", Blake3::of(subject.as_str().as_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const VERDICT: &str = r#"{"type":"verdict","tenantId":"t","logOrigin":"crealeph-log/2-00","subjectKind":"draft","subjectId":"d-1","subjectDigest":"0000000000000000000000000000000000000000000000000000000000000000","target":"ledger","decision":"approve","person":"ana","keyId":"SHA256:x","ruleDigest":"0000000000000000000000000000000000000000000000000000000000000000","evidenceSeq":7,"evidenceRoot":"0000000000000000000000000000000000000000000000000000000000000000","nonce":"0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f","time":"2026-01-02T03:04:05.000Z","unattended":false}"#;

    #[test]
    fn a_verdict_has_exactly_its_fields_and_one_text() {
        let verdict = VerdictStatement::parse(VERDICT.as_bytes()).unwrap();
        let canonical = verdict.to_canonical().unwrap();
        assert!(canonical.starts_with(r#"{"decision":"approve","evidenceRoot""#), "{canonical}");
        assert_eq!(VerdictStatement::parse(canonical.as_bytes()).unwrap(), verdict);
        for (from, to) in [
            (r#""type":"verdict""#, r#""type":"person_enrolment""#),
            (r#""unattended":false"#, r#""unattended":null"#),
            (r#""unattended":false"#, r#""unattended":false,"note":"x""#),
            (r#""unattended":false"#, r#""unattended":false,"reason":" ""#),
            (r#","unattended":false"#, ""),
            ("approve", "approved"),
            ("7c2e", "7C2E"),
        ] {
            let changed = VERDICT.replace(from, to);
            assert!(VerdictStatement::parse(changed.as_bytes()).is_err(), "{changed}");
        }
    }

    #[test]
    fn a_rule_needs_an_approver_and_a_proof() {
        let rule = |approvals: &str, proofs: &str| {
            let text = format!(
                r#"{{"name":"n","subject":"draft","approvals":{approvals},"unattended":false,"requester":false,"osRequester":false,"proofs":[{proofs}]}}"#
            );
            ApprovalRule::parse(text.as_bytes())
        };
        let one = rule("1", "\"ssh\"").unwrap();
        assert_ne!(one.digest().unwrap(), rule("2", "\"ssh\"").unwrap().digest().unwrap());
        assert!(rule("0", "\"ssh\"").is_err());
        assert!(rule("1", "").is_err());
        assert!(rule("1", "\"fax\"").is_err());
    }

    #[test]
    fn every_kind_has_its_own_namespace_and_type() {
        let mut names: Vec<&str> = SignedKind::ALL.iter().map(|kind| kind.namespace()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), SignedKind::ALL.len());
        for kind in SignedKind::ALL {
            assert_eq!(kind.entry_type().as_str(), kind.as_str());
        }
    }
}
