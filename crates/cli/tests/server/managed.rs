//! An admin elsewhere manages a tenant through its server: keys, signers and webhooks. What the command prints, and what the ledger has
//! then, is what the command on the ledger would have left.

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
    let said: Value = serde_json::from_str(&stderr).unwrap_or_else(|_| panic!("{args:?}: {printed}{stderr}"));
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

    // A webhook, where it stands, what came of a test, and its end.
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
