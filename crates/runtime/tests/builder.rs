//! The Builder end to end over a real ledger, with an agent that counts its calls: the gate row by row, the way from an
//! empty ledger, repeats, retries, cancellation and crowds.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

#[path = "../../ledger/tests/server/mod.rs"]
mod server;

use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use crealeph_contracts::builder::ErrorCode;
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::entry::Draft;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::json::{JsonObject, Limits};
use crealeph_contracts::scalar::{ExecutionId, LedgerId, TenantId, Version};
use crealeph_contracts::{AgentInput, AgentOutput, BuilderResponse};
use crealeph_ledger::{Clock, Filter, Ledger, Location, Millis, Options, Order, Stored};
use crealeph_runtime::agents::{Agent, Agents, Call};
use crealeph_runtime::builder::{Answer, BuildError, Builder, Settings, execution, replay};
use crealeph_sandbox::Cancel;
use server::Server;

/// One thing the Builder must do, whatever holds its ledger.
type Case = (&'static str, fn(&dyn Place));

/// Everything here, for either backend.
const CASES: &[Case] = &[
    ("the gate row by row", the_gate_row_by_row),
    ("from an empty ledger to coherent and back", from_an_empty_ledger_to_coherent_and_back),
    (
        "a failed execution is retried with a greater attempt",
        a_failed_execution_is_retried_with_a_greater_attempt,
    ),
    ("a retry on a stale snapshot writes nothing", a_retry_on_a_stale_snapshot_writes_nothing),
    ("bad requests say what is wrong and leave nothing", bad_requests_say_what_is_wrong_and_leave_nothing),
    ("a cancelled run writes nothing and may run again", a_cancelled_run_writes_nothing_and_may_run_again),
    ("a hundred identical requests are one run", a_hundred_identical_requests_are_one_run),
    (
        "of several processes the first to write answers for all",
        of_several_processes_the_first_to_write_answers_for_all,
    ),
    ("a hundred different requests are a hundred runs", a_hundred_different_requests_are_a_hundred_runs),
];

fn check(place: &dyn Place) {
    for (name, case) in CASES {
        eprintln!("builder: {name}");
        case(place);
    }
}

#[test]
fn on_sqlite() {
    check(&InFiles);
}

#[test]
fn on_postgresql() {
    check(&Server::start());
}

/// Noon of a day in 2026.
const NOON: i64 = 1_767_268_800_000;
const MINUTE: i64 = 60_000;

/// Answers with one artifact per allowed type, counts its calls, and fails while told to.
#[derive(Clone, Default)]
struct Counting {
    calls: Arc<AtomicUsize>,
    failures_left: Arc<AtomicUsize>,
    /// Cancels the run it is called for.
    cancels: bool,
}

impl Agent for Counting {
    fn call(&self, input: &Valid<AgentInput>, cancel: &Cancel) -> Call {
        self.calls.fetch_add(1, Ordering::SeqCst);
        if self.cancels {
            cancel.cancel();
        }
        let fails =
            self.failures_left.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        let answer = match fails {
            Ok(_) => Err("it ended with code 3".to_owned()),
            Err(_) => Ok(answer_to(input)),
        };
        let identity = JsonObject::parse(r#"{"name":"a1","kind":"test"}"#).unwrap();
        Call { answer, identity, diagnostics: "hello".to_owned(), tokens_used: Some(7.0) }
    }
}

fn answer_to(input: &AgentInput) -> Valid<AgentOutput> {
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
    Valid::parse(text.as_bytes(), &Limits::default()).unwrap()
}

struct World {
    ledger: Ledger,
    builder: Builder,
    agent: Counting,
    hands: Arc<AtomicI64>,
    location: Location,
    folder: tempfile::TempDir,
}

fn tenant() -> TenantId {
    TenantId::parse("t").unwrap()
}

/// Where ledgers can be made.
trait Place {
    fn location(&self, folder: &Path) -> Location;
}

struct InFiles;

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

fn world_with(place: &dyn Place, agent: Counting) -> World {
    let folder = tempfile::tempdir().unwrap();
    let hands = Arc::new(AtomicI64::new(NOON));
    let location = place.location(folder.path());
    let ledger = Ledger::init(&location, options(&hands, folder.path())).unwrap();
    let builder = builder(&ledger, &agent);
    World { ledger, builder, agent, hands, location, folder }
}

fn options(hands: &Arc<AtomicI64>, folder: &Path) -> Options {
    let hands = hands.clone();
    let clock = Clock::from_fn(move || Millis::new(hands.load(Ordering::SeqCst)));
    Options { clock, keys: Some(folder.join("keys")), ..Options::default() }
}

fn builder(ledger: &Ledger, agent: &Counting) -> Builder {
    let mut agents = Agents::default();
    agents.insert(Version::parse("a1").unwrap(), "{}".to_owned(), Box::new(agent.clone()));
    Builder::new(ledger.clone(), agents, Settings::default())
}

fn world(place: &dyn Place) -> World {
    world_with(place, Counting::default())
}

fn request(execution: &str, on_partial: &str, dry_run: bool, attempt: u64) -> String {
    format!(
        r#"{{"robotId":"r","objective_type":"landing_plan","objective_payload":{{"goal":"sell"}},"constraints":{{}},
        "coherence_policy":{{"on_stale":"block","on_partial":"{on_partial}"}},"dryRun":{dry_run},
        "workflowVersion":"w1","agentVersion":"a1","attempt":{attempt},"executionId":"{execution}"}}"#
    )
}

