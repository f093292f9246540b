//! Executions of the Builder in a report: the request, which rule decided on how old evidence, the artifacts, who approved them, and
//! whether the recorded decision follows from the log.

use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{ExecutionId, LedgerId, Name, RobotId, TenantId};
use crealeph_contracts::staleness::MaxAge;
use crealeph_decision::builder::Record;
use crealeph_decision::builder::conclude::BUILDER;
use crealeph_decision::builder::review::is_draft;
use crealeph_decision::policy::{Standing, standings};
use crealeph_decision::snapshot::SnapshotType;
use crealeph_ledger::{EXECUTION_EVENT, Filter, IdKind, Ledger, StoredEntry};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

use super::approvals::{self, ApprovalStory};
use super::{
    MAX_DETAILS, MAX_ROWS, ReportError, ReportQuestion, ReportSource, ReportSubject, TextPart, id_text,
    newest_first,
};
use crate::builder::{self, Execution, Scopes};
use crate::remedies::remedies;
use crate::robot_report::event_reason;

const NANOS_PER_MINUTE: i128 = 60_000_000_000;
/// How much of a request or an artifact is kept.
const MAX_CONTENT_BYTES: usize = 16 << 10;
/// How many attempts, and how many artifacts, of an execution are shown.
const MAX_PARTS: usize = 20;
/// How many of an execution's newest events are listed.
const MAX_EVENTS: usize = 100;

/// The executions of a report.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionSection {
    /// One line an execution, newest first.
    pub rows: Vec<ExecutionRow>,
    /// There are older ones that are not listed.
    pub has_more: bool,
    /// The newest of them in full.
    pub stories: Vec<ExecutionStory>,
}

/// An execution in one line, by its newest event.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionRow {
    /// Its id.
    #[serde(with = "id_text")]
    pub execution_id: ExecutionId,
    /// The short form of its id.
    pub short_id: String,
    /// The robot.
    #[serde(with = "id_text")]
    pub robot_id: RobotId,
    /// The state that it reached.
    pub state: String,
    /// When.
    pub at: String,
    /// The objective.
    pub action: Option<String>,
    /// Which attempt.
    pub attempt: Option<u64>,
}

/// An execution in full.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ExecutionStory {
    /// In one line.
    #[serde(flatten)]
    pub row: ExecutionRow,
    /// The objective, as in the request.
    pub objective: Option<TextPart>,
    /// Whether only drafts were asked for.
    pub dry_run: Option<bool>,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptStory>,
    /// How many older ones are not shown.
    pub attempts_left_out: u64,
    /// Its events, oldest first.
    #[serde(default)]
    pub events: Vec<EventStory>,
    /// How many older ones are not shown.
    #[serde(default)]
    pub events_left_out: u64,
    /// What it made.
    pub artifacts: Vec<ArtifactStory>,
    /// It made more than are listed.
    pub has_more_artifacts: bool,
    /// Records of it that cannot be read, by entry.
    pub unreadable: Vec<String>,
}

/// An attempt and how it was decided.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptStory {
    /// Its number.
    pub attempt: u64,
    /// The state that it ended in.
    pub state: String,
    /// When it was decided.
    pub decided_at: String,
    /// What the policy said.
    pub decision: String,
    /// How sure it was.
    pub confidence: f64,
    /// Which rules decided, and what they found.
    pub rules: Vec<RuleStory>,
    /// Every rule in its order, and whether it passed.
    #[serde(default)]
    pub evaluation: Vec<RuleEvaluation>,
    /// Whether the evidence was coherent.
    pub coherence: String,
    /// The newest evidence of each type, as it was then.
    pub evidence: Vec<EvidenceStory>,
    /// How old evidence might be, in minutes.
    pub max_age_minutes: f64,
    /// Whether the agent was called.
    pub agent_ran: bool,
    /// The agent that was called, as it is recorded.
    #[serde(default)]
    pub agent: Option<CalledAgentStory>,
    /// Why it ended so.
    pub reason: String,
    /// Whether the recorded decision follows from the log; absent if that was not asked.
    pub replay: Option<ReplayProof>,
}

