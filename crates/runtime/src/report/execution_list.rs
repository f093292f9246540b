//! Executions in a list: one row each, by its newest event, so that an execution that was retried has only the state that it is in now.
//! Whether an event is its execution's newest, the index of the execution says. Owns how many events are looked at for a page.

use std::collections::BTreeSet;

use crealeph_contracts::scalar::{ExecutionId, Name, RobotId, TenantId};
use crealeph_ledger::{Cursor, EXECUTION_EVENT, Filter, Ledger, Order, StoredEntry};

use super::ReportError;
use crate::entries::{PageQuery, bounded_page};
use crate::robot_report::execution_of;

/// How many events are looked at for a page, and how many are read at a time.
const MAX_EVENTS: usize = 1_000;
const PART_EVENTS: usize = 50;

/// Which executions are listed.
#[derive(Clone, Debug, Default)]
pub struct ExecutionListQuery {
    /// Of this robot.
    pub robot_id: Option<RobotId>,
    /// Those that are in this state now.
    pub state: Option<Name>,
    /// Where the list continues.
    pub cursor: Option<Cursor>,
    /// How many at most.
    pub limit: usize,
    /// After how many bytes of payloads a read ends.
    pub max_bytes: usize,
}

/// A page of executions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExecutionPage {
    /// The newest event of each, newest first.
    pub newest_events: Vec<StoredEntry>,
    /// Where the list continues.
    pub next: Option<Cursor>,
    /// How many events were looked at, if the page ends early because of that.
    pub cut_at: Option<usize>,
}

/// A page of executions by their newest events; `sees` says which events may be looked at.
///
/// # Errors
/// When the ledger cannot be read.
pub fn execution_page(
    ledger: &Ledger,
    tenant: &TenantId,
    query: &ExecutionListQuery,
    sees: impl Fn(&StoredEntry) -> bool,
) -> Result<ExecutionPage, ReportError> {
    let filter = Filter {
        robot_id: query.robot_id.clone(),
        kind: Some(Name::parse(EXECUTION_EVENT)?),
        state: query.state.clone(),
        ..Filter::default()
    };
    // From the newest event on, the first of an execution is its newest.
    let is_from_start = query.cursor.is_none() && query.state.is_none();
    let (mut page, mut seen, mut looked) = (ExecutionPage::default(), BTreeSet::new(), 0);
    page.next = query.cursor;
    loop {
        let part = PageQuery {
            filter: filter.clone(),
            order: Order::NewestFirst,
            cursor: page.next,
            limit: PART_EVENTS,
            max_bytes: query.max_bytes,
        };
        let part = bounded_page(ledger, tenant, &part, &sees)?;
        let is_scanning = part.entries.is_empty();
        for event in part.entries {
            if page.newest_events.len() >= query.limit {
                return Ok(page);
            }
            looked += 1;
            page.next = Some(Cursor::after(event.seq));
            let of = (event.content.robot_id.clone(), execution_of(&event));
            if seen.insert(of) && (is_from_start || is_newest(ledger, tenant, &event)?) {
                page.newest_events.push(event);
            }
        }
        page.next = part.next;
        if page.next.is_none() || page.newest_events.len() >= query.limit {
            return Ok(page);
        }
        if looked >= MAX_EVENTS || is_scanning {
            page.cut_at = Some(looked);
            return Ok(page);
        }
    }
}

/// Whether no event of the same execution is newer. One that names no execution is its own.
fn is_newest(ledger: &Ledger, tenant: &TenantId, event: &StoredEntry) -> Result<bool, ReportError> {
    let Some(id) = execution_of(event) else { return Ok(true) };
    let filter = Filter {
        robot_id: Some(event.content.robot_id.clone()),
        kind: Some(event.content.kind.clone()),
        execution_id: Some(ExecutionId::parse(&id)?),
        ..Filter::default()
    };
    let newest = ledger.list(tenant, &filter, Order::NewestFirst, None, 1)?;
    Ok(newest.entries.first().is_none_or(|newest| newest.seq == event.seq))
}
