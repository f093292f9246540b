//! Webhooks: complete and in order whatever happens to receiver and server, signed, and never to a place that was not granted.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::{Value, json};

use crate::postgresql::Server;
use crate::receiver::{Delivery, Receiver, free_port, make_certificates, taken, until};
use crate::running::Running;
use crate::scratch::{Scratch, signal};

/// A folder with certificates, and a configuration that grants these ports of this machine.
fn scratch(ports: &[u16]) -> Scratch {
    scratch_over("", ports)
}

/// The same, for a ledger elsewhere.
fn scratch_over(ledger: &str, ports: &[u16]) -> Scratch {
    let scratch = Scratch::new();
    make_certificates(scratch.path());
    let private: Vec<String> = ports.iter().map(|port| format!("\"localhost:{port}\"")).collect();
    scratch.write(
        "crealeph.toml",
        &format!(
            "{ledger}[server]\nwebhook_private = [{}]\nwebhook_ca = \"ca.pem\"\nwebhook_retry_ms = 20\n\
             webhook_max_retry_ms = 500\nwebhook_timeout_ms = 2000\n",
            private.join(", ")
        ),
    );
    scratch
}

fn entry(key: &str) -> Value {
    json!({
        "robotId": "r", "module": "m", "source": "s", "type": "signal", "state": "final",
        "payload": { "text": "private text" }, "key": key,
    })
}

fn append(server: &Running, token: &str, entries: &[Value]) {
    let answer = server.post("/v1/entries", token, &json!(entries).to_string());
    assert_eq!(answer.status, 200, "{answer:?}");
}

fn create(server: &Running, admin: &str, request: &Value) -> Value {
    let created = server.post("/v1/webhooks", admin, &request.to_string());
    assert_eq!(created.status, 200, "{created:?}");
    created.json()
}

fn state(server: &Running, admin: &str, webhook: &Value) -> Value {
    let id = webhook["webhookId"].as_str().unwrap();
    server.get(&format!("/v1/webhooks/{id}/deliveries"), admin).json()
}

fn sequence(deliveries: &[Delivery]) -> Vec<u64> {
    deliveries.iter().map(|one| one.json()["sequence"].as_str().unwrap().parse().unwrap()).collect()
}

#[test]
fn a_burst_arrives_whole_in_order_and_signed_when_the_receiver_is_back() {
    let port = free_port();
    let server = Running::start_in(scratch(&[port]));
    let (admin, writer) = (server.key("t", &["--role", "admin"]), server.key("t", &["--role", "writer"]));
    let webhook = create(&server, &admin, &json!({ "url": format!("https://localhost:{port}/hook") }));
    let secret = webhook["secret"].as_str().unwrap();
    let burst: Vec<Value> = (0..300).map(|number| entry(&format!("e{number}"))).collect();
    append(&server, &writer, &burst);
    until("a failed try", || state(&server, &admin, &webhook)["failures"].as_u64() > Some(1));
    assert_eq!(state(&server, &admin, &webhook)["state"], "failing");

    let receiver = Receiver::start(server.scratch.path(), port, |_| taken());
    let deliveries = receiver.wait(|all| all.len() >= 300);
    let first = sequence(&deliveries)[0];
    assert_eq!(sequence(&deliveries), (first..first + 300).collect::<Vec<u64>>());
    for delivery in deliveries.iter().step_by(60) {
        assert!(delivery.is_signed_by(secret), "{delivery:?}");
        let event = delivery.json();
        assert_eq!((&event["specversion"], &event["type"]), (&json!("1.0"), &json!("crealeph.entry.signal")));
        assert_eq!(
            (event["id"].as_str(), &event["data"]["type"]),
            (Some(delivery.header("webhook-id")), &json!("signal"))
        );
        assert!(!delivery.body.contains("private text"), "{delivery:?}");
    }
    assert!(!deliveries[0].is_signed_by("whsec_AAAA"));
    until("the position", || {
        state(&server, &admin, &webhook)["position"] == state(&server, &admin, &webhook)["last"]
    });
    assert_eq!(state(&server, &admin, &webhook)["state"], "active");

    // The log says who asked for it, and nothing has the secret.
    let (code, exported, _) = server.scratch.run(&["ledger", "export", "--tenant", "t"], "");
    assert_eq!(code, 0);
    assert!(exported.contains("webhook_creation") && !exported.contains(secret));
    let id = webhook["webhookId"].as_str().unwrap();
    let deleted = server.request("DELETE", &format!("/v1/webhooks/{id}?reason=moved"), Some(&admin), None);
    assert_eq!(deleted.json()["state"], "deleted", "{deleted:?}");
    append(&server, &writer, &[entry("after")]);
    let (code, _, stderr) = server.scratch.run(&["ledger", "verify", "--tenant", "t"], "");
    assert_eq!(code, 0, "{stderr}");
    let listed = server.get("/v1/webhooks", &admin);
    assert!(!String::from_utf8_lossy(&listed.body).contains(secret));
    assert_eq!(receiver.deliveries().len(), 300, "nothing after it was deleted");
    signal(server.process(), "-TERM");
    assert!(!server.ended().1.contains(secret));
}

