//! Ids of entries and executions as people type and read them: `@` for the newest and `@-` for the one before, a start that only one
//! id has, and on the screen the shortest such start. Programs get and may give whole ids.

use std::collections::BTreeMap;

use crealeph_contracts::scalar::{ExecutionId, LedgerId, Name, RobotId, TenantId};
use crealeph_contracts::short_id::IdWord;
use crealeph_ledger::{Cursor, EXECUTION_EVENT, Filter, IdKind, Ledger, Order, StoredEntry};

use super::ledger::named;
use crate::failure::{BuilderFailure, Failure, LedgerFailure};

/// How many events are read at a time on the way to an earlier execution.
const PAGE_EVENTS: usize = 100;

/// The short forms of ids that are shown together.
#[derive(Debug, Default)]
pub(super) struct ShortIds(BTreeMap<String, String>);

impl ShortIds {
    /// Looks them up.
    pub(super) fn find<'i>(
        ledger: &Ledger,
        tenant: &TenantId,
        kind: IdKind,
        ids: impl IntoIterator<Item = &'i str>,
    ) -> Result<Self, Failure> {
        let ids: Vec<&str> = ids.into_iter().collect();
        let short = ledger.short_ids(tenant, kind, &ids)?;
        Ok(ShortIds(ids.into_iter().map(str::to_owned).zip(short).collect()))
    }

    /// The same for entries.
    pub(super) fn of_entries<'e>(
        ledger: &Ledger,
        tenant: &TenantId,
        entries: impl IntoIterator<Item = &'e StoredEntry>,
    ) -> Result<Self, Failure> {
        ShortIds::find(ledger, tenant, IdKind::Entry, entries.into_iter().map(|entry| entry.id.as_str()))
    }

    /// The short form of an id; one that was not looked up stays whole.
    pub(super) fn of<'s>(&'s self, id: &'s str) -> &'s str {
        self.0.get(id).map_or(id, String::as_str)
    }
}

/// The id of the entry that a word means. A word that means none is an id as it is, of which there is no entry.
pub(super) fn entry_id(ledger: &Ledger, tenant: &TenantId, word: &str) -> Result<LedgerId, Failure> {
    let id = match IdWord::read(word) {
        IdWord::Recent(newer) => {
            let page = ledger.list(tenant, &Filter::default(), Order::NewestFirst, None, newer + 1)?;
            let entry = page.entries.into_iter().nth(newer);
            let missing = || LedgerFailure::NoEntry { name: word.to_owned(), tenant: tenant.to_string() };
            return Ok(entry.ok_or_else(missing)?.id);
        }
        IdWord::Start(start) => ledger.id_of(tenant, IdKind::Entry, start)?,
    };
    Ok(named("id", id.as_deref().unwrap_or(word), LedgerId::parse)?)
}

/// The execution that a word means, and its robot if one is known. A word that means none is an id as it is.
pub(super) fn execution_id(
    ledger: &Ledger,
    tenant: &TenantId,
    robot: Option<RobotId>,
    word: &str,
) -> Result<(ExecutionId, Option<RobotId>), Failure> {
    match IdWord::read(word) {
        IdWord::Recent(newer) => recent_execution(ledger, tenant, robot, newer),
        IdWord::Start(start) => {
            let id = ledger.id_of(tenant, IdKind::Execution, start)?;
            Ok((named("execution", id.as_deref().unwrap_or(word), ExecutionId::parse)?, robot))
        }
    }
}

/// The execution that has so many newer ones, by their newest events.
fn recent_execution(
    ledger: &Ledger,
    tenant: &TenantId,
    robot_id: Option<RobotId>,
    newer: usize,
) -> Result<(ExecutionId, Option<RobotId>), Failure> {
    let kind = Some(named("type", EXECUTION_EVENT, Name::parse)?);
    let filter = Filter { robot_id, kind, ..Filter::default() };
    let mut seen: Vec<(String, RobotId)> = Vec::new();
    let mut cursor = None;
    loop {
        let (events, next) = events_page(ledger, tenant, &filter, cursor, PAGE_EVENTS)?;
        for event in &events {
            let of = (execution_of(event), event.content.robot_id.clone());
            if seen.contains(&of) {
                continue;
            }
            if seen.len() == newer {
                return Ok((named("execution", &of.0, ExecutionId::parse)?, Some(of.1)));
            }
            seen.push(of);
        }
        cursor = next;
        if cursor.is_none() {
            return Err(match seen.is_empty() {
                true => BuilderFailure::NoExecutions.into(),
                false => BuilderFailure::OnlyOneExecution.into(),
            });
        }
    }
}

/// A whole page, newest first, and the next cursor. A ledger with an older schema has no index for it and returns parts.
pub(super) fn events_page(
    ledger: &Ledger,
    tenant: &TenantId,
    filter: &Filter,
    mut cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<StoredEntry>, Option<Cursor>), Failure> {
    let mut entries = Vec::new();
    loop {
        let page = ledger.list(tenant, filter, Order::NewestFirst, cursor, limit - entries.len())?;
        entries.extend(page.entries);
        cursor = page.next;
        if cursor.is_none() || entries.len() >= limit {
            return Ok((entries, cursor));
        }
    }
}

/// The execution that an event is of.
pub(super) fn execution_of(event: &StoredEntry) -> String {
    payload_text(event, "executionId")
}

/// The value of a key in an event's payload, or a dash.
pub(super) fn payload_text(event: &StoredEntry, key: &str) -> String {
    let text = event.to_entry().payload.and_then(|payload| {
        payload.with(|payload| {
            let value = payload.member(key)?;
            Some(value.string().map_or_else(|| value.source().to_owned(), |text| text.into_owned()))
        })
    });
    text.unwrap_or_else(|| "-".to_owned())
}
