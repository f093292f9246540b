//! Receipts on their way to a server: written into a folder of the user's state before they are sent, and removed once the server has
//! them. Owns the limit of that folder; dropped reports are named, never dropped silently. A run's outcome does not depend on it.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::reported::{ReceiptReport, ReportedFile};
use crealeph_contracts::scalar::Text;
use crealeph_contracts::shape::List;
use crealeph_contracts::uuid::Uuid;
use crealeph_verify::read_unproven;

use crate::client::{ClientError, ServerClient};
use crate::work::receipt::{DIFF_FILE, ENVELOPE_FILE, RECEIPT_FILE};
use crate::work::{RunReader, RunsError};

/// How many reports wait for a server, and how large they are together.
const MAX_PENDING: usize = 1_000;
const MAX_PENDING_BYTES: u64 = 256 << 20;
/// The largest report: what a ledger takes by default, without what surrounds it.
const MAX_REPORT_BYTES: usize = (4 << 20) - (64 << 10);
/// How long all reports may take together.
const ALL_TIME: Duration = Duration::from_secs(120);
/// Why reports cannot be kept or sent.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The folder.
    #[error("cannot read or write `{}`", .path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The run.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// A run without a receipt, or a receipt that cannot be reported.
    #[error("run `{run}` cannot be reported: {why}")]
    Unreportable {
        /// The run.
        run: Uuid,
        /// Why not.
        why: String,
    },
}

impl OutboxError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            OutboxError::Folder { .. } => "unwritable",
            OutboxError::Runs(_) | OutboxError::Unreportable { .. } => "not_reportable",
        }
    }
}

/// Why a report was not sent.
enum Unsent {
    /// The server refused this one.
    Refused(String),
    /// The server, or the way to it, does not take any now.
    Away(String),
}

fn send(server: &ServerClient, report: &str) -> Result<(), Unsent> {
    match server.ask(&["work", "receipts"], &[], report.as_bytes()) {
        Ok(_) => Ok(()),
        // What is wrong with one report is not wrong with the next.
        Err(ClientError::Refused(why)) if matches!(why.status, 400 | 409 | 413 | 422) => {
            Err(Unsent::Refused(format!("{}: {}", why.status, why.detail)))
        }
        Err(ClientError::Refused(why)) => Err(Unsent::Away(format!("{}: {}", why.status, why.detail))),
        Err(error) => Err(Unsent::Away(error.to_string())),
    }
}

/// The outcome of reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentReports {
    /// The runs whose receipts the server has now.
    pub sent: Vec<Uuid>,
    /// Those that the server refused, and why; they are kept.
    pub refused: Vec<(Uuid, String)>,
    /// Why the server accepted no more.
    pub away: Option<String>,
    /// How many are still kept.
    pub pending: usize,
}

/// The reports that wait for one server.
#[derive(Debug)]
pub struct Outbox {
    folder: PathBuf,
}

impl Outbox {
    /// The outbox for a server, in the folder of the user's state.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(state: &Path, target: &ServerClient) -> Result<Self, OutboxError> {
        let digest = Blake3::of(target.url().as_bytes()).to_string();
        let folder = state.join("reports").join(digest.get(..32).unwrap_or(&digest));
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(failed(&folder))?;
        Ok(Outbox { folder })
    }

    /// Keeps the report of a finished run, and says which older ones had to go for it.
    ///
    /// # Errors
    /// When the run has no receipt, or the folder cannot be written.
    pub fn keep(&self, reader: &RunReader, run: &Uuid) -> Result<Vec<Uuid>, OutboxError> {
        let text = to_json(&report_of(reader, run)?);
        let dropped = self.make_room(run, text.len() as u64, (MAX_PENDING, MAX_PENDING_BYTES))?;
        let (path, temporary) = (self.path(run), self.folder.join(format!("{run}.new")));
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        let mut file = file.map_err(failed(&temporary))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed(&temporary))?;
        fs::rename(&temporary, &path).map_err(failed(&path))?;
        Ok(dropped)
    }

    /// Drops the oldest reports until there is room for that of a run; those that were dropped.
    fn make_room(
        &self,
        run: &Uuid,
        size: u64,
        (most, most_bytes): (usize, u64),
    ) -> Result<Vec<Uuid>, OutboxError> {
        let mut others = self.pending()?;
        others.retain(|kept| kept.run != *run);
        let mut bytes = others.iter().map(|kept| kept.bytes).sum::<u64>() + size;
        let (mut oldest, mut dropped) = (others.into_iter(), Vec::new());
        while oldest.len() >= most || bytes > most_bytes {
            let Some(kept) = oldest.next() else { break };
            self.remove(&kept.run)?;
            bytes = bytes.saturating_sub(kept.bytes);
            dropped.push(kept.run);
        }
        Ok(dropped)
    }

    /// Sends what is kept, oldest first, within a bound of time.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn send(&self, target: &ServerClient) -> Result<SentReports, OutboxError> {
        let until = Instant::now() + ALL_TIME;
        let mut result = SentReports::default();
        let pending = self.pending()?;
        result.pending = pending.len();
        for kept in pending {
            if Instant::now() > until {
                result.away = Some(format!("{} s are over", ALL_TIME.as_secs()));
                break;
            }
            let path = self.path(&kept.run);
            let report = fs::read_to_string(&path).map_err(failed(&path))?;
            match send(target, &report) {
                Ok(()) => {
                    self.remove(&kept.run)?;
                    result.pending -= 1;
                    result.sent.push(kept.run);
                }
                Err(Unsent::Refused(why)) => result.refused.push((kept.run, why)),
                Err(Unsent::Away(why)) => {
                    result.away = Some(why);
                    break;
                }
            }
        }
        Ok(result)
    }

    fn path(&self, run: &Uuid) -> PathBuf {
        self.folder.join(format!("{run}.json"))
    }

    fn remove(&self, run: &Uuid) -> Result<(), OutboxError> {
        let path = self.path(run);
        match fs::remove_file(&path) {
            // Another process has sent it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(failed(&path)),
        }
    }

    /// What is kept, in the order of the runs, whose ids are ordered by time.
    fn pending(&self) -> Result<Vec<KeptReport>, OutboxError> {
        let mut pending = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed(&self.folder))? {
            let entry = entry.map_err(failed(&self.folder))?;
            let name = entry.file_name();
            let run = name.to_str().and_then(|name| name.strip_suffix(".json")).and_then(Uuid::parse);
            let Some(run) = run else { continue };
            let bytes = entry.metadata().map_err(failed(&entry.path()))?.len();
            pending.push(KeptReport { run, bytes });
        }
        pending.sort_by_key(|kept| kept.run.to_string());
        Ok(pending)
    }
}

