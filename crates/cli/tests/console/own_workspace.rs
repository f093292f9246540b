//! The console of a server that is started in a workspace: its runs while they run, side by side, and undone; by HTTP and in a browser.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::{Answer, Client};
use crate::gate::Gate;
use crate::scratch::{signal, wait_until};
use crate::stories::tell;
use crate::world::{World, item, item_with, ran};

/// A server in a workspace.
struct Server<'w> {
    world: &'w World,
    url: String,
    client: Client,
    child: Child,
}

impl<'w> Server<'w> {
    fn start(world: &'w World) -> Self {
        let log = fs::File::create(world.outside().join("server.log")).unwrap();
        let mut command = world.command(&["serve", "--listen", "127.0.0.1:0", "--json"]);
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| {
            panic!("{}", fs::read_to_string(world.outside().join("server.log")).unwrap())
        });
        let url = said["url"].as_str().unwrap().to_owned();
        let place = url.split_once("://").unwrap().1.replace("localhost", "127.0.0.1");
        Server { world, url, client: Client(place.parse().unwrap()), child }
    }

    fn key(&self, tenant: &str, more: &[&str]) -> String {
        let arguments = [&["key", "create", "--json", "--tenant", tenant][..], more].concat();
        let created = ran(&self.world.crealeph(&arguments));
        created.lines[0]["token"].as_str().unwrap_or_else(|| panic!("{}", created.stderr)).to_owned()
    }

    fn link(&self, role: &str) -> String {
        let made = ran(&self.world.crealeph(&["key", "link", "--role", role, "--url", &self.url, "--json"]));
        made.lines[0]["url"].as_str().unwrap_or_else(|| panic!("{}", made.stderr)).to_owned()
    }

    /// The cookie of a session that a key opens.
    fn sign_in(&self, key: &str) -> String {
        let entered = self.client.form("/sign-in", None, &format!("token={key}"), true);
        entered.header("set-cookie").unwrap().split(';').next().unwrap().to_owned()
    }

    fn page(&self, cookie: &str, target: &str) -> Answer {
        self.client.page(target, Some(cookie))
    }

    /// Sends the form that undoes a run.
    fn undo(&self, cookie: &str, run: &str) -> Answer {
        let page = self.page(cookie, "/runs").text();
        let token = page.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        self.client.form(&format!("/runs/{run}/undo"), Some(cookie), &format!("form={token}"), true)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            signal(&self.child, "-KILL");
        }
        self.child.wait().unwrap();
    }
}

fn id(run: &Value) -> &str {
    run["receipt_id"].as_str().unwrap()
}

/// A workspace with a run whose tests failed, one that landed from the same start, and one that landed after it, whose tests wait at the gate.
fn worked(gate: &Gate) -> (World, [String; 3]) {
    let world = World::with(&format!("{}\n[server]\nshutdown_timeout_ms = 100\n", gate.agents()));
    world.write("a.txt", "one\ntwo\nthree\n");
    world.write("check.sh", &format!("echo checking\n{}\n", gate.wait()));
    let failing =
        item_with("failed", "echo FOUR >> a.txt; echo b > b.txt", json!({ "test_command": "false" }));
    let failed = world.run_one(failing);
    let script =
        r#"echo four >> a.txt; echo said; echo '{"tokens_used":70,"cost_usd":0.25}' >> $CREALEPH_TRACE"#;
    let landed = world.run_one(item("landed", script));
    let tests = json!({ "test_command": "sh check.sh" });
    let later = std::thread::scope(|scope| {
        scope.spawn(|| gate.open());
        world.run_one(item_with("later", "echo five >> a.txt", tests))
    });
    let ids = [&failed, &landed, &later].map(|run| id(run).to_owned());
    (world, ids)
}

