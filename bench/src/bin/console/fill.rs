//! A ledger with a realistic mix, written in batches through the ledger's own interface: robots with evidence and what their sensors
//! say, executions of the Builder, drafts with verdicts of enrolled people, receipts of work runs, held changes. What a page shows at
//! most is there in a small ledger too, so that both show the same; the rest grows.

use std::path::Path;
use std::time::{Duration, Instant};

use crealeph_bench::Outcome;
use crealeph_contracts::approval::TENANT_ROBOT;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::held_change::{HELD, HELD_CHANGE, HeldChangeRecord, held_change_key};
use crealeph_contracts::json::{JsonObject, Limits};
use crealeph_contracts::run_result::RunStatus;
use crealeph_contracts::scalar::{Amount, ClientKey, LedgerId, Name, RobotId, TenantId, Text};
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::work_item::AgentId;
use crealeph_contracts::{Valid, WorkItem};
use crealeph_ledger::{Cursor, Filter, Ledger, LedgerOptions, Location, Order, Seq, StoredEntry};
use crealeph_runtime::agents::load;
use crealeph_runtime::builder::{Builder, Settings};
use crealeph_runtime::configuration::Configuration;
use crealeph_runtime::work::receipt::{ReceiptFacts, Signer, seal};
use crealeph_sandbox::Cancel;
use crealeph_workspace::Workspace;

use crate::people::People;

/// The smallest ledger that has all of the mix.
pub(crate) const LEAST: u64 = 1_000;
const ROBOTS: u64 = 55;
/// Executions whose drafts wait, each with three, and others; held changes that wait; and receipts that a page shows.
const WAITING: u64 = 20;
const PLANNED: u64 = 30;
const HELD_CHANGES: u64 = 20;
const RECEIPTS: u64 = 110;
/// What grows with the ledger, for about a thousand entries.
const GROWING_NOTES: u64 = 935;
const GROWING_PLANS: u64 = 6;
const GROWING_DRAFTS: u64 = 2;
const GROWING_RECEIPTS: u64 = 5;
const BATCH: usize = 1_000;
/// Evidence of a robot, each resting on the one before.
const KNOWN: [&str; 5] = ["signal", "fusion", "idea", "copy", "playbook"];
const REQUEST: &str = r#""objective_type":"landing_plan","objective_payload":{"page":"spring sale"},"constraints":{"language":"en"},"coherence_policy":{"on_stale":"block","on_partial":"draft_only"},"workflowVersion":"1","agentVersion":"example@1","attempt":1"#;
const DIFF_LINES: usize = 20_000;
const FILE_LINES: usize = 400;

/// How much there is, and what pages are about.
pub(crate) struct FilledLedger {
    pub entries: u64,
    pub marks: Landmarks,
}

/// Something of each kind that has a page.
pub(crate) struct Landmarks {
    pub robot: String,
    pub execution: String,
    pub waiting: LedgerId,
    pub landed: LedgerId,
    pub held: String,
    pub run: String,
    /// Its diff has many files.
    pub long_diff: String,
    /// Its diff has one long file.
    pub long_file: String,
}

/// Fills the ledger of a folder to about so many entries.
pub(crate) fn fill(folder: &Path, size: u64) -> Outcome<FilledLedger> {
    let ledger = Ledger::open(&Location::File(folder.join(".crealeph/ledger.db")), LedgerOptions::default())?;
    let tenant = TenantId::parse("local")?;
    let people = People::enrol(&ledger, &tenant)?;
    let configuration = Configuration::find(Some(&folder.join("crealeph.toml")))?;
    std::fs::create_dir_all(folder.join("agents-state"))?;
    let agents = load(&configuration, &folder.join("agents-state"))?;
    let builder = Builder::new(ledger.clone(), agents, Settings::default());
    let receipts = Receipts::start(&folder.join("workspace"))?;
    let mut filling =
        Filling { ledger, tenant, builder, people, receipts, robots: 0, notes: 0, looked_at: Seq::ZERO };
    filling.robots(ROBOTS)?;
    filling.grow(50)?;
    let landed = filling.newest_draft(1)?;
    let end = |filling: &Filling| size.saturating_sub(filling.rest());
    let (start, mut shown) = (Instant::now(), Instant::now());
    while filling.size()? + GROWING_NOTES < end(&filling) {
        filling.robots(1)?;
        filling.grow(GROWING_NOTES)?;
        if shown.elapsed() > Duration::from_secs(5) {
            shown = Instant::now();
            eprintln!(
                "filled {} of {size} entries in {:.0} s",
                filling.size()?,
                start.elapsed().as_secs_f64()
            );
        }
    }
    filling.notes(end(&filling).saturating_sub(filling.size()?))?;
    let marks = filling.finish(landed)?;
    filling.people.check(&filling.ledger, &filling.tenant)?;
    let entries = filling.size()?;
    eprintln!("filled {entries} entries in {:.0} s", start.elapsed().as_secs_f64());
    Ok(FilledLedger { entries, marks })
}

