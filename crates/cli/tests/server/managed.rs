//! An admin elsewhere manages a tenant through its server: keys, signers, webhooks, people and rules. What the command prints, and what the ledger has
//! then, is what the command on the ledger would have left.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::asked::Asked;

/// Runs a command through the server, which must do it, and reads what it prints.
fn done(asked: &Asked, key: &str, args: &[&str]) -> Value {
    let (code, printed, stderr) = asked.ask(key, &[args, &["--json"]].concat(), "");
    assert_eq!(code, 0, "{args:?}: {stderr}");
    serde_json::from_str(&printed).unwrap()
}

/// Runs one that is refused, and gives its exit code and error.
fn refused(asked: &Asked, key: &str, args: &[&str]) -> (i32, String) {
    let (code, printed, stderr) = asked.ask(key, &[args, &["--json"]].concat(), "");
    // Notes come before it.
    let last = stderr.lines().last().unwrap_or_default();
    let said: Value = serde_json::from_str(last).unwrap_or_else(|_| panic!("{args:?}: {printed}{stderr}"));
    (code, said["error"]["code"].as_str().unwrap().to_owned())
}

#[test]
fn keys_signers_and_webhooks_are_managed_through_a_server() {
    let asked = Asked::new("");
    let scratch = &asked.server.scratch;
    let admin = asked.server.key("local", &["--role", "admin"]);
    let listed = |what: &str, id: &str| -> Value {
        let (_, printed, _) = scratch.run(&[what, "list", "--json"], "");
        let lines = printed.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let found = lines.into_iter().find(|line| line[format!("{what}Id")] == id);
        found.unwrap_or_else(|| panic!("no {what} {id}: {printed}"))
    };

    // A key that was made there works, until it is revoked there.
    let label = ["key", "create", "--role", "reader", "--robot", "q", "--label", "import & more"];
    let mut created = done(&asked, &admin, &label);
    let token = created["token"].as_str().unwrap().to_owned();
    let id = created["keyId"].as_str().unwrap().to_owned();
    created.as_object_mut().unwrap().remove("token");
    assert_eq!(created, listed("key", &id));
    let (code, robots, stderr) = asked.ask(&token, &["robot", "list", "--json"], "");
    assert!(code == 0 && robots.lines().count() == 1 && robots.contains("\"q\""), "{robots}{stderr}");
    assert_eq!(refused(&asked, &token, &["key", "create", "--role", "reader"]), (2, "forbidden".to_owned()));
    let revoked = done(&asked, &admin, &["key", "revoke", &id, "--reason", "laptop lost"]);
    assert_eq!((&revoked["state"], &revoked["reason"]), (&json!("revoked"), &json!("laptop lost")));
    assert_eq!(revoked, listed("key", &id));
    assert_eq!(refused(&asked, &token, &["robot", "list"]), (2, "unauthenticated".to_owned()));
    assert_eq!(refused(&asked, &admin, &["key", "revoke", "none"]).0, 1);

    // Keys of workspaces, one a line.
    let (_, key, _) = scratch.run(&["work", "key"], "");
    asked.elsewhere.write("laptop.key", &key);
    let signer = done(&asked, &admin, &["signer", "add", "laptop.key", "--label", "Ana"]);
    let id = signer["signerId"].as_str().unwrap();
    assert_eq!(signer, listed("signer", id));
    assert_eq!(done(&asked, &admin, &["signer", "revoke", id])["state"], json!("revoked"));
    asked.elsewhere.write("bad.key", "nothing\n");
    assert_eq!(refused(&asked, &admin, &["signer", "add", "bad.key"]).1, "bad_key");

    // A webhook, its position, the result of a test, and its end.
    let args = ["webhook", "create", "https://hook.invalid/x", "--event", "signal", "--after", "0"];
    let webhook = done(&asked, &admin, &args);
    assert!(webhook["secret"].is_string(), "{webhook}");
    let id = webhook["webhookId"].as_str().unwrap();
    assert_eq!(listed("webhook", id)["events"], json!(["signal"]));
    let state = done(&asked, &admin, &["webhook", "deliveries", id]);
    assert_eq!((&state["webhookId"], &state["position"]), (&json!(id), &json!(0)), "{state}");
    let (code, tested, stderr) = asked.ask(&admin, &["webhook", "test", id, "--json"], "");
    let tested: Value = serde_json::from_str(&tested).unwrap();
    assert_eq!((code, &tested["delivered"]), (1, &json!(false)), "{stderr}");
    assert_eq!(done(&asked, &admin, &["webhook", "enable", id])["webhookId"], json!(id));
    let named = ["webhook", "create", "https://hook.invalid/y", "--client-key", "deploy-1"];
    let first = done(&asked, &admin, &named);
    let again = done(&asked, &admin, &named);
    assert_eq!((&again["webhookId"], &again["secret"]), (&first["webhookId"], &Value::Null));
    let (code, printed, said) = asked.ask(&admin, &[&named[..], &["--text"]].concat(), "");
    assert!(code == 0 && printed.is_empty() && said.contains("not shown again"), "{printed}{said}");
    assert_eq!(refused(&asked, &admin, &[&named[..], &["--payloads"]].concat()).1, "IDEMPOTENCY_CONFLICT");
    let deleted = done(&asked, &admin, &["webhook", "delete", id, "--reason", "moved"]);
    assert_eq!((&deleted["state"], &deleted), (&json!("deleted"), &listed("webhook", id)));
    assert_eq!(refused(&asked, &admin, &["webhook", "create", "ftp://x"]).0, 2);

    // Who did it is in the log.
    let (_, log, _) = scratch.run(&["ledger", "list", "--type", "key_revocation", "--json"], "");
    let entry: Value = serde_json::from_str(log.lines().next().unwrap()).unwrap();
    assert!(entry["actor"].as_str().unwrap().starts_with("key:"), "{entry}");
}

