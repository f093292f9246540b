//! An entry's columns as either database hands them over, trusted or not, and what they come to.

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::instant::Timestamp;
use crealeph_contracts::scalar::{ClientKey, ExecutionId, LedgerId, Name, RobotId, TenantId};

use crate::entry::{Columns, Content, Stored, effective_at, parse_ids};
use crate::position::{Millis, Seq};
use crate::reach::{Reach, Used};
use crate::store::{RawEntry, Row, Step};

/// Every column of an entry but its tenant.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EntryColumns<'a> {
    pub seq: Seq,
    pub id: &'a str,
    pub robot: &'a str,
    pub module: &'a str,
    pub source: &'a str,
    pub kind: &'a str,
    pub state: &'a str,
    pub created_at: i64,
    pub observed_at: Option<&'a str>,
    pub key: Option<&'a str>,
    pub execution: Option<&'a str>,
    pub attempt: Option<i64>,
    pub rerun_of: Option<&'a str>,
    pub leaf: &'a [u8],
    pub reach: [Option<i64>; 6],
    pub depends_on: &'a str,
    pub payload: &'a str,
    pub newest: Option<i64>,
    pub used: Option<&'a [u8]>,
}

impl EntryColumns<'_> {
    /// The entry, if it is what its leaf hash says.
    pub(crate) fn checked(&self, tenant_id: &TenantId) -> Option<Row> {
        let attempt = self.attempt.and_then(|attempt| u64::try_from(attempt).ok());
        let content = Content {
            robot_id: RobotId::parse(self.robot).ok()?,
            module: Name::parse(self.module).ok()?,
            source: Name::parse(self.source).ok()?,
            kind: Name::parse(self.kind).ok()?,
            state: Name::parse(self.state).ok()?,
            payload: self.payload.into(),
            depends_on: parse_ids(self.depends_on)?,
            execution_id: match self.execution {
                Some(execution) if attempt.is_none() => Some(ExecutionId::parse(execution).ok()?),
                _ => None,
            },
            rerun_of: parsed(self.rerun_of, ExecutionId::parse)?,
            observed_at: parsed(self.observed_at, Timestamp::parse)?,
            key: parsed(self.key, ClientKey::parse)?,
        };
        let stored = Stored {
            id: LedgerId::parse(self.id).ok()?,
            seq: self.seq,
            tenant_id: tenant_id.clone(),
            created_at: Millis::new(self.created_at),
            content,
        };
        let leaf = Sha256::from_bytes(<[u8; 32]>::try_from(self.leaf).ok()?);
        let execution = self.execution.map(str::to_owned);
        let reach = Reach::from_columns(self.reach);
        let used = Used::from_bytes(self.used)?;
        let newest = match self.newest {
            Some(newest) => Some(Seq::from_i64(newest)?),
            None => None,
        };
        (stored.leaf_hash() == leaf).then_some(Row { stored, reach, used, newest, leaf, execution, attempt })
    }

    /// The text the columns make, whatever they hold.
    pub(crate) fn raw(&self, tenant_id: &TenantId) -> RawEntry {
        let columns = Columns {
            created_at: Millis::new(self.created_at),
            id: self.id,
            key: self.key,
            depends_on: self.depends_on,
            execution_id: if self.attempt.is_some() { None } else { self.execution },
            rerun_of: self.rerun_of,
            module: self.module,
            observed_at: self.observed_at,
            payload: self.payload,
            robot_id: self.robot,
            seq: self.seq,
            source: self.source,
            state: self.state,
            tenant_id: tenant_id.as_str(),
            kind: self.kind,
        };
        RawEntry { canonical: columns.canonical(), leaf: self.leaf.to_vec() }
    }
}

/// The columns that a lineage needs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepColumns<'a> {
    pub seq: Seq,
    pub id: &'a str,
    pub robot: &'a str,
    pub kind: &'a str,
    pub created_at: i64,
    pub observed_at: Option<&'a str>,
    pub reach: [Option<i64>; 6],
    pub depends_on: &'a str,
    pub used: Option<&'a [u8]>,
}

impl StepColumns<'_> {
    /// The step, if it can be read back.
    pub(crate) fn step(&self) -> Option<Step> {
        let created_at = Millis::new(self.created_at);
        let observed_at = parsed(self.observed_at, Timestamp::parse)?;
        Some(Step {
            seq: self.seq,
            id: LedgerId::parse(self.id).ok()?,
            robot_id: RobotId::parse(self.robot).ok()?,
            kind: self.kind.to_owned(),
            created_at,
            effective_at: effective_at(observed_at.as_ref(), created_at),
            depends_on: parse_ids(self.depends_on)?,
            reach: Reach::from_columns(self.reach),
            used: Used::from_bytes(self.used)?,
        })
    }
}

/// An optional text as its type: absent stays absent, unreadable is a fault.
fn parsed<T, E>(text: Option<&str>, parse: impl Fn(&str) -> Result<T, E>) -> Option<Option<T>> {
    match text {
        None => Some(None),
        Some(text) => parse(text).ok().map(Some),
    }
}
