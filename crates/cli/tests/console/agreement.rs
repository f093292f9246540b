//! The two verifiers on a log with everything in it: each field of each entry is changed in turn, and the leaves are made to fit, as
//! someone who holds the database could. Both must refuse the same changes, at the same entry, for the same kind of reason.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use crealeph_contracts::digest::{Blake3, Sha256};
use crealeph_contracts::json::{Limits, canonical, parse};
use crealeph_verify::ExportVerifier;
use serde_json::{Value, json};

use crate::receiver::{Receiver, free_port, make_certificates, until};
use crate::running::Running;
use crate::scratch::{Scratch, known, line as note_line, request};
use crate::second;
use crate::verifier::{CONFIGURATION, good, good_in, ssh_keygen};

/// How deep a place is at most that gets a change of its own in addition to the one that is its turn.
const SHALLOW: usize = 2;
/// Of the places in a receipt, which are the deepest, one of so many is changed.
const DEEP_SAMPLE: usize = 4;

/// A log with evidence, an execution, people, rules, verdicts, landings, API keys, webhooks, signers and a receipt from elsewhere.
fn export() -> String {
    let port = free_port();
    let scratch = Scratch::new();
    make_certificates(scratch.path());
    let webhooks = format!("[server]\nwebhook_private = [\"localhost:{port}\"]\nwebhook_ca = \"ca.pem\"\n");
    scratch.write("crealeph.toml", &format!("{CONFIGURATION}\n{webhooks}"));
    let server = Running::start_in(scratch);
    let scratch = &server.scratch;
    scratch.append(&known(1, &["idea"], ""));
    for (name, kind) in [("ana", "ed25519"), ("ben", "ecdsa")] {
        ssh_keygen(scratch, &["-q", "-t", kind, "-N", "", "-C", name, "-f", name]);
    }
    good(
        scratch,
        &["person", "add", "ana", "--key", "ana.pub", "--first-admin", "--group", "maintainers"],
        None,
    );
    good(
        scratch,
        &["person", "add", "ben", "--key", "ben.pub", "--group", "maintainers", "--sign-with", "ana"],
        None,
    );
    scratch.write(
        "rules.toml",
        "[[rule]]\nname = \"two\"\nos_requester = true\napprovals = 2\ngroup = \"maintainers\"\n",
    );
    good(scratch, &["rule", "set", "rules.toml", "--sign-with", "ana"], None);
    let (_, answer) = scratch.build(&request("x-1", "draft_only", false));
    let draft = answer["artifacts"][0]["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
    for name in ["ana", "ben"] {
        let (key, statement) = (format!("{name}.pub"), format!("{name}.json"));
        good(scratch, &["approve", &draft, "--sign-with", &key, "--write-statement", &statement], None);
        ssh_keygen(scratch, &["-q", "-Y", "sign", "-n", "crealeph-verdict", "-f", name, &statement]);
        let signature = format!("{statement}.sig");
        good(scratch, &["approve", &draft, "--statement", &statement, "--signature", &signature], None);
    }
    good(scratch, &["person", "revoke", "ben", "--sign-with", "ana"], None);
    let operator = server.key("local", &["--role", "operator"]);
    let created: Value =
        serde_json::from_str(&good(scratch, &["key", "create", "--role", "reader", "--json"], None)).unwrap();
    good(scratch, &["key", "revoke", created["keyId"].as_str().unwrap_or_else(|| panic!("{created}"))], None);
    change_webhook(&server, port);
    report_run(&server, &operator);
    good(scratch, &["ledger", "export"], None)
}

/// Has a webhook created, disabled because its receiver is gone, enabled and deleted.
fn change_webhook(server: &Running, port: u16) {
    let run = |args: &[&str]| -> Value {
        serde_json::from_str(&good(&server.scratch, &[args, &["--json"]].concat(), None)).unwrap()
    };
    let receiver = Receiver::start(server.scratch.path(), port, |_| ("410 Gone\r\n".to_owned(), Vec::new()));
    let hook = run(&["webhook", "create", &receiver.url()]);
    let id = hook["webhookId"].as_str().unwrap_or_else(|| panic!("{hook}"));
    server.scratch.append(&[note_line("note", "for-the-webhook", &[], "")]);
    until("the webhook is disabled", || run(&["webhook", "list"])["state"] == "disabled");
    assert_eq!(run(&["webhook", "enable", id, "--reason", "it is back"])["state"], "active");
    run(&["webhook", "delete", id]);
}

/// Enablements that fit together and are about a webhook that was never created, or another time.
fn forged_enablements(entry: &Value) -> Vec<(&'static str, Value)> {
    let (id, at) = (entry["payload"]["webhookId"].as_str().unwrap(), &entry["payload"]["disabledAt"]);
    let with = |id: &str, at: &str| {
        let mut forged = entry.clone();
        forged["payload"]["webhookId"] = json!(id);
        forged["payload"]["disabledAt"] = json!(at);
        forged["key"] = json!(format!("crealeph:webhook-enabled:{id}:{at}"));
        forged
    };
    vec![
        ("of a webhook that was not created", with("never-created", at.as_str().unwrap())),
        ("of another time", with(id, "2026-01-02T03:04:05.678Z")),
        ("of no time", with(id, "yesterday")),
    ]
}

/// Has a run of another workspace reported to the server.
fn report_run(server: &Running, operator: &str) {
    let elsewhere = Scratch::new();
    let folder = elsewhere.path().join("workspace");
    fs::create_dir(&folder).unwrap();
    elsewhere.write("workspace/crealeph.toml", CONFIGURATION);
    elsewhere.write("workspace/greeting.txt", "hello\n");
    assert!(Command::new("git").args(["init", "-q", "."]).current_dir(&folder).status().unwrap().success());
    let key = server.scratch.path().join("work.key");
    fs::write(&key, good_in(&elsewhere, "workspace", &["work", "key"], None)).unwrap();
    good(&server.scratch, &["signer", "add", key.to_str().unwrap()], None);
    let mut run = elsewhere.command(&[
        "work",
        "run",
        "--agent",
        "writer",
        "echo bye > greeting.txt",
        "--report-to",
        &server.url,
    ]);
    run.current_dir(&folder).env("CREALEPH_SERVER_KEY", operator).stdin(Stdio::null());
    let run = run.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && !said.contains("to be reported"), "{said}");
}

