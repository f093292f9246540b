//! A whole run as a user has it: an agent changes ten files, the change is judged, published, sealed and recorded. In turns with it, one whose
//! agent changes nothing.

use std::path::Path;
use std::time::Duration;

use crealeph_bench::Outcome;
use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::TenantId;
use crealeph_contracts::{Valid, WorkItem};
use crealeph_ledger::{Ledger, LedgerOptions, Location};
use crealeph_runtime::configuration::Configuration;
use crealeph_runtime::work::{Destination, ItemOutcome, RunOptions, Work, WorkConfig, WorkSetup};
use crealeph_sandbox::{Cancel, Config, Sandbox, Spec};
use crealeph_workspace::Workspace;

use crate::{median, time};

const ROUNDS: usize = 7;

pub(crate) struct Whole {
    pub(crate) all: Duration,
    pub(crate) nothing: Duration,
    pub(crate) agent: Duration,
}

pub(crate) fn race(folder: &Path, tree: &Path) -> Outcome<Whole> {
    let config = folder.join("crealeph.toml");
    let command = "for n in 0 1 2 3 4 5 6 7 8 9; do echo \\\"$(cat $CREALEPH_PROMPT)\\\" >> part-0/module-0/file-$n.txt; done";
    std::fs::write(
        &config,
        format!(
            "[work.agents.a]\nagent_id = \"agent-1\"\ncommand = \"{command}\"\n\n[work.agents.n]\nagent_id = \"agent-2\"\ncommand = \"true\"\n"
        ),
    )?;
    // The first state, which is read as a whole, is not measured.
    Workspace::open(tree)?.snapshot()?;
    let control = tree.join(".crealeph");
    let (location, keys) = (Location::File(control.join("ledger.db")), control.join("keys"));
    let options = LedgerOptions { keys: Some(keys.clone()), ..LedgerOptions::default() };
    let setup = WorkSetup {
        workspace: tree.to_owned(),
        config: WorkConfig::read(&Configuration::find(Some(&config))?)?,
        state_dir: folder.join("state"),
        ledger: Ledger::init(&location, options)?,
        keys,
        tenant: TenantId::parse("local")?,
        private: Vec::new(),
        sources: Vec::new(),
    };
    let (work, _) = Work::open(setup)?;
    let sandbox = Sandbox::new(Config::new(folder.join("state")))?;
    let (mut all, mut nothing, mut agents) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let took = run(&work, round, "agent-1")?;
        let unchanged = run(&work, round, "agent-2")?;
        let (spawn, _) = time(|| {
            Ok(sandbox.run(
                &Spec::new([
                    "/bin/sh",
                    "-c",
                    "for n in 0 1 2 3 4 5 6 7 8 9; do echo \"$(cat /etc/hostname)\"; done",
                ]),
                &Cancel::new()?,
            )?)
        })?;
        // The first one keeps the whole state before it, once for all.
        if round > 0 {
            all.push(took);
            nothing.push(unchanged);
            agents.push(spawn);
        }
    }
    Ok(Whole { all: median(all), nothing: median(nothing), agent: median(agents) })
}

/// How long one item of an agent takes.
fn run(work: &Work, round: usize, agent: &str) -> Outcome<Duration> {
    let item = format!(
        r#"{{"id":"{agent}-{round}","agent_id":"{agent}","description":"line {round}","dependencies":[],"budget":{{"time_estimate_ms":1,"complexity":"low"}}}}"#
    );
    let item = Valid::<WorkItem>::parse(item.as_bytes(), &Limits::default())
        .map_err(|wrong| format!("{wrong:?}"))?;
    let options = RunOptions {
        jobs: 1,
        destination: Destination::Tree,
        is_held: false,
        agent: None,
        is_capped: false,
        only_failed: false,
    };
    let (took, outcomes) = time(|| Ok(work.run(&[item.into_inner()], &options, &|_| (), &mut |_| ())?))?;
    let is_success =
        matches!(outcomes.first(), Some(ItemOutcome::Finished { result, .. }) if result.is_success());
    assert!(is_success, "{outcomes:?}");
    Ok(took)
}
