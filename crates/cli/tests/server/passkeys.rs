//! Passkeys over HTTP, on both backends: an admin invites, people enrol passkeys with a link and approve a draft with them, an outsider
//! checks all of it from an export; and what a forger, a copier or a stranger would send is refused by name.

use serde_json::{Value, json};

use crate::approvals::{World, canonical, refused};
use crate::authenticator::{Authenticator, Page, challenge};
use crate::postgresql;
use crate::running::Running;
use crate::scratch::{Scratch, request};

const RULES: &str = "[[rule]]\nname = \"web\"\nos_requester = true\napprovals = 2\ngroup = \"maintainers\"\nproof = [\"ssh\", \"passkey\"]\n";

/// The part of a link behind its `#`.
fn invited(server: &Running, person: &str) -> String {
    let arguments = ["person", "invite", person, "--group", "maintainers", "--origin", &server.url];
    let (code, invited) =
        server.scratch.json(&[&arguments[..], &["--sign-with", "ana", "--json"]].concat(), "");
    assert_eq!(code, 0, "{invited}");
    let token = invited["token"].as_str().unwrap().to_owned();
    assert_eq!(invited["link"], json!(format!("{}/enrol#{token}", server.url)));
    token
}

fn public(server: &Running, target: &str, body: &Value) -> crate::client::Answer {
    server.request("POST", target, None, Some(&body.to_string()))
}

/// What a page asks the browser for, and what it then posts.
struct Enrolment {
    token: String,
    statement: Value,
    challenge: String,
}

impl Enrolment {
    fn begin(server: &Running, token: &str) -> Enrolment {
        let question = public(server, "/v1/enrolments/statement", &json!({ "token": token }));
        assert_eq!(question.status, 200, "{question:?}");
        let question = question.json();
        let text = canonical(&question["statement"]);
        assert_eq!(question["challenge"], json!(challenge(&text)));
        assert_eq!(question["relyingParty"], json!("localhost"));
        Enrolment {
            token: token.to_owned(),
            statement: question["statement"].clone(),
            challenge: challenge(&text),
        }
    }

    fn body(&self, authenticator: &Authenticator, page: &Page<'_>) -> Value {
        let mut body = json!({ "token": self.token, "statement": self.statement });
        body.as_object_mut().unwrap().extend(authenticator.create(page).as_object().unwrap().clone());
        body
    }
}

/// The question about a verdict, as the server writes it.
fn prepared(server: &Running, writer: &str, subject: &str, by: &Authenticator) -> Value {
    let wanted = json!({ "subject": subject, "decision": "approve", "keyId": by.key_id() });
    let prepared = server.post("/v1/verdicts/statement", writer, &wanted.to_string());
    assert_eq!(prepared.status, 200, "{prepared:?}");
    let prepared = prepared.json();
    assert_eq!(prepared["passkey"]["challenge"], json!(challenge(prepared["text"].as_str().unwrap())));
    assert_eq!(prepared["passkey"]["origin"], json!(server.url));
    prepared
}

fn enrol_two(server: &Running, reader: &str) -> (Authenticator, Authenticator) {
    let (ben, cy) = (Authenticator::es256("ben-phone"), Authenticator::eddsa("cy-laptop"));
    let token = invited(server, "ben");
    let secret = token.rsplit('.').next().unwrap();
    let (_, exported, _) = server.scratch.run(&["ledger", "export"], "");
    assert!(exported.contains("person_invitation") && !exported.contains(secret));
    for bad in [
        "x",
        token.get(..token.len() - 1).unwrap(),
        &token.replace("crealeph-invite_", "crealeph_"),
        &format!("{token}A"),
    ] {
        let guess = public(server, "/v1/enrolments/statement", &json!({ "token": bad }));
        assert_eq!(guess.problem(422), "bad_invitation");
    }
    let enrolment = Enrolment::begin(server, &token);
    let page = Page::new(&server.url, "localhost", &enrolment.challenge);
    let other = Page { origin: "http://localhost:1", ..page.clone() };
    let mut unverified = Authenticator::es256("ben-phone");
    unverified.flags = 0x01;
    for body in [enrolment.body(&ben, &other), enrolment.body(&unverified, &page)] {
        refused(&public(server, "/v1/enrolments", &body), 422, "approval_refused", Some("forged"));
    }
    let mut cut = enrolment.body(&ben, &page);
    cut["attestationObject"] = json!("oA");
    assert_eq!(public(server, "/v1/enrolments", &cut).problem(422), "bad_passkey");
    let body = enrolment.body(&ben, &page);
    let enrolled = public(server, "/v1/enrolments", &body).json();
    assert_eq!(
        (&enrolled["person"], &enrolled["keyId"]),
        (&json!("ben"), &json!(ben.key_id())),
        "{enrolled}"
    );
    let again = public(server, "/v1/enrolments", &body).json();
    assert_eq!((&again["entry"], &again["repeat"]), (&enrolled["entry"], &json!(true)));
    // A link is used once, by the first.
    let second = enrolment.body(&Authenticator::es256("eve-phone"), &page);
    assert_eq!(public(server, "/v1/enrolments", &second).problem(409), "invitation_over");
    let late = public(server, "/v1/enrolments/statement", &json!({ "token": token }));
    assert_eq!(late.problem(409), "invitation_over");

    let enrolment = Enrolment::begin(server, &invited(server, "cy"));
    let page = Page::new(&server.url, "localhost", &enrolment.challenge);
    assert_eq!(public(server, "/v1/enrolments", &enrolment.body(&cy, &page)).status, 200);
    assert!(!server.log().contains(secret), "the secret is in no log");
    let people = server.get("/v1/people", reader).json()["people"].clone();
    let (_, listed, _) = server.scratch.run(&["person", "list", "--json"], "");
    let listed: Vec<Value> = listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(people, json!(listed));
    let key = &people[1]["keys"][0];
    assert_eq!(
        (&key["kind"], &key["passkey"]["algorithm"]),
        (&json!("passkey"), &json!("ES256")),
        "{people}"
    );
    (ben, cy)
}

