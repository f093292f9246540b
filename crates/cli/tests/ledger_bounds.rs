//! The bounds of an entry and of a batch, at their defaults: what is at a bound is taken and read back by every command,
//! what is one past it is refused and leaves nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod readback;
mod scratch;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::{JsonObject, Limits as JsonLimits};
use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{
    AppendError, EntryRefusal, Ledger, LedgerLimits, LedgerOptions, Location, MAX_PAYLOAD_DEPTH,
};
use crealeph_verify::{ExportVerifier, VerifierKey, verify_proof};
use readback::{nested, read_back};
use scratch::Scratch;

const PAYLOAD_BYTES: usize = 4 << 20;
const LINEAGE_IDS: usize = 1_000;

/// A line whose parts are these, or the plain ones.
fn line(changed: &[(&str, &str)]) -> String {
    let plain = [
        ("robotId", "\"r\""),
        ("module", "\"m\""),
        ("source", "\"s\""),
        ("type", "\"note\""),
        ("state", "\"final\""),
        ("payload", "{}"),
    ];
    let value = |key: &str, plain: &str| {
        let changed = changed.iter().find(|(name, _)| *name == key);
        changed.map_or(plain.to_owned(), |(_, value)| (*value).to_owned())
    };
    let mut members: Vec<String> =
        plain.iter().map(|(key, plain)| format!("\"{key}\":{}", value(key, plain))).collect();
    let more = changed.iter().filter(|(key, _)| plain.iter().all(|(known, _)| known != key));
    members.extend(more.map(|(key, value)| format!("\"{key}\":{value}")));
    format!("{{{}}}", members.join(","))
}

/// A payload of this many bytes in canonical form.
fn sized(bytes: usize) -> String {
    format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8))
}

/// A payload of numbers that canonical form spells with four times the bytes.
fn growing(bytes: usize) -> String {
    let count = (bytes - 6) / 22;
    let payload = format!("{{\"a\":[{}]}}", vec!["1e20"; count].join(","));
    assert!(payload.len() < bytes / 4);
    payload
}

fn on(count: usize) -> String {
    let ids: Vec<String> = (0..count).map(|number| format!("\"key:{number}\"")).collect();
    format!("{{\"dependsOnLedgerIds\":[{}]}}", ids.join(","))
}

/// An event whose `result` nests so deep that its line nests this deep.
fn event(depth: usize, snapshot_at: &str) -> String {
    let payload = format!(
        r#"{{"executionId":"e","workflowVersion":"1","agentVersion":"1","executionContractVersion":"v1","attempt":1,
        "target":"t","action":"a","snapshotAt":"{snapshot_at}","coherenceStatus":"coherent","dryRun":true,
        "result":{}}}"#,
        nested(depth - 2)
    )
    .replace('\n', "");
    let parts = [
        ("module", "\"agent-builder\""),
        ("source", "\"agent-builder\""),
        ("type", "\"execution_event\""),
        ("state", "\"succeeded\""),
        ("payload", payload.as_str()),
        ("lineage", r#"{"dependsOnLedgerIds":["key:0"]}"#),
    ];
    line(&parts)
}

#[test]
fn a_line_at_a_bound_is_read_back_everywhere_and_one_past_it_leaves_nothing() {
    let scratch = Scratch::with_ledger("");
    let known: Vec<String> =
        (0..=LINEAGE_IDS).map(|number| line(&[("key", &format!("\"{number}\""))])).collect();
    scratch.append(&known);
    let now = scratch.json(&["ledger", "get", "key:0"], "").1["createdAt"].as_str().unwrap().to_owned();
    let name = |bytes: usize| format!("\"{}\"", "é".repeat(bytes / 2) + &"x".repeat(bytes % 2));
    // What is at the bound, what is past it, and what is said of that.
    let mut rows = vec![
        (line(&[("payload", &nested(127))]), line(&[("payload", &nested(128))]), "128 deep"),
        (event(128, &now), event(129, &now), "128 deep"),
        (
            line(&[("payload", &sized(PAYLOAD_BYTES))]),
            line(&[("payload", &sized(PAYLOAD_BYTES + 1))]),
            "the payload's size in bytes",
        ),
        (
            line(&[("payload", &growing(PAYLOAD_BYTES))]),
            line(&[("payload", &growing(PAYLOAD_BYTES + 22))]),
            "the payload's size in bytes",
        ),
        (line(&[("lineage", &on(LINEAGE_IDS))]), line(&[("lineage", &on(LINEAGE_IDS + 1))]), "1000"),
    ];
    for key in ["robotId", "module", "source", "type", "state", "key"] {
        rows.push((line(&[(key, &name(256))]), line(&[(key, &name(257))]), "256 bytes"));
    }
    let (mut ids, mut count) = (Vec::new(), known.len() as u64);
    for (at_bound, past_it, said) in rows {
        let (code, _, stderr) = scratch.run(&["ledger", "append"], &past_it);
        let start: String = stderr.chars().take(500).collect();
        assert!(code != 0 && stderr.contains(said), "expected `{said}`: {start}");
        assert_eq!(scratch.entries(), count, "{said}");
        let (code, taken) = scratch.json(&["ledger", "append"], &at_bound);
        assert_eq!(code, 0, "{said}");
        ids.push(taken["id"].as_str().unwrap().to_owned());
        count += 1;
    }
    read_back(&|arguments| scratch.command(arguments), scratch.path(), &ids);
}

