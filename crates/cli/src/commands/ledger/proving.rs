//! The commands that prove and check: export, verify, prove, verify-proof. Checking is done by `crealeph-verify`, which
//! shares no code with the writer of the ledger.

use std::io::{BufReader, BufWriter, Read as _, Seek as _, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::log_export::{MAX_EXPORT_HEADER_BYTES, MAX_EXPORT_LINE_BYTES};
use crealeph_ledger::{AuditFaultKind, ExportSummary, ImportSummary, Ledger, LedgerError, Seq};
use crealeph_runtime::client::ClientError;
use crealeph_verify::{ExportVerifier, Finding, FindingKind, VerifiedExport, VerifierKey, verify_proof};
use serde::Deserialize;
use serde_json::json;

use super::reading::find;
use super::writing::read_text;
use super::{At, CommandOutcome, Settled};
use crate::commands::place::{Place, RemoteLog};
use crate::commands::stop::Stop;
use crate::commands::tell_finding;
use crate::failure::{Failure, InputFailure, LedgerFailure, OutputFailure, ServerFailure};
use crate::input::{Line, Reader, Source, next_line};
use crate::new_file::NewFile;
use crate::output::{Output, note};
use crate::progress::{Counted, CountedLines, Progress};

/// The largest proof file that is read.
const MAX_PROOF_BYTES: usize = 64 << 20;

/// A log with more entries than this takes a moment to check.
const LARGE_LOG: u64 = 100_000;

/// Export the log as JSON Lines: entries, leaf hashes and checkpoints
#[derive(Debug, Args)]
pub(super) struct Export {
    /// New file; standard output if absent or `-`
    file: Option<PathBuf>,
}

impl Export {
    pub(super) fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let at = match at {
            Place::Here(at) => at,
            Place::Server(remote) => return self.run_remote(remote, output),
        };
        let ledger = at.open()?;
        let size = require_log(&ledger, at)?;
        let exported = match self.file.filter(|file| file.as_os_str() != "-") {
            None => {
                let progress = Progress::beside("entries exported", output).of(Some(size));
                let mut lines = CountedLines { inner: output.json_lines(), progress };
                let exported = ledger.export(&at.tenant, &mut lines)?;
                lines.flush().map_err(OutputFailure::Stdout)?;
                exported
            }
            Some(path) => {
                let progress = Progress::alone("entries exported").of(Some(size));
                export_to(&ledger, at, &path, progress)?
            }
        };
        if let Some(exported) = exported {
            tell_exported(exported.entries, exported.checkpoints, exported.covered);
        }
        Ok(CommandOutcome::Good)
    }

    /// Copies the export of a server, which must be whole. Whether it is right is for `ledger verify`.
    fn run_remote(self, remote: &RemoteLog, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let (source, reader) = remote.export()?;
        let mut lines = ExportLines::new(&source, reader, "entries exported");
        let mut counted = CountedExport::default();
        match self.file.filter(|file| file.as_os_str() != "-") {
            None => {
                let mut out = output.json_lines();
                while let Some(line) = lines.next()? {
                    counted.add(&line);
                    writeln!(out, "{line}").map_err(OutputFailure::Stdout)?;
                }
                out.flush().map_err(OutputFailure::Stdout)?;
            }
            Some(path) => {
                let unwritten = |source| OutputFailure::Unwritable { path: path.clone(), source };
                let mut file = BufWriter::new(NewFile::create(&path)?);
                while let Some(line) = lines.next()? {
                    counted.add(&line);
                    writeln!(file, "{line}").map_err(unwritten)?;
                }
                counted.check(remote)?;
                file.into_inner().map_err(|error| unwritten(error.into_error()))?.finish()?;
            }
        }
        drop(lines);
        counted.check(remote)?;
        tell_exported(counted.entries, counted.checkpoints, counted.covered);
        Ok(CommandOutcome::Good)
    }
}

fn tell_exported(entries: u64, checkpoints: u64, covered: u64) {
    note!("entries: {entries}, checkpoints: {checkpoints}");
    let unsigned = entries.saturating_sub(covered);
    if unsigned > 0 {
        note!(
            "not covered by any checkpoint: the last {unsigned}; `crealeph ledger checkpoint` signs for them"
        );
    }
}

