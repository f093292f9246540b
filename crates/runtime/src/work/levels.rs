//! Many items (R30): planned into levels, each level's items side by side in views of their own, then committed one after
//! the other in the order of their ids. Owns the order, and that a list which was interrupted is gone on with.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crealeph_contracts::RunResult;
use crealeph_contracts::WorkItem;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::receipt::{ProofArtifact, SandboxStrength};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{ItemId, Text};
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::AgentId;
use crealeph_decision::work::{Dependent, Plan, plan};
use crealeph_sandbox::Config;
use crealeph_workspace::{Snapshot, changes_between};

use super::branch::Branch;
use super::commit::{Concluded, Delivery, Merging};
use super::config::WorkAgent;
use super::engine::{Work, WorkError, new_id};
use super::hold::Waits;
use super::outcome::{RESULT_FILE, line};
use super::paths;
use super::receipt::{Facts, RECEIPT_FILE};
use super::run::{Base, Ran, Room, Step};
use super::secrets::Guarded;
use super::store::{Event, History};

/// Where changes are delivered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Publish {
    /// Into the workspace.
    #[default]
    Tree,
    /// Onto this branch, one commit per item.
    Branch(String),
}

/// How items are to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many at a time.
    pub jobs: usize,
    /// Where changes go.
    pub publish: Publish,
    /// Whether they wait for a verdict first.
    pub is_held: bool,
    /// The agent by name; else each item's `agent_id` decides.
    pub agent: Option<String>,
}

/// What became of an item.
#[derive(Clone, Debug)]
pub enum Reported {
    /// It was run. The line that a pipe gets, and whether it succeeded.
    Finished {
        /// The item.
        item: String,
        /// The RunResult with the item's id beside it.
        line: String,
        /// How it ended.
        status: RunStatus,
        /// Whether that was known from an earlier call.
        is_earlier: bool,
    },
    /// Its change waits for a verdict.
    Held(Waits),
    /// It waits for items that nobody knows.
    Blocked {
        /// The item.
        item: String,
        /// What it waits for.
        waits_for: Vec<String>,
    },
    /// A dependency did not succeed.
    NotRun {
        /// The item.
        item: String,
        /// The dependencies that did not.
        waits_for: Vec<String>,
    },
}

/// What is told while items run.
#[derive(Clone, Debug)]
pub enum Told {
    /// A level starts.
    Level {
        /// Which, from 0.
        number: usize,
        /// How many there are.
        of: usize,
        /// Its items.
        items: Vec<String>,
    },
    /// An item has come this far.
    Step {
        /// The item.
        item: String,
        /// How far.
        step: Step,
    },
    /// The items of a level are being committed.
    Committing,
}

/// One item of a level, ready to run.
struct Job<'j> {
    item: &'j WorkItem,
    agent: &'j WorkAgent,
    id: Uuid,
}

