//! A verdict on a subject: the statement that a person signs, the record of it, and the landing of a draft after the last one
//! needed. Quorum and lapse are checked and the landing is written atomically: if the log has grown, all is checked again. A change lands
//! in its workspace.

use crealeph_contracts::approval::{
    ApprovalDecision, ApprovalEntry, ApprovalRule, LANDING, LandingRecord, LoggedApproval, ProofKind,
    SignedKind, SignedPayload, VerdictStatement, VerdictType, landing_key,
};
use crealeph_contracts::instant::{Instant, Timestamp};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{LedgerId, Literal, Name, Text};
use crealeph_contracts::shape::Set;
use crealeph_decision::approval::{SubjectOutcome, Uncounted, derive};
use crealeph_decision::builder::review::planned;
use crealeph_ledger::{AppendedEntry, LedgerError, Seq};

use super::case::{SubjectBasis, SubjectCase, SubjectReader};
use super::error::ApprovalError;
use super::history::{
    Decided, StatementSigner, append_at_end, approvals_draft, count, first, recorded, resting_on,
};
use super::people::new_nonce;

const NANOS_PER_MINUTE: i128 = 60_000_000_000;

/// The outcome of a verdict.
#[derive(Clone, Debug)]
pub struct RecordedVerdict {
    /// Its entry.
    pub verdict: AppendedEntry,
    /// The landing and the planned artifact of a draft, if it was the last one needed.
    pub landed: Option<Landed>,
    /// How many approvals are still missing.
    pub missing: u64,
}

/// The landing's entry, and the planned artifact.
pub type Landed = (AppendedEntry, AppendedEntry);

/// The statement that a person signs about a subject as it is now.
///
/// # Errors
/// When it is decided already, or the verdict would not count.
pub fn verdict_statement(
    case: &SubjectCase,
    signer: StatementSigner,
    decision: ApprovalDecision,
    reason: Option<Text>,
    is_unattended: bool,
) -> Result<VerdictStatement, ApprovalError> {
    let SubjectCase { subject, state, history, .. } = case;
    let place = &history.place;
    let statement = VerdictStatement {
        kind: VerdictType::Verdict,
        tenant_id: history.tenant_id.clone(),
        log_origin: Name::parse(&place.origin)?,
        subject_kind: subject.class.kind,
        subject_id: subject.id.clone(),
        subject_digest: subject.digest,
        target: subject.target.clone(),
        decision,
        reason,
        person: signer.person,
        key_id: signer.key_id,
        rule_digest: state.rule_digest,
        evidence_seq: count(place.seq.get())?,
        evidence_root: place.root,
        base_state: subject.base_state,
        nonce: new_nonce()?,
        time: place.now.timestamp(),
        expires: expiry(&state.rule, place.now.instant()),
        unattended: is_unattended,
    };
    would_count(case, &statement)?;
    Ok(statement)
}

/// When a verdict lapses that is given now under a rule; `None` if the rule sets no time.
pub(super) fn expiry(rule: &ApprovalRule, now: Instant) -> Option<Timestamp> {
    let minutes = rule.ttl_minutes?.get();
    let nanos = now.unix_nanos() + i128::from(minutes) * NANOS_PER_MINUTE;
    Some(Timestamp::from(Instant::from_unix_nanos(nanos)))
}

impl SubjectReader<'_> {
    /// The same as [`SubjectReader::record_verdict`], and safe to repeat: a verdict that is recorded exactly so is not refused, and
    /// a landing that was interrupted after it is made up for.
    ///
    /// # Errors
    /// The same.
    pub fn record_verdict_once(&self, signed: &SignedPayload) -> Result<RecordedVerdict, ApprovalError> {
        let subject = read_verdict(signed)?.subject_id;
        let found = || recorded(self.ledger, self.tenant, SignedKind::Verdict, signed);
        let refused = match found()? {
            Some(_) => None,
            None => match self.record_verdict(signed) {
                Err(error) if error.is_refusal() => Some(error),
                done => return done,
            },
        };
        // Someone may have recorded it while this was judged.
        match (found()?, refused) {
            (Some(verdict), _) => {
                let (landed, missing) = self.land_draft(&subject)?;
                Ok(RecordedVerdict { verdict, landed, missing })
            }
            (None, Some(error)) => Err(error),
            (None, None) => Err(ApprovalError::Ledger(LedgerError::Closed)),
        }
    }

    /// Records a signed verdict, and lands a draft if it was the last one needed.
    ///
    /// # Errors
    /// When an outsider would refuse it, it would not count, or the ledger cannot be written.
    pub fn record_verdict(&self, signed: &SignedPayload) -> Result<RecordedVerdict, ApprovalError> {
        let mut subject = None;
        let written = append_at_end(self.ledger, self.tenant, || {
            let statement = read_verdict(signed)?;
            let case = self.read(&statement.subject_id)?;
            check_open(&case)?;
            self.check_evidence(&case, &statement)?;
            let lineage = resting_on(vec![case.entry.id.clone()], &case.entry.to_entry());
            let (_, entry) = case.history.entry(SignedKind::Verdict, signed, lineage)?;
            would_count(&case, &statement)?;
            subject = Some(statement.subject_id);
            Ok(Some((case.history.place.clone(), vec![(None, entry)])))
        })?;
        let verdict = first(written)?;
        let subject = subject.ok_or(ApprovalError::Ledger(LedgerError::Closed))?;
        let (landed, missing) = self.land_draft(&subject)?;
        Ok(RecordedVerdict { verdict, landed, missing })
    }

    /// Lands a draft that enough people approved, if it has not landed yet: the landing and the planned artifact, or how many
    /// approvals are missing. Of a change only the latter.
    ///
    /// # Errors
    /// When the ledger cannot be read or written.
    pub fn land_draft(&self, id: &LedgerId) -> Result<(Option<Landed>, u64), ApprovalError> {
        let mut missing = 0;
        let written = append_at_end(self.ledger, self.tenant, || {
            let case = self.read(id)?;
            missing = match &case.state.outcome {
                SubjectOutcome::Waiting { missing } => *missing,
                _ => 0,
            };
            match case.basis {
                SubjectBasis::Draft { .. } => landing(&case),
                SubjectBasis::Change(_) => Ok(None),
            }
        })?;
        let mut written = written.into_iter();
        Ok((written.next().zip(written.next()), missing))
    }

    /// Refuses a verdict that was signed over a log that this one does not continue, or before the subject was in it.
    fn check_evidence(&self, case: &SubjectCase, statement: &VerdictStatement) -> Result<(), ApprovalError> {
        let seq = Seq::new(statement.evidence_seq.get()).filter(|seq| *seq >= case.entry.seq);
        let root = match seq {
            Some(seq) => self.ledger.view(self.tenant, |view| view.root_at(seq))?.flatten(),
            None => None,
        };
        match root == Some(statement.evidence_root) {
            true => Ok(()),
            false => Err(ApprovalError::OtherEvidence),
        }
    }
}

