//! Where a command works: on a local ledger, or with a server that has one. A command uses its [`Place`] and does not know which it is;
//! reading a log is the same for both: a [`LogSource`].

mod exporting;
mod grants;
mod remote;

use std::time::Duration;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::{ClientKey, ExecutionId, LedgerId, RobotId, TenantId};
use crealeph_contracts::short_id::NamedKind;
use crealeph_ledger::{
    AppendError, Cursor, Direction, EntryPage, Filter, KEY_PREFIX, Ledger, LedgerLimits, LineageEntries,
    LogWatch, Order, Seq, StoredEntry,
};
use crealeph_runtime::builder::Execution;
use crealeph_runtime::client::ClientError;
use crealeph_runtime::entries::{AppendedReport, read_lineage, read_page};

use remote::text;
pub(super) use remote::{AppendedStart, RefusedDraft, RemoteLog, RemotePeople, found};

use super::ledger::Settled;
use crate::failure::{Failure, ServerFailure};
use crate::output::Output;

/// How many entries of an execution are read at a time.
const PAGE_ENTRIES: usize = 500;
/// The media type of a checkpoint.
const NOTE_TYPE: &str = "text/plain";

/// Where a command works.
#[derive(Debug)]
pub(super) enum Place {
    /// On a ledger.
    Here(Box<Settled>),
    /// With a server.
    Server(RemoteLog),
}

impl Place {
    /// The ledger, for a command that no server has a form of.
    pub(super) fn here(&self) -> Result<&Settled, ServerFailure> {
        match self {
            Place::Here(at) => Ok(at),
            Place::Server(_) => Err(ServerFailure::NoServerForm(None)),
        }
    }

    /// The log, to be read.
    pub(super) fn log(&self) -> Result<LogSource, Failure> {
        Ok(match self {
            Place::Here(at) => LogSource::Ledger(at.open()?, at.tenant.clone()),
            Place::Server(remote) => LogSource::Server(remote.clone()),
        })
    }

    /// The tenant.
    pub(super) fn tenant(&self) -> &TenantId {
        match self {
            Place::Here(at) => &at.tenant,
            Place::Server(remote) => &remote.tenant,
        }
    }

    /// What was read of the place is not what it should be.
    pub(super) fn unreadable(&self, why: &dyn std::fmt::Display) -> Failure {
        let url = match self {
            Place::Here(_) => "this ledger".to_owned(),
            Place::Server(remote) => remote.client.url().to_owned(),
        };
        ClientError::Answer { url, why: why.to_string() }.into()
    }

    pub(super) fn is_json(&self, output: &Output) -> bool {
        let is_asked = match self {
            Place::Here(at) => at.is_json,
            Place::Server(remote) => remote.is_json,
        };
        is_asked || !output.is_for_person()
    }
}

/// A log that can be read: a tenant's part of a ledger, or what a server shows of it.
#[derive(Debug)]
pub(super) enum LogSource {
    Ledger(Ledger, TenantId),
    Server(RemoteLog),
}

/// Wakes someone who waits for entries; a server is looked at again each time.
pub(super) struct LogAlarm(Option<LogWatch>);

impl LogAlarm {
    /// Waits for new entries, for at most this long.
    pub(super) fn wait(&mut self, most: Duration) {
        match &mut self.0 {
            Some(watch) => {
                watch.wait(most);
            }
            None => std::thread::sleep(most),
        }
    }
}

impl LogSource {
    /// A part of a ledger.
    pub(super) fn of(ledger: &Ledger, tenant: &TenantId) -> Self {
        LogSource::Ledger(ledger.clone(), tenant.clone())
    }

    pub(super) fn tenant(&self) -> &TenantId {
        match self {
            LogSource::Ledger(_, tenant) | LogSource::Server(RemoteLog { tenant, .. }) => tenant,
        }
    }