impl Work {
    /// Runs items, level by level; what became of each is handed to `over` as soon as it is known. Everything that is
    /// wrong with the list is found before anything runs.
    ///
    /// # Errors
    /// When the list cannot be run as it is, or what became of it cannot be written.
    pub fn run(
        &self,
        items: &[WorkItem],
        options: &Options,
        told: &(dyn Fn(Told) + Sync),
        over: &mut dyn FnMut(&Reported),
    ) -> Result<Vec<Reported>, WorkError> {
        let root = self.workspace.path();
        // Before anything is made there.
        Config::new(self.state_dir()).check_view(root)?;
        let mut agents = BTreeMap::new();
        for item in items {
            paths::check(item, root)?;
            let agent = self.agent_for(item, options.agent.as_deref())?;
            let guarded = Guarded::of(agent);
            if let Some(place) = guarded.place_in_request(item, agent) {
                return Err(WorkError::SecretInRequest { item: guarded.redacted(item.id.as_str()), place });
            }
            agents.insert(&item.id, agent);
        }
        let history = self.history()?;
        let dependents: Vec<Dependent> = items.iter().map(Dependent::from).collect();
        let plan = plan(&dependents, |id| history.has_succeeded(id.as_str()))?;
        let by_id: BTreeMap<&ItemId, &WorkItem> = items.iter().map(|item| (&item.id, item)).collect();
        for level in &plan.levels {
            self.check_overlap(level, &by_id)?;
        }
        let delivery = match &options.publish {
            Publish::Tree => Delivery::Tree,
            Publish::Branch(name) => Delivery::Branch(Box::new(Branch::open(root, name)?)),
        };
        let batch = batch_of(items, options);
        let is_resumed = history.open.contains(&batch);
        if !is_resumed {
            let at = super::now().as_str().to_owned();
            self.runs.lock()?.add(&Event::Began { batch: batch.clone(), at })?;
        }
        let merging = Merging {
            delivery,
            is_held: options.is_held,
            batch: batch.clone(),
            accumulated: Vec::new(),
            touched: BTreeMap::new(),
        };
        let known = if is_resumed { history } else { History::default() };
        let mut course = Course {
            work: self,
            told,
            over,
            agents,
            known,
            merging,
            succeeded: BTreeSet::new(),
            reported: Vec::new(),
        };
        for (number, level) in plan.levels.iter().enumerate() {
            if self.interrupt.is_used() {
                break;
            }
            let names = level.iter().map(ToString::to_string).collect();
            told(Told::Level { number, of: plan.levels.len(), items: names });
            course.level(level, &by_id, options.jobs.max(1))?;
        }
        course.report_blocked(&plan);
        if !self.interrupt.is_used() {
            let at = super::now().as_str().to_owned();
            self.runs.lock()?.add(&Event::Ended { batch, at })?;
        }
        Ok(course.reported)
    }

    /// Runs the items of a level, some at a time; what they came to stands in the same order.
    fn side_by_side(
        &self,
        ready: &[Job<'_>],
        base: &Base<'_>,
        (batch, jobs): (&str, usize),
        told: &(dyn Fn(Told) + Sync),
    ) -> Result<Vec<Ran>, WorkError> {
        let history = self.history()?;
        let before = base.snapshot.state().hash().digest();
        let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let one = |job: &Job<'_>| {
            let item = job.item.id.to_string();
            let told = |step| told(Told::Step { item: item.clone(), step });
            self.start(&job.id, job.item, batch, before)?;
            let earlier = |hash: &Blake3| history.with_run_hash(hash).map(str::to_owned);
            Ok::<Ran, WorkError>(self.room(job.agent, &job.id, &told)?.run(job.id, job.item, base, &earlier))
        };
        std::thread::scope(|scope| {
            for _ in 0..jobs.min(ready.len()) {
                scope.spawn(|| {
                    while let at = next.fetch_add(1, Ordering::Relaxed)
                        && let Some(job) = ready.get(at)
                    {
                        let ran = one(job);
                        done.lock().unwrap_or_else(PoisonError::into_inner).insert(at, ran);
                    }
                });
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner).into_values().collect()
    }

    /// Where an item of this agent runs.
    pub(super) fn room<'r>(
        &'r self,
        agent: &'r WorkAgent,
        run: &Uuid,
        told: &'r (dyn Fn(Step) + Sync),
    ) -> Result<Room<'r>, WorkError> {
        Ok(Room {
            workspace: &self.workspace,
            sandbox: self.sandbox(agent)?,
            agent,
            interrupt: &self.interrupt,
            private: &self.private,
            scratch: self.runs.scratch(&run.to_string()),
            guarded: Guarded::of(agent),
            told,
        })
    }

    /// Two items of a level that declare the same output cannot both be committed.
    fn check_overlap(&self, level: &[ItemId], by_id: &BTreeMap<&ItemId, &WorkItem>) -> Result<(), WorkError> {
        let mut owners: BTreeMap<String, &ItemId> = BTreeMap::new();
        for item in level.iter().filter_map(|id| by_id.get(id)) {
            let own: BTreeSet<String> = paths::relative(item.output_files.as_ref(), self.workspace.path())
                .filter_map(Result::ok)
                .collect();
            for path in own {
                if let Some(one) = owners.insert(path.clone(), &item.id) {
                    return Err(WorkError::Overlap {
                        one: one.to_string(),
                        other: item.id.to_string(),
                        path,
                    });
                }
            }
        }
        Ok(())
    }
}