/// What an export that passes by holds.
#[derive(Default)]
struct CountedExport {
    /// As many entries as its first line states.
    stated: Option<u64>,
    entries: u64,
    checkpoints: u64,
    /// How many entries its last checkpoint is about.
    covered: u64,
}

#[derive(Deserialize)]
struct HeaderLine {
    entries: u64,
}

#[derive(Deserialize)]
struct CheckpointLine {
    checkpoint: String,
}

impl CountedExport {
    fn add(&mut self, line: &str) {
        if line.starts_with("{\"entry\":") {
            self.entries += 1;
        } else if let Ok(CheckpointLine { checkpoint }) = serde_json::from_str(line) {
            self.checkpoints += 1;
            let size = checkpoint.lines().nth(1).and_then(|size| size.parse().ok());
            self.covered = self.covered.max(size.unwrap_or(0));
        } else if let (None, Ok(HeaderLine { entries })) = (self.stated, serde_json::from_str(line)) {
            self.stated = Some(entries);
        }
    }

    /// An export that ends early is not valid.
    fn check(&self, remote: &RemoteLog) -> Result<(), Failure> {
        if self.stated == Some(self.entries) {
            return Ok(());
        }
        let why = format!("its export has {} entries and states {}", self.entries, self.stated.unwrap_or(0));
        Err(ServerFailure::from(ClientError::Answer { url: remote.client.url().to_owned(), why }).into())
    }
}

/// Writes an export into a new file.
fn export_to(
    ledger: &Ledger,
    at: &Settled,
    path: &Path,
    progress: Progress,
) -> Result<Option<ExportSummary>, Failure> {
    let file = NewFile::create(path)?;
    let mut writer = CountedLines { inner: BufWriter::new(file), progress };
    let exported = ledger.export(&at.tenant, &mut writer)?;
    let unwritten = |source| OutputFailure::Unwritable { path: path.to_owned(), source };
    writer.inner.into_inner().map_err(|error| unwritten(error.into_error()))?.finish()?;
    Ok(exported)
}

/// The size of the tenant's log. A tenant that has nothing is most often a misspelt one.
fn require_log(ledger: &Ledger, at: &Settled) -> Result<u64, Failure> {
    match ledger.stats(&at.tenant)? {
        Some(stats) => Ok(stats.entries),
        None => {
            Err(LedgerFailure::NoLog { tenant: at.tenant.to_string(), place: ledger.place().to_owned() }
                .into())
        }
    }
}

/// Verify the log: recompute every hash and signature, and report the first fault
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// Verify an export instead of the ledger; `-` for standard input
    export: Option<PathBuf>,
    /// Checkpoint that you saved; can be repeated
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
    /// File of public keys that you saved [default: the keys next to the ledger]
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
}

impl Verify {
    pub(super) fn run(self, at: At, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let is_json = at.json || !output.is_for_person();
        match self.check(at) {
            Ok(verified) => tell(&verified, is_json, output),
            Err(Stop::Finding(finding)) => tell_finding(&finding, "seq", is_json, output),
            Err(Stop::Failure(failure)) => Err(failure),
        }
    }

