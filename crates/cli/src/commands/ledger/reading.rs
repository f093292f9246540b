//! The commands that read: get, list, tail, lineage, stats.

use std::time::Duration;

use clap::Args;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{ClientKey, Name, RobotId};
use crealeph_ledger::{Cursor, Direction, Filter, KEY_PREFIX, Order, Seq, StoredEntry};
use crealeph_runtime::entries::{LogSizeReport, log_size, relative_json};
use serde::Serialize;

use super::{CommandOutcome, named};
use crate::commands::ids::{ShortIds, entry_id, execution_id};
use crate::commands::place::{LogSource, Place};
use crate::failure::{ArgumentFailure, Failure, LedgerFailure};
use crate::output::{Output, note};

/// How long `tail` sleeps at most before it looks again. It is woken before that, but a process that was killed right after
/// its commit was not announced.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// How long `tail` waits for a server that does not answer, and how often it retries.
const MAX_OUTAGE: Duration = Duration::from_secs(60);
const RETRY: Duration = Duration::from_millis(500);
const PAGE: usize = 500;

/// Prints entries that were read together.
fn print(log: &LogSource, entries: &[StoredEntry], at: &Place, output: &mut Output) -> Result<(), Failure> {
    if at.is_json(output) {
        return Ok(entries.iter().try_for_each(|entry| output.json_line(&entry.canonical()))?);
    }
    let short = ShortIds::of_entries(log, entries)?;
    Ok(entries.iter().try_for_each(|entry| output.line(&in_words(entry, &short)))?)
}

fn in_words(entry: &StoredEntry, short: &ShortIds) -> String {
    let content = &entry.content;
    let id = short.of(entry.id.as_str());
    format!(
        "{:>8}  {}  {:<16} {:<16} {:<10} {id}",
        entry.seq, entry.created_at, content.robot_id, content.kind, content.state
    )
}

/// The entry that an argument names: an id, the start of one, `@` or `@-`, or `key:` and a client key.
pub(super) fn find(log: &LogSource, name: &str) -> Result<StoredEntry, Failure> {
    let found = match name.strip_prefix(KEY_PREFIX) {
        Some(key) => log.get_by_key(&named("key", key, ClientKey::parse)?)?,
        None => log.get(&entry_id(log, name)?)?,
    };
    found.ok_or_else(|| {
        LedgerFailure::NoEntry { name: name.to_owned(), tenant: log.tenant().to_string() }.into()
    })
}

/// Print an entry by its id or key
#[derive(Debug, Args)]
pub(super) struct Get {
    /// Entry id or its start, `@` for the newest, or `key:` and its client key
    id: String,
}

impl Get {
    pub(super) fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let entry = find(&at.log()?, &self.id)?;
        output.json(&entry.canonical())?;
        Ok(CommandOutcome::Good)
    }
}

/// List entries, with filters and pages
#[derive(Debug, Args)]
pub(super) struct List {
    /// Only this robot
    #[arg(long)]
    robot: Option<String>,
    /// Only this type
    #[arg(long = "type")]
    kind: Option<String>,
    /// Only this state
    #[arg(long)]
    state: Option<String>,
    /// Only this module
    #[arg(long)]
    module: Option<String>,
    /// Only this execution
    #[arg(long)]
    execution: Option<String>,
    /// Recorded at or after this time
    #[arg(long, value_name = "INSTANT")]
    from: Option<String>,
    /// Recorded at or before this time
    #[arg(long, value_name = "INSTANT")]
    to: Option<String>,
    /// List the newest first
    #[arg(long)]
    newest: bool,
    /// Maximum number of results
    #[arg(long, default_value_t = 100)]
    limit: usize,
    /// Continue after this cursor, from the previous page
    #[arg(long)]
    cursor: Option<String>,
}

impl List {
    pub(super) fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let log = at.log()?;
        let filter = self.filter(&log)?;
        let order = if self.newest { Order::NewestFirst } else { Order::OldestFirst };
        let mut cursor = self.cursor.as_deref().map(Cursor::parse).transpose()?;
        let mut left = self.limit;
        let is_from_start = cursor.is_none();
        while left > 0 {
            let page = log.list(&filter, order, cursor, left.min(PAGE))?;
            left -= page.entries.len().min(left);
            print(&log, &page.entries, at, output)?;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        output.flush()?;
        if let Some(cursor) = cursor {
            note!("there is more: add --cursor {cursor}");
        } else if is_from_start && left == self.limit && left > 0 {
            note!("tenant `{}` has no such entry", log.tenant());
        }
        Ok(CommandOutcome::Good)
    }

