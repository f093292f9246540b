//! Approvals as the command line's `--json` and the server both show them.

use crealeph_contracts::approval::{
    ApprovalDocument as _, ApprovalRule, SignedStatement as _, VerdictStatement,
};
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_contracts::json::{ComposeError, ObjectWriter};
use crealeph_contracts::scalar::LedgerId;
use crealeph_decision::approval::{JudgedVerdict, SubjectOutcome, SubjectState};
use crealeph_decision::builder::review::approved_key;
use crealeph_verify::{EnrolledPasskey, EnrolledPerson, KeyMaterial};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::case::{SubjectBasis, SubjectCase, SubjectReader};
use super::error::ApprovalError;
use super::inbox::InboxItem;
use super::inbox_report::{ChangeOutline, InboxRow};
use super::passkeys::assertion_question;
use super::verdict::expiry;
use crate::entries::entry_json;
use crate::robot_report::age_minutes;

/// How many approvals are missing.
pub fn missing_approvals(state: &SubjectState) -> u64 {
    match state.outcome {
        SubjectOutcome::Waiting { missing } => missing,
        _ => 0,
    }
}

/// A rule as it is signed.
///
/// # Errors
/// When its own reader would not take it.
pub fn rule_json(rule: &ApprovalRule) -> Result<Box<RawValue>, ComposeError> {
    raw("the rule", rule.to_canonical()?)
}

/// A text that is JSON, as a member of a report.
fn raw(what: &'static str, text: String) -> Result<Box<RawValue>, ComposeError> {
    RawValue::from_string(text).map_err(|error| ComposeError { what, reason: error.to_string() })
}

/// A person, and what their keys are.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct PersonReport {
    /// The groups that they are in.
    pub groups: Vec<String>,
    /// Their keys, revoked ones too.
    pub keys: Vec<PersonKeyReport>,
    /// Their name.
    pub person: String,
}

/// A key of a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PersonKeyReport {
    /// The fingerprint; of a passkey, its id.
    pub key_id: String,
    /// `ssh` or `passkey`.
    pub kind: String,
    /// What is known of a passkey.
    pub passkey: Option<PasskeyReport>,
    /// The public key.
    pub public_key: String,
    /// Whether it was revoked.
    pub revoked: bool,
    /// Whether it is the first admin's, on which every enrolment is based.
    pub root: bool,
}

/// A passkey of a person.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PasskeyReport {
    /// Its algorithm, as JOSE names it.
    pub algorithm: String,
    /// Its id.
    pub credential_id: String,
    /// Where it is used.
    pub origin: String,
    /// What the person may do in sessions that they open with it.
    pub role: String,
}

impl PersonReport {
    /// A person, by the root of trust.
    pub fn of(person: &EnrolledPerson, root: Option<&str>) -> Self {
        let keys = person.keys.iter().map(|key| {
            let (public_key, passkey) = match &key.material {
                KeyMaterial::Ssh { line, .. } => (line.clone(), None),
                KeyMaterial::Passkey(own) => {
                    (own.passkey.public_key.to_string(), Some(PasskeyReport::of(own)))
                }
            };
            PersonKeyReport {
                key_id: key.fingerprint.clone(),
                kind: key.material.proof().as_str().to_owned(),
                passkey,
                public_key,
                revoked: key.is_revoked,
                root: root == Some(key.fingerprint.as_str()),
            }
        });
        PersonReport { groups: person.groups.clone(), keys: keys.collect(), person: person.name.clone() }
    }
}

impl PasskeyReport {
    fn of(own: &EnrolledPasskey) -> Self {
        PasskeyReport {
            algorithm: own.passkey.algorithm().to_owned(),
            credential_id: own.passkey.credential_id.to_string(),
            origin: own.origin.as_str().to_owned(),
            role: own.role.as_str().to_owned(),
        }
    }
}

/// The outcome of a verdict.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct VerdictReport {
    /// What it is about.
    pub subject: String,
    /// `approve` or `reject`.
    pub decision: String,
    /// Whether it was signed.
    pub proven: bool,
    /// Its entry, if one was added.
    pub verdict: Option<String>,
    /// The landing that followed.
    pub landed: Option<String>,
    /// The planned artifact of a draft that landed.
    pub planned: Option<String>,
    /// How many approvals are still missing.
    pub missing: u64,
}

