//! Commands that ask a server print what they print on its ledger, and say clearly what they cannot ask.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::running::Running;
use crate::scratch::{Scratch, ended, known, request};

const AGENT: &str = "[agents.\"example@1\"]\nkind = \"example\"\n";

/// A server on a ledger with a story, and a folder elsewhere that has nothing but a key.
pub(crate) struct Asked {
    pub(crate) server: Running,
    pub(crate) elsewhere: Scratch,
}

impl Asked {
    pub(crate) fn new(configuration: &str) -> Asked {
        let scratch = Scratch::with_ledger(&format!("{AGENT}{configuration}"));
        scratch.append(&known(1, &["idea", "copy", "playbook"], ""));
        scratch.append(&known(2, &["idea", "copy", "playbook"], "").map_robot("q"));
        for (execution, is_dry) in [("e/1", false), ("e-2", true)] {
            let (_, answer) = scratch.build(&request(execution, "block", is_dry));
            assert_eq!(answer["ok"], Value::Bool(true), "{answer}");
        }
        let server = Running::start_in(scratch);
        Asked { server, elsewhere: Scratch::new() }
    }

    /// Runs a command that asks the server, with a key of this role.
    pub(crate) fn ask(&self, key: &str, args: &[&str], stdin: &str) -> (i32, String, String) {
        self.ask_at(&self.server.url, key, args, stdin)
    }

    pub(crate) fn ask_at(&self, url: &str, key: &str, args: &[&str], stdin: &str) -> (i32, String, String) {
        let mut command = self.elsewhere.command(&[&["--server", url][..], args].concat());
        let mut child = command.env("CREALEPH_SERVER_KEY", key).stderr(Stdio::piped()).spawn().unwrap();
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), stdin.as_bytes());
        ended(child)
    }
}

/// The same lines for another robot.
pub(crate) trait MapRobot {
    fn map_robot(self, robot: &str) -> Vec<String>;
}

impl MapRobot for Vec<String> {
    fn map_robot(self, robot: &str) -> Vec<String> {
        let own = format!("\"robotId\":\"{robot}\"");
        self.into_iter().map(|line| line.replace("\"robotId\":\"r\"", &own)).collect()
    }
}

/// Every line is a command that asks; `ID` is the start of the first entry's id, `DRAFT` the id of a draft.
const COMMANDS: &str = "
ledger get @
ledger get @-
ledger get key:signal-1
ledger get ID
ledger get none-such
ledger list
ledger list --newest --limit 2
ledger list --type signal --robot q
ledger list --execution e/1
ledger list --cursor seq-3 --limit 3
ledger list --type none
ledger tail --after 2 --limit 3
ledger lineage key:playbook-1
ledger lineage key:signal-1 --down --depth 1
ledger lineage key:signal-1 --down
ledger stats
ledger prove key:idea-1
ledger checkpoint
robot list
robot list --limit 1
robot status r
robot status q
snapshot r
snapshot q
snapshot none
execution list
execution list --state planned --robot r
execution show e/1
execution show
execution why e-2
execution why e/1 --attempt 2
execution replay e/1
execution replay @ --attempt 1
usage
usage --by day --robot r
inbox
key list
key list --limit 1
key sessions
signer list
webhook list
person list
person list --allowed-signers
rule show
rule test
rule test approvals.toml --limit 1
review list
review list --robot none
approval why DRAFT
approval why none
policy backtest --thresholds strict.toml
policy backtest --thresholds strict.toml --robot none
ledger verify --key saved.key
ledger export
";

/// What a moment or a place leaves in an answer: when it was judged, how old things were then, and where that was.
fn without_moment(text: &str) -> Vec<Value> {
    let read = |line: &str| serde_json::from_str::<Value>(line).unwrap_or_else(|_| Value::from(line));
    let mut values: Vec<Value> = match serde_json::from_str(text) {
        Ok(value) => vec![value],
        Err(_) => text.lines().map(read).collect(),
    };
    for value in &mut values {
        // Where the log is that was counted.
        if value.get("edges").is_some() {
            value["ledger"] = Value::Null;
        }
        let Some(known) = value.get_mut("known").and_then(Value::as_array_mut) else { continue };
        known.iter_mut().for_each(|known| known["ageMinutes"] = Value::Null);
        value["at"] = Value::Null;
    }
    values
}

