//! Grants by the name of a tool, so that nobody has to know its paths. Owns where python, node, rust and git
//! keep what they need; refuses to grant what holds credentials (cargo's `credentials.toml`, git's stored
//! passwords), or a home because a tool lies in it. Of settings that may hold some a filtered copy is given.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::SandboxError;
use crate::settings;
use crate::spec::{Grants, HOME, Place, Seed};

/// A tool whose grants are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preset {
    /// The interpreter that `python3` is on the `PATH`, with its packages; pyenv and virtual environments too.
    Python,
    /// The `node` on the `PATH`, with its global packages; npm's cache copy-on-write.
    Node,
    /// The rustup toolchains read-only, cargo's registry and git caches copy-on-write.
    Rust,
    /// Of the user's git configuration who they are and how lines end, without credentials, programs and includes.
    Git,
}

impl Preset {
    /// Every preset, by name.
    pub const ALL: [(&'static str, Self); 4] =
        [("python", Self::Python), ("node", Self::Node), ("rust", Self::Rust), ("git", Self::Git)];

    /// What the tool needs on this machine.
    ///
    /// # Errors
    /// When the tool is not on the `PATH`.
    pub fn grants(self) -> Result<Grants, SandboxError> {
        let machine = Machine {
            path: std::env::var_os("PATH").unwrap_or_default(),
            home: std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default(),
        };
        match self {
            Self::Python => machine.python(),
            Self::Node => machine.node(),
            Self::Rust => machine.rust(),
            Self::Git => machine.git(),
        }
    }
}

impl FromStr for Preset {
    type Err = SandboxError;

    fn from_str(text: &str) -> Result<Self, SandboxError> {
        let found = Self::ALL.iter().find(|(name, _)| *name == text).map(|(_, preset)| *preset);
        found.ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.iter().map(|(name, _)| *name).collect();
            SandboxError::InvalidSpec {
                what: format!("`{text}` is not a preset; known are {}", known.join(", ")),
            }
        })
    }
}

struct Machine {
    path: OsString,
    home: PathBuf,
}

impl Machine {
    fn find(&self, program: &str) -> Result<PathBuf, SandboxError> {
        let found = std::env::split_paths(&self.path)
            .filter(|d| d.is_absolute())
            .map(|d| d.join(program))
            .find(|p| p.is_file() && rustix::fs::access(p, rustix::fs::Access::EXEC_OK).is_ok());
        found.ok_or_else(|| SandboxError::InvalidSpec {
            what: format!("`{program}` is not on the PATH; install it or leave its preset off"),
        })
    }

    fn home_or(&self, variable: &str, name: &str) -> PathBuf {
        std::env::var_os(variable)
            .map(PathBuf::from)
            .filter(|p| p.is_absolute())
            .unwrap_or_else(|| self.home.join(name))
    }

    fn python(&self) -> Result<Grants, SandboxError> {
        let program = self.find("python3")?;
        let mut grants = Grants::default();
        let pyenv = self.home_or("PYENV_ROOT", ".pyenv");
        if program.starts_with(pyenv.join("shims")) {
            // The shim only picks a version; the version's own directory is all that is needed.
            let version =
                std::env::var("PYENV_VERSION").or_else(|_| std::fs::read_to_string(pyenv.join("version")));
            let version = version.unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned();
            let directory = pyenv.join("versions").join(&version);
            if !version.is_empty() && directory.join("bin/python3").exists() {
                self.add_prefix(&mut grants, &directory);
                return Ok(grants);
            }
            let system = Self { path: "/usr/local/bin:/usr/bin:/bin".into(), home: self.home.clone() };
            system.find("python3")?;
            return Ok(grants);
        }
        self.add_program(&mut grants, &program);
        let environment = program.parent().and_then(Path::parent).filter(|d| d.join("pyvenv.cfg").is_file());
        if let Some(environment) = environment {
            self.add_prefix(&mut grants, environment);
            grants.env.insert("VIRTUAL_ENV".into(), environment.into());
        }
        Ok(grants)
    }

    fn node(&self) -> Result<Grants, SandboxError> {
        let mut grants = Grants::default();
        self.add_program(&mut grants, &self.find("node")?);
        // Beside it lie logs of what npm did, with what it was called with.
        let cache = self.home_or("npm_config_cache", ".npm").join("_cacache");
        if cache.is_dir() {
            grants.copy_on_write.push(Place { from: cache, at: Path::new(HOME).join(".npm/_cacache") });
        }
        self.seed(&mut grants, &self.home.join(".npmrc"), ".npmrc", settings::npm);
        grants.env.insert("npm_config_update_notifier".into(), "false".into());
        Ok(grants)
    }

