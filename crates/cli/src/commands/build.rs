//! `crealeph build`: asks the Builder for a plan.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use crealeph_contracts::BuilderResponse;
use crealeph_contracts::agent_input::{ArtifactType, ObjectiveType};
use crealeph_contracts::builder::ErrorCode;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::scalar::ExecutionId;
use crealeph_decision::builder::Widened;
use crealeph_runtime::agents;
use crealeph_runtime::builder::{Answer, Builder, Settings};
use crealeph_sandbox::Cancel;

use super::Verdict;
use super::ledger::{At, CONFIGURATION, named};
use super::policy::read_rules;
use super::sandbox::state_directory;
use crate::failure::Failure;
use crate::input::{DEFAULT_MAX_BYTES, Source};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  crealeph build request.json
  crealeph build request.json --rerun-of 0190a6f0-7c2e-7d31-8a4e-3f5b6c7d8e9f
  crealeph build - --json < request.json

A request is a BuilderRunRequest (`crealeph schema builder-request`); its `agentVersion` names an agent of crealeph.toml:
  [agents.\"example@1\"]
  kind = \"example\"

  [builder]                               # every part is optional
  rules = \"rules.toml\"                    # see `crealeph policy --help`
  artifact_types = { site_plan = [\"copy\"] } # allowed beside the built-in ones

The same request again gives the recorded answer, with `idempotent: true`, and calls no agent. Ctrl-C ends the run and
writes nothing.

Exit codes: 0 done (planned or succeeded), 1 refused by the gate, or nothing is known yet, 2 cannot be done (ledger,
configuration, wrong usage), 3 deferred by the policy, 4 drafts wait for a review, 5 the agent failed or its answer
was invalid, 6 bad request: invalid, or the executionId is taken.";

/// Ask the Builder for a plan: it decides, the agent executes, the ledger remembers
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Build {
    /// The BuilderRunRequest; `-` for standard input
    request: PathBuf,

    /// The execution that this one tries again
    #[arg(long, value_name = "EXECUTION")]
    rerun_of: Option<String>,

    /// A file of rules, TOML; those of the configuration or the built-in ones where absent
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    /// The configuration
    #[arg(long, value_name = "FILE", default_value = CONFIGURATION)]
    config: PathBuf,

    #[command(flatten)]
    at: At,
}

#[derive(Debug, Default, serde::Deserialize)]
struct Configuration {
    #[serde(default)]
    builder: BuilderTable,
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct BuilderTable {
    rules: Option<PathBuf>,
    #[serde(default)]
    artifact_types: std::collections::BTreeMap<String, Vec<String>>,
}

impl Build {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<Verdict, Failure> {
        let at = self.at.settle()?;
        let is_json = at.is_json(output);
        let rerun_of = self.rerun_of.map(|name| named("execution", &name, ExecutionId::parse)).transpose()?;
        let request = Source::new(Some(self.request)).read_bounded(DEFAULT_MAX_BYTES)?;
        let settings = settings(&self.config, self.rules)?;
        let agents = agents::load(&self.config, &state_directory(None))?;
        let cancel = Cancel::new().map_err(|source| Failure::Unreadable {
            path: PathBuf::from("a descriptor of the system"),
            source,
        })?;
        let builder = Builder::new(at.open()?, agents, settings);
        let answer = builder.run(&at.tenant, &request, rerun_of.as_ref(), &cancel)?;
        if is_json {
            output.json(&to_json(&answer.response))?;
            if !answer.response.ok {
                eprintln!("{}", answer.detail);
            }
        } else {
            output.text(&told(&answer))?;
        }
        Ok(Verdict::Exit(exit_code(&answer.response)))
    }
}

/// What `[builder]` says, and what a flag says instead.
fn settings(config: &Path, rules: Option<PathBuf>) -> Result<Settings, Failure> {
    let wrong = |why: String| Failure::Configuration { path: config.to_owned(), why };
    let text = match std::fs::read_to_string(config) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(source) => return Err(Failure::Unreadable { path: config.to_owned(), source }),
    };
    let Configuration { builder } = toml::from_str(&text).map_err(|why| wrong(why.to_string()))?;
    let beside = |path: PathBuf| config.parent().map_or(path.clone(), |folder| folder.join(path));
    let (source, rules) = read_rules(rules.or_else(|| builder.rules.map(beside)))?;
    let mut widened = Widened::default();
    for (objective, types) in &builder.artifact_types {
        let objective = ObjectiveType::parse(objective)
            .ok_or_else(|| wrong(format!("`{objective}` under artifact_types is no objective type")))?;
        for kind in types {
            let kind = ArtifactType::parse(kind)
                .ok_or_else(|| wrong(format!("`{kind}` under artifact_types is no artifact type")))?;
            widened.add(objective, [kind]);
        }
    }
    Ok(Settings { rules, coherence: source.coherence, widened })
}

fn exit_code(response: &BuilderResponse) -> u8 {
    match (response.state, response.error, response.blocking_reason) {
        (ExecutionState::Planned | ExecutionState::Succeeded, ..) => 0,
        (_, Some(ErrorCode::InvalidRequest | ErrorCode::IdempotencyConflict), _) => 6,
        (_, Some(ErrorCode::ModelOutputInvalid), _) => 5,
        (_, Some(_), _) | (_, _, Some(_)) => 1,
        (ExecutionState::Cancelled, ..) if response.artifacts.as_slice().is_empty() => 3,
        (ExecutionState::Cancelled, ..) => 4,
        (ExecutionState::Failed | ExecutionState::Running, None, None) => 5,
    }
}

/// The run as a short story.
fn told(answer: &Answer) -> String {
    let Answer { response, detail } = answer;
    let mut out = String::new();
    let execution = response.execution_id.as_ref().map_or("(none)", |id| id.as_str());
    let before = if response.idempotent { ", answered before" } else { "" };
    let _ = writeln!(out, "Execution {execution}: {}{before}", response.state);
    if let Some(coherence) = &response.coherence {
        let reason = coherence.reason.as_ref().map_or("", |reason| reason.as_str());
        let _ = writeln!(out, "  coherence  {}: {reason}", coherence.status);
    }
    let decision = match exit_code(response) {
        0 => "allowed",
        1 => "refused",
        3 => "deferred by the policy",
        4 => "drafts only: a person must review them",
        5 => "the agent failed",
        _ => "bad request",
    };
    let _ = writeln!(out, "  decision   {decision}");
    if let Some(code) = response.error.or(response.blocking_reason) {
        let _ = writeln!(out, "  code       {code}");
    }
    let _ = writeln!(out, "  why        {detail}");
    for artifact in response.artifacts.as_slice() {
        let _ = writeln!(out, "  artifact   {:<12} {}", artifact.kind.as_str(), artifact.id);
    }
    let next = match exit_code(response) {
        1 | 3 if response.execution_id.is_some() => {
            format!("what would change it: crealeph execution why {execution}")
        }
        4 => "look at them: crealeph review list".to_owned(),
        5 => "try again with a greater attempt".to_owned(),
        _ => return out,
    };
    let _ = writeln!(out, "\n{next}");
    out
}