impl World {
    /// Time goes on.
    fn wait(&self, minutes: i64) {
        self.hands.fetch_add(minutes * MINUTE, Ordering::SeqCst);
    }

    fn append(&self, kind: &str, on: &[&LedgerId]) -> LedgerId {
        self.wait(1);
        let ids: Vec<String> = on.iter().map(|id| format!("\"{id}\"")).collect();
        let text = format!(
            r#"{{"robotId":"r","module":"m","source":"s","type":"{kind}","state":"final","payload":{{}},
            "lineage":{{"dependsOnLedgerIds":[{}]}}}}"#,
            ids.join(",")
        );
        let draft = Draft::parse(text.as_bytes(), &Limits::default()).unwrap();
        self.ledger.append(&tenant(), vec![draft]).unwrap().remove(0).id
    }

    /// A signal, a fusion of it, and the artifacts that rest on both.
    fn know(&self, artifacts: &[&str]) -> (LedgerId, LedgerId) {
        let signal = self.append("signal", &[]);
        let fusion = self.append("fusion", &[&signal]);
        for kind in artifacts {
            self.append(kind, &[&signal, &fusion]);
        }
        (signal, fusion)
    }

    fn run(&self, request: &str) -> Answer {
        let answer = self.builder.run(&tenant(), request.as_bytes(), None, &Cancel::new().unwrap()).unwrap();
        Valid::check(answer.response.clone()).unwrap_or_else(|wrong| panic!("{wrong}"));
        answer
    }

    fn calls(&self) -> usize {
        self.agent.calls.load(Ordering::SeqCst)
    }

    fn of(&self, execution: &str) -> Vec<Stored> {
        let filter =
            Filter { execution_id: Some(ExecutionId::parse(execution).unwrap()), ..Filter::default() };
        self.ledger.list(&tenant(), &filter, Order::OldestFirst, None, 1_000).unwrap().entries
    }

    /// What an execution left: `type:state`, in order.
    fn left(&self, execution: &str) -> String {
        let entries = self.of(execution);
        let words: Vec<String> =
            entries.iter().map(|entry| format!("{}:{}", entry.content.kind, entry.content.state)).collect();
        words.join(" ")
    }

    /// Every recorded decision of an execution follows from the ledger.
    fn replays(&self, execution_id: &str) {
        let id = ExecutionId::parse(execution_id).unwrap();
        let found = execution(&self.ledger, &tenant(), None, &id).unwrap().unwrap();
        assert!(!found.records.is_empty());
        for (_, record) in &found.records {
            for check in replay(&self.ledger, &tenant(), record).unwrap() {
                assert!(check.is_same(), "{execution_id}: {check:?}");
            }
        }
    }
}

