//! Properties of approvals (R33) that always hold, whatever the log says.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

use crealeph_contracts::actor::Actor;
use crealeph_contracts::approval::{
    ApprovalDecision, ApprovalDocument as _, ApprovalEntry, ApprovalRule, EnrolmentStatement, LandingEnd,
    LandingOutcomeRecord, LandingRecord, LoggedApproval, ProofKind, RevocationStatement, RuleStatement,
    SubjectKind, VerdictStatement,
};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::instant::{Instant, Timestamp};
use crealeph_contracts::passkey::{InvitationStatement, PasskeyRecord};
use crealeph_contracts::scalar::{ApprovalCount, Count, LedgerId, Minutes, Name};
use crealeph_contracts::shape::Set;
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::approval::{
    ApprovalSubject, People, Requester, SubjectClass, SubjectOutcome, SubjectState, Uncounted,
    VerdictOutlook, derive,
};
use proptest::prelude::*;

const PEOPLE: [&str; 4] = ["ana", "ben", "cy", "dot"];
const GROUP: &str = "maintainers";
const RULES_SEQ: u64 = 10;
const FIRST_VERDICT_SEQ: u64 = 20;

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn minute(minutes: i64) -> Instant {
    Instant::from_unix_nanos(i128::from(minutes) * 60_000_000_000)
}

fn logged(seq: u64, at: Instant, entry: ApprovalEntry) -> LoggedApproval {
    LoggedApproval {
        id: LedgerId::parse(&format!("entry-{seq}")).unwrap(),
        seq,
        at,
        entry,
        authenticator: None,
        problem: None,
    }
}

/// Everyone except `dot` is in the group.
fn enrolment(person: &str) -> ApprovalEntry {
    let groups = if person == "dot" { "[]".to_owned() } else { format!("[\"{GROUP}\"]") };
    let text = format!(
        r#"{{"type":"person_enrolment","tenantId":"t","logOrigin":"o","person":"{person}","publicKey":"k","keyId":"key-{person}","groups":{groups},"signedBy":"ana","signerKeyId":"key-ana","nonce":"00000000-0000-4000-8000-000000000000","time":"1970-01-01T00:00:00Z"}}"#
    );
    ApprovalEntry::Enrolment(EnrolmentStatement::parse(text.as_bytes()).unwrap())
}

fn revocation(person: &str) -> ApprovalEntry {
    let text = format!(
        r#"{{"type":"person_revocation","tenantId":"t","logOrigin":"o","person":"{person}","signedBy":"ana","signerKeyId":"key-ana","nonce":"00000000-0000-4000-8000-000000000000","time":"1970-01-01T00:00:00Z"}}"#
    );
    ApprovalEntry::Revocation(RevocationStatement::parse(text.as_bytes()).unwrap())
}

fn rules(rule: &ApprovalRule) -> ApprovalEntry {
    let text = format!(
        r#"{{"type":"approval_rule","tenantId":"t","logOrigin":"o","rules":[{}],"signedBy":"ana","signerKeyId":"key-ana","nonce":"00000000-0000-4000-8000-000000000000","time":"1970-01-01T00:00:00Z"}}"#,
        rule.to_canonical().unwrap()
    );
    ApprovalEntry::Rules(RuleStatement::parse(text.as_bytes()).unwrap())
}

fn rule(approvals: u64) -> ApprovalRule {
    ApprovalRule {
        name: name("two"),
        approvals: ApprovalCount::new(approvals).unwrap(),
        group: Some(name(GROUP)),
        os_requester: false,
        ttl_minutes: Minutes::new(60),
        ..ApprovalRule::built_in(SubjectKind::Draft)
    }
}

fn subject() -> ApprovalSubject {
    ApprovalSubject {
        id: LedgerId::parse("draft-1").unwrap(),
        class: SubjectClass::draft(None),
        digest: Blake3::of(b"draft"),
        target: name("ledger"),
        base_state: None,
        requester: None,
        outdated: None,
        moved_files: Vec::new(),
    }
}