fn read_verdict(signed: &SignedPayload) -> Result<VerdictStatement, ApprovalError> {
    use crealeph_contracts::approval::ApprovalDocument as _;
    VerdictStatement::parse(signed.statement.as_str().as_bytes()).map_err(|violations| {
        let reason = violations.first().map_or_else(String::new, ToString::to_string);
        crealeph_contracts::json::ComposeError { what: "the verdict", reason }.into()
    })
}

/// What a landing writes, if quorum is reached.
fn landing(case: &SubjectCase) -> Result<Decided, ApprovalError> {
    let SubjectCase { subject, state, history, .. } = case;
    let SubjectOutcome::Approved { verdicts } = &state.outcome else { return Ok(None) };
    let entry = case.entry.to_entry();
    let used = Set::new(verdicts.clone()).ok_or(ApprovalError::NoPeople)?;
    let record = LandingRecord {
        subject_kind: subject.class.kind,
        subject_id: subject.id.clone(),
        subject_digest: subject.digest,
        number: count(1)?,
        verdicts: used,
        rule_digest: state.rule_digest,
        checked_seq: count(history.place.seq.get())?,
    };
    let key = landing_key(&subject.id, 1);
    let read = ApprovalEntry::Landing(record.clone());
    history.check(&read, None, &key)?;
    let because: Vec<LedgerId> = [subject.id.clone()].into_iter().chain(verdicts.iter().cloned()).collect();
    let payload = JsonObject::of("the landing", &record)?;
    let landed = Literal::new("landed");
    let landing = approvals_draft(LANDING, landed, payload, resting_on(because.clone(), &entry), &key)?;
    let planned = planned(&entry, because)?;
    Ok(Some((history.place.clone(), vec![(None, landing), (None, planned)])))
}

/// Refuses a verdict on what is decided, and one that would not count if it were recorded now.
fn would_count(case: &SubjectCase, statement: &VerdictStatement) -> Result<(), ApprovalError> {
    let SubjectCase { subject, history, log, .. } = case;
    check_open(case)?;
    let mut log = log.clone();
    let now = history.place.now.instant();
    let id = LedgerId::from(Literal::new("not-written-yet"));
    let proof = history.judge.proof_of(statement.key_id.as_str()).unwrap_or(ProofKind::Ssh);
    log.push(LoggedApproval {
        id: id.clone(),
        seq: history.place.seq.next().get(),
        at: now,
        entry: ApprovalEntry::Verdict(statement.clone(), proof),
        authenticator: None,
        problem: None,
    });
    let then = derive(&log, subject, now)?;
    let uncounted =
        then.verdicts.into_iter().find(|verdict| verdict.id == id).and_then(|verdict| verdict.uncounted);
    match uncounted {
        None => Ok(()),
        Some(why) => Err(uncounted_error(&why)),
    }
}

/// Refuses what no one can decide: before anyone is enrolled, or once it has ended.
fn check_open(case: &SubjectCase) -> Result<(), ApprovalError> {
    let SubjectCase { subject, state, history, .. } = case;
    if !history.judge.had_people() {
        return Err(ApprovalError::NoPeople);
    }
    match state.outcome.is_open() {
        true => Ok(()),
        false => {
            let (subject, state) = (subject.id.clone(), state.outcome.as_str());
            Err(ApprovalError::Ended { subject, state })
        }
    }
}

fn uncounted_error(why: &Uncounted) -> ApprovalError {
    ApprovalError::Uncounted { code: why.as_str(), reason: why.reason(), renewal: why.renewal() }
}
