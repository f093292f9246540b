//! Where this machine keeps a tool: the `PATH`, and the folders that version managers install into. Owns the fixed list of
//! those folders; a version that a workspace's file requests is a name among the installed ones, never a path.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::error::SandboxError;
use crate::spec::{GrantedPath, Grants, HOME, Seed};

/// Folders that are visible in every sandbox.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store"];
/// Folders that are on the `PATH` of every sandbox.
const SYSTEM_PATH: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];
const MAX_SETTINGS_BYTES: usize = 64 << 10;
/// The manager's name for the version that it did not install.
const SYSTEM_VERSION: &str = "system";
/// The longest name of a version.
const MAX_VERSION_BYTES: usize = 64;
/// How many installed versions are looked at.
const MAX_VERSIONS: usize = 1_000;

/// A program that installs several versions of a tool side by side.
pub(super) struct Manager {
    /// The variable that sets its folder.
    pub(super) variable: &'static str,
    /// Its folder below the home.
    pub(super) folder: &'static str,
    /// The folder of its shims, which only choose a version.
    pub(super) shims: &'static str,
    /// The folder of the versions, each with a `bin`.
    pub(super) versions: &'static str,
    /// The file that names the version used by default.
    pub(super) default: Option<&'static str>,
}

/// The parts of the environment that say where tools are.
pub(super) struct Machine {
    path: OsString,
    home: PathBuf,
    variable: fn(&str) -> Option<OsString>,
}

impl Machine {
    pub(super) fn here() -> Self {
        let variable = |name: &str| std::env::var_os(name);
        // Without a home nothing is found in one; a relative path would lead into the workspace.
        let home = variable("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
        let home = home.unwrap_or_else(|| PathBuf::from("/nonexistent"));
        Self { path: variable("PATH").unwrap_or_default(), home, variable }
    }

    pub(super) fn home(&self) -> &Path {
        &self.home
    }

    pub(super) fn variable(&self, name: &str) -> Option<OsString> {
        (self.variable)(name)
    }

    /// The folder that a variable names, else the one of this name in the home.
    pub(super) fn folder(&self, variable: &str, name: &str) -> PathBuf {
        let named = self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        named.unwrap_or_else(|| self.home.join(name))
    }

    /// The program of this name on the `PATH`.
    pub(super) fn on_path(&self, program: &str) -> Option<PathBuf> {
        let folders = std::env::split_paths(&self.path).filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(program)).find(|path| is_program(path))
    }

    /// The program on the `PATH`, or in the first of `elsewhere` that has it.
    pub(super) fn find(&self, program: &str, elsewhere: &[PathBuf]) -> Result<PathBuf, SandboxError> {
        let further = || elsewhere.iter().map(|folder| folder.join(program)).find(|path| is_program(path));
        self.on_path(program).or_else(further).ok_or_else(|| missing(program))
    }

    /// The program in the version that a manager would choose: the requested one, else the manager's default, else
    /// the newest. The manager whose shim is on the `PATH` comes first.
    pub(super) fn managed(
        &self,
        program: &str,
        managers: &[Manager],
        asked: Option<&str>,
    ) -> Option<PathBuf> {
        let on_path = self.on_path(program);
        let is_first = |manager: &&Manager| {
            let shims = self.folder(manager.variable, manager.folder).join(manager.shims);
            on_path.as_ref().is_some_and(|path| path.starts_with(shims))
        };
        let (first, rest): (Vec<_>, Vec<_>) = managers.iter().partition(is_first);
        first.into_iter().chain(rest).find_map(|manager| {
            let folder = self.folder(manager.variable, manager.folder);
            let default = manager.default.and_then(|file| first_line(&folder.join(file)));
            if asked.is_none() && default.as_deref() == Some(SYSTEM_VERSION) {
                return None;
            }
            let version = |name: Option<&str>| installed(&folder.join(manager.versions), name, program);
            asked
                .and_then(|name| version(Some(name)))
                .or_else(|| version(default.as_deref()))
                .or_else(|| version(None))
        })
    }

    /// Whether a program is a manager's shim.
    pub(super) fn is_shim(&self, program: &Path, managers: &[Manager]) -> bool {
        managers.iter().filter(|manager| !manager.shims.is_empty()).any(|manager| {
            program.starts_with(self.folder(manager.variable, manager.folder).join(manager.shims))
        })
    }

    /// Gives a filtered copy of a file of settings, if any of them pass.
    pub(super) fn seed(&self, grants: &mut Grants, from: &Path, inside: &str, filter: fn(&str) -> String) {
        let Ok(seed) = Seed::from_file(from, Path::new(HOME).join(inside)) else { return };
        let passed = filter(&String::from_utf8_lossy(&seed.content));
        if !passed.is_empty() {
            grants.seeds.push(Seed::new(seed.at, passed));
        }
    }

