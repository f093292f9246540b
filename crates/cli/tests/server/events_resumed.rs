//! Streams that are cut and resumed at random while two writers append: each gets every entry of its filter once and in order,
//! on both backends, through any server, with rings of any size, and when notices are lost.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::events::{Events, append};
use crate::postgresql::Server;
use crate::running::Running;
use crate::scratch::Scratch;

/// How many entries each writer appends.
const ENTRIES: usize = 80;
/// The targets of streams, with the filter as a list has it.
const FILTERS: &[&str] = &["", "robot=r0", "type=signal", "robot=r1&state=final", "type=metric&state=raw"];

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

fn draft(numbers: &mut Numbers, key: &str) -> Value {
    let pick = |number: u64, words: [&'static str; 2]| words[number as usize % 2];
    json!({
        "robotId": format!("r{}", numbers.below(3)), "module": "m", "source": "s", "key": key,
        "type": pick(numbers.below(2), ["signal", "metric"]), "state": pick(numbers.below(2), ["final", "raw"]),
        "payload": { "text": "x".repeat(numbers.below(600) as usize) },
    })
}

/// Appends entries, one or several at a time.
fn write(server: &Running, token: &str, writer: usize) {
    let mut numbers = Numbers(0x9e37_79b9 + writer as u64);
    let mut written = 0;
    while written < ENTRIES {
        let count = (1 + numbers.below(5) as usize).min(ENTRIES - written);
        let batch: Vec<Value> =
            (written..written + count).map(|n| draft(&mut numbers, &format!("w{writer}-{n}"))).collect();
        let answer = server.post("/v1/entries", token, &json!(batch).to_string());
        assert_eq!(answer.status, 200, "{answer:?}");
        written += count;
    }
}

/// The sequence numbers that a stream of a filter sees, cut and resumed at random on any of the servers, up to `last`.
fn follow(
    servers: &[Running],
    token: &str,
    filter: &str,
    seed: u64,
    last: &dyn Fn() -> Option<u64>,
) -> Vec<u64> {
    let mut numbers = Numbers(seed);
    let mut seen: Vec<u64> = Vec::new();
    loop {
        let server = &servers[numbers.below(servers.len() as u64) as usize];
        let after = seen.last().copied();
        let target = format!("/v1/events?after=0&{filter}");
        let mut events = Events::open(server, target.trim_end_matches('&'), token, after);
        for _ in 0..1 + numbers.below(25) {
            // A stream that has everything would wait for what never comes.
            if last().is_some_and(|last| seen.last() >= Some(&last)) {
                return seen;
            }
            let (kind, id, event) = events.next();
            assert_eq!(kind, "entry", "{event}");
            seen.push(id.unwrap());
        }
    }
}

/// The sequence numbers of a filter's entries, by the list.
fn listed(server: &Running, token: &str, filter: &str) -> Vec<u64> {
    let (mut found, mut next) = (Vec::new(), String::new());
    loop {
        let page =
            server.get(&format!("/v1/entries?limit=1000&{filter}{next}").replace("&&", "&"), token).json();
        found.extend(page["entries"].as_array().unwrap().iter().map(|entry| entry["seq"].as_u64().unwrap()));
        match page["next"].as_str() {
            Some(cursor) => next = format!("&cursor={cursor}"),
            None => return found,
        }
    }
}

/// Writes and follows at the same time, and compares.
fn check(servers: &[Running], disturb: impl Fn() + Sync) {
    let token = servers[0].key("t", &["--role", "writer"]);
    let token = token.as_str();
    let is_written = AtomicBool::new(false);
    // The last entry of each filter, once everything is written.
    let lasts = Mutex::new(BTreeMap::<String, u64>::new());
    thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| scope.spawn(move || write(&servers[writer % servers.len()], token, writer)))
            .collect();
        let disturbing = scope.spawn(|| {
            while !is_written.load(Ordering::SeqCst) {
                disturb();
                thread::sleep(Duration::from_millis(50));
            }
        });
        let lasts = &lasts;
        let followers: Vec<_> = (0..2 * FILTERS.len())
            .map(|number| {
                let filter = FILTERS[number % FILTERS.len()];
                let last = move || lasts.lock().unwrap().get(filter).copied();
                let follow = move || follow(servers, token, filter, 77 + number as u64, &last);
                (filter, scope.spawn(follow))
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_written.store(true, Ordering::SeqCst);
        disturbing.join().unwrap();
        for filter in FILTERS {
            let last = *listed(&servers[0], token, filter).last().unwrap();
            lasts.lock().unwrap().insert((*filter).to_owned(), last);
        }
        // A stream that saw the last entry before that was known still waits; one more entry wakes every one of them.
        for robot in ["r0", "r1"] {
            for (kind, state) in [("signal", "final"), ("metric", "raw")] {
                let one = json!({ "robotId": robot, "module": "m", "source": "s", "type": kind, "state": state,
                    "payload": {}, "key": format!("end-{robot}-{kind}") });
                assert_eq!(servers[0].post("/v1/entries", token, &one.to_string()).status, 200);
            }
        }
        for (filter, follower) in followers {
            let seen = follower.join().unwrap();
            let all = listed(&servers[0], token, filter);
            assert_eq!(seen, all[..seen.len().min(all.len())], "{filter}");
            assert!(
                seen.last() >= lasts.lock().unwrap().get(filter),
                "{filter}: {} of {}",
                seen.len(),
                all.len()
            );
        }
    });
}

