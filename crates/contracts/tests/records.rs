//! CreAleph's own documents, which no contract fixes: entries about access and approvals, requests, files of a run. Each file
//! under `records/` is one with every field that it can have, named after its kind: `payload`, and for an entry its client `key` and
//! what it is `about`. A string `<NAME>` in a payload is replaced by the valid document of that name under `documents/`.

#![cfg(test)]

use std::fs;
use std::path::Path;

use boon::{Compiler, Schemas};
use crealeph_contracts::api_key::{AccessEntry, KeyGrant, KeyRequest, is_access_key};
use crealeph_contracts::approval::{
    ApprovalDocument, ApprovalEntry, RuleStatement, VerdictStatement, landing_key, landing_outcome_key,
    nonce_key,
};
use crealeph_contracts::attestation::Statement;
use crealeph_contracts::capsule_record::CapsuleRecord;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::entry::{Draft, Entry, with_lost_payload, without_lost_payload};
use crealeph_contracts::execution_record::ExecutionRecord;
use crealeph_contracts::held_change::{HeldChangeRecord, held_change_key};
use crealeph_contracts::held_record::HeldRecord;
use crealeph_contracts::json::{JsonObject, Limits, parse};
use crealeph_contracts::passkey::{InvitationStatement, PasskeyRecord, invitation_key};
use crealeph_contracts::provenance::RunOrigin;
use crealeph_contracts::reported::{
    ReceiptReport, SignerEnrolment, SignerRequest, SignerRevocation, reported_key,
};
use crealeph_contracts::session::{SessionEntry, SessionGrant};
use crealeph_contracts::shape::Shape as _;
use crealeph_contracts::short_id::IdRequest;
use crealeph_contracts::uuid::Uuid;
use crealeph_contracts::webhook::{WebhookCreation, WebhookEntry, WebhookRequest, is_webhook_key};
use crealeph_contracts::{Code, Receipt, Valid};
use serde_json::{Value, json};

struct RecordCase {
    kind: String,
    key: String,
    about: String,
    payload: Value,
}

/// What a reader made of a record: its client key and what it is about, empty if it has none; and the record as it is written.
#[derive(Debug)]
struct ReadRecord {
    key: String,
    about: String,
    text: String,
}

fn cases() -> Vec<RecordCase> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut cases: Vec<RecordCase> = fs::read_dir(folder.join("records"))
        .unwrap()
        .map(|file| {
            let file = file.unwrap().path();
            let mut case: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
            fill(&mut case["payload"], &folder.join("documents"));
            let text = |key: &str| case[key].as_str().unwrap_or_default().to_owned();
            RecordCase {
                kind: file.file_stem().unwrap().to_str().unwrap().to_owned(),
                key: text("key"),
                about: text("about"),
                payload: case["payload"].clone(),
            }
        })
        .collect();
    cases.sort_by(|a, b| a.kind.cmp(&b.kind));
    cases
}

