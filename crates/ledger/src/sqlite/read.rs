//! The SQLite reader: one read transaction per query, every entry checked against its leaf hash.

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::scalar::{LedgerId, Name, RobotId, TenantId};
use crealeph_decision::snapshot::SnapshotType;
use rusqlite::types::{ToSql, Value};
use rusqlite::{Connection, params, params_from_iter};

use super::accepted::StoredRequests;
use super::audit;
use super::boot;
use super::failure::{InFile as _, LedgerFile};
use super::leases::TenantLeases;
use super::rows::{self, SqliteRow, row_id, seq_of};
use super::schema::VERSION;
use super::subscriptions;
use crate::accepted::{AcceptedRequest, RequestName, RequestToRun};
use crate::columns::{SelectLists, read_entry, read_node, read_raw};
use crate::error::LedgerError;
use crate::lease::LeaseToken;
use crate::merge::merge_first;
use crate::merkle::Tile;
use crate::position::{Millis, Seq};
use crate::query::Query;
use crate::read::{EntryIndex, Filter, IS_RECEIPT, StoredCheckpoint};
use crate::row::{EntryRow, LineageNode, Outline, RawEntry};
use crate::store::{
    EntrySelection, Equalities, Head, LastOfClass, LatestEntries, LeaseRow, NO_NEWEST, Reads, Side, StrayRow,
};
use crate::subscription::Subscription;

pub(super) struct SqliteReads<'a> {
    connection: &'a Connection,
    place: &'a LedgerFile,
    /// The schema version of the file.
    version: u32,
    select: &'static SelectLists,
    head_columns: &'static str,
}

impl<'a> SqliteReads<'a> {
    pub(super) fn new(connection: &'a Connection, place: &'a LedgerFile, version: u32) -> SqliteReads<'a> {
        let (select, head_columns) = rows::layout(version);
        SqliteReads { connection, place, version, select, head_columns }
    }

    fn stored_requests(&self) -> StoredRequests<'_> {
        StoredRequests { connection: self.connection, place: self.place }
    }

    /// Runs a query and reads each row with `read`.
    fn all<T>(
        &self,
        sql: &str,
        values: impl rusqlite::Params,
        mut read: impl FnMut(&rusqlite::Row<'_>) -> Result<T, LedgerError>,
    ) -> Result<Vec<T>, LedgerError> {
        let mut statement = self.connection.prepare_cached(sql).in_file(self.place)?;
        let mut found = statement.query(values).in_file(self.place)?;
        let mut all = Vec::new();
        while let Some(row) = found.next().in_file(self.place)? {
            all.push(read(row)?);
        }
        Ok(all)
    }

    fn entries(
        &self,
        head: &Head,
        sql: &str,
        values: impl rusqlite::Params,
    ) -> Result<Vec<EntryRow>, LedgerError> {
        self.all(sql, values, |row| read_entry(&SqliteRow { row, place: self.place }, &head.tenant_id))
    }

    /// The effective newest, at or before a sequence number, of a class of entries.
    fn newest(&self, head: &Head, class: Equalities<'_>, high: Seq) -> Result<Option<Seq>, LedgerError> {
        let sql = select_among("newest", class, &[" AND place <= ? ORDER BY place DESC LIMIT 1"]);
        let found = self.all(&sql, &*values_among(head, class, &[&row_id(head, high)]), |row| {
            let newest: Option<i64> = row.get(0).in_file(self.place)?;
            newest.and_then(Seq::from_i64).ok_or_else(|| self.place.damaged(NO_NEWEST))
        })?;
        Ok(found.into_iter().next())
    }

    /// The types and states of a robot (of one type, if it is given), in their order; at most `most`.
    fn classes(
        &self,
        head: &Head,
        robot: &RobotId,
        kind: Option<&Name>,
        most: usize,
    ) -> Result<Vec<(String, String)>, LedgerError> {
        let sql = "SELECT kind, state FROM entries WHERE log = ?1 AND robot = ?2 AND (kind, state) > (?3, ?4) \
                   ORDER BY kind, state LIMIT 1";
        let read = |row: &rusqlite::Row<'_>| <(String, String)>::try_from(row).in_file(self.place);
        // No state is empty, so this is before the first one of the type.
        let mut at = (kind.map_or("", |kind| kind.as_str()).to_owned(), String::new());
        let mut classes = Vec::new();
        while classes.len() < most {
            let next = self.all(sql, params![head.number, robot.as_str(), at.0, at.1], read)?;
            let Some(class) = next.into_iter().next() else { break };
            if kind.is_some_and(|kind| kind.as_str() != class.0) {
                break;
            }
            at.clone_from(&class);
            classes.push(class);
        }
        Ok(classes)
    }

    /// The first entries of a selection that are of a type and in a state.
    fn seqs_of_class(
        &mut self,
        head: &Head,
        selection: &EntrySelection<'_>,
        (kind, state): &(String, String),
    ) -> Result<Vec<Seq>, LedgerError> {
        let name = |text: &str| {
            Name::parse(text).map_err(|_| self.place.damaged(format!("`{text}` is no type or state")))
        };
        let filter =
            Filter { kind: Some(name(kind)?), state: Some(name(state)?), ..selection.filter.clone() };
        let index = EntryIndex::Class;
        self.select_seqs(head, &EntrySelection { filter: &filter, index, ..selection.clone() })
    }

    fn seqs(&self, sql: &str, values: impl rusqlite::Params) -> Result<Vec<Seq>, LedgerError> {
        self.all(sql, values, |row| {
            let row_id: i64 = row.get(0).in_file(self.place)?;
            seq_of(row_id).ok_or_else(|| self.place.damaged(format!("row {row_id} has no sequence number")))
        })
    }
}

