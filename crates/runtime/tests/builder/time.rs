//! What time does to a run: history that arrives late, a clock that was wrong once, and a lease that is lost again and again.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crealeph_contracts::AgentInput;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::Limits as JsonLimits;
use crealeph_contracts::scalar::Version;
use crealeph_ledger::{Ledger, LedgerError, LedgerLimits, LedgerOptions, Location};
use crealeph_runtime::agents::{Agent, Agents, Call};
use crealeph_runtime::builder::{BuildError, Builder, Settings};
use crealeph_sandbox::Cancel;

use crate::world::{ALL, Counting, InFiles, Place, World, builder, options, request, tenant, world};

pub(crate) fn history_that_arrives_late_makes_nothing_stale(place: &dyn Place) {
    let world = world(place);
    world.know(&ALL);
    let late = |observed_at: &str| {
        let text = format!(
            r#"{{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{{}},"observedAt":"{observed_at}"}}"#
        );
        let draft = Draft::parse(text.as_bytes(), &JsonLimits::default()).unwrap();
        world.wait(1);
        world.ledger.append(&tenant(), vec![draft]).unwrap();
    };
    late("2025-12-31T00:00:00Z");
    let answer = world.run(&request("e", "block", true, 1));
    assert_eq!((answer.response.state.as_str(), world.calls()), ("succeeded", 1), "{}", answer.detail);
    world.replays("e");
    late("2026-01-01T12:03:00.000000001Z");
    let answer = world.run(&request("f", "block", true, 1));
    assert_eq!((answer.response.state.as_str(), world.calls()), ("failed", 1), "newer than what was used");
    world.replays("f");
}

pub(crate) fn a_clock_that_was_wrong_once_makes_nothing_fresh(place: &dyn Place) {
    const YEARS: i64 = 10 * 365 * 24 * 60;
    let world = world(place);
    world.wait(YEARS);
    world.know(&ALL);
    world.wait(-YEARS);
    let cancel = Cancel::new().unwrap();
    let refused = world.builder.run(&tenant(), request("e", "block", true, 1).as_bytes(), None, &cancel);
    assert!(matches!(&refused, Err(BuildError::Ledger(LedgerError::ClockBehind { .. }))), "{refused:?}");
    // With a raised bound appending works again, and still nothing that is dated ahead is fresh.
    let limits = LedgerLimits { clock_skew_ms: i64::MAX, ..LedgerLimits::default() };
    let raised = LedgerOptions { limits, ..options(&world.hands, world.folder.path()) };
    let ledger = Ledger::open(&world.location, raised).unwrap();
    let builder = builder(&ledger, &world.agent);
    let answer = builder.run(&tenant(), request("e", "block", true, 1).as_bytes(), None, &cancel).unwrap();
    assert_eq!((answer.response.state.as_str(), world.calls()), ("cancelled", 0));
    assert!(answer.detail.contains("signalsAt"), "{}", answer.detail);
    world.replays("e");
}

/// Takes its own execution's lease away while it is called, as a process that disagrees about the time would.
struct Robbed {
    file: PathBuf,
    inner: Counting,
}

impl Agent for Robbed {
    fn call(&self, input: &Valid<AgentInput>, cancel: &Cancel) -> Call {
        let done = Command::new("sqlite3")
            .arg(&self.file)
            .arg(".timeout 5000")
            .arg("UPDATE leases SET token = token + 1000")
            .status();
        assert!(done.unwrap().success());
        self.inner.call(input, cancel)
    }
}

#[test]
fn an_agent_is_called_a_bounded_number_of_times() {
    let World { ledger, location, agent, folder: _folder, .. } = {
        let world = world(&InFiles);
        world.know(&ALL);
        world
    };
    let Location::File(file) = location else { panic!("a file") };
    let mut agents = Agents::default();
    let robbed = Robbed { file, inner: agent.clone() };
    agents.insert(Version::parse("a1").unwrap(), "{}".to_owned(), Box::new(robbed));
    let builder = Builder::new(ledger.clone(), agents, Settings::default());
    let builder = builder.with_lease_time(Duration::from_millis(300));
    let cancel = Cancel::new().unwrap();
    let ended = builder.run(&tenant(), request("e", "block", true, 1).as_bytes(), None, &cancel);
    assert!(matches!(&ended, Err(BuildError::Overtaken)), "{ended:?}");
    assert_eq!(agent.calls.load(Ordering::SeqCst), 2);
}