/// A report that waits.
struct KeptReport {
    run: Uuid,
    bytes: u64,
}

fn failed(path: &Path) -> impl Fn(io::Error) -> OutboxError + use<> {
    let path = path.to_owned();
    move |source| OutboxError::Folder { path: path.clone(), source }
}

/// The report of a run: receipt, statement, and of its diff and output what fits, whole files only.
fn report_of(reader: &RunReader, run: &Uuid) -> Result<ReceiptReport, OutboxError> {
    let unreportable = |why: &str| OutboxError::Unreportable { run: *run, why: why.to_owned() };
    let (receipt, envelope) = (reader.file(run, RECEIPT_FILE)?, reader.file(run, ENVELOPE_FILE)?);
    let (Some(receipt), Some(envelope)) = (receipt, envelope) else {
        return Err(unreportable("it has no receipt yet"));
    };
    let read = read_unproven(&receipt, &envelope).map_err(|finding| unreportable(&finding.what))?;
    let object = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(JsonObject::parse_own);
    let parts = object(&receipt).zip(object(&envelope));
    let (receipt, envelope) = parts.ok_or_else(|| unreportable("its receipt is not JSON"))?;
    let size = receipt.as_str().len() + envelope.as_str().len();
    let Some(mut left) = MAX_REPORT_BYTES.checked_sub(size) else {
        return Err(unreportable(&format!("its receipt is larger than {MAX_REPORT_BYTES} bytes")));
    };
    let stated = read.statement.predicate.files.as_ref().map_or(&[][..], |files| files.as_slice());
    let mut names: Vec<&str> = stated.iter().map(|file| file.name.as_str()).collect();
    names.retain(|name| *name == DIFF_FILE || name.ends_with(".log"));
    names.sort_by_key(|name| *name != DIFF_FILE);
    let mut files = Vec::new();
    for name in names {
        let Some(bytes) = reader.file(run, name)? else { continue };
        let content = STANDARD.encode(&bytes);
        let needed = content.len() + name.len() + 64;
        if let (Some(rest), Some(name)) = (left.checked_sub(needed), Text::new(name)) {
            left = rest;
            files.push(ReportedFile { name, content: content.into() });
        }
    }
    Ok(ReceiptReport { receipt, envelope, files: List::from_iter(files) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_oldest_reports_are_dropped_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let target = ServerClient::new("http://127.0.0.1:9", "crealeph_x", None).unwrap();
        let outbox = Outbox::open(folder.path(), &target).unwrap();
        let run = |number: u8| Uuid::from_bytes([number; 16]);
        for number in [3, 1, 2] {
            fs::write(outbox.path(&run(number)), "0123456789").unwrap();
        }
        assert_eq!(outbox.make_room(&run(4), 10, (4, 40)).unwrap(), []);
        // A report that is written again takes no more room.
        assert_eq!(outbox.make_room(&run(3), 10, (3, 30)).unwrap(), []);
        assert_eq!(outbox.make_room(&run(4), 10, (3, 40)).unwrap(), [run(1)]);
        assert_eq!(outbox.make_room(&run(4), 25, (9, 35)).unwrap(), [run(2)]);
        assert_eq!(outbox.pending().unwrap().iter().map(|kept| kept.run).collect::<Vec<_>>(), [run(3)]);
        // What could not be sent is kept.
        let sent = outbox.send(&target).unwrap();
        assert!(sent.sent.is_empty() && sent.away.is_some() && sent.pending == 1, "{sent:?}");
    }
}