impl Reads for SqliteReads<'_> {
    fn head(&mut self, tenant: &TenantId) -> Result<Option<Head>, LedgerError> {
        let sql = format!("SELECT {} FROM logs WHERE tenant = ?1", self.head_columns);
        let found = self.all(&sql, [tenant.as_str()], |row| rows::head(row, self.place))?;
        Ok(found.into_iter().next())
    }

    fn by_seqs(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<EntryRow>, LedgerError> {
        let sql = format!("SELECT {} FROM entries WHERE place = ?1", self.select.entry);
        let mut found = Vec::with_capacity(seqs.len());
        for seq in seqs {
            found.extend(self.entries(head, &sql, [row_id(head, *seq)])?);
        }
        Ok(found)
    }

    fn outlines(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<Outline>, LedgerError> {
        let sql =
            "SELECT id, created_at, octet_length(payload) AS payload_bytes FROM entries WHERE place = ?1";
        let mut found = Vec::with_capacity(seqs.len());
        for &seq in seqs {
            found.extend(self.all(sql, [row_id(head, seq)], |row| rows::outline(row, seq, self.place))?);
        }
        Ok(found)
    }

    fn by_id(&mut self, head: &Head, id: &LedgerId) -> Result<Option<EntryRow>, LedgerError> {
        let sql = format!("SELECT {} FROM entries WHERE log = ?1 AND id = ?2", self.select.entry);
        Ok(self.entries(head, &sql, params![head.number, id.as_str()])?.into_iter().next())
    }

    fn by_key(&mut self, head: &Head, key: &str) -> Result<Option<EntryRow>, LedgerError> {
        let sql = format!("SELECT {} FROM entries WHERE log = ?1 AND key = ?2", self.select.entry);
        Ok(self.entries(head, &sql, params![head.number, key])?.into_iter().next())
    }

    fn select(&mut self, head: &Head, selection: &EntrySelection<'_>) -> Result<Vec<EntryRow>, LedgerError> {
        let query = select_in_order(&self.select.entry, head, selection);
        self.entries(head, &query.text, params_from_iter(query.values))
    }

    fn select_seqs(&mut self, head: &Head, selection: &EntrySelection<'_>) -> Result<Vec<Seq>, LedgerError> {
        let query = select_in_order("place", head, selection);
        self.seqs(&query.text, params_from_iter(query.values))
    }

    fn merged_seqs(
        &mut self,
        head: &Head,
        robot: &RobotId,
        selection: &EntrySelection<'_>,
        most: usize,
    ) -> Result<Option<Vec<Seq>>, LedgerError> {
        let Filter { kind, state, .. } = selection.filter;
        let mut classes = self.classes(head, robot, kind.as_ref(), most.saturating_add(1))?;
        if classes.len() > most {
            return Ok(None);
        }
        classes.retain(|class| state.as_ref().is_none_or(|state| state.as_str() == class.1));
        let EntrySelection { newest_first, limit, .. } = *selection;
        let merged = merge_first(&classes, newest_first, limit, |class, after, limit| {
            let (low, high) = match (after, newest_first) {
                (Some(after), true) => (selection.low, after.previous()),
                (Some(after), false) => (after.next(), selection.high),
                (None, _) => (selection.low, selection.high),
            };
            self.seqs_of_class(head, &EntrySelection { low, high, limit, ..selection.clone() }, class)
        });
        merged.map(Some)
    }

    fn last_of_classes(
        &mut self,
        head: &Head,
        robot: &RobotId,
        most: usize,
    ) -> Result<Vec<LastOfClass>, LedgerError> {
        let mut found = Vec::new();
        for (kind, state) in self.classes(head, robot, None, most)? {
            let class = [("robot", robot.as_str()), ("kind", &*kind), ("state", &*state)];
            let last = self.last_seqs(head, &class, head.last_seq(), 1)?;
            found.extend(last.into_iter().map(|seq| LastOfClass { kind: kind.clone(), seq }));
        }
        Ok(found)
    }

    fn count(&mut self, head: &Head, selection: &EntrySelection<'_>) -> Result<u64, LedgerError> {
        let query = select("count(*)", head, selection);
        let values = params_from_iter(query.values);
        let counted = self.connection.query_row(&query.text, values, |row| row.get::<_, i64>(0));
        counted.map(i64::unsigned_abs).in_file(self.place)
    }

    fn draft_after(
        &mut self,
        head: &Head,
        robot: &RobotId,
        newer: usize,
    ) -> Result<Option<Seq>, LedgerError> {
        let sql = "SELECT place FROM entries INDEXED BY drafts_of_robot WHERE log = ?1 AND robot = ?2 AND state = 'draft' \
                   ORDER BY place DESC LIMIT 1 OFFSET ?3";
        let newer = i64::try_from(newer).unwrap_or(i64::MAX);
        Ok(self.seqs(sql, params![head.number, robot.as_str(), newer])?.into_iter().next())
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
        let rest = [" AND ", column, " ", than, " ? ORDER BY ", column, " ", order, " LIMIT 1"];
        let sql = select_among(column, among, &rest);
        let read = |row: &rusqlite::Row<'_>| row.get(0).in_file(self.place);
        let found = self.all(&sql, &*values_among(head, among, &[&value]), read)?;
        Ok(found.into_iter().next())
    }

    fn last_seqs(
        &mut self,
        head: &Head,
        among: Equalities<'_>,
        high: Seq,
        limit: usize,
    ) -> Result<Vec<Seq>, LedgerError> {
        let sql = select_among("place", among, &[" AND place <= ? ORDER BY place DESC LIMIT ?"]);
        self.seqs(&sql, &*values_among(head, among, &[&row_id(head, high), &(limit as i64)]))
    }

    fn latest(
        &mut self,
        head: &Head,
        robot: &RobotId,
        wanted: &[(&'static str, usize)],
        uncounted: &[String],
        high: Seq,
    ) -> Result<Vec<LatestEntries>, LedgerError> {
        let mut all = Vec::with_capacity(wanted.len());
        for &(kind, limit) in wanted {
            let of_kind = [("robot", robot.as_str()), ("kind", kind)];
            let mut latest = LatestEntries::default();
            for state in self.values_after(head, "state", &of_kind, "", usize::MAX)? {
                if uncounted.contains(&state) {
                    continue;
                }
                let of_state = [("robot", robot.as_str()), ("kind", kind), ("state", &*state)];
                latest.last.extend(self.last_seqs(head, &of_state, high, limit)?);
                if SnapshotType::parse(kind).is_some() {
                    latest.newest.extend(self.newest(head, &of_state, high)?);
                }
            }
            latest.last.sort_unstable_by(|a, b| b.cmp(a));
            latest.last.truncate(limit);
            all.push(latest);
        }
        Ok(all)
    }

    fn check_schema(&self) -> Result<(), LedgerError> {
        match self.version < VERSION {
            true => Err(self.place.outdated(self.version)),
            false => Ok(()),
        }
    }

    fn created_at(&mut self, head: &Head, seq: Seq) -> Result<Millis, LedgerError> {
        let sql = "SELECT created_at FROM entries WHERE place = ?1";
        let found = self.all(sql, [row_id(head, seq)], |row| row.get(0).in_file(self.place))?;
        let found = found.into_iter().next().map(Millis::new);
        found.ok_or_else(|| self.place.damaged(format!("entry {seq} is missing")))
    }

    fn nodes(&mut self, head: &Head, ids: &[LedgerId]) -> Result<Vec<LineageNode>, LedgerError> {
        let sql = format!("SELECT {} FROM entries WHERE log = ?1 AND id = ?2", self.select.node);
        let mut nodes = Vec::with_capacity(ids.len());
        for id in ids {
            let read = |row: &rusqlite::Row<'_>| read_node(&SqliteRow { row, place: self.place });
            nodes.extend(self.all(&sql, params![head.number, id.as_str()], read)?);
        }
        Ok(nodes)
    }

    fn children(&mut self, head: &Head, seq: Seq, limit: usize) -> Result<Vec<Seq>, LedgerError> {
        let sql = "SELECT child FROM edges WHERE parent = ?1 ORDER BY child LIMIT ?2";
        self.seqs(sql, params![row_id(head, seq), i64::try_from(limit).unwrap_or(i64::MAX)])
    }

    fn raw(&mut self, head: &Head, low: Seq, high: Seq) -> Result<Vec<RawEntry>, LedgerError> {
        let entry = &self.select.entry;
        let sql = format!("SELECT {entry} FROM entries WHERE place BETWEEN ?1 AND ?2 ORDER BY place");
        let range = [row_id(head, low), row_id(head, high)];
        self.all(&sql, range, |row| read_raw(&SqliteRow { row, place: self.place }, &head.tenant_id))
    }

    fn missing_edge(&mut self, head: &Head, edges: &[(Seq, Seq)]) -> Result<Option<(Seq, Seq)>, LedgerError> {
        audit::missing_edge(self.connection, head, edges).in_file(self.place)
    }

    fn edge_count(&mut self, head: &Head) -> Result<u64, LedgerError> {
        let sql = "SELECT count(*) FROM edges WHERE parent BETWEEN ?1 AND ?2";
        let range = [row_id(head, Seq::ZERO), row_id(head, Seq::MAX)];
        let counted = self.connection.query_row(sql, range, |row| row.get::<_, i64>(0));
        counted.map(|count| count as u64).in_file(self.place)
    }

    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError> {
        stored_hashes(self.connection, self.place, head, level, from, count)
    }

    fn tile(&mut self, head: &Head, level: u8, index: u64) -> Result<Option<Tile>, LedgerError> {
        let sql = "SELECT root, hashes FROM tiles WHERE log = ?1 AND level = ?2 AND number = ?3";
        let found = self.all(sql, params![head.number, level, index as i64], |row| {
            let root: Vec<u8> = row.get("root").in_file(self.place)?;
            let hashes: Vec<u8> = row.get("hashes").in_file(self.place)?;
            Tile::from_bytes(level, index, &root, &hashes).ok_or_else(|| {
                self.place.damaged(format!("tile {level}/{index} of `{}` is cut", head.tenant_id))
            })
        })?;
        Ok(found.into_iter().next())
    }

    fn tile_count(&mut self, head: &Head) -> Result<u64, LedgerError> {
        let sql = "SELECT count(*) FROM tiles WHERE log = ?1";
        let counted = self.connection.query_row(sql, [head.number], |row| row.get::<_, i64>(0));
        counted.map(|count| count as u64).in_file(self.place)
    }

    fn stray_row(&mut self, head: &Head) -> Result<Option<StrayRow>, LedgerError> {
        audit::stray_row(self.connection, head).in_file(self.place)
    }

    fn schema_difference(&mut self) -> Result<Option<String>, LedgerError> {
        audit::schema_difference(self.connection, self.place)
    }

    fn checkpoints(&mut self, head: &Head) -> Result<Vec<StoredCheckpoint>, LedgerError> {
        let sql = "SELECT size, root, note FROM checkpoints WHERE log = ?1 ORDER BY size, note";
        self.all(sql, [head.number], |row| {
            let size: i64 = row.get("size").in_file(self.place)?;
            let root: Vec<u8> = row.get("root").in_file(self.place)?;
            let note: String = row.get("note").in_file(self.place)?;
            match (u64::try_from(size), <[u8; 32]>::try_from(root.as_slice())) {
                (Ok(size), Ok(root)) => Ok(StoredCheckpoint { size, root: Sha256::from_bytes(root), note }),
                _ => Err(self.place.damaged(format!("a checkpoint of `{}` is cut", head.tenant_id))),
            }
        })
    }

    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError> {
        TenantLeases { connection: self.connection, place: self.place, tenant }.find(name)
    }

    fn lease_time(&mut self) -> Result<Millis, LedgerError> {
        Ok(boot::now())
    }

    fn request(
        &mut self,
        tenant: &TenantId,
        name: &RequestName,
    ) -> Result<Option<AcceptedRequest>, LedgerError> {
        self.stored_requests().find(tenant, name)
    }

    fn requests(
        &mut self,
        tenant: &TenantId,
        robot: Option<&RobotId>,
        after: Option<LeaseToken>,
        limit: usize,
    ) -> Result<Vec<AcceptedRequest>, LedgerError> {
        self.stored_requests().list(tenant, robot, after, limit)
    }

    fn waiting_request(
        &mut self,
        tenant: &TenantId,
        after: Option<LeaseToken>,
    ) -> Result<Option<RequestToRun>, LedgerError> {
        self.stored_requests().waiting(tenant, after)
    }

    fn tenant_with_work(
        &mut self,
        after: &str,
        ended_before: Millis,
    ) -> Result<Option<TenantId>, LedgerError> {
        self.stored_requests().tenant_with_work(after, ended_before)
    }

    fn subscriptions(&mut self, tenant: &TenantId) -> Result<Vec<Subscription>, LedgerError> {
        subscriptions::list(self.connection, self.place, tenant)
    }

    fn subscribed_tenants(&mut self) -> Result<Vec<TenantId>, LedgerError> {
        subscriptions::tenants(self.connection, self.place)
    }
}

/// Selects a column of the entries that have these values. A snapshot runs many of these, so the text is built without
/// formatting.
fn select_among(column: &str, among: Equalities<'_>, rest: &[&str]) -> String {
    let mut sql = String::with_capacity(192);
    ["SELECT ", column, " FROM entries WHERE log = ?"].iter().for_each(|part| sql.push_str(part));
    for (column, _) in among {
        [" AND ", column, " = ?"].iter().for_each(|part| sql.push_str(part));
    }
    rest.iter().for_each(|part| sql.push_str(part));
    sql
}

/// The values of [`select_among`], in their order.
fn values_among<'a>(head: &'a Head, among: Equalities<'a>, rest: &[&'a dyn ToSql]) -> Vec<&'a dyn ToSql> {
    let among = among.iter().map(|(_, value)| value as &dyn ToSql);
    std::iter::once(&head.number as &dyn ToSql).chain(among).chain(rest.iter().copied()).collect()
}

