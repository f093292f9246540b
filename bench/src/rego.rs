//! regorus with the same rule in Rego, in both of its ways to run: the interpreter and the bytecode machine.

use std::collections::BTreeMap;
use std::fs;

use regorus::languages::rego::compiler::Compiler;
use regorus::rvm::vm::RegoVM;
use regorus::{Engine, Value};

use crate::{FOLDER, Outcome};

const DECISION: &str = "data.crealeph.policy.decision";

/// Whether the question's timestamps are already numbers.
#[derive(Clone, Copy, PartialEq)]
pub enum Form {
    /// As in the contract: RFC 3339 texts, which the rule reads.
    Text,
    /// Nanoseconds since 1970, read beforehand.
    Ready,
}

fn rule(form: Form) -> Outcome<String> {
    let rule = fs::read_to_string(format!("{FOLDER}/policies/policy.rego"))?;
    Ok(match form {
        Form::Text => rule,
        Form::Ready => rule.replace("time.parse_rfc3339_ns(", "("),
    })
}

fn engine(form: Form) -> Outcome<Engine> {
    let mut engine = Engine::new();
    engine.add_policy("policy.rego".to_owned(), rule(form)?)?;
    Ok(engine)
}

/// The interpreter.
pub struct Interpreter(Engine);

impl Interpreter {
    /// Loads the rule for questions of that form.
    pub fn new(form: Form) -> Outcome<Self> {
        Ok(Interpreter(engine(form)?))
    }

    /// Decides a question that is already parsed.
    pub fn decide(&mut self, question: &Value) -> Outcome<Value> {
        self.0.set_input(question.clone());
        Ok(self.0.eval_rule(DECISION.to_owned())?)
    }

    /// Decides from JSON text to JSON text.
    pub fn answer(&mut self, question: &str) -> Outcome<String> {
        let decision = self.decide(&Value::from_json_str(question)?)?;
        answer(decision)
    }
}

/// The bytecode machine.
pub struct Machine(RegoVM);

impl Machine {
    /// Compiles the rule for questions of that form.
    pub fn new(form: Form) -> Outcome<Self> {
        let policy = engine(form)?.compile_with_entrypoint(&DECISION.into())?;
        let mut machine = RegoVM::new();
        machine.load_program(Compiler::compile_from_policy(&policy, &[DECISION])?);
        Ok(Machine(machine))
    }

    /// Decides a question that is already parsed.
    pub fn decide(&mut self, question: &Value) -> Outcome<Value> {
        self.0.set_input(question.clone());
        Ok(self.0.execute()?)
    }

    /// Decides from JSON text to JSON text.
    pub fn answer(&mut self, question: &str) -> Outcome<String> {
        let decision = self.decide(&Value::from_json_str(question)?)?;
        answer(decision)
    }
}

fn answer(decision: Value) -> Outcome<String> {
    let answer = BTreeMap::from([(Value::from("decision"), decision)]);
    Ok(Value::from(answer).to_json_str()?)
}

/// The question with its timestamps read into nanoseconds.
pub fn ready(question: &str) -> Outcome<Value> {
    let mut question: serde_json::Value = serde_json::from_str(question)?;
    let nanos = |text: &str| -> Outcome<serde_json::Value> {
        let instant = crealeph_contracts::Instant::parse(text)?;
        Ok(i64::try_from(instant.unix_nanos())?.into())
    };
    if let Some(at) = question.get_mut("evaluatedAt") {
        *at = nanos(at.as_str().unwrap_or_default())?;
    }
    let recency = question.get_mut("ledgerRecency").and_then(serde_json::Value::as_object_mut);
    for at in recency.into_iter().flat_map(|recency| recency.values_mut()).filter(|at| at.is_string()) {
        *at = nanos(at.as_str().unwrap_or_default())?;
    }
    Ok(Value::from_json_str(&question.to_string())?)
}