/// An event of an execution.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventStory {
    /// Its entry.
    #[serde(with = "id_text")]
    pub entry: LedgerId,
    /// Of which attempt.
    pub attempt: Option<u64>,
    /// The state.
    pub state: String,
    /// When.
    pub at: String,
    /// The error, or why it was cancelled.
    pub reason: Option<String>,
}

/// The agent of an attempt. A record has no cost.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CalledAgentStory {
    /// Its name in the configuration.
    pub name: Option<String>,
    /// The version that the request named.
    pub version: String,
    /// What it is: `process` or `openai`.
    pub kind: Option<String>,
    /// How strong its sandbox was, or `remote`.
    pub sandbox: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// How many tokens it used, as it reported them.
    pub tokens: Option<f64>,
}

/// A rule that decided.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleStory {
    /// Its id.
    pub rule_id: String,
    /// What it found.
    pub message: String,
    /// What would change it, in sentences.
    pub to_change: Vec<String>,
}

/// What became of a rule.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuleEvaluation {
    /// Its id.
    pub rule_id: Cow<'static, str>,
    /// `passed`, `decided`, or `not evaluated` because an earlier rule decided.
    pub outcome: Cow<'static, str>,
}

/// Evidence, as old as it was when it was used.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvidenceStory {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Cow<'static, str>,
    /// The entry.
    #[serde(with = "id_text")]
    pub entry: LedgerId,
    /// When it was true.
    pub at: String,
    /// How old it was, in whole minutes; negative if it was from the future.
    pub age_minutes: i64,
    /// Whether that was fresh.
    pub is_fresh: bool,
    /// Whether there was newer evidence than it rests on.
    #[serde(default)]
    pub is_outdated: bool,
}

/// A recorded decision, derived again.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplayProof {
    /// Whether it follows.
    pub follows: bool,
    /// What differs.
    pub differs: Vec<Cow<'static, str>>,
}

/// An artifact that an execution made.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactStory {
    /// Its entry.
    #[serde(with = "id_text")]
    pub entry: LedgerId,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// `draft` or `planned`.
    pub state: String,
    /// Its content, as JSON.
    pub content: TextPart,
    /// The state of a draft.
    pub approval: Option<ApprovalStory>,
}

/// The requested executions.
pub(super) fn section(
    question: &ReportQuestion,
    source: &ReportSource<'_>,
) -> Result<ExecutionSection, ReportError> {
    let Some(log) = source.log else { return Ok(ExecutionSection::default()) };
    let (one, robot) = match &question.subject {
        ReportSubject::Execution(id, robot) => (Some(id), robot.as_ref().or(question.robot.as_ref())),
        _ => (None, question.robot.as_ref()),
    };
    let filter = Filter {
        robot_id: robot.cloned(),
        kind: Some(Name::parse(EXECUTION_EVENT)?),
        execution_id: one.cloned(),
        from: question.since,
        ..Filter::default()
    };
    let mut section = ExecutionSection::default();
    newest_first(log, &filter, |event| {
        let Some(row) = row(&event) else { return Ok(true) };
        let is_known =
            |known: &ExecutionRow| known.execution_id == row.execution_id && known.robot_id == row.robot_id;
        if section.rows.iter().any(is_known) {
            return Ok(true);
        }
        section.has_more = section.rows.len() >= MAX_ROWS;
        if !section.has_more {
            section.rows.push(row);
        }
        Ok(!section.has_more)
    })?;
    if let (Some(id), true) = (one, section.rows.is_empty()) {
        return Err(ReportError::NoExecution(id.clone()));
    }
    shorten(log, &mut section)?;
    for row in section.rows.iter().take(question.details.min(MAX_DETAILS)) {
        let found = builder::execution(log.0, log.1, Some(&row.robot_id), &row.execution_id)?;
        if let Some(found) = found {
            section.stories.push(story(log, source.scopes, row.clone(), &found, true)?);
        }
    }
    Ok(section)
}

