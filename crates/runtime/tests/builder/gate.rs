//! R13, row by row, end to end: what is answered, what the ledger holds afterwards, whether the agent was called and how.

use std::sync::atomic::Ordering;

use crealeph_contracts::BuilderResponse;
use crealeph_contracts::scalar::LedgerId;
use crealeph_ledger::StoredEntry;
use serde_json::{Value, json};

use crate::world::{ALL, Place, World, request_of, tenant, world};

/// What is known | on_partial | dryRun | how the agent is asked to run | the event | the answer | the artifacts.
const TABLE: &str = "
    stale            | any        | any   | -       | failed COHERENCE_BLOCKED false          | blocked | -
    partial          | block      | any   | -       | failed COHERENCE_BLOCKED false          | blocked | -
    partial          | draft_only | true  | dry_run | succeeded                               | ok      | draft
    partial          | draft_only | false | dry_run | cancelled PARTIAL_REQUIRES_REVIEW       | neither | draft
    coherent old     | any        | any   | -       | cancelled POLICY_DEFERRED               | neither | -
    coherent         | any        | true  | dry_run | succeeded                               | ok      | draft
    coherent         | any        | false | execute | planned                                 | ok      | planned
    coherent failing | any        | true  | dry_run | failed MODEL_OUTPUT_INVALID true        | error   | -
    coherent failing | any        | false | execute | failed MODEL_OUTPUT_INVALID true        | error   | -
    partial failing  | draft_only | any   | dry_run | failed MODEL_OUTPUT_INVALID true        | error   | -
";

pub(crate) fn the_gate_row_by_row(place: &dyn Place) {
    let world = world(place);
    let rows = TABLE.lines().map(str::trim).filter(|line| !line.is_empty());
    for (number, line) in rows.enumerate() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let either = |cell: &'static str, all: [&'static str; 2]| {
            if cell == "any" { all.to_vec() } else { vec![cell] }
        };
        for on_partial in either(cells[1], ["block", "draft_only"]) {
            for dry_run in either(cells[2], ["true", "false"]) {
                let robot = format!("robot-{number}-{on_partial}-{dry_run}");
                let row = Row { known: cells[0], on_partial, is_dry_run: dry_run == "true", cells: &cells };
                row.holds(&world, &robot);
            }
        }
    }
    assert!(world.ledger.audit(&tenant()).unwrap().is_none());
}

struct Row<'t> {
    known: &'t str,
    on_partial: &'t str,
    is_dry_run: bool,
    cells: &'t [&'t str],
}

