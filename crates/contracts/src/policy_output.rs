//! PolicyOutput (policy-engine-v1 §5–§7): what a policy engine answers, alone and against what it was asked. These
//! are the contract's own rules, for any engine; what ours decides beyond them is in `decision`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::agent_input::{Coherence, ContractVersion};
use crate::contract::{Contract, ContractName};
use crate::instant::Timestamp;
use crate::json::JsonObject;
use crate::policy_input::PolicyInputParts;
use crate::scalar::{ActionName, Ratio, RuleId, Text};
use crate::schema::{has, when};
use crate::shape::{List, object, words};
use crate::staleness::MaxAge;
use crate::violation::{Code, Report};

words! {
    /// What the policy says.
    Decision {
        /// The action may run.
        Allow = "ALLOW",
        /// It must not.
        Block = "BLOCK",
        /// Not now.
        Defer = "DEFER",
    }
}

words! {
    /// How grave a reason is.
    Severity {
        /// For the record.
        Info = "info",
        /// It holds something up.
        Warn = "warn",
        /// It forbids something.
        Critical = "critical",
    }
}

object! {
    /// Why the policy decided so.
    PolicyReason / PolicyReasonParts ["policy/5", "R4"] {
        /// The rule.
        rule_id: RuleId = "ruleId",
        /// What it found, for a person.
        message: Text = "message",
        /// How grave that is.
        severity: Severity = "severity",
        /// What it found, for a program.
        evidence: JsonObject = "evidence",
    }
}

object! {
    /// What the policy engine answers.
    PolicyOutput / PolicyOutputParts ["policy/5", "policy/7"] {
        /// The engine came to a verdict.
        ok: bool = "ok",
        /// The verdict.
        decision: Decision = "decision",
        /// What may run.
        allowed_actions: List<ActionName> = "allowedActions",
        /// What must not.
        blocked_actions: List<ActionName> = "blockedActions",
        /// What is put off.
        deferred_actions: List<ActionName> = "deferredActions",
        /// Why.
        reasons: List<PolicyReason, 1> = "reasons",
        /// How sure the engine is of it.
        confidence: Ratio = "confidence",
        /// The version of this contract.
        policy_contract_version: ContractVersion = "policyContractVersion",
        /// The input's instant.
        evaluated_at: Timestamp = "evaluatedAt",
    }
}

impl Contract for PolicyOutput {
    const NAME: ContractName = ContractName::PolicyOutput;

    fn rules(parts: &PolicyOutputParts, report: &mut Report) {
        let is_empty = |list: &Option<Vec<_>>| list.as_ref().is_some_and(Vec::is_empty);
        if parts.decision == Some(Decision::Allow) && is_empty(&parts.allowed_actions) {
            report.add(
                "/allowedActions",
                "policy/7",
                Code::Empty,
                "ALLOW must name at least one allowed action",
            );
        }
        if parts.decision == Some(Decision::Block) && is_empty(&parts.blocked_actions) {
            report.add(
                "/blockedActions",
                "policy/7",
                Code::Empty,
                "BLOCK must name at least one blocked action",
            );
        }
        in_one_list(parts, report);
    }

    fn schema_rules() -> Vec<Value> {
        let some = |list: &str| json!({ "properties": { list: { "minItems": 1 } } });
        vec![
            when(has("decision", json!({ "const": "ALLOW" })), some("allowedActions")),
            when(has("decision", json!({ "const": "BLOCK" })), some("blockedActions")),
        ]
    }
}

/// An action is allowed, blocked or deferred; it is in only one of the lists (R22).
fn in_one_list(parts: &PolicyOutputParts, report: &mut Report) {
    let lists = [
        ("allowedActions", &parts.allowed_actions),
        ("blockedActions", &parts.blocked_actions),
        ("deferredActions", &parts.deferred_actions),
    ];
    let mut first: BTreeMap<&str, &str> = BTreeMap::new();
    for (list, actions) in lists {
        for (position, action) in actions.iter().flatten().enumerate() {
            let Some(action) = action else { continue };
            let earlier = *first.entry(action.as_str()).or_insert(list);
            if earlier != list {
                let message = format!("`{action}` is in `{earlier}` too; an action may be in one list only");
                report.add(format!("/{list}/{position}"), "R22", Code::Mismatch, message);
            }
        }
    }
}