/// What no one can do with a passkey that is not theirs, not for this, or not here.
fn forgeries(server: &Running, writer: &str, draft: &str, ben: &mut Authenticator) {
    let question = prepared(server, writer, draft, ben);
    let another = prepared(server, writer, draft, ben);
    let asked = question["passkey"]["challenge"].as_str().unwrap();
    let page = Page::new(&server.url, "localhost", asked);
    let pages = [
        (Page { origin: "https://localhost.evil.example", ..page.clone() }, 5),
        (Page { relying_party: "evil.example", ..page.clone() }, 5),
        (Page { challenge: another["passkey"]["challenge"].as_str().unwrap(), ..page.clone() }, 5),
        (page.clone(), 0x01),
        (page.clone(), 0x04),
    ];
    for (page, flags) in pages {
        ben.flags = flags;
        let forged = ben.prove(&page, &question["statement"]).to_string();
        refused(&server.post("/v1/verdicts", writer, &forged), 422, "approval_refused", Some("forged"));
    }
    ben.flags = 5;
    let changed = ben.prove(&page, &question["statement"]).to_string().replace("\"approve\"", "\"reject\"");
    refused(&server.post("/v1/verdicts", writer, &changed), 422, "approval_refused", Some("forged"));
}

fn story(ledger: &str) {
    let world = World::new(ledger);
    let server = &world.server;
    let key = |role: &str| server.key("local", &["--role", role]);
    let (admin, writer, reader) = (key("admin"), key("writer"), key("reader"));
    let first = ["person", "add", "ana", "--key", "ana.pub", "--first-admin"];
    let (code, _, stderr) = server.scratch.run(&first, "");
    assert_eq!(code, 0, "{stderr}");
    let (mut ben, mut cy) = enrol_two(server, &reader);
    let (_, built) = server.scratch.build(&request("e-1", "draft_only", false));
    let draft = |at: usize| built["artifacts"][at]["id"].as_str().unwrap().to_owned();

    // Without a rule that says so a passkey does not count.
    let wanted = json!({ "subject": draft(0), "decision": "approve", "keyId": ben.key_id() }).to_string();
    let refusal = server.post("/v1/verdicts/statement", &writer, &wanted);
    refused(&refusal, 422, "approval_not_counted", Some("proof_kind"));
    server.scratch.write("rules.toml", RULES);
    let (code, _, stderr) = server.scratch.run(&["rule", "set", "rules.toml", "--sign-with", "ana"], "");
    assert_eq!(code, 0, "{stderr}");

    forgeries(server, &writer, &draft(0), &mut ben);
    ben.counter = 5;
    let question = prepared(server, &writer, &draft(0), &ben);
    let page = |question: &Value| question["passkey"]["challenge"].as_str().unwrap().to_owned();
    let prove = |by: &Authenticator, question: &Value| {
        by.prove(&Page::new(&server.url, "localhost", &page(question)), &question["statement"]).to_string()
    };
    let signed = prove(&ben, &question);
    let recorded = server.post("/v1/verdicts", &writer, &signed).json();
    assert_eq!((&recorded["missing"], &recorded["landed"]), (&json!(1), &Value::Null), "{recorded}");
    assert_eq!(server.post("/v1/verdicts", &writer, &signed).json()["repeat"], json!(true));
    // The same statement counts once, also with a new signature.
    ben.counter = 6;
    let replayed = server.post("/v1/verdicts", &writer, &prove(&ben, &question));
    refused(&replayed, 422, "approval_refused", Some("invalid"));
    cy.counter = 0;
    let landed =
        server.post("/v1/verdicts", &writer, &prove(&cy, &prepared(server, &writer, &draft(0), &cy))).json();
    assert!(landed["landed"].is_string() && landed["planned"].is_string(), "{landed}");

    // A count that went back is a copied passkey; a count that stays 0 is one that does not count.
    ben.counter = 5;
    let copied =
        server.post("/v1/verdicts", &writer, &prove(&ben, &prepared(server, &writer, &draft(1), &ben)));
    refused(&copied, 422, "approval_refused", Some("invalid"));
    assert!(copied.json()["detail"].as_str().unwrap().contains("signature count 5 after 5"));
    let cys = server.post("/v1/verdicts", &writer, &prove(&cy, &prepared(server, &writer, &draft(1), &cy)));
    assert_eq!(cys.json()["missing"], json!(1), "{cys:?}");
    let other = server.key("other", &["--role", "writer"]);
    let elsewhere = server.post("/v1/verdicts", &other, &prove(&ben, &question));
    assert_eq!(elsewhere.problem(404), "unknown_id");

    // Who was revoked, or invited too long ago, is out.
    let (code, _, stderr) =
        server.scratch.run(&["person", "revoke", "ben", "--key-id", &ben.key_id(), "--sign-with", "ana"], "");
    assert_eq!(code, 0, "{stderr}");
    let wanted = json!({ "subject": draft(1), "decision": "approve", "keyId": ben.key_id() }).to_string();
    assert_eq!(server.post("/v1/verdicts/statement", &writer, &wanted).problem(422), "unknown_key");
    expired(&world, &admin);
    outside(&world, &draft(0), &reader);
}

