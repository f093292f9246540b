//! The commands as a user meets them: what they print, where, and with which exit code, on good input and on the
//! mistakes that newcomers make.

#![cfg(test)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

/// What a run of the program left.
struct Ended {
    code: i32,
    stdout: String,
    stderr: String,
}

fn crealeph(args: &[&str], stdin: &[u8]) -> Ended {
    let mut child = Command::new(env!("CARGO_BIN_EXE_crealeph"))
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let bytes = stdin.to_vec();
    let feeder = std::thread::spawn(move || {
        let _ = input.write_all(&bytes);
    });
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    Ended {
        code: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A folder of this test's own, gone when it ends.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn request() -> Value {
    json!({
        "robotId": "r-1", "objective_type": "site_plan", "objective_payload": {}, "constraints": {},
        "coherence_policy": { "on_stale": "block", "on_partial": "block" }, "dryRun": false,
        "workflowVersion": "w", "agentVersion": "a", "attempt": 1
    })
}

fn question() -> Value {
    json!({
        "tenantId": "t-1", "robotId": "r-1", "policyContractVersion": "v1", "evaluatedAt": "2026-03-04T06:00:00Z",
        "coherenceStatus": "coherent", "snapshotAt": "2026-03-04T05:30:00Z",
        "intelligenceSnapshot": { "lineage": { "dependsOnLedgerIds": ["L1"] } },
        "ledgerRecency": { "signalsAt": "2026-03-04T05:30:00Z", "fusionAt": "2026-03-04T05:30:00Z" },
        "requestedAction": "builder.run",
        "thresholds": { "minConfidence": 0.5, "maxStalenessMinutes": 60, "minLineageCount": 1 }
    })
}

#[test]
fn a_valid_document_is_said_to_be_valid() {
    let ended = crealeph(&["--text", "validate", "builder-request"], request().to_string().as_bytes());
    assert_eq!((ended.code, ended.stdout.as_str()), (0, "standard input is a valid builder-request\n"));
    assert_eq!(ended.stderr, "");
    let json = crealeph(&["validate", "builder-request", "-", "--json"], request().to_string().as_bytes());
    let verdict: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(verdict, json!({ "valid": true, "outcome": null, "violations": [], "levels": null }));
}

#[test]
fn a_violation_is_shown_at_its_position() {
    let scratch = Scratch::new("shown");
    let text = serde_json::to_string_pretty(&request()).unwrap().replace("dryRun", "dryrun");
    let file = scratch.file("request.json", &text);
    let ended = crealeph(&["--text", "validate", "builder-request", &file], b"");
    assert_eq!(ended.code, 1);
    let line = 1 + text.lines().position(|line| line.contains("dryrun")).unwrap();
    assert!(ended.stdout.contains("did you mean `dryRun`?"), "{}", ended.stdout);
    assert!(ended.stdout.contains(&format!("request.json:{line}:3, /dryrun (R4)")), "{}", ended.stdout);
    assert!(ended.stdout.contains("   ^^^^^^^^\n"), "carets under the key: {}", ended.stdout);
    assert!(ended.stdout.contains("`dryRun` is missing"), "{}", ended.stdout);
}

#[test]
fn newcomers_mistakes_get_useful_answers() {
    let scratch = Scratch::new("mistakes");
    let folder = scratch.0.to_str().unwrap();
    let empty = scratch.file("empty.json", "");
    let yaml = scratch.file("request.yaml", "robotId: r-1\ndryRun: true\n");
    let mut dated = question();
    dated["evaluatedAt"] = json!("2026-03-04T06:00:00");
    let dated = scratch.file("dated.json", dated.to_string());
    let cases: [(&[&str], i32, &str); 8] = [
        (&["validate", "agent-inptu", &empty], 2, "did you mean `agent-input`?"),
        (&["validate", "zebra", &empty], 2, "the contracts are agent-input, agent-output"),
        (&["validate", "agent-input", folder], 2, "is a directory\nhint: name a file in it"),
        (&["validate", "agent-input", "no-such-file.json"], 2, "there is no file `no-such-file.json`"),
        (&["validate", "agent-input", &empty], 1, "the document is empty"),
        (&["validate", "builder-request", &yaml], 1, "this looks like YAML"),
        (&["validate", "policy-input", &dated], 1, "the zone is missing; add `Z`"),
        (&["validate"], 2, "<CONTRACT"),
    ];
    for (args, code, expected) in cases {
        let ended = crealeph(args, b"");
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, code, "{args:?}: {said}");
        assert!(said.contains(expected), "{args:?}: {said}");
        assert_eq!(ended.stdout.is_empty(), code == 2, "errors go to standard error: {args:?}");
    }
}

