//! Executions of the Builder: the list with its filters, and one with its decision as steps.

use crealeph_contracts::instant::Instant;
use crealeph_runtime::report::{
    ApprovalStory, ArtifactStory, AttemptStory, ExecutionPage, ExecutionStory, VerdictStory,
};
use crealeph_runtime::robot_report::{event_reason, execution_of};
use maud::{Markup, html};

use crate::frame::Viewer;
use crate::parts::{
    badge, counted, empty, facts, filter_choice, filter_field, line, next_page, number, part_block, path,
    query, short, time, words,
};

const STATES: [&str; 5] = ["planned", "running", "succeeded", "failed", "cancelled"];

/// A page of the list.
#[derive(Clone, Debug)]
pub struct ExecutionList<'e> {
    /// Executions by their newest events.
    pub page: &'e ExecutionPage,
    /// It is the first page.
    pub is_first: bool,
    /// The robot that is filtered by.
    pub robot: Option<&'e str>,
    /// The state that is filtered by.
    pub state: Option<&'e str>,
}

/// The list: a row for each execution, with the state that it is in now.
pub fn executions(viewer: &Viewer, list: &ExecutionList<'_>) -> Markup {
    let ExecutionList { page, robot, state, .. } = list;
    let next = page.next.as_ref().map(ToString::to_string);
    html! {
        h1 { "Executions" }
        form .filter action="/executions" method="get" {
            (filter_field("Robot", "robot", *robot))
            (filter_choice("State", "state", &STATES, *state))
            button type="submit" { "Filter" }
        }
        @if page.newest_events.is_empty() { (no_execution(list)) } @else {
            div .scroll tabindex="0" role="group" aria-label="Executions" {
                table {
                    thead { tr { th { "Execution" } th { "Robot" } th { "State" } th { "Why" } th { "When" } } }
                    tbody { @for event in &page.newest_events {
                        @let robot = event.content.robot_id.as_str();
                        tr data-row {
                            th scope="row" { @match execution_of(event) {
                                Some(id) => a href={ "/executions/" (path(robot)) "/" (path(&id)) } { (short(&id)) },
                                None => (short(event.id.as_str())),
                            } }
                            td { a href={ "/robots/" (path(robot)) } { (line(robot)) } }
                            td { (badge(event.content.state.as_str())) }
                            td { @if let Some(why) = event_reason(event) { (line(&why)) } }
                            td { (time(&event.created_at.to_string(), viewer.now)) }
                        }
                    } }
                }
            }
        }
        @if let Some(looked) = page.cut_at { p .cut { (counted(looked as u64, "event")) " looked at for this page; older executions may follow." } }
        (next_page(next.map(|next| query("/executions", &[("robot", *robot), ("state", *state), ("cursor", Some(&next))]))))
    }
}

fn no_execution(list: &ExecutionList<'_>) -> Markup {
    match (list.page.next.is_some(), list.is_first, list.robot.or(list.state)) {
        (true, ..) => empty("No execution among these.", None),
        (false, false, _) => empty("There is no older execution.", None),
        (false, true, Some(_)) => empty("No execution matches this filter.", None),
        (false, true, None) => empty(
            "No execution is recorded here. The Builder records one for each run:",
            Some("crealeph build request.json"),
        ),
    }
}

