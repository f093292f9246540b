//! The commands that write: init, append, import, backup, checkpoint, key.

use std::borrow::Cow;
use std::io::{BufRead as _, BufReader, Cursor, Read as _};
use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::log_export::MAX_EXPORT_HEADER_BYTES;
use crealeph_contracts::scalar::TenantId;
use crealeph_contracts::short_id::NamedKind;
use crealeph_ledger::{Ledger, Location};
use crealeph_runtime::entries::AppendedReport;
use serde_json::json;

use super::proving::{import_signed, read_keys};
use super::{CommandOutcome, Settled};
use crate::commands::ids::ShortIds;
use crate::commands::place::{LogSource, Place};
use crate::failure::{Failure, InputFailure, LedgerFailure, OutputFailure};
use crate::input::{DEFAULT_MAX_BYTES, Line, Reader, Source, next_line};
use crate::output::{Output, note};
use crate::progress::{Counted, Progress};

/// Lines that are written together at most.
const BATCH_LINES: usize = 500;
/// Bytes of lines after which a batch is written. Canonical form makes at most five times as many of them (`1e20`), and
/// with one more line of any size they must fit into the ledger's batch.
const BATCH_BYTES: usize = 2 << 20;

pub(super) fn init(at: &Settled) -> Result<CommandOutcome, Failure> {
    at.claim()?;
    if let Location::File(file) = &at.location
        && let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .map_err(|source| OutputFailure::Unwritable { path: folder.to_owned(), source })?;
    }
    let ledger = Ledger::init(&at.location, at.options())?;
    note!("created the ledger `{}` with its signing key in `{}`", ledger.place(), at.keys.display());
    note!("save the output of `crealeph ledger key` elsewhere: it is needed to verify the log");
    Ok(CommandOutcome::Good)
}

/// Append entries from JSON Lines
#[derive(Debug, Args)]
pub(super) struct Append {
    /// Entries as JSON Lines; standard input if absent or `-`
    file: Option<PathBuf>,
    /// Print sequence number, time and id of each entry, as a pipe always gets them
    #[arg(long)]
    print: bool,
}

impl Append {
    pub(super) fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let log = at.log()?;
        let source = Source::new(self.file);
        let mut reader = source.open()?;
        output.outlive_reader();
        let is_printed = self.print || at.is_json(output);
        let progress = match is_printed {
            true => Progress::beside("entries appended", output),
            false => Progress::alone("entries appended"),
        };
        let progress = progress.of(source.size());
        let mut tally = Tally { progress, is_printed, new: 0, repeats: 0 };
        let mut batch = Batch::default();
        let mut number = 0u64;
        loop {
            number += 1;
            let line = next_line(&mut reader, DEFAULT_MAX_BYTES).map_err(|error| source.failure(error))?;
            let line = match line {
                Line::End => break,
                Line::Whole(line) => line,
                Line::TooLong => {
                    let what = format!("{}, line {number}", source.name());
                    batch.write(&log, at, &source, output, &mut tally)?;
                    return Err(InputFailure::TooLarge { what, limit: DEFAULT_MAX_BYTES }.into());
                }
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match Draft::parse(&line, &Limits::outside(DEFAULT_MAX_BYTES)) {
                Ok(draft) => batch.push(draft, number, line.len()),
                Err(violations) => {
                    batch.write(&log, at, &source, output, &mut tally)?;
                    let name = format!("{}, line {number}", source.name());
                    let expected = "entry, one whole object per line";
                    return Err(InputFailure::Invalid { name, expected, violations }.into());
                }
            }
            // A program that writes line by line gets an answer line by line.
            if batch.is_full() || !reader.buffer().contains(&b'\n') {
                batch.write(&log, at, &source, output, &mut tally)?;
                output.flush()?;
            }
        }
        batch.write(&log, at, &source, output, &mut tally)?;
        let Tally { new, repeats, progress, .. } = tally;
        drop(progress);
        note!("{new} appended, {repeats} repeats");
        Ok(CommandOutcome::Good)
    }
}

#[derive(Default)]
struct Batch {
    drafts: Vec<Draft>,
    lines: Vec<BatchLine>,
    bytes: usize,
}

/// The line of a draft.
#[derive(Clone, Copy)]
struct BatchLine {
    number: u64,
    bytes: usize,
}

impl Batch {
    fn push(&mut self, draft: Draft, number: u64, bytes: usize) {
        self.drafts.push(draft);
        self.lines.push(BatchLine { number, bytes });
        self.bytes += bytes;
    }

    fn is_full(&self) -> bool {
        self.drafts.len() >= BATCH_LINES || self.bytes >= BATCH_BYTES
    }

    /// Writes what is gathered. Where a line is refused, the lines before it are written all the same.
    fn write(
        &mut self,
        log: &LogSource,
        at: &Place,
        source: &Source,
        output: &mut Output,
        tally: &mut Tally,
    ) -> Result<(), Failure> {
        let Batch { drafts, lines, .. } = std::mem::take(self);
        let (appended, refused) = log.append(drafts)?;
        tally.add(&appended, &lines, log, at, output)?;
        let Some(why) = refused else { return Ok(()) };
        output.flush()?;
        let line = lines.get(appended.len()).map_or(0, |line| line.number);
        Err(why.of_line(format!("{}, line {line}", source.name())))
    }
}

/// The result of the lines so far.
struct Tally {
    progress: Progress,
    is_printed: bool,
    new: u64,
    repeats: u64,
}

