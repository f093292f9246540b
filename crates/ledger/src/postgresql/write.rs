//! The PostgreSQL writer: one transaction per tenant, sequenced by the lock on the tenant's log; bounded retries of temporary
//! failures; and a definite error if the answer to a commit was lost.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::log_rules::new_origin;
use crealeph_contracts::scalar::{Name, TenantId};
use tokio_postgres::Row as SqlRow;
use tracing::debug;

use super::notice::Notices;
use super::read::stored_hashes;
use super::rows::{self, BY_ID, BY_KEY, CURRENT, HEAD, PostgresRow, each};
use super::server::{Purpose, Server};
use super::session::{Session, Uncommitted, Value};
use super::{VERSION, accepted, leases, processes, subscriptions};
use crate::accepted::{AcceptedRequest, RequestName, RequestOutcome, RequestToAccept};
use crate::columns::{Column, ColumnValue, ENTRY_COLUMNS, read_entry, read_node};
use crate::error::LedgerError;
use crate::identity::random_name;
use crate::lease::LeaseToken;
use crate::merkle::Tile;
use crate::position::Millis;
use crate::processes::ProcessRow;
use crate::query::Query;
use crate::read::StoredCheckpoint;
use crate::row::{EntryClass, EntryRow, EventIdentity, ExecutionKey, not_an_event};
use crate::store::{
    Addition, ClaimResult, Head, KnownEntries, LeaseRequest, LeaseRow, NeededEntries, Transaction,
    TransactionWork, WriteFailure, Writer,
};
use crate::subscription::{Subscription, SubscriptionProgress};

/// How often a transaction is run again at most.
const MAX_TRIES: usize = 10;
/// How long to wait before a connection is tried again, at first and at most.
const RECONNECT_MS: (u64, u64) = (10, 500);

pub(super) struct PostgresWriter {
    pub(super) server: Server,
    pub(super) session: Option<Session>,
    pub(super) notices: Notices,
}

impl PostgresWriter {
    /// The connection; a lost one is replaced, for as long as waiting is allowed.
    fn session(&mut self) -> Result<&mut Session, LedgerError> {
        if self.session.as_ref().is_some_and(Session::is_closed) {
            self.session = None;
        }
        if self.session.is_none() {
            let (mut pause_ms, most_ms) = RECONNECT_MS;
            let mut waited_ms = 0;
            let place = self.server.name();
            debug!(place, "connecting the writer");
            let mut connected = self.server.connect(Purpose::Writing);
            while waited_ms < self.server.wait_ms && is_down(&connected) {
                debug!(place, waited_ms, pause_ms, "connecting the writer again after a pause");
                std::thread::sleep(Duration::from_millis(pause_ms));
                waited_ms += pause_ms;
                pause_ms = (pause_ms * 2).min(most_ms);
                connected = self.server.connect(Purpose::Writing);
            }
            self.session = Some(connected?);
        }
        self.session.as_mut().ok_or(LedgerError::Closed)
    }

    /// Runs the work once.
    fn attempt(
        &mut self,
        tenant: Option<&TenantId>,
        work: TransactionWork<'_>,
    ) -> Result<Attempt, WriteFailure> {
        let session = self.session().map_err(WriteFailure::Nothing)?;
        session.begin_writing(tenant);
        let done = work(&mut PostgresTransaction { session }).map_err(Uncommitted::Failed);
        match done.and_then(|()| session.commit()) {
            Ok(()) => Ok(Attempt::Committed),
            Err(Uncommitted::Unknown(error)) => {
                self.session = None;
                Err(WriteFailure::Unknown(error))
            }
            Err(Uncommitted::Failed(error)) => {
                let can_retry = session.can_retry();
                if session.is_closed() || session.run("ROLLBACK").is_err() {
                    self.session = None;
                }
                if can_retry { Ok(Attempt::Failed(error)) } else { Err(WriteFailure::Nothing(error)) }
            }
        }
    }
}

/// The result of running the work once.
enum Attempt {
    Committed,
    /// Nothing was written, and it may succeed if it is run again.
    Failed(LedgerError),
}

/// Whether waiting may help; a login that is refused stays refused.
fn is_down(connected: &Result<Session, LedgerError>) -> bool {
    matches!(connected, Err(LedgerError::Failed { .. }))
}

