//! How a robot stands: what is known and how old, what each module did last, what may run and what would help.

use std::collections::BTreeMap;

use crealeph_contracts::PolicyOutput;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{ActionName, IdentifierError, Name, RobotId, TenantId};
use crealeph_decision::builder::decide::policy_question;
use crealeph_decision::policy::{Step, evaluate, way_to_run};
use crealeph_decision::snapshot::{Derivation, Snapshot, SnapshotType};
use crealeph_ledger::{EXECUTION_EVENT, Filter, Ledger, LedgerError, Order, Stored};

use crate::builder::Settings;
use crate::review::{VerdictError, waiting};

/// How many of a robot's newest entries are looked at for what its modules did last.
const LOOKED_AT: usize = 1_000;
/// How many drafts are looked at for those that wait.
const MAX_DRAFTS: usize = 1_000;

/// How a robot stands.
#[derive(Clone, Debug)]
pub struct Status {
    /// The tenant.
    pub tenant_id: TenantId,
    /// The robot.
    pub robot_id: RobotId,
    /// When that was judged.
    pub at: Instant,
    /// What is known; `None` where nothing counts.
    pub snapshot: Option<Snapshot>,
    /// The newest entry of each module, sorted by module.
    pub modules: Vec<Stored>,
    /// How many drafts wait for a person, as far as was looked.
    pub drafts: usize,
    /// What the policy says of each action there is; none where nothing is known.
    pub actions: Vec<(ActionName, PolicyOutput)>,
    /// What must be made before the Builder may run, in order.
    pub steps: Vec<Step>,
}

/// Why it cannot be told.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StatusError {
    /// The ledger could not be read.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// The drafts could not be read.
    #[error(transparent)]
    Drafts(#[from] VerdictError),
    /// An entry nests so deep that a document that holds it would not be one.
    #[error("the snapshot of robot `{0}` nests too deep to be judged; append flatter payloads")]
    TooDeep(RobotId),
    /// A name that cannot be one.
    #[error("the question has a name that cannot be one: {0}; report this")]
    Name(#[from] IdentifierError),
}

impl StatusError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            StatusError::Ledger(error) => error.code(),
            StatusError::Drafts(error) => error.code(),
            StatusError::TooDeep(_) => "too_large",
            StatusError::Name(_) => "bad_name",
        }
    }
}

/// Reads how a robot stands now.
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
    let (snapshot, newest) = match read {
        Some((facts, position)) => (Snapshot::derive(facts, coherence), position.at),
        None => (None, Default::default()),
    };
    let at = ledger.now().max(newest).instant();
    let mut actions = Vec::new();
    if let Some(snapshot) = &snapshot {
        let object = JsonObject::parse(&snapshot.to_json()).ok_or(StatusError::TooDeep(robot.clone()))?;
        for action in rules.actions() {
            let question = policy_question(tenant, snapshot, object.clone(), rules, action.clone(), at);
            actions.push((action.clone(), evaluate(&question, rules)));
        }
    }
    let steps = way_to_run(snapshot.as_ref(), rules, coherence, at);
    let (drafts, _) =
        waiting(ledger, tenant, Some(robot), None, MAX_DRAFTS.min(ledger.limits().page_entries))?;
    let modules = modules(ledger, tenant, robot, snapshot.as_ref())?;
    let (tenant_id, robot_id) = (tenant.clone(), robot.clone());
    Ok(Status { tenant_id, robot_id, at, modules, drafts: drafts.len(), snapshot, actions, steps })
}

/// The newest entry of each module: among the robot's newest, the newest events, and what the snapshot holds, so that
/// what counts is found however much came after it.
fn modules(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: &RobotId,
    snapshot: Option<&Snapshot>,
) -> Result<Vec<Stored>, StatusError> {
    let mut newest: BTreeMap<Name, Stored> = BTreeMap::new();
    let mut keep = |entry: Stored| {
        let known = newest.entry(entry.content.module.clone()).or_insert_with(|| entry.clone());
        if known.seq < entry.seq {
            *known = entry;
        }
    };
    let of_robot = Filter { robot_id: Some(robot.clone()), ..Filter::default() };
    let events = Filter { kind: Some(Name::parse(EXECUTION_EVENT)?), ..of_robot.clone() };
    for (filter, count) in [(of_robot, LOOKED_AT), (events, 1)] {
        let limit = count.min(ledger.limits().page_entries);
        let page = ledger.list(tenant, &filter, Order::NewestFirst, None, limit)?;
        page.entries.into_iter().for_each(&mut keep);
    }
    for kind in SnapshotType::ALL {
        if let Some(known) = snapshot.and_then(|snapshot| snapshot.facts.newest.get(kind).as_ref()) {
            ledger.get(tenant, &known.entry.id)?.into_iter().for_each(&mut keep);
        }
    }
    Ok(newest.into_values().collect())
}
