//! The Builder in several real processes on one ledger, and in processes that are stopped or killed. The processes are
//! this test program itself, started again for [`child_asks`], which does nothing unless its environment says what to ask.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::scalar::Version;
use crealeph_contracts::{AgentInput, BuilderResponse};
use crealeph_ledger::{Clock, Ledger, LedgerOptions, Location};
use crealeph_runtime::agents::{Agent, Agents, Call, load};
use crealeph_runtime::builder::{Builder, Settings};
use crealeph_runtime::configuration::Configuration;
use crealeph_sandbox::Cancel;
use serde_json::Value;

use crate::http_agent::HttpAgent;
use crate::world::{ALL, Counting, Place, World, request, tenant};

const LEDGER: &str = "CREALEPH_TEST_LEDGER";
const FOLDER: &str = "CREALEPH_TEST_FOLDER";
/// The execution, or what the names of several start with, and how many are asked.
const ASKED: &str = "CREALEPH_TEST_ASKED";
/// At which step the process kills itself; it has no agent but its own then.
const KILLED_AT: &str = "CREALEPH_TEST_KILLED_AT";
/// Short, so that the dead are soon replaced.
const LEASE_TIME: Duration = Duration::from_millis(700);

/// Asks, each request from a separate thread, and says every answer.
#[test]
fn child_asks() {
    let Ok(asked) = std::env::var(ASKED) else { return };
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let steps = Steps::new();
    let mut agents = Agents::default();
    match steps.killed_at {
        None => {
            let configuration = Configuration::find(Some(&folder.join("crealeph.toml"))).unwrap();
            agents = load(&configuration, &folder.join("state")).unwrap();
        }
        Some(_) => {
            let agent = Stepping { steps: steps.clone(), inner: Counting::default() };
            agents.insert(Version::parse("a1").unwrap(), "{}".to_owned(), Box::new(agent));
        }
    }
    let location = Location::parse(&std::env::var(LEDGER).unwrap());
    let (own, system) = (steps.clone(), Clock::system());
    let clock = Clock::from_fn(move || {
        own.step();
        system.now()
    });
    let options = LedgerOptions { clock, keys: Some(folder.join("keys")), ..LedgerOptions::default() };
    let builder = Builder::new(Ledger::open(&location, options).unwrap(), agents, Settings::default());
    let builder = builder.with_lease_time(LEASE_TIME);
    let (name, count) = asked.split_once(' ').unwrap();
    let count: usize = count.parse().unwrap();
    let barrier = Barrier::new(count);
    std::thread::scope(|scope| {
        for number in 0..count {
            let execution = if name.ends_with('-') { format!("{name}{number}") } else { name.to_owned() };
            let (builder, barrier, steps) = (&builder, &barrier, &steps);
            scope.spawn(move || {
                barrier.wait();
                let text = request(&execution, "block", true, 1);
                let answer = builder.run(&tenant(), text.as_bytes(), None, &Cancel::new().unwrap()).unwrap();
                steps.step();
                let mut out = std::io::stdout().lock();
                out.write_all(format!("\n#{}\n", to_json(&answer.response)).as_bytes()).unwrap();
                out.flush().unwrap();
            });
        }
    });
}

/// The moments of a run that can be distinguished from outside: whenever the clock is read (an id, a decision, a
/// transaction), when the agent is called, and when the answer is about to be given.
#[derive(Clone)]
struct Steps {
    taken: Arc<AtomicUsize>,
    killed_at: Option<usize>,
}

impl Steps {
    fn new() -> Steps {
        let killed_at = std::env::var(KILLED_AT).ok().map(|number| number.parse().unwrap());
        Steps { taken: Arc::default(), killed_at }
    }

