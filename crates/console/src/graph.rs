//! A robot's evidence as a graph: the newest entry of each type, and what it was derived from. An edge points from what was used to what
//! was made of it, and is dashed if there is newer evidence than the one that was used. The table next to it says the same in words.

use crealeph_decision::snapshot::{Snapshot, SnapshotType};
use crealeph_runtime::robot::Status;
use maud::{Markup, html};

use crate::parts::{ago, path};

const WIDTH: u32 = 640;
const HEIGHT: u32 = 232;
const NODE: (u32, u32) = (132, 40);

/// Where a type is placed: what is observed on the left, what is made of it to the right.
fn place(kind: SnapshotType) -> (u32, u32) {
    match kind {
        SnapshotType::Signal => (4, 96),
        SnapshotType::Fusion => (254, 96),
        SnapshotType::Idea => (504, 6),
        SnapshotType::Copy => (504, 66),
        SnapshotType::Benchmark => (504, 126),
        SnapshotType::Playbook => (504, 186),
    }
}

/// An edge from evidence to what used it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DerivationEdge {
    pub from: SnapshotType,
    pub to: SnapshotType,
    /// The sequence number of the entry that was used.
    pub used: u64,
    /// Newer evidence of the type is there.
    pub is_outdated: bool,
}

/// What the newest entry of each type was derived from.
pub(crate) fn derivations(snapshot: &Snapshot) -> Vec<DerivationEdge> {
    let newest = &snapshot.facts.newest;
    let pairs = SnapshotType::ALL.into_iter().flat_map(|to| SnapshotType::ALL.map(|from| (from, to)));
    let used = pairs.filter_map(|(from, to)| {
        let reached = newest.get(to).as_ref()?.reach.newest.get(from).filter(|_| from != to)?;
        let is_outdated = newest.get(from).as_ref().is_some_and(|newest| newest.place.seq > reached.seq);
        Some(DerivationEdge { from, to, used: reached.seq, is_outdated })
    });
    let used: Vec<DerivationEdge> = used.collect();
    // What was reached through another type that is shown needs no edge of its own.
    let has = |from, to| used.iter().any(|edge| (edge.from, edge.to, edge.is_outdated) == (from, to, false));
    let is_direct = |edge: &&DerivationEdge| {
        edge.is_outdated || !SnapshotType::ALL.iter().any(|via| has(edge.from, *via) && has(*via, edge.to))
    };
    used.iter().filter(is_direct).copied().collect()
}

/// Whether the newest entry of a type can be used: fresh, outdated, partial or missing.
pub(crate) fn evidence_state(snapshot: &Snapshot, kind: SnapshotType) -> &'static str {
    match snapshot.facts.newest.get(kind) {
        _ if snapshot.coherence.outdated().contains(&kind) => "outdated",
        None => "missing",
        Some(_) if snapshot.coherence.partial().contains(&kind) => "partial",
        Some(_) => "fresh",
    }
}

/// The graph.
pub(crate) fn evidence_graph(status: &Status) -> Markup {
    let Some(snapshot) = &status.snapshot else { return html! {} };
    let (width, height) = NODE;
    html! {
        div .scroll tabindex="0" role="group" aria-label="Evidence as a graph" { svg .graph viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="group" aria-label="How the evidence was derived" {
            defs { @for tone in ["used", "old"] {
                marker id={ "arrow-" (tone) } viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto" { path d="M0 0L8 4L0 8z" {} }
            } }
            @for edge in derivations(snapshot) {
                @let (from, to) = (place(edge.from), place(edge.to));
                @let tone = if edge.is_outdated { "old" } else { "used" };
                path .(tone) d=(curve(from, to)) marker-end={ "url(#arrow-" (tone) ")" } {}
            }
            @for kind in SnapshotType::ALL {
                @let (x, y) = place(kind);
                @let newest = snapshot.facts.newest.get(kind).as_ref();
                @let state = evidence_state(snapshot, kind);
                @let age = newest.map(|newest| ago(newest.entry.true_at().instant(), status.at));
                @let node = html! {
                    g .node .(state) {
                        rect x=(x) y=(y) width=(width) height=(height) rx="6" {}
                        text x=(x + 10) y=(y + 17) { (kind.as_str()) }
                        " "
                        text .small x=(x + 10) y=(y + 32) { (state) @if let Some(age) = &age { ", " (age) } }
                    }
                };
                @match newest {
                    Some(newest) => a href={ "/ledger/" (path(newest.entry.id.as_str())) } { (node) },
                    None => (node),
                }
            }
        } }
    }
}

