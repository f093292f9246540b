//! Work runs over HTTP: receipts of the ledger's own workspaces, and those that a developer's machine reports: taken from enrolled
//! signers alone, kept while the server does not take them, and counted for nothing.

use serde_json::{Value, json};

use crate::postgresql::Server as Postgres;
use crate::running::Running;
use crate::scratch::Scratch;
use crate::tls::make_pair;
use crate::world::{AGENTS, Ran, World, item, item_with, ran};

/// Changes a file, prints something, and reports what it used.
const SCRIPT: &str =
    r#"echo four >> a.txt; echo said; echo '{"tokens_used":70,"cost_usd":0.25}' >> $CREALEPH_TRACE"#;

/// The item that a developer runs, and the server's own workspace too, with tests that count.
fn tested_item() -> Value {
    item_with("w", SCRIPT, json!({ "test_command": "echo 'test result: ok. 3 passed; 0 failed; 0 ignored'" }))
}

/// A developer's machine: a workspace with its own ledger.
fn developer() -> World {
    let world = World::with(AGENTS);
    world.write("a.txt", "one\n");
    world
}

/// Runs an item and reports it.
fn run(world: &World, item: Value, url: &str, key: &str) -> Ran {
    let path = world.items(&[item]);
    let mut command = world.command(&["work", "run", &path, "--report-to", url]);
    ran(&command.env("CREALEPH_SERVER_KEY", key).output().unwrap())
}

fn send_pending(world: &World, url: &str, key: &str) -> (i32, Value) {
    let mut command = world.command(&["work", "report-pending", "--report-to", url]);
    let ran = ran(&command.env("CREALEPH_SERVER_KEY", key).output().unwrap());
    (ran.code, ran.lines.first().cloned().unwrap_or_else(|| panic!("{}", ran.stderr)))
}

/// The body that the developer's machine keeps for a server.
fn kept(world: &World) -> String {
    let reports = world.outside().join("state/crealeph/reports");
    let folder = std::fs::read_dir(reports).unwrap().next().unwrap().unwrap().path();
    let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
    std::fs::read_to_string(file).unwrap()
}

#[test]
fn receipts_made_elsewhere_are_taken_from_enrolled_signers_and_count_for_nothing() {
    let server = Running::start("");
    let key = |role: &str| server.key("local", &["--role", role]);
    let (operator, admin, reader) = (key("operator"), key("admin"), key("reader"));
    let other = server.key("other", &["--role", "operator"]);
    let world = developer();
    let url = format!("http://{}", server.0);

    // No one has enrolled the workspace's key: the run succeeds, and its report waits.
    let first = run(&world, tested_item(), &url, &operator);
    assert!(first.code == 0 && first.stderr.contains("no known key has signed"), "{}", first.stderr);
    assert!(first.stderr.contains("1 wait(s) to be reported"), "{}", first.stderr);
    let run_id = first.of("w")["receipt_id"].as_str().unwrap().to_owned();
    let body = kept(&world);
    let refused = server.post("/v1/work/receipts", &operator, &body);
    assert_eq!(
        (refused.problem(422).as_str(), &refused.json()["check"]),
        ("receipt_refused", &json!("forged"))
    );

    // Once an admin has enrolled it, the report is sent; the same again is the same entry.
    let signer = ran(&world.crealeph(&["work", "key"])).lines[0].as_str().unwrap().to_owned();
    let enrolment = json!({ "key": signer, "label": "Ana" }).to_string();
    assert_eq!(server.post("/v1/signers", &operator, &enrolment).problem(403), "forbidden");
    let enrolled = server.post("/v1/signers", &admin, &enrolment);
    assert_eq!(enrolled.status, 200, "{enrolled:?}");
    let enrolled = enrolled.json();
    assert_eq!(server.post("/v1/signers", &admin, &enrolment).json(), enrolled);
    let (_, listed) = server.scratch.json(&["signer", "list", "--json"], "");
    assert_eq!(server.get("/v1/signers", &admin).json()["signers"], json!([listed]));
    let (code, sent) = send_pending(&world, &url, &operator);
    assert_eq!((code, &sent["sent"], &sent["pending"]), (0, &json!([run_id]), &json!(0)), "{sent}");
    let again = server.post("/v1/work/receipts", &operator, &body).json();
    assert_eq!(again["repeat"], json!(true), "{again}");
    for (from, to) in [("change.diff", "other.diff"), ("\"succeeded\"", "\"failed\"")] {
        let changed = server.post("/v1/work/receipts", &operator, &body.replace(from, to));
        assert_eq!(changed.problem(422), "receipt_refused", "{from}");
    }
    assert_eq!(server.post("/v1/work/receipts", &other, &body).problem(422), "receipt_refused");

    // It is listed, verified and shown, to this tenant alone.
    let listed = server.get("/v1/work/runs?agent=one&status=succeeded", &reader).json();
    let listed = &listed["runs"][0];
    assert_eq!((&listed["run"], &listed["reported"]), (&json!(run_id), &json!(true)), "{listed}");
    assert_eq!(server.get("/v1/work/runs?agent=two", &reader).json()["runs"], json!([]));
    let target = |part: &str| format!("/v1/work/runs/{run_id}{part}");
    let shown = server.get(&target(""), &reader).json();
    assert_eq!((&shown["run"], &shown["receipt"]["id"]), (listed, &json!(run_id)));
    let proof = server.get(&target("/verify"), &reader).json();
    assert_eq!(proof["status"], json!("verified"), "{proof}");
    let diff = server.get(&target("/diff"), &reader);
    assert!(String::from_utf8_lossy(&diff.body).contains("+four"), "{diff:?}");
    let logs = server.get(&target("/logs"), &reader).json();
    assert!(logs["files"][0]["text"].as_str().unwrap().contains("said"), "{logs}");
    for part in ["", "/verify", "/diff", "/logs"] {
        assert_eq!(server.get(&target(part), &other).problem(404), "unknown_id");
    }

    counts_for_nothing(&server, &reader, &run_id);

    tells_what_was_used(&server, &reader, &other);

    // After the revocation nothing more is taken, and what was is still there.
    let id = enrolled["signerId"].as_str().unwrap();
    let revoked = server.request("DELETE", &format!("/v1/signers/{id}?reason=lost"), Some(&admin), None);
    assert_eq!(revoked.json()["state"], json!("revoked"));
    assert_eq!(server.post("/v1/signers", &admin, &enrolment).problem(409), "signer_revoked");
    let second = run(&world, item("v", "echo five >> a.txt"), &url, &operator);
    assert!(second.code == 0 && second.stderr.contains("no known key has signed"), "{}", second.stderr);
    assert_eq!(server.get(&target(""), &reader).status, 200);
    let (code, _, stderr) = server.scratch.run(&["ledger", "verify"], "");
    assert_eq!(code, 0, "{stderr}");
    let secret = operator.rsplit('.').next().unwrap();
    assert!(!second.stderr.contains(secret) && !first.stderr.contains(secret));
}