/// An invitation that a client has signed itself, and whose time has expired.
fn expired(world: &World, admin: &str) {
    let nonce = 99;
    let more = json!({
        "person": "dot", "groups": [], "role": "reader", "origin": world.server.url,
        "secretDigest": "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b",
        "expires": "2026-01-03T03:04:05.000Z",
    });
    let statement = world.admin_statement("person_invitation", "ana", nonce, &more);
    let other = world.signed("crealeph-enrolment", "ana", &statement);
    refused(
        &world.server.post("/v1/people/invitations", admin, &other),
        422,
        "approval_refused",
        Some("forged"),
    );
    let signed = world.signed("crealeph-invitation", "ana", &statement);
    let written = world.server.post("/v1/people/invitations", admin, &signed);
    assert_eq!(written.status, 200, "{written:?}");
    assert_eq!(world.server.post("/v1/people/invitations", admin, &signed).json()["repeat"], json!(true));
    // `bG9jYWw` is `local`, and the digest is of `secret`.
    let token = format!("crealeph-invite_bG9jYWw.{}.secret", statement["nonce"].as_str().unwrap());
    let late = public(&world.server, "/v1/enrolments/statement", &json!({ "token": token }));
    assert_eq!(late.problem(409), "invitation_over");
    assert!(late.json()["detail"].as_str().unwrap().contains("expired"), "{late:?}");
}

/// What someone sees who has an export and the fingerprint of the first admin's key.
fn outside(world: &World, draft: &str, reader: &str) {
    let server = &world.server;
    let (code, exported, stderr) = server.scratch.run(&["ledger", "export"], "");
    assert_eq!(code, 0, "{stderr}");
    let elsewhere = Scratch::new();
    elsewhere.write("log.export", &exported);
    let root = world.fingerprint("ana");
    let why = ["approval", "why", draft, "--from", "log.export", "--root", &root];
    let (code, explained) = elsewhere.json(&[&why[..], &["--json"]].concat(), "");
    assert_eq!(
        (code, &explained["state"], &explained["rootState"]),
        (0, &json!("landed"), &json!("pinned")),
        "{explained}"
    );
    let verdict = &explained["verdicts"][0];
    assert_eq!((&verdict["proof"], &verdict["counted"]), (&json!("passkey"), &json!(true)), "{explained}");
    assert_eq!(verdict["authenticator"]["origin"], json!(server.url), "{explained}");
    assert_eq!(verdict["authenticator"]["userVerified"], json!(true), "{explained}");
    let online = server.get(&format!("/v1/approvals/{draft}"), reader).json();
    assert_eq!(online["verdicts"], explained["verdicts"]);
    let (_, words, _) = elsewhere.run(&[&why[..], &["--text"]].concat(), "");
    assert!(
        words.contains(&format!("used   at {}, user verified, on one device, signature count 5", server.url)),
        "{words}"
    );
    let (code, _, stderr) = server.scratch.run(&["ledger", "verify"], "");
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn people_approve_with_passkeys_on_sqlite() {
    story("");
}

#[test]
fn people_approve_with_passkeys_on_postgresql() {
    let server = postgresql::Server::start();
    let database = server.database();
    story(&format!("[ledger]\nlocation = \"{}\"\nkeys = \"keys\"\n", server.url(&database)));
}
