//! Held changes and the people who sign for them (R33): quorum, a base that moves, races, crashes and forgeries.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{Ledger, LedgerOptions, Location};
use serde_json::{Value, json};

use crate::crash::kills;
use crate::server::Server;
use crate::world::{AGENTS, World, item, item_with, ran};

const PEOPLE: [&str; 4] = ["ana", "ben", "cy", "dot"];
const TWO: &str = "[[rule]]\nname = \"two\"\nsubject = \"change\"\napprovals = 2\ngroup = \"maintainers\"\nos_requester = true\n";

/// A workspace in a tenant in which `ana` is the first admin, and `ben`, `cy` and `dot` are maintainers.
struct Signing(World);

impl Signing {
    fn new(ledger: &str) -> Signing {
        let world = World::with(&format!("{AGENTS}\n{ledger}"));
        world.write("a.txt", "one\ntwo\nthree\n");
        world.write("src/b.txt", "b\n");
        let signing = Signing(world);
        for name in PEOPLE {
            let key = signing.key(name);
            signing.ssh_keygen(&["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", &key]);
        }
        signing.good(&["ledger", "init"]);
        signing
    }

    fn with_people(ledger: &str) -> Signing {
        let signing = Signing::new(ledger);
        signing.enrol();
        signing
    }

    fn enrol(&self) {
        let public = |name: &str| format!("{}.pub", self.key(name));
        self.good(&["person", "add", "ana", "--key", &public("ana"), "--first-admin"]);
        for name in ["ben", "cy", "dot"] {
            let (key, admin) = (public(name), self.key("ana"));
            self.good(&[
                "person",
                "add",
                name,
                "--key",
                &key,
                "--group",
                "maintainers",
                "--sign-with",
                &admin,
            ]);
        }
    }

    /// A file next to the workspace.
    fn outside(&self, name: &str) -> String {
        self.0.outside().join(name).display().to_string()
    }

    fn key(&self, name: &str) -> String {
        self.outside(name)
    }