/// Makes a key pair in the folder elsewhere.
fn make_key(asked: &Asked, name: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", name])
        .current_dir(asked.elsewhere.path())
        .stdin(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

#[test]
fn people_and_rules_are_changed_by_statements_that_are_signed_elsewhere() {
    let asked = Asked::new("");
    let scratch = &asked.server.scratch;
    let (admin, writer) =
        (asked.server.key("local", &["--role", "admin"]), asked.server.key("local", &["--role", "writer"]));
    ["ana", "ben", "cy"].iter().for_each(|name| make_key(&asked, name));
    let listed = |what: &str| -> Vec<Value> {
        let (_, printed, stderr) =
            scratch.run(&[what, if what == "rule" { "show" } else { "list" }, "--json"], "");
        printed
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{stderr}")))
            .collect()
    };

    // No one is enrolled; the first admin signs for themselves, once.
    let add_ben =
        ["person", "add", "ben", "--key", "ben.pub", "--group", "maintainers", "--sign-with", "ana"];
    assert_eq!(refused(&asked, &admin, &add_ben), (1, "no_people".to_owned()));
    let first = ["person", "add", "ana", "--key", "ana.pub", "--first-admin"];
    assert_eq!(refused(&asked, &writer, &first).1, "forbidden");
    let (code, printed, stderr) = asked.ask(&admin, &[&first[..], &["--json"]].concat(), "");
    assert_eq!(code, 0, "{stderr}");
    assert!(stderr.contains("signing for tenant `local`, log ") && stderr.contains("save this"), "{stderr}");
    let enrolled: Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&enrolled["groups"], &enrolled["signedBy"]), (&json!(["admins"]), &json!("ana")));
    assert_eq!(refused(&asked, &admin, &first).0, 1);

    let ben = done(&asked, &admin, &add_ben);
    let people = listed("person");
    assert_eq!(people[1]["person"], json!("ben"), "{people:?}");
    assert_eq!(people[1]["keys"][0]["keyId"], ben["keyId"]);
    assert_eq!(people[1]["groups"], json!(["maintainers"]));
    // Only an admin's key signs.
    let by_ben = ["person", "add", "cy", "--key", "cy.pub", "--sign-with", "ben"];
    assert_eq!(refused(&asked, &admin, &by_ben).0, 1);
    let by_cy = ["person", "add", "cy", "--key", "cy.pub", "--sign-with", "cy"];
    assert_eq!(refused(&asked, &admin, &by_cy).0, 1);

    // An invitation keeps the groups of the person; its link works at the server.
    let invite = ["person", "invite", "ben", "--origin", "http://localhost:4114", "--sign-with", "ana"];
    let invited = done(&asked, &admin, &invite);
    let token = invited["token"].as_str().unwrap();
    assert!(invited["link"].as_str().unwrap().ends_with(token), "{invited}");
    let question = asked.server.request(
        "POST",
        "/v1/enrolments/statement",
        None,
        Some(&json!({ "token": token }).to_string()),
    );
    assert_eq!(question.json()["person"], json!("ben"), "{question:?}");
    let (_, entry) = scratch.json(&["ledger", "get", invited["entry"].as_str().unwrap()], "");
    assert_eq!(entry["payload"]["statement"]["groups"], json!(["maintainers"]), "{entry}");

    asked.elsewhere.write("rules.toml", "[[rule]]\nname = \"two\"\napprovals = 2\ngroup = \"maintainers\"\n");
    let set = done(&asked, &admin, &["rule", "set", "rules.toml", "--sign-with", "ana"]);
    assert_eq!(set["rules"], json!(1));
    assert_eq!(listed("rule")[0]["name"], json!("two"));
    asked.elsewhere.write("bad.toml", "[[rule]]\n");
    assert_ne!(refused(&asked, &admin, &["rule", "set", "bad.toml", "--sign-with", "ana"]).0, 0);

    let revoke = ["person", "revoke", "ben", "--reason", "left", "--sign-with", "ana"];
    assert_eq!(done(&asked, &admin, &revoke)["person"], json!("ben"));
    assert_eq!(listed("person")[1]["keys"][0]["revoked"], json!(true));
    let (code, _, stderr) = scratch.run(&["ledger", "verify"], "");
    assert_eq!(code, 0, "{stderr}");
}