/// A workspace on the server's own ledger: the reported run is neither its item's success nor its duplicate.
fn counts_for_nothing(server: &Running, reader: &str, reported: &str) {
    let local = developer();
    let ledger = server.scratch.path().join(".crealeph/ledger.db");
    let state = server.scratch.path().join("state");
    let run = |items: &[Value]| {
        let path = local.items(items);
        let mut command = local.command(&["work", "run", &path, "--ledger", ledger.to_str().unwrap()]);
        ran(&command.env("XDG_STATE_HOME", &state).output().unwrap())
    };
    let next = item_with("next", "echo x > x", json!({ "dependencies": ["w"] }));
    let blocked = run(&[next]);
    assert_eq!(blocked.of("next")["status"], json!("blocked"), "{}", blocked.stderr);
    let same = run(&[tested_item()]);
    assert_eq!(same.of("w")["status"], json!("success"), "{}", same.stderr);
    assert_eq!(server.get("/v1/inbox", reader).json()["items"], json!([]));
    // Its own receipts are listed next to the reported one; their diff is where the workspace is.
    let runs = server.get("/v1/work/runs", reader).json();
    let own: Vec<(&Value, &Value)> =
        runs["runs"].as_array().unwrap().iter().map(|run| (&run["run"], &run["reported"])).collect();
    let run_id = same.of("w")["receipt_id"].clone();
    assert_eq!(own, [(&run_id, &json!(false)), (&json!(reported), &json!(true))]);
    let target = format!("/v1/work/runs/{}", run_id.as_str().unwrap());
    let absent = server.get(&format!("{target}/diff"), reader);
    assert_eq!(absent.problem(404), "not_here");
    let detail = absent.json()["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("crealeph-workspace/") && detail.contains("crealeph work diff"), "{detail}");
    assert_eq!(server.get(&format!("{target}/verify"), reader).json()["status"], json!("unproven"));
    // How many tests passed is known from either receipt, without the workspace.
    let entered = server.form("/sign-in", None, &format!("token={reader}"), true);
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap();
    for run in [run_id.as_str().unwrap(), reported] {
        let page = server.page(&format!("/runs/{run}"), Some(cookie)).text();
        assert!(page.contains("</code>, 3 passed, 0 failed"), "{page}");
    }
}

/// What two runs used, one of them reported, and the report of the ledger.
fn tells_what_was_used(server: &Running, reader: &str, other: &str) {
    let used = server.get("/v1/usage?by=agent", reader).json();
    let row = &used["rows"][0];
    assert_eq!(
        (&row["name"], &row["runs"], &row["withoutTokens"]),
        (&json!("one"), &json!(2), &json!(0)),
        "{used}"
    );
    assert_eq!(
        (&row["tokens"], &row["costUsd"], &used["isCut"]),
        (&json!(140.0), &json!(0.5), &json!(false)),
        "{used}"
    );
    assert_eq!(used, server.scratch.json(&["usage", "--by", "agent", "--json"], "").1);
    assert_eq!(server.get("/v1/usage?by=day&to=2020-01-01T00:00:00Z", reader).json()["rows"], json!([]));
    assert_eq!(server.get("/v1/usage", other).json()["total"]["runs"], json!(0));
    // The report is of the ledger's own runs.
    let report = server.get("/v1/report", reader).json();
    let row = &report["runs"]["rows"][0];
    assert_eq!((&report["origin"], &row["item"]), (&json!("ledger"), &json!("w")), "{report}");
    assert_eq!(report["runs"]["rows"].as_array().unwrap().len(), 1);
    assert_eq!(report["runs"]["stories"][0]["proof"]["status"], json!("unproven"));
    let run = row["run"].as_str().unwrap();
    let page = server.get(&format!("/v1/report.html?run={run}"), reader);
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
    let policy = page.header("content-security-policy").unwrap();
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("script-src"), "{policy}");
    let page = String::from_utf8(page.body).unwrap();
    assert!(page.contains(run) && !page.contains("<script"), "{page}");
    let text = server.get("/v1/report.md", reader);
    assert!(String::from_utf8(text.body).unwrap().starts_with("# CreAleph report"));
    assert_eq!(server.get(&format!("/v1/report?run={run}"), other).problem(404), "unknown_id");
    assert_eq!(server.get("/v1/report?run=@", reader).problem(404), "unknown_id");
    let both = format!("/v1/report?run={run}&execution=e");
    assert_eq!(server.get(&both, reader).problem(400), "bad_parameter");
}