fn canonical_text(value: &Value) -> String {
    let text = value.to_string();
    let (document, _) = parse(text.as_bytes(), &Limits::own(usize::MAX));
    canonical(document.unwrap().root())
}

/// The line of an entry, with a leaf that fits.
fn line(entry: &Value) -> String {
    let text = canonical_text(entry);
    let blake3 = Blake3::of(text.as_bytes()).to_string();
    let record = canonical_text(&json!({ "blake3": blake3, "id": entry["id"], "seq": entry["seq"] }));
    format!("{{\"entry\":{text},\"leaf\":\"{}\"}}", Sha256::of(&[&[0], record.as_bytes()].concat()))
}

/// The places of a value and of everything in it.
fn pointers(value: &Value, at: &str, all: &mut Vec<String>) {
    all.push(at.to_owned());
    match value {
        Value::Object(members) => {
            for (key, inner) in members {
                pointers(inner, &format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), all);
            }
        }
        Value::Array(elements) => {
            for (position, inner) in elements.iter().enumerate() {
                pointers(inner, &format!("{at}/{position}"), all);
            }
        }
        _ => {}
    }
}

/// What may be in a place instead; `None` for nothing at all.
fn replacements(value: &Value) -> Vec<Option<Value>> {
    let mut others = vec![
        None,
        Some(json!(null)),
        Some(json!(0)),
        Some(json!(1.5)),
        Some(json!("")),
        Some(json!("x")),
        Some(json!({})),
    ];
    match value {
        Value::String(text) => {
            others.extend(
                [
                    format!("{text}x"),
                    format!(" {text}"),
                    text.to_uppercase(),
                    "\u{a0}".to_owned(),
                    "a".repeat(257),
                ]
                .map(|it| Some(json!(it))),
            );
        }
        Value::Number(number) => others.push(number.as_u64().map(|number| json!(number + 1))),
        Value::Bool(boolean) => others.push(Some(json!(!boolean))),
        Value::Array(elements) => {
            others.push(Some(json!([])));
            others.push(Some(Value::Array(elements.iter().chain(elements.first()).cloned().collect())));
        }
        Value::Object(members) => {
            let mut more = members.clone();
            more.insert("zz".to_owned(), json!(1));
            others.push(Some(Value::Object(more)));
        }
        Value::Null => {}
    }
    others
}

