//! The PostgreSQL reader: one read-only snapshot per query, which sees one tenant's rows.

use std::collections::BTreeMap;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::scalar::{LedgerId, Name, RobotId, TenantId};
use crealeph_decision::snapshot::SnapshotType;
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::ToSql;

use super::rows::{self, BY_ID, BY_SEQ, PostgresRow, each, get, hash};
use super::server::Server;
use super::session::{Session, Value};
use super::{VERSION, accepted, audit, leases, subscriptions};
use crate::accepted::{AcceptedRequest, RequestName, RequestToRun};
use crate::columns::{SelectLists, read_entry, read_node, read_raw};
use crate::error::LedgerError;
use crate::lease::LeaseToken;
use crate::merkle::Tile;
use crate::position::{Millis, Seq};
use crate::query::Query;
use crate::read::{EntryIndex, Filter, IS_RECEIPT, StoredCheckpoint};
use crate::row::{EntryRow, LineageNode, Outline, RawEntry};
use crate::store::{
    EntrySelection, Equalities, Head, LastOfClass, LatestEntries, LeaseRow, NO_NEWEST, Neighbours, Reads,
    Side, StrayRow,
};
use crate::subscription::Subscription;

/// The largest payload that is read together with the sequence numbers of entries.
const SMALL_BYTES: usize = 64 << 10;

pub(super) struct PostgresReads<'a> {
    session: &'a mut Session,
    version: u32,
    select: &'static SelectLists,
    head_columns: &'static str,
    /// Entries that were read together with their sequence numbers.
    fetched: BTreeMap<Seq, EntryRow>,
}

impl<'a> PostgresReads<'a> {
    pub(super) fn new(session: &'a mut Session, version: u32) -> Self {
        let (select, head_columns) = rows::layout(version);
        PostgresReads { session, version, select, head_columns, fetched: BTreeMap::new() }
    }