/// A list of items on its way.
struct Course<'c> {
    work: &'c Work,
    told: &'c (dyn Fn(Told) + Sync),
    over: &'c mut dyn FnMut(&Reported),
    agents: BTreeMap<&'c ItemId, &'c WorkAgent>,
    /// What is known of an interrupted call with the same list.
    known: History,
    merging: Merging,
    succeeded: BTreeSet<&'c ItemId>,
    reported: Vec<Reported>,
}

impl<'c> Course<'c> {
    /// Runs a level, commits it in the order of ids, and writes the receipt of the merge.
    fn level(
        &mut self,
        level: &'c [ItemId],
        by_id: &BTreeMap<&'c ItemId, &'c WorkItem>,
        jobs: usize,
    ) -> Result<(), WorkError> {
        self.merging.touched.clear();
        let mut ready = Vec::new();
        for item in level.iter().filter_map(|id| by_id.get(id).copied()) {
            let waits_for = self.in_the_way(item, by_id);
            if !waits_for.is_empty() {
                self.report(Reported::NotRun { item: item.id.to_string(), waits_for });
            } else if let Some(earlier) = self.earlier(item)? {
                self.report(earlier);
            } else if let Some(agent) = self.agents.get(&item.id) {
                ready.push(Job { item, agent, id: new_id()? });
            }
        }
        if ready.is_empty() {
            return Ok(());
        }
        let snapshot = self.work.workspace.snapshot()?;
        self.work.check_private(&snapshot)?;
        let accumulated = self.merging.accumulated.clone();
        let base = Base { snapshot: &snapshot, changes: &accumulated };
        let ran = self.work.side_by_side(&ready, &base, (&self.merging.batch, jobs), self.told)?;
        (self.told)(Told::Committing);
        let mut merged = Vec::new();
        for (job, ran) in ready.iter().zip(ran) {
            let run = ran.id.to_string();
            let room = self.work.room(job.agent, &job.id, &|_| ())?;
            match self.work.conclude(ran, job.agent, &room, &base, &mut self.merging)? {
                Concluded::Held(waits) => self.report(Reported::Held(waits)),
                Concluded::Finished(result) => {
                    if result.status == RunStatus::Success {
                        self.succeeded.insert(&job.item.id);
                        merged.push(run);
                    }
                    self.report(finished(job.item, &result));
                }
            }
        }
        if ready.len() > 1 && !merged.is_empty() {
            self.reconcile(&merged, &snapshot)?;
        }
        Ok(())
    }

    /// The dependencies of an item that did not succeed.
    fn in_the_way(&self, item: &WorkItem, by_id: &BTreeMap<&'c ItemId, &'c WorkItem>) -> Vec<String> {
        let dependencies = item.dependencies.as_slice().iter();
        let not = dependencies.filter(|id| by_id.contains_key(id) && !self.succeeded.contains(id));
        not.map(ToString::to_string).collect()
    }

    /// What an interrupted call with the same list came to for this item.
    fn earlier(&mut self, item: &'c WorkItem) -> Result<Option<Reported>, WorkError> {
        if let Some((run, waiting)) = self
            .known
            .held
            .iter()
            .find(|(_, waiting)| waiting.batch == self.merging.batch && waiting.item == item.id.as_str())
        {
            let waits =
                Waits { run: run.clone(), item: waiting.item.clone(), since: waiting.at.clone(), files: 0 };
            return Ok(Some(Reported::Held(waits)));
        }
        let Some(run) = self.known.last_of(&self.merging.batch, item.id.as_str()) else { return Ok(None) };
        let Some(line) = self.work.runs.read(&run.run, RESULT_FILE)? else { return Ok(None) };
        let Some(status) = RunStatus::parse(&run.status) else { return Ok(None) };
        if status == RunStatus::Success {
            self.succeeded.insert(&item.id);
        }
        let line = String::from_utf8_lossy(&line).into_owned();
        Ok(Some(Reported::Finished { item: item.id.to_string(), line, status, is_earlier: true }))
    }