/// Refuses to write to a database that has another schema by now.
fn check_version(found: i32, server: &Server) -> Result<(), LedgerError> {
    match u32::try_from(found) {
        Ok(VERSION) => Ok(()),
        Ok(found) if found > VERSION => {
            Err(LedgerError::Newer { place: server.name().to_owned(), found, known: VERSION })
        }
        Ok(found) => Err(server.outdated(found)),
        Err(_) => Err(server.damaged("the schema version is negative")),
    }
}

impl Writer for PostgresWriter {
    /// Holders on other machines outlive this server, so leases are as durable as entries.
    fn transact(
        &mut self,
        tenant: Option<&TenantId>,
        _: bool,
        work: TransactionWork<'_>,
    ) -> Result<(), WriteFailure> {
        let mut last = LedgerError::Closed;
        for number in 1..=MAX_TRIES {
            match self.attempt(tenant, work)? {
                Attempt::Committed => return Ok(()),
                Attempt::Failed(error) => last = error,
            }
            let tenant = tenant.map(TenantId::as_str);
            debug!(tenant, number, code = last.code(), "a transaction failed that can be run again");
        }
        Err(WriteFailure::Nothing(last))
    }

    fn is_remote(&self) -> bool {
        true
    }

    /// Sent by another thread on another connection, many combined into one: a notification inside the commit would make
    /// all commits of the database wait for each other.
    fn announce(&mut self, _: &[TenantId]) {
        self.notices.announce();
    }
}

struct PostgresTransaction<'a> {
    session: &'a mut Session,
}

impl PostgresTransaction<'_> {
    /// The log, locked, and the leases of these names, in one message.
    fn find(
        &mut self,
        tenant: &TenantId,
        leases: &[&Name],
    ) -> Result<(Option<Head>, Vec<LeaseRow>), LedgerError> {
        // The version too, because a later version may have migrated the database since it was opened.
        let head_sql = format!(
            "SELECT {HEAD}, (SELECT max(version) FROM version) AS version FROM logs WHERE tenant = $1 FOR UPDATE"
        );
        let mut queries = vec![Query::new('$', head_sql, vec![Box::new(tenant.to_string()) as Value])];
        if !leases.is_empty() {
            let sql = "SELECT l.name, l.holder, l.token, l.until, l.ttl FROM unnest($2::text[]) AS w (name) \
                       CROSS JOIN LATERAL (SELECT * FROM leases WHERE tenant = $1 AND name = w.name LIMIT 1 \
                       FOR UPDATE) l";
            let names = texts(leases.iter().map(|name| name.as_str()));
            queries.push(Query::new('$', sql, vec![Box::new(tenant.to_string()), names]));
        }
        let mut answers = self.session.query_all_locking(&queries)?.into_iter();
        let server = &self.session.server;
        let head = answers.next().ok_or_else(|| server.unanswered())?;
        // No leases were asked for, if there is no second answer.
        let found = answers.next().unwrap_or_default();
        if let Some(row) = head.first() {
            check_version(rows::get(row, "version", server)?, server)?;
        }
        let head = head.first().map(|row| rows::head(row, tenant, server)).transpose()?;
        Ok((head, found.iter().map(|row| leases::read(row, server)).collect::<Result<_, _>>()?))
    }

    /// The whole entries of client keys.
    fn recorded(&mut self, head: &Head, keys: &[&str], known: &mut KnownEntries) -> Result<(), LedgerError> {
        let sql = each(&CURRENT.entry, "text", BY_KEY);
        for row in self.session.query(&sql, &[&head.tenant_id.as_str(), &keys])? {
            let row = read_row(&row, head, &self.session.server)?;
            if let Some(key) = &row.entry.content.key {
                known.recorded.insert(key.as_str().to_owned(), row);
            }
        }
        Ok(())
    }
}

/// A query for the log's content, and where its rows belong.
struct Lookup {
    query: Query<Value>,
    read: fn(&SqlRow, &Head, &Server, &mut KnownEntries) -> Result<(), LedgerError>,
}

