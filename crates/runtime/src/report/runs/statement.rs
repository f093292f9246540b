//! What the signed statement of a run says, wherever it was found.

use crealeph_contracts::attestation::{StatedBounds, Statement, WorkRun};
use crealeph_contracts::provenance::{AgentFacts, LocalUser, StatedVerdict};
use crealeph_contracts::receipt::{Connection, Receipt, ReceiptStatus};

use super::{
    AccountStory, AdmissionStory, AgentStory, BoundStory, ChangeStory, CommitStory, ConnectionStory,
    EarlierRunStory, FigureStory, FileStory, MAX_LISTED, MAX_TEXT_BYTES, RunRow, RunStory, RunVerdictStory,
    TestStory,
};
use crate::report::TextPart;
use crate::report::proof::ReceiptProof;
use crate::work::counts_in_log;

/// What the statement of a run says.
pub(crate) fn stated_story(row: RunRow, statement: Option<&Statement>, proof: ReceiptProof) -> RunStory {
    let stated = statement.map(|statement| &statement.predicate);
    let receipt = stated.map(|stated| &stated.receipt);
    let item = stated.and_then(|stated| stated.work_item.as_ref());
    let hidden = stated.and_then(|stated| stated.hidden.as_ref());
    let paths = hidden.map_or(&[][..], |hidden| hidden.paths.as_slice());
    let connections = receipt.map_or(&[][..], |receipt| receipt.connections.as_slice());
    let left_off = receipt.and_then(|receipt| receipt.connections_left_off).map_or(0, |more| more.get());
    let command = item.and_then(|item| item.test_command.as_deref()).filter(|command| !command.is_empty());
    let log = receipt.and_then(|receipt| receipt.test_log.as_deref());
    let counts = log.and_then(counts_in_log);
    let text = |text: &str| TextPart::start(text, MAX_TEXT_BYTES);
    RunStory {
        row,
        finished_at: receipt.map(|receipt| receipt.finished_at.as_str().to_owned()),
        description: item.map(|item| text(item.description.trim())),
        program: stated.and_then(|stated| stated.agent.as_ref()).map(agent),
        started_by: stated.and_then(|stated| stated.started_by.as_ref()).map(account),
        earlier_run: receipt.and_then(|receipt| receipt.earlier_run.as_ref()).map(|earlier| {
            EarlierRunStory {
                relation: earlier.relation.as_str().into(),
                run: earlier.run,
                short_id: earlier.run.to_string(),
            }
        }),
        reason: receipt.and_then(|receipt| receipt.error.as_ref()).map(|reason| text(reason.as_str())),
        admission: stated.and_then(admission),
        change: statement.map_or_else(ChangeStory::default, change),
        figures: stated.map(figures),
        tests: (command.is_some() || log.is_some()).then(|| TestStory {
            command: command.map(str::to_owned),
            passed: counts.map(|counts| counts.passed),
            failed: counts.map(|counts| counts.failed),
            output: log.filter(|log| !log.is_empty()).map(|log| TextPart::end(log, MAX_TEXT_BYTES)),
        }),
        verdicts: stated
            .iter()
            .flat_map(|stated| stated.verdicts.iter().flat_map(|verdicts| verdicts.as_slice()))
            .map(verdict)
            .collect(),
        approval: None,
        sandbox: receipt.map(|receipt| receipt.sandbox_strength.to_string()),
        sandbox_missing: stated
            .and_then(|stated| stated.sandbox.as_ref())
            .map_or_else(Vec::new, |sandbox| texts(sandbox.missing.as_slice(), |text| text.as_str())),
        connections: connections.iter().take(MAX_LISTED).map(connection).collect(),
        connections_left_out: connections.len().saturating_sub(MAX_LISTED) as u64 + left_off,
        hidden: paths.iter().take(MAX_LISTED).map(|path| path.as_str().to_owned()).collect(),
        hidden_left_out: paths.len().saturating_sub(MAX_LISTED) as u64
            + hidden.and_then(|hidden| hidden.left_off).map_or(0, |more| more.get()),
        tokens: receipt.and_then(|receipt| receipt.tokens_used).map(|tokens| tokens.get()),
        cost_usd: receipt.and_then(|receipt| receipt.cost_usd).map(|cost| cost.get()),
        proof,
    }
}

