//! `cargo xtask pictures`: the pictures of the console in `docs/images`, taken by the tests that open its pages in a browser.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::process;

/// Where the tests leave pictures, and where documents have them.
const TAKEN: &str = "target/tmp/console";
const SHOWN: &str = "docs/images";
/// The tests that take them.
const TESTS: [&str; 3] = [
    "people_see_and_decide_in_a_browser",
    "people_watch_compare_and_undo_in_a_browser",
    "a_person_enrols_signs_in_and_decides_with_a_passkey",
];

pub(crate) fn run(root: &Path, arguments: &[String]) -> Outcome {
    if !arguments.is_empty() {
        return Err(Failure::Usage("`cargo xtask pictures` takes nothing".to_owned()));
    }
    let (taken, shown) = (root.join(TAKEN), root.join(SHOWN));
    // What an earlier run left would look like a new picture.
    for name in pictures(&taken)? {
        let old = taken.join(name);
        fs::remove_file(&old).map_err(Failure::file("remove", &old))?;
    }
    let mut tests =
        process::cargo(root, &["test", "--locked", "--package", "crealeph-cli", "--test", "console", "--"]);
    process::run(tests.args(TESTS))?;
    copy(&taken, &shown)
}

/// Copies the new pictures, and names those that no test takes any more.
fn copy(taken: &Path, shown: &Path) -> Outcome {
    let (new, old) = (pictures(taken)?, pictures(shown)?);
    if new.is_empty() {
        return Err(Failure::Check(format!("the tests left no picture in `{}`", taken.display())));
    }
    for name in &new {
        let target = shown.join(name);
        fs::copy(taken.join(name), &target).map_err(Failure::file("write", &target))?;
        println!("{SHOWN}/{name}");
    }
    let left: Vec<&str> = old.difference(&new).map(String::as_str).collect();
    match left.is_empty() {
        true => {
            eprintln!("pictures: look at each of them before you commit it");
            Ok(())
        }
        false => Err(Failure::Check(format!(
            "no test takes these pictures of `{SHOWN}`: {}; remove them, or take them in a test",
            left.join(", ")
        ))),
    }
}

/// The names of the console's pictures in a folder; none if there is no folder.
fn pictures(folder: &Path) -> Outcome<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    if !folder.exists() {
        return Ok(names);
    }
    for item in fs::read_dir(folder).map_err(Failure::file("read", folder))? {
        let name = item.map_err(Failure::file("read", folder))?.file_name().to_string_lossy().into_owned();
        if name.starts_with("console-") && name.ends_with(".png") {
            names.insert(name);
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    #[test]
    fn new_pictures_replace_old_ones_and_one_that_no_test_takes_is_named() {
        let (taken, shown) = (TemporaryFolder::create().unwrap(), TemporaryFolder::create().unwrap());
        let write = |folder: &TemporaryFolder, name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
        };
        assert!(copy(taken.path(), shown.path()).unwrap_err().to_string().contains("left no picture"));
        write(&taken, "console-inbox.png", "new");
        write(&taken, "failed-story.png", "of a story that failed");
        write(&shown, "console-inbox.png", "old");
        write(&shown, "diagram.svg", "by hand");
        copy(taken.path(), shown.path()).unwrap();
        assert_eq!(fs::read_to_string(shown.path().join("console-inbox.png")).unwrap(), "new");
        assert!(!shown.path().join("failed-story.png").exists() && shown.path().join("diagram.svg").exists());
        write(&shown, "console-gone.png", "old");
        let failure = copy(taken.path(), shown.path()).unwrap_err().to_string();
        assert!(failure.contains("console-gone.png") && !failure.contains("inbox"), "{failure}");
    }
}
