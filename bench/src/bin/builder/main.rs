//! `cargo xtask bench builder`: Builder runs against the same work as a DBOS workflow, in one run, durable on both sides,
//! with an HTTP agent that answers at once. The contenders take turns, so that disturbances of the machine affect both.

mod agent;
mod peer;
#[path = "../../../../crates/ledger/tests/server/mod.rs"]
mod server;

use std::cell::Cell;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use crealeph_contracts::AgentInput;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::{TenantId, Version};
use crealeph_ledger::{Ledger, LedgerOptions, Location};
use crealeph_runtime::agents::{Agent, Agents, Call, load};
use crealeph_runtime::builder::{Builder, Settings};
use crealeph_runtime::configuration::Configuration;
use crealeph_sandbox::Cancel;
use peer::Peer;

/// As in the program.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a contender's turn is, and how many turns it has.
const TURN: Duration = Duration::from_secs(2);
const TURNS: usize = 5;
const CLIENTS: [usize; 2] = [1, 64];

fn main() -> Outcome<()> {
    crealeph_sandbox::helper_main_if_requested();
    let own_only = std::env::args().any(|argument| argument == "--own");
    let folder = tempfile::tempdir()?;
    let port = agent::serve()?;
    let example =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/agents/planner.sh").canonicalize()?;
    let configuration = folder.path().join("crealeph.toml");
    let text = format!(
        "[agents.'http@1']\nkind = 'http'\nurl = 'http://127.0.0.1:{port}/'\n\
         [agents.'process@1']\nkind = 'process'\ncommand = [{:?}]\n",
        example.display().to_string()
    );
    std::fs::write(&configuration, text)?;
    std::fs::create_dir(folder.path().join("state"))?;
    let place = Place { folder: folder.path(), configuration: &configuration };

    println!("## SQLite\n");
    let ours = place.builder(&Location::File(folder.path().join("ledger.db")))?;
    let file = folder.path().join("peer.db");
    let peer =
        if own_only { None } else { Some(Peer::start(&format!("sqlite:///{}", file.display()), port)?) };
    race(&ours, peer)?;
    process(&ours)?;

    println!("\n## PostgreSQL\n");
    let server = server::Server::start_durable();
    let ours = place.builder(&Location::parse(&server.url(&server.database())))?;
    let peer = if own_only {
        None
    } else {
        Some(Peer::start(&peer::sqlalchemy_url(&server.url(&server.database())), port)?)
    };
    race(&ours, peer)
}

struct Place<'p> {
    folder: &'p Path,
    configuration: &'p Path,
}

impl Place<'_> {
    /// A Builder over a new ledger with all evidence about robot `r`.
    fn builder(&self, location: &Location) -> Outcome<Builder> {
        let options = LedgerOptions { keys: Some(self.folder.join("keys")), ..LedgerOptions::default() };
        let ledger = Ledger::init(location, options)?;
        let mut before: Vec<String> = Vec::new();
        for kind in ["signal", "fusion", "idea", "copy", "benchmark", "playbook"] {
            let on: Vec<String> = before.iter().map(|id| format!("\"{id}\"")).collect();
            let text = format!(
                r#"{{"robotId":"r","module":"m","source":"s","type":"{kind}","state":"final","payload":{{"text":"{}"}},"lineage":{{"dependsOnLedgerIds":[{}]}}}}"#,
                "words ".repeat(20),
                on.join(",")
            );
            let draft =
                Draft::parse(text.as_bytes(), &Limits::default()).map_err(|wrong| format!("{wrong:?}"))?;
            let appended = ledger.append(&tenant()?, vec![draft])?;
            before.extend(appended.first().map(|entry| entry.id.to_string()));
        }
        let mut agents = Agents::default();
        for name in ["http@1", "process@1"] {
            let inner = load(&Configuration::find(Some(self.configuration))?, &self.folder.join("state"))?;
            let version = Version::parse(name)?;
            agents.insert(version.clone(), "{}".to_owned(), Box::new(Timed { inner, version }));
        }
        Ok(Builder::new(ledger, agents, Settings::default()))
    }
}

fn tenant() -> Outcome<TenantId> {
    Ok(TenantId::parse("local")?)
}

thread_local! {
    static CALL: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// An agent whose calls are timed, so that the Builder's own time is known.
struct Timed {
    inner: Agents,
    version: Version,
}

impl Agent for Timed {
    fn call(&self, input: &Valid<AgentInput>, cancel: &Cancel) -> Call {
        let start = Instant::now();
        let call = match self.inner.get(&self.version) {
            Some(agent) => agent.call(input, cancel),
            None => std::process::abort(),
        };
        CALL.set(start.elapsed());
        call
    }
}

/// The result of a turn, or of several.
#[derive(Default)]
struct Figures {
    seconds: f64,
    runs: Vec<f64>,
    overheads: Vec<f64>,
}

impl Figures {
    fn add(&mut self, more: Figures) {
        self.seconds += more.seconds;
        self.runs.extend(more.runs);
        self.overheads.extend(more.overheads);
    }

    fn rate(&self) -> f64 {
        self.runs.len() as f64 / self.seconds
    }

    fn overhead_ms(&self, share: usize) -> f64 {
        let mut sorted = self.overheads.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() * share / 100).copied().unwrap_or(f64::NAN) * 1e3
    }

    fn row(&self, name: &str, clients: usize, ahead: &str) {
        println!(
            "| {name} | {clients} | {:.0} | {:.2} ms | {:.2} ms | {ahead} |",
            self.rate(),
            self.overhead_ms(50),
            self.overhead_ms(99)
        );
    }
}

