//! The parts of git's configuration that count: the committer, line ends, reflogs, and whether the repository can be written.
//! Owns reading it once, before any agent runs; nothing in it that names a program is looked at.
//!
//! Read are, in git's order, `/etc/gitconfig`, the user's own files with what they include, the repository's `config` (and
//! `config.worktree`) without includes, since those may name files that agents write, and `GIT_CONFIG_COUNT` of the environment.

use std::env;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crealeph_workspace::GitRepository;
use gix_actor::Signature;
use gix_config::file::{Metadata, includes, init};
use gix_config::{File, Source};
use gix_filter::eol;
use gix_object::bstr::ByteSlice as _;
use gix_ref::FullName;
use gix_ref::store::WriteReflog;

use super::super::error::WorkError;
use super::{failed, refused, small_text};

/// Extensions of a repository's format that change nothing for objects and branches.
const KNOWN_EXTENSIONS: [&str; 7] = [
    "noop",
    "noop-v1",
    "partialclone",
    "preciousobjects",
    "relativeworktrees",
    "worktreeconfig",
    "submodulepathconfig",
];
/// Who commits if no one is configured.
const NOBODY: (&str, &str) = ("crealeph", "crealeph@localhost");

/// Settings that count.
#[derive(Debug)]
pub(in super::super) struct Settings {
    author: Person,
    committer: Person,
    pub(super) line_ends: eol::Configuration,
    /// Attribute files of the system and the user.
    pub(super) attribute_files: Vec<PathBuf>,
    pub(super) write_reflog: WriteReflog,
    pub(super) is_bare: bool,
    work_tree: Option<PathBuf>,
    /// What of the repository's format is not supported.
    unsupported: Option<String>,
    /// Repositories of others that the user declared to be safe.
    safe: Vec<String>,
}

/// A name, an address, and a date if the environment has one.
#[derive(Debug)]
struct Person {
    name: String,
    email: String,
    date: Option<String>,
}

impl Settings {
    /// Reads them.
    pub(super) fn read(place: &GitRepository) -> Result<Self, WorkError> {
        let action = || format!("read git's configuration for `{}`", place.work_tree.display());
        let home = env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        // Where no branch is checked out, or none of this kind of repository, no condition about it holds.
        let branch = head_branch(place).and_then(|name| FullName::try_from(name).ok());
        let branch = match branch {
            Some(branch) => branch,
            None => FullName::try_from("HEAD").map_err(|error| failed(action(), &error))?,
        };
        let interpolate = gix_config::path::interpolate::Context {
            home_dir: home.as_deref(),
            ..gix_config::path::interpolate::Context::default()
        };
        let conditional =
            includes::conditional::Context { git_dir: Some(&place.own), branch_name: Some(branch.as_ref()) };
        let following = init::Options {
            includes: includes::Options::follow(interpolate, conditional),
            ..init::Options::default()
        };
        let mut all = File::new(Metadata::from(Source::User));
        let mut add = |read: Result<Option<File>, WorkError>| {
            if let Some(read) = read? {
                all.append(read).map_err(|error| failed(action(), &error))?;
            }
            Ok::<bool, WorkError>(is_true(&all, "extensions.worktreeConfig"))
        };
        for file in user_files(home.as_deref()) {
            add(read_file(file, Source::User, following))?;
        }
        if add(read_file(place.shared.join("config"), Source::Local, init::Options::default()))? {
            add(read_file(place.own.join("config.worktree"), Source::Worktree, init::Options::default()))?;
        }
        add(File::from_env(init::Options::default()).map_err(|error| failed(action(), &error)))?;
        Ok(Settings::of(&all, place, home.as_deref()))
    }

