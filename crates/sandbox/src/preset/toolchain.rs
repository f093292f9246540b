//! Toolchains that a workspace's files ask for: detected, not configured. Owns which files ask for which tool, and how deep a
//! workspace is searched. The grants of a toolchain are below a fixed list of folders per tool; no file of the workspace
//! can name a path, and no file with credentials is among them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Preset;
use super::machine::Machine;
use crate::error::SandboxError;
use crate::spec::Grants;

/// Files that ask for a tool by their name.
const MARKERS: &[(&str, Preset)] = &[
    ("Cargo.toml", Preset::Rust),
    ("package.json", Preset::Node),
    ("go.mod", Preset::Go),
    ("pyproject.toml", Preset::Python),
    ("uv.lock", Preset::Python),
    ("setup.py", Preset::Python),
    ("setup.cfg", Preset::Python),
    ("requirements.txt", Preset::Python),
    ("tox.ini", Preset::Python),
    ("pytest.ini", Preset::Python),
    ("Pipfile", Preset::Python),
    (".python-version", Preset::Python),
    (".venv", Preset::Python),
    ("venv", Preset::Python),
];
/// Folders that contain other people's projects.
const SKIPPED: &[&str] = &["node_modules", "target", "vendor", "dist", "build", "third_party"];
/// Projects are searched for in the workspace's folder, and in this many folders of it.
const MAX_FOLDERS: usize = 256;

/// A toolchain that a workspace asks for.
#[derive(Debug)]
pub struct Toolchain {
    /// The tool.
    pub preset: Preset,
    /// The file that asks for it, relative to the workspace.
    pub marker: PathBuf,
    /// Its grants on this machine, or why they are not possible.
    pub grants: Result<Grants, SandboxError>,
}

/// The toolchains that the projects in a workspace ask for, each once: of its own folder, and of the folders in it.
pub fn find_toolchains(workspace: &Path) -> Vec<Toolchain> {
    find(&Machine::here(), workspace)
}

fn find(machine: &Machine, workspace: &Path) -> Vec<Toolchain> {
    let mut asked: BTreeMap<Preset, PathBuf> = BTreeMap::new();
    for folder in std::iter::once(workspace.to_owned()).chain(inner(workspace)) {
        for (name, preset) in MARKERS {
            let marker = folder.join(name);
            if !asked.contains_key(preset) && marker.symlink_metadata().is_ok() {
                asked.insert(*preset, marker);
            }
        }
    }
    let toolchain = |(preset, marker): (Preset, PathBuf)| {
        let folder = marker.parent().unwrap_or(workspace);
        let grants = match preset {
            Preset::Python => machine.python_of(folder),
            Preset::Node => machine.node(Some(folder)),
            Preset::Go => machine.go(),
            Preset::Rust => machine.rust(),
            Preset::Git => machine.git(),
        };
        let marker = marker.strip_prefix(workspace).unwrap_or(&marker).to_owned();
        Toolchain { preset, marker, grants }
    };
    asked.into_iter().map(toolchain).collect()
}

