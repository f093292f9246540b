//! `crealeph policy`: evaluates and explains the policy.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use crealeph_contracts::contract::{Valid, to_json};
use crealeph_contracts::json::Limits;
use crealeph_contracts::policy_output::{Decision, PolicyReason};
use crealeph_contracts::violation::Violation;
use crealeph_contracts::{PolicyInput, PolicyOutput};
use crealeph_decision::policy::{Rules, RulesSource, Standing, evaluate, standings};
use crealeph_runtime::configuration::rules_of;
use crealeph_runtime::remedies::remedies;

use super::CommandOutcome;
use super::server_args::ServerArgs;
use crate::failure::{Failure, InputFailure, ServerFailure};
use crate::input::{DEFAULT_MAX_BYTES, Source};
use crate::output::Output;
use crate::page::Page;

const EXAMPLES: &str = "\
Examples:
  crealeph policy evaluate input.json
  crealeph policy explain input.json
  crealeph policy rules > rules.json
  crealeph policy evaluate --rules rules.toml input.json

A rules file (every part is optional):
  [thresholds]
  min_confidence = 0.5
  max_staleness_minutes = 1440
  min_lineage_count = 1

  [actions.\"builder.run\"]
  needs = [\"signalsAt\", \"fusionAt\"]      # \"ideaAt|copyAt\" for either

  [refresh]
  fusionAt = [\"fusion.run\"]

  [coherence]                             # for `crealeph snapshot --rules`
  upstream = [\"signal\", \"fusion\"]
  judged = [\"idea\", \"copy\", \"playbook\"]
  uncounted_states = [\"draft\"]
  grace_minutes = 0

  [[examples]]                            # checked whenever the file is loaded
  name = \"old signals wait\"
  action = \"builder.run\"
  ages_minutes = { signalsAt = 2000, fusionAt = 10 }
  expect = \"DEFER\"
  rule = \"recency.stale\"

Exit codes: 0 decided (whatever the decision), 1 the input is not a valid policy-input, 2 cannot be evaluated.";

/// Evaluate the policy: ALLOW, BLOCK or DEFER, with reasons
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Policy {
    #[command(subcommand)]
    question: Question,
}

#[derive(Debug, Subcommand)]
enum Question {
    /// Evaluate the policy and print the PolicyOutput as JSON
    Evaluate(Asked),
    /// Explain a policy decision rule by rule, and what would change it
    Explain(Asked),
    /// Print the effective rules as JSON
    Rules {
        /// Rules file, TOML [default: built-in rules]
        #[arg(long, value_name = "FILE")]
        rules: Option<PathBuf>,
    },
    Backtest(Box<super::backtest::Backtest>),
}

#[derive(Debug, Args)]
struct Asked {
    /// PolicyInput file; standard input if absent or `-`
    file: Option<PathBuf>,

    /// Rules file, TOML [default: built-in rules]
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// Print JSON; evaluate always does
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    server: ServerArgs,
}

impl Policy {
    pub(super) fn wants_json(&self) -> bool {
        match &self.question {
            Question::Evaluate(_) | Question::Rules { .. } => true,
            Question::Explain(asked) => asked.json,
            Question::Backtest(command) => command.wants_json(),
        }
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self.question {
            Question::Backtest(command) => return command.run(output),
            Question::Rules { rules } => output.json(&read_rules(rules)?.1.to_json())?,
            Question::Evaluate(asked) => {
                let (_, answer) = asked.decide()?;
                output.json(&to_json(&answer))?;
            }
            Question::Explain(asked) => {
                let is_json = asked.json || !output.is_for_person();
                let (input, answer) = asked.decide()?;
                match is_json {
                    true => output.json(&to_json(&answer))?,
                    false => output.page(&as_page(&input, &answer))?,
                }
            }
        }
        Ok(CommandOutcome::Good)
    }
}

impl Asked {
    fn decide(self) -> Result<(Valid<PolicyInput>, PolicyOutput), Failure> {
        if self.server.is_named() && self.rules.is_some() {
            return Err(ServerFailure::Excluded("--rules").into());
        }
        let server = if self.rules.is_some() { None } else { self.server.chosen()? };
        let (_, rules) = read_rules(self.rules)?;
        let source = Source::new(self.file);
        let bytes = source.read(DEFAULT_MAX_BYTES)?;
        let input = Valid::<PolicyInput>::parse(&bytes, &Limits::default()).map_err(|violations| {
            let violations = violations.as_slice().to_vec();
            InputFailure::Invalid { name: source.name(), expected: "policy-input", violations }
        })?;
        let answer = match server {
            None => evaluate(&input, &rules),
            Some(server) => {
                let answer = server.ask(&["policy", "evaluate"], &[], &bytes)?;
                answer.read_with(|text| {
                    let read = Valid::<PolicyOutput>::parse(text.as_bytes(), &Limits::default());
                    let why = |violations: &[Violation]| {
                        violations.first().map_or_else(String::new, ToString::to_string)
                    };
                    read.map_err(|violations| why(violations.as_slice())).map(Valid::into_inner)
                })?
            }
        };
        Ok((input, answer))
    }
}

/// Reads a rules file; without one, the built-in rules.
pub(super) fn read_rules(file: Option<PathBuf>) -> Result<(RulesSource, Rules), Failure> {
    let Some(path) = file else { return Ok((RulesSource::default(), Rules::default())) };
    let bytes = Source::new(Some(path.clone())).read_bounded(DEFAULT_MAX_BYTES)?;
    Ok(rules_of(&path, &bytes)?)
}

fn as_page(input: &PolicyInput, answer: &PolicyOutput) -> Page {
    let mut out = Page::default();
    let asked = input.requested_action.as_ref().map_or("no action", |action| action.as_str());
    let confidence = answer.confidence.get();
    let _ =
        writeln!(out, "{}: {asked} for robot {}, confidence {confidence}", answer.decision, input.robot_id);
    let _ = writeln!(out, "at {}, snapshot {}", input.evaluated_at.as_str(), input.coherence_status);
    out.blank();
    let reasons = answer.reasons.as_slice();
    for reason in reasons.iter().filter(|reason| reason.rule_id.as_str() == "engine.error") {
        let _ = writeln!(out, "  -> {:<28} {}", reason.rule_id, reason.message.as_str());
    }
    for (rule, standing) in standings(answer) {
        let messages: Vec<&PolicyReason> =
            reasons.iter().filter(|reason| reason.rule_id.as_str() == rule).collect();
        match standing {
            Standing::Passed => {
                let _ = writeln!(out, "     {rule:<28} passed");
            }
            Standing::NotAsked => {
                let _ = writeln!(out, "     {rule:<28} not evaluated");
            }
            Standing::Decided => {
                for reason in messages {
                    let _ = writeln!(out, "  -> {rule:<28} {}", reason.message.as_str());
                }
            }
        }
    }
    let lists = [
        ("allowed", answer.allowed_actions.as_slice()),
        ("blocked", answer.blocked_actions.as_slice()),
        ("deferred", answer.deferred_actions.as_slice()),
    ];
    out.blank();
    for (name, actions) in lists.into_iter().filter(|(_, actions)| !actions.is_empty()) {
        let names: Vec<&str> = actions.iter().map(|action| action.as_str()).collect();
        let _ = writeln!(out, "{name:<9} {}", names.join(", "));
    }
    if answer.decision != Decision::Allow {
        out.blank();
        out.line("What would change it:");
        for reason in reasons {
            let _ = writeln!(out, "  {}", reason.rule_id);
            for remedy in reason.evidence.with(remedies) {
                let _ = writeln!(out, "    {remedy}");
            }
        }
    }
    out
}
