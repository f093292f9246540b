//! Go: the toolchain, its module and build caches, and the programs that it installed.

use std::path::{Path, PathBuf};

use super::machine::{Machine, Manager};
use crate::error::SandboxError;
use crate::spec::{GrantedPath, Grants, HOME};

const MANAGERS: &[Manager] = &[
    Manager {
        variable: "GOENV_ROOT",
        folder: ".goenv",
        shims: "shims",
        versions: "versions",
        default: Some("version"),
    },
    Manager { variable: "", folder: "sdk", shims: "", versions: "", default: None },
];

impl Machine {
    pub(super) fn go(&self) -> Result<Grants, SandboxError> {
        let on_path = self.on_path("go").filter(|program| !self.is_shim(program, MANAGERS));
        let managed = on_path.or_else(|| self.managed("go", MANAGERS, None));
        let program = match managed {
            Some(program) => program,
            None => self.find("go", &[PathBuf::from("/usr/local/go/bin")])?,
        };
        let mut grants = Grants::default();
        self.add_program(&mut grants, &program);
        let inside = Path::new(HOME).join("go");
        let packages = self.folder("GOPATH", "go");
        let modules = match self.variable("GOMODCACHE").map(PathBuf::from) {
            Some(folder) if folder.is_absolute() => folder,
            _ => packages.join("pkg/mod"),
        };
        self.add_cache(&mut grants, &modules, "go/pkg/mod");
        self.add_cache(&mut grants, &self.folder("GOCACHE", ".cache/go-build"), ".cache/go-build");
        let programs = packages.join("bin");
        if programs.is_dir() {
            grants.merge(Grants {
                read: vec![GrantedPath::same(&programs)],
                path: vec![programs],
                ..Grants::default()
            });
        }
        grants.env.insert("GOMODCACHE".into(), inside.join("pkg/mod").into());
        grants.env.insert("GOPATH".into(), inside.into());
        grants.env.insert("GOCACHE".into(), Path::new(HOME).join(".cache/go-build").into());
        Ok(grants)
    }
}