/// One execution of a robot in full; absent if there is no event of it. Its decisions are derived again only if `replays` says so, which
/// reads for each attempt what was known then.
///
/// # Errors
/// When the ledger cannot be read.
pub fn execution_story(
    log: (&Ledger, &TenantId),
    scopes: &Scopes,
    (robot, id): (&RobotId, &ExecutionId),
    replays: bool,
) -> Result<Option<ExecutionStory>, ReportError> {
    let Some(found) = builder::execution(log.0, log.1, Some(robot), id)? else { return Ok(None) };
    let Some(row) = found.events.iter().rev().find_map(row) else { return Ok(None) };
    let mut section = ExecutionSection { rows: vec![row], ..ExecutionSection::default() };
    shorten(log, &mut section)?;
    section.rows.into_iter().next().map(|row| story(log, scopes, row, &found, replays)).transpose()
}

fn row(event: &StoredEntry) -> Option<ExecutionRow> {
    let payload = JsonObject::parse_own(&event.content.payload)?;
    let (execution_id, action, attempt) = payload.with(|payload| {
        let text = |key: &str| payload.member(key)?.string().map(|text| text.into_owned());
        let attempt = payload.member("attempt").and_then(|attempt| attempt.number());
        Some((text("executionId")?, text("action"), attempt.map(|attempt| attempt as u64)))
    })?;
    Some(ExecutionRow {
        short_id: execution_id.clone(),
        execution_id: ExecutionId::parse(&execution_id).ok()?,
        robot_id: event.content.robot_id.clone(),
        state: event.content.state.to_string(),
        at: event.created_at.to_string(),
        action,
        attempt,
    })
}

fn shorten(
    (ledger, tenant): (&Ledger, &TenantId),
    section: &mut ExecutionSection,
) -> Result<(), ReportError> {
    let ids: Vec<&str> = section.rows.iter().map(|row| row.execution_id.as_str()).collect();
    let short = ledger.short_ids(tenant, IdKind::Execution, &ids)?;
    section.rows.iter_mut().zip(short).for_each(|(row, short)| row.short_id = short);
    Ok(())
}

fn story(
    log: (&Ledger, &TenantId),
    scopes: &Scopes,
    row: ExecutionRow,
    found: &Execution,
    replays: bool,
) -> Result<ExecutionStory, ReportError> {
    let newest = found.records.last().map(|(_, record)| record);
    let objective = newest.map(|record| {
        let payload = record.request.objective_payload.canonical();
        TextPart::start(&format!("{} {payload}", record.request.objective_type), MAX_CONTENT_BYTES)
    });
    let attempts_left_out = found.records.len().saturating_sub(MAX_PARTS);
    let shown = found.records.iter().skip(attempts_left_out);
    let attempts =
        shown.map(|(entry, record)| attempt(log, entry, record, replays)).collect::<Result<_, _>>()?;
    let is_artifact = |entry: &&StoredEntry| entry.content.module.as_str() == BUILDER.as_str();
    let mut artifacts = Vec::new();
    for entry in found.others.iter().filter(is_artifact).take(MAX_PARTS) {
        artifacts.push(artifact(log, scopes, entry)?);
    }
    let events_left_out = found.events.len().saturating_sub(MAX_EVENTS);
    Ok(ExecutionStory {
        row,
        objective,
        dry_run: newest.map(|record| record.request.dry_run),
        attempts,
        attempts_left_out: attempts_left_out as u64,
        events: found.events.iter().skip(events_left_out).map(event).collect(),
        events_left_out: events_left_out as u64,
        has_more_artifacts: found.is_cut || found.others.iter().filter(is_artifact).count() > MAX_PARTS,
        artifacts,
        unreadable: found.unreadable.iter().map(ToString::to_string).collect(),
    })
}

fn event(event: &StoredEntry) -> EventStory {
    let row = row(event);
    let message = event.to_entry().payload.and_then(|payload| {
        payload.with(|payload| Some(payload.member("error")?.member("message")?.string()?.into_owned()))
    });
    let reason = event_reason(event);
    EventStory {
        entry: event.id.clone(),
        attempt: row.and_then(|row| row.attempt),
        state: event.content.state.to_string(),
        at: event.created_at.to_string(),
        reason: match (reason, message) {
            (Some(code), Some(message)) => Some(format!("{code}: {message}")),
            (reason, message) => reason.or(message),
        },
    }
}

