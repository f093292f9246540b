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
use serde::{Deserialize, Serialize};
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
pub fn rule_json(rule: &ApprovalRule) -> Result<Value, ComposeError> {
    let unreadable = |error: serde_json::Error| ComposeError { what: "the rule", reason: error.to_string() };
    serde_json::from_str(&rule.to_canonical()?).map_err(unreadable)
}

/// A person, by the root of trust.
pub fn person_json(person: &EnrolledPerson, root: Option<&str>) -> Value {
    let keys = person.keys.iter().map(|key| {
        let (public_key, passkey) = match &key.material {
            KeyMaterial::Ssh { line, .. } => (line.clone(), None),
            KeyMaterial::Passkey(own) => (own.passkey.public_key.to_string(), Some(passkey_json(own))),
        };
        json!({ "keyId": key.fingerprint, "kind": key.material.proof().as_str(), "publicKey": public_key,
            "passkey": passkey, "revoked": key.is_revoked, "root": root == Some(key.fingerprint.as_str()) })
    });
    json!({ "person": person.name, "groups": person.groups, "keys": keys.collect::<Vec<_>>() })
}

fn passkey_json(own: &EnrolledPasskey) -> Value {
    json!({ "credentialId": own.passkey.credential_id.to_string(), "origin": own.origin.as_str(),
        "algorithm": own.passkey.algorithm(), "role": own.role.as_str() })
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

impl SubjectCase {
    /// The same as an item of the inbox.
    fn as_item(&self) -> InboxItem {
        InboxItem {
            entry: self.entry.clone(),
            subject: self.subject.clone(),
            change: self.basis.change().cloned().map(Box::new),
            state: self.history.judge.had_people().then(|| self.state.clone()),
        }
    }

    /// Everything that a person needs who decides about it, as JSON: how it waits, the rule, the evidence and its age, what a
    /// verdict on it binds itself to, and the entry, whose canonical text the digest is of, or whose payload's in a change.
    ///
    /// # Errors
    /// When the rule cannot be written.
    pub fn decision_json(&self) -> Result<String, ApprovalError> {
        let SubjectCase { entry, subject, basis, history, state, .. } = self;
        let place = &history.place;
        let now = place.now.instant();
        let evidence = basis.evidence().iter().map(|used| {
            json!({ "type": used.kind.as_str(), "seq": used.seq, "at": used.at.to_string(),
                "ageMinutes": age_minutes(now, used.at) })
        });
        let policy = match basis {
            SubjectBasis::Draft { record: Some(record), .. } => Some(json!({
                "decision": record.policy.decision.as_str(), "executionId": record.execution_id.as_str(),
                "reason": record.reason.as_str(),
            })),
            _ => None,
        };
        let bound = json!({
            "tenantId": history.tenant_id.as_str(), "logOrigin": place.origin,
            "subjectKind": subject.class.kind.as_str(), "subjectId": subject.id.as_str(),
            "subjectDigest": subject.digest.to_string(), "target": subject.target.as_str(),
            "ruleDigest": state.rule_digest.to_string(), "evidenceSeq": place.seq.get(),
            "evidenceRoot": place.root.to_string(),
            "baseState": subject.base_state.map(|state| state.to_string()),
            "expires": expiry(&state.rule, now).map(|expires| expires.as_str().to_owned()),
        });
        let mut out = String::new();
        let mut object = ObjectWriter::new(&mut out);
        object.raw("item", &json!(InboxRow::of(&self.as_item())).to_string());
        object.text("state", state.outcome.as_str());
        object.raw("rule", &rule_json(&state.rule)?.to_string());
        object.raw("evidence", &Value::Array(evidence.collect()).to_string());
        object.raw("policy", &policy.unwrap_or(Value::Null).to_string());
        object.raw("signs", &bound.to_string());
        object.raw("entry", &entry_json(entry));
        object.end();
        Ok(out)
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
            (None, _) => "no one enrolled",
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
