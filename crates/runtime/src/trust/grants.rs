//! What a configuration grants, as a set. Owns which keys widen a grant, and which only restrict one. A key that is not
//! known here counts as a grant, so that a new one is shown until someone decides otherwise.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crealeph_decision::work::PathRulesSource;
use serde::{Deserialize, Serialize};
use toml::Value;

use crate::configuration::Configuration;
use crate::work::HIDDEN;

/// The largest script whose content is compared.
const MAX_SCRIPT_BYTES: u64 = 256 << 20;
/// Keys that grant nothing: names, words for the agent, bounds on time and output, and what is read below.
const HARMLESS: &[&str] = &[
    "agent_id",
    "bounds",
    "hide",
    "instructions",
    "kind",
    "max_diagnostics_bytes",
    "max_enum_values",
    "max_output_bytes",
    "max_schema_bytes",
    "paths",
    "prompt",
    "stream",
    "tenant",
    "test",
    "test_timeout_ms",
    "timeout_ms",
];
/// Bounds on the machine, with their defaults for work and for Builder agents.
const LIMITS: &[(&str, u64, u64)] =
    &[("disk_bytes", 4 << 30, 0), ("memory_bytes", 4 << 30, 2 << 30), ("processes", 1024, 512)];
/// Bounds that hold only where they are written.
const SPENDING: &[&str] = &["max_cost", "max_tokens"];
const CONTENT: &str = "content";
/// How a key is shown.
const WORDS: &[(&str, &str)] = &[
    ("base_url", "calls"),
    ("ca_file", "certificates"),
    ("caches", "cache"),
    ("command", "runs"),
    ("env", "variable"),
    ("headers", "header"),
    ("home", "HOME file"),
    ("hosts", "host"),
    ("key", "key"),
    ("keys", "keys"),
    ("location", "location"),
    ("network", "host"),
    ("presets", "preset"),
    ("read", "reads"),
    ("schemas", "schema"),
    ("secret_files", "secret file"),
    ("secret_headers", "secret header"),
    ("secrets", "secret"),
    ("url", "calls"),
    ("version", "asked for its version with"),
];

/// The part of a configuration that a grant is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Where decisions are remembered, and with which keys they are signed.
    Ledger,
    /// Agents of the Builder and of work, with their scripts.
    Agents,
}

/// One thing that is granted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Where it is.
    pub part: Part,
    /// To whom, such as ``work agent `fixer` ``.
    pub to: String,
    /// What kind of thing.
    pub what: String,
    /// The thing, as it is written. Text that someone else wrote.
    pub value: String,
    /// A bound that is raised; a lower one is granted too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amount: Option<u64>,
}

impl Grant {
    /// The thing or the bound, as it is written. Text that someone else wrote.
    pub fn shown(&self) -> String {
        match self.amount {
            // Enough of a digest for a person to compare two.
            None if self.what == CONTENT => {
                let (path, digest) = self.value.rsplit_once(' ').unwrap_or((&self.value, ""));
                format!("{path} {}", digest.get(..12).unwrap_or(digest))
            }
            None => self.value.clone(),
            Some(amount) if SPENDING.contains(&self.what.as_str()) => (amount as f64 / 1000.0).to_string(),
            Some(amount) => amount.to_string(),
        }
    }
}

/// One thing that is restricted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Restriction {
    /// For whom.
    pub to: String,
    /// How. Text that someone else wrote.
    pub what: String,
}

impl std::fmt::Display for Restriction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.to, self.what)
    }
}

/// Everything that a configuration grants, and what it restricts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GrantSet {
    /// What is granted.
    pub grants: BTreeSet<Grant>,
    /// What is restricted; taking one away widens what is granted.
    pub restrictions: BTreeSet<Restriction>,
}

/// What a configuration grants beyond what was accepted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Widening {
    /// What is new.
    pub grants: Vec<Grant>,
    /// Restrictions that are gone.
    pub lifted: Vec<Restriction>,
}