    fn filter(&self, log: &LogSource) -> Result<Filter, Failure> {
        fn read<T>(
            what: &'static str,
            text: Option<&String>,
            parse: impl Fn(&str) -> Result<T, crealeph_contracts::scalar::IdentifierError>,
        ) -> Result<Option<T>, ArgumentFailure> {
            text.map(|text| named(what, text, parse)).transpose()
        }
        let instant = |text: Option<&String>| {
            text.map(|text| {
                Instant::parse(text).map_err(|why| ArgumentFailure::BadInstant(text.clone(), why))
            })
            .transpose()
        };
        Ok(Filter {
            robot_id: read("robot", self.robot.as_ref(), RobotId::parse)?,
            kind: read("type", self.kind.as_ref(), Name::parse)?,
            state: read("state", self.state.as_ref(), Name::parse)?,
            module: read("module", self.module.as_ref(), Name::parse)?,
            execution_id: match &self.execution {
                Some(word) => Some(execution_id(log, None, word)?.0),
                None => None,
            },
            from: instant(self.from.as_ref())?,
            to: instant(self.to.as_ref())?,
            without_children: Vec::new(),
        })
    }
}

/// Follow the log: print entries as they are appended
#[derive(Debug, Args)]
pub(super) struct Tail {
    /// Start after this sequence number [default: the newest]
    #[arg(long, value_name = "SEQ")]
    after: Option<u64>,
    /// Stop after this many entries
    #[arg(long)]
    limit: Option<u64>,
}

impl Tail {
    pub(super) fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let log = at.log()?;
        let mut watch = log.watch();
        let mut last = match self.after {
            Some(number) => Seq::new(number).unwrap_or(Seq::MAX),
            None => log.last_seq()?,
        };
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut outage = None;
        while left > 0 {
            let limit = usize::try_from(left).unwrap_or(PAGE).min(PAGE);
            let cursor = Some(Cursor::after(last));
            let page = match log.list(&Filter::default(), Order::OldestFirst, cursor, limit) {
                Ok(page) => {
                    outage = None;
                    page
                }
                Err(error) if error.is_passing() => {
                    let start = *outage.get_or_insert_with(|| {
                        note!("{}; trying again for {} s", error.message(), MAX_OUTAGE.as_secs());
                        std::time::Instant::now()
                    });
                    if start.elapsed() > MAX_OUTAGE {
                        return Err(error);
                    }
                    std::thread::sleep(RETRY);
                    continue;
                }
                Err(error) => return Err(error),
            };
            print(&log, &page.entries, at, output)?;
            last = page.entries.last().map_or(last, |entry| entry.seq);
            left = left.saturating_sub(page.entries.len() as u64);
            output.flush()?;
            if page.next.is_none() && left > 0 {
                watch.wait(LOOK_AGAIN);
            }
        }
        Ok(CommandOutcome::Good)
    }
}

/// Print the entries that an entry depends on, or that depend on it
#[derive(Debug, Args)]
pub(super) struct LineageOf {
    /// Entry id or its start, `@` for the newest, or `key:` and its client key
    id: String,
    /// Print the entries that depend on it instead
    #[arg(long)]
    down: bool,
    /// Maximum distance
    #[arg(long, default_value_t = 16)]
    depth: usize,
}

impl LineageOf {
    pub(super) fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let log = at.log()?;
        let entry = find(&log, &self.id)?;
        let direction = if self.down { Direction::Down } else { Direction::Up };
        let Some(lineage) = log.lineage(&entry.id, direction, self.depth)? else {
            return Ok(CommandOutcome::Good);
        };
        let is_json = at.is_json(output);
        let short = match is_json {
            true => ShortIds::default(),
            false => {
                let entries = lineage.entries.iter().map(|relative| &relative.entry);
                ShortIds::of_entries(&log, entries)?
            }
        };
        for relative in &lineage.entries {
            if is_json {
                output.json_line(&relative_json(relative))?;
            } else {
                output.line(&format!("{:>3}{}", relative.distance, in_words(&relative.entry, &short)))?;
            }
        }
        output.flush()?;
        if lineage.is_cut {
            match lineage.entries.len() >= log.lineage_entries() {
                true => note!(
                    "only the nearest {} are listed; ask for the lineage of one of the last to see more",
                    lineage.entries.len()
                ),
                false => note!("there is more; raise --depth"),
            }
        }
        Ok(CommandOutcome::Good)
    }
}

pub(super) fn stats(at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let (ledger, log) = match at {
        Place::Here(at) => {
            let ledger = at.open()?;
            (ledger.place().to_owned(), log_size(&ledger, &at.tenant)?)
        }
        Place::Server(remote) => {
            let answer = remote.client.get(&["log", "stats"], &[])?;
            let log: LogSizeReport = answer.read()?;
            if log.tenant_id != remote.tenant.as_str() {
                return Err(answer.refuse("it is about another tenant").into());
            }
            (remote.client.url().to_owned(), Some(log))
        }
    };
    let Some(log) = log else {
        note!("tenant `{}` has no log in `{ledger}` yet", at.tenant());
        return Ok(CommandOutcome::Good);
    };
    output.report(&StatsReport { ledger, log })?;
    Ok(CommandOutcome::Good)
}

/// How large a log is, and where it is: a file, a database or a server.
#[derive(Serialize)]
struct StatsReport {
    ledger: String,
    #[serde(flatten)]
    log: LogSizeReport,
}
