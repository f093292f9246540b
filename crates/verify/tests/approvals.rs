//! Forgeries of signed statements, each refused and named (R33).
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

#[path = "approvals/authenticator.rs"]
mod authenticator;
#[path = "approvals/passkeys.rs"]
mod passkeys;

use crealeph_contracts::Entry;
use crealeph_contracts::approval::{
    ApprovalDocument as _, ApprovalRule, SubjectKind, landing_key, landing_outcome_key,
};
use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::scalar::{LedgerId, TenantId};
use crealeph_verify::{ApprovalLog, Finding, FindingKind};
use serde_json::{Value, json};

#[path = "second/mod.rs"]
mod second;
use ssh_key::private::Ed25519Keypair;
use ssh_key::{HashAlg, LineEnding, PrivateKey};

const ORIGIN: &str = "crealeph-log/2-00";

struct Signer {
    name: &'static str,
    key: PrivateKey,
}

impl Signer {
    fn new(name: &'static str, seed: u8) -> Signer {
        Signer { name, key: PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32])) }
    }

    fn id(&self) -> String {
        self.key.fingerprint(HashAlg::Sha256).to_string()
    }

    fn line(&self) -> String {
        self.key.public_key().to_openssh().unwrap().trim_end().to_owned()
    }

    fn sign(&self, namespace: &str, statement: &Value) -> Value {
        let text = canonical(statement);
        let signature = self.key.sign(namespace, HashAlg::Sha512, text.as_bytes()).unwrap();
        let signature = signature.to_pem(LineEnding::LF).unwrap();
        json!({ "statement": statement, "proof": "ssh", "signature": signature })
    }
}

fn canonical(value: &Value) -> String {
    let text = value.to_string();
    let (document, _) = parse(text.as_bytes(), &Limits::default());
    crealeph_contracts::json::canonical(document.unwrap().root())
}

fn nonce(number: u64) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn enrolment(who: &Signer, groups: &[&str], by: &Signer, number: u64) -> Value {
    json!({
        "type": "person_enrolment", "tenantId": "t", "logOrigin": ORIGIN, "person": who.name,
        "publicKey": who.line(), "keyId": who.id(), "groups": groups, "signedBy": by.name,
        "signerKeyId": by.id(), "nonce": nonce(number), "time": "2026-01-02T00:00:00.000Z",
    })
}

fn verdict(who: &Signer, subject: &str, number: u64) -> Value {
    json!({
        "type": "verdict", "tenantId": "t", "logOrigin": ORIGIN, "subjectKind": "draft", "subjectId": subject,
        "subjectDigest": "1".repeat(64), "target": "ledger", "decision": "approve", "person": who.name,
        "keyId": who.id(), "ruleDigest": built_in(), "evidenceSeq": 7, "evidenceRoot": "3".repeat(64),
        "nonce": nonce(number), "time": "2026-01-02T00:00:00.000Z", "unattended": false,
    })
}

fn built_in() -> String {
    built_in_of(SubjectKind::Draft)
}

fn built_in_of(kind: SubjectKind) -> String {
    ApprovalRule::built_in(kind).digest().unwrap().to_string()
}

fn landing(subject: &str, verdicts: &[&str], checked_seq: u64) -> Value {
    json!({
        "subjectKind": "draft", "subjectId": subject, "subjectDigest": "1".repeat(64), "number": 1,
        "verdicts": verdicts, "ruleDigest": built_in(), "checkedSeq": checked_seq,
    })
}

/// The log, the number of its last entry, and every entry with the verdict on it: when the test ends, the second verifier
/// must say the same.
struct Log(ApprovalLog, u64, Vec<(String, String)>);

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() || self.2.is_empty() {
            return;
        }
        let (entries, expected): (Vec<String>, Vec<String>) = std::mem::take(&mut self.2).into_iter().unzip();
        let question = json!({ "ask": "approvals", "origin": ORIGIN, "tenant": "t", "entries": entries });
        let answers = second::answers(&[question]);
        let answers = answers.first().and_then(Value::as_array).unwrap();
        assert_eq!(answers.len(), expected.len());
        for ((entry, expected), answer) in entries.iter().zip(expected).zip(answers) {
            assert!(answer.as_str().unwrap().starts_with(&expected), "{entry}: {expected}, {answer}");
        }
    }
}

