//! What became of work items, for a person.

use std::path::Path;

use crealeph_runtime::work::Reported;
use serde_json::Value;

use crate::page::Page;
use crate::render::counted;

/// What became of an item, in a few lines.
pub(super) fn in_words(reported: &Reported) -> Page {
    let mut page = Page::default();
    match reported {
        Reported::Finished { line, is_earlier, .. } => {
            let result: Value = serde_json::from_str(line).unwrap_or_default();
            let earlier = if *is_earlier { " (by the call before)" } else { "" };
            return finished(&result, earlier);
        }
        Reported::Held(waits) => {
            let (item, run, since) = (&waits.item, &waits.run, &waits.since);
            page.line(&format!("{item}: held since {since}"));
            page.line(&format!("  look     crealeph work diff {run}"));
            page.line(&format!("  verdict  crealeph work approve {run} --reason …, or reject"));
        }
        Reported::Blocked { item, waits_for } => {
            page.line(&format!("{item}: blocked, waits for {}", listed(waits_for)));
        }
        Reported::NotRun { item, waits_for } => {
            page.line(&format!("{item}: not run, {} did not succeed", listed(waits_for)));
        }
    }
    page
}

/// A RunResult with its item's id, in a few lines.
pub(super) fn finished(result: &Value, note: &str) -> Page {
    let text = |key: &str| result.get(key).and_then(Value::as_str).unwrap_or_default();
    let metric = |key: &str| result.pointer(&format!("/metrics/{key}")).and_then(Value::as_f64);
    let mut out = Page::default();
    out.line(&format!("{}: {}{note}", text("id"), text("status")));
    for key in ["error", "denial_reason"] {
        if !text(key).is_empty() {
            out.quoted("  why      ", text(key));
        }
    }
    for (key, sign) in [("created_files", '+'), ("modified_files", '~'), ("deleted_files", '-')] {
        for path in result.get(key).and_then(Value::as_array).into_iter().flatten() {
            out.line(&format!("  {sign} {}", from_here(path.as_str().unwrap_or_default())));
        }
    }
    let count = |key: &str, what: &str| counted(metric(key).unwrap_or(0.0) as usize, what);
    let _ = writeln!(
        out,
        "  took     {:.1} s, {}, {}, {}",
        metric("execution_time_ms").unwrap_or(0.0) / 1000.0,
        count("files_touched", "file"),
        count("delta_size", "delta"),
        count("tool_ops_count", "tool operation"),
    );
    if let (Some(passed), Some(failed)) = (metric("tests_passed"), metric("tests_failed")) {
        let _ = writeln!(out, "  tests    {passed} passed, {failed} failed");
    }
    let _ = writeln!(out, "  receipt  {}", from_here(text("receipt_path")));
    out
}

/// Within which walls a run took place, as its receipt has it.
pub(super) fn walls(receipt: &Value) -> Page {
    let strength = receipt.get("sandbox_strength").and_then(Value::as_str).unwrap_or("unknown");
    let mut out = Page::default();
    out.line(&format!("  sandbox  {strength}"));
    for connection in receipt.get("connections").and_then(Value::as_array).into_iter().flatten() {
        let host = connection.get("host").and_then(Value::as_str).unwrap_or_default();
        let is_allowed = connection.get("allowed").and_then(Value::as_bool).unwrap_or_default();
        let _ = writeln!(out, "  network  {host} {}", if is_allowed { "reached" } else { "refused" });
    }
    out
}

/// A path as it is typed in the folder the program was started in.
fn from_here(path: &str) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let inside = Path::new(path).strip_prefix(here).unwrap_or(Path::new(path));
    inside.display().to_string()
}

/// `` `a`, `b` ``.
pub(super) fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
