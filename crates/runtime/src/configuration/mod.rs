//! `crealeph.toml`, read in one place. Owns the file, its bound and the list of its sections; what is in a section is
//! read by the module that it configures, through [`Table`], and every key must be known. Relative paths start from the file's
//! folder.

mod named;
mod table;

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crealeph_decision::policy::{Rules, RulesError, RulesSource};
use crealeph_sandbox::SandboxError;

pub use named::NamedFile;
pub use table::{Table, Wrong, absolute, unknown_name};

/// Where the configuration is unless something else is said.
pub const FILE: &str = "crealeph.toml";
/// The largest file that is read, in bytes.
const MAX_BYTES: u64 = 1 << 20;
/// Every section, each read by the module of its name: `ledger` by the command line, `server` by the server, `tenants` by the Builder.
const SECTIONS: &[&str] = &["agents", "builder", "ledger", "server", "tenants", "work"];

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The requested file does not exist.
    #[error("there is no configuration `{}`; check the path", .path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The file is there and cannot be read.
    #[error("cannot read `{}`; check its permissions", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file is too large to be a configuration.
    #[error("`{}` is larger than {MAX_BYTES} bytes; it is not a configuration", .path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML.
    #[error("`{}` is not TOML: {why}", .path.display())]
    NotToml {
        /// The file.
        path: PathBuf,
        /// Where and why.
        why: String,
    },
    /// A section is not understood.
    #[error("`{}` cannot be used: {place}{why}", .path.display())]
    Section {
        /// The file.
        path: PathBuf,
        /// The section, as `[builder]: `; empty for the file as a whole.
        place: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// An agent is not understood.
    #[error("the agent `{agent}` in `{}` cannot be used: {why}", .path.display())]
    Agent {
        /// The file.
        path: PathBuf,
        /// The agent's name, as written.
        agent: String,
        /// What is wrong and what to do.
        why: String,
    },
    /// A file that does not contain rules.
    #[error(transparent)]
    Rules(#[from] RulesFileError),
    /// The sandbox's state directory cannot be used.
    #[error("the agents in `{}` have no sandbox to run in", .path.display())]
    Sandbox {
        /// The file.
        path: PathBuf,
        /// Why.
        source: SandboxError,
    },
}

/// A configuration, and where it is.
#[derive(Clone, Debug)]
pub struct Configuration {
    path: PathBuf,
    folder: PathBuf,
    document: toml::Table,
    /// Whether there is such a file.
    is_read: bool,
}

impl Configuration {
    /// The file that is named, which must be there; else the one of the usual name, if it is there.
    ///
    /// # Errors
    /// When it cannot be read or names a section that there is not.
    pub fn find(named: Option<&Path>) -> Result<Configuration, ConfigError> {
        let path = named.unwrap_or(Path::new(FILE));
        match (read_text(path)?, named) {
            (Some(text), _) => Configuration::parse(path, &text, true),
            (None, None) => Configuration::parse(path, "", false),
            (None, Some(_)) => Err(ConfigError::NotFound { path: path.to_owned() }),
        }
    }

    fn parse(path: &Path, text: &str, is_read: bool) -> Result<Configuration, ConfigError> {
        let document: toml::Table = text.parse().map_err(|why: toml::de::Error| ConfigError::NotToml {
            path: path.to_owned(),
            why: toml_fault(text, &why),
        })?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let read = Configuration { path: path.to_owned(), folder, document, is_read };
        match read.document.keys().find(|name| !SECTIONS.contains(&name.as_str())) {
            Some(unknown) => Err(read.wrong("", unknown_name("section", unknown, SECTIONS))),
            None => Ok(read),
        }
    }

    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file as an absolute path, links not followed; nothing if no file was read.
    pub fn absolute_path(&self) -> Option<PathBuf> {
        let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
        self.is_read.then(|| absolute(&here, &self.path.to_string_lossy()))
    }

    /// The file in its folder's real path; it may itself be a link. Nothing if no file was read.
    pub fn real_path(&self) -> Option<PathBuf> {
        Some(self.folder.join(self.absolute_path()?.file_name()?))
    }

    /// What the file is a link to, if it is one.
    pub fn linked_to(&self) -> Option<PathBuf> {
        let path = self.real_path()?;
        path.canonicalize().ok().filter(|real| *real != path)
    }

    /// The folder that relative paths start from, in full.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// A section, if the file has it.
    ///
    /// # Errors
    /// When it is not a table.
    pub fn section(&self, name: &'static str) -> Result<Option<&toml::Table>, ConfigError> {
        match self.document.get(name) {
            None => Ok(None),
            Some(toml::Value::Table(section)) => Ok(Some(section)),
            Some(_) => Err(self.wrong("", format!("`{name}` is not a table; write `[{name}]`"))),
        }
    }

    /// What is wrong at a place of the file, such as `builder`; at the file as a whole if that is empty.
    pub fn wrong(&self, place: &str, why: Wrong) -> ConfigError {
        let place = if place.is_empty() { String::new() } else { format!("[{place}]: ") };
        ConfigError::Section { path: self.path.clone(), place, why }
    }
}

/// Reads a file within the bound; `None` if there is no such file.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(unreadable)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(ConfigError::TooLarge { path: path.to_owned() }),
        false => Ok(Some(text)),
    }
}

/// Why a file of rules cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum RulesFileError {
    /// It is not TOML, or holds what rules do not.
    #[error("`{}` is not a rules file: {why}", .path.display())]
    NotRules {
        /// The file.
        path: PathBuf,
        /// Where and why.
        why: String,
    },
    /// The rules contradict themselves or their examples.
    #[error("the rules in `{}` cannot be used", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: RulesError,
    },
}

/// Reads the text of a rules file, and checks the rules and their examples.
///
/// # Errors
/// If it does not contain rules, or an example has another result than it states.
pub fn rules_of(path: &Path, text: &[u8]) -> Result<(RulesSource, Rules), RulesFileError> {
    let source: RulesSource = toml::from_slice(text).map_err(|error| RulesFileError::NotRules {
        path: path.to_owned(),
        why: toml_fault(&String::from_utf8_lossy(text), &error),
    })?;
    let rules =
        Rules::load(&source).map_err(|source| RulesFileError::Unusable { path: path.to_owned(), source })?;
    Ok((source, rules))
}

/// What is wrong with a TOML document and where, in one line.
pub(crate) fn toml_fault(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim_end().replace('\n', ", ");
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else { return message };
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("line {line}, column {column}: {message}")
}
