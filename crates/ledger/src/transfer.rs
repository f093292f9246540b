//! Export and import: a tenant's whole log as JSON Lines, streamed, in bounded memory.
//!
//! The first line names the log. Then each entry's canonical text with its stored leaf hash, and each
//! checkpoint right after the last entry that it covers. An import accepts only what it would have accepted itself, keeps ids,
//! numbers and times, and resumes an interrupted import.

use std::io::{BufRead, Write};

use crealeph_contracts::digest::Sha256;
use crealeph_contracts::entry::with_lost_payload;
use crealeph_contracts::json::{Limits as JsonLimits, Node, ObjectWriter, canonical, parse};
use crealeph_contracts::log_export::{EXPORT_FORMAT, MAX_EXPORT_HEADER_BYTES, MAX_EXPORT_LINE_BYTES};
use crealeph_contracts::log_rules::RulesInForce;
use crealeph_contracts::scalar::TenantId;
use tracing::info_span;

use crate::checkpoint::stated;
use crate::entry::StoredEntry;
use crate::error::LedgerError;
use crate::ledger::{Inner, Ledger};
use crate::log::root_at;
use crate::merkle::complete_tiles;
use crate::plan::{self, AppendPlan, ImportedEntry, PreparedEntry};
use crate::position::{Millis, Seq};
use crate::read::StoredCheckpoint;
use crate::store::{Addition, Head, Transaction};
use crate::writer::TransactionHashes;

/// Entries read or written in one go.
const PAGE: u64 = 500;

/// The result of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportSummary {
    /// Entries.
    pub entries: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Entries that the largest of them covers.
    pub covered: u64,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportSummary {
    /// The tenant.
    pub tenant_id: TenantId,
    /// Entries that were written.
    pub entries: u64,
    /// Entries that already existed, from an interrupted import.
    pub repeats: u64,
}

impl Ledger {
    /// Writes the tenant's log as it is stored, unchecked, up to the newest entry at the time of the call; later
    /// appends are not in it. `None` if the tenant has no log.
    pub fn export(
        &self,
        tenant: &TenantId,
        out: &mut dyn Write,
    ) -> Result<Option<ExportSummary>, LedgerError> {
        let _span = info_span!("export", %tenant).entered();
        let found = self.ask(tenant, |reads, head| Ok((head.clone(), reads.checkpoints(head)?)))?;
        let Some((head, checkpoints)) = found else { return Ok(None) };
        let mut line = String::new();
        let mut header = ObjectWriter::new(&mut line);
        header.raw("entries", &head.frontier.size().to_string());
        header.text("format", EXPORT_FORMAT).text("origin", &head.origin).text("tenantId", tenant.as_str());
        header.end();
        self.write_line(out, &line)?;
        self.export_entries(tenant, (Seq::ZERO, head.last_seq()), checkpoints, out).map(Some)
    }

    /// The rest of an export that was cut off after an entry: its lines up to the number of entries that its first line
    /// states. The checkpoint of the entry that it resumes after may be there twice. `None` if the tenant has no log.
    ///
    /// # Errors
    /// [`LedgerError::Beyond`] if the log has fewer entries.
    pub fn export_rest(
        &self,
        tenant: &TenantId,
        after: Seq,
        up_to: Seq,
        out: &mut dyn Write,
    ) -> Result<Option<ExportSummary>, LedgerError> {
        let _span = info_span!("export", %tenant, %after).entered();
        let found = self.ask(tenant, |reads, head| Ok((head.last_seq(), reads.checkpoints(head)?)))?;
        let Some((last, mut checkpoints)) = found else { return Ok(None) };
        if up_to > last || after > up_to {
            let what = "the export's last sequence number";
            return Err(LedgerError::Beyond {
                what,
                found: up_to.get() as usize,
                limit: last.get() as usize,
            });
        }
        // Checkpoints of later entries are not part of it.
        checkpoints.retain(|checkpoint| {
            checkpoint.size >= after.get() && (up_to == last || checkpoint.size <= up_to.get())
        });
        self.export_entries(tenant, (after, up_to), checkpoints, out).map(Some)
    }

