//! Passkeys: invited, enrolled and used, and every forgery refused and named (R33).

use crealeph_contracts::approval::{ApprovalDocument as _, SignedPayload};
use crealeph_contracts::instant::Instant;
use crealeph_contracts::passkey::SignInStatement;
use crealeph_verify::{FindingKind, read_new_passkey};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::authenticator::{
    Authenticator, PRESENT_AND_VERIFIED, Page, attestation_object, challenge, encoded,
};
use super::{Log, ORIGIN, Signer, assert_refused, canonical, nonce};

const SITE: &str = "https://team.example";
const PARTY: &str = "team.example";
const SECRET: &str = "c2VjcmV0";

/// A statement with some members replaced.
fn with(statement: &Value, members: &Value) -> Value {
    let mut changed = statement.clone();
    changed.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    changed
}

fn invitation(person: &str, by: &Signer, number: u64) -> Value {
    let secret = crealeph_contracts::digest::Sha256::of(SECRET.as_bytes());
    json!({
        "type": "person_invitation", "tenantId": "t", "logOrigin": ORIGIN, "person": person,
        "groups": ["maintainers"], "role": "writer", "origin": SITE, "secretDigest": secret.to_string(),
        "expires": "2026-01-03T00:00:00.000Z", "signedBy": by.name, "signerKeyId": by.id(),
        "nonce": nonce(number), "time": "2026-01-02T00:00:00.000Z",
    })
}

fn passkey_statement(person: &str, number: u64) -> Value {
    json!({
        "type": "passkey_enrolment", "tenantId": "t", "logOrigin": ORIGIN, "invitation": nonce(number),
        "person": person, "origin": SITE, "time": "2026-01-02T00:00:00.000Z",
    })
}

fn record(authenticator: &Authenticator, statement: &Value) -> Value {
    let challenge = challenge(&canonical(statement));
    let made = authenticator.create(&Page::new(SITE, PARTY, &challenge));
    let mut record = json!({
        "statement": statement, "secret": SECRET, "keyId": authenticator.key_id(),
        "credentialId": encoded(&authenticator.credential_id), "publicKey": encoded(&authenticator.public_key()),
    });
    record.as_object_mut().unwrap().extend(made.as_object().unwrap().clone());
    record
}

fn invite(log: &mut Log, statement: &Value, by: &Signer) -> Result<String, crealeph_verify::Finding> {
    let key = format!("crealeph:nonce:{}", statement.get("nonce").unwrap().as_str().unwrap());
    log.add("person_invitation", by.sign("crealeph-invitation", statement), &key)
}

fn enrol(log: &mut Log, record: Value, number: u64) -> Result<String, crealeph_verify::Finding> {
    log.add("passkey_enrolment", record, &format!("crealeph:invitation:{}", nonce(number)))
}

fn verdict(authenticator: &Authenticator, number: u64) -> Value {
    let ben = Signer::new("ben", 2);
    with(&super::verdict(&ben, "draft-1", number), &json!({ "keyId": authenticator.key_id() }))
}

/// A log in which ben has a passkey.
fn log_with(authenticator: &Authenticator, ana: &Signer) -> Log {
    let mut log = Log::with_first(ana);
    invite(&mut log, &invitation("ben", ana, 2), ana).unwrap();
    enrol(&mut log, record(authenticator, &passkey_statement("ben", 2)), 2).unwrap();
    log
}

fn copy(log: &Log) -> Log {
    Log(log.0.clone(), log.1, log.2.clone())
}

#[test]
// holds: invariant 20
fn a_passkey_verdict_is_accepted_and_refused_with_any_byte_changed() {
    let ana = Signer::new("ana", 1);
    for mut authenticator in [Authenticator::es256("ben-1"), Authenticator::eddsa("ben-1")] {
        let mut log = log_with(&authenticator, &ana);
        authenticator.counter = 7;
        authenticator.flags |= 0x18;
        authenticator.extensions = b"\xa1\x61a\xf5".to_vec();
        let statement = verdict(&authenticator, 3);
        let text = canonical(&statement);
        let page = |text: &str| challenge(text);
        let good = authenticator.prove(&Page::new(SITE, PARTY, &page(&text)), &statement);
        let fields = [
            ("/signature", 64),
            ("/passkey/authenticatorData", 37),
            ("/passkey/clientDataJson", 100),
            ("/passkey/credentialId", 5),
        ];
        for (pointer, least) in fields {
            let written = good.pointer(pointer).unwrap().as_str().unwrap().to_owned();
            let bytes =
                base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, written).unwrap();
            assert!(bytes.len() >= least);
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                *changed.get_mut(at).unwrap() ^= 1;
                let mut payload = good.clone();
                *payload.pointer_mut(pointer).unwrap() = json!(encoded(&changed));
                let judged = log.verdict(payload, 3);
                assert!(judged.is_err(), "byte {at} of {pointer}");
            }
        }
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            *bytes.get_mut(at).unwrap() ^= 1;
            let Ok(changed) = serde_json::from_slice::<Value>(&bytes) else { continue };
            let key = changed.get("nonce").and_then(Value::as_str).unwrap_or_default().to_owned();
            let payload = with(&good, &json!({ "statement": changed }));
            let judged = log.add("verdict", payload, &format!("crealeph:nonce:{key}"));
            assert!(judged.is_err(), "byte {at} of the statement");
        }
        log.verdict(good.clone(), 3).unwrap();
        assert_refused(log.verdict(good, 3), FindingKind::Invalid, "repeats the nonce");
    }
}

