//! The PostgreSQL reader: one read-only snapshot per question, seeing one tenant's rows.

use std::collections::BTreeMap;

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::scalar::{LedgerId, Name, RobotId, TenantId};
use crealeph_decision::snapshot::SnapshotType;
use postgres::types::ToSql;

use super::rows::{self, BY_ID, ENTRY_COLUMNS, Layout, each};
use super::session::Session;
use super::{VERSION, audit, leases};
use crate::error::LedgerError;
use crate::merkle::{TILE_WIDTH, Tile};
use crate::position::{Millis, Seq};
use crate::read::{Index, StoredCheckpoint};
use crate::store::{
    Head, Latest, LeaseRow, NO_NEWEST, Of, Outline, RawEntry, Reads, Row, Selection, Step, Stray,
};

/// The largest payload that comes along with the places of entries.
const SMALL_BYTES: usize = 64 << 10;

pub(super) struct PostgresReads<'a> {
    session: &'a mut Session,
    /// Entries that came with their places.
    at_hand: BTreeMap<Seq, Row>,
    layout: &'static Layout,
    version: u32,
}

impl<'a> PostgresReads<'a> {
    pub(super) fn new(session: &'a mut Session, version: u32) -> Self {
        let layout = if version < VERSION { &rows::OLDER } else { &rows::CURRENT };
        PostgresReads { session, at_hand: BTreeMap::new(), layout, version }
    }

