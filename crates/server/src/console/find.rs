//! Search: ids, their prefixes and names of robots by index; words of tasks, agents and paths in windows of the newest runs and held
//! changes. The page says what was not searched, and what is not shown.

use crealeph_console::{self as view, PageFrame, SearchHit, SearchPage, Section};
use crealeph_contracts::scalar::{ExecutionId, LedgerId, RobotId};
use crealeph_contracts::uuid::Uuid;
use crealeph_ledger::{Filter, IdKind, Order, StoredEntry};
use crealeph_runtime::approvals::{InboxItem, SubjectReader, waiting_changes};
use crealeph_runtime::receipts::{LoggedRun, RunLogQuery, run_of_log, runs_of_log};
use crealeph_runtime::report::{RunRow, workspace_row};
use crealeph_runtime::robot;

use super::work::log_unreadable;
use super::{encoded, html, viewer};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::routes::work;

/// How many of each kind are shown.
const MAX_HITS: usize = 10;
/// One more than are shown tells whether there are more.
const LOOKED_UP: usize = MAX_HITS + 1;
/// How many ids are looked at for those of a kind that may be seen.
const MAX_IDS: usize = 500;
/// How many of the newest runs, and of the newest held changes, are looked at for words.
const MAX_RUNS: usize = 200;
const MAX_RUN_BYTES: usize = 4 << 20;
const MAX_CHANGES: usize = 50;
/// How many of the newest entries of an execution tell whose it is.
const EXECUTION_ENTRIES: usize = 16;

pub(super) fn search(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let words = call.text("q").unwrap_or("").trim();
    let mut found = Found { call, words: Words::of(words), hits: Vec::new(), cuts: Vec::new() };
    if !words.is_empty() {
        found.robots(words)?;
        found.entries(words)?;
        found.executions(words)?;
        found.changes(words)?;
        found.runs(words)?;
    }
    let Found { hits, cuts, .. } = found;
    let frame = PageFrame { viewer: &viewer, section: Section::Search, title: "Search", live: None };
    Ok(html(frame.of(view::search(&viewer, &SearchPage { words, hits: &hits, cuts: &cuts }))))
}

/// The words of a search in lower case: a text has them if it has each.
struct Words(Vec<String>);

impl Words {
    fn of(text: &str) -> Self {
        Words(text.split_whitespace().map(str::to_lowercase).collect())
    }

    fn are_in<'t>(&self, texts: impl IntoIterator<Item = &'t str>) -> bool {
        let texts: Vec<String> = texts.into_iter().map(str::to_lowercase).collect();
        self.0.iter().all(|word| texts.iter().any(|text| text.contains(word)))
    }
}

struct Found<'c> {
    call: &'c Call,
    words: Words,
    hits: Vec<SearchHit>,
    cuts: Vec<String>,
}

