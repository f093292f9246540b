//! The files that tidy judges, read once and parsed once.
//!
//! [`Files`] is what git calls the project: tracked files and new ones that are not ignored.
//! [`Repository`] borrows from it the views the checks need: text, Rust tokens, manifests.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::dependencies::{ResolvedPackage, resolved_packages};
use super::rust_source::RustFile;
use crate::failure::{Failure, Outcome};
use crate::manifest;
use crate::process;
use crate::temporary::TemporaryFolder;

pub(super) struct Files {
    /// The bytes of every file by its path from the root, with `/` between folders.
    files: BTreeMap<String, Vec<u8>>,
    /// The `cargo metadata` of the workspace, if it was read.
    metadata: Option<Vec<u8>>,
}

impl Files {
    pub(super) fn of(root: &Path) -> Outcome<Files> {
        let mut files = BTreeMap::new();
        for path in listed(root)?.split(|byte| *byte == 0) {
            let path = String::from_utf8_lossy(path).into_owned();
            let full = root.join(&path);
            // Deleted but not yet committed, a symlink or a submodule: not a text of ours.
            if !path.is_empty() && fs::symlink_metadata(&full).is_ok_and(|file| file.is_file()) {
                files.insert(path, fs::read(&full).map_err(Failure::file("read", &full))?);
            }
        }
        Ok(Files { files, metadata: None })
    }

    #[cfg(test)]
    pub(super) fn sample(files: &[(&str, &str)]) -> Files {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()));
        Files { files: files.collect(), metadata: None }
    }

    /// With the `cargo metadata` of the workspace.
    pub(super) fn with_metadata(self, metadata: Vec<u8>) -> Files {
        Files { metadata: Some(metadata), ..self }
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }
}

/// Paths separated by NUL.
fn listed(root: &Path) -> Outcome<Vec<u8>> {
    let others = ["ls-files", "-z", "--others", "--exclude-standard"];
    if root.join(".git").exists() {
        // The checkout may belong to someone else, as it does when a container mounts it; listing is safe.
        return process::capture(git(root, &["-c", "safe.directory=*"]).args(others).arg("--cached"));
    }
    // An unpacked archive: an empty repository makes every file that is not ignored a new one.
    let empty = TemporaryFolder::create()?;
    process::capture(&mut git(empty.path(), &["init", "--quiet", "--bare", "."]))?;
    process::capture(git(root, &["--work-tree=.", "--git-dir"]).arg(empty.path()).args(others))
}

/// Git in the folder it is started in, also when a hook of another repository started us.
fn git(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = process::program(folder, "git", arguments);
    for variable in ["GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE"] {
        command.env_remove(variable);
    }
    command
}

pub(super) struct Repository<'a> {
    /// Every path, whatever the file contains.
    pub(super) paths: Vec<&'a str>,
    /// Every file that is UTF-8.
    pub(super) texts: Vec<Text<'a>>,
    pub(super) rust: Vec<RustFile<'a>>,
    pub(super) manifests: Vec<Manifest<'a>>,
    /// All dependencies of the workspace.
    pub(super) packages: Vec<ResolvedPackage>,
}

pub(super) struct Text<'a> {
    pub(super) path: &'a str,
    pub(super) text: &'a str,
}

impl<'a> Repository<'a> {
    pub(super) fn parse(files: &'a Files) -> Outcome<Repository<'a>> {
        let paths = files.files.keys().map(String::as_str).collect();
        let texts: Vec<Text<'a>> = files
            .files
            .iter()
            .filter_map(|(path, bytes)| Some(Text { path, text: std::str::from_utf8(bytes).ok()? }))
            .collect();
        let rust = texts
            .iter()
            .filter(|file| file.path.ends_with(".rs"))
            .map(|file| RustFile::parse(file.path, file.text))
            .collect();
        let manifests = texts
            .iter()
            .filter(|file| file_name(file.path) == "Cargo.toml")
            .map(|file| Manifest::parse(file.path, file.text))
            .collect::<Outcome<_>>()?;
        let packages = files.metadata.as_deref().map(resolved_packages).transpose()?.unwrap_or_default();
        Ok(Repository { paths, texts, rust, manifests, packages })
    }

    pub(super) fn text(&self, path: &str) -> Option<&'a str> {
        self.texts.iter().find(|file| file.path == path).map(|file| file.text)
    }

    pub(super) fn root_manifest(&self) -> Option<&Manifest<'a>> {
        self.manifests.iter().find(|manifest| manifest.folder().is_empty())
    }

    /// The manifests of the root workspace's members.
    pub(super) fn members(&self) -> impl Iterator<Item = &Manifest<'a>> {
        let patterns: Vec<&str> = self
            .root_manifest()
            .and_then(|root| root.table.get("workspace")?.get("members")?.as_array())
            .into_iter()
            .flatten()
            .filter_map(toml::Value::as_str)
            .collect();
        self.manifests.iter().filter(move |manifest| {
            let folder = manifest.folder();
            let parent = folder.rsplit_once('/').map_or("", |(parent, _)| parent);
            patterns.iter().any(|pattern| match pattern.strip_suffix("/*") {
                Some(prefix) => parent == prefix,
                None => folder == *pattern,
            })
        })
    }
}

