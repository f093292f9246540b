//! Exports, checked line by line: every entry against its leaf, the rules of a log and the number before it, every
//! checkpoint against the tree so far. The first problem is named, with the entry it is about.
//!
//! A change of an entry together with its leaf hash shows only at the next checkpoint: then the finding names the
//! entries between the last good checkpoint and the bad one.

use crealeph_contracts::Entry;
use crealeph_contracts::digest::Sha256;
use crealeph_contracts::entry::with_lost_payload;
use crealeph_contracts::json::{Limits, Node, parse};
use crealeph_contracts::log_export::{EXPORT_FORMAT, MAX_EXPORT_LINE_BYTES};
use crealeph_contracts::scalar::TenantId;

use crate::access::AccessLog;
use crate::approvals::ApprovalLog;
use crate::checkpoint::{Checkpoint, CheckpointError};
use crate::finding::{Finding, FindingKind};
use crate::held_changes::HeldChanges;
use crate::inclusion::leaf_record;
use crate::note::{NoteError, VerifierKey};
use crate::reported::SignerLog;
use crate::rules::LogRules;
use crate::tree::{Tree, leaf};
use crate::webhooks::WebhookLog;

/// The result for an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifiedExport {
    /// The log's name.
    pub origin: String,
    /// The tenant.
    pub tenant_id: String,
    /// How many entries.
    pub entries: u64,
    /// The root of the recomputed tree.
    pub root: Sha256,
    /// How many checkpoints in the export are valid.
    pub checkpoints: u64,
    /// How many entries a known key has signed for; later entries are not covered yet.
    pub signed_entries: u64,
    /// The length in bytes of the lines up to the last checkpoint that a known key has signed, each with its end: what that key
    /// vouches for.
    pub signed_bytes: u64,
    /// How many checkpoints were signed by other keys than the known ones; they are valid, but their signers are unknown.
    pub unknown_checkpoints: u64,
    /// How many entries are only valid by the rules of their time, and would not be accepted now.
    pub legacy_entries: u64,
    /// The fingerprint of the first admin's key, if people were enrolled: their approvals depend on it.
    pub approval_root: Option<String>,
    /// How many signed verdicts of people it holds.
    pub verdicts: usize,
    /// The runs whose change was about to land, and whose outcome is not recorded.
    pub unsettled_landings: Vec<String>,
}

/// Checks an export as it is read.
#[derive(Debug)]
pub struct ExportVerifier {
    keys: Vec<VerifierKey>,
    /// Checkpoints that the user kept elsewhere, by size.
    kept: Vec<Checkpoint>,
    /// Every checkpoint must be signed by one of the keys.
    is_strict: bool,
    header: Option<(String, String)>,
    /// How many entries the export says that it has.
    stated: Option<u64>,
    tree: Tree,
    rules: LogRules,
    approvals: ApprovalLog,
    held_changes: HeldChanges,
    access: AccessLog,
    signers: SignerLog,
    webhooks: WebhookLog,
    /// The size of the last valid checkpoint.
    good: u64,
    checkpoints: u64,
    unknown_checkpoints: u64,
    /// The lines so far, and those up to the last signed checkpoint, in bytes.
    bytes: u64,
    signed_bytes: u64,
}

impl ExportVerifier {
    /// Checks with keys that the user already has, and against checkpoints that the user kept, if any. With keys, a checkpoint that
    /// none of them has signed is a finding.
    pub fn new(keys: Vec<VerifierKey>, kept: &[&str]) -> Result<Self, Finding> {
        let mut opened = Vec::new();
        for note in kept {
            let checkpoint = Checkpoint::open(note, &keys).map_err(|error| {
                finding(kind_of(&error), None, format!("the checkpoint you kept: {error}"))
            })?;
            opened.push(checkpoint);
        }
        opened.sort_by_key(|checkpoint| checkpoint.size);
        let mut verifier = ExportVerifier {
            is_strict: !keys.is_empty(),
            keys,
            kept: opened,
            header: None,
            stated: None,
            tree: Tree::default(),
            rules: LogRules::default(),
            approvals: ApprovalLog::default(),
            held_changes: HeldChanges::default(),
            access: AccessLog::default(),
            signers: SignerLog::default(),
            webhooks: WebhookLog::default(),
            good: 0,
            checkpoints: 0,
            unknown_checkpoints: 0,
            bytes: 0,
            signed_bytes: 0,
        };
        verifier.check_kept()?;
        Ok(verifier)
    }

