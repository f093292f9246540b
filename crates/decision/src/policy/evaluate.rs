//! The engine: R22's rules in their order over one PolicyInput. Pure and total; anything that cannot be decided is
//! answered by `engine.error`, which refuses.

use crealeph_contracts::agent_input::{Coherence, ContractVersion};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{JsonObject, PlainWriter};
use crealeph_contracts::policy_input::PolicyInput;
use crealeph_contracts::policy_output::{Decision, PolicyOutput, PolicyReason, Severity};
use crealeph_contracts::scalar::{ActionName, Literal, Ratio, RuleId, Text};
use crealeph_contracts::shape::{List, nearest};
use crealeph_contracts::staleness::MaxAge;

use super::confidence::Freshness;
use super::rules::{Need, Rules};
use super::{BUILDER_RUN, rule};
use crate::snapshot::SnapshotType;

/// The actions that a stale snapshot always blocks (R22).
const BLOCKED_WHEN_STALE: [Literal; 3] = [BUILDER_RUN, Literal::new("robots.run"), Literal::new("work.run")];

fn is_blocked_when_stale(action: &ActionName) -> bool {
    BLOCKED_WHEN_STALE.iter().any(|blocked| blocked.as_str() == action.as_str())
}

/// Decides. The same input and rules give the same bytes on any machine, in any year.
pub fn evaluate(input: &PolicyInput, rules: &Rules) -> PolicyOutput {
    decide(input, rules).unwrap_or_else(|| engine_error(input))
}

/// `None` if the engine cannot decide: no rules, or a value that cannot be built.
fn decide(input: &PolicyInput, rules: &Rules) -> Option<PolicyOutput> {
    rules.actions().next()?;
    let action = input.requested_action.as_ref();
    let needs = action.and_then(|action| rules.needs(action.as_str()));
    let limit = MaxAge::from_minutes(input.thresholds.max_staleness_minutes);
    let now = input.evaluated_at.instant();
    let freshness = Freshness::of(needs.unwrap_or_default(), &input.ledger_recency, now, limit)?;
    let question = Question { input, rules, action, needs, limit, now, freshness };
    match input.coherence_status {
        Coherence::Stale => question.stale(),
        Coherence::Partial => question.partial(),
        Coherence::Coherent => question.coherent(),
    }
}

struct Question<'a> {
    input: &'a PolicyInput,
    rules: &'a Rules,
    action: Option<&'a ActionName>,
    needs: Option<&'a [Need]>,
    limit: MaxAge,
    now: Instant,
    freshness: Freshness,
}

/// The lists of an output; no action is in two of them.
#[derive(Default)]
struct Lists {
    allowed: Vec<ActionName>,
    blocked: Vec<ActionName>,
    deferred: Vec<ActionName>,
}