    fn rust(&self) -> Result<Grants, SandboxError> {
        let program = self.find("cargo")?;
        let mut grants = Grants::default();
        let inside = Path::new(HOME).join(".cargo");
        let cargo = self.home_or("CARGO_HOME", ".cargo");
        let rustup = self.home_or("RUSTUP_HOME", ".rustup");
        if program.starts_with(cargo.join("bin")) {
            grants.read.push(Place::same(cargo.join("bin")));
            grants.path.push(cargo.join("bin"));
            if rustup.is_dir() {
                grants.read.push(Place::same(&rustup));
                grants.env.insert("RUSTUP_HOME".into(), rustup.into());
            }
        } else {
            self.add_program(&mut grants, &program);
        }
        for name in ["registry", "git"] {
            if cargo.join(name).is_dir() {
                grants.copy_on_write.push(Place { from: cargo.join(name), at: inside.join(name) });
            }
        }
        self.seed(&mut grants, &cargo.join("config.toml"), ".cargo/config.toml", settings::cargo);
        grants.env.insert("CARGO_HOME".into(), inside.into());
        if let Some(toolchain) = std::env::var_os("RUSTUP_TOOLCHAIN") {
            grants.env.insert("RUSTUP_TOOLCHAIN".into(), toolchain);
        }
        Ok(grants)
    }

    fn git(&self) -> Result<Grants, SandboxError> {
        let mut grants = Grants::default();
        self.add_program(&mut grants, &self.find("git")?);
        for name in [".gitconfig", ".config/git/config"] {
            self.seed(&mut grants, &self.home.join(name), name, settings::git);
        }
        for name in [".config/git/ignore", ".config/git/attributes"] {
            let file = self.home.join(name);
            if file.is_file() {
                grants.read.push(Place { from: file, at: Path::new(HOME).join(name) });
            }
        }
        Ok(grants)
    }

    /// Gives a filtered copy of a file of settings, if anything of it passes.
    fn seed(&self, grants: &mut Grants, from: &Path, inside: &str, filter: fn(&str) -> String) {
        let Ok(seed) = Seed::from_file(from, Path::new(HOME).join(inside)) else { return };
        let passed = filter(&String::from_utf8_lossy(&seed.content));
        if !passed.is_empty() {
            grants.seeds.push(Seed::new(seed.at, passed));
        }
    }

    /// Grants the directory a program is installed in, unless it is one of the system's, which are always there.
    fn add_program(&self, grants: &mut Grants, program: &Path) {
        let real = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
        for path in [program, &real] {
            if let Some(prefix) = path.parent().filter(|d| d.ends_with("bin")).and_then(Path::parent) {
                self.add_prefix(grants, prefix);
            }
        }
    }

    fn add_prefix(&self, grants: &mut Grants, prefix: &Path) {
        let system = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/nix/store"];
        if prefix == Path::new("/") || system.iter().any(|s| prefix.starts_with(s)) {
            return;
        }
        let directories = if self.holds_more_than_tools(prefix) {
            vec![prefix.join("bin"), prefix.join("lib")]
        } else {
            vec![prefix.to_path_buf()]
        };
        let wanted = directories.into_iter().filter(|directory| directory.is_dir()).map(Place::same);
        grants.merge(Grants { read: wanted.collect(), path: vec![prefix.join("bin")], ..Grants::default() });
    }

    /// Whether it is the home, around it, or what tools share with everything else in the home.
    fn holds_more_than_tools(&self, prefix: &Path) -> bool {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        let (home, prefix) = (real(&self.home), real(prefix));
        home.starts_with(&prefix) || prefix == home.join(".local")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_tool_in_the_home_does_not_bring_the_home() {
        let base = std::env::temp_dir().join(format!("crealeph-preset-{}", std::process::id()));
        let home = base.join("home");
        for (prefix, expected) in [
            ("", &["bin", "lib"][..]),
            (".local", &[".local/bin", ".local/lib"]),
            (".local/share/node-24", &[".local/share/node-24"]),
        ] {
            let bin = home.join(prefix).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            std::fs::create_dir_all(home.join(prefix).join("lib")).unwrap();
            std::fs::write(bin.join("node"), "").unwrap();
            std::fs::set_permissions(bin.join("node"), std::fs::Permissions::from_mode(0o755)).unwrap();
            let grants = Machine { path: bin.clone().into(), home: home.clone() }.node().unwrap();
            let read: Vec<PathBuf> = grants.read.into_iter().map(|place| place.from).collect();
            assert_eq!(read, expected.iter().map(|path| home.join(path)).collect::<Vec<_>>(), "{prefix}");
            assert_eq!(grants.path, [bin]);
        }
        std::fs::remove_dir_all(&base).unwrap();
    }
}