    /// Grants the directory a program is installed in.
    pub(super) fn add_program(&self, grants: &mut Grants, program: &Path) {
        let real = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
        for path in [program, &real] {
            if let Some(prefix) =
                path.parent().filter(|folder| folder.ends_with("bin")).and_then(Path::parent)
            {
                self.add_prefix(grants, prefix);
            }
        }
    }

    /// Grants an installation, and puts its programs on the `PATH`. The system's are visible in any case.
    pub(super) fn add_prefix(&self, grants: &mut Grants, prefix: &Path) {
        let programs = prefix.join("bin");
        if is_of_system(prefix) {
            if !SYSTEM_PATH.iter().any(|folder| programs == Path::new(folder)) {
                grants.merge(Grants { path: vec![programs], ..Grants::default() });
            }
            return;
        }
        let directories = match self.holds_more_than_tools(prefix) {
            true => vec![programs.clone(), prefix.join("lib")],
            false => vec![prefix.to_path_buf()],
        };
        let wanted = directories.into_iter().filter(|directory| directory.is_dir()).map(GrantedPath::same);
        grants.merge(Grants { read: wanted.collect(), path: vec![programs], ..Grants::default() });
    }

    /// Grants one program, and nothing next to it.
    pub(super) fn add_file(&self, grants: &mut Grants, program: &Path) {
        if let Some(folder) = program.parent() {
            let read = if is_of_system(program) { Vec::new() } else { vec![GrantedPath::same(program)] };
            grants.merge(Grants { read, path: vec![folder.to_owned()], ..Grants::default() });
        }
    }

    /// Shows a cache of the user's as a writable copy, at the path where the tool looks inside.
    pub(super) fn add_cache(&self, grants: &mut Grants, from: &Path, inside: &str) {
        if from.is_dir() {
            grants
                .copy_on_write
                .push(GrantedPath { from: from.to_owned(), at: Path::new(HOME).join(inside) });
        }
    }

    /// Whether it is the home, a parent of it, or a folder that tools share with everything else in the home.
    fn holds_more_than_tools(&self, prefix: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let (home, prefix) = (real(&self.home), real(prefix));
        home.starts_with(&prefix) || prefix == home.join(".local")
    }

    #[cfg(test)]
    pub(super) fn sample(home: &Path, path: &Path) -> Self {
        Self { path: path.into(), home: home.to_owned(), variable: |_| None }
    }
}

/// Whether a path is visible in every sandbox.
pub(super) fn is_of_system(path: &Path) -> bool {
    path == Path::new("/") || SYSTEM.iter().any(|system| path.starts_with(system))
}

pub(super) fn missing(program: &str) -> SandboxError {
    SandboxError::InvalidSpec {
        what: format!("`{program}` is not on the PATH; install it or leave its preset off"),
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// A version that a file names on its first line: a name, with nothing in it that could lead elsewhere.
pub(super) fn first_line(file: &Path) -> Option<String> {
    let text = std::fs::read(file).ok().filter(|bytes| bytes.len() <= MAX_SETTINGS_BYTES)?;
    let text = String::from_utf8(text).ok()?;
    version_name(text.lines().next()?.trim()).map(str::to_owned)
}

/// The version that a line `TOOL VERSION` of asdf's and mise's file names.
pub(super) fn tool_version(file: &Path, tool: &str) -> Option<String> {
    let text = std::fs::read(file).ok().filter(|bytes| bytes.len() <= MAX_SETTINGS_BYTES)?;
    let text = String::from_utf8(text).ok()?;
    let version = text.lines().find_map(|line| line.trim().strip_prefix(tool)?.split_whitespace().next());
    version.and_then(version_name).map(str::to_owned)
}

fn version_name(text: &str) -> Option<&str> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_+".contains(&byte);
    let is_version = !text.is_empty() && text.len() <= MAX_VERSION_BYTES && !text.starts_with('.');
    (is_version && text.bytes().all(is_name)).then_some(text)
}

/// The program of the version of this name or with this prefix; of the newest, if no name is given.
fn installed(versions: &Path, name: Option<&str>, program: &str) -> Option<PathBuf> {
    let has = |folder: &PathBuf| is_program(&folder.join("bin").join(program));
    let bare = |name: &str| {
        ["v", "go"].into_iter().find_map(|prefix| name.strip_prefix(prefix)).unwrap_or(name).to_owned()
    };
    let all = std::fs::read_dir(versions).ok()?.take(MAX_VERSIONS).flatten();
    let all = all
        .map(|item| (bare(&item.file_name().to_string_lossy()), item.path()))
        .filter(|(_, path)| has(path));
    let fits = |version: &str| match name.map(bare) {
        Some(name) => version == name || version.starts_with(&format!("{name}.")),
        None => !numbers(version).is_empty(),
    };
    let newest = all.filter(|(version, _)| fits(version)).max_by_key(|(version, _)| numbers(version));
    newest.map(|(_, folder)| folder.join("bin").join(program))
}

/// The numbers of a dotted version; none if it is a name.
fn numbers(version: &str) -> Vec<u64> {
    version.split('.').map_while(|part| part.parse().ok()).collect()
}