pub(super) struct Manifest<'a> {
    pub(super) path: &'a str,
    pub(super) table: toml::Table,
    text: &'a str,
}

/// One entry of a dependency table.
pub(super) struct Dependency<'m> {
    pub(super) name: &'m str,
    pub(super) value: &'m toml::Value,
    /// Only for tests, examples and benchmarks.
    pub(super) development: bool,
}

impl<'a> Manifest<'a> {
    fn parse(path: &'a str, text: &'a str) -> Outcome<Manifest<'a>> {
        Ok(Manifest { path, table: manifest::parse(text, path)?, text })
    }

    /// The folder of the manifest, empty for the root.
    pub(super) fn folder(&self) -> &'a str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    pub(super) fn package_name(&self) -> &str {
        self.table.get("package").and_then(|package| package.get("name")?.as_str()).unwrap_or_default()
    }

    /// Every dependency, including those of single targets.
    pub(super) fn dependencies(&self) -> Vec<Dependency<'_>> {
        let targets = self.table.get("target").and_then(toml::Value::as_table).into_iter().flatten();
        let targets = targets.filter_map(|(_, target)| target.as_table());
        let mut found = Vec::new();
        for table in targets.chain([&self.table]) {
            for section in ["dependencies", "build-dependencies", "dev-dependencies"] {
                let entries = table.get(section).and_then(toml::Value::as_table).into_iter().flatten();
                let development = section == "dev-dependencies";
                found.extend(entries.map(|(name, value)| Dependency { name, value, development }));
            }
        }
        found
    }

    /// The line that names a key, as `key = …`, `key.workspace = …` or `[….key]`; 1 if there is none.
    pub(super) fn line_of(&self, key: &str) -> usize {
        let names = |line: &str| {
            if let Some(header) = line.strip_prefix('[') {
                return header.trim_end_matches(']').rsplit('.').next() == Some(key);
            }
            let rest = line.strip_prefix(key).unwrap_or_default();
            rest.trim_start().starts_with(['=', '.'])
        };
        (1..).zip(self.text.lines()).find(|(_, line)| names(line.trim())).map_or(1, |(line, _)| line)
    }
}

pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn paths(root: &Path) -> Vec<String> {
        Files::of(root).unwrap().files.into_keys().collect()
    }

    #[test]
    fn tracked_and_new_files_are_listed_but_ignored_and_deleted_ones_are_not() {
        let root = TemporaryFolder::create().unwrap();
        let root = root.path();
        write(root, ".gitignore", "/target/\n");
        write(root, "target/built", "");
        write(root, "deep/tracked.rs", "");
        write(root, "deleted.rs", "");
        let expected = [".gitignore", "deep/tracked.rs", "new.rs"];

        process::capture(&mut git(root, &["init", "--quiet"])).unwrap();
        process::capture(&mut git(root, &["add", "."])).unwrap();
        write(root, "new.rs", "");
        fs::remove_file(root.join("deleted.rs")).unwrap();
        assert_eq!(paths(root), expected);

        fs::remove_dir_all(root.join(".git")).unwrap();
        assert_eq!(paths(root), expected, "an unpacked archive");
    }

    #[test]
    fn members_follow_the_root_manifest() {
        let package = "[package]\nname = \"x\"\n";
        let files = Files::sample(&[
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\", \"xtask\"]\n"),
            ("bench/Cargo.toml", package),
            ("crates/a/Cargo.toml", package),
            ("crates/a/deeper/Cargo.toml", package),
            ("xtask/Cargo.toml", package),
        ]);
        let repository = Repository::parse(&files).unwrap();
        let members: Vec<&str> = repository.members().map(|member| member.path).collect();
        assert_eq!(members, ["crates/a/Cargo.toml", "xtask/Cargo.toml"]);
    }

    #[test]
    fn dependencies_of_every_table_are_found_with_their_lines() {
        let text = "[dependencies]\na.workspace = true\n[dependencies.b]\nversion = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nc = \"1\"\n[dev-dependencies]\nd = \"1\"\n";
        let manifest = Manifest::parse("Cargo.toml", text).unwrap();
        let mut found: Vec<(&str, bool, usize)> = manifest
            .dependencies()
            .iter()
            .map(|dependency| (dependency.name, dependency.development, manifest.line_of(dependency.name)))
            .collect();
        found.sort_unstable();
        assert_eq!(found, [("a", false, 2), ("b", false, 3), ("c", false, 6), ("d", true, 8)]);
    }
}
