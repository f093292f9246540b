//! What the log says about a subject: every verdict judged, what is missing, and its status.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use crealeph_contracts::approval::{
    ApprovalDecision, ApprovalEntry, ApprovalRule, LandingEnd, LandingRecord, LoggedApproval, ProofKind,
    SubjectKind, VerdictStatement,
};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::ComposeError;
use crealeph_contracts::passkey::AuthenticatorFacts;
use crealeph_contracts::scalar::{LedgerId, Name};
use crealeph_contracts::uuid::Uuid;

use super::people::People;
use super::rule::rule_for;
use super::verdicts::{ApprovalSubject, Uncounted, VerdictContext};

/// A verdict of the log, and whether it counts.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedVerdict {
    /// Its entry.
    pub id: LedgerId,
    /// The entry's place in the log.
    pub seq: u64,
    /// When the ledger accepted it.
    pub at: Instant,
    /// What was signed.
    pub statement: VerdictStatement,
    /// With which proof.
    pub proof: ProofKind,
    /// What the authenticator said about itself, if it was with a passkey.
    pub authenticator: Option<AuthenticatorFacts>,
    /// Why it does not count, if it does not.
    pub uncounted: Option<Uncounted>,
}

/// The status of a subject.
#[derive(Clone, Debug, PartialEq)]
pub enum SubjectOutcome {
    /// It waits for so many more approvals.
    Waiting {
        /// How many.
        missing: u64,
    },
    /// Enough people approved, and it has not landed yet.
    Approved {
        /// The verdicts that a landing uses.
        verdicts: Vec<LedgerId>,
    },
    /// A member of the group rejected it.
    Rejected {
        /// The verdict.
        verdict: LedgerId,
        /// Who.
        person: Name,
    },
    /// A change was about to land, and its outcome is not recorded yet.
    Landing {
        /// The landing's entry.
        landing: LedgerId,
        /// What it used.
        record: LandingRecord,
    },
    /// It landed.
    Landed {
        /// The landing's entry.
        landing: LedgerId,
        /// What it used.
        record: LandingRecord,
    },
}

impl SubjectOutcome {
    /// The word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            SubjectOutcome::Waiting { .. } => "waiting",
            SubjectOutcome::Approved { .. } => "approved",
            SubjectOutcome::Rejected { .. } => "rejected",
            SubjectOutcome::Landing { .. } => "landing",
            SubjectOutcome::Landed { .. } => "landed",
        }
    }

    /// Whether a verdict can still change it.
    pub fn is_open(&self) -> bool {
        matches!(self, SubjectOutcome::Waiting { .. } | SubjectOutcome::Approved { .. })
    }

    /// The landing's entry, and what it used.
    pub fn landing(&self) -> Option<(&LedgerId, &LandingRecord)> {
        match self {
            SubjectOutcome::Landing { landing, record } | SubjectOutcome::Landed { landing, record } => {
                Some((landing, record))
            }
            _ => None,
        }
    }
}

/// The derived facts about a subject.
#[derive(Clone, Debug, PartialEq)]
pub struct SubjectState {
    /// The rule that applies to it now.
    pub rule: ApprovalRule,
    /// The rule's digest.
    pub rule_digest: Blake3,
    /// Who may decide now, by name.
    pub may_decide: Vec<Name>,
    /// Its verdicts, in the order of the log.
    pub verdicts: Vec<JudgedVerdict>,
    /// Its status.
    pub outcome: SubjectOutcome,
}

/// Derives the status of a subject at an instant, from the entries about approvals in the order of the log: all of them, or those
/// that [`super::ApprovalEntries::about`] selects.
///
/// # Errors
/// If a rule cannot be hashed, which does not happen to one that was read.
pub fn derive<L: Borrow<LoggedApproval>>(
    log: &[L],
    subject: &ApprovalSubject,
    now: Instant,
) -> Result<SubjectState, ComposeError> {
    let people = People::of(log);
    let rule = rule_for(rules_before(log, u64::MAX), &subject.class);
    let rule_digest = rule.digest()?;
    let context = VerdictContext { people: &people, subject, rule: &rule, rule_digest: &rule_digest, now };
    let ends = LandingEnds::of(log);
    let used = ends.used(log);
    let mut tally = Tally { log, context, nonces: BTreeSet::new(), approvers: BTreeSet::new(), used };
    let mut verdicts = Vec::new();
    for logged in log.iter().map(L::borrow) {
        let ApprovalEntry::Verdict(statement, proof) = &logged.entry else { continue };
        if statement.subject_id != subject.id {
            continue;
        }
        let uncounted = tally.judge(logged, statement, *proof);
        verdicts.push(JudgedVerdict {
            id: logged.id.clone(),
            seq: logged.seq,
            at: logged.at,
            statement: statement.clone(),
            proof: *proof,
            authenticator: logged.authenticator.clone(),
            uncounted,
        });
    }
    let outcome = ends.landing_of(log, subject).unwrap_or_else(|| outcome(&rule, &verdicts));
    let may_decide = people.members(rule.group.as_ref()).into_iter().cloned().collect();
    Ok(SubjectState { rule, rule_digest, may_decide, verdicts, outcome })
}

