//! The rules about receipts, as data: each case in `cases/` edits one honest run before or after it is signed, and gives the
//! full answer of the checks. They run in this order: receipt and envelope, folder, files, journal.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test says what it expects"
)]

mod chains;
mod run;
#[path = "../second/mod.rs"]
mod second;

use std::path::Path;

use crealeph_contracts::digest::{Blake3, ContentDigests};
use crealeph_verify::{
    CLEANED_NAME, Finding, FindingKind, JournalRecord, ReceiptChain, RunFolder, VerifiedReceipt, VerifierKey,
    check_folder_artifacts, check_folder_name, check_journal, check_run_folder, check_stored_artifacts,
    read_receipt, read_unproven, verify_receipt,
};
use serde_json::{Map, Value};

use run::{Key, RUN, States, canonical_text, edit, envelope, hash_of, manifest};

const STATEMENT_TYPE: &str = "application/vnd.in-toto+json";
const CLEANED_TYPE: &str = "application/vnd.crealeph.cleaned-run+json";

/// A case, and which of its fields were used; one that nothing reads is a mistake in the case.
struct Case {
    fields: Map<String, Value>,
    used: std::cell::RefCell<Vec<String>>,
}

impl Case {
    fn get(&self, name: &str) -> Option<&Value> {
        self.used.borrow_mut().push(name.to_owned());
        self.fields.get(name)
    }

    fn edits(&self, name: &str) -> Map<String, Value> {
        self.get(name).map_or_else(Map::new, |edits| edits.as_object().unwrap().clone())
    }

    fn flag(&self, name: &str) -> bool {
        self.get(name).is_some_and(|flag| flag.as_bool().unwrap())
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name).map(|text| text.as_str().unwrap())
    }

    fn states(&self) -> States {
        States::edited(&self.edits("before"), &self.edits("after"))
    }

    fn keys(&self, name: &str) -> Vec<Key> {
        let names = self.text(name).unwrap_or("own");
        names.split(' ').filter(|name| !name.is_empty()).map(Key::named).collect()
    }

    /// Pairs of texts, the first replaced by the second.
    fn replaced(&self, name: &str, mut text: String) -> String {
        for pair in self.get(name).into_iter().flat_map(|pairs| pairs.as_array().unwrap()) {
            let (from, to) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
            assert!(text.contains(from), "`{from}` is not in {text}");
            text = text.replace(from, to);
        }
        text
    }
}

/// Receipt and envelope of a case.
fn sealed(case: &Case) -> (String, String) {
    let states = case.states();
    let mut receipt = run::receipt(&states);
    edit(&mut receipt, &case.edits("receipt"));
    let receipt = run::with_hash(receipt);
    let signers = case.keys("signers");
    let signers: Vec<&Key> = signers.iter().collect();
    let mut statement = run::statement(&receipt, &states, &signers);
    edit(&mut statement, &case.edits("statement"));
    let payload = case.text("payload").map_or_else(|| canonical_text(&statement), str::to_owned);
    let mut envelope = envelope(case.text("type").unwrap_or(STATEMENT_TYPE), &payload, &signers);
    edit(&mut envelope, &case.edits("envelope"));
    let receipt = case.replaced("receipt_text", canonical_text(&receipt));
    (receipt, case.replaced("envelope_text", canonical_text(&envelope)))
}

/// A receipt that is read without a key: all of its signers are unknown.
fn unproven(receipt: &str, envelope: &str) -> Result<VerifiedReceipt, Finding> {
    let read = read_unproven(receipt.as_bytes(), envelope.as_bytes())?;
    let other_signers =
        read.statement.predicate.signers.as_slice().iter().map(|id| id.as_str().to_owned()).collect();
    Ok(VerifiedReceipt { read, known_signers: Vec::new(), other_signers })
}

