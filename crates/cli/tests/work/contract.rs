//! The contract's test clauses and its error table, row by row.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::world::{World, item, item_with};

#[test]
fn a_success_changes_the_workspace_and_reports_everything() {
    let world = World::new();
    let before = world.state();
    let script = "printf 'four\\n' >> a.txt; printf new > c.txt; rm src/b.txt; chmod +x c.txt";
    let line = world.run_one(item("w", script));
    assert_eq!(line["status"], "success");
    let root = world.root().canonicalize().unwrap();
    let absolute = |path: &str| root.join(path);
    assert_eq!(line["modified_files"], json!([absolute("a.txt")]));
    assert_eq!(line["created_files"], json!([absolute("c.txt")]));
    assert_eq!(line["deleted_files"], json!([absolute("src/b.txt")]));
    assert_eq!(line["output_hash"], world.state());
    assert_ne!(line["output_hash"], before);
    assert_eq!(line["metrics"]["files_touched"], 3);
    assert_eq!(line["metrics"]["delta_size"], 3);
    let hash = blake3_of(&world, "c.txt");
    assert_eq!(line["artifact_hashes"][absolute("c.txt").to_str().unwrap()], hash);
    assert_eq!(line["artifact_hashes"].as_object().unwrap().len(), 2);
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\nfour\n");
    let receipt = world.receipt(&line);
    assert_eq!((&receipt["before_hash"], &receipt["after_hash"]), (&json!(before), &line["output_hash"]));
    assert_eq!(receipt["sandbox_strength"], "full");
    assert_eq!(receipt["tool_trace"], json!([]), "an agent that reports nothing has an empty trace");
}

fn blake3_of(world: &World, path: &str) -> String {
    crealeph_contracts::digest::Blake3::of(world.read(path).as_bytes()).to_string()
}

#[test]
// holds: invariant 13
fn clause_1_a_failing_run_leaves_the_state_as_it_was() {
    let world = World::new();
    let before = world.state();
    let line = world.run_one(item("w", "echo x >> a.txt; rm -rf src; exit 3"));
    assert_eq!(line["status"], "failure");
    assert!(line["error"].as_str().unwrap().contains("exit code 3"), "{line}");
    assert_eq!(world.state(), before);
    assert_eq!(line["output_hash"], before);
    let receipt = world.receipt(&line);
    assert_eq!((&receipt["status"], &receipt["artifacts"]), (&json!("failed"), &json!([])));
}

#[test]
fn clause_2_more_files_than_allowed_are_denied_in_the_contracts_words() {
    let world = World::new();
    let before = world.state();
    let two = "echo x > x; echo y > y";
    let line = world.run_one(item_with("w", two, json!({ "constraints": { "max_files": 1 } })));
    assert_eq!(line["status"], "denied");
    assert_eq!(line["denial_reason"], "Exceeded max files: 2 > 1");
    assert_eq!((world.state(), line["metrics"]["files_touched"].as_u64()), (before, Some(2)));
    let line = world.run_one(item_with("w", two, json!({ "constraints": { "max_files": 2 } })));
    assert_eq!(line["status"], "success");
}

#[test]
fn clause_3_a_replay_gives_the_same_hash_and_touches_nothing() {
    let world = World::new();
    let line = world.run_one(item("w", "echo four >> a.txt; rm src/b.txt; printf x > new; chmod +x new"));
    world.write("a.txt", "edited since\n");
    let before = world.state();
    let replay = std::process::Command::new(line["proof_script"].as_str().unwrap())
        .env("CREALEPH", env!("CARGO_BIN_EXE_crealeph"))
        .output()
        .unwrap();
    let printed = String::from_utf8_lossy(&replay.stdout).into_owned();
    assert!(replay.status.success(), "{printed}{}", String::from_utf8_lossy(&replay.stderr));
    assert!(printed.contains(line["output_hash"].as_str().unwrap()), "{printed}");
    assert_eq!(world.state(), before);
}