#[test]
fn commands_print_of_a_server_what_they_print_of_its_ledger() {
    let asked = Asked::new("");
    let here = |args: &[&str]| {
        let (code, printed, stderr) = asked.server.scratch.run(args, "");
        assert_eq!(code, 0, "{args:?}: {stderr}");
        printed
    };
    let made: Value = serde_json::from_str(&here(&["webhook", "create", "https://h.invalid"])).unwrap();
    here(&["webhook", "delete", made["webhookId"].as_str().unwrap(), "--reason", "moved"]);
    asked.server.scratch.write("signer.key", &here(&["work", "key"]));
    here(&["signer", "add", "signer.key", "--label", "CI"]);
    // A draft that waits, people who may decide, and their rules.
    let scratch = &asked.server.scratch;
    scratch.append(&known(3, &["idea"], "").map_robot("p"));
    let (_, built) = scratch.build(&request("e-3", "draft_only", false).replace("\"r\"", "\"p\""));
    assert_eq!(built["artifacts"].as_array().map(Vec::len), Some(3), "{built}");
    for name in ["ana", "ben"] {
        let key = scratch.path().join(name);
        let made =
            Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", ""]).arg("-f").arg(&key).status();
        assert!(made.unwrap().success());
    }
    here(&["person", "add", "ana", "--key", "ana.pub", "--first-admin"]);
    here(&["person", "add", "ben", "--key", "ben.pub", "--group", "maintainers", "--sign-with", "ana"]);
    for folder in [scratch, &asked.elsewhere] {
        folder.write("approvals.toml", "[[rule]]\nname = \"all\"\napprovals = 2\ngroup = \"maintainers\"\n");
        folder.write("strict.toml", "[thresholds]\nmin_lineage_count = 50\n");
        folder.write("saved.key", &here(&["ledger", "key"]));
    }
    here(&["rule", "set", "approvals.toml", "--sign-with", "ana"]);
    here(&["ledger", "checkpoint"]);
    let (_, waiting, _) = scratch.run(&["review", "list", "--json"], "");
    let draft: Value = serde_json::from_str(waiting.lines().next().unwrap()).unwrap();
    // A key that sees grants sees every entry.
    let key = asked.server.key("local", &["--role", "auditor"]);
    let (_, listed, _) = asked.server.scratch.run(&["ledger", "list", "--limit", "1", "--json"], "");
    let first: Value = serde_json::from_str(&listed).unwrap();
    let start = first["id"].as_str().unwrap();
    for line in COMMANDS.lines().filter(|line| !line.is_empty()) {
        let line = line.replace("ID", start.split_at(34).0).replace("DRAFT", draft["id"].as_str().unwrap());
        let words: Vec<&str> = line.split(' ').collect();
        for form in ["--json", "--text"] {
            let args = [&words[..], &[form]].concat();
            let (code, here, said_here) = asked.server.scratch.run(&args, "");
            let (asked_code, there, said_there) = asked.ask(&key, &args, "");
            assert_eq!(
                (asked_code, without_moment(&there)),
                (code, without_moment(&here)),
                "{args:?}: {said_here}{said_there}"
            );
            // Hints may differ: there is no --tenant to check.
            let first = |said: &str| said.lines().next().unwrap_or_default().to_owned();
            if form == "--text" {
                assert_eq!(first(&said_there), first(&said_here), "{args:?}");
            }
        }
    }
}

