//! What past drafts, and changes of successful runs, would have needed under rules. Only reads; a pure function decides which rule matches.

use crealeph_contracts::approval::{ApprovalRule, SubjectKind};
use crealeph_contracts::contract::Valid;
use crealeph_contracts::json::{Limits, Node};
use crealeph_contracts::receipt::Receipt;
use crealeph_contracts::scalar::{Name, TenantId};
use crealeph_decision::approval::{SubjectClass, needs_approval, rule_for};
use crealeph_decision::builder::conclude::BUILDER;
use crealeph_ledger::{Filter, Ledger, Order, StoredEntry};

use super::change::WORK;
use super::draft::objective_of;
use super::error::ApprovalError;
use super::history::rules_in_force;
use crate::builder::{NamingRecords, is_made_by_builder};
use crate::work::receipt::RUN_RECEIPT;

/// What a draft or a change of the past needs under rules.
#[derive(Clone, Debug)]
pub struct RuledSubject {
    /// The draft, or the entry of the run's receipt.
    pub entry: StoredEntry,
    /// The receipt of the run, if it is a change.
    pub receipt: Option<Box<Receipt>>,
    /// What rules distinguish it by.
    pub class: SubjectClass,
    /// The rule that would hold; absent for a change that would land at once.
    pub rule: Option<ApprovalRule>,
    /// The same under the rules in force.
    pub now: Option<ApprovalRule>,
}

/// What the newest drafts and changes, decided or not, would have needed under these rules; without any, under those in force. And
/// whether there are more.
///
/// # Errors
/// When the ledger cannot be read.
pub fn ruled_subjects(
    ledger: &Ledger,
    tenant: &TenantId,
    rules: Option<&[ApprovalRule]>,
    limit: usize,
) -> Result<(Vec<RuledSubject>, bool), ApprovalError> {
    let in_force = rules_in_force(ledger, tenant)?;
    let rules = rules.unwrap_or(&in_force);
    let ruled = |entry: StoredEntry, receipt: Option<Box<Receipt>>, class: SubjectClass| {
        let (rule, now) = (needed(rules, &class), needed(&in_force, &class));
        RuledSubject { entry, receipt, class, rule, now }
    };
    let drafts =
        Filter { module: Some(Name::from(BUILDER)), state: Some(Name::parse("draft")?), ..Filter::default() };
    let mut records = NamingRecords::new(ledger, tenant);
    let mut subjects = newest(ledger, tenant, &drafts, limit.saturating_add(1), |entry| {
        let record = records.of(&entry)?;
        if record.is_none() && !is_made_by_builder(ledger, tenant, &entry)? {
            return Ok(None);
        }
        let objective = record.as_deref().and_then(objective_of);
        Ok(Some(ruled(entry, None, SubjectClass::draft(objective))))
    })?;
    let runs = Filter {
        module: Some(Name::from(WORK)),
        kind: Some(Name::from(RUN_RECEIPT)),
        state: Some(Name::parse("succeeded")?),
        ..Filter::default()
    };
    subjects.extend(newest(ledger, tenant, &runs, limit.saturating_add(1), |entry| {
        Ok(changed_by(&entry).map(|receipt| {
            let class = class_of(&receipt);
            ruled(entry, Some(Box::new(receipt)), class)
        }))
    })?);
    subjects.sort_by_key(|subject| std::cmp::Reverse(subject.entry.seq));
    let has_more = subjects.len() > limit;
    subjects.truncate(limit);
    Ok((subjects, has_more))
}

/// The newest subjects among the entries that a filter lets through. A page may be short of entries before the log ends, so all
/// pages are read until there are enough.
fn newest(
    ledger: &Ledger,
    tenant: &TenantId,
    filter: &Filter,
    limit: usize,
    mut read: impl FnMut(StoredEntry) -> Result<Option<RuledSubject>, ApprovalError>,
) -> Result<Vec<RuledSubject>, ApprovalError> {
    let page_entries = limit.min(ledger.limits().page_entries);
    let (mut found, mut cursor) = (Vec::new(), None);
    loop {
        let page = ledger.list(tenant, filter, Order::NewestFirst, cursor, page_entries)?;
        for entry in page.entries {
            found.extend(read(entry)?);
        }
        cursor = page.next;
        if found.len() >= limit || cursor.is_none() {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// The rule for a subject; a change that none fits is not held.
fn needed(rules: &[ApprovalRule], class: &SubjectClass) -> Option<ApprovalRule> {
    let is_asked = class.kind == SubjectKind::Draft || needs_approval(rules, class);
    is_asked.then(|| rule_for(rules, class))
}

/// The receipt of a run of an item that changed something.
fn changed_by(entry: &StoredEntry) -> Option<Receipt> {
    let text = entry
        .to_entry()
        .payload?
        .with(|payload| payload.member("receipt").map(Node::source).map(str::to_owned))?;
    let receipt = Valid::<Receipt>::parse(text.as_bytes(), &Limits::own(usize::MAX)).ok()?.into_inner();
    (receipt.work_item_id.is_some() && !receipt.artifacts.as_slice().is_empty()).then_some(receipt)
}

fn class_of(receipt: &Receipt) -> SubjectClass {
    SubjectClass {
        kind: SubjectKind::Change,
        objective: None,
        is_protected: !receipt.delta_lambda.as_slice().is_empty(),
        has_tests: !receipt.delta_q.as_slice().is_empty(),
        files: receipt.artifacts.as_slice().len() as u64,
        cost_usd: receipt.cost_usd.map(|cost| cost.get()),
    }
}