/// The folders of a workspace that may hold a separate project, in the order of their names.
fn inner(workspace: &Path) -> Vec<PathBuf> {
    let Ok(items) = std::fs::read_dir(workspace) else { return Vec::new() };
    let is_project = |item: &std::fs::DirEntry| {
        let name = item.file_name();
        let name = name.to_string_lossy();
        item.file_type().is_ok_and(|kind| kind.is_dir())
            && !name.starts_with('.')
            && !SKIPPED.contains(&&*name)
    };
    let mut folders: Vec<PathBuf> =
        items.flatten().filter(is_project).map(|item| item.path()).take(MAX_FOLDERS).collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::spec::HOME;

    /// A home with tools in it, and a workspace.
    struct Sample {
        base: tempfile::TempDir,
    }

    impl Sample {
        fn new(programs: &[&str], files: &[(&str, &str)]) -> Sample {
            let base = tempfile::tempdir().unwrap();
            fs::create_dir_all(base.path().join("home")).unwrap();
            fs::create_dir_all(base.path().join("work")).unwrap();
            for program in programs {
                let path = base.path().join("home").join(program);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            for (name, text) in files {
                let path = base.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Sample { base }
        }

        fn home(&self, path: &str) -> PathBuf {
            self.base.path().join("home").join(path)
        }

        fn find(&self) -> Vec<Toolchain> {
            let nothing = self.base.path().join("nothing");
            find(&Machine::sample(&self.home(""), &nothing), &self.base.path().join("work"))
        }

        fn only(&self) -> Grants {
            let [toolchain]: [Toolchain; 1] = self.find().try_into().unwrap();
            toolchain.grants.unwrap()
        }

        fn refusal(&self) -> String {
            let [toolchain]: [Toolchain; 1] = self.find().try_into().unwrap();
            toolchain.grants.unwrap_err().to_string()
        }
    }

    fn read(grants: &Grants) -> Vec<&Path> {
        grants.read.iter().map(|place| place.from.as_path()).collect()
    }

    #[test]
    fn rustup_is_found_without_a_path_and_without_credentials() {
        let sample = Sample::new(
            &[".cargo/bin/cargo", ".rustup/toolchains/stable/bin/rustc"],
            &[
                ("home/.cargo/credentials.toml", "x"),
                ("home/.cargo/registry/index", ""),
                ("work/Cargo.toml", ""),
            ],
        );
        let grants = sample.only();
        assert_eq!(read(&grants), [sample.home(".cargo/bin"), sample.home(".rustup")]);
        assert_eq!(grants.path, [sample.home(".cargo/bin")]);
        let cache = grants.copy_on_write.first().unwrap();
        assert_eq!(
            (&cache.from, &cache.at),
            (&sample.home(".cargo/registry"), &Path::new(HOME).join(".cargo/registry"))
        );
    }

    #[test]
    fn nvm_and_pyenv_give_the_version_that_the_workspace_asks_for_else_the_default_else_the_newest() {
        let node = &[
            ".nvm/versions/node/v9.1.0/bin/node",
            ".nvm/versions/node/v18.2.0/bin/node",
            ".nvm/versions/node/v20.1.0/bin/node",
        ];
        let python = &[
            ".pyenv/versions/3.9.1/bin/python3",
            ".pyenv/versions/3.12.0/bin/python3",
            ".pyenv/shims/python3",
        ];
        for (programs, files, expected) in [
            (&node[..], &[("work/package.json", "{}")][..], ".nvm/versions/node/v20.1.0"),
            (
                node,
                &[("work/package.json", "{}"), ("home/.nvm/alias/default", "18")],
                ".nvm/versions/node/v18.2.0",
            ),
            (node, &[("work/package.json", "{}"), ("work/.nvmrc", "v9\n")], ".nvm/versions/node/v9.1.0"),
            (
                node,
                &[("work/package.json", "{}"), ("work/.nvmrc", "../../../x")],
                ".nvm/versions/node/v20.1.0",
            ),
            (
                node,
                &[("work/package.json", "{}"), ("work/.tool-versions", "nodejs 18.2.0")],
                ".nvm/versions/node/v18.2.0",
            ),
            (python, &[("work/setup.py", ""), ("work/.python-version", "3.9")], ".pyenv/versions/3.9.1"),
            (python, &[("work/setup.py", ""), ("work/.python-version", "3.12.0")], ".pyenv/versions/3.12.0"),
        ] {
            let sample = Sample::new(programs, files);
            assert_eq!(read(&sample.only()), [sample.home(expected)], "{files:?}");
        }
    }

    #[test]
    fn go_is_found_where_its_own_installer_puts_it() {
        let sample = Sample::new(
            &["sdk/go1.9.7/bin/go", "sdk/go1.22.1/bin/go", "go/bin/gotestsum"],
            &[("work/go.mod", ""), ("home/go/pkg/mod/cache/lock", "")],
        );
        let grants = sample.only();
        assert_eq!(read(&grants), [sample.home("sdk/go1.22.1"), sample.home("go/bin")]);
        let cache = grants.copy_on_write.first().unwrap();
        assert_eq!(
            (&cache.from, &cache.at),
            (&sample.home("go/pkg/mod"), &Path::new(HOME).join("go/pkg/mod"))
        );
    }

    #[test]
    fn a_manager_that_leaves_it_to_the_system_gives_no_version() {
        let sample = Sample::new(
            &[".nodenv/versions/20.1.0/bin/node"],
            &[("work/package.json", "{}"), ("home/.nodenv/version", "system\n")],
        );
        assert!(sample.refusal().contains("`node` is not on the PATH"), "{}", sample.refusal());
    }

    #[test]
    fn interpreters_behind_a_linked_folder_are_found() {
        let sample =
            Sample::new(&["disk/pyenv/versions/3.12.0/bin/python3"], &[("work/.venv/pyvenv.cfg", "")]);
        symlink(sample.home("disk/pyenv"), sample.home(".pyenv")).unwrap();
        fs::create_dir(sample.base.path().join("work/.venv/bin")).unwrap();
        let python = sample.base.path().join("work/.venv/bin/python");
        symlink(sample.home(".pyenv/versions/3.12.0/bin/python3"), python).unwrap();
        assert_eq!(read(&sample.only()), [sample.home(".pyenv/versions")]);
    }

    #[test]
    fn the_interpreter_of_a_virtual_environment_is_granted_from_known_folders_alone() {
        let sample = Sample::new(
            &[".local/share/uv/python/cpython-3.12.1/bin/python3.12", "secrets/bin/python3"],
            &[("work/.venv/pyvenv.cfg", "home = /elsewhere\n"), ("work/.venv/bin/pytest", "")],
        );
        let python = sample.base.path().join("work/.venv/bin/python");
        symlink(sample.home(".local/share/uv/python/cpython-3.12/bin/python3.12"), &python).unwrap();
        symlink("cpython-3.12.1", sample.home(".local/share/uv/python/cpython-3.12")).unwrap();
        let grants = sample.only();
        assert_eq!(read(&grants), [sample.home(".local/share/uv/python")]);
        assert_eq!(grants.path, [sample.base.path().join("work/.venv/bin")]);
        fs::remove_file(&python).unwrap();
        symlink(sample.home("secrets/bin/python3"), &python).unwrap();
        assert!(sample.refusal().contains("none of the folders"), "{}", sample.refusal());
        fs::remove_file(&python).unwrap();
        let climbing = sample.home(".local/share/uv/python/../../../../secrets/bin/python3");
        symlink(climbing, &python).unwrap();
        assert!(sample.refusal().contains("none of the folders"), "{}", sample.refusal());
    }

    #[test]
    fn a_virtual_environment_that_is_a_link_is_not_one() {
        let sample = Sample::new(
            &[".pyenv/versions/3.12.0/bin/python3"],
            &[("home/private/pyvenv.cfg", ""), ("work/pyproject.toml", "")],
        );
        symlink(sample.home("private"), sample.base.path().join("work/.venv")).unwrap();
        assert_eq!(read(&sample.only()), [sample.home(".pyenv/versions/3.12.0")]);
    }

    #[test]
    fn projects_in_folders_count_and_their_packages_do_not() {
        let sample = Sample::new(
            &[".nvm/versions/node/v20.1.0/bin/node", "sdk/go1.22.1/bin/go", "go/bin/gotestsum"],
            &[
                ("work/site/package.json", "{}"),
                ("work/node_modules/x/go.mod", ""),
                ("work/.hidden/Cargo.toml", ""),
            ],
        );
        let found = sample.find();
        let markers: Vec<&Path> = found.iter().map(|toolchain| toolchain.marker.as_path()).collect();
        assert_eq!(markers, [Path::new("site/package.json")]);
    }

    #[test]
    fn a_tool_that_is_not_installed_is_named() {
        let sample = Sample::new(&[], &[("work/Cargo.toml", "")]);
        assert!(sample.refusal().contains("`cargo` is not on the PATH"), "{}", sample.refusal());
    }
}