#[test]
fn a_server_shows_and_undoes_the_runs_of_its_own_workspace_to_its_tenant_alone() {
    let gate = Gate::new();
    let (world, [failed, landed, later]) = worked(&gate);
    let mut server = Server::start(&world);
    let (reader, operator) =
        (server.key("local", &["--role", "reader"]), server.key("local", &["--role", "operator"]));
    let other = server.key("other", &["--role", "operator"]);
    let bound = server.key("local", &["--role", "operator", "--robot", "r"]);
    let target = |run: &str, part: &str| format!("/v1/work/runs/{run}{part}");

    // Diff, logs and output come from the workspace, to its tenant.
    let diff = server.client.get(&target(&landed, "/diff"), &reader);
    assert!(diff.status == 200 && diff.text().contains("+four"), "{diff:?}");
    let logs = server.client.get(&target(&landed, "/logs"), &reader).json();
    assert_eq!(logs["files"][0]["text"], json!("agent> said\n"), "{logs}");
    let output = server.client.get(&target(&landed, "/output"), &reader).json();
    let record = json!({ "source": "agent", "stream": "stdout", "text": "said", "goes_on": false });
    assert_eq!((&output["records"], &output["isRunning"]), (&json!([record]), &json!(false)), "{output}");
    let rest =
        server.client.get(&target(&landed, &format!("/output?after={}", output["next"])), &reader).json();
    assert_eq!((&rest["records"], &rest["next"]), (&json!([]), &output["next"]));

    // A run in progress is there for those who may see all of the tenant.
    let script = format!("echo first; {}; echo c > c.txt", gate.wait());
    let path = world.items(&[item("running", &script)]);
    let mut child =
        world.command(&["work", "run", &path]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let open = || server.client.get("/v1/work/runs/open", &reader).json()["runs"].clone();
    wait_until("the run to be listed", || open()[0]["status"] == "running");
    let running = open()[0]["run"].as_str().unwrap().to_owned();
    let printed = || server.client.get(&target(&running, "/output"), &reader).json();
    wait_until("its output", || printed()["records"][0]["text"] == "first");
    assert_eq!(printed()["isRunning"], json!(true));
    assert_eq!(server.client.get(&target(&running, ""), &reader).problem(404), "unknown_id");
    for key in [&other, &bound] {
        assert_eq!(server.client.get("/v1/work/runs/open", key).json()["runs"], json!([]));
        for run in [&landed, &running] {
            for part in ["/diff", "/logs", "/output"] {
                assert_eq!(
                    server.client.get(&target(run, part), key).problem(404),
                    "unknown_id",
                    "{run} {part}"
                );
            }
        }
        let compared = server.client.get(&format!("/v1/work/compare?a={landed}&b={running}"), key);
        assert_eq!(compared.problem(404), "unknown_id");
        let cookie = server.sign_in(key);
        assert_eq!(server.page(&cookie, &format!("/runs/{running}")).status, 404);
        assert_eq!(server.page(&cookie, &format!("/runs/{running}/output")).status, 404);
        let expected = if *key == other { 404 } else { 403 };
        assert_eq!(server.undo(&cookie, &landed).status, expected);
    }
    gate.open();
    assert!(child.wait().unwrap().success());
    assert_eq!((printed()["isRunning"].clone(), open()), (json!(false), json!([])));

    // Two runs from the same start: what they left is held against each other.
    let compared = server.client.get(&format!("/v1/work/compare?a={failed}&b={landed}"), &reader).json();
    let files: Vec<_> = compared["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|file| (file["path"].as_str().unwrap(), file["standing"].as_str().unwrap()))
        .collect();
    assert_eq!(files, [("a.txt", "different"), ("b.txt", "onlyA")], "{compared}");
    let between = compared["files"][0]["diff"]["text"].as_str().unwrap();
    assert_eq!(between, "@@ -1,4 +1,4 @@\n one\n two\n three\n-FOUR\n+four\n");
    assert_eq!((&compared["b"]["tokens"], &compared["a"]["tokens"]), (&json!(70.0), &Value::Null));

    // What is not what the run left, or not the user's own any more, is not shown.
    let kept = world.at(".crealeph/runs").join(&landed).join("change.diff");
    let text = fs::read_to_string(&kept).unwrap();
    fs::write(&kept, text.replace("four", "forged")).unwrap();
    let forged = server.client.get(&target(&landed, "/diff"), &reader);
    assert!(forged.problem(404) == "not_here" && forged.text().contains("is not what run"), "{forged:?}");
    fs::write(&kept, text).unwrap();
    fs::set_permissions(world.at(".crealeph"), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(server.client.get(&target(&landed, "/diff"), &reader).problem(404), "not_here");
    fs::set_permissions(world.at(".crealeph"), fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(server.client.get(&target(&landed, "/diff"), &reader).status, 200);

    let undoing = undone(&server, &gate, [&reader, &operator], [&landed, &later]);
    // A server that stops ends an undo that is under way, and the files are what they were.
    let cookie = server.sign_in(&operator);
    let started = server.undo(&cookie, &undoing);
    assert_eq!(started.status, 303, "{started:?}");
    signal(&server.child, "-TERM");
    assert!(server.child.wait().unwrap().success());
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\nfour\n");
    let run = started.header("location").unwrap().rsplit('/').next().unwrap();
    // In the time that it was given the run may not have written its own end; then it is settled as after a crash.
    assert!(world.crealeph(&["work", "recover"]).status.success());
    let shown = ran(&world.crealeph(&["work", "status", "--status", "interrupted"]));
    assert_eq!(shown.lines[0]["run"], json!(run), "{}", shown.stderr);
}

/// Only a role that runs work undoes, later changes are named, and the run that undoes names who asked.
fn undone(
    server: &Server<'_>,
    gate: &Gate,
    [reader, operator]: [&str; 2],
    [landed, later]: [&str; 2],
) -> String {
    let looks = server.sign_in(reader);
    let page = server.page(&looks, &format!("/runs/{later}")).text();
    assert!(page.contains("Your role cannot start runs here.") && !page.contains("/undo\""), "{page}");
    assert_eq!(server.undo(&looks, later).status, 403);
    let runs = server.sign_in(operator);
    assert!(server.page(&runs, &format!("/runs/{later}")).text().contains("/undo\""));
    let refused = server.undo(&runs, landed);
    assert!(refused.status == 409 && refused.text().contains("a.txt"), "{refused:?}");
    let started = server.undo(&runs, later);
    assert_eq!(started.status, 303, "{started:?}");
    let target = started.header("location").unwrap().to_owned();
    // The answer does not wait for its tests, whose output is there meanwhile; and there is one at a time.
    wait_until("its tests", || server.page(&runs, &target).text().contains("checking"));
    let second = server.undo(&runs, later);
    assert!(second.status == 409 && second.text().contains("undo_under_way"), "{second:?}");
    gate.open();
    wait_until("the undo to land", || server.page(&runs, &target).text().contains("succeeded"));
    assert_eq!(server.world.read("a.txt"), "one\ntwo\nthree\nfour\n");
    let page = server.page(&runs, &target).text();
    assert!(page.contains("It undoes") && page.contains(&format!("a={later}")), "{page}");
    let run = target.rsplit('/').next().unwrap();
    let shown = server.client.get(&format!("/v1/work/runs/{run}"), reader).json();
    let asked = operator.split('.').nth(1).unwrap();
    assert!(shown["run"]["task"].as_str().unwrap().starts_with("Undo"), "{shown}");
    assert!(page.contains(&format!("asked for in the console by key:{asked}")), "{page}");
    assert_eq!(ran(&server.world.crealeph(&["work", "verify", run])).code, 0);
    let again = server.undo(&runs, later);
    assert!(again.status == 409 && again.text().contains("already what they were before it"), "{again:?}");
    run.to_owned()
}

#[test]
fn people_watch_compare_and_undo_in_a_browser() {
    let gate = Gate::new();
    let (world, [failed, landed, later]) = worked(&gate);
    // A task, a file name, a file and an output that would act, hide or overflow; a line of 10 MB in both.
    let hostile = world.run_one(item(
        "hostile",
        "echo '</pre><script>document.title=1</script>\u{202e}' > '<img src=x onerror=alert(1)>\u{202e}.txt'; \
         head -c 10000000 /dev/zero | tr '\\0' x | tee long.txt; printf '\\033[2J</pre><script>document.title=1</script>\\n'",
    ));
    let server = Server::start(&world);
    // Markup, escapes, an open line and a line that is far longer than a page, before it waits.
    let script = format!(
        "printf '</pre><script>document.title=1</script>\\342\\200\\256\\033[2J\\n'; echo oops >&2; head -c 3000000 /dev/zero | tr '\\0' x; echo; printf 'wait'; {}; echo ing; echo c > c.txt",
        gate.wait()
    );
    let path = world.items(&[item_with("running", &script, json!({ "test_command": "echo checked" }))]);
    let mut child =
        world.command(&["work", "run", &path]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let links = ["operator", "reader"].map(|role| server.link(role));
    let pipe = gate.wait().trim_start_matches("cat ").to_owned();
    tell(
        "own_workspace.mjs",
        &[
            ("CREALEPH_URL", &server.url),
            ("CREALEPH_LINKS", &links.join(" ")),
            ("CREALEPH_RUNS", &[failed, landed, later].join(" ")),
            ("CREALEPH_GATE", &pipe),
            ("CREALEPH_HOSTILE", id(&hostile)),
        ],
    );
    assert!(child.wait().unwrap().success());
    assert_eq!(world.read("a.txt"), "one\ntwo\nthree\nfour\n", "the last one was undone");
}

#[test]
fn the_page_of_a_run_follows_it_until_it_is_decided() {
    let (gate, verdict) = (Gate::new(), Gate::new());
    let world = World::with(&gate.agents());
    let server = Server::start(&world);
    // Enough to scroll, and then more than a page keeps.
    let wait = gate.wait();
    let script = format!("seq 1 100; {wait}; seq 101 14000; {wait}; echo c > c.txt");
    let path = world.items(&[item("followed", &script)]);
    let mut child = world
        .command(&["work", "run", &path, "--hold"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let reader = server.key("local", &["--role", "reader"]);
    let open = || server.client.get("/v1/work/runs/open", &reader).json()["runs"].clone();
    wait_until("the run to be listed", || open()[0]["status"] == "running");
    let run = open()[0]["run"].as_str().unwrap().to_owned();
    let link = server.link("reader");
    let pipe = |gate: &Gate| gate.wait().trim_start_matches("cat ").to_owned();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // The story says when.
            let asked = Command::new("timeout").args(["180", "sh", "-c", &verdict.wait()]).status().unwrap();
            if asked.success() {
                let rejected = ran(&world.crealeph(&["work", "reject", &run, "--reason", "no"]));
                assert_eq!(rejected.code, 0, "{}", rejected.stderr);
            }
        });
        tell(
            "following.mjs",
            &[
                ("CREALEPH_URL", &server.url),
                ("CREALEPH_LINK", &link),
                ("CREALEPH_RUN", &run),
                ("CREALEPH_GATE", &pipe(&gate)),
                ("CREALEPH_VERDICT", &pipe(&verdict)),
            ],
        );
    });
    assert_eq!(child.wait().unwrap().code(), Some(3), "its change was held");
}