    fn step(&self) {
        if Some(self.taken.fetch_add(1, Ordering::SeqCst) + 1) == self.killed_at {
            let pid = std::process::id().to_string();
            let _ = Command::new("kill").args(["-KILL", &pid]).status();
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}

struct Stepping {
    steps: Steps,
    inner: Counting,
}

impl Agent for Stepping {
    fn call(&self, input: &Valid<AgentInput>, cancel: &Cancel) -> Call {
        self.steps.step();
        self.inner.call(input, cancel)
    }
}

/// A ledger with everything known, by the real clock, and the agent that the processes call.
struct Shared {
    world: World,
    agent: Option<HttpAgent>,
}

impl Shared {
    fn new(place: &dyn Place, agent: Option<HttpAgent>) -> Shared {
        let world = World::by_the_real_clock(place);
        world.know(&ALL);
        if let Some(agent) = &agent {
            std::fs::write(world.folder.path().join("crealeph.toml"), agent.configuration()).unwrap();
        }
        Shared { world, agent }
    }

    fn calls(&self) -> usize {
        self.agent.as_ref().unwrap().calls()
    }

    fn child(&self, asked: &str, killed_at: Option<usize>) -> Child {
        let location = match &self.world.location {
            Location::File(file) => file.to_str().unwrap().to_owned(),
            Location::Postgres(url) => url.clone(),
        };
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["processes::child_asks", "--exact", "--nocapture", "--test-threads=1"]);
        command.env(LEDGER, location).env(FOLDER, self.folder()).env(ASKED, asked);
        if let Some(step) = killed_at {
            command.env(KILLED_AT, step.to_string());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap()
    }

    fn folder(&self) -> &Path {
        self.world.folder.path()
    }

    fn wait_for_calls(&self, count: usize) {
        for _ in 0..1_200 {
            if self.calls() >= count {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("waited a minute for call {count}");
    }

    fn events(&self, execution: &str) -> usize {
        self.world.of(execution).iter().filter(|entry| entry.content.is_event()).count()
    }
}

/// What a process answered, and whether it lived to its end.
fn answers(child: Child) -> (Vec<String>, bool) {
    let output = child.wait_with_output().unwrap();
    let lines = BufReader::new(&output.stdout[..]).lines().map(Result::unwrap);
    let answers = lines.filter_map(|line| line.strip_prefix('#').map(str::to_owned)).collect();
    (answers, output.status.success())
}

/// The answers without what distinguishes a repeat from the first.
fn distinct(answers: &[String]) -> BTreeSet<String> {
    let plain = |text: &String| {
        let mut answer: Value = serde_json::from_str(text).unwrap();
        answer["idempotent"] = Value::Null;
        answer.to_string()
    };
    answers.iter().map(plain).collect()
}

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

pub(crate) fn two_processes_ask_the_same_a_hundred_times(place: &dyn Place) {
    // Slow enough that the others come while it is at work.
    let agent = HttpAgent::new(|_| std::thread::sleep(Duration::from_secs(1)));
    let shared = Shared::new(place, Some(agent));
    let children = [0, 1].map(|_| shared.child("e 50", None));
    let answers: Vec<String> = children.into_iter().flat_map(|child| answers(child).0).collect();
    assert_eq!((answers.len(), distinct(&answers).len()), (100, 1), "{answers:?}");
    assert!(answers[0].contains("\"succeeded\""), "{}", answers[0]);
    assert_eq!((shared.calls(), shared.events("e"), shared.world.of("e").len()), (1, 1, 5));
}

pub(crate) fn two_processes_ask_a_hundred_things(place: &dyn Place) {
    let shared = Shared::new(place, Some(HttpAgent::new(|_| {})));
    let children = ["a- 50", "b- 50"].map(|asked| shared.child(asked, None));
    let answers: Vec<String> = children.into_iter().flat_map(|child| answers(child).0).collect();
    assert_eq!((answers.len(), distinct(&answers).len(), shared.calls()), (100, 100, 100));
    for name in ["a", "b"] {
        (0..50).for_each(|number| assert_eq!(shared.events(&format!("{name}-{number}")), 1));
    }
    assert!(shared.world.ledger.audit(&tenant()).unwrap().is_none());
}

pub(crate) fn a_holder_that_died_is_replaced(place: &dyn Place) {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let agent = HttpAgent::new(move |call| {
        if call == 1 {
            let _ = held.lock().unwrap().recv();
        }
    });
    let shared = Shared::new(place, Some(agent));
    let first = shared.child("e 1", None);
    shared.wait_for_calls(1);
    signal(&first, "-KILL");
    assert_eq!(answers(first), (Vec::new(), false));
    assert_eq!(shared.world.of("e").len(), 0);
    let (next, _) = answers(shared.child("e 1", None));
    assert!(next[0].contains("\"succeeded\"") && next[0].contains("\"idempotent\":false"), "{next:?}");
    assert_eq!((shared.calls(), shared.events("e"), shared.world.of("e").len()), (2, 1, 5));
    drop(release);
}

pub(crate) fn a_holder_that_overslept_gives_the_winners_answer(place: &dyn Place) {
    let (release, held) = channel::<()>();
    let held = Mutex::new(held);
    let agent = HttpAgent::new(move |call| {
        if call == 1 {
            let _ = held.lock().unwrap().recv();
        }
    });
    let shared = Shared::new(place, Some(agent));
    let late = shared.child("e 1", None);
    shared.wait_for_calls(1);
    // It renews nothing while it is stopped, and so its lease runs out under its agent.
    signal(&late, "-STOP");
    let (winner, _) = answers(shared.child("e 1", None));
    assert_eq!((shared.calls(), shared.events("e")), (2, 1));
    drop(release);
    signal(&late, "-CONT");
    let (loser, _) = answers(late);
    assert!(
        winner[0].contains("\"idempotent\":false") && loser[0].contains("\"idempotent\":true"),
        "{loser:?}"
    );
    assert_eq!(distinct(&[winner[0].clone(), loser[0].clone()]).len(), 1);
    assert_eq!((shared.calls(), shared.events("e"), shared.world.of("e").len()), (2, 1, 5));
}

pub(crate) fn killed_at_any_step_it_leaves_a_whole_run_or_none(place: &dyn Place) {
    let shared = Shared::new(place, None);
    let world = &shared.world;
    let (mut before, mut after) = (0, 0);
    for step in 1.. {
        assert!(step < 100, "a run has fewer steps than that");
        let execution = format!("e{step}");
        let (said, has_lived) = answers(shared.child(&format!("{execution} 1"), Some(step)));
        let left = world.of(&execution).len();
        assert!(left == 0 || left == 5, "half a run at step {step}: {}", world.left(&execution));
        let answer: BuilderResponse = world.run(&request(&execution, "block", true, 1)).response;
        assert_eq!((answer.state.as_str(), answer.ok), ("succeeded", true), "step {step}");
        assert_eq!(answer.idempotent, left == 5, "step {step}");
        assert_eq!((shared.events(&execution), world.of(&execution).len()), (1, 5), "step {step}");
        if has_lived {
            assert_eq!((said.len(), left), (1, 5));
            break;
        }
        assert_eq!(said.len(), 0, "step {step}");
        (before, after) = if left == 0 { (before + 1, after) } else { (before, after + 1) };
    }
    assert!(before >= 5 && after >= 1, "{before} deaths before and {after} after the run was written");
    assert!(world.ledger.audit(&tenant()).unwrap().is_none());
}
