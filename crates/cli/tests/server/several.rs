//! Several server processes on one PostgreSQL: what one acknowledged the others know, and the death of one, or of the database
//! for a while, loses and doubles nothing.

use std::collections::BTreeSet;
use std::io::{BufReader, Write as _};
use std::net::TcpStream;
use std::process::Child;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::accepted::{decided, gated, prefer};
use crate::client::{Answer, Client};
use crate::gate::GateAgent;
use crate::postgresql::Server as Postgres;
use crate::running::start_process;
use crate::scratch::{Scratch, known, signal, wait_until};

/// Clients that append at the same time.
const WRITERS: usize = 4;
/// How long a client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Servers on one database.
struct Team {
    scratch: Scratch,
    servers: Vec<(Child, Client)>,
}

impl Team {
    fn start(postgres: &Postgres, configuration: &str) -> Team {
        let url = postgres.url(&postgres.database());
        let scratch = Scratch::with_ledger(&format!(
            "[ledger]\nlocation = \"{url}\"\nkeys = \"keys\"\n{configuration}"
        ));
        let servers = (0..2).map(|_| start_process(&scratch, &[])).collect();
        Team { scratch, servers }
    }

    fn client(&self, number: usize) -> &Client {
        &self.servers[number].1
    }

    fn kill(&mut self, number: usize) {
        let (child, _) = &mut self.servers[number];
        signal(child, "-KILL");
        child.wait().unwrap();
    }

    fn key(&self, role: &str) -> (String, String) {
        let (code, created) = self.scratch.json(&["key", "create", "--json", "--role", role], "");
        assert_eq!(code, 0, "{created}");
        let text = |name: &str| created[name].as_str().unwrap().to_owned();
        (text("keyId"), text("token"))
    }
}

impl Drop for Team {
    fn drop(&mut self) {
        for (child, _) in &mut self.servers {
            if child.try_wait().unwrap().is_none() {
                signal(child, "-KILL");
                child.wait().unwrap();
            }
        }
    }
}

#[test]
fn what_one_server_knows_the_other_knows() {
    let gate = GateAgent::start();
    let postgres = Postgres::start();
    let mut team = Team::start(&postgres, &gate.section());
    team.scratch.append(&known(1, &["idea", "copy", "playbook"], ""));
    let (_, token) = team.key("operator");
    let (id, revoked) = team.key("reader");
    let (_, admin) = team.key("admin");
    for number in 0..2 {
        assert_eq!(team.client(number).get("/v1/entries", &revoked).status, 200);
    }
    let target = format!("/v1/keys/{id}");
    assert_eq!(team.client(0).request("DELETE", &target, Some(&admin), None).status, 200);
    assert_eq!(team.client(1).get("/v1/entries", &revoked).problem(401), "unauthenticated");
    // The same request at both, waited for: the agent runs once.
    let body = gated("joined");
    let answers: Vec<Answer> = std::thread::scope(|scope| {
        let send = |number: usize| {
            let (team, token, body) = (&team, &token, &body);
            move || team.client(number).post("/v1/builder/runs", token, body)
        };
        let sent = [scope.spawn(send(0)), scope.spawn(send(1))];
        wait_until("the agent is called", || gate.calls() == 1);
        // And accepted at either, it is the same run again.
        for number in 0..2 {
            assert_eq!(prefer(team.client(number), &token, "respond-async", &body).status, 202);
        }
        let other = body.replace("\"w1\"", "\"w2\"");
        let conflict = prefer(team.client(1), &token, "respond-async", &other);
        assert_eq!((conflict.status, conflict.json()["error"].as_str()), (409, Some("IDEMPOTENCY_CONFLICT")));
        gate.open();
        sent.map(|thread| thread.join().unwrap()).into()
    });
    assert_eq!(gate.calls(), 1);
    assert!(answers.iter().all(|answer| answer.status == 200), "{answers:?}");
    assert_eq!(answers[0].json()["state"], answers[1].json()["state"]);
    for number in 0..2 {
        let target = "/v1/builder/runs/r/joined";
        assert_eq!(decided(team.client(number), &token, target).json()["state"], answers[0].json()["state"]);
    }
    assert_eq!(team.client(0).get("/v1/builder/runs", &token).json(), json!({ "runs": [] }));
    team.kill(0);
    assert_eq!(prefer(team.client(1), &token, "wait=60", &gated("alone")).status, 200);
}

