//! The agents for work in `crealeph.toml`: each table `[work.agents.<name>]` becomes checked settings. Refuses a table that
//! has an unknown key, and names the nearest known one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crealeph_contracts::shape::nearest;
use crealeph_contracts::work_item::AgentId;
use crealeph_decision::work::{PathRules, PathRulesSource};
use crealeph_sandbox::{Host, Preset};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use toml::Value;

use super::agent_bounds::AgentBounds;
use super::pack::CapsuleBounds;
use super::presets;
use super::prompt::Prompt;
use super::stream::Format;
use crate::agents::process::on_path;
use crate::configuration::{ConfigError, Configuration, Table, Wrong, absolute};

const MAX_AGENTS: usize = 256;
const MAX_LISTED: usize = 256;
const HOUR_MS: u64 = 60 * 60 * 1000;
const DAY_S: u64 = 24 * 60 * 60;
/// What an agent and its tests never see unless the configuration says otherwise: environment files and private keys.
pub(crate) const HIDDEN: &[&str] = &[
    "**/.env*",
    "**/*.pem",
    "**/*.key",
    "**/*.p12",
    "**/*.pfx",
    "**/*.jks",
    "**/*.keystore",
    "**/id_rsa",
    "**/id_dsa",
    "**/id_ecdsa",
    "**/id_ed25519",
    "**/.netrc",
    "**/.npmrc",
    "**/.pypirc",
];

/// Everything `[work]` says.
#[derive(Debug, Default)]
pub struct WorkConfig {
    /// The agents by name.
    pub agents: BTreeMap<String, WorkAgent>,
    /// How much is kept of changes that did not land.
    pub capsules: CapsuleBounds,
}

/// What a command may see, in addition to the workspace.
#[derive(Clone, Debug, Default)]
pub(super) struct Granted {
    pub(super) env: BTreeMap<String, String>,
    pub(super) secrets: Vec<String>,
    pub(super) secret_files: BTreeMap<String, PathBuf>,
    /// Files of this machine, and where they are found below HOME.
    pub(super) home: Vec<(PathBuf, PathBuf)>,
    pub(super) presets: Vec<Preset>,
    /// Whether it gets the toolchains that the workspace asks for.
    pub(super) toolchains: bool,
    pub(super) read: Vec<PathBuf>,
    pub(super) caches: Vec<PathBuf>,
    /// No network if empty.
    pub(super) hosts: Vec<Host>,
    /// Whether those names may lead to private addresses.
    pub(super) allows_private: bool,
}

/// What is not in a view.
#[derive(Clone, Debug)]
pub(super) struct Hide {
    pub(super) globs: GlobSet,
    /// The same as they were written.
    pub(super) written: Vec<String>,
    /// Whether what the current commit has is shown all the same: if the configuration sets nothing itself.
    pub(super) shows_committed: bool,
}

impl Hide {
    /// The glob that hides a path, or a folder that it is in.
    pub(super) fn covering(&self, path: impl AsRef<Path>) -> Option<&str> {
        let folders = path.as_ref().ancestors().filter(|folder| *folder != Path::new(""));
        let matched = folders.filter_map(|folder| self.globs.matches(folder).into_iter().next()).next()?;
        self.written.get(matched).map(String::as_str)
    }
}

/// One agent for work.
#[derive(Clone, Debug)]
pub struct WorkAgent {
    /// Its name in the configuration.
    pub name: String,
    /// The agent of work items that it is.
    pub agent_id: AgentId,
    /// Program and arguments, as written.
    pub(super) command: Vec<String>,
    /// The arguments with which its program prints its version; none if that is not known.
    pub(super) version: Vec<String>,
    /// How its standard output is read into the trace, if it is.
    pub(super) stream: Option<Format>,
    /// Not from the configuration: reached by its name alone.
    pub(super) is_built_in: bool,
    /// The folder that relative paths start from.
    pub(super) folder: PathBuf,
    pub(super) prompt: Prompt,
    pub(super) granted: Granted,
    pub(super) hide: Hide,
    /// What fills the bounds that a task leaves open, and caps those of an item from a file.
    pub(super) bounds: AgentBounds,
    pub(super) max_tokens: Option<f64>,
    pub(super) max_cost: Option<f64>,
    pub(super) paths: PathRules,
    /// The same as they were written, for the record.
    pub(super) path_source: PathRulesSource,
    pub(super) test: Granted,
    pub(super) test_timeout_ms: u64,
    pub(super) accepts_reduced: bool,
    pub(super) memory_bytes: u64,
    pub(super) processes: u32,
    pub(super) disk_bytes: u64,
    pub(super) output_bytes: u64,
    /// Settings that still work and should be written otherwise.
    warnings: Vec<String>,
}