#[test]
fn an_unreachable_server_does_not_change_a_run_and_gets_its_receipt_later() {
    let world = developer();
    // No one listens there.
    let url = "http://127.0.0.1:9";
    let away = run(&world, item("w", "echo four >> a.txt"), url, "crealeph_x.y.z");
    assert!(away.code == 0 && away.stderr.contains("takes no receipts now"), "{}", away.stderr);
    let (code, sent) = send_pending(&world, url, "crealeph_x.y.z");
    assert_eq!((code, &sent["pending"]), (2, &json!(1)), "{sent}");
    // An address that would show the key, or no key, is refused before anything runs.
    let shown = run(&world, item("v", "echo x > x"), "http://example.com", "crealeph_x.y.z");
    assert!(shown.code == 2 && !world.at("x").exists(), "{}", shown.stderr);
    let path = world.items(&[item("v", "echo x > x")]);
    let mut command = world.command(&["work", "run", &path, "--report-to", url]);
    let keyless = ran(&command.env_remove("CREALEPH_SERVER_KEY").output().unwrap());
    assert!(keyless.code == 2 && keyless.stderr.contains("no key for the server"), "{}", keyless.stderr);
    // To another server, on PostgreSQL and over HTTPS, it is reported by name.
    let postgres = Postgres::start();
    let database = postgres.url(&postgres.database());
    let scratch = Scratch::with_ledger(&format!("[ledger]\nlocation = \"{database}\"\nkeys = \"keys\"\n"));
    make_pair(&scratch, "server");
    let server = Running::start_with(scratch, &["--tls-cert", "server.pem", "--tls-key", "server.key"]);
    let operator = server.key("local", &["--role", "operator"]);
    let signer = world.crealeph(&["work", "key"]).stdout;
    server.scratch.write("dev.key", &String::from_utf8(signer).unwrap());
    let (code, _, stderr) = server.scratch.run(&["signer", "add", "dev.key", "--label", "CI"], "");
    assert_eq!(code, 0, "{stderr}");
    let (url, authority) = (&server.url, server.scratch.path().join("server.pem"));
    std::fs::write(world.outside().join("key.txt"), format!("{operator}\n")).unwrap();
    let file = world.outside().join("key.txt");
    let server_flags = ["--server-key", file.to_str().unwrap(), "--server-ca", authority.to_str().unwrap()];
    let report = ["work", "report-pending", "@", "--report-to", url];
    let sent = ran(&world.crealeph(&[&report[..], &server_flags].concat()));
    assert_eq!((sent.code, &sent.lines[0]["pending"]), (0, &json!(0)), "{}", sent.stderr);
    let list = ["--server", url, "ledger", "list", "--type", "reported_receipt", "--json"];
    let listed = ran(&world.crealeph(&[&list[..], &server_flags].concat()));
    assert_eq!(listed.lines[0]["payload"]["receipt"]["id"], away.of("w")["receipt_id"], "{}", listed.stderr);
}