fn put(entry: &mut Value, pointer: &str, value: Option<Value>) {
    let Some((parent, last)) = pointer.rsplit_once('/') else {
        *entry = value.unwrap_or(Value::Null);
        return;
    };
    let last = last.replace("~1", "/").replace("~0", "~");
    match (entry.pointer_mut(parent).unwrap(), value) {
        (Value::Object(members), Some(value)) => drop(members.insert(last, value)),
        (Value::Object(members), None) => drop(members.remove(&last)),
        (Value::Array(elements), Some(value)) => elements[last.parse::<usize>().unwrap()] = value,
        (Value::Array(elements), None) => drop(elements.remove(last.parse().unwrap())),
        _ => panic!("`{pointer}` leads into a scalar"),
    }
}

/// What the first verifier says, as the second would say it.
fn first_answer(lines: &[String]) -> String {
    let mut verifier = ExportVerifier::new(Vec::new(), &[]).unwrap();
    let judged = lines.iter().try_for_each(|line| verifier.line(line)).and_then(|()| verifier.finish());
    match judged {
        Ok(_) => "ok".to_owned(),
        Err(finding) => {
            format!(
                "{} at {}: ",
                finding.kind.as_str(),
                finding.seq.map_or("null".to_owned(), |seq| seq.to_string())
            )
        }
    }
}

#[test]
fn both_verifiers_refuse_the_same_changes() {
    let export = export();
    let mut header: Value = serde_json::from_str(export.lines().next().unwrap()).unwrap();
    // Exports may have more entries than they said at first.
    header["entries"] = json!(0);
    let entries: Vec<Value> = export
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).unwrap().get("entry").cloned())
        .collect();
    let honest: Vec<String> = [header.to_string()].into_iter().chain(entries.iter().map(line)).collect();
    assert_eq!(entries[entries.len() - 1]["type"], "reported_receipt");
    let (mut abouts, mut questions) = (vec!["nothing".to_owned()], vec![honest.clone()]);
    let mut seen = BTreeSet::new();
    for (position, entry) in entries.iter().enumerate() {
        let mut places = Vec::new();
        pointers(entry, "", &mut places);
        // Entries of a type have the same places. All changes of all of them would take minutes: each place takes its turn.
        let kind = entry["type"].to_string();
        places.retain(|place| seen.insert((kind.clone(), place.clone())));
        for (turn, place) in places.into_iter().enumerate() {
            if place.matches('/').count() > 2 * SHALLOW && turn % DEEP_SAMPLE != 0 {
                continue;
            }
            let value = entry.pointer(&place).unwrap();
            let mut others = replacements(value);
            let other = others.swap_remove(turn % others.len());
            let longer = value.as_str().filter(|_| place.matches('/').count() <= SHALLOW);
            let longer = longer.map(|text| Some(json!(format!("{text}x"))));
            for value in [other].into_iter().chain(longer) {
                let (mut changed, mut lines) = (entry.clone(), honest.clone());
                abouts.push(format!("{place} of entry {}, a {}: {value:?}", position + 1, entry["type"]));
                put(&mut changed, &place, value);
                lines[position + 1] = line(&changed);
                // The last entry holds a whole run, and only its own changes are worth the time to read it.
                lines.truncate(entries.len().max(position + 2));
                questions.push(lines);
            }
        }
    }
    let enabled = entries.iter().position(|entry| entry["type"] == "webhook_enablement").unwrap();
    let mut enablements = Vec::new();
    for (about, forged) in forged_enablements(&entries[enabled]) {
        let mut lines = honest.clone();
        lines[enabled + 1] = line(&forged);
        lines.truncate(entries.len());
        enablements.push(first_answer(&lines));
        abouts.push(format!("the enablement {about}"));
        questions.push(lines);
    }
    let refused = format!("invalid at {}: ", enabled + 1);
    assert_eq!(enablements, [refused.as_str(), "ok", refused.as_str()]);
    let mut wrong = Vec::new();
    let ask = |lines: &Vec<String>| json!({ "ask": "export", "lines": lines, "keys": [], "kept": [], "lenient": false });
    let answers = second::answers(&questions.iter().map(ask).collect::<Vec<_>>());
    let first: Vec<String> = questions.iter().map(|lines| first_answer(lines)).collect();
    assert_eq!(first[0], "ok");
    assert!(first.iter().filter(|answer| *answer != "ok").count() > first.len() / 2);
    for ((about, first), second) in abouts.iter().zip(first).zip(answers) {
        if !second.as_str().unwrap().starts_with(&first) {
            wrong.push(format!("{about}\n  first {first}\n  second {second}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), abouts.len(), wrong.join("\n"));
}
