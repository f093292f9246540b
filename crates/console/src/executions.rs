//! Executions of the Builder: the list with its filters, and one with its decision as steps.

use crealeph_contracts::instant::Instant;
use crealeph_ledger::EntryPage;
use crealeph_runtime::report::{ApprovalStory, ArtifactStory, AttemptStory, ExecutionStory};
use crealeph_runtime::robot_report::{event_reason, execution_of};
use maud::{Markup, html};

use crate::frame::Viewer;
use crate::parts::{
    badge, block, counted, empty, facts, filter_choice, filter_field, line, next_page, path, query, short,
    time, words,
};

const STATES: [&str; 5] = ["planned", "running", "succeeded", "failed", "cancelled"];

/// A page of the list.
#[derive(Clone, Debug)]
pub struct ExecutionList<'e> {
    /// Events of executions, newest first.
    pub events: &'e EntryPage,
    /// The robot that is filtered by.
    pub robot: Option<&'e str>,
    /// The state that is filtered by.
    pub state: Option<&'e str>,
}

/// The list.
pub fn executions(viewer: &Viewer, list: &ExecutionList<'_>) -> Markup {
    let ExecutionList { events, robot, state } = list;
    let next = events.next.as_ref().map(ToString::to_string);
    html! {
        h1 { "Executions" }
        form .filter action="/executions" method="get" {
            (filter_field("Robot", "robot", *robot))
            (filter_choice("State", "state", &STATES, *state))
            button type="submit" { "Filter" }
        }
        @if events.entries.is_empty() && next.is_none() {
            (empty("No execution is recorded here. The Builder records one for each run:", Some("crealeph build request.json")))
        } @else {
            div .scroll tabindex="0" role="group" aria-label="Executions" {
                table {
                    thead { tr { th { "Execution" } th { "Robot" } th { "State" } th { "Why" } th { "When" } } }
                    tbody { @for event in &events.entries {
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
            (next_page(next.map(|next| query("/executions", &[("robot", *robot), ("state", *state), ("cursor", Some(&next))]))))
        }
    }
}

/// One execution.
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
        @if story.attempts_left_out > 0 { p .cut { (counted(story.attempts_left_out, "older attempt")) " not shown." } }
        div .side-by-side {
            @for attempt in &story.attempts { (attempt_section(viewer, attempt)) }
        }
        @if let Some(objective) = &story.objective {
            section aria-labelledby="asked" { h2 #asked { "Request" } (block(&objective.text, "Request", Some(&api))) }
        }
        section aria-labelledby="artifacts" {
            h2 #artifacts { "Artifacts" }
            @if story.artifacts.is_empty() { p { "It created none." } }
            @for artifact in &story.artifacts { (artifact_section(viewer, artifact)) }
            @if story.has_more_artifacts { p .cut { "It created more than are shown." } }
        }
        @for entry in &story.unreadable { p .error { "The record in " a href={ "/ledger/" (path(entry)) } { (short(entry)) } " cannot be read." } }
        p { a href=(query("/ledger", &[("execution", Some(id))])) { "Its entries" } " · "
            a href=(api) { "Raw JSON" } " · " a href={ (api) "/reasons" } { "Reasons as JSON" } " · " a href={ (api) "/replay" } { "Replay as JSON" } }
    }
}

fn attempt_section(viewer: &Viewer, attempt: &AttemptStory) -> Markup {
    let heading = format!("attempt-{}", attempt.attempt);
    html! {
        section .attempt aria-labelledby=(heading) {
            h2 id=(heading) { "Attempt " (attempt.attempt) " " (badge(&attempt.state)) }
            ol .steps {
                li { strong { "Evidence" } " " (badge(&attempt.coherence))
                    ul { @for used in &attempt.evidence {
                        li { a href={ "/ledger/" (path(used.entry.as_str())) } { (used.kind) } ", "
                            (age(used.age_minutes)) " old " (badge(match used {
                                used if used.is_outdated => "outdated",
                                used if used.is_fresh => "fresh",
                                _ => "too old",
                            })) }
                    } }
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
                li { strong { "Agent" } " " @if attempt.agent_ran { "was called" } @else { "was not called" } }
                li { strong { "Outcome" } " " (words(&attempt.reason)) }
                li { strong { "Replay" } " "
                    @if attempt.replay.follows { (badge("verified")) " The decision follows from the log." }
                    @else { (badge("refused")) " It does not follow from the log: " (line(&attempt.replay.differs.join(", "))) }
                }
            }
            p .quiet { "Decided " (time(&attempt.decided_at, viewer.now)) }
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
            (block(&artifact.content.text, "Content", Some(&format!("/v1/entries/{}", path(id)))))
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
        @if !approval.verdicts.is_empty() {
            ul { @for verdict in &approval.verdicts {
                li { (badge(&verdict.decision)) " by " strong { (line(&verdict.person)) } " " (time(&verdict.at, now))
                    @if let Some(key) = &verdict.key { " with " code { (line(key)) } }
                    @if let Some(reason) = &verdict.reason { ": " (line(reason)) }
                    @if let Some(why) = &verdict.uncounted_reason { " " span .quiet { "does not count: " (line(why)) } }
                }
            } }
        }
    }
}
