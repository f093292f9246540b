//! Commands that look at runs print of a server what they print in the workspace that it was started in; of runs that were reported from
//! elsewhere they print what the ledger has.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::scratch::signal;
use crate::world::{AGENTS, Ran, World, item, item_with, ran};

/// A server that was started in a workspace.
struct Served {
    world: World,
    url: String,
    child: Child,
}

impl Served {
    fn start(world: World) -> Served {
        let log = std::fs::File::create(world.outside().join("server.log")).unwrap();
        let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap();
        Served { world, url: said["url"].as_str().unwrap().to_owned(), child }
    }

    fn key(&self, tenant: &str, role: &str) -> String {
        let made =
            ran(&self.world.crealeph(&["key", "create", "--json", "--tenant", tenant, "--role", role]));
        made.lines[0]["token"].as_str().unwrap_or_else(|| panic!("{}", made.stderr)).to_owned()
    }

    /// Asks the server from another machine.
    fn ask(&self, from: &World, key: &str, args: &[&str]) -> (i32, String, String) {
        let mut command = from.command(&[&["--server", &self.url][..], args].concat());
        printed(&command.env("CREALEPH_SERVER_KEY", key).output().unwrap())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        signal(&self.child, "-KILL");
        self.child.wait().unwrap();
    }
}

