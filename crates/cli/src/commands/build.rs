//! `crealeph build`: asks the Builder for a plan.

use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::builder::ErrorCode;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::execution_event::ExecutionState;
use crealeph_contracts::json::{JsonObject, Limits, ObjectWriter};
use crealeph_contracts::short_id::NamedKind;
use crealeph_contracts::violation::Violation;
use crealeph_contracts::{BuilderRequest, BuilderResponse, Valid};
use crealeph_decision::builder::Record;
use crealeph_runtime::agents;
use crealeph_runtime::builder::{Answer, Builder, Called, Scopes};

use super::CommandOutcome;
use super::ids::{ShortIds, execution_id};
use super::ledger::{At, Settled};
use super::place::{LogSource, Place, RemoteLog};
use super::policy::read_rules;
use super::sandbox::state_directory;
use crate::failure::{ArgumentFailure, Failure, ServerFailure};
use crate::input::{DEFAULT_MAX_BYTES, Source};
use crate::interrupt;
use crate::output::{Output, note};
use crate::page::Page;
use crate::trusting::{self, Uses};

const EXAMPLES: &str = "\
Examples:
  crealeph build --robot robot-7 --objective landing_plan --agent example@1 --dry-run
  crealeph build request.json
  crealeph build request.json --rerun-of 0190a6f0-7c2e
  crealeph build - --json < request.json
  crealeph --server https://crealeph.example.com build request.json

