//! A batch of items (R30): planned into levels, each level's items run in parallel in separate views, then landed one after
//! the other in the order of their ids. Owns the order, and that an interrupted batch resumes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crealeph_contracts::WorkItem;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::ItemId;
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::work::{Blocked, Dependent, output_overlap, plan};
use crealeph_sandbox::Config;
use tracing::{Span, info_span};

use super::branch::Branch;
use super::config::WorkAgent;
use super::engine::{Work, new_id};
use super::error::WorkError;
use super::hold::HeldRun;
use super::journal::{Event, FinishedRun, HeldBranch, JournalState};
use super::land::{Concluded, Delivery, Landed, LandingRun};
use super::merge;
use super::paths;
use super::receipt::ITEM_FILE;
use super::record::{RESULT_FILE, RunWriter, parse_item, stated_bounds};
use super::result::ItemResult;
use super::run::RunStage;
use super::secrets::RunSecrets;
use super::stage::{ChangeSource, EndedRun, PlannedRun, RunBase, RunIdentity, RunRequest, TestedRun};
use super::tasks;

/// Where changes are delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Destination {
    /// Into the workspace.
    #[default]
    Tree,
    /// Onto this branch, one commit per item.
    Branch(String),
}

/// How items are to be run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// How many at a time.
    pub jobs: usize,
    /// Where changes go.
    pub destination: Destination,
    /// Whether they are held for approval first.
    pub is_held: bool,
    /// The agent by name; else each item's `agent_id` decides.
    pub agent: Option<String>,
    /// Whether the agents' own bounds cap those of the items.
    pub is_capped: bool,
    /// Whether items that have succeeded before are left alone.
    pub only_failed: bool,
}

/// The outcome of an item.
#[derive(Clone, Debug)]
pub enum ItemOutcome {
    /// It was run.
    Finished {
        /// How that ended.
        result: Box<ItemResult>,
        /// Whether an earlier call of the same batch ran it.
        is_earlier: bool,
    },
    /// Its change is held.
    Held(HeldRun),
    /// It waits for unknown items.
    Blocked {
        /// The item.
        item: ItemId,
        /// What it waits for.
        waits_for: Vec<ItemId>,
    },
    /// A dependency did not succeed.
    NotRun {
        /// The item.
        item: ItemId,
        /// The dependencies that did not.
        waits_for: Vec<ItemId>,
    },
}

/// What happens while a batch runs.
#[derive(Clone, Debug)]
pub enum WorkProgress {
    /// A level starts.
    Level {
        /// Which, from 0.
        number: usize,
        /// How many there are.
        count: usize,
        /// How many items it has.
        items: usize,
    },
    /// An item has come this far.
    Item {
        /// The item.
        item: ItemId,
        /// How far.
        stage: RunStage,
    },
    /// The items of a level land.
    Committing,
}

/// Runs a batch of items.
pub(super) fn run(
    work: &Work,
    items: &[WorkItem],
    options: &RunOptions,
    progress: &(dyn Fn(WorkProgress) + Sync),
    report: &mut dyn FnMut(&ItemOutcome),
) -> Result<Vec<ItemOutcome>, WorkError> {
    let mut batch = PlannedBatch::new(work, items, options)?;
    let _span = info_span!("work_run", batch = %batch.id, items = items.len()).entered();
    if batch.resumed.is_none() {
        work.runs.lock()?.add(Event::Began { batch: batch.id, at: super::now() })?;
    }
    let mut run = BatchRun { work, progress, report, succeeded: BTreeSet::new(), outcomes: Vec::new() };
    let levels = std::mem::take(&mut batch.levels);
    for (number, level) in levels.iter().enumerate() {
        if work.interrupt.is_used() {
            break;
        }
        progress(WorkProgress::Level { number, count: levels.len(), items: level.len() });
        run.level(&mut batch, level)?;
    }
    for Blocked { id, waits_for } in batch.blocked {
        run.add(ItemOutcome::Blocked { item: id, waits_for });
    }
    if !work.interrupt.is_used() {
        work.runs.lock()?.add(Event::Ended { batch: batch.id, at: super::now() })?;
    }
    Ok(run.outcomes)
}

