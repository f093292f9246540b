//! A robot's evidence as a graph: the newest entry of each type, and what it was derived from. An edge is dashed if there is newer
//! evidence than the one that was used.

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
#[derive(Clone, Copy)]
struct Derivation {
    from: SnapshotType,
    to: SnapshotType,
    /// Newer evidence of the type is there.
    is_outdated: bool,
}

fn derivations(snapshot: &Snapshot) -> Vec<Derivation> {
    let newest = &snapshot.facts.newest;
    let pairs = SnapshotType::ALL.into_iter().flat_map(|to| SnapshotType::ALL.map(|from| (from, to)));
    let used = pairs.filter_map(|(from, to)| {
        let reached = newest.get(to).as_ref()?.reach.newest.get(from).filter(|_| from != to)?;
        let is_outdated = newest.get(from).as_ref().is_some_and(|newest| newest.place.seq > reached.seq);
        Some(Derivation { from, to, is_outdated })
    });
    let used: Vec<Derivation> = used.collect();
    // What was reached through another type that is shown needs no edge of its own.
    let has = |from, to| used.iter().any(|edge| (edge.from, edge.to, edge.is_outdated) == (from, to, false));
    let is_direct = |edge: &&Derivation| {
        edge.is_outdated || !SnapshotType::ALL.iter().any(|via| has(edge.from, *via) && has(*via, edge.to))
    };
    used.iter().filter(is_direct).copied().collect()
}

/// The graph; the table below it says the same in words.
pub(crate) fn evidence_graph(status: &Status) -> Markup {
    let Some(snapshot) = &status.snapshot else { return html! {} };
    let (outdated, partial) = (snapshot.coherence.outdated(), snapshot.coherence.partial());
    let (width, height) = NODE;
    html! {
        div .scroll tabindex="0" role="group" aria-label="Evidence as a graph" { svg .graph viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="group" aria-label="How the evidence was derived" {
            @for edge in derivations(snapshot) {
                @let (from, to) = (place(edge.from), place(edge.to));
                path .(if edge.is_outdated { "old" } else { "used" }) d=(curve(from, to)) {}
            }
            @for kind in SnapshotType::ALL {
                @let (x, y) = place(kind);
                @let newest = snapshot.facts.newest.get(kind).as_ref();
                @let state = match newest {
                    _ if outdated.contains(&kind) => "outdated",
                    None => "missing",
                    Some(_) if partial.contains(&kind) => "partial",
                    Some(_) => "fresh",
                };
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
