//! Passkeys in a browser with a virtual authenticator: enrolled by a link, used to sign in and to decide.

use std::process::Command;

use crate::running::Running;
use crate::scratch::{Scratch, known, request};
use crate::stories::tell;

const EXAMPLE: &str = "[agents.\"example@1\"]\nkind = \"example\"\n";
const RULES: &str = "[[rule]]\nname = \"web\"\nos_requester = true\nproof = [\"ssh\", \"passkey\"]\n";

fn done(scratch: &Scratch, arguments: &[&str]) {
    let (code, _, stderr) = scratch.run(arguments, "");
    assert_eq!(code, 0, "{stderr}");
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
        ],
    );
    let (_, why) = scratch.json(&["approval", "why", &first, "--json"], "");
    assert_eq!((why["state"].as_str(), why["verdicts"][0]["person"].as_str()), (Some("landed"), Some("ben")));
    assert_eq!(why["verdicts"][0]["authenticator"]["userVerified"].as_bool(), Some(true), "{why}");
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
