//! Runs of a server, for the commands that show runs. A word means what it means in a workspace; the server's answer must be
//! about the requested run.

use crealeph_contracts::instant::Instant;
use crealeph_contracts::short_id::{IdWord, NamedKind, one_id};
use crealeph_contracts::uuid::Uuid;
use crealeph_runtime::client::{ClientError, ServerAnswer};
use crealeph_runtime::report::{ReceiptProof, RunRow, RunStory};
use crealeph_runtime::work::{LogRecord, OutputPart, RunsError, WorkError, log_records};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::workspace_args::WorkspaceArgs;
use crate::commands::place::{Place, RemoteLog, found};
use crate::failure::{Failure, ServerFailure};

/// How many runs are looked at on the way to the one that a word means.
const MAX_LOOKED_AT: usize = 10_000;
/// How many items of a list are requested at a time.
const PAGE_ROWS: usize = 100;
const DIFF_TYPE: &str = "text/x-diff";
const RECEIPTS: [NamedKind; 2] = [NamedKind::Receipt, NamedKind::ReportedReceipt];

/// The runs that a server shows.
pub(super) struct RemoteRuns {
    remote: RemoteLog,
}

/// Runs without a receipt yet, in the server's own workspace; the server lists the newest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OpenRows {
    runs: Vec<RunRow>,
    has_more: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogFiles {
    files: Vec<NamedText>,
    left_out: Vec<String>,
}

/// The newest runs that are wanted.
pub(super) struct NewestRuns {
    pub(super) rows: Vec<RunRow>,
    /// There may be more, which a greater limit shows.
    pub(super) has_more: bool,
    /// How many recorded runs were looked at, if older ones were not although fewer than wanted were found.
    pub(super) looked_at: Option<usize>,
    /// How many open runs the server lists, if it has more.
    pub(super) open_listed: Option<usize>,
}

#[derive(Deserialize)]
struct NamedText {
    name: String,
    text: String,
}

/// The receipt of a run and its signed statement, as the ledger has them; absent if they were too large for it.
#[derive(Deserialize)]
pub(super) struct RecordedDocuments {
    pub(super) receipt: Option<Box<RawValue>>,
    pub(super) envelope: Option<Box<RawValue>>,
}

/// A part of what a run printed.
pub(super) struct RemoteOutput {
    pub(super) records: Vec<LogRecord>,
    /// Where it continues; absent if there is no more, and none will come.
    pub(super) next: Option<u64>,
    /// There is more already.
    pub(super) has_more: bool,
    /// Files of the output that the server does not have.
    pub(super) left_out: Vec<String>,
}

impl RemoteRuns {
    /// The server that a flag names. The environment does not count here: these commands are about a workspace unless a flag says otherwise.
    pub(super) fn named(workspace: &WorkspaceArgs) -> Result<Option<Self>, Failure> {
        if !workspace.at.server.is_named() {
            return Ok(None);
        }
        match workspace.place_here()? {
            Place::Server(remote) => Ok(Some(RemoteRuns { remote })),
            Place::Here(_) => Ok(None),
        }
    }

    /// The command line that asks the same server.
    pub(super) fn command(&self, rest: &str) -> String {
        format!("--server {} {rest}", self.remote.client.url())
    }

    fn open_rows(&self) -> Result<OpenRows, Failure> {
        Ok(self.remote.client.get(&["work", "runs", "open"], &[])?.read()?)
    }

