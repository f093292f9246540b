//! Built-in agents: what their command lines need to run without questions. Each is a table in the format of
//! `[work.agents.NAME]`, which a configuration may use as its base (`preset = "claude"`) and override key by key.
//!
//! Secrets, files and sandbox presets that a preset lists are used if they exist on this machine; those that a configuration
//! itself lists must exist.

use std::path::{Path, PathBuf};

use crealeph_contracts::shape::nearest;
use crealeph_contracts::work_item::AgentId;
use crealeph_sandbox::Preset;
use toml::Value;

use super::config::at_home;
use crate::agents::process::on_path;
use crate::configuration::Wrong;

/// One agent that is built in.
struct Known {
    name: &'static str,
    /// The id that a task has which is given to it by name alone.
    agent_id: AgentId,
    text: &'static str,
}

const KNOWN: &[Known] = &[
    Known { name: "claude", agent_id: AgentId::Agent1, text: include_str!("presets/claude.toml") },
    Known { name: "codex", agent_id: AgentId::Agent2, text: include_str!("presets/codex.toml") },
];

/// Every name with the table of an agent that is nothing but the preset.
pub(super) fn all() -> impl Iterator<Item = (&'static str, toml::Table)> {
    KNOWN.iter().map(|known| {
        let mut table = toml::Table::new();
        table.insert("preset".to_owned(), Value::String(known.name.to_owned()));
        table.insert("agent_id".to_owned(), Value::String(known.agent_id.as_str().to_owned()));
        (known.name, table)
    })
}

/// The table of an agent on top of the preset it names, or as it is if it names none.
pub(super) fn expanded(table: &toml::Table) -> Result<toml::Table, Wrong> {
    let mut own = table.clone();
    let Some(preset) = own.remove("preset") else { return Ok(own) };
    let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    let name = preset.as_str().unwrap_or_default();
    let known = KNOWN.iter().find(|known| known.name == name).ok_or_else(|| match nearest(name, &names) {
        Some(near) => format!("`preset` is `{name}`, which is not known; did you mean `{near}`?"),
        None => format!("`preset` is `{name}`, which is not known; they are {}", names.join(", ")),
    })?;
    let mut base: toml::Table = known
        .text
        .parse()
        .map_err(|error| format!("the preset `{name}` is broken: {error}; please report it"))?;
    keep_what_is_here(&mut base);
    resolve_program(&mut base);
    for (key, value) in own {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(there)), Value::Table(more)) => there.extend(more),
            (_, value) => drop(base.insert(key, value)),
        }
    }
    Ok(base)
}

/// Leaves out what this machine does not have.
fn keep_what_is_here(table: &mut toml::Table) {
    let mut keep = |key: &str, is_here: &dyn Fn(&str) -> bool| {
        if let Some(Value::Array(list)) = table.get_mut(key) {
            list.retain(|value| value.as_str().is_some_and(is_here));
        }
    };
    keep("secrets", &|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    keep("home", &|path| at_home(path).is_some_and(|path| path.is_file()));
    keep("presets", &|name| name.parse::<Preset>().is_ok_and(|preset| preset.grants().is_ok()));
}

/// Names the program by where it really is, and makes the packages it consists of readable.
fn resolve_program(table: &mut toml::Table) {
    let Some(Value::Array(command)) = table.get_mut("command") else { return };
    let Some(Value::String(program)) = command.first_mut() else { return };
    let Some(path) = on_path(program).and_then(|path| path.canonicalize().ok()) else { return };
    let places = [packages_around(&path)];
    *program = path.to_string_lossy().into_owned();
    let places =
        places.into_iter().flatten().map(|place| Value::String(place.to_string_lossy().into_owned()));
    table.insert("read".to_owned(), Value::Array(places.collect()));
}

/// The outermost `node_modules` that a program is in, if any.
fn packages_around(program: &Path) -> Option<PathBuf> {
    program.ancestors().filter(|folder| folder.ends_with("node_modules")).last().map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_can_be_read_and_overridden() {
        for (name, mut table) in all() {
            let plain = expanded(&table).unwrap();
            assert_eq!(plain["stream"].as_str(), Some(name));
            assert_eq!(plain["command"].as_array().unwrap().last().unwrap().as_str(), Some("{prompt}"));
            assert!(!plain.contains_key("preset"));
            let own: toml::Table = "network = [\"127.0.0.1:1\"]\n[env]\nA = \"b\"".parse().unwrap();
            table.extend(own);
            let changed = expanded(&table).unwrap();
            assert_eq!(changed["network"].as_array().unwrap().len(), 1, "a list is replaced");
            assert_eq!(changed["env"]["A"].as_str(), Some("b"));
            let variables = plain.get("env").map_or(0, |env| env.as_table().unwrap().len());
            assert_eq!(changed["env"].as_table().unwrap().len(), variables + 1, "a table is added to");
        }
    }

    #[test]
    fn an_unknown_preset_names_the_nearest() {
        let table: toml::Table = "preset = \"claud\"".parse().unwrap();
        assert!(expanded(&table).unwrap_err().contains("`claude`"));
    }

    #[test]
    fn a_package_is_readable_with_those_it_needs() {
        let program = Path::new("/home/u/.npm/lib/node_modules/@openai/codex/node_modules/x/bin/codex.js");
        assert_eq!(packages_around(program), Some(PathBuf::from("/home/u/.npm/lib/node_modules")));
        assert_eq!(packages_around(Path::new("/home/u/.local/bin/claude")), None);
    }
}