    /// Writes the entries after the first number up to the second, each checkpoint after the last entry that it covers.
    fn export_entries(
        &self,
        tenant: &TenantId,
        (after, up_to): (Seq, Seq),
        checkpoints: Vec<StoredCheckpoint>,
        out: &mut dyn Write,
    ) -> Result<ExportSummary, LedgerError> {
        let mut checkpoints = checkpoints.into_iter().peekable();
        let mut exported = ExportSummary { entries: 0, checkpoints: 0, covered: 0 };
        let mut line = String::new();
        let mut low = after;
        loop {
            // A checkpoint of more entries than there are is not left out: a verifier must see it.
            let is_end = low >= up_to;
            while let Some(checkpoint) = checkpoints.next_if(|next| is_end || next.size <= low.get()) {
                line.clear();
                let mut object = ObjectWriter::new(&mut line);
                object.text("checkpoint", &checkpoint.note);
                object.end();
                self.write_line(out, &line)?;
                exported.checkpoints += 1;
                exported.covered = checkpoint.size;
            }
            if is_end {
                return Ok(exported);
            }
            let next_stop = checkpoints.peek().map_or(u64::MAX, |checkpoint| checkpoint.size);
            let high = Seq::new((low.get() + PAGE).min(next_stop)).unwrap_or(Seq::MAX).min(up_to);
            let entries =
                self.ask(tenant, |reads, head| reads.raw(head, low.next(), high))?.unwrap_or_default();
            for entry in entries {
                line.clear();
                let mut object = ObjectWriter::new(&mut line);
                let leaf: String = entry.leaf.iter().map(|byte| format!("{byte:02x}")).collect();
                object.raw("entry", &entry.canonical).text("leaf", &leaf);
                object.end();
                self.write_line(out, &line)?;
                exported.entries += 1;
            }
            low = high;
        }
    }

    fn write_line(&self, out: &mut dyn Write, line: &str) -> Result<(), LedgerError> {
        let written = out.write_all(line.as_bytes()).and_then(|()| out.write_all(b"\n"));
        written.map_err(|error| LedgerError::Failed {
            place: "the export's target".to_owned(),
            reason: error.to_string(),
        })
    }

    /// Imports an export. Every entry must match its leaf hash and be one that this ledger would have accepted; the
    /// tenant's log here must be empty or the beginning of the export.
    pub fn import(&self, input: &mut dyn BufRead) -> Result<ImportSummary, LedgerError> {
        self.import_lines(input, true)
    }

    /// Imports the beginning of an export, which the caller has cut on purpose.
    pub fn import_start(&self, input: &mut dyn BufRead) -> Result<ImportSummary, LedgerError> {
        self.import_lines(input, false)
    }

    fn import_lines(&self, input: &mut dyn BufRead, is_whole: bool) -> Result<ImportSummary, LedgerError> {
        let _span = info_span!("import", is_whole).entered();
        let mut lines = ExportLines { input, number: 0 };
        let header = lines.next()?.ok_or_else(|| lines.refuse("the export is empty"))?;
        let (tenant_id, origin, stated) = read_header(&header).ok_or_else(|| {
            lines.refuse(format!("the first line must name the log and the format `{EXPORT_FORMAT}`"))
        })?;
        self.take_name(&tenant_id, &origin, &lines)?;
        let mut last = Seq::ZERO;
        let mut imported = ImportSummary { tenant_id, entries: 0, repeats: 0 };
        let mut batch = ImportBatch::default();
        while let Some(line) = lines.next()? {
            match read_line(&line, &imported.tenant_id).map_err(|reason| lines.refuse(reason))? {
                ExportLine::Entry(entry, leaf) => {
                    batch.bytes += line.len();
                    last = entry.seq;
                    batch.entries.push((*entry, leaf, lines.number));
                }
                ExportLine::Checkpoint(of, checkpoint) => {
                    if of != origin {
                        return Err(
                            lines.refuse(format!("the checkpoint is of the log `{of}`, not `{origin}`"))
                        );
                    }
                    if checkpoint.size != last.get() {
                        return Err(lines.refuse(format!(
                            "the checkpoint of {} entries comes after entry {last}",
                            checkpoint.size
                        )));
                    }
                    batch.checkpoints.push((checkpoint, lines.number));
                }
            }
            let is_full = batch.entries.len() as u64 >= PAGE || batch.bytes > self.limits().batch_bytes;
            if is_full || !batch.checkpoints.is_empty() {
                self.take_batch(std::mem::take(&mut batch), &mut imported, &lines)?;
            }
        }
        self.take_batch(batch, &mut imported, &lines)?;
        match stated {
            Some(stated) if is_whole && last.get() < stated => Err(lines.refuse(format!(
                "the export has {stated} entries by its first line and ends after entry {last}: it was cut; import the whole one"
            ))),
            _ => Ok(imported),
        }
    }