    fn ssh_keygen(&self, args: &[&str]) {
        let run = Command::new("ssh-keygen").args(args).stdin(Stdio::null()).output().unwrap();
        assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        command.env("HOME", self.0.outside()).env_remove("SSH_AUTH_SOCK");
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    #[track_caller]
    fn good(&self, args: &[&str]) -> Value {
        let run = self.run(args);
        assert!(run.status.success(), "{args:?}: {}{}", text(&run.stdout), text(&run.stderr));
        serde_json::from_slice(&run.stdout).unwrap_or(Value::Null)
    }

    #[track_caller]
    fn refused(&self, args: &[&str], said: &str) {
        let run = self.run(args);
        let stderr = text(&run.stderr);
        assert!(run.status.code() == Some(1) && stderr.contains(said), "{args:?}: {:?} {stderr}", run.status);
    }

    fn set_rules(&self, rules: &str) {
        let file = self.outside("rules.toml");
        fs::write(&file, rules).unwrap();
        self.good(&["rule", "set", &file, "--sign-with", &self.key("ana")]);
    }

    /// The run of a change that is held.
    fn held(&self, id: &str, script: &str, more: Value) -> String {
        let ran = self.0.run(&[item_with(id, script, more)], &["--hold"]);
        assert_eq!((ran.code, &ran.of(id)["status"]), (3, &json!("held")), "{}", ran.stderr);
        ran.of(id)["run"].as_str().unwrap().to_owned()
    }

    /// Has a person sign a verdict on a change with ssh-keygen; `elsewhere` has the ledger and not the workspace.
    fn signed(&self, run: &str, person: &str, flags: &[&str]) -> [String; 6] {
        let statement = self.outside(&format!("{person}-{run}.json"));
        let signature = format!("{statement}.sig");
        let _ = fs::remove_file(&signature);
        let key = format!("{}.pub", self.key(person));
        self.good(&[&["approve", run, "--sign-with", &key, "--write-statement", &statement], flags].concat());
        self.ssh_keygen(&["-q", "-Y", "sign", "-n", "crealeph-verdict", "-f", &self.key(person), &statement]);
        ["approve", run, "--statement", &statement, "--signature", &signature].map(str::to_owned)
    }

    fn approve(&self, run: &str, person: &str, flags: &[&str]) -> Value {
        let args = self.signed(run, person, flags);
        self.good(&[&words(&args)[..], flags].concat())
    }

    /// A folder without a workspace: another machine, with the same ledger.
    fn elsewhere(&self) -> PathBuf {
        let folder = self.0.outside().join("elsewhere");
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn entries(&self, kind: &str) -> Vec<Value> {
        let run = self.run(&["ledger", "list", "--type", kind, "--limit", "1000"]);
        text(&run.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn state_of(&self, run: &str) -> String {
        self.good(&["approval", "why", run])["state"].as_str().unwrap().to_owned()
    }

    fn verified(&self) {
        let verified = self.run(&["ledger", "verify"]);
        assert!(verified.status.success(), "{}{}", text(&verified.stdout), text(&verified.stderr));
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn words(args: &[String; 6]) -> [&str; 6] {
    args.each_ref().map(String::as_str)
}

fn spawned(mut command: Command) -> Child {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Two of three approve a held change, one of them without the workspace, while the base moves in another file and then in a touched one;
/// and eight processes race to land another.
fn story(ledger: &str, location: &dyn Fn(&Signing) -> String) {
    let signing = Signing::with_people(ledger);
    let world = &signing.0;
    signing.set_rules(TWO);
    let run = signing.held("w", "echo x >> a.txt", json!({ "test_command": "grep -q x a.txt" }));
    let waiting = signing.good(&["inbox"]);
    assert_eq!(
        (&waiting["subject"], &waiting["kind"], &waiting["missing"], &waiting["rule"]),
        (&json!(run), &json!("change"), &json!(2), &json!("two")),
        "{waiting}"
    );

    // From another machine: the diff and who asked are shown, and the verdict alone is recorded.
    let (elsewhere, ledger) = (signing.elsewhere(), location(&signing));
    let folder = elsewhere.display().to_string();
    let away = ["--workspace", folder.as_str(), "--ledger", ledger.as_str()];
    let key = format!("{}.pub", signing.key("ben"));
    let shown = signing.run(
        &[&["approve", &run, "--sign-with", &key, "--write-statement", &signing.outside("x")], &away[..]]
            .concat(),
    );
    let shown = text(&shown.stderr);
    assert!(
        shown.contains("+x") && shown.contains("asked    by ") && shown.contains("target   workspace"),
        "{shown}"
    );
    assert_eq!(signing.approve(&run, "ben", &away)["missing"], 1);
    world.write("other.txt", "the base moves in another file\n");
    let second = signing.signed(&run, "cy", &away);
    world.write("a.txt", "edited\n");
    signing.refused(&words(&second), "`a.txt` was changed by hand");
    assert_eq!(world.read("a.txt"), "edited\n");
    assert_eq!(signing.state_of(&run), "waiting");

    // Given elsewhere, no one knows of the conflict: it stays held and says what is in the way.
    let approved = signing.run(&[&words(&second)[..], &away[..]].concat());
    assert!(
        approved.status.success() && text(&approved.stderr).contains("work recover"),
        "{}",
        text(&approved.stderr)
    );
    let recovered = signing.run(&["work", "recover"]);
    assert!(text(&recovered.stderr).contains("`a.txt` was changed by hand"), "{}", text(&recovered.stderr));
    assert_eq!(signing.state_of(&run), "approved");
    world.write("a.txt", "one\ntwo\nthree\n");
    assert_eq!(signing.good(&["work", "recover"])["decided"], json!([run]));
    assert_eq!(
        (world.read("a.txt"), signing.state_of(&run)),
        ("one\ntwo\nthree\nx\n".to_owned(), "landed".to_owned())
    );
    signing.refused(
        &["approve", &run, "--sign-with", &signing.key("dot"), "--write-statement", "x"],
        "landed already",
    );
    let why = signing.good(&["approval", "why", &run]);
    assert_eq!((&why["landing"]["hadQuorum"], &why["change"]["item"]), (&json!(true), &json!("w")), "{why}");

    let run = signing.held("race", "echo r > r", json!({}));
    let (ben, cy) = (signing.signed(&run, "ben", &[]), signing.signed(&run, "cy", &[]));
    let racing: Vec<Child> = (0..8)
        .map(|number| spawned(signing.command(&words(if number % 2 == 0 { &ben } else { &cy }))))
        .collect();
    for child in racing {
        child.wait_with_output().unwrap();
    }
    signing.good(&["work", "recover"]);
    let landings =
        signing.entries("landing").into_iter().filter(|entry| entry["payload"]["subjectId"] == json!(run));
    assert_eq!(landings.count(), 1);
    assert_eq!((signing.state_of(&run), world.read("r")), ("landed".to_owned(), "r\n".to_owned()));
    assert_eq!(signing.run(&["inbox"]).stdout, b"");
    signing.verified();
}

#[test]
// holds: invariant 20
fn two_of_three_approve_a_change_on_sqlite() {
    story("", &|signing| signing.0.at(".crealeph/ledger.db").display().to_string());
}

#[test]
fn two_of_three_approve_a_change_on_postgresql() {
    let server = Server::start();
    let url = server.url(&server.database());
    story(&format!("[ledger]\nlocation = \"{url}\"\nkeys = \"../keys\"\n"), &|_| url.clone());
}

#[test]
fn a_rejection_ends_a_change_and_a_receipt_names_who_signed() {
    let signing = Signing::with_people("");
    let run = signing.held("w", "echo x >> a.txt", json!({}));
    let key = signing.key("cy");
    let rejected = signing.good(&["reject", &run, "--reason", "wrong place", "--yes", "--sign-with", &key]);
    assert_eq!(rejected["result"]["error"], "Rejected by cy: wrong place", "{rejected}");
    assert_eq!(signing.state_of(&run), "rejected");
    signing.refused(&["approve", &run, "--yes", "--sign-with", &key], "rejected already");
    assert_eq!(signing.0.read("a.txt"), "one\ntwo\nthree\n");
    let run = signing.held("v", "printf 'y\\r\\n' >> a.txt", json!({}));
    // A change of line endings is shown to anyone who signs it.
    let (key, statement) = (format!("{}.pub", signing.key("ben")), signing.outside("shown.json"));
    let shown = signing.run(&["approve", &run, "--sign-with", &key, "--write-statement", &statement]);
    assert!(text(&shown.stderr).contains("+y\\r\n"), "{}", text(&shown.stderr));
    let approved = signing.approve(&run, "ben", &[]);
    assert!(approved["landed"].is_string() && approved["missing"] == 0, "{approved}");
    signing.0.check(&approved["result"]);
    let verified = signing.good(&["work", "verify", &format!(".crealeph/runs/{run}")]);
    let verdict = &verified["verdicts"][0];
    assert_eq!((&verdict["by"], &verdict["entry"]), (&json!("ben"), &approved["verdict"]), "{verified}");
    signing.verified();
}

#[test]
fn a_name_decides_nothing_where_people_are_enrolled_and_what_was_held_before_is_signed_for() {
    let signing = Signing::new("");
    let run = signing.held("w", "echo x >> a.txt", json!({}));
    signing.enrol();
    let by_name = ["--by", "ben", "--reason", "x"];
    for command in [&["work", "approve", &run][..], &["work", "reject", &run], &["approve", &run]] {
        signing.refused(&[command, &by_name[..]].concat(), "proves nothing");
    }
    let unattended = ["approve", &run, "--yes", "--sign-with", &signing.key("ben")];
    signing.refused(&unattended, "unattended");
    assert_eq!(signing.approve(&run, "ben", &[])["missing"], 0);
    assert_eq!(signing.0.read("a.txt"), "one\ntwo\nthree\nx\n");
    signing.verified();
}

/// What was signed for another change, a change that is not the one that was shown, and a row straight into the database.
#[test]
// holds: invariant 20
fn forgeries_of_changes_are_refused_and_named() {
    let signing = Signing::with_people("");
    let run = signing.held("w", "echo x >> a.txt", json!({}));
    let other = signing.held("v", "echo y > y", json!({}));
    let (own, others) = (signing.signed(&run, "ben", &[]), signing.signed(&other, "ben", &[]));
    let mixed = [&own[0], &own[1], &own[2], &own[3], &own[4], &others[5]].map(String::as_str);
    signing.refused(&mixed, "does not match");

    // A diff that was changed in the workspace.
    let diff = signing.0.at(".crealeph/runs").join(&run).join("change.diff");
    let before = fs::read_to_string(&diff).unwrap();
    fs::write(&diff, before.replace("+x", "+y")).unwrap();
    signing.refused(&words(&own), "altered");
    fs::write(&diff, before).unwrap();

    // Written by someone who can write to the database: a verdict with another's signature, and a landing that no one approved.
    let read = |name: &str| fs::read_to_string(name).unwrap();
    let statement: Value = serde_json::from_str(&read(&own[3])).unwrap();
    let why = signing.good(&["approval", "why", &run]);
    let entry = |kind: &str, key: String, payload: Value| {
        json!({ "robotId": "crealeph-tenant", "module": "crealeph-approvals", "source": "person", "type": kind,
            "state": "approve", "key": key, "payload": payload })
    };
    let nonce = format!("crealeph:nonce:{}", statement["nonce"].as_str().unwrap());
    let forged = json!({ "statement": statement, "proof": "ssh", "signature": read(&others[5]) });
    let landing = json!({ "subjectKind": "change", "subjectId": run, "subjectDigest": why["digest"], "number": 1,
        "verdicts": ["0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f"], "ruleDigest": statement["ruleDigest"], "checkedSeq": 9 });
    append(&signing, entry("verdict", nonce, forged));
    append(&signing, entry("landing", landing_key(&run), landing));
    let recovered = signing.good(&["work", "recover"]);
    assert_eq!((&recovered["decided"], signing.state_of(&run).as_str()), (&json!([]), "waiting"));
    assert_eq!(signing.0.read("a.txt"), "one\ntwo\nthree\n");
    let verified = signing.run(&["ledger", "verify"]);
    assert!(
        verified.status.code() == Some(1) && text(&verified.stdout).contains("forged"),
        "{}",
        text(&verified.stdout)
    );
}

fn landing_key(run: &str) -> String {
    let subject = crealeph_contracts::scalar::LedgerId::parse(run).unwrap();
    crealeph_contracts::approval::landing_key(&subject, 1)
}

fn append(signing: &Signing, entry: Value) {
    let location = Location::File(signing.0.at(".crealeph/ledger.db"));
    let ledger = Ledger::open(&location, LedgerOptions::default()).unwrap();
    let entry = Draft::parse(entry.to_string().as_bytes(), &Limits::default()).unwrap();
    ledger.append_as(&TenantId::parse("local").unwrap(), vec![(None, entry)]).unwrap();
}

/// Killed anywhere between the last verdict and the outcome of the landing, a change has landed once, or nothing of it is there and its
/// verdicts land it later.
#[test]
// holds: invariant 13
// holds: invariant 20
fn killed_at_any_moment_an_approved_change_lands_once() {
    let signing = Signing::with_people("");
    let (mut landed_at_once, mut were_void) = (0, 0);
    let lines = |event: &str| signing.0.read(".crealeph/runs/journal.jsonl").matches(event).count();
    for attempt in 0..kills() {
        let script = format!("i=0; while [ $i -lt 20 ]; do echo {attempt} > f$i; i=$((i+1)); done");
        let many = json!({ "constraints": { "max_files": 100 } });
        let run = signing.held(&format!("w{attempt}"), &script, many);
        let args = signing.signed(&run, "ben", &[]);
        let before = signing.0.state();
        let begun = lines("{\"event\":\"landing\"");
        let mut child = spawned(signing.command(&words(&args)));
        let share = (attempt * 618_034) % 1_000_000;
        if attempt % 4 != 0 {
            // In the short time between the entry of the landing and that of its outcome.
            while lines("{\"event\":\"landing\"") == begun && child.try_wait().unwrap().is_none() {
                std::thread::sleep(Duration::from_micros(200));
            }
            std::thread::sleep(Duration::from_micros(share * 40_000 / 1_000_000));
        } else {
            std::thread::sleep(Duration::from_micros(share / 3));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Settled, without the verdict being carried out yet.
        signing.good(&["work", "clean", "--keep", "1000", "--dry-run"]);
        let of_run = |kind: &str| {
            let entries = signing.entries(kind).into_iter();
            entries.filter(|entry| entry["payload"]["subjectId"] == json!(run)).collect::<Vec<_>>()
        };
        let (landings, outcomes) = (of_run("landing").len(), of_run("landing_outcome"));
        assert_eq!(landings, outcomes.len(), "each landing has an outcome: {outcomes:?}");
        let is_there = signing.0.state() != before;
        let completed = outcomes.iter().filter(|entry| entry["payload"]["outcome"] == "completed").count();
        assert_eq!(completed, usize::from(is_there), "attempt {attempt}: {outcomes:?}");
        landed_at_once += completed;
        were_void += outcomes.len() - completed;
        // The verdict may be there or not.
        let again = signing.run(&words(&args));
        let stderr = text(&again.stderr);
        assert!(again.status.success() || stderr.contains("landed already"), "{attempt}: {stderr}");
        assert_eq!(
            (signing.state_of(&run).as_str(), signing.0.read("f19")),
            ("landed", format!("{attempt}\n"))
        );
        let completed = of_run("landing_outcome")
            .iter()
            .filter(|entry| entry["payload"]["outcome"] == "completed")
            .count();
        assert_eq!(completed, 1, "attempt {attempt}");
    }
    println!("{landed_at_once} had landed, {were_void} landings were void");
    signing.verified();
}

/// The folder of a workspace is not needed to decide, and not another workspace's change either.
#[test]
fn a_change_is_named_by_a_short_id_or_as_the_newest() {
    let signing = Signing::with_people("");
    let run = signing.held("w", "echo x >> a.txt", json!({}));
    let short = run.get(..13).unwrap();
    for name in [short, "@"] {
        let statement = signing.outside("s.json");
        signing.good(&[
            "approve",
            name,
            "--sign-with",
            &format!("{}.pub", signing.key("ben")),
            "--write-statement",
            &statement,
        ]);
        let statement: Value = serde_json::from_str(&fs::read_to_string(&statement).unwrap()).unwrap();
        assert_eq!(statement["subjectId"], json!(run));
        assert!(statement["baseState"].is_string(), "{statement}");
    }
    assert_eq!(signing.0.run_one(item("other", "echo o > o"))["status"], "success");
    assert!(Path::new(&signing.0.at("o")).exists());
    let approved = signing.approve(&run, "cy", &[]);
    assert_eq!(approved["result"]["status"], "success", "{approved}");
    let ledger = ran(&signing.run(&["ledger", "verify"]));
    assert_eq!(ledger.code, 0, "{}", ledger.stderr);
}

/// Rules hold what they fit, in a list of items as well; what none fits lands as ever. `rule test` says the same of the past.
#[test]
fn a_change_that_a_rule_fits_is_held_without_a_flag() {
    let signing = Signing::with_people("");
    let early = signing.0.run_one(item("early", "echo 1 > e1; echo 2 > e2; echo 3 > e3"));
    let rules = "[[rule]]\nname = \"large\"\nsubject = \"change\"\nmore_files_than = 2\napprovals = 2\nos_requester = true\n\n\
                 [[rule]]\nname = \"tested\"\nsubject = \"change\"\ntests = true\nos_requester = true\n";
    let file = signing.outside("tried.toml");
    fs::write(&file, rules).unwrap();
    let tried = signing.good(&["rule", "test", &file]);
    assert_eq!(
        (&tried["run"], &tried["rule"], &tried["inForce"], &tried["approvals"]),
        (&early["receipt_id"], &json!("large"), &json!(null), &json!(2)),
        "{tried}"
    );
    signing.set_rules(rules);
    assert_eq!(signing.good(&["rule", "test"])["inForce"], "large");
    let ran = signing.0.run(
        &[
            item("large", "echo 1 > l1; echo 2 > l2; echo 3 > l3"),
            item("small", "echo s > s"),
            item("tested", "mkdir -p tests; echo t > tests/test_t.py"),
        ],
        &[],
    );
    let status = |id: &str| ran.of(id)["status"].as_str().unwrap().to_owned();
    assert_eq!(ran.code, 3, "{:?} {}", ran.lines, ran.stderr);
    assert_eq!([status("large"), status("small"), status("tested")], ["held", "success", "held"]);
    let waiting = signing.run(&["inbox"]);
    let waiting: Vec<Value> =
        text(&waiting.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let rule_of =
        |id: &str| waiting.iter().find(|line| line["change"]["item"] == id).unwrap()["rule"].clone();
    assert_eq!((waiting.len(), rule_of("large"), rule_of("tested")), (2, json!("large"), json!("tested")));
    let tested = ran.of("tested")["run"].as_str().unwrap();
    assert!(signing.approve(tested, "ana", &[])["landed"].is_string());
    assert!(signing.0.at("tests/test_t.py").exists() && !signing.0.at("l1").exists());
    signing.verified();
}

/// The command that ran the work lands it when enough people have approved, wherever they are; interrupted, it leaves the change held, and
/// whatever works in the workspace next lands it.
#[test]
fn a_run_waits_for_approval_and_lands() {
    let signing = Signing::with_people("");
    signing.set_rules(TWO);
    let waiting = |id: &str| {
        let path = signing.0.items(&[item(id, &format!("echo {id} > {id}"))]);
        let child = spawned(signing.command(&["work", "run", &path, "--land-when-approved"]));
        crate::many::wait_until(&signing.0, id, "held");
        let status = text(&signing.run(&["work", "status"]).stdout);
        let line = status.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let run = line.into_iter().find(|line| line["id"] == id).unwrap()["run"].as_str().unwrap().to_owned();
        (child, run)
    };
    let folder = signing.elsewhere().display().to_string();
    let ledger = signing.0.at(".crealeph/ledger.db").display().to_string();
    let away = ["--workspace", folder.as_str(), "--ledger", ledger.as_str()];
    let (child, run) = waiting("first");
    signing.approve(&run, "ben", &away);
    signing.approve(&run, "cy", &away);
    let ended = ran(&child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.lines.len()), (0, 2), "{} {:?}", ended.stderr, ended.lines);
    assert_eq!((&ended.lines[0]["status"], &ended.lines[1]["status"]), (&json!("held"), &json!("success")));
    assert_eq!(signing.0.read("first"), "first\n");

    let (child, run) = waiting("second");
    crate::many::signal(child.id(), "INT");
    let ended = ran(&child.wait_with_output().unwrap());
    assert!(ended.code == 130 && ended.stderr.contains("stays held"), "{} {}", ended.code, ended.stderr);
    signing.approve(&run, "ben", &away);
    signing.approve(&run, "cy", &away);
    assert!(!signing.0.at("second").exists());
    assert_eq!(signing.0.run(&[item("third", "echo t > t")], &["--hold"]).code, 3);
    assert_eq!(signing.0.read("second"), "second\n");
    signing.verified();
}
