//! Where changes go: into the tree, onto a branch, or to a person first.

use serde_json::{Value, json};

use crate::world::{World, item, item_with, ran};

fn held(world: &World, script: &str, more: Value) -> String {
    let ran = world.run(&[item_with("w", script, more)], &["--hold"]);
    assert_eq!((ran.code, &ran.of("w")["status"]), (3, &json!("held")), "{}", ran.stderr);
    ran.of("w")["run"].as_str().unwrap().to_owned()
}

#[test]
fn a_held_change_lands_when_it_is_approved() {
    let world = World::new();
    let before = world.state();
    let run =
        held(&world, "echo x >> a.txt; echo n > n; rm src/b.txt", json!({ "test_command": "test -e n" }));
    assert_eq!(world.state(), before);
    let shown = String::from_utf8(world.crealeph(&["work", "diff", "w"]).stdout).unwrap();
    assert!(shown.contains("+x\n") && shown.contains("deleted file"), "{shown}");
    // It waits through anything that other commands settle.
    world.run_one(item("other", "echo o > other"));
    let approved = ran(&world.crealeph(&["work", "approve", &run, "--reason", "good"]));
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    let line = &approved.lines[0];
    assert_eq!((&line["status"], &line["output_hash"]), (&json!("success"), &json!(world.state())));
    world.check(line);
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\nx\n");
    assert!(world.at("n").exists() && world.at("other").exists() && !world.at("src/b.txt").exists());
    let again = world.crealeph(&["work", "approve", &run, "--reason", "good"]);
    assert_eq!(again.status.code(), Some(1));
    let entries =
        String::from_utf8(world.crealeph(&["ledger", "list", "--type", "run_verdict"]).stdout).unwrap();
    let entry: Value = serde_json::from_str(entries.lines().next().unwrap()).unwrap();
    assert_eq!((&entry["state"], &entry["payload"]["who"]), (&json!("approved"), &json!("ana")));
    assert_eq!(entry["payload"]["why"], "good");
}

#[test]
fn a_rejected_change_leaves_nothing_but_its_receipt() {
    let world = World::new();
    let before = world.state();
    let run = held(&world, "echo x >> a.txt", json!({}));
    let arguments = ["work", "reject", &run, "--by", "ben", "--reason", "wrong place"];
    let rejected = ran(&world.crealeph(&arguments));
    assert_eq!(rejected.code, 0, "{}", rejected.stderr);
    assert_eq!(rejected.lines[0]["status"], "failure");
    assert_eq!(rejected.lines[0]["error"], "Rejected by ben: wrong place");
    world.check(&rejected.lines[0]);
    assert_eq!(world.state(), before);
}

