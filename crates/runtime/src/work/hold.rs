//! Changes that wait for a person: kept durably, whole, until somebody approves or rejects them; tested again where the
//! workspace has moved meanwhile. Owns what is written down of a held run, and its verdict.

use std::collections::BTreeMap;

use crealeph_contracts::attestation::{Admission, SandboxFacts};
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{JsonObject, Limits, Node, ObjectWriter, parse};
use crealeph_contracts::scalar::{ClientKey, Literal, Name};
use crealeph_contracts::shape::Shape;
use crealeph_contracts::violation::Report;
use crealeph_contracts::{Receipt, WorkItem};
use crealeph_decision::work;
use crealeph_workspace::{Added, Capsule, Change, HeldId, PublishError, Snapshot};

use super::branch::Branch;
use super::commit::{Concluded, OnBranch, combine, conflict, on_merged, unpublished};
use super::config::WorkAgent;
use super::counts::Counts;
use super::engine::{Work, WorkError};
use super::outcome::{DIFF_FILE, Landing, STDERR_FILE, STDOUT_FILE, line};
use super::receipt::{Deltas, ITEM_FILE, SealError};
use super::run::{Ending, Ran, Room};
use super::store::{Event, HeldBranch, Locked, Waiting};
use super::tests_run::Tested;
use super::trace::Trace;

pub(super) const HELD_FILE: &str = "held.json";
const VERDICT: Literal = Literal::new("run_verdict");
const MODULE: Literal = Literal::new("work");
const PERSON: Literal = Literal::new("person");
const APPROVED: Literal = Literal::new("approved");
const REJECTED: Literal = Literal::new("rejected");

/// A run that waits for a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The run.
    pub run: String,
    /// Its item.
    pub item: String,
    /// Since when.
    pub since: String,
    /// How many files it changes.
    pub files: usize,
}

/// What a person says of a held run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// Whether it may land.
    pub is_approved: bool,
    /// Who says so.
    pub who: String,
    /// Why.
    pub why: String,
}

impl Work {
    /// Writes down a run whose change is held.
    pub(super) fn hold(
        &self,
        locked: &Locked<'_>,
        ran: &Ran,
        agent: &WorkAgent,
        batch: &str,
        landing: &Landing,
        branch: Option<HeldBranch>,
    ) -> Result<Waits, WorkError> {
        let run = ran.id.to_string();
        let facts = self.facts(ran, agent, Some(landing), None);
        let receipt = self.unsealed(&facts)?;
        let mut files = vec![
            (ITEM_FILE.to_owned(), to_json(&ran.item).into_bytes(), false),
            (HELD_FILE.to_owned(), written(ran, &receipt, agent).into_bytes(), false),
            (DIFF_FILE.to_owned(), ran.diff.clone().into_bytes(), false),
            (STDOUT_FILE.to_owned(), ran.stdout.clone(), false),
            (STDERR_FILE.to_owned(), ran.stderr.clone(), false),
        ];
        let waiting = Waiting {
            item: ran.item.id.to_string(),
            batch: batch.to_owned(),
            publish: landing.publish.clone(),
            branch,
            at: super::now().as_str().to_owned(),
        };
        files.push(self.held_envelope(&run, &waiting, &files)?);
        locked.write(&run, &files)?;
        let Waiting { item, batch, publish, branch, at } = waiting;
        locked.add(&Event::Held {
            run: run.clone(),
            item: item.clone(),
            batch,
            publish,
            branch,
            at: at.clone(),
        })?;
        Ok(Waits { run, item, since: at, files: landing.changes.len() })
    }