    /// The newest runs that are wanted, at most this many.
    pub(super) fn newest(
        &self,
        query: &[(&str, Option<String>)],
        limit: usize,
        is_wanted: impl Fn(&RunRow) -> bool,
    ) -> Result<NewestRuns, Failure> {
        let OpenRows { runs: mut rows, has_more } = self.open_rows()?;
        let open_listed = has_more.then_some(rows.len());
        rows.retain(&is_wanted);
        let (mut logged, mut cursor, mut looked_at) = (Vec::new(), None, 0);
        let mut count = PAGE_ROWS.min(limit.saturating_add(1));
        loop {
            let (listed, next): (Vec<RunRow>, _) =
                self.remote.page((&["work", "runs"], "runs"), query, cursor, count)?;
            looked_at += listed.len();
            logged.extend(listed.into_iter().filter(&is_wanted));
            (cursor, count) = (next, PAGE_ROWS.min(MAX_LOOKED_AT.saturating_sub(looked_at)));
            if cursor.is_none() || logged.len() > limit || looked_at >= MAX_LOOKED_AT {
                break;
            }
        }
        logged.truncate(limit.saturating_add(1));
        self.shorten(&mut logged)?;
        rows.extend(logged);
        rows.sort_by_key(|row| std::cmp::Reverse(Instant::parse(&row.started_at).ok()));
        let looked_at = (cursor.is_some() && rows.len() < limit).then_some(looked_at);
        let has_more = rows.len() > limit || (cursor.is_some() && looked_at.is_none());
        rows.truncate(limit);
        Ok(NewestRuns { rows, has_more, looked_at, open_listed })
    }

    /// Gives runs of the ledger the shortest starts that only they have there.
    fn shorten(&self, rows: &mut [RunRow]) -> Result<(), Failure> {
        let ids: Vec<String> = rows.iter().map(|row| row.run.to_string()).collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        for kind in RECEIPTS {
            let found = self.remote.find_ids(kind, &ids)?;
            for (row, found) in rows.iter_mut().zip(found).filter(|(_, found)| found.id.is_some()) {
                row.short_id = found.short;
            }
        }
        Ok(())
    }

    /// The short form of a run's id; one that is not in the ledger yet stays whole.
    pub(super) fn short(&self, run: &Uuid) -> Result<String, Failure> {
        Ok(self.recorded_short(run)?.unwrap_or_else(|| run.to_string()))
    }

    fn recorded_short(&self, run: &Uuid) -> Result<Option<String>, Failure> {
        let id = run.to_string();
        for kind in RECEIPTS {
            let found = self.remote.find_ids(kind, &[&id])?;
            if let Some(found) = found.into_iter().find(|found| found.id.is_some()) {
                return Ok(Some(found.short));
            }
        }
        Ok(None)
    }

    /// The run that a word means, as in a workspace. Without a word, the newest.
    pub(super) fn find(&self, word: Option<&str>) -> Result<Uuid, Failure> {
        let word = word.unwrap_or("@");
        match IdWord::read(word) {
            // Merges of a level are not counted.
            IdWord::Recent(newer) => {
                let newest = self.newest(&[], newer + 1, |row| row.item.is_some())?;
                let missing = if newest.rows.is_empty() { RunsError::NoneYet } else { RunsError::OnlyOne };
                newest.nth(newer, word, missing)
            }
            IdWord::Start(start) => match Uuid::parse(start) {
                Some(run) => Ok(run),
                None => self.find_start(start),
            },
        }
    }

    /// The run whose id starts so, else the newest run of the item.
    fn find_start(&self, start: &str) -> Result<Uuid, Failure> {
        let mut runs = Vec::new();
        for kind in RECEIPTS {
            runs.extend(self.remote.find_ids(kind, &[start])?.into_iter().filter_map(|found| found.id));
        }
        runs.extend(
            self.open_rows()?.runs.iter().map(|row| row.run.to_string()).filter(|run| run.starts_with(start)),
        );
        runs.retain(|run| Uuid::parse(run).is_some() && !start.is_empty());
        runs.sort();
        runs.dedup();
        let one = one_id(start, runs).map_err(RunsError::from).map_err(WorkError::from)?;
        match one.as_deref().and_then(Uuid::parse) {
            Some(run) => Ok(run),
            None => {
                let newest = self.newest(&[], 1, |row| row.item.as_deref() == Some(start))?;
                newest.nth(0, start, RunsError::Unknown(start.to_owned()))
            }
        }
    }

