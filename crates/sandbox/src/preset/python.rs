//! Python: the interpreter, the virtual environment in a workspace, uv. Owns the folders in which an interpreter of a virtual
//! environment may be; an environment that leads elsewhere gets no grant there.

use std::path::{Component, Path, PathBuf};

use super::machine::{Machine, Manager, first_line, is_of_system, missing, tool_version};
use crate::error::SandboxError;
use crate::spec::{GrantedPath, Grants, HOME};

const MANAGERS: &[Manager] = &[
    Manager {
        variable: "PYENV_ROOT",
        folder: ".pyenv",
        shims: "shims",
        versions: "versions",
        default: Some("version"),
    },
    Manager {
        variable: "ASDF_DATA_DIR",
        folder: ".asdf",
        shims: "shims",
        versions: "installs/python",
        default: None,
    },
    Manager {
        variable: "MISE_DATA_DIR",
        folder: ".local/share/mise",
        shims: "shims",
        versions: "installs/python",
        default: None,
    },
];

/// Folders of interpreters below the home, in addition to those of the managers.
const CONDA: &[&str] = &["miniconda3", "anaconda3", "miniforge3", "mambaforge"];
/// The folder of a hosted runner's tools.
const HOSTED: &str = "/opt/hostedtoolcache";
const ENVIRONMENTS: &[&str] = &[".venv", "venv", "env"];
const MAX_LINKS: usize = 16;

impl Machine {
    pub(super) fn python(&self) -> Result<Grants, SandboxError> {
        let mut grants = Grants::default();
        self.interpreter(&mut grants, None)?;
        Ok(grants)
    }

    /// The grants of a folder with a Python project: its virtual environment if it has one, and uv if it is installed.
    pub(super) fn python_of(&self, folder: &Path) -> Result<Grants, SandboxError> {
        let mut grants = Grants::default();
        let environment = ENVIRONMENTS.iter().map(|name| folder.join(name)).find(|path| is_environment(path));
        let found = match &environment {
            Some(environment) => self.environment(&mut grants, environment),
            None => {
                let asked = first_line(&folder.join(".python-version"));
                let asked = asked.or_else(|| tool_version(&folder.join(".tool-versions"), "python "));
                self.interpreter(&mut grants, asked.as_deref())
            }
        };
        let uv = self.uv(&mut grants);
        self.add_cache(&mut grants, &self.folder("PIP_CACHE_DIR", ".cache/pip"), ".cache/pip");
        // uv brings its own interpreters.
        match (found, uv) {
            (Err(error), false) => Err(error),
            _ => Ok(grants),
        }
    }

    fn interpreter(&self, grants: &mut Grants, asked: Option<&str>) -> Result<(), SandboxError> {
        let program = self.on_path("python3").filter(|program| !self.is_shim(program, MANAGERS));
        let managed = || self.managed("python3", MANAGERS, asked);
        let picked = match asked {
            Some(_) => managed().or(program),
            None => program.or_else(managed),
        };
        let system = || {
            let folders = ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from);
            folders.into_iter().map(|folder| folder.join("python3")).find(|path| path.is_file())
        };
        let program = picked.or_else(system).ok_or_else(|| missing("python3"))?;
        self.add_program(grants, &program);
        if let Some(environment) = program.parent().and_then(Path::parent).filter(|path| is_environment(path))
        {
            self.add_prefix(grants, environment);
            grants.env.insert("VIRTUAL_ENV".into(), environment.into());
        }
        Ok(())
    }

    /// A virtual environment inside the workspace, which the view shows already, and the interpreter it was made from.
    fn environment(&self, grants: &mut Grants, environment: &Path) -> Result<(), SandboxError> {
        let python = environment.join("bin/python");
        for link in links(&python).into_iter().filter(|link| !link.starts_with(environment)) {
            if is_of_system(&link) {
                continue;
            }
            let holds = |root: &PathBuf| {
                link.starts_with(root) || root.canonicalize().is_ok_and(|real| link.starts_with(real))
            };
            let root = self.roots().into_iter().find(holds).ok_or_else(|| {
                SandboxError::InvalidSpec {
                    what: format!(
                        "`{}` leads to `{}`, which is in none of the folders that interpreters are installed in; \
                         recreate the environment with an installed interpreter, or grant that folder with `read`",
                        python.display(),
                        link.display()
                    ),
                }
            })?;
            grants.merge(Grants { read: vec![GrantedPath::same(root)], ..Grants::default() });
        }
        grants.merge(Grants { path: vec![environment.join("bin")], ..Grants::default() });
        grants.env.insert("VIRTUAL_ENV".into(), environment.into());
        Ok(())
    }

    /// The folders whose interpreters a virtual environment may use. None of them holds a credential.
    fn roots(&self) -> Vec<PathBuf> {
        let versions =
            |manager: &Manager| self.folder(manager.variable, manager.folder).join(manager.versions);
        let conda = CONDA
            .iter()
            .flat_map(|name| ["bin", "lib", "envs"].map(|part| self.home().join(name).join(part)));
        let mut roots: Vec<PathBuf> = MANAGERS.iter().map(versions).chain(conda).collect();
        roots.extend([self.uv_interpreters(), PathBuf::from(HOSTED)]);
        roots.retain(|root| root.is_dir());
        roots
    }

    fn uv_interpreters(&self) -> PathBuf {
        self.folder("UV_PYTHON_INSTALL_DIR", ".local/share/uv/python")
    }

    /// Grants uv with its cache and interpreters; whether it is installed.
    fn uv(&self, grants: &mut Grants) -> bool {
        let elsewhere = [".local/bin", ".cargo/bin"].map(|folder| self.home().join(folder));
        let Ok(uv) = self.find("uv", &elsewhere) else { return false };
        self.add_file(grants, &uv);
        self.add_cache(grants, &self.folder("UV_CACHE_DIR", ".cache/uv"), ".cache/uv");
        let interpreters = self.uv_interpreters();
        if interpreters.is_dir() {
            grants.merge(Grants { read: vec![GrantedPath::same(&interpreters)], ..Grants::default() });
            grants.env.insert("UV_PYTHON_INSTALL_DIR".into(), interpreters.into());
        }
        grants.env.insert("UV_CACHE_DIR".into(), Path::new(HOME).join(".cache/uv").into());
        grants.env.insert("UV_PYTHON_DOWNLOADS".into(), "never".into());
        // The cache and the workspace are different mounts inside.
        grants.env.insert("UV_LINK_MODE".into(), "copy".into());
        true
    }
}

/// Whether a folder is a virtual environment. A link to one is not: it is a path that a file of the workspace names.
fn is_environment(folder: &Path) -> bool {
    let is_folder = folder.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    is_folder && folder.join("pyvenv.cfg").is_file()
}

/// Every path that a link leads through, up to its target, with folders as the links name them and with their real paths.
fn links(path: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut here = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(target) = std::fs::read_link(&here) else { break };
        here = plain(&here.parent().unwrap_or(Path::new("/")).join(target));
        all.push(here.clone());
    }
    all.extend(path.canonicalize());
    all
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut all, part| {
        match part {
            Component::ParentDir => drop(all.pop()),
            Component::CurDir => {}
            part => all.push(part),
        }
        all
    })
}
