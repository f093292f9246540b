//! `crealeph validate`: validates documents, one by one or as a stream of JSON Lines.

use std::path::PathBuf;

use clap::Args;
use crealeph_contracts::contract::ContractName;
use crealeph_contracts::json::{Document, Limits, parse};
use crealeph_decision::judge::{Judgement, judge};
use crealeph_runtime::validation::{ValidationReport, contract_name, judge_line};
use serde::Serialize;
use serde_json::json;

use super::CommandOutcome;
use crate::failure::{Failure, InputFailure};
use crate::input::{DEFAULT_MAX_BYTES, Line, Source, next_line, skip_line};
use crate::output::Output;
use crate::page::Page;
use crate::progress::Progress;
use crate::render;

/// How much of a line that is too long is passed over to get to the next.
const MAX_SKIPPED: usize = 1 << 30;

const EXAMPLES: &str = "\
Contracts: agent-input, agent-output, execution-event, policy-input, policy-output, builder-request,
builder-response, work-item, run-result, receipt.

Examples:
  crealeph validate builder-request request.json
  crealeph validate agent-output answer.json --context context.json   # {\"agentInput\": {…}}
  my-agent < input.json | crealeph validate agent-output -
  crealeph validate --batch cases.jsonl > verdicts.jsonl

Members of a context, by contract:
  agent-output      agentInput
  policy-output     policyInput, requiredRecency
  execution-event   ledger, history, coherencePolicy, terminal
  work-item         siblings, capsule

A batch line is an object with `contract`, `doc` (or `raw`, the exact text as a string) and optional `context`;
each line of the output answers the input line of the same number.

Exit codes: 0 valid, 1 invalid, 2 cannot be validated. A batch: 0 every line was validated, 2 some could not be.";

/// Validate JSON documents against their contract
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Validate {
    /// Contract name (see below)
    #[arg(value_parser = contract_name, required_unless_present = "batch")]
    contract: Option<ContractName>,

    /// Document file; standard input if absent or `-`
    file: Option<PathBuf>,

    /// Context to validate against, a JSON object (see below)
    #[arg(long, value_name = "FILE", conflicts_with = "batch")]
    context: Option<PathBuf>,

    /// Validate JSON Lines from FILE or standard input, one result per line
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", conflicts_with = "contract")]
    batch: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub(super) json: bool,

    /// Maximum size of a document or context, in bytes
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_BYTES)]
    max_bytes: usize,
}

impl Validate {
    pub(super) fn wants_json(&self) -> bool {
        self.json || self.batch.is_some()
    }

    pub(super) fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match (self.contract, self.batch.clone()) {
            (_, Some(file)) => self.run_batch(&Source::new(Some(file)), output),
            (Some(contract), None) => self.run_one(contract, output),
            // The arguments demand one of the two.
            (None, None) => Ok(CommandOutcome::Unjudged),
        }
    }

    fn run_one(self, contract: ContractName, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let limits = Limits::outside(self.max_bytes);
        let source = Source::new(self.file);
        let bytes = source.read(self.max_bytes)?;
        let context_bytes = match self.context {
            Some(file) => Some((Source::new(Some(file.clone())).read_bounded(self.max_bytes)?, file)),
            None => None,
        };
        let context = match &context_bytes {
            Some((bytes, file)) => Some(context_document(&file.display().to_string(), bytes, &limits)?),
            None => None,
        };
        let judgement = judge(contract, &bytes, context.as_ref().map(Document::root), &limits)?;
        if self.json || !output.is_for_person() {
            output.report(&ValidationReport::of(&judgement))?;
        } else {
            output.page(&as_page(&source.name(), contract, &bytes, &judgement))?;
        }
        Ok(if judgement.violations.is_empty() { CommandOutcome::Good } else { CommandOutcome::Bad })
    }

    fn run_batch(&self, source: &Source, output: &mut Output) -> Result<CommandOutcome, Failure> {
        let limits = Limits::outside(self.max_bytes);
        // A raw document may be escaped to six times its length, and there may be a context too.
        let max_line = self.max_bytes.saturating_mul(8);
        let mut reader = source.open()?;
        let mut verdict = CommandOutcome::Good;
        let mut number = 0u64;
        let mut progress = Progress::beside("lines judged", output);
        loop {
            number += 1;
            progress.step(1);
            let judged = match next_line(&mut reader, max_line).map_err(|error| source.failure(error))? {
                Line::End => return Ok(verdict),
                Line::Whole(line) => judge_line(&line, None, &limits),
                Line::TooLong => {
                    if !skip_line(&mut reader, MAX_SKIPPED).map_err(|error| source.failure(error))? {
                        let what = format!("{}, line {number}", source.name());
                        return Err(InputFailure::TooLarge { what, limit: MAX_SKIPPED }.into());
                    }
                    Err(format!("the line is longer than {max_line} bytes; raise --max-bytes"))
                }
            };
            match judged {
                Ok(judgement) => output.report_line(&Answer::new(&judgement))?,
                Err(reason) => {
                    verdict = CommandOutcome::Unjudged;
                    output.report_line(&Answer::unjudged(number, &reason))?;
                }
            }
            // A program that sends one line and waits for its answer gets it.
            if reader.buffer().is_empty() {
                output.flush()?;
            }
        }
    }
}

fn context_document<'a>(name: &str, bytes: &'a [u8], limits: &Limits) -> Result<Document<'a>, InputFailure> {
    let (document, faults) = parse(bytes, limits);
    document.ok_or_else(|| {
        let mut report = crealeph_contracts::Report::default();
        faults.into_iter().for_each(|fault| report.add_fault(fault));
        InputFailure::NoContext { name: name.to_owned(), violations: report.into_violations() }
    })
}

/// The answer on a line of a batch, for a program.
#[derive(Debug, Serialize)]
struct Answer<'j> {
    #[serde(flatten)]
    report: ValidationReport<'j>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<serde_json::Value>,
}

impl<'j> Answer<'j> {
    fn new(judgement: &'j Judgement) -> Self {
        Answer { report: ValidationReport::of(judgement), error: None }
    }

    /// The answer on a line that cannot be judged.
    fn unjudged(number: u64, reason: &str) -> Self {
        let message = format!("line {number} cannot be judged: {reason}");
        let error = Some(json!({ "code": "bad_line", "message": message }));
        Answer { report: ValidationReport::default(), error }
    }
}

fn as_page(name: &str, contract: ContractName, bytes: &[u8], judgement: &Judgement) -> Page {
    let mut page = Page::default();
    match judgement.violations.as_slice() {
        [] if judgement.is_repeat => {
            page.line(&format!("{name} is a valid {contract}, recorded already: a repeat"));
        }
        [] => page.line(&format!("{name} is a valid {contract}")),
        violations => {
            let count = render::counted(violations.len(), "violation");
            page.line(&format!("{name} is not a valid {contract}: {count}"));
            render::violations(name, bytes, violations, &mut page);
        }
    }
    page
}