    fn check(self, at: At) -> Result<VerifiedExport, Stop> {
        let mut keys = read_keys(&self.key)?;
        let are_kept = !keys.is_empty();
        // An export needs no ledger, and so nothing of the configuration.
        let place = if self.export.is_some() { None } else { Some(at.place()?) };
        let (ledger, remote) = match place {
            None => (None, None),
            Some(Place::Server(remote)) => (None, Some(remote)),
            Some(Place::Here(at)) => {
                let ledger = at.open()?;
                let size = require_log(&ledger, &at)?;
                (Some((ledger, at, size)), None)
            }
        };
        if remote.is_some() && keys.is_empty() {
            note!("no key is given, so no signature is checked; use --key with a key that you saved");
        }
        if keys.is_empty()
            && let Some((ledger, at, _)) = &ledger
        {
            note!(
                "verifying with the keys next to the ledger; use --key to verify with a key that you saved"
            );
            for key in ledger.verifier_keys(&at.tenant)? {
                keys.push(parse_key(&key)?);
            }
        }
        let kept = self.checkpoint.iter().map(|path| read_text(path)).collect::<Result<Vec<_>, _>>()?;
        let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
        let verifier = ExportVerifier::new(keys, &kept)?;
        let verifier = if are_kept { verifier } else { verifier.with_keys_of_the_ledger() };
        let verified = match (&ledger, remote) {
            (Some((ledger, at, size)), _) => check_ledger(ledger, at, *size, verifier)?,
            (None, Some(remote)) => {
                let (source, reader) = remote.export()?;
                check_export(&source, reader, verifier)?
            }
            (None, None) => {
                let source = Source::new(self.export);
                let reader = source.open()?;
                check_export(&source, reader, verifier)?
            }
        };
        if let Some((ledger, at, size)) = &ledger {
            audit_ledger(ledger, at, *size)?;
            if let Some(what) = ledger.unchecked(&at.tenant)? {
                note!("not checked: {what}");
            }
        }
        Ok(verified)
    }
}

/// What the ledger's own tables say in addition to the entries: columns, indexes, other rows, the schema.
fn audit_ledger(ledger: &Ledger, at: &Settled, size: u64) -> Result<(), Stop> {
    let mut progress = Progress::alone("entries compared with the tables").of(Some(size));
    // The database checks its storage first, which takes a while for a large one.
    if size > LARGE_LOG {
        progress.begin();
    }
    let fault = match ledger.audit_reporting(&at.tenant, &mut |seq| progress.reach(seq.get(), Some(size))) {
        Ok(None) => return Ok(()),
        Ok(Some(fault)) => fault,
        Err(error @ LedgerError::Damaged { .. }) => return Err(damaged(&error, None).into()),
        Err(error) => return Err(error.into()),
    };
    let kind = match fault.kind {
        AuditFaultKind::Missing => FindingKind::Missing,
        AuditFaultKind::Extra => FindingKind::Extra,
        AuditFaultKind::Truncated => FindingKind::Truncated,
        AuditFaultKind::Forked => FindingKind::Forked,
        AuditFaultKind::Schema => FindingKind::Schema,
        _ => FindingKind::Changed,
    };
    Err(Finding { kind, seq: fault.seq.map(Seq::get), what: fault.what }.into())
}

/// Bytes that are not an entry, as a finding.
fn damaged(error: &LedgerError, seq: Option<u64>) -> Finding {
    let seq = match error {
        LedgerError::Damaged { seq: Some(known), .. } => Some(known.get()),
        _ => seq,
    };
    let hint = error.hint().map(|hint| format!("; {hint}")).unwrap_or_default();
    Finding { kind: FindingKind::Unreadable, seq, what: format!("{error}{hint}") }
}

fn check_export(
    source: &Source,
    reader: Reader,
    mut verifier: ExportVerifier,
) -> Result<VerifiedExport, Stop> {
    let mut lines = ExportLines::new(source, reader, "entries verified");
    while let Some(line) = lines.next()? {
        verifier.line(&line)?;
    }
    Ok(verifier.finish()?)
}

/// The lines of an export, within bounds, counted for a person.
struct ExportLines<'s> {
    source: &'s Source,
    reader: Reader,
    number: u64,
    progress: Progress,
}

impl<'s> ExportLines<'s> {
    fn new(source: &'s Source, reader: Reader, what: &'static str) -> Self {
        ExportLines { source, reader, number: 0, progress: Progress::alone(what).of(source.size()) }
    }

    fn next(&mut self) -> Result<Option<String>, Failure> {
        self.number += 1;
        // What never ends is refused at once: the first line of an export is short.
        let limit = if self.number == 1 { MAX_EXPORT_HEADER_BYTES } else { MAX_EXPORT_LINE_BYTES };
        match next_line(&mut self.reader, limit).map_err(|error| self.source.failure(error))? {
            Line::End => Ok(None),
            Line::Whole(line) => {
                self.progress.step(line.len() as u64 + 1);
                Ok(Some(self.source.text(line)?))
            }
            Line::TooLong => {
                let what = format!("{}, line {}", self.source.name(), self.number);
                Err(InputFailure::TooLarge { what, limit }.into())
            }
        }
    }
}