const ALL: [&str; 3] = ["idea", "copy", "playbook"];

fn the_gate_row_by_row(place: &dyn Place) {
    let drafts = "copy:draft task:draft site_plan:draft";
    let rows: [(&str, &str, bool, ExecutionState, usize, String); 8] = [
        (
            "stale",
            "draft_only",
            false,
            ExecutionState::Failed,
            0,
            "execution_event:failed execution_record:failed".into(),
        ),
        (
            "partial",
            "block",
            true,
            ExecutionState::Failed,
            0,
            "execution_event:failed execution_record:failed".into(),
        ),
        (
            "partial",
            "draft_only",
            true,
            ExecutionState::Succeeded,
            1,
            format!("{drafts} execution_event:succeeded execution_record:succeeded"),
        ),
        (
            "partial",
            "draft_only",
            false,
            ExecutionState::Cancelled,
            1,
            format!("{drafts} execution_event:cancelled execution_record:cancelled"),
        ),
        (
            "old",
            "block",
            false,
            ExecutionState::Cancelled,
            0,
            "execution_event:cancelled execution_record:cancelled".into(),
        ),
        (
            "coherent",
            "block",
            true,
            ExecutionState::Succeeded,
            1,
            format!("{drafts} execution_event:succeeded execution_record:succeeded"),
        ),
        (
            "coherent",
            "draft_only",
            false,
            ExecutionState::Planned,
            1,
            format!(
                "{} execution_event:planned execution_record:planned",
                drafts.replace("draft", "planned")
            ),
        ),
        (
            "failing",
            "block",
            false,
            ExecutionState::Failed,
            1,
            "execution_event:failed execution_record:failed".into(),
        ),
    ];
    for (known, on_partial, dry_run, state, calls, left) in rows {
        let world = world(place);
        world.know(if known == "partial" { &["idea"] } else { &ALL });
        match known {
            "stale" => drop(world.append("signal", &[])),
            "old" => world.wait(3_000),
            "failing" => world.agent.failures_left.store(1, Ordering::SeqCst),
            _ => {}
        }
        let Answer { response, detail, .. } = world.run(&request("e", on_partial, dry_run, 1));
        let row = format!("{known} {on_partial} {dry_run}");
        assert_eq!((response.state, world.calls()), (state, calls), "{row}");
        assert_eq!(world.left("e"), left, "{row}");
        assert!(!detail.is_empty() && !response.idempotent);
        let written: Vec<LedgerId> = world
            .of("e")
            .into_iter()
            .filter(|entry| !entry.content.kind.as_str().starts_with("execution_"))
            .map(|entry| entry.id)
            .collect();
        let told: Vec<LedgerId> = response.artifacts.as_slice().iter().map(|one| one.id.clone()).collect();
        assert_eq!(told, written, "{row}: the answer names what was written");
        let again = world.run(&request("e", on_partial, dry_run, 1)).response;
        assert_eq!(again, BuilderResponse { idempotent: true, ..response }, "{row}");
        assert_eq!((world.left("e"), world.calls()), (left, calls), "{row}: a repeat does nothing");
        world.replays("e");
        assert!(world.ledger.audit(&tenant()).unwrap().is_none());
    }
}

