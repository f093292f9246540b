//! Approvals as people meet them (R33): enrolled keys, signed verdicts, quorum, lapse and landing, on both backends; and
//! forgeries, each refused and named. Signatures are made and checked by OpenSSH itself where it matters.

#![cfg(test)]

mod scratch;
#[path = "../../ledger/tests/server/mod.rs"]
mod server;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crealeph_contracts::entry::Draft;
use crealeph_contracts::json::Limits;
use crealeph_contracts::scalar::TenantId;
use crealeph_ledger::{Ledger, LedgerOptions, Location};
use scratch::{Scratch, ended, known, line, request};
use serde_json::{Value, json};

const AGENT: &str = "[agents.\"example@1\"]\nkind = \"example\"\n";
const TWO: &str = "[[rule]]\nname = \"two\"\napprovals = 2\ngroup = \"maintainers\"\nos_requester = true\n";

/// A folder with a ledger, in which `ana` is the first admin and `ben`, `cy` and `dot` are maintainers.
struct World(Scratch);

impl World {
    fn new(ledger: &str) -> World {
        let world = World(Scratch::with_ledger(&format!("{AGENT}\n{ledger}")));
        for name in ["ana", "ben", "cy", "dot"] {
            world.ssh_keygen(&["-q", "-t", "ed25519", "-N", "", "-C", name, "-f", name]);
        }
        world.0.append(&known(1, &["idea"], ""));
        world
    }

    fn with_people(ledger: &str) -> World {
        let world = World::new(ledger);
        world.good(&["person", "add", "ana", "--key", "ana.pub", "--first-admin"]);
        for name in ["ben", "cy", "dot"] {
            let key = format!("{name}.pub");
            world.good(&[
                "person",
                "add",
                name,
                "--key",
                &key,
                "--group",
                "maintainers",
                "--sign-with",
                "ana",
            ]);
        }
        world
    }