#[test]
fn a_delta_over_the_limit_and_a_protected_path_are_denied() {
    let world = World::new();
    let script = "sed -i 's/one/1/; s/three/3/' a.txt; echo x > x";
    let line = world.run_one(item_with("w", script, json!({ "constraints": { "max_delta_size": 2 } })));
    assert_eq!(line["denial_reason"], "Exceeded max delta size: 3 > 2");
    let line = world.run_one(item("w", "mkdir -p .github; echo x > .github/ci.yml; echo y > y"));
    assert_eq!(line["denial_reason"], "Denied path: .github/ci.yml");
}

#[test]
fn the_guard_stops_an_agent_that_reports_too_many_tool_operations() {
    let world = World::new();
    // Without the guard it would continue for ten minutes.
    let script =
        "for i in 1 2 3 4 5; do echo '{\"tool\":\"t\"}' >> $CREALEPH_TRACE; done; echo x > x; sleep 600";
    let start = Instant::now();
    let constraints = json!({ "constraints": { "max_tool_ops": 4, "timeout_ms": 900_000 } });
    let line = world.run_one(item_with("w", script, constraints));
    assert_eq!(line["status"], "denied");
    assert_eq!(line["denial_reason"], "Exceeded max tool ops: 5 > 4");
    assert_eq!(line["metrics"]["tool_ops_count"], 5);
    assert!(start.elapsed() < Duration::from_secs(300), "it was awaited");
    assert!(!world.at("x").exists());
}

