//! `crealeph work plan`: which items can run in parallel, and which are blocked.

use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::WorkItem;
use crealeph_contracts::contract::read_node;
use crealeph_contracts::json::{Limits, NodeKind, parse};
use crealeph_contracts::scalar::ItemId;
use crealeph_contracts::shape::Shape;
use crealeph_contracts::violation::{Code, Report, Violation};
use crealeph_decision::work::{Dependent, Plan, plan};
use serde_json::json;

use crate::commands::CommandOutcome;
use crate::failure::{Failure, InputFailure};
use crate::input::{DEFAULT_MAX_BYTES, Source};
use crate::output::Output;
use crate::page::Page;

const EXAMPLES: &str = "\
Examples:
  crealeph work plan items.json
  crealeph work plan items.json --json | jq .levels

Exit codes: 0 planned, 1 an item is not valid, ids repeat, or dependencies form a cycle, 2 cannot be planned.";

/// Print the execution order: which items run in parallel, level by level, and which are blocked
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct PlanCommand {
    /// JSON array of work items; standard input if absent or `-`
    file: Option<PathBuf>,

    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl PlanCommand {
    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let items = read_items(&Source::new(self.file))?;
        let dependents: Vec<Dependent> = items.iter().map(Dependent::from).collect();
        let plan = plan(&dependents, |_| false)?;
        if self.json || !output.is_for_person() {
            output.report(&as_json(&plan))?;
        } else {
            output.page(&page(&plan))?;
        }
        Ok(CommandOutcome::Good)
    }
}

/// Reads an array of work items; everything wrong with any of them is said at once.
pub(super) fn read_items(source: &Source) -> Result<Vec<WorkItem>, InputFailure> {
    let bytes = source.read(DEFAULT_MAX_BYTES)?;
    let mut report = Report::default();
    let (document, faults) = parse(&bytes, &Limits::default());
    faults.into_iter().for_each(|fault| report.add_fault(fault));
    let mut items = Vec::new();
    if let Some(document) = &document {
        let root = document.root();
        if root.kind() != NodeKind::Array {
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
        false => {
            Err(InputFailure::Invalid { name: source.name(), expected: "list of work items", violations })
        }
    }
}

/// The ids, level by level.
fn levels(plan: &Plan) -> Vec<Vec<&str>> {
    plan.levels.iter().map(|level| texts(level)).collect()
}

fn texts(ids: &[ItemId]) -> Vec<&str> {
    ids.iter().map(|id| id.as_str()).collect()
}

fn as_json(plan: &Plan) -> serde_json::Value {
    let blocked = plan.blocked.iter();
    let blocked: Vec<_> =
        blocked.map(|item| json!({ "id": item.id.as_str(), "waitsFor": texts(&item.waits_for) })).collect();
    json!({ "levels": levels(plan), "blocked": blocked })
}

fn page(plan: &Plan) -> Page {
    let mut out = Page::default();
    let joined = |ids: &[ItemId]| texts(ids).join(", ");
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
