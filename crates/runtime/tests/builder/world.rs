//! A Builder over its own ledger, with a clock whose hands the test moves and an agent that counts its calls.

use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crealeph_contracts::AgentInput;
use crealeph_contracts::agent_input::RunMode;
use crealeph_contracts::agent_output::AgentAnswer;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{JsonObject, Limits};
use crealeph_contracts::scalar::{ExecutionId, LedgerId, TenantId, Version};
use crealeph_ledger::{Clock, Filter, Ledger, LedgerOptions, Location, Millis, Order, StoredEntry};
use crealeph_runtime::agents::{Agent, Agents, Call};
use crealeph_runtime::builder::{Answer, Builder, Settings, execution, replay};
use crealeph_sandbox::Cancel;

use crate::server::Server;

/// Noon of a day in 2026.
const NOON: i64 = 1_767_268_800_000;
const MINUTE: i64 = 60_000;

/// Answers with one artifact per allowed type, counts its calls, and fails while `failures_left` is not 0.
#[derive(Clone, Default)]
pub(crate) struct Counting {
    pub(crate) calls: Arc<AtomicUsize>,
    pub(crate) failures_left: Arc<AtomicUsize>,
    /// Cancels the run it is called for.
    pub(crate) cancels: bool,
    /// How it was last asked to run.
    pub(crate) mode: Arc<Mutex<Option<RunMode>>>,
}

impl Agent for Counting {
    fn call(&self, input: &Valid<AgentInput>, cancel: &Cancel) -> Call {
        self.calls.fetch_add(1, Ordering::SeqCst);
        *self.mode.lock().unwrap() = Some(input.run_mode);
        if self.cancels {
            cancel.cancel();
        }
        let fails =
            self.failures_left.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let answer = match fails {
            Ok(_) => Err("it ended with code 3".to_owned().into()),
            Err(_) => Ok(answer_to(input)),
        };
        let identity = JsonObject::parse(r#"{"name":"a1","kind":"test"}"#).unwrap();
        Call { answer, identity, diagnostics: "hello".to_owned(), tokens_used: Some(7.0) }
    }
}

pub(crate) fn answer_to(input: &AgentInput) -> AgentAnswer {
    let on = &input.allowed_lineage.depends_on.as_slice()[0];
    let artifacts: Vec<String> = input
        .allowed_artifact_types
        .as_slice()
        .iter()
        .map(|kind| {
            format!(
                r#"{{"type":"{kind}","payload":{{"for":"{}"}},"dependsOnLedgerIds":["{on}"],"metadata":{{"generatedAt":"2026-01-01T00:00:00Z"}}}}"#,
                input.execution_id
            )
        })
        .collect();
    let text = format!(
        r#"{{"ok":true,"executionId":"{}","status":"succeeded","artifacts":[{}]}}"#,
        input.execution_id,
        artifacts.join(",")
    );
    AgentAnswer::parse(text.as_bytes(), &Limits::default(), input).unwrap()
}

pub(crate) struct World {
    pub(crate) ledger: Ledger,
    pub(crate) builder: Builder,
    pub(crate) agent: Counting,
    pub(crate) hands: Arc<AtomicI64>,
    pub(crate) location: Location,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn tenant() -> TenantId {
    TenantId::parse("t").unwrap()
}

/// Where ledgers can be made.
pub(crate) trait Place {
    fn location(&self, folder: &Path) -> Location;
}

pub(crate) struct InFiles;

impl Place for InFiles {
    fn location(&self, folder: &Path) -> Location {
        Location::File(folder.join("ledger.db"))
    }
}

impl Place for Server {
    fn location(&self, _: &Path) -> Location {
        Location::parse(&self.url(&self.database()))
    }
}

pub(crate) fn world_with(place: &dyn Place, agent: Counting) -> World {
    let folder = tempfile::tempdir().unwrap();
    let hands = Arc::new(AtomicI64::new(NOON));
    let options = options(&hands, folder.path());
    World::new(place, agent, folder, hands, options)
}

pub(crate) fn options(hands: &Arc<AtomicI64>, folder: &Path) -> LedgerOptions {
    let hands = hands.clone();
    let clock = Clock::from_fn(move || Millis::new(hands.load(Ordering::SeqCst)));
    LedgerOptions { clock, keys: Some(folder.join("keys")), ..LedgerOptions::default() }
}

pub(crate) fn builder(ledger: &Ledger, agent: &Counting) -> Builder {
    let mut agents = Agents::default();
    agents.insert(Version::parse("a1").unwrap(), "{}".to_owned(), Box::new(agent.clone()));
    Builder::new(ledger.clone(), agents, Settings::default())
}

pub(crate) fn world(place: &dyn Place) -> World {
    world_with(place, Counting::default())
}

pub(crate) fn request(execution: &str, on_partial: &str, dry_run: bool, attempt: u64) -> String {
    request_of("r", execution, on_partial, dry_run, attempt)
}

pub(crate) fn request_of(
    robot: &str,
    execution: &str,
    on_partial: &str,
    dry_run: bool,
    attempt: u64,
) -> String {
    format!(
        r#"{{"robotId":"{robot}","objective_type":"landing_plan","objective_payload":{{"goal":"sell"}},"constraints":{{}},
        "coherence_policy":{{"on_stale":"block","on_partial":"{on_partial}"}},"dryRun":{dry_run},
        "workflowVersion":"w1","agentVersion":"a1","attempt":{attempt},"executionId":"{execution}"}}"#
    )
}

