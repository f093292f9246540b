//! Search: ids, their prefixes and names of robots by index; paths and words of tasks in a window of the newest runs, which says
//! what was not searched.

use crealeph_console::{self as view, PageFrame, SearchHit, SearchPage, Section};
use crealeph_contracts::scalar::{LedgerId, RobotId};
use crealeph_ledger::IdKind;
use crealeph_runtime::receipts::{RunLogQuery, runs_of_log};
use crealeph_runtime::robot;

use super::{encoded, html, viewer};
use crate::call::Call;
use crate::problem::Problem;
use crate::reply::Reply;

/// How many of each kind are shown, and how many of the newest runs are looked at.
const MAX_HITS: usize = 10;
const MAX_RUNS: usize = 200;
const MAX_RUN_BYTES: usize = 4 << 20;

pub(super) fn search(call: &Call) -> Result<Reply, Problem> {
    let viewer = viewer(call)?;
    let words = call.text("q").unwrap_or("").trim();
    let (mut hits, mut cut) = (Vec::new(), None);
    if !words.is_empty() {
        hits.extend(robots(call, words)?);
        hits.extend(by_id(call, words)?);
        let (runs, is_cut) = runs(call, words)?;
        hits.extend(runs);
        cut = is_cut
            .then(|| format!("Of runs, only the newest {MAX_RUNS} were looked at for words and paths."));
    }
    let frame = PageFrame { viewer: &viewer, section: Section::Search, title: "Search", live: None };
    Ok(html(frame.of(view::search(&viewer, &SearchPage { words, hits: &hits, cut }))))
}

/// The robots whose names begin so.
fn robots(call: &Call, words: &str) -> Result<Vec<SearchHit>, Problem> {
    let who = call.who()?;
    let Ok(name) = RobotId::parse(words) else { return Ok(Vec::new()) };
    let scopes = &call.app.scopes;
    let exact = match who.covers(&name) {
        true => robot::summary(call.ledger(), &who.tenant_id, scopes, &name)?,
        false => None,
    };
    let mut found: Vec<_> = exact.into_iter().collect();
    if who.robot_id.is_none() {
        let (after, _) = robot::robots(call.ledger(), &who.tenant_id, scopes, Some(&name), MAX_HITS)?;
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
    Ok(hits.collect())
}

/// Entries and executions whose ids begin so.
fn by_id(call: &Call, words: &str) -> Result<Vec<SearchHit>, Problem> {
    let who = call.who()?;
    let (ledger, tenant) = (call.ledger(), &who.tenant_id);
    let mut hits = Vec::new();
    for id in ledger.ids_starting(tenant, IdKind::Entry, words, MAX_HITS)? {
        let Ok(id) = LedgerId::parse(&id) else { continue };
        let Some(entry) = ledger.get(tenant, &id)?.filter(|entry| who.sees(entry)) else { continue };
        hits.push(SearchHit {
            kind: "entry",
            href: format!("/ledger/{}", encoded(id.as_str())),
            about: format!("{} of {}", entry.content.kind, entry.content.robot_id),
            at: Some(entry.created_at.to_string()),
            state: Some(entry.content.state.as_str().to_owned()),
            id: id.as_str().to_owned(),
        });
    }
    for id in ledger.ids_starting(tenant, IdKind::Execution, words, MAX_HITS)? {
        let href = format!("/ledger?execution={}", encoded(&id));
        // A restricted key sees its own robot's entries on that page alone; the id itself would reveal others to it.
        if who.robot_id.is_none() {
            let about = "execution of the Builder".to_owned();
            hits.push(SearchHit { kind: "execution", id, about, href, at: None, state: None });
        }
    }
    Ok(hits)
}

/// Runs whose id begins so, or whose task or agent has the words; and whether there are older ones.
fn runs(call: &Call, words: &str) -> Result<(Vec<SearchHit>, bool), Problem> {
    let who = call.who()?;
    let query = RunLogQuery {
        robot: who.robot_id.clone(),
        limit: MAX_RUNS,
        max_bytes: MAX_RUN_BYTES,
        ..RunLogQuery::default()
    };
    let (runs, next) = runs_of_log(call.ledger(), &who.tenant_id, &query, |entry| who.sees(entry))?;
    let wanted = words.to_lowercase();
    let hits = runs.iter().filter_map(|run| {
        let (report, id) = (run.report(None), run.run.to_string());
        let has = |text: &str| text.to_lowercase().contains(&wanted);
        let is_found = id.starts_with(&wanted)
            || has(&report.row.task)
            || report.row.agent.as_deref().is_some_and(has)
            || run.paths().any(has);
        is_found.then(|| SearchHit {
            kind: "run",
            href: format!("/runs/{id}"),
            id,
            about: report.row.task,
            at: Some(report.row.started_at),
            state: Some(report.row.status),
        })
    });
    Ok((hits.take(MAX_HITS).collect(), next.is_some()))
}
