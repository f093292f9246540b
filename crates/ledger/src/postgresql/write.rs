//! The PostgreSQL writer: one transaction per tenant, sequenced by the lock on the tenant's log; bounded retries of what
//! goes away by itself; and a clear word where the answer to a commit was lost.

use std::collections::BTreeSet;
use std::time::Duration;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::log_rules::new_origin;
use crealeph_contracts::scalar::{LedgerId, Name, TenantId};
use postgres::types::ToSql;

use super::leases;
use super::notice::Notices;
use super::read::stored_hashes;
use super::rows::{self, BY_ID, BY_KEY, ENTRY, HEAD, STEP, STEP_KEY, each};
use super::session::{Ask, Server, Session, Uncommitted, Use, Value};
use crate::entry::{Content, ids_text};
use crate::error::LedgerError;
use crate::identity::random_name;
use crate::lease::Token;
use crate::merkle::Tile;
use crate::position::{Millis, Seq};
use crate::read::StoredCheckpoint;
use crate::store::{
    Addition, Claimed, Class, EventIdentity, Head, Known, LeaseRow, Needs, Row, Transaction, Unwritten,
    Wanted, Work, Writer,
};

/// How often a transaction is run again at most.
const MAX_TRIES: usize = 10;
/// How long to wait before a connection is tried again, at first and at most.
const RECONNECT_MS: (u64, u64) = (10, 500);

/// Writes entries, edges and whole tiles, and moves the head: one statement, so one message to the server.
const ADD: &str = "SELECT append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, \
    $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34)";

pub(super) struct PostgresWriter {
    pub(super) server: Server,
    pub(super) session: Option<Session>,
    pub(super) notices: Notices,
}

impl PostgresWriter {
    /// The connection; a lost one is made again, for as long as may be waited.
    fn session(&mut self) -> Result<&mut Session, LedgerError> {
        if self.session.as_ref().is_some_and(Session::is_closed) {
            self.session = None;
        }
        if self.session.is_none() {
            let (mut pause_ms, most_ms) = RECONNECT_MS;
            let mut waited_ms = 0;
            let mut connected = self.server.connect(Use::Writing);
            while waited_ms < self.server.wait_ms && is_down(&connected) {
                std::thread::sleep(Duration::from_millis(pause_ms));
                waited_ms += pause_ms;
                pause_ms = (pause_ms * 2).min(most_ms);
                connected = self.server.connect(Use::Writing);
            }
            self.session = Some(connected?);
        }
        self.session.as_mut().ok_or(LedgerError::Closed)
    }

    /// Runs the work once. The answer's inner error is one that may go away by itself.
    fn attempt(
        &mut self,
        tenant: Option<&TenantId>,
        work: Work<'_>,
    ) -> Result<Result<(), LedgerError>, Unwritten> {
        let session = self.session().map_err(Unwritten::Nothing)?;
        session.can_retry = false;
        session.begin_writing(tenant);
        let done = work(&mut InPostgres { session }).map_err(Uncommitted::Failed);
        let can_retry = session.can_retry;
        match done.and_then(|()| session.commit()) {
            Ok(()) => Ok(Ok(())),
            Err(Uncommitted::Unknown(error)) => {
                self.session = None;
                Err(Unwritten::Unknown(error))
            }
            Err(Uncommitted::Failed(error)) => {
                let can_retry = can_retry || session.can_retry;
                if session.is_closed() || session.run("ROLLBACK").is_err() {
                    self.session = None;
                }
                if can_retry { Ok(Err(error)) } else { Err(Unwritten::Nothing(error)) }
            }
        }
    }
}

/// Whether waiting may help; who is not trusted or not let in will not be later.
fn is_down(connected: &Result<Session, LedgerError>) -> bool {
    matches!(connected, Err(LedgerError::Failed { .. }))
}

