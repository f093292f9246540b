//! Approvals in a report: the state of a draft or a held change, and every verdict on it with its key and whether it counts.

use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{LedgerId, TenantId};
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::approval::JudgedVerdict;
use crealeph_ledger::{Ledger, StoredEntry};
use serde::{Deserialize, Serialize};

use super::ReportError;
use crate::approvals::{ApprovalError, SubjectCase, SubjectReader, held_change};
use crate::builder::Scopes;

/// Who approved a draft or a held change, and whether it counts.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalStory {
    /// `waiting`, `approved`, `rejected`, `landed`, or `unproven` for a verdict that no one signed.
    pub state: String,
    /// The rule that holds, by name; absent if the verdict was not signed.
    pub rule: Option<String>,
    /// How many approvals the rule asks for.
    pub approvals: Option<u64>,
    /// By whom; absent for anyone enrolled.
    pub group: Option<String>,
    /// The verdicts.
    pub verdicts: Vec<VerdictStory>,
    /// The fingerprint of the first admin's key, which all of them are based on.
    pub root: Option<String>,
}

/// A verdict.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerdictStory {
    /// `approve` or `reject`.
    pub decision: String,
    /// Who.
    pub person: String,
    /// The fingerprint of the key; absent if it was not signed.
    pub key: Option<String>,
    /// The kind of the key: `ssh` or `passkey`; absent if it was not signed.
    pub proof: Option<String>,
    /// When.
    pub at: String,
    /// Why.
    pub reason: Option<String>,
    /// Whether it counts.
    pub counted: bool,
    /// Why it does not.
    pub uncounted_reason: Option<String>,
}

impl VerdictStory {
    /// A verdict that was signed.
    pub fn of(verdict: &JudgedVerdict) -> Self {
        let statement = &verdict.statement;
        VerdictStory {
            decision: statement.decision.to_string(),
            person: statement.person.to_string(),
            key: Some(statement.key_id.to_string()),
            proof: Some(verdict.proof.as_str().to_owned()),
            at: verdict.at.to_string(),
            reason: statement.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            counted: verdict.uncounted.is_none(),
            uncounted_reason: verdict.uncounted.as_ref().map(|why| why.reason()),
        }
    }
}

/// The state of a draft; nothing if it only looks like one of the Builder.
pub(super) fn of_draft(
    (ledger, tenant): (&Ledger, &TenantId),
    scopes: &Scopes,
    id: &LedgerId,
) -> Result<Option<ApprovalStory>, ReportError> {
    let reader = SubjectReader { ledger, tenant, scopes };
    match reader.read(id) {
        Ok(case) => Ok(Some(approval(&case, reader.read_at_landing(&case)?.as_ref()))),
        Err(ApprovalError::Reviewed { review, .. }) => Ok(ledger.get(tenant, &review)?.map(unsigned)),
        Err(ApprovalError::NotADraft(_) | ApprovalError::NotTheBuilders(_)) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// How the change of a run stands that was put before people; nothing if it was not.
pub(super) fn of_run(
    (ledger, tenant): (&Ledger, &TenantId),
    scopes: &Scopes,
    run: &Uuid,
) -> Result<Option<ApprovalStory>, ReportError> {
    let id = LedgerId::parse(&run.to_string())?;
    if held_change(ledger, tenant, &id)?.is_none() {
        return Ok(None);
    }
    let reader = SubjectReader { ledger, tenant, scopes };
    let case = reader.read(&id)?;
    Ok(Some(approval(&case, reader.read_at_landing(&case)?.as_ref())))
}

/// The state of a subject; one that landed, as it was then.
fn approval(case: &SubjectCase, then: Option<&SubjectCase>) -> ApprovalStory {
    let judged = then.unwrap_or(case);
    let rule = &judged.state.rule;
    ApprovalStory {
        state: case.state.outcome.as_str().to_owned(),
        rule: Some(rule.name.to_string()),
        approvals: Some(rule.approvals.get()),
        group: rule.group.as_ref().map(ToString::to_string),
        verdicts: judged.state.verdicts.iter().map(VerdictStory::of).collect(),
        root: case.history.judge.root().map(str::to_owned),
    }
}

/// A verdict from before anyone was enrolled (R14).
fn unsigned(review: StoredEntry) -> ApprovalStory {
    let payload = JsonObject::parse_own(&review.content.payload);
    let text = |key: &str| {
        let payload = payload.as_ref()?;
        payload.with(|payload| Some(payload.member(key)?.string()?.into_owned()))
    };
    ApprovalStory {
        state: "unproven".to_owned(),
        rule: None,
        approvals: None,
        group: None,
        verdicts: vec![VerdictStory {
            decision: review.content.state.to_string(),
            person: text("by").unwrap_or_else(|| "-".to_owned()),
            key: None,
            proof: None,
            at: review.created_at.to_string(),
            reason: text("reason"),
            counted: false,
            uncounted_reason: Some("no one signed it".to_owned()),
        }],
        root: None,
    }
}
