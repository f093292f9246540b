//! Judging a document in its context, as conformance cases state it: an output against its input, an event
//! against ledger, history and gate, a work item against its siblings and its capsule. The contracts' validators and
//! this crate's decisions do the judging; this module only combines them.

use std::collections::BTreeMap;

use crealeph_contracts::agent_output::answers_input;
use crealeph_contracts::builder::{CoherencePolicy, ErrorCode, OnPartial};
use crealeph_contracts::contract::{Contract, ContractName, read_node, read_text};
use crealeph_contracts::execution_event::{EntryRef, ExecutionEventParts, ExecutionState, rests_on_ledger};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{Limits, Node, NodeKind, parse};
use crealeph_contracts::policy_output::answers_question;
use crealeph_contracts::scalar::{Count, ItemId, LedgerId, RobotId, TenantId};
use crealeph_contracts::shape::{Maybe, Shape, nearest};
use crealeph_contracts::violation::{Code, Report, Violation};
use crealeph_contracts::work_item::{Bounds, WorkItemParts};
use crealeph_contracts::{AgentInput, AgentOutput, ExecutionEvent, PolicyInput, PolicyOutput, WorkItem};

use crate::execution::{EventFingerprint, EventRefusal, EventVerdict, next_in_history};
use crate::gate::{GateOutcome, permitted_outcomes};
use crate::work::{DeltaCounts, Dependent, JudgedChange, Plan, PlanError, admit, plan};

/// The result of judging a document.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    /// Everything wrong with it; nothing when it is valid.
    pub violations: Vec<Violation>,
    /// It is valid, and a repeat of an event that is already recorded (R10).
    pub is_repeat: bool,
    /// The levels of a set of work items.
    pub plan: Option<Plan>,
}

/// Why a document cannot be judged: its context is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the context's `{key}` cannot be used: {why}")]
pub struct ContextError {
    key: String,
    why: String,
}

/// Judges a document of a contract, in its context if it has one.
pub fn judge(
    contract: ContractName,
    document: &[u8],
    context: Option<Node<'_>>,
    limits: &Limits,
) -> Result<Judgement, ContextError> {
    let context = Context::read(context)?;
    match contract {
        ContractName::AgentOutput => judge_output(document, &context, limits),
        ContractName::PolicyOutput => judge_policy(document, &context, limits),
        ContractName::ExecutionEvent => judge_event(document, &context, limits),
        ContractName::WorkItem => judge_item(document, &context, limits),
        _ => Ok(Judgement { violations: contract.validate(document, limits), ..Judgement::default() }),
    }
}

/// The members of a context; a key that no contract's context has is an error and not ignored.
struct Context<'a>(Vec<(String, Node<'a>)>);

impl<'a> Context<'a> {
    const KEYS: [&'static str; 10] = [
        "agentInput",
        "policyInput",
        "requiredRecency",
        "ledger",
        "history",
        "coherencePolicy",
        "terminal",
        "siblings",
        "levels",
        "capsule",
    ];

    fn read(context: Option<Node<'a>>) -> Result<Self, ContextError> {
        let Some(node) = context.filter(|node| node.kind() != NodeKind::Null) else {
            return Ok(Context(Vec::new()));
        };
        if node.kind() != NodeKind::Object {
            return Err(bad("context", format!("expected an object, found {}", node.kind().described())));
        }
        let mut members = Vec::new();
        for (key, value) in node.members() {
            let key = key.text_value().into_owned();
            if !Self::KEYS.contains(&key.as_str()) {
                let hint = nearest(&key, &Self::KEYS).map(|near| format!("; did you mean `{near}`?"));
                return Err(bad(&key, format!("no context has such a key{}", hint.unwrap_or_default())));
            }
            members.push((key, value));
        }
        Ok(Context(members))
    }

    fn get(&self, key: &str) -> Option<Node<'a>> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| *value)
    }

    fn elements(&self, key: &str) -> Result<Option<Vec<Node<'a>>>, ContextError> {
        match self.get(key) {
            None => Ok(None),
            Some(node) if node.kind() == NodeKind::Array => Ok(Some(node.elements().collect())),
            Some(node) => Err(bad(key, format!("expected an array, found {}", node.kind().described()))),
        }
    }
}

fn bad(key: &str, why: impl Into<String>) -> ContextError {
    ContextError { key: key.to_owned(), why: why.into() }
}