    /// The ledger itself, for what no server has a form of.
    pub(super) fn ledger(&self) -> Result<(&Ledger, &TenantId), ServerFailure> {
        match self {
            LogSource::Ledger(ledger, tenant) => Ok((ledger, tenant)),
            LogSource::Server(_) => Err(ServerFailure::NoServerForm(None)),
        }
    }

    /// Appends entries up to the first that is refused.
    pub(super) fn append(&self, mut drafts: Vec<Draft>) -> Result<AppendedStart, Failure> {
        let (ledger, tenant) = match self {
            LogSource::Ledger(ledger, tenant) => (ledger, tenant),
            LogSource::Server(remote) => return remote.append(&drafts),
        };
        let mut refused = None;
        while !drafts.is_empty() {
            match ledger.append(tenant, drafts.clone()) {
                Ok(appended) => return Ok((appended.iter().map(AppendedReport::of).collect(), refused)),
                Err(AppendError::Refused { position, refusal }) => {
                    drafts.truncate(position);
                    refused = Some(RefusedDraft::Here(Box::new(refusal)));
                }
                Err(AppendError::Ledger(error)) => return Err(error.into()),
            }
        }
        Ok((Vec::new(), refused))
    }

    /// Waits for what is appended.
    pub(super) fn watch(&self) -> LogAlarm {
        LogAlarm(match self {
            LogSource::Ledger(ledger, tenant) => Some(ledger.watch(tenant)),
            LogSource::Server(_) => None,
        })
    }

    /// The number of the newest entry.
    pub(super) fn last_seq(&self) -> Result<Seq, Failure> {
        match self {
            LogSource::Ledger(ledger, tenant) => Ok(ledger.last_seq(tenant)?),
            LogSource::Server(_) => {
                let page = self.whole_page(&Filter::default(), Order::NewestFirst, None, 1)?;
                Ok(page.entries.first().map_or(Seq::ZERO, |entry| entry.seq))
            }
        }
    }

    /// How many entries a lineage has at most.
    pub(super) fn lineage_entries(&self) -> usize {
        match self {
            LogSource::Ledger(ledger, _) => ledger.limits().lineage_entries,
            LogSource::Server(_) => LedgerLimits::default().lineage_entries,
        }
    }