#[test]
fn what_was_sent_by_a_server_that_was_killed_is_sent_again_under_the_same_id() {
    let port = free_port();
    let scratch = scratch(&[port]);
    let (hold, is_held) = mpsc::sync_channel::<()>(1);
    let (release, released) = mpsc::channel::<()>();
    let (is_first, released) = (AtomicBool::new(true), std::sync::Mutex::new(released));
    let ids = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = Arc::clone(&ids);
    let receiver = Receiver::start(scratch.path(), port, move |delivery| {
        seen.lock().unwrap().push(delivery.header("webhook-id").to_owned());
        if is_first.swap(false, Ordering::SeqCst) {
            // The receiver has it, and its answer never arrives.
            hold.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        }
        taken()
    });
    let server = Running::start_in(scratch);
    let (admin, writer) = (server.key("t", &["--role", "admin"]), server.key("t", &["--role", "writer"]));
    let webhook = create(&server, &admin, &json!({ "url": receiver.url(), "events": ["signal"] }));
    append(&server, &writer, &[entry("a"), entry("b")]);
    is_held.recv_timeout(Duration::from_secs(60)).unwrap();
    signal(server.process(), "-KILL");
    let scratch = server.killed();
    release.send(()).unwrap();
    let server = Running::start_in(scratch);
    append(&server, &writer, &[entry("c")]);
    receiver.wait(|all| {
        let ids: BTreeSet<&str> = all.iter().map(|one| one.header("webhook-id")).collect();
        ids.len() == 3
    });
    let ids = ids.lock().unwrap().clone();
    assert_eq!(ids[0], ids[1], "the first was sent again: {ids:?}");
    assert_eq!(state(&server, &admin, &webhook)["webhookId"], webhook["webhookId"]);
}