/// Reads what can be read of a document in the context. It need not be valid itself: an output may answer an input
/// that should never have been sent.
fn context_parts<T: Contract>(node: Node<'_>) -> T::Parts {
    read_node::<T>(node, &mut Report::default())
}

fn judge_output(document: &[u8], context: &Context<'_>, limits: &Limits) -> Result<Judgement, ContextError> {
    let mut report = Report::default();
    let output = read_text::<AgentOutput>(document, limits, &mut report);
    if let (Some(output), Some(node)) = (&output, context.get("agentInput")) {
        let input = context_parts::<AgentInput>(node);
        if input.execution_id.is_none()
            || input.allowed_lineage.depends_on.is_none()
            || input.allowed_artifact_types.is_none()
        {
            return Err(bad("agentInput", "it lacks executionId, allowedLineage or allowedArtifactTypes"));
        }
        answers_input(output, &input, &mut report);
    }
    Ok(Judgement { violations: report.into_violations(), ..Judgement::default() })
}

fn judge_policy(document: &[u8], context: &Context<'_>, limits: &Limits) -> Result<Judgement, ContextError> {
    let mut report = Report::default();
    let output = read_text::<PolicyOutput>(document, limits, &mut report);
    if let (Some(output), Some(node)) = (&output, context.get("policyInput")) {
        let input = context_parts::<PolicyInput>(node);
        if input.coherence_status.is_none() || input.evaluated_at.is_none() {
            return Err(bad("policyInput", "it lacks coherenceStatus or evaluatedAt"));
        }
        let required = context.elements("requiredRecency")?.map(|names| {
            names.into_iter().map(|name| name.text_value().into_owned()).collect::<Vec<String>>()
        });
        answers_question(output, &input, required.as_deref(), &mut report);
    }
    Ok(Judgement { violations: report.into_violations(), ..Judgement::default() })
}

fn judge_event(document: &[u8], context: &Context<'_>, limits: &Limits) -> Result<Judgement, ContextError> {
    let mut report = Report::default();
    let Some(event) = read_text::<ExecutionEvent>(document, limits, &mut report) else {
        return Ok(Judgement { violations: report.into_violations(), ..Judgement::default() });
    };
    if let Some(entries) = context.elements("ledger")? {
        let ledger = entries.into_iter().map(ledger_entry).collect::<Result<BTreeMap<_, _>, _>>()?;
        let lookup = |tenant: &TenantId, id: &LedgerId| ledger.get(&(tenant.clone(), id.clone())).cloned();
        rests_on_ledger(&event, lookup, &mut report);
    }
    apply_gate(&event, context, &mut report)?;
    let mut is_repeat = false;
    if let Some(history) = context.elements("history")? {
        let verdict = follows_history(document, &event, &history, limits)?;
        match verdict {
            Some(Ok(verdict)) => is_repeat = verdict == EventVerdict::Repeat,
            Some(Err(refusal)) => report_refusal(refusal, &mut report),
            None => {}
        }
    }
    let is_repeat = is_repeat && report.is_clean();
    Ok(Judgement { violations: report.into_violations(), is_repeat, plan: None })
}

fn ledger_entry(node: Node<'_>) -> Result<((TenantId, LedgerId), EntryRef), ContextError> {
    let text = |key: &str| node.member(key).and_then(Node::string);
    let id = text("id").and_then(|id| LedgerId::parse(&id).ok());
    let tenant_id = text("tenantId").and_then(|tenant| TenantId::parse(&tenant).ok());
    let created_at = text("createdAt").and_then(|at| Instant::parse(&at).ok());
    match (id, tenant_id, created_at) {
        (Some(id), Some(tenant_id), Some(created_at)) => {
            let robot_id = text("robotId").and_then(|robot| RobotId::parse(&robot).ok());
            Ok(((tenant_id, id), EntryRef { robot_id, created_at }))
        }
        _ => Err(bad("ledger", "an entry lacks id, tenantId or createdAt")),
    }
}