struct Filling {
    ledger: Ledger,
    tenant: TenantId,
    builder: Builder,
    people: People,
    receipts: Receipts,
    robots: u64,
    notes: u64,
    /// Drafts up to here are decided.
    looked_at: Seq,
}

impl Filling {
    fn size(&self) -> Outcome<u64> {
        Ok(self.ledger.last_seq(&self.tenant)?.get())
    }

    /// How many entries `finish` writes.
    fn rest(&self) -> u64 {
        (WAITING + PLANNED) * 5 + HELD_CHANGES + RECEIPTS + 10
    }

    /// New robots, each with its evidence.
    fn robots(&mut self, count: u64) -> Outcome<()> {
        let mut batch = Vec::new();
        for _ in 0..count {
            let robot = format!("shop-{:05}", self.robots);
            self.robots += 1;
            for (place, kind) in KNOWN.iter().enumerate() {
                let on = KNOWN.iter().take(place).last().map(|before| format!("\"key:{robot}-{before}\""));
                let on = on.unwrap_or_default();
                batch.push(drafted(&format!(
                    r#"{{"key":"{robot}-{kind}","robotId":"{robot}","module":"scout","source":"crawler","type":"{kind}","state":"final","payload":{{"text":"{}"}},"lineage":{{"dependsOnLedgerIds":[{on}]}}}}"#,
                    "words of evidence ".repeat(8)
                ))?);
            }
        }
        Ok(self.ledger.append(&self.tenant, batch).map(|_| ())?)
    }

    /// What sensors say, of all robots in turn; it is no evidence of the Builder's.
    fn notes(&mut self, count: u64) -> Outcome<()> {
        let mut left = count as usize;
        while left > 0 {
            let mut batch = Vec::new();
            for _ in 0..left.min(BATCH) {
                self.notes += 1;
                let robot = format!("shop-{:05}", self.notes.wrapping_mul(2_654_435_761) % self.robots);
                let kind = ["visit", "order", "price", "stock", "review_text"].get(self.notes as usize % 5);
                batch.push(drafted(&format!(
                    r#"{{"robotId":"{robot}","module":"scout","source":"sensor","type":"{}","state":"final","payload":{{"number":{},"text":"{}"}}}}"#,
                    kind.unwrap_or(&"visit"),
                    self.notes,
                    "words of a sensor ".repeat(6)
                ))?);
            }
            left -= batch.len();
            self.ledger.append(&self.tenant, batch)?;
        }
        Ok(())
    }

    /// About as many entries as these notes and a little more, of everything.
    fn grow(&mut self, notes: u64) -> Outcome<()> {
        self.notes(notes)?;
        self.executions(GROWING_PLANS, false)?;
        self.executions(GROWING_DRAFTS, true)?;
        let drafts = self.new_drafts()?;
        self.people.decide(&self.ledger, &self.tenant, &drafts)?;
        let mut batch = Vec::new();
        for _ in 0..GROWING_RECEIPTS {
            batch.push((None, self.receipts.next(Vec::new())?.1));
        }
        self.ledger.append_as(&self.tenant, batch)?;
        Ok(())
    }