    fn entries(
        &mut self,
        head: &Head,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<EntryRow>, LedgerError> {
        let found = self.session.query(sql, values)?;
        self.read_entries(head, &found)
    }

    fn read_entries(&self, head: &Head, found: &[SqlRow]) -> Result<Vec<EntryRow>, LedgerError> {
        let server = &self.session.server;
        found.iter().map(|row| read_entry(&PostgresRow { row, server }, &head.tenant_id)).collect()
    }

    fn numbers(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<i64>, LedgerError> {
        let found = self.session.query_planned(sql, values)?;
        let server = &self.session.server;
        found.iter().map(|row| row.try_get(0).map_err(|error| server.failure(&error))).collect()
    }

    /// How many rows of a table the tenant has.
    fn count_of(&mut self, head: &Head, sql: &str) -> Result<u64, LedgerError> {
        let counted = self.numbers(sql, &[&head.tenant_id.as_str()])?;
        let count = counted.first().ok_or_else(|| self.session.server.unanswered())?;
        Ok(count.unsigned_abs())
    }

    fn seq(&self, row: &SqlRow) -> Result<Seq, LedgerError> {
        let server = &self.session.server;
        stored_seq(get(row, "seq", server)?, server)
    }

    fn seqs(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Seq>, LedgerError> {
        let numbers = self.numbers(sql, values)?;
        numbers.into_iter().map(|number| stored_seq(number, &self.session.server)).collect()
    }
}

/// The sequence number that a column has.
fn stored_seq(number: i64, server: &Server) -> Result<Seq, LedgerError> {
    Seq::from_i64(number).ok_or_else(|| server.damaged(format!("an entry has the sequence number {number}")))
}

impl Reads for PostgresReads<'_> {
    fn head(&mut self, tenant: &TenantId) -> Result<Option<Head>, LedgerError> {
        let sql = format!("SELECT {} FROM logs WHERE tenant = $1", self.head_columns);
        let found = self.session.query(&sql, &[&tenant.as_str()])?;
        found.first().map(|row| rows::head(row, tenant, &self.session.server)).transpose()
    }

    fn by_seqs(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<EntryRow>, LedgerError> {
        let mut found: Vec<EntryRow> = seqs.iter().filter_map(|seq| self.fetched.get(seq).cloned()).collect();
        let far: Vec<&Seq> = seqs.iter().filter(|seq| !self.fetched.contains_key(seq)).collect();
        if !far.is_empty() {
            let seqs: Vec<i64> = far.into_iter().map(|seq| seq.as_i64()).collect();
            let sql = each(&self.select.entry, "bigint", BY_SEQ);
            found.extend(self.entries(head, &sql, &[&head.tenant_id.as_str(), &seqs])?);
        }
        Ok(found)
    }

    fn outlines(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<Outline>, LedgerError> {
        let mut found: Vec<Outline> =
            seqs.iter().filter_map(|seq| self.fetched.get(seq)).map(Outline::from).collect();
        let far: Vec<i64> =
            seqs.iter().filter(|seq| !self.fetched.contains_key(seq)).map(|seq| seq.as_i64()).collect();
        if !far.is_empty() {
            let columns = "e.seq, e.id, e.created_at, octet_length(e.payload)::bigint AS payload_bytes";
            let sql = each(columns, "bigint", BY_SEQ);
            for row in self.session.query(&sql, &[&head.tenant_id.as_str(), &far])? {
                found.push(rows::outline(&row, &self.session.server)?);
            }
        }
        Ok(found)
    }

    fn by_id(&mut self, head: &Head, id: &LedgerId) -> Result<Option<EntryRow>, LedgerError> {
        let entry = &self.select.entry;
        let sql = format!("SELECT {entry} FROM entries e WHERE e.tenant = $1 AND e.id = $2");
        Ok(self.entries(head, &sql, &[&head.tenant_id.as_str(), &id.as_str()])?.into_iter().next())
    }

    fn by_key(&mut self, head: &Head, key: &str) -> Result<Option<EntryRow>, LedgerError> {
        let entry = &self.select.entry;
        let sql =
            format!("SELECT {entry} FROM entries e WHERE e.tenant = $1 AND e.key = $2 AND e.key IS NOT NULL");
        Ok(self.entries(head, &sql, &[&head.tenant_id.as_str(), &key])?.into_iter().next())
    }

    fn select(&mut self, head: &Head, selection: &EntrySelection<'_>) -> Result<Vec<EntryRow>, LedgerError> {
        let mut query = select(&self.select.entry, head, selection);
        push_order(&mut query, selection);
        let found = self.session.query_built(&query)?;
        self.read_entries(head, &found)
    }

    fn select_seqs(&mut self, head: &Head, selection: &EntrySelection<'_>) -> Result<Vec<Seq>, LedgerError> {
        let mut query = select("e.seq", head, selection);
        push_order(&mut query, selection);
        let found = self.session.query_built(&query)?;
        found.iter().map(|row| self.seq(row)).collect()
    }

    fn merged_seqs(
        &mut self,
        head: &Head,
        robot: &RobotId,
        selection: &EntrySelection<'_>,
        most: usize,
    ) -> Result<Option<Vec<Seq>>, LedgerError> {
        let found = self.session.query_built(&merged_query(head, robot, selection, most))?;
        let server = &self.session.server;
        let row = found.first().ok_or_else(|| server.unanswered())?;
        if get::<i64>(row, "classes", server)? > most as i64 {
            return Ok(None);
        }
        let numbers: Vec<i64> = get(row, "seqs", server)?;
        numbers.into_iter().map(|number| stored_seq(number, server)).collect::<Result<_, _>>().map(Some)
    }

    fn last_of_classes(
        &mut self,
        head: &Head,
        robot: &RobotId,
        most: usize,
    ) -> Result<Vec<LastOfClass>, LedgerError> {
        let mut query = classes_query(head, robot, None, most);
        query.push(
            " SELECT c.kind, found.seq FROM classes c CROSS JOIN LATERAL (SELECT e.seq FROM entries e \
             WHERE e.tenant = $1 AND e.robot = $2 AND e.kind = c.kind AND e.state = c.state AND e.seq <= ",
        );
        query.bind(Box::new(head.last_seq().as_i64()));
        query.push(" ORDER BY e.seq DESC LIMIT 1) found ORDER BY c.number");
        let found = self.session.query_built(&query)?;
        let read =
            |row| Ok(LastOfClass { kind: get(row, "kind", &self.session.server)?, seq: self.seq(row)? });
        found.iter().map(read).collect()
    }

    fn count(&mut self, head: &Head, selection: &EntrySelection<'_>) -> Result<u64, LedgerError> {
        let found = self.session.query_built(&select("count(*)", head, selection))?;
        let server = &self.session.server;
        let row = found.first().ok_or_else(|| server.unanswered())?;
        get::<i64>(row, "count", server).map(i64::unsigned_abs)
    }

    fn draft_after(
        &mut self,
        head: &Head,
        robot: &RobotId,
        newer: usize,
    ) -> Result<Option<Seq>, LedgerError> {
        let sql = "SELECT seq FROM entries WHERE tenant = $1 AND robot = $2 AND state = 'draft' \
                   ORDER BY seq DESC LIMIT 1 OFFSET $3";
        let newer = i64::try_from(newer).unwrap_or(i64::MAX);
        Ok(self.seqs(sql, &[&head.tenant_id.as_str(), &robot.as_str(), &newer])?.into_iter().next())
    }

    fn value_beside(
        &mut self,
        head: &Head,
        column: &'static str,
        among: Equalities<'_>,
        side: Side,
        value: &str,
    ) -> Result<Option<String>, LedgerError> {
        let (than, order) = side.sql();
        let mut query = select_among(column, head, among);
        query.push(&format!(" AND {column} {than} ")).bind(Box::new(value.to_owned()));
        query.push(&format!(" ORDER BY {column} {order} LIMIT 1"));
        let found = self.session.query_built(&query)?;
        found.first().map(|row| get(row, column, &self.session.server)).transpose()
    }

    fn neighbours(
        &mut self,
        head: &Head,
        column: &'static str,
        values: &[&str],
    ) -> Result<Vec<Neighbours>, LedgerError> {
        let beside = |side: Side| {
            let (than, order) = side.sql();
            format!(
                "(SELECT {column} FROM entries WHERE tenant = $1 AND {column} {than} w.value \
                 ORDER BY {column} {order} LIMIT 1)"
            )
        };
        let sql = format!(
            "SELECT {} AS before, {} AS after FROM unnest($2::text[]) WITH ORDINALITY AS w (value, number) \
             ORDER BY w.number",
            beside(Side::Before),
            beside(Side::After)
        );
        let found = self.session.query(&sql, &[&head.tenant_id.as_str(), &values])?;
        let server = &self.session.server;
        found.iter().map(|row| Ok((get(row, "before", server)?, get(row, "after", server)?))).collect()
    }

    fn last_seqs(
        &mut self,
        head: &Head,
        among: Equalities<'_>,
        high: Seq,
        limit: usize,
    ) -> Result<Vec<Seq>, LedgerError> {
        let mut query = select_among("seq", head, among);
        query.push(" AND seq <= ").bind(Box::new(high.as_i64()));
        query.push(" ORDER BY seq DESC LIMIT ").bind(Box::new(limit as i64));
        let found = self.session.query_built(&query)?;
        found.iter().map(|row| self.seq(row)).collect()
    }

    fn latest(
        &mut self,
        head: &Head,
        robot: &RobotId,
        wanted: &[(&'static str, usize)],
        uncounted: &[String],
        high: Seq,
    ) -> Result<Vec<LatestEntries>, LedgerError> {
        let sql = latest_sql(&self.select.entry);
        let kinds: Vec<&str> = wanted.iter().map(|(kind, _)| *kind).collect();
        let most: Vec<i64> = wanted.iter().map(|(_, most)| *most as i64).collect();
        let (tenant, robot, high) = (head.tenant_id.as_str(), robot.as_str(), high.as_i64());
        let found = self.session.query(&sql, &[&tenant, &robot, &kinds, &most, &uncounted, &high])?;
        let server = &self.session.server;
        let mut latest = vec![LatestEntries::default(); wanted.len()];
        for row in found {
            let number: i64 = get(&row, "number", server)?;
            let (is_newest, is_small) = (get(&row, "is_newest", server)?, get(&row, "is_small", server)?);
            let seq = stored_seq(get(&row, "seq", server)?, server)?;
            if let Some(of_kind) = usize::try_from(number - 1).ok().and_then(|number| latest.get_mut(number))
            {
                let list = if is_newest { &mut of_kind.newest } else { &mut of_kind.last };
                list.push(seq);
            }
            if is_small || is_newest {
                self.fetched.insert(seq, read_entry(&PostgresRow { row: &row, server }, &head.tenant_id)?);
            }
        }
        let is_unknown = |(kind, latest): (&(&str, usize), &LatestEntries)| {
            SnapshotType::parse(kind.0).is_some() && latest.newest.is_empty() && !latest.last.is_empty()
        };
        match wanted.iter().zip(&latest).any(is_unknown) {
            true => Err(server.damaged(NO_NEWEST)),
            false => Ok(latest),
        }
    }

    fn check_schema(&self) -> Result<(), LedgerError> {
        match self.version < VERSION {
            true => Err(self.session.server.outdated(self.version)),
            false => Ok(()),
        }
    }

    fn created_at(&mut self, head: &Head, seq: Seq) -> Result<Millis, LedgerError> {
        let sql = "SELECT created_at FROM entries WHERE tenant = $1 AND seq = $2";
        let found = self.numbers(sql, &[&head.tenant_id.as_str(), &seq.as_i64()])?;
        let found = found.first().copied().map(Millis::new);
        found.ok_or_else(|| self.session.server.damaged(format!("entry {seq} is missing")))
    }

    fn nodes(&mut self, head: &Head, ids: &[LedgerId]) -> Result<Vec<LineageNode>, LedgerError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
        let sql = each(&self.select.node, "text", BY_ID);
        let found = self.session.query(&sql, &[&head.tenant_id.as_str(), &ids])?;
        let server = &self.session.server;
        found.iter().map(|row| read_node(&PostgresRow { row, server })).collect()
    }

    fn children(&mut self, head: &Head, seq: Seq, limit: usize) -> Result<Vec<Seq>, LedgerError> {
        let sql = "SELECT child FROM edges WHERE tenant = $1 AND parent = $2 ORDER BY child LIMIT $3";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.seqs(sql, &[&head.tenant_id.as_str(), &seq.as_i64(), &limit])
    }

    fn raw(&mut self, head: &Head, low: Seq, high: Seq) -> Result<Vec<RawEntry>, LedgerError> {
        let entry = &self.select.entry;
        let sql = format!(
            "SELECT {entry} FROM entries e WHERE e.tenant = $1 AND e.seq BETWEEN $2 AND $3 ORDER BY e.seq"
        );
        let values: [&(dyn ToSql + Sync); 3] = [&head.tenant_id.as_str(), &low.as_i64(), &high.as_i64()];
        let found = self.session.query_planned(&sql, &values)?;
        let server = &self.session.server;
        found.iter().map(|row| read_raw(&PostgresRow { row, server }, &head.tenant_id)).collect()
    }

    fn missing_edge(&mut self, head: &Head, edges: &[(Seq, Seq)]) -> Result<Option<(Seq, Seq)>, LedgerError> {
        audit::missing_edge(self.session, head, edges)
    }

    fn edge_count(&mut self, head: &Head) -> Result<u64, LedgerError> {
        self.count_of(head, "SELECT count(*) FROM edges WHERE tenant = $1")
    }

    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError> {
        stored_hashes(self.session, head, level, from, count)
    }

    fn tile(&mut self, head: &Head, level: u8, index: u64) -> Result<Option<Tile>, LedgerError> {
        let sql = "SELECT root, hashes FROM tiles WHERE tenant = $1 AND level = $2 AND number = $3";
        let values: [&(dyn ToSql + Sync); 3] = [&head.tenant_id.as_str(), &i16::from(level), &(index as i64)];
        let found = self.session.query(sql, &values)?;
        let Some(row) = found.first() else { return Ok(None) };
        let (root, hashes) =
            (get(row, "root", &self.session.server)?, get(row, "hashes", &self.session.server)?);
        let tile = Tile::from_bytes(level, index, root, hashes);
        let cut =
            || self.session.server.damaged(format!("tile {level}/{index} of `{}` is cut", head.tenant_id));
        tile.map(Some).ok_or_else(cut)
    }

    fn tile_count(&mut self, head: &Head) -> Result<u64, LedgerError> {
        self.count_of(head, "SELECT count(*) FROM tiles WHERE tenant = $1")
    }

    fn stray_row(&mut self, head: &Head) -> Result<Option<StrayRow>, LedgerError> {
        audit::stray_row(self.session, head)
    }

    fn schema_difference(&mut self) -> Result<Option<String>, LedgerError> {
        audit::schema_difference(self.session)
    }

    fn index_difference(&mut self) -> Result<Option<String>, LedgerError> {
        audit::index_difference(self.session)
    }

    fn unchecked(&mut self) -> Result<Option<String>, LedgerError> {
        audit::unchecked(self.session)
    }

    fn checkpoints(&mut self, head: &Head) -> Result<Vec<StoredCheckpoint>, LedgerError> {
        let sql =
            "SELECT size, root, note FROM checkpoints WHERE tenant = $1 ORDER BY size, note COLLATE \"C\"";
        let found = self.session.query(sql, &[&head.tenant_id.as_str()])?;
        let server = &self.session.server;
        let read = |row: &SqlRow| {
            let size = u64::try_from(get::<i64>(row, "size", server)?)
                .map_err(|_| server.damaged(format!("a checkpoint of `{}` is cut", head.tenant_id)))?;
            Ok(StoredCheckpoint { size, root: hash(row, "root", server)?, note: get(row, "note", server)? })
        };
        found.iter().map(read).collect()
    }

    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError> {
        leases::find(self.session, tenant, name)
    }

    fn lease_time(&mut self) -> Result<Millis, LedgerError> {
        leases::time(self.session)
    }

    fn request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
    ) -> Result<Option<AcceptedRequest>, LedgerError> {
        accepted::find(self.session, tenant, name)
    }

    fn requests(
        &mut self,
        tenant: &TenantId,
        robot: Option<&RobotId>,
        after: Option<LeaseToken>,
        limit: usize,
    ) -> Result<Vec<AcceptedRequest>, LedgerError> {
        accepted::list(self.session, tenant, robot, after, limit)
    }

    fn waiting_request(
        &mut self,
        tenant: &TenantId,
        after: Option<LeaseToken>,
    ) -> Result<Option<RequestToRun>, LedgerError> {
        accepted::waiting(self.session, tenant, after)
    }

    fn tenant_with_work(
        &mut self,
        after: &str,
        ended_before: Millis,
    ) -> Result<Option<TenantId>, LedgerError> {
        accepted::tenant_with_work(self.session, after, ended_before)
    }

    fn subscriptions(&mut self, tenant: &TenantId) -> Result<Vec<Subscription>, LedgerError> {
        subscriptions::list(self.session, tenant)
    }

    fn subscribed_tenants(&mut self) -> Result<Vec<TenantId>, LedgerError> {
        subscriptions::tenants(self.session)
    }
}

/// The statement of [`Reads::latest`]. The states of a type are found by jumps in the index, as `state_after` does. Small
/// entries are read with it, because they are needed next. A large one is not, since it may be beyond a snapshot's limit.
fn latest_sql(entry: &str) -> String {
    let is_small = format!("octet_length(e.payload) <= {SMALL_BYTES}");
    let payload = format!("CASE WHEN {is_small} OR found.is_newest THEN e.payload ELSE '' END AS payload");
    let entry = entry.replace("e.payload", &payload);
    let of_state = "FROM entries WHERE tenant = $1 AND robot = $2 AND kind = w.kind AND state = states.state \
                    AND seq <= $6 ORDER BY seq DESC LIMIT";
    format!(
        "SELECT {entry}, w.number, found.is_newest, {is_small} AS is_small \
         FROM unnest($3::text[], $4::bigint[]) WITH ORDINALITY AS w (kind, most, number) \
         CROSS JOIN LATERAL (WITH RECURSIVE states AS ( \
             (SELECT state FROM entries WHERE tenant = $1 AND robot = $2 AND kind = w.kind \
              ORDER BY state LIMIT 1) \
             UNION ALL SELECT (SELECT state FROM entries WHERE tenant = $1 AND robot = $2 AND kind = w.kind \
              AND state > states.state ORDER BY state LIMIT 1) FROM states WHERE states.state IS NOT NULL) \
           (SELECT last.seq, false AS is_newest FROM states CROSS JOIN LATERAL (SELECT seq {of_state} w.most) last \
            WHERE states.state <> ALL ($5) ORDER BY last.seq DESC LIMIT w.most) \
           UNION ALL (SELECT last.newest, true FROM states CROSS JOIN LATERAL (SELECT newest {of_state} 1) last \
            WHERE states.state <> ALL ($5))) found \
         CROSS JOIN LATERAL (SELECT * FROM entries WHERE tenant = $1 AND seq = found.seq LIMIT 1) e \
         ORDER BY w.number, found.is_newest, e.seq DESC"
    )
}

/// The sequence number as a query selects it. An execution has few entries, but before a table is analysed the planner
/// expects a range of sequence numbers to be smaller and reads all of it: expressions keep it on the right index.
fn seq_of(selection: &EntrySelection<'_>) -> &'static str {
    if selection.index == EntryIndex::Execution { "e.seq + 0" } else { "e.seq" }
}

/// Selects a column of the entries that have these values.
fn select_among(column: &str, head: &Head, among: Equalities<'_>) -> Query<Value> {
    let sql = format!("SELECT {column} FROM entries WHERE tenant = $1");
    let mut query = Query::new('$', sql, vec![Box::new(head.tenant_id.to_string()) as Value]);
    for (column, value) in among {
        query.push(&format!(" AND {column} = ")).bind(Box::new((*value).to_owned()));
    }
    query
}

/// The order of a selection, and how many of it.
fn push_order(query: &mut Query<Value>, selection: &EntrySelection<'_>) {
    let direction = if selection.newest_first { "DESC" } else { "ASC" };
    query.push(&format!(" ORDER BY {} {direction} LIMIT ", seq_of(selection)));
    query.bind(Box::new(selection.limit as i64));
}

/// The types and states of a robot (of one type, if it is given) as the table `classes`, numbered from 1, at most `most` of
/// them: each step jumps in the index, however many entries there are. The first parameters are the tenant and the robot.
fn classes_query(head: &Head, robot: &RobotId, kind: Option<&Name>, most: usize) -> Query<Value> {
    let values: Vec<Value> =
        vec![Box::new(head.tenant_id.to_string()), Box::new(robot.to_string()), Box::new(most as i64)];
    let mut query = Query::new('$', "", values);
    let of_kind = match kind {
        Some(kind) => {
            query.values.push(Box::new(kind.to_string()));
            format!(" AND kind = ${}", query.values.len())
        }
        None => String::new(),
    };
    let robot = format!("FROM entries WHERE tenant = $1 AND robot = $2{of_kind}");
    query.push(&format!(
        "WITH RECURSIVE classes AS ( \
           (SELECT 1::bigint AS number, kind, state {robot} ORDER BY kind, state LIMIT 1) \
           UNION ALL SELECT classes.number + 1, next.kind, next.state FROM classes CROSS JOIN LATERAL ( \
             SELECT kind, state {robot} AND (kind, state) > (classes.kind, classes.state) \
             ORDER BY kind, state LIMIT 1) next WHERE classes.number < $3)"
    ));
    query
}

/// How many types and states a robot has, counted up to one more than `most`, and the first entries of a selection in all of
/// them; no entry is looked up if there are more.
fn merged_query(head: &Head, robot: &RobotId, selection: &EntrySelection<'_>, most: usize) -> Query<Value> {
    let Filter { kind, state, .. } = selection.filter;
    let mut query = classes_query(head, robot, kind.as_ref(), most.saturating_add(1));
    query.push(
        " SELECT (SELECT count(*) FROM classes) AS classes, ARRAY(SELECT found.seq FROM classes c \
         CROSS JOIN LATERAL (SELECT e.seq FROM entries e \
         WHERE e.tenant = $1 AND e.robot = $2 AND e.kind = c.kind AND e.state = c.state",
    );
    if let Some(state) = state {
        query.push(" AND c.state = ").bind(Box::new(state.to_string()));
    }
    query.push(" AND e.seq BETWEEN ").bind(Box::new(selection.low.as_i64()));
    query.push(" AND ").bind(Box::new(selection.high.as_i64()));
    push_conditions(&mut query, selection);
    push_order(&mut query, selection);
    query.push(") found WHERE (SELECT count(*) FROM classes) <= ").bind(Box::new(most as i64));
    let direction = if selection.newest_first { "DESC" } else { "ASC" };
    query.push(&format!(" ORDER BY found.seq {direction} LIMIT ")).bind(Box::new(selection.limit as i64));
    query.push(") AS seqs");
    query
}

/// Selects columns of the entries of a filter and range.
fn select(columns: &str, head: &Head, selection: &EntrySelection<'_>) -> Query<Value> {
    let values: Vec<Value> = vec![
        Box::new(head.tenant_id.to_string()),
        Box::new(selection.low.as_i64()),
        Box::new(selection.high.as_i64()),
    ];
    let seq = seq_of(selection);
    let sql = format!("SELECT {columns} FROM entries e WHERE e.tenant = $1 AND {seq} BETWEEN $2 AND $3");
    let mut query = Query::new('$', sql, values);
    push_conditions(&mut query, selection);
    query
}

/// What a filter demands of an entry `e`.
fn push_conditions(query: &mut Query<Value>, selection: &EntrySelection<'_>) {
    match selection.index {
        EntryIndex::Events => _ = query.push(" AND e.attempt IS NOT NULL"),
        EntryIndex::Drafts => _ = query.push(" AND e.state = 'draft'"),
        EntryIndex::Receipts => _ = query.push(" AND e.").push(IS_RECEIPT),
        _ => {}
    }
    for (column, value) in selection.equalities() {
        let is_kept_off_indexes = selection.index == EntryIndex::Execution && column != "execution";
        let expression = if is_kept_off_indexes { " || ''" } else { "" };
        query.push(&format!(" AND e.{column}{expression} = ")).bind(Box::new(value.to_owned()));
    }
    for kind in &selection.filter.without_children {
        query.push(
            " AND NOT EXISTS (SELECT FROM edges g JOIN entries c ON c.tenant = g.tenant AND c.seq = g.child \
             WHERE g.tenant = $1 AND g.parent = e.seq AND c.kind = ",
        );
        query.bind(Box::new(kind.to_string())).push(")");
    }
}

/// Leaf hashes (level 0) or roots of whole tiles of the level below, `count` of them from `from`.
pub(super) fn stored_hashes(
    session: &mut Session,
    head: &Head,
    level: u8,
    from: u64,
    count: u64,
) -> Result<Vec<Sha256>, LedgerError> {
    let tenant = head.tenant_id.as_str();
    let found = match level.checked_sub(1) {
        None => {
            let sql =
                "SELECT leaf AS hash FROM entries WHERE tenant = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq";
            session.query_planned(sql, &[&tenant, &(from as i64 + 1), &((from + count) as i64)])?
        }
        Some(below) => {
            let sql = "SELECT root AS hash FROM tiles WHERE tenant = $1 AND level = $2 AND number BETWEEN $3 AND $4 \
                       ORDER BY number";
            let last = (from + count) as i64 - 1;
            session.query_planned(sql, &[&tenant, &i16::from(below), &(from as i64), &last])?
        }
    };
    if found.len() as u64 != count {
        return Err(session.server.damaged(format!("hashes of the log of `{tenant}` are missing")));
    }
    found.iter().map(|row| hash(row, "hash", &session.server)).collect()
}