/// Judges the event as the next of its execution; `None` if it is not clear which event it is.
fn follows_history(
    document: &[u8],
    event: &ExecutionEventParts,
    history: &[Node<'_>],
    limits: &Limits,
) -> Result<Option<Result<EventVerdict, EventRefusal>>, ContextError> {
    let identity = |parts: &ExecutionEventParts| {
        Some((parts.tenant_id.clone()?, parts.robot_id.clone()?, parts.payload.execution_id.clone()?))
    };
    let step = |parts: &ExecutionEventParts| Some((parts.payload.attempt?.get(), parts.state?));
    let mut recorded = Vec::with_capacity(history.len());
    for &node in history {
        let parts = context_parts::<ExecutionEvent>(node);
        let (Some(earlier), Some((attempt, state))) = (identity(&parts), step(&parts)) else {
            return Err(bad(
                "history",
                "an event lacks its identity: tenantId, robotId, executionId, attempt, state",
            ));
        };
        if Some(earlier) == identity(event) {
            recorded.push(EventFingerprint::of_document(node, attempt, state));
        }
    }
    let (Some((attempt, state)), (Some(document), _)) = (step(event), parse(document, limits)) else {
        return Ok(None);
    };
    let next = EventFingerprint::of_document(document.root(), attempt, state);
    Ok(Some(next_in_history(&recorded, &next)))
}

fn report_refusal(refusal: EventRefusal, report: &mut Report) {
    let (pointer, clause, code) = match refusal {
        EventRefusal::Conflict { .. } => ("", "execution/3", Code::IdempotencyConflict),
        EventRefusal::Ended { .. } | EventRefusal::Transition { .. } => {
            ("/state", "execution/4", Code::IllegalTransition)
        }
        EventRefusal::AttemptLowered { .. } | EventRefusal::AttemptNotRaised { .. } => {
            ("/payload/attempt", "execution/3", Code::AttemptNotIncreased)
        }
    };
    report.add(pointer, clause, code, refusal.to_string());
}

/// Applies the gate if the context asks for it: an event that ends its attempt must be one that the table permits.
fn apply_gate(
    event: &ExecutionEventParts,
    context: &Context<'_>,
    report: &mut Report,
) -> Result<(), ContextError> {
    let is_terminal = match context.get("terminal") {
        None => false,
        Some(node) => node.boolean().ok_or_else(|| bad("terminal", "expected true or false"))?,
    };
    let on_partial: &[OnPartial] = match context.get("coherencePolicy") {
        None if is_terminal => OnPartial::ALL,
        None => return Ok(()),
        Some(node) => match CoherencePolicy::read(node, "builder/3", &mut Report::default()).on_partial {
            Some(OnPartial::Block) => &[OnPartial::Block],
            Some(OnPartial::DraftOnly) => &[OnPartial::DraftOnly],
            None => return Err(bad("coherencePolicy", "`on_partial` must be `block` or `draft_only`")),
        },
    };
    let payload = &event.payload;
    let (Some(state), Some(coherence), Some(is_dry_run)) =
        (event.state, payload.coherence_status, payload.dry_run)
    else {
        return Ok(());
    };
    if !is_terminal && matches!(state, ExecutionState::Planned | ExecutionState::Running) {
        return Ok(());
    }
    let mut permitted: Vec<GateOutcome> = Vec::new();
    for outcome in on_partial.iter().flat_map(|wish| permitted_outcomes(coherence, *wish, is_dry_run)) {
        if !permitted.contains(&outcome) {
            permitted.push(outcome);
        }
    }
    let is_known = report.has(&Code::GateRefused);
    if !is_known && !permitted.iter().any(|outcome| ends_as(event, state, *outcome)) {
        let listed: Vec<String> = permitted.iter().map(described).collect();
        let message = format!(
            "a {coherence} execution with dryRun {is_dry_run} can only end as {}",
            listed.join(", or ")
        );
        report.add("/state", "execution/5", Code::GateRefused, message);
    }
    Ok(())
}

fn ends_as(event: &ExecutionEventParts, state: ExecutionState, outcome: GateOutcome) -> bool {
    let is_rest_met = match outcome {
        GateOutcome::Planned | GateOutcome::Succeeded => true,
        GateOutcome::Failed { code, retryable } => match event.payload.error.present() {
            Some(error) => {
                let is_code =
                    error.code.as_ref().is_none_or(|given| ErrorCode::parse(given.as_str()) == Some(code));
                is_code && error.retryable.is_none_or(|given| given == retryable)
            }
            None => true,
        },
        GateOutcome::Cancelled { reason } => match &event.payload.cancel_reason {
            Maybe::Present(Some(given)) => given.as_str() == reason,
            _ => true,
        },
    };
    outcome.state() == state && is_rest_met
}

fn described(outcome: &GateOutcome) -> String {
    match outcome {
        GateOutcome::Planned | GateOutcome::Succeeded => format!("`{}`", outcome.state()),
        GateOutcome::Failed { code, retryable } => format!("`failed` with {code}, retryable {retryable}"),
        GateOutcome::Cancelled { reason } => format!("`cancelled` with {reason}"),
    }
}

fn judge_item(document: &[u8], context: &Context<'_>, limits: &Limits) -> Result<Judgement, ContextError> {
    let mut report = Report::default();
    let Some(item) = read_text::<WorkItem>(document, limits, &mut report) else {
        return Ok(Judgement { violations: report.into_violations(), ..Judgement::default() });
    };
    let planned = plan_with_siblings(&item, context, &mut report)?;
    if let Some(node) = context.get("capsule") {
        judge_capsule(&item, node, context, &mut report)?;
    }
    Ok(Judgement { violations: report.into_violations(), is_repeat: false, plan: planned })
}

fn plan_with_siblings(
    item: &WorkItemParts,
    context: &Context<'_>,
    report: &mut Report,
) -> Result<Option<Plan>, ContextError> {
    let mut set = Vec::new();
    for node in context.elements("siblings")?.unwrap_or_default() {
        let parts = context_parts::<WorkItem>(node);
        set.push(
            dependent(&parts).ok_or_else(|| bad("siblings", "an item lacks its id or its dependencies"))?,
        );
    }
    let Some(own) = dependent(item) else { return Ok(None) };
    let depends_on_itself = own.dependencies.contains(&own.id);
    set.push(own);
    match plan(&set, |_: &ItemId| false) {
        Ok(plan) => return Ok(Some(plan)),
        // Already reported, for the item alone.
        Err(PlanError::Cycle(_)) if depends_on_itself => {}
        Err(error @ PlanError::Cycle(_)) => {
            report.add("/dependencies", "run/dependencies", Code::Cycle, error.to_string());
        }
        Err(error @ PlanError::DuplicateId(_)) => {
            report.add("/id", "run/work-item", Code::DuplicateId, error.to_string());
        }
    }
    Ok(None)
}

fn dependent(parts: &WorkItemParts) -> Option<Dependent> {
    let dependencies = parts.dependencies.as_ref()?.iter().flatten().cloned().collect();
    Some(Dependent { id: parts.id.clone()?, dependencies })
}

fn judge_capsule(
    item: &WorkItemParts,
    node: Node<'_>,
    context: &Context<'_>,
    report: &mut Report,
) -> Result<(), ContextError> {
    if node.kind() != NodeKind::Object {
        return Err(bad("capsule", format!("expected an object, found {}", node.kind().described())));
    }
    let count = |key: &str| match node.member(key) {
        None => Ok(0),
        Some(value) => match value.number() {
            Some(number) if number >= 0.0 && number.fract() == 0.0 => Ok(number as u64),
            _ => Err(bad("capsule", format!("`{key}` must be a count"))),
        },
    };
    let artifacts = node.member("artifacts").map(|artifacts| artifacts.elements().collect::<Vec<_>>());
    let path =
        |artifact: Node<'_>| artifact.member("path").and_then(Node::string).map(|path| path.into_owned());
    let capsule = JudgedChange {
        paths: artifacts.unwrap_or_default().into_iter().filter_map(path).collect(),
        links: Vec::new(),
        tool_ops: count("toolTraceLength")?,
        deltas: DeltaCounts {
            others: count("deltaO")?,
            projections: count("deltaPi")?,
            laws: count("deltaLambda")?,
            invariants: count("deltaQ")?,
        },
    };
    let earlier = node.member("runHash").and_then(Node::string).and_then(|run_hash| {
        let history = node.member("history").or_else(|| context.get("history"))?;
        history
            .elements()
            .find(|seen| seen.string().as_ref() == Some(&run_hash))
            .map(|_| run_hash.into_owned())
    });
    let said = item.constraints.present();
    let read = |count: Option<&Maybe<Option<Count>>>| count.and_then(Maybe::present).copied().flatten();
    let bounds = Bounds::filled(
        read(said.map(|constraints| &constraints.max_files)),
        read(said.map(|constraints| &constraints.max_tool_ops)),
        read(said.map(|constraints| &constraints.max_delta_size)),
        said.and_then(|constraints| constraints.timeout_ms.present().copied().flatten()),
    );
    if let Err(denial) = admit(&capsule, &bounds, None, earlier.as_deref()) {
        let message = format!("the run is denied: {denial}");
        report.add("/constraints", "run/admission", Code::Denied(denial.reason().into()), message);
    }
    Ok(())
}