/// Once people are enrolled nothing unsigned lands a change, and the log has no unsigned verdict.
#[test]
fn a_held_change_is_not_approved_by_a_name_where_people_are_enrolled() {
    let world = World::new();
    let before = world.state();
    let run = held(&world, "echo x >> a.txt", json!({}));
    let key = world.root().parent().unwrap().join("ana");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .status();
    assert!(made.unwrap().success());
    let public = key.with_extension("pub").display().to_string();
    let enrolled = world.crealeph(&["person", "add", "ana", "--key", &public, "--first-admin"]);
    assert!(enrolled.status.success(), "{}", String::from_utf8_lossy(&enrolled.stderr));
    for verdict in ["approve", "reject"] {
        let given = ran(&world.crealeph(&["work", verdict, &run, "--by", "ben", "--reason", "good"]));
        assert!(given.code == 1 && given.stderr.contains("proves nothing"), "{}", given.stderr);
        assert!(given.stderr.contains("deprecated"), "{}", given.stderr);
    }
    assert_eq!(world.state(), before);
    let entries = world.crealeph(&["ledger", "list", "--type", "run_verdict"]).stdout;
    assert_eq!(String::from_utf8(entries).unwrap(), "");
    let verified = world.crealeph(&["ledger", "verify"]);
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

#[test]
fn a_held_change_is_tested_again_where_the_tree_has_moved() {
    let world = World::new();
    let run = held(&world, "echo l > left", json!({ "test_command": "test ! -e right" }));
    world.write("right", "r");
    let approved = ran(&world.crealeph(&["work", "approve", &run, "--reason", "good"]));
    assert_eq!((approved.code, &approved.lines[0]["status"]), (1, &json!("failure")), "{}", approved.stderr);
    assert!(approved.lines[0]["error"].as_str().unwrap().contains("Tests failed"));
    assert!(!world.at("left").exists());
    // The change is not lost: it can be judged again.
    std::fs::remove_file(world.at("right")).unwrap();
    let retried = ran(&world.crealeph(&["work", "retry", &run]));
    assert_eq!((retried.code, &retried.lines[0]["status"]), (3, &json!("held")), "{}", retried.stderr);
    let run = held(&world, "echo z >> a.txt", json!({}));
    world.write("a.txt", "edited\n");
    stays_held(&world, &run, "`a.txt` was changed by hand");
    assert_eq!(world.read("a.txt"), "edited\n");
    world.write("a.txt", "one\ntwo\nthree\n");
    let approved = ran(&world.crealeph(&["work", "approve", &run, "--reason", "good"]));
    assert_eq!(approved.code, 0, "{} {:?}", approved.stderr, approved.lines);
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\nz\n");
}

/// Approves a change that meets a conflict: it says so, and everything of it is as it was.
fn stays_held(world: &World, run: &str, said: &str) {
    let files = || {
        let folder = std::fs::read_dir(world.at(".crealeph/runs").join(run)).unwrap();
        let mut all: Vec<_> = folder.map(|file| std::fs::read(file.unwrap().path()).unwrap()).collect();
        all.sort();
        all
    };
    let before = files();
    let approved = ran(&world.crealeph(&["work", "approve", run, "--reason", "good"]));
    assert_eq!((approved.code, approved.lines.len()), (1, 0), "{} {:?}", approved.stderr, approved.lines);
    assert!(
        approved.stderr.contains("still awaiting approval") && approved.stderr.contains(said),
        "{}",
        approved.stderr
    );
    assert_eq!(files(), before);
    let status = String::from_utf8(world.crealeph(&["work", "status"]).stdout).unwrap();
    assert!(status.lines().any(|line| line.contains(run) && line.contains("held")), "{status}");
}

#[test]
fn a_branch_gets_one_commit_per_item_and_the_tree_stays() {
    let world = World::new();
    world.init_git();
    let head = world.git(&["rev-parse", "HEAD"]);
    let items = [
        item("a", "echo a >> a.txt; chmod +x a.txt"),
        item("b", "rm src/b.txt; ln -s a.txt link"),
        item_with(
            "c",
            "cat a.txt > c.txt; test ! -e src/b.txt",
            json!({ "dependencies": ["a", "b"], "test_command": "tail -1 c.txt | grep -q a" }),
        ),
    ];
    let ran = world.run(&items, &["--publish", "branch:agents/work"]);
    assert_eq!(ran.code, 0, "{} {:?}", ran.stderr, ran.lines);
    ran.lines.iter().for_each(|line| world.check(line));
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(world.git(&["rev-parse", "HEAD"]), head);
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\n");
    let log = world.git(&[
        "log",
        "--format=%(trailers:key=CreAleph-Receipt,valueonly,separator=)",
        "main..agents/work",
    ]);
    let expected: Vec<&str> =
        ran.lines.iter().rev().map(|line| line["receipt_id"].as_str().unwrap()).collect();
    assert_eq!(log.lines().collect::<Vec<_>>(), expected);
    assert_eq!(world.git(&["show", "agents/work:c.txt"]), "one\ntwo\nthree\na\n");
    assert_eq!(world.git(&["ls-tree", "agents/work", "a.txt", "link"]).matches("100755").count(), 1);
    assert!(!world.git(&["ls-tree", "-r", "--name-only", "agents/work"]).contains("src/b.txt"));
}

#[test]
fn a_branch_never_carries_what_is_not_committed() {
    let world = World::new();
    world.init_git();
    world.write("a.txt", "not committed\n");
    let ran =
        world.run(&[item("a", "echo a >> a.txt"), item("b", "echo b > b.new")], &["--publish", "branch:x"]);
    assert_eq!(ran.of("a")["status"], "failure");
    assert!(ran.of("a")["error"].as_str().unwrap().contains("commit it first"), "{}", ran.of("a"));
    assert_eq!(ran.of("b")["status"], "success");
    assert_eq!(world.read("a.txt"), "not committed\n");
}

const TO_BRANCH: [&str; 2] = ["--publish", "branch:agents/held"];

fn held_for_branch(world: &World, id: &str, script: &str, test: &str) -> String {
    let ran = world.run(
        &[item_with(id, script, json!({ "test_command": test }))],
        &[&TO_BRANCH[..], &["--hold"]].concat(),
    );
    assert_eq!((ran.code, &ran.of(id)["status"]), (3, &json!("held")), "{} {:?}", ran.stderr, ran.lines);
    ran.of(id)["run"].as_str().unwrap().to_owned()
}

/// The receipts that the commits of the branch name, newest first.
fn trailers(world: &World) -> Vec<String> {
    let format = "--format=%(trailers:key=CreAleph-Receipt,valueonly,separator=)";
    world.git(&["log", format, "main..agents/held"]).lines().map(str::to_owned).collect()
}

#[test]
fn a_change_held_for_a_branch_is_committed_there_when_it_is_approved() {
    let world = World::new();
    world.init_git();
    let run = held_for_branch(&world, "w", "echo x >> a.txt; rm src/b.txt; ln -s a.txt l", "test -e l");
    assert_eq!(world.git(&["branch", "--list", "agents/*"]), "", "nothing has landed");
    let approved = ran(&world.crealeph(&["work", "approve", &run, "--reason", "good"]));
    assert_eq!(approved.code, 0, "{} {:?}", approved.stderr, approved.lines);
    world.check(&approved.lines[0]);
    assert_eq!(trailers(&world), [run.as_str()]);
    assert_eq!(world.git(&["show", "agents/held:a.txt"]), "one\ntwo\nthree\nx\n");
    let tree = world.git(&["ls-tree", "-r", "--name-only", "agents/held"]);
    assert!(tree.contains("l\n") && !tree.contains("src/b.txt"), "{tree}");
    assert_eq!(
        (world.git(&["status", "--porcelain"]), world.read("a.txt")),
        (String::new(), "one\ntwo\nthree\n".into())
    );
    assert!(
        std::fs::read_dir(world.at(".crealeph/publish")).unwrap().next().is_none(),
        "nothing is held any more"
    );
    let again = world.crealeph(&["work", "approve", &run, "--reason", "good"]);
    assert_eq!(again.status.code(), Some(1));
    let rejected = held_for_branch(&world, "r", "echo r > r", "true");
    ran(&world.crealeph(&["work", "reject", &rejected, "--reason", "no"]));
    assert_eq!(trailers(&world), [run.as_str()]);
}

#[test]
fn a_change_held_for_a_branch_is_tested_again_where_the_branch_has_moved() {
    let world = World::new();
    world.init_git();
    let good = held_for_branch(&world, "good", "echo g > good", "test ! -e green || test -e good");
    let red = held_for_branch(&world, "red", "echo r > red", "test ! -e green");
    let same = held_for_branch(&world, "same", "echo s >> a.txt", "true");
    let moved = world.run(&[item("m", "echo green > green; chmod +x green; echo m >> a.txt")], &TO_BRANCH);
    assert_eq!(moved.code, 0, "{} {:?}", moved.stderr, moved.lines);
    let approve = |run: &str| ran(&world.crealeph(&["work", "approve", run, "--reason", "good"]));
    let approved = approve(&good);
    assert_eq!(approved.code, 0, "{} {:?}", approved.stderr, approved.lines);
    world.check(&approved.lines[0]);
    assert_eq!(trailers(&world), [good.as_str(), moved.of("m")["receipt_id"].as_str().unwrap()]);
    let files = world.git(&["ls-tree", "-r", "agents/held"]);
    assert!(files.contains("\tgood") && files.contains("\tgreen"), "{files}");
    let printed = approve(&red).lines[0]["error"].clone();
    assert!(printed.as_str().unwrap().contains("on the merged state"), "{printed}");
    let by = format!("`a.txt` was changed by run `{}`", world.short(&moved.of("m")["receipt_id"]));
    stays_held(&world, &same, &by);
    assert_eq!(trailers(&world).len(), 2);
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn a_state_refers_to_what_git_has_and_says_what_git_has_lost() {
    let world = World::new();
    world.write("big.txt", &"a line that git has\n".repeat(1000));
    world.init_git();
    let line = world.run_one(item("w", "echo x >> a.txt; echo new > new"));
    assert_eq!(line["status"], "success");
    let copied = std::process::Command::new("grep")
        .args(["-rl", "a line that git has"])
        .arg(world.at(".crealeph/objects"))
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&copied.stdout), "", "nothing is copied that git has");
    let replay = || world.crealeph(&["work", "replay", line["receipt_id"].as_str().unwrap()]);
    assert!(replay().status.success(), "{}", String::from_utf8_lossy(&replay().stderr));
    world.git(&["gc", "-q", "--prune=now"]);
    assert!(replay().status.success(), "packed: {}", String::from_utf8_lossy(&replay().stderr));
    let export = world.at("../export");
    let export = export.to_str().unwrap();
    assert!(
        world.crealeph(&["work", "export", line["receipt_id"].as_str().unwrap(), export]).status.success()
    );
    // History is rewritten without the file, and git forgets it.
    world.git(&["rm", "-q", "--cached", "big.txt"]);
    world.git(&["commit", "-q", "--amend", "-m", "without"]);
    world.git(&["reflog", "expire", "--expire=now", "--all"]);
    world.git(&["gc", "-q", "--prune=now"]);
    let lost = replay();
    let said = String::from_utf8_lossy(&lost.stderr).into_owned();
    assert!(!lost.status.success() && said.contains("`big.txt`") && said.contains("git"), "{said}");
    let replayed = world.crealeph(&[
        "work",
        "replay",
        &format!("{export}/runs/{}", line["receipt_id"].as_str().unwrap()),
    ]);
    assert!(
        replayed.status.success(),
        "an export has everything: {}",
        String::from_utf8_lossy(&replayed.stderr)
    );
    // The next run keeps it itself.
    world.write("edited", "so that the state is another");
    let again = world.run_one(item("again", "echo y >> a.txt"));
    let replayed = world.crealeph(&["work", "replay", again["receipt_id"].as_str().unwrap()]);
    assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
}