/// A batch that can be run as it is.
struct PlannedBatch<'b> {
    id: Blake3,
    /// Every item of it.
    ids: BTreeSet<&'b ItemId>,
    levels: Vec<Vec<PlannedItem<'b>>>,
    blocked: Vec<Blocked>,
    delivery: Delivery,
    landed: Landed,
    jobs: usize,
    is_capped: bool,
    /// What is known of an interrupted call with the same items.
    resumed: Option<Arc<JournalState>>,
    /// What is known of all runs, if items that have succeeded are left alone.
    history: Option<Arc<JournalState>>,
}

#[derive(Clone, Copy)]
struct PlannedItem<'b> {
    item: &'b WorkItem,
    agent: &'b WorkAgent,
}

impl<'b> PlannedBatch<'b> {
    /// Plans a batch, and finds everything that is wrong with it.
    fn new(work: &'b Work, items: &'b [WorkItem], options: &RunOptions) -> Result<Self, WorkError> {
        let root = work.workspace.path();
        // Before anything is made there.
        Config::new(&work.state_dir).check_view(root)?;
        let mut by_id = BTreeMap::new();
        for item in items {
            paths::check(item, root)?;
            let agent = work.agent_for(item, options.agent.as_deref())?;
            let secrets = RunSecrets::read(agent)?;
            if let Some(place) = secrets.place_in_request(item, agent) {
                let item = secrets.redacted(item.id.as_str());
                return Err(WorkError::SecretInRequest { item, place });
            }
            by_id.insert(&item.id, PlannedItem { item, agent });
        }
        let state = work.runs.state()?;
        let dependents: Vec<Dependent> = items.iter().map(Dependent::from).collect();
        let plan = plan(&dependents, |id| state.has_succeeded(id))?;
        let level = |ids: &Vec<ItemId>| ids.iter().filter_map(|id| by_id.get(id).copied()).collect();
        let levels: Vec<Vec<PlannedItem<'b>>> = plan.levels.iter().map(level).collect();
        for level in &levels {
            let outputs = |planned: &PlannedItem<'b>| {
                let own = paths::relative(planned.item.output_files.as_ref(), root);
                (&planned.item.id, own.filter_map(Result::ok).collect())
            };
            if let Some(overlap) = output_overlap(level.iter().map(outputs)) {
                return Err(overlap.into());
            }
        }
        let delivery = match &options.destination {
            Destination::Tree => Delivery::Tree,
            Destination::Branch(name) => Delivery::Branch(Box::new(Branch::open(root, name)?)),
        };
        let id = batch_id(items, options);
        Ok(PlannedBatch {
            ids: by_id.keys().copied().collect(),
            levels,
            blocked: plan.blocked,
            delivery,
            landed: Landed { is_held: options.is_held, accumulated: Vec::new(), touched: BTreeMap::new() },
            jobs: options.jobs.max(1),
            is_capped: options.is_capped,
            resumed: state.open_batches.contains_key(&id).then(|| Arc::clone(&state)),
            history: options.only_failed.then_some(state),
            id,
        })
    }

    /// The dependencies of an item that did not succeed.
    fn unmet(&self, item: &WorkItem, succeeded: &BTreeSet<ItemId>) -> Vec<ItemId> {
        let dependencies = item.dependencies.as_slice().iter();
        dependencies.filter(|id| self.ids.contains(id) && !succeeded.contains(*id)).cloned().collect()
    }

    /// The result of an interrupted call with the same items for this one.
    fn earlier(&self, work: &Work, item: &ItemId) -> Result<Option<ItemOutcome>, WorkError> {
        let Some(state) = &self.resumed else { return Ok(None) };
        let held = state.held.iter().find(|(_, held)| held.batch == self.id && held.item == *item);
        if let Some((run, held)) = held {
            let held = HeldRun { run: *run, item: held.item.clone(), since: held.at.clone() };
            return Ok(Some(ItemOutcome::Held(held)));
        }
        let Some(run) = state.last_in(&self.id, item) else { return Ok(None) };
        // Its change may have been judged again since.
        let is_success =
            |later: &&FinishedRun| later.item.as_ref() == Some(item) && later.status == RunStatus::Success;
        let run = state.since(&run.run).find(is_success).unwrap_or(run);
        finished_earlier(work, &run.run).map(Some)
    }

    /// The result of an item that is not to be repeated: its change has landed, or awaits approval.
    fn done(&self, work: &Work, item: &WorkItem) -> Result<Option<ItemOutcome>, WorkError> {
        let Some(state) = &self.history else { return Ok(None) };
        if let Some((run, held)) = state.held.iter().find(|(_, held)| held.item == item.id) {
            let held = HeldRun { run: *run, item: held.item.clone(), since: held.at.clone() };
            return Ok(Some(ItemOutcome::Held(held)));
        }
        let Some(run) = state.last_success(&item.id) else { return Ok(None) };
        let known = work.runs.document(&run.run, ITEM_FILE, parse_item)?;
        // Its limits and tests may be other ones now: it has succeeded all the same.
        let is_same = known.description == item.description && known.agent_id == item.agent_id;
        is_same.then(|| finished_earlier(work, &run.run)).transpose()
    }
}