fn statement(person: &str, decision: ApprovalDecision, rule: &ApprovalRule, nonce: u8) -> VerdictStatement {
    let digest = "0".repeat(64);
    let text = format!(
        r#"{{"type":"verdict","tenantId":"t","logOrigin":"o","subjectKind":"draft","subjectId":"draft-1","subjectDigest":"{digest}","target":"ledger","decision":"{decision}","person":"{person}","keyId":"key-{person}","ruleDigest":"{digest}","evidenceSeq":7,"evidenceRoot":"{digest}","nonce":"00000000-0000-4000-8000-000000000000","time":"1970-01-01T00:00:00Z","unattended":false}}"#
    );
    let mut statement = VerdictStatement::parse(text.as_bytes()).unwrap();
    statement.subject_digest = subject().digest;
    statement.rule_digest = rule.digest().unwrap();
    statement.nonce = Uuid::from_bytes([nonce; 16]);
    statement
}

/// The people and the rule, and then these verdicts, accepted at minute 0.
fn log_of(rule: &ApprovalRule, verdicts: &[VerdictStatement]) -> Vec<LoggedApproval> {
    let people = PEOPLE.iter().zip(1..).map(|(person, seq)| logged(seq, minute(0), enrolment(person)));
    let rules = logged(RULES_SEQ, minute(0), rules(rule));
    let verdicts = verdicts.iter().zip(FIRST_VERDICT_SEQ..);
    let verdicts = verdicts.map(|(verdict, seq)| {
        logged(seq, minute(0), ApprovalEntry::Verdict(verdict.clone(), ProofKind::Ssh))
    });
    people.chain([rules]).chain(verdicts).collect()
}

fn at_minute(log: &[LoggedApproval], subject: &ApprovalSubject, minutes: i64) -> SubjectState {
    derive(log, subject, minute(minutes)).unwrap()
}

fn is_approved(state: &SubjectState) -> bool {
    matches!(state.outcome, SubjectOutcome::Approved { .. })
}

/// How a verdict can be wrong.
#[derive(Clone, Copy, Debug)]
enum Flaw {
    None,
    Unattended,
    OtherDigest,
    OtherTarget,
    OtherRule,
    OtherKey,
    Expired,
}

fn flawed(mut statement: VerdictStatement, flaw: Flaw) -> VerdictStatement {
    match flaw {
        Flaw::None => {}
        Flaw::Unattended => statement.unattended = true,
        Flaw::OtherDigest => statement.subject_digest = Blake3::of(b"another"),
        Flaw::OtherTarget => statement.target = name("workspace"),
        Flaw::OtherRule => statement.rule_digest = Blake3::of(b"another"),
        Flaw::OtherKey => statement.key_id = name("key-eve"),
        Flaw::Expired => statement.expires = Some(Timestamp::from(minute(1))),
    }
    statement
}

const FLAWS: [Flaw; 7] = [
    Flaw::None,
    Flaw::Unattended,
    Flaw::OtherDigest,
    Flaw::OtherTarget,
    Flaw::OtherRule,
    Flaw::OtherKey,
    Flaw::Expired,
];

fn verdicts() -> impl Strategy<Value = Vec<(usize, bool, usize)>> {
    let one = (0..PEOPLE.len(), prop::bool::weighted(0.1), 0..FLAWS.len());
    prop::collection::vec(one, 0..8)
}