    /// Executions of different robots, at the same time; a dry run leaves drafts.
    fn executions(&mut self, count: u64, is_dry: bool) -> Outcome<()> {
        let robots: Vec<u64> = (0..count).map(|number| (self.notes + number * 7) % self.robots).collect();
        let run = |robot: u64| -> Result<(), String> {
            let request = format!(r#"{{"robotId":"shop-{robot:05}","dryRun":{is_dry},{REQUEST}}}"#);
            let cancel = Cancel::new().map_err(|error| error.to_string())?;
            let answer = self.builder.run(&self.tenant, request.as_bytes(), None, &cancel);
            let answer = answer.map_err(|error| error.to_string())?;
            if answer.response.ok { Ok(()) } else { Err(answer.detail) }
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = robots.into_iter().map(|robot| scope.spawn(move || run(robot))).collect();
            running
                .into_iter()
                .try_for_each(|run| run.join().map_err(|_| "a run panicked")?.map_err(Into::into))
        })
    }

    /// The drafts since the last time.
    fn new_drafts(&mut self) -> Outcome<Vec<StoredEntry>> {
        let filter = Filter { state: Some(Name::parse("draft")?), ..Filter::default() };
        let cursor = Some(Cursor::after(self.looked_at)).filter(|_| self.looked_at > Seq::ZERO);
        let page = self.ledger.list(&self.tenant, &filter, Order::OldestFirst, cursor, 100)?;
        self.looked_at = page.entries.last().map_or(self.looked_at, |last| last.seq);
        Ok(page.entries)
    }

    fn newest_draft(&self, skip: usize) -> Outcome<StoredEntry> {
        let filter = Filter { state: Some(Name::parse("draft")?), ..Filter::default() };
        let page = self.ledger.list(&self.tenant, &filter, Order::NewestFirst, None, skip + 1)?;
        page.entries.into_iter().next_back().ok_or_else(|| "no draft".into())
    }

    /// What waits, and the newest runs.
    fn finish(&mut self, landed: StoredEntry) -> Outcome<Landmarks> {
        for (count, is_dry) in [(PLANNED, false), (WAITING, true)] {
            for _ in 0..count / 5 {
                self.executions(5, is_dry)?;
                self.notes += 31;
            }
        }
        let waiting = self.newest_draft(0)?;
        let long_diff = self.landed_change(FILE_LINES)?;
        let long_file = self.landed_change(DIFF_LINES)?;
        let (mut held, mut run) = (String::new(), String::new());
        for _ in 0..HELD_CHANGES {
            let id = self.receipts.new_run();
            self.ledger.append_as(&self.tenant, vec![(None, held_change(id, 40, FILE_LINES)?)])?;
            held = id.to_string();
        }
        for _ in 0..RECEIPTS {
            let (id, receipt) = self.receipts.next(Vec::new())?;
            self.ledger.append_as(&self.tenant, vec![(None, receipt)])?;
            run = id.to_string();
        }
        let execution = waiting.content.execution_id.as_ref().ok_or("no execution")?;
        Ok(Landmarks {
            robot: waiting.content.robot_id.to_string(),
            execution: execution.to_string(),
            waiting: waiting.id.clone(),
            landed: landed.id,
            held,
            run,
            long_diff,
            long_file,
        })
    }

    /// A held change with a long diff, in files of so many lines, that landed.
    fn landed_change(&mut self, file_lines: usize) -> Outcome<String> {
        let id = self.receipts.new_run();
        let change = held_change(id, DIFF_LINES, file_lines)?;
        let written = self.ledger.append_as(&self.tenant, vec![(None, change)])?;
        let on = written.into_iter().map(|entry| entry.id).collect();
        let receipt = self.receipts.of(id, on)?;
        self.ledger.append_as(&self.tenant, vec![(None, receipt)])?;
        Ok(id.to_string())
    }
}

fn drafted(text: &str) -> Outcome<Draft> {
    Draft::parse(text.as_bytes(), &Limits::default()).map_err(|wrong| format!("{text}: {wrong:?}").into())
}

