//! `crealeph rule`: how many approvals drafts and changes need, and from whom (R33).

use std::path::PathBuf;

use clap::Subcommand;
use crealeph_contracts::approval::{ApprovalDocument as _, ApprovalRule};
use crealeph_runtime::approvals::{
    ApprovalHistory, RuledSubject, read_rules, rule_in_words, rule_json, rule_statement, ruled_subjects,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::CommandOutcome;
use super::admin_log::AdminLog;
use super::on_ledger::{Opened, Task};
use super::place::{Place, RemoteLog};
use crate::failure::{ApprovalFailure, Failure};
use crate::input::{DEFAULT_MAX_BYTES, Source};
use crate::output::{Output, note};
use crate::render::counted;

pub(super) const EXAMPLES: &str = "\
Examples:
  crealeph rule test rules.toml
  crealeph rule test
  crealeph rule set rules.toml
  crealeph rule show

  [[rule]]                           # tried from the top; the first match applies
  name = \"campaigns\"
  objectives = [\"campaign_plan\"]     # drafts of these objectives [default: all]
  approvals = 2                      # by this many different people [default: 1]
  group = \"maintainers\"              # of this group [default: anyone enrolled]
  ttl_minutes = 1440                 # how long a verdict counts [default: no limit]
  unattended = false                 # whether `approve --yes` counts
  requester = false                  # whether the requester may approve
  os_requester = false               # whether a requester known only by an OS account is accepted
  proof = [\"ssh\", \"passkey\"]         # with which kinds of keys [default: [\"ssh\"]]

  [[rule]]
  name = \"large changes\"
  subject = \"change\"                 # held changes of work runs [default: \"draft\"]
  protected = true                   # that touch protected paths,
  tests = true                       # or tests,
  more_files_than = 20               # or more files than this,
  cost_above_usd = 5.0               # or whose run cost more; without any of these: all changes
  os_requester = true

Rules are signed by an admin and recorded; a file has no effect until it is set. A change that matches a rule is held, also without --hold. What matches no
rule needs one approval by anyone enrolled. If a rule changes, verdicts given under it lapse.

Exit codes: 0 done, 1 refused, 2 cannot be done.";

#[derive(Debug, Subcommand)]
pub(super) enum RuleTask {
    /// Replace the rules by those of a file
    Set {
        /// Rules, TOML
        file: PathBuf,
        /// Key to sign with: private, or public if ssh-agent holds it [default: the enrolled one that is found]
        #[arg(long, value_name = "FILE")]
        sign_with: Option<PathBuf>,
    },
    /// Print the rules in force
    Show,
    /// Print what past drafts and changes would have needed under the rules of a file
    Test {
        /// Rules, TOML [default: the rules in force]
        file: Option<PathBuf>,
        /// Number of the newest to show
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        limit: u32,
    },
}

impl Task for RuleTask {
    fn run(self, at: &Place, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self {
            RuleTask::Set { file, sign_with } => {
                let rules = read(file)?;
                let log = AdminLog::open(at)?;
                let (signing, signer) = log.signer(sign_with.as_deref())?;
                let statement = rule_statement(log.place()?, rules, signer)?;
                let entry = log.record(&signing, &statement)?;
                let count = statement.rules.as_slice().len();
                match at.is_json(output) {
                    true => output.report(&json!({ "entry": entry, "rules": count }))?,
                    false => output.line(&format!("{} in force", counted(count, "rule")))?,
                }
            }
            RuleTask::Show => show(at, output)?,
            RuleTask::Test { file, limit } => test(at, file, limit as usize, output)?,
        }
        Ok(CommandOutcome::Good)
    }
}

fn read(file: PathBuf) -> Result<Vec<ApprovalRule>, Failure> {
    let source = Source::new(Some(file));
    let text = source.text(source.read_bounded(DEFAULT_MAX_BYTES)?)?;
    Ok(read_rules(&text).map_err(|error| ApprovalFailure::Rules { name: source.name(), error })?)
}

/// The rules as a server lists them.
#[derive(Deserialize)]
struct RuleList {
    rules: Vec<Box<RawValue>>,
}

/// The rules in force.
pub(super) fn in_force(at: &Place) -> Result<Vec<ApprovalRule>, Failure> {
    let RemoteLog { client, .. } = match at {
        Place::Here(at) => {
            let history = ApprovalHistory::load(&at.open()?, &at.tenant)?;
            return Ok(history.map_or_else(Vec::new, |history| history.judge.rules().to_vec()));
        }
        Place::Server(remote) => remote,
    };
    let answer = client.get(&["rules"], &[])?;
    let listed: RuleList = answer.read()?;
    let rules = listed.rules.iter().map(|rule| {
        ApprovalRule::parse(rule.get().as_bytes()).map_err(|violations| {
            let first = violations.first().map_or_else(String::new, ToString::to_string);
            Failure::from(answer.refuse(&format!("a rule of it cannot be read: {first}")))
        })
    });
    rules.collect()
}

fn show(at: &Place, output: &mut Output) -> Result<(), Failure> {
    let rules = in_force(at)?;
    let is_json = at.is_json(output);
    for rule in &rules {
        match is_json {
            true => output.report_line(&rule_json(rule)?)?,
            false => output.line(&format!("{}: {}", rule.name, rule_in_words(rule)))?,
        }
    }
    if rules.is_empty() && !is_json {
        output.line(
            "no rule is set: a draft or a held change needs one approval by anyone enrolled, with an SSH key",
        )?;
    }
    Ok(())
}

fn test(at: &Place, file: Option<PathBuf>, limit: usize, output: &mut Output) -> Result<(), Failure> {
    let rules = file.map(read).transpose()?;
    let Opened { log, .. } = &Opened::whole(at, None, output)?;
    let (ledger, tenant) = log.ledger()?;
    let (subjects, has_more) = ruled_subjects(ledger, tenant, rules.as_deref(), limit)?;
    let is_json = at.is_json(output);
    for subject in &subjects {
        match is_json {
            true => output.report_line(&ruled_json(subject))?,
            false => {
                output.line(&ruled_title(subject))?;
                output.line(&match &subject.rule {
                    Some(rule) => format!("  {}: {}", rule.name, rule_in_words(rule)),
                    None => "  no rule: lands at once".to_owned(),
                })?;
            }
        }
    }
    if subjects.is_empty() && !is_json {
        output.line("there is no draft yet, and no change of a run")?;
    }
    output.flush()?;
    if has_more {
        note!("older ones left out; see them with a greater --limit");
    }
    Ok(())
}

fn ruled_json(subject: &RuledSubject) -> Value {
    let RuledSubject { entry, receipt, class, rule, now } = subject;
    let name = |rule: &Option<ApprovalRule>| rule.as_ref().map(|rule| rule.name.as_str().to_owned());
    let mut line = match receipt {
        None => json!({
            "draft": entry.id.as_str(), "type": entry.content.kind.as_str(),
            "objective": class.objective.as_ref().map(|objective| objective.as_str()),
        }),
        Some(receipt) => json!({
            "run": receipt.id.to_string(), "item": receipt.work_item_id.as_ref().map(|item| item.as_str()),
            "files": class.files, "protected": class.is_protected, "tests": class.has_tests, "costUsd": class.cost_usd,
        }),
    };
    let needed = json!({
        "rule": name(rule), "inForce": name(now), "approvals": rule.as_ref().map_or(0, |rule| rule.approvals.get()),
        "group": rule.as_ref().and_then(|rule| rule.group.as_ref()).map(|group| group.as_str()),
    });
    if let (Some(line), Value::Object(needed)) = (line.as_object_mut(), needed) {
        line.extend(needed);
    }
    line
}

fn ruled_title(subject: &RuledSubject) -> String {
    let RuledSubject { entry, receipt, class, .. } = subject;
    match receipt {
        None => {
            let objective = class.objective.as_ref().map_or("an unknown objective", |name| name.as_str());
            format!("{}  {} for {objective}", entry.id, entry.content.kind)
        }
        Some(receipt) => {
            let files = counted(usize::try_from(class.files).unwrap_or(usize::MAX), "file");
            let item = receipt.work_item_id.as_ref().map_or("-", |item| item.as_str());
            format!("{}  change of {files}, item {item}", receipt.id)
        }
    }
}