/// The queries for what is needed; none for what is not.
fn lookups(head: &Head, needs: &NeededEntries) -> Vec<Lookup> {
    let mut lookups = Vec::new();
    let mut add = |sql: String, columns: Vec<Value>, read| {
        let tenant: Value = Box::new(head.tenant_id.to_string());
        let values = std::iter::once(tenant).chain(columns).collect();
        lookups.push(Lookup { query: Query::new('$', sql, values), read });
    };
    if !needs.ids.is_empty() {
        let ids = texts(needs.ids.iter().map(String::as_str));
        add(each(&CURRENT.node, "text", BY_ID), vec![ids], read_by_id);
    }
    // A key that is to be written rarely exists, so the whole entry is read only if it does.
    let keys: BTreeSet<&String> = needs.lineage_keys.union(&needs.new_keys).collect();
    if !keys.is_empty() {
        let keys = texts(keys.into_iter().map(String::as_str));
        add(each(&CURRENT.node, "text", BY_KEY), vec![keys], read_by_key);
    }
    if !needs.events.is_empty() {
        let column = |of: fn(&EventIdentity) -> &str| texts(needs.events.iter().map(of));
        let attempts: Vec<i64> = needs.events.iter().map(|event| event.attempt as i64).collect();
        // A table that was never analysed would be searched by the index of the state, through all events that are in it.
        let sql = format!(
            "SELECT {} FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[]) AS w (execution, robot, \
             attempt, state) CROSS JOIN LATERAL (SELECT * FROM entries WHERE tenant = $1 AND execution = w.execution \
             AND robot = w.robot AND attempt = w.attempt AND state || '' = w.state AND attempt IS NOT NULL LIMIT 1) e",
            CURRENT.entry
        );
        let (executions, robots) = (column(|event| &event.execution), column(|event| &event.robot));
        add(
            sql,
            vec![executions, robots, Box::new(attempts), column(|event| event.state.as_str())],
            read_event,
        );
    }
    if !needs.executions.is_empty() {
        let column = |of: fn(&ExecutionKey) -> &str| texts(needs.executions.iter().map(of));
        let sql = format!(
            "SELECT {} FROM unnest($2::text[], $3::text[]) AS w (execution, robot) CROSS JOIN LATERAL \
             (SELECT * FROM entries WHERE tenant = $1 AND execution = w.execution AND robot = w.robot \
             AND attempt IS NOT NULL ORDER BY attempt DESC, seq DESC LIMIT 1) e",
            CURRENT.entry
        );
        add(sql, vec![column(|key| &key.execution), column(|key| &key.robot)], read_last_event);
    }
    if !needs.classes.is_empty() {
        let column = |of: fn(&EntryClass) -> &str| texts(needs.classes.iter().map(of));
        let classes =
            vec![column(|class| &class.robot), column(|class| &class.kind), column(|class| &class.state)];
        add(rows::newest_of("true"), classes, read_newest);
    }
    lookups
}

fn texts<'t>(texts: impl Iterator<Item = &'t str>) -> Value {
    Box::new(texts.map(str::to_owned).collect::<Vec<String>>())
}

fn read_by_id(row: &SqlRow, _: &Head, server: &Server, known: &mut KnownEntries) -> Result<(), LedgerError> {
    let node = read_node(&PostgresRow { row, server })?;
    known.by_id.insert(node.id.as_str().to_owned(), Arc::new(node));
    Ok(())
}

fn read_by_key(row: &SqlRow, _: &Head, server: &Server, known: &mut KnownEntries) -> Result<(), LedgerError> {
    let node = read_node(&PostgresRow { row, server })?;
    if let Some(key) = &node.key {
        known.by_key.insert(key.as_str().to_owned(), Arc::new(node));
    }
    Ok(())
}

fn read_event(
    row: &SqlRow,
    head: &Head,
    server: &Server,
    known: &mut KnownEntries,
) -> Result<(), LedgerError> {
    let row = read_row(row, head, server)?;
    known.events.insert(stored_identity(&row, server)?, row);
    Ok(())
}

fn read_last_event(
    row: &SqlRow,
    head: &Head,
    server: &Server,
    known: &mut KnownEntries,
) -> Result<(), LedgerError> {
    let row = read_row(row, head, server)?;
    let event = stored_identity(&row, server)?;
    known.last_events.insert(event.execution_key(), event);
    Ok(())
}