/// The answer of all checks about a case, in one line.
fn answer(case: &Case) -> Result<String, Finding> {
    let (receipt, envelope) = sealed(case);
    let keys: Vec<VerifierKey> = case.keys("keys").into_iter().map(|key| key.verifier).collect();
    let is_unproven = case.flag("unproven");
    let VerifiedReceipt { read: verified, known_signers, other_signers } = match is_unproven {
        true => unproven(&receipt, &envelope)?,
        false => verify_receipt(receipt.as_bytes(), envelope.as_bytes(), &keys)?,
    };
    check_folder_name(&verified, case.text("folder").unwrap_or(RUN))?;
    let mut files = run::beside();
    for (name, content) in case.edits("files") {
        match content.as_str() {
            Some(content) => drop(files.insert(name, content.to_owned())),
            None => assert!(files.remove(&name).is_some(), "{name}"),
        }
    }
    let unreadable = case.text("unreadable").unwrap_or_default().to_owned();
    let mut names: Vec<String> = files.keys().cloned().collect();
    names.extend(["RECEIPT.json", "RECEIPT.dsse.json", "entry.json"].map(str::to_owned));
    let cleaned = cleaned(case);
    if cleaned.is_some() {
        names.push(CLEANED_NAME.to_owned());
    }
    let folder = RunFolder { names: &names, is_alone: case.flag("alone") };
    let read =
        |name: &str| Ok(files.get(name).filter(|_| name != unreadable).map(|it| it.clone().into_bytes()));
    let known = (!is_unproven).then_some(keys.as_slice());
    let run_files = check_run_folder(&verified, folder, known, read, || Ok::<_, Finding>(cleaned))?;
    let artifacts = match case.get("against_folder") {
        Some(edits) => {
            check_folder_artifacts(&verified, |path| Ok::<_, Finding>(file_at(case, edits, path)))?
        }
        None => check_stored_artifacts(
            &verified,
            |hash| Ok(stored_state(case, hash)),
            |hash| Ok(stored_content(case, hash)),
        )?,
    };
    let hash = verified.receipt.receipt_hash.to_string();
    let journal = case.edits("journal");
    let journal_text = |name: &str| journal.get(name).map(|text| text.as_str().unwrap());
    check_journal(
        &verified,
        &JournalRecord {
            receipt_hash: Some(journal_text("receipt_hash").unwrap_or(&hash)).filter(|hash| !hash.is_empty()),
            outcome: journal_text("outcome").unwrap_or("success"),
            is_success: journal_text("outcome").is_none_or(|outcome| outcome == "success"),
        },
    )?;
    let mut line = format!("ok, {}", artifacts.as_str());
    let lists = [
        ("checked", &run_files.checked),
        ("absent", &run_files.absent),
        ("uncovered", &run_files.uncovered),
        ("signed", &known_signers),
        ("others", &other_signers),
    ];
    for (name, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
        line.push_str(&format!("; {name} {}", list.join(" ")));
    }
    Ok(line)
}

/// The statement that files were removed on purpose.
fn cleaned(case: &Case) -> Option<Vec<u8>> {
    let cleaned = case.get("cleaned")?;
    let signers = case.keys("cleaned_signers");
    let payload = case.replaced("cleaned_text", canonical_text(cleaned));
    let envelope = envelope(CLEANED_TYPE, &payload, &signers.iter().collect::<Vec<_>>());
    Some(canonical_text(&envelope).into_bytes())
}

/// The file at a path of a folder: the one that the run left, edited by the case.
fn file_at(case: &Case, edits: &Value, path: &str) -> Option<ContentDigests> {
    let content = match edits.get(path) {
        Some(edit) => edit.as_str().map(str::to_owned),
        None => case.states().after.get(path).map(|(_, content)| content.clone()),
    };
    content.map(|content| ContentDigests::of(content.as_bytes()))
}

/// The manifest that is stored under a hash, edited by the case.
fn stored_state(case: &Case, hash: &Blake3) -> Option<String> {
    let states = case.states();
    let (name, files) = match *hash == hash_of(&states.before) {
        true => ("before", states.before),
        false => ("after", states.after),
    };
    match case.edits("states").get(name) {
        Some(edit) => edit.as_str().map(str::to_owned),
        None => (hash_of(&files) == *hash).then(|| manifest(&files)),
    }
}

