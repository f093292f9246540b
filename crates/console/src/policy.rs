//! The policy: its thresholds, and which past decisions would be others if one is moved.

use crealeph_runtime::backtest::{BacktestTotals, FlippedDecision};
use maud::{Markup, html};

use crate::frame::Viewer;
use crate::parts::{badge, counted, empty, filter_field, line, path, query, short, time, words};

/// The thresholds that can be moved.
#[derive(Clone, Debug)]
pub struct BacktestForm {
    /// The robot whose decisions are looked at; all if empty.
    pub robot: String,
    /// Each threshold: its name, the value in force, and the requested value.
    pub thresholds: Vec<(&'static str, f64, Option<String>)>,
}

/// What a backtest found.
#[derive(Clone, Debug)]
pub struct BacktestPage {
    /// The decisions that would be others.
    pub flipped: Vec<FlippedDecision>,
    /// How many were looked at.
    pub totals: BacktestTotals,
    /// It begins with the newest decision.
    pub is_first: bool,
    /// Where it ended and continues; absent if it got to the oldest decision.
    pub cut: Option<BacktestCut>,
}

/// Where a backtest ended before it got to the oldest decision.
#[derive(Clone, Debug)]
pub struct BacktestCut {
    /// When the last decision that was looked at was recorded.
    pub reached: String,
    /// The time for a page was up.
    pub is_by_time: bool,
    /// Where it continues.
    pub next: String,
}

/// The page: the form as it was filled in, then what was found if something was asked for, or why that cannot be used.
pub fn policy(viewer: &Viewer, form: &BacktestForm, found: Result<Option<&BacktestPage>, &str>) -> Markup {
    html! {
        h1 { "Policy" }
        p { "Move a threshold and see which past decisions would have been different. Nothing is changed. Without a robot, each robot is judged by the rules that are in force for it, and only what you enter is moved." }
        form .filter action="/policy" method="get" {
            (filter_field("Robot", "robot", Some(&form.robot).filter(|robot| !robot.is_empty()).map(String::as_str)))
            @for (name, in_force, asked) in &form.thresholds {
                label { span { (name) " (" (in_force) ")" } input name=(name) inputmode="decimal" value=[asked.as_deref()] placeholder=(in_force) maxlength="20"; }
            }
            button type="submit" { "Backtest" }
        }
        @if let Err(why) = found { p .error role="alert" { (words(why)) } }
        @if let Ok(Some(found)) = found {
            p role="status" { (counted(found.totals.decisions, "decision")) " looked at, " strong { (counted(found.totals.flips, "decision")) " would be different" @if found.totals.flips == 0 { ". " } }
                @if found.totals.unreadable > 0 { " " (counted(found.totals.unreadable, "record")) " cannot be read." } }
            @if found.is_first && found.cut.is_none() && found.totals.decisions + found.totals.unreadable == 0 { (empty("No decision is recorded yet.", Some("crealeph build request.json"))) }
            @if !found.flipped.is_empty() {
                div .scroll tabindex="0" role="group" aria-label="Decisions that would be different" {
                    table {
                        thead { tr { th { "Execution" } th { "Robot" } th { "Attempt" } th { "What" } th { "From" } th { "To" } } }
                        tbody { @for one in &found.flipped { @for flip in &one.flips {
                            tr data-row {
                                th scope="row" { a href={ "/executions/" (path(&one.robot_id)) "/" (path(&one.execution_id)) } { (short(&one.execution_id)) } }
                                td { (line(&one.robot_id)) } td { (one.attempt) } td { (flip.what) }
                                td { (badge(&flip.from)) } td { (badge(&flip.to)) }
                            }
                        } } }
                    }
                }
            }
            @if let Some(cut) = &found.cut { (cut_note(viewer, form, found, cut)) }
        }
    }
}

/// What was not evaluated, and where it continues.
fn cut_note(viewer: &Viewer, form: &BacktestForm, found: &BacktestPage, cut: &BacktestCut) -> Markup {
    let evaluated = counted(found.totals.decisions + found.totals.unreadable, "decision");
    let robot = Some(form.robot.as_str()).filter(|robot| !robot.is_empty());
    let moved = form.thresholds.iter().map(|(name, _, asked)| (*name, asked.as_deref()));
    let pairs: Vec<_> = moved.chain([("robot", robot), ("cursor", Some(cut.next.as_str()))]).collect();
    html! {
        p .cut {
            @if found.is_first { "Evaluated the newest " (evaluated) } @else { "Evaluated " (evaluated) " more" }
            ", back to " (time(&cut.reached, viewer.now))
            @if cut.is_by_time { "; then the time for a page was up" } ". "
            a rel="next" href=(query("/policy", &pairs)) { "Evaluate older decisions" }
        }
    }
}
