//! Robots: all of them with their coherence, and one with its evidence, what may run and what would help.

use crealeph_decision::snapshot::{Snapshot, SnapshotFacts, SnapshotType};
use crealeph_ledger::EntryPage;
use crealeph_runtime::robot::{RobotSummary, Status};
use crealeph_runtime::robot_report::{ActionStanding, event_reason, execution_of};
use maud::{Markup, html};

use crate::frame::Viewer;
use crate::graph::{DerivationEdge, derivations, evidence_graph, evidence_state};
use crate::parts::{
    ago, badge, counted, empty, facts, line, next_page, number, path, query, short, time, words,
};

/// A page of the list of robots: the first, or one after a robot.
pub fn robots(viewer: &Viewer, robots: &[RobotSummary], is_first: bool, next: Option<&str>) -> Markup {
    html! {
        h1 { "Robots" }
        @if robots.is_empty() && !is_first {
            (empty("No robot follows.", None))
        } @else if robots.is_empty() {
            (empty("No robot has an entry yet. Append the first, or let the demo fill a ledger:", Some("crealeph demo")))
        } @else {
            div .scroll tabindex="0" role="group" aria-label="Robots" {
                table {
                    thead { tr { th { "Robot" } th { "Coherence" } th { "Oldest evidence" } th { "Last execution" } th { "Drafts awaiting review" } } }
                    tbody { @for robot in robots { (row(viewer, robot)) } }
                }
            }
            (next_page(next.map(|next| query("/robots", &[("after", Some(next))]))))
        }
    }
}

fn row(viewer: &Viewer, robot: &RobotSummary) -> Markup {
    let name = robot.robot_id.as_str();
    html! {
        tr data-row {
            th scope="row" { a href={ "/robots/" (path(name)) } { (line(name)) } }
            td { @match robot.coherence { Some(coherence) => (badge(coherence.as_str())), None => span .quiet { "nothing counts" } } }
            td { @if let Some((kind, at)) = &robot.oldest_evidence { (kind.as_str()) ", " time datetime=(at.to_string()) title=(at.to_string()) { (ago(*at, viewer.now)) } } }
            td { @if let Some(event) = &robot.last_event {
                (badge(event.content.state.as_str())) " "
                @if let Some(id) = execution_of(event) { a href={ "/executions/" (path(name)) "/" (path(&id)) } { (short(&id)) } " " }
                (time(&event.created_at.to_string(), viewer.now))
            } }
            td { (robot.drafts.count) @if robot.drafts.is_cut { " or more" } }
        }
    }
}

/// One robot with the entries that came last.
#[derive(Clone, Debug)]
pub struct RobotView<'r> {
    /// Its state.
    pub status: &'r Status,
    /// Its newest entries.
    pub timeline: &'r EntryPage,
}

/// The page of a robot.
pub fn robot(viewer: &Viewer, page: &RobotView<'_>) -> Markup {
    let RobotView { status, timeline } = page;
    let name = status.robot_id.as_str();
    html! {
        h1 { (line(name)) " " @if let Some(snapshot) = &status.snapshot { (badge(snapshot.coherence.status.as_str())) } }
        @match &status.snapshot {
            Some(snapshot) => p { (words(&snapshot.coherence.reason)) },
            None => p { "No entry of this robot counts as evidence." },
        }
        section aria-labelledby="evidence" {
            h2 #evidence { "Evidence" }
            (evidence_graph(status))
            (evidence_table(viewer, status))
        }
        @if let Some(snapshot) = &status.snapshot {
            section aria-labelledby="snapshot" {
                h2 #snapshot { "Snapshot" }
                (snapshot_facts(viewer, status, snapshot))
            }
        }
        section aria-labelledby="actions" {
            h2 #actions { "Actions" }
            (actions(status))
        }
        @if !status.steps.is_empty() {
            section aria-labelledby="steps" {
                h2 #steps { "What would help, in this order" }
                ol { @for step in &status.steps {
                    li { "Make " code { (step.kind.as_str()) } ": " (line(&step.because)) ". "
                        @if step.by.is_empty() { "It comes from outside: append it." } @else {
                            "Run " @for (at, action) in step.by.iter().enumerate() { @if at > 0 { " or " } code { (line(action.as_str())) } } "."
                        }
                    }
                } }
            }
        }
        section aria-labelledby="timeline" {
            h2 #timeline { "Timeline" }
            (crate::ledger::entry_table(viewer, &timeline.entries))
            p { a href=(query("/ledger", &[("robot", Some(name))])) { "All entries of this robot" } " · "
                a href=(query("/executions", &[("robot", Some(name))])) { "Executions" } " · "
                a href={ "/v1/robots/" (path(name)) "/snapshot" } { "Snapshot as JSON" } }
        }
    }
}

/// What an agent would be given now, in short.
fn snapshot_facts(viewer: &Viewer, status: &Status, snapshot: &Snapshot) -> Markup {
    let SnapshotFacts { tasks, playbooks, lineage, is_lineage_cut, omitted, .. } = &snapshot.facts;
    facts(vec![
        ("As of", time(snapshot.snapshot_at.as_str(), viewer.now)),
        (
            "Lineage",
            html! { (number(lineage.len() as u64)) @if *is_lineage_cut { ", and more than a snapshot names" } },
        ),
        ("Tasks", html! { (tasks.len()) }),
        ("Playbooks", html! { (playbooks.len()) }),
        (
            "Left out",
            html! { @match omitted {
                Some(omitted) => { (counted(omitted.count, "payload")) " of " (counted(omitted.bytes, "byte")) ", beyond the limit of " (counted(omitted.limit, "byte")) }
                None => "nothing",
            } },
        ),
        (
            "Digest",
            html! { @if let Some(digest) = &status.snapshot_digest { code { (digest.to_string()) } } },
        ),
    ])
}