impl Widening {
    /// Whether nothing is new.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty() && self.lifted.is_empty()
    }
}

/// Why the grants of a configuration cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    /// A script cannot be read.
    #[error("cannot read the script `{}` that the configuration names", .path.display())]
    Script {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A script is too large to compare.
    #[error("`{}`, which the configuration names, is larger than {MAX_SCRIPT_BYTES} bytes; install it outside the project", .0.display())]
    TooLarge(PathBuf),
}

impl GrantSet {
    /// What a configuration grants. Scripts count with their content if they are in the project, or in another repository.
    ///
    /// # Errors
    /// When a script cannot be read.
    pub fn of(configuration: &Configuration) -> Result<Self, GrantError> {
        let mut set = GrantSet::default();
        let tables = |section| match configuration.section(section) {
            Ok(Some(table)) => table.clone(),
            // A section with an error is refused by its own reader.
            _ => toml::Table::new(),
        };
        for (key, value) in &tables("ledger") {
            set.leaf(Part::Ledger, "ledger", key, value);
        }
        for (name, value) in &tables("agents") {
            set.agent(&format!("agent `{name}`"), value, false);
        }
        let work = tables("work");
        for (key, value) in &work {
            match (key.as_str(), value) {
                ("agents", Value::Table(agents)) => {
                    agents
                        .iter()
                        .for_each(|(name, value)| set.agent(&format!("work agent `{name}`"), value, true));
                }
                _ => set.leaf(Part::Agents, "work", key, value),
            }
        }
        if set.is_empty() {
            return Ok(set);
        }
        set.files(configuration)?;
        if let Some(real) = configuration.linked_to() {
            set.add(Part::Ledger, "configuration", "is a link to", real.display().to_string());
        }
        Ok(set)
    }

    /// Whether nothing is granted.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// What this grants beyond another set.
    pub fn beyond(&self, accepted: &GrantSet) -> Widening {
        let grants = self.grants.iter().filter(|grant| !accepted.covers(grant)).cloned().collect();
        // A restriction of an agent that is gone as a whole restricts no one.
        let is_lifted = |restriction: &&Restriction| {
            !self.restrictions.contains(*restriction)
                && self.grants.iter().any(|grant| grant.to == restriction.to)
        };
        let lifted = accepted.restrictions.iter().filter(is_lifted).cloned().collect();
        Widening { grants, lifted }
    }

    fn covers(&self, grant: &Grant) -> bool {
        let is_same = |known: &Grant| {
            (known.part, &known.to, &known.what, &known.value)
                == (grant.part, &grant.to, &grant.what, &grant.value)
        };
        match grant.amount {
            None => self.grants.contains(grant),
            Some(amount) => self
                .grants
                .iter()
                .any(|known| is_same(known) && known.amount.is_some_and(|known| known >= amount)),
        }
    }

    fn add(&mut self, part: Part, to: &str, what: &str, value: String) {
        self.grants.insert(Grant { part, to: to.to_owned(), what: what.to_owned(), value, amount: None });
    }

    fn restrict(&mut self, to: &str, what: String) {
        self.restrictions.insert(Restriction { to: to.to_owned(), what });
    }

    fn limit(&mut self, to: &str, what: &str, amount: u64) {
        let (to, what) = (to.to_owned(), what.to_owned());
        self.grants.insert(Grant {
            part: Part::Agents,
            to,
            what,
            value: String::new(),
            amount: Some(amount),
        });
    }