A request is a BuilderRunRequest (`crealeph schema builder-request`); its `agentVersion` names an agent of crealeph.toml:
  [agents.\"example@1\"]
  kind = \"example\"

  [builder]                                 # every part is optional
  rules = \"rules.toml\"                      # see `crealeph policy --help`
  thresholds = { min_confidence = 0.6 }     # override those of the rules; `coherence` too
  artifact_types = { site_plan = [\"copy\"] } # in addition to the built-in ones
  agents = [\"example@1\"]                    # agents that may be named; all if absent

  [tenants.acme.builder]                    # the same keys, for one tenant
  [tenants.acme.robots.\"robot-7\".builder]  # and for one robot

A request with an executionId is executed once: sent again, it returns the recorded answer with `idempotent: true` and calls
no agent. Without an executionId, each request is a new execution. Ctrl-C stops the run and writes nothing; with --server it only stops waiting.

Exit codes: 0 done (planned or succeeded), 1 refused by the gate, or nothing is known yet, 2 cannot be done (ledger,
configuration, wrong usage), 3 deferred by the policy, 4 drafts await review, 5 the agent failed or its answer
was invalid, 6 bad request: invalid, or the executionId is taken, 130 interrupted.";

/// Run the Builder: check the policy, call the agent, record the result
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Build {
    /// BuilderRunRequest file; `-` for standard input
    #[arg(required_unless_present = "robot")]
    request: Option<PathBuf>,

    /// Execution that this one repeats
    #[arg(long, value_name = "EXECUTION")]
    rerun_of: Option<String>,

    /// Rules file, TOML; replaces rules, thresholds and coherence of the configuration
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,

    #[command(flatten)]
    at: At,

    #[command(flatten)]
    fields: Fields,
}

/// A request in place of a document.
#[derive(Debug, Args)]
#[command(next_help_heading = "A request without a document")]
struct Fields {
    /// Robot
    #[arg(long, conflicts_with = "request", requires_all = ["objective", "agent"])]
    robot: Option<String>,
    /// Objective type: campaign_plan, landing_plan, seo_cluster, paid_media_plan or site_plan
    #[arg(long, value_name = "TYPE", requires = "robot")]
    objective: Option<String>,
    /// Agent name in the configuration
    #[arg(long, value_name = "NAME", requires = "robot")]
    agent: Option<String>,
    /// Payload of the objective
    #[arg(long, value_name = "JSON", requires = "robot", default_value = "{}")]
    payload: String,
    /// Constraints of the plan
    #[arg(long, value_name = "JSON", requires = "robot", default_value = "{}")]
    constraints: String,
    /// Action on a partial snapshot: block or draft_only
    #[arg(long, value_name = "POLICY", requires = "robot", default_value = "block")]
    on_partial: String,
    /// Only create drafts
    #[arg(long, requires = "robot")]
    dry_run: bool,
    /// Execution id [default: a new one]
    #[arg(long, value_name = "ID", requires = "robot")]
    execution_id: Option<String>,
    /// Attempt number of the execution
    #[arg(long, value_name = "N", requires = "robot", default_value_t = 1)]
    attempt: u64,
    /// Workflow version
    #[arg(long, value_name = "VERSION", requires = "robot", default_value = "v1")]
    workflow: String,
}

impl Fields {
    /// The document; the Builder judges it like any other.
    fn document(&self) -> Result<String, ArgumentFailure> {
        let object = |text: &str| {
            JsonObject::parse(text).ok_or_else(|| ArgumentFailure::option(text, "a JSON object"))
        };
        let (payload, constraints) = (object(&self.payload)?, object(&self.constraints)?);
        let policy = JsonObject::build(|policy| {
            policy.text("on_stale", "block").text("on_partial", &self.on_partial);
        });
        let mut document = String::new();
        let mut request = ObjectWriter::new(&mut document);
        let mut named = |key, value: &Option<String>| {
            // What is not given is left out, and the Builder says that it is missing.
            if let Some(value) = value {
                request.text(key, value);
            }
        };
        named("robotId", &self.robot);
        named("objective_type", &self.objective);
        named("agentVersion", &self.agent);
        named("executionId", &self.execution_id);
        request.object("objective_payload", &payload).object("constraints", &constraints);
        request.object("coherence_policy", &policy).boolean("dryRun", self.dry_run);
        request.text("workflowVersion", &self.workflow).raw("attempt", &self.attempt.to_string());
        request.end();
        Ok(document)
    }
}

impl Build {
    pub(super) fn wants_json(&self) -> bool {
        self.at.json
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let place = self.at.place()?;
        let is_json = place.is_json(output);
        let request = match self.request {
            Some(path) => Source::new(Some(path)).read_bounded(DEFAULT_MAX_BYTES)?,
            None => self.fields.document()?.into_bytes(),
        };
        let rerun_of = self.rerun_of.as_deref();
        let (answer, log) = match &place {
            Place::Here(at) => run_here(at, &request, rerun_of, self.rules)?,
            Place::Server(_) if self.rules.is_some() => {
                return Err(ServerFailure::Excluded("--rules").into());
            }
            Place::Server(remote) => (run_there(remote, &request, rerun_of)?, place.log()?),
        };
        if is_json {
            output.json(&to_json(&answer.response))?;
            if !answer.response.ok {
                note!("{}", answer.detail);
            }
        } else {
            output.page(&as_page(&answer, &Short::of(&log, &answer.response)?))?;
        }
        Ok(CommandOutcome::Exit(exit_code(&answer.response)))
    }
}

/// Runs a request on the ledger.
fn run_here(
    at: &Settled,
    request: &[u8],
    rerun_of: Option<&str>,
    rules: Option<PathBuf>,
) -> Result<(Answer, LogSource), Failure> {
    trusting::require(&at.configuration, Uses::Everything)?;
    let rules = match rules {
        Some(file) => Some(read_rules(Some(file))?.0),
        None => None,
    };
    let scopes = Scopes::load(&at.configuration, rules)?;
    let agents = agents::load(&at.configuration, &state_directory(None))?;
    let cancel = interrupt::cancel()?;
    let ledger = at.open()?;
    let log = LogSource::of(&ledger, &at.tenant);
    let rerun_of = rerun_of.map(|word| execution_id(&log, None, word)).transpose()?;
    let builder = Builder::new(ledger, agents, scopes).acting_for_account()?;
    let answer = builder.run(&at.tenant, request, rerun_of.as_ref().map(|(id, _)| id), &cancel)?;
    Ok((answer, log))
}

/// Has a server run a request. Its answer is that of the contract; the reason is in the record, or next to the answer if there is none.
fn run_there(remote: &RemoteLog, request: &[u8], rerun_of: Option<&str>) -> Result<Answer, Failure> {
    let log = LogSource::Server(remote.clone());
    let rerun_of = rerun_of.map(|word| execution_id(&log, None, word)).transpose()?;
    let query = [("rerunOf", rerun_of.map(|(id, _)| id.to_string()))];
    let answer = remote.client.run(&["builder", "runs"], &query, request)?;
    let response = answer.read_with(|text| {
        let read = Valid::<BuilderResponse>::parse(text.as_bytes(), &Limits::outside(text.len()));
        let why = |violations: &[Violation]| violations.first().map_or_else(String::new, ToString::to_string);
        read.map_err(|violations| why(violations.as_slice())).map(Valid::into_inner)
    })?;
    let asked = Valid::<BuilderRequest>::parse(request, &Limits::outside(request.len()));
    let no_record = "the server left no record of it; the code says why";
    let reason = answer.reason.unwrap_or_else(|| no_record.to_owned());
    let (Ok(asked), Some(id)) = (asked, &response.execution_id) else {
        return Ok(Answer { response, detail: reason, agent: None });
    };
    let found = log.execution(Some(&asked.robot_id), id)?;
    let records = found.into_iter().flat_map(|found| found.records).map(|(_, record)| record);
    let is_answered = |record: &Record| {
        record.attempt == asked.attempt.get() && response.error != Some(ErrorCode::IdempotencyConflict)
    };
    match records.into_iter().find(is_answered) {
        Some(record) => {
            let called = Called { version: record.request.agent_version.clone(), ran: record.agent_ran };
            Ok(Answer { response, detail: record.reason, agent: Some(called) })
        }
        None => Ok(Answer { response, detail: reason, agent: None }),
    }
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

/// The ids in an answer, in short.
struct Short {
    executions: ShortIds,
    entries: ShortIds,
}

impl Short {
    fn of(log: &LogSource, response: &BuilderResponse) -> Result<Self, Failure> {
        let execution = response.execution_id.iter().map(|id| id.as_str());
        let entries = response.artifacts.as_slice().iter().map(|artifact| artifact.id.as_str());
        Ok(Short {
            executions: ShortIds::find(log, NamedKind::Execution, execution)?,
            entries: ShortIds::find(log, NamedKind::Entry, entries)?,
        })
    }
}

/// The answer for a person.
fn as_page(answer: &Answer, short: &Short) -> Page {
    let Answer { response, detail, agent } = answer;
    let mut out = Page::default();
    let execution = response.execution_id.as_ref().map_or("(none)", |id| short.executions.of(id.as_str()));
    let before = if response.idempotent { ", recorded before" } else { "" };
    let _ = writeln!(out, "Execution {execution}: {}{before}", response.state);
    if let Some(coherence) = &response.coherence {
        let reason = coherence.reason.as_ref().map_or("", |reason| reason.as_str());
        let _ = writeln!(out, "  coherence  {}: {reason}", coherence.status);
    }
    let decision = match exit_code(response) {
        0 => "allowed",
        1 => "refused",
        3 => "deferred by the policy",
        4 => "drafts only: they await review",
        5 => "the agent failed",
        _ => "bad request",
    };
    let _ = writeln!(out, "  decision   {decision}");
    if let Some(code) = response.error.or(response.blocking_reason) {
        let _ = writeln!(out, "  code       {code}");
    }
    out.quoted("  why        ", detail);
    if let Some(Called { version, ran }) = agent {
        let _ = writeln!(out, "  agent      {version} {}", if *ran { "ran" } else { "was not called" });
    }
    for artifact in response.artifacts.as_slice() {
        let _ = writeln!(
            out,
            "  artifact   {:<12} {}",
            artifact.kind.as_str(),
            short.entries.of(artifact.id.as_str())
        );
    }
    let next = match exit_code(response) {
        // Without an agent nothing was recorded, and the reason above says what to do.
        1 | 3 if agent.is_some() => format!("next: crealeph execution why {execution}"),
        4 => "next: crealeph review list".to_owned(),
        5 => "next: try again with a higher attempt".to_owned(),
        _ => return out,
    };
    out.blank();
    out.line(&next);
    out
}