#[test]
fn a_stream_that_is_cut_and_resumed_has_no_gap_and_no_repeat() {
    // A ring for a handful of entries, so that streams fall behind it all the time; and one for all.
    for room in ["max_stream_buffer_bytes = 4000", "max_stream_buffer_bytes = 0", ""] {
        let server = Running::start(&format!("[server]\nmax_requests_per_second = 100000\n{room}\n"));
        check(&[server], || {});
    }
}

#[test]
fn a_stream_is_complete_through_two_servers_that_lose_their_notices() {
    let database = Server::start();
    let name = database.database();
    let keys = tempfile::tempdir().unwrap();
    let configuration = |more: &str| {
        format!(
            "[ledger]\nlocation = \"{}\"\nkeys = \"{}\"\n[server]\nmax_requests_per_second = 100000\n{more}\n",
            database.url(&name),
            keys.path().join("keys").display()
        )
    };
    let first = Scratch::with_ledger(&configuration("max_stream_buffer_bytes = 4000"));
    let first = Running::start_in(first);
    let second = Running::start(&configuration(""));
    let servers = [first, second];
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
               WHERE query LIKE 'LISTEN%' OR query LIKE 'NOTIFY%'";
    let cuts = AtomicU64::new(0);
    check(&servers, || {
        let ended: i64 = database.superuser("postgres").query_one(cut, &[]).unwrap().get(0);
        cuts.fetch_add(ended.unsigned_abs(), Ordering::SeqCst);
    });
    assert_ne!(cuts.load(Ordering::SeqCst), 0, "no connection was cut");
    // What the one appends is streamed by the other, and nothing of another tenant.
    let [own, other] = ["t", "u"].map(|tenant| servers[0].key(tenant, &["--role", "writer"]));
    let mut events = Events::open(&servers[1], "/v1/events", &own, None);
    append(&servers[0], &other, "r", "theirs");
    append(&servers[0], &own, "r", "ours");
    assert_eq!(events.next().2["data"]["key"], json!("ours"));
    // Revoked through the one, a key ends its stream at the other.
    let id = own.split('.').nth(1).unwrap();
    let (code, _, stderr) = servers[0].scratch.run(&["key", "revoke", id, "--tenant", "t"], "");
    assert_eq!(code, 0, "{stderr}");
    assert_eq!(events.next().2, json!({ "code": "key_ended", "reason": "the key or session has ended" }));
}
