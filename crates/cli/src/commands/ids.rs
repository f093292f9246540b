//! Ids of entries and executions as people type and read them: `@` for the newest and `@-` for the one before, a unique prefix
//! of an id, and on the screen the shortest such prefix. Programs get whole ids and may give them.

use std::collections::BTreeMap;

use crealeph_contracts::scalar::{ExecutionId, LedgerId, Name, RobotId};
use crealeph_contracts::short_id::{IdWord, NamedKind, one_id};
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::builder::review;
use crealeph_ledger::{Cursor, EXECUTION_EVENT, Filter, IdKind, LedgerError, Order, StoredEntry};
use crealeph_runtime::approvals::{SubjectReader, change_of, inbox};
use crealeph_runtime::entries::NewestPage;

use super::ledger::named;
use super::place::LogSource;
use crate::failure::{BuilderFailure, Failure, LedgerFailure};

/// How many events are read at a time on the way to an earlier execution.
const PAGE_EVENTS: usize = 100;
/// How much of what waits is read at a time, once the newest was decided.
const PAGE_WAITING: usize = 100;

/// The short forms of ids that are shown together.
#[derive(Debug, Default)]
pub(super) struct ShortIds(BTreeMap<String, String>);

impl ShortIds {
    /// Looks them up.
    pub(super) fn find<'i>(
        log: &LogSource,
        kind: NamedKind,
        ids: impl IntoIterator<Item = &'i str>,
    ) -> Result<Self, Failure> {
        let ids: Vec<&str> = ids.into_iter().collect();
        Ok(ShortIds(log.short_ids(kind, &ids)?.into_iter().collect()))
    }

    /// The same for entries.
    pub(super) fn of_entries<'e>(
        log: &LogSource,
        entries: impl IntoIterator<Item = &'e StoredEntry>,
    ) -> Result<Self, Failure> {
        ShortIds::find(log, NamedKind::Entry, entries.into_iter().map(|entry| entry.id.as_str()))
    }

    /// The short form of an id; one that was not looked up stays whole.
    pub(super) fn of<'s>(&'s self, id: &'s str) -> &'s str {
        self.0.get(id).map_or(id, String::as_str)
    }
}

/// What a person decides about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SubjectId {
    /// A draft, by its entry.
    Draft(LedgerId),
    /// A held change, by its run.
    Change(Uuid),
}

/// The subject that a word means: `@` is the newest that waits, `@-` the one before; else a draft or the run of a held change, or a start
/// that only one of them has.
pub(super) fn subject_id(reader: SubjectReader<'_>, word: &str) -> Result<SubjectId, Failure> {
    let SubjectReader { ledger, tenant, .. } = reader;
    let missing = || LedgerFailure::NoEntry { name: word.to_owned(), tenant: tenant.to_string() };
    let start = match IdWord::read(word) {
        IdWord::Recent(newer) => {
            let item = nth_waiting(newer, |cursor, limit| Ok(inbox(reader, None, cursor, limit)?))?;
            let item = item.ok_or_else(missing)?;
            return Ok(item
                .change
                .map_or(SubjectId::Draft(item.entry.id), |change| SubjectId::Change(change.run)));
        }
        IdWord::Start(start) => start,
    };
    let run = ledger.id_of(tenant, IdKind::HeldRun, start)?;
    if let Some(run) = run.as_deref().and_then(Uuid::parse) {
        // Entries that were written at the time of the run begin like it; only a draft can be meant instead.
        let is_draft = |entry: &StoredEntry| {
            review::is_draft(entry.content.module.as_str(), entry.content.state.as_str())
        };
        let entry = ledger.id_of(tenant, IdKind::Entry, start).ok().flatten();
        let entry = entry.and_then(|id| LedgerId::parse(&id).ok()).filter(|_| run.to_string() != word);
        let draft = entry.map_or(Ok(None), |id| ledger.get(tenant, &id))?.filter(is_draft);
        return match draft {
            None => Ok(SubjectId::Change(run)),
            Some(draft) if draft.id.as_str() == word => Ok(SubjectId::Draft(draft.id)),
            Some(draft) => {
                let both = vec![run.to_string(), draft.id.to_string()];
                Err(one_id(word, both)
                    .map_err(LedgerError::from)
                    .err()
                    .map_or_else(|| missing().into(), Failure::from))
            }
        };
    }
    let id = entry_id(&LogSource::of(ledger, tenant), word)?;
    let change = ledger.get(tenant, &id)?.and_then(|entry| change_of(&entry));
    Ok(change.map_or(SubjectId::Draft(id), |change| SubjectId::Change(change.run)))
}

