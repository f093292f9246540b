//! cedar-policy with the same rule. Cedar judges a request with a context, not a JSON document of another's making, so
//! a small typed reader comes before it: the least that a user of Cedar would have to write.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, EntityId, EntityTypeName, EntityUid, Policy, PolicyId,
    PolicySet, Request, RestrictedExpression,
};
use serde::{Deserialize, Serialize};

use crate::{FOLDER, Outcome};

/// The id of the policy that blocks; any other refusal defers.
const STALE: &str = "coherence.stale";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Question<'a> {
    tenant_id: Cow<'a, str>,
    robot_id: Cow<'a, str>,
    evaluated_at: Cow<'a, str>,
    coherence_status: Cow<'a, str>,
    #[serde(borrow)]
    intelligence_snapshot: Snapshot<'a>,
    ledger_recency: BTreeMap<Cow<'a, str>, Option<Cow<'a, str>>>,
    requested_action: Cow<'a, str>,
    thresholds: Thresholds,
}

#[derive(Deserialize)]
struct Snapshot<'a> {
    #[serde(borrow)]
    lineage: Lineage<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Lineage<'a> {
    #[serde(borrow)]
    depends_on_ledger_ids: BTreeSet<Cow<'a, str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Thresholds {
    max_staleness_minutes: i64,
    min_lineage_count: i64,
    #[serde(default)]
    allow_draft_only: i64,
}

#[derive(Serialize)]
struct Answer<'a> {
    decision: &'a str,
    reasons: Vec<String>,
}

/// Cedar with the rule's policies.
pub struct Cedar {
    authorizer: Authorizer,
    policies: PolicySet,
    entities: Entities,
    robot: EntityTypeName,
    tenant: EntityTypeName,
    action: EntityTypeName,
}

impl Cedar {
    /// Loads the policies under the ids they carry.
    pub fn new() -> Outcome<Self> {
        let text = fs::read_to_string(format!("{FOLDER}/policies/policy.cedar"))?;
        let parsed: PolicySet = text.parse()?;
        let mut policies = PolicySet::new();
        for policy in parsed.policies() {
            let id = policy.annotation("id").ok_or("a policy has no id")?;
            let policy: &Policy = policy;
            policies.add(policy.new_id(PolicyId::new(id)))?;
        }
        Ok(Cedar {
            authorizer: Authorizer::new(),
            policies,
            entities: Entities::empty(),
            robot: "Robot".parse()?,
            tenant: "Tenant".parse()?,
            action: "Action".parse()?,
        })
    }

    /// The question as a request.
    pub fn request(&self, question: &str) -> Outcome<Request> {
        let question: Question<'_> = serde_json::from_str(question)?;
        let thresholds = &question.thresholds;
        let mut context = vec![
            ("coherenceStatus", RestrictedExpression::new_string(question.coherence_status.into_owned())),
            ("evaluatedAt", RestrictedExpression::new_datetime(&question.evaluated_at)),
            (
                "lineageCount",
                RestrictedExpression::new_long(i64::try_from(
                    question.intelligence_snapshot.lineage.depends_on_ledger_ids.len(),
                )?),
            ),
            ("minLineageCount", RestrictedExpression::new_long(thresholds.min_lineage_count)),
            (
                "maxStaleness",
                RestrictedExpression::new_duration(format!("{}m", thresholds.max_staleness_minutes)),
            ),
            ("allowDraftOnly", RestrictedExpression::new_bool(thresholds.allow_draft_only == 1)),
        ];
        for (name, at) in &question.ledger_recency {
            if let Some(at) = at {
                context.push((name, RestrictedExpression::new_datetime(at)));
            }
        }
        let context = Context::from_pairs(context.into_iter().map(|(key, value)| (key.to_owned(), value)))?;
        let uid = |kind: &EntityTypeName, id: &str| {
            EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
        };
        Ok(Request::new(
            uid(&self.robot, &question.robot_id),
            uid(&self.action, &question.requested_action),
            uid(&self.tenant, &question.tenant_id),
            context,
            None,
        )?)
    }

    /// Decides a question that is already a request: allowed or not.
    pub fn decide(&self, request: &Request) -> Decision {
        self.authorizer.is_authorized(request, &self.policies, &self.entities).decision()
    }

    /// Decides from JSON text to JSON text.
    pub fn answer(&self, question: &str) -> Outcome<String> {
        let request = self.request(question)?;
        let response = self.authorizer.is_authorized(&request, &self.policies, &self.entities);
        if let Some(error) = response.diagnostics().errors().next() {
            return Err(error.to_string().into());
        }
        let reasons: Vec<String> = response.diagnostics().reason().map(ToString::to_string).collect();
        let decision = match response.decision() {
            Decision::Allow => "ALLOW",
            Decision::Deny if reasons.iter().any(|reason| reason == STALE) => "BLOCK",
            Decision::Deny => "DEFER",
        };
        Ok(serde_json::to_string(&Answer { decision, reasons })?)
    }
}