impl Row<'_> {
    fn holds(&self, world: &World, robot: &str) {
        let [_, _, _, mode, event, answer, artifacts] = self.cells else { panic!("{:?}", self.cells) };
        let name = format!("{} / {} / dryRun {}", self.known, self.on_partial, self.is_dry_run);
        let coherence = self.known.split(' ').next().unwrap();
        world.know_of(robot, if coherence == "partial" { &["idea"] } else { &ALL });
        match self.known {
            "stale" => drop(world.append_of(robot, "signal", &[])),
            "coherent old" => world.wait(3_000),
            _ => {}
        }
        let fails = usize::from(self.known.ends_with("failing"));
        world.agent.failures_left.store(fails, Ordering::SeqCst);
        *world.agent.mode.lock().unwrap() = None;
        let calls = world.calls();
        let execution = format!("e-{robot}");
        let text = request_of(robot, &execution, self.on_partial, self.is_dry_run, 1);

        let first = world.run(&text);
        let mode_seen = world.agent.mode.lock().unwrap().map_or("-", |mode| mode.as_str());
        assert_eq!(
            (mode_seen, world.calls() - calls),
            (*mode, usize::from(*mode != "-")),
            "{name}: the agent"
        );
        self.answered(&first.response, coherence, event, answer, &name);
        assert!(!first.detail.is_empty(), "{name}");
        let left = world.of(&execution);
        self.written(&left, &first.response, event, artifacts, &name);

        let again = world.run(&text).response;
        assert_eq!(again, BuilderResponse { idempotent: true, ..first.response }, "{name}: repeated");
        let ids = |entries: &[StoredEntry]| entries.iter().map(|entry| entry.id.clone()).collect::<Vec<_>>();
        assert_eq!(ids(&world.of(&execution)), ids(&left), "{name}: a repeat writes nothing");
        assert_eq!(world.calls() - calls, usize::from(*mode != "-"), "{name}: a repeat calls no one");
        world.replays(&execution);
    }

    fn answered(&self, response: &BuilderResponse, coherence: &str, event: &str, answer: &str, name: &str) {
        let (state, code) = (event.split(' ').next().unwrap(), event.split(' ').nth(1));
        assert_eq!((response.state.as_str(), response.idempotent), (state, false), "{name}");
        assert_eq!(response.coherence.as_ref().unwrap().status.as_str(), coherence, "{name}");
        let error = response.error.map(|code| code.as_str());
        let blocking = response.blocking_reason.map(|code| code.as_str());
        let expected = match answer {
            "ok" => (true, None, None),
            "blocked" => (false, None, code),
            "error" => (false, code, None),
            _ => (false, None, None),
        };
        assert_eq!((response.ok, error, blocking), expected, "{name}");
        if code == Some("POLICY_DEFERRED") {
            let reason = response.coherence.as_ref().unwrap().reason.as_ref().unwrap();
            assert!(reason.as_str().contains("is older than"), "{name}: the policy's sentence");
        }
    }

    fn written(
        &self,
        left: &[StoredEntry],
        response: &BuilderResponse,
        event: &str,
        artifacts: &str,
        name: &str,
    ) {
        let mut words = event.split(' ');
        let state = words.next().unwrap();
        let (made, rest) = left.split_at(left.len() - 2);
        let kinds: Vec<String> =
            rest.iter().map(|entry| format!("{}:{}", entry.content.kind, entry.content.state)).collect();
        assert_eq!(
            kinds,
            [format!("execution_event:{state}"), format!("execution_record:{state}")],
            "{name}"
        );
        assert_eq!(made.len(), if artifacts == "-" { 0 } else { 3 }, "{name}");
        for entry in made {
            let content = &entry.content;
            assert_eq!((content.module.as_str(), content.source.as_str()), ("builder", "builder"), "{name}");
            assert_eq!(content.state.as_str(), artifacts, "{name}");
        }
        let written: Vec<&LedgerId> = made.iter().map(|entry| &entry.id).collect();
        let answered: Vec<&LedgerId> = response.artifacts.as_slice().iter().map(|one| &one.id).collect();
        assert_eq!(answered, written, "{name}: the answer names what was written");

        let event: Value = serde_json::from_str(&rest[0].canonical()).unwrap();
        let payload = &event["payload"];
        assert_eq!(payload["dryRun"], json!(self.is_dry_run), "{name}");
        assert_eq!((&event["module"], &event["source"]), (&json!("agent-builder"), &json!("agent-builder")));
        assert_eq!(
            (&payload["target"], &payload["action"]),
            (&json!("site_builder"), &json!("plan_landing_plan"))
        );
        let (code, retryable) = (words.next(), words.next().map(|word| word == "true"));
        let (is_failed, is_cancelled) = (state == "failed", state == "cancelled");
        assert_eq!(payload["error"]["code"], json!(code.filter(|_| is_failed)), "{name}");
        assert_eq!(payload["error"]["retryable"], json!(retryable), "{name}");
        assert_eq!(payload["cancelReason"], json!(code.filter(|_| is_cancelled)), "{name}");
        let ids = json!({ "artifactCount": made.len(), "artifactIds": written.iter().map(|id| id.as_str()).collect::<Vec<_>>() });
        assert_eq!(payload["result"], if state == "succeeded" { ids } else { Value::Null }, "{name}");
        let on: std::collections::BTreeSet<&LedgerId> =
            made.iter().flat_map(|entry| &entry.content.depends_on).collect();
        if !on.is_empty() {
            let union: Vec<&str> = on.iter().map(|id| id.as_str()).collect();
            assert_eq!(
                event["lineage"]["dependsOnLedgerIds"],
                json!(union),
                "{name}: the union of the lineages"
            );
        }
    }
}
