//! Entries: the list with its filters, never with payloads, and one entry with its lineage and what proves it.

use crealeph_ledger::{EntryPage, LineageEntries, StoredEntry};
use crealeph_runtime::entries::entry_json;
use maud::{Markup, html};

use crate::assets::asset_url;
use crate::frame::Viewer;
use crate::parts::{
    MAX_BLOCK_BYTES, badge, counted, cut_block, empty, facts, filter_field, line, next_page, number, path,
    query, short, start_of_block, time,
};

/// A page of the list.
#[derive(Clone, Debug)]
pub struct LedgerList<'l> {
    /// The entries, newest first.
    pub page: &'l EntryPage,
    /// It is the first page.
    pub is_first: bool,
    /// What is filtered by: names of parameters and their values.
    pub filter: Vec<(&'static str, Option<&'l str>)>,
}

/// The list.
pub fn entries(viewer: &Viewer, list: &LedgerList<'_>) -> Markup {
    let next = list.page.next.as_ref().map(ToString::to_string);
    html! {
        h1 { "Ledger" }
        form .filter action="/ledger" method="get" {
            @for (name, value) in &list.filter { (filter_field(name, name, *value)) }
            button type="submit" { "Filter" }
        }
        @if list.page.entries.is_empty() {
            @match (next.is_some(), list.is_first) {
                (true, _) => (empty("No entry matches in the part of the log that was searched; older ones may.", None)),
                (false, false) => (empty("No older entry matches.", None)),
                (false, true) => (empty("No entry matches. Append some:", Some("crealeph ledger append entries.jsonl"))),
            }
        } @else {
            (entry_table(viewer, &list.page.entries))
        }
        @let pairs: Vec<_> = list.filter.iter().copied().chain([("cursor", next.as_deref())]).collect();
        (next_page(next.as_ref().map(|_| query("/ledger", &pairs))))
    }
}

/// Entries as a table.
pub(crate) fn entry_table(viewer: &Viewer, entries: &[StoredEntry]) -> Markup {
    html! {
        div .scroll tabindex="0" role="group" aria-label="Entries" {
            table {
                thead { tr { th .number { "Seq" } th { "Entry" } th { "Type" } th { "State" } th { "Robot" } th { "Module" } th { "When" } } }
                tbody { @for entry in entries {
                    @let content = &entry.content;
                    tr data-row {
                        td .number { (entry.seq.get()) }
                        th scope="row" { a href={ "/ledger/" (path(entry.id.as_str())) } { (short(entry.id.as_str())) } }
                        td { (line(content.kind.as_str())) }
                        td { (badge(content.state.as_str())) }
                        td { (line(content.robot_id.as_str())) }
                        td { (line(content.module.as_str())) }
                        td { (time(&entry.created_at.to_string(), viewer.now)) }
                    }
                } }
            }
        }
    }
}

/// One entry with what is around it.
#[derive(Clone, Debug)]
pub struct EntryDetail<'l> {
    /// The entry.
    pub entry: &'l StoredEntry,
    /// What it is based on.
    pub up: &'l LineageEntries,
    /// What is based on it.
    pub down: &'l LineageEntries,
    /// Whether the page of an approval has more about it.
    pub is_subject: bool,
    /// Whether its execution has a page: one without an event has none.
    pub has_execution: bool,
}