impl Log {
    fn with_first(admin: &Signer) -> Log {
        let mut log = Log(ApprovalLog::new(ORIGIN, &TenantId::parse("t").unwrap()), 0, Vec::new());
        let first = enrolment(admin, &["admins"], admin, 1);
        log.add("person_enrolment", admin.sign("crealeph-enrolment", &first), "crealeph:first-admin")
            .unwrap();
        log
    }

    fn add(&mut self, kind: &str, payload: Value, key: &str) -> Result<String, Finding> {
        self.add_by("crealeph-approvals", kind, payload, key)
    }

    /// The enrolment of a passkey at an instant.
    fn add_at(&mut self, at: &str, payload: Value, key: &str) -> Result<String, Finding> {
        self.add_entry(at, "crealeph-approvals", "passkey_enrolment", payload, key)
    }

    fn add_by(&mut self, module: &str, kind: &str, payload: Value, key: &str) -> Result<String, Finding> {
        self.add_entry("2026-01-02T00:00:00.000Z", module, kind, payload, key)
    }

    fn add_entry(
        &mut self,
        at: &str,
        module: &str,
        kind: &str,
        payload: Value,
        key: &str,
    ) -> Result<String, Finding> {
        self.1 += 1;
        let id = format!("entry-{}", self.1);
        let text = json!({
            "createdAt": at, "id": id, "key": key, "module": module,
            "payload": payload, "robotId": "r", "seq": self.1, "source": "s", "state": "final", "tenantId": "t",
            "type": kind,
        });
        let text = canonical(&text);
        let (document, _) = parse(text.as_bytes(), &Limits::default());
        let judged = self.0.add(&Entry::read_from(document.unwrap().root()).unwrap());
        let said =
            judged.as_ref().err().map_or("ok".to_owned(), |finding| format!("{} at", finding.kind.as_str()));
        self.2.push((text, said));
        judged.map(|_| id)
    }

    fn enrol(&mut self, who: &Signer, groups: &[&str], by: &Signer, number: u64) -> Result<String, Finding> {
        let statement = enrolment(who, groups, by, number);
        let payload = by.sign("crealeph-enrolment", &statement);
        self.add("person_enrolment", payload, &format!("crealeph:nonce:{}", nonce(number)))
    }

    fn verdict(&mut self, payload: Value, number: u64) -> Result<String, Finding> {
        self.add("verdict", payload, &format!("crealeph:nonce:{}", nonce(number)))
    }

    fn revoke(&mut self, who: &Signer, by: &Signer, number: u64) -> Result<String, Finding> {
        let statement = json!({
            "type": "person_revocation", "tenantId": "t", "logOrigin": ORIGIN, "person": who.name,
            "signedBy": by.name, "signerKeyId": by.id(), "nonce": nonce(number), "time": "2026-01-02T00:00:00.000Z",
        });
        let payload = by.sign("crealeph-revocation", &statement);
        self.add("person_revocation", payload, &format!("crealeph:nonce:{}", nonce(number)))
    }
}

#[track_caller]
fn assert_refused(judged: Result<String, Finding>, kind: FindingKind, said: &str) {
    let finding = judged.unwrap_err();
    assert!(finding.kind == kind && finding.what.contains(said), "{finding}");
}