impl WorkAgent {
    /// The file of its program, if it can be found.
    pub(super) fn program(&self) -> Option<PathBuf> {
        let program = self.command.first()?;
        match program.contains('/') {
            true => Some(absolute(&self.folder, program)),
            false => on_path(program),
        }
    }
}

impl WorkConfig {
    /// Reads the agents for work of a configuration, and the built-in ones whose names it does not use.
    ///
    /// # Errors
    /// When something under `[work]` is not understood.
    pub fn read(configuration: &Configuration) -> Result<Self, ConfigError> {
        let none = toml::Table::new();
        let section = configuration.section("work")?.unwrap_or(&none);
        let read = || {
            let table = Table::new(section);
            let mut agents = table.entries("agents", MAX_AGENTS, |name, value| {
                let table = value
                    .as_table()
                    .ok_or_else(|| format!("`{name}` is not a table; write `[work.agents.{name}]`"))?;
                agent(name, table, configuration.folder()).map_err(|why| format!("`{name}`: {why}"))
            })?;
            let capsules = capsules(&table).map_err(|why| format!("in `capsules`, {why}"))?;
            table.finish()?;
            for (name, table) in presets::all() {
                if !agents.contains_key(name) {
                    let built_in = agent(name, &table, configuration.folder())?;
                    agents.insert(name.to_owned(), WorkAgent { is_built_in: true, ..built_in });
                }
            }
            Ok(WorkConfig { agents, capsules })
        };
        read().map_err(|why| configuration.wrong("work", why))
    }

    /// What still works and should be written otherwise, a line each.
    pub fn warnings(&self) -> impl Iterator<Item = String> {
        let of_agent = |agent: &WorkAgent| {
            let table = format!("[work.agents.{}.paths]", agent.name);
            agent.warnings.iter().map(move |warning| format!("{table}: {warning}")).collect::<Vec<_>>()
        };
        self.agents.values().flat_map(of_agent)
    }

    /// The agents that an id names.
    pub fn of(&self, id: AgentId) -> impl Iterator<Item = &WorkAgent> {
        self.agents.values().filter(move |agent| agent.agent_id == id && !agent.is_built_in)
    }
}

/// How much is kept of changes that did not land, and for how long (R34).
fn capsules(section: &Table<'_>) -> Result<CapsuleBounds, Wrong> {
    let usual = CapsuleBounds::default();
    let Some(table) = section.table("capsules")? else { return Ok(usual) };
    let bounds = CapsuleBounds {
        max_files: table.number("max_files", usual.max_files, 0, 100_000)?,
        max_bytes: table.number("max_bytes", usual.max_bytes, 0, 128 << 20)?,
        max_total_bytes: table.number("max_total_bytes", usual.max_total_bytes, 0, 1 << 40)?,
        max_age: Duration::from_secs(
            table.number("keep_days", usual.max_age.as_secs() / DAY_S, 0, 365)? * DAY_S,
        ),
    };
    table.finish()?;
    Ok(bounds)
}

