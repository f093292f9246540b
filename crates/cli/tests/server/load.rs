//! A server under a load of appends, reads and runs on many connections at once, and two servers on one SQLite file: no error, every
//! append that was acknowledged is there once, and the log verifies. The long form with figures is `cargo xtask bench server load`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Child;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::events::Events;
use crate::running::{Running, start_process};
use crate::scratch::{Scratch, known, request, signal, wait_until};

/// How many clients there are, and for how long.
const CLIENTS: usize = 12;
const TIME: Duration = Duration::from_secs(3);
const CONFIGURATION: &str = "[server]\nmax_requests_per_second = 100000\nmax_runs = 64\n";
const AGENT: &str = "[agents.\"example@1\"]\nkind = \"example\"\n";

fn draft(key: &str) -> String {
    json!({
        "robotId": "r", "module": "m", "source": "s", "type": "note", "state": "final",
        "payload": { "text": key }, "key": key,
    })
    .to_string()
}

/// One client: appends, reads what it appended, asks for a page and a snapshot, and now and then runs the Builder. Gives what was
/// acknowledged: the keys with the ids of their entries, and the executions.
fn work(
    client: &Client,
    token: &str,
    number: usize,
    end: Instant,
) -> (BTreeMap<String, String>, BTreeSet<String>) {
    let (mut appended, mut executions) = (BTreeMap::new(), BTreeSet::new());
    let mut turn = 0;
    while turn < 8 || Instant::now() < end {
        let key = format!("w{number}-{turn}");
        let answer = client.post("/v1/entries", token, &draft(&key));
        assert_eq!(answer.status, 200, "{answer:?}");
        let id = answer.json()["appended"][0]["id"].as_str().unwrap().to_owned();
        let read = client.get(&format!("/v1/entries/{id}"), token);
        assert_eq!((read.status, read.json()["key"].as_str()), (200, Some(key.as_str())), "{read:?}");
        appended.insert(key, id);
        for target in ["/v1/entries?limit=20&order=newest", "/v1/robots/r/snapshot", "/v1/executions?limit=5"]
        {
            assert_eq!(client.get(target, token).status, 200, "{target}");
        }
        if turn % 8 == 0 {
            let execution = format!("e{number}-{turn}");
            let answer = client.post("/v1/builder/runs", token, &request(&execution, "block", false));
            assert_eq!((answer.status, &answer.json()["ok"]), (200, &json!(true)), "{answer:?}");
            executions.insert(execution);
        }
        turn += 1;
    }
    (appended, executions)
}

/// What a ledger holds of what clients sent: each client key with its id, and the executions that have a record, each as often as it is there.
fn exported(scratch: &Scratch) -> (Vec<(String, String)>, Vec<String>) {
    let (code, exported, stderr) = scratch.run(&["ledger", "export"], "");
    assert_eq!(code, 0, "{stderr}");
    let (mut keys, mut executions) = (Vec::new(), Vec::new());
    for line in exported.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let entry = &line["entry"];
        let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
        match entry["type"].as_str() {
            Some("note") => keys.push((text("key"), text("id"))),
            Some("execution_record") => {
                let id = entry.pointer("/payload/executionId").and_then(Value::as_str);
                executions.push(id.unwrap().to_owned());
            }
            _ => {}
        }
    }
    (keys, executions)
}

fn verifies(scratch: &Scratch) {
    let (code, _, stderr) = scratch.run(&["ledger", "verify"], "");
    assert_eq!(code, 0, "{stderr}");
}