/// What waits and has this many newer ones. What was decided is left off a page, so a short one is not yet the last.
pub(super) fn nth_waiting<T>(
    mut newer: usize,
    read: impl Fn(Option<Cursor>, usize) -> Result<NewestPage<T>, Failure>,
) -> Result<Option<T>, Failure> {
    let (mut cursor, mut limit) = (None, newer + 1);
    loop {
        let (items, next) = read(cursor, limit)?;
        let found = items.len();
        match (items.into_iter().nth(newer), next) {
            (None, Some(next)) => (cursor, newer) = (Some(next), newer - found),
            (item, _) => return Ok(item),
        }
        limit = (2 * limit).min(PAGE_WAITING);
    }
}

/// The id of the entry that a word means. A word that means none is returned as an id without an entry.
pub(super) fn entry_id(log: &LogSource, word: &str) -> Result<LedgerId, Failure> {
    let id = match IdWord::read(word) {
        IdWord::Recent(newer) => {
            let page = log.whole_page(&Filter::default(), Order::NewestFirst, None, newer + 1)?;
            let entry = page.entries.into_iter().nth(newer);
            let missing =
                || LedgerFailure::NoEntry { name: word.to_owned(), tenant: log.tenant().to_string() };
            return Ok(entry.ok_or_else(missing)?.id);
        }
        IdWord::Start(start) => log.id_of(NamedKind::Entry, start)?,
    };
    Ok(named("id", id.as_deref().unwrap_or(word), LedgerId::parse)?)
}

/// The execution that a word means, and its robot if known. A word that means none is returned as an id.
pub(super) fn execution_id(
    log: &LogSource,
    robot: Option<RobotId>,
    word: &str,
) -> Result<(ExecutionId, Option<RobotId>), Failure> {
    match IdWord::read(word) {
        IdWord::Recent(newer) => recent_execution(log, robot, newer),
        IdWord::Start(start) => {
            let id = log.id_of(NamedKind::Execution, start)?;
            Ok((named("execution", id.as_deref().unwrap_or(word), ExecutionId::parse)?, robot))
        }
    }
}

/// The execution that has this many newer ones, by their newest events.
fn recent_execution(
    log: &LogSource,
    robot_id: Option<RobotId>,
    newer: usize,
) -> Result<(ExecutionId, Option<RobotId>), Failure> {
    let kind = Some(named("type", EXECUTION_EVENT, Name::parse)?);
    let filter = Filter { robot_id, kind, ..Filter::default() };
    let mut seen: Vec<(String, RobotId)> = Vec::new();
    let mut cursor = None;
    loop {
        let page = log.whole_page(&filter, Order::NewestFirst, cursor, PAGE_EVENTS)?;
        for event in &page.entries {
            let of = (execution_of(event), event.content.robot_id.clone());
            if seen.contains(&of) {
                continue;
            }
            if seen.len() == newer {
                return Ok((named("execution", &of.0, ExecutionId::parse)?, Some(of.1)));
            }
            seen.push(of);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Err(match seen.is_empty() {
                true => BuilderFailure::NoExecutions.into(),
                false => BuilderFailure::OnlyOneExecution.into(),
            });
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