impl Writer for PostgresWriter {
    /// Holders on other machines outlive this server, so leases are as durable as entries.
    fn transact(&mut self, tenant: Option<&TenantId>, _: bool, work: Work<'_>) -> Result<(), Unwritten> {
        let mut last = LedgerError::Closed;
        for _ in 0..MAX_TRIES {
            match self.attempt(tenant, work)? {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(Unwritten::Nothing(last))
    }

    fn spans_tenants(&self) -> bool {
        false
    }

    fn is_far(&self) -> bool {
        true
    }

    /// Sent by another thread on another connection, many at once as one: a notification inside the commit would make
    /// all commits of the database wait for each other.
    fn announce(&mut self, _: &[TenantId]) {
        self.notices.announce();
    }
}

struct InPostgres<'a> {
    session: &'a mut Session,
}

impl InPostgres<'_> {
    fn rows(
        &mut self,
        head: &Head,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, LedgerError> {
        let found = self.session.query(sql, values)?;
        found.iter().map(|row| rows::entry(row, &head.tenant_id, &self.session.server)).collect()
    }

    /// The log, locked, and the leases of these names, in one message.
    fn find(
        &mut self,
        tenant: &TenantId,
        leases: &[&Name],
    ) -> Result<(Option<Head>, Vec<LeaseRow>), LedgerError> {
        let names: Vec<&str> = leases.iter().map(|name| name.as_str()).collect();
        let head_sql = format!("SELECT {HEAD} FROM logs WHERE tenant = $1 FOR UPDATE");
        let leases_sql = "SELECT l.name, l.holder, l.token, l.until, l.ttl FROM unnest($2::text[]) AS w (name) \
                          CROSS JOIN LATERAL (SELECT * FROM leases WHERE tenant = $1 AND name = w.name LIMIT 1 \
                          FOR UPDATE) l";
        let tenant_text = tenant.as_str();
        let head_values: [&(dyn ToSql + Sync); 1] = [&tenant_text];
        let leases_values: [&(dyn ToSql + Sync); 2] = [&tenant_text, &names];
        let asks: [Ask<'_>; 2] = [(&head_sql, &head_values), (leases_sql, &leases_values)];
        let asks = if leases.is_empty() { &asks[..1] } else { &asks };
        let answers = self.session.locks_itself().query_all(asks)?;
        let server = &self.session.server;
        let mut answers = answers.into_iter();
        let head = answers.next().unwrap_or_default();
        let head = head.first().map(|row| rows::head(row, tenant, server)).transpose()?;
        let found = answers.next().unwrap_or_default();
        Ok((head, found.iter().map(|row| leases::read(row, server)).collect::<Result<_, _>>()?))
    }

    /// Asks for all that is needed in one message.
    fn find_known(&mut self, head: &Head, needs: &Needs) -> Result<Known, LedgerError> {
        let tenant = head.tenant_id.as_str();
        let texts = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<String>>();
        let ids = texts(&needs.ids);
        // A key that is to be written is seldom there, so the whole entry is asked for only where it is.
        let keys: Vec<&str> = needs.key_steps.union(&needs.keys).map(String::as_str).collect();
        let column = |of: fn(&EventIdentity) -> &str| needs.events.iter().map(of).collect::<Vec<&str>>();
        let executions = column(|event| &event.execution);
        let robots = column(|event| &event.robot);
        let states = column(|event| &event.state);
        let attempts: Vec<i64> = needs.events.iter().map(|event| event.attempt as i64).collect();
        let own_executions: Vec<&str> =
            needs.executions.iter().map(|(execution, _)| execution.as_str()).collect();
        let own_robots: Vec<&str> = needs.executions.iter().map(|(_, robot)| robot.as_str()).collect();
        let (by_id, by_key) = (each(STEP, "text", BY_ID), each(STEP, "text", BY_KEY));
        let events = format!(
            "SELECT {ENTRY} FROM unnest($2::text[], $3::text[], $4::bigint[], $5::text[]) AS w (execution, robot, \
             attempt, state) CROSS JOIN LATERAL (SELECT * FROM entries WHERE tenant = $1 AND execution = w.execution \
             AND robot = w.robot AND attempt = w.attempt AND state = w.state AND attempt IS NOT NULL LIMIT 1) e"
        );
        let last_events = format!(
            "SELECT {ENTRY} FROM unnest($2::text[], $3::text[]) AS w (execution, robot) CROSS JOIN LATERAL \
             (SELECT * FROM entries WHERE tenant = $1 AND execution = w.execution AND robot = w.robot \
             AND attempt IS NOT NULL ORDER BY attempt DESC, seq DESC LIMIT 1) e"
        );
        let id_values: [&(dyn ToSql + Sync); 2] = [&tenant, &ids];
        let key_values: [&(dyn ToSql + Sync); 2] = [&tenant, &keys];
        let event_values: [&(dyn ToSql + Sync); 5] = [&tenant, &executions, &robots, &attempts, &states];
        let last_values: [&(dyn ToSql + Sync); 3] = [&tenant, &own_executions, &own_robots];
        let class = |of: fn(&Class) -> &str| needs.classes.iter().map(of).collect::<Vec<&str>>();
        let (robots, kinds, states) =
            (class(|class| &class.robot), class(|class| &class.kind), class(|class| &class.state));
        let newest = rows::newest_of("true");
        let class_values: [&(dyn ToSql + Sync); 4] = [&tenant, &robots, &kinds, &states];
        let all: [(bool, Ask<'_>); 5] = [
            (!ids.is_empty(), (&by_id, &id_values)),
            (!keys.is_empty(), (&by_key, &key_values)),
            (!executions.is_empty(), (&events, &event_values)),
            (!own_executions.is_empty(), (&last_events, &last_values)),
            (!kinds.is_empty(), (&newest, &class_values)),
        ];
        let asks: Vec<Ask<'_>> = all.iter().filter(|(is_asked, _)| *is_asked).map(|(_, ask)| *ask).collect();
        let mut known = Known::default();
        if asks.is_empty() {
            return Ok(known);
        }
        let mut answers = self.session.query_all(&asks)?.into_iter();
        let mut next = |is_asked| if is_asked { answers.next().unwrap_or_default() } else { Vec::new() };
        let server = &self.session.server;
        for row in next(!ids.is_empty()) {
            let step = rows::step(&row, server)?;
            known.steps.insert(step.id.as_str().to_owned(), step);
        }
        for row in next(!keys.is_empty()) {
            let key: String = row.try_get(STEP_KEY).map_err(|error| server.failure(&error))?;
            known.key_steps.insert(key, rows::step(&row, server)?);
        }
        for row in next(!executions.is_empty()) {
            let row = rows::entry(&row, &head.tenant_id, server)?;
            let event = EventIdentity {
                execution: row.execution.clone().unwrap_or_default(),
                robot: row.stored.content.robot_id.as_str().to_owned(),
                attempt: row.attempt.unwrap_or_default(),
                state: row.stored.content.state.as_str().to_owned(),
            };
            known.events.insert(event, row);
        }
        for row in next(!own_executions.is_empty()) {
            let row = rows::entry(&row, &head.tenant_id, server)?;
            let execution = row.execution.clone().unwrap_or_default();
            let robot = row.stored.content.robot_id.as_str().to_owned();
            known.last_events.insert((execution, robot), row);
        }
        for row in next(!kinds.is_empty()) {
            let (class, newest) = rows::newest(&row, server)?;
            known.newest.insert(class, newest);
        }
        let keys: Vec<&str> =
            needs.keys.iter().map(String::as_str).filter(|key| known.key_steps.contains_key(*key)).collect();
        if !keys.is_empty() {
            for row in self.rows(head, &each(ENTRY, "text", BY_KEY), &[&tenant, &keys])? {
                let key = row.stored.content.key.as_ref().map(|key| key.as_str().to_owned());
                known.keys.insert(key.unwrap_or_default(), row);
            }
        }
        Ok(known)
    }

    fn insert(&mut self, addition: &Addition) -> Result<(), LedgerError> {
        let stored = || addition.rows.iter().map(|row| &row.stored);
        let content = || stored().map(|stored| &stored.content);
        let texts = |of: fn(&Content) -> &str| -> Value {
            Box::new(content().map(|content| of(content).to_owned()).collect::<Vec<String>>())
        };
        let perhaps = |of: fn(&Content) -> Option<&str>| -> Value {
            Box::new(content().map(|content| of(content).map(str::to_owned)).collect::<Vec<Option<String>>>())
        };
        let (parents, children): (Vec<i64>, Vec<i64>) =
            addition.edges.iter().map(|(parent, child)| (parent.as_i64(), child.as_i64())).unzip();
        let head = &addition.head;
        let mut values: Vec<Value> = vec![
            Box::new(head.tenant_id.to_string()),
            Box::new(stored().map(|stored| stored.seq.as_i64()).collect::<Vec<i64>>()),
            Box::new(stored().map(|stored| stored.id.to_string()).collect::<Vec<String>>()),
            texts(|content| content.robot_id.as_str()),
            texts(|content| content.module.as_str()),
            texts(|content| content.source.as_str()),
            texts(|content| content.kind.as_str()),
            texts(|content| content.state.as_str()),
            Box::new(stored().map(|stored| stored.created_at.get()).collect::<Vec<i64>>()),
            perhaps(|content| content.observed_at.as_ref().map(|at| at.as_str())),
            perhaps(|content| content.key.as_ref().map(|key| key.as_str())),
            Box::new(addition.rows.iter().map(|row| row.execution.clone()).collect::<Vec<_>>()),
            Box::new(
                addition.rows.iter().map(|row| row.attempt.map(|attempt| attempt as i64)).collect::<Vec<_>>(),
            ),
            perhaps(|content| content.rerun_of.as_ref().map(|id| id.as_str())),
            Box::new(addition.rows.iter().map(|row| row.leaf.as_bytes().to_vec()).collect::<Vec<_>>()),
        ];
        let mut reach: [Vec<Option<i64>>; 6] = Default::default();
        for row in &addition.rows {
            for (column, value) in reach.iter_mut().zip(row.reach.columns()) {
                column.push(value);
            }
        }
        values.extend(reach.into_iter().map(|column| Box::new(column) as Value));
        let rest: [Value; 13] = [
            Box::new(content().map(|content| ids_text(&content.depends_on)).collect::<Vec<String>>()),
            texts(|content| &content.payload),
            Box::new(addition.rows.iter().map(|row| row.newest.map(Seq::as_i64)).collect::<Vec<_>>()),
            Box::new(addition.rows.iter().map(|row| row.used.to_bytes()).collect::<Vec<_>>()),
            Box::new(parents),
            Box::new(children),
            Box::new(addition.tiles.iter().map(|tile| i16::from(tile.level)).collect::<Vec<i16>>()),
            Box::new(addition.tiles.iter().map(|tile| tile.index as i64).collect::<Vec<i64>>()),
            Box::new(addition.tiles.iter().map(|tile| tile.root.as_bytes().to_vec()).collect::<Vec<_>>()),
            Box::new(addition.tiles.iter().map(Tile::to_bytes).collect::<Vec<_>>()),
            Box::new(head.frontier.size() as i64),
            Box::new(head.last_at.get()),
            Box::new(head.frontier.to_bytes()),
        ];
        values.extend(rest);
        self.session.execute_later(ADD, values)
    }
}

impl Transaction for InPostgres<'_> {
    fn locked(&mut self, tenant: &TenantId, leases: &[&Name]) -> Result<(Head, Vec<LeaseRow>), LedgerError> {
        let (head, found) = self.find(tenant, leases)?;
        match head {
            Some(head) => Ok((head, found)),
            None => Ok((self.create_head(tenant, &new_origin(&random_name()?))?, found)),
        }
    }

    /// Two processes may make a tenant's first log at once; the second waits, and finds the first one's.
    fn create_head(&mut self, tenant: &TenantId, origin: &str) -> Result<Head, LedgerError> {
        self.session.execute("SELECT open_log($1, $2)", &[&tenant.as_str(), &origin])?;
        let (made, _) = self.find(tenant, &[])?;
        made.ok_or_else(|| {
            self.session.server.damaged(format!("the log of tenant `{tenant}` cannot be made"))
        })
    }

    fn known(&mut self, head: &Head, needs: &Needs) -> Result<Known, LedgerError> {
        self.find_known(head, needs)
    }

    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError> {
        stored_hashes(self.session, head, level, from, count)
    }

    fn add(&mut self, addition: &Addition) -> Result<(), LedgerError> {
        self.insert(addition)
    }

    fn add_checkpoint(&mut self, head: &Head, checkpoint: &StoredCheckpoint) -> Result<(), LedgerError> {
        let sql = "SELECT keep_checkpoint($1, $2, $3, $4)";
        let StoredCheckpoint { size, root, note } = checkpoint;
        let tenant = head.tenant_id.as_str();
        self.session.execute(sql, &[&tenant, &(*size as i64), &root.as_bytes().as_slice(), note])
    }

    fn holds(&mut self, head: &Head, id: &LedgerId) -> Result<bool, LedgerError> {
        let sql = "SELECT 1 FROM entries WHERE tenant = $1 AND id = $2";
        Ok(!self.session.query(sql, &[&head.tenant_id.as_str(), &id.as_str()])?.is_empty())
    }

    fn lease_time(&mut self) -> Result<Millis, LedgerError> {
        leases::time(self.session)
    }

    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError> {
        leases::find(self.session, tenant, name)
    }

    fn claim_lease(&mut self, tenant: &TenantId, wanted: &Wanted) -> Result<Claimed, LedgerError> {
        leases::claim(self.session, tenant, wanted)
    }

    fn extend_lease(&mut self, tenant: &TenantId, lease: &LeaseRow) -> Result<(), LedgerError> {
        leases::extend(self.session, tenant, lease)
    }

    fn drop_leases(&mut self, tenant: &TenantId, leases: &[(&Name, Token)]) -> Result<(), LedgerError> {
        leases::remove(self.session, tenant, leases)
    }
}