/// The agent that a record names.
fn called_agent(record: &Record) -> Option<CalledAgentStory> {
    let agent = record.agent.as_ref()?;
    let said = |name: &str| agent.identity.with(|it| Some(it.member(name)?.string()?.into_owned()));
    Some(CalledAgentStory {
        name: said("name"),
        version: record.request.agent_version.to_string(),
        kind: said("kind"),
        sandbox: said("sandbox"),
        model: said("model"),
        tokens: agent.tokens_used.map(|tokens| tokens.get()),
    })
}

fn replay_proof(
    log: (&Ledger, &TenantId),
    entry: &StoredEntry,
    record: &Record,
) -> Result<ReplayProof, ReportError> {
    let checks = builder::replay(log.0, log.1, entry, record)?;
    let differs: Vec<Cow<'static, str>> =
        checks.iter().filter(|check| !check.is_same()).map(|check| check.what.into()).collect();
    Ok(ReplayProof { follows: differs.is_empty(), differs })
}

fn attempt(
    log: (&Ledger, &TenantId),
    entry: &StoredEntry,
    record: &Record,
    replays: bool,
) -> Result<AttemptStory, ReportError> {
    let replay = replays.then(|| replay_proof(log, entry, record)).transpose()?;
    let max_age = record.rules.thresholds().max_staleness_minutes;
    let snapshot = builder::snapshot_of(log.0, log.1, record)?;
    let evidence = snapshot.iter().flat_map(|snapshot| {
        let outdated = snapshot.coherence.outdated();
        SnapshotType::ALL.into_iter().filter_map(move |kind| {
            let newest = snapshot.facts.newest.get(kind).as_ref()?;
            let at = newest.entry.true_at().instant();
            Some(EvidenceStory {
                kind: kind.as_str().into(),
                entry: newest.entry.id.clone(),
                at: at.to_string(),
                age_minutes: age_minutes(at, record.evaluated_at),
                is_fresh: MaxAge::from_minutes(max_age).is_fresh(at, record.evaluated_at),
                is_outdated: outdated.contains(&kind),
            })
        })
    });
    let rules = record.policy.reasons.as_slice().iter().map(|reason| RuleStory {
        rule_id: reason.rule_id.to_string(),
        message: reason.message.as_str().to_owned(),
        to_change: match record.agent_ran {
            // If the agent ran, the policy allowed it.
            true => Vec::new(),
            false => reason.evidence.with(remedies),
        },
    });
    Ok(AttemptStory {
        attempt: record.attempt,
        state: record.answer.state.to_string(),
        decided_at: record.evaluated_at.to_string(),
        decision: record.policy.decision.to_string(),
        confidence: record.policy.confidence.get(),
        rules: rules.collect(),
        evaluation: standings(&record.policy).into_iter().map(rule_evaluation).collect(),
        coherence: record.coherence_status.to_string(),
        evidence: evidence.collect(),
        max_age_minutes: max_age.get(),
        agent_ran: record.agent_ran,
        agent: called_agent(record),
        reason: record.reason.clone(),
        replay,
    })
}

fn rule_evaluation((rule_id, standing): (&'static str, Standing)) -> RuleEvaluation {
    let outcome = match standing {
        Standing::Passed => "passed",
        Standing::Decided => "decided",
        Standing::NotAsked => "not evaluated",
    };
    RuleEvaluation { rule_id: rule_id.into(), outcome: outcome.into() }
}

fn age_minutes(at: Instant, then: Instant) -> i64 {
    let minutes = then.nanos_since(at).div_euclid(NANOS_PER_MINUTE);
    i64::try_from(minutes).unwrap_or(if minutes < 0 { i64::MIN } else { i64::MAX })
}

fn artifact(
    log: (&Ledger, &TenantId),
    scopes: &Scopes,
    entry: &StoredEntry,
) -> Result<ArtifactStory, ReportError> {
    let approval = match is_draft(entry.content.module.as_str(), entry.content.state.as_str()) {
        false => None,
        true => approvals::of_draft(log, scopes, &entry.id)?,
    };
    Ok(ArtifactStory {
        entry: entry.id.clone(),
        kind: entry.content.kind.to_string(),
        state: entry.content.state.to_string(),
        content: TextPart::start(&entry.content.payload, MAX_CONTENT_BYTES),
        approval,
    })
}