fn texts<T>(values: &[T], text: impl Fn(&T) -> &str) -> Vec<String> {
    values.iter().map(|value| text(value).to_owned()).collect()
}

pub(super) fn agent(facts: &AgentFacts) -> AgentStory {
    let models = facts.models.iter().flat_map(|models| models.as_slice());
    AgentStory {
        name: facts.name.to_string(),
        program: facts.program.as_ref().map(|program| program.as_str().to_owned()),
        version: facts.version.as_ref().map(ToString::to_string),
        models: models.map(ToString::to_string).collect(),
    }
}

pub(super) fn account(user: &LocalUser) -> AccountStory {
    AccountStory {
        user: user.user.to_string(),
        host: user.host.to_string(),
        key: user.key.as_ref().map(ToString::to_string),
    }
}

pub(super) fn verdict(verdict: &StatedVerdict) -> RunVerdictStory {
    RunVerdictStory {
        decision: verdict.decision.as_str().into(),
        by: verdict.by.to_string(),
        reason: verdict.reason.to_string(),
        at: verdict.at.as_str().to_owned(),
        account: verdict.account.as_ref().map(account),
        key: verdict.key.as_ref().map(ToString::to_string),
    }
}

/// What the receipt says a run took.
fn figures(stated: &WorkRun) -> FigureStory {
    let receipt = &stated.receipt;
    let nanos = receipt.finished_at.instant().unix_nanos() - receipt.started_at.instant().unix_nanos();
    let lists = [&receipt.delta_o, &receipt.delta_pi, &receipt.delta_lambda, &receipt.delta_q];
    let counted = |count: usize| count as u64;
    let admission = stated.admission.as_ref();
    FigureStory {
        took_ms: (nanos / 1_000_000) as f64,
        files: touched_files(stated),
        deltas: admission.map_or_else(
            || counted(lists.iter().map(|list| list.as_slice().len()).sum()),
            |admission| admission.delta_size.get(),
        ),
        tool_operations: admission.map_or_else(
            || counted(receipt.tool_trace.as_slice().len()),
            |admission| admission.tool_ops.get(),
        ),
    }
}

/// How many files a run touched, as its statement says.
pub(super) fn touched_files(stated: &WorkRun) -> u64 {
    match &stated.admission {
        Some(admission) => admission.files_touched.get(),
        None => stated.receipt.artifacts.as_slice().len() as u64,
    }
}

fn connection(connection: &Connection) -> ConnectionStory {
    ConnectionStory {
        host: connection.host.to_string(),
        allowed: connection.allowed,
        reason: connection.reason.map(|reason| reason.as_str().into()),
    }
}

fn admission(stated: &WorkRun) -> Option<AdmissionStory> {
    let admission = stated.admission.as_ref()?;
    let bounds: Option<&StatedBounds> = stated.bounds.as_ref();
    let bound = |what, used: u64, limit: Option<u64>| BoundStory { what, used, limit };
    Some(AdmissionStory {
        admitted: admission.admitted,
        reason: admission.reason.as_ref().map(|reason| reason.as_str().to_owned()),
        bounds: vec![
            bound("files".into(), admission.files_touched.get(), bounds.map(|it| it.max_files.get())),
            bound("deltas".into(), admission.delta_size.get(), bounds.map(|it| it.max_delta_size.get())),
            bound("tool operations".into(), admission.tool_ops.get(), bounds.map(|it| it.max_tool_ops.get())),
        ],
    })
}

/// What the receipt says of the files, and the statement of a commit.
fn change(statement: &Statement) -> ChangeStory {
    let receipt: &Receipt = &statement.predicate.receipt;
    let artifacts = receipt.artifacts.as_slice();
    let files = artifacts.iter().take(MAX_LISTED).map(|artifact| FileStory {
        path: artifact.path.as_str().to_owned(),
        change: Some(artifact.change.as_str().into()),
        added: None,
        removed: None,
    });
    let commit = statement.subject.as_slice().iter().find_map(|subject| {
        let commit = subject.digest.git_commit.as_ref()?.as_str().to_owned();
        Some(CommitStory { branch: subject.name.as_str().to_owned(), commit })
    });
    ChangeStory {
        commit,
        files: files.collect(),
        files_left_out: artifacts.len().saturating_sub(MAX_LISTED) as u64,
        is_discarded: receipt.status == ReceiptStatus::Failed,
        ..ChangeStory::default()
    }
}
