//! Tokens and cost as agents reported them: of work runs by their receipts, of Builder executions by their records. Nothing is
//! measured here, and runs that reported nothing are counted. Owns the window: how many entries and bytes are read, newest first;
//! what is left out is stated.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{JsonObject, Node};
use crealeph_contracts::reported::REPORTED_RECEIPT;
use crealeph_contracts::scalar::{Literal, Name, RobotId, TenantId};
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::builder::EXECUTION_RECORD;
use crealeph_ledger::{Filter, Ledger, LedgerError, Order, StoredEntry};
use serde::{Deserialize, Serialize};

use crate::receipts::LoggedRun;
use crate::work::receipt::RUN_RECEIPT;

/// How much is read of each kind.
const BOUNDS: UsageBounds = UsageBounds { entries: 10_000, bytes: 32 << 20, at_once: 100 };
/// How many rows are shown.
const MAX_ROWS: usize = 1_000;
/// What stands for a name that is not known.
const UNKNOWN: &str = "-";

/// What usage is summed up by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UsageKey {
    /// The agent's name.
    #[default]
    Agent,
    /// The models that it reported, together.
    Model,
    /// The day of the start, in UTC.
    Day,
    /// The robot.
    Robot,
}

impl UsageKey {
    /// All of them, as they are named.
    pub const NAMES: [&'static str; 4] = ["agent", "model", "day", "robot"];

    /// By its name.
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "agent" => Some(UsageKey::Agent),
            "model" => Some(UsageKey::Model),
            "day" => Some(UsageKey::Day),
            "robot" => Some(UsageKey::Robot),
            _ => None,
        }
    }

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            UsageKey::Agent => "agent",
            UsageKey::Model => "model",
            UsageKey::Day => "day",
            UsageKey::Robot => "robot",
        }
    }
}

/// A query for usage.
#[derive(Clone, Debug)]
pub struct UsageQuestion {
    /// By what it is summed up.
    pub by: UsageKey,
    /// Only what was recorded at or after this.
    pub from: Option<Instant>,
    /// Only what was recorded at or before this.
    pub to: Option<Instant>,
    /// Only of this robot.
    pub robot: Option<RobotId>,
}

/// What was used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageSum {
    /// Work runs.
    pub runs: u64,
    /// Executions of the Builder in which an agent was called.
    pub executions: u64,
    /// Tokens.
    pub tokens: f64,
    /// US dollars.
    pub cost_usd: f64,
    /// How many of them did not report tokens.
    pub without_tokens: u64,
    /// How many of them did not report a cost.
    pub without_cost: u64,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageRow {
    /// The agent, models, day or robot; `-` if it is not known.
    pub name: String,
    /// What was used.
    #[serde(flatten)]
    pub sum: UsageSum,
}

/// Usage of a window of a log.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageReport {
    /// By what it is summed up.
    pub by: String,
    /// Whose word it is.
    pub reported_by: String,
    /// The rows; of days the newest first, else the most tokens first.
    pub rows: Vec<UsageRow>,
    /// How many rows are left out.
    pub rows_left_out: u64,
    /// All of it, rows that are left out too.
    pub total: UsageSum,
    /// How many entries were read.
    pub entries_read: u64,
    /// There are older entries that were not read.
    pub is_cut: bool,
    /// When the oldest entry that was read was recorded.
    pub oldest_read: Option<String>,
    /// The kinds of entries of which older ones were not read.
    #[serde(default)]
    pub cuts: Vec<UsageCut>,
}

/// A kind of entries that was not read to its start.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageCut {
    /// The type of the entries.
    #[serde(rename = "type")]
    pub kind: String,
    /// When the oldest of them that was read was recorded.
    pub oldest_read: String,
}

impl UsageReport {
    /// Whether everything that was recorded of a day was read, of every kind.
    pub fn is_whole_day(&self, day: &str) -> bool {
        self.cuts.iter().all(|cut| day > day_of(&cut.oldest_read))
    }
}

/// How much is read of each kind.
#[derive(Clone, Copy, Debug)]
struct UsageBounds {
    entries: usize,
    bytes: usize,
    /// How many entries are read at a time.
    at_once: usize,
}

/// Sums up what was used; `sees` says which entries may be looked at.
///
/// # Errors
/// When the ledger cannot be read.
pub fn usage(
    ledger: &Ledger,
    tenant: &TenantId,
    question: &UsageQuestion,
    sees: impl Fn(&StoredEntry) -> bool,
) -> Result<UsageReport, LedgerError> {
    usage_within(ledger, tenant, question, BOUNDS, sees)
}