impl Question<'_> {
    fn stale(&self) -> Option<PolicyOutput> {
        let outdated = known_types(self.input.intelligence_snapshot.outdated());
        let mut lists =
            Lists { blocked: BLOCKED_WHEN_STALE.map(ActionName::from).into(), ..Lists::default() };
        for action in self.rules.actions().filter(|action| !is_blocked_when_stale(action)) {
            match self.refreshes_any_of(action, &outdated) {
                true => lists.allowed.push(action.clone()),
                false => lists.deferred.push(action.clone()),
            }
        }
        if let Some(action) = self.action
            && self.needs.is_none()
            && !is_blocked_when_stale(action)
        {
            lists.blocked.push(action.clone());
        }
        let evidence = JsonObject::build(|object| {
            object.texts("outdated", names(&outdated));
            self.write_refreshers(object, &outdated);
        });
        let message = match outdated.is_empty() {
            true => "the snapshot is stale; refresh what rests on overtaken evidence".to_owned(),
            false => {
                let types = names(&outdated).join(", ");
                format!("the snapshot is stale: {types} must be made anew on the newest evidence")
            }
        };
        let reason = reason(rule::STALE, &message, Severity::Critical, evidence)?;
        self.output(Decision::Block, lists, vec![reason], Freshness::WHOLE)
    }

    /// Whether an action would refresh one of the outdated types; if none are named, any of those that can be.
    fn refreshes_any_of(&self, action: &ActionName, outdated: &[SnapshotType]) -> bool {
        let types = if outdated.is_empty() { &SnapshotType::ALL } else { outdated };
        types.iter().any(|kind| self.rules.refreshers(kind.timestamp()).contains(action))
    }

    fn partial(&self) -> Option<PolicyOutput> {
        let may_draft = self.input.thresholds.allow_draft_only();
        let is_builder = self.action.is_some_and(|action| action.as_str() == BUILDER_RUN.as_str());
        let mut lists = Lists::default();
        for action in self.rules.actions() {
            match may_draft && action.as_str() == BUILDER_RUN.as_str() {
                true => lists.allowed.push(action.clone()),
                false => lists.deferred.push(action.clone()),
            }
        }
        if let Some(action) = self.action
            && self.needs.is_none()
        {
            lists.deferred.push(action.clone());
        }
        let missing = known_types(self.input.intelligence_snapshot.partial());
        if may_draft && is_builder && !lists.allowed.is_empty() {
            let evidence = JsonObject::build(|object| {
                object.number("allowDraftOnly", 1.0).texts("partial", names(&missing));
            });
            let message = "the snapshot is partial and drafts are allowed: builder.run may run, as a dry run";
            let reason = reason(rule::DRAFT_ONLY, message, Severity::Info, evidence)?;
            return self.output(Decision::Allow, lists, vec![reason], self.freshness);
        }
        let evidence = JsonObject::build(|object| {
            object.texts("partial", names(&missing));
            self.write_refreshers(object, &missing);
            if !may_draft {
                object.object("orForDrafts", |drafts| {
                    drafts.text("requestedAction", BUILDER_RUN.as_str()).number("allowDraftOnly", 1.0);
                });
            }
        });
        let (rule, message) = match may_draft {
            true => {
                (rule::DRAFT_ONLY, "the snapshot is partial: only builder.run may run, for drafts".to_owned())
            }
            false if missing.is_empty() => {
                (rule::PARTIAL, "the snapshot is partial: complete what is missing".to_owned())
            }
            false => {
                (rule::PARTIAL, format!("the snapshot is partial: complete {}", names(&missing).join(", ")))
            }
        };
        let reason = reason(rule, &message, Severity::Warn, evidence)?;
        self.output(Decision::Defer, lists, vec![reason], self.freshness.complement())
    }

    fn coherent(&self) -> Option<PolicyOutput> {
        let mut reasons = Vec::with_capacity(1);
        match (self.action, self.needs) {
            (None, _) => reasons.push(self.action_missing()?),
            (Some(action), None) => reasons.push(self.action_unknown(action)?),
            (Some(_), Some(needs)) => self.recency(needs, &mut reasons)?,
        }
        // One need may be stale and the next missing; the rules are listed in their order all the same.
        let order = |reason: &PolicyReason| {
            rule::IN_ORDER.iter().position(|rule| rule.as_str() == reason.rule_id.as_str())
        };
        reasons.sort_by_key(order);
        self.lineage(&mut reasons)?;
        self.confidence(&mut reasons)?;
        let mut lists = Lists::default();
        if !reasons.is_empty() {
            lists.deferred.extend(self.action.cloned());
            return self.output(Decision::Defer, lists, reasons, self.freshness.complement());
        }
        lists.allowed.push(self.action?.clone());
        let evidence = JsonObject::build(|object| {
            for name in self.needed_timestamps() {
                if let Some(at) = self.input.ledger_recency.get(name) {
                    object.text(name, at.as_str());
                }
            }
        });
        let message = "the snapshot is coherent and what the action needs is fresh";
        reasons.push(reason(rule::COHERENT, message, Severity::Info, evidence)?);
        self.output(Decision::Allow, lists, reasons, self.freshness)
    }

    /// Every timestamp the action needs, alternatives too, each once.
    fn needed_timestamps(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::with_capacity(4);
        for name in self.needs.unwrap_or_default().iter().flat_map(Need::alternatives) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    fn action_missing(&self) -> Option<PolicyReason> {
        let evidence = JsonObject::build(|object| {
            object.object("toAllow", |to_allow| {
                to_allow.texts("requestedActionOneOf", self.rules.actions());
            });
        });
        reason(rule::ACTION_MISSING, "no action was requested; name one", Severity::Warn, evidence)
    }

    fn action_unknown(&self, action: &ActionName) -> Option<PolicyReason> {
        let known: Vec<&str> = self.rules.actions().map(ActionName::as_str).collect();
        let evidence = JsonObject::build(|object| {
            object.text("requestedAction", action.as_str());
            object.object("toAllow", |to_allow| {
                to_allow.texts("requestedActionOneOf", &known);
            });
        });
        let message = match nearest(action.as_str(), &known) {
            Some(near) => format!("the rules know no action `{action}`; did you mean `{near}`?"),
            None => format!("the rules know no action `{action}`; give it a rule or name one that has"),
        };
        reason(rule::ACTION_UNKNOWN, &message, Severity::Warn, evidence)
    }

    /// One reason for every timestamp that prevents the action. Of alternatives of which none is fresh, the existing ones
    /// are named; if none exists, the need as a whole.
    fn recency(&self, needs: &[Need], reasons: &mut Vec<PolicyReason>) -> Option<()> {
        for need in needs {
            let recency = &self.input.ledger_recency;
            let is_fresh = |name: &String| {
                recency.get(name).is_some_and(|at| self.limit.is_fresh(at.instant(), self.now))
            };
            if need.alternatives().iter().any(is_fresh) {
                continue;
            }
            let present: Vec<&String> =
                need.alternatives().iter().filter(|name| recency.get(name).is_some()).collect();
            if present.is_empty() {
                let names = need.alternatives().join(" or ");
                let message = format!("the action needs {names}, and there is none");
                let evidence = self.recency_evidence(need, None);
                reasons.push(reason(rule::RECENCY_MISSING, &message, Severity::Warn, evidence)?);
            }
            for name in present {
                let at = recency.get(name)?;
                let (rule, message) = if at.instant() > self.now {
                    (rule::RECENCY_FUTURE, format!("{name} lies after the instant of evaluation"))
                } else {
                    let limit = self.input.thresholds.max_staleness_minutes.get();
                    (rule::RECENCY_STALE, format!("{name} is older than the {limit} minutes allowed"))
                };
                reasons.push(reason(
                    rule,
                    &message,
                    Severity::Warn,
                    self.recency_evidence(need, Some(name)),
                )?);
            }
        }
        Some(())
    }

    /// What was found for a timestamp, and what would make it fresh: which timestamps may be refreshed, to an instant from when to
    /// when, by which actions.
    fn recency_evidence(&self, need: &Need, name: Option<&String>) -> JsonObject {
        JsonObject::build(|object| {
            if let Some((name, at)) = name.and_then(|name| Some((name, self.input.ledger_recency.get(name)?)))
            {
                object.text("timestamp", name).text("value", at.as_str());
                let age_nanos = self.now.nanos_since(at.instant());
                object.number("ageMinutes", age_nanos as f64 / 60e9);
            }
            object.number("maxStalenessMinutes", self.input.thresholds.max_staleness_minutes.get());
            object.object("toAllow", |to_allow| {
                to_allow.texts("anyOf", need.alternatives());
                if let Some(earliest) = self.earliest_fresh() {
                    to_allow.text("notBefore", &earliest.to_string());
                }
                to_allow.text("notAfter", self.input.evaluated_at.as_str());
                let refreshers = need.alternatives().iter().flat_map(|name| self.rules.refreshers(name));
                to_allow.texts("refreshedBy", refreshers);
            });
        })
    }

    /// The earliest instant that is fresh, on the next whole millisecond; `None` if the limit reaches past the year 0.
    fn earliest_fresh(&self) -> Option<Instant> {
        const MILLI: i128 = 1_000_000;
        let year_zero = Instant::parse("0000-01-01T00:00:00Z").ok()?;
        let limit_nanos = i128::try_from(self.limit.whole_nanos()).ok()?;
        let earliest = self.now.unix_nanos().checked_sub(limit_nanos)?;
        let rounded = Instant::from_unix_nanos(earliest.div_euclid(MILLI) * MILLI);
        let ceiling = match rounded.unix_nanos() == earliest {
            true => rounded,
            false => Instant::from_unix_nanos(rounded.unix_nanos() + MILLI),
        };
        (ceiling >= year_zero).then_some(ceiling)
    }

    fn lineage(&self, reasons: &mut Vec<PolicyReason>) -> Option<()> {
        let count = self.input.intelligence_snapshot.lineage_count();
        let least = self.input.thresholds.min_lineage_count.get();
        if (count as f64) < least {
            let evidence = JsonObject::build(|object| {
                object.number("lineageCount", count as f64).number("minLineageCount", least);
                object.object("toAllow", |to_allow| {
                    to_allow.number("lineageCountAtLeast", least.ceil());
                });
            });
            let message = format!("the snapshot rests on {count} entries, and {least} are wanted");
            reasons.push(reason(rule::LINEAGE_INSUFFICIENT, &message, Severity::Warn, evidence)?);
        }
        Some(())
    }

    fn confidence(&self, reasons: &mut Vec<PolicyReason>) -> Option<()> {
        let confidence = self.freshness.ratio()?.get();
        let least = self.input.thresholds.min_confidence.get();
        if confidence < least {
            let limit = self.input.thresholds.max_staleness_minutes.get();
            let evidence = JsonObject::build(|object| {
                object.number("confidence", confidence).number("minConfidence", least);
                object.object("toAllow", |to_allow| {
                    to_allow.number("confidenceAtLeast", least);
                    to_allow.number("meanAgeMinutesAtMost", limit.min(2.0 * limit * (1.0 - least)));
                    let needed = self.needed_timestamps();
                    to_allow.texts("of", &needed);
                    to_allow.texts("refreshedBy", needed.iter().flat_map(|name| self.rules.refreshers(name)));
                });
            });
            let message = format!("the evidence is fresh to {confidence}, and {least} is wanted");
            reasons.push(reason(rule::CONFIDENCE_INSUFFICIENT, &message, Severity::Warn, evidence)?);
        }
        Some(())
    }

    /// For each type, the actions that would refresh it, and what the coherence must become.
    fn write_refreshers(&self, object: &mut PlainWriter<'_>, types: &[SnapshotType]) {
        object.object("toAllow", |to_allow| {
            to_allow.text("coherenceStatus", Coherence::Coherent.as_str());
            to_allow.object("refreshedBy", |refreshed| {
                for kind in types {
                    refreshed.texts(kind.as_str(), self.rules.refreshers(kind.timestamp()));
                }
            });
        });
    }

    fn output(
        &self,
        decision: Decision,
        lists: Lists,
        reasons: Vec<PolicyReason>,
        confidence: Freshness,
    ) -> Option<PolicyOutput> {
        Some(PolicyOutput {
            ok: true,
            decision,
            allowed_actions: List::from_iter(lists.allowed),
            blocked_actions: List::from_iter(lists.blocked),
            deferred_actions: List::from_iter(lists.deferred),
            reasons: List::new(reasons)?,
            confidence: confidence.ratio()?,
            policy_contract_version: ContractVersion::V1,
            evaluated_at: self.input.evaluated_at.clone(),
        })
    }
}