impl Tally {
    /// Counts entries, and prints them if that is wanted.
    fn add(
        &mut self,
        appended: &[AppendedReport],
        lines: &[BatchLine],
        log: &LogSource,
        at: &Place,
        output: &mut Output,
    ) -> Result<(), Failure> {
        for (one, line) in appended.iter().zip(lines) {
            self.progress.step(line.bytes as u64 + 1);
            match one.repeat {
                true => self.repeats += 1,
                false => self.new += 1,
            }
        }
        match self.is_printed {
            true => print_appended(appended, log, at, output),
            false => Ok(()),
        }
    }
}

fn print_appended(
    appended: &[AppendedReport],
    log: &LogSource,
    at: &Place,
    output: &mut Output,
) -> Result<(), Failure> {
    let is_json = at.is_json(output);
    let ids = appended.iter().filter(|_| !is_json).map(|one| one.id.as_str());
    let short = ShortIds::find(log, NamedKind::Entry, ids)?;
    for one in appended {
        if is_json {
            output.report_line(one)?;
        } else {
            let repeat = if one.repeat { "  repeat" } else { "" };
            let id = short.of(one.id.as_str());
            output.line(&format!("{:>8}  {}  {id}{repeat}", one.seq, one.created_at))?;
        }
    }
    Ok(())
}

/// Import an export, verifying every entry; resumes if interrupted
#[derive(Debug, Args)]
pub(super) struct Import {
    /// Export file; standard input if absent or `-`
    file: Option<PathBuf>,
    /// File of public keys that you saved; import only what they signed
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
}

impl Import {
    pub(super) fn run(self, at: &Settled, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let ledger = at.open()?;
        let source = Source::new(self.file);
        let mut input = source.open()?;
        let mut header = Vec::new();
        let read = input.by_ref().take(MAX_EXPORT_HEADER_BYTES as u64).read_until(b'\n', &mut header);
        read.map_err(|error| source.failure(error))?;
        check_tenant(&header, &at.tenant)?;
        let input: Reader = BufReader::new(Box::new(Cursor::new(header).chain(input)));
        let (imported, signed) = if self.key.is_empty() {
            note!("the signatures of the export are not verified; use --key with a key that you saved");
            let progress = Progress::alone("entries imported").of(source.size());
            (ledger.import(&mut Counted { inner: input, progress })?, None)
        } else {
            let (imported, verified) = import_signed(&ledger, &source, input, read_keys(&self.key)?)?;
            if verified.signed_entries < verified.entries {
                let unsigned = verified.entries - verified.signed_entries;
                note!("the last {unsigned} entries are not signed and were left out");
            }
            (imported, Some(verified.signed_entries))
        };
        let crealeph_ledger::ImportSummary { tenant_id, entries, repeats } = imported;
        let tenant_id = tenant_id.as_str();
        if !at.is_json(output) {
            let signed = signed.map_or_else(String::new, |signed| format!(", {signed} signed"));
            let repeats = match repeats {
                0 => String::new(),
                repeats => format!("; {repeats} were there already"),
            };
            output.line(&format!("imported {entries} entries of tenant `{tenant_id}`{signed}{repeats}"))?;
            return Ok(CommandOutcome::Good);
        }
        let mut report = json!({ "tenantId": tenant_id, "imported": entries, "repeats": repeats });
        if let (Some(signed), Some(report)) = (signed, report.as_object_mut()) {
            report.insert("signedEntries".to_owned(), signed.into());
        }
        output.report(&report)?;
        Ok(CommandOutcome::Good)
    }
}

/// Refuses an export of another tenant: its entries name their tenant, and are signed with it.
fn check_tenant(header: &[u8], expected: &TenantId) -> Result<(), Failure> {
    let (header, _) = parse(header, &Limits::default());
    let tenant = header.and_then(|header| header.root().member("tenantId")?.string().map(Cow::into_owned));
    match tenant {
        Some(found) if found != expected.as_str() => {
            Err(LedgerFailure::OtherTenant { found, expected: expected.to_string() }.into())
        }
        // The import reports what is not a header.
        _ => Ok(()),
    }
}

/// Back up the ledger to a new file while it is in use, without its keys
#[derive(Debug, Args)]
pub(super) struct Backup {
    /// New file
    to: PathBuf,
}

impl Backup {
    pub(super) fn run(self, at: &Settled, _: &mut Output) -> Result<CommandOutcome, Failure> {
        let mut progress = Progress::alone("bytes copied");
        at.open()?.backup(&self.to, move |written, total| progress.reach(written, Some(total)))?;
        note!(
            "copied to `{}`; the signing keys in `{}` are not part of it",
            self.to.display(),
            at.keys.display()
        );
        Ok(CommandOutcome::Good)
    }
}

pub(super) fn checkpoint(at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
    output.document(&at.log()?.checkpoint()?)?;
    Ok(CommandOutcome::Good)
}

/// Print the public keys that verify the log, or add a signing key
#[derive(Debug, Args)]
pub(super) struct Key {
    /// Add a new signing key; older keys keep signing until you remove their files
    #[arg(long)]
    rotate: bool,
}

impl Key {
    pub(super) fn run(self, at: &Settled, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let ledger = at.open()?;
        if self.rotate {
            ledger.rotate_key()?;
        }
        for key in ledger.verifier_keys(&at.tenant)? {
            output.document(&format!("{key}\n"))?;
        }
        Ok(CommandOutcome::Good)
    }
}

/// Reads a small text file whole.
pub(super) fn read_text(path: &Path) -> Result<String, InputFailure> {
    let source = Source::new(Some(path.to_owned()));
    source.text(source.read_bounded(1 << 20)?)
}