fn printed(output: &std::process::Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

/// Every line prints the same here and there. `ID` is the id of the newest run, `START` the start of it.
const COMMANDS: &str = "
work status --text
work status --json
work status --text --status denied
work status --json --status failure --status success
work status --text --status held
work status --text --status timeout
work show slow --text
work status --text --agent two
work show --text
work show @- --text
work show START --text
work show fine --text
work show fine --diff
work show none --text
work diff fine
work diff ID --raw
work diff empty --text
work logs fine
work logs fine --json
work logs fine --tests --text
work logs empty --text
";

/// What a command prints that depends on where it runs: how long ago it was, where the receipt is, what to type next.
fn without_place(text: &str) -> String {
    let kept =
        text.lines().filter(|line| !["  receipt  ", "  next     "].iter().any(|it| line.starts_with(it)));
    let kept: Vec<String> = kept
        .map(|line| match line.split_once(", started ") {
            Some((start, _)) => start.to_owned(),
            None => line.split_whitespace().filter(|word| !is_age(word)).collect::<Vec<_>>().join(" "),
        })
        .collect();
    kept.join("\n")
}

fn is_age(word: &str) -> bool {
    word.strip_suffix(['s', 'm']).is_some_and(|number| number.parse::<u32>().is_ok())
}

#[test]
fn runs_of_a_server_are_shown_as_in_its_own_workspace() {
    let world = World::with(AGENTS);
    world.write("a.txt", "one\n");
    let tests = json!({ "test_command": "echo checked" });
    let fine = world.run_one(item_with("fine", "echo four >> a.txt; echo said; echo oops >&2", tests));
    assert_eq!(fine["status"], json!("success"));
    let bounds = json!({ "constraints": { "max_files": 1 } });
    assert_eq!(world.run_one(item_with("wide", "touch b c", bounds))["status"], json!("denied"));
    world.run_one(item_with("broken", "touch d", json!({ "test_command": "false" })));
    // A receipt does not distinguish that from another failure; the workspace does.
    let slow = item_with("slow", "sleep 60", json!({ "constraints": { "timeout_ms": 300 } }));
    assert_eq!(world.run_one(slow)["status"], json!("timeout"));
    world.run_one(item("empty", "true"));
    let run = world.run_one(item("last", "echo five >> a.txt"))["receipt_id"].as_str().unwrap().to_owned();
    let served = Served::start(world);
    let (reader, other) = (served.key("local", "reader"), served.key("other", "reader"));
    let elsewhere = World::with("");

    for line in COMMANDS.lines().filter(|line| !line.is_empty()) {
        let line = line.replace("ID", &run).replace("START", run.split_at(30).0);
        let args: Vec<&str> = line.split(' ').collect();
        let (code, here, said_here) = printed(&served.world.crealeph(&args));
        let (asked, there, said_there) = served.ask(&elsewhere, &reader, &args);
        assert_eq!(
            (asked, without_place(&there)),
            (code, without_place(&here)),
            "{args:?}: {said_here}{said_there}"
        );
        let first = |said: &str| said.lines().next().unwrap_or_default().to_owned();
        assert_eq!(first(&said_there), first(&said_here), "{args:?}");
    }
    // A program gets the server's own document.
    let (_, shown, stderr) = served.ask(&elsewhere, &reader, &["work", "show", "fine", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{stderr}"));
    assert_eq!((&shown["outcome"], &shown["tests"]["passed"]), (&json!("success"), &Value::Null), "{shown}");
    let (_, page, _) = served.ask(&elsewhere, &reader, &["work", "show", "--text"]);
    assert!(page.contains(&format!("crealeph --server {} work diff", served.url)), "{page}");

    // Another tenant sees none of it, and a workspace is not needed with a server.
    let (code, none, _) = served.ask(&elsewhere, &other, &["work", "status", "--text"]);
    assert_eq!((code, none.as_str()), (0, "no run yet\n"));
    for command in ["show", "logs", "diff", "verify"] {
        let (code, _, stderr) = served.ask(&elsewhere, &other, &["work", command, &run, "--text"]);
        assert!(code == 1 && stderr.contains("no run"), "{command}: {stderr}");
    }
    let (code, _, stderr) = served.ask(&elsewhere, &reader, &["work", "show", "--workspace", "x"]);
    assert!(code == 2 && stderr.contains("--workspace"), "{stderr}");
    // The variable alone leaves the command in the workspace.
    let mut here = served.world.command(&["work", "show", &run, "--text"]);
    let (code, page, stderr) = printed(&here.env("CREALEPH_SERVER", "http://127.0.0.1:9").output().unwrap());
    assert!(code == 0 && page.contains("RECEIPT.json"), "{stderr}");

    receipts_are_checked_here(&served, &elsewhere, &reader, &run);
    reported_runs_are_shown(&served, &elsewhere, &reader);
}

/// With a saved key the receipt is checked on this machine; without one the server says who signed.
fn receipts_are_checked_here(served: &Served, elsewhere: &World, reader: &str, run: &str) {
    let verify =
        |more: &[&str]| served.ask(elsewhere, reader, &[&["work", "verify", "@", "--text"], more].concat());
    let (code, _, stderr) = verify(&[]);
    assert!(code == 2 && stderr.contains("signer add"), "{stderr}");
    elsewhere.write("saved.key", &printed(&served.world.crealeph(&["work", "key"])).1);
    let (code, checked, stderr) = verify(&["--key", "saved.key"]);
    assert!(code == 0 && checked.starts_with(&format!("receipt {run} by agent-1: succeeded")), "{stderr}");
    assert!(
        checked.contains("chain      not checked") && checked.contains("files      1, not checked"),
        "{checked}"
    );
    elsewhere.write("clone/a.txt", &served.world.read("a.txt"));
    let (code, checked, stderr) = verify(&["--key", "saved.key", "--files", "clone"]);
    assert!(code == 0 && checked.contains("files      1, as in that folder"), "{stderr}");
    elsewhere.write("clone/a.txt", "other\n");
    assert_eq!(verify(&["--key", "saved.key", "--files", "clone"]).0, 1);
    elsewhere.write("other.key", &printed(&elsewhere.crealeph(&["work", "key"])).1);
    assert_eq!(verify(&["--key", "other.key"]).0, 1, "another's key");
    let (code, _, stderr) = verify(&["--key", "saved.key", "--head", &"0".repeat(64)]);
    assert!(code == 2 && stderr.contains("--head"), "{stderr}");
    std::fs::copy(elsewhere.at("saved.key"), served.world.outside().join("own.key")).unwrap();
    let file = served.world.outside().join("own.key");
    let enrolled = ran(&served.world.crealeph(&["signer", "add", file.to_str().unwrap()]));
    assert_eq!(enrolled.code, 0, "{}", enrolled.stderr);
    let (code, checked, stderr) = verify(&[]);
    assert!(code == 0 && checked.contains("signed by  crealeph-workspace/"), "{stderr}");
    assert!(stderr.contains("give --key"), "{stderr}");
}

/// A run that another machine reported: its page, diff and logs come from the ledger.
fn reported_runs_are_shown(served: &Served, elsewhere: &World, reader: &str) {
    let operator = served.key("local", "operator");
    let world = World::with(AGENTS);
    world.write("a.txt", "one\n");
    std::fs::write(served.world.outside().join("dev.key"), world.crealeph(&["work", "key"]).stdout).unwrap();
    let file = served.world.outside().join("dev.key");
    let enrolled = ran(&served.world.crealeph(&["signer", "add", file.to_str().unwrap()]));
    assert_eq!(enrolled.code, 0, "{}", enrolled.stderr);
    let items = world.items(&[item("far", "echo two >> a.txt; echo far away")]);
    let mut command = world.command(&["work", "run", &items, "--report-to", &served.url]);
    let far: Ran = ran(&command.env("CREALEPH_SERVER_KEY", &operator).output().unwrap());
    assert_eq!(far.code, 0, "{}", far.stderr);
    let ask = |args: &[&str]| served.ask(elsewhere, reader, args);
    let (_, listed, stderr) = ask(&["work", "status", "--text", "--limit", "1"]);
    assert!(listed.contains("success") && listed.contains("far"), "{listed}{stderr}");
    assert!(stderr.contains("--limit"), "{stderr}");
    let (code, page, stderr) = ask(&["work", "show", "--text"]);
    assert!(code == 0 && page.starts_with("far, run ") && page.contains("a.txt +1 -0"), "{page}{stderr}");
    assert_eq!(ask(&["work", "diff", "far"]).1, printed(&world.crealeph(&["work", "diff", "far"])).1);
    for form in ["--text", "--json"] {
        let args = ["work", "logs", "far", form];
        assert_eq!(ask(&args).1, printed(&world.crealeph(&args)).1);
    }
    let (code, checked, stderr) = ask(&["work", "verify", "far", "--json"]);
    let checked: Value = serde_json::from_str(&checked).unwrap_or_else(|_| panic!("{stderr}"));
    assert_eq!((code, &checked["id"]), (0, &far.of("far")["receipt_id"]), "{checked}");
}
