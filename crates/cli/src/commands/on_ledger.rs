//! What commands over a ledger share: its location, the tenant, and one of several tasks. A task may read from an
//! export instead, which is imported into a temporary ledger that is removed when the command ends.

use std::path::Path;

use clap::{Args, Subcommand};
use crealeph_contracts::short_id::NamedKind;
use crealeph_ledger::{Ledger, LedgerLimits, LedgerOptions, Location};

use super::CommandOutcome;
use super::ids::ShortIds;
use super::ledger::At;
use super::place::{LogSource, Place};
use crate::failure::{Failure, OutputFailure, ServerFailure};
use crate::input::{Reader, Source};
use crate::interrupt::remove_before_end;
use crate::output::Output;
use crate::progress::{Counted, Progress};

/// One of the things that a command does.
pub(super) trait Task: Subcommand {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure>;
}

/// A command that does one of several things over a ledger.
#[derive(Debug, Args)]
pub(super) struct OnLedger<T: Task> {
    #[command(flatten)]
    at: At,

    #[command(subcommand)]
    task: T,
}

impl<T: Task> OnLedger<T> {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        self.task.run(&self.at.place()?, output)
    }
}

/// A log to read from; one that was made for this is removed afterwards.
pub(super) struct Opened {
    pub(super) log: LogSource,
    _folder: Option<tempfile::TempDir>,
}

impl Opened {
    /// The export, where one is named, else the log in use.
    pub(super) fn new(at: &Place, export: Option<&Path>, output: &Output) -> Result<Opened, Failure> {
        match export {
            None => Ok(Opened { log: at.log()?, _folder: None }),
            Some(export) => Opened::import(export, Progress::beside("entries read", output)),
        }
    }

    /// The same for what is derived from the whole log: of a server, its export.
    pub(super) fn whole(at: &Place, export: Option<&Path>, output: &Output) -> Result<Opened, Failure> {
        match (export, at) {
            (None, Place::Server(remote)) => {
                let (_, reader) = remote.export()?;
                let opened = Opened::import_from(reader, Progress::beside("entries read", output))?;
                match opened.log.tenant() == &remote.tenant {
                    true => Ok(opened),
                    false => {
                        let what = "the tenant: its export is another's";
                        Err(ServerFailure::NotShown { what }.into())
                    }
                }
            }
            _ => Opened::new(at, export, output),
        }
    }

    /// The short form of an execution's id.
    pub(super) fn short_execution(&self, id: &str) -> Result<String, Failure> {
        let short = ShortIds::find(&self.log, NamedKind::Execution, [id])?;
        Ok(short.of(id).to_owned())
    }

    fn import(export: &Path, progress: Progress) -> Result<Opened, Failure> {
        let source = Source::new(Some(export.to_owned()));
        let progress = progress.of(source.size());
        Opened::import_from(source.open()?, progress)
    }

    fn import_from(input: Reader, progress: Progress) -> Result<Opened, Failure> {
        let unwritable = |source| OutputFailure::Unwritable { path: std::env::temp_dir(), source };
        let folder = tempfile::Builder::new().prefix("crealeph-").tempdir().map_err(unwritable)?;
        remove_before_end(folder.path().to_owned())?;
        let location = Location::File(folder.path().join("ledger.db"));
        // What is in the export was taken already, by whatever clock.
        let limits = LedgerLimits { clock_skew_ms: i64::MAX, ..LedgerLimits::default() };
        let ledger = Ledger::init(&location, LedgerOptions { limits, ..LedgerOptions::default() })?;
        let mut lines = Counted { inner: input, progress };
        let imported = ledger.import(&mut lines)?;
        Ok(Opened { log: LogSource::Ledger(ledger, imported.tenant_id), _folder: Some(folder) })
    }
}
