//! Approvals over HTTP, on both backends: a client that has nothing but keys and ssh-keygen enrols people, sets rules, reads what
//! awaits approval and submits verdicts; statements that anyone else signed are refused by name.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::Answer;
use crate::postgresql;
use crate::running::Running;
use crate::scratch::{Scratch, known, request};
use crate::world::{AGENTS, World as Workspace, item, ran};

const EXAMPLE: &str = "[agents.\"example@1\"]\nkind = \"example\"\n";

/// A server, and people with keys next to it.
pub(crate) struct World {
    pub(crate) server: Running,
    origin: String,
}

impl World {
    pub(crate) fn new(ledger: &str) -> World {
        let scratch = Scratch::with_ledger(&format!("{EXAMPLE}\n{ledger}"));
        for name in ["ana", "ben", "cy"] {
            keygen(&scratch, &["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name]);
        }
        scratch.append(&known(1, &["idea"], ""));
        let server = Running::start_in(scratch);
        let reader = server.key("local", &["--role", "reader"]);
        let people = server.get("/v1/people", &reader).json();
        assert_eq!((&people["people"], &people["root"]), (&json!([]), &Value::Null));
        World { server, origin: people["logOrigin"].as_str().unwrap().to_owned() }
    }

    pub(crate) fn fingerprint(&self, name: &str) -> String {
        let words = keygen(&self.server.scratch, &["-l", "-f", &format!("{name}.pub")]);
        words.split(' ').nth(1).unwrap().to_owned()
    }

    /// A statement and a signature over its canonical text, made by ssh-keygen.
    pub(crate) fn signed(&self, namespace: &str, key: &str, statement: &Value) -> String {
        let text = canonical(statement);
        self.server.scratch.write("statement", &text);
        let _ = std::fs::remove_file(self.server.scratch.path().join("statement.sig"));
        keygen(&self.server.scratch, &["-q", "-Y", "sign", "-n", namespace, "-f", key, "statement"]);
        let signature = std::fs::read_to_string(self.server.scratch.path().join("statement.sig")).unwrap();
        json!({ "statement": statement, "proof": "ssh", "signature": signature }).to_string()
    }

    pub(crate) fn admin_statement(&self, kind: &str, by: &str, nonce: u32, more: &Value) -> Value {
        let mut statement = json!({
            "type": kind, "tenantId": "local", "logOrigin": self.origin, "signedBy": by,
            "signerKeyId": self.fingerprint(by), "nonce": format!("0190a6f0-7c2e-4d31-8a4e-{nonce:012}"),
            "time": "2026-01-02T03:04:05.000Z",
        });
        statement.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        statement
    }

    fn enrolment(&self, name: &str, groups: &[&str], by: &str, nonce: u32) -> String {
        let line = std::fs::read_to_string(self.server.scratch.path().join(format!("{name}.pub"))).unwrap();
        let more = json!({
            "person": name, "publicKey": line.trim(), "keyId": self.fingerprint(name), "groups": groups,
        });
        let statement = self.admin_statement("person_enrolment", by, nonce, &more);
        self.signed("crealeph-enrolment", by, &statement)
    }

    /// The statement about a subject, as the server writes it, signed by a person.
    fn verdict(&self, writer: &str, subject: &str, person: &str) -> String {
        self.decided(writer, subject, person, json!({ "decision": "approve" }))
    }

    fn decided(&self, writer: &str, subject: &str, person: &str, mut wanted: Value) -> String {
        wanted["subject"] = json!(subject);
        wanted["keyId"] = json!(self.fingerprint(person));
        let prepared = self.server.post("/v1/verdicts/statement", writer, &wanted.to_string());
        assert_eq!(prepared.status, 200, "{prepared:?}");
        let prepared = prepared.json();
        assert_eq!(prepared["text"], json!(canonical(&prepared["statement"])));
        self.signed(prepared["namespace"].as_str().unwrap(), person, &prepared["statement"])
    }
}

fn keygen(scratch: &Scratch, args: &[&str]) -> String {
    let mut command = Command::new("ssh-keygen");
    let run = command.args(args).current_dir(scratch.path()).stdin(Stdio::null()).output().unwrap();
    assert!(run.status.success(), "{args:?}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap()
}

/// The canonical text of a flat document: its members in order.
pub(crate) fn canonical(document: &Value) -> String {
    let members: BTreeMap<&String, &Value> = document.as_object().unwrap().iter().collect();
    serde_json::to_string(&members).unwrap()
}

pub(crate) fn refused(answer: &Answer, status: u16, code: &str, check: Option<&str>) {
    assert_eq!(answer.problem(status), code);
    assert_eq!(answer.json()["check"].as_str(), check, "{}", answer.json());
}

/// The first admin enrols herself, then the others; rules are set.
fn enrol(world: &World, admin: &str) {
    let server = &world.server;
    let late = world.enrolment("ben", &["maintainers"], "ana", 2);
    refused(&server.post("/v1/people", admin, &late), 422, "approval_refused", Some("invalid"));
    let first = world.enrolment("ana", &["admins"], "ana", 1);
    let written = server.post("/v1/people", admin, &first);
    assert_eq!(written.status, 200, "{written:?}");
    for (name, nonce) in [("ben", 3), ("cy", 4)] {
        let enrolment = world.enrolment(name, &["maintainers"], "ana", nonce);
        let written = server.post("/v1/people", admin, &enrolment).json();
        let again = server.post("/v1/people", admin, &enrolment).json();
        assert_eq!((&again["id"], &again["repeat"]), (&written["id"], &json!(true)), "{written}");
    }
    assert_eq!(server.post("/v1/people", admin, &first).json()["repeat"], json!(true));
    let own = world.enrolment("cy", &["admins"], "ben", 5);
    refused(&server.post("/v1/people", admin, &own), 422, "approval_refused", Some("invalid"));
    let rule = json!({
        "approvals": 2, "group": "maintainers", "name": "two", "osRequester": false, "proofs": ["ssh"],
        "requester": false, "subject": "draft", "unattended": false,
    });
    let rules = world.admin_statement("approval_rule", "ana", 6, &json!({ "rules": [rule] }));
    let other = world.signed("crealeph-enrolment", "ana", &rules);
    refused(&server.post("/v1/rules", admin, &other), 422, "approval_refused", Some("forged"));
    let rules = world.signed("crealeph-rule", "ana", &rules);
    assert_eq!(server.post("/v1/rules", admin, &rules).status, 200);
    assert_eq!(server.get("/v1/rules", admin).json()["rules"], json!([rule]));
    let (_, listed, _) = server.scratch.run(&["person", "list", "--json"], "");
    let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let people = server.get("/v1/people", admin).json();
    assert_eq!((&people["people"], &people["root"]), (&json!(listed), &json!(world.fingerprint("ana"))));
    let page = server.get("/v1/people?limit=1&after=ana", admin).json();
    assert_eq!((&page["people"][0]["person"], &page["next"]), (&json!("ben"), &json!("ben")));
}

fn story(ledger: &str) {
    let world = World::new(ledger);
    let server = &world.server;
    let key = |role: &str, more: &[&str]| server.key("local", &[&["--role", role], more].concat());
    let (admin, writer, reader) = (key("admin", &[]), key("writer", &[]), key("reader", &[]));
    let (mine, theirs) = (key("writer", &["--robot", "r"]), key("writer", &["--robot", "q"]));
    let other = server.key("other", &["--role", "writer"]);
    enrol(&world, &admin);
    // Asked for with a key that an admin granted, so the rule need not trust an account of the operating system.
    let operator = key("operator", &[]);
    let built = server.post("/v1/builder/runs", &operator, &request("e-1", "draft_only", false)).json();
    let draft = built["artifacts"][0]["id"].as_str().unwrap().to_owned();

    // The same as the command line lists, in pages, and for a robot what is its own.
    let (_, printed, _) = server.scratch.run(&["inbox", "--json"], "");
    let printed: Vec<Value> = printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut items = Vec::new();
    let mut target = "/v1/inbox?limit=2".to_owned();
    loop {
        let page = server.get(&target, &reader).json();
        items.extend(page["items"].as_array().unwrap().clone());
        let Some(next) = page["next"].as_str() else { break };
        target = format!("/v1/inbox?limit=2&cursor={next}");
    }
    assert!(items == printed && items.len() == 3, "{items:?}");
    assert_eq!(server.get("/v1/inbox", &mine).json()["items"], json!(printed));
    for token in [&theirs, &other] {
        assert_eq!(server.get("/v1/inbox", token).json()["items"], json!([]));
        for target in [format!("/v1/inbox/{draft}"), format!("/v1/approvals/{draft}")] {
            assert_eq!(server.get(&target, token).problem(404), "unknown_id");
        }
    }
    assert_eq!(server.get("/v1/inbox?robot=r", &theirs).json()["items"], json!([]));

    // What is signed is what was shown.
    let shown = server.get(&format!("/v1/inbox/{draft}"), &reader).json();
    assert_eq!((&shown["entry"]["id"], &shown["item"]["missing"]), (&json!(draft), &json!(2)), "{shown}");
    assert_eq!(shown["evidence"][0]["type"], json!("signal"), "{shown}");
    let asked = shown["item"]["requester"].as_str().unwrap();
    assert!(asked.starts_with("API key "), "{asked}");
    let ben = world.verdict(&writer, &draft, "ben");
    let statement = serde_json::from_str::<Value>(&ben).unwrap()["statement"].clone();
    for (name, bound) in shown["signs"].as_object().unwrap() {
        assert_eq!(statement.get(name).unwrap_or(&Value::Null), bound, "{name}");
    }

    // No one signs for another, and no key stands for a signature.
    let changed = ben.replace("\"approve\"", "\"reject\"");
    refused(&server.post("/v1/verdicts", &writer, &changed), 422, "approval_refused", Some("forged"));
    let cys = statement.to_string().replace(&world.fingerprint("ben"), &world.fingerprint("cy"));
    let cys = world.signed("crealeph-verdict", "cy", &serde_json::from_str(&cys).unwrap());
    refused(&server.post("/v1/verdicts", &writer, &cys), 422, "approval_refused", Some("invalid"));
    for token in [&reader, &admin] {
        assert_eq!(server.post("/v1/verdicts", token, &ben).problem(403), "forbidden");
    }
    for token in [&theirs, &other] {
        assert_eq!(server.post("/v1/verdicts", token, &ben).problem(404), "unknown_id");
    }
    let ana = json!({ "subject": draft, "decision": "approve", "keyId": world.fingerprint("ana") });
    let not_in = server.post("/v1/verdicts/statement", &writer, &ana.to_string());
    refused(&not_in, 422, "approval_not_counted", Some("not_in_group"));

    // Two of the group land it, once, however often they send it.
    let recorded = server.post("/v1/verdicts", &mine, &ben).json();
    assert_eq!((&recorded["missing"], &recorded["landed"]), (&json!(1), &Value::Null), "{recorded}");
    let again = server.post("/v1/verdicts", &writer, &ben).json();
    assert_eq!((&again["verdict"], &again["repeat"]), (&recorded["verdict"], &json!(true)), "{again}");
    let cy = world.verdict(&writer, &draft, "cy");
    let landed = server.post("/v1/verdicts", &writer, &cy).json();
    assert!(landed["landed"].is_string() && landed["planned"].is_string(), "{landed}");
    let again = server.post("/v1/verdicts", &writer, &cy).json();
    assert_eq!((&again["landed"], &again["planned"]), (&landed["landed"], &landed["planned"]));
    let late = json!({ "subject": draft, "decision": "reject", "keyId": world.fingerprint("cy") });
    let late = server.post("/v1/verdicts/statement", &writer, &late.to_string());
    assert_eq!(late.problem(409), "approval_ended");
    let why = server.get(&format!("/v1/approvals/{draft}"), &reader).json();
    assert_eq!(why, server.scratch.json(&["approval", "why", &draft, "--json"], "").1);
    assert_eq!(server.get("/v1/inbox", &reader).json()["items"].as_array().unwrap().len(), 2);

    // A revoked person can no longer sign.
    let gone = world.admin_statement("person_revocation", "ana", 7, &json!({ "person": "cy" }));
    let gone = world.signed("crealeph-revocation", "ana", &gone);
    assert_eq!(server.post("/v1/people/revocations", &admin, &gone).status, 200);
    let left = built["artifacts"][1]["id"].as_str().unwrap();
    let late = json!({ "subject": left, "decision": "approve", "keyId": world.fingerprint("cy") });
    assert_eq!(server.post("/v1/verdicts/statement", &writer, &late.to_string()).problem(422), "unknown_key");
    // What the Builder's agent used is counted for its robot.
    let used = server.get("/v1/usage?by=robot", &reader).json();
    assert_eq!((&used["rows"][0]["name"], &used["total"]["executions"]), (&json!("r"), &json!(1)), "{used}");
    assert_eq!(server.get("/v1/usage", &theirs).json()["total"]["executions"], json!(0));
    let report = server.get("/v1/report?execution=e-1", &mine).json();
    assert_eq!(report["executions"]["rows"][0]["executionId"], json!("e-1"), "{report}");
    assert_eq!(server.get("/v1/report?execution=e-1", &theirs).problem(404), "unknown_id");
    signers(server, &admin);
    let (code, _, stderr) = server.scratch.run(&["ledger", "verify"], "");
    assert_eq!(code, 0, "{stderr}");
}

/// A signer is enrolled once, and revoked permanently.
fn signers(server: &Running, admin: &str) {
    std::fs::create_dir(server.scratch.path().join("sub")).unwrap();
    let (code, key, stderr) = server.scratch.run(&["work", "key", "--workspace", "sub"], "");
    assert_eq!(code, 0, "{stderr}");
    let request = json!({ "key": key.trim(), "label": "CI" }).to_string();
    let signer = server.post("/v1/signers", admin, &request).json();
    assert_eq!(server.post("/v1/signers", admin, &request).json(), signer);
    let target = format!("/v1/signers/{}", signer["signerId"].as_str().unwrap());
    for _ in 0..2 {
        let revoked = server.request("DELETE", &target, Some(admin), None).json();
        assert_eq!(revoked["state"], json!("revoked"), "{revoked}");
    }
    assert_eq!(server.get("/v1/signers", admin).json()["signers"][0]["state"], json!("revoked"));
    let other = json!({ "key": key.trim().replace("crealeph-workspace/", "x/") }).to_string();
    assert_eq!(server.post("/v1/signers", admin, &other).problem(400), "bad_key");
}

#[test]
fn a_held_change_is_approved_over_http_and_lands_where_its_workspace_is() {
    let world = World::new("");
    let server = &world.server;
    let (admin, writer) =
        (server.key("local", &["--role", "admin"]), server.key("local", &["--role", "writer"]));
    let robots = server.key("local", &["--role", "writer", "--robot", "r"]);
    let first = world.enrolment("ana", &["admins"], "ana", 1);
    assert_eq!(server.post("/v1/people", &admin, &first).status, 200);
    let local = Workspace::with(AGENTS);
    local.write("a.txt", "one\n");
    let ledger = server.scratch.path().join(".crealeph/ledger.db");
    let work = |args: &[&str]| {
        let args = [&["work"], args, &["--ledger", ledger.to_str().unwrap()]].concat();
        ran(&local
            .command(&args)
            .env("XDG_STATE_HOME", server.scratch.path().join("state"))
            .output()
            .unwrap())
    };
    let held = work(&["run", &local.items(&[item("w", "echo four >> a.txt")]), "--hold"]);
    assert_eq!(held.code, 3, "{}", held.stderr);
    let run = held.of("w")["run"].as_str().unwrap();

    let waiting = server.get("/v1/inbox", &writer).json();
    assert_eq!(
        (&waiting["items"][0]["subject"], &waiting["items"][0]["kind"]),
        (&json!(run), &json!("change"))
    );
    assert_eq!(server.get("/v1/inbox", &robots).json()["items"], json!([]), "a change is of no robot");
    let shown = server.get(&format!("/v1/inbox/{run}"), &writer).json();
    assert!(shown["entry"]["payload"]["diff"].as_str().unwrap().contains("+four"), "{shown}");
    let cookie = server.form("/sign-in", None, &format!("token={writer}"), true);
    let cookie = cookie.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let page = |target: &str| server.page(target, Some(&cookie)).text();
    let own_page = format!("/inbox/{run}");
    assert!(page("/inbox").contains("1 approval missing") && page(&own_page).contains("crealeph approve"));
    let signed = world.verdict(&writer, run, "ana");
    assert_eq!(server.post("/v1/verdicts", &robots, &signed).problem(404), "unknown_id");
    let recorded = server.post("/v1/verdicts", &writer, &signed).json();
    let next = recorded["next"].as_str().unwrap();
    assert!(next.contains("crealeph work recover") && next.contains("crealeph-workspace/"), "{recorded}");
    assert_eq!((&recorded["missing"], &recorded["landed"]), (&json!(0), &Value::Null));
    assert_eq!(local.read("a.txt"), "one\n");
    // The pages say where it is carried out, and offer nothing but to stop it.
    for target in ["/inbox", own_page.as_str()] {
        let page = page(target);
        assert!(page.contains("enough people have approved it") && !page.contains("missing"), "{page}");
        assert!(page.contains("What remains: the next <code>crealeph work run</code> or"), "{page}");
        assert!(!page.contains("crealeph approve"), "{page}");
    }
    assert!(page(&own_page).contains("Reject it before it lands"));

    let recovered = work(&["recover"]);
    assert_eq!((recovered.code, local.read("a.txt").as_str()), (0, "one\nfour\n"), "{}", recovered.stderr);
    let again = server.post("/v1/verdicts", &writer, &signed).json();
    assert!(again["landed"].is_string() && again["next"].is_null(), "{again}");
    assert_eq!(server.get(&format!("/v1/approvals/{run}"), &writer).json()["state"], json!("landed"));
    let landed = page(&own_page);
    assert!(landed.contains("it has landed") && !landed.contains("What remains"), "{landed}");
    assert!(!landed.contains("crealeph reject"), "{landed}");
    // Who decided, and with which key.
    let key = world.fingerprint("ana");
    assert!(landed.contains(&format!("with the SSH key <code>{key}</code>")), "{landed}");

    // One that is rejected is discarded; the log does not say whether that has happened, and neither does the page.
    let held = work(&["run", &local.items(&[item("v", "echo five >> a.txt")]), "--hold"]);
    let other = held.of("v")["run"].as_str().unwrap();
    let wanted = json!({ "decision": "reject", "reason": "<b>not\u{202e} now" });
    let rejected = server.post("/v1/verdicts", &writer, &world.decided(&writer, other, "ana", wanted)).json();
    let next = rejected["next"].as_str().unwrap();
    assert!(next.ends_with(" discards it, if that has not happened yet"), "{rejected}");
    for _ in 0..2 {
        let rejected = page(&format!("/inbox/{other}"));
        assert!(rejected.contains("discards it, if that has not happened yet."), "{rejected}");
        let why = format!("with the SSH key <code>{key}</code>: &lt;b&gt;not\\u{{202e}} now</li>");
        assert!(rejected.contains(&why), "{rejected}");
        assert_eq!(work(&["recover"]).code, 0);
    }
    assert_eq!(local.read("a.txt"), "one\nfour\n");
    // The diff that people were shown is still there, without the workspace.
    let diff = server.get(&format!("/v1/work/runs/{run}/diff"), &writer);
    assert!(String::from_utf8_lossy(&diff.body).contains("+four"), "{diff:?}");
}

#[test]
fn people_approve_over_http_on_sqlite() {
    story("");
}

#[test]
fn people_approve_over_http_on_postgresql() {
    let server = postgresql::Server::start();
    let database = server.database();
    story(&format!("[ledger]\nlocation = \"{}\"\nkeys = \"keys\"\n", server.url(&database)));
}
