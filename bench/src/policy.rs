//! Our policy engine, and the check that every engine comes to the same verdict before any of them is timed.

use cedar_policy::Decision;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::json::Limits;
use crealeph_contracts::{PolicyInput, PolicyOutput, Valid};
use crealeph_decision::policy::{Rules, RulesSource, evaluate};
use serde_json::Value;

use crate::Outcome;
use crate::cedar::Cedar;
use crate::rego::{Form, Interpreter, Machine, ready};

/// Our engine with its default rules.
pub struct Ours(Rules);

impl Ours {
    /// Loads the default rules.
    pub fn new() -> Outcome<Self> {
        Ok(Ours(Rules::load(&RulesSource::default())?))
    }

    /// Parses and validates a question.
    pub fn ready(&self, question: &str) -> Outcome<Valid<PolicyInput>> {
        Ok(Valid::parse(question.as_bytes(), &Limits::default())?)
    }

    /// Decides a question that is already valid, with every reason and its evidence.
    pub fn decide(&self, question: &PolicyInput) -> PolicyOutput {
        evaluate(question, &self.0)
    }

    /// Decides from JSON text to JSON text.
    pub fn answer(&self, question: &str) -> Outcome<String> {
        Ok(to_json(&self.decide(&*self.ready(question)?)))
    }
}

/// The verdict on a question, if every engine comes to the same in both forms.
pub fn agreed_verdict(question: &str) -> Outcome<String> {
    let (ours, cedar) = (Ours::new()?, Cedar::new()?);
    let decision = |answer: String| -> Outcome<String> {
        let answer: Value = serde_json::from_str(&answer)?;
        Ok(answer.get("decision").and_then(Value::as_str).ok_or("no decision")?.to_owned())
    };
    let verdict = decision(ours.answer(question)?)?;
    let mut others = vec![
        ("cedar", decision(cedar.answer(question)?)?),
        ("regorus interpreter", decision(Interpreter::new(Form::Text)?.answer(question)?)?),
        ("regorus machine", decision(Machine::new(Form::Text)?.answer(question)?)?),
    ];
    let ready = ready(question)?;
    for (name, value) in [
        ("regorus interpreter, ready", Interpreter::new(Form::Ready)?.decide(&ready)?),
        ("regorus machine, ready", Machine::new(Form::Ready)?.decide(&ready)?),
    ] {
        others.push((name, value.as_string()?.to_string()));
    }
    for (name, other) in others {
        if other != verdict {
            return Err(format!("{name} says {other}, ours {verdict}, on {question}").into());
        }
    }
    let is_allowed = cedar.decide(&cedar.request(question)?) == Decision::Allow;
    if is_allowed != (verdict == "ALLOW") {
        return Err(format!("cedar with a ready request disagrees with {verdict} on {question}").into());
    }
    Ok(verdict)
}