/// The result of a finished run.
pub(super) fn finished_earlier(work: &Work, run: &Uuid) -> Result<ItemOutcome, WorkError> {
    let result = work.runs.document(run, RESULT_FILE, ItemResult::parse)?;
    Ok(ItemOutcome::Finished { result: Box::new(result), is_earlier: true })
}

/// A batch that runs.
struct BatchRun<'b> {
    work: &'b Work,
    progress: &'b (dyn Fn(WorkProgress) + Sync),
    report: &'b mut dyn FnMut(&ItemOutcome),
    succeeded: BTreeSet<ItemId>,
    outcomes: Vec<ItemOutcome>,
}

/// One item of a level that is about to run.
struct Job<'b> {
    planned: PlannedItem<'b>,
    run: Uuid,
}

impl<'b> BatchRun<'b> {
    /// Runs a level, lands it in the order of ids, and writes the receipt of the merge.
    fn level(&mut self, batch: &mut PlannedBatch<'b>, level: &[PlannedItem<'b>]) -> Result<(), WorkError> {
        batch.landed.touched.clear();
        let mut jobs = Vec::new();
        for planned in level {
            let item = &planned.item.id;
            let waits_for = batch.unmet(planned.item, &self.succeeded);
            if !waits_for.is_empty() {
                self.add(ItemOutcome::NotRun { item: item.clone(), waits_for });
            } else if let Some(earlier) = batch.earlier(self.work, item)? {
                self.add(earlier);
            } else if let Some(done) = batch.done(self.work, planned.item)? {
                self.add(done);
            } else {
                jobs.push(Job { planned: *planned, run: new_id()? });
            }
        }
        if jobs.is_empty() {
            return Ok(());
        }
        let snapshot = self.work.workspace.snapshot()?;
        self.work.check_private(&snapshot)?;
        let accumulated = batch.landed.accumulated.clone();
        let base = RunBase { snapshot: &snapshot, changes: &accumulated };
        let (branch, is_held) = (batch.delivery.kept_branch(), batch.landed.is_held);
        let (work, progress) = (self.work, self.progress);
        let is_capped = batch.is_capped;
        let side_by_side = SideBySide { is_capped, work, progress, batch: &batch.id, base, branch, is_held };
        let runs = side_by_side.run(&jobs, batch.jobs)?;
        (self.progress)(WorkProgress::Committing);
        let mut merged = Vec::new();
        for (job, run) in jobs.iter().zip(runs) {
            let runner = self.work.runner(job.planned.agent, &job.run, &|_| ())?;
            let writer = RunWriter::new(self.work)?;
            let PlannedBatch { delivery, landed, .. } = &mut *batch;
            let outcome = match LandingRun::conclude(writer, runner, run, base, delivery, landed)? {
                Concluded::Held(held) => ItemOutcome::Held(held),
                Concluded::Finished(result) => ItemOutcome::Finished { result, is_earlier: false },
            };
            if self.add(outcome) {
                merged.push(job.run);
            }
        }
        if jobs.len() > 1 && !merged.is_empty() {
            merge::write(self.work, &batch.id, &merged, &snapshot, &batch.delivery, &batch.landed)?;
        }
        Ok(())
    }

    /// Reports the outcome of an item, and says whether it succeeded.
    fn add(&mut self, outcome: ItemOutcome) -> bool {
        (self.report)(&outcome);
        let succeeded = match &outcome {
            ItemOutcome::Finished { result, .. } if result.is_success() => Some(result.item.clone()),
            _ => None,
        };
        self.outcomes.push(outcome);
        succeeded.is_some_and(|item| self.succeeded.insert(item))
    }
}

