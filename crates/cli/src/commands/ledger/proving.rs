//! The commands that prove and check: export, verify, prove, verify-proof. Checking is done by `crealeph-verify`, which
//! shares nothing with what wrote the ledger.

use std::fs::OpenOptions;
use std::io::{BufRead, BufWriter, Read, Write};
use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::json::ObjectWriter;
use crealeph_contracts::scalar::LedgerId;
use crealeph_ledger::{Imported, Ledger, LedgerError};
use crealeph_verify::{ExportVerifier, Finding, Verified, VerifierKey, verify_proof};

use super::writing::read_text;
use super::{At, Settled, Verdict, named};
use crate::commands::tell_finding;
use crate::failure::Failure;
use crate::input::{Line, Source, next_line};
use crate::output::{Output, note};

/// The largest proof file that is read.
const MAX_PROOF_BYTES: usize = 64 << 20;
/// The longest line of an export that is read.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Print the whole log as JSON Lines: entries, leaf hashes and checkpoints
#[derive(Debug, Args)]
pub(super) struct Export {
    /// A new file to write to; standard output where absent or `-`
    file: Option<PathBuf>,
}

impl Export {
    pub(super) fn run(self, at: &Settled, output: &mut Output) -> Result<Verdict, Failure> {
        let ledger = at.open()?;
        require_log(&ledger, at)?;
        let exported = match self.file.filter(|file| file.as_os_str() != "-") {
            None => {
                let mut lines = output.json_lines();
                let exported = ledger.export(&at.tenant, &mut lines)?;
                lines.flush().map_err(Failure::Output)?;
                exported
            }
            Some(path) => {
                let unwritable = |source: std::io::Error| match source.kind() {
                    std::io::ErrorKind::AlreadyExists => Failure::Taken(path.clone()),
                    _ => Failure::Unwritable { path: path.clone(), source },
                };
                let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(unwritable)?;
                let mut writer = BufWriter::new(file);
                let exported = ledger.export(&at.tenant, &mut writer)?;
                writer.flush().map_err(unwritable)?;
                exported
            }
        };
        if let Some(exported) = exported {
            note!("entries: {}, checkpoints: {}", exported.entries, exported.checkpoints);
            let unsigned = exported.entries.saturating_sub(exported.covered);
            if unsigned > 0 {
                note!(
                    "not covered by any checkpoint: the last {unsigned}; `crealeph ledger checkpoint` signs for them"
                );
            }
        }
        Ok(Verdict::Good)
    }
}

/// A tenant that has nothing is most often a misspelt one.
fn require_log(ledger: &Ledger, at: &Settled) -> Result<(), Failure> {
    match ledger.stats(&at.tenant)? {
        Some(_) => Ok(()),
        None => Err(Failure::NoLog { tenant: at.tenant.to_string(), place: ledger.place().to_owned() }),
    }
}

/// Recompute everything and name the first thing that is wrong
#[derive(Debug, Args)]
pub(super) struct Verify {
    /// An export to check instead of the ledger; `-` for standard input
    export: Option<PathBuf>,
    /// A checkpoint that you kept; may be given more than once
    #[arg(long, value_name = "FILE")]
    checkpoint: Vec<PathBuf>,
    /// A file of public keys that you kept [default: the keys beside the ledger]
    #[arg(long, value_name = "FILE")]
    key: Vec<PathBuf>,
}