fn agent(name: &str, table: &toml::Table, folder: &Path) -> Result<WorkAgent, Wrong> {
    let table = &presets::expanded(table)?;
    let table = Table::new(table);
    // Taken out above, and known all the same.
    table.has("preset");
    let agent_id = table.text("agent_id")?.ok_or("`agent_id` is missing; write `agent_id = \"agent-1\"`")?;
    let agent_id = AgentId::parse(agent_id).ok_or_else(|| {
        let known: Vec<&str> = AgentId::ALL.iter().map(|id| id.as_str()).collect();
        match nearest(agent_id, &known) {
            Some(near) => format!("the agent_id `{agent_id}` is not known; did you mean `{near}`?"),
            None => format!("the agent_id `{agent_id}` is not known; they are {}", known.join(", ")),
        }
    })?;
    let command = command(&table)?;
    let stream = table.text("stream")?.map(stream).transpose()?;
    let prompt = Prompt::parse(table.text("prompt")?.unwrap_or("{description}"))?;
    let hide = match table.has("hide") {
        true => table.texts("hide", MAX_LISTED)?,
        false => HIDDEN.to_vec(),
    };
    let none = toml::Table::new();
    let paths = table.table("paths")?.unwrap_or(Table::new(&none));
    let mut warnings = Vec::new();
    let path_source = path_rules(paths, &mut warnings).map_err(|why| format!("in `paths`, {why}"))?;
    let test_table = table.table("test")?.unwrap_or(Table::new(&none));
    let test = granted(&test_table, folder)?;
    test_table.finish().map_err(|why| format!("in `test`, {why}"))?;
    let settings = WorkAgent {
        name: name.to_owned(),
        agent_id,
        command,
        version: table.texts("version", MAX_LISTED)?.into_iter().map(str::to_owned).collect(),
        stream,
        is_built_in: false,
        folder: folder.to_owned(),
        prompt,
        granted: granted(&table, folder)?,
        hide: Hide {
            globs: globs("hide", &hide)?,
            written: hide.iter().map(|glob| (*glob).to_owned()).collect(),
            shows_committed: !table.has("hide"),
        },
        bounds: AgentBounds::read(table.table("bounds")?.unwrap_or(Table::new(&none)))
            .map_err(|why| format!("in `bounds`, {why}"))?,
        max_tokens: table.decimal("max_tokens", 0.0, f64::INFINITY)?,
        max_cost: table.decimal("max_cost", 0.0, f64::INFINITY)?,
        paths: PathRules::load(&path_source).map_err(|why| why.to_string())?,
        path_source,
        test,
        test_timeout_ms: table.number("test_timeout_ms", 5 * 60 * 1000, 1, 24 * HOUR_MS)?,
        accepts_reduced: table.flag("accept_reduced")?,
        memory_bytes: table.number("memory_bytes", 4 << 30, 1 << 20, 1 << 40)?,
        processes: u32::try_from(table.number("processes", 1024, 1, 1 << 16)?).unwrap_or(u32::MAX),
        disk_bytes: table.number("disk_bytes", 4 << 30, 0, 1 << 44)?,
        output_bytes: table.number("max_output_bytes", 8 << 20, 1, 1 << 30)?,
        warnings,
    };
    table.finish()?;
    Ok(settings)
}

/// What may be changed, and how much of each class (R28). The contract calls protected paths laws, tests invariants and
/// generated files projections; those names still work here.
fn path_rules(table: Table<'_>, warnings: &mut Vec<String>) -> Result<PathRulesSource, Wrong> {
    let usual = PathRulesSource::default();
    let mut key = |new, old| renamed(&table, new, old, warnings);
    let allow_protected = key("allow_protected", "allow_laws")?;
    let (protected, max_protected) = (key("protected", "laws")?, key("max_protected", "max_laws")?);
    let (tests, max_tests) = (key("tests", "invariants")?, key("max_tests", "max_invariants")?);
    let (generated, max_generated) =
        (key("generated", "projections")?, key("max_generated", "max_projections")?);
    let max_other = key("max_other", "max_others")?;
    let list = |key, usual: Vec<String>| match table.has(key) {
        true => Ok(table.texts(key, MAX_LISTED)?.into_iter().map(str::to_owned).collect()),
        false => Ok::<Vec<String>, Wrong>(usual),
    };
    let limit = |key| match table.has(key) {
        true => table.number(key, 0, 0, u64::MAX).map(Some),
        false => Ok(None),
    };
    let source = PathRulesSource {
        allowed: table.has("allowed").then(|| list("allowed", Vec::new())).transpose()?,
        denied: list("denied", usual.denied)?,
        allow_laws: table.flag(allow_protected)?,
        laws: list(protected, usual.laws)?,
        invariants: list(tests, usual.invariants)?,
        projections: list(generated, usual.projections)?,
        max_laws: limit(max_protected)?,
        max_invariants: limit(max_tests)?,
        max_projections: limit(max_generated)?,
        max_others: limit(max_other)?,
    };
    table.finish()?;
    Ok(source)
}

/// The name that a key has in this table: the current one, or the older one, which still works with a warning.
fn renamed(
    table: &Table<'_>,
    new: &'static str,
    old: &'static str,
    warnings: &mut Vec<String>,
) -> Result<&'static str, Wrong> {
    match (table.has(new), table.has(old)) {
        (true, true) => Err(format!("`{old}` is an older name of `{new}`; remove it")),
        (false, true) => {
            warnings.push(format!("`{old}` is deprecated; use `{new}`"));
            Ok(old)
        }
        _ => Ok(new),
    }
}

