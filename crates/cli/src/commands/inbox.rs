//! `crealeph inbox`: everything that waits for a person.

use clap::Args;
use crealeph_ledger::{Cursor, IdKind};
use crealeph_runtime::approvals::{InboxItem, SubjectReader, inbox, inbox_item_json, missing_approvals};
use crealeph_runtime::builder::Scopes;

use super::Verdict;
use super::ids::ShortIds;
use super::ledger::At;
use super::rule::wanted;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::counted;

const EXAMPLES: &str = "\
Examples:
  crealeph inbox
  crealeph inbox --json | jq -r '.subject'
  crealeph approve 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f

Exit codes: 0 done, also if nothing waits, 2 cannot be done.";

/// List what waits for approval: since when, under which rule, who may decide
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Inbox {
    /// Maximum number of results
    #[arg(long, default_value_t = 100)]
    limit: usize,

    /// Continue after this cursor, from the previous page
    #[arg(long)]
    cursor: Option<String>,

    #[command(flatten)]
    at: At,
}

impl Inbox {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let at = self.at.settle()?;
        let scopes = Scopes::load(&at.configuration, None)?;
        let cursor = self.cursor.as_deref().map(Cursor::parse).transpose()?;
        let ledger = at.open()?;
        let reader = SubjectReader { ledger: &ledger, tenant: &at.tenant, scopes: &scopes };
        let (items, next) = inbox(reader, None, cursor, self.limit)?;
        let is_json = at.is_json(output);
        let short_of = |kind: IdKind, is_change: bool| {
            let items = items.iter().filter(|item| !is_json && item.change.is_some() == is_change);
            ShortIds::find(&ledger, &at.tenant, kind, items.map(|item| item.subject.id.as_str()))
        };
        let (drafts, runs) = (short_of(IdKind::Entry, false)?, short_of(IdKind::HeldRun, true)?);
        for item in &items {
            if is_json {
                output.report_line(&inbox_item_json(item))?;
            } else {
                let short = if item.change.is_some() { &runs } else { &drafts };
                lines(item, short.of(item.subject.id.as_str()))
                    .iter()
                    .try_for_each(|line| output.line(line))?;
            }
        }
        if items.is_empty() && next.is_none() && !is_json {
            output.line("nothing waits for approval")?;
        }
        output.flush()?;
        if let Some(next) = next {
            note!("there may be more: add --cursor {next}");
        }
        Ok(Verdict::Good)
    }
}

/// What waits, in one line.
fn title(item: &InboxItem, id: &str) -> String {
    let content = &item.entry.content;
    match &item.change {
        None => format!("{id}  {} {}, robot {}", item.subject.class.kind, content.kind, content.robot_id),
        Some(change) => {
            let files = counted(usize::try_from(change.files.get()).unwrap_or(usize::MAX), "file");
            format!("{id}  change of {files} for {}, item {}", change.target, change.item)
        }
    }
}

fn lines(item: &InboxItem, id: &str) -> Vec<String> {
    let InboxItem { entry, subject, change, state } = item;
    let mut lines = vec![title(item, id)];
    let mut say = |what: &str, words: &str| lines.push(format!("  {what:<9}{words}"));
    say("since", &entry.created_at.to_string());
    if let Some(change) = change {
        say("where", &format!("workspace {}", change.workspace));
        say("task", change.task.lines().next().unwrap_or_default());
    }
    let Some(state) = state else {
        say("rule", "nobody is enrolled: one verdict, unproven");
        return lines;
    };
    say("rule", &format!("{}: {}", state.rule.name, wanted(&state.rule)));
    let missing = usize::try_from(missing_approvals(state)).unwrap_or(usize::MAX);
    match missing {
        0 if change.is_some() => say("missing", "nothing; `crealeph work recover` in its workspace lands it"),
        0 => say("missing", "nothing; `crealeph approve` lands it"),
        missing => say("missing", &counted(missing, "approval")),
    }
    let people: Vec<&str> = state.may_decide.iter().map(|person| person.as_str()).collect();
    say("who", &if people.is_empty() { "nobody is in the group".to_owned() } else { people.join(", ") });
    if let Some(why) = &subject.outdated {
        say("outdated", &format!("{why}; build again"));
    }
    for verdict in &state.verdicts {
        let person = &verdict.statement.person;
        match &verdict.uncounted {
            None => say("approved", person.as_str()),
            Some(why) => say("lapsed", &format!("{person}: {}", why.reason())),
        }
    }
    lines
}