#[test]
fn what_a_killed_server_accepted_is_run_by_another() {
    let gate = GateAgent::start();
    let postgres = Postgres::start();
    let mut team = Team::start(&postgres, &format!("[server]\nmax_runs = 1\n{}", gate.section()));
    team.scratch.append(&known(1, &["idea", "copy", "playbook"], ""));
    let (_, token) = team.key("operator");
    let target = |execution: &str| format!("/v1/builder/runs/r/{execution}?attempt=1");
    for execution in ["e-1", "e-2", "e-3"] {
        assert_eq!(prefer(team.client(0), &token, "respond-async", &gated(execution)).status, 202);
    }
    // Each server runs one at a time.
    wait_until("both servers run one", || gate.calls() == 2);
    team.kill(0);
    gate.open();
    for execution in ["e-1", "e-2", "e-3"] {
        let answer = decided(team.client(1), &token, &target(execution));
        assert_eq!(answer.status, 200, "{answer:?}");
    }
    assert_eq!(gate.calls(), 4, "the one whose server died was called for again");
    let (code, _, stderr) = team.scratch.run(&["ledger", "verify"], "");
    assert_eq!(code, 0, "{stderr}");
}

/// Appends until it is stopped, each entry until it is acknowledged by one of the servers.
fn append_all(
    team: &Team,
    token: &str,
    writer: usize,
    is_over: &AtomicBool,
    acknowledged: &Mutex<BTreeSet<String>>,
) {
    let mut number = 0;
    while !is_over.load(Ordering::SeqCst) {
        let key = format!("w{writer}-{number}");
        let entry = json!({
            "robotId": "r", "module": "m", "source": "s", "type": "note", "state": "final",
            "payload": { "n": number }, "key": key,
        });
        let mut turn = writer;
        loop {
            let sent = try_post(team.client(turn % 2), token, &entry.to_string());
            match sent {
                Some(200) => break,
                // The server is gone, or cannot use its database now.
                None | Some(503) => turn += 1,
                Some(other) => panic!("{other}"),
            }
        }
        acknowledged.lock().unwrap().insert(key);
        number += 1;
    }
}

/// The status of an append; `None` if no answer came.
fn try_post(client: &Client, token: &str, body: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(client.0).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    let head = format!(
        "POST /v1/entries HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        client.0,
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).ok()?;
    Answer::try_read(&mut BufReader::new(stream)).map(|answer| answer.status)
}

#[test]
fn killed_servers_and_a_restarted_database_lose_and_duplicate_nothing() {
    let mut postgres = Postgres::start_durable();
    let team = Team::start(&postgres, "");
    let (_, token) = team.key("writer");
    let (is_over, acknowledged) = (AtomicBool::new(false), Mutex::new(BTreeSet::new()));
    let count = || acknowledged.lock().unwrap().len();
    let grown = |from: usize| wait_until("appends are acknowledged", || count() >= from + 50);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (team, token, is_over, acknowledged) = (&team, &token, &is_over, &acknowledged);
            scope.spawn(move || append_all(team, token, writer, is_over, acknowledged));
        }
        grown(count());
        postgres.kill();
        postgres.run();
        grown(count());
        signal(&team.servers[0].0, "-KILL");
        grown(count());
        is_over.store(true, Ordering::SeqCst);
    });
    let (code, exported, stderr) = team.scratch.run(&["ledger", "export"], "");
    assert_eq!(code, 0, "{stderr}");
    let lines = exported.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let keys: Vec<String> = lines
        .filter_map(|line| Some(line.pointer("/entry/key").or(line.get("key"))?.as_str()?.to_owned()))
        .collect();
    let found: BTreeSet<String> = keys.iter().filter(|key| key.starts_with('w')).cloned().collect();
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(
        acknowledged.len() >= 150 && acknowledged.is_subset(&found),
        "{} of {}",
        found.len(),
        acknowledged.len()
    );
    assert_eq!(keys.iter().filter(|key| key.starts_with('w')).count(), found.len(), "each is there once");
    let (code, _, stderr) = team.scratch.run(&["ledger", "verify"], "");
    assert_eq!(code, 0, "{stderr}");
}