/// A statement that is to be signed, as JSON: its members, the exact text, and the namespace of the signature; with a passkey, what its
/// browser is to be asked.
///
/// # Errors
/// When its own reader would not take it.
pub fn unsigned_json(
    statement: &VerdictStatement,
    passkey: Option<&EnrolledPasskey>,
) -> Result<String, ComposeError> {
    let text = statement.to_canonical()?;
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.raw("statement", &text).text("text", &text);
    object.text("namespace", VerdictStatement::KIND.namespace());
    let question = passkey.map_or(Value::Null, |passkey| assertion_question(passkey, &text));
    object.raw("passkey", &question.to_string());
    object.end();
    Ok(out)
}

/// Everything that a person needs who decides about a subject.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct DecisionReport {
    /// How it waits.
    #[serde(serialize_with = "in_order_of_names")]
    pub item: InboxRow,
    /// Its state.
    pub state: String,
    /// The rule that applies, as it is signed.
    pub rule: Box<RawValue>,
    /// The evidence of a draft, and its age.
    pub evidence: Vec<EvidenceReport>,
    /// What the policy decided of a draft's execution.
    pub policy: Option<PolicyOutline>,
    /// What a verdict on it binds itself to.
    pub signs: VerdictTerms,
    /// The entry, whose canonical text the digest is of, or whose payload's in a change.
    pub entry: Box<RawValue>,
}

/// Evidence that a draft is based on.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceReport {
    /// How old it is.
    pub age_minutes: f64,
    /// When it was appended.
    pub at: String,
    /// Its place in the log.
    pub seq: u64,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
}

/// What the policy decided of a draft's execution.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyOutline {
    /// The decision.
    pub decision: String,
    /// The execution.
    pub execution_id: String,
    /// Why.
    pub reason: String,
}

/// What a verdict on a subject binds itself to.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictTerms {
    /// The state that a change was made on.
    pub base_state: Option<String>,
    /// The root of the log.
    pub evidence_root: String,
    /// How many entries it has.
    pub evidence_seq: u64,
    /// When a verdict of now lapses.
    pub expires: Option<String>,
    /// The name of the log.
    pub log_origin: String,
    /// The digest of the rule.
    pub rule_digest: String,
    /// The digest of the subject.
    pub subject_digest: String,
    /// The subject.
    pub subject_id: String,
    /// `draft` or `change`.
    pub subject_kind: String,
    /// Where it lands.
    pub target: String,
    /// The tenant.
    pub tenant_id: String,
}

/// Members in the order of their names, as this report always had them.
fn in_order_of_names<S: Serializer>(value: &impl Serialize, out: S) -> Result<S::Ok, S::Error> {
    serde_json::to_value(value).map_err(serde::ser::Error::custom)?.serialize(out)
}

impl SubjectCase {
    /// The evidence of a draft, and its age.
    pub fn evidence_reports(&self) -> Vec<EvidenceReport> {
        let now = self.history.place.now.instant();
        let evidence = self.basis.evidence().iter().map(|used| EvidenceReport {
            age_minutes: age_minutes(now, used.at),
            at: used.at.to_string(),
            seq: used.seq,
            kind: used.kind.as_str().to_owned(),
        });
        evidence.collect()
    }

    /// What the policy decided of a draft's execution, if its record is known.
    pub fn policy_outline(&self) -> Option<PolicyOutline> {
        let SubjectBasis::Draft { record: Some(record), .. } = &self.basis else { return None };
        Some(PolicyOutline {
            decision: record.policy.decision.to_string(),
            execution_id: record.execution_id.to_string(),
            reason: record.reason.clone(),
        })
    }

    /// The same as an item of the inbox.
    fn as_item(&self) -> InboxItem {
        InboxItem {
            entry: self.entry.clone(),
            subject: self.subject.clone(),
            change: self.basis.change().cloned().map(Box::new),
            state: self.history.judge.had_people().then(|| self.state.clone()),
        }
    }