    /// Carries out a verdict on a held run: it lands, or it is thrown away. Gives the RunResult with its item's id, and
    /// whether it landed.
    ///
    /// # Errors
    /// When no such run waits, or something cannot be written.
    pub fn decide(&self, run: &str, opinion: &Opinion) -> Result<(String, bool), WorkError> {
        let locked = self.runs.lock()?;
        let history = self.history()?;
        let waiting = history.held.get(run).ok_or_else(|| WorkError::NotHeld(run.to_owned()))?.clone();
        if opinion.is_approved {
            self.check_held(run, &waiting)?;
        }
        let (mut ran, agent_name) = self.held_run(run)?;
        let is_known = self.config.agents.contains_key(&agent_name);
        let agent = self.agent_for(&ran.item, is_known.then_some(agent_name.as_str()))?;
        locked.add(&Event::Judged {
            run: run.to_owned(),
            approved: opinion.is_approved,
            who: opinion.who.clone(),
            why: opinion.why.clone(),
            at: super::now().as_str().to_owned(),
        })?;
        let verdict = self.verdict(run, &ran.item, opinion)?;
        self.ledger.append_as(&self.tenant, vec![(None, verdict)]).map_err(WorkError::Unrecorded)?;
        let ending = match opinion.is_approved {
            true => match self.approve(&locked, &mut ran, agent, &waiting)? {
                Ok(Concluded::Finished(result)) => return Ok((line(&ran.item, &result), true)),
                Ok(Concluded::Held(_)) => Ending::Interrupted,
                Err(ending) => ending,
            },
            false => Ending::Failed(format!("Rejected by {}: {}", opinion.who, opinion.why)),
        };
        ran.ending = ending;
        self.take_back(&mut ran);
        let result = self.close(&locked, &ran, agent, &waiting.batch)?;
        let publish = HeldId::new(&waiting.publish);
        if self.workspace.held()?.contains(&publish) {
            self.workspace.resume(&publish)?.discard()?;
        }
        Ok((line(&ran.item, &result), false))
    }

    fn approve(
        &self,
        locked: &Locked<'_>,
        ran: &mut Ran,
        agent: &WorkAgent,
        waiting: &Waiting,
    ) -> Result<Result<Concluded, Ending>, WorkError> {
        let held = self.workspace.resume(&HeldId::new(&waiting.publish))?;
        let changes = held.changes();
        // What rights come from may have become more since the change was held.
        if let Some(change) = changes.iter().find(|change| agent.paths.protects(change.path.as_str())) {
            return Ok(Err(Ending::Denied(format!("Denied path: {}", change.path))));
        }
        let room = self.room(agent, &ran.id, &|_| ())?;
        let before = held.before();
        let snapshot = self.workspace.snapshot()?;
        // It may have been held by a version with other rules.
        if let Some(ending) = self.denied(&changes, &self.workspace.kept(held.after())?)? {
            return Ok(Err(ending));
        }
        if let Some(branch) = &waiting.branch {
            drop(held);
            ran.before = before.digest();
            return self.approve_on_branch(locked, ran, &room, waiting, branch, (snapshot, &changes));
        }
        let has_moved = snapshot.state().hash() != before;
        let (landing, prepared) = if has_moved {
            drop(held);
            let base = self.workspace.kept(before)?;
            let capsule = match Capsule::of_changes(&base, changes) {
                Ok(capsule) => capsule,
                Err(error) => return Ok(Err(Ending::Failed(error.to_string()))),
            };
            ran.before = before.digest();
            let ready = match self.ready(ran, &room, capsule, &BTreeMap::new())? {
                Ok(ready) => ready,
                Err(ending) => return Ok(Err(ending)),
            };
            let prepared = match self.workspace.prepare(&ready.capsule) {
                Ok(prepared) => prepared,
                Err(error) => return Ok(Err(unpublished(&error))),
            };
            (ready.landing(&prepared.id()), prepared)
        } else {
            let landing = Landing {
                before: before.digest(),
                after: held.after().digest(),
                changes,
                commit: None,
                publish: waiting.publish.clone(),
            };
            (landing, held)
        };
        let publish = || Ok(prepared.publish().map(drop)?);
        match self.land(locked, ran, agent, &waiting.batch, &landing, publish) {
            Ok(result) => {
                if has_moved {
                    self.workspace.resume(&HeldId::new(&waiting.publish))?.discard()?;
                }
                Ok(Ok(Concluded::Finished(Box::new(result))))
            }
            Err(WorkError::Publish(error)) if !matches!(error, PublishError::Unsettled { .. }) => {
                Ok(Err(unpublished(&error)))
            }
            Err(error) => Err(error),
        }
    }

