//! A change that was paid for is judged again, without its agent: under other bounds, or by its tests once more (R34).

use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::gate::Gate;
use crate::many::{signal, wait_until};
use crate::world::{AGENTS, Ran, World, item, item_with, ran};

const CAPSULE: &str = "capsule.pack";

pub(crate) fn retry(world: &World, run: &Value, flags: &[&str]) -> Ran {
    ran(&world.crealeph(&[&["work", "retry", run["receipt_id"].as_str().unwrap()], flags].concat()))
}

/// Retries a run that cannot be, and gives what was said about it.
fn refused(world: &World, run: &Value, flags: &[&str]) -> String {
    let before = world.read(".crealeph/runs/journal.jsonl");
    let again = retry(world, run, flags);
    assert_eq!((again.code, again.lines.len()), (1, 0), "{} {:?}", again.stderr, again.lines);
    assert_eq!(world.read(".crealeph/runs/journal.jsonl"), before, "nothing was run");
    again.stderr
}

/// How often an agent that prints `called` was called.
pub(crate) fn calls(world: &World) -> usize {
    let runs = fs::read_dir(world.at(".crealeph/runs")).unwrap();
    let printed = runs.filter_map(|run| fs::read_to_string(run.unwrap().path().join("stdout.txt")).ok());
    printed.map(|text| text.matches("called\n").count()).sum()
}

pub(crate) fn has_capsule(world: &World, line: &Value) -> bool {
    let run = line["receipt_id"].as_str().unwrap();
    world.at(".crealeph/runs").join(run).join(CAPSULE).exists()
}

#[test]
fn a_denied_change_lands_under_a_larger_bound_without_its_agent() {
    let world = World::new();
    let before = world.state();
    let script = "echo called; echo '{\"tool\":\"t\"}' >> $CREALEPH_TRACE; echo x > x; chmod +x x; ln -s a.txt l; rm src/b.txt";
    let bounds = json!({ "constraints": { "max_files": 2 }, "test_command": "test -x x && test -L l" });
    let denied = world.run_one(item_with("w", script, bounds));
    assert_eq!(denied["denial_reason"], "Exceeded max files: 3 > 2");
    assert_eq!(world.state(), before);
    let again = retry(&world, &denied, &[]);
    assert_eq!((again.code, &again.lines[0]["denial_reason"]), (1, &denied["denial_reason"]));
    let landed = retry(&world, &denied, &["--max-files", "3"]);
    assert_eq!(landed.code, 0, "{} {:?}", landed.stderr, landed.lines);
    let line = &landed.lines[0];
    world.check(line);
    assert_eq!((&line["id"], &line["status"]), (&json!("w"), &json!("success")));
    assert_eq!(line["metrics"]["tool_ops_count"], 1);
    assert_eq!(calls(&world), 1);
    assert!(world.at("x").exists() && world.at("l").is_symlink() && !world.at("src/b.txt").exists());
    let receipt = world.receipt(line);
    let first = world.receipt(&denied);
    assert_eq!(
        receipt["earlier_run"],
        json!({ "relation": "retry_of", "run": denied["receipt_id"], "hash": first["receipt_hash"] })
    );
    let replayed = world.crealeph(&["work", "replay", line["receipt_id"].as_str().unwrap()]);
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
    // What has succeeded is not done twice; neither the first nor the second try of it.
    for earlier in [&denied, &again.lines[0]] {
        assert!(refused(&world, earlier, &["--max-files", "9"]).contains("has succeeded since"));
    }
    assert!(refused(&world, line, &[]).contains("it succeeded"));
}