fn statements(drawn: &[(usize, bool, usize)], rule: &ApprovalRule) -> Vec<VerdictStatement> {
    let made = drawn.iter().zip(1..).map(|(&(person, is_rejection, flaw), nonce)| {
        let decision = if is_rejection { ApprovalDecision::Reject } else { ApprovalDecision::Approve };
        let statement = statement(PEOPLE.get(person).unwrap(), decision, rule, nonce);
        flawed(statement, *FLAWS.get(flaw).unwrap())
    });
    made.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_order_of_verdicts_does_not_matter(
        drawn in verdicts(), approvals in 1u64..4, shuffled in any::<prop::sample::Index>(),
    ) {
        let rule = rule(approvals);
        let mut statements = statements(&drawn, &rule);
        let said = |statements: &[VerdictStatement]| {
            let state = at_minute(&log_of(&rule, statements), &subject(), 5);
            let missing = match state.outcome {
                SubjectOutcome::Waiting { missing } => missing,
                _ => 0,
            };
            (state.outcome.as_str(), missing)
        };
        let before = said(&statements);
        if !statements.is_empty() {
            let by = shuffled.index(statements.len());
            statements.rotate_left(by);
            prop_assert_eq!(before, said(&statements));
            statements.reverse();
            prop_assert_eq!(before, said(&statements));
        }
    }

    #[test]
    // holds: invariant 20
    fn flawed_verdicts_never_count_and_a_quorum_needs_different_people(
        drawn in verdicts(), approvals in 1u64..4,
    ) {
        let rule = rule(approvals);
        let state = at_minute(&log_of(&rule, &statements(&drawn, &rule)), &subject(), 5);
        let mut people = std::collections::BTreeSet::new();
        for (verdict, &(person, is_rejection, flaw)) in state.verdicts.iter().zip(&drawn) {
            let is_good = matches!(FLAWS.get(flaw), Some(Flaw::None));
            let person = *PEOPLE.get(person).unwrap();
            if verdict.uncounted.is_none() && !is_rejection {
                prop_assert!(is_good && person != "dot", "{verdict:?}");
                prop_assert!(people.insert(person), "{person} counts twice");
            }
        }
        if let SubjectOutcome::Approved { verdicts } = &state.outcome {
            prop_assert!(verdicts.len() as u64 >= approvals);
            prop_assert_eq!(verdicts.len(), people.len());
        }
    }

    #[test]
    fn what_a_verdict_would_be_worth_is_what_it_is_worth_once_given(
        drawn in verdicts(), approvals in 1u64..4, person in 0..PEOPLE.len(), is_rejection in any::<bool>(),
        requester in 0..4usize, is_outdated in any::<bool>(), takes_ssh in any::<bool>(),
    ) {
        let kind = if takes_ssh { ProofKind::Ssh } else { ProofKind::Passkey };
        let rule = ApprovalRule { proofs: Set::one(kind), ..rule(approvals) };
        let asked = [None, Some("person:ana"), Some("account:ana@laptop"), Some("key:k1")];
        let requester = asked.get(requester).copied().flatten().and_then(|actor| Actor::of_name(&name(actor)));
        let subject = ApprovalSubject {
            requester: requester.map(Requester::of_actor),
            outdated: is_outdated.then(|| "a signal is newer".to_owned()),
            ..subject()
        };
        let mut statements = statements(&drawn, &rule);
        let log = log_of(&rule, &statements);
        let person = *PEOPLE.get(person).unwrap();
        let before = at_minute(&log, &subject, 5);
        let giver = name(person);
        let outlook = VerdictOutlook::of(&People::of(&log), &subject, &before, (&giver, ProofKind::Ssh));
        let (decision, expected) = match is_rejection {
            true => (ApprovalDecision::Reject, outlook.rejection),
            false => (ApprovalDecision::Approve, outlook.approval),
        };
        statements.push(statement(person, decision, &rule, 99));
        let given = at_minute(&log_of(&rule, &statements), &subject, 5);
        prop_assert_eq!(&given.verdicts.last().unwrap().uncounted, &expected, "{:?}", decision);
    }

    #[test]
    // holds: invariant 20
    fn a_rejection_never_lands_anything(drawn in verdicts(), person in 0..PEOPLE.len(), approvals in 1u64..4) {
        let rule = rule(approvals);
        let mut statements = statements(&drawn, &rule);
        let was = is_approved(&at_minute(&log_of(&rule, &statements), &subject(), 5));
        let person = PEOPLE.get(person).unwrap();
        statements.push(statement(person, ApprovalDecision::Reject, &rule, 99));
        let state = at_minute(&log_of(&rule, &statements), &subject(), 5);
        prop_assert!(was || !is_approved(&state));
        prop_assert!(*person == "dot" || !is_approved(&state), "one of the group ends it");
    }
}