fn check_ledger(
    ledger: &Ledger,
    at: &Settled,
    size: u64,
    verifier: ExportVerifier,
) -> Result<VerifiedExport, Stop> {
    let progress = Progress::alone("entries verified").of(Some(size));
    let mut lines = LineWriter { verifier, buffer: Vec::new(), finding: None, progress };
    match ledger.export(&at.tenant, &mut lines) {
        Ok(Some(_)) => Ok(lines.verifier.finish()?),
        Ok(None) => {
            Err(LedgerFailure::NoLog { tenant: at.tenant.to_string(), place: ledger.place().to_owned() }
                .into())
        }
        Err(error) => match (lines.finding, error) {
            (Some(finding), _) => Err(finding.into()),
            (None, error @ LedgerError::Damaged { .. }) => {
                Err(damaged(&error, Some(lines.verifier.entries() + 1)).into())
            }
            (None, error) => Err(error.into()),
        },
    }
}

/// Takes in what the keys have signed of an export, and nothing else: it is checked whole, as an outsider would, before the
/// first entry is taken, and what is after the last signed checkpoint is left out.
pub(super) fn import_signed(
    ledger: &Ledger,
    source: &Source,
    input: Reader,
    keys: Vec<VerifierKey>,
) -> Result<(ImportSummary, VerifiedExport), Failure> {
    let refused = |line, reason: String| Failure::from(LedgerError::BadExport { line, reason });
    let unspooled = |source| OutputFailure::Unwritable { path: std::env::temp_dir(), source };
    let mut verifier = ExportVerifier::new(keys, &[]).map_err(|finding| refused(1, finding.to_string()))?;
    // The export may be a pipe, and a file may change: what is taken is what was checked.
    let mut spool = BufWriter::new(tempfile::tempfile().map_err(unspooled)?);
    let mut lines = ExportLines::new(source, input, "entries verified");
    while let Some(line) = lines.next()? {
        verifier.line(&line).map_err(|finding| refused(lines.number, finding.to_string()))?;
        spool.write_all(line.as_bytes()).and_then(|()| spool.write_all(b"\n")).map_err(unspooled)?;
    }
    let verified = verifier.finish().map_err(|finding| refused(1, finding.to_string()))?;
    if verified.checkpoints == 0 {
        return Err(refused(1, "no checkpoint in it is signed by the keys that were given".to_owned()));
    }
    drop(lines);
    let mut spool = spool.into_inner().map_err(|error| unspooled(error.into_error()))?;
    spool.rewind().map_err(unspooled)?;
    let progress = Progress::alone("entries imported").of(Some(verified.signed_bytes));
    let inner = BufReader::new(spool.take(verified.signed_bytes));
    let imported = ledger.import_start(&mut Counted { inner, progress })?;
    Ok((imported, verified))
}

