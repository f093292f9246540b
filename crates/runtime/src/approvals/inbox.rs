//! What waits for a person: drafts, with the rule that holds for each, who may decide and how many are missing.

use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::approval::{
    APPROVALS, ApprovalDecision, ApprovalEntry, ApprovalRule, SignedKind, TENANT_ROBOT,
};
use crealeph_contracts::scalar::{LedgerId, Name, RobotId, TenantId};
use crealeph_decision::approval::{
    ApprovalSubject, SubjectClass, SubjectOutcome, SubjectState, derive, rule_for,
};
use crealeph_decision::builder::conclude::BUILDER;
use crealeph_decision::snapshot::SnapshotFacts;
use crealeph_ledger::{Cursor, Filter, Ledger, LedgerError, Order, StoredEntry};

use super::draft::{objective_of, record_of_draft, subject_of};
use super::error::ApprovalError;
use super::history::ApprovalHistory;
use crate::builder::{Scopes, is_made_by_builder};
use crate::review::waiting;

/// Something that waits.
#[derive(Clone, Debug)]
pub struct InboxItem {
    /// The draft.
    pub entry: StoredEntry,
    /// As a subject.
    pub subject: ApprovalSubject,
    /// How it stands; `None` while nobody is enrolled.
    pub state: Option<SubjectState>,
}

/// A page of what waits, newest first, and where it goes on.
///
/// # Errors
/// When the ledger cannot be read.
pub fn inbox(
    ledger: &Ledger,
    tenant: &TenantId,
    scopes: &Scopes,
    cursor: Option<Cursor>,
    limit: usize,
) -> Result<(Vec<InboxItem>, Option<Cursor>), ApprovalError> {
    let history = ApprovalHistory::load(ledger, tenant)?;
    let history = history.filter(|history| history.judge.had_people());
    let (drafts, next) = waiting(ledger, tenant, None, cursor, limit)?;
    let mut robots: BTreeMap<RobotId, SnapshotFacts> = BTreeMap::new();
    let mut items = Vec::new();
    for entry in drafts {
        let robot = entry.content.robot_id.clone();
        let rules = &scopes.of(tenant, &robot).coherence;
        if !robots.contains_key(&robot)
            && let Some(facts) = ledger.facts(tenant, &robot, None, rules)?
        {
            robots.insert(robot.clone(), facts);
        }
        let newest = ledger.view(tenant, |view| view.entry_with_reach(&entry.id))?.flatten();
        let (Some(facts), Some(newest)) = (robots.get(&robot), newest) else { continue };
        let record = record_of_draft(ledger, tenant, &entry)?;
        let subject = subject_of(&entry, record.as_ref(), &newest, facts, rules);
        let state = match &history {
            Some(history) => Some(derive(&history.log, &subject, history.place.now.instant())?),
            None => None,
        };
        let is_ended = |state: &SubjectState| {
            matches!(state.outcome, SubjectOutcome::Landed { .. } | SubjectOutcome::Rejected { .. })
        };
        if !state.as_ref().is_some_and(is_ended) {
            items.push(InboxItem { entry, subject, state });
        }
    }
    Ok((items, next))
}

/// The subjects that somebody rejected, with a key that was not revoked since.
///
/// # Errors
/// When the ledger cannot be read.
pub fn rejected_subjects(ledger: &Ledger, tenant: &TenantId) -> Result<BTreeSet<LedgerId>, LedgerError> {
    // Most tenants have no rejection, and then no signature has to be checked.
    if !has_rejection(ledger, tenant)? {
        return Ok(BTreeSet::new());
    }
    let history = match ApprovalHistory::load(ledger, tenant) {
        Ok(Some(history)) => history,
        Ok(None) => return Ok(BTreeSet::new()),
        Err(ApprovalError::Ledger(error)) => return Err(error),
        Err(_) => return Err(LedgerError::Closed),
    };
    let rejections = history.log.iter().filter_map(|logged| match &logged.entry {
        ApprovalEntry::Verdict(statement, _)
            if logged.problem.is_none() && statement.decision == ApprovalDecision::Reject =>
        {
            history.judge.person_of(statement.key_id.as_str()).map(|_| statement.subject_id.clone())
        }
        _ => None,
    });
    Ok(rejections.collect())
}

fn has_rejection(ledger: &Ledger, tenant: &TenantId) -> Result<bool, LedgerError> {
    let named = |name: &str| Name::parse(name).map_err(|_| LedgerError::Closed);
    let filter = Filter {
        robot_id: Some(RobotId::from(TENANT_ROBOT)),
        kind: Some(Name::from(SignedKind::Verdict.entry_type())),
        state: Some(named("reject")?),
        module: Some(Name::from(APPROVALS)),
        ..Filter::default()
    };
    Ok(!ledger.list(tenant, &filter, Order::OldestFirst, None, 1)?.entries.is_empty())
}

/// What a draft of the past needs under rules.
#[derive(Clone, Debug)]
pub struct RuledDraft {
    /// The draft.
    pub entry: StoredEntry,
    /// The objective it was made for.
    pub objective: Option<Name>,
    /// The rule that would hold.
    pub rule: ApprovalRule,
    /// The rule in force.
    pub now: ApprovalRule,
}

/// What the newest drafts, decided or not, would have needed under these rules.
///
/// # Errors
/// When the ledger cannot be read.
pub fn ruled_drafts(
    ledger: &Ledger,
    tenant: &TenantId,
    rules: &[ApprovalRule],
    limit: usize,
) -> Result<Vec<RuledDraft>, ApprovalError> {
    let in_force = ApprovalHistory::load(ledger, tenant)?.map(|history| history.judge.rules().to_vec());
    let in_force = in_force.unwrap_or_else(Vec::new);
    let filter =
        Filter { module: Some(Name::from(BUILDER)), state: Some(Name::parse("draft")?), ..Filter::default() };
    let page = ledger.list(tenant, &filter, Order::NewestFirst, None, limit)?;
    let mut ruled = Vec::new();
    for entry in page.entries {
        if !is_made_by_builder(ledger, tenant, &entry)? {
            continue;
        }
        let objective = record_of_draft(ledger, tenant, &entry)?.as_ref().and_then(objective_of);
        let class = SubjectClass::draft(objective.clone());
        let (rule, now) = (rule_for(rules, &class), rule_for(&in_force, &class));
        ruled.push(RuledDraft { entry, objective, rule, now });
    }
    Ok(ruled)
}
