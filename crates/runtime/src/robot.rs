//! The state of robots: what is known and how old, what came last, what waits, what may run and what would help.

use crealeph_contracts::PolicyOutput;
use crealeph_contracts::agent_input::Coherence;
use crealeph_contracts::approval::TENANT_ROBOT;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{ComposeError, JsonObject};
use crealeph_contracts::scalar::{ActionName, IdentifierError, Name, RobotId, TenantId};
use crealeph_decision::builder::decide::policy_question;
use crealeph_decision::coherence::coherence;
use crealeph_decision::policy::{NextStep, Rules, evaluate, way_to_run};
use crealeph_decision::snapshot::{Derivation, Snapshot, SnapshotType};
use crealeph_ledger::{EXECUTION_EVENT, Filter, Ledger, LedgerError, Order, StoredEntry};

use crate::approvals::RejectedSubjects;
use crate::builder::{Scopes, Settings};
use crate::review::{VerdictError, WaitingDrafts, count_waiting};

/// How many of a robot's newest drafts a list of robots looks at.
const DRAFTS_LOOKED_AT: usize = 1_000;
/// Of how many types the last entry is shown.
const MAX_TYPES: usize = 200;

/// The state of a robot.
#[derive(Clone, Debug)]
pub struct Status {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The robot.
    pub robot_id: RobotId,
    /// When that was judged.
    pub at: Instant,
    /// What is known; `None` if nothing counts.
    pub snapshot: Option<Snapshot>,
    /// BLAKE3 of its canonical text, as the record of an execution names it.
    pub snapshot_digest: Option<Blake3>,
    /// The entry that came last of each type, sorted by type.
    pub latest: Vec<StoredEntry>,
    /// There are more types than those.
    pub has_more_types: bool,
    /// How many drafts await approval.
    pub drafts: u64,
    /// What the policy says of each action there is; none if nothing is known.
    pub actions: Vec<(ActionName, PolicyOutput)>,
    /// What must be made before the Builder may run, in order.
    pub steps: Vec<NextStep>,
}

/// Why the status cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StatusError {
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The drafts could not be read.
    #[error(transparent)]
    Drafts(#[from] VerdictError),
    /// The snapshot cannot be composed.
    #[error(transparent)]
    Compose(#[from] ComposeError),
    /// A name is not valid.
    #[error("internal error: the question has an invalid name: {0}; please report it")]
    Name(#[from] IdentifierError),
}

impl StatusError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            StatusError::Ledger(error) => error.code(),
            StatusError::Drafts(error) => error.code(),
            StatusError::Compose(_) => "too_large",
            StatusError::Name(_) => "bad_name",
        }
    }
}

/// Reads the state of a robot now.
///
/// # Errors
/// When the ledger cannot be read.
pub fn status(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: &RobotId,
    settings: &Settings,
) -> Result<Status, StatusError> {
    let Settings { rules, coherence, .. } = settings;
    let read = ledger.facts_up_to(tenant, robot, None, coherence, Derivation::default())?;
    let (snapshot, now) = match read {
        Some((facts, position)) => (Snapshot::derive(facts, coherence), position.now),
        None => (None, ledger.now()),
    };
    let at = now.instant();
    let document = snapshot.as_ref().map(Snapshot::document).transpose()?;
    let snapshot_digest = document.as_ref().map(|document| Blake3::of(document.canonical().as_bytes()));
    let actions = match snapshot.as_ref().zip(document) {
        Some((snapshot, document)) => standings(tenant, snapshot, document, rules, at),
        None => Vec::new(),
    };
    let steps = way_to_run(snapshot.as_ref(), rules, coherence, at);
    let rejected = RejectedSubjects::read(ledger, tenant)?;
    let drafts = count_waiting(ledger, tenant, &rejected, robot, None)?.count;
    let (latest, has_more_types) = ledger.last_of_types(tenant, robot, MAX_TYPES)?;
    let (tenant_id, robot_id) = (tenant.clone(), robot.clone());
    Ok(Status {
        tenant_id,
        robot_id,
        at,
        latest,
        has_more_types,
        drafts,
        snapshot,
        snapshot_digest,
        actions,
        steps,
    })
}