    /// Everything that a person needs who decides about it.
    ///
    /// # Errors
    /// When the rule cannot be written.
    pub fn decision_report(&self) -> Result<DecisionReport, ApprovalError> {
        let SubjectCase { entry, subject, history, state, .. } = self;
        let place = &history.place;
        let expires = expiry(&state.rule, place.now.instant());
        Ok(DecisionReport {
            item: InboxRow::of(&self.as_item()),
            state: state.outcome.as_str().to_owned(),
            rule: rule_json(&state.rule)?,
            evidence: self.evidence_reports(),
            policy: self.policy_outline(),
            signs: VerdictTerms {
                base_state: subject.base_state.map(|state| state.to_string()),
                evidence_root: place.root.to_string(),
                evidence_seq: place.seq.get(),
                expires: expires.map(|expires| expires.as_str().to_owned()),
                log_origin: place.origin.to_string(),
                rule_digest: state.rule_digest.to_string(),
                subject_digest: subject.digest.to_string(),
                subject_id: subject.id.to_string(),
                subject_kind: subject.class.kind.as_str().to_owned(),
                target: subject.target.to_string(),
                tenant_id: history.tenant_id.to_string(),
            },
            entry: raw("the entry", entry_json(entry))?,
        })
    }
}

/// Why a subject has its state.
#[derive(Clone, Debug)]
pub struct ExplainedApproval {
    /// The subject.
    pub case: SubjectCase,
    /// As it was when it landed.
    pub at_landing: Option<SubjectCase>,
    /// Whether the root of trust is the one that the reader knows.
    pub is_pinned: bool,
}

impl SubjectReader<'_> {
    /// Reads what decided a subject.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn explain(&self, case: SubjectCase) -> Result<ExplainedApproval, ApprovalError> {
        let at_landing = self.read_at_landing(&case)?;
        Ok(ExplainedApproval { case, at_landing, is_pinned: false })
    }

    /// The planned artifact of a draft that landed.
    ///
    /// # Errors
    /// When the ledger cannot be read.
    pub fn planned(&self, draft: &LedgerId) -> Result<Option<LedgerId>, ApprovalError> {
        Ok(self.ledger.get_by_key(self.tenant, &approved_key(draft)?)?.map(|entry| entry.id))
    }
}

impl ExplainedApproval {
    /// What its verdicts are judged by.
    pub fn judged(&self) -> &SubjectCase {
        self.at_landing.as_ref().unwrap_or(&self.case)
    }

    /// The fingerprint of the first admin's key.
    pub fn root(&self) -> Option<&str> {
        self.case.history.judge.root()
    }

    /// How far the root is to be trusted.
    pub fn root_state(&self) -> &'static str {
        match (self.root(), self.is_pinned) {
            (None, _) => "nobody enrolled",
            (Some(_), true) => "pinned",
            (Some(_), false) => "unproven",
        }
    }

    /// As JSON.
    ///
    /// # Errors
    /// When the rule cannot be written.
    pub fn json(&self) -> Result<Value, ApprovalError> {
        let SubjectCase { subject, state, entry, .. } = &self.case;
        let judged = self.judged();
        let verdicts: Vec<Value> = judged.state.verdicts.iter().map(verdict_json).collect();
        let evidence = judged.basis.evidence().iter();
        let evidence: Vec<Value> = evidence
            .map(|used| json!({ "type": used.kind.as_str(), "seq": used.seq, "at": used.at.to_string() }))
            .collect();
        let landing = state.outcome.landing().map(|(landing, record)| {
            let verdicts: Vec<&str> = record.verdicts.as_slice().iter().map(|id| id.as_str()).collect();
            let had_quorum = matches!(judged.state.outcome, SubjectOutcome::Approved { .. });
            json!({ "entry": landing.as_str(), "number": record.number.get(), "verdicts": verdicts,
                "checkedSeq": record.checked_seq.get(), "wasFresh": judged.subject.outdated.is_none(),
                "hadQuorum": had_quorum })
        });
        Ok(json!({
            "subject": subject.id.as_str(), "kind": subject.class.kind.as_str(), "type": entry.content.kind.as_str(),
            "digest": subject.digest.to_string(), "state": state.outcome.as_str(),
            "outdated": subject.outdated, "rule": rule_json(&judged.state.rule)?, "verdicts": verdicts,
            "evidence": evidence, "change": self.case.basis.change().map(change_json), "landing": landing,
            "root": self.root(), "rootState": self.root_state(),
        }))
    }
}