    fn agent(&mut self, to: &str, value: &Value, is_work: bool) {
        let Value::Table(table) = value else { return };
        for (key, value) in table {
            if HARMLESS.contains(&key.as_str()) {
                continue;
            }
            if let Some((_, work, builder)) = LIMITS.iter().find(|(name, ..)| name == key) {
                let usual = if is_work { *work } else { *builder };
                let amount = value.as_integer().and_then(|amount| u64::try_from(amount).ok());
                if let Some(amount) = amount.filter(|amount| *amount > usual) {
                    self.limit(to, key, amount);
                }
            } else if SPENDING.contains(&key.as_str()) {
                let amount = value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64));
                // In thousandths, so that a price is compared too.
                self.limit(to, key, (amount.unwrap_or(0.0) * 1000.0) as u64);
                self.restrict(to, key.clone());
            } else {
                self.leaf(Part::Agents, to, key, value);
            }
        }
        if let Some(Value::Table(test)) = table.get("test") {
            test.iter()
                .for_each(|(key, value)| self.leaf(Part::Agents, &format!("{to}, its tests"), key, value));
        }
        if let Some(Value::Table(bounds)) = table.get("bounds") {
            self.bounds(to, bounds);
        }
        self.hidden(to, table.get("hide"));
        if let Some(Value::Table(paths)) = table.get("paths") {
            self.paths(to, paths);
        }
    }

    /// How much an agent may do if a task does not say. Time grants nothing.
    fn bounds(&mut self, to: &str, bounds: &toml::Table) {
        for (key, value) in bounds.iter().filter(|(key, _)| !HARMLESS.contains(&key.as_str())) {
            let amount = value.as_integer().and_then(|amount| u64::try_from(amount).ok());
            self.limit(to, key, amount.unwrap_or(u64::MAX));
            self.restrict(to, key.clone());
        }
    }

    /// The files that an agent does not see.
    fn hidden(&mut self, to: &str, hide: Option<&Value>) {
        let Some(hide) = hide.map(texts) else { return };
        for glob in HIDDEN.iter().filter(|glob| !hide.iter().any(|own| own == *glob)) {
            self.add(Part::Agents, to, "sees", (*glob).to_owned());
        }
        for glob in hide.iter().filter(|glob| !HIDDEN.contains(&glob.as_str())) {
            self.restrict(to, format!("hides {glob}"));
        }
    }

    /// The files that an agent may change.
    fn paths(&mut self, to: &str, paths: &toml::Table) {
        let list = |key: &str| paths.get(key).map(texts);
        for glob in list("denied").into_iter().flatten() {
            self.restrict(to, format!("may not change {glob}"));
        }
        if let Some(allowed) = list("allowed") {
            self.restrict(to, "may change only what is listed".to_owned());
            allowed.into_iter().for_each(|glob| self.add(Part::Agents, to, "changes", glob));
        }
        // Each key has an older name, too.
        let is_set = |key: &str| paths.get(key).and_then(Value::as_bool) == Some(true);
        if is_set("allow_protected") || is_set("allow_laws") {
            self.add(Part::Agents, to, "changes", "protected paths: policies, CI, hooks".to_owned());
        }
        if let Some(protected) = list("protected").or_else(|| list("laws")) {
            for glob in PathRulesSource::default().laws.into_iter().filter(|glob| !protected.contains(glob)) {
                self.add(Part::Agents, to, "changes", glob);
            }
        }
    }

    /// Adds what a key says: a list by its elements, a table by its entries, a command as a whole.
    fn leaf(&mut self, part: Part, to: &str, key: &str, value: &Value) {
        let what = WORDS.iter().find(|(name, _)| *name == key).map_or(key, |(_, word)| *word);
        match value {
            Value::Boolean(false) => {}
            Value::Boolean(true) if key == "allow_private" => {
                self.add(part, to, "host", "private addresses that these names lead to".to_owned());
            }
            Value::Boolean(true) if key == "accept_reduced" => {
                self.add(part, to, "sandbox", "a weaker one is accepted".to_owned());
            }
            Value::String(text) if key == "network" && text == "none" => {}
            Value::String(_) if part == Part::Ledger && HARMLESS.contains(&key) => {}
            Value::Array(list) if key == "command" || key == "version" => {
                let words: Vec<String> = list.iter().map(word).collect();
                self.add(part, to, what, words.join(" "));
            }
            Value::Array(list) => list.iter().for_each(|value| self.leaf(part, to, key, value)),
            Value::Table(table) => {
                for (name, value) in table {
                    let value = match value {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    };
                    self.add(part, to, what, format!("{name} = {value}"));
                }
            }
            Value::String(text) => self.add(part, to, what, text.clone()),
            other => self.add(part, to, what, other.to_string()),
        }
    }

    /// The files that came with the project: scripts that commands name, by their content, and where links lead.
    fn files(&mut self, configuration: &Configuration) -> Result<(), GrantError> {
        let project = repository(configuration.folder()).unwrap_or_else(|| configuration.folder().to_owned());
        for file in configuration.named_files() {
            // What is on the PATH is the user's own choice, unless the PATH leads into the project.
            let is_inside =
                |path: &Path| path.starts_with(&project) || (!file.is_on_path && repository(path).is_some());
            if !is_inside(&file.path) {
                continue;
            }
            let Ok(real) = file.path.canonicalize() else { continue };
            let shown = file.path.strip_prefix(configuration.folder()).unwrap_or(&file.path).display();
            if !is_inside(&real) {
                self.add(Part::Ledger, "links", "leads out", format!("{shown} -> {}", real.display()));
            }
            if file.is_of_command && real.is_file() {
                let digest = digest(&real)?;
                self.add(Part::Agents, "scripts", CONTENT, format!("{shown} {digest}"));
            }
        }
        Ok(())
    }
}