    /// A page of a list; it may have fewer than asked for, and still not be the last.
    pub(super) fn list(
        &self,
        filter: &Filter,
        order: Order,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<EntryPage, Failure> {
        let RemoteLog { client, .. } = match self {
            LogSource::Ledger(ledger, tenant) => {
                return Ok(ledger.list(tenant, filter, order, cursor, limit)?);
            }
            LogSource::Server(remote) => remote,
        };
        let is_newest = order == Order::NewestFirst;
        let order = if is_newest { "newest" } else { "oldest" };
        let query = [
            ("robot", text(filter.robot_id.as_ref())),
            ("type", text(filter.kind.as_ref())),
            ("state", text(filter.state.as_ref())),
            ("module", text(filter.module.as_ref())),
            ("execution", text(filter.execution_id.as_ref())),
            ("from", text(filter.from)),
            ("to", text(filter.to)),
            ("order", Some(order.to_owned())),
            ("limit", Some(limit.to_string())),
            ("cursor", text(cursor)),
        ];
        let answer = client.get(&["entries"], &query)?;
        let page = answer.read_with(read_page)?;
        // Pages that do not advance would have no end.
        let advances = |next: Cursor, from: Cursor| match is_newest {
            true => next.seq() < from.seq(),
            false => next.seq() > from.seq(),
        };
        match page.next.zip(cursor).is_none_or(|(next, from)| advances(next, from)) {
            true => Ok(page),
            false => Err(answer.refuse("its list does not advance").into()),
        }
    }

    /// A page that is as long as asked for, unless the list ends: an answer within bounds may be shorter.
    pub(super) fn whole_page(
        &self,
        filter: &Filter,
        order: Order,
        mut cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<EntryPage, Failure> {
        let mut entries = Vec::new();
        loop {
            let page = self.list(filter, order, cursor, limit - entries.len())?;
            entries.extend(page.entries);
            cursor = page.next;
            if cursor.is_none() || entries.len() >= limit {
                return Ok(EntryPage { entries, next: cursor });
            }
        }
    }

    pub(super) fn get(&self, id: &LedgerId) -> Result<Option<StoredEntry>, Failure> {
        match self {
            LogSource::Ledger(ledger, tenant) => Ok(ledger.get(tenant, id)?),
            LogSource::Server(remote) => remote.entry(id.as_str()),
        }
    }

    pub(super) fn get_by_key(&self, key: &ClientKey) -> Result<Option<StoredEntry>, Failure> {
        match self {
            LogSource::Ledger(ledger, tenant) => Ok(ledger.get_by_key(tenant, key)?),
            LogSource::Server(remote) => remote.entry(&format!("{KEY_PREFIX}{key}")),
        }
    }

    pub(super) fn lineage(
        &self,
        id: &LedgerId,
        direction: Direction,
        depth: usize,
    ) -> Result<Option<LineageEntries>, Failure> {
        let RemoteLog { client, .. } = match self {
            LogSource::Ledger(ledger, tenant) => return Ok(ledger.lineage(tenant, id, direction, depth)?),
            LogSource::Server(remote) => remote,
        };
        let direction = if direction == Direction::Down { "down" } else { "up" };
        let query = [("direction", Some(direction.to_owned())), ("depth", Some(depth.to_string()))];
        let answer = found(client.get(&["entries", id.as_str(), "lineage"], &query))?;
        Ok(answer.map(|answer| answer.read_with(read_lineage)).transpose()?)
    }

    /// The proof that an entry is in the log, as its document.
    pub(super) fn prove(&self, id: &LedgerId) -> Result<Option<String>, Failure> {
        match self {
            LogSource::Ledger(ledger, tenant) => Ok(ledger.prove(tenant, id)?.map(|proof| proof.to_json())),
            LogSource::Server(remote) => {
                let answer = found(remote.client.get(&["entries", id.as_str(), "proof"], &[]))?;
                Ok(answer.map(|answer| answer.json_text().map(str::to_owned)).transpose()?)
            }
        }
    }

    /// The signed state of the log as it is now.
    pub(super) fn checkpoint(&self) -> Result<String, Failure> {
        match self {
            LogSource::Ledger(ledger, tenant) => Ok(ledger.checkpoint(tenant)?.note),
            LogSource::Server(remote) => {
                let answer = remote.client.get(&["log", "checkpoint"], &[])?;
                Ok(answer.text_of(NOTE_TYPE)?.to_owned())
            }
        }
    }

    /// An execution, of one robot if one is named.
    pub(super) fn execution(
        &self,
        robot: Option<&RobotId>,
        execution: &ExecutionId,
    ) -> Result<Option<Execution>, Failure> {
        Execution::gather(robot, execution, |filter, cursor| {
            self.list(filter, Order::OldestFirst, cursor, PAGE_ENTRIES)
        })
    }

    /// The id that a word is, or is the start of; absent if there is none.
    pub(super) fn id_of(&self, kind: NamedKind, word: &str) -> Result<Option<String>, Failure> {
        match self {
            LogSource::Ledger(ledger, tenant) => Ok(ledger.id_of(tenant, kind.into(), word)?),
            LogSource::Server(remote) => {
                Ok(remote.find_ids(kind, &[word])?.into_iter().next().and_then(|found| found.id))
            }
        }
    }

    /// Ids with their short forms.
    pub(super) fn short_ids(&self, kind: NamedKind, ids: &[&str]) -> Result<Vec<(String, String)>, Failure> {
        match self {
            LogSource::Ledger(ledger, tenant) => {
                let short = ledger.short_ids(tenant, kind.into(), ids)?;
                Ok(ids.iter().map(|id| (*id).to_owned()).zip(short).collect())
            }
            LogSource::Server(remote) => {
                let found = remote.find_ids(kind, ids)?;
                Ok(found.into_iter().map(|found| (found.word, found.short)).collect())
            }
        }
    }
}