#[test]
fn tokens_and_cost_stop_a_run_too() {
    let world = World::with(
        "[work.agents.one]\nagent_id = \"agent-1\"\ncommand = \"sh -c \\\"$(cat $CREALEPH_PROMPT)\\\"\"\nmax_tokens = 100\nmax_cost = 0.5\n",
    );
    let report = |line: &str| format!("echo '{line}' >> $CREALEPH_TRACE; sleep 600");
    let line = world.run_one(item("w", &report(r#"{"tokens_used":101}"#)));
    assert_eq!(line["denial_reason"], "Exceeded max tokens: 101 > 100");
    let line = world.run_one(item("w", &report(r#"{"cost_usd":0.75}"#)));
    assert_eq!(line["denial_reason"], "Exceeded max cost: 0.75 > 0.5");
    let receipt = world.receipt(&line);
    assert_eq!(receipt["cost_usd"], 0.75);
}

#[test]
fn error_table_test_failure() {
    let world = World::new();
    let before = world.state();
    let test = "echo '2 failed, 3 passed in 0.12s'; exit 1";
    let line = world.run_one(item_with("w", "echo x > x", json!({ "test_command": test })));
    assert_eq!(line["status"], "failure");
    assert!(line["error"].as_str().unwrap().starts_with("Tests failed"), "{line}");
    assert!(line["test_output"].as_str().unwrap().contains("2 failed"));
    assert_eq!(line["metrics"]["tests_passed"], 3);
    assert_eq!(line["metrics"]["tests_failed"], 2);
    assert_eq!(world.state(), before);
    // Fix and retry.
    let test = json!({ "test_command": "grep -q x x && echo '1 passed in 0.01s'" });
    let line = world.run_one(item_with("w", "echo x > x", test));
    assert_eq!((&line["status"], &line["metrics"]["tests_passed"]), (&json!("success"), &json!(1)));
}

#[test]
fn error_table_timeout() {
    let world = World::new();
    let before = world.state();
    let script = "echo x > x; (while :; do echo y >> y; done) & trap '' TERM; sleep 600";
    let start = Instant::now();
    let line = world.run_one(item_with("w", script, json!({ "constraints": { "timeout_ms": 1500 } })));
    assert_eq!(line["status"], "timeout");
    assert!(line["error"].as_str().unwrap().contains("1500 ms"), "{line}");
    assert!(start.elapsed() < Duration::from_secs(300));
    assert_eq!(world.state(), before);
}

#[test]
fn error_table_tool_error() {
    let world = World::with("[work.agents.one]\nagent_id = \"agent-1\"\ncommand = [\"no-such-program\"]\n");
    let line = world.run_one(item("w", ""));
    assert_eq!(line["status"], "failure");
    assert!(line["error"].as_str().unwrap().contains("no-such-program"), "{line}");
}

#[test]
fn error_table_dependency_missing_blocks_until_it_is_there() {
    let world = World::new();
    let waiting = item_with("second", "echo 2 > two", json!({ "dependencies": ["first"] }));
    let ran = world.run(std::slice::from_ref(&waiting), &[]);
    assert_eq!((ran.code, &ran.of("second")["status"]), (1, &json!("blocked")));
    assert_eq!(ran.of("second")["waits_for"], json!(["first"]));
    assert!(!world.at("two").exists());
    world.run_one(item("first", "echo 1 > one"));
    assert_eq!(world.run_one(waiting)["status"], "success");
}

#[test]
fn missing_inputs_and_outputs_are_failures_that_say_so() {
    let world = World::new();
    world.write(".gitignore", "ignored\n");
    let line =
        world.run_one(item_with("w", "echo x > x", json!({ "input_files": ["a.txt", "no/such.txt"] })));
    assert_eq!(line["error"], "Missing input files: no/such.txt");
    assert!(!world.at("x").exists());
    let outputs = json!({ "output_files": ["x", "ignored", "y"] });
    let line = world.run_one(item_with("w", "echo x > x; echo i > ignored", outputs));
    assert_eq!(line["error"], "Missing output files: ignored, y");
    let root = world.root().canonicalize().unwrap();
    let inside = root.join("sub/../x").to_str().unwrap().to_owned();
    let outputs = json!({ "output_files": [inside], "input_files": ["src"] });
    assert_eq!(world.run_one(item_with("w", "echo x > x", outputs))["status"], "success");
    let ran = world.run(&[item_with("w", "true", json!({ "output_files": ["/elsewhere/x"] }))], &[]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("/elsewhere/x") && ran.lines.is_empty(), "{}", ran.stderr);
}

#[test]
fn the_same_run_again_is_a_duplicate() {
    let world = World::new();
    let first = world.run_one(item("w", "true"));
    assert_eq!(first["status"], "success");
    let again = world.run_one(item("w", "true"));
    assert_eq!(again["status"], "denied");
    let expected = format!("Duplicate run: {}", first["receipt_id"].as_str().unwrap());
    assert_eq!(again["denial_reason"], expected);
}

#[test]
fn what_tests_write_is_discarded_and_what_was_ignored_is_not_tested() {
    let world = World::new();
    world.write(".gitignore", "build/\n");
    world.write("build/kept", "kept");
    let before = world.state();
    let line = world.run_one(item_with(
        "w",
        "echo x > x; echo made > build/made",
        json!({ "test_command": "test -e build/kept && test ! -e build/made && echo t > t && rm a.txt" }),
    ));
    assert_eq!(line["status"], "success", "{line}");
    assert!(world.at("a.txt").exists() && !world.at("t").exists() && !world.at("build/made").exists());
    assert_ne!(world.state(), before);
}

#[test]
fn a_change_too_large_for_a_ledger_entry_is_named_there() {
    let world = World::new();
    let script = "i=0; while [ $i -lt 6000 ]; do echo $i > file-with-a-rather-long-name-$i; i=$((i+1)); done";
    let bounds = json!({ "constraints": { "max_files": 10_000, "max_delta_size": 10_000 } });
    let line = world.run_one(item_with("w", script, bounds));
    assert_eq!((&line["status"], &line["metrics"]["files_touched"]), (&json!("success"), &json!(6000)));
    let listed = world.crealeph(&["ledger", "list", "--type", "run_receipt"]);
    let entry: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(entry["payload"]["receiptId"], line["receipt_id"]);
    assert_eq!(entry["payload"]["receiptHash"], world.receipt(&line)["receipt_hash"]);
}

#[test]
fn one_task_in_words() {
    let world = World::new();
    let arguments = ["work", "run", "--agent", "two", "echo done > done.txt", "--test", "test -s done.txt"];
    let ran = crate::world::ran(&world.crealeph(&arguments));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    assert_eq!(ran.lines[0]["status"], "success");
    assert_eq!(world.receipt(&ran.lines[0])["agent_id"], "agent-2");
    assert_eq!(world.read("done.txt"), "done\n");
    let ran = crate::world::ran(&world.crealeph(&["work", "run", "--agent", "tow", "x"]));
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("known agents: claude, codex, one, three, two"), "{}", ran.stderr);
}

#[test]
// holds: invariant 14
fn the_agent_finds_its_item_and_nothing_that_is_hidden() {
    let world = World::new();
    world.init_git();
    world.write(".env", "TOKEN=1\n");
    world.write("deploy/server.key", "key\n");
    let script = "cmp - $CREALEPH_WORK_ITEM && test ! -e .crealeph && test ! -e .env && test ! -e deploy/server.key \
                  && test -e .git/HEAD && git log --oneline | grep -q start && echo ok > ok.txt \
                  && git add -A && git -c user.name=a -c user.email=a@b commit -qm mine && git stash list";
    let line = world.run_one(item("w", script));
    assert_eq!(line["status"], "success", "{line}");
    assert_eq!(line["created_files"].as_array().unwrap().len(), 1);
    assert_eq!(world.git(&["log", "--format=%s"]), "start\n", "what git wrote is discarded");
    assert_eq!(world.read(".env"), "TOKEN=1\n");
    let line = world.run_one(item("hook", "echo x > .git/hooks/post-commit; echo ok > ok.txt"));
    assert_eq!(line["denial_reason"], "Denied path: .git/hooks/post-commit");
    assert!(!world.at(".git/hooks/post-commit").exists());
}

#[test]
fn a_configuration_that_is_not_understood_names_the_nearest_key() {
    let wrong = [
        ("agent_id = \"agent-1\"\ncommand = [\"true\"]\nmax_token = 1", "did you mean `max_tokens`?"),
        ("agent_id = \"agent1\"\ncommand = [\"true\"]", "did you mean `agent-1`?"),
        ("agent_id = \"agent-1\"\ncommand = []", "names no program"),
        ("agent_id = \"agent-1\"\ncommand = [\"true\"]\npaths = { alowed = [] }", "did you mean `allowed`?"),
        ("agent_id = \"agent-1\"\ncommand = [\"true\"]\ntest = { netwrk = [] }", "did you mean `network`?"),
        (
            "agent_id = \"agent-1\"\ncommand = [\"true\"]\nprompt = \"{descripton}\"",
            "did you mean `{description}`?",
        ),
        ("agent_id = \"agent-1\"\ncommand = [\"true\"]\nnetwork = \"some\"", "it is `\"none\"` or a list"),
        ("agent_id = \"agent-1\"\ncommand = [\"true\"]\nhide = [\"[\"]", "invalid glob"),
    ];
    for (table, expected) in wrong {
        let world = World::with(&format!("[work.agents.one]\n{table}\n"));
        let ran = world.run(&[item("w", "true")], &[]);
        assert_eq!(ran.code, 2, "{table}");
        assert!(ran.stderr.contains(expected), "{table}: {}", ran.stderr);
    }
    let world = World::with(AGENTS_TWICE);
    let ran = world.run(&[item("w", "true")], &[]);
    assert!(ran.code == 2 && ran.stderr.contains("both have this agent_id"), "{}", ran.stderr);
    let ran = world.run(&[item_with("w", "true", json!({ "agent_id": "agent-9" }))], &[]);
    assert!(ran.code == 2 && ran.stderr.contains("agent-9"), "{}", ran.stderr);
}

#[test]
fn connections_are_in_the_receipt_made_and_refused() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            use std::io::{Read as _, Write as _};
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi");
        }
    });
    let world = World::with(&format!(
        "[work.agents.one]\nagent_id = \"agent-1\"\ncommand = [\"sh\", \"-c\", \"{{prompt}}\"]\n\
         network = [\"127.0.0.1:{port}\"]\nsecrets = [\"MY_TOKEN\"]\n"
    ));
    let script = format!(
        "python3 - <<'END'\nimport os, urllib.request\n\
         text = urllib.request.urlopen('http://127.0.0.1:{port}/').read().decode()\n\
         open('got', 'w').write(text)\n\
         try: urllib.request.urlopen('http://example.com/')\nexcept Exception as error: print(error)\n\
         print(os.environ['MY_TOKEN'])\nEND"
    );
    let run = |id: &str, script: &str| {
        let path = world.items(&[item(id, script)]);
        let output = world.command(&["work", "run", &path]).env("MY_TOKEN", "s3cret-value").output().unwrap();
        crate::world::ran(&output)
    };
    let ran = run("w", &script);
    assert_eq!(ran.code, 0, "{} {:?}", ran.stderr, ran.lines);
    assert_eq!(world.read("got"), "hi");
    let receipt = world.receipt(ran.of("w"));
    let connections = receipt["connections"].as_array().unwrap();
    let allowed = |host: &str| connections.iter().any(|one| one["host"] == host && one["allowed"] == true);
    let refused = |host: &str| connections.iter().any(|one| one["host"] == host && one["allowed"] == false);
    assert!(allowed(&format!("127.0.0.1:{port}")) && refused("example.com:80"), "{connections:?}");
    let printed =
        run("printed", "echo '{\"tool\":\"t\",\"input\":{\"k\":\"'$MY_TOKEN'\"}}' >> $CREALEPH_TRACE");
    assert_eq!(printed.of("printed")["denial_reason"], "Secret in report: a tool call holds it");
    // The secret is in nothing that is kept.
    let kept = std::process::Command::new("grep")
        .args(["-rl", "s3cret-value"])
        .arg(world.at(".crealeph/runs"))
        .output();
    assert_eq!(String::from_utf8(kept.unwrap().stdout).unwrap(), "");
}

#[test]
fn a_git_worktree_is_a_workspace_too() {
    let world = World::new();
    world.init_git();
    world.git(&["worktree", "add", "-q", "../tree", "-b", "side"]);
    let tree = world.at("../tree");
    let path =
        world.items(&[item("w", "git log --oneline | grep -q start && git status --short && echo x > x")]);
    let arguments = ["work", "run", &path, "--workspace", tree.to_str().unwrap()];
    let ran = crate::world::ran(&world.crealeph(&arguments));
    assert_eq!(ran.code, 0, "{} {:?}", ran.stderr, ran.lines);
    assert!(tree.join("x").exists() && !world.at("x").exists());
    let path = world.items(&[item("other", "echo x > x")]);
    let branch = ["work", "run", &path, "--workspace", tree.to_str().unwrap(), "--publish", "branch:other"];
    std::fs::remove_file(tree.join("x")).unwrap();
    let ran = crate::world::ran(&world.crealeph(&branch));
    assert_eq!(ran.code, 0, "{} {:?}", ran.stderr, ran.lines);
    assert_eq!(world.git(&["show", "other:x"]), "x\n");
}

#[test]
fn a_ledger_in_the_workspace_is_hidden_and_must_be_ignored() {
    let configuration = format!("{}\n[ledger]\nlocation = \"data/ledger.db\"\n", crate::world::AGENTS);
    let world = World::with(&configuration);
    world.write("data/keep.txt", "k\n");
    let items = [item("w", "ls data > listed.txt")];
    let ran = world.run(&items, &[]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("data/ledger.db") && ran.stderr.contains(".gitignore"), "{}", ran.stderr);
    world.write(".gitignore", "data/ledger.db*\n");
    assert_eq!(world.run(&items, &[]).code, 0);
    assert_eq!(world.read("listed.txt"), "keep.txt\n");
}

const AGENTS_TWICE: &str = "[work.agents.a]\nagent_id = \"agent-1\"\ncommand = [\"true\"]\n\
                            [work.agents.b]\nagent_id = \"agent-1\"\ncommand = [\"true\"]\n";

/// A home folder as the workspace holds the sandbox's state, too; so does a configuration gone wrong.
#[test]
fn a_state_directory_in_the_workspace_is_refused_before_anything_runs() {
    let world = World::new();
    let before = world.state();
    let path = world.items(&[item("w", "echo x > x")]);
    for state in ["state", "src/deep/er", ".crealeph"] {
        let output =
            world.command(&["work", "run", &path]).env("XDG_STATE_HOME", world.at(state)).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("state directory") && said.contains("XDG_STATE_HOME"), "{said}");
        assert!(!said.contains("symbolic links"), "{said}");
    }
    assert_eq!(world.state(), before);
    assert!(!world.at("state").exists() && world.crealeph(&["work", "status"]).stdout.is_empty());
    assert_eq!(world.run_one(item("w", "echo x > x"))["status"], "success");
}
