//! `crealeph work plan`: what can run side by side, and what is blocked.

use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::WorkItem;
use crealeph_contracts::contract::read_node;
use crealeph_contracts::json::{Kind, Limits, ObjectWriter, parse, push_text};
use crealeph_contracts::shape::Shape;
use crealeph_contracts::violation::{Code, Report, Violation};
use crealeph_decision::work::{Dependent, Plan, plan};

use crate::commands::Verdict;
use crate::failure::Failure;
use crate::input::{DEFAULT_MAX_BYTES, Source};
use crate::output::Output;
use crate::page::Page;

const EXAMPLES: &str = "\
Examples:
  crealeph work plan items.json
  crealeph work plan items.json --json | jq .levels

Exit codes: 0 planned, 1 an item is not valid, ids repeat, or dependencies form a cycle, 2 cannot judge.";

/// Print what can run side by side, level by level, and what is blocked
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanCommand {
    /// A JSON array of work items; standard input where absent or `-`
    file: Option<PathBuf>,

    /// Print JSON, as a pipe gets it
    #[arg(long)]
    pub(super) json: bool,
}

impl PlanCommand {
    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let items = read_items(&Source::new(self.file))?;
        let dependents: Vec<Dependent> = items.iter().map(Dependent::from).collect();
        let plan = plan(&dependents, |_| false)?;
        if self.json || !output.is_for_person() {
            let mut json = String::new();
            write_plan(&plan, &mut json);
            output.json(&json)?;
        } else {
            output.page(&told(&plan))?;
        }
        Ok(Verdict::Good)
    }
}

/// Reads an array of work items; everything wrong with any of them is said at once.
pub(super) fn read_items(source: &Source) -> Result<Vec<WorkItem>, Failure> {
    let bytes = source.read(DEFAULT_MAX_BYTES)?;
    let mut report = Report::default();
    let (document, faults) = parse(&bytes, &Limits::default());
    faults.into_iter().for_each(|fault| report.add_fault(fault));
    let mut items = Vec::new();
    if let Some(document) = &document {
        let root = document.root();
        if root.kind() != Kind::Array {
            let message = format!("expected an array of work items, found {}", root.kind().described());
            report.add("", "run/work-item", Code::WrongType, message);
        }
        for (position, node) in root.elements().enumerate() {
            let mut own = Report::default();
            let parts = read_node::<WorkItem>(node, &mut own);
            for violation in own.into_violations() {
                // A node's pointer starts at the document's root; a rule's starts at the item.
                let prefix = format!("/{position}");
                let pointer = match violation.pointer.starts_with(&prefix) {
                    true => violation.pointer,
                    false => format!("{prefix}{}", violation.pointer),
                };
                report.add(pointer, violation.clause, violation.code, violation.message);
            }
            items.extend(WorkItem::finish(parts));
        }
    }
    let violations: Vec<Violation> = report.into_violations();
    match violations.is_empty() {
        true => Ok(items),
        false => Err(Failure::Invalid { name: source.name(), expected: "list of work items", violations }),
    }
}

/// Adds the levels to `out`: an array of arrays of ids.
pub(in crate::commands) fn write_levels(plan: &Plan, out: &mut String) {
    out.push('[');
    for (position, level) in plan.levels.iter().enumerate() {
        if position > 0 {
            out.push(',');
        }
        out.push('[');
        for (position, id) in level.iter().enumerate() {
            if position > 0 {
                out.push(',');
            }
            push_text(out, id.as_str());
        }
        out.push(']');
    }
    out.push(']');
}

fn write_plan(plan: &Plan, out: &mut String) {
    let mut object = ObjectWriter::new(out);
    write_levels(plan, object.key("levels"));
    let blocked = object.key("blocked");
    blocked.push('[');
    for (position, item) in plan.blocked.iter().enumerate() {
        if position > 0 {
            blocked.push(',');
        }
        let mut entry = ObjectWriter::new(blocked);
        entry.text("id", item.id.as_str()).texts("waitsFor", &item.waits_for);
        entry.end();
    }
    blocked.push(']');
    object.end();
}

fn told(plan: &Plan) -> Page {
    let mut out = Page::default();
    let joined = |ids: &[crealeph_contracts::scalar::ItemId]| {
        ids.iter().map(|id| id.as_str()).collect::<Vec<_>>().join(", ")
    };
    for (number, level) in plan.levels.iter().enumerate() {
        let _ = writeln!(out, "Level {number}: {}", joined(level));
    }
    for item in &plan.blocked {
        let _ = writeln!(out, "Blocked: {} waits for {}", item.id, joined(&item.waits_for));
    }
    if out.as_str().is_empty() {
        out.line("Nothing to do.");
    }
    out
}