/// The content that is stored under a hash, edited by the case.
fn stored_content(case: &Case, hash: &Blake3) -> Option<ContentDigests> {
    let files = case.states().after;
    let (path, (_, content)) =
        files.iter().find(|(_, (_, content))| Blake3::of(content.as_bytes()) == *hash)?;
    let content = match case.edits("contents").get(path) {
        Some(edit) => edit.as_str()?.to_owned(),
        None => content.clone(),
    };
    Some(ContentDigests::of(content.as_bytes()))
}

/// The text of a case with the ids of keys and the hashes of the honest states put in.
fn with_names(text: &str) -> String {
    let honest = States::edited(&Map::new(), &Map::new());
    let names = [
        ("$OWN", Key::named("own").id),
        ("$SECOND", Key::named("second").id),
        ("$FOREIGN", Key::named("foreign").id),
        ("$BEFORE", hash_of(&honest.before).to_string()),
        ("$AFTER", hash_of(&honest.after).to_string()),
        ("$IGNORE", Blake3::of(b"kept\n").to_string()),
        ("$OLD", Blake3::of(b"two\n").to_string()),
    ];
    names.iter().fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

/// Every case, with its place.
fn cases() -> Vec<(String, Case)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/receipts/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        for (line, text) in (1..).zip(std::fs::read_to_string(&file).unwrap().lines()) {
            let place = format!("{}:{line}", file.file_name().unwrap().to_string_lossy());
            let fields =
                serde_json::from_str(&with_names(text)).unwrap_or_else(|error| panic!("{place}: {error}"));
            cases.push((place, Case { fields, used: Default::default() }));
        }
    }
    cases
}

