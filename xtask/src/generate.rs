//! `cargo xtask generate`: the committed files that a program writes.
//!
//! Everything is generated into a temporary folder first and compared with the committed files; the task
//! then either applies the differences or, with `--check`, reports them. So both ways see the same thing.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::process;
use crate::temporary::TemporaryFolder;

/// A folder of generated files and the cargo call that writes it, given the folder as last argument.
struct Generated {
    folder: &'static str,
    /// Only files with this extension are generated; others in the folder are left alone.
    extension: &'static str,
    cargo: &'static [&'static str],
}

const GENERATED: &[Generated] = &[
    Generated {
        folder: "schemas",
        extension: "json",
        cargo: &["run", "--quiet", "--locked", "--package", "crealeph-cli", "--", "schema", "--all"],
    },
    Generated {
        folder: "docs/reference",
        extension: "json",
        cargo: &["run", "--quiet", "--locked", "--package", "crealeph-cli", "--", "schema", "--openapi"],
    },
    Generated {
        folder: "docs/reference",
        extension: "md",
        cargo: &["run", "--quiet", "--locked", "--package", "crealeph-cli", "--", "man", "--markdown"],
    },
    Generated {
        folder: "docs/reference",
        extension: "html",
        cargo: &["run", "--quiet", "--locked", "--package", "crealeph-cli", "--", "verify-page"],
    },
];

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let only_check = match arguments {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err(Failure::Usage("`cargo xtask generate` takes `--check` or nothing".to_owned())),
    };
    let mut found = Vec::new();
    for generated in GENERATED {
        let fresh = TemporaryFolder::create()?;
        let mut command = process::cargo(root, generated.cargo);
        process::run(command.arg(fresh.path()))?;
        let differences = generated.compare(root, fresh.path())?;
        if !only_check {
            generated.apply(root, &differences)?;
        }
        found.extend(differences);
    }
    for difference in &found {
        println!("{difference}{}", if only_check { "" } else { ", rewritten" });
    }
    if only_check && !found.is_empty() {
        return Err(Failure::Check(
            "the files listed above are not what the code generates; rewrite them with:\n  cargo xtask generate"
                .to_owned(),
        ));
    }
    eprintln!("generate: everything is current");
    Ok(())
}

#[derive(Debug, PartialEq)]
enum Change {
    /// Generated, but not committed.
    Absent(Vec<u8>),
    /// Both, with different bytes.
    Outdated(Vec<u8>),
    /// Committed, but no longer generated.
    Stale,
}

#[derive(Debug, PartialEq)]
struct Difference {
    path: String,
    change: Change,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.change {
            Change::Absent(_) => "absent",
            Change::Outdated(_) => "out of date",
            Change::Stale => "no longer generated",
        };
        write!(f, "{}: {what}", self.path)
    }
}

impl Generated {
    fn compare(&self, root: &Path, fresh: &Path) -> Outcome<Vec<Difference>> {
        let fresh = self.read(fresh)?;
        if fresh.is_empty() {
            return Err(Failure::Check(format!(
                "`cargo {}` wrote no .{} file for `{}`",
                self.cargo.join(" "),
                self.extension,
                self.folder
            )));
        }
        let mut committed = self.read(&root.join(self.folder))?;
        let mut differences = Vec::new();
        let path = |name: &str| format!("{}/{name}", self.folder);
        for (name, bytes) in fresh {
            let change = match committed.remove(&name) {
                None => Change::Absent(bytes),
                Some(old) if old != bytes => Change::Outdated(bytes),
                Some(_) => continue,
            };
            differences.push(Difference { path: path(&name), change });
        }
        differences
            .extend(committed.keys().map(|name| Difference { path: path(name), change: Change::Stale }));
        Ok(differences)
    }

    fn apply(&self, root: &Path, differences: &[Difference]) -> Outcome {
        let folder = root.join(self.folder);
        fs::create_dir_all(&folder).map_err(Failure::file("create", &folder))?;
        for difference in differences {
            let path = root.join(&difference.path);
            match &difference.change {
                Change::Absent(bytes) | Change::Outdated(bytes) => {
                    fs::write(&path, bytes).map_err(Failure::file("write", &path))?;
                }
                Change::Stale => fs::remove_file(&path).map_err(Failure::file("remove", &path))?,
            }
        }
        Ok(())
    }

    /// The folder's generated files by name; none if the folder does not exist.
    fn read(&self, folder: &Path) -> Outcome<BTreeMap<String, Vec<u8>>> {
        let mut files = BTreeMap::new();
        if !folder.exists() {
            return Ok(files);
        }
        for item in fs::read_dir(folder).map_err(Failure::file("read", folder))? {
            let path = item.map_err(Failure::file("read", folder))?.path();
            if path.extension().is_some_and(|extension| extension == self.extension) {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                files.insert(name, fs::read(&path).map_err(Failure::file("read", &path))?);
            }
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Generated = Generated { folder: "out", extension: "json", cargo: &["run"] };

    fn folders() -> (TemporaryFolder, TemporaryFolder) {
        let root = TemporaryFolder::create().unwrap();
        fs::create_dir(root.path().join("out")).unwrap();
        (root, TemporaryFolder::create().unwrap())
    }

    #[test]
    fn differences_are_named_and_applying_them_leaves_none() {
        let (root, fresh) = folders();
        let committed = root.path().join("out");
        for (folder, name, text) in [
            (committed.as_path(), "same.json", "1"),
            (fresh.path(), "same.json", "1"),
            (committed.as_path(), "old.json", "1"),
            (fresh.path(), "old.json", "2"),
            (committed.as_path(), "gone.json", "1"),
            (fresh.path(), "new.json", "1"),
            (committed.as_path(), "README.md", "written by hand"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        let differences = SAMPLE.compare(root.path(), fresh.path()).unwrap();
        let shown: Vec<String> = differences.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["out/new.json: absent", "out/old.json: out of date", "out/gone.json: no longer generated"]
        );
        SAMPLE.apply(root.path(), &differences).unwrap();
        assert_eq!(SAMPLE.compare(root.path(), fresh.path()).unwrap(), []);
        assert!(committed.join("README.md").exists());
    }

    #[test]
    fn a_missing_folder_is_created() {
        let (root, fresh) = folders();
        fs::remove_dir(root.path().join("out")).unwrap();
        fs::write(fresh.path().join("new.json"), "1").unwrap();
        let differences = SAMPLE.compare(root.path(), fresh.path()).unwrap();
        SAMPLE.apply(root.path(), &differences).unwrap();
        assert_eq!(fs::read(root.path().join("out/new.json")).unwrap(), b"1");
    }

    #[test]
    fn a_generator_that_writes_nothing_is_a_failure() {
        let (root, fresh) = folders();
        fs::write(root.path().join("out/a.json"), "1").unwrap();
        assert!(SAMPLE.compare(root.path(), fresh.path()).is_err());
    }
}