#[test]
// holds: invariant 20
fn each_forgery_of_an_assertion_is_named() {
    let ana = Signer::new("ana", 1);
    let mut authenticator = Authenticator::es256("ben-1");
    authenticator.counter = 4;
    let mut log = log_with(&authenticator, &ana);
    let statement = verdict(&authenticator, 3);
    let asked = challenge(&canonical(&statement));
    let other = challenge(&canonical(&verdict(&authenticator, 4)));
    let page = Page::new(SITE, PARTY, &asked);
    let client_data = |members: Value| Page { client_data: members, ..page.clone() };
    let cases: Vec<(Page<'_>, u8, u32, &str)> = vec![
        (
            Page { origin: "https://team.example.evil", ..page.clone() },
            5,
            5,
            "the page that asked is at `https://team.example.evil`",
        ),
        (Page { origin: "http://team.example", ..page.clone() }, 5, 5, "the page that asked is at"),
        (
            Page { relying_party: "evil.example", ..page.clone() },
            5,
            5,
            "another relying party than `team.example`",
        ),
        (Page { challenge: &other, ..page.clone() }, 5, 5, "another statement"),
        (client_data(json!({ "crossOrigin": true })), 5, 5, "inside a page of another site"),
        (client_data(json!({ "topOrigin": "https://evil.example" })), 5, 5, "inside a page of another site"),
        (client_data(json!({ "crossOrigin": "no" })), 5, 5, "neither true nor false"),
        (client_data(json!({ "type": "webauthn.create" })), 5, 5, "asked for `webauthn.create`"),
        (client_data(json!({ "origin": 1 })), 5, 5, "no `origin`"),
        (page.clone(), 0x04, 5, "no one touched"),
        (page.clone(), 0x01, 5, "no PIN, face or finger"),
        (page.clone(), 0x15, 5, "backed up and cannot be"),
        (page.clone(), 5, 4, "signature count 4 after 4"),
        (page.clone(), 5, 0, "signature count 0 after 4"),
    ];
    for (page, flags, counter, said) in cases {
        (authenticator.flags, authenticator.counter) = (flags, counter);
        let finding = log.verdict(authenticator.prove(&page, &statement), 3).unwrap_err();
        assert!(finding.what.contains(said), "{said}: {finding}");
    }
    (authenticator.flags, authenticator.counter) = (PRESENT_AND_VERIFIED, 5);
    let good = authenticator.prove(&page, &statement);
    for (members, said) in [
        (json!({ "proof": "ssh" }), "has a proof of the kind `ssh`"),
        (json!({ "signature": "x y" }), "not base64url"),
    ] {
        let finding = log.verdict(with(&good, &members), 3).unwrap_err();
        assert!(finding.what.contains(said), "{finding}");
    }
    let mut without = good.clone();
    without.as_object_mut().unwrap().remove("passkey");
    assert_refused(log.verdict(without, 3), FindingKind::Invalid, "no proof by its passkey");
    // The same key under another credential id, and another key under its credential id.
    let mut renamed = good.clone();
    *renamed.pointer_mut("/passkey/credentialId").unwrap() = json!(encoded(b"ben-2"));
    assert_refused(log.verdict(renamed, 3), FindingKind::Forged, "another passkey");
    let mut eves = Authenticator::es256("ben-1");
    eves.counter = 5;
    assert_refused(log.verdict(eves.prove(&page, &statement), 3), FindingKind::Forged, "does not match");
    // A signature of an SSH key does not replace a passkey's, or the other way round.
    let ssh = Signer::new("ben", 2).sign("crealeph-verdict", &statement);
    assert_refused(log.verdict(ssh, 3), FindingKind::Invalid, "kind `ssh`");
    let hers = with(&super::verdict(&ana, "draft-1", 3), &json!({}));
    assert_refused(log.verdict(authenticator.prove(&page, &hers), 3), FindingKind::Invalid, "kind `passkey`");
    copy(&log).verdict(good.clone(), 3).unwrap();
    log.revoke(&Signer::new("ben", 2), &ana, 9).unwrap();
    assert_refused(log.verdict(good, 3), FindingKind::Invalid, "was revoked");
}

