//! Grants by the name of a tool, so that no one has to know its paths. Owns where python, node, rust, go and git
//! keep what they need; refuses to grant files with credentials (cargo's `credentials.toml`, git's stored
//! passwords), or a home because a tool is in it. Settings that may contain some are given as a filtered copy.

mod go;
mod machine;
mod node;
mod python;
mod toolchain;

use std::path::Path;
use std::str::FromStr;

use machine::Machine;
pub use toolchain::{Toolchain, find_toolchains};

use crate::error::SandboxError;
use crate::settings;
use crate::spec::{GrantedPath, Grants, HOME};

/// A tool whose grants are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preset {
    /// The interpreter that `python3` is on the `PATH`, with its packages; pyenv and virtual environments too.
    Python,
    /// The `node` on the `PATH`, with its global packages; npm's cache copy-on-write.
    Node,
    /// The `go` on the `PATH` or where it is usually installed; its module and build caches copy-on-write.
    Go,
    /// The rustup toolchains read-only, cargo's registry and git caches copy-on-write.
    Rust,
    /// Identity and line ends from the user's git configuration, without credentials, programs and includes.
    Git,
}

impl Preset {
    /// Every preset, by name.
    pub const ALL: [(&'static str, Self); 5] = [
        ("python", Self::Python),
        ("node", Self::Node),
        ("go", Self::Go),
        ("rust", Self::Rust),
        ("git", Self::Git),
    ];

    /// The tool's grants on this machine.
    ///
    /// # Errors
    /// If the tool is not installed.
    pub fn grants(self) -> Result<Grants, SandboxError> {
        let machine = Machine::here();
        match self {
            Self::Python => machine.python(),
            Self::Node => machine.node(None),
            Self::Go => machine.go(),
            Self::Rust => machine.rust(),
            Self::Git => machine.git(),
        }
    }

    /// The name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::Node => "node",
            Self::Go => "go",
            Self::Rust => "rust",
            Self::Git => "git",
        }
    }

    /// Variables that keep the tool from trying a network that does not exist: it uses its caches, however old
    /// they are, and says so if that is not enough.
    pub fn offline_variables(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Python => &[("UV_OFFLINE", "1")],
            Self::Node => &[("npm_config_offline", "true")],
            Self::Go => &[("GOPROXY", "off")],
            Self::Rust => &[("CARGO_NET_OFFLINE", "true")],
            Self::Git => &[],
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

impl Machine {
    fn rust(&self) -> Result<Grants, SandboxError> {
        let cargo = self.folder("CARGO_HOME", ".cargo");
        let program = self.find("cargo", &[cargo.join("bin")])?;
        let mut grants = Grants::default();
        let inside = Path::new(HOME).join(".cargo");
        let rustup = self.folder("RUSTUP_HOME", ".rustup");
        if program.starts_with(cargo.join("bin")) {
            grants.read.push(GrantedPath::same(cargo.join("bin")));
            grants.path.push(cargo.join("bin"));
            if rustup.is_dir() {
                grants.read.push(GrantedPath::same(&rustup));
                grants.env.insert("RUSTUP_HOME".into(), rustup.into());
            }
        } else {
            self.add_program(&mut grants, &program);
        }
        for name in ["registry", "git"] {
            self.add_cache(&mut grants, &cargo.join(name), &format!(".cargo/{name}"));
        }
        self.seed(&mut grants, &cargo.join("config.toml"), ".cargo/config.toml", settings::cargo);
        grants.env.insert("CARGO_HOME".into(), inside.into());
        if let Some(toolchain) = self.variable("RUSTUP_TOOLCHAIN") {
            grants.env.insert("RUSTUP_TOOLCHAIN".into(), toolchain);
        }
        Ok(grants)
    }

    fn git(&self) -> Result<Grants, SandboxError> {
        let mut grants = Grants::default();
        self.add_program(&mut grants, &self.find("git", &[])?);
        for name in [".gitconfig", ".config/git/config"] {
            self.seed(&mut grants, &self.home().join(name), name, settings::git);
        }
        for name in [".config/git/ignore", ".config/git/attributes"] {
            let file = self.home().join(name);
            if file.is_file() {
                grants.read.push(GrantedPath { from: file, at: Path::new(HOME).join(name) });
            }
        }
        Ok(grants)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use std::os::unix::fs::PermissionsExt as _;
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_tool_in_the_home_does_not_grant_the_home() {
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
            let grants = Machine::sample(&home, &bin).node(None).unwrap();
            let read: Vec<PathBuf> = grants.read.into_iter().map(|place| place.from).collect();
            assert_eq!(read, expected.iter().map(|path| home.join(path)).collect::<Vec<_>>(), "{prefix}");
            assert_eq!(grants.path, [bin]);
        }
        std::fs::remove_dir_all(&base).unwrap();
    }
}