    /// Commits a held change to its branch as that is now: tested again where the branch or the workspace has moved.
    fn approve_on_branch(
        &self,
        locked: &Locked<'_>,
        ran: &mut Ran,
        room: &Room<'_>,
        waiting: &Waiting,
        held: &HeldBranch,
        (snapshot, changes): (Snapshot, &[Change]),
    ) -> Result<Result<Concluded, Ending>, WorkError> {
        let mut branch = Branch::reopen(self.workspace.path(), held)?;
        if let Some(ending) = conflict(changes, &snapshot, &BTreeMap::new()) {
            return Ok(Err(ending));
        }
        let moved = branch.moved_since(&held.tip, &self.workspace, snapshot.state())?;
        if !moved.is_empty() || snapshot.state().hash().digest() != ran.before {
            let (tested, ending) = room.test(&ran.item, &combine(&moved, changes));
            ran.tested = tested.or_else(|| ran.tested.take());
            if let Err(ending) = ending {
                return Ok(Err(on_merged(ending)));
            }
        }
        let on = OnBranch { branch: &mut branch, state: snapshot.state(), accumulated: &moved, own: changes };
        let result = match self.commit_to_branch(locked, ran, room.agent, &waiting.batch, on)? {
            Ok(result) => result,
            Err(ending) => return Ok(Err(ending)),
        };
        self.workspace.resume(&HeldId::new(&waiting.publish))?.discard()?;
        Ok(Ok(Concluded::Finished(Box::new(result))))
    }

    /// The ledger entry of a verdict: who, why, on which run.
    fn verdict(&self, run: &str, item: &WorkItem, opinion: &Opinion) -> Result<Draft, WorkError> {
        let name = |error| WorkError::Seal(SealError::Name(error));
        // The same verdict again is one entry; another one, after a crash, is another.
        let said = format!("{} {} {}", opinion.is_approved, opinion.who, opinion.why);
        let key = format!("run_verdict:{run}:{}", Blake3::of(said.as_bytes()));
        Ok(Draft {
            robot_id: self.bound_to(Some(item)).0,
            module: MODULE.into(),
            source: PERSON.into(),
            kind: VERDICT.into(),
            state: Name::from(if opinion.is_approved { APPROVED } else { REJECTED }),
            payload: JsonObject::build(|object| {
                object.text("run", run).text("item", item.id.as_str());
                object.text("who", &opinion.who).text("why", &opinion.why);
            }),
            lineage: None,
            observed_at: None,
            key: Some(ClientKey::parse(&key).map_err(name)?),
        })
    }

    /// The states that a held run was to lead from and to.
    pub(super) fn held_states(&self, run: &str) -> Result<[Blake3; 2], WorkError> {
        let bytes = self.runs.read(run, HELD_FILE)?.unwrap_or_default();
        let (document, _) = parse(&bytes, &Limits::own(usize::MAX));
        let receipt: Option<Receipt> = document.and_then(|document| part(document.root(), "receipt"));
        let receipt = receipt.ok_or_else(|| WorkError::Damaged(self.runs.folder(run).join(HELD_FILE)))?;
        Ok([receipt.before_hash, receipt.after_hash])
    }