/// Selects columns of the first entries of a filter and range.
fn select_in_order(columns: &str, head: &Head, selection: &EntrySelection<'_>) -> Query<Value> {
    let mut query = select(columns, head, selection);
    let direction = if selection.newest_first { "DESC" } else { "ASC" };
    query.push(&format!(" ORDER BY place {direction} LIMIT ")).bind((selection.limit as i64).into());
    query
}

/// Selects columns of the entries of a filter and range.
fn select(columns: &str, head: &Head, selection: &EntrySelection<'_>) -> Query<Value> {
    let filter = selection.filter;
    let index = match (selection.index, &filter.robot_id) {
        (EntryIndex::Events, _) => " INDEXED BY events_by_state",
        (EntryIndex::Drafts, Some(_)) => " INDEXED BY drafts_of_robot",
        (EntryIndex::Drafts, None) => " INDEXED BY drafts",
        (EntryIndex::Receipts, _) => " INDEXED BY receipts",
        _ => "",
    };
    let range = vec![row_id(head, selection.low).into(), row_id(head, selection.high).into()];
    let sql = format!("SELECT {columns} FROM entries{index} WHERE place BETWEEN ?1 AND ?2");
    let mut query = Query::new('?', sql, range);
    if selection.index != EntryIndex::None {
        query.push(" AND log = ").bind(head.number.into());
    }
    match selection.index {
        EntryIndex::Events => _ = query.push(" AND attempt IS NOT NULL"),
        EntryIndex::Drafts => _ = query.push(" AND state = 'draft'"),
        EntryIndex::Receipts => _ = query.push(" AND ").push(IS_RECEIPT),
        _ => {}
    }
    // If no index gives the order, a `+` keeps SQLite on the range of row ids, which is bounded.
    let plus = if selection.index == EntryIndex::None { "+" } else { "" };
    for (column, value) in selection.equalities() {
        // An entry has an attempt if it is an event; its type is not in that index.
        if selection.index == EntryIndex::Events && column == "kind" {
            continue;
        }
        query.push(&format!(" AND {plus}{column} = ")).bind(value.to_owned().into());
    }
    for kind in &filter.without_children {
        query.push(
            " AND NOT EXISTS (SELECT 1 FROM edges g JOIN entries c ON c.place = g.child \
             WHERE g.parent = entries.place AND c.kind = ",
        );
        query.bind(kind.as_str().to_owned().into()).push(")");
    }
    query
}