#[test]
fn a_server_builds_and_evaluates_as_the_commands_do() {
    let asked = Asked::new("");
    let key = asked.server.key("local", &["--role", "operator"]);
    // What is recorded, and what leaves nothing, each here and there.
    let cases = [
        ("planned", request("e-10", "block", false)),
        ("blocked", request("e-11", "block", false).replace("\"r\"", "\"none\"")),
        ("drafts", request("e-12", "draft_only", true)),
        ("repeated", request("e/1", "block", false)),
        ("taken", request("e/1", "block", true)),
        ("invalid", "{}".to_owned()),
    ];
    for (name, there) in cases {
        let here = there.replace("e-1", "e-2");
        for form in ["--json", "--text"] {
            let (code, own, _) = asked.server.scratch.run(&["build", "-", form], &here);
            let (asked_code, printed, stderr) = asked.ask(&key, &["build", "-", form], &there);
            // Ids differ; why something was refused does not, also if it left no record.
            let words = |line: &str| {
                let line = line.replace("e-1", "e-2");
                let most = if line.contains("why  ") { usize::MAX } else { 2 };
                line.split_whitespace().take(most).collect::<Vec<_>>().join(" ")
            };
            let words = |text: &str| text.lines().map(words).collect::<Vec<String>>();
            assert_eq!(code, asked_code, "{name}: {stderr}");
            match form {
                "--text" => assert_eq!(words(&printed), words(&own), "{name}"),
                _ => {
                    let state = |text: &str| {
                        let value: Value = serde_json::from_str(text).unwrap();
                        (value["state"].clone(), value["error"].clone(), value["idempotent"].clone())
                    };
                    assert_eq!(state(&printed), state(&own), "{name}");
                }
            }
        }
    }
    let (_, status, _) =
        asked.ask(&key, &["build", "-", "--text", "--rerun-of", "e/1"], &request("e-13", "block", false));
    assert!(status.contains("allowed"), "{status}");
    let (code, _, stderr) = asked.ask(&key, &["build", "-", "--rules", "x.toml", "--json"], "{}");
    assert!(code == 2 && stderr.contains("--rules"), "{stderr}");
    // The policy, by the rules of the server.
    let question = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/policy-input.json"),
    );
    let mut question: Value = serde_json::from_str(&question.unwrap()).unwrap();
    question["tenantId"] = Value::from("local");
    let question = question.to_string();
    for args in [&["policy", "evaluate"][..], &["policy", "explain", "--text"]] {
        let (code, own, _) = asked.server.scratch.run(args, &question);
        let (asked_code, printed, stderr) = asked.ask(&key, args, &question);
        assert_eq!((asked_code, printed), (code, own), "{stderr}");
    }
    // A report is made by the server, and written by the command as by the server.
    let made = |text: &str| {
        let lines = text.lines().filter(|line| !line.contains("Made at") && !line.contains("madeAt"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for (format, route) in [("md", "/v1/report.md"), ("html", "/v1/report.html")] {
        let (code, printed, stderr) = asked.ask(&key, &["report", "--format", format], "");
        let own = asked.server.get(route, &key);
        assert_eq!(
            (code, made(&printed)),
            (0, made(&String::from_utf8_lossy(&own.body))),
            "{format}: {stderr}"
        );
    }
    let (code, report, stderr) = asked.ask(&key, &["report", "--execution", "e-10", "--json"], "");
    let (report, own) = (without_made_at(&report), asked.server.get("/v1/report?execution=e-10", &key));
    assert_eq!((code, report), (0, without_made_at(&String::from_utf8_lossy(&own.body))), "{stderr}");
    let other = question.replace("\"local\"", "\"other\"");
    let (code, _, stderr) = asked.ask(&key, &["policy", "evaluate"], &other);
    assert!(code == 2 && stderr.contains("forbidden"), "{stderr}");
}

fn without_made_at(report: &str) -> Value {
    let mut report: Value = serde_json::from_str(report).unwrap();
    report["madeAt"] = Value::Null;
    report
}

#[test]
fn entries_are_appended_through_a_server_up_to_the_first_that_is_refused() {
    let asked = Asked::new("");
    let key = asked.server.key("local", &["--role", "writer"]);
    let lines = known(3, &["idea"], "").join("\n");
    let (code, printed, stderr) = asked.ask(&key, &["ledger", "append"], &lines);
    assert_eq!((code, printed.lines().count()), (0, 3), "{stderr}");
    let (code, again, stderr) = asked.ask(&key, &["ledger", "append", "--json"], &lines);
    let repeats = again.lines().filter(|line| line.contains("\"repeat\":true")).count();
    assert_eq!((code, repeats), (0, 3), "{stderr}");
    let before = asked.server.scratch.entries();
    // Without keys nothing could be recognised as a repeat.
    let plain = |text: &str| {
        format!(
            r#"{{"robotId":"r","module":"m","source":"s","type":"note","state":"final","payload":{{"text":"{text}"}}}}"#
        )
    };
    let refused = r#"{"robotId":"r","module":"m","source":"s","type":"note","state":"final","payload":{},"lineage":{"dependsOnLedgerIds":["none-such"]}}"#;
    let lines = [plain("a"), plain("b"), refused.to_owned(), plain("c")].join("\n");
    let (code, printed, stderr) = asked.ask(&key, &["ledger", "append", "--json"], &lines);
    assert_eq!((code, printed.lines().count()), (1, 2), "{stderr}");
    assert!(stderr.contains("unknown_id") && stderr.contains("line 3"), "{stderr}");
    assert_eq!(asked.server.scratch.entries(), before + 2);
}

#[test]
fn commands_without_a_server_form_say_so() {
    let asked = Asked::new("");
    let reader = asked.server.key("local", &["--role", "reader"]);
    let said = |code: &str, words: &str, (status, _, stderr): (i32, String, String)| {
        assert!(status == 2 && stderr.contains(code) && stderr.contains(words), "{status}: {stderr}");
    };
    for (args, instead) in [
        (&["ledger", "migrate", "--json"][..], "on the server's machine"),
        (&["review", "approve", "@", "--reason", "x", "--json"], "crealeph --server URL approve ID"),
        (&["work", "undo", "@", "--json"], "in the workspace"),
        (&["doctor", "--json"], "leave --server out"),
        (&["validate", "work-item", "--json"], "needs neither"),
    ] {
        said("no_server_form", instead, asked.ask(&reader, args, ""));
    }
    for flag in ["--ledger", "--tenant", "--keys", "--config"] {
        said("usage", "comes from the key", asked.ask(&reader, &["ledger", "list", flag, "x", "--json"], ""));
    }
    let list = ["robot", "list", "--json"];
    let admin = asked.server.key("local", &["--role", "admin"]);
    said("forbidden", "admin", asked.ask(&admin, &list, ""));
    let unknown = format!("{}AAAAAA", reader.split_at(reader.len() - 6).0);
    said("unauthenticated", "key", asked.ask(&unknown, &list, ""));
    said("bad_key", "key create", asked.ask("secret", &list, ""));
    said("bad_address", "https", asked.ask_at("http://192.0.2.1", &reader, &list, ""));
    said("server_away", "crealeph serve", asked.ask_at("http://127.0.0.1:9", &reader, &list, ""));
    // The environment names a server too, and a flag goes before it.
    let mut command = asked.elsewhere.command(&["ledger", "list", "--limit", "1"]);
    command.env("CREALEPH_SERVER", &asked.server.url);
    let missing = ended(command.spawn().unwrap());
    assert!(missing.0 == 2 && missing.2.contains("CREALEPH_SERVER_KEY"), "{}", missing.2);
    asked.elsewhere.write("key.txt", &format!("{reader}\n"));
    let file = command.args(["--server-key", "key.txt"]).spawn().unwrap();
    assert_eq!(ended(file).1.lines().count(), 1);
    let here = command.args(["--ledger", "none.db"]).spawn().unwrap();
    assert!(ended(here).2.contains("none.db"));
}