    fn of(all: &File, place: &GitRepository, home: Option<&Path>) -> Self {
        let text = |key: &str| all.string(key).map(|value| value.to_str_lossy().into_owned());
        let word = |key: &str| text(key).map(|value| value.to_ascii_lowercase());
        let auto_crlf = match word("core.autocrlf").as_deref() {
            Some("input") => eol::AutoCrlf::Input,
            _ if is_true(all, "core.autocrlf") => eol::AutoCrlf::Enabled,
            _ => eol::AutoCrlf::Disabled,
        };
        let eol = match word("core.eol").as_deref() {
            Some("lf") => Some(eol::Mode::Lf),
            Some("crlf") => Some(eol::Mode::CrLf),
            _ => None,
        };
        let is_bare = is_true(all, "core.bare");
        let write_reflog = match word("core.logallrefupdates").as_deref() {
            Some("always") => WriteReflog::Always,
            Some(_) if is_true(all, "core.logallrefupdates") => WriteReflog::Normal,
            Some(_) => WriteReflog::Disable,
            None if is_bare => WriteReflog::Disable,
            None => WriteReflog::Normal,
        };
        let absolute = |path: String| match (path.strip_prefix("~/"), home) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            _ => Some(PathBuf::from(path)).filter(|path| path.is_absolute()),
        };
        let attributes = match text("core.attributesFile") {
            Some(path) => absolute(path),
            None => xdg(home).map(|folder| folder.join("git/attributes")),
        };
        let safe = all.strings_filter("safe.directory", |file| {
            matches!(file.source, Source::System | Source::User | Source::Env)
        });
        Settings {
            author: Person::of("AUTHOR", &text),
            committer: Person::of("COMMITTER", &text),
            line_ends: eol::Configuration { auto_crlf, eol },
            attribute_files: [Some(PathBuf::from("/etc/gitattributes")), attributes]
                .into_iter()
                .flatten()
                .collect(),
            write_reflog,
            is_bare,
            work_tree: text("core.worktree").map(|path| place.own.join(path)),
            unsupported: unsupported(all),
            safe: safe.unwrap_or_default().iter().map(|path| path.to_str_lossy().into_owned()).collect(),
        }
    }

    /// Fails unless the repository is one that can be read and written.
    pub(super) fn check(&self, place: &GitRepository) -> Result<(), WorkError> {
        let action = || format!("use the repository `{}`", place.shared.display());
        if let Some(what) = &self.unsupported {
            return Err(refused(action(), format!("{what} is not supported; publish to the tree")));
        }
        if let Some(other) = &self.work_tree {
            let other = other.canonicalize().unwrap_or_else(|_| other.clone());
            if other != place.work_tree {
                let why = format!("its working tree is `{}` (`core.worktree`)", other.display());
                return Err(refused(action(), why));
            }
        }
        for folder in [&place.work_tree, &place.own, &place.shared] {
            if !self.is_own(folder, place) {
                return Err(refused(
                    action(),
                    format!(
                        "`{}` belongs to another user; `git config --global --add safe.directory {}` trusts it",
                        folder.display(),
                        place.work_tree.display()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// Whether a folder belongs to the caller, or its repository was declared to be safe: git's own rule.
    fn is_own(&self, folder: &Path, place: &GitRepository) -> bool {
        let caller = rustix::process::geteuid().as_raw();
        let by_sudo = env::var("SUDO_UID").ok().and_then(|uid| uid.parse::<u32>().ok());
        let owner = std::fs::metadata(folder).map(|metadata| metadata.uid());
        let is_own = owner.is_ok_and(|owner| owner == caller || (caller == 0 && by_sudo == Some(owner)));
        let mut safe: &[String] = &self.safe;
        // An empty one forgets those before it.
        if let Some(last) = safe.iter().rposition(String::is_empty) {
            safe = safe.get(last + 1..).unwrap_or(&[]);
        }
        is_own
            || safe.iter().any(|path| match path.strip_suffix("/*") {
                _ if path == "*" => true,
                Some(above) => place.work_tree.starts_with(above),
                None => Path::new(path) == place.work_tree,
            })
    }

    /// Who wrote what is committed now.
    pub(in super::super) fn author(&self) -> Result<Signature, WorkError> {
        self.author.signature()
    }

    /// Who commits now.
    pub(in super::super) fn committer(&self) -> Result<Signature, WorkError> {
        self.committer.signature()
    }
}

impl Person {
    /// As git finds it out: the environment, then the part's own settings, then `user`.
    fn of(part: &str, text: &dyn Fn(&str) -> Option<String>) -> Self {
        let lower = part.to_ascii_lowercase();
        let variable = |what: &str| env::var(format!("GIT_{part}_{what}")).ok();
        let setting = |what: &str| text(&format!("{lower}.{what}")).or_else(|| text(&format!("user.{what}")));
        let name = variable("NAME").or_else(|| setting("name"));
        let email = variable("EMAIL").or_else(|| setting("email")).or_else(|| env::var("EMAIL").ok());
        // What would end the field early has no place in it.
        let clean = |value: Option<String>, otherwise: &str| {
            let value = value.unwrap_or_default();
            let value: String = value.chars().filter(|c| !matches!(c, '<' | '>' | '\n' | '\0')).collect();
            match value.trim() {
                "" => otherwise.to_owned(),
                value => value.to_owned(),
            }
        };
        Person { name: clean(name, NOBODY.0), email: clean(email, NOBODY.1), date: variable("DATE") }
    }

    fn signature(&self) -> Result<Signature, WorkError> {
        let time = match &self.date {
            None => gix_date::Time::now_local_or_utc(),
            Some(date) => gix_date::parse(date, None)
                .map_err(|error| failed(format!("use the date `{date}` of the environment"), &error))?,
        };
        Ok(Signature { name: self.name.as_str().into(), email: self.email.as_str().into(), time })
    }
}

/// One configuration file; absent if it is not there.
fn read_file(path: PathBuf, source: Source, options: init::Options<'_>) -> Result<Option<File>, WorkError> {
    if !path.exists() {
        return Ok(None);
    }
    let action = format!("read `{}`", path.display());
    let metadata = Metadata { path: Some(path), ..Metadata::from(source) };
    File::from_paths_metadata([metadata], options).map_err(|error| failed(action, &error))
}

fn is_true(all: &File, key: &str) -> bool {
    matches!(all.boolean(key), Ok(Some(true)))
}

/// What of the repository's format is not supported.
fn unsupported(all: &File) -> Option<String> {
    let version = all.integer("core.repositoryFormatVersion").ok().flatten().unwrap_or(0);
    if version > 1 {
        return Some(format!("version {version} of the repository format"));
    }
    let sections = all.sections_by_name("extensions").into_iter().flatten();
    for section in sections.filter(|section| section.meta().source == Source::Local) {
        for key in section.value_names() {
            let name = key.to_string().to_ascii_lowercase();
            let value = section.value(&name).map(|value| value.to_str_lossy().to_ascii_lowercase());
            let is_known = match name.as_str() {
                "objectformat" => value.as_deref() == Some("sha1"),
                "refstorage" => value.as_deref() == Some("files"),
                name => KNOWN_EXTENSIONS.contains(&name),
            };
            if !is_known {
                return Some(format!("`extensions.{name} = {}`", value.unwrap_or_default()));
            }
        }
    }
    None
}

/// The configuration files of the system and the user, in git's order.
fn user_files(home: Option<&Path>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let without_system = env::var("GIT_CONFIG_NOSYSTEM");
    if !without_system.is_ok_and(|value| !matches!(value.as_str(), "" | "0" | "false" | "no" | "off")) {
        files.push(
            env::var_os("GIT_CONFIG_SYSTEM").map_or_else(|| PathBuf::from("/etc/gitconfig"), PathBuf::from),
        );
    }
    match env::var_os("GIT_CONFIG_GLOBAL") {
        Some(file) => files.push(PathBuf::from(file)),
        None => {
            files.extend(xdg(home).map(|folder| folder.join("git/config")));
            files.extend(home.map(|home| home.join(".gitconfig")));
        }
    }
    files.retain(|file| file.is_absolute());
    files
}

fn xdg(home: Option<&Path>) -> Option<PathBuf> {
    let named = env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).filter(|folder| folder.is_absolute());
    named.or_else(|| home.map(|home| home.join(".config")))
}

/// The branch that is checked out, by its full name.
fn head_branch(place: &GitRepository) -> Option<String> {
    small_text(&place.own.join("HEAD"))?.trim_end().strip_prefix("ref: ").map(|name| name.trim().to_owned())
}