/// One execution: in short, then its newest attempt as steps, then what it made and how it came to that.
pub fn execution(viewer: &Viewer, story: &ExecutionStory) -> Markup {
    let row = &story.row;
    let (robot, id) = (row.robot_id.as_str(), row.execution_id.as_str());
    let api = format!("/v1/executions/{}/{}", path(robot), path(id));
    let last = story.attempts.last();
    html! {
        h1 { "Execution " (short(id)) " " (badge(&row.state)) }
        (facts(vec![
            ("Id", html! { code { (line(id)) } }),
            ("Robot", html! { a href={ "/robots/" (path(robot)) } { (line(robot)) } }),
            ("Action", html! { @if let Some(action) = &row.action { code { (line(action)) } } @else { "-" } }),
            ("When", time(&row.at, viewer.now)),
            ("Why", html! { @if let Some(last) = last { (line(&last.reason)) } @else { "-" } }),
            ("Drafts only", html! { @match story.dry_run { Some(true) => "yes", Some(false) => "no", None => "-" } }),
        ]))
        @if let Some(last) = last {
            section aria-labelledby="decision" { h2 #decision { "Decision" @if last.attempt > 1 { " of attempt " (last.attempt) } } (steps(viewer, last)) }
            section aria-labelledby="agent" { h2 #agent { "Agent" } (agent(last)) }
        } @else { p { "No attempt is decided yet." } }
        @if let Some(objective) = &story.objective {
            section aria-labelledby="asked" { h2 #asked { "Request" } (part_block(objective, "Request", Some(&api))) }
        }
        section aria-labelledby="artifacts" {
            h2 #artifacts { "Artifacts" }
            @if story.artifacts.is_empty() { p { "It created none." } }
            @for artifact in &story.artifacts { (artifact_section(viewer, artifact)) }
            @if story.has_more_artifacts { p .cut { "It created more than are shown." } }
        }
        section aria-labelledby="events" { h2 #events { "Events" } (events(viewer, story)) }
        @if story.attempts.len() > 1 {
            section aria-labelledby="attempts" { h2 #attempts { "Attempts" } (attempts(viewer, story)) }
        }
        @if last.is_some() {
            section aria-labelledby="replay" { h2 #replay { "Replay" } (replay(story)) }
        }
        @for entry in &story.unreadable { p .error { "The record in " a href={ "/ledger/" (path(entry)) } { (short(entry)) } " cannot be read." } }
        p { a href=(query("/ledger", &[("execution", Some(id))])) { "Its entries" } " · "
            a href=(api) { "Raw JSON" } " · " a href={ (api) "/reasons" } { "Reasons as JSON" } " · " a href={ (api) "/replay" } { "Replay as JSON" } }
    }
}

/// How an attempt was decided, step by step.
fn steps(viewer: &Viewer, attempt: &AttemptStory) -> Markup {
    html! {
        ol .steps {
            li { strong { "Evidence" } " " (badge(&attempt.coherence))
                ul { @for used in &attempt.evidence {
                    li { a href={ "/ledger/" (path(used.entry.as_str())) } { (used.kind) ", "
                        (age(used.age_minutes)) " old " (badge(match used {
                            used if used.is_outdated => "outdated",
                            used if used.is_fresh => "fresh",
                            _ => "too old",
                        })) }
                } } }
                p .quiet { "Fresh up to " (age(attempt.max_age_minutes as i64)) "." }
            }
            li { strong { "Policy" } " " (badge(&attempt.decision)) " confidence " (format!("{:.2}", attempt.confidence))
                ul { @for rule in &attempt.rules {
                    li { (line(&rule.message)) " " span .quiet { (line(&rule.rule_id)) }
                        @if !rule.to_change.is_empty() { ul .remedies { @for remedy in &rule.to_change { li { "To change it: " (line(remedy)) } } } }
                    }
                } }
                @if !attempt.evaluation.is_empty() {
                    details { summary { "Every rule in its order" }
                        ol { @for rule in &attempt.evaluation { li { code { (line(&rule.rule_id)) } " " (badge(&rule.outcome)) } } }
                    }
                }
            }
            li { strong { "Agent" } " " (called(attempt)) }
            li { strong { "Outcome" } " " (badge(&attempt.state)) " " (words(&attempt.reason)) }
        }
        p .quiet { "Decided " (time(&attempt.decided_at, viewer.now)) }
    }
}

fn called(attempt: &AttemptStory) -> &'static str {
    if attempt.agent_ran { "was called" } else { "was not called" }
}

/// Which agent was called, and what it reported.
fn agent(attempt: &AttemptStory) -> Markup {
    let Some(agent) = &attempt.agent else { return html! { p { "The agent " (called(attempt)) "." } } };
    let said = |text: &Option<String>| html! { @match text { Some(text) => (line(text)), None => "-" } };
    facts(vec![
        ("Name", said(&agent.name)),
        ("Version", html! { (line(&agent.version)) }),
        (
            "Kind",
            html! { (said(&agent.kind)) @if let Some(sandbox) = &agent.sandbox { ", sandbox " (line(sandbox)) } },
        ),
        ("Model", html! { @match &agent.model { Some(model) => (line(model)), None => "not recorded" } }),
        (
            "Tokens",
            html! { @match agent.tokens { Some(tokens) => { (number(tokens.max(0.0) as u64)) ", as reported" } None => "not reported" } },
        ),
        ("Cost", html! { "not recorded: Builder agents report tokens only" }),
    ])
}

fn events(viewer: &Viewer, story: &ExecutionStory) -> Markup {
    html! {
        div .scroll tabindex="0" role="group" aria-label="Events" {
            table {
                thead { tr { th .number { "Attempt" } th { "State" } th { "When" } th { "Reason" } th { "Entry" } } }
                tbody { @for event in &story.events {
                    tr data-row {
                        td .number { @if let Some(attempt) = event.attempt { (attempt) } }
                        td { (badge(&event.state)) }
                        td { (time(&event.at, viewer.now)) }
                        td .wide { @if let Some(reason) = &event.reason { (line(reason)) } }
                        td { a href={ "/ledger/" (path(event.entry.as_str())) } { (short(event.entry.as_str())) } }
                    }
                } }
            }
        }
        @if story.events_left_out > 0 { p .cut { (counted(story.events_left_out, "older event")) " not shown." } }
    }
}

/// What differs between the attempts, side by side; the earlier ones also as steps.
fn attempts(viewer: &Viewer, story: &ExecutionStory) -> Markup {
    let names = ["State", "Decided", "Evidence", "Policy", "Rules", "Agent", "Outcome"];
    let columns: Vec<[Markup; 7]> = story.attempts.iter().map(|attempt| column(viewer, attempt)).collect();
    html! {
        @if story.attempts_left_out > 0 { p .cut { (counted(story.attempts_left_out, "older attempt")) " not shown." } }
        div .scroll tabindex="0" role="group" aria-label="Attempts side by side" {
            table .compared {
                thead { tr { td {} @for attempt in &story.attempts { th scope="col" { "Attempt " (attempt.attempt) } } } }
                tbody { @for (at, name) in names.into_iter().enumerate() { tr { th scope="row" { (name) } @for column in &columns { td { @if let Some(cell) = column.get(at) { (cell) } } } } } }
            }
        }
        @for attempt in story.attempts.iter().rev().skip(1) {
            details { summary { "Attempt " (attempt.attempt) " as steps" } (steps(viewer, attempt)) }
        }
    }
}

/// An attempt in short, from its state to its outcome.
fn column(viewer: &Viewer, attempt: &AttemptStory) -> [Markup; 7] {
    let tokens = attempt.agent.as_ref().and_then(|agent| agent.tokens);
    [
        badge(&attempt.state),
        time(&attempt.decided_at, viewer.now),
        badge(&attempt.coherence),
        html! { (badge(&attempt.decision)) " " (format!("{:.2}", attempt.confidence)) },
        html! { @for rule in &attempt.rules { code { (line(&rule.rule_id)) } " " } },
        html! { (called(attempt)) @if let Some(tokens) = tokens { ", " (number(tokens.max(0.0) as u64)) " tokens" } },
        words(&attempt.reason),
    ]
}

/// Whether each decision follows from the log, or the button that asks for it.
fn replay(story: &ExecutionStory) -> Markup {
    let verdicts =
        || story.attempts.iter().filter_map(|attempt| Some((attempt.attempt, attempt.replay.as_ref()?)));
    html! {
        @if verdicts().next().is_none() {
            p { "Derives every decision again from what the log held at the time, and compares it with the record." }
            form method="get" action="#replay" { input type="hidden" name="replay" value="1"; button type="submit" .quiet { "Replay" } }
        } @else {
            ul { @for (attempt, replay) in verdicts() {
                li { "Attempt " (attempt) " "
                    @if replay.follows { (badge("verified")) " The decision follows from the log." }
                    @else { (badge("refused")) " It does not follow from the log: " (line(&replay.differs.join(", "))) }
                }
            } }
        }
    }
}

fn age(minutes: i64) -> String {
    match minutes {
        minutes if minutes < 0 => format!("{} min from the future", -minutes),
        0 => "less than a minute".to_owned(),
        1..=119 => format!("{minutes} min"),
        120..=2_879 => format!("{} h", minutes / 60),
        _ => format!("{} d", minutes / 1_440),
    }
}

fn artifact_section(viewer: &Viewer, artifact: &ArtifactStory) -> Markup {
    let id = artifact.entry.as_str();
    html! {
        details .artifact {
            summary { code { (line(&artifact.kind)) } " " (badge(&artifact.state)) }
            p { "Entry " a href={ "/ledger/" (path(id)) } { (short(id)) } }
            (part_block(&artifact.content, "Content", Some(&format!("/v1/entries/{}", path(id)))))
        }
        @if let Some(approval) = &artifact.approval { (approval_story(approval, viewer.now)) }
    }
}

/// Who decided about something, and whether it counts.
pub(crate) fn approval_story(approval: &ApprovalStory, now: Instant) -> Markup {
    html! {
        p { "Approval: " (badge(&approval.state))
            @if let Some(rule) = &approval.rule { " under the rule " code { (line(rule)) } }
            @if let Some(wanted) = approval.approvals { ", which requires " (counted(wanted, "approval")) }
            @if let Some(group) = &approval.group { " of " code { (line(group)) } }
        }
        @if !approval.verdicts.is_empty() { (verdict_list(&approval.verdicts, now)) }
    }
}

/// Verdicts: who decided what, with which key, why, and whether it counts.
pub(crate) fn verdict_list(verdicts: &[VerdictStory], now: Instant) -> Markup {
    let proof = |verdict: &VerdictStory| match verdict.proof.as_deref() {
        Some("ssh") => "the SSH key ",
        Some("passkey") => "the passkey ",
        _ => "",
    };
    html! {
        ul { @for verdict in verdicts {
            li { (badge(&verdict.decision)) " by " strong { (line(&verdict.person)) } " " (time(&verdict.at, now))
                @if let Some(key) = &verdict.key { " with " (proof(verdict)) code { (line(key)) } }
                @if let Some(reason) = &verdict.reason { ": " (line(reason)) }
                @if let Some(why) = &verdict.uncounted_reason { " " span .quiet { "does not count: " (line(why)) } }
            }
        } }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use serde_json::{Value, json};

    fn attempt(number: u64, agent: Value) -> Value {
        json!({
            "attempt": number, "state": "failed", "decidedAt": "2026-01-01T00:00:00Z", "decision": "ALLOW",
            "confidence": 0.9, "rules": [], "coherence": "coherent", "evidence": [], "maxAgeMinutes": 60.0,
            "agentRan": true, "agent": agent, "reason": format!("reason {number}"), "replay": null,
        })
    }

    fn page(story: &Value) -> String {
        execution(&Viewer::sample(), &serde_json::from_value(story.clone()).unwrap()).into_string()
    }

    #[test]
    fn an_execution_is_read_from_its_decision_to_its_json_and_replayed_only_on_demand() {
        let agent = json!({ "name": "<b>", "version": "7", "kind": "openai", "sandbox": "remote", "model": "m-1", "tokens": 1200.0 });
        let event = |state: &str, reason: Option<&str>| json!({ "entry": format!("e-{state}"), "attempt": 1, "state": state, "at": "2026-01-01T00:00:00Z", "reason": reason });
        let mut story = json!({
            "executionId": "x-1", "shortId": "x-1", "robotId": "r", "state": "failed", "at": "2026-01-01T00:00:00Z",
            "action": "plan", "attempt": 2, "objective": null, "dryRun": false, "attemptsLeftOut": 0, "artifacts": [],
            "attempts": [attempt(1, Value::Null), attempt(2, agent)], "hasMoreArtifacts": false, "unreadable": [],
            "events": [event("running", None), event("failed", Some("AGENT_FAILED: it said nothing"))],
        });
        let shown = page(&story);
        let order = [
            "<dt>Why</dt>",
            ">Decision of attempt 2",
            ">Agent<",
            ">Artifacts<",
            ">Events<",
            ">Attempts<",
            ">Replay<",
            "Raw JSON",
        ];
        let places: Vec<_> = order
            .iter()
            .map(|part| shown.find(part).unwrap_or_else(|| panic!("{part} in {shown}")))
            .collect();
        assert!(places.is_sorted(), "{places:?}");
        for said in [
            "&lt;b&gt;",
            "m-1",
            "1,200, as reported",
            "AGENT_FAILED: it said nothing",
            "/ledger/e-failed",
            "<th scope=\"col\">Attempt 1</th><th scope=\"col\">Attempt 2</th>",
            "Attempt 1 as steps",
            "name=\"replay\" value=\"1\"",
        ] {
            assert!(shown.contains(said), "{said} in {shown}");
        }
        assert!(!shown.contains("follows from the log"), "nothing was replayed");
        story["attempts"][1]["replay"] = json!({ "follows": false, "differs": ["the gate"] });
        let replayed = page(&story);
        assert!(
            replayed.contains("It does not follow from the log: the gate")
                && !replayed.contains("name=\"replay\"")
        );
        story["attempts"] = json!([attempt(1, Value::Null)]);
        assert!(!page(&story).contains(">Attempts<"), "one attempt is not compared");
    }
}