    /// The keys are not the user's own but came with the ledger, which may hold checkpoints of older keys: those are
    /// counted as unknown.
    #[must_use]
    pub fn with_keys_of_the_ledger(mut self) -> Self {
        self.is_strict = false;
        self
    }

    /// Checks the next line, without its end.
    pub fn line(&mut self, line: &str) -> Result<(), Finding> {
        self.bytes += line.len() as u64 + 1;
        let next = self.tree.size() + 1;
        let unreadable = |what: String| finding(FindingKind::Changed, Some(next), what);
        let limits = Limits::own(MAX_EXPORT_LINE_BYTES);
        let (mut document, mut faults) = parse(line.as_bytes(), &limits);
        let readable = if document.is_none() { with_lost_payload(line) } else { None };
        if let Some(readable) = &readable {
            (document, faults) = parse(readable.as_bytes(), &limits);
        }
        let document = document.filter(|_| faults.is_empty()).ok_or_else(|| {
            unreadable(format!("the line where entry {next} should be is not JSON; entry {next} was changed"))
        })?;
        let root = document.root();
        if self.header.is_none() {
            return self.read_header(root);
        }
        if let Some(note) = root.member("checkpoint").and_then(Node::string) {
            return self.read_checkpoint(&note);
        }
        self.read_entry(root, readable.is_some())
    }

    /// How many entries were checked so far.
    pub fn entries(&self) -> u64 {
        self.tree.size()
    }

    /// Returns the result for the export.
    pub fn finish(self) -> Result<VerifiedExport, Finding> {
        let Some((origin, tenant_id)) = self.header else {
            return Err(finding(FindingKind::Unreadable, None, "the export is empty".to_owned()));
        };
        let entries = self.tree.size();
        if let Some(kept) = self.kept.iter().find(|kept| kept.size > entries) {
            let what = format!(
                "the log ends after entry {entries}, and the checkpoint you kept has {}; entry {} is missing",
                kept.size,
                entries + 1
            );
            return Err(finding(FindingKind::Truncated, Some(entries + 1), what));
        }
        if let Some(stated) = self.stated.filter(|stated| *stated > entries) {
            let what = format!(
                "the export has {stated} entries by its first line and ends after entry {entries}; it was cut"
            );
            return Err(finding(FindingKind::Truncated, Some(entries + 1), what));
        }
        Ok(VerifiedExport {
            origin,
            tenant_id,
            entries,
            root: self.tree.root(),
            checkpoints: self.checkpoints,
            signed_entries: self.good,
            signed_bytes: self.signed_bytes,
            unknown_checkpoints: self.unknown_checkpoints,
            legacy_entries: self.rules.legacy(),
            approval_root: self.approvals.root().map(str::to_owned),
            verdicts: self.approvals.verdicts(),
            unsettled_landings: self.approvals.unsettled().map(ToString::to_string).collect(),
        })
    }