#[test]
fn a_passkey_signs_nothing_that_admins_sign() {
    let ana = Signer::new("ana", 1);
    let mut log = Log::with_first(&ana);
    invite(&mut log, &with(&invitation("ben", &ana, 2), &json!({ "groups": ["admins"] })), &ana).unwrap();
    let authenticator = Authenticator::eddsa("ben-1");
    enrol(&mut log, record(&authenticator, &passkey_statement("ben", 2)), 2).unwrap();
    let members = json!({ "signedBy": "ben", "signerKeyId": authenticator.key_id() });
    let statement = with(&invitation("eve", &ana, 3), &members);
    let asked = challenge(&canonical(&statement));
    let payload = authenticator.prove(&Page::new(SITE, PARTY, &asked), &statement);
    let judged = log.add("person_invitation", payload, &format!("crealeph:nonce:{}", nonce(3)));
    assert_refused(judged, FindingKind::Invalid, "need an SSH key");
}

#[test]
// holds: invariant 20
fn each_forgery_of_an_enrolment_is_named() {
    let (ana, ben) = (Signer::new("ana", 1), Signer::new("ben", 2));
    let mut log = Log::with_first(&ana);
    log.enrol(&ben, &["maintainers"], &ana, 9).unwrap();
    for (members, by, said) in [
        (json!({ "signedBy": "ben", "signerKeyId": ben.id() }), &ben, "not in the group"),
        (json!({ "tenantId": "u" }), &ana, "another tenant"),
        (json!({ "expires": "2026-01-02T00:00:00.000Z" }), &ana, "for no time"),
        (json!({ "expires": "2026-02-01T00:00:00.001Z" }), &ana, "over 30 days"),
        (json!({}), &ben, "not by"),
    ] {
        let finding = invite(&mut log, &with(&invitation("cy", &ana, 2), &members), by).unwrap_err();
        assert!(finding.what.contains(said), "{finding}");
    }
    let authenticator = Authenticator::es256("cy-1");
    let statement = passkey_statement("cy", 2);
    let good = record(&authenticator, &statement);
    assert_refused(enrol(&mut log, good.clone(), 2), FindingKind::Invalid, "without an invitation");
    invite(&mut log, &invitation("cy", &ana, 2), &ana).unwrap();
    let flagged = |flags| {
        let mut authenticator = Authenticator::es256("cy-1");
        authenticator.flags = flags;
        record(&authenticator, &statement)
    };
    let remade = |members: Value| record(&authenticator, &with(&statement, &members));
    let eves = Authenticator::es256("cy-1");
    for (payload, said) in [
        (with(&good, &json!({ "secret": "guessed" })), "the secret of its invitation"),
        (remade(json!({ "person": "ben" })), "another person"),
        (remade(json!({ "origin": "https://evil.example" })), "another origin"),
        (remade(json!({ "logOrigin": "crealeph-log/2-01" })), "another log"),
        (remade(json!({ "tenantId": "u" })), "another tenant"),
        (
            with(
                &good,
                &json!({ "statement": with(&statement, &json!({ "time": "2026-01-02T00:00:00.001Z" })) }),
            ),
            "another statement",
        ),
        (flagged(0x04), "no one touched"),
        (flagged(0x01), "no PIN, face or finger"),
        (with(&good, &json!({ "keyId": eves.key_id() })), "names another passkey"),
        (with(&good, &json!({ "publicKey": encoded(&eves.public_key()) })), "names another passkey"),
        (with(&good, &json!({ "credentialId": encoded(b"cy-2") })), "names another passkey"),
        (with(&good, &json!({ "attestationObject": encoded(b"\xa0") })), "no `authData`"),
    ] {
        let finding = enrol(&mut log, payload, 2).unwrap_err();
        assert!(finding.what.contains(said), "{said}: {finding}");
    }
    assert_refused(enrol(&mut log, good.clone(), 3), FindingKind::Invalid, "the key of its invitation");
    let late =
        log.add_at("2026-01-03T00:10:00.001Z", good.clone(), &format!("crealeph:invitation:{}", nonce(2)));
    assert_refused(late, FindingKind::Invalid, "has expired");
    let mut revoked = copy(&log);
    revoked.revoke(&Signer::new("cy", 3), &ana, 8).unwrap();
    assert_refused(enrol(&mut revoked, good.clone(), 2), FindingKind::Invalid, "revoked since");
    enrol(&mut log, good.clone(), 2).unwrap();
    assert_refused(enrol(&mut log, good, 2), FindingKind::Invalid, "again");
    invite(&mut log, &invitation("cy", &ana, 5), &ana).unwrap();
    let again = record(&Authenticator::es256("cy-1"), &passkey_statement("cy", 5));
    assert_refused(enrol(&mut log, again, 5), FindingKind::Invalid, "enrolled before");
    // A second passkey is as good as the first, and one of them can be revoked.
    let second = Authenticator::eddsa("cy-2");
    enrol(&mut log, record(&second, &passkey_statement("cy", 5)), 5).unwrap();
    let people = log.0.people();
    let cy = people.iter().find(|person| person.name == "cy").unwrap();
    assert_eq!((cy.keys.len(), cy.groups.as_slice()), (2, ["maintainers".to_owned()].as_slice()));
}