fn from_an_empty_ledger_to_coherent_and_back(place: &dyn Place) {
    let world = world(place);
    let empty = world.run(&request("e", "block", false, 1)).response;
    assert_eq!((empty.error, empty.coherence), (Some(ErrorCode::SnapshotEmpty), None));
    assert_eq!(world.left("e"), "");
    let (signal, fusion) = world.know(&["idea"]);
    let partial = world.run(&request("e-partial", "block", false, 1)).response;
    assert_eq!(partial.blocking_reason, Some(ErrorCode::CoherenceBlocked));
    for kind in ["copy", "playbook"] {
        world.append(kind, &[&signal, &fusion]);
    }
    assert_eq!(world.run(&request("e", "block", false, 1)).response.state, ExecutionState::Planned);
    let newer = world.append("signal", &[]);
    let stale = world.run(&request("e-stale", "block", false, 1)).response;
    assert_eq!(stale.blocking_reason, Some(ErrorCode::CoherenceBlocked));
    assert!(stale.coherence.unwrap().outdated.is_some());
    let fusion = world.append("fusion", &[&newer]);
    for kind in ALL {
        world.append(kind, &[&newer, &fusion]);
    }
    assert_eq!(world.run(&request("e-again", "block", false, 1)).response.state, ExecutionState::Planned);
    assert_eq!(world.calls(), 2);
    let repeated = world.run(&request("e", "block", false, 1)).response;
    assert!(
        repeated.idempotent && repeated.state == ExecutionState::Planned,
        "although the snapshot has moved"
    );
    assert_eq!(world.calls(), 2);
    for execution in ["e", "e-partial", "e-stale", "e-again"] {
        world.replays(execution);
    }
}

fn a_failed_execution_is_retried_with_a_greater_attempt(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    world.agent.failures_left.store(2, Ordering::SeqCst);
    let first = world.run(&request("e", "block", true, 1));
    assert_eq!(first.response.error, Some(ErrorCode::ModelOutputInvalid));
    assert_eq!(first.detail, "it ended with code 3");
    assert_eq!(world.run(&request("e", "block", true, 2)).response.state, ExecutionState::Failed);
    assert_eq!(world.run(&request("e", "block", true, 3)).response.state, ExecutionState::Succeeded);
    let left = world.left("e");
    for step in [
        "execution_event:running execution_event:failed",
        "execution_event:running execution_event:succeeded",
    ] {
        assert!(left.contains(step), "{left}");
    }
    for (attempt, state) in
        [(1, ExecutionState::Failed), (2, ExecutionState::Failed), (3, ExecutionState::Succeeded)]
    {
        let again = world.run(&request("e", "block", true, attempt)).response;
        assert!(again.idempotent && again.state == state, "attempt {attempt}");
    }
    for (request, words) in
        [(request("e", "block", true, 4), "has ended"), (request("e", "block", false, 3), "another request")]
    {
        let conflict = world.run(&request);
        assert_eq!(conflict.response.error, Some(ErrorCode::IdempotencyConflict));
        assert!(conflict.detail.contains(words), "{}", conflict.detail);
    }
    assert_eq!((world.calls(), world.left("e")), (3, left));
    world.replays("e");
}

fn a_retry_on_a_stale_snapshot_writes_nothing(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    world.agent.failures_left.store(1, Ordering::SeqCst);
    world.run(&request("e", "block", false, 1));
    world.append("signal", &[]);
    let left = world.left("e");
    let blocked = world.run(&request("e", "block", false, 2)).response;
    assert_eq!(
        (blocked.blocking_reason, blocked.state),
        (Some(ErrorCode::CoherenceBlocked), ExecutionState::Failed)
    );
    assert_eq!((world.left("e"), world.calls()), (left, 1));
}

fn bad_requests_say_what_is_wrong_and_leave_nothing(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let good = request("e", "block", false, 1);
    let cases = [
        ("{}".to_owned(), "`robotId` is missing"),
        (good.replace("\"a1\"", "\"a2\""), "there is no agent `a2`; name one of: `a1`"),
        (good.replace("\"attempt\":1", "\"attempt\":0"), "attempt"),
        (format!("{good}{good}"), "R3"),
    ];
    for (request, words) in cases {
        let answer = world.run(&request);
        assert_eq!(answer.response.error, Some(ErrorCode::InvalidRequest), "{request}");
        assert!(answer.detail.contains(words), "{}", answer.detail);
    }
    let own = ExecutionId::parse("e").unwrap();
    let cancel = Cancel::new().unwrap();
    let rerun = world.builder.run(&tenant(), good.as_bytes(), Some(&own), &cancel).unwrap();
    assert_eq!(rerun.response.error, Some(ErrorCode::InvalidRequest));
    assert_eq!((world.left("e").as_str(), world.calls()), ("", 0));
    let other = ExecutionId::parse("before").unwrap();
    world.builder.run(&tenant(), good.as_bytes(), Some(&other), &cancel).unwrap();
    let entries = world.of("e");
    let event = entries.iter().find(|entry| entry.content.is_event()).unwrap();
    assert_eq!(event.content.rerun_of.as_ref(), Some(&other));
    let made = world.run(&good.replace(",\"executionId\":\"e\"", "")).response.execution_id.unwrap();
    assert_eq!(crealeph_contracts::uuid::Uuid::parse(made.as_str()).unwrap().version(), 7);
}

