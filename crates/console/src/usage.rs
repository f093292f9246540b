//! Tokens and cost as agents reported them: a chart, and the same as a table.

use crealeph_runtime::usage::{UsageReport, UsageSum};
use maud::{Markup, html};

use crate::frame::Viewer;
use crate::parts::{empty, line, number, time};

const KEYS: [(&str, &str); 4] = [("agent", "Agent"), ("model", "Model"), ("day", "Day"), ("robot", "Robot")];
/// How many rows the chart has.
const MAX_BARS: usize = 30;
const BAR_HEIGHT: usize = 22;
const CHART_WIDTH: f64 = 640.0;
const LABEL_WIDTH: f64 = 180.0;

/// The page.
pub fn usage(viewer: &Viewer, report: &UsageReport) -> Markup {
    html! {
        h1 { "Usage" }
        p { "Tokens and cost as the agents reported them; nothing here is measured." }
        nav .tabs aria-label="Grouped by" { ul { @for (key, name) in KEYS {
            li { a href={ "/usage?by=" (key) } aria-current=[(report.by == key).then_some("page")] { (name) } }
        } } }
        @if report.rows.is_empty() {
            (empty("No run and no execution is recorded.", Some("crealeph work run --agent NAME \"…\"")))
        } @else {
            (chart(report, "Tokens", |sum| sum.tokens, whole))
            @if report.total.cost_usd > 0.0 {
                (chart(report, "US$, as the agents reported them", |sum| sum.cost_usd, |cost| format!("{cost:.2}")))
            } @else { p .quiet { "No agent reported a cost." } }
            div .scroll tabindex="0" role="group" aria-label="Usage" {
                table {
                    thead { tr { th { "Name" } th .number { "Runs" } th .number { "Executions" } th .number { "Tokens" } th .number { "US$" } th .number { "Without tokens" } th .number { "Without cost" } } }
                    tbody { @for row in &report.rows { (sum_row(&row.name, &row.sum)) } }
                    tfoot { (sum_row("total", &report.total)) }
                }
            }
            @if report.rows_left_out > 0 { p .cut { (number(report.rows_left_out)) " more rows are not shown; the total includes them." } }
            @if let Some(oldest) = report.oldest_read.as_deref().filter(|_| report.is_cut) {
                p .cut { "Older entries were not read; the oldest one read is of " (time(oldest, viewer.now)) "." }
            }
        }
    }
}

fn sum_row(name: &str, sum: &UsageSum) -> Markup {
    html! {
        tr data-row {
            th scope="row" { (line(name)) }
            td .number { (number(sum.runs)) } td .number { (number(sum.executions)) }
            td .number { (whole(sum.tokens)) } td .number { (format!("{:.2}", sum.cost_usd)) }
            td .number { (number(sum.without_tokens)) } td .number { (number(sum.without_cost)) }
        }
    }
}

/// A number of tokens, which agents report as any number.
fn whole(tokens: f64) -> String {
    match tokens {
        tokens if (0.0..9e15).contains(&tokens) => number(tokens.round() as u64),
        tokens => format!("{tokens:e}"),
    }
}

fn chart(report: &UsageReport, what: &str, of: fn(&UsageSum) -> f64, shown: fn(f64) -> String) -> Markup {
    let most = report.rows.iter().map(|row| of(&row.sum)).fold(0.0, f64::max);
    let rows = || report.rows.iter().take(MAX_BARS);
    let height = rows().count() * BAR_HEIGHT;
    let width = |value: f64| match most > 0.0 {
        true => (value / most * (CHART_WIDTH - LABEL_WIDTH - 90.0)).max(1.0),
        false => 1.0,
    };
    html! {
        figure {
            div .scroll tabindex="0" role="group" aria-label={ "Chart: " (what) } {
                svg .chart viewBox={ "0 0 " (CHART_WIDTH) " " (height) } role="img" aria-label={ (what) "; the table below has the numbers" } {
                    @for (at, row) in rows().enumerate() {
                        @let (top, value) = (at * BAR_HEIGHT, of(&row.sum));
                        text x="0" y=(top + 15) { (line(&row.name).chars().take(26).collect::<String>()) }
                        rect x=(LABEL_WIDTH) y=(top + 4) width=(format!("{:.1}", width(value))) height=(BAR_HEIGHT - 8) rx="2" {}
                        text x=(format!("{:.1}", LABEL_WIDTH + width(value) + 6.0)) y=(top + 15) { (shown(value)) }
                    }
                }
            }
            figcaption { (what) @if report.rows.len() > MAX_BARS { ", the first " (MAX_BARS) " rows" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crealeph_runtime::usage::UsageRow;

    #[test]
    fn tokens_and_cost_have_a_chart_each() {
        let sum = |cost_usd| UsageSum { runs: 1, tokens: 70.0, cost_usd, ..UsageSum::default() };
        let report = |cost_usd| UsageReport {
            by: "agent".to_owned(),
            reported_by: "agents".to_owned(),
            rows: vec![
                UsageRow { name: "cheap".to_owned(), sum: sum(0.0) },
                UsageRow { name: "dear".to_owned(), sum: sum(cost_usd) },
            ],
            rows_left_out: 0,
            total: sum(cost_usd),
            entries_read: 2,
            is_cut: false,
            oldest_read: None,
        };
        let chart =
            |cost_usd| chart(&report(cost_usd), "US$", |sum| sum.cost_usd, |cost| format!("{cost:.2}"));
        let drawn = chart(12.5).into_string();
        assert!(
            drawn.contains("dear</text><rect x=\"180\" y=\"26\" width=\"370.0\"")
                && drawn.contains(">12.50<"),
            "{drawn}"
        );
        assert!(drawn.contains("cheap</text><rect x=\"180\" y=\"4\" width=\"1.0\""), "{drawn}");
    }
}