/// Hands an export to the verifier line by line, and stops it at the first finding.
struct LineWriter {
    verifier: ExportVerifier,
    buffer: Vec<u8>,
    finding: Option<Finding>,
    progress: Progress,
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            let line = String::from_utf8_lossy(&self.buffer).into_owned();
            self.buffer.clear();
            self.progress.step(1);
            if let Err(finding) = self.verifier.line(&line) {
                self.finding = Some(finding);
                return Err(std::io::Error::other("found wrong"));
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn tell(verified: &VerifiedExport, is_json: bool, output: &mut Output) -> Result<CommandOutcome, Failure> {
    let VerifiedExport {
        origin,
        tenant_id,
        entries,
        root,
        checkpoints,
        signed_entries,
        unknown_checkpoints,
        legacy_entries,
        approval_root,
        verdicts,
        unsettled_landings,
        ..
    } = verified;
    if is_json {
        output.report_line(&json!({
            "ok": true,
            "tenantId": tenant_id,
            "origin": origin,
            "entries": entries,
            "root": root.to_string(),
            "checkpoints": checkpoints,
            "signedEntries": signed_entries,
            "unknownCheckpoints": unknown_checkpoints,
            "legacyEntries": legacy_entries,
            "verdicts": verdicts,
            "approvalRoot": approval_root,
            "unsettledLandings": unsettled_landings,
        }))?;
    } else {
        output.line(&format!("verified {entries} entries of tenant `{tenant_id}`, root {root}"))?;
        output.line(&format!(
            "verified {checkpoints} checkpoints; a known key signed {signed_entries} entries"
        ))?;
    }
    if let Some(root) = approval_root {
        note!(
            "{verdicts} verdicts of people are based on the first admin's key {root}; compare it with one you kept"
        );
    }
    for run in unsettled_landings {
        note!(
            "the change of run {run} was about to land, and its outcome is unknown; `crealeph work recover` in its workspace records it"
        );
    }
    if *legacy_entries > 0 {
        note!(
            "{legacy_entries} entries are legacy: valid under the rules of their time, they would be refused now"
        );
    }
    if *unknown_checkpoints > 0 {
        note!("{unknown_checkpoints} checkpoints are signed by unknown keys; give the keys with --key");
    }
    Ok(CommandOutcome::Good)
}

/// The public keys in some files, one a line.
pub(in crate::commands) fn read_keys(files: &[PathBuf]) -> Result<Vec<VerifierKey>, Failure> {
    let mut keys = Vec::new();
    for file in files {
        let before = keys.len();
        for line in read_text(file)?.lines().filter(|line| !line.trim().is_empty()) {
            keys.push(parse_key(line)?);
        }
        // Other keys than the saved ones would prove nothing.
        if keys.len() == before {
            return Err(LedgerFailure::NoKey(file.clone()).into());
        }
    }
    Ok(keys)
}

/// Reads a public key.
pub(in crate::commands) fn parse_key(text: &str) -> Result<VerifierKey, LedgerFailure> {
    VerifierKey::parse(text).map_err(LedgerFailure::VerifierKey)
}

/// Print an inclusion proof of an entry
#[derive(Debug, Args)]
pub(super) struct Prove {
    /// Entry id or its start, `@` for the newest, or `key:` and its client key
    id: String,
}

impl Prove {
    pub(super) fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let log = at.log()?;
        let id = find(&log, &self.id)?.id;
        let missing = || LedgerFailure::NoEntry { name: self.id, tenant: log.tenant().to_string() };
        let proof = log.prove(&id)?.ok_or_else(missing)?;
        match output.is_for_person() {
            true => output.json(&proof)?,
            // The entry in it is checked byte by byte.
            false => output.document(&format!("{proof}\n"))?,
        }
        Ok(CommandOutcome::Good)
    }
}

/// Verify an inclusion proof offline, without a ledger
#[derive(Debug, Args)]
pub(super) struct VerifyProof {
    /// Proof file; standard input if absent or `-`
    file: Option<PathBuf>,
    /// File of public keys that you saved
    #[arg(long, value_name = "FILE", required = true)]
    key: Vec<PathBuf>,
}

impl VerifyProof {
    pub(super) fn run(self, output: &mut Output, is_json: bool) -> Result<CommandOutcome, Failure> {
        let keys = read_keys(&self.key)?;
        let source = Source::new(self.file);
        let bytes = source.read_bounded(MAX_PROOF_BYTES)?;
        match verify_proof(&bytes, &keys) {
            Ok(proven) if is_json || !output.is_for_person() => output.json_line(&proven.entry)?,
            Ok(proven) => {
                let size = proven.checkpoint.size;
                output.line(&format!(
                    "entry {} (`{}`) is in the signed log of {size} entries",
                    proven.seq, proven.id
                ))?;
            }
            Err(error) => {
                return Err(LedgerFailure::Unproven { name: source.name(), reason: error.to_string() }.into());
            }
        }
        Ok(CommandOutcome::Good)
    }
}