fn a_cancelled_run_writes_nothing_and_may_run_again(place: &dyn Place) {
    let world = world_with(place, Counting { cancels: true, ..Counting::default() });
    world.know(&ALL);
    let text = request("e", "block", false, 1);
    let cancelled = world.builder.run(&tenant(), text.as_bytes(), None, &Cancel::new().unwrap());
    assert_eq!(cancelled, Err(BuildError::Cancelled));
    assert_eq!((world.left("e").as_str(), world.calls()), ("", 1));
    let again = builder(&world.ledger, &Counting::default());
    let answer = again.run(&tenant(), text.as_bytes(), None, &Cancel::new().unwrap()).unwrap();
    assert_eq!(answer.response.state, ExecutionState::Planned);
}

/// Runs the requests at once, each by its own thread, spread over the builders.
fn at_once(builders: &[&Builder], requests: &[String]) -> Vec<BuilderResponse> {
    let barrier = Barrier::new(requests.len());
    std::thread::scope(|scope| {
        let threads: Vec<_> = requests
            .iter()
            .enumerate()
            .map(|(number, text)| {
                let (barrier, builder) = (&barrier, builders[number % builders.len()]);
                scope.spawn(move || {
                    let cancel = Cancel::new().unwrap();
                    barrier.wait();
                    builder.run(&tenant(), text.as_bytes(), None, &cancel).unwrap().response
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn equal_answers(answers: Vec<BuilderResponse>) {
    let texts: std::collections::BTreeSet<String> =
        answers.into_iter().map(|answer| to_json(&BuilderResponse { idempotent: false, ..answer })).collect();
    assert_eq!(texts.len(), 1, "{texts:?}");
}

fn a_hundred_identical_requests_are_one_run(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    equal_answers(at_once(&[&world.builder], &vec![request("e", "block", false, 1); 100]));
    assert_eq!(world.calls(), 1);
    assert_eq!(world.of("e").iter().filter(|entry| entry.content.is_event()).count(), 1);
    assert_eq!(world.of("e").len(), 5);
}

fn of_several_processes_the_first_to_write_answers_for_all(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let others: Vec<Builder> = (0..4)
        .map(|_| {
            builder(
                &Ledger::open(&world.location, options(&world.hands, world.folder.path())).unwrap(),
                &world.agent,
            )
        })
        .collect();
    let builders: Vec<&Builder> = others.iter().collect();
    for (execution, dry_run) in [("dry", true), ("planned", false)] {
        equal_answers(at_once(&builders, &vec![request(execution, "block", dry_run, 1); 40]));
        assert_eq!(world.of(execution).iter().filter(|entry| entry.content.is_event()).count(), 1);
        assert_eq!(world.of(execution).len(), 5, "{}", world.left(execution));
    }
    assert!(world.ledger.audit(&tenant()).unwrap().is_none());
}

fn a_hundred_different_requests_are_a_hundred_runs(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let requests: Vec<String> =
        (0..100).map(|number| request(&format!("e-{number}"), "block", true, 1)).collect();
    let answers = at_once(&[&world.builder], &requests);
    assert!(answers.iter().all(|answer| answer.ok));
    assert_eq!(world.calls(), 100);
    for number in 0..100 {
        assert_eq!(world.of(&format!("e-{number}")).len(), 5);
    }
    assert!(world.ledger.audit(&tenant()).unwrap().is_none());
}
