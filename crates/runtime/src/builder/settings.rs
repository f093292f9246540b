//! The Builder's settings, per tenant and robot: `[builder]`, overridden by `[tenants.NAME.builder]`, overridden by
//! `[tenants.NAME.robots.NAME.builder]`, the same keys in each. A narrower table changes the keys that it has; artifact
//! types only add up. Everything is checked when it is loaded, so that no robot's table fails later.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crealeph_contracts::agent_input::{ArtifactType, ObjectiveType};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::json::{ComposeError, JsonObject, ObjectWriter};
use crealeph_contracts::scalar::{RobotId, TenantId, Version};
use crealeph_decision::builder::Widened;
use crealeph_decision::coherence::{CoherenceRules, DEFAULT_SNAPSHOT_BYTES};
use crealeph_decision::policy::{Rules, RulesSource};
use crealeph_decision::snapshot::SnapshotType;
use toml::Value;

use crate::configuration::{
    ConfigError, Configuration, RulesFileError, Table, Wrong, absolute, read_text, rules_of, unknown_name,
};

/// How many tables of tenants and robots a configuration may have.
const MAX_SCOPES: usize = 10_000;
const MAX_LISTED: usize = 256;
/// The most that configuration can let a snapshot hold.
const MAX_SNAPSHOT_BYTES: u64 = 64 << 20;

/// What a run goes by.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// What the policy goes by.
    pub rules: Rules,
    /// What coherence is judged by.
    pub coherence: CoherenceRules,
    /// Artifact types that configuration adds.
    pub widened: Widened,
    /// The agents that requests may name; `None` for every one there is.
    pub agents: Option<BTreeSet<Version>>,
}

impl Settings {
    /// Whether a request may name this agent.
    pub fn allows(&self, agent: &Version) -> bool {
        self.agents.as_ref().is_none_or(|agents| agents.contains(agent))
    }

    /// The version of the configuration in force: a digest of all that a run with this agent goes by.
    ///
    /// # Errors
    /// When it holds what no document can, such as an integer that is no double.
    pub fn version(&self, agent_definition: Option<&str>) -> Result<Blake3, ComposeError> {
        let whole = JsonObject::compose("the configuration's version", |object| {
            if let Some(definition) = agent_definition {
                object.raw("agent", definition);
            }
            if let Some(agents) = &self.agents {
                object.texts("agents", agents);
            }
            let mut types = ObjectWriter::new(object.key("artifactTypes"));
            for objective in ObjectiveType::ALL {
                let allowed = self.widened.artifact_types(*objective);
                types.texts(objective.as_str(), allowed.as_slice().iter().map(|kind| kind.as_str()));
            }
            types.end();
            object.raw("coherence", &self.coherence.to_json()).raw("rules", &self.rules.to_json());
        })?;
        Ok(Blake3::of(whole.canonical().as_bytes()))
    }
}

/// The settings of every tenant and robot.
#[derive(Clone, Debug, Default)]
pub struct Scopes {
    usual: Settings,
    tenants: BTreeMap<TenantId, Tenant>,
}

#[derive(Clone, Debug, Default)]
struct Tenant {
    usual: Settings,
    robots: BTreeMap<RobotId, Settings>,
}

impl From<Settings> for Scopes {
    fn from(usual: Settings) -> Self {
        Scopes { usual, tenants: BTreeMap::new() }
    }
}

impl Scopes {
    /// What a robot of a tenant goes by.
    pub fn of(&self, tenant: &TenantId, robot: &RobotId) -> &Settings {
        match self.tenants.get(tenant) {
            None => &self.usual,
            Some(tenant) => tenant.robots.get(robot).unwrap_or(&tenant.usual),
        }
    }

    /// The digest of each section: `builder`, and a tenant's or robot's own.
    ///
    /// # Errors
    /// When a section holds what no document can.
    pub fn digests(&self) -> Result<BTreeMap<String, String>, ComposeError> {
        let mut digests = BTreeMap::from([("builder".to_owned(), self.usual.version(None)?.to_string())]);
        for (tenant, Tenant { usual, robots }) in &self.tenants {
            digests.insert(format!("tenants.{tenant}"), usual.version(None)?.to_string());
            for (robot, own) in robots {
                digests.insert(format!("tenants.{tenant}.robots.{robot}"), own.version(None)?.to_string());
            }
        }
        Ok(digests)
    }

