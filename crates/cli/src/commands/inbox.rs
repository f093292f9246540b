//! `crealeph inbox`: everything that awaits approval.

use clap::Args;
use crealeph_contracts::short_id::NamedKind;
use crealeph_ledger::Cursor;
use crealeph_runtime::approvals::{InboxPage, InboxRow, SubjectReader, VerdictOutline, inbox};
use crealeph_runtime::builder::Scopes;

use super::CommandOutcome;
use super::ids::ShortIds;
use super::ledger::At;
use super::place::Place;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::render::counted;

const EXAMPLES: &str = "\
Examples:
  crealeph inbox
  crealeph inbox --json | jq -r '.subject'
  crealeph approve 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f

Exit codes: 0 done, also if nothing waits, 2 cannot be done.";

/// List what awaits approval: since when, under which rule, who may decide
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

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let at = self.at.place()?;
        let cursor = self.cursor.as_deref().map(Cursor::parse).transpose()?;
        let page = match &at {
            Place::Here(at) => {
                let scopes = Scopes::load(&at.configuration, None)?;
                let ledger = at.open()?;
                let reader = SubjectReader { ledger: &ledger, tenant: &at.tenant, scopes: &scopes };
                let (items, next) = inbox(reader, None, cursor, self.limit)?;
                let items = items.iter().map(InboxRow::of).collect();
                InboxPage { items, next: next.map(|next| next.to_string()) }
            }
            Place::Server(remote) => remote.inbox(cursor, self.limit)?,
        };
        let InboxPage { items, next } = page;
        let is_json = at.is_json(output);
        let log = at.log()?;
        let short_of = |kind: NamedKind, is_change: bool| {
            let items = items.iter().filter(|item| !is_json && item.change.is_some() == is_change);
            ShortIds::find(&log, kind, items.map(|item| item.subject.as_str()))
        };
        let (drafts, runs) = (short_of(NamedKind::Entry, false)?, short_of(NamedKind::Run, true)?);
        for item in &items {
            if is_json {
                output.report_line(item)?;
            } else {
                let short = if item.change.is_some() { &runs } else { &drafts };
                lines(item, short.of(&item.subject)).iter().try_for_each(|line| output.line(line))?;
            }
        }
        if items.is_empty() && next.is_none() && !is_json {
            output.line("nothing awaits approval")?;
        }
        output.flush()?;
        if let Some(next) = next {
            note!("there may be more: add --cursor {next}");
        }
        Ok(CommandOutcome::Good)
    }
}

/// What waits, in one line.
fn title(item: &InboxRow, id: &str) -> String {
    match &item.change {
        None => format!("{id}  {} {}, robot {}", item.kind, item.entry_type, item.robot_id),
        Some(change) => {
            let files = counted(usize::try_from(change.files).unwrap_or(usize::MAX), "file");
            format!("{id}  change of {files} for {}, item {}", change.target, change.item)
        }
    }
}

fn lines(item: &InboxRow, id: &str) -> Vec<String> {
    let mut lines = vec![title(item, id)];
    let mut say = |what: &str, words: &str| lines.push(format!("  {what:<9}{words}"));
    say("since", &item.since);
    if let Some(requester) = &item.requester {
        say("asked", &format!("by {requester}"));
    }
    if let Some(change) = &item.change {
        say("where", &format!("workspace {}", change.workspace));
        say("task", &change.task);
    }
    let (Some(rule), Some(needs)) = (&item.rule, &item.needs) else {
        say("rule", "no one is enrolled: one verdict, unproven");
        return lines;
    };
    say("rule", &format!("{rule}: {needs}"));
    match item.missing.map_or(0, |missing| usize::try_from(missing).unwrap_or(usize::MAX)) {
        0 if item.change.is_some() => {
            say("missing", "nothing; `crealeph work recover` in its workspace lands it");
        }
        0 => say("missing", "nothing; `crealeph approve` lands it"),
        missing => say("missing", &counted(missing, "approval")),
    }
    let people = item.may_decide.as_deref().unwrap_or_default();
    say("who", &if people.is_empty() { "no one is in the group".to_owned() } else { people.join(", ") });
    if let Some(why) = &item.outdated {
        say("outdated", &format!("{why}; build again"));
    }
    for VerdictOutline { person, why, .. } in &item.verdicts {
        match why {
            None => say("approved", person),
            Some(why) => say("lapsed", &format!("{person}: {why}")),
        }
    }
    lines
}
