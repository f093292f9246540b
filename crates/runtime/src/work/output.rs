//! A part of a run's stored output: from an offset on, or its end. Owns how much of an output is returned at once; only
//! reads.

use std::borrow::Cow;

use crealeph_contracts::uuid::Uuid;
use serde::{Deserialize, Serialize};

use super::log::{LogReader, LogRecord};
use super::reader::{RunReader, RunState};
use super::store::RunsError;

/// A part of what a run's agent and tests printed.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutputPart {
    /// The run.
    pub run: String,
    /// How far the run has come.
    pub status: Cow<'static, str>,
    /// When it was started.
    pub started_at: String,
    /// Since when it has been in that state.
    pub since: String,
    /// Whether it continues, so that more can come.
    pub is_running: bool,
    /// Where this part begins in the whole output, in bytes.
    pub after: u64,
    /// Where the next part begins.
    pub next: u64,
    /// There is more already.
    pub has_more: bool,
    /// What was printed, in the order in which it came.
    pub records: Vec<LogRecord>,
}

impl OutputPart {
    /// What was printed from a place on, about this many bytes; absent if there is no such run.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn after(
        reader: &RunReader,
        run: &Uuid,
        place: u64,
        most_bytes: u64,
    ) -> Result<Option<Self>, RunsError> {
        let mut log = reader.log(run).after(place);
        let read = |log: &mut LogReader| log.read_within(most_bytes);
        let Some((part, (records, has_more))) = OutputPart::read(reader, run, &mut log, read)? else {
            return Ok(None);
        };
        let records = records.into_iter().map(|(_, record)| record).collect();
        Ok(Some(OutputPart { after: place, has_more, records, ..part }))
    }

    /// The end of what was printed so far, about this many bytes; absent if there is no such run.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn end(reader: &RunReader, run: &Uuid, most_bytes: u64) -> Result<Option<Self>, RunsError> {
        let mut log = reader.log(run);
        // What is kept of an output is bounded.
        let read = |log: &mut LogReader| log.read_within(u64::MAX);
        let Some((part, (mut records, _))) = OutputPart::read(reader, run, &mut log, read)? else {
            return Ok(None);
        };
        let first = records.iter().position(|(place, _)| part.next - place <= most_bytes);
        let shown = records.split_off(first.unwrap_or(records.len()));
        let after = shown.first().map_or(part.next, |(place, _)| *place);
        let records = shown.into_iter().map(|(_, record)| record).collect();
        Ok(Some(OutputPart { after, records, ..part }))
    }

    /// How far the run has come, and then what it printed: what is written before the run has ended is there when it has ended.
    fn read<T>(
        reader: &RunReader,
        run: &Uuid,
        log: &mut LogReader,
        read: impl FnOnce(&mut LogReader) -> Result<T, RunsError>,
    ) -> Result<Option<(Self, T)>, RunsError> {
        let Some(summary) = reader.get(run) else { return Ok(None) };
        let records = read(log)?;
        let part = OutputPart {
            run: run.to_string(),
            status: summary.state.as_str().into(),
            started_at: summary.started_at.as_str().to_owned(),
            since: summary.at.as_str().to_owned(),
            is_running: summary.state == RunState::Running,
            after: 0,
            next: log.place(),
            has_more: false,
            records: Vec::new(),
        };
        Ok(Some((part, records)))
    }
}
