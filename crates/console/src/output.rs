//! The output of a run: its end on the run's page, where a script appends new output, and in parts on a separate page. What agent
//! and tests wrote is shown as text, within a bound.

use crealeph_contracts::text::Shown;
use crealeph_runtime::work::{LogRecord, LogSource, OutputPart};
use maud::{Markup, html};

use crate::frame::{Viewer, output_script};
use crate::parts::{badge, block, elapsed, line, number, words};

/// How much of an output a page shows, in bytes.
pub const OUTPUT_BYTES: u64 = 32 << 10;

/// What a run printed.
#[derive(Clone, Debug)]
pub enum RunOutput {
    /// A part of it, from the server's own workspace.
    Part(OutputPart),
    /// Files, as they were reported.
    Files(Vec<(String, String)>),
    /// Why it is not here.
    Absent(String),
}

/// The output on the page of a run.
pub(crate) fn run_output(id: &str, output: &RunOutput) -> Markup {
    html! {
        section aria-labelledby="logs" { h2 #logs { "Output" }
            @match output {
                RunOutput::Part(part) => {
                    @if part.after > 0 { p .cut { (number(part.after)) " bytes before it are not shown. " a href={ "/runs/" (id) "/output" } { "Show it from the start" } } }
                    (records(id, part))
                    @if part.is_running {
                        p .quiet role="status" data-follow="" { "The run is in progress. " a href={ "/runs/" (id) } { "Refresh" } }
                        (output_script())
                    }
                    @else if part.records.is_empty() { p .quiet { "Nothing was printed, or it was cleaned." } }
                }
                RunOutput::Files(files) => {
                    @for (name, text) in files { details { summary { code { (line(name)) } } (block(text, name, Some(&format!("/v1/work/runs/{id}/logs")))) } }
                    @if files.is_empty() { p .quiet { "Nothing was printed." } }
                }
                RunOutput::Absent(why) => p .quiet { (words(why)) },
            }
        }
    }
}

/// A page of an output, from a place on.
pub fn output(viewer: &Viewer, id: &str, part: &OutputPart) -> Markup {
    let target = |place: u64| format!("/runs/{id}/output?after={place}");
    html! {
        h1 { "Output of run " code { (id) } }
        p { span data-state="" { (badge(&part.status)) } @if part.is_running { " for " (elapsed(&part.started_at, viewer.now)) } ", from byte " (number(part.after)) " to " (number(part.next)) }
        (records(id, part))
        @if part.records.is_empty() { p .quiet { @if part.is_running { "No more output so far." } @else { "This is the end of the output." } } }
        p {
            a href={ "/runs/" (id) } { "The run" }
            @if part.after > 0 { " · " a href=(target(0)) { "From the start" } }
            @if part.has_more || part.is_running { " · " a rel="next" href=(target(part.next)) { "Next part" } }
        }
    }
}

/// The records, each as one or a part of a line. Where the last part ended and whether more can come is there for scripts.
fn records(id: &str, part: &OutputPart) -> Markup {
    let mut source = None;
    let mut open = None;
    let marks = part.records.iter().map(|record| {
        let (heading, starts_line) = match record {
            LogRecord::Gap(_) => (None, open.take().is_some()),
            LogRecord::Text { source: own, is_error, goes_on, .. } => {
                let heading = (source != Some(*own)).then_some(*own);
                source = Some(*own);
                let starts_line = open.is_some_and(|open| open != (*own, *is_error));
                open = goes_on.then_some((*own, *is_error));
                (heading, starts_line)
            }
        };
        (record, heading, starts_line)
    });
    let marks: Vec<_> = marks.collect();
    html! {
        pre .output tabindex="0" role="log" aria-live="off" aria-label="Output of agent and tests" data-output={ "/runs/" (id) "/output?after=" } data-next=(part.next) data-running=[part.is_running.then_some("")] data-more=[part.has_more.then_some("")] {
            @for (record, heading, starts_line) in &marks {
                @if *starts_line { "\n" }
                @if let Some(heading) = heading { span .source { (source_name(*heading)) "\n" } }
                @match record {
                    LogRecord::Gap(bytes) => span .cut { "[… " (number(*bytes)) " bytes left out …]\n" },
                    LogRecord::Text { source, is_error, text, goes_on } => {
                        span .stderr[*is_error] data-open=[goes_on.then(|| stream(*source, *is_error))] data-stream=(stream(*source, *is_error)) { (Shown::line(text).to_string()) @if !goes_on { "\n" } }
                    }
                }
            }
        }
    }
}

fn source_name(source: LogSource) -> &'static str {
    match source {
        LogSource::Agent => "agent",
        LogSource::Tests => "tests",
    }
}

fn stream(source: LogSource, is_error: bool) -> String {
    format!("{}{}", source.as_str(), if is_error { '!' } else { '>' })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_what_was_printed_is_text() {
        let text = |source, is_error, text: &str, goes_on| LogRecord::Text {
            source,
            is_error,
            text: text.to_owned(),
            goes_on,
        };
        let part = OutputPart {
            run: "r".to_owned(),
            status: "running".into(),
            started_at: "2026-01-01T00:00:00.000Z".to_owned(),
            since: "2026-01-01T00:00:00.000Z".to_owned(),
            is_running: true,
            after: 0,
            next: 7,
            has_more: false,
            records: vec![
                text(LogSource::Agent, false, "one ", true),
                text(LogSource::Agent, false, "two", false),
                text(LogSource::Agent, false, "open", true),
                text(LogSource::Agent, true, "</pre><script>\u{202e}\u{1b}[2J", false),
                LogRecord::Gap(1_234),
                text(LogSource::Tests, false, "last", true),
            ],
        };
        let page = records("r", &part).into_string();
        let mut words = String::new();
        let mut is_tag = false;
        for character in page.chars() {
            match character {
                '<' => is_tag = true,
                '>' if is_tag => is_tag = false,
                _ if !is_tag => words.push(character),
                _ => {}
            }
        }
        let expected = "agent\none two\nopen\n&lt;/pre&gt;&lt;script&gt;\\u{202e}\\x1b[2J\n[… 1,234 bytes left out …]\ntests\nlast";
        assert_eq!(words, expected);
        assert!(page.contains("data-next=\"7\"") && page.contains("data-running"), "{page}");
    }
}