/// What the policy says of each action, asked with one snapshot.
fn standings(
    tenant: &TenantId,
    snapshot: &Snapshot,
    document: JsonObject,
    rules: &Rules,
    at: Instant,
) -> Vec<(ActionName, PolicyOutput)> {
    let mut question = policy_question(tenant, snapshot, document, rules, None, at);
    let of_action = |action: &ActionName| {
        question.requested_action = Some(action.clone());
        (action.clone(), evaluate(&question, rules))
    };
    rules.actions().map(of_action).collect()
}

/// A robot in a list of all.
#[derive(Clone, Debug)]
pub struct RobotSummary {
    /// The robot.
    pub robot_id: RobotId,
    /// Whether what is known is coherent; `None` if nothing counts.
    pub coherence: Option<Coherence>,
    /// Of the newest entries of the snapshot types, the one that was true longest ago, and when that was.
    pub oldest_evidence: Option<(SnapshotType, Instant)>,
    /// The event that came last.
    pub last_event: Option<StoredEntry>,
    /// How many of its newest drafts await approval.
    pub drafts: WaitingDrafts,
}

/// A page of a tenant's robots, by name, each at the same cost however long the log is; and whether there are more.
///
/// # Errors
/// When the ledger cannot be read.
pub fn robots(
    ledger: &Ledger,
    tenant: &TenantId,
    scopes: &Scopes,
    after: Option<&RobotId>,
    limit: usize,
) -> Result<(Vec<RobotSummary>, bool), StatusError> {
    // What is about the tenant is no robot's, and one more says whether the list continues.
    let mut names = ledger.robots(tenant, after, limit.saturating_add(2))?;
    names.retain(|robot| robot.as_str() != TENANT_ROBOT.as_str());
    let has_more = names.len() > limit;
    names.truncate(limit);
    let rejected = RejectedSubjects::read(ledger, tenant)?;
    let summaries = names.into_iter().map(|robot_id| summarize(ledger, tenant, scopes, &rejected, robot_id));
    Ok((summaries.collect::<Result<_, StatusError>>()?, has_more))
}

/// One robot as a list has it; `None` if it has no entry.
///
/// # Errors
/// When the ledger cannot be read.
pub fn summary(
    ledger: &Ledger,
    tenant: &TenantId,
    scopes: &Scopes,
    robot: &RobotId,
) -> Result<Option<RobotSummary>, StatusError> {
    let (latest, has_more) = ledger.last_of_types(tenant, robot, 1)?;
    match latest.is_empty() && !has_more {
        true => Ok(None),
        false => {
            let rejected = RejectedSubjects::read(ledger, tenant)?;
            summarize(ledger, tenant, scopes, &rejected, robot.clone()).map(Some)
        }
    }
}

fn summarize(
    ledger: &Ledger,
    tenant: &TenantId,
    scopes: &Scopes,
    rejected: &RejectedSubjects,
    robot_id: RobotId,
) -> Result<RobotSummary, StatusError> {
    let rules = &scopes.of(tenant, &robot_id).coherence;
    let newest = ledger.newest(tenant, &robot_id, rules)?;
    let known = newest.iter().flat_map(|newest| {
        let of_type = |kind| Some((kind, newest.get(kind).as_ref()?.entry.true_at().instant()));
        SnapshotType::ALL.into_iter().filter_map(of_type)
    });
    let oldest_evidence = known.min_by_key(|(_, at)| *at);
    let events = Filter {
        robot_id: Some(robot_id.clone()),
        kind: Some(Name::parse(EXECUTION_EVENT)?),
        ..Filter::default()
    };
    Ok(RobotSummary {
        oldest_evidence,
        coherence: newest
            .filter(|_| oldest_evidence.is_some())
            .map(|newest| coherence(&newest, rules).status),
        last_event: ledger.list(tenant, &events, Order::NewestFirst, None, 1)?.entries.pop(),
        drafts: count_waiting(ledger, tenant, rejected, &robot_id, Some(DRAFTS_LOOKED_AT))?,
        robot_id,
    })
}