/// Who names the executions: if the client does, each is looked up and held by a lease.
#[derive(Clone, Copy)]
enum Naming {
    ByUs,
    ByClient,
}

static NAMED: AtomicU64 = AtomicU64::new(0);

/// Runs of a Builder for one turn, from so many clients at once.
fn turn(builder: &Builder, agent: &str, clients: usize, naming: Naming) -> Outcome<Figures> {
    let tenant = tenant()?;
    let failed: Mutex<Option<String>> = Mutex::new(None);
    let start = Instant::now();
    let client = || {
        let mut figures = Figures::default();
        let rest = format!(
            r#""robotId":"r","objective_type":"site_plan","objective_payload":{{}},"constraints":{{}},"coherence_policy":{{"on_stale":"block","on_partial":"block"}},"dryRun":true,"workflowVersion":"w1","agentVersion":"{agent}","attempt":1}}"#
        );
        let Ok(cancel) = Cancel::new() else { return figures };
        while start.elapsed() < TURN {
            let text = match naming {
                Naming::ByUs => format!("{{{rest}"),
                Naming::ByClient => {
                    format!("{{\"executionId\":\"e{}\",{rest}", NAMED.fetch_add(1, Ordering::Relaxed))
                }
            };
            let began = Instant::now();
            let ended = match builder.run(&tenant, text.as_bytes(), None, &cancel) {
                Ok(answer) if answer.response.ok => Ok(began.elapsed()),
                Ok(answer) => Err(answer.detail),
                Err(error) => Err(error.to_string()),
            };
            match ended {
                Ok(took) => {
                    figures.runs.push(took.as_secs_f64());
                    figures.overheads.push(took.saturating_sub(CALL.get()).as_secs_f64());
                }
                Err(why) => {
                    if let Ok(mut failed) = failed.lock() {
                        *failed = Some(why);
                    }
                    return figures;
                }
            }
        }
        figures
    };
    let mut all = Figures::default();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients).map(|_| scope.spawn(client)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).for_each(|figures| all.add(figures));
    });
    all.seconds = start.elapsed().as_secs_f64();
    match failed.into_inner().ok().flatten() {
        Some(why) => Err(format!("a run of ours failed: {why}").into()),
        None => Ok(all),
    }
}

fn race(ours: &Builder, mut peer: Option<Peer>) -> Outcome<()> {
    println!("| contender | clients | runs per second | overhead p50 | overhead p99 | ahead |");
    println!("|---|---:|---:|---:|---:|---:|");
    for clients in CLIENTS {
        let (mut own, mut named, mut other) = <(Figures, Figures, Figures)>::default();
        // The first turn of each warms it up and does not count.
        for number in 0..=TURNS {
            let turns = (
                turn(ours, "http@1", clients, Naming::ByUs)?,
                turn(ours, "http@1", clients, Naming::ByClient)?,
                peer.as_mut().map(|peer| peer.turn(clients, TURN)).transpose()?,
            );
            if number > 0 {
                own.add(turns.0);
                named.add(turns.1);
                turns.2.into_iter().for_each(|turn| other.add(turn));
            }
        }
        own.row("crealeph", clients, &format!("{:.1}×", own.rate() / other.rate()));
        named.row("crealeph, named", clients, &format!("{:.1}×", named.rate() / other.rate()));
        if peer.is_some() {
            other.row("DBOS", clients, "");
        }
    }
    Ok(())
}

/// The same with a program in the sandbox, which costs more than all the rest.
fn process(ours: &Builder) -> Outcome<()> {
    let mut figures = Figures::default();
    turn(ours, "process@1", 1, Naming::ByUs)?;
    for _ in 0..TURNS {
        figures.add(turn(ours, "process@1", 1, Naming::ByUs)?);
    }
    let mut runs = figures.runs.clone();
    runs.sort_by(f64::total_cmp);
    let at = |share: usize| runs.get(runs.len() * share / 100).copied().unwrap_or(f64::NAN) * 1e3;
    println!(
        "\nA program in the sandbox (examples/agents/planner.sh), one client: {:.0} runs per second; a whole run p50 {:.1} ms, \
         p99 {:.1} ms; beside the program p50 {:.2} ms",
        figures.rate(),
        at(50),
        at(99),
        figures.overhead_ms(50)
    );
    Ok(())
}
