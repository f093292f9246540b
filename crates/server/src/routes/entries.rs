//! Entries: appended, listed, read, traced, proved. A key that is restricted to a robot sees and writes only that robot's;
//! entries of other robots do not exist for it, like those of other tenants.

use axum::http::StatusCode;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{Limits, Node, NodeKind, parse};
use crealeph_contracts::scalar::{ClientKey, ExecutionId, LedgerId, Name, RobotId};
use crealeph_contracts::shape::Shape as _;
use crealeph_contracts::violation::Report;
use crealeph_ledger::{
    AppendError, Direction, EntryPage, EntryRefusal, Filter, KEY_PREFIX, LineageEntries, Order, StoredEntry,
};
use crealeph_runtime::access::KeyIdentity;
use crealeph_runtime::entries::{
    AppendedReport, PageQuery, bounded_page, entry_json, lineage_json, page_json,
};
use serde_json::json;

use crate::call::Call;
use crate::problem::{Problem, ProblemKind};
use crate::reply::Reply;
use crate::settings::ServerBounds;

const USUAL_PAGE: usize = 100;
const USUAL_DEPTH: u64 = 16;

pub(super) fn append(call: &Call) -> Result<Reply, Problem> {
    let who = call.who()?;
    let drafts = read_drafts(call)?;
    for (position, draft) in drafts.iter().enumerate() {
        may_append(call, who, position, draft)?;
    }
    let appended = call.acting_ledger()?.append(&who.tenant_id, drafts);
    let appended = appended.or_else(|error| Err(refused(call, who, error)?))?;
    let fresh = appended.iter().filter(|appended| !appended.is_repeat).count();
    call.app.metrics.appended.inc_by(fresh as u64);
    let reports: Vec<AppendedReport> = appended.iter().map(AppendedReport::of).collect();
    Ok(Reply::json_of(&json!({ "appended": reports })))
}

/// Why nothing was appended. A restricted key learns nothing of the entry that it contradicts, if that is another robot's.
fn refused(call: &Call, who: &KeyIdentity, error: AppendError) -> Result<Problem, Problem> {
    if let AppendError::Refused { position, refusal: EntryRefusal::Conflict { existing, identity, .. } } =
        &error
        && who.robot_id.is_some()
        && !call.ledger().get(&who.tenant_id, existing)?.is_some_and(|entry| who.sees(&entry))
    {
        let kind = ProblemKind::Other(StatusCode::CONFLICT, error.code());
        let detail = format!("entry {position} of the batch: its {identity} is taken; nothing was written");
        return Ok(Problem::new(kind, detail).with_hint("use another one"));
    }
    Ok(error.into())
}

/// Reads one entry or a list of them, or says everything that is wrong with them.
fn read_drafts(call: &Call) -> Result<Vec<Draft>, Problem> {
    let (document, faults) = parse(&call.body, &Limits::outside(call.body.len()));
    let mut report = Report::default();
    faults.into_iter().for_each(|fault| report.add_fault(fault));
    let Some(document) = document else { return Err(Problem::invalid("invalid", report.into_violations())) };
    let root = document.root();
    let nodes: Vec<Node<'_>> = match root.kind() {
        NodeKind::Array => root.elements().collect(),
        _ => vec![root],
    };
    let most = call.bounds().max_batch_entries;
    if nodes.len() as u64 > most {
        let detail = format!("the batch has {} entries, and the maximum is {most}", nodes.len());
        let kind = ProblemKind::TooLarge(StatusCode::PAYLOAD_TOO_LARGE);
        return Err(Problem::bound(kind, "max_batch_entries", most, detail));
    }
    let parts: Vec<_> = nodes.into_iter().map(|node| Draft::read(node, "entry", &mut report)).collect();
    if !report.is_clean() {
        return Err(Problem::invalid("invalid_entry", report.into_violations()));
    }
    let drafts: Option<Vec<Draft>> = parts.into_iter().map(Draft::finish).collect();
    match drafts {
        Some(drafts) if !drafts.is_empty() => Ok(drafts),
        _ => Err(Problem::new(ProblemKind::BadRequest, "the batch has no entry")),
    }
}