#[test]
fn two_of_three_approve_and_either_can_stop_counting() {
    let rule = rule(2);
    let of = |person, nonce| statement(person, ApprovalDecision::Approve, &rule, nonce);
    let log = log_of(&rule, &[of("ana", 1), of("ben", 2)]);
    let uncounted = |state: &SubjectState| state.verdicts.first().unwrap().uncounted.clone();
    let good = at_minute(&log, &subject(), 5);
    assert!(is_approved(&good));
    assert_eq!(good.may_decide, ["ana", "ben", "cy"].map(name));

    assert!(is_approved(&at_minute(&log, &subject(), 59)));
    let late = at_minute(&log, &subject(), 60);
    assert_eq!((uncounted(&late), late.outcome.as_str()), (Some(Uncounted::Expired), "waiting"));

    let outdated = ApprovalSubject { outdated: Some("a signal is newer".to_owned()), ..subject() };
    assert!(uncounted(&at_minute(&log, &outdated, 5)).is_some_and(|why| why.is_lapse()));
    let moved = ApprovalSubject { moved_files: vec!["a.txt".to_owned()], ..subject() };
    assert!(uncounted(&at_minute(&log, &moved, 5)).is_some_and(|why| why.is_lapse()));

    let asked = ApprovalSubject { requester: Some(Requester::Person(name("ana"))), ..subject() };
    assert_eq!(uncounted(&at_minute(&log, &asked, 5)), Some(Uncounted::OwnRequest));
    // R33: what an account or a link from the terminal asked for needs a rule that allows it; what a key that an admin granted asked for does not.
    let counts = [
        ("key:k1", None),
        ("person:ben", None),
        ("person:ana", Some(Uncounted::OwnRequest)),
        ("account:ana@laptop", Some(Uncounted::UnknownRequester)),
        ("link:s1", Some(Uncounted::UnknownRequester)),
    ];
    for (actor, expected) in counts {
        let requester = Actor::of_name(&name(actor)).map(Requester::of_actor);
        let asked = ApprovalSubject { requester, ..subject() };
        assert_eq!(uncounted(&at_minute(&log, &asked, 5)), expected, "{actor}");
    }

    let mut later = log.clone();
    later.push(logged(40, minute(1), revocation("ana")));
    assert_eq!(uncounted(&at_minute(&later, &subject(), 5)), Some(Uncounted::Revoked));

    let mut later = log.clone();
    later.push(logged(40, minute(1), rules(&ApprovalRule { unattended: true, ..rule.clone() })));
    assert_eq!(uncounted(&at_minute(&later, &subject(), 5)), Some(Uncounted::RuleChanged));

    let mut forged = log.clone();
    forged.iter_mut().filter(|entry| entry.seq == FIRST_VERDICT_SEQ).for_each(|entry| {
        entry.problem = Some("the signature does not match".to_owned());
    });
    assert!(matches!(uncounted(&at_minute(&forged, &subject(), 5)), Some(Uncounted::Disbelieved(_))));
}

/// What people see before they sign: their own request, what they have approved and what is outdated is not theirs to approve, and can
/// still be rejected.
#[test]
fn a_person_learns_before_signing_whether_it_would_count() {
    let rule = rule(2);
    let log = log_of(&rule, &[statement("ben", ApprovalDecision::Approve, &rule, 1)]);
    let people = People::of(&log);
    let outlook = |person: &str, proof, subject: &ApprovalSubject| {
        let found =
            VerdictOutlook::of(&people, subject, &at_minute(&log, subject, 5), (&name(person), proof));
        (found.approval.map(|why| why.as_str()), found.rejection.map(|why| why.as_str()))
    };
    let asked = ApprovalSubject { requester: Some(Requester::Person(name("ana"))), ..subject() };
    let outdated = ApprovalSubject { outdated: Some("a signal is newer".to_owned()), ..subject() };
    let ssh = ProofKind::Ssh;
    assert_eq!(outlook("cy", ssh, &asked), (None, None));
    assert_eq!(outlook("ana", ssh, &asked), (Some("own_request"), None));
    assert_eq!(outlook("ben", ssh, &asked), (Some("repeated"), None));
    assert_eq!(outlook("cy", ssh, &outdated), (Some("outdated"), None));
    assert_eq!(outlook("dot", ssh, &asked), (Some("not_in_group"), Some("not_in_group")));
    assert_eq!(outlook("cy", ProofKind::Passkey, &asked), (Some("proof_kind"), Some("proof_kind")));
    let keys = |person: &str| people.keys_of(&name(person)).map(Name::as_str).collect::<Vec<_>>().join(" ");
    assert_eq!((keys("ana").as_str(), keys("eve").as_str()), ("key-ana", ""));
}