/// The page of an entry.
pub fn entry(viewer: &Viewer, detail: &EntryDetail<'_>) -> Markup {
    let EntryDetail { entry, up, down, is_subject, has_execution } = detail;
    let (content, id) = (&entry.content, entry.id.as_str());
    let api = format!("/v1/entries/{}", path(id));
    let of_execution = |execution: &str| match has_execution {
        true => format!("/executions/{}/{}", path(content.robot_id.as_str()), path(execution)),
        false => query("/ledger", &[("execution", Some(execution))]),
    };
    html! {
        h1 { (line(content.kind.as_str())) " " (badge(content.state.as_str())) }
        (facts(vec![
            ("Id", html! { code { (line(id)) } }),
            ("Sequence", html! { (number(entry.seq.get())) }),
            ("Recorded", time(&entry.created_at.to_string(), viewer.now)),
            ("Observed", html! { @if let Some(at) = &content.observed_at { (time(at.as_str(), viewer.now)) } @else { "when it was recorded" } }),
            ("Robot", html! { a href={ "/robots/" (path(content.robot_id.as_str())) } { (line(content.robot_id.as_str())) } }),
            ("Module", html! { (line(content.module.as_str())) ", source " (line(content.source.as_str())) }),
            ("Execution", html! { @match &content.execution_id {
                Some(execution) => a href=(of_execution(execution.as_str())) { (short(execution.as_str())) },
                None => "-",
            } }),
            ("Client key", html! { @if let Some(key) = &content.key { code { (line(key.as_str())) } } @else { "-" } }),
            ("Appended by", html! { @if let Some(actor) = &entry.actor { code { (line(actor.as_str())) } } @else { "-" } }),
        ]))
        @if *is_subject { p { a href={ "/inbox/" (path(id)) } { "Its approval" } } }
        section .verify aria-labelledby="verify" data-entry=(id) {
            h2 #verify { "Proof" }
            p { a href={ (api) "/proof" } { "Inclusion proof and checkpoint as JSON" } ". Checked with a key that you saved, it proves that the entry is in the log. "
                a href="/verify.html" { "Save the verifier" } " and use it offline: a page that the server sends can only be as honest as the server." }
            script src=(asset_url("proof.js")) defer {}
        }
        section aria-labelledby="rests" { h2 #rests { "Depends on" } (relatives(viewer, up)) }
        section aria-labelledby="used" { h2 #used { "Depended on by" } (relatives(viewer, down)) }
        section aria-labelledby="content" {
            h2 #content { "Content" }
            (json_block(&entry_json(entry), "The entry as JSON", Some(&api)))
        }
    }
}

/// How many entries of a lineage are listed, and how many of the farthest are offered to continue from.
const MAX_RELATIVES: usize = 200;
const MAX_FARTHEST: usize = 10;

fn relatives(viewer: &Viewer, lineage: &LineageEntries) -> Markup {
    let far = lineage.entries.iter().map(|relative| relative.distance).max().unwrap_or(0);
    let farthest = lineage.entries.iter().filter(|relative| relative.distance == far).take(MAX_FARTHEST);
    let left_out = lineage.entries.len().saturating_sub(MAX_RELATIVES) as u64;
    html! {
        @if lineage.entries.is_empty() { p .quiet { "Nothing." } } @else {
            ul .lineage { @for relative in lineage.entries.iter().take(MAX_RELATIVES) {
                @let content = &relative.entry.content;
                li { span .quiet { (relative.distance) " " } a href={ "/ledger/" (path(relative.entry.id.as_str())) } { (line(content.kind.as_str())) " " (short(relative.entry.id.as_str())) } " "
                    (badge(content.state.as_str())) " " (time(&relative.entry.created_at.to_string(), viewer.now)) }
            } }
        }
        @if left_out > 0 { p .cut { (number(left_out)) " more are not listed." } }
        @if lineage.is_cut && far > 0 {
            p .cut { "It goes on beyond " (counted(far as u64, "step")) ". Continue from "
                @for (at, relative) in farthest.enumerate() {
                    @if at > 0 { ", " }
                    a href={ "/ledger/" (path(relative.entry.id.as_str())) } { (line(relative.entry.content.kind.as_str())) " " (short(relative.entry.id.as_str())) }
                }
                "."
            }
        } @else if lineage.is_cut { p .cut { "There are more that may not be shown." } }
    }
}

/// JSON with one member a line, cut if it is long, with a link to all of it.
pub(crate) fn json_block(json: &str, label: &str, raw: Option<&str>) -> Markup {
    let start = json.get(..json.floor_char_boundary(MAX_BLOCK_BYTES)).unwrap_or(json);
    let (shown, left_out) = start_of_block(&pretty(start));
    let is_cut = left_out > 0 || start.len() < json.len();
    let cut = is_cut.then(|| format!("This is the start of {} bytes.", number(json.len() as u64)));
    cut_block(&shown, cut, label, raw)
}

/// JSON with one member a line, as far as people read it; the bytes that count are in the raw entry.
fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut is_escaped) = (0usize, false, false);
    let indent = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth.min(64)).for_each(|_| out.push_str("  "));
    };
    let mut letters = json.chars().peekable();
    while let Some(letter) = letters.next() {
        if in_string {
            out.push(letter);
            in_string = is_escaped || letter != '"';
            is_escaped = letter == '\\' && !is_escaped;
            continue;
        }
        match letter {
            '{' | '[' if matches!(letters.peek(), Some('}' | ']')) => out.push(letter),
            '{' | '[' => {
                depth += 1;
                out.push(letter);
                indent(&mut out, depth);
            }
            '}' | ']' => {
                if !matches!(out.chars().last(), Some('{' | '[')) {
                    depth = depth.saturating_sub(1);
                    indent(&mut out, depth);
                }
                out.push(letter);
            }
            ',' => {
                out.push(letter);
                indent(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' => {
                in_string = true;
                is_escaped = false;
                out.push(letter);
            }
            _ => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_page_that_is_not_all_does_not_ask_for_the_first_entry() {
        let viewer = Viewer::sample();
        let page = EntryPage { entries: Vec::new(), next: None };
        let shown = |is_first| {
            entries(&viewer, &LedgerList { page: &page, is_first, filter: Vec::new() }).into_string()
        };
        assert!(shown(true).contains("crealeph ledger append"));
        assert!(
            shown(false).contains("No older entry matches.")
                && !shown(false).contains("crealeph ledger append")
        );
    }

    #[test]
    fn json_is_laid_out_and_not_changed() {
        let json = r#"{"a":{},"b":["x,\"{",1,[]],"c":"\\"}"#;
        let laid_out = pretty(json);
        assert_eq!(
            laid_out,
            "{\n  \"a\": {},\n  \"b\": [\n    \"x,\\\"{\",\n    1,\n    []\n  ],\n  \"c\": \"\\\\\"\n}"
        );
        let packed: String = laid_out.lines().map(str::trim_start).collect();
        assert_eq!(packed.replace("\": ", "\":"), json);
    }

    #[test]
    fn json_of_one_long_line_is_cut_and_says_so() {
        let long = format!("{{\"a\":\"{}\"}}", "x".repeat(10 << 20));
        for json in [long, "[".repeat(10 << 20), "\"\",".repeat(3 << 20)] {
            let shown = json_block(&json, "JSON", Some("/raw")).into_string();
            assert!(shown.len() < 140_000, "{}", shown.len());
            assert!(shown.contains("This is the start of 1") || shown.contains("This is the start of 9"));
            assert!(shown.contains("href=\"/raw\""));
        }
    }
}