fn evidence_table(viewer: &Viewer, status: &Status) -> Markup {
    let Some(snapshot) = &status.snapshot else {
        return empty("Nothing is known. Append observations:", Some("crealeph ledger append entries.jsonl"));
    };
    let edges = derivations(snapshot);
    html! {
        div .scroll tabindex="0" role="group" aria-label="Evidence" {
            table {
                thead { tr { th { "Type" } th { "State" } th { "Observed" } th { "Entry" } th { "Derived from" } } }
                tbody { @for kind in SnapshotType::ALL {
                    @let newest = snapshot.facts.newest.get(kind).as_ref();
                    tr data-row {
                        th scope="row" { (kind.as_str()) }
                        td { (badge(evidence_state(snapshot, kind))) }
                        @if let Some(newest) = newest {
                            td { (time(newest.entry.true_at().as_str(), viewer.now)) }
                            td { a href={ "/ledger/" (path(newest.entry.id.as_str())) } { (short(newest.entry.id.as_str())) } }
                            td { (derived_from(edges.iter().filter(|edge| edge.to == kind))) }
                        } @else { td {} td {} td {} }
                    }
                } }
            }
        }
        @if snapshot.facts.is_lineage_cut { p .cut { "It is based on more entries than a snapshot lists." } }
    }
}

/// What an entry was derived from: which entries, and whether these are still the newest of their type.
fn derived_from<'e>(edges: impl Iterator<Item = &'e DerivationEdge>) -> Markup {
    html! {
        @for (at, edge) in edges.enumerate() {
            @if at > 0 { ", " }
            (edge.from.as_str()) " " (number(edge.used))
            @if edge.is_outdated { " " (badge("outdated")) } @else { ", the newest" }
        }
    }
}

fn actions(status: &Status) -> Markup {
    if status.actions.is_empty() {
        return html! { p { "Nothing is known, so no action is allowed." } };
    }
    html! {
        ul .actions { @for (action, answer) in &status.actions {
            @let standing = ActionStanding::of(action, answer);
            li { code { (line(action.as_str())) } " " (badge(standing.as_str()))
                @if standing != ActionStanding::Allowed {
                    ul { @for reason in answer.reasons.as_slice() { li { (line(reason.message.as_str())) " " span .quiet { (line(reason.rule_id.as_str())) } } } }
                }
            }
        } }
        p .quiet { (counted(status.drafts, "draft")) " awaiting approval." }
        @if let Some(last) = status.latest.iter().find_map(event_reason) { p .quiet { "Last reason: " (line(&last)) } }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::graph::tests::overtaken;

    #[test]
    fn the_table_names_what_each_entry_was_derived_from_and_whether_that_is_still_the_newest() {
        let table = evidence_table(&Viewer::sample(), &overtaken()).into_string();
        let rows: Vec<&str> = table.split("<tr data-row>").skip(1).collect();
        let row = |kind: &str| *rows.iter().find(|row| row.contains(&format!(">{kind}</th>"))).unwrap();
        assert!(
            row("fusion").contains("<td>signal 1 <span class=\"badge bad\">outdated</span></td>"),
            "{table}"
        );
        assert!(
            row("idea").ends_with("fusion 2, the newest</td></tr>")
                || row("idea").contains("fusion 2, the newest</td>"),
            "{table}"
        );
        assert!(row("signal").contains("<td></td>") && row("copy").contains("missing"), "{table}");
    }

    #[test]
    fn a_page_after_the_last_robot_does_not_say_that_there_is_none() {
        let shown = |is_first| robots(&Viewer::sample(), &[], is_first, None).into_string();
        assert!(shown(true).contains("No robot has an entry yet"));
        assert!(shown(false).contains("No robot follows.") && !shown(false).contains("No robot has"));
    }

    #[test]
    fn each_action_says_why_it_may_not_run_and_the_steps_say_what_to_make_first() {
        let status = overtaken();
        let shown = actions(&status).into_string();
        let list: Vec<&str> = shown.split("<li><code>").skip(1).collect();
        assert_eq!(list.len(), status.actions.len());
        let run = *list.iter().find(|action| action.starts_with("builder.run<")).unwrap();
        assert!(run.contains(">blocked</span><ul><li>"), "{run}");
        let view = RobotView { status: &status, timeline: &EntryPage { entries: Vec::new(), next: None } };
        let page = robot(&Viewer::sample(), &view).into_string();
        let steps = page.split("What would help, in this order").nth(1).unwrap();
        let made: Vec<&str> =
            steps.split("<li>Make <code>").skip(1).filter_map(|step| step.split('<').next()).collect();
        assert_eq!(made, ["signal", "fusion", "idea", "copy", "benchmark", "playbook"], "{steps}");
        assert!(
            steps.contains("It comes from outside: append it.")
                && steps.contains("Run <code>ideator.run</code>.")
        );
    }
}