#[test]
fn a_person_enrolled_later_does_not_count_and_an_ended_subject_stays_ended() {
    let rule = rule(1);
    let mut log = log_of(&rule, &[statement("ana", ApprovalDecision::Approve, &rule, 1)]);
    log.retain(|entry| !matches!(&entry.entry, ApprovalEntry::Enrolment(of) if of.person.as_str() == "ana"));
    log.push(logged(40, minute(1), enrolment("ana")));
    let state = at_minute(&log, &subject(), 5);
    assert_eq!(state.verdicts.first().unwrap().uncounted, Some(Uncounted::NotEnrolled));

    let mut log = log_of(&rule, &[statement("ben", ApprovalDecision::Reject, &rule, 1)]);
    log.push(logged(40, minute(1), rules(&ApprovalRule { group: Some(name("others")), ..rule.clone() })));
    assert_eq!(at_minute(&log, &subject(), 500).outcome.as_str(), "rejected");
}

#[test]
fn a_verdict_is_used_by_one_landing_and_the_landing_is_final() {
    let rule = rule(1);
    let mut log = log_of(&rule, &[statement("ana", ApprovalDecision::Approve, &rule, 1)]);
    let verdict = LedgerId::parse(&format!("entry-{FIRST_VERDICT_SEQ}")).unwrap();
    let record = LandingRecord {
        subject_kind: SubjectKind::Draft,
        subject_id: subject().id,
        subject_digest: subject().digest,
        number: Count::new(1).unwrap(),
        verdicts: Set::one(verdict),
        rule_digest: rule.digest().unwrap(),
        checked_seq: Count::new(30).unwrap(),
    };
    log.push(logged(31, minute(1), ApprovalEntry::Landing(record)));
    log.push(logged(32, minute(2), revocation("ana")));
    let state = at_minute(&log, &subject(), 500);
    assert_eq!(state.outcome.as_str(), "landed", "also after the revocation, and after its time");
    assert_eq!(state.verdicts.first().unwrap().uncounted, Some(Uncounted::Used));
    let changed = ApprovalSubject { digest: Blake3::of(b"another"), ..subject() };
    assert_eq!(at_minute(&log, &changed, 5).outcome, SubjectOutcome::Waiting { missing: 1 });
}

/// A change: its landing is complete when that is recorded, and a void landing returns its verdicts.
#[test]
// holds: invariant 20
fn a_void_landing_uses_nothing_and_a_completed_one_is_final() {
    let rule = ApprovalRule { subject: SubjectKind::Change, ..rule(1) };
    let base = Blake3::of(b"base");
    let class = SubjectClass { kind: SubjectKind::Change, ..SubjectClass::draft(None) };
    let change = ApprovalSubject { class, base_state: Some(base), ..subject() };
    let mut verdict = statement("ana", ApprovalDecision::Approve, &rule, 1);
    verdict.subject_kind = SubjectKind::Change;
    let other_base = log_of(&rule, &[verdict.clone()]);
    let state = at_minute(&other_base, &change, 5);
    assert_eq!(state.verdicts.first().unwrap().uncounted, Some(Uncounted::OtherSubject));
    verdict.base_state = Some(base);
    let mut log = log_of(&rule, &[verdict]);
    assert!(is_approved(&at_minute(&log, &change, 5)));
    let landing = |number: u64| {
        ApprovalEntry::Landing(LandingRecord {
            subject_kind: SubjectKind::Change,
            subject_id: change.id.clone(),
            subject_digest: change.digest,
            number: Count::new(number).unwrap(),
            verdicts: Set::one(LedgerId::parse(&format!("entry-{FIRST_VERDICT_SEQ}")).unwrap()),
            rule_digest: rule.digest().unwrap(),
            checked_seq: Count::new(30).unwrap(),
        })
    };
    let outcome = |number: u64, landing: u64, outcome: LandingEnd| {
        ApprovalEntry::Outcome(LandingOutcomeRecord {
            subject_id: change.id.clone(),
            number: Count::new(number).unwrap(),
            landing: LedgerId::parse(&format!("entry-{landing}")).unwrap(),
            outcome,
        })
    };
    log.push(logged(31, minute(1), landing(1)));
    let state = at_minute(&log, &change, 5);
    assert_eq!(state.outcome.as_str(), "landing");
    assert_eq!(state.verdicts.first().unwrap().uncounted, Some(Uncounted::Used));
    log.push(logged(32, minute(1), outcome(1, 31, LandingEnd::Void)));
    assert!(is_approved(&at_minute(&log, &change, 5)), "its verdict can be used again");
    log.push(logged(33, minute(2), landing(2)));
    log.push(logged(34, minute(2), outcome(2, 33, LandingEnd::Completed)));
    log.push(logged(35, minute(2), outcome(2, 33, LandingEnd::Void)));
    let state = at_minute(&log, &change, 500);
    assert_eq!(state.outcome.as_str(), "landed", "what was recorded first stands");
    assert_eq!(state.outcome.landing().unwrap().0.as_str(), "entry-33");
}