    /// Creates the tenant's log under the export's name, or checks that it has that name.
    fn take_name(&self, tenant: &TenantId, origin: &str, lines: &ExportLines<'_>) -> Result<(), LedgerError> {
        match self.ask(tenant, |_, head| Ok(head.origin.clone()))? {
            Some(own) if own == origin => Ok(()),
            Some(own) => {
                Err(lines.refuse(format!("tenant `{tenant}` has the log `{own}` here, not `{origin}`")))
            }
            None => self.write(tenant, &mut |transaction| {
                transaction.create_head(tenant, origin)?;
                Ok(())
            }),
        }
    }

    fn take_batch(
        &self,
        batch: ImportBatch,
        imported: &mut ImportSummary,
        lines: &ExportLines<'_>,
    ) -> Result<(), LedgerError> {
        let tenant = imported.tenant_id.clone();
        let at = |number: u64, reason: String| LedgerError::BadExport { line: number, reason };
        let (mut written, mut repeats) = (0, 0);
        self.write(&tenant, &mut |transaction| {
            let head = transaction.locked_head(&tenant)?;
            let size = head.frontier.size();
            let known_part = batch.entries.iter().take_while(|(entry, ..)| entry.seq.get() <= size).count();
            for (entry, leaf, number) in batch.entries.iter().take(known_part) {
                let own = transaction.hashes(&head, 0, entry.seq.leaf_index(), 1)?;
                if own != [*leaf] {
                    return Err(at(*number, format!("entry {} is a different one here", entry.seq)));
                }
            }
            let fresh: Vec<ImportedEntry> =
                batch.entries.iter().skip(known_part).map(|(entry, ..)| entry.clone()).collect();
            let line_of = |position: usize| {
                batch.entries.get(known_part + position).map_or(lines.number, |(.., number)| *number)
            };
            let needs = plan::needs(
                &RulesInForce::of_origin(&head.origin),
                fresh.iter().map(|entry| &entry.prepared),
            );
            let known = transaction.known(&head, &needs)?;
            let Inner { clock, limits, .. } = self.inner();
            let latest = clock.now_for(&head).get().saturating_add(limits.clock_skew_ms);
            let planned = plan::plan_import(&head, known, &fresh, Millis::new(latest));
            let AppendPlan { rows, edges, tile_roots, head: after, .. } =
                planned.map_err(|refusal| at(line_of(refusal.position), refusal.reason))?;
            for (position, (row, (_, leaf, _))) in
                rows.iter().zip(batch.entries.iter().skip(known_part)).enumerate()
            {
                if row.leaf != *leaf {
                    let reason = format!("entry {} does not match its leaf hash", row.entry.seq);
                    return Err(at(line_of(position), reason));
                }
            }
            (written, repeats) = (rows.len() as u64, known_part as u64);
            check_roots(transaction, &head, &after, &batch.checkpoints)?;
            if !rows.is_empty() {
                let leaves: Vec<Sha256> = rows.iter().map(|row| row.leaf).collect();
                let mut source = TransactionHashes { transaction, head: &head, open: None };
                let tiles = complete_tiles(size, &leaves, &tile_roots, &mut source)?;
                transaction.add(&Addition { rows, edges, tiles, head: after.clone() })?;
            }
            for (checkpoint, _) in &batch.checkpoints {
                transaction.add_checkpoint(&after, checkpoint)?;
            }
            Ok(())
        })?;
        imported.entries += written;
        imported.repeats += repeats;
        Ok(())
    }
}

/// Refuses checkpoints that state another root than the entries have.
fn check_roots(
    transaction: &mut dyn Transaction,
    head: &Head,
    after: &Head,
    checkpoints: &[(StoredCheckpoint, u64)],
) -> Result<(), LedgerError> {
    for (checkpoint, line) in checkpoints {
        let root = match checkpoint.size == after.frontier.size() {
            true => after.frontier.root(),
            false => root_at(transaction, head, checkpoint.size)?,
        };
        if checkpoint.root != root {
            let reason = "the checkpoint states another root than the entries have".to_owned();
            return Err(LedgerError::BadExport { line: *line, reason });
        }
    }
    Ok(())
}

#[derive(Default)]
struct ImportBatch {
    entries: Vec<(ImportedEntry, Sha256, u64)>,
    checkpoints: Vec<(StoredCheckpoint, u64)>,
    bytes: usize,
}