fn stream(name: &str) -> Result<Format, Wrong> {
    let found = Format::ALL.iter().find(|(known, _)| *known == name).map(|(_, format)| *format);
    found.ok_or_else(|| {
        let known: Vec<&str> = Format::ALL.iter().map(|(name, _)| *name).collect();
        format!("`stream` is `{name}`; the streams that can be read are {}", known.join(", "))
    })
}

/// A list of program and arguments, or one text for the shell.
fn command(table: &Table<'_>) -> Result<Vec<String>, Wrong> {
    let command: Vec<String> = match table.is_text("command") {
        true => {
            let line = table.text("command")?.unwrap_or_default();
            ["/bin/sh", "-c", line].map(str::to_owned).to_vec()
        }
        false => table.texts("command", 4096)?.into_iter().map(str::to_owned).collect(),
    };
    match command.first().is_none_or(|program| program.trim().is_empty()) {
        true => {
            let advice = "`command` names no program; write `command = [\"python3\", \"agent.py\"]`";
            Err(table.missing("command", advice))
        }
        false => Ok(command),
    }
}

fn granted(table: &Table<'_>, folder: &Path) -> Result<Granted, Wrong> {
    let presets = table.texts("presets", MAX_LISTED)?;
    let presets = presets.into_iter().map(|name| name.parse::<Preset>().map_err(|error| error.to_string()));
    let text = |name: &str, value: &Value| {
        value.as_str().map(str::to_owned).ok_or_else(|| format!("the value of `{name}` is not a string"))
    };
    let place = |path: &str| at_home(path).unwrap_or_else(|| absolute(folder, path));
    Ok(Granted {
        env: table.entries("env", MAX_LISTED, text)?,
        secrets: table.texts("secrets", MAX_LISTED)?.into_iter().map(str::to_owned).collect(),
        secret_files: table
            .entries("secret_files", MAX_LISTED, |name, value| text(name, value).map(|path| place(&path)))?,
        home: table.texts("home", MAX_LISTED)?.into_iter().map(|path| seeded(path, folder)).collect(),
        presets: presets.collect::<Result<_, _>>()?,
        toolchains: !table.has("toolchains") || table.flag("toolchains")?,
        read: table.texts("read", MAX_LISTED)?.into_iter().map(place).collect(),
        caches: table.texts("caches", MAX_LISTED)?.into_iter().map(place).collect(),
        hosts: network(table)?,
        allows_private: table.flag("allow_private")?,
    })
}

/// `"none"`, or a list of hosts.
fn network(table: &Table<'_>) -> Result<Vec<Host>, Wrong> {
    if table.is_text("network") {
        return match table.text("network")? {
            Some("none") | None => Ok(Vec::new()),
            Some(other) => Err(format!(
                "`network` is `{other}`; it is `\"none\"` or a list of hosts like `[\"api.example.com:443\"]`"
            )),
        };
    }
    let hosts = table.texts("network", MAX_LISTED)?;
    hosts.into_iter().map(|host| host.parse::<Host>().map_err(|error| error.to_string())).collect()
}

/// `~/a/b` is found at `a/b` below HOME, any other file under its name.
fn seeded(path: &str, folder: &Path) -> (PathBuf, PathBuf) {
    match (path.strip_prefix("~/"), at_home(path)) {
        (Some(inside), Some(from)) => (from, PathBuf::from(inside)),
        _ => {
            let from = absolute(folder, path);
            let name = from.file_name().map(PathBuf::from).unwrap_or_default();
            (from, name)
        }
    }
}

pub(super) fn at_home(path: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from)?;
    path.strip_prefix("~/").map(|inside| absolute(&home, inside))
}

fn globs(key: &str, globs: &[&str]) -> Result<GlobSet, Wrong> {
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        // On a file system that folds case `.ENV` is `.env`.
        let built = GlobBuilder::new(glob).literal_separator(true).case_insensitive(true).build();
        set.add(built.map_err(|error| format!("`{key}` has the invalid glob `{glob}`: {error}"))?);
    }
    set.build().map_err(|error| format!("the globs of `{key}` cannot be used: {error}"))
}