    fn read_header(&mut self, root: Node<'_>) -> Result<(), Finding> {
        let text = |key| root.member(key).and_then(Node::string);
        let unreadable = |what: &str| finding(FindingKind::Unreadable, None, what.to_owned());
        if text("format").as_deref() != Some(EXPORT_FORMAT) {
            return Err(unreadable(&format!("the first line does not say {EXPORT_FORMAT}")));
        }
        let (Some(origin), Some(tenant)) = (text("origin"), text("tenantId")) else {
            return Err(unreadable("the first line does not name the log and its tenant"));
        };
        let is_name = !origin.is_empty() && origin.len() <= 256 && !origin.contains(['\n', '+', ' ']);
        let Some(tenant_id) = TenantId::parse(&tenant).ok().filter(|_| is_name) else {
            return Err(unreadable("the first line names a log or tenant that no ledger has"));
        };
        if let Some(key) = self.keys.first()
            && !self.keys.iter().any(|key| key.name() == origin)
        {
            let what = format!("the export is of the log `{origin}`, and the key is for `{}`", key.name());
            return Err(finding(FindingKind::Unreadable, None, what));
        }
        let (origin, tenant) = (origin.into_owned(), tenant.into_owned());
        self.kept.iter().try_for_each(|kept| is_of(kept, &origin, "the checkpoint you kept"))?;
        let stated = root.member("entries").and_then(Node::number).filter(|entries| *entries >= 0.0);
        self.stated = stated.map(|entries| entries as u64);
        self.rules = LogRules::of_origin(&origin);
        self.approvals = ApprovalLog::new(&origin, &tenant_id);
        self.header = Some((origin, tenant));
        Ok(())
    }

    fn read_entry(&mut self, root: Node<'_>, has_lost_payload: bool) -> Result<(), Finding> {
        let next = self.tree.size() + 1;
        let changed = |what: String| finding(FindingKind::Changed, Some(next), what);
        let node = root.member("entry").filter(|_| root.members().count() == 2);
        let node =
            node.ok_or_else(|| changed(format!("the line of entry {next} is not one of an export")))?;
        let Some((id, seq, record)) = leaf_record(node, has_lost_payload) else {
            return Err(changed(format!("entry {next} is not in canonical form; it was changed")));
        };
        if seq > next {
            let what = format!("entry {next} is missing; entry {seq} (`{id}`) is in its place");
            return Err(finding(FindingKind::Missing, Some(next), what));
        }
        if seq < next {
            let what =
                format!("entry {seq} (`{id}`) is where entry {next} should be; entries were reordered");
            return Err(finding(FindingKind::Reordered, Some(next), what));
        }
        let entry = Entry::read_from(node)
            .map_err(|_| changed(format!("entry {seq} (`{id}`) is not an entry; it was changed")))?;
        let hash = leaf(record.as_bytes());
        let stored = root.member("leaf").and_then(Node::string);
        if stored.as_deref() != Some(hash.to_string().as_str()) {
            return Err(changed(format!(
                "entry {seq} (`{id}`) does not match its leaf hash; it was changed"
            )));
        }
        let tenant = entry.tenant_id.as_ref().map(|tenant| tenant.as_str());
        if tenant != self.header.as_ref().map(|(_, tenant)| tenant.as_str()) {
            return Err(changed(format!("entry {seq} (`{id}`) belongs to another tenant")));
        }
        self.rules.add(&entry, node, has_lost_payload).map_err(|rule| {
            let what = format!("entry {seq} (`{id}`) {rule}; no ledger would have accepted it");
            finding(FindingKind::Invalid, Some(seq), what)
        })?;
        let refused = |wrong: Finding| {
            let what = format!("entry {seq} (`{id}`) {}; no ledger would have accepted it", wrong.what);
            finding(wrong.kind, Some(seq), what)
        };
        self.held_changes.add(&entry);
        if let Some(logged) = self.approvals.add(&entry).map_err(refused)? {
            self.held_changes.check(&logged).map_err(refused)?;
        }
        self.access.add(&entry).map_err(refused)?;
        self.signers.add(&entry).map_err(refused)?;
        self.webhooks.add(&entry).map_err(refused)?;
        self.tree.add(hash);
        self.check_kept()
    }