/// Leaf hashes (level 0) or roots of whole tiles of the level below, `count` of them from `from`.
pub(super) fn stored_hashes(
    connection: &Connection,
    place: &LedgerFile,
    head: &Head,
    level: u8,
    from: u64,
    count: u64,
) -> Result<Vec<Sha256>, LedgerError> {
    let read = || -> rusqlite::Result<Vec<Vec<u8>>> {
        match level.checked_sub(1) {
            None => {
                let sql = "SELECT leaf FROM entries WHERE place BETWEEN ?1 AND ?2 ORDER BY place";
                let seq = |number| row_id(head, Seq::new(number).unwrap_or(Seq::MAX));
                let mut statement = connection.prepare_cached(sql)?;
                statement.query_map([seq(from + 1), seq(from + count)], |row| row.get(0))?.collect()
            }
            Some(below) => {
                let sql = "SELECT root FROM tiles WHERE log = ?1 AND level = ?2 AND number BETWEEN ?3 AND ?4 \
                           ORDER BY number";
                let range = params![head.number, below, from as i64, (from + count) as i64 - 1];
                connection.prepare_cached(sql)?.query_map(range, |row| row.get(0))?.collect()
            }
        }
    };
    let hashes = read().in_file(place)?;
    if hashes.len() as u64 != count {
        return Err(place.damaged(format!("hashes of the log of `{}` are missing", head.tenant_id)));
    }
    let hash = |bytes: &Vec<u8>| <[u8; 32]>::try_from(bytes.as_slice()).ok().map(Sha256::from_bytes);
    let hashes: Option<Vec<Sha256>> = hashes.iter().map(hash).collect();
    hashes.ok_or_else(|| place.damaged(format!("a hash of the log of `{}` is cut", head.tenant_id)))
}