/// The repository around a file or folder, which came as one.
fn repository(path: &Path) -> Option<PathBuf> {
    path.ancestors().find(|folder| folder.join(".git").symlink_metadata().is_ok()).map(Path::to_owned)
}

fn digest(path: &Path) -> Result<String, GrantError> {
    let failed = |source| GrantError::Script { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(MAX_SCRIPT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 > MAX_SCRIPT_BYTES {
        true => Err(GrantError::TooLarge(path.to_owned())),
        false => Ok(crealeph_contracts::digest::Blake3::of(&bytes).to_string()),
    }
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

/// A word of a command, so that its end can be seen.
fn word(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let is_plain = |letter: char| letter.is_alphanumeric() || "-_./={}@:+,".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    fn set(text: &str) -> GrantSet {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crealeph.toml");
        std::fs::write(&path, text).unwrap();
        std::fs::write(folder.path().join("agent.py"), "print(1)").unwrap();
        GrantSet::of(&Configuration::find(Some(&path)).unwrap()).unwrap()
    }

    fn shown(widening: &Widening) -> Vec<String> {
        let grants = widening.grants.iter().map(|grant| {
            let amount = grant.amount.map(|amount| amount.to_string()).unwrap_or_default();
            format!("{} {} {}{amount}", grant.to, grant.what, grant.value)
        });
        grants.chain(widening.lifted.iter().map(|lifted| format!("no longer {lifted}"))).collect()
    }

    const AGENT: &str =
        "[work.agents.w]\nagent_id = 'agent-1'\ncommand = ['python3', 'agent.py', '{prompt}']\n";

    #[test]
    fn what_grants_nothing_asks_nothing() {
        assert!(set("").is_empty());
        assert!(set("[builder]\nthresholds = { min_confidence = 0.9 }").is_empty());
        assert!(set("[agents.'e@1']\nkind = 'example'").is_empty());
        assert!(set("[ledger]\ntenant = 't'").is_empty());
    }

    #[test]
    fn only_what_widens_is_new() {
        let accepted = set(&format!(
            "{AGENT}network = ['a:1', 'b:2']\nmemory_bytes = 9000000000\nmax_tokens = 9\npaths = {{ denied = ['x/**'] }}\n"
        ));
        let narrower = [
            String::new(),
            AGENT.to_owned()
                + "network = ['b:2']\nmemory_bytes = 8000000000\nmax_tokens = 9\npaths = { denied = ['x/**', 'y'] }\n",
            AGENT.to_owned()
                + "network = 'none'\nprompt = 'other {description}'\nmax_tokens = 5\npaths = { denied = ['x/**'] }\n",
        ];
        for text in &narrower {
            assert!(set(text).beyond(&accepted).is_empty(), "{text}: {:?}", set(text).beyond(&accepted));
        }
        let rest = "max_tokens = 9\npaths = { denied = ['x/**'] }\n";
        let wider = [
            ("network = ['c:3']", "work agent `w` host c:3"),
            ("memory_bytes = 9000000001", "work agent `w` memory_bytes 9000000001"),
            ("secrets = ['KEY']", "work agent `w` secret KEY"),
            ("read = ['/srv']", "work agent `w` reads /srv"),
            ("home = ['~/.netrc']", "work agent `w` HOME file ~/.netrc"),
            ("env = { A = 'b' }", "work agent `w` variable A = b"),
            ("accept_reduced = true", "work agent `w` sandbox a weaker one is accepted"),
            ("preset = 'claude'", "work agent `w` preset claude"),
            ("something_new = 1", "work agent `w` something_new 1"),
            ("test = { secrets = ['KEY'] }", "work agent `w`, its tests secret KEY"),
            ("allow_private = true", "work agent `w` host private addresses that these names lead to"),
            (
                "test = { allow_private = true }",
                "work agent `w`, its tests host private addresses that these names lead to",
            ),
            ("version = ['-c', 'x y']", "work agent `w` asked for its version with -c 'x y'"),
            ("bounds = { max_files = 11, timeout_ms = 9 }", "work agent `w` max_files 11"),
        ];
        for (line, expected) in wider {
            let widening = set(&format!("{AGENT}{rest}{line}\n")).beyond(&accepted);
            assert_eq!(shown(&widening), [expected], "{line}");
        }
        let without = set(AGENT).beyond(&accepted);
        assert_eq!(
            shown(&without),
            ["no longer work agent `w` max_tokens", "no longer work agent `w` may not change x/**"]
        );
        let hides_less = set(&format!("{AGENT}{rest}hide = ['**/*.pem']\n")).beyond(&accepted);
        assert!(shown(&hides_less).contains(&"work agent `w` sees **/.env*".to_owned()), "{hides_less:?}");
    }

    #[test]
    fn where_data_and_keys_go_is_a_grant_of_its_own() {
        let ledger = set("[ledger]\nlocation = 'postgres://elsewhere/x'\nkeys = 'k'\n");
        assert!(ledger.grants.iter().all(|grant| grant.part == Part::Ledger));
        assert_eq!(ledger.grants.len(), 2);
        let http = set(
            "[agents.'h@1']\nkind = 'http'\nurl = 'https://a.b'\nsecret_headers = { A = { env = 'K' } }\n",
        );
        let values: Vec<&str> = http.grants.iter().map(|grant| grant.value.as_str()).collect();
        assert!(
            values.contains(&"https://a.b") && values.iter().any(|value| value.contains('K')),
            "{values:?}"
        );
    }

    #[test]
    fn a_link_that_leads_out_of_the_project_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("project/crealeph.toml");
        std::fs::create_dir(folder.path().join("project")).unwrap();
        std::fs::write(&path, format!("{AGENT}home = ['settings.json']\n")).unwrap();
        std::fs::write(folder.path().join("private"), "x").unwrap();
        std::os::unix::fs::symlink("../private", folder.path().join("project/settings.json")).unwrap();
        let set = GrantSet::of(&Configuration::find(Some(&path)).unwrap()).unwrap();
        let link = set.grants.iter().find(|grant| grant.to == "links").unwrap();
        assert!(link.value.starts_with("settings.json -> /") && link.value.ends_with("/private"), "{link:?}");
    }

    #[test]
    fn the_content_of_a_script_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("crealeph.toml");
        std::fs::write(&path, AGENT).unwrap();
        let of = |script: &str| {
            std::fs::write(folder.path().join("agent.py"), script).unwrap();
            GrantSet::of(&Configuration::find(Some(&path)).unwrap()).unwrap()
        };
        let (one, other) = (of("print(1)"), of("print(2)"));
        assert!(of("print(1)").beyond(&one).is_empty());
        assert_eq!(other.beyond(&one).grants.len(), 1);
    }
}
