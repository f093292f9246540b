//! The result of validating a document, as the command line's `--json` and the server both show it.

use std::borrow::Cow;

use crealeph_contracts::contract::ContractName;
use crealeph_contracts::json::{Document, Limits, parse, shallow_members};
use crealeph_contracts::shape::nearest;
use crealeph_contracts::violation::{Code, Violation};
use crealeph_decision::judge::{Judgement, judge};
use serde::Serialize;

/// The answer on a document.
#[derive(Debug, Default, Serialize)]
pub struct ValidationReport<'j> {
    /// It keeps its contract.
    pub valid: bool,
    /// `idempotent` if it repeats what is recorded.
    pub outcome: Option<&'static str>,
    /// Everything that is wrong with it.
    pub violations: Vec<ViolationReport<'j>>,
    /// The ids of work items, level by level.
    pub levels: Option<Vec<Vec<&'j str>>>,
}

/// One thing that is wrong with a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct ViolationReport<'j> {
    /// Where: a JSON Pointer.
    pub pointer: &'j str,
    /// The clause it breaks.
    pub clause: &'static str,
    /// The stable code.
    pub code: &'j str,
    /// What is wrong and what to do.
    pub message: &'j str,
}

impl<'j> ViolationReport<'j> {
    /// Of a violation.
    pub fn of(violation: &'j Violation) -> Self {
        let Violation { pointer, clause, code, message, .. } = violation;
        ViolationReport { pointer, clause, code: code.as_str(), message }
    }
}

impl<'j> ValidationReport<'j> {
    /// Of a judgement.
    pub fn of(judgement: &'j Judgement) -> Self {
        let levels = judgement.plan.as_ref().map(|plan| {
            let levels = plan.levels.iter();
            levels.map(|level| level.iter().map(|id| id.as_str()).collect()).collect()
        });
        ValidationReport {
            valid: judgement.violations.is_empty(),
            outcome: judgement.is_repeat.then_some("idempotent"),
            violations: judgement.violations.iter().map(ViolationReport::of).collect(),
            levels,
        }
    }
}

/// The contract of a name.
///
/// # Errors
/// When there is none: which there are.
pub fn contract_name(name: &str) -> Result<ContractName, String> {
    ContractName::parse(name).ok_or_else(|| {
        let known: Vec<&str> = ContractName::ALL.iter().map(|contract| contract.as_str()).collect();
        match nearest(name, &known) {
            Some(near) => format!("there is no such contract; did you mean `{near}`?"),
            None => format!("there is no such contract; the contracts are {}", known.join(", ")),
        }
    })
}

/// Judges a document that comes with its context, as a line of `crealeph validate --batch` has it: `doc` or its exact text `raw`,
/// `context`, and `contract` unless that is known.
///
/// # Errors
/// Why it cannot be judged.
pub fn judge_line(line: &[u8], known: Option<ContractName>, limits: &Limits) -> Result<Judgement, String> {
    let members = shallow_members(line).map_err(|error| error.to_string())?;
    let member = |name: &[u8]| members.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
    let text = |json: &[u8]| {
        parse(json, limits).0.and_then(|document| document.root().string().map(Cow::into_owned))
    };
    let contract = match (member(b"\"contract\""), known) {
        (None, Some(known)) => known,
        (None, None) => return Err("`contract` is missing; name the document's contract".to_owned()),
        (Some(contract), known) => {
            let contract = text(contract).ok_or("`contract` must be a string")?;
            let named = contract_name(&contract).map_err(|why| format!("`{contract}`: {why}"))?;
            match known.is_some_and(|known| known != named) {
                true => return Err(format!("`contract` is `{contract}`, and the path names another")),
                false => named,
            }
        }
    };
    let raw =
        member(b"\"raw\"").filter(|raw| *raw != b"null").map(|raw| raw_text(raw, limits)).transpose()?;
    let document = match (&raw, member(b"\"doc\"")) {
        (Some(raw), _) => raw.as_slice(),
        (None, Some(document)) => document,
        (None, None) => {
            return Err("`doc` is missing; give the document, or its exact text as `raw`".to_owned());
        }
    };
    let context = match member(b"\"context\"") {
        None => None,
        Some(context) => {
            let (document, faults) = parse(context, limits);
            let why = || faults.iter().map(|fault| fault.message.as_str()).collect::<Vec<_>>().join("; ");
            Some(document.ok_or_else(|| format!("`context` cannot be read: {}", why()))?)
        }
    };
    judge(contract, document, context.as_ref().map(Document::root), limits).map_err(|error| error.to_string())
}

/// The exact text that a `raw` member holds. Half of a surrogate pair has no UTF-8; its bytes are put in its place,
/// so that the text is judged as what it is.
fn raw_text(json: &[u8], limits: &Limits) -> Result<Vec<u8>, String> {
    const REPLACEMENT: &[u8] = "\u{FFFD}".as_bytes();
    const HALF_A_PAIR: [u8; 3] = [0xED, 0xA0, 0x80];
    let wide = Limits::outside(limits.max_bytes.saturating_mul(6).saturating_add(2));
    let (document, faults) = parse(json, &wide);
    let Some(text) = document.as_ref().and_then(|document| document.root().string()) else {
        return Err("`raw` must be a string".to_owned());
    };
    let mut bytes = text.into_owned().into_bytes();
    if faults.iter().any(|fault| fault.code == Code::LoneSurrogate)
        && let Some(at) = bytes.windows(REPLACEMENT.len()).position(|window| window == REPLACEMENT)
    {
        bytes.splice(at..at + REPLACEMENT.len(), HALF_A_PAIR);
    }
    Ok(bytes)
}