    /// A checkpoint of the export: signed by a known key, and stating the tree so far.
    fn read_checkpoint(&mut self, note: &str) -> Result<(), Finding> {
        let size = self.tree.size();
        let wrong = |error: &CheckpointError| {
            let what = format!(
                "the checkpoint after entry {size}: {error}; compare it with one that was kept elsewhere"
            );
            finding(kind_of(error), Some(size), what)
        };
        let (checkpoint, is_signed) = match Checkpoint::open(note, &self.keys) {
            Ok(checkpoint) => (checkpoint, true),
            Err(CheckpointError::Note(NoteError::Unsigned { .. })) if !self.is_strict => {
                (Checkpoint::stated(note).map_err(|error| wrong(&error))?, false)
            }
            Err(error @ CheckpointError::Note(NoteError::Unsigned { .. })) => {
                let what = format!(
                    "the checkpoint after entry {size}: {error}; if its key was rotated, give the newer key too"
                );
                return Err(finding(FindingKind::Unsigned, Some(size), what));
            }
            Err(error) => return Err(wrong(&error)),
        };
        if let Some((origin, _)) = &self.header {
            is_of(&checkpoint, origin, "a checkpoint in the export")?;
        }
        if checkpoint.size > size {
            let what = format!(
                "the checkpoint of {} entries comes after entry {size}; entry {} is missing",
                checkpoint.size,
                size + 1
            );
            return Err(finding(FindingKind::Missing, Some(size + 1), what));
        }
        if checkpoint.size < size {
            let what = format!("a checkpoint of {} entries comes after entry {size}", checkpoint.size);
            return Err(finding(FindingKind::Reordered, Some(size + 1), what));
        }
        self.compare(&checkpoint, "the checkpoint in the export", is_signed)?;
        match is_signed {
            true => {
                self.checkpoints += 1;
                self.signed_bytes = self.bytes;
            }
            false => self.unknown_checkpoints += 1,
        }
        Ok(())
    }

    /// The checkpoints that the user kept, for the tree's current size.
    fn check_kept(&mut self) -> Result<(), Finding> {
        let size = self.tree.size();
        let due: Vec<Checkpoint> = self.kept.iter().filter(|kept| kept.size == size).cloned().collect();
        due.iter().try_for_each(|kept| self.compare(kept, "the checkpoint you kept", true))
    }

    fn compare(&mut self, checkpoint: &Checkpoint, whose: &str, is_signed: bool) -> Result<(), Finding> {
        if checkpoint.root == self.tree.root() {
            if is_signed {
                self.good = self.good.max(checkpoint.size);
            }
            return Ok(());
        }
        let from = self.good + 1;
        let what = format!(
            "{whose} of {} entries states another history: one of the entries {from} to {} was changed together \
             with its leaf hash, or the log was forked there; entries 1 to {} are as signed",
            checkpoint.size, checkpoint.size, self.good
        );
        Err(finding(FindingKind::Forked, Some(from), what))
    }
}

/// Whether a checkpoint is of the log that the export is of.
fn is_of(checkpoint: &Checkpoint, origin: &str, whose: &str) -> Result<(), Finding> {
    match checkpoint.origin == origin {
        true => Ok(()),
        false => {
            let what = format!("{whose} is of the log `{}`, and the export of `{origin}`", checkpoint.origin);
            Err(finding(FindingKind::Unreadable, None, what))
        }
    }
}

fn kind_of(error: &CheckpointError) -> FindingKind {
    match error {
        CheckpointError::Note(NoteError::Form(_)) | CheckpointError::Form(_) => FindingKind::Unreadable,
        CheckpointError::OtherLog { .. } => FindingKind::Unreadable,
        CheckpointError::Note(_) | CheckpointError::Unowned { .. } => FindingKind::Forged,
    }
}

fn finding(kind: FindingKind, seq: Option<u64>, what: String) -> Finding {
    Finding { kind, seq, what }
}
