//! Tokens and cost as agents reported them: a chart, and the same as a table.

use crealeph_runtime::usage::{UsageReport, UsageSum};
use maud::{Markup, html};

use crate::frame::Viewer;
use crate::parts::{empty, line, number, query, time};

const KEYS: [(&str, &str); 4] = [("agent", "Agent"), ("model", "Model"), ("day", "Day"), ("robot", "Robot")];
/// How many rows the chart has.
const MAX_BARS: usize = 30;
const BAR_HEIGHT: usize = 22;
const CHART_WIDTH: f64 = 640.0;
const LABEL_WIDTH: f64 = 180.0;

/// The days that usage is summed up of, in UTC.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsagePeriod<'p> {
    /// The first, as `2026-11-01`.
    pub from: Option<&'p str>,
    /// The last.
    pub to: Option<&'p str>,
}

/// The page.
pub fn usage(viewer: &Viewer, period: UsagePeriod<'_>, report: &UsageReport) -> Markup {
    let UsagePeriod { from, to } = period;
    html! {
        h1 { "Usage" }
        p { "Tokens and cost as the agents reported them; nothing here is measured." }
        nav .tabs aria-label="Grouped by" { ul { @for (key, name) in KEYS {
            li { a href=(query("/usage", &[("by", Some(key)), ("from", from), ("to", to)])) aria-current=[(report.by == key).then_some("page")] { (name) } }
        } } }
        form .filter action="/usage" method="get" {
            input type="hidden" name="by" value=(report.by);
            (day_field("From", "from", from))
            (day_field("To", "to", to))
            button type="submit" { "Show" }
        }
        @if report.rows.is_empty() && from.or(to).is_some() {
            (empty("No run and no execution was recorded in this period.", None))
        } @else if report.rows.is_empty() {
            (empty("No run and no execution is recorded.", Some("crealeph work run --agent NAME \"…\"")))
        } @else {
            (chart(report, "Tokens", |sum| sum.tokens, whole))
            @if report.total.cost_usd > 0.0 {
                (chart(report, "US$, as the agents reported them", |sum| sum.cost_usd, |cost| format!("{cost:.2}")))
            } @else { p .quiet { "No agent reported a cost." } }
            div .scroll tabindex="0" role="group" aria-label="Usage" {
                table {
                    thead { tr { th { "Name" } th .number { "Runs" } th .number { "Executions" } th .number { "Tokens" } th .number { "US$" } th .number { "Without tokens" } th .number { "Without cost" } } }
                    tbody { @for row in &report.rows { (sum_row(&row_name(report, &row.name), &row.sum)) } }
                    tfoot { (sum_row("total", &report.total)) }
                }
            }
            @if report.rows_left_out > 0 { p .cut { (number(report.rows_left_out)) " more rows are not shown; the total includes them." } }
        }
        @for cut in &report.cuts {
            p .cut { "Older " (kind_words(&cut.kind)) " were not read; the oldest one read is of " (time(&cut.oldest_read, viewer.now)) "." }
        }
        @if !report.cuts.is_empty() { p .cut { "A period that begins after that is read whole." } }
    }
}

fn day_field(label: &str, name: &str, day: Option<&str>) -> Markup {
    html! { label { span { (label) } input type="date" name=(name) value=[day]; } }
}

/// Entries of a kind, in words.
fn kind_words(kind: &str) -> String {
    match kind {
        "run_receipt" => "receipts of runs".to_owned(),
        "reported_receipt" => "reported receipts of runs".to_owned(),
        "execution_record" => "records of executions".to_owned(),
        other => format!("entries of the type {}", line(other)),
    }
}

/// The name of a row; of a day also that it was not read whole.
fn row_name(report: &UsageReport, name: &str) -> String {
    match report.by == "day" && !report.is_whole_day(name) {
        true => format!("{name} (incomplete)"),
        false => name.to_owned(),
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
                        text x="0" y=(top + 15) { (line(&row_name(report, &row.name)).chars().take(26).collect::<String>()) }
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
    use crealeph_runtime::usage::{UsageCut, UsageRow};

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
            cuts: Vec::new(),
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
    #[test]
    fn a_day_that_was_not_read_whole_says_so() {
        let row = |name: &str| UsageRow { name: name.to_owned(), sum: UsageSum::default() };
        let cut = |kind: &str, at: &str| UsageCut { kind: kind.to_owned(), oldest_read: at.to_owned() };
        let report = UsageReport {
            by: "day".to_owned(),
            reported_by: "agents".to_owned(),
            rows: ["2026-11-03", "2026-11-02", "2026-11-01"].map(row).to_vec(),
            rows_left_out: 0,
            total: UsageSum::default(),
            entries_read: 3,
            is_cut: true,
            oldest_read: Some("2026-11-01T07:00:00Z".to_owned()),
            cuts: vec![
                cut("run_receipt", "2026-11-02T08:00:00Z"),
                cut("execution_record", "2026-11-01T07:00:00Z"),
            ],
        };
        let period = UsagePeriod { from: Some("2026-11-01"), to: None };
        let shown = usage(&Viewer::sample(), period, &report).into_string();
        assert!(shown.contains("<th scope=\"row\">2026-11-03</th>"), "{shown}");
        for day in ["2026-11-02", "2026-11-01"] {
            assert!(shown.contains(&format!("<th scope=\"row\">{day} (incomplete)</th>")), "{shown}");
        }
        let cuts = ["Older receipts of runs were not read", "Older records of executions were not read"];
        assert!(cuts.iter().all(|cut| shown.contains(cut)), "{shown}");
        assert!(
            shown.contains("/usage?by=agent&amp;from=2026-11-01\"")
                && shown.contains("name=\"from\" value=\"2026-11-01\""),
            "{shown}"
        );
    }
}