#[test]
fn a_context_decides_and_a_wrong_one_cannot_be_used() {
    let scratch = Scratch::new("context");
    let output = json!({ "ok": false, "executionId": "e-2", "status": "failed" }).to_string();
    let input = json!({ "agentInput": { "executionId": "e-1", "allowedLineage": { "dependsOnLedgerIds": ["L1"] },
        "allowedArtifactTypes": ["task"] } });
    let context = scratch.file("context.json", input.to_string());
    assert_eq!(crealeph(&["validate", "agent-output"], output.as_bytes()).code, 0);
    let judged = crealeph(&["validate", "agent-output", "-", "--context", &context], output.as_bytes());
    assert_eq!(judged.code, 1);
    assert!(judged.stdout.contains("the input's executionId is `e-1`"), "{}", judged.stdout);
    let typo = scratch.file("typo.json", json!({ "agentinput": {} }).to_string());
    let refused =
        crealeph(&["validate", "agent-output", "-", "--context", &typo, "--json"], output.as_bytes());
    let error: Value = serde_json::from_str(&refused.stderr).unwrap();
    assert_eq!((refused.code, &error["error"]["code"]), (2, &json!("bad_context")));
    assert!(error["error"]["message"].as_str().unwrap().contains("did you mean `agentInput`?"));
}

#[test]
fn a_batch_answers_every_line_in_order_and_survives_broken_ones() {
    let good = json!({ "contract": "builder-request", "doc": request() }).to_string();
    let deep =
        format!("{{\"contract\":\"agent-input\",\"doc\":{}{}}}", "[".repeat(20_000), "]".repeat(20_000));
    let exact = format!("{{\"contract\":\"agent-input\",\"doc\":{}{}}}", "[".repeat(128), "]".repeat(128));
    let mut lines: Vec<Vec<u8>> = vec![
        good.clone().into_bytes(),
        b"not json".to_vec(),
        b"".to_vec(),
        json!({ "contract": "nothing", "doc": {} }).to_string().into_bytes(),
        json!({ "contract": "agent-input" }).to_string().into_bytes(),
        b"{\"contract\":\"agent-input\",\"doc\":{\"a\":\"\xff\"}}".to_vec(),
        deep.into_bytes(),
        exact.into_bytes(),
        b"{\"contract\":\"agent-input\",\"raw\":\"\\ud800\"}".to_vec(),
        b"{\"contract\":\"builder-request\",\"doc\":{\"a\":1,\"a\":2}}".to_vec(),
    ];
    lines.push(good.into_bytes());
    let ended = crealeph(&["validate", "--batch"], &lines.join(&b'\n'));
    let verdicts: Vec<Value> = ended.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((ended.code, verdicts.len()), (2, lines.len()), "{}", ended.stderr);
    let codes: Vec<String> = verdicts
        .iter()
        .map(|verdict| {
            match (&verdict["error"]["code"], verdict["violations"].as_array().unwrap().as_slice()) {
                (Value::String(code), _) => code.clone(),
                (_, []) => "valid".to_owned(),
                (_, [first, ..]) => first["code"].as_str().unwrap().to_owned(),
            }
        })
        .collect();
    let expected = [
        "valid",
        "bad_line",
        "bad_line",
        "bad_line",
        "bad_line",
        "not_utf8",
        "too_deep",
        "wrong_type",
        "not_utf8",
        "INVALID_REQUEST",
        "valid",
    ];
    assert_eq!(codes, expected);
    assert!(verdicts[3]["error"]["message"].as_str().unwrap().starts_with("line 4 cannot be judged"));
    assert!(verdicts[9]["violations"][0]["message"].as_str().unwrap().contains("appears twice"));
}

