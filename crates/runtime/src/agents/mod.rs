//! Agents by their names: each is called with an AgentInput and answers with an AgentOutput that keeps its contract, or
//! with the reason why there is no answer. No agent is trusted.

pub(crate) mod answer;
pub(crate) mod config;
pub mod conformance;
mod example;
mod http;
mod openai;
pub(crate) mod process;
mod socket;
mod transport;

use std::collections::BTreeMap;

use crealeph_contracts::AgentInput;
use crealeph_contracts::agent_output::AgentAnswer;
use crealeph_contracts::contract::Valid;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::Version;
use crealeph_sandbox::Cancel;

pub use config::{from_command, load};
pub use example::{ExampleAgent, answer as example_answer};
pub use http::Http;
pub use openai::OpenAi;
pub use process::Process;
pub(crate) use transport::certificates;

/// The result of calling an agent.
#[derive(Debug)]
pub struct Call {
    /// The answer, judged against its input; or why there is no answer.
    pub answer: Result<AgentAnswer, NoAnswer>,
    /// Which agent it was and within which walls, for the record: name, kind, sandbox strength or `remote`.
    pub identity: JsonObject,
    /// What it wrote besides, bounded and with secrets taken out.
    pub diagnostics: String,
    /// How many tokens it used, if it said so.
    pub tokens_used: Option<f64>,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAnswer {
    /// The reason, in words an event can carry.
    pub reason: String,
    /// The clauses that what it said breaks; none if it said nothing that could be judged.
    pub clauses: Vec<&'static str>,
    /// It was never called: its program cannot be started, its server cannot be reached, a secret is missing.
    pub is_uncalled: bool,
}

impl NoAnswer {
    fn uncalled(reason: String) -> Self {
        NoAnswer { is_uncalled: true, ..NoAnswer::from(reason) }
    }

    /// The same with a reason within its bound.
    fn bounded(self) -> Self {
        NoAnswer { reason: answer::bounded(self.reason), ..self }
    }
}

impl From<String> for NoAnswer {
    fn from(reason: String) -> Self {
        NoAnswer { reason, clauses: Vec::new(), is_uncalled: false }
    }
}

/// One agent, ready to be called.
pub trait Agent: Send + Sync {
    /// Calls it and waits, within its own time limit, for a judged answer.
    fn call(&self, input: &Valid<AgentInput>, cancel: &Cancel) -> Call;
}

/// The agents that requests may name.
#[derive(Default)]
pub struct Agents(BTreeMap<Version, Named>);

struct Named {
    /// What the configuration says of it, as JSON.
    definition: String,
    agent: Box<dyn Agent>,
}

impl Agents {
    /// Adds an agent under the version that requests name it by; `definition` is what the configuration says of it, as
    /// JSON, without any secret.
    pub fn insert(&mut self, version: Version, definition: String, agent: Box<dyn Agent>) {
        self.0.insert(version, Named { definition, agent });
    }

    /// The agent of a version.
    pub fn get(&self, version: &Version) -> Option<&dyn Agent> {
        self.0.get(version).map(|named| &*named.agent)
    }

    /// What the configuration says of the agent of a version, as JSON.
    pub fn definition(&self, version: &Version) -> Option<&str> {
        self.0.get(version).map(|named| named.definition.as_str())
    }

    /// Every version there is, sorted.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        self.0.keys()
    }
}