    /// Reads what a configuration says of the Builder. Rules that are given here are in force everywhere, instead of
    /// those that the configuration names.
    ///
    /// # Errors
    /// When a table has an unknown key.
    pub fn load(configuration: &Configuration, rules: Option<RulesSource>) -> Result<Scopes, ConfigError> {
        let known_agents = configuration.section("agents")?.map(|agents| agents.keys().map(String::as_str));
        let reader = Reader {
            configuration,
            agents: known_agents.into_iter().flatten().collect(),
            has_own_rules: rules.is_none(),
        };
        let built_in = Layers { rules: rules.unwrap_or_default(), ..Layers::default() };
        let builder = configuration.section("builder")?.map(Table::new);
        let usual = reader.over(built_in, builder, "builder")?;
        let mut scopes = Scopes { usual: reader.settle(&usual, "builder")?, tenants: BTreeMap::new() };
        let mut count = 0;
        for (name, value) in configuration.section("tenants")?.into_iter().flatten() {
            let place = format!("tenants.{name:?}");
            let wrong = |why| configuration.wrong(&place, why);
            let id = TenantId::parse(name)
                .map_err(|why| wrong(format!("its name is not a valid tenant: {why}")))?;
            let table = value.as_table().ok_or_else(|| wrong("it is not a table".to_owned()))?;
            count += 1 + table.get("robots").and_then(Value::as_table).map_or(0, toml::Table::len);
            if count > MAX_SCOPES {
                return Err(wrong(format!(
                    "there are more than {MAX_SCOPES} tenants and robots; remove some"
                )));
            }
            scopes.tenants.insert(id, reader.tenant(&usual, table, &place)?);
        }
        Ok(scopes)
    }
}

/// What the tables up to one say, before it is checked.
#[derive(Clone, Debug, Default)]
struct Layers {
    rules: RulesSource,
    widened: Widened,
    agents: Option<BTreeSet<Version>>,
}

struct Reader<'c> {
    configuration: &'c Configuration,
    agents: Vec<&'c str>,
    has_own_rules: bool,
}

impl Reader<'_> {
    fn tenant(&self, usual: &Layers, table: &toml::Table, place: &str) -> Result<Tenant, ConfigError> {
        let wrong = |why| self.configuration.wrong(place, why);
        let table = Table::new(table);
        let builder = table.table("builder").map_err(wrong)?;
        let tables = table.entries("robots", MAX_SCOPES, |name, value| {
            let id = RobotId::parse(name).map_err(|why| format!("`{name}` is not a valid robot: {why}"))?;
            let table = value.as_table().ok_or_else(|| format!("the robot `{name}` is not a table"))?;
            Ok((id, table))
        });
        let tables = tables.map_err(wrong)?;
        table.finish().map_err(wrong)?;
        let own_place = format!("{place}.builder");
        let own = self.over(usual.clone(), builder, &own_place)?;
        let mut robots = BTreeMap::new();
        for (name, (id, table)) in tables {
            let place = format!("{place}.robots.{name:?}");
            let wrong = |why| self.configuration.wrong(&place, why);
            let table = Table::new(table);
            let builder = table.table("builder").map_err(wrong)?;
            table.finish().map_err(wrong)?;
            let place = format!("{place}.builder");
            robots.insert(id, self.settle(&self.over(own.clone(), builder, &place)?, &place)?);
        }
        Ok(Tenant { usual: self.settle(&own, &own_place)?, robots })
    }

    /// Puts a table over what holds without it.
    fn over(&self, under: Layers, table: Option<Table<'_>>, place: &str) -> Result<Layers, ConfigError> {
        let Some(table) = table else { return Ok(under) };
        let wrong = |why| self.configuration.wrong(place, why);
        let mut layers = under;
        let mut rules = match table.text("rules").map_err(wrong)? {
            Some(file) => self.rules_file(&absolute(self.configuration.folder(), file))?,
            None => layers.rules.clone(),
        };
        change_thresholds(&table, &mut rules).map_err(wrong)?;
        change_coherence(&table, &mut rules.coherence).map_err(wrong)?;
        if self.has_own_rules {
            layers.rules = rules;
        }
        let widened = table.entries("artifact_types", MAX_LISTED, artifact_types).map_err(wrong)?;
        for (objective, types) in widened.into_values() {
            layers.widened.add(objective, types);
        }
        if table.has("agents") {
            let names = table.texts("agents", MAX_LISTED).map_err(wrong)?;
            let versions = names.into_iter().map(|name| self.agent(name)).collect::<Result<_, _>>();
            layers.agents = Some(versions.map_err(wrong)?);
        }
        table.finish().map_err(wrong)?;
        Ok(layers)
    }

    fn rules_file(&self, path: &Path) -> Result<RulesSource, ConfigError> {
        let missing =
            || RulesFileError::NotRules { path: path.to_owned(), why: "there is no such file".to_owned() };
        let text = read_text(path)?.ok_or_else(missing)?;
        let (source, _) = rules_of(path, text.as_bytes())?;
        // They held for the file; a table over it may mean to decide otherwise.
        Ok(RulesSource { examples: Vec::new(), ..source })
    }

    fn agent(&self, name: &str) -> Result<Version, Wrong> {
        match self.agents.contains(&name) {
            true => Version::parse(name).map_err(|why| format!("`{name}` is not a valid agent: {why}")),
            false => Err(unknown_name("agent", name, &self.agents)),
        }
    }

    fn settle(&self, layers: &Layers, place: &str) -> Result<Settings, ConfigError> {
        let rules =
            Rules::load(&layers.rules).map_err(|why| self.configuration.wrong(place, why.to_string()))?;
        Ok(Settings {
            rules,
            coherence: layers.rules.coherence.clone(),
            widened: layers.widened.clone(),
            agents: layers.agents.clone(),
        })
    }
}