/// The page about a run, as a person sees it.
fn page(world: &World, run: &str) -> String {
    let output = world.command(&["work", "show", run]).env("CREALEPH_OUTPUT", "text").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_of_a_retry_names_the_first_run_in_every_state() {
    let gate = Gate::new();
    let world = World::with(&gate.agents());
    let denied =
        world.run_one(item_with("w", "echo x > x; echo y > y", json!({ "constraints": { "max_files": 1 } })));
    let first = denied["receipt_id"].as_str().unwrap();
    let named = format!("  retry of {}", first.get(..13).unwrap());
    assert!(!page(&world, first).contains("retry of"));
    let arguments = ["work", "retry", first, "--max-files", "2", "--test", &gate.wait()];
    let mut again = world.command(&arguments).stdout(Stdio::null()).spawn().unwrap();
    wait_until(&world, "w", "running");
    let running = page(&world, "@");
    assert!(running.contains(": running, started") && running.contains(&named), "{running}");
    assert!(running.contains("  next     crealeph work logs ") && running.contains(" -f\n"), "{running}");
    signal(again.id(), "KILL");
    again.wait().unwrap();
    let unsettled = page(&world, "@");
    assert!(unsettled.contains(": unsettled, started") && unsettled.contains(&named), "{unsettled}");
    assert!(unsettled.ends_with("  next     crealeph work recover\n"), "{unsettled}");
    assert!(world.crealeph(&["work", "recover"]).status.success());
    let recovered = page(&world, "@");
    assert!(recovered.contains(": interrupted, started") && recovered.contains(&named), "{recovered}");
    assert!(recovered.contains("  receipt  .crealeph/runs/"), "{recovered}");
    let newest = ran(&world.crealeph(&["work", "status"])).lines[0]["run"].as_str().unwrap().to_owned();
    let receipt: Value =
        serde_json::from_str(&world.read(&format!(".crealeph/runs/{newest}/RECEIPT.json"))).unwrap();
    assert_eq!(
        receipt["earlier_run"],
        json!({ "relation": "retry_of", "run": first, "hash": world.receipt(&denied)["receipt_hash"] })
    );
    assert_eq!(ran(&world.crealeph(&["work", "verify", "@"])).code, 0);
    let landed = retry(&world, &denied, &["--max-files", "2"]);
    assert_eq!(landed.code, 0, "{} {:?}", landed.stderr, landed.lines);
    let undone = world.crealeph(&["work", "undo", "@"]);
    assert!(undone.status.success(), "{undone:?}");
    let landed = landed.lines[0]["receipt_id"].as_str().unwrap();
    assert!(page(&world, "@").contains(&format!("  undoes   {}", landed.get(..13).unwrap())));
}

#[test]
fn failed_tests_are_run_again_or_replaced() {
    let world = World::new();
    // The tests look at what is not part of the change: an ignored file.
    world.write(".gitignore", "switch\n");
    let script = "echo called; echo n > n";
    let failed = world.run_one(item_with("w", script, json!({ "test_command": "test -e switch" })));
    assert!(failed["error"].as_str().unwrap().starts_with("Tests failed"), "{failed}");
    let again = retry(&world, &failed, &[]);
    assert_eq!((again.code, &again.lines[0]["status"]), (1, &json!("failure")));
    world.write("switch", "on");
    let landed = retry(&world, &failed, &[]);
    assert_eq!(landed.code, 0, "{} {:?}", landed.stderr, landed.lines);
    world.check(&landed.lines[0]);
    let other =
        world.run_one(item_with("o", "echo called; echo o > o", json!({ "test_command": "tset -e o" })));
    let landed = retry(&world, &other, &["--test", "test -e o"]);
    assert_eq!(landed.code, 0, "{} {:?}", landed.stderr, landed.lines);
    assert_eq!(calls(&world), 2);
}

#[test]
fn only_what_other_bounds_could_admit_is_kept() {
    let world = World::with(
        &format!("{AGENTS}\nenv = {{}}\nsecrets = [\"TOKEN\"]\n\n[work.agents.two.paths]\nmax_tests = 0\n")
            .replace("env = {}\nsecrets", "secrets"),
    );
    world.write("a.txt", "one\n");
    let run = |agent: &str, script: &str, more: Value| {
        let mut item = item_with("w", script, more);
        item["id"] = json!(format!("w-{}", script.len()));
        item["agent_id"] = json!(agent);
        let path = world.items(&[item]);
        let output = world.command(&["work", "run", &path]).env("TOKEN", "a-long-secret").output().unwrap();
        let ran = ran(&output);
        ran.lines.into_iter().next().unwrap_or_else(|| panic!("{}", ran.stderr))
    };
    let small = json!({ "constraints": { "max_files": 0 } });
    for (agent, script, more, reason) in [
        ("agent-1", "echo 1 > 1", small.clone(), "Exceeded max files"),
        (
            "agent-1",
            "echo '{\"tool\":\"t\"}' >> $CREALEPH_TRACE; echo 1 > 1; sleep 100",
            json!({ "constraints": { "max_tool_ops": 0 } }),
            "Exceeded max tool ops",
        ),
        (
            "agent-1",
            "echo 1 > 1; echo 2 > 2",
            json!({ "constraints": { "max_delta_size": 1 } }),
            "Exceeded max delta size",
        ),
        (
            "agent-1",
            "mkdir -p .github/workflows; echo 1 > .github/workflows/ci.yml",
            json!({}),
            "Denied path",
        ),
        ("agent-2", "mkdir tests; echo 1 > tests/t", json!({}), "Exceeded max delta size of Q"),
    ] {
        let line = run(agent, script, more);
        assert!(line["denial_reason"].as_str().is_some_and(|why| why.starts_with(reason)), "{line}");
        assert!(has_capsule(&world, &line), "{line}");
        world.check(&line);
    }
    for (agent, script, more, reason) in [
        ("agent-3", "printf %s $TOKEN > leaked", small, "Secret in change"),
        ("agent-1", "mkfifo pipe", json!({}), "a state cannot contain: `pipe` is a FIFO"),
        ("agent-1", "echo x > .env", json!({}), "Hidden path"),
        ("agent-1", "echo x > x; exit 3", json!({}), "exit code 3"),
        ("agent-1", "sleep 100", json!({ "constraints": { "timeout_ms": 200 } }), "Timed out"),
        ("agent-1", "true", json!({ "output_files": ["none"] }), "Missing output files"),
    ] {
        let line = run(agent, script, more);
        let why = line["denial_reason"].as_str().or(line["error"].as_str()).unwrap_or("success");
        assert!(why.contains(reason), "{line}");
        assert!(!has_capsule(&world, &line), "{line}");
        let said = refused(&world, &line, &["--max-files", "9"]);
        assert!(said.contains("a change is kept only if"), "{said}");
    }
}

#[test]
fn a_path_is_opened_by_the_configuration_and_by_nothing_else() {
    let world = World::new();
    let ci = world.run_one(item("ci", "mkdir -p .github/workflows; echo on > .github/workflows/ci.yml"));
    assert!(has_capsule(&world, &ci));
    let denied = retry(&world, &ci, &["--max-protected", "9"]);
    assert_eq!(denied.lines[0]["denial_reason"], "Denied path: .github/workflows/ci.yml");
    world.write(
        "crealeph.toml",
        &AGENTS.replacen("{prompt}\"]\n", "{prompt}\"]\npaths = { allow_protected = true }\n", 1),
    );
    let landed = retry(&world, &ci, &[]);
    assert_eq!(landed.code, 0, "{} {:?}", landed.stderr, landed.lines);
    assert_eq!(world.read(".github/workflows/ci.yml"), "on\n");
    // A file that has since become one that defines grants.
    let script =
        world.run_one(item_with("s", "echo x > agent.sh", json!({ "constraints": { "max_files": 0 } })));
    world.write(
        "crealeph.toml",
        &format!("{AGENTS}\n[work.agents.four]\nagent_id = \"agent-4\"\ncommand = [\"sh\", \"agent.sh\"]\n"),
    );
    let denied = retry(&world, &script, &["--max-files", "9"]);
    assert_eq!(denied.lines[0]["denial_reason"], "Denied path: agent.sh", "{}", denied.stderr);
    assert!(!world.at("agent.sh").exists());
}

#[test]
fn a_change_is_kept_up_to_its_bounds_and_not_one_past() {
    let world = World::with(&format!("[work.capsules]\nmax_files = 2\nmax_bytes = 10\n{AGENTS}"));
    let run = |id: &str, script: &str| {
        world.run_one(item_with(id, script, json!({ "constraints": { "max_files": 0 } })))
    };
    let kept = run("at", "printf 12345 > a; printf 67890 > b");
    assert_eq!(retry(&world, &kept, &["--max-files", "2"]).code, 0);
    let many = run("files", "echo > a1; echo > a2; echo > a3");
    let large = run("bytes", "printf 12345678901 > large");
    let exact = run("exact", "printf 1234567890 > large; rm -f a");
    assert!(has_capsule(&world, &exact));
    for line in [&many, &large] {
        assert!(!has_capsule(&world, line));
        let why = refused(&world, line, &["--max-files", "9"]);
        assert!(why.contains("too large") && why.contains("at most 2 files and 10 bytes"), "{why}");
        world.check(line);
    }
}

#[test]
fn the_oldest_capsules_are_deleted_first() {
    let world = World::new();
    let run =
        |id: &str| world.run_one(item_with(id, "echo x > x", json!({ "constraints": { "max_files": 0 } })));
    let (first, second) = (run("first"), run("second"));
    let folder = world.at(".crealeph/runs").join(second["receipt_id"].as_str().unwrap());
    let bytes = fs::metadata(folder.join(CAPSULE)).unwrap().len();
    // Room for one of them and nearly a second one.
    let limits = format!("[work.capsules]\nmax_total_bytes = {}\n{AGENTS}", bytes * 2 - 9);
    world.write("crealeph.toml", &limits);
    let third = run("third");
    let kept: Vec<bool> = [&first, &second, &third].iter().map(|line| has_capsule(&world, line)).collect();
    assert_eq!(kept, [false, false, true]);
    [&first, &second, &third].iter().for_each(|line| world.check(line));
    assert_eq!(retry(&world, &third, &["--max-files", "1"]).code, 0);
}

#[test]
fn a_capsule_expires_and_is_cleaned() {
    let world = World::new();
    let small = json!({ "constraints": { "max_files": 0 } });
    let denied = world.run_one(item_with("w", "echo x > x", small));
    let clean = |flags: &[&str]| {
        let cleaned = ran(&world.crealeph(&[&["work", "clean"], flags].concat()));
        assert_eq!(cleaned.code, 0, "{}", cleaned.stderr);
        cleaned.lines[0]["capsules"].clone()
    };
    assert_eq!(clean(&[]), 0, "it is not old");
    world.write("crealeph.toml", &format!("[work.capsules]\nkeep_days = 0\n{AGENTS}"));
    assert!(refused(&world, &denied, &["--max-files", "1"]).contains("0 days"));
    assert_eq!((clean(&["--dry-run"]), has_capsule(&world, &denied)), (json!(1), true));
    assert_eq!((clean(&[]), has_capsule(&world, &denied)), (json!(1), false));
    assert_eq!(clean(&[]), 0);
    world.check(&denied);
    assert!(!world.crealeph(&["work", "diff", "w"]).stdout.is_empty(), "the diff stays");
    world.write("crealeph.toml", AGENTS);
    assert!(refused(&world, &denied, &["--max-files", "1"]).contains("work clean"));
    world.run_one(item("newest", "echo n > n"));
    clean(&["--keep", "1"]);
    world.check(&denied);
}

#[test]
fn what_was_altered_is_not_judged() {
    let world = World::new();
    let denied = world.run_one(item_with("w", "echo good > x", json!({ "constraints": { "max_files": 0 } })));
    let path = world.at(".crealeph/runs").join(denied["receipt_id"].as_str().unwrap()).join(CAPSULE);
    let kept = fs::read(&path).unwrap();
    let text = String::from_utf8(kept.clone()).unwrap();
    let other = [
        text.replace("good\n", "evil\n"),
        text.replace("\"max_files\":0", "\"max_files\":9"),
        format!("{text}x"),
        text.trim_end().to_owned(),
        String::new(),
    ];
    for altered in other {
        fs::write(&path, altered).unwrap();
        assert!(refused(&world, &denied, &["--max-files", "1"]).contains("altered since"));
    }
    fs::write(&path, kept).unwrap();
    assert_eq!(retry(&world, &denied, &["--max-files", "1"]).code, 0);
    assert_eq!(world.read("x"), "good\n");
}

#[test]
fn a_retry_merges_with_other_files_and_names_those_in_the_way() {
    let world = World::new();
    let small = json!({ "constraints": { "max_files": 0 }, "test_command": "test ! -e red" });
    let denied = world.run_one(item_with("w", "echo w >> a.txt; echo n > n", small));
    world.write("src/b.txt", "edited\n");
    let moved = world.run_one(item("other", "echo o >> a.txt"));
    let said = refused(&world, &denied, &["--max-files", "2"]);
    let other = world.short(&moved["receipt_id"]);
    assert!(said.contains(&format!("`a.txt` was changed by run `{other}`")), "{said}");
    assert!(!said.contains("src/b.txt") && said.contains("work undo"), "{said}");
    world.write("a.txt", "by hand\n");
    world.write("n", "there\n");
    let said = refused(&world, &denied, &["--max-files", "2"]);
    assert!(said.contains("`n` was changed by hand") && said.contains("restore the files"), "{said}");
    world.write("a.txt", "one\ntwo\nthree\n");
    fs::remove_file(world.at("n")).unwrap();
    // Where other files moved it is tested on what is there now.
    world.write("red", "r");
    let red = retry(&world, &denied, &["--max-files", "2"]);
    assert!(red.lines[0]["error"].as_str().unwrap().starts_with("Tests failed"), "{:?}", red.lines);
    fs::remove_file(world.at("red")).unwrap();
    let landed = retry(&world, &denied, &["--max-files", "2"]);
    assert_eq!(landed.code, 0, "{} {:?}", landed.stderr, landed.lines);
    assert_eq!(
        (world.read("a.txt").as_str(), world.read("src/b.txt").as_str()),
        ("one\ntwo\nthree\nw\n", "edited\n")
    );
}

#[test]
fn a_retry_goes_where_the_first_run_was_to_go() {
    let world = World::new();
    world.init_git();
    let small = json!({ "constraints": { "max_files": 0 } });
    let to_branch = ["--publish", "branch:agents/x"];
    let denied = world.run(&[item_with("w", "echo w >> a.txt", small.clone())], &to_branch);
    let landed = retry(&world, denied.of("w"), &["--max-files", "1"]);
    assert_eq!(landed.code, 0, "{} {:?}", landed.stderr, landed.lines);
    world.check(&landed.lines[0]);
    assert_eq!(world.git(&["show", "agents/x:a.txt"]), "one\ntwo\nthree\nw\n");
    assert_eq!(
        (world.git(&["status", "--porcelain"]), world.read("a.txt")),
        (String::new(), "one\ntwo\nthree\n".into())
    );
    // What was to be approved by a person is not published without one.
    let denied = world.run(&[item_with("h", "echo h > h", small)], &["--hold"]);
    let held = retry(&world, denied.of("h"), &["--max-files", "1"]);
    assert_eq!((held.code, &held.lines[0]["status"]), (3, &json!("held")), "{}", held.stderr);
    assert!(!world.at("h").exists());
    assert!(refused(&world, denied.of("h"), &["--max-files", "1"]).contains("awaits approval"));
    let run = held.lines[0]["run"].as_str().unwrap();
    let approved = ran(&world.crealeph(&["work", "approve", run, "--reason", "good"]));
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    assert_eq!(world.receipt(&approved.lines[0])["earlier_run"]["run"], denied.of("h")["receipt_id"]);
}

#[test]
fn a_batch_is_repeated_without_what_succeeded() {
    let world = World::new();
    world.write(".gitignore", "switch\n");
    let items = [
        item("a", "echo called; echo a > a"),
        item_with("b", "echo called; echo b > b", json!({ "test_command": "test -e switch" })),
        item_with("c", "echo called; cat a b > c", json!({ "dependencies": ["a", "b"] })),
    ];
    let first = world.run(&items, &[]);
    assert_eq!((first.code, calls(&world)), (1, 2), "{:?}", first.lines);
    let again = world.run(&items, &["--only-failed"]);
    assert_eq!((again.code, calls(&world)), (1, 3), "{:?}", again.lines);
    assert_eq!(again.of("a"), first.of("a"), "what succeeded is reported as it was");
    world.write("switch", "on");
    // A retry counts as well.
    assert_eq!(retry(&world, again.of("b"), &[]).code, 0);
    let last = world.run(&items, &["--only-failed"]);
    assert_eq!((last.code, calls(&world)), (0, 4), "{} {:?}", last.stderr, last.lines);
    assert_eq!(world.read("c"), "a\nb\n");
    assert_eq!((world.run(&items, &["--only-failed"]).code, calls(&world)), (0, 4));
    // Another task under the same id has not succeeded.
    let other = [item("a", "echo called; echo other > a")];
    assert_eq!((world.run(&other, &["--only-failed"]).code, calls(&world)), (0, 5));
}

#[test]
fn an_agent_that_changes_nothing_has_succeeded() {
    let world = World::new();
    world.init_git();
    let (state, head) = (world.state(), world.git(&["rev-parse", "HEAD"]));
    for (id, flags) in
        [("tree", &[] as &[&str]), ("held", &["--hold"]), ("branch", &["--publish", "branch:agents/x"])]
    {
        let ran = world.run(&[item_with(id, "cat a.txt", json!({ "test_command": "test -e a.txt" }))], flags);
        assert_eq!(
            (ran.code, &ran.of(id)["status"]),
            (0, &json!("success")),
            "{} {:?}",
            ran.stderr,
            ran.lines
        );
        world.check(ran.of(id));
        let replayed = world.crealeph(&["work", "replay", ran.of(id)["receipt_id"].as_str().unwrap()]);
        assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
    }
    assert_eq!(
        world.git(&["for-each-ref", "--format=%(refname) %(objectname)"]).trim(),
        format!("refs/heads/main {}", head.trim())
    );
    assert_eq!(world.state(), state);
    let shown = world.command(&["work", "show", "tree"]).env("CREALEPH_OUTPUT", "text").output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("success, no change"), "{shown}");
}