    fn entries(
        &mut self,
        head: &Head,
        sql: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, LedgerError> {
        let found = self.session.query(sql, values)?;
        found.iter().map(|row| rows::entry(row, &head.tenant_id, &self.session.server)).collect()
    }

    fn numbers(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<i64>, LedgerError> {
        let found = self.session.query_planned(sql, values)?;
        found.iter().map(|row| rows::number(row, 0, &self.session.server)).collect()
    }

    /// The text of the first row.
    fn text(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Option<String>, LedgerError> {
        let found = self.session.query_planned(sql, values)?;
        let server = &self.session.server;
        found.first().map(|row| row.try_get(0).map_err(|error| server.failure(&error))).transpose()
    }

    fn seqs(&mut self, sql: &str, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Seq>, LedgerError> {
        let numbers = self.numbers(sql, values)?;
        Ok(numbers.into_iter().filter_map(Seq::from_i64).collect())
    }
}

impl Reads for PostgresReads<'_> {
    fn head(&mut self, tenant: &TenantId) -> Result<Option<Head>, LedgerError> {
        let head = self.layout.head;
        let sql = format!("SELECT {head} FROM logs WHERE tenant = $1");
        let found = self.session.query(&sql, &[&tenant.as_str()])?;
        found.first().map(|row| rows::head(row, tenant, &self.session.server)).transpose()
    }

    fn by_seqs(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<Row>, LedgerError> {
        let mut found: Vec<Row> = seqs.iter().filter_map(|seq| self.at_hand.get(seq).cloned()).collect();
        let far: Vec<&Seq> = seqs.iter().filter(|seq| !self.at_hand.contains_key(seq)).collect();
        if !far.is_empty() {
            let places: Vec<i64> = far.into_iter().map(|seq| seq.as_i64()).collect();
            let sql = each(self.layout.entry, "bigint", "seq = w.value");
            found.extend(self.entries(head, &sql, &[&head.tenant_id.as_str(), &places])?);
        }
        Ok(found)
    }

    fn outlines(&mut self, head: &Head, seqs: &[Seq]) -> Result<Vec<Outline>, LedgerError> {
        let mut found: Vec<Outline> =
            seqs.iter().filter_map(|seq| self.at_hand.get(seq)).map(Outline::from).collect();
        let far: Vec<i64> =
            seqs.iter().filter(|seq| !self.at_hand.contains_key(seq)).map(|seq| seq.as_i64()).collect();
        if !far.is_empty() {
            let columns = "e.seq, e.id, e.created_at, octet_length(e.payload)::bigint";
            let sql = each(columns, "bigint", "seq = w.value");
            for row in self.session.query(&sql, &[&head.tenant_id.as_str(), &far])? {
                found.push(rows::outline(&row, &self.session.server)?);
            }
        }
        Ok(found)
    }

    fn by_id(&mut self, head: &Head, id: &LedgerId) -> Result<Option<Row>, LedgerError> {
        let entry = self.layout.entry;
        let sql = format!("SELECT {entry} FROM entries e WHERE e.tenant = $1 AND e.id = $2");
        Ok(self.entries(head, &sql, &[&head.tenant_id.as_str(), &id.as_str()])?.into_iter().next())
    }

    fn by_key(&mut self, head: &Head, key: &str) -> Result<Option<Row>, LedgerError> {
        let entry = self.layout.entry;
        let sql =
            format!("SELECT {entry} FROM entries e WHERE e.tenant = $1 AND e.key = $2 AND e.key IS NOT NULL");
        Ok(self.entries(head, &sql, &[&head.tenant_id.as_str(), &key])?.into_iter().next())
    }

    fn select(&mut self, head: &Head, selection: &Selection<'_>) -> Result<Vec<Row>, LedgerError> {
        let (low, high, limit) = (selection.low.as_i64(), selection.high.as_i64(), selection.limit as i64);
        let tenant = head.tenant_id.as_str();
        let (from, wanted) = selected(selection, 4);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &low, &high, &limit];
        values.extend(wanted.iter().map(|wanted| wanted as &(dyn ToSql + Sync)));
        let (entry, seq) = (self.layout.entry, place_of(selection));
        let direction = if selection.newest_first { "DESC" } else { "ASC" };
        let sql = format!("SELECT {entry} {from} ORDER BY {seq} {direction} LIMIT $4");
        let found = self.session.query_planned(&sql, &values)?;
        found.iter().map(|row| rows::entry(row, &head.tenant_id, &self.session.server)).collect()
    }

    fn count(&mut self, head: &Head, selection: &Selection<'_>) -> Result<u64, LedgerError> {
        let (low, high) = (selection.low.as_i64(), selection.high.as_i64());
        let tenant = head.tenant_id.as_str();
        let (from, wanted) = selected(selection, 3);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&tenant, &low, &high];
        values.extend(wanted.iter().map(|wanted| wanted as &(dyn ToSql + Sync)));
        let counted = self.numbers(&format!("SELECT count(*) {from}"), &values)?;
        Ok(counted.first().map_or(0, |count| count.unsigned_abs()))
    }

    fn robot_after(&mut self, head: &Head, robot: &str) -> Result<Option<String>, LedgerError> {
        let sql = "SELECT robot FROM entries WHERE tenant = $1 AND robot > $2 ORDER BY robot LIMIT 1";
        self.text(sql, &[&head.tenant_id.as_str(), &robot])
    }

    fn kind_after(
        &mut self,
        head: &Head,
        robot: &RobotId,
        kind: &str,
    ) -> Result<Option<String>, LedgerError> {
        let sql =
            "SELECT kind FROM entries WHERE tenant = $1 AND robot = $2 AND kind > $3 ORDER BY kind LIMIT 1";
        self.text(sql, &[&head.tenant_id.as_str(), &robot.as_str(), &kind])
    }

    fn state_after(&mut self, head: &Head, of: &Of<'_>, state: &str) -> Result<Option<String>, LedgerError> {
        let sql = "SELECT state FROM entries WHERE tenant = $1 AND robot = $2 AND kind = $3 AND state > $4 \
                   ORDER BY state LIMIT 1";
        let values: [&(dyn ToSql + Sync); 4] =
            [&head.tenant_id.as_str(), &of.robot.as_str(), &of.kind, &state];
        self.text(sql, &values)
    }

    fn places(
        &mut self,
        head: &Head,
        of: &Of<'_>,
        state: &str,
        high: Seq,
        limit: usize,
    ) -> Result<Vec<Seq>, LedgerError> {
        let sql = "SELECT seq FROM entries WHERE tenant = $1 AND robot = $2 AND kind = $3 AND state = $4 AND seq <= $5 \
                   ORDER BY seq DESC LIMIT $6";
        let (tenant, high, limit) = (head.tenant_id.as_str(), high.as_i64(), limit as i64);
        self.seqs(sql, &[&tenant, &of.robot.as_str(), &of.kind, &state, &high, &limit])
    }

    fn newest(
        &mut self,
        head: &Head,
        of: &Of<'_>,
        state: &str,
        high: Seq,
    ) -> Result<Option<Seq>, LedgerError> {
        let sql = "SELECT newest FROM entries WHERE tenant = $1 AND robot = $2 AND kind = $3 AND state = $4 AND seq <= $5 \
                   ORDER BY seq DESC LIMIT 1";
        let values: [&(dyn ToSql + Sync); 5] =
            [&head.tenant_id.as_str(), &of.robot.as_str(), &of.kind, &state, &high.as_i64()];
        let found = self.session.query(sql, &values)?;
        let Some(row) = found.first() else { return Ok(None) };
        let newest: Option<i64> = row.try_get(0).map_err(|error| self.session.server.failure(&error))?;
        let newest = newest.and_then(Seq::from_i64);
        newest.map(Some).ok_or_else(|| self.session.server.damaged(NO_NEWEST))
    }

    fn latest(
        &mut self,
        head: &Head,
        robot: &RobotId,
        wanted: &[(&'static str, usize)],
        uncounted: &[String],
        high: Seq,
    ) -> Result<Vec<Latest>, LedgerError> {
        // The states of a type are found by jumps in the index, as `state_after` does. The small entries come along: whoever
        // asks for their places reads them next. A large one does not, since it may be beyond what a snapshot holds.
        let is_small = format!("octet_length(e.payload) <= {SMALL_BYTES}");
        let entry = self.layout.entry.replace(
            "e.payload",
            &format!("CASE WHEN {is_small} OR found.is_newest THEN e.payload ELSE '' END"),
        );
        let of_state = "FROM entries WHERE tenant = $1 AND robot = $2 AND kind = w.kind AND state = states.state \
                        AND seq <= $6 ORDER BY seq DESC LIMIT";
        let sql = format!(
            "SELECT {entry}, w.number, found.is_newest, {is_small} \
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
        );
        let kinds: Vec<&str> = wanted.iter().map(|(kind, _)| *kind).collect();
        let most: Vec<i64> = wanted.iter().map(|(_, most)| *most as i64).collect();
        let (tenant, robot, high) = (head.tenant_id.as_str(), robot.as_str(), high.as_i64());
        let found = self.session.query(&sql, &[&tenant, &robot, &kinds, &most, &uncounted, &high])?;
        let server = &self.session.server;
        let mut latest = vec![Latest::default(); wanted.len()];
        for row in found {
            let number = rows::number(&row, ENTRY_COLUMNS, server)?;
            let is_newest: bool = row.try_get(ENTRY_COLUMNS + 1).map_err(|error| server.failure(&error))?;
            let is_small: bool = row.try_get(ENTRY_COLUMNS + 2).map_err(|error| server.failure(&error))?;
            let place = rows::number(&row, 0, server)?;
            let seq = Seq::from_i64(place)
                .ok_or_else(|| server.damaged(format!("an entry stands at place {place}")))?;
            if let Some(of_kind) = usize::try_from(number - 1).ok().and_then(|number| latest.get_mut(number))
            {
                let list = if is_newest { &mut of_kind.newest } else { &mut of_kind.last };
                list.push(seq);
            }
            if is_small || is_newest {
                self.at_hand.insert(seq, rows::entry(&row, &head.tenant_id, server)?);
            }
        }
        let is_unknown = |(kind, latest): (&(&str, usize), &Latest)| {
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

    fn steps(&mut self, head: &Head, ids: &[LedgerId]) -> Result<Vec<Step>, LedgerError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
        let sql = each(self.layout.step, "text", BY_ID);
        let found = self.session.query(&sql, &[&head.tenant_id.as_str(), &ids])?;
        found.iter().map(|row| rows::step(row, &self.session.server)).collect()
    }

    fn children(&mut self, head: &Head, seq: Seq, limit: usize) -> Result<Vec<Seq>, LedgerError> {
        let sql = "SELECT child FROM edges WHERE tenant = $1 AND parent = $2 ORDER BY child LIMIT $3";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.seqs(sql, &[&head.tenant_id.as_str(), &seq.as_i64(), &limit])
    }

    fn parents(&mut self, head: &Head, seq: Seq) -> Result<Vec<Seq>, LedgerError> {
        let rows = self.by_seqs(head, &[seq])?;
        let ids: Vec<LedgerId> = rows.into_iter().flat_map(|row| row.stored.content.depends_on).collect();
        let mut parents: Vec<Seq> = self.steps(head, &ids)?.into_iter().map(|step| step.seq).collect();
        parents.sort_unstable();
        Ok(parents)
    }

    fn raw(&mut self, head: &Head, low: Seq, high: Seq) -> Result<Vec<RawEntry>, LedgerError> {
        let entry = self.layout.entry;
        let sql = format!(
            "SELECT {entry} FROM entries e WHERE e.tenant = $1 AND e.seq BETWEEN $2 AND $3 ORDER BY e.seq"
        );
        let values: [&(dyn ToSql + Sync); 3] = [&head.tenant_id.as_str(), &low.as_i64(), &high.as_i64()];
        let found = self.session.query_planned(&sql, &values)?;
        found.iter().map(|row| rows::raw(row, &head.tenant_id, &self.session.server)).collect()
    }

    fn missing_edge(&mut self, head: &Head, edges: &[(Seq, Seq)]) -> Result<Option<(Seq, Seq)>, LedgerError> {
        audit::missing_edge(self.session, head, edges)
    }

    fn edge_count(&mut self, head: &Head) -> Result<u64, LedgerError> {
        let sql = "SELECT count(*) FROM edges WHERE tenant = $1";
        let counted = self.numbers(sql, &[&head.tenant_id.as_str()])?;
        Ok(counted.first().copied().unwrap_or_default() as u64)
    }

    fn hashes(&mut self, head: &Head, level: u8, from: u64, count: u64) -> Result<Vec<Sha256>, LedgerError> {
        stored_hashes(self.session, head, level, from, count)
    }

    fn tile(&mut self, head: &Head, level: u8, index: u64) -> Result<Option<Tile>, LedgerError> {
        let sql = "SELECT root, hashes FROM tiles WHERE tenant = $1 AND level = $2 AND number = $3";
        let values: [&(dyn ToSql + Sync); 3] = [&head.tenant_id.as_str(), &i16::from(level), &(index as i64)];
        let found = self.session.query(sql, &values)?;
        let Some(row) = found.first() else { return Ok(None) };
        let root = rows::hash(row, 0, &self.session.server)?;
        let bytes: &[u8] = row.try_get(1).map_err(|error| self.session.server.failure(&error))?;
        let hashes: Vec<Sha256> = bytes.as_chunks::<32>().0.iter().copied().map(Sha256::from_bytes).collect();
        if hashes.len() as u64 != TILE_WIDTH {
            return Err(self.session.server.damaged(format!("tile {level}/{index} is cut")));
        }
        Ok(Some(Tile { level, index, hashes, root }))
    }

    fn tile_count(&mut self, head: &Head) -> Result<u64, LedgerError> {
        let sql = "SELECT count(*) FROM tiles WHERE tenant = $1";
        let counted = self.numbers(sql, &[&head.tenant_id.as_str()])?;
        Ok(counted.first().copied().unwrap_or_default() as u64)
    }

    fn stray_row(&mut self, head: &Head) -> Result<Option<Stray>, LedgerError> {
        audit::stray_row(self.session, head)
    }

    fn schema_difference(&mut self) -> Result<Option<String>, LedgerError> {
        audit::schema_difference(self.session)
    }

    fn checkpoints(&mut self, head: &Head) -> Result<Vec<StoredCheckpoint>, LedgerError> {
        let sql =
            "SELECT size, root, note FROM checkpoints WHERE tenant = $1 ORDER BY size, note COLLATE \"C\"";
        let found = self.session.query(sql, &[&head.tenant_id.as_str()])?;
        let server = &self.session.server;
        let read = |row: &postgres::Row| {
            let size = u64::try_from(rows::number(row, 0, server)?).unwrap_or_default();
            let note = row.try_get(2).map_err(|error| server.failure(&error))?;
            Ok(StoredCheckpoint { size, root: rows::hash(row, 1, server)?, note })
        };
        found.iter().map(read).collect()
    }

    fn lease(&mut self, tenant: &TenantId, name: &Name) -> Result<Option<LeaseRow>, LedgerError> {
        leases::find(self.session, tenant, name)
    }

    fn lease_time(&mut self) -> Result<Millis, LedgerError> {
        leases::time(self.session)
    }
}

/// An execution has few entries, but before a table is analysed the planner takes the range of places for smaller and reads
/// all of it: expressions keep it on the one index that serves.
fn place_of(selection: &Selection<'_>) -> &'static str {
    if selection.index == Index::Execution { "e.seq + 0" } else { "e.seq" }
}

/// From which entries by which conditions, `$1` to `$3` being tenant and range, and the values after the first `count`.
fn selected<'f>(selection: &Selection<'f>, count: usize) -> (String, Vec<&'f str>) {
    let filter = selection.filter;
    let rest = if selection.index == Index::Execution { " || ''" } else { "" };
    let seq = place_of(selection);
    let mut sql = format!("FROM entries e WHERE e.tenant = $1 AND {seq} BETWEEN $2 AND $3");
    match selection.index {
        Index::Events => sql.push_str(" AND e.attempt IS NOT NULL"),
        Index::Drafts => sql.push_str(" AND e.state = 'draft'"),
        _ => {}
    }
    let mut values = Vec::new();
    let wanted = [
        ("robot", filter.robot_id.as_ref().map(|id| id.as_str())),
        ("kind", filter.kind.as_ref().map(|kind| kind.as_str())),
        ("state", filter.state.as_ref().map(|state| state.as_str())),
        ("module", filter.module.as_ref().map(|module| module.as_str())),
        ("execution", filter.execution_id.as_ref().map(|id| id.as_str())),
    ];
    for (column, wanted) in wanted {
        if let Some(wanted) = wanted {
            values.push(wanted);
            let rest = if column == "execution" { "" } else { rest };
            sql.push_str(&format!(" AND e.{column}{rest} = ${}", count + values.len()));
        }
    }
    if let Some(kind) = &filter.without_child {
        values.push(kind.as_str());
        sql.push_str(&format!(
            " AND NOT EXISTS (SELECT FROM edges g JOIN entries c ON c.tenant = g.tenant AND c.seq = g.child \
             WHERE g.tenant = $1 AND g.parent = e.seq AND c.kind = ${})",
            count + values.len()
        ));
    }
    (sql, values)
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
            let sql = "SELECT leaf FROM entries WHERE tenant = $1 AND seq BETWEEN $2 AND $3 ORDER BY seq";
            session.query_planned(sql, &[&tenant, &(from as i64 + 1), &((from + count) as i64)])?
        }
        Some(below) => {
            let sql = "SELECT root FROM tiles WHERE tenant = $1 AND level = $2 AND number BETWEEN $3 AND $4 \
                       ORDER BY number";
            let last = (from + count) as i64 - 1;
            session.query_planned(sql, &[&tenant, &i16::from(below), &(from as i64), &last])?
        }
    };
    if found.len() as u64 != count {
        return Err(session.server.damaged(format!("hashes of the log of `{tenant}` are missing")));
    }
    found.iter().map(|row| rows::hash(row, 0, &session.server)).collect()
}