#[test]
fn receivers_that_misbehave_are_bounded_and_do_not_stop_others() {
    let ports = [free_port(), free_port(), free_port(), free_port(), free_port()];
    let server = Running::start_in(scratch(&ports));
    let folder = server.scratch.path().to_owned();
    let good = Receiver::start(&folder, ports[0], |_| taken());
    let elsewhere = good.url();
    let redirecting = Receiver::start(&folder, ports[1], move |_| {
        (format!("307 Temporary Redirect\r\nlocation: {elsewhere}\r\n"), Vec::new())
    });
    let large = Receiver::start(&folder, ports[2], |_| ("200 OK\r\n".to_owned(), vec![b'x'; 10 << 20]));
    let gone = Receiver::start(&folder, ports[3], |_| ("410 Gone\r\n".to_owned(), Vec::new()));
    let slow = Receiver::start(&folder, ports[4], |_| {
        std::thread::sleep(Duration::from_secs(600));
        taken()
    });
    let (admin, writer) = (server.key("t", &["--role", "admin"]), server.key("t", &["--role", "writer"]));
    let [redirecting, large_hook, gone, slow] = [&redirecting, &large, &gone, &slow]
        .map(|receiver| create(&server, &admin, &json!({ "url": receiver.url() })));
    // A name that leads to this machine, with a port that was not granted.
    let private = create(&server, &admin, &json!({ "url": format!("https://localhost:{}/", free_port()) }));
    let good_hook = create(&server, &admin, &json!({ "url": good.url(), "payloads": true, "robotId": "r" }));
    let others = json!({ "robotId": "q", "module": "m", "source": "s", "type": "signal", "state": "final", "payload": {} });
    append(&server, &writer, &[entry("a"), others, entry("b")]);

    let arrived = good.wait(|all| all.len() >= 2);
    assert!(arrived.iter().all(|one| one.json()["data"]["payload"]["text"] == "private text"));
    assert_eq!(arrived.iter().map(|one| one.json()["subject"].clone()).collect::<Vec<_>>(), ["r", "r"]);
    large.wait(|all| all.len() >= 3);
    let has_error = |webhook: &Value, part: &str| {
        until(part, || {
            state(&server, &admin, webhook)["lastError"].as_str().is_some_and(|error| error.contains(part))
        });
    };
    has_error(&redirecting, "redirects are not followed");
    has_error(&private, "not public");
    has_error(&slow, "did not answer in time");
    has_error(&gone, "410");
    assert_eq!(state(&server, &admin, &gone)["state"], "disabled");
    let listed = server.get("/v1/webhooks", &admin).json();
    let states: Vec<&str> =
        listed["webhooks"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["failing", "active", "disabled", "failing", "failing", "active"]);
    assert_eq!(good.deliveries().len(), 2, "the redirect was not followed");
    assert!(server.memory() < 200 << 20, "{}", server.memory());

    // What cannot be called is refused when it is created.
    for url in
        ["http://example.com/", "https://169.254.169.254/", "https://127.0.0.1:1/", "ftp://example.com/"]
    {
        let refused = server.post("/v1/webhooks", &admin, &json!({ "url": url }).to_string());
        assert_eq!(refused.problem(400), "bad_webhook_url", "{url}");
    }
    // The command line tries one now, and reports the result.
    let test = |webhook: &Value| {
        let id = webhook["webhookId"].as_str().unwrap();
        server.scratch.json(&["webhook", "test", id, "--tenant", "t"], "")
    };
    let (code, tested) = test(&good_hook);
    assert_eq!((code, &tested["delivered"], &tested["status"]), (0, &json!(true), &json!(204)));
    let tried = good.wait(|all| all.len() >= 3);
    assert_eq!(tried[2].json()["type"], "crealeph.webhook.test");
    assert!(tried[2].is_signed_by(good_hook["secret"].as_str().unwrap()));
    let (code, tested) = test(&redirecting);
    assert_eq!((code, &tested["delivered"]), (1, &json!(false)));
    assert!(tested["error"].as_str().unwrap().contains("redirects are not followed"), "{tested}");
    assert_eq!(state(&server, &admin, &large_hook)["state"], "active");
}