#[test]
fn a_batch_answers_while_its_sender_waits() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_crealeph"))
        .args(["validate", "--batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap());
    for _ in 0..3 {
        writeln!(input, "{}", json!({ "contract": "builder-request", "doc": request() })).unwrap();
        input.flush().unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        assert!(answer.starts_with("{\"valid\":true"), "{answer}");
    }
    drop(input);
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_closed_pipe_is_a_clean_end() {
    let line = json!({ "contract": "builder-request", "doc": request() }).to_string() + "\n";
    let mut child = Command::new(env!("CARGO_BIN_EXE_crealeph"))
        .args(["validate", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || {
        for _ in 0..10_000 {
            if input.write_all(line.as_bytes()).is_err() {
                break;
            }
        }
    });
    let mut first = [0u8; 16];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

#[test]
// holds: invariant 3
fn a_document_past_the_limit_is_refused_and_the_limit_can_be_raised() {
    let text = request().to_string();
    let small = crealeph(&["validate", "builder-request", "--max-bytes", "10"], text.as_bytes());
    assert_eq!(small.code, 1);
    assert!(small.stdout.contains("longer than 10 bytes"), "{}", small.stdout);
    let enough =
        crealeph(&["validate", "builder-request", "--max-bytes", &text.len().to_string()], text.as_bytes());
    assert_eq!(enough.code, 0);
}

#[test]
fn the_policy_decides_and_explains_itself() {
    let allowed = crealeph(&["policy", "evaluate"], question().to_string().as_bytes());
    let output: Value = serde_json::from_str(&allowed.stdout).unwrap();
    assert_eq!(
        (allowed.code, &output["decision"], &output["confidence"]),
        (0, &json!("ALLOW"), &json!(0.75))
    );
    let mut late = question();
    late["ledgerRecency"]["fusionAt"] = json!("2026-03-04T04:00:00Z");
    let reply = crealeph(&["--text", "policy", "explain"], late.to_string().as_bytes()).stdout;
    for part in [
        "DEFER: builder.run for robot r-1",
        "-> recency.stale                fusionAt is older than the 60 minutes allowed",
        "fusionAt from 2026-03-04T05:00:00.000Z to 2026-03-04T06:00:00Z: run fusion.run",
    ] {
        assert!(reply.contains(part), "{part}: {reply}");
    }
    let invalid = crealeph(&["policy", "evaluate"], b"{}");
    assert_eq!((invalid.code, invalid.stdout.as_str()), (1, ""));
    assert!(invalid.stderr.contains("`tenantId` is missing"), "{}", invalid.stderr);
}

#[test]
fn rules_from_a_file_are_checked_by_their_examples() {
    let scratch = Scratch::new("rules");
    let rules = "[actions.\"ship.it\"]\nneeds = [\"testsAt|reviewAt\"]\n[refresh]\ntestsAt = [\"ship.it\"]\n\
                 [[examples]]\nname = \"fresh tests ship\"\naction = \"ship.it\"\nages_minutes = { testsAt = 5 }\n\
                 expect = \"ALLOW\"\n";
    let file = scratch.file("rules.toml", rules);
    let mut asked = question();
    asked["requestedAction"] = json!("ship.it");
    asked["ledgerRecency"] = json!({ "reviewAt": "2026-03-04T05:50:00Z" });
    let ended = crealeph(&["policy", "evaluate", "--rules", &file], asked.to_string().as_bytes());
    let output: Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(output["decision"], "ALLOW", "{}", ended.stderr);
    let wrong = scratch.file("wrong.toml", rules.replace("testsAt = 5", "testsAt = 5000"));
    let refused = crealeph(&["policy", "evaluate", "--rules", &wrong], asked.to_string().as_bytes());
    assert_eq!(
        (refused.code, refused.stdout.as_str()),
        (2, ""),
        "rules that fail their examples decide nothing"
    );
    assert!(refused.stderr.contains("example `fresh tests ship` expects ALLOW"), "{}", refused.stderr);
    let typo = scratch.file("typo.toml", "[action]\n");
    let refused = crealeph(&["policy", "rules", "--rules", &typo], b"");
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("unknown field `action`"), "{}", refused.stderr);
}

#[test]
fn a_snapshot_shows_the_evidence_and_its_coherence() {
    let scratch = Scratch::new("snapshot");
    let entry = |id: &str, kind: &str, minute: u32, on: &[&str]| {
        json!({ "id": id, "robotId": "r-1", "type": kind, "createdAt": format!("2026-03-04T05:{minute:02}:00Z"),
            "lineage": { "dependsOnLedgerIds": on } })
        .to_string()
    };
    let mut lines = vec![
        entry("s1", "signal", 0, &[]),
        entry("f1", "fusion", 1, &["s1"]),
        entry("i1", "idea", 2, &["f1"]),
        entry("c1", "copy", 3, &["i1"]),
        entry("p1", "playbook", 4, &["i1"]),
    ];
    let file = scratch.file("entries.jsonl", lines.join("\n"));
    let snapshot = |args: &[&str]| -> Value {
        let ended = crealeph(args, b"");
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        serde_json::from_str(&ended.stdout).unwrap()
    };
    let coherent = snapshot(&["snapshot", "--from", &file]);
    assert_eq!(coherent["coherence"]["status"], "coherent");
    assert_eq!(coherent["snapshotAt"], "2026-03-04T05:04:00Z");
    assert_eq!(coherent["lineage"]["dependsOnLedgerIds"], json!(["c1", "f1", "i1", "p1", "s1"]));
    let early = snapshot(&["snapshot", "--from", &file, "--at", "2026-03-04T05:02:30Z"]);
    assert_eq!(early["coherence"]["partial"], json!(["copy", "playbook"]));
    lines.push(entry("s2", "signal", 5, &[]));
    let file = scratch.file("more.jsonl", lines.join("\n"));
    let stale = snapshot(&["snapshot", "r-1", "--from", &file]);
    assert_eq!(stale["coherence"]["outdated"], json!(["idea", "copy", "playbook"]));
    let rules = scratch.file("rules.toml", "[coherence]\ngrace_minutes = 5\n");
    let in_grace = snapshot(&["snapshot", "--from", &file, "--rules", &rules]);
    assert_eq!(in_grace["coherence"]["status"], "coherent");

    let other = scratch.file("broken.jsonl", format!("{}\n{{\"id\": 7}}\n", lines[0]));
    let broken = crealeph(&["snapshot", "--from", &other], b"");
    assert_eq!(broken.code, 1);
    assert!(broken.stderr.contains("line 2"), "{}", broken.stderr);
    let empty = crealeph(&["snapshot", "r-9", "--from", &file], b"");
    assert_eq!(empty.code, 1);
    assert!(empty.stderr.contains("SNAPSHOT_EMPTY"), "{}", empty.stderr);
}

#[test]
fn work_is_planned_in_levels_and_a_cycle_is_named() {
    let item = |id: &str, on: &[&str]| {
        json!({ "id": id, "agent_id": "agent-1", "description": "", "dependencies": on,
            "budget": { "time_estimate_ms": 1, "complexity": "low" } })
    };
    let items = json!([item("b", &["a"]), item("a", &[]), item("c", &["gone"])]);
    let planned = crealeph(&["work", "plan"], items.to_string().as_bytes());
    let plan: Value = serde_json::from_str(&planned.stdout).unwrap();
    assert_eq!(plan, json!({ "levels": [["a"], ["b"]], "blocked": [{ "id": "c", "waitsFor": ["gone"] }] }));
    let cycle = json!([item("b", &["a"]), item("a", &["b"])]);
    let refused = crealeph(&["work", "plan", "--json"], cycle.to_string().as_bytes());
    assert_eq!((refused.code, refused.stdout.as_str()), (1, ""));
    assert!(
        refused.stderr.contains("`a` → `b` → `a`") && refused.stderr.contains("\"cycle\""),
        "{}",
        refused.stderr
    );
    let wrong = json!([item("a", &[]), { "id": 3 }]);
    let refused = crealeph(&["work", "plan"], wrong.to_string().as_bytes());
    assert!(
        refused.stderr.contains("/1/id: expected a non-empty string, found a number"),
        "{}",
        refused.stderr
    );
}

#[test]
fn schemas_completions_and_man_pages_are_written() {
    let scratch = Scratch::new("written");
    let folder = scratch.0.join("schemas");
    assert_eq!(crealeph(&["schema", "--all", folder.to_str().unwrap()], b"").code, 0);
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 10);
    let printed = crealeph(&["schema", "receipt"], b"").stdout;
    assert_eq!(printed, fs::read_to_string(folder.join("receipt.schema.json")).unwrap());
    assert!(crealeph(&["completions", "bash"], b"").stdout.contains("_crealeph"));
    assert!(crealeph(&["man"], b"").stdout.contains(".TH crealeph"));
    let pages = scratch.0.join("man");
    assert_eq!(crealeph(&["man", pages.to_str().unwrap()], b"").code, 0);
    assert!(pages.join("crealeph-validate.1").is_file());
}

#[test]
fn committed_files_are_what_the_program_writes() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let commands: [(&[&[&str]], &str); 2] = [
        (&[&["schema", "--all"]], "schemas"),
        (&[&["man", "--markdown"], &["schema", "--openapi"], &["verify-page"]], "docs/reference"),
    ];
    for (commands, committed) in commands {
        let fresh = Scratch::new("fresh");
        for command in commands {
            assert_eq!(crealeph(&[command, &[fresh.0.to_str().unwrap()][..]].concat(), b"").code, 0);
        }
        let (fresh, kept) = (files(&fresh.0), files(&root.join(committed)));
        let other: Vec<&String> = fresh.symmetric_difference(&kept).map(|(name, _)| name).collect();
        assert!(other.is_empty(), "update {other:?} of {committed} with: cargo xtask generate");
    }
}

/// The files of a folder, and what is in them.
fn files(folder: &Path) -> BTreeSet<(String, String)> {
    fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap())
        .map(|file| (file.file_name().into_string().unwrap(), fs::read_to_string(file.path()).unwrap()))
        .collect()
}

#[test]
fn a_pipe_that_a_person_reads_gets_text() {
    let plan = |reader: &str| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
        command.args(["snapshot", "--from", "examples/entries.jsonl"]).current_dir(root);
        let output = command.env("CREALEPH_OUTPUT", reader).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
    };
    assert!(plan("text").1.starts_with("Robot shop-17: stale\n"));
    for reader in ["", "json"] {
        assert!(serde_json::from_str::<Value>(&plan(reader).1).is_ok());
    }
    let (code, said) = plan("yaml");
    assert_eq!(code, 2);
    assert!(said.contains("`yaml` in CREALEPH_OUTPUT is not known"), "{said}");
}

#[test]
fn help_and_version() {
    let version = crealeph(&["--version"], b"");
    assert_eq!((version.code, version.stdout.trim()), (0, concat!("crealeph ", env!("CARGO_PKG_VERSION"))));
    for command in
        [&["--help"][..], &["validate", "--help"], &["policy", "--help"], &["work", "plan", "--help"]]
    {
        let help = crealeph(command, b"");
        assert_eq!(help.code, 0);
        assert!(help.stdout.contains("Exit codes:"), "{command:?}: {}", help.stdout);
    }
}