impl Found<'_> {
    /// Adds what was found of a kind, as many as are shown.
    fn add(&mut self, kind: &str, mut hits: Vec<SearchHit>) {
        if hits.len() > MAX_HITS {
            hits.truncate(MAX_HITS);
            self.cuts.push(format!(
                "Of {kind}, the first {MAX_HITS} are shown. A longer search text finds fewer."
            ));
        }
        self.hits.append(&mut hits);
    }

    /// The robots whose names begin so.
    fn robots(&mut self, words: &str) -> Result<(), Problem> {
        let call = self.call;
        let who = call.who()?;
        let Ok(name) = RobotId::parse(words) else { return Ok(()) };
        let scopes = &call.app.scopes;
        let exact = match who.covers(&name) {
            true => robot::summary(call.ledger(), &who.tenant_id, scopes, &name)?,
            false => None,
        };
        let mut found: Vec<_> = exact.into_iter().collect();
        if who.robot_id.is_none() {
            let (after, _) = robot::robots(call.ledger(), &who.tenant_id, scopes, Some(&name), LOOKED_UP)?;
            found.extend(after.into_iter().take_while(|robot| robot.robot_id.as_str().starts_with(words)));
        }
        let hits = found.into_iter().map(|robot| SearchHit {
            kind: "robot",
            href: format!("/robots/{}", encoded(robot.robot_id.as_str())),
            id: robot.robot_id.as_str().to_owned(),
            about: String::new(),
            at: robot.last_event.as_ref().map(|event| event.created_at.to_string()),
            state: robot.coherence.map(|coherence| coherence.as_str().to_owned()),
        });
        self.add("robots", hits.collect());
        Ok(())
    }

    /// What may be seen of the ids that begin so, which `look` finds, within a bound: ids of one moment begin alike, and a session that is
    /// restricted to a robot may see few of them.
    fn by_id<T>(
        &mut self,
        kind: IdKind,
        start: &str,
        look: impl Fn(&str) -> Result<Vec<T>, Problem>,
    ) -> Result<Vec<T>, Problem> {
        let (ledger, tenant) = (self.call.ledger(), &self.call.who()?.tenant_id);
        let (mut found, mut looked) = (Vec::new(), 0);
        let mut last: Option<String> = None;
        while found.len() < LOOKED_UP && looked < MAX_IDS {
            let ids = ledger.ids_starting(tenant, kind, start, last.as_deref(), LOOKED_UP)?;
            for id in &ids {
                found.extend(look(id)?);
            }
            looked += ids.len();
            if ids.len() < LOOKED_UP {
                return Ok(found);
            }
            last = ids.into_iter().last();
        }
        if found.len() < LOOKED_UP {
            let what = id_words(kind);
            self.cuts.push(format!(
                "Of the ids of {what} with this start, the first {looked} were looked at. A longer start finds what is missing."
            ));
        }
        Ok(found)
    }

    /// Entries whose ids begin so.
    fn entries(&mut self, words: &str) -> Result<(), Problem> {
        let call = self.call;
        let who = call.who()?;
        let hits = self.by_id(IdKind::Entry, words, |id| {
            let Ok(id) = LedgerId::parse(id) else { return Ok(Vec::new()) };
            let entry = call.ledger().get(&who.tenant_id, &id)?.filter(|entry| who.sees(entry));
            let href = format!("/ledger/{}", encoded(id.as_str()));
            Ok(entry.iter().map(|entry| entry_hit("entry", id.as_str(), href.clone(), entry)).collect())
        })?;
        self.add("entries", hits);
        Ok(())
    }

    /// Executions whose ids begin so.
    fn executions(&mut self, words: &str) -> Result<(), Problem> {
        let call = self.call;
        let hits = self.by_id(IdKind::Execution, words, |id| execution_hits(call, id))?;
        self.add("executions", hits);
        Ok(())
    }

    /// Held changes that await approval: of a run whose id begins so, or with the words. They are of no robot.
    fn changes(&mut self, words: &str) -> Result<(), Problem> {
        let call = self.call;
        let who = call.who()?;
        if who.robot_id.is_some() {
            return Ok(());
        }
        let of = SubjectReader { ledger: call.ledger(), tenant: &who.tenant_id, scopes: &call.app.scopes };
        let (items, next) = waiting_changes(of, None, MAX_CHANGES)?;
        if next.is_some() {
            self.cuts.push(format!("Of held changes, the newest {MAX_CHANGES} were looked at."));
        }
        let wanted = words.to_lowercase();
        let hits = items.iter().filter_map(|InboxItem { entry, subject, change, .. }| {
            let change = change.as_ref()?;
            let paths = change.paths.as_slice().iter().map(|file| file.path.as_str());
            let is_found = subject.id.as_str().starts_with(&wanted)
                || self.words.are_in([change.task.as_ref(), change.agent.as_ref()].into_iter().chain(paths));
            is_found.then(|| SearchHit {
                kind: "held change",
                href: format!("/inbox/{}", encoded(subject.id.as_str())),
                id: subject.id.as_str().to_owned(),
                about: change.task.lines().next().unwrap_or_default().to_owned(),
                at: Some(entry.created_at.to_string()),
                state: Some("held".to_owned()),
            })
        });
        let hits = hits.take(LOOKED_UP).collect();
        self.add("held changes", hits);
        Ok(())
    }

    /// Runs whose id begins so, however old they are or whether they have ended; and those of the newest whose task, agent or paths have
    /// the words.
    fn runs(&mut self, words: &str) -> Result<(), Problem> {
        let mut rows: Vec<RunRow> = self.runs_by_id(&words.to_lowercase())?;
        rows.extend(self.open_runs()?);
        rows.extend(self.newest_runs()?);
        let mut hits: Vec<SearchHit> = Vec::new();
        for row in rows {
            let id = row.run.to_string();
            if hits.len() < LOOKED_UP && !hits.iter().any(|known| known.id == id) {
                let (href, at, state) = (format!("/runs/{id}"), Some(row.started_at), Some(row.status));
                hits.push(SearchHit { kind: "run", id, about: row.task, href, at, state });
            }
        }
        self.add("runs", hits);
        Ok(())
    }

    /// Those whose id begins so.
    fn runs_by_id(&mut self, start: &str) -> Result<Vec<RunRow>, Problem> {
        let call = self.call;
        let who = call.who()?;
        let mut rows = Vec::new();
        for kind in [IdKind::Receipt, IdKind::ReportedReceipt] {
            rows.extend(self.by_id(kind, start, |id| {
                let Some(run) = Uuid::parse(id) else { return Ok(Vec::new()) };
                let found = run_of_log(call.ledger(), &who.tenant_id, &run, |entry| who.sees(entry))?;
                Ok(found.iter().map(|run| run.row(None)).collect())
            })?);
        }
        // Whose a run is that has no entry yet is not known, so a restricted key sees none.
        if let Some(reader) = call.own_runs()?.filter(|_| who.robot_id.is_none()) {
            for summary in reader.starting(start, LOOKED_UP).iter().filter_map(|run| reader.get(run)) {
                match workspace_row(&reader, &summary) {
                    Ok(row) => rows.push(row),
                    Err(why) => {
                        let run = summary.run;
                        tracing::warn!("run {run} of the workspace on this machine is not found: {why}");
                        self.cuts.push(unreadable_run(&run));
                    }
                }
            }
        }
        Ok(rows)
    }

    /// Open runs with the words.
    fn open_runs(&mut self) -> Result<Vec<RunRow>, Problem> {
        let mut open = work::open_rows(self.call, |_| true)?.unwrap_or_default();
        log_unreadable(&open);
        self.cuts.extend(open.unreadable.iter().map(|(run, _)| unreadable_run(run)));
        if open.has_more {
            let looked = open.rows.len();
            self.cuts.push(format!("Of open runs, the newest {looked} were looked at for words."));
        }
        open.rows.retain(|row| self.words.are_in(texts(row).iter().flatten().map(String::as_str)));
        Ok(open.rows)
    }

    /// Of the newest recorded runs those with the words.
    fn newest_runs(&mut self) -> Result<Vec<RunRow>, Problem> {
        let call = self.call;
        let who = call.who()?;
        let query = RunLogQuery {
            robot: who.robot_id.clone(),
            limit: MAX_RUNS,
            max_bytes: MAX_RUN_BYTES,
            ..RunLogQuery::default()
        };
        let (runs, next) = runs_of_log(call.ledger(), &who.tenant_id, &query, |entry| who.sees(entry))?;
        if next.is_some() {
            self.cuts.push(format!(
                "Of runs, the newest {} were looked at for words and paths; by the start of its id, every run is found.",
                runs.len()
            ));
        }
        let with_words = |run: &LoggedRun| {
            let row = run.row(None);
            let named = texts(&row);
            let all = named.iter().flatten().map(String::as_str).chain(run.paths());
            self.words.are_in(all).then_some(row)
        };
        Ok(runs.iter().filter_map(with_words).collect())
    }
}