#[test]
// holds: invariant 20
fn a_signed_verdict_is_accepted_and_refused_with_any_byte_changed() {
    let (ana, ben) = (Signer::new("ana", 1), Signer::new("ben", 2));
    let mut log = Log::with_first(&ana);
    log.enrol(&ben, &["maintainers"], &ana, 2).unwrap();
    let good = ben.sign("crealeph-verdict", &verdict(&ben, "draft-1", 3));
    let signature = good.get("signature").unwrap().clone();
    let statement = canonical(good.get("statement").unwrap());
    for at in 0..statement.len() {
        let mut bytes = statement.clone().into_bytes();
        let Some(byte) = bytes.get_mut(at) else { continue };
        *byte ^= 1;
        let Ok(changed) = serde_json::from_slice::<Value>(&bytes) else { continue };
        let payload = json!({ "statement": changed, "proof": "ssh", "signature": signature });
        // The key follows the nonce, so that only the signature refuses a changed nonce.
        let key = changed.get("nonce").and_then(Value::as_str).unwrap_or_default();
        let judged = log.add("verdict", payload, &format!("crealeph:nonce:{key}"));
        assert!(judged.is_err(), "byte {at} of {changed}");
    }
    log.verdict(good.clone(), 3).unwrap();
    assert_refused(log.verdict(good, 3), FindingKind::Invalid, "repeats the nonce");
}

#[test]
// holds: invariant 20
fn each_forgery_is_named() {
    let (ana, ben, eve) = (Signer::new("ana", 1), Signer::new("ben", 2), Signer::new("eve", 3));
    let mut log = Log::with_first(&ana);
    let wanted = verdict(&ben, "draft-1", 9);
    let early = ben.sign("crealeph-verdict", &wanted);
    assert_refused(log.verdict(early, 9), FindingKind::Invalid, "was not enrolled before");
    log.enrol(&ben, &["maintainers"], &ana, 2).unwrap();

    let other_namespace = ben.sign("crealeph-enrolment", &wanted);
    assert_refused(log.verdict(other_namespace, 9), FindingKind::Forged, "namespace");
    let by_eve = eve.sign("crealeph-verdict", &wanted);
    assert_refused(log.verdict(by_eve, 9), FindingKind::Forged, "not by");
    let as_ana = json!({ "person": "ana" });
    let mut as_another = wanted.clone();
    as_another.as_object_mut().unwrap().extend(as_ana.as_object().unwrap().clone());
    let as_another = ben.sign("crealeph-verdict", &as_another);
    assert_refused(log.verdict(as_another, 9), FindingKind::Invalid, "not to `ana`");
    for (member, value, said) in
        [("tenantId", "u", "another tenant"), ("logOrigin", "crealeph-log/2-01", "another log")]
    {
        let mut elsewhere = wanted.clone();
        elsewhere.as_object_mut().unwrap().insert(member.to_owned(), json!(value));
        let payload = ben.sign("crealeph-verdict", &elsewhere);
        assert_refused(log.verdict(payload, 9), FindingKind::Invalid, said);
    }
    let of_another = ben.sign("crealeph-verdict", &verdict(&ben, "draft-2", 9));
    let moved =
        json!({ "statement": wanted, "proof": "ssh", "signature": of_another.get("signature").unwrap() });
    assert_refused(log.verdict(moved, 9), FindingKind::Forged, "does not match");
    assert_refused(log.enrol(&eve, &["admins"], &ben, 4), FindingKind::Invalid, "not in the group");
    assert_refused(log.enrol(&eve, &["admins"], &eve, 4), FindingKind::Invalid, "was not enrolled before");
    let again = eve.sign("crealeph-enrolment", &enrolment(&eve, &["admins"], &eve, 5));
    assert_refused(
        log.add("person_enrolment", again, "crealeph:first-admin"),
        FindingKind::Invalid,
        "does not have the key of its nonce",
    );
    let rules = json!({ "type": "approval_rule", "tenantId": "t", "logOrigin": ORIGIN, "rules": [],
        "signedBy": "ben", "signerKeyId": ben.id(), "nonce": nonce(6), "time": "2026-01-02T00:00:00.000Z" });
    let rules = ben.sign("crealeph-rule", &rules);
    let judged = log.add("approval_rule", rules, &format!("crealeph:nonce:{}", nonce(6)));
    assert_refused(judged, FindingKind::Invalid, "not in the group");
}