fn invitation(person: &str, groups: &str) -> ApprovalEntry {
    let text = format!(
        r#"{{"type":"person_invitation","tenantId":"t","logOrigin":"o","person":"{person}","groups":{groups},"role":"writer","origin":"https://team.example","secretDigest":"{}","expires":"1970-01-02T00:00:00Z","signedBy":"ana","signerKeyId":"key-ana","nonce":"00000000-0000-4000-8000-000000000001","time":"1970-01-01T00:00:00Z"}}"#,
        "0".repeat(64)
    );
    ApprovalEntry::Invitation(InvitationStatement::parse(text.as_bytes()).unwrap())
}

fn passkey(person: &str) -> ApprovalEntry {
    let text = format!(
        r#"{{"statement":{{"type":"passkey_enrolment","tenantId":"t","logOrigin":"o","invitation":"00000000-0000-4000-8000-000000000001","person":"{person}","origin":"https://team.example","time":"1970-01-01T00:00:00Z"}},"secret":"s","keyId":"passkey-{person}","credentialId":"AAAA","publicKey":"AAAA","attestationObject":"AAAA","clientDataJson":"AAAA"}}"#
    );
    ApprovalEntry::Passkey(Box::new(PasskeyRecord::parse(text.as_bytes()).unwrap()))
}

/// A passkey counts only if the rule accepts it, for a person who was invited into the group; the same applies to its rejection.
#[test]
fn a_passkey_counts_under_a_rule_that_takes_it() {
    let taken = Set::new(vec![ProofKind::Ssh, ProofKind::Passkey]).unwrap();
    let judged = |proofs: &Set<ProofKind, 1>, decision, groups: &str, invited_at: u64| {
        let rule = ApprovalRule { proofs: proofs.clone(), ..rule(1) };
        let mut verdict = statement("eve", decision, &rule, 1);
        verdict.key_id = name("passkey-eve");
        let mut log = log_of(&rule, &[]);
        log.push(logged(invited_at, minute(0), invitation("eve", groups)));
        log.push(logged(invited_at + 1, minute(0), passkey("eve")));
        log.push(logged(FIRST_VERDICT_SEQ, minute(0), ApprovalEntry::Verdict(verdict, ProofKind::Passkey)));
        let state = at_minute(&log, &subject(), 1);
        (state.outcome.as_str(), state.verdicts.first().unwrap().uncounted.clone())
    };
    let (approve, reject, group) =
        (ApprovalDecision::Approve, ApprovalDecision::Reject, r#"["maintainers"]"#);
    assert_eq!(judged(&taken, approve, group, 11), ("approved", None));
    assert_eq!(judged(&taken, reject, group, 11), ("rejected", None));
    let ssh = Set::one(ProofKind::Ssh);
    assert_eq!(judged(&ssh, approve, group, 11), ("waiting", Some(Uncounted::ProofKind)));
    assert_eq!(judged(&ssh, reject, group, 11), ("waiting", Some(Uncounted::ProofKind)));
    assert_eq!(judged(&taken, approve, "[]", 11), ("waiting", Some(Uncounted::NotInGroup)));
    assert_eq!(judged(&taken, approve, group, 20), ("waiting", Some(Uncounted::NotEnrolled)));
}
