//! Passkeys in a browser with a virtual authenticator: enrolled by a link, used to sign in and to decide.

use std::process::Command;

use serde_json::json;

use crate::running::Running;
use crate::scratch::{Scratch, known, request};
use crate::stories::tell;
use crate::world::{AGENTS, World, item_with, ran};

const EXAMPLE: &str = "[agents.\"example@1\"]\nkind = \"example\"\n\n[agents.\"hostile@1\"]\nkind = \"process\"\ncommand = [\"python3\", \"hostile.py\"]\n";
const RULES: &str = r#"
[[rule]]
name = "two"
objectives = ["site_plan"]
approvals = 2
os_requester = true
proof = ["ssh", "passkey"]

[[rule]]
name = "web"
os_requester = true
proof = ["ssh", "passkey"]

[[rule]]
name = "changes"
subject = "change"
os_requester = true
proof = ["ssh", "passkey"]
"#;
/// Answers with what would act, hide or overflow if it were not shown as text.
const HOSTILE: &str = r#"
import json, sys
given = json.load(sys.stdin)
text = "</pre><script>document.title=1</script>\u202e\u001b[2J"
print(json.dumps({"ok": True, "executionId": given["executionId"], "status": "succeeded", "artifacts": [{
    "type": "copy", "payload": {"title": text, "<img src=x onerror=alert(1)>": text, "long": "x" * 300000},
    "dependsOnLedgerIds": given["allowedLineage"]["dependsOnLedgerIds"][:1], "metadata": {"generatedAt": given["snapshotAt"]}}]}))
"#;

fn done(scratch: &Scratch, arguments: &[&str]) {
    let (code, _, stderr) = scratch.run(arguments, "");
    assert_eq!(code, 0, "{stderr}");
}

/// A held change whose task, file name, diff and test output would act or hide if they were not shown as text.
fn hold_hostile(server: &Running) -> (World, String) {
    let workspace = World::with(AGENTS);
    let markup = "</pre><script>document.title=1</script>\u{202e}";
    let task = format!(
        "echo '{markup}' > '<img src=x onerror=alert(1)>\u{202e}.txt'; head -c 300000 /dev/zero | tr '\\0' x > long.txt"
    );
    let tests =
        "printf '\\033[2J</pre><script>document.title=1</script>\\n'; head -c 200000 /dev/zero | tr '\\0' x";
    let items = workspace.items(&[item_with("hostile", &task, json!({ "test_command": tests }))]);
    let ledger = server.scratch.path().join(".crealeph/ledger.db");
    let arguments = ["work", "run", &items, "--hold", "--ledger", ledger.to_str().unwrap()];
    let state = server.scratch.path().join("state");
    let held = ran(&workspace.command(&arguments).env("XDG_STATE_HOME", state).output().unwrap());
    assert_eq!(held.code, 3, "{}", held.stderr);
    let run = held.of("hostile")["run"].as_str().unwrap().to_owned();
    (workspace, run)
}

#[test]
fn a_person_enrols_signs_in_and_decides_with_a_passkey() {
    let scratch = Scratch::with_ledger(EXAMPLE);
    let keygen = ["-q", "-t", "ed25519", "-N", "", "-C", "", "-f", "ana"];
    assert!(Command::new("ssh-keygen").args(keygen).current_dir(scratch.path()).status().unwrap().success());
    scratch.append(&known(1, &["idea"], ""));
    let server = Running::start_in(scratch);
    let scratch = &server.scratch;
    done(scratch, &["person", "add", "ana", "--key", "ana.pub", "--first-admin"]);
    scratch.write("rules.toml", RULES);
    done(scratch, &["rule", "set", "rules.toml", "--sign-with", "ana"]);
    let invite = ["person", "invite", "ben", "--origin", &server.url, "--sign-with", "ana", "--json"];
    let (code, invited) = scratch.json(&invite, "");
    assert_eq!(code, 0, "{invited}");
    let (_, built) = scratch.build(&request("e-1", "draft_only", false));
    let draft = |at: usize| built["artifacts"][at]["id"].as_str().unwrap().to_owned();
    let (first, second) = (draft(0), draft(1));
    let made = |request: &str| {
        let (_, built) = scratch.build(request);
        built["artifacts"][0]["id"].as_str().unwrap_or_else(|| panic!("{built}")).to_owned()
    };
    let alike = ["e-2", "e-3", "e-4"].map(|execution| made(&request(execution, "draft_only", false)));
    server.scratch.write("hostile.py", HOSTILE);
    let hostile = made(&request("e-6", "draft_only", false).replace("example@1", "hostile@1"));
    let (_workspace, change) = hold_hostile(&server);
    let unlike = made(&request("e-5", "draft_only", false).replace("landing_plan", "site_plan"));
    tell(
        "passkeys.mjs",
        &[
            ("CREALEPH_URL", server.url.as_str()),
            ("CREALEPH_LINK", invited["link"].as_str().unwrap()),
            ("CREALEPH_DRAFT", &first),
            ("CREALEPH_OTHER_DRAFT", &second),
            ("CREALEPH_ALIKE", &alike.join(" ")),
            ("CREALEPH_UNLIKE", &unlike),
            ("CREALEPH_HOSTILE", &format!("{hostile} {change}")),
        ],
    );
    let (_, why) = scratch.json(&["approval", "why", &first, "--json"], "");
    assert_eq!((why["state"].as_str(), why["verdicts"][0]["person"].as_str()), (Some("landed"), Some("ben")));
    assert_eq!(why["verdicts"][0]["authenticator"]["userVerified"].as_bool(), Some(true), "{why}");
    for (subject, state) in [(&unlike, "waiting"), (&change, "approved")] {
        let (_, why) = scratch.json(&["approval", "why", subject, "--json"], "");
        assert_eq!(
            (why["state"].as_str(), why["verdicts"][0]["person"].as_str()),
            (Some(state), Some("ben"))
        );
    }
    let mut entries = Vec::new();
    for draft in &alike {
        let (_, why) = scratch.json(&["approval", "why", draft, "--json"], "");
        assert_eq!(
            (why["state"].as_str(), why["verdicts"].as_array().map(Vec::len)),
            (Some("landed"), Some(1)),
            "{why}"
        );
        entries.push(why["verdicts"][0]["entry"].as_str().unwrap().to_owned());
    }
    entries.dedup();
    assert_eq!(entries.len(), alike.len(), "each verdict is an entry of its own");
    let (_, why) = scratch.json(&["approval", "why", &second, "--json"], "");
    assert_eq!((why["state"].as_str(), why["verdicts"].as_array().map(Vec::len)), (Some("waiting"), Some(0)));
    done(scratch, &["ledger", "verify"]);
}