fn change_thresholds(table: &Table<'_>, rules: &mut RulesSource) -> Result<(), Wrong> {
    let Some(table) = table.table("thresholds")? else { return Ok(()) };
    let thresholds = &mut rules.thresholds;
    let set = |place: &mut f64, value: Option<f64>| *place = value.unwrap_or(*place);
    set(&mut thresholds.min_confidence, table.decimal("min_confidence", 0.0, 1.0)?);
    set(&mut thresholds.max_staleness_minutes, table.decimal("max_staleness_minutes", 0.0, f64::INFINITY)?);
    set(&mut thresholds.min_lineage_count, table.decimal("min_lineage_count", 0.0, f64::INFINITY)?);
    table.finish()
}

fn change_coherence(table: &Table<'_>, coherence: &mut CoherenceRules) -> Result<(), Wrong> {
    let Some(table) = table.table("coherence")? else { return Ok(()) };
    let types = |key| -> Result<Option<Vec<SnapshotType>>, Wrong> {
        if !table.has(key) {
            return Ok(None);
        }
        let names = table.texts(key, MAX_LISTED)?;
        let known = SnapshotType::ALL.map(SnapshotType::as_str);
        let parsed = names
            .into_iter()
            .map(|name| SnapshotType::parse(name).ok_or_else(|| unknown_name("type", name, &known)));
        parsed.collect::<Result<_, _>>().map(Some)
    };
    if let Some(upstream) = types("upstream")? {
        coherence.upstream = upstream;
    }
    if let Some(judged) = types("judged")? {
        coherence.judged = judged;
    }
    if table.has("uncounted_states") {
        let states = table.texts("uncounted_states", MAX_LISTED)?;
        coherence.uncounted_states = states.into_iter().map(str::to_owned).collect();
    }
    let grace = table.number("grace_minutes", coherence.grace_minutes.into(), 0, u32::MAX.into())?;
    coherence.grace_minutes = u32::try_from(grace).unwrap_or(u32::MAX);
    let usual = coherence.snapshot_bytes.unwrap_or(DEFAULT_SNAPSHOT_BYTES);
    coherence.snapshot_bytes = Some(table.number("snapshot_bytes", usual, 0, MAX_SNAPSHOT_BYTES)?);
    table.finish()
}