fn usage_within(
    ledger: &Ledger,
    tenant: &TenantId,
    question: &UsageQuestion,
    bounds: UsageBounds,
    sees: impl Fn(&StoredEntry) -> bool,
) -> Result<UsageReport, LedgerError> {
    let mut counting = Counting { by: question.by, ..Counting::default() };
    for kind in [RUN_RECEIPT, REPORTED_RECEIPT, EXECUTION_RECORD] {
        counting.read(ledger, tenant, question, (kind, bounds), &sees)?;
    }
    Ok(counting.finish())
}

/// What was counted so far.
#[derive(Default)]
struct Counting {
    by: UsageKey,
    rows: BTreeMap<String, UsageSum>,
    /// A run that was made on this ledger and reported to it is one.
    runs: BTreeSet<Uuid>,
    entries: u64,
    oldest: Option<Instant>,
    cuts: Vec<UsageCut>,
}

/// What one run or execution used.
struct Used {
    agent: Option<String>,
    models: Option<String>,
    day: String,
    robot: String,
    tokens: Option<f64>,
    cost_usd: Option<f64>,
    is_run: bool,
}

impl Counting {
    fn read(
        &mut self,
        ledger: &Ledger,
        tenant: &TenantId,
        question: &UsageQuestion,
        (kind, bounds): (Literal, UsageBounds),
        sees: &impl Fn(&StoredEntry) -> bool,
    ) -> Result<(), LedgerError> {
        let filter = Filter {
            robot_id: question.robot.clone(),
            kind: Some(Name::from(kind)),
            from: question.from,
            to: question.to,
            ..Filter::default()
        };
        let (mut cursor, mut count, mut bytes) = (None, 0, 0);
        loop {
            let page = ledger.list(tenant, &filter, Order::NewestFirst, cursor, bounds.at_once)?;
            // What may not be seen is read too, and counts against the bounds.
            count += page.entries.len();
            bytes += page.entries.iter().map(|entry| entry.content.payload.len()).sum::<usize>();
            let last = page.entries.last().map(|entry| entry.created_at.instant());
            page.entries.into_iter().filter(sees).for_each(|entry| self.add(entry));
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
            if let Some(last) = last.filter(|_| count >= bounds.entries || bytes >= bounds.bytes) {
                let kind = kind.as_str().to_owned();
                self.cuts.push(UsageCut { kind, oldest_read: last.to_string() });
                return Ok(());
            }
        }
    }

    fn add(&mut self, entry: StoredEntry) {
        self.entries += 1;
        let at = entry.created_at.instant();
        self.oldest = Some(self.oldest.map_or(at, |oldest| oldest.min(at)));
        let used = match entry.content.kind.as_str() == EXECUTION_RECORD.as_str() {
            true => of_record(&entry),
            false => LoggedRun::of(entry).filter(|run| self.runs.insert(run.run)).map(|run| of_run(&run)),
        };
        let Some(used) = used else { return };
        let name = match self.by {
            UsageKey::Agent => used.agent.clone(),
            UsageKey::Model => used.models.clone(),
            UsageKey::Day => Some(used.day.clone()),
            UsageKey::Robot => Some(used.robot.clone()),
        };
        let name = name.unwrap_or_else(|| UNKNOWN.to_owned());
        self.rows.entry(name).or_default().add(&used);
    }

    fn finish(self) -> UsageReport {
        let mut total = UsageSum::default();
        self.rows.values().for_each(|sum| total.join(sum));
        let mut rows: Vec<UsageRow> =
            self.rows.into_iter().map(|(name, sum)| UsageRow { name, sum }).collect();
        match self.by {
            UsageKey::Day => rows.reverse(),
            _ => rows.sort_by(|one, other| other.sum.tokens.total_cmp(&one.sum.tokens)),
        }
        let rows_left_out = rows.len().saturating_sub(MAX_ROWS) as u64;
        rows.truncate(MAX_ROWS);
        UsageReport {
            by: self.by.as_str().to_owned(),
            reported_by: "agents".to_owned(),
            rows,
            rows_left_out,
            total,
            entries_read: self.entries,
            is_cut: !self.cuts.is_empty(),
            oldest_read: self.oldest.map(|oldest| oldest.to_string()),
            cuts: self.cuts,
        }
    }
}

impl UsageSum {
    fn add(&mut self, used: &Used) {
        let is_run = u64::from(used.is_run);
        self.join(&UsageSum {
            runs: is_run,
            executions: 1 - is_run,
            tokens: used.tokens.unwrap_or(0.0),
            cost_usd: used.cost_usd.unwrap_or(0.0),
            without_tokens: u64::from(used.tokens.is_none()),
            without_cost: u64::from(used.cost_usd.is_none()),
        });
    }