/// The items of a level, each in a separate view.
struct SideBySide<'l> {
    work: &'l Work,
    progress: &'l (dyn Fn(WorkProgress) + Sync),
    batch: &'l Blake3,
    base: RunBase<'l>,
    /// Whether the agents' own bounds cap those of the items.
    is_capped: bool,
    branch: Option<HeldBranch>,
    is_held: bool,
}

/// A run that has come as far as its tests, or has ended.
type RunSoFar = Result<TestedRun, Box<EndedRun>>;

impl SideBySide<'_> {
    /// Runs the items, `at_once` at a time; the results are in the same order.
    fn run(&self, jobs: &[Job<'_>], at_once: usize) -> Result<Vec<RunSoFar>, WorkError> {
        let state = self.work.runs.state()?;
        let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        // A thread has no span of its own; without this one its items would belong to no run.
        let span = Span::current();
        std::thread::scope(|scope| {
            for _ in 0..at_once.min(jobs.len()) {
                scope.spawn(|| {
                    let _span = span.enter();
                    while let at = next.fetch_add(1, Ordering::Relaxed)
                        && let Some(job) = jobs.get(at)
                    {
                        let run = self.one(job, &state);
                        done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, run);
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }

    fn one(&self, job: &Job<'_>, state: &JournalState) -> Result<RunSoFar, WorkError> {
        let Job { planned: PlannedItem { item, agent }, run } = job;
        let _span = info_span!("work_item", item = %item.id, %run, agent = agent.name).entered();
        let item = match self.is_capped {
            true => agent.bounds.cap(item),
            false => (*item).clone(),
        };
        let before = self.base.snapshot.state().hash().digest();
        let identity = RunIdentity {
            id: *run,
            bounds: stated_bounds(&item, agent),
            item: item.clone(),
            batch: *self.batch,
            before,
            origin: Some(self.work.origin(agent)?),
            request: RunRequest {
                agent: agent.name.clone(),
                branch: self.branch.clone(),
                is_held: self.is_held,
                robot: self.work.robot().cloned(),
                task: tasks::origin(self.work, &item.id)?,
                earlier: None,
            },
        };
        RunWriter::new(self.work)?.start(&identity)?;
        let progress = |stage| (self.progress)(WorkProgress::Item { item: item.id.clone(), stage });
        let runner = self.work.runner(agent, run, &progress)?;
        let planned = PlannedRun::new(identity, self.base);
        Ok(runner.run(planned, ChangeSource::Agent, &|hash| state.with_run_hash(hash)))
    }
}

/// The name of a batch: its items, and where their changes go.
fn batch_id(items: &[WorkItem], options: &RunOptions) -> Blake3 {
    let RunOptions { destination, is_held, agent, only_failed, .. } = options;
    let mut text = format!("{destination:?} {is_held} {agent:?}\n");
    if *only_failed {
        text.push_str("only failed\n");
    }
    for item in items {
        text.push_str(&to_json(item));
        text.push('\n');
    }
    Blake3::of(text.as_bytes())
}