fn artifact_types(objective: &str, types: &Value) -> Result<(ObjectiveType, Vec<ArtifactType>), Wrong> {
    let objectives: Vec<&str> = ObjectiveType::ALL.iter().map(|objective| objective.as_str()).collect();
    let kinds: Vec<&str> = ArtifactType::ALL.iter().map(|kind| kind.as_str()).collect();
    let parsed = ObjectiveType::parse(objective)
        .ok_or_else(|| unknown_name("objective type", objective, &objectives))?;
    let list = types.as_array().ok_or_else(|| format!("`{objective}` is not a list of artifact types"))?;
    let types = list.iter().map(|kind| {
        let name = kind.as_str().ok_or_else(|| format!("`{objective}` is not a list of artifact types"))?;
        ArtifactType::parse(name).ok_or_else(|| unknown_name("artifact type", name, &kinds))
    });
    Ok((parsed, types.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    fn load(text: &str) -> Result<Scopes, ConfigError> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("rules.toml"), "[thresholds]\nmin_lineage_count = 7\n").unwrap();
        let path = folder.path().join("crealeph.toml");
        std::fs::write(&path, text).unwrap();
        Scopes::load(&Configuration::find(Some(&path)).unwrap(), None)
    }

    const LAYERS: &str = "
        [agents.'a@1']
        kind = 'example'
        [agents.'b@1']
        kind = 'example'
        [builder]
        rules = 'rules.toml'
        thresholds = { min_confidence = 0.6 }
        artifact_types = { site_plan = ['copy'] }
        [tenants.acme.builder]
        agents = ['a@1']
        coherence = { grace_minutes = 5 }
        [tenants.acme.robots.'r 7'.builder]
        thresholds = { max_staleness_minutes = 30 }
        coherence = { judged = ['idea'] }
        artifact_types = { site_plan = ['idea'] }
    ";

    #[test]
    fn a_narrower_table_changes_the_keys_it_has() {
        let scopes = load(LAYERS).unwrap();
        let of = |tenant: &str, robot: &str| {
            scopes.of(&TenantId::parse(tenant).unwrap(), &RobotId::parse(robot).unwrap()).clone()
        };
        let facts = |settings: &Settings| {
            let thresholds = settings.rules.thresholds();
            (
                thresholds.min_lineage_count.get(),
                thresholds.min_confidence.get(),
                thresholds.max_staleness_minutes.get(),
                settings.coherence.grace_minutes,
                settings.coherence.judged.len(),
                settings.widened.artifact_types(ObjectiveType::SitePlan).as_slice().len(),
                settings.allows(&Version::parse("b@1").unwrap()),
            )
        };
        assert_eq!(facts(&of("other", "r 7")), (7.0, 0.6, 1440.0, 0, 3, 3, true));
        assert_eq!(facts(&of("acme", "other")), (7.0, 0.6, 1440.0, 5, 3, 3, false));
        assert_eq!(facts(&of("acme", "r 7")), (7.0, 0.6, 30.0, 5, 1, 4, false));
    }

    #[test]
    fn the_version_covers_all_settings_of_a_run() {
        let of = |text: &str, definition: &str| {
            let scopes = load(text).unwrap();
            let robot = RobotId::parse("r 7").unwrap();
            scopes.of(&TenantId::parse("acme").unwrap(), &robot).version(Some(definition)).unwrap()
        };
        let version = of(LAYERS, r#"{"kind":"example"}"#);
        assert_eq!(version, of(LAYERS, r#"{ "kind": "example" }"#));
        assert_ne!(version, of(LAYERS, r#"{"kind":"process"}"#));
        for change in ["= 30", "= 0.6", "['idea']", "['copy']", "['a@1']", "= 5"] {
            let other = match change {
                "['idea']" => "['copy', 'idea']",
                "['copy']" => "['playbook']",
                "['a@1']" => "['b@1']",
                _ => "= 1",
            };
            assert_ne!(version, of(&LAYERS.replace(change, other), r#"{"kind":"example"}"#), "{change}");
        }
        let elsewhere = LAYERS.replace("tenants.acme.robots", "tenants.other.robots");
        assert_ne!(version, of(&elsewhere, r#"{"kind":"example"}"#));
        let comment = format!("# only words\n{LAYERS}");
        assert_eq!(version, of(&comment, r#"{"kind":"example"}"#));
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place_and_the_nearest_that_is_known() {
        for (text, expected) in [
            ("[builder]\nrule = 'x'", "[builder]: the key `rule` is not known here; did you mean `rules`?"),
            ("[builder]\nthresholds = { min_confidense = 1 }", "did you mean `min_confidence`?"),
            (
                "[builder]\nthresholds = { min_confidence = 2 }",
                "`min_confidence` is not a number from 0 to 1",
            ),
            ("[builder]\ncoherence = { judged = ['ideas'] }", "did you mean `idea`?"),
            ("[builder]\nartifact_types = { siteplan = [] }", "did you mean `site_plan`?"),
            (
                "[builder]\nartifact_types = { site_plan = ['poem'] }",
                "the artifact type `poem` is not known here",
            ),
            ("[builder]\nagents = ['a@2']\n[agents.'a@1']\nkind = 'example'", "did you mean `a@1`?"),
            ("[builder]\nrules = 'absent.toml'", "absent.toml` is not a rules file: there is no such file"),
            (
                "[tenants.acme]\nbilder = {}",
                "[tenants.\"acme\"]: the key `bilder` is not known here; did you mean `builder`?",
            ),
            ("[tenants.acme.robots.r]\nbuild = {}", "[tenants.\"acme\".robots.\"r\"]: the key `build`"),
            (
                "[tenants.acme.robots.r.builder]\nx = 1",
                "[tenants.\"acme\".robots.\"r\".builder]: the key `x`",
            ),
            ("[tenants.'']", "its name is not a valid tenant"),
        ] {
            let error = load(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}\n{error}");
        }
    }
}