/// What of a run is searched for words, besides its paths.
fn texts(row: &RunRow) -> [Option<String>; 2] {
    [Some(row.task.clone()), row.agent.clone()]
}

fn unreadable_run(run: &Uuid) -> String {
    format!("The files of run `{run}` cannot be read, so it was not searched.")
}

/// What ids of a kind are of.
fn id_words(kind: IdKind) -> &'static str {
    match kind {
        IdKind::Entry => "entries",
        IdKind::Execution => "executions",
        IdKind::HeldRun => "held changes",
        IdKind::Receipt => "runs",
        IdKind::ReportedReceipt => "reported runs",
    }
}

/// An execution, of each robot that has one of the id. One without an event has no page but its entries.
fn execution_hits(call: &Call, id: &str) -> Result<Vec<SearchHit>, Problem> {
    let who = call.who()?;
    let Ok(execution) = ExecutionId::parse(id) else { return Ok(Vec::new()) };
    let filter =
        Filter { robot_id: who.robot_id.clone(), execution_id: Some(execution), ..Filter::default() };
    let page = call.ledger().list(&who.tenant_id, &filter, Order::NewestFirst, None, EXECUTION_ENTRIES)?;
    let entries: Vec<StoredEntry> = page.entries.into_iter().filter(|entry| who.sees(entry)).collect();
    let events = || entries.iter().filter(|entry| entry.content.is_event());
    let mut robots: Vec<&RobotId> = events().map(|event| &event.content.robot_id).collect();
    robots.sort();
    robots.dedup();
    let mut hits = Vec::new();
    for robot in &robots {
        let Some(newest) = events().find(|event| event.content.robot_id == **robot) else { continue };
        let href = format!("/executions/{}/{}", encoded(robot.as_str()), encoded(id));
        hits.push(entry_hit("execution", id, href, newest));
    }
    if let (true, Some(newest)) = (robots.is_empty(), entries.first()) {
        hits.push(entry_hit("execution", id, format!("/ledger?execution={}", encoded(id)), newest));
    }
    Ok(hits)
}

fn entry_hit(kind: &'static str, id: &str, href: String, entry: &StoredEntry) -> SearchHit {
    SearchHit {
        kind,
        id: id.to_owned(),
        about: format!("{} of {}", entry.content.kind, entry.content.robot_id),
        href,
        at: Some(entry.created_at.to_string()),
        state: Some(entry.content.state.as_str().to_owned()),
    }
}