    fn join(&mut self, other: &UsageSum) {
        self.runs += other.runs;
        self.executions += other.executions;
        self.tokens += other.tokens;
        self.cost_usd += other.cost_usd;
        self.without_tokens += other.without_tokens;
        self.without_cost += other.without_cost;
    }
}

fn of_run(run: &LoggedRun) -> Used {
    let (row, models, (tokens, cost_usd)) = (run.row(None), run.models(), run.used());
    Used {
        agent: row.agent,
        models: (!models.is_empty()).then(|| models.join(", ")),
        day: day_of(&row.started_at).to_owned(),
        robot: run.entry.content.robot_id.as_str().to_owned(),
        tokens,
        cost_usd,
        is_run: true,
    }
}

/// What the agent of an execution used; `None` if none was called.
fn of_record(entry: &StoredEntry) -> Option<Used> {
    let payload = JsonObject::parse_own(&entry.content.payload)?;
    payload.with(|payload| {
        let agent = payload.member("agent")?;
        let identity = agent.member("identity");
        let text = |node: Option<Node<'_>>| Some(Node::string(node?)?.into_owned());
        let named = text(payload.member("request").and_then(|request| request.member("agentVersion")));
        Some(Used {
            agent: named.or_else(|| text(identity.and_then(|identity| identity.member("name")))),
            models: text(identity.and_then(|identity| identity.member("model"))),
            day: day_of(&entry.created_at.to_string()).to_owned(),
            robot: entry.content.robot_id.as_str().to_owned(),
            tokens: agent.member("tokensUsed").and_then(|tokens| tokens.source().parse().ok()),
            cost_usd: None,
            is_run: false,
        })
    })
}

/// The day of an instant in RFC 3339, in UTC as all of ours are.
fn day_of(instant: &str) -> &str {
    instant.get(..10).unwrap_or(UNKNOWN)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crealeph_contracts::entry::Draft;
    use crealeph_contracts::json::Limits;
    use crealeph_ledger::{LedgerOptions, Location};

    #[test]
    fn each_kind_is_read_within_its_own_bounds_and_says_where_it_was_cut() {
        let folder = tempfile::tempdir().unwrap();
        let ledger =
            Ledger::init(&Location::File(folder.path().join("ledger.db")), LedgerOptions::default()).unwrap();
        let tenant = TenantId::parse("t").unwrap();
        let append = |kind: Literal, number: usize, payload: &str| {
            let text = format!(
                r#"{{"robotId":"r","module":"m","source":"s","type":"{}","state":"succeeded","key":"{}{number}","payload":{payload}}}"#,
                kind.as_str(),
                if kind.as_str() == RUN_RECEIPT.as_str() {
                    "run_receipt:0190a6f0-7c2e-7d31-8a4e-00000000000"
                } else {
                    "record-"
                },
            );
            let draft = Draft::parse(text.as_bytes(), &Limits::own(text.len())).unwrap();
            ledger.append_as(&tenant, vec![(None, draft)]).unwrap().remove(0).created_at.to_string()
        };
        let large = format!(r#"{{"text":"{}"}}"#, "x".repeat(1_000));
        let receipts: Vec<String> = (0..6).map(|number| append(RUN_RECEIPT, number, &large)).collect();
        (0..6).for_each(|number| drop(append(EXECUTION_RECORD, number, r#"{"agent":{"tokensUsed":5}}"#)));
        let question = UsageQuestion { by: UsageKey::Day, from: None, to: None, robot: None };
        let within = |bounds| usage_within(&ledger, &tenant, &question, bounds, |_| true).unwrap();

        let found = within(UsageBounds { entries: 100, bytes: 3_500, at_once: 2 });
        assert_eq!((found.total.runs, found.total.executions, found.total.tokens), (4, 6, 30.0));
        let cut = UsageCut { kind: "run_receipt".to_owned(), oldest_read: receipts[2].clone() };
        assert_eq!((found.is_cut, found.cuts.as_slice()), (true, &[cut][..]));
        assert!(!found.is_whole_day(receipts[2].get(..10).unwrap()) && found.is_whole_day("2999-01-01"));

        let found = within(UsageBounds { entries: 4, bytes: 1 << 20, at_once: 2 });
        assert_eq!((found.total.runs, found.total.executions), (4, 4));
        assert_eq!(
            found.cuts.iter().map(|cut| cut.kind.as_str()).collect::<Vec<_>>(),
            ["run_receipt", "execution_record"]
        );
        let found = within(BOUNDS);
        assert_eq!((found.total.runs, found.is_cut, found.cuts.len()), (6, false, 0));
    }
}