/// Judges an output against the input it answers. `required` names the timestamps the requested action needs;
/// if it is not given, recency is not judged.
pub fn answers_question(
    output: &PolicyOutputParts,
    input: &PolicyInputParts,
    required: Option<&[String]>,
    report: &mut Report,
) {
    if let (Some(answered), Some(asked)) = (&output.evaluated_at, &input.evaluated_at)
        && answered != asked
    {
        report.add(
            "/evaluatedAt",
            "policy/6",
            Code::ContextMismatch,
            format!("the input was to be evaluated at {}; an engine has no clock of its own", asked.as_str()),
        );
    }
    let (Some(coherence), Some(decision)) = (input.coherence_status, output.decision) else { return };
    match coherence {
        Coherence::Stale => stale_rules(decision, output, report),
        Coherence::Partial => partial_rules(decision, output, input, report),
        Coherence::Coherent => coherent_rules(decision, output, input, required.unwrap_or_default(), report),
    }
}

fn stale_rules(decision: Decision, output: &PolicyOutputParts, report: &mut Report) {
    if decision != Decision::Block {
        let message = format!("a stale snapshot must be answered with BLOCK, not {decision}");
        report.add("/decision", "policy/7", Code::DecisionNotPermitted, message);
    }
    for action in ["builder.run", "robots.run"] {
        if lacks(&output.blocked_actions, action) {
            let message = format!("`{action}` must be blocked while the snapshot is stale; add it");
            report.add("/blockedActions", "policy/7", Code::NotListed, message);
        }
    }
}

fn partial_rules(
    decision: Decision,
    output: &PolicyOutputParts,
    input: &PolicyInputParts,
    report: &mut Report,
) {
    let may_draft = input.thresholds.allow_draft_only();
    match decision {
        Decision::Defer => {}
        Decision::Allow if may_draft => {}
        Decision::Allow => report.add(
            "/decision",
            "policy/6",
            Code::DecisionNotPermitted,
            "a partial snapshot must be answered with DEFER unless the threshold allowDraftOnly is 1 (R21)",
        ),
        Decision::Block => report.add(
            "/decision",
            "policy/6",
            Code::DecisionNotPermitted,
            "a partial snapshot is answered with DEFER, or ALLOW for drafts, never BLOCK",
        ),
    }
    if may_draft {
        for (position, action) in output.allowed_actions.iter().flatten().enumerate() {
            if action.as_ref().is_some_and(|action| action.as_str() != "builder.run") {
                let message = "draft-only execution allows `builder.run` alone; remove this action";
                report.add(
                    format!("/allowedActions/{position}"),
                    "policy/6",
                    Code::DecisionNotPermitted,
                    message,
                );
            }
        }
    }
}

fn coherent_rules(
    decision: Decision,
    output: &PolicyOutputParts,
    input: &PolicyInputParts,
    required: &[String],
    report: &mut Report,
) {
    match decision {
        Decision::Defer => return,
        Decision::Block => {
            let message = "a coherent snapshot is answered with ALLOW or DEFER, never BLOCK";
            return report.add("/decision", "policy/6", Code::DecisionNotPermitted, message);
        }
        Decision::Allow => {}
    }
    match input.requested_action.present() {
        None => {
            let message = "only the requested action can be allowed, and none was requested; answer DEFER";
            report.add("/decision", "policy/6", Code::DecisionNotPermitted, message);
        }
        Some(Some(action)) if lacks(&output.allowed_actions, action.as_str()) => {
            let message = format!("ALLOW must name the requested action `{action}`; add it or answer DEFER");
            report.add("/allowedActions", "policy/6", Code::NotListed, message);
        }
        Some(_) => {}
    }
    let (Some(now), Some(limit), Some(recency)) =
        (&input.evaluated_at, input.thresholds.max_staleness_minutes, &input.ledger_recency)
    else {
        return;
    };
    let max_age = MaxAge::from_minutes(limit);
    for name in required {
        let message = match recency.get(name) {
            None => format!("the action needs `{name}` and the input has none; answer DEFER"),
            Some(at) if !max_age.is_fresh(at.instant(), now.instant()) => format!(
                "`{name}` is {}, not within {} minutes before {}; answer DEFER",
                at.as_str(),
                limit.get(),
                now.as_str()
            ),
            Some(_) => continue,
        };
        report.add("/decision", "policy/6", Code::DecisionNotPermitted, message);
    }
}

fn lacks(list: &Option<Vec<Option<ActionName>>>, action: &str) -> bool {
    list.as_ref().is_some_and(|list| !list.iter().flatten().any(|listed| listed.as_str() == action))
}