/// Lets all clients work, each with one of the servers, and compares what was acknowledged with what is there.
fn check(servers: &[&Client], scratch: &Scratch, token: &str) {
    let start = Barrier::new(CLIENTS);
    let acknowledged: Vec<_> = std::thread::scope(|scope| {
        let clients = (0..CLIENTS).map(|number| {
            let (client, start) = (servers[number % servers.len()], &start);
            scope.spawn(move || {
                start.wait();
                work(client, token, number, Instant::now() + TIME)
            })
        });
        let clients: Vec<_> = clients.collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let (keys, executions) = exported(scratch);
    let appended: BTreeMap<String, String> =
        acknowledged.iter().flat_map(|(appended, _)| appended.clone()).collect();
    assert_eq!(
        keys.iter().cloned().collect::<BTreeMap<_, _>>(),
        appended,
        "nothing is lost, nothing else is there"
    );
    assert_eq!(keys.len(), appended.len(), "and each is there once");
    let ran: BTreeSet<String> = acknowledged.into_iter().flat_map(|(_, executions)| executions).collect();
    assert_eq!(executions.iter().cloned().collect::<BTreeSet<_>>(), ran);
    assert_eq!(executions.len(), ran.len(), "a run is recorded once");
    verifies(scratch);
}

fn prepared() -> Scratch {
    let scratch = Scratch::with_ledger(&format!("{CONFIGURATION}{AGENT}"));
    scratch.append(&known(1, &["idea", "copy", "playbook"], ""));
    scratch
}

#[test]
fn under_a_load_of_appends_reads_and_runs_nothing_fails_and_nothing_is_lost() {
    let server = Running::start_in(prepared());
    let token = server.key("local", &["--role", "operator"]);
    check(&[&server], &server.scratch, &token);
    assert!(server.memory() < 150 << 20, "{} bytes", server.memory());
}

/// A second server, killed when the test ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        signal(&self.0, "-KILL");
        self.0.wait().unwrap();
    }
}

#[test]
fn two_servers_on_one_sqlite_file_lose_and_duplicate_nothing() {
    let first = Running::start_in(prepared());
    let (child, second) = start_process(&first.scratch, &[]);
    let _ended = Ended(child);
    let token = first.key("local", &["--role", "operator"]);
    let (is_over, streamed) = (AtomicBool::new(false), std::sync::Mutex::new([Vec::new(), Vec::new()]));
    std::thread::scope(|scope| {
        for (number, server) in [&*first, &second].into_iter().enumerate() {
            let (token, is_over, streamed) = (&token, &is_over, &streamed);
            scope.spawn(move || {
                let mut events = Events::open(server, "/v1/events?type=note&after=0", token, None);
                while !is_over.load(Ordering::SeqCst) {
                    let (_, seq, event) = events.next();
                    let is_last = event["data"]["key"] == "last";
                    streamed.lock().unwrap()[number].push(seq.unwrap());
                    if is_last {
                        break;
                    }
                }
            });
        }
        check(&[&first, &second], &first.scratch, &token);
        assert_eq!(second.post("/v1/entries", &token, &draft("last")).status, 200);
        let listed = first.scratch.entries();
        wait_until("both streams have all of it", || {
            streamed.lock().unwrap().iter().all(|seen| seen.last().is_some_and(|last| *last >= listed))
        });
        is_over.store(true, Ordering::SeqCst);
    });
    let [one, other] = streamed.into_inner().unwrap();
    let (keys, _) = exported(&first.scratch);
    assert_eq!((one.len(), &one), (keys.len(), &other), "each stream has every entry once, in order");
    assert!(one.is_sorted_by(|a, b| a < b));
    // The same entry at both at once is one entry, and a key that the one revokes the other refuses at once.
    let both: Vec<Value> = std::thread::scope(|scope| {
        let threads = [&*first, &second].map(|server| {
            let token = &token;
            scope.spawn(move || server.post("/v1/entries", token, &draft("same")).json())
        });
        threads.map(|thread| thread.join().unwrap()).into()
    });
    assert_eq!(both[0]["appended"][0]["id"], both[1]["appended"][0]["id"], "{both:?}");
    let admin = first.key("local", &["--role", "admin"]);
    for (here, there) in [(&*first, &second), (&second, &*first)] {
        let reader = first.key("local", &["--role", "reader"]);
        assert_eq!(there.get("/v1/entries?limit=1", &reader).status, 200);
        let id = reader.split('.').nth(1).unwrap();
        assert_eq!(here.request("DELETE", &format!("/v1/keys/{id}"), Some(&admin), None).status, 200);
        assert_eq!(there.get("/v1/entries?limit=1", &reader).problem(401), "unauthenticated");
    }
    verifies(&first.scratch);
}