impl Verify {
    pub(super) fn run(self, at: At, output: &mut Output) -> Result<Verdict, Failure> {
        let mut keys = read_keys(&self.key)?;
        let is_json = at.json || !output.is_for_person();
        // An export needs no ledger, and so nothing of the configuration.
        let ledger = match self.export.is_some() {
            true => None,
            false => {
                let at = at.settle()?;
                Some((at.open()?, at))
            }
        };
        if let Some((ledger, at)) = &ledger {
            require_log(ledger, at)?;
        }
        if keys.is_empty()
            && let Some((ledger, at)) = &ledger
        {
            note!("checking with the keys beside the ledger; give --key to check with one that you kept");
            for key in ledger.verifier_keys(&at.tenant)? {
                keys.push(parse_key(&key)?);
            }
        }
        let kept = self.checkpoint.iter().map(|path| read_text(path)).collect::<Result<Vec<_>, _>>()?;
        let kept: Vec<&str> = kept.iter().map(String::as_str).collect();
        let verifier = match ExportVerifier::new(keys, &kept) {
            Ok(verifier) => verifier,
            Err(finding) => return tell_finding(&finding, "seq", is_json, output),
        };
        let checked = match &ledger {
            Some((ledger, at)) => check_ledger(ledger, at, verifier)?,
            None => check_export(&Source::new(self.export), verifier)?,
        };
        let verified = match checked {
            Ok(verified) => verified,
            Err(finding) => return tell_finding(&finding, "seq", is_json, output),
        };
        if let Some((ledger, at)) = &ledger
            && let Some(fault) = ledger.audit(&at.tenant)?
        {
            let kind = crealeph_verify::Kind::Changed;
            let what = format!("{fault}; the entries themselves are as written");
            let finding = Finding { kind, seq: fault.seq.map(|seq| seq.get()), what };
            return tell_finding(&finding, "seq", is_json, output);
        }
        tell(&verified, is_json, output)
    }
}

fn check_export(source: &Source, mut verifier: ExportVerifier) -> Result<Result<Verified, Finding>, Failure> {
    let mut reader = source.open()?;
    for number in 1u64.. {
        let line = match next_line(&mut reader, MAX_LINE_BYTES).map_err(|error| source.failure(error))? {
            Line::End => break,
            Line::Whole(line) => source.text(line)?,
            Line::TooLong => {
                let what = format!("{}, line {number}", source.name());
                return Err(Failure::TooLarge { what, limit: MAX_LINE_BYTES });
            }
        };
        if let Err(finding) = verifier.line(&line) {
            return Ok(Err(finding));
        }
    }
    Ok(verifier.finish())
}

fn check_ledger(
    ledger: &Ledger,
    at: &Settled,
    verifier: ExportVerifier,
) -> Result<Result<Verified, Finding>, Failure> {
    let mut lines = LineWriter { verifier, buffer: Vec::new(), finding: None };
    match ledger.export(&at.tenant, &mut lines) {
        Ok(Some(_)) => Ok(lines.verifier.finish()),
        Ok(None) => Err(Failure::NoLog { tenant: at.tenant.to_string(), place: ledger.place().to_owned() }),
        Err(error) => match (lines.finding, error) {
            (Some(finding), _) => Ok(Err(finding)),
            (None, error @ LedgerError::Damaged { .. }) => {
                let kind = crealeph_verify::Kind::Unreadable;
                let seq = lines.verifier.entries() + 1;
                let what = format!("{error}; entry {seq} is the first that cannot be read");
                Ok(Err(Finding { kind, seq: Some(seq), what }))
            }
            (None, error) => Err(error.into()),
        },
    }
}

/// Takes an export in while an outsider's eyes see every line first: a finding ends the import at that line.
pub(super) fn import_checked(
    ledger: &Ledger,
    input: &mut dyn BufRead,
    keys: Vec<VerifierKey>,
) -> Result<(Imported, Verified), Failure> {
    let wrong = |finding: Finding| LedgerError::BadExport {
        line: finding.seq.map_or(1, |seq| seq + 1),
        reason: finding.to_string(),
    };
    let verifier = ExportVerifier::new(keys, &[]).map_err(wrong)?;
    let mut checked = Checked { input, verifier, line: Vec::new(), read: 0 };
    let imported = ledger.import(&mut checked)?;
    Ok((imported, checked.verifier.finish().map_err(wrong)?))
}

/// An export whose lines the verifier has seen before anyone reads them.
struct Checked<'a> {
    input: &'a mut dyn BufRead,
    verifier: ExportVerifier,
    line: Vec<u8>,
    read: usize,
}