#[test]
fn nothing_unsigned_is_accepted_after_the_first_enrolment_even_if_no_one_is_left() {
    let ana = Signer::new("ana", 1);
    let tenant = TenantId::parse("t").unwrap();
    let mut log = Log(ApprovalLog::new(ORIGIN, &tenant), 0, Vec::new());
    log.add_by("review", "review", json!({}), "review:1").unwrap();
    let mut log = Log::with_first(&ana);
    assert_refused(log.add_by("review", "review", json!({}), "review:2"), FindingKind::Invalid, "unsigned");
    log.revoke(&ana, &ana, 2).unwrap();
    assert_refused(log.add_by("work", "run_verdict", json!({}), "k"), FindingKind::Invalid, "unsigned");
    let back = ana.sign("crealeph-enrolment", &enrolment(&ana, &["admins"], &ana, 3));
    let judged = log.add("person_enrolment", back, "crealeph:first-admin");
    assert_refused(judged, FindingKind::Invalid, "revoked");
    let verdict = ana.sign("crealeph-verdict", &verdict(&ana, "draft-1", 4));
    assert_refused(log.verdict(verdict, 4), FindingKind::Invalid, "revoked");
}

#[test]
fn a_landing_uses_each_verdict_once() {
    let (ana, ben) = (Signer::new("ana", 1), Signer::new("ben", 2));
    let mut log = Log::with_first(&ana);
    log.enrol(&ben, &[], &ana, 2).unwrap();
    let one = log.verdict(ana.sign("crealeph-verdict", &verdict(&ana, "draft-1", 3)), 3).unwrap();
    let other = log.verdict(ben.sign("crealeph-verdict", &verdict(&ben, "draft-2", 4)), 4).unwrap();
    let key = |subject: &str| {
        let subject = LedgerId::parse(subject).unwrap();
        landing_key(&subject, 1)
    };
    let land = |log: &mut Log, subject: &str, verdicts: &[&str]| {
        let end = log.1;
        log.add("landing", landing(subject, verdicts, end), &key(subject))
    };
    assert_refused(land(&mut log, "draft-1", &[&other]), FindingKind::Invalid, "does not approve it");
    assert_refused(land(&mut log, "draft-1", &["entry-1"]), FindingKind::Invalid, "not a verdict");
    log.revoke(&ben, &ana, 5).unwrap();
    assert_refused(land(&mut log, "draft-2", &[&other]), FindingKind::Invalid, "revoked");
    let late = landing("draft-1", &[&one], log.1 - 1);
    assert_refused(log.add("landing", late, &key("draft-1")), FindingKind::Invalid, "does not follow");
    land(&mut log, "draft-1", &[&one]).unwrap();
    assert_refused(land(&mut log, "draft-1", &[&one]), FindingKind::Invalid, "out of turn");
}