    fn ssh_keygen(&self, args: &[&str]) {
        let mut command = Command::new("ssh-keygen");
        let run = command.args(args).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap();
        assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.0.command(args);
        command.env("HOME", self.0.path()).env_remove("SSH_AUTH_SOCK").stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> (i32, String, String) {
        ended(self.command(args).spawn().unwrap())
    }

    #[track_caller]
    fn good(&self, args: &[&str]) -> Value {
        let (code, stdout, stderr) = self.run(args);
        assert_eq!(code, 0, "{args:?}: {stderr}");
        serde_json::from_str(&stdout).unwrap_or(Value::Null)
    }

    #[track_caller]
    fn refused(&self, args: &[&str], said: &str) {
        let (code, _, stderr) = self.run(args);
        assert!(code == 1 && stderr.contains(said), "{args:?}: {code} {stderr}");
    }

    /// The ids of new drafts.
    fn drafts(&self, execution: &str) -> Vec<String> {
        let (_, answer) = self.0.build(&request(execution, "draft_only", false));
        let made = answer["artifacts"].as_array().unwrap_or_else(|| panic!("{answer}"));
        made.iter().map(|made| made["id"].as_str().unwrap().to_owned()).collect()
    }

    fn set_rules(&self, rules: &str) {
        self.0.write("rules.toml", rules);
        self.good(&["rule", "set", "rules.toml", "--sign-with", "ana"]);
    }

    /// Has a person sign a verdict on a draft with ssh-keygen: the files of the statement and of its signature.
    fn signed(&self, draft: &str, person: &str) -> (String, String) {
        let (statement, key) = (format!("{person}-{draft}.json"), format!("{person}.pub"));
        self.good(&["approve", draft, "--sign-with", &key, "--write-statement", &statement]);
        self.ssh_keygen(&["-q", "-Y", "sign", "-n", "crealeph-verdict", "-f", person, &statement]);
        let signature = format!("{statement}.sig");
        (statement, signature)
    }

    fn approve(&self, draft: &str, person: &str) -> Value {
        let (statement, signature) = self.signed(draft, person);
        self.good(&["approve", draft, "--statement", &statement, "--signature", &signature])
    }

    /// How many entries of a type are based on a draft.
    fn resting(&self, draft: &str, kind: &str, state: &str) -> usize {
        let (_, listed, _) = self.run(&["ledger", "list", "--type", kind, "--state", state]);
        let entries = listed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let rests = |entry: &Value| {
            let on = entry["lineage"]["dependsOnLedgerIds"].as_array().cloned();
            on.is_some_and(|ids| ids.contains(&Value::from(draft)))
        };
        entries.filter(rests).count()
    }
}

/// Two of three approve; the evidence of another draft goes stale between the two; eight processes race to land a third.
fn story(ledger: &str) {
    let world = World::with_people(ledger);
    world.set_rules(TWO);
    let drafts = world.drafts("e-1");
    let [first, second, third] = drafts.as_slice() else { panic!("{drafts:?}") };

    assert_eq!(world.approve(first, "ben")["missing"], 1);
    world.refused(&["approve", first, "--sign-with", "ben", "--write-statement", "x"], "already counts");
    world.refused(&["approve", first, "--sign-with", "ana", "--write-statement", "x"], "not in the group");
    let landed = world.approve(first, "cy");
    assert!(landed["landed"].is_string() && landed["planned"].is_string(), "{landed}");
    world.refused(&["approve", first, "--sign-with", "dot", "--write-statement", "x"], "landed already");

    let (ben, cy) = (world.signed(third, "ben"), world.signed(third, "cy"));
    let args = |files: &(String, String)| {
        ["approve", third, "--statement", &files.0, "--signature", &files.1].map(str::to_owned)
    };
    let racing: Vec<_> = (0..8)
        .map(|number| {
            let args = args(if number % 2 == 0 { &ben } else { &cy });
            world.command(&args.each_ref().map(String::as_str)).spawn().unwrap()
        })
        .collect();
    let codes: Vec<i32> = racing.into_iter().map(|child| ended(child).0).collect();
    assert!(codes.iter().filter(|code| **code == 0).count() >= 2, "{codes:?}");
    assert_eq!(world.resting(third, "landing", "landed"), 1);
    let kind = world.good(&["approval", "why", third])["type"].as_str().unwrap().to_owned();
    assert_eq!(world.resting(third, &kind, "planned"), 1);

    assert_eq!(world.approve(second, "ben")["missing"], 1);
    let signed = world.signed(second, "cy");
    world.0.append(&[line("signal", "signal-2", &[], "")]);
    let args = args(&signed).map(|word| word.replace(third.as_str(), second));
    world.refused(&args.each_ref().map(String::as_str), "a signal is newer than the one it rests on");
    let why = world.good(&["approval", "why", second]);
    assert_eq!(
        (&why["state"], &why["verdicts"][0]["code"]),
        (&json!("waiting"), &json!("outdated")),
        "{why}"
    );
    assert!(why["verdicts"][0]["renewal"].as_str().unwrap().contains("build again"), "{why}");

    let why = world.good(&["approval", "why", first]);
    assert_eq!(
        (&why["landing"]["wasFresh"], &why["landing"]["hadQuorum"]),
        (&json!(true), &json!(true)),
        "{why}"
    );
    assert_eq!(world.run(&["ledger", "verify"]).0, 0);
}

#[test]
fn two_of_three_approve_on_sqlite() {
    story("");
}

#[test]
fn two_of_three_approve_on_postgresql() {
    let server = server::Server::start();
    let database = server.database();
    story(&format!("[ledger]\nlocation = \"{}\"\nkeys = \"keys\"\n", server.url(&database)));
}

#[test]
fn of_several_first_admins_one_is_enrolled() {
    let world = World::new("");
    let racing: Vec<_> = ["ana", "ben", "cy", "dot"]
        .into_iter()
        .map(|name| {
            let key = format!("{name}.pub");
            world.command(&["person", "add", name, "--key", &key, "--first-admin"]).spawn().unwrap()
        })
        .collect();
    let codes: Vec<i32> = racing.into_iter().map(|child| ended(child).0).collect();
    assert_eq!(codes.iter().filter(|code| **code == 0).count(), 1, "{codes:?}");
    let (_, listed, _) = world.run(&["person", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert_eq!(world.run(&["ledger", "verify"]).0, 0);
}

#[test]
fn unsigned_verdicts_are_unproven_until_someone_is_enrolled_and_refused_afterwards() {
    let world = World::new("");
    let drafts = world.drafts("e-1");
    let [first, second, _] = drafts.as_slice() else { panic!("{drafts:?}") };
    let unproven = world.good(&["approve", first, "--by", "somebody"]);
    assert_eq!((&unproven["proven"], &unproven["missing"]), (&json!(false), &json!(0)));
    world.refused(&["approve", second, "--sign-with", "ben"], "no one is enrolled");
    world.good(&["person", "add", "ana", "--key", "ana.pub", "--first-admin"]);
    world.refused(&["approve", second, "--by", "somebody"], "proves nothing");
    world.refused(&["review", "approve", second, "--by", "somebody", "--reason", "x"], "proves nothing");
    world.good(&["person", "revoke", "ana", "--sign-with", "ana"]);
    world.refused(&["review", "reject", second, "--by", "somebody", "--reason", "x"], "proves nothing");
    world
        .refused(&["person", "add", "ben", "--key", "ben.pub", "--first-admin"], "already has a first admin");
    world.refused(&["person", "add", "ben", "--key", "ben.pub", "--sign-with", "ana"], "was revoked");
    assert_eq!(world.run(&["ledger", "verify"]).0, 0);
}

#[test]
fn what_was_changed_moved_or_signed_for_something_else_is_refused() {
    let world = World::with_people("");
    let drafts = world.drafts("e-1");
    let [first, second, _] = drafts.as_slice() else { panic!("{drafts:?}") };
    let (statement, signature) = world.signed(first, "ben");
    let (other, other_signature) = world.signed(second, "ben");
    let give = |statement: &str, signature: &str| {
        ["approve", first, "--statement", statement, "--signature", signature].map(str::to_owned)
    };
    let refused = |statement: &str, signature: &str, said: &str| {
        world.refused(&give(statement, signature).each_ref().map(String::as_str), said);
    };
    refused(&statement, &other_signature, "does not match");
    let read = |name: &str| std::fs::read_to_string(world.0.path().join(name)).unwrap();
    let (code, _, stderr) = world.run(&give(&other, &other_signature).each_ref().map(String::as_str));
    assert!(code == 2 && stderr.contains("not what this command is about"), "{stderr}");
    world.0.write("changed.json", &read(&statement).replace("\"person\":\"ben\"", "\"person\":\"cy\""));
    refused("changed.json", &signature, "not to `cy`");
    world.0.write("changed.json", &read(&statement).replace("\"unattended\":false", "\"unattended\":true"));
    refused("changed.json", &signature, "does not match");
    world.0.write("other.json", &read(&statement));
    world.ssh_keygen(&["-q", "-Y", "sign", "-n", "file", "-f", "ben", "other.json"]);
    refused("other.json", "other.json.sig", "namespace `file`");

    // A file of rules that no one set changes nothing, and one that is set lapses what was signed under another.
    world.0.write("rules.toml", TWO);
    assert_eq!(world.good(&["rule", "test", "rules.toml", "--limit", "1"])["rule"], "two");
    assert_eq!(world.run(&["rule", "show"]).1, "");
    world.refused(&["rule", "set", "rules.toml", "--sign-with", "ben"], "not in the group `admins`");
    world.set_rules(TWO);
    refused(&statement, &signature, "the rule was changed");
    world.refused(&["approve", first, "--yes", "--sign-with", "ben"], "unattended");
}

#[test]
fn what_an_account_asked_for_is_approved_only_if_the_rule_says_so() {
    let world = World::with_people("");
    let drafts = world.drafts("e-1");
    let waiting = world.run(&["inbox", "--limit", "1"]).1;
    let waiting: Value = serde_json::from_str(waiting.lines().next().unwrap()).unwrap();
    assert!(waiting["requester"].as_str().is_some_and(|asked| asked.contains('@')), "{waiting}");
    world.set_rules("[[rule]]\nname = \"proven\"\n");
    let first = &drafts[0];
    world.refused(&["approve", first, "--sign-with", "ben", "--write-statement", "x"], "os_requester = true");
    // A rejection ends it, no matter who asked.
    world.good(&["reject", first, "--reason", "no", "--yes", "--sign-with", "ben"]);
    world.set_rules("[[rule]]\nname = \"proven\"\nos_requester = true\n");
    assert!(world.approve(&drafts[1], "cy")["landed"].is_string());
}

#[test]
fn an_unattended_approval_counts_if_the_rule_says_so_and_a_rejection_ends_it() {
    let world = World::with_people("");
    world.set_rules("[[rule]]\nname = \"robots\"\nunattended = true\nos_requester = true\n");
    let drafts = world.drafts("e-1");
    let [first, second, third] = drafts.as_slice() else { panic!("{drafts:?}") };
    let landed = world.good(&["approve", first, "--yes", "--sign-with", "ben"]);
    assert!(landed["planned"].is_string(), "{landed}");
    world.good(&["reject", second, "--reason", "no", "--yes", "--sign-with", "cy"]);
    world.refused(&["approve", second, "--yes", "--sign-with", "ben"], "rejected already");
    let (_, waiting, _) = world.run(&["inbox"]);
    assert!(waiting.lines().count() == 1 && waiting.contains(third.as_str()), "{waiting}");
    let (_, listed, _) = world.run(&["review", "list"]);
    assert_eq!(listed.lines().count(), 1, "{listed}");
    // Without a terminal there is no one to ask.
    let (code, _, stderr) = world.run(&["approve", third, "--sign-with", "ben"]);
    assert!(code == 2 && stderr.contains("no terminal to ask on"), "{stderr}");
}

/// What was decided is left off the newest page, and a list of robots leaves off the tenant: neither is the end.
#[test]
fn what_is_left_off_a_page_does_not_end_the_list() {
    let world = World::with_people("");
    world.set_rules("[[rule]]\nname = \"robots\"\nunattended = true\nos_requester = true\n");
    let drafts = world.drafts("e-1");
    let [oldest, older, newest] = drafts.as_slice() else { panic!("{drafts:?}") };
    let subject_of = |word: &str| {
        world.good(&["approve", word, "--sign-with", "ben.pub", "--write-statement", "asked.json"]);
        let statement: Value = serde_json::from_str(&world.0.read("asked.json")).unwrap();
        std::fs::remove_file(world.0.path().join("asked.json")).unwrap();
        statement["subjectId"].as_str().unwrap().to_owned()
    };
    assert_eq!((&subject_of("@"), &subject_of("@-")), (newest, older));
    world.good(&["reject", "@", "--reason", "no", "--yes", "--sign-with", "ben"]);
    assert_eq!((&subject_of("@"), &subject_of("@-")), (older, oldest));
    world.good(&["reject", "@", "--reason", "no", "--yes", "--sign-with", "ben"]);
    assert_eq!(&subject_of("@"), oldest);
    assert_eq!(world.good(&["review", "show", "@"])["id"].as_str(), Some(oldest.as_str()));
    world.refused(&["review", "show", "@-"], "no entry `@-`");

    // The tenant's own entries sort before those of robot `r`.
    let (_, listed, noted) = world.run(&["robot", "list", "--limit", "1"]);
    assert!(listed.contains("\"robotId\":\"r\"") && noted.is_empty(), "{listed}{noted}");
    world.0.append(
        &known(2, &["idea"], "").iter().map(|line| line.replace("\"r\"", "\"s\"")).collect::<Vec<_>>(),
    );
    let (_, _, noted) = world.run(&["robot", "list", "--limit", "1"]);
    assert!(noted.contains("there are more robots: add --after r"), "{noted}");

    let (_, listed, noted) = world.run(&["rule", "test", "--limit", "2"]);
    assert!(listed.lines().count() == 2 && noted.contains("older ones left out"), "{listed}{noted}");
    // The last is more than the ledger puts on one page.
    for limit in ["3", "1000", "5000"] {
        let (code, listed, noted) = world.run(&["rule", "test", "--limit", limit]);
        assert!(code == 0 && listed.lines().count() == 3 && noted.is_empty(), "{listed}{noted}");
    }
    let (code, _, refused) = world.run(&["rule", "test", "--limit", "0"]);
    assert!(code == 2 && refused.contains("0 is not in 1.."), "{refused}");
}

#[test]
// holds: invariant 20
fn what_the_operator_of_the_ledger_made_up_does_not_count() {
    let world = World::with_people("");
    world.set_rules(TWO);
    let drafts = world.drafts("e-1");
    let draft = drafts.first().unwrap();
    world.approve(draft, "ben");
    let (statement, _) = world.signed(draft, "cy");
    let (_, others) = world.signed(drafts.last().unwrap(), "cy");
    let read = |name: &str| std::fs::read_to_string(world.0.path().join(name)).unwrap();
    let statement: Value = serde_json::from_str(&read(&statement)).unwrap();
    let forged = json!({
        "robotId": "crealeph-tenant", "module": "crealeph-approvals", "source": "person", "type": "verdict",
        "state": "approve", "key": format!("crealeph:nonce:{}", statement["nonce"].as_str().unwrap()),
        "payload": { "statement": statement, "proof": "ssh", "signature": read(&others) },
        "lineage": { "dependsOnLedgerIds": [draft] },
    });
    let location = Location::File(world.0.path().join(".crealeph/ledger.db"));
    let ledger = Ledger::open(&location, LedgerOptions::default()).unwrap();
    let entry = Draft::parse(forged.to_string().as_bytes(), &Limits::default()).unwrap();
    ledger.append_as(&TenantId::parse("local").unwrap(), vec![(None, entry)]).unwrap();
    drop(ledger);
    let why = world.good(&["approval", "why", draft]);
    assert_eq!(
        (&why["state"], &why["verdicts"][1]["code"]),
        (&json!("waiting"), &json!("disbelieved")),
        "{why}"
    );
    let (code, stdout, stderr) = world.run(&["ledger", "verify"]);
    assert!(code == 1 && stdout.contains("forged") && stdout.contains("does not match"), "{stdout}{stderr}");
}

/// What `approve` records is checked by OpenSSH from an export alone; the root is pinned or called unproven.
#[test]
fn an_auditor_needs_an_export_and_the_root_s_fingerprint() {
    let world = World::with_people("");
    let drafts = world.drafts("e-1");
    let draft = drafts.first().unwrap();
    world.approve(draft, "cy");
    let (_, export, _) = world.run(&["ledger", "export"]);
    world.0.write("log.export", &export);
    let list = world.run(&["person", "list"]).1;
    let first: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    let root = first["keys"][0]["keyId"].as_str().unwrap();
    let from = ["approval", "why", draft, "--from", "log.export", "--statements", "signed"];
    assert_eq!(world.good(&from)["rootState"], "unproven");
    let (_, _, stderr) = world.run(&from);
    assert!(stderr.contains("root unproven"), "{stderr}");
    assert_eq!(world.good(&[&from[..], &["--root", root]].concat())["rootState"], "pinned");
    world.refused(&[&from[..], &["--root", "SHA256:other"]].concat(), "not on the one given");
    let verdict = world.good(&from)["verdicts"][0]["entry"].as_str().unwrap().to_owned();
    assert!(is_verified(&world.0.path().join("signed"), &verdict, "cy"));
    assert!(!is_verified(&world.0.path().join("signed"), &verdict, "ben"));
}

fn is_verified(folder: &Path, verdict: &str, person: &str) -> bool {
    let statement = std::fs::File::open(folder.join(format!("{verdict}.json"))).unwrap();
    let mut command = Command::new("ssh-keygen");
    command.args(["-Y", "verify", "-f", "allowed_signers", "-I", person, "-n", "crealeph-verdict", "-s"]);
    command.arg(format!("{verdict}.json.sig")).current_dir(folder).stdin(statement);
    command.output().unwrap().status.success()
}

/// A key with a passphrase signs through ssh-agent, and only through it.
#[test]
// holds: invariant 21
fn a_key_with_a_passphrase_signs_through_the_agent() {
    let world = World::new("");
    world.ssh_keygen(&["-q", "-t", "ecdsa", "-N", "", "-C", "eve", "-f", "eve"]);
    let socket = world.0.path().join("agent");
    let agent = Command::new("ssh-agent").args(["-D", "-a"]).arg(&socket).stdout(Stdio::null()).spawn();
    let mut agent = agent.unwrap();
    scratch::wait_until("the agent listens", || socket.exists());
    let with_agent = |mut command: Command| ended(command.env("SSH_AUTH_SOCK", &socket).spawn().unwrap());
    let mut add = Command::new("ssh-add");
    add.args(["-q", "eve"]).current_dir(world.0.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (code, _, stderr) = with_agent(add);
    assert_eq!(code, 0, "{stderr}");
    world.ssh_keygen(&["-q", "-p", "-P", "", "-N", "secret", "-f", "eve"]);
    let first = ["person", "add", "eve", "--key", "eve.pub", "--first-admin"];
    let (code, _, stderr) = world.run(&first);
    assert!(code == 2 && stderr.contains("ssh-add"), "{stderr}");
    let (code, _, stderr) = with_agent(world.command(&first));
    assert_eq!(code, 0, "{stderr}");
    // Once it is enrolled it is found without being named.
    let (code, _, stderr) = with_agent(world.command(&["person", "add", "ben", "--key", "ben.pub"]));
    assert_eq!(code, 0, "{stderr}");
    agent.kill().unwrap();
    agent.wait().unwrap();
    let (code, _, stderr) = with_agent(world.command(&["person", "add", "cy", "--key", "cy.pub"]));
    assert!(code == 2 && stderr.contains("ssh-agent failed"), "{stderr}");
}

/// Killed anywhere between the last approval and the landing, a draft lands once, by whatever is run next.
#[test]
// holds: invariant 20
fn killed_at_any_moment_a_draft_lands_once() {
    const KILLS: u64 = 42;
    let world = World::with_people("");
    let mut drafts = Vec::new();
    for number in 0..KILLS.div_ceil(3) {
        drafts.extend(world.drafts(&format!("e-{number}")));
    }
    let mut landed_at_once = 0;
    for (draft, number) in drafts.iter().zip(0..KILLS) {
        let (statement, signature) = world.signed(draft, "ben");
        let args = ["approve", draft, "--statement", &statement, "--signature", &signature];
        let mut child = world.command(&args).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(number * 6));
        child.kill().unwrap();
        child.wait().unwrap();
        landed_at_once += world.resting(draft, "landing", "landed");
        // The verdict may be there or not, and so may the landing.
        let (code, _, stderr) = world.run(&args);
        assert!(code == 0 || stderr.contains("landed already"), "{number}: {stderr}");
        assert_eq!(world.resting(draft, "landing", "landed"), 1, "after {number} times 6 ms");
        assert_eq!(world.good(&["approval", "why", draft])["state"], "landed");
    }
    assert!(landed_at_once < drafts.len(), "no kill came before the landing");
    assert_eq!(world.run(&["ledger", "verify"]).0, 0);
}