impl Read for Checked<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Checked<'_> {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        if self.read >= self.line.len() {
            (self.line, self.read) = (Vec::new(), 0);
            Read::take(&mut *self.input, MAX_LINE_BYTES as u64).read_until(b'\n', &mut self.line)?;
            if let Some(line) = self.line.strip_suffix(b"\n") {
                let line = String::from_utf8_lossy(line);
                self.verifier.line(&line).map_err(|finding| std::io::Error::other(finding.to_string()))?;
            }
        }
        Ok(self.line.get(self.read..).unwrap_or_default())
    }

    fn consume(&mut self, count: usize) {
        self.read += count;
    }
}

/// Hands an export to the verifier line by line, and stops it at the first finding.
struct LineWriter {
    verifier: ExportVerifier,
    buffer: Vec<u8>,
    finding: Option<Finding>,
}

impl Write for LineWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.last() == Some(&b'\n') {
            self.buffer.pop();
            let line = String::from_utf8_lossy(&self.buffer).into_owned();
            self.buffer.clear();
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

fn tell(verified: &Verified, is_json: bool, output: &mut Output) -> Result<Verdict, Failure> {
    let Verified { origin, tenant_id, entries, root, checkpoints, signed_entries } = verified;
    if is_json {
        let mut line = String::new();
        let mut object = ObjectWriter::new(&mut line);
        object.raw("ok", "true").text("tenantId", tenant_id).text("origin", origin);
        object.raw("entries", &entries.to_string()).text("root", &root.to_string());
        object.raw("checkpoints", &checkpoints.to_string()).raw("signedEntries", &signed_entries.to_string());
        object.end();
        output.json_line(&line)?;
    } else {
        output.line(&format!("{entries} entries of tenant {tenant_id} are as written, root {root}"))?;
        output.line(&format!(
            "{checkpoints} checkpoints hold; a known key has signed for {signed_entries} entries"
        ))?;
    }
    Ok(Verdict::Good)
}

/// The public keys in some files, one a line.
pub(in crate::commands) fn read_keys(files: &[PathBuf]) -> Result<Vec<VerifierKey>, Failure> {
    let mut keys = Vec::new();
    for file in files {
        let before = keys.len();
        for line in read_text(file)?.lines().filter(|line| !line.trim().is_empty()) {
            keys.push(parse_key(line)?);
        }
        // Going on with other keys than those that were kept would prove nothing.
        if keys.len() == before {
            return Err(Failure::NoKey(file.clone()));
        }
    }
    Ok(keys)
}

fn parse_key(text: &str) -> Result<VerifierKey, Failure> {
    VerifierKey::parse(text).map_err(Failure::VerifierKey)
}

/// Print a proof that an entry is in the log
#[derive(Debug, Args)]
pub(super) struct Prove {
    /// Its id
    id: String,
}

impl Prove {
    pub(super) fn run(self, at: &Settled, output: &mut Output) -> Result<Verdict, Failure> {
        let id = named("id", &self.id, LedgerId::parse)?;
        let proof = at.open()?.prove(&at.tenant, &id)?;
        let proof = proof.ok_or_else(|| Failure::NoEntry { name: self.id, tenant: at.tenant.to_string() })?;
        output.json(&proof.to_json())?;
        Ok(Verdict::Good)
    }
}

/// Check a proof, offline and without a ledger
#[derive(Debug, Args)]
pub(super) struct VerifyProof {
    /// The proof; standard input where absent or `-`
    file: Option<PathBuf>,
    /// A file of public keys that you kept
    #[arg(long, value_name = "FILE", required = true)]
    key: Vec<PathBuf>,
}

impl VerifyProof {
    pub(super) fn run(self, output: &mut Output, is_json: bool) -> Result<Verdict, Failure> {
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
            Err(error) => return Err(Failure::Unproven { name: source.name(), why: error.to_string() }),
        }
        Ok(Verdict::Good)
    }
}