/// Lines are written together by their size as sent, which canonical form may multiply.
#[test]
fn lines_that_grow_in_canonical_form_are_all_taken() {
    let scratch = Scratch::with_ledger("");
    scratch.append(&vec![line(&[("payload", &growing(PAYLOAD_BYTES))]); 10]);
    assert_eq!(scratch.entries(), 10);
}

fn tenant() -> TenantId {
    TenantId::parse("local").unwrap()
}

fn draft(payload: &str) -> Draft {
    let plain = Draft::parse(line(&[]).as_bytes(), &JsonLimits::default()).unwrap();
    Draft { payload: JsonObject::parse_own(payload).unwrap(), ..plain }
}

#[test]
fn a_batch_at_a_bound_is_read_back_everywhere_and_one_past_it_leaves_nothing() {
    let scratch = Scratch::with_ledger("");
    let location = Location::File(scratch.path().join(".crealeph/ledger.db"));
    let ledger = Ledger::open(&location, LedgerOptions::default()).unwrap();
    let full = || vec![draft(&sized(PAYLOAD_BYTES)); 3];
    let with = |last: usize| [full(), vec![draft(&sized(last)), draft(&sized(100))]].concat();
    let rows = [
        (vec![draft("{}"); 1_000], vec![draft("{}"); 1_001], "the batch's number of entries"),
        (with(PAYLOAD_BYTES - 100), with(PAYLOAD_BYTES - 99), "the batch's size in bytes"),
    ];
    let mut ids = Vec::new();
    for (at_bound, past_it, said) in rows {
        let before = ledger.last_seq(&tenant()).unwrap();
        match ledger.append(&tenant(), past_it) {
            Err(AppendError::Refused { refusal: EntryRefusal::TooLarge { what, .. }, .. }) => {
                assert_eq!(what, said)
            }
            other => panic!("{said}: {other:?}"),
        }
        assert_eq!(ledger.last_seq(&tenant()).unwrap(), before);
        let taken = ledger.append(&tenant(), at_bound).unwrap();
        ids.extend(taken.iter().take(2).map(|one| one.id.to_string()));
    }
    // What CreAleph composes may be deeper than what comes from outside.
    for depth in [128, 129, MAX_PAYLOAD_DEPTH] {
        ids.push(ledger.append(&tenant(), vec![draft(&nested(depth))]).unwrap()[0].id.to_string());
    }
    assert!(ledger.append(&tenant(), vec![draft(&nested(MAX_PAYLOAD_DEPTH + 1))]).is_err());
    drop(ledger);
    read_back(&|arguments| scratch.command(arguments), scratch.path(), &ids);
}

/// The largest payload that any limit allows fits into a line of an export and into a proof.
#[test]
fn the_largest_payload_of_all_is_proved_exported_and_imported() {
    let folder = tempfile::tempdir().unwrap();
    let limits =
        LedgerLimits { payload_bytes: usize::MAX, batch_bytes: usize::MAX, ..LedgerLimits::default() };
    let open = |name: &str| {
        let options = LedgerOptions {
            limits,
            keys: Some(folder.path().join(format!("{name}.keys"))),
            ..LedgerOptions::default()
        };
        Ledger::init(&Location::File(folder.path().join(name)), options).unwrap()
    };
    let ledger = open("one.db");
    let most = ledger.limits().payload_bytes;
    assert_eq!(most, 48 << 20);
    assert!(ledger.append(&tenant(), vec![draft(&sized(most + 1))]).is_err());
    let id = ledger.append(&tenant(), vec![draft(&sized(most))]).unwrap().remove(0).id;
    let proof = ledger.prove(&tenant(), &id).unwrap().unwrap().to_json();
    let keys: Vec<VerifierKey> = ledger
        .verifier_keys(&tenant())
        .unwrap()
        .iter()
        .map(|key| VerifierKey::parse(&key.to_string()).unwrap())
        .collect();
    assert_eq!(verify_proof(proof.as_bytes(), &keys).unwrap().seq, 1);
    let mut export = Vec::new();
    ledger.export(&tenant(), &mut export).unwrap();
    let mut verifier = ExportVerifier::new(keys, &[]).unwrap();
    for line in std::str::from_utf8(&export).unwrap().lines() {
        verifier.line(line).unwrap();
    }
    assert_eq!(verifier.finish().unwrap().entries, 1);
    assert_eq!(open("two.db").import(&mut export.as_slice()).unwrap().entries, 1);
}