/// Receipts of a workspace, each sealed and signed.
struct Receipts {
    workspace: Workspace,
    signer: Signer,
    item: WorkItem,
    state: Blake3,
    runs: u64,
}

impl Receipts {
    fn start(folder: &Path) -> Outcome<Receipts> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("price.sh"), "echo 1\n")?;
        let workspace = Workspace::open(folder)?;
        let state = workspace.snapshot()?;
        workspace.keep(state.state())?;
        let state = state.state().hash().digest();
        let control = folder.join(".crealeph");
        let signer = Signer::open(&control, &control.join("keys"))?;
        let item = r#"{"id":"price","agent_id":"agent-1","description":"let the price of a sprocket include its tax","dependencies":[],"budget":{"time_estimate_ms":1,"complexity":"low"}}"#;
        let item = Valid::<WorkItem>::parse(item.as_bytes(), &Limits::default());
        let item = item.map_err(|wrong| format!("{wrong:?}"))?.into_inner();
        Ok(Receipts { workspace, signer, item, state, runs: 0 })
    }

    fn new_run(&mut self) -> Uuid {
        self.runs += 1;
        let mut bytes = [0; 16];
        bytes[8..].copy_from_slice(&self.runs.to_be_bytes());
        (bytes[6], bytes[8]) = (0x40, 0x80);
        Uuid::from_bytes(bytes)
    }

    fn next(&mut self, on: Vec<LedgerId>) -> Outcome<(Uuid, Draft)> {
        let run = self.new_run();
        Ok((run, self.of(run, on)?))
    }

    fn of(&self, run: Uuid, lineage: Vec<LedgerId>) -> Outcome<Draft> {
        let at = crealeph_contracts::Timestamp::parse("2026-11-18T06:00:00.000Z")?;
        let robot = RobotId::parse("workspace")?;
        let nothing = ReceiptFacts::unchanged(run, AgentId::Agent1, at, self.state, robot);
        let has_failed = self.runs % 2 == 0;
        let facts = ReceiptFacts {
            item: Some(self.item.clone()),
            status: if has_failed { RunStatus::Failure } else { RunStatus::Success },
            error: if has_failed { Text::new("the tests failed") } else { None },
            tokens_used: Amount::new(1_000.0 + self.runs as f64 % 500.0),
            cost_usd: Amount::new(0.25),
            test_log: Some("1 passed\n".to_owned()),
            lineage,
            ..nothing
        };
        Ok(seal(&facts, &self.signer, self.workspace.store())?.entry)
    }
}

fn held_change(run: Uuid, lines: usize, file_lines: usize) -> Outcome<Draft> {
    let mut diff = String::new();
    for line in 0..lines {
        if line % file_lines == 0 {
            let file = line / file_lines;
            diff.push_str(&format!(
                "diff --git a/src/{file}.sh b/src/{file}.sh\n@@ -0,0 +1,{file_lines} @@\n"
            ));
        }
        diff.push_str(&format!("+echo the price of {line} sprockets\n"));
    }
    let digest = "0".repeat(64);
    let text = format!(
        r#"{{"run":"{run}","item":"price","task":"let the price of a sprocket include its tax","agent":"careful","workspace":"shop","target":"workspace","since":"2026-11-18T06:00:00.000Z","baseState":"{digest}","afterState":"{digest}","files":1,"paths":[],"protected":false,"tests":false,"costUsd":0.25,"diffDigest":"{}","diff":{}}}"#,
        Blake3::of(diff.as_bytes()),
        serde_json::Value::String(diff)
    );
    let record = HeldChangeRecord::parse(text.as_bytes()).map_err(|wrong| format!("{wrong:?}"))?;
    Ok(Draft {
        robot_id: RobotId::from(TENANT_ROBOT),
        module: Name::parse("work")?,
        source: Name::parse("work")?,
        kind: Name::from(HELD_CHANGE),
        state: Name::from(HELD),
        payload: JsonObject::of("the held change", &record)?,
        lineage: None,
        observed_at: None,
        key: Some(ClientKey::parse(&held_change_key(&run.to_string()))?),
    })
}
