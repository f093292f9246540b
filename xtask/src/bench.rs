//! `cargo xtask bench NAME`: builds and runs one program of `bench/`.
//!
//! `bench/` is a separate workspace, so that users and tests never compile the peers it measures against.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::manifest::declared_programs;
use crate::process;

const MANIFEST: &str = "bench/Cargo.toml";

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    let known = known(&root.join("bench"))?;
    let list = known.iter().map(|name| format!("\n  cargo xtask bench {name}")).collect::<String>();
    let Some((name, rest)) = arguments.split_first() else {
        return Err(Failure::Usage(format!("say which benchmark to run:{list}")));
    };
    if !known.contains(name) {
        return Err(Failure::Usage(format!("no benchmark is called `{name}`; there are:{list}")));
    }
    let mut command = process::cargo(
        root,
        &["run", "--release", "--locked", "--manifest-path", MANIFEST, "--bin", name, "--"],
    );
    process::run(command.args(rest))
}

/// The programs cargo would find: the `[[bin]]` tables and the files and folders of `src/bin`.
fn known(bench: &Path) -> Outcome<BTreeSet<String>> {
    let mut names: BTreeSet<String> = declared_programs(&bench.join("Cargo.toml"))?.into_iter().collect();
    let folder = bench.join("src/bin");
    if folder.is_dir() {
        for item in fs::read_dir(&folder).map_err(Failure::file("read", &folder))? {
            let path = item.map_err(Failure::file("read", &folder))?.path();
            let is_program =
                path.extension().is_some_and(|extension| extension == "rs") || path.join("main.rs").is_file();
            if let (true, Some(name)) = (is_program, path.file_stem()) {
                names.insert(name.to_string_lossy().into_owned());
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    fn sample() -> TemporaryFolder {
        let root = TemporaryFolder::create().unwrap();
        let bench = root.path().join("bench");
        fs::create_dir_all(bench.join("src/bin/folder")).unwrap();
        fs::create_dir_all(bench.join("src/bin/data")).unwrap();
        fs::write(bench.join("Cargo.toml"), "[[bin]]\nname = \"named\"\npath = \"src/named.rs\"\n").unwrap();
        fs::write(bench.join("src/bin/file.rs"), "").unwrap();
        fs::write(bench.join("src/bin/folder/main.rs"), "").unwrap();
        root
    }

    #[test]
    fn programs_are_found_where_cargo_finds_them() {
        let known = known(&sample().path().join("bench")).unwrap();
        assert_eq!(known.into_iter().collect::<Vec<_>>(), ["file", "folder", "named"]);
    }

    #[test]
    fn an_unknown_or_absent_name_lists_the_known_ones() {
        let root = sample();
        for arguments in [vec![], vec!["other".to_owned()]] {
            let failure = run(root.path(), &arguments).unwrap_err();
            assert_eq!(failure.exit_code(), 2);
            assert!(failure.to_string().ends_with("\n  cargo xtask bench named"), "{failure}");
        }
    }

    #[test]
    fn a_missing_bench_folder_is_named() {
        let root = TemporaryFolder::create().unwrap();
        assert!(run(root.path(), &[]).unwrap_err().to_string().contains("bench/Cargo.toml"));
    }
}