fn read_newest(row: &SqlRow, _: &Head, server: &Server, known: &mut KnownEntries) -> Result<(), LedgerError> {
    let (class, newest) = rows::newest(row, server)?;
    known.newest.insert(class, newest);
    Ok(())
}

fn read_row(row: &SqlRow, head: &Head, server: &Server) -> Result<EntryRow, LedgerError> {
    read_entry(&PostgresRow { row, server }, &head.tenant_id)
}

/// The identity that an event was found by.
fn stored_identity(row: &EntryRow, server: &Server) -> Result<EventIdentity, LedgerError> {
    row.event_identity().ok_or_else(|| server.damaged_entry(row.entry.seq, not_an_event(row.entry.seq)))
}

/// The values of a column of all rows.
fn column_values(column: &Column, rows: &[EntryRow]) -> Value {
    let rows = rows.iter();
    match column.value {
        ColumnValue::Text(value) => {
            Box::new(rows.map(|row| value(row).map(Cow::into_owned)).collect::<Vec<Option<String>>>())
        }
        ColumnValue::Number(value) => Box::new(rows.map(value).collect::<Vec<Option<i64>>>()),
        ColumnValue::Bytes(value) => {
            Box::new(rows.map(|row| value(row).map(Cow::into_owned)).collect::<Vec<Option<Vec<u8>>>>())
        }
    }
}

/// Writes entries, edges and whole tiles, and moves the head: one statement, so one message to the server.
fn append_query(Addition { rows, edges, tiles, head }: &Addition) -> Query<Value> {
    let (parents, children): (Vec<i64>, Vec<i64>) =
        edges.iter().map(|(parent, child)| (parent.as_i64(), child.as_i64())).unzip();
    let mut values: Vec<Value> = vec![
        Box::new(head.tenant_id.to_string()),
        Box::new(rows.iter().map(|row| row.entry.seq.as_i64()).collect::<Vec<i64>>()),
    ];
    values.extend(ENTRY_COLUMNS.iter().map(|column| column_values(column, rows)));
    let rest: [Value; 9] = [
        Box::new(parents),
        Box::new(children),
        Box::new(tiles.iter().map(|tile| i16::from(tile.level)).collect::<Vec<i16>>()),
        Box::new(tiles.iter().map(|tile| tile.index as i64).collect::<Vec<i64>>()),
        Box::new(tiles.iter().map(|tile| tile.root.as_bytes().to_vec()).collect::<Vec<_>>()),
        Box::new(tiles.iter().map(Tile::to_bytes).collect::<Vec<_>>()),
        Box::new(head.frontier.size() as i64),
        Box::new(head.last_at.get()),
        Box::new(head.frontier.to_bytes()),
    ];
    values.extend(rest);
    let parameters: Vec<String> = (1..=values.len()).map(|number| format!("${number}")).collect();
    Query::new('$', format!("SELECT append({})", parameters.join(", ")), values)
}