/// A restricted key writes for its robot, on what is its robot's.
fn may_append(call: &Call, who: &KeyIdentity, position: usize, draft: &Draft) -> Result<(), Problem> {
    if who.robot_id.is_none() {
        return Ok(());
    }
    if !who.covers(&draft.robot_id) {
        let detail = format!(
            "entry {position} of the batch is of a robot that this key is not for; nothing was written"
        );
        return Err(Problem::new(ProblemKind::Forbidden, detail));
    }
    let depends_on = draft.lineage.as_ref().and_then(|lineage| lineage.depends_on.as_ref());
    for id in depends_on.map_or(&[][..], |ids| ids.as_slice()) {
        let is_others = find(call, who, id.as_str())?.is_some_and(|entry| !who.sees(&entry));
        if is_others {
            let refusal = EntryRefusal::UnknownLineage(vec![id.as_str().to_owned()]);
            return Err(AppendError::Refused { position, refusal }.into());
        }
    }
    Ok(())
}

pub(super) fn list(call: &Call) -> Result<Reply, Problem> {
    let order = match call.text("order") {
        Some("newest") => Order::NewestFirst,
        _ => Order::OldestFirst,
    };
    Ok(Reply::json(page_json(&page(call, order, call.limit(USUAL_PAGE)?)?)))
}

/// A page of the matching entries.
pub(crate) fn page(call: &Call, order: Order, limit: usize) -> Result<EntryPage, Problem> {
    let who = call.who()?;
    let asked = call.identifier("robot", RobotId::parse)?;
    let filter = Filter {
        robot_id: asked.clone().or_else(|| who.robot_id.clone()),
        kind: call.identifier("type", Name::parse)?,
        state: call.identifier("state", Name::parse)?,
        module: call.identifier("module", Name::parse)?,
        execution_id: call.identifier("execution", ExecutionId::parse)?,
        from: call.instant("from")?,
        to: call.instant("to")?,
        without_children: Vec::new(),
    };
    if asked.is_some_and(|robot| !who.covers(&robot)) {
        return Ok(EntryPage { entries: Vec::new(), next: None });
    }
    let max_bytes = ServerBounds::size(call.bounds().max_page_bytes);
    let query = PageQuery { filter, order, cursor: call.cursor()?, limit, max_bytes };
    Ok(bounded_page(call.ledger(), &who.tenant_id, &query, |entry| who.sees(entry))?)
}

pub(super) fn get(call: &Call) -> Result<Reply, Problem> {
    Ok(Reply::json(entry_json(&named(call)?)))
}

pub(super) fn lineage(call: &Call) -> Result<Reply, Problem> {
    let direction = match call.text("direction") {
        Some("down") => Direction::Down,
        _ => Direction::Up,
    };
    let depth = ServerBounds::size(call.number("depth")?.unwrap_or(USUAL_DEPTH));
    Ok(Reply::json(lineage_json(&relatives(call, &named(call)?, direction, depth)?)))
}

/// What an entry is based on, or what is based on it, as far as the key may see it.
pub(crate) fn relatives(
    call: &Call,
    entry: &StoredEntry,
    direction: Direction,
    depth: usize,
) -> Result<LineageEntries, Problem> {
    let who = call.who()?;
    let lineage = call.ledger().lineage(&who.tenant_id, &entry.id, direction, depth)?;
    let mut lineage = lineage.ok_or_else(|| Problem::unknown_id("entry"))?;
    lineage.entries.retain(|relative| who.sees(&relative.entry));
    Ok(lineage)
}

pub(super) fn prove(call: &Call) -> Result<Reply, Problem> {
    let entry = named(call)?;
    let proof = call.ledger().prove(&call.who()?.tenant_id, &entry.id)?;
    Ok(Reply::json(proof.ok_or_else(|| Problem::unknown_id("entry"))?.to_json()))
}

/// The entry that the path names, if the key may see it.
pub(crate) fn named(call: &Call) -> Result<StoredEntry, Problem> {
    let who = call.who()?;
    let found = find(call, who, call.in_path("id")?)?;
    found.filter(|entry| who.sees(entry)).ok_or_else(|| Problem::unknown_id("entry"))
}

/// The tenant's entry of an id, or of `key:` and a client key. What cannot be an id is no one's.
fn find(call: &Call, who: &KeyIdentity, name: &str) -> Result<Option<StoredEntry>, Problem> {
    let tenant = &who.tenant_id;
    Ok(match name.strip_prefix(KEY_PREFIX).map(ClientKey::parse) {
        Some(Ok(key)) => call.ledger().get_by_key(tenant, &key)?,
        Some(Err(_)) => None,
        None => match LedgerId::parse(name) {
            Ok(id) => call.ledger().get(tenant, &id)?,
            Err(_) => None,
        },
    })
}