/// What is decided about, of a change.
fn change_json(record: &HeldChangeRecord) -> Value {
    let mut change = json!(ChangeOutline::of(record));
    if let Value::Object(members) = &mut change {
        let more = [
            ("baseState", record.base_state),
            ("afterState", record.after_state),
            ("diffDigest", record.diff_digest),
        ];
        members.extend(more.map(|(name, digest)| (name.to_owned(), json!(digest.to_string()))));
    }
    change
}

fn verdict_json(verdict: &JudgedVerdict) -> Value {
    let JudgedVerdict { id, seq, at, statement, proof, authenticator, uncounted } = verdict;
    let authenticator = authenticator.as_ref().map(|facts| {
        json!({ "credentialId": facts.credential_id.to_string(), "origin": facts.origin,
            "userVerified": facts.is_user_verified, "backupEligible": facts.is_backup_eligible,
            "backedUp": facts.is_backed_up, "counter": facts.counter })
    });
    json!({
        "entry": id.as_str(), "seq": seq, "at": at.to_string(), "decision": statement.decision.as_str(),
        "person": statement.person.as_str(), "keyId": statement.key_id.as_str(), "proof": proof.as_str(),
        "authenticator": authenticator,
        "reason": statement.reason.as_ref().map(|reason| reason.as_str()),
        "evidenceSeq": statement.evidence_seq.get(), "evidenceRoot": statement.evidence_root.to_string(),
        "unattended": statement.unattended, "counted": uncounted.is_none(),
        "code": uncounted.as_ref().map(|why| why.as_str()), "why": uncounted.as_ref().map(|why| why.reason()),
        "renewal": uncounted.as_ref().and_then(|why| why.renewal()),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// Reads a report and writes it again; programs compare these bytes.
    fn read_and_written<T: Serialize + serde::de::DeserializeOwned>(text: &str) {
        let report: T = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&report).unwrap(), text);
    }

    #[test]
    fn people_and_decisions_are_written_in_the_order_of_their_names() {
        read_and_written::<PersonReport>(
            r#"{"groups":["admins"],"keys":[{"keyId":"SHA256:x","kind":"ssh","passkey":null,"publicKey":"ssh-ed25519 A","revoked":false,"root":true},{"keyId":"passkey:y","kind":"passkey","passkey":{"algorithm":"ES256","credentialId":"Y","origin":"http://localhost:1","role":"operator"},"publicKey":"B","revoked":true,"root":false}],"person":"ana"}"#,
        );
        let row = r#"{"change":{"costUsd":null,"files":1,"item":"i","protected":false,"target":"workspace","task":"t","tests":false,"workspace":"w"},"kind":"change","lapsed":[],"mayDecide":["ana"],"missing":1,"needs":"1 approval","objective":null,"outdated":null,"requester":null,"robotId":"r","rule":"all","since":"2026-01-01T00:00:00.000Z","subject":"s","type":"held_change","verdicts":[]}"#;
        let rest = r#""state":"waiting","rule":{"name":"all"},"evidence":[{"ageMinutes":1.5,"at":"2026-01-01T00:00:00.000Z","seq":3,"type":"signal"}],"policy":{"decision":"ALLOW","executionId":"e","reason":"fresh"},"signs":{"baseState":null,"evidenceRoot":"0","evidenceSeq":3,"expires":null,"logOrigin":"l","ruleDigest":"1","subjectDigest":"2","subjectId":"s","subjectKind":"change","target":"workspace","tenantId":"t"},"entry":{"id":"s"}"#;
        read_and_written::<DecisionReport>(&format!(r#"{{"item":{row},{rest}}}"#));
    }
}