impl Transaction for PostgresTransaction<'_> {
    fn locked(&mut self, tenant: &TenantId, leases: &[&Name]) -> Result<(Head, Vec<LeaseRow>), LedgerError> {
        let (head, found) = self.find(tenant, leases)?;
        match head {
            Some(head) => Ok((head, found)),
            None => Ok((self.create_head(tenant, &new_origin(&random_name()?))?, found)),
        }
    }

    /// Two processes may create a tenant's first log at the same time; the second waits, and finds the first one's.
    fn create_head(&mut self, tenant: &TenantId, origin: &str) -> Result<Head, LedgerError> {
        self.session.execute("SELECT open_log($1, $2)", &[&tenant.as_str(), &origin])?;
        let (made, _) = self.find(tenant, &[])?;
        made.ok_or_else(|| {
            self.session.server.damaged(format!("the log of tenant `{tenant}` cannot be made"))
        })
    }

    fn known(&mut self, head: &Head, needs: &NeededEntries) -> Result<KnownEntries, LedgerError> {
        let mut known = KnownEntries::default();
        let (queries, reads): (Vec<_>, Vec<_>) =
            lookups(head, needs).into_iter().map(|Lookup { query, read }| (query, read)).unzip();
        if queries.is_empty() {
            return Ok(known);
        }
        let answers = self.session.query_all(&queries)?;
        for (rows, read) in answers.iter().zip(reads) {
            rows.iter().try_for_each(|row| read(row, head, &self.session.server, &mut known))?;
        }
        let keys: Vec<&str> =
            needs.new_keys.iter().map(String::as_str).filter(|key| known.by_key.contains_key(*key)).collect();
        if !keys.is_empty() {
            self.recorded(head, &keys, &mut known)?;
        }
        Ok(known)
    }

    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError> {
        stored_hashes(self.session, head, level, from, count)
    }

    fn add(&mut self, addition: &Addition) -> Result<(), LedgerError> {
        self.session.defer(append_query(addition))
    }

    fn add_checkpoint(&mut self, head: &Head, checkpoint: &StoredCheckpoint) -> Result<(), LedgerError> {
        let sql = "SELECT keep_checkpoint($1, $2, $3, $4)";
        let StoredCheckpoint { size, root, note } = checkpoint;
        let tenant = head.tenant_id.as_str();
        self.session.execute(sql, &[&tenant, &(*size as i64), &root.as_bytes().as_slice(), note])
    }

    fn lease_time(&mut self) -> Result<Millis, LedgerError> {
        leases::time(self.session)
    }

    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError> {
        leases::find(self.session, tenant, name)
    }

    fn claim_lease(&mut self, tenant: &TenantId, request: &LeaseRequest) -> Result<ClaimResult, LedgerError> {
        leases::claim(self.session, tenant, request)
    }

    fn extend_lease(&mut self, tenant: &TenantId, lease: &LeaseRow) -> Result<(), LedgerError> {
        leases::extend(self.session, tenant, lease)
    }

    fn drop_leases(&mut self, tenant: &TenantId, leases: &[(&Name, LeaseToken)]) -> Result<(), LedgerError> {
        leases::remove(self.session, tenant, leases)
    }

    fn request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
    ) -> Result<Option<AcceptedRequest>, LedgerError> {
        accepted::find(self.session, tenant, name)
    }

    fn open_requests(
        &mut self,
        tenant: &TenantId,
        per_tenant: u64,
        total: u64,
    ) -> Result<(u64, u64), LedgerError> {
        accepted::open(self.session, tenant, per_tenant, total)
    }

    fn put_request(
        &mut self,
        tenant: &TenantId,
        request: &RequestToAccept,
        now: Millis,
    ) -> Result<LeaseToken, LedgerError> {
        accepted::put(self.session, tenant, request, now)
    }

    fn count_request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
        tries: u64,
    ) -> Result<(), LedgerError> {
        accepted::count(self.session, tenant, name, tries)
    }

    fn end_request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
        outcome: &RequestOutcome,
        now: Millis,
    ) -> Result<(), LedgerError> {
        accepted::end(self.session, tenant, name, outcome, now)
    }

    fn drop_requests(&mut self, tenant: &TenantId, names: &[&RequestName]) -> Result<(), LedgerError> {
        names.iter().try_for_each(|name| accepted::remove(self.session, tenant, name))
    }

    fn sweep_requests(&mut self, tenant: &TenantId, before: Millis) -> Result<(), LedgerError> {
        accepted::sweep(self.session, tenant, before)
    }

    fn locked_processes(&mut self) -> Result<Vec<ProcessRow>, LedgerError> {
        processes::locked(self.session)
    }

    fn put_process(&mut self, row: &ProcessRow) -> Result<(), LedgerError> {
        processes::put(self.session, row)
    }

    fn drop_process(&mut self, name: &Name) -> Result<(), LedgerError> {
        processes::remove(self.session, name)
    }

    fn count_subscriptions(&mut self, tenant: &TenantId) -> Result<usize, LedgerError> {
        subscriptions::count(self.session, tenant)
    }

    fn add_subscription(&mut self, tenant: &TenantId, new: &Subscription) -> Result<(), LedgerError> {
        subscriptions::add(self.session, tenant, new)
    }

    fn move_subscription(
        &mut self,
        tenant: &TenantId,
        progress: &SubscriptionProgress,
    ) -> Result<(), LedgerError> {
        subscriptions::advance(self.session, tenant, progress)
    }

    fn remove_subscription(&mut self, tenant: &TenantId, id: &Name) -> Result<(), LedgerError> {
        subscriptions::remove(self.session, tenant, id)
    }
}
