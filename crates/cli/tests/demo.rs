//! The demo is the first thing that a stranger sees: it succeeds, is readable in 80 columns, and fails where it must.

#![cfg(test)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Plays it for someone whose git signs every commit, with a program that cannot.
fn demo(folder: &Path, home: &Path) -> Output {
    fs::write(home.join(".gitconfig"), "[commit]\ngpgsign = true\n[gpg]\nprogram = false\n").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_crealeph"));
    command.args(["demo", "--folder"]).arg(folder).env("HOME", home);
    command.env_remove("XDG_STATE_HOME").env_remove("CREALEPH_TRUST");
    command.output().unwrap()
}

#[test]
fn the_story_goes_as_expected_in_80_columns() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("new");
    let home = tempfile::tempdir().unwrap();
    let output = demo(&folder, home.path());
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let unwrapped = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    for passage in [
        ": success",
        "Denied path: .github/workflows/ci.yml",
        "collector.example:443 refused",
        "Tests failed",
        "whole from the first one on",
        "as the receipt says",
        "Robot shop-17: coherent",
        "COHERENCE_BLOCKED",
        "run ideator.run",
        "changed: entry 1",
    ] {
        assert!(unwrapped.contains(passage), "`{passage}` is not in:\n{printed}");
    }
    assert!(!printed.contains('\x1b'), "no one sees colours in a pipe");
    for line in printed.lines().filter(|line| !line.starts_with("$ ")) {
        assert!(line.chars().count() <= 80, "wider than 80 columns: {line}");
    }
    let shop = folder.join("shop");
    assert!(
        fs::read_to_string(shop.join("price.sh")).unwrap().contains("450"),
        "the careful agent's change is there"
    );
    assert!(fs::read_to_string(shop.join(".github/workflows/ci.yml")).unwrap().starts_with("on: push"));
    // What it showed can be typed again where it says.
    let again = Command::new(folder.join("bin/crealeph"))
        .args(["execution", "list"])
        .current_dir(folder.join("decisions"))
        .env("HOME", home.path())
        .env_remove("XDG_STATE_HOME")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(again.stdout).unwrap().lines().count(), 3);
}

#[test]
fn a_folder_that_is_in_use_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine"), "mine").unwrap();
    let home = tempfile::tempdir().unwrap();
    let output = demo(folder.path(), home.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("is not empty"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