/// Replaces names by valid documents.
fn fill(value: &mut Value, documents: &Path) {
    match value {
        Value::String(text) => {
            if let Some(name) = text.strip_prefix('<').and_then(|text| text.strip_suffix('>')) {
                *value = serde_json::from_str(&fs::read_to_string(documents.join(name)).unwrap()).unwrap();
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|inner| fill(inner, documents)),
        Value::Object(members) => members.values_mut().for_each(|inner| fill(inner, documents)),
        _ => {}
    }
}

/// The same with all arrays in one order, because a set is written sorted.
fn in_order(value: Value) -> Value {
    match value {
        Value::Array(elements) => {
            let mut elements: Vec<Value> = elements.into_iter().map(in_order).collect();
            elements.sort_by_key(ToString::to_string);
            Value::Array(elements)
        }
        Value::Object(members) => members.into_iter().map(|(key, inner)| (key, in_order(inner))).collect(),
        other => other,
    }
}

fn case(kind: &str) -> Value {
    cases().into_iter().find(|case| case.kind == kind).unwrap().payload
}

/// Reads a payload as a record of the given kind.
fn read(kind: &str, payload: &Value) -> Result<ReadRecord, String> {
    let text = payload.to_string();
    let bytes = text.as_bytes();
    let object = JsonObject::parse(&text).unwrap();
    let unnamed = |text: String| ReadRecord { key: String::new(), about: String::new(), text };
    let listed = |violations: Vec<crealeph_contracts::Violation>| {
        assert!(!violations.is_empty());
        violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    Ok(match kind {
        "key_grant" | "key_revocation" => {
            let entry = AccessEntry::read(kind, &object)?;
            let text = match &entry {
                AccessEntry::Grant(grant) => to_json(grant),
                AccessEntry::Revocation(revocation) => to_json(revocation),
            };
            ReadRecord { key: entry.client_key(), about: entry.key_id().to_string(), text }
        }
        "sign_in_link" | "session_grant" | "session_end" => {
            let entry = SessionEntry::read(kind, &object)?;
            assert_eq!(entry.kind().as_str(), kind);
            let text = match &entry {
                SessionEntry::Link(link) => to_json(link),
                SessionEntry::Grant(grant) => to_json(grant),
                SessionEntry::End(end) => to_json(end),
            };
            ReadRecord { key: entry.client_key(), about: entry.id().to_string(), text }
        }
        "webhook_creation" | "webhook_deletion" | "webhook_enablement" => {
            let entry = WebhookEntry::read(kind, &object)?;
            let text = match &entry {
                WebhookEntry::Creation(creation) => to_json(creation),
                WebhookEntry::Deletion(deletion) => to_json(deletion),
                WebhookEntry::Enablement(enablement) => to_json(enablement),
            };
            ReadRecord { key: entry.client_key(), about: entry.webhook_id().to_string(), text }
        }
        "verdict" | "person_enrolment" | "person_invitation" | "person_revocation" | "approval_rule"
        | "passkey_enrolment" | "landing" | "landing_outcome" => read_approval(kind, &object)?,
        "signer_enrolment" => {
            let enrolment = SignerEnrolment::of_payload(&object).ok_or("it is none")?;
            let (key, about) = (enrolment.client_key(), enrolment.signer_id.to_string());
            ReadRecord { key, about, text: to_json(&enrolment) }
        }
        "signer_revocation" => {
            let revocation = SignerRevocation::of_payload(&object).ok_or("it is none")?;
            let (key, about) = (revocation.client_key(), revocation.signer_id.to_string());
            ReadRecord { key, about, text: to_json(&revocation) }
        }
        "reported_receipt" => {
            let report = ReceiptReport::parse(bytes).map_err(listed)?;
            let run = report.receipt.with(|receipt| receipt.member("id").unwrap().text_value().into_owned());
            let run = Uuid::parse(&run).unwrap();
            ReadRecord { key: reported_key(&run), about: run.to_string(), text: to_json(&report) }
        }
        "held_change" => {
            let change = HeldChangeRecord::of_payload(&object).ok_or("it is none")?;
            let run = change.run.to_string();
            ReadRecord { key: held_change_key(&run), about: run, text: to_json(&change) }
        }
        "key_request" => unnamed(to_json(&KeyRequest::parse(bytes).map_err(listed)?)),
        "webhook_request" => unnamed(to_json(&WebhookRequest::parse(bytes).map_err(listed)?)),
        "signer_request" => unnamed(to_json(&SignerRequest::parse(bytes).map_err(listed)?)),
        "id_request" => unnamed(to_json(&IdRequest::parse(bytes).map_err(listed)?)),
        "origin" => unnamed(RunOrigin::parse(bytes).map_err(listed)?.to_json()),
        "held" => unnamed(HeldRecord::parse(bytes).map_err(listed)?.to_json()),
        "capsule" => unnamed(CapsuleRecord::parse(bytes).map_err(listed)?.to_json()),
        "statement" => unnamed(Statement::parse(bytes).map_err(listed)?.to_canonical().unwrap()),
        "execution_record" => unnamed(to_json(&ExecutionRecord::parse(bytes).map_err(listed)?)),
        "draft" => unnamed(to_json(&Draft::parse(bytes, &Limits::default()).map_err(listed)?)),
        "entry" => unnamed(to_json(&read_entry(&text).map_err(listed)?)),
        other => panic!("no reader for {other}"),
    })
}

fn read_approval(kind: &str, payload: &JsonObject) -> Result<ReadRecord, String> {
    let (entry, signed) = ApprovalEntry::read(kind, payload)?;
    let about = entry.nonce().map(ToString::to_string).unwrap_or_default();
    let of_nonce = || nonce_key(entry.nonce().expect("a signed statement has a nonce"));
    let (key, text) = match &entry {
        ApprovalEntry::Verdict(statement, _) => (of_nonce(), statement.to_canonical()),
        ApprovalEntry::Enrolment(statement) => (of_nonce(), statement.to_canonical()),
        ApprovalEntry::Invitation(statement) => (of_nonce(), statement.to_canonical()),
        ApprovalEntry::Revocation(statement) => (of_nonce(), statement.to_canonical()),
        ApprovalEntry::Rules(statement) => (of_nonce(), statement.to_canonical()),
        ApprovalEntry::Passkey(record) => {
            (invitation_key(&record.statement.invitation), record.to_canonical())
        }
        ApprovalEntry::Landing(landing) => {
            (landing_key(&landing.subject_id, landing.number.get()), landing.to_canonical())
        }
        ApprovalEntry::Outcome(end) => {
            (landing_outcome_key(&end.subject_id, end.number.get()), end.to_canonical())
        }
    };
    let text = match signed {
        Some(signed) => {
            assert_eq!(signed.statement.canonical(), text.unwrap(), "what is signed is what was read");
            to_json(&signed)
        }
        None => text.unwrap(),
    };
    Ok(ReadRecord { key, about, text })
}

fn read_entry(text: &str) -> Result<Entry, Vec<crealeph_contracts::Violation>> {
    let (document, _) = parse(text.as_bytes(), &Limits::default());
    Entry::read_from(document.unwrap().root())
}

#[test]
fn every_record_is_read_and_written_with_all_its_fields_and_has_its_key() {
    for RecordCase { kind, key, about, payload } in cases() {
        let record = read(&kind, &payload).unwrap_or_else(|why| panic!("{kind}: {why}"));
        assert_eq!((&record.key, &record.about), (&key, &about), "{kind}");
        let written = serde_json::from_str(&record.text).unwrap();
        assert_eq!(in_order(written), in_order(payload), "{kind}");
        let is_reserved = [is_access_key(&key), is_webhook_key(&key)];
        let group = |words: &[&str]| words.iter().any(|word| kind.starts_with(word));
        let expected =
            [group(&["key_grant", "key_revocation"]), group(&["webhook_c", "webhook_d", "webhook_e"])];
        assert_eq!(is_reserved, expected, "{kind}");
    }
}

/// A record is closed, and no record is accepted as another kind.
#[test]
fn a_record_of_another_kind_or_with_an_unknown_field_is_refused() {
    let cases = cases();
    for RecordCase { kind, payload, .. } in &cases {
        for other in cases.iter().filter(|other| other.kind != *kind) {
            let read = read(&other.kind, payload);
            assert!(read.is_err(), "{kind} was read as {}: {read:?}", other.kind);
        }
        let mut changed = payload.clone();
        changed["surplus"] = json!(1);
        assert!(read(kind, &changed).is_err(), "{kind}");
    }
    let payload = JsonObject::empty();
    assert!(AccessEntry::read("signal", &payload).unwrap_err().contains("a type that API keys do not have"));
    assert!(SessionEntry::read("signal", &payload).unwrap_err().contains("a type that sessions do not have"));
    assert!(WebhookEntry::read("signal", &payload).unwrap_err().contains("a type that webhooks do not have"));
    assert!(
        ApprovalEntry::read("signal", &payload).unwrap_err().contains("a type that approvals do not have")
    );
}

/// The schemas of records that the server publishes come from the same lists of fields.
#[test]
fn the_schema_of_a_record_accepts_it_and_nothing_more() {
    let statement = |kind: &str| case(kind)["statement"].clone();
    for (what, schema, payload) in [
        ("a grant", KeyGrant::schema(), case("key_grant")),
        ("a session", SessionGrant::schema(), case("session_grant")),
        ("a webhook", WebhookCreation::schema(), case("webhook_creation")),
        ("a request for ids", IdRequest::schema(), case("id_request")),
        ("a verdict", VerdictStatement::schema(), statement("verdict")),
        ("an invitation", InvitationStatement::schema(), statement("person_invitation")),
        ("rules", RuleStatement::schema(), statement("approval_rule")),
        ("a passkey", PasskeyRecord::schema(), case("passkey_enrolment")),
        ("a statement", Statement::schema(), case("statement")),
        ("a capsule", CapsuleRecord::schema(), case("capsule")),
        ("a draft", Draft::schema(), case("draft")),
    ] {
        let mut schemas = Schemas::new();
        let mut compiler = Compiler::new();
        compiler.add_resource("urn:record", schema).unwrap();
        let index = compiler.compile("urn:record", &mut schemas).unwrap();
        let refusal =
            |payload: &Value| schemas.validate(payload, index).err().map(|error| format!("{error:#}"));
        assert_eq!(refusal(&payload), None, "{what}");
        let mut changed = payload;
        changed["surplus"] = json!(1);
        assert!(refusal(&changed).is_some(), "{what}");
    }
}

#[test]
fn a_signer_is_known_by_the_digest_of_its_key() {
    let mut enrolment = case("signer_enrolment");
    enrolment["signerId"] = json!("0".repeat(64));
    assert!(read("signer_enrolment", &enrolment).is_err());
}

#[test]
fn each_version_of_a_statement_has_its_fields() {
    let places = |statement: &Value| match Statement::parse(statement.to_string().as_bytes()) {
        Ok(_) => Vec::new(),
        Err(violations) => {
            violations.into_iter().map(|violation| (violation.code, violation.pointer)).collect()
        }
    };
    let statement = case("statement");
    assert_eq!(places(&statement), []);
    let mut unstarted = statement.clone();
    unstarted["predicate"].as_object_mut().unwrap().remove("started_by");
    assert_eq!(places(&unstarted), [(Code::Required, "/predicate/started_by".to_owned())]);
    let mut first = statement;
    first["predicateType"] = json!("urn:crealeph:predicate:work-run:v1");
    let later = ["agent", "started_by", "verdicts", "hidden"];
    assert_eq!(places(&first), later.map(|key| (Code::Forbidden, format!("/predicate/{key}"))));
    for key in later {
        first["predicate"].as_object_mut().unwrap().remove(key);
    }
    assert_eq!(places(&first), []);
}

#[test]
fn a_receipt_is_hashed_without_its_own_hash() {
    let text = include_str!("documents/receipt.json");
    let receipt = Valid::<Receipt>::parse(text.as_bytes(), &Limits::default()).unwrap().into_inner();
    let canonical = receipt.to_canonical().unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(&canonical).unwrap(),
        serde_json::from_str::<Value>(text).unwrap()
    );
    assert!(canonical.starts_with(r#"{"after_hash":"#), "{canonical}");
    let hash = receipt.content_hash().unwrap();
    let sealed = Receipt { receipt_hash: hash, ..receipt.clone() };
    assert_eq!(sealed.content_hash().unwrap(), hash, "sealing it does not change the hash");
    let changed = Receipt { before_hash: hash, ..receipt };
    assert_ne!(changed.content_hash().unwrap(), hash);
}

#[test]
fn an_entry_gives_its_lineage_and_effective_time() {
    let entry = read_entry(&case("entry").to_string()).unwrap();
    let depends_on: Vec<&str> = entry.depends_on().iter().map(|id| id.as_str()).collect();
    assert_eq!(depends_on, ["L1", "L2"]);
    assert_eq!(entry.true_at().as_str(), "2026-01-01T00:00:00Z");
    let plain = read_entry(r#"{"id":"L1","robotId":"r","type":"signal","createdAt":"2026-01-02T00:00:00Z"}"#)
        .unwrap();
    assert!(plain.depends_on().is_empty());
    assert_eq!(plain.true_at().as_str(), "2026-01-02T00:00:00Z");
}

#[test]
fn an_entry_that_lost_its_payload_is_read_without_it_and_hashed_as_it_was() {
    let stored = r#"{"id":"L1","payload":,"robotId":"r","type":"signal"}"#;
    let readable = with_lost_payload(stored).unwrap();
    assert_eq!(readable, r#"{"id":"L1","payload":{},"robotId":"r","type":"signal"}"#);
    assert_eq!(without_lost_payload(&readable), stored);
    assert_eq!(with_lost_payload(&readable), None);
}
