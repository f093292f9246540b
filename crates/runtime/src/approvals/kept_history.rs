//! The judged history of each tenant, cached with the open ledger, so that a long-running process checks each signature once. The judged
//! state is a pure fold over the log's entries in order, so it can be continued where it ended. It is valid as long as the log is the
//! same: the same name, and the same root over the judged entries. Otherwise everything is judged again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crealeph_contracts::approval::{ApprovalDecision, ApprovalEntry, LoggedApproval, SubjectKind};
use crealeph_contracts::digest::Sha256;
use crealeph_contracts::scalar::{LedgerId, RobotId, TenantId};
use crealeph_decision::approval::ApprovalEntries;
use crealeph_ledger::{Ledger, LedgerError, LogView, Seq};
use crealeph_verify::ApprovalLog;

use super::history::{ApprovalHistory, approval_entries, judge_next};

/// How many entries about approvals are kept of all tenants together; each takes a few kilobytes.
const MAX_KEPT_ENTRIES: usize = 50_000;

/// The drafts that landed or were ever rejected, by robot.
pub(super) type DecidedDrafts = BTreeMap<RobotId, Vec<DecidedDraft>>;

/// A draft of which the log has a landing or a rejection.
#[derive(Clone, Debug)]
pub(super) struct DecidedDraft {
    pub(super) seq: Seq,
    pub(super) id: LedgerId,
    /// Else someone rejected it.
    pub(super) is_landed: bool,
}

/// What was judged of a log up to a place of it.
#[derive(Clone, Debug)]
struct JudgedPart {
    origin: String,
    seq: Seq,
    /// The root of the tree of all entries up to there.
    root: Sha256,
    judge: Arc<ApprovalLog>,
    entries: Arc<ApprovalEntries>,
    decided_drafts: Arc<DecidedDrafts>,
    /// When it was used last, by count.
    used: u64,
}

/// The judged part of each tenant's log.
#[derive(Debug, Default)]
struct KeptHistories(Mutex<Tenants>);

#[derive(Debug, Default)]
struct Tenants {
    by_tenant: BTreeMap<TenantId, JudgedPart>,
    uses: u64,
}

/// Reads the history of a tenant in a view, starting from what was kept before the view was opened: of a log that only grows, that
/// is never ahead of the view.
#[derive(Debug)]
pub(super) struct HistoryReader<'t> {
    tenant: &'t TenantId,
    kept: Arc<KeptHistories>,
    start: Option<JudgedPart>,
}

/// Whether something is kept of a tenant, so that its history costs little.
pub(super) fn is_kept(ledger: &Ledger, tenant: &TenantId) -> bool {
    ledger.kept::<KeptHistories>().get(tenant).is_some()
}

impl<'t> HistoryReader<'t> {
    /// To be made before the view is opened.
    pub(super) fn new(ledger: &Ledger, tenant: &'t TenantId) -> Self {
        let kept = ledger.kept::<KeptHistories>();
        let start = kept.get(tenant);
        HistoryReader { tenant, kept, start }
    }

    /// The history at the place of the view.
    pub(super) fn read(&self, view: &mut LogView<'_>) -> Result<ApprovalHistory, LedgerError> {
        let place = view.place();
        let start = match &self.start {
            Some(part) if part.is_of(view)? => Some(part.clone()),
            _ => None,
        };
        let is_other_log = self.start.is_some() && start.is_none();
        let mut part = start.unwrap_or_else(|| JudgedPart {
            origin: place.origin.clone(),
            seq: Seq::ZERO,
            root: place.root,
            judge: Arc::new(ApprovalLog::new(&place.origin, self.tenant)),
            entries: Arc::default(),
            decided_drafts: Arc::default(),
            used: 0,
        });
        if part.seq < place.seq {
            for entry in approval_entries(view, part.seq)? {
                if let Some(logged) = judge_next(Arc::make_mut(&mut part.judge), &entry) {
                    part.add(view, logged)?;
                }
            }
            (part.seq, part.root) = (place.seq, place.root);
        }
        self.kept.put(self.tenant, &part, is_other_log);
        let JudgedPart { judge, entries, decided_drafts, .. } = part;
        Ok(ApprovalHistory { entries, decided_drafts, judge, place, tenant_id: self.tenant.clone() })
    }
}

impl JudgedPart {
    fn add(&mut self, view: &mut LogView<'_>, logged: LoggedApproval) -> Result<(), LedgerError> {
        let decided = match &logged.entry {
            ApprovalEntry::Verdict(statement, _)
                if statement.decision == ApprovalDecision::Reject
                    && statement.subject_kind == SubjectKind::Draft =>
            {
                Some((&statement.subject_id, false))
            }
            ApprovalEntry::Landing(landing) if landing.subject_kind == SubjectKind::Draft => {
                Some((&landing.subject_id, true))
            }
            _ => None,
        };
        if let Some((draft, is_landed)) = decided
            && let Some(draft) = view.get(draft)?
        {
            let of_robot = Arc::make_mut(&mut self.decided_drafts).entry(draft.content.robot_id);
            of_robot.or_default().push(DecidedDraft { seq: draft.seq, id: draft.id, is_landed });
        }
        Arc::make_mut(&mut self.entries).add(logged);
        Ok(())
    }

    /// Whether a log begins with exactly the entries that were judged.
    fn is_of(&self, view: &mut LogView<'_>) -> Result<bool, LedgerError> {
        let place = view.place();
        if place.origin != self.origin {
            return Ok(false);
        }
        Ok(match place.seq == self.seq {
            true => place.root == self.root,
            false => view.root_at(self.seq)? == Some(self.root),
        })
    }
}

impl KeptHistories {
    fn get(&self, tenant: &TenantId) -> Option<JudgedPart> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).by_tenant.get(tenant).cloned()
    }

    /// Keeps what was judged, unless more is kept of the same log already. Over the limit, the least recently used is dropped.
    fn put(&self, tenant: &TenantId, part: &JudgedPart, is_other_log: bool) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.uses += 1;
        let uses = kept.uses;
        match kept.by_tenant.get_mut(tenant) {
            Some(known) if known.seq >= part.seq && !is_other_log => known.used = uses,
            _ => drop(kept.by_tenant.insert(tenant.clone(), JudgedPart { used: uses, ..part.clone() })),
        }
        kept.trim(MAX_KEPT_ENTRIES);
    }
}

impl Tenants {
    fn trim(&mut self, most: usize) {
        while self.by_tenant.values().map(|part| part.entries.len()).sum::<usize>() > most {
            let oldest = self.by_tenant.iter().min_by_key(|(_, part)| part.used);
            let Some(oldest) = oldest.map(|(tenant, _)| tenant.clone()) else { break };
            self.by_tenant.remove(&oldest);
        }
    }
}

#[cfg(test)]
#[path = "kept_history_tests.rs"]
mod tests;