/// The snapshot types among names that a client sent: each once, in their order, and nothing else.
fn known_types(sent: &[Box<str>]) -> Vec<SnapshotType> {
    SnapshotType::ALL.into_iter().filter(|kind| sent.iter().any(|name| &**name == kind.as_str())).collect()
}

fn names(types: &[SnapshotType]) -> Vec<&'static str> {
    types.iter().map(|kind| kind.as_str()).collect()
}

fn reason(rule: Literal, message: &str, severity: Severity, evidence: JsonObject) -> Option<PolicyReason> {
    Some(PolicyReason { rule_id: RuleId::from(rule), message: Text::new(message)?, severity, evidence })
}

/// The answer when the engine could not decide (R22): BLOCK when stale, else DEFER; never ALLOW.
fn engine_error(input: &PolicyInput) -> PolicyOutput {
    const MESSAGE: Literal = Literal::new(
        "the policy engine could not decide: it has no rules, or a value is beyond what it can weigh",
    );
    let requested = input.requested_action.iter();
    let (decision, severity, blocked, deferred) = match input.coherence_status {
        Coherence::Stale => {
            let mut blocked = Vec::from(BLOCKED_WHEN_STALE.map(ActionName::from));
            blocked.extend(requested.filter(|action| !is_blocked_when_stale(action)).cloned());
            (Decision::Block, Severity::Critical, blocked, Vec::new())
        }
        _ => (Decision::Defer, Severity::Warn, Vec::new(), requested.cloned().collect()),
    };
    PolicyOutput {
        ok: false,
        decision,
        allowed_actions: List::default(),
        blocked_actions: List::from_iter(blocked),
        deferred_actions: List::from_iter(deferred),
        reasons: List::one(PolicyReason {
            rule_id: RuleId::from(rule::ENGINE_ERROR),
            message: Text::from(MESSAGE),
            severity,
            evidence: JsonObject::empty(),
        }),
        confidence: Ratio::ONE,
        policy_contract_version: ContractVersion::V1,
        evaluated_at: input.evaluated_at.clone(),
    }
}