    /// What happened in a run.
    pub(super) fn story(&self, run: &Uuid) -> Result<RunStory, Failure> {
        let answer = self.part(run, &["story"])?;
        let mut story: RunStory = answer.read()?;
        if story.row.run != *run {
            return Err(answer.refuse("it shows another run than the one that was asked for").into());
        }
        if let Some(short) = self.recorded_short(run)? {
            story.row.short_id = short;
        }
        if let Some(earlier) = &mut story.earlier_run {
            earlier.short_id = self.short(&earlier.run)?;
        }
        Ok(story)
    }

    /// What a run changed.
    pub(super) fn diff(&self, run: &Uuid) -> Result<String, Failure> {
        Ok(self.part(run, &["diff"])?.text_of(DIFF_TYPE)?.to_owned())
    }

    /// The receipt of a run, as it is recorded.
    pub(super) fn documents(&self, run: &Uuid) -> Result<RecordedDocuments, Failure> {
        Ok(self.part(run, &[])?.read()?)
    }

    /// What the server itself finds of the receipt, with the signers that are enrolled there.
    pub(super) fn proof(&self, run: &Uuid) -> Result<ReceiptProof, Failure> {
        Ok(self.part(run, &["verify"])?.read()?)
    }

    /// What a run printed from a place on: of the server's own workspace as it comes, else as it was reported.
    pub(super) fn output(&self, run: &Uuid, after: u64) -> Result<RemoteOutput, Failure> {
        let id = run.to_string();
        let path = ["work", "runs", &id, "output"];
        let answer = match self.remote.client.get(&path, &[("after", Some(after.to_string()))]) {
            Err(ClientError::Refused(why)) if why.code == "not_here" => {
                let LogFiles { files, mut left_out } = self.part(run, &["logs"])?.read()?;
                left_out.retain(|name| name.ends_with(".log"));
                let files = files.iter().map(|file| (file.name.as_str(), file.text.as_str()));
                let records = log_records(files);
                return Ok(RemoteOutput { records, next: None, has_more: false, left_out });
            }
            answer => known(run, answer)?,
        };
        let OutputPart { records, next, has_more, is_running, .. } = answer.read()?;
        // A part that has more and does not advance would have no end.
        if has_more && next <= after {
            return Err(answer.refuse("its output does not advance").into());
        }
        let next = (is_running || has_more).then_some(next);
        Ok(RemoteOutput { records, next, has_more, left_out: Vec::new() })
    }

    fn part(&self, run: &Uuid, rest: &[&str]) -> Result<ServerAnswer, Failure> {
        let id = run.to_string();
        known(run, self.remote.client.get(&[&["work", "runs", &id], rest].concat(), &[]))
    }
}

impl NewestRuns {
    /// The run with this many newer ones; `missing` if there is none and every run was looked at.
    fn nth(&self, newer: usize, word: &str, missing: RunsError) -> Result<Uuid, Failure> {
        if let Some(row) = self.rows.get(newer) {
            return Ok(row.run);
        }
        match self.stated_cut() {
            Some(cut) => Err(ServerFailure::NotLookedAt { word: word.to_owned(), cut }.into()),
            None => Err(WorkError::from(missing).into()),
        }
    }

    /// What was not looked at, in words; nothing if every run was, or enough were found.
    pub(super) fn stated_cut(&self) -> Option<String> {
        let recorded = self.looked_at.map(|count| format!("only the newest {count} recorded runs"));
        let open = self.open_listed.map(|count| format!("only the newest {count} open runs"));
        match (recorded, open) {
            (Some(recorded), Some(open)) => Some(format!("{recorded} and {open} were looked at")),
            (one, other) => one.or(other).map(|one| format!("{one} were looked at")),
        }
    }
}

/// An answer about a run that the server knows.
fn known(run: &Uuid, answer: Result<ServerAnswer, ClientError>) -> Result<ServerAnswer, Failure> {
    Ok(found(answer)?.ok_or_else(|| WorkError::from(RunsError::Unknown(run.to_string())))?)
}
