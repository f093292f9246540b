//! Small snapshots and requests that the tests of this folder share.

use crealeph_contracts::contract::Valid;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::Entry;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::json::{Limits, parse};
use crealeph_contracts::scalar::{ExecutionId, RobotId, TenantId};

use super::{Asked, Decided, Ready, Situation, Widened, decide};
use crate::coherence::CoherenceRules;
use crate::policy::Rules;
use crate::snapshot::{Derivation, Question, Snapshot, SnapshotFacts};

const REQUEST: &str = r#"{"robotId":"r","objective_type":"site_plan","objective_payload":{"a":1,"b":2},"constraints":{},
"coherence_policy":{"on_stale":"block","on_partial":"block"},"dryRun":false,"workflowVersion":"w1",
"agentVersion":"a1","attempt":1,"executionId":"e-1"}"#;

/// A request, changed in its text.
pub(super) fn asked(change: impl Fn(String) -> String) -> Asked {
    let text = change(REQUEST.replace('\n', ""));
    let request = Valid::parse(text.as_bytes(), &Limits::default()).unwrap();
    Asked::new(TenantId::parse("t").unwrap(), request, ExecutionId::parse("made").unwrap(), None)
}

/// The ledger's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    Nothing,
    Coherent,
    /// Coherent, but so old that the policy defers.
    Old,
    Partial,
    Stale,
    Broken,
}

fn entry(id: &str, kind: &str, minute: usize, on: &[&str]) -> Entry {
    let ids: Vec<String> = on.iter().map(|id| format!("\"{id}\"")).collect();
    let text = format!(
        r#"{{"id":"{id}","seq":{minute},"tenantId":"t","robotId":"r","module":"m","source":"s","type":"{kind}","state":"final",
        "createdAt":"2026-01-01T00:{minute:02}:00.000Z","payload":{{}},"lineage":{{"dependsOnLedgerIds":[{}]}}}}"#,
        ids.join(",")
    );
    let (document, _) = parse(text.as_bytes(), &Limits::default());
    Entry::read_from(document.unwrap().root()).unwrap()
}

/// The snapshot of that content.
pub(super) fn snapshot(known: Known) -> Option<Snapshot> {
    let mut entries =
        vec![entry("signal-1", "signal", 1, &[]), entry("fusion-1", "fusion", 2, &["signal-1"])];
    let made = |id: &str, kind: &str, minute| entry(id, kind, minute, &["fusion-1", "signal-1"]);
    entries.push(made("idea-1", "idea", 3));
    entries.push(made("copy-1", "copy", 4));
    match known {
        Known::Nothing => entries.clear(),
        Known::Partial => {}
        Known::Coherent | Known::Old => entries.push(made("playbook-1", "playbook", 5)),
        Known::Stale => {
            entries.push(made("playbook-1", "playbook", 5));
            entries.push(entry("signal-2", "signal", 6, &[]));
        }
        Known::Broken => entries.push(entry("copy-1", "copy", 7, &["gone"])),
    }
    let (tenant_id, robot_id) = (TenantId::parse("t").unwrap(), RobotId::parse("r").unwrap());
    let question = Question {
        tenant_id: Some(&tenant_id),
        robot_id: &robot_id,
        at: None,
        derivation: Derivation::default(),
    };
    let rules = CoherenceRules::default();
    Snapshot::derive(SnapshotFacts::from_entries(&entries, &question, &rules), &rules)
}

/// The decision on a request in that situation.
pub(super) fn decided(known: Known, is_retry: bool, change: impl Fn(String) -> String) -> Decided {
    let now = if known == Known::Old { "2026-02-01T00:00:00Z" } else { "2026-01-01T00:30:00Z" };
    let (rules, coherence, widened) = (Rules::default(), CoherenceRules::default(), Widened::default());
    decide(Situation {
        asked: &asked(change),
        is_retry,
        snapshot: snapshot(known),
        seq: 9,
        rules: &rules,
        coherence: &coherence,
        widened: &widened,
        configuration: Blake3::of(b"configuration"),
        now: Instant::parse(now).unwrap(),
    })
    .unwrap()
}

pub(super) fn ready(known: Known, is_retry: bool, change: impl Fn(String) -> String) -> Ready {
    match decided(known, is_retry, change) {
        Decided::Ready(ready) => *ready,
        Decided::Refused(refused) => panic!("{refused:?}"),
    }
}