    /// The receipt over the receipts that a level merged.
    fn reconcile(&self, merged: &[String], start: &Snapshot) -> Result<(), WorkError> {
        let locked = self.work.runs.lock()?;
        let robot = self.work.bound_to(None).0;
        let state = start.state().hash().digest();
        let folder = self.work.workspace.path();
        let mut facts = Facts::unchanged(new_id()?, AgentId::Agent0, super::now(), folder, state, robot);
        facts.previous = self.work.history()?.head();
        let mut states = Vec::new();
        for run in merged {
            let Some((receipt, file)) = self.work.receipt_of(run)? else { continue };
            facts.merged.push(receipt.receipt_hash);
            let path = format!("{run}/{RECEIPT_FILE}");
            facts.proof_artifacts.extend(Text::new(&path).map(|path| ProofArtifact { path, hash: file }));
            if let Some(item) = &receipt.work_item_id
                && let Some((_, task)) = self.work.origin(item)?
            {
                facts.lineage.push(task);
            }
            for (own, all) in [
                (&receipt.delta_o, &mut facts.deltas.others),
                (&receipt.delta_pi, &mut facts.deltas.projections),
                (&receipt.delta_lambda, &mut facts.deltas.laws),
                (&receipt.delta_q, &mut facts.deltas.invariants),
            ] {
                all.extend(own.as_slice().iter().cloned());
            }
            if receipt.sandbox_strength == SandboxStrength::Reduced {
                facts.strength = SandboxStrength::Reduced;
            }
            states.push((receipt.before_hash, receipt.after_hash));
        }
        if let (Some((before, _)), Some((_, after))) = (states.first(), states.last()) {
            (facts.before, facts.after) = (*before, *after);
        }
        facts.changes = self.changes_of_level(start, &facts)?;
        self.work.write_merge(&locked, &facts, &self.merging.batch)
    }

    /// What the level changed in all, by the states its receipts name.
    fn changes_of_level(
        &self,
        start: &Snapshot,
        facts: &Facts,
    ) -> Result<Vec<crealeph_workspace::Change>, WorkError> {
        let now = match self.merging.delivery {
            Delivery::Tree => self.work.workspace.snapshot()?.state().clone(),
            Delivery::Branch(_) => {
                let all = self.merging.accumulated.clone();
                match crealeph_workspace::Capsule::of_changes(start.state(), all) {
                    Ok(capsule) => capsule.after().clone(),
                    Err(_) => start.state().clone(),
                }
            }
        };
        let touched = |change: &crealeph_workspace::Change| self.merging.touched.contains_key(&change.path);
        let changes = changes_between(start.state(), &now).into_iter().filter(touched);
        Ok(if facts.before == facts.after { Vec::new() } else { changes.collect() })
    }

    fn report_blocked(&mut self, plan: &Plan) {
        for blocked in &plan.blocked {
            let waits_for = blocked.waits_for.iter().map(ToString::to_string).collect();
            self.report(Reported::Blocked { item: blocked.id.to_string(), waits_for });
        }
    }

    fn report(&mut self, reported: Reported) {
        (self.over)(&reported);
        self.reported.push(reported);
    }
}

fn finished(item: &WorkItem, result: &Valid<RunResult>) -> Reported {
    Reported::Finished {
        item: item.id.to_string(),
        line: line(item, result),
        status: result.status,
        is_earlier: false,
    }
}

/// The name of a list: what is asked for, and where it goes.
fn batch_of(items: &[WorkItem], options: &Options) -> String {
    let mut text = format!("{:?} {} {:?}\n", options.publish, options.is_held, options.agent);
    for item in items {
        text.push_str(&to_json(item));
        text.push('\n');
    }
    Blake3::of(text.as_bytes()).to_string()
}
