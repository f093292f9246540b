//! The second act: evidence decides what may be done, newer evidence revokes that, and the past cannot be rewritten.

use super::stage::{Stage, done, refused};
use crate::failure::Failure;

const CONFIGURATION: &str = r#"[agents."example@1"]     # built in; `crealeph agent --help` has the other kinds
kind = "example"
"#;

pub(super) const REQUEST: &str = r#"{
  "robotId": "shop-17",
  "objective_type": "landing_plan",
  "objective_payload": { "page": "spring sale" },
  "constraints": { "language": "en" },
  "coherence_policy": { "on_stale": "block", "on_partial": "draft_only" },
  "dryRun": false,
  "workflowVersion": "1",
  "agentVersion": "example@1",
  "attempt": 1
}
"#;

pub(super) fn play(stage: &mut Stage<'_>) -> Result<(), Failure> {
    stage.file("crealeph.toml", CONFIGURATION)?;
    stage.file("request.json", REQUEST)?;
    stage.say("A shop is monitored. A signal arrives, and four programs draw conclusions; each names the entries it is based on.")?;
    stage.file("monday.jsonl", &[signal("monday", 1180), conclusions("monday")].concat())?;
    stage.run("crealeph ledger init", &done("created the ledger"))?;
    stage.run("crealeph ledger append monday.jsonl", &done("5 appended"))?;
    stage.say("Is the evidence consistent?")?;
    stage.run("crealeph snapshot shop-17", &done("Robot shop-17: coherent"))?;
    stage.say("It is, so an agent may plan with it. Its answer is validated before anything is written.")?;
    stage.run("crealeph build request.json", &done("decision   allowed"))?;
    stage.say("On Tuesday the visits collapse. No conclusion has been drawn from that yet.")?;
    stage.file("tuesday.jsonl", &signal("tuesday", 310))?;
    stage.run("crealeph ledger append tuesday.jsonl", &done("1 appended"))?;
    let printed = stage.run("crealeph build request.json", &refused("COHERENCE_BLOCKED"))?;
    stage.say("The same request is blocked now, and no agent was called. What would change that?")?;
    let why = printed.lines().rev().find_map(|line| line.split_once("crealeph execution why "));
    let execution = why.map_or("", |(_, execution)| execution.trim());
    stage.run(&format!("crealeph execution why {execution}"), &done("coherence.stale"))?;
    stage.say("So the conclusions are drawn again, from the newest signal.")?;
    stage.file("wednesday.jsonl", &conclusions("tuesday"))?;
    stage.run("crealeph ledger append wednesday.jsonl", &done("4 appended"))?;
    stage.run("crealeph build request.json", &done("decision   allowed"))?;
    stage.say("Would the old decision be the same again, from what was known then?")?;
    stage.run(&format!("crealeph execution replay {execution}"), &done("follows"))?;
    stage.say(
        "Every decision above is in the ledger. Now someone with write access to its file makes Monday look better: \
         one digit, changed outside the program.",
    )?;
    stage.run("crealeph ledger verify", &done("verified "))?;
    stage.run("sed -i 's/\"visits\":1180/\"visits\":9180/' .crealeph/ledger.db", &done(""))?;
    stage.run("crealeph ledger verify", &refused("changed: entry 1"))?;
    stage.say("The entry is named, and it cannot be read until it is restored.")?;
    stage.run("sed -i 's/\"visits\":9180/\"visits\":1180/' .crealeph/ledger.db", &done(""))?;
    stage.run("crealeph ledger verify", &done("verified "))?;
    Ok(())
}

fn signal(day: &str, visits: u32) -> String {
    entry("signal", "scout", day, &format!(r#"{{"visits":{visits}}}"#), &[])
}

/// What is based on the day's signal.
fn conclusions(day: &str) -> String {
    [
        entry("fusion", "fusion", day, r#"{"trend":"known"}"#, &["signal"]),
        entry("idea", "ideator", day, r#"{"title":"Spring sale"}"#, &["signal", "fusion"]),
        entry("copy", "copywriter", day, r#"{"headline":"Fresh for spring"}"#, &["idea"]),
        entry("playbook", "playbooks", day, r#"{"steps":4}"#, &["idea"]),
    ]
    .concat()
}

fn entry(kind: &str, module: &str, day: &str, payload: &str, on: &[&str]) -> String {
    let lineage: Vec<String> = on.iter().map(|kind| format!(r#""key:{kind}-{day}""#)).collect();
    let lineage = lineage.join(",");
    format!(
        r#"{{"key":"{kind}-{day}","robotId":"shop-17","module":"{module}","source":"demo","type":"{kind}","state":"final","payload":{payload},"lineage":{{"dependsOnLedgerIds":[{lineage}]}}}}
"#
    )
}