#[test]
fn a_sign_in_needs_a_recent_answer_of_an_enrolled_passkey_at_its_origin() {
    let ana = Signer::new("ana", 1);
    let mut authenticator = Authenticator::eddsa("ben-1");
    let mut log = log_with(&authenticator, &ana);
    let statement = json!({
        "type": "sign_in", "tenantId": "t", "logOrigin": ORIGIN, "origin": SITE, "nonce": nonce(7),
        "time": "2026-01-02T00:00:00.000Z",
    });
    let sign_in = |log: &Log, statement: &Value, by: &Authenticator, site: &str, now: &str| {
        let asked = challenge(&canonical(statement));
        let payload = by.prove(&Page::new(site, PARTY, &asked), statement).to_string();
        let read = SignInStatement::parse(statement.to_string().as_bytes()).unwrap();
        let signed = SignedPayload::parse(payload.as_bytes()).unwrap();
        let found = log.0.sign_in(&read, &signed, Instant::parse(now).unwrap());
        found.map_err(|finding| finding.what)?.ok_or_else(|| "nobody's".to_owned())
    };
    let now = "2026-01-02T00:02:00.000Z";
    let person = sign_in(&log, &statement, &authenticator, SITE, now).unwrap();
    let found = (person.person.as_str(), person.role.as_str(), person.key_id.as_str());
    assert_eq!(found, ("ben", "writer", authenticator.key_id().as_str()));
    let elsewhere = |members: Value| with(&statement, &members);
    for (statement, site, now, said) in [
        (statement.clone(), SITE, "2026-01-02T00:02:00.001Z", "within 120 seconds"),
        (statement.clone(), SITE, "2026-01-01T23:59:59.999Z", "within 120 seconds"),
        (elsewhere(json!({ "tenantId": "u" })), SITE, now, "another tenant"),
        (elsewhere(json!({ "logOrigin": "crealeph-log/2-01" })), SITE, now, "another log"),
        (elsewhere(json!({ "origin": "https://evil.example" })), SITE, now, "another origin"),
        (statement.clone(), "https://evil.example", now, "the page that asked is at"),
    ] {
        let why = sign_in(&log, &statement, &authenticator, site, now).unwrap_err();
        assert!(why.contains(said), "{why}");
    }
    let stranger = Authenticator::eddsa("eve-1");
    // A stranger gets the same answer, whether they name the right log or not.
    for named in [
        statement.clone(),
        elsewhere(json!({ "logOrigin": "crealeph-log/2-01", "time": "2020-01-02T00:00:00.000Z" })),
    ] {
        assert_eq!(sign_in(&log, &named, &stranger, SITE, now).unwrap_err(), "nobody's");
    }
    authenticator.flags = 0x01;
    assert!(sign_in(&log, &statement, &authenticator, SITE, now).unwrap_err().contains("no PIN"));
    authenticator.flags = PRESENT_AND_VERIFIED;
    log.revoke(&Signer::new("ben", 2), &ana, 9).unwrap();
    assert!(sign_in(&log, &statement, &authenticator, SITE, now).unwrap_err().contains("revoked"));
}

proptest! {
    /// Whatever an authenticator sends is read or refused.
    #[test]
    fn any_bytes_are_read_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        at in 0_usize..400,
        flip in 1_u8..,
    ) {
        let _ = read_new_passkey(&bytes);
        let _ = read_new_passkey(&attestation_object(&bytes));
        let made = Authenticator::eddsa("x").create(&Page::new(SITE, PARTY, ""));
        let object = made.get("attestationObject").unwrap().as_str().unwrap();
        let mut object = base64::Engine::decode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, object).unwrap();
        prop_assert!(read_new_passkey(&object).is_ok());
        let cut = object.get(..at.min(object.len() - 1)).unwrap();
        prop_assert!(read_new_passkey(cut).is_err());
        let at = at % object.len();
        *object.get_mut(at).unwrap() ^= flip;
        let _ = read_new_passkey(&object);
    }
}