    /// A held run as it was, and the name of its agent.
    fn held_run(&self, run: &str) -> Result<(Ran, String), WorkError> {
        let damaged = || WorkError::Damaged(self.runs.folder(run).join(HELD_FILE));
        let file = |name: &str| Ok::<_, WorkError>(self.runs.read(run, name)?.unwrap_or_default());
        let limits = Limits::own(usize::MAX);
        let item = Valid::<WorkItem>::parse(&file(ITEM_FILE)?, &limits).map_err(|_| damaged())?;
        let bytes = file(HELD_FILE)?;
        let (document, _) = parse(&bytes, &limits);
        let document = document.ok_or_else(damaged)?;
        let root = document.root();
        let receipt: Receipt = part(root, "receipt").ok_or_else(damaged)?;
        let number = |key: &str| root.member(key).and_then(|node| node.number());
        let count = |key: &str| number(key).unwrap_or(0.0) as u64;
        let trace = Trace {
            calls: receipt.tool_trace.as_slice().to_vec(),
            count: count("toolOps"),
            tokens: receipt.tokens_used.map(|tokens| tokens.get()),
            cost_usd: receipt.cost_usd.map(|cost| cost.get()),
            kept_bytes: 0,
        };
        let counts = number("testsPassed").zip(number("testsFailed"));
        let tested = receipt.test_log.as_deref().map(|output| Tested {
            fault: None,
            output: output.to_owned(),
            counts: counts.map(|(passed, failed)| Counts { passed: passed as u64, failed: failed as u64 }),
        });
        let text = |key: &str| root.member(key).and_then(|node| node.string());
        let ran = Ran {
            id: receipt.id,
            item: item.into_inner(),
            command: text("command")
                .map(|command| command.split('\n').map(str::to_owned).collect())
                .unwrap_or_default(),
            started_at: receipt.started_at,
            finished_at: receipt.finished_at,
            execution_ms: number("executionMs").unwrap_or(0.0),
            ending: Ending::Admitted,
            before: receipt.before_hash,
            capsule: None,
            view: None,
            added: Added::default(),
            discarded: Vec::new(),
            deltas: Deltas {
                others: receipt.delta_o.as_slice().to_vec(),
                projections: receipt.delta_pi.as_slice().to_vec(),
                laws: receipt.delta_lambda.as_slice().to_vec(),
                invariants: receipt.delta_q.as_slice().to_vec(),
            },
            delta_counts: work::Deltas {
                others: count("deltasO"),
                projections: count("deltasPi"),
                laws: count("deltasLambda"),
                invariants: count("deltasQ"),
            },
            trace,
            tested,
            strength: receipt.sandbox_strength,
            sandbox: part::<SandboxFacts>(root, "sandbox"),
            admission: part::<Admission>(root, "admission"),
            connections: receipt.connections.as_slice().to_vec(),
            diff: String::from_utf8_lossy(&file(DIFF_FILE)?).into_owned(),
            stdout: file(STDOUT_FILE)?,
            stderr: file(STDERR_FILE)?,
        };
        Ok((ran, text("agent").unwrap_or_default().into_owned()))
    }
}

/// A member of an object as the contract's type.
fn part<T: Shape>(root: Node<'_>, key: &str) -> Option<T> {
    let mut report = Report::default();
    T::finish(T::read(root.member(key)?, "held", &mut report)).filter(|_| report.is_clean())
}

fn written(ran: &Ran, receipt: &Receipt, agent: &WorkAgent) -> String {
    let mut text = String::new();
    let mut object = ObjectWriter::new(&mut text);
    object.text("agent", &agent.name).text("command", &ran.command.join("\n"));
    object.raw("receipt", &to_json(receipt));
    if let Some(sandbox) = &ran.sandbox {
        object.raw("sandbox", &to_json(sandbox));
    }
    if let Some(admission) = &ran.admission {
        object.raw("admission", &to_json(admission));
    }
    object.number("executionMs", ran.execution_ms).number("toolOps", ran.trace.count as f64);
    let work::Deltas { others, projections, laws, invariants } = ran.delta_counts;
    for (key, count) in
        [("deltasO", others), ("deltasPi", projections), ("deltasLambda", laws), ("deltasQ", invariants)]
    {
        object.number(key, count as f64);
    }
    if let Some(counts) = ran.tested.as_ref().and_then(|tested| tested.counts) {
        object.number("testsPassed", counts.passed as f64).number("testsFailed", counts.failed as f64);
    }
    object.end();
    text
}