/// From the right side of one node to the left side of another; between nodes of one column, around them.
fn curve(from: (u32, u32), to: (u32, u32)) -> String {
    let (width, height) = NODE;
    let (y1, y2) = (from.1 + height / 2, to.1 + height / 2);
    if from.0 == to.0 {
        let x = from.0;
        return format!("M{x} {y1} C{} {y1} {} {y2} {x} {y2}", x.saturating_sub(50), x.saturating_sub(50));
    }
    let (x1, x2) = (from.0 + width, to.0);
    // What points back goes around as well.
    let middle = (x1 + x2) / 2;
    format!("M{x1} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}")
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use crealeph_contracts::entry::Entry;
    use crealeph_contracts::instant::Instant;
    use crealeph_contracts::json::{Limits, parse};
    use crealeph_contracts::scalar::{ActionName, RobotId, TenantId};
    use crealeph_decision::builder::decide::policy_question;
    use crealeph_decision::coherence::CoherenceRules;
    use crealeph_decision::policy::{Rules, evaluate, way_to_run};
    use crealeph_decision::snapshot::{Derivation, Question, SnapshotFacts};

    use super::*;

    /// A robot of which a signal is known, a fusion of it, a newer signal, and an idea of the fusion.
    pub(crate) fn overtaken() -> Status {
        let lines = [
            ("s1", "signal", "[]"),
            ("f1", "fusion", r#"["s1"]"#),
            ("s2", "signal", "[]"),
            ("i1", "idea", r#"["f1"]"#),
        ];
        let entries = lines.iter().enumerate().map(|(at, (id, kind, on))| {
            let text = format!(
                r#"{{"id":"{id}","seq":{},"robotId":"r","type":"{kind}","createdAt":"2026-03-04T05:00:0{at}Z","state":"final","lineage":{{"dependsOnLedgerIds":{on}}}}}"#,
                at + 1
            );
            Entry::read_from(parse(text.as_bytes(), &Limits::default()).0.unwrap().root()).unwrap()
        });
        let entries: Vec<Entry> = entries.collect();
        let (robot_id, rules) = (RobotId::parse("r").unwrap(), CoherenceRules::default());
        let question =
            Question { tenant_id: None, robot_id: &robot_id, at: None, derivation: Derivation::default() };
        let facts = SnapshotFacts::from_entries(&entries, &question, &rules);
        let snapshot = Snapshot::derive(facts, &rules).unwrap();
        let (tenant_id, at) =
            (TenantId::parse("t").unwrap(), Instant::from_unix_nanos(1_800_000_000_000_000_000));
        let policy = Rules::default();
        let document = snapshot.document().unwrap();
        let mut asked = policy_question(&tenant_id, &snapshot, document, &policy, None, at);
        let of_action = |action: &ActionName| {
            asked.requested_action = Some(action.clone());
            (action.clone(), evaluate(&asked, &policy))
        };
        let actions = policy.actions().map(of_action).collect();
        let steps = way_to_run(Some(&snapshot), &policy, &rules, at);
        Status {
            tenant_id,
            robot_id,
            at,
            snapshot: Some(snapshot),
            snapshot_digest: None,
            latest: Vec::new(),
            has_more_types: false,
            drafts: 0,
            actions,
            steps,
        }
    }

    #[test]
    fn an_edge_points_to_what_was_derived_and_says_if_newer_evidence_is_there() {
        let status = overtaken();
        let snapshot = status.snapshot.as_ref().unwrap();
        let edge = |from, to, used, is_outdated| DerivationEdge { from, to, used, is_outdated };
        assert_eq!(
            derivations(snapshot),
            [
                edge(SnapshotType::Signal, SnapshotType::Fusion, 1, true),
                edge(SnapshotType::Signal, SnapshotType::Idea, 1, true),
                edge(SnapshotType::Fusion, SnapshotType::Idea, 2, false),
            ]
        );
        let states = SnapshotType::ALL.map(|kind| evidence_state(snapshot, kind));
        assert_eq!(states, ["fresh", "fresh", "outdated", "missing", "missing", "missing"]);
        let drawn = evidence_graph(&status).into_string();
        let ends: Vec<&str> =
            drawn.split("<path class=").skip(1).filter_map(|path| path.split('"').nth(5)).collect();
        assert_eq!(ends, ["url(#arrow-old)", "url(#arrow-old)", "url(#arrow-used)"], "{drawn}");
        for state in ["fresh", "outdated", "missing"] {
            assert!(drawn.contains(&format!("class=\"node {state}\"")), "{state}: {drawn}");
        }
    }
}