#[test]
fn every_case_gives_its_expected_answer() {
    let (mut count, mut wrong) = (0, Vec::new());
    {
        for (place, case) in cases() {
            let about = case.text("about").unwrap();
            let expected = case.text("expect").unwrap();
            let answer = answer(&case).unwrap_or_else(|finding| finding.to_string());
            // If the rest is a contract's own message, the case ends in `…`.
            let is_met = match expected.strip_suffix('…') {
                Some(start) => answer.starts_with(start),
                None => answer == expected,
            };
            if !is_met {
                wrong.push(format!("{place}: {about}\n  expected {expected}\n  answered {answer}"));
            }
            let used = case.used.borrow();
            let unread: Vec<&String> = case.fields.keys().filter(|name| !used.contains(name)).collect();
            // Nothing after the first finding is read.
            assert!(unread.is_empty() || !answer.starts_with("ok"), "{place}: nothing reads {unread:?}");
            count += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 60, "{count} cases");
}

/// The second verifier's question about receipt and envelope, and how its answer begins if it agrees with the first.
fn question(receipt: &str, envelope: &str, keys: &[Key], is_unproven: bool) -> (Value, String) {
    let (texts, keys): (Vec<&str>, Vec<VerifierKey>) =
        keys.iter().map(|key| (key.text.as_str(), key.verifier.clone())).unzip();
    let verified = match is_unproven {
        true => unproven(receipt, envelope),
        false => verify_receipt(receipt.as_bytes(), envelope.as_bytes(), &keys),
    };
    let expected = match verified {
        Ok(it) => {
            format!("ok, signed {}, others {}", it.known_signers.join(" "), it.other_signers.join(" "))
        }
        Err(finding) => format!("{} at ", finding.kind.as_str()),
    };
    let question = serde_json::json!({
        "ask": "receipt", "receipt": receipt, "envelope": envelope, "keys": texts, "unproven": is_unproven,
    });
    (question, expected)
}

fn assert_agreed(asked: Vec<(String, (Value, String))>) {
    let questions: Vec<Value> = asked.iter().map(|(_, (question, _))| question.clone()).collect();
    let mut wrong = Vec::new();
    for ((place, (_, expected)), answer) in asked.iter().zip(second::answers(&questions)) {
        if !answer.as_str().unwrap().starts_with(expected) {
            wrong.push(format!("{place}\n  first {expected}\n  second {answer}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), asked.len(), wrong.join("\n"));
}

#[test]
fn the_second_verifier_agrees_about_every_case() {
    let ask = |(place, case): (String, Case)| {
        let (receipt, envelope) = sealed(&case);
        (place, question(&receipt, &envelope, &case.keys("keys"), case.flag("unproven")))
    };
    assert_agreed(cases().into_iter().map(ask).collect());
}

#[test]
fn the_second_verifier_refuses_any_changed_byte() {
    let (receipt, envelope) = honest();
    let keys = [Key::named("own")];
    let mut asked = Vec::new();
    for (is_receipt, whole) in [(true, &receipt), (false, &envelope)] {
        for at in (0..whole.len()).step_by(3) {
            let Ok(changed) = String::from_utf8(changes_at(whole.as_bytes(), at)[at % 5].clone()) else {
                continue;
            };
            let (receipt, envelope) = if is_receipt { (&changed, &envelope) } else { (&receipt, &changed) };
            let (question, expected) = question(receipt, envelope, &keys, false);
            assert!(!expected.starts_with("ok"), "byte {at}");
            asked.push((format!("receipt {is_receipt}, byte {at}"), (question, expected)));
        }
    }
    assert_agreed(asked);
}

fn honest() -> (String, String) {
    sealed(&Case { fields: Map::new(), used: Default::default() })
}

/// One bit or another flipped, the byte left out, one put before it.
fn changes_at(bytes: &[u8], at: usize) -> Vec<Vec<u8>> {
    let (mut longer, mut shorter) = (bytes.to_vec(), bytes.to_vec());
    longer.insert(at, b' ');
    shorter.remove(at);
    let flipped = [0x01, 0x20, 0x80].map(|flip| {
        let mut changed = bytes.to_vec();
        changed[at] ^= flip;
        changed
    });
    flipped.into_iter().chain([longer, shorter]).collect()
}

#[test]
fn a_receipt_or_envelope_with_any_byte_changed_is_refused() {
    let fields = serde_json::from_str(r#"{"signers":"own second"}"#).unwrap();
    let (receipt, envelope) = sealed(&Case { fields, used: Default::default() });
    let (receipt, envelope) = (receipt.as_bytes(), envelope.as_bytes());
    let keys = ["own", "second"].map(|name| Key::named(name).verifier);
    verify_receipt(receipt, envelope, &keys).unwrap();
    read_receipt(receipt).unwrap();
    for at in 0..receipt.len() {
        for changed in changes_at(receipt, at) {
            assert!(read_receipt(&changed).is_err(), "byte {at} alone");
        }
        if at % 9 == 0 {
            let finding = verify_receipt(&changes_at(receipt, at)[0], envelope, &keys).unwrap_err();
            assert_eq!(finding.kind, FindingKind::Changed, "byte {at}: {finding}");
        }
    }
    for at in 0..envelope.len() {
        let changed = &changes_at(envelope, at)[at % 5];
        assert!(verify_receipt(receipt, changed, &keys).is_err(), "byte {at} of the envelope");
    }
}

#[test]
fn an_envelope_has_bounds() {
    let (receipt, _) = honest();
    let answer = |envelope: &[u8]| verify_receipt(receipt.as_bytes(), envelope, &[]).unwrap_err().to_string();
    assert_eq!(answer(&[b','; 10_000]), "unreadable: the envelope is not JSON");
    assert_eq!(
        answer(&[b','; 10_001]),
        "unreadable: the envelope has more than 10000 parts; it is not an envelope"
    );
    let signed = |count: usize| {
        let mut envelope = envelope(STATEMENT_TYPE, "{}", &[]);
        let signature = serde_json::json!({ "keyid": "x", "sig": "" });
        envelope["signatures"] = Value::Array(vec![signature; count]);
        answer(canonical_text(&envelope).as_bytes())
    };
    let names = ["`x`"; 10].join(", ");
    let start = format!("forged: no known key has signed the statement; it is signed as {names}");
    assert_eq!(signed(10), start);
    assert_eq!(signed(100), format!("{start} and 90 more"));
    assert_eq!(signed(101), "unreadable: the envelope has more than 100 signatures");
}

/// Why a check ended.
#[derive(Debug, PartialEq)]
enum Stop {
    Finding(Finding),
    Unreadable(String),
}

impl From<Finding> for Stop {
    fn from(finding: Finding) -> Self {
        Stop::Finding(finding)
    }
}

#[test]
fn a_file_that_cannot_be_read_is_not_called_changed() {
    let (receipt, envelope) = honest();
    let own = Key::named("own").verifier;
    let verified =
        verify_receipt(receipt.as_bytes(), envelope.as_bytes(), std::slice::from_ref(&own)).unwrap();
    let files = run::beside();
    let names: Vec<String> = files.keys().cloned().collect();
    for name in &names {
        let check = |outcome: Result<Option<Vec<u8>>, Stop>| {
            let mut outcome = Some(outcome);
            let read = |asked: &str| match asked == name {
                true => outcome.take().unwrap(),
                false => Ok(files.get(asked).map(|text| text.clone().into_bytes())),
            };
            let folder = RunFolder { names: &names, is_alone: false };
            check_run_folder(&verified.read, folder, Some(std::slice::from_ref(&own)), read, || Ok(None))
        };
        let denied = || Stop::Unreadable(format!("permission denied: {name}"));
        assert_eq!(check(Err(denied())), Err(denied()));
        let is_changed =
            |found| matches!(found, Err(Stop::Finding(finding)) if finding.kind == FindingKind::Changed);
        assert!(is_changed(check(Ok(None))) && is_changed(check(Ok(Some(Vec::new())))), "{name}");
    }
}

#[test]
fn a_chain_takes_only_receipts_of_its_workspace_that_are_signed_and_in_their_own_folder() {
    let (receipt, envelope) = honest();
    let keys = [Key::named("own").verifier, Key::named("foreign").verifier];
    let verified = verify_receipt(receipt.as_bytes(), envelope.as_bytes(), &keys).unwrap().read;
    let case = |text: &str| Case { fields: serde_json::from_str(text).unwrap(), used: Default::default() };
    let foreign = sealed(&case(
        r#"{"signers":"foreign","statement":{"/predicate/workspace":"crealeph-workspace/two"}}"#,
    ));
    let second = Key::named("second").id;
    let unsigned = sealed(&case(r#"{"signers":"second"}"#));
    let id = "02020202-0202-0202-0202-020202020202";
    for ((receipt, envelope), folder, expected) in [
        ((receipt.clone(), envelope.clone()), RUN, ""),
        ((receipt.clone(), envelope.clone()), "any-name", ""),
        (
            (receipt.clone(), envelope.clone()),
            id,
            &*format!(
                "changed: the receipt `p`: the folder is that of run {id}, and holds the receipt of run {RUN}"
            ),
        ),
        (
            foreign,
            RUN,
            "forked: the receipt `p` is of `crealeph-workspace/two`, and the chain is of `crealeph-workspace/one`",
        ),
        (
            unsigned,
            RUN,
            &*format!(
                "forged: the receipt `p`: no known key has signed the statement; it is signed as `{second}`"
            ),
        ),
    ] {
        let mut chain = ReceiptChain::new(&verified, &keys);
        let added = chain.add("p", folder, receipt.as_bytes(), envelope.as_bytes());
        let answer = added.as_ref().err().map_or_else(String::new, ToString::to_string);
        assert_eq!(answer, expected, "{folder}");
        if added.is_ok() {
            let position = chain.position_of(&verified.receipt.receipt_hash, &[]).unwrap();
            assert_eq!((position.position, position.length), (1, 1));
        }
    }
}