impl World {
    fn new(
        place: &dyn Place,
        agent: Counting,
        folder: tempfile::TempDir,
        hands: Arc<AtomicI64>,
        options: LedgerOptions,
    ) -> World {
        let location = place.location(folder.path());
        let ledger = Ledger::init(&location, options).unwrap();
        let builder = builder(&ledger, &agent);
        World { ledger, builder, agent, hands, location, folder }
    }

    /// For what other processes take part in: time passes by itself.
    pub(crate) fn by_the_real_clock(place: &dyn Place) -> World {
        let folder = tempfile::tempdir().unwrap();
        let options = LedgerOptions { keys: Some(folder.path().join("keys")), ..LedgerOptions::default() };
        World::new(place, Counting::default(), folder, Arc::default(), options)
    }

    /// Time passes.
    pub(crate) fn wait(&self, minutes: i64) {
        self.hands.fetch_add(minutes * MINUTE, Ordering::SeqCst);
    }

    pub(crate) fn append(&self, kind: &str, on: &[&LedgerId]) -> LedgerId {
        self.append_of("r", kind, on)
    }

    pub(crate) fn append_of(&self, robot: &str, kind: &str, on: &[&LedgerId]) -> LedgerId {
        self.wait(1);
        let ids: Vec<String> = on.iter().map(|id| format!("\"{id}\"")).collect();
        let text = format!(
            r#"{{"robotId":"{robot}","module":"m","source":"s","type":"{kind}","state":"final","payload":{{}},
            "lineage":{{"dependsOnLedgerIds":[{}]}}}}"#,
            ids.join(",")
        );
        let draft = Draft::parse(text.as_bytes(), &Limits::default()).unwrap();
        self.ledger.append(&tenant(), vec![draft]).unwrap().remove(0).id
    }

    /// A signal, a fusion of it, and the artifacts that are based on both.
    pub(crate) fn know(&self, artifacts: &[&str]) -> (LedgerId, LedgerId) {
        self.know_of("r", artifacts)
    }

    pub(crate) fn know_of(&self, robot: &str, artifacts: &[&str]) -> (LedgerId, LedgerId) {
        let signal = self.append_of(robot, "signal", &[]);
        let fusion = self.append_of(robot, "fusion", &[&signal]);
        for kind in artifacts {
            self.append_of(robot, kind, &[&signal, &fusion]);
        }
        (signal, fusion)
    }

    pub(crate) fn run(&self, request: &str) -> Answer {
        let answer = self.builder.run(&tenant(), request.as_bytes(), None, &Cancel::new().unwrap()).unwrap();
        Valid::check(answer.response.clone()).unwrap_or_else(|wrong| panic!("{wrong}"));
        answer
    }

    pub(crate) fn calls(&self) -> usize {
        self.agent.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn of(&self, execution: &str) -> Vec<StoredEntry> {
        let filter =
            Filter { execution_id: Some(ExecutionId::parse(execution).unwrap()), ..Filter::default() };
        self.ledger.list(&tenant(), &filter, Order::OldestFirst, None, 1_000).unwrap().entries
    }

    /// What an execution left: `type:state`, in order.
    pub(crate) fn left(&self, execution: &str) -> String {
        let entries = self.of(execution);
        let words: Vec<String> =
            entries.iter().map(|entry| format!("{}:{}", entry.content.kind, entry.content.state)).collect();
        words.join(" ")
    }

    /// Every recorded decision of an execution follows from the ledger.
    pub(crate) fn replays(&self, execution_id: &str) {
        let id = ExecutionId::parse(execution_id).unwrap();
        let found = execution(&self.ledger, &tenant(), None, &id).unwrap().unwrap();
        assert!(!found.records.is_empty());
        for (entry, record) in &found.records {
            for check in replay(&self.ledger, &tenant(), entry, record).unwrap() {
                assert!(check.is_same(), "{execution_id}: {check:?}");
            }
        }
    }
}

/// What is judged for coherence.
pub(crate) const ALL: [&str; 3] = ["idea", "copy", "playbook"];