struct ExportLines<'a> {
    input: &'a mut dyn BufRead,
    number: u64,
}

impl ExportLines<'_> {
    fn refuse(&self, reason: impl Into<String>) -> LedgerError {
        LedgerError::BadExport { line: self.number, reason: reason.into() }
    }

    /// The next line, without its end; a line beyond the limit is refused before it is read completely.
    fn next(&mut self) -> Result<Option<String>, LedgerError> {
        self.number += 1;
        let mut line = String::new();
        let most = if self.number == 1 { MAX_EXPORT_HEADER_BYTES } else { MAX_EXPORT_LINE_BYTES };
        let mut bounded = std::io::Read::take(&mut *self.input, most as u64);
        match bounded.read_line(&mut line) {
            Ok(0) => Ok(None),
            Ok(_) if line.ends_with('\n') => {
                line.pop();
                Ok(Some(line))
            }
            Ok(_) => Err(self.refuse("the line is cut off or too long")),
            Err(error) => Err(self.refuse(error.to_string())),
        }
    }
}

enum ExportLine {
    Entry(Box<ImportedEntry>, Sha256),
    Checkpoint(String, StoredCheckpoint),
}

/// Reads a line; the second argument says that it holds an entry which was stored without a payload.
fn document<T>(line: &str, read: impl FnOnce(Node<'_>, bool) -> T) -> Result<T, String> {
    let limits = JsonLimits::own(MAX_EXPORT_LINE_BYTES);
    let (mut document, mut faults) = parse(line.as_bytes(), &limits);
    let readable = if document.is_none() { with_lost_payload(line) } else { None };
    if let Some(readable) = &readable {
        (document, faults) = parse(readable.as_bytes(), &limits);
    }
    match (document, faults.first()) {
        (Some(document), None) => Ok(read(document.root(), readable.is_some())),
        (_, fault) => Err(fault.map_or("the line is not JSON".to_owned(), |fault| fault.message.clone())),
    }
}

/// The tenant, the log's name, and how many entries the export says that it has; older exports do not say.
fn read_header(line: &str) -> Option<(TenantId, String, Option<u64>)> {
    document(line, |root, _| {
        let text = |key| root.member(key).and_then(Node::string);
        let origin = text("origin").filter(|origin| !origin.is_empty() && origin.len() <= 256)?;
        let tenant = TenantId::parse(&text("tenantId")?).ok()?;
        (text("format")? == EXPORT_FORMAT && !origin.contains(['\n', '+', ' ']))
            .then(|| (tenant, origin.into_owned(), stated_entries(root)))
    })
    .ok()
    .flatten()
}

fn stated_entries(header: Node<'_>) -> Option<u64> {
    let entries = header.member("entries")?.number()?;
    (entries >= 0.0 && entries.fract() == 0.0).then_some(entries as u64)
}

fn read_line(line: &str, tenant_id: &TenantId) -> Result<ExportLine, String> {
    document(line, |root, has_lost_payload| {
        if let Some(note) = root.member("checkpoint").and_then(Node::string) {
            let (origin, size, root) = stated(&note).ok_or("the checkpoint cannot be read")?;
            let checkpoint = StoredCheckpoint { size, root, note: note.clone().into_owned() };
            return Ok(ExportLine::Checkpoint(origin.to_owned(), checkpoint));
        }
        let node = root.member("entry").ok_or("the line holds neither an entry nor a checkpoint")?;
        let leaf = root.member("leaf").and_then(Node::string).and_then(|leaf| Sha256::parse(&leaf));
        let leaf = leaf.ok_or("the line holds no leaf hash")?;
        if canonical(node) != node.source() {
            return Err("the entry is not in canonical form".to_owned());
        }
        let entry = StoredEntry::read_from(node)?;
        if entry.tenant_id != *tenant_id {
            return Err(format!("the entry belongs to another tenant than `{tenant_id}`"));
        }
        let entry = imported(entry, has_lost_payload);
        Ok(ExportLine::Entry(Box::new(entry), leaf))
    })?
}

fn imported(entry: StoredEntry, has_lost_payload: bool) -> ImportedEntry {
    let StoredEntry { id, seq, tenant_id, created_at, actor, mut content } = entry;
    if has_lost_payload {
        content.payload = "".into();
    }
    let prepared = PreparedEntry { id: Some(id.clone()), actor, ..PreparedEntry::new(&tenant_id, content) };
    ImportedEntry { prepared, id, seq, created_at }
}