#[test]
fn a_landing_needs_the_approvals_that_its_rule_requires() {
    let (ana, ben, eve) = (Signer::new("ana", 1), Signer::new("ben", 2), Signer::new("eve", 3));
    let mut log = Log::with_first(&ana);
    log.enrol(&ben, &["maintainers"], &ana, 2).unwrap();
    log.enrol(&eve, &["maintainers"], &ana, 3).unwrap();
    // Sets in it are written in another order than the one in which they are digested.
    let rule = json!({
        "name": "two", "subject": "draft", "objectives": ["b", "a"], "approvals": 2, "group": "maintainers",
        "unattended": false, "requester": false, "osRequester": true, "proofs": ["passkey", "ssh"],
    });
    let digest = ApprovalRule::parse(rule.to_string().as_bytes()).unwrap().digest().unwrap().to_string();
    let statement = json!({ "type": "approval_rule", "tenantId": "t", "logOrigin": ORIGIN, "rules": [rule],
        "signedBy": "ana", "signerKeyId": ana.id(), "nonce": nonce(4), "time": "2026-01-02T00:00:00.000Z" });
    let rules = ana.sign("crealeph-rule", &statement);
    log.add("approval_rule", rules, &format!("crealeph:nonce:{}", nonce(4))).unwrap();
    let mut approve = |who: &Signer, number: u64| {
        let mut statement = verdict(who, "draft-1", number);
        statement.as_object_mut().unwrap().insert("ruleDigest".to_owned(), json!(digest));
        log.verdict(who.sign("crealeph-verdict", &statement), number).unwrap()
    };
    let (by_ana, by_ben, by_eve) = (approve(&ana, 5), approve(&ben, 6), approve(&eve, 7));
    let mut land = |verdicts: &[&str], rule: &str| {
        let mut record = landing("draft-1", verdicts, log.1);
        record.as_object_mut().unwrap().insert("ruleDigest".to_owned(), json!(rule));
        log.add("landing", record, &landing_key(&LedgerId::parse("draft-1").unwrap(), 1))
    };
    assert_refused(land(&[&by_ben], &digest), FindingKind::Invalid, "rule `two` requires 2");
    // Ana is not in the group.
    assert_refused(land(&[&by_ana, &by_ben], &digest), FindingKind::Invalid, "rule `two` requires 2");
    assert_refused(land(&[&by_ben, &by_eve], &built_in()), FindingKind::Invalid, "does not approve it");
    land(&[&by_ben, &by_eve], &digest).unwrap();
}

fn change_verdict(who: &Signer, run: &str, number: u64) -> Value {
    let mut statement = verdict(who, run, number);
    for (member, value) in [
        ("subjectKind", json!("change")),
        ("target", json!("workspace")),
        ("baseState", json!("4".repeat(64))),
        ("ruleDigest", json!(built_in_of(SubjectKind::Change))),
    ] {
        statement.as_object_mut().unwrap().insert(member.to_owned(), value);
    }
    who.sign("crealeph-verdict", &statement)
}

/// A void landing returns its verdicts; one that was not void, or whose outcome is unknown, is the last.
#[test]
// holds: invariant 20
fn a_change_lands_again_only_after_a_void_landing() {
    let ana = Signer::new("ana", 1);
    let run = "0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f";
    let subject = LedgerId::parse(run).unwrap();
    let mut log = Log::with_first(&ana);
    let verdict = log.verdict(change_verdict(&ana, run, 3), 3).unwrap();
    let land = |log: &mut Log, number: u64| {
        let end = log.1;
        let payload = json!({
            "subjectKind": "change", "subjectId": run, "subjectDigest": "1".repeat(64), "number": number,
            "verdicts": [verdict], "ruleDigest": built_in_of(SubjectKind::Change), "checkedSeq": end,
        });
        log.add("landing", payload, &landing_key(&subject, number))
    };
    let settle = |log: &mut Log, number: u64, landing: &str, outcome: &str| {
        let payload = json!({ "subjectId": run, "number": number, "landing": landing, "outcome": outcome });
        log.add("landing_outcome", payload, &landing_outcome_key(&subject, number))
    };
    let first = land(&mut log, 1).unwrap();
    assert_eq!(log.0.unsettled().collect::<Vec<_>>(), [&subject], "its outcome is unknown");
    assert_refused(land(&mut log, 2), FindingKind::Invalid, "lands again what has landed");
    assert_refused(settle(&mut log, 1, "entry-1", "void"), FindingKind::Invalid, "not there");
    assert_refused(settle(&mut log, 2, &first, "void"), FindingKind::Invalid, "not there");
    settle(&mut log, 1, &first, "void").unwrap();
    assert_refused(settle(&mut log, 1, &first, "completed"), FindingKind::Invalid, "second outcome");
    let second = land(&mut log, 2).unwrap();
    settle(&mut log, 2, &second, "completed").unwrap();
    assert_eq!(log.0.unsettled().count(), 0);
    assert_refused(land(&mut log, 3), FindingKind::Invalid, "lands again what has landed");
}
