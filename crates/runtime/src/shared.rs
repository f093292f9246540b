//! The parts of a configuration that affect decisions: rules, objectives and agents, as digests, so that servers on one ledger can check whether they
//! make the same decisions. Limits, addresses and secrets are not part of it.

use std::collections::BTreeMap;

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::json::{ComposeError, JsonObject};

use crate::agents::Agents;
use crate::builder::Scopes;

/// The digest of what decides, and of each section of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedConfiguration {
    sections: BTreeMap<String, String>,
}

impl SharedConfiguration {
    /// Of what the Builder goes by.
    ///
    /// # Errors
    /// When it holds what no document can.
    pub fn of(scopes: &Scopes, agents: &Agents) -> Result<SharedConfiguration, ComposeError> {
        let mut sections = scopes.digests()?;
        let agents = JsonObject::compose("the agents' digest", |object| {
            for version in agents.versions() {
                object.raw(version.as_str(), agents.definition(version).unwrap_or("null"));
            }
        })?;
        sections.insert("agents".to_owned(), Blake3::of(agents.canonical().as_bytes()).to_string());
        Ok(SharedConfiguration { sections })
    }

    /// The digest of all of it.
    pub fn digest(&self) -> String {
        Blake3::of(self.sections_json().as_bytes()).to_string()
    }

    /// The digests of its sections, as a document.
    pub fn sections_json(&self) -> String {
        let object = JsonObject::build(|object| {
            for (section, digest) in &self.sections {
                object.text(section, digest);
            }
        });
        object.canonical().to_owned()
    }

    /// The sections that differ from another one's document, if that can be read.
    pub fn differences(&self, other: &str) -> Vec<String> {
        let Ok(other) = serde_json::from_str::<BTreeMap<String, String>>(other) else { return Vec::new() };
        let mut names: Vec<String> = self.sections.keys().chain(other.keys()).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| self.sections.get(name) != other.get(name));
        names
    }
}