#[test]
fn a_webhook_that_was_disabled_is_enabled_from_where_it_stopped() {
    let port = free_port();
    let server = Running::start_in(scratch(&[port]));
    let is_gone = Arc::new(AtomicBool::new(true));
    let gone = Arc::clone(&is_gone);
    let receiver = Receiver::start(server.scratch.path(), port, move |_| match gone.load(Ordering::SeqCst) {
        true => ("410 Gone\r\n".to_owned(), Vec::new()),
        false => taken(),
    });
    let (admin, writer) = (server.key("t", &["--role", "admin"]), server.key("t", &["--role", "writer"]));
    let webhook = create(&server, &admin, &json!({ "url": receiver.url() }));
    let id = webhook["webhookId"].as_str().unwrap();
    append(&server, &writer, &[entry("a"), entry("b")]);
    until("it is disabled", || state(&server, &admin, &webhook)["state"] == "disabled");
    let refused = receiver.deliveries().len();
    append(&server, &writer, &[entry("c")]);
    is_gone.store(false, Ordering::SeqCst);

    // An admin sees why, and enables it, on a page of the console.
    let entered = server.form("/sign-in", None, &format!("token={admin}"), true);
    let cookie = entered.header("set-cookie").unwrap().split(';').next().unwrap();
    let page = server.page("/access", Some(cookie)).text();
    assert!(page.contains(">disabled<") && page.contains("410"), "{page}");
    let enable = format!("/webhooks/{id}/enable");
    assert!(page.contains(&format!("formaction=\"{enable}\"")), "{page}");
    let token = page.split("name=\"form\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let sent = server.form(&enable, Some(cookie), &format!("form={token}&reason=it+is+back"), true);
    assert_eq!(sent.status, 303, "{sent:?}");
    let arrived = receiver.wait(|all| all.len() >= refused + 3);
    let start = sequence(&arrived)[0];
    assert_eq!(sequence(&arrived[refused..]), [start, start + 1, start + 2], "what had waited, in order");
    // To enable it again changes nothing and writes nothing.
    let args = ["webhook", "enable", id, "--tenant", "t", "--reason", "once more"];
    let (code, enabled) = server.scratch.json(&args, "");
    assert_eq!((code, &enabled["state"], &enabled["reason"]), (0, &json!("active"), &Value::Null));
    let again = server.post(&format!("/v1/webhooks/{id}/enable?reason=again"), &admin, "");
    assert_eq!((again.status, &again.json()["state"]), (200, &json!("active")));
    let listed = ["ledger", "list", "--type", "webhook_enablement", "--tenant", "t", "--json"];
    let (_, entries, _) = server.scratch.run(&listed, "");
    assert_eq!((entries.lines().count(), entries.contains("it is back")), (1, true), "{entries}");
    let (code, _, stderr) = server.scratch.run(&["ledger", "verify", "--tenant", "t"], "");
    assert_eq!(code, 0, "{stderr}");
    server.request("DELETE", &format!("/v1/webhooks/{id}"), Some(&admin), None);
    let deleted = server.post(&format!("/v1/webhooks/{id}/enable"), &admin, "");
    assert_eq!(deleted.problem(404), "unknown_webhook");
}

#[test]
fn a_request_that_its_client_names_creates_one_webhook_and_one_key() {
    let server = Running::start_in(scratch(&[]));
    let admin = server.key("t", &["--role", "admin"]);
    for (path, member, id, request, other) in [
        (
            "webhooks",
            "secret",
            "webhookId",
            json!({ "url": "https://hook.invalid/" }),
            ("payloads", json!(true)),
        ),
        ("keys", "token", "keyId", json!({ "role": "reader" }), ("role", json!("admin"))),
    ] {
        let mut request = request;
        request["clientKey"] = json!("deploy/1");
        let path = format!("/v1/{path}");
        let send = || {
            let answer = server.post(&path, &admin, &request.to_string());
            assert_eq!(answer.status, 200, "{answer:?}");
            answer.json()
        };
        let answers: Vec<Value> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(send)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(answers.iter().filter(|answer| answer[member].is_string()).count(), 1, "{answers:?}");
        let ids: BTreeSet<&str> = answers.iter().map(|answer| answer[id].as_str().unwrap()).collect();
        assert_eq!(ids.len(), 1, "{answers:?}");
        assert!(send()[member].is_null());
        request[other.0] = other.1;
        let refused = server.post(&path, &admin, &request.to_string());
        assert_eq!(refused.problem(409), "IDEMPOTENCY_CONFLICT");
    }
    for (kind, count) in [("webhook_creation", 1), ("key_grant", 2)] {
        let listed = ["ledger", "list", "--type", kind, "--tenant", "t", "--json"];
        let (_, entries, _) = server.scratch.run(&listed, "");
        assert_eq!(entries.lines().count(), count, "{entries}");
    }
}

#[test]
fn one_of_two_servers_delivers_and_the_other_takes_over_when_it_dies() {
    let database = Server::start();
    let ledger =
        format!("[ledger]\nlocation = \"{}\"\nkeys = \"keys\"\n", database.url(&database.database()));
    let port = free_port();
    let first = scratch_over(&ledger, &[port]);
    let (code, _, stderr) = first.run(&["ledger", "init"], "");
    assert_eq!(code, 0, "{stderr}");
    let second = scratch_over(&ledger, &[port]);
    for file in ["ca.pem", "leaf.pem", "leaf.key"] {
        std::fs::copy(first.path().join(file), second.path().join(file)).unwrap();
    }
    let receiver = Receiver::start(first.path(), port, |_| taken());
    let (first, second) = (Running::start_in(first), Running::start_in(second));
    let (admin, writer) = (first.key("t", &["--role", "admin"]), first.key("t", &["--role", "writer"]));
    create(&first, &admin, &json!({ "url": receiver.url() }));
    for number in 0..10 {
        let server = if number % 2 == 0 { &first } else { &second };
        append(server, &writer, &[entry(&format!("a{number}")), entry(&format!("b{number}"))]);
    }
    let arrived = receiver.wait(|all| all.len() >= 20);
    let start = sequence(&arrived)[0];
    assert_eq!(sequence(&arrived), (start..start + 20).collect::<Vec<u64>>(), "once each, and in order");
    let burst: Vec<Value> = (0..100).map(|number| entry(&format!("c{number}"))).collect();
    append(&second, &writer, &burst);
    signal(first.process(), "-KILL");
    drop(first.killed());
    append(&second, &writer, &[entry("last")]);
    let arrived = receiver.wait(|all| sequence(all).contains(&(start + 120)));
    let all: BTreeSet<u64> = sequence(&arrived).into_iter().collect();
    assert_eq!(all, (start..=start + 120).collect::<BTreeSet<u64>>(), "nothing is missing");
}