/// The role of a rule in a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It did not apply.
    Passed,
    /// It decided.
    Decided,
    /// It was not evaluated, because an earlier one decided.
    NotAsked,
}

/// Every rule in its order, and its role in this decision. A rule on coherence that decides ends the evaluation; the
/// rules between are all evaluated, and if any of them applies the last is not.
pub fn standings(output: &PolicyOutput) -> Vec<(&'static str, Standing)> {
    let speaks = |rule: Literal| {
        output.reasons.as_slice().iter().any(|reason| reason.rule_id.as_str() == rule.as_str())
    };
    let ends_at = match speaks(rule::ENGINE_ERROR) {
        true => Some(0),
        false => rule::IN_ORDER.iter().take(3).position(|rule| speaks(*rule)),
    };
    let mut standings = Vec::with_capacity(rule::IN_ORDER.len());
    for (position, rule) in rule::IN_ORDER.into_iter().enumerate() {
        let is_over = ends_at.is_some_and(|end| position >= end)
            || (rule == rule::COHERENT && standings.iter().any(|(_, earlier)| *earlier == Standing::Decided));
        let standing = match (speaks(rule), is_over) {
            (true, _) => Standing::Decided,
            (false, true) => Standing::NotAsked,
            (false, false) => Standing::Passed,
        };
        standings.push((rule.as_str(), standing));
    }
    standings
}