/// The status of a subject that has not landed.
fn outcome(rule: &ApprovalRule, verdicts: &[JudgedVerdict]) -> SubjectOutcome {
    let counted = || verdicts.iter().filter(|verdict| verdict.uncounted.is_none());
    let is = |decision| move |verdict: &&JudgedVerdict| verdict.statement.decision == decision;
    if let Some(rejection) = counted().find(is(ApprovalDecision::Reject)) {
        let (verdict, person) = (rejection.id.clone(), rejection.statement.person.clone());
        return SubjectOutcome::Rejected { verdict, person };
    }
    let approvals: Vec<LedgerId> =
        counted().filter(is(ApprovalDecision::Approve)).map(|verdict| verdict.id.clone()).collect();
    match rule.approvals.get().saturating_sub(approvals.len() as u64) {
        0 => SubjectOutcome::Approved { verdicts: approvals },
        missing => SubjectOutcome::Waiting { missing },
    }
}

/// The verdicts of a subject, one after the other.
struct Tally<'a, L> {
    log: &'a [L],
    context: VerdictContext<'a>,
    nonces: BTreeSet<Uuid>,
    approvers: BTreeSet<Name>,
    used: BTreeSet<LedgerId>,
}

impl<L: Borrow<LoggedApproval>> Tally<'_, L> {
    fn judge(
        &mut self,
        logged: &LoggedApproval,
        statement: &VerdictStatement,
        proof: ProofKind,
    ) -> Option<Uncounted> {
        if let Some(problem) = &logged.problem {
            return Some(Uncounted::Disbelieved(problem.clone()));
        }
        if self.used.contains(&logged.id) {
            return Some(Uncounted::Used);
        }
        if statement.decision == ApprovalDecision::Reject {
            return self.judge_rejection(logged, statement, proof);
        }
        let uncounted = self.context.uncounted(statement, proof, logged.seq, logged.at);
        match uncounted {
            None if !self.nonces.insert(statement.nonce) => Some(Uncounted::NonceReused),
            None if !self.approvers.insert(statement.person.clone()) => Some(Uncounted::Repeated),
            uncounted => uncounted,
        }
    }

    /// A rejection is judged by the rule of its time: a subject that it ended stays ended if the rule changes.
    fn judge_rejection(
        &self,
        logged: &LoggedApproval,
        statement: &VerdictStatement,
        proof: ProofKind,
    ) -> Option<Uncounted> {
        let then = rule_for(rules_before(self.log, logged.seq), &self.context.subject.class);
        if !then.proofs.contains(&proof) {
            return Some(Uncounted::ProofKind);
        }
        if self.context.is_final(statement, then.group.as_ref(), logged.seq) {
            return None;
        }
        let context = VerdictContext { rule: &then, rule_digest: &statement.rule_digest, ..self.context };
        let why = context.uncounted(statement, proof, logged.seq, logged.at);
        Some(why.unwrap_or(Uncounted::NotInGroup))
    }
}

/// The rules that were in force before a place of the log.
fn rules_before<L: Borrow<LoggedApproval>>(log: &[L], seq: u64) -> &[ApprovalRule] {
    let mut set =
        log.iter().map(L::borrow).rev().filter(|logged| logged.problem.is_none() && logged.seq < seq);
    let found = set.find_map(|logged| match &logged.entry {
        ApprovalEntry::Rules(statement) => Some(statement.rules.as_slice()),
        _ => None,
    });
    found.unwrap_or(&[])
}

/// The landings whose outcome is recorded.
struct LandingEnds<'l>(BTreeMap<&'l LedgerId, LandingEnd>);

impl<'l> LandingEnds<'l> {
    fn of<L: Borrow<LoggedApproval>>(log: &'l [L]) -> Self {
        let mut ends = BTreeMap::new();
        for logged in log.iter().map(L::borrow).filter(|logged| logged.problem.is_none()) {
            if let ApprovalEntry::Outcome(record) = &logged.entry {
                // The first recorded outcome is final.
                ends.entry(&record.landing).or_insert(record.outcome);
            }
        }
        LandingEnds(ends)
    }

    /// The landings that are not void.
    fn standing<L: Borrow<LoggedApproval>>(
        &self,
        log: &'l [L],
    ) -> impl Iterator<Item = (&'l LedgerId, &'l LandingRecord)> {
        log.iter().map(L::borrow).filter_map(|logged| match &logged.entry {
            ApprovalEntry::Landing(record)
                if logged.problem.is_none() && self.0.get(&logged.id) != Some(&LandingEnd::Void) =>
            {
                Some((&logged.id, record))
            }
            _ => None,
        })
    }

    /// The verdicts that landings used; a void landing returns them.
    fn used<L: Borrow<LoggedApproval>>(&self, log: &'l [L]) -> BTreeSet<LedgerId> {
        self.standing(log).flat_map(|(_, record)| record.verdicts.as_slice().iter().cloned()).collect()
    }

    /// The status of a subject that landed, or was about to. A draft has landed with the entry that says so.
    fn landing_of<L: Borrow<LoggedApproval>>(
        &self,
        log: &'l [L],
        subject: &ApprovalSubject,
    ) -> Option<SubjectOutcome> {
        let is_of_it = |record: &LandingRecord| {
            record.subject_id == subject.id && record.subject_digest == subject.digest
        };
        let (landing, record) = self.standing(log).find(|(_, record)| is_of_it(record))?;
        let is_over = subject.class.kind == SubjectKind::Draft || self.0.contains_key(landing);
        let (landing, record) = (landing.clone(), record.clone());
        Some(match is_over {
            true => SubjectOutcome::Landed { landing, record },
            false => SubjectOutcome::Landing { landing, record },
        })
    }
}
