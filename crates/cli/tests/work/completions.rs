//! What a real bash, fish and zsh offer after the script of `crealeph completions` was loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::world::{AGENTS, World, item};

/// A shell in the workspace with the program on its path, without any trust by the environment.
fn shell(world: &World, name: &str) -> Command {
    let programs = Path::new(env!("CARGO_BIN_EXE_crealeph")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(name);
    command.current_dir(world.root()).env("PATH", path).env("HOME", world.outside());
    command.env("XDG_STATE_HOME", world.outside().join("state"));
    command.env_remove("CREALEPH_TRUST").env_remove("CREALEPH_LEDGER");
    command
}

/// What bash offers for the last of these words.
fn offered(world: &World, words: &[&str]) -> Vec<String> {
    let script = "source <(crealeph completions bash)\nCOMP_WORDS=(crealeph \"$@\") COMP_CWORD=$# COMP_TYPE=9\n\
                  _clap_complete_crealeph crealeph \"${@: -1}\"\nprintf '%s\\n' \"${COMPREPLY[@]}\"";
    let output = shell(world, "bash").args(["--norc", "-c", script, "bash"]).args(words).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let offered = String::from_utf8(output.stdout).unwrap();
    offered.lines().filter(|line| !line.is_empty() && !line.starts_with('-')).map(str::to_owned).collect()
}

/// Every file beneath a folder, with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn run_ids(world: &World) -> Vec<String> {
    let output = world.crealeph(&["--text", "work", "status"]);
    let status = String::from_utf8(output.stdout).unwrap();
    status.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn bash_offers_runs_newest_first_and_agents_and_changes_nothing() {
    let world = World::new();
    for number in 0..3 {
        world.run(&[item(&format!("it-{number}"), &format!("echo {number} > n.txt"))], &[]);
    }
    let before = files(world.root().parent().unwrap());
    let ids = run_ids(&world);
    assert_eq!(ids.len(), 3);
    assert_eq!(offered(&world, &["work", "show", ""]), ids);
    assert_eq!(offered(&world, &["work", "retry", &ids[0]]), ids[..1]);
    assert_eq!(offered(&world, &["report", "--run", ""]), ids);
    assert_eq!(offered(&world, &["work", "run", "--agent", "t"]), ["three", "two"]);
    assert_eq!(offered(&world, &["work", "sta"]), ["status"]);
    assert_eq!(offered(&world, &["work", "show", "nothing-like-it"]), Vec::<String>::new());
    assert_eq!(files(world.root().parent().unwrap()), before);
}

#[test]
fn fish_offers_runs_newest_first_with_their_tasks() {
    let world = World::new();
    for number in 0..2 {
        world.run(&[item(&format!("it-{number}"), &format!("echo {number} > n.txt"))], &[]);
    }
    let script = "crealeph completions fish | source; complete --do-complete 'crealeph work show 0'";
    let output = shell(&world, "fish").args(["--no-config", "-c", script]).output().unwrap();
    let offered = String::from_utf8(output.stdout).unwrap();
    let ids = run_ids(&world).into_iter().zip(["1", "0"]);
    let expected: Vec<String> = ids.map(|(id, task)| format!("{id}\tsuccess echo {task} > n.txt")).collect();
    assert_eq!(offered.lines().collect::<Vec<_>>(), expected, "{}", String::from_utf8_lossy(&output.stderr));
}

/// Types into an interactive zsh: the tabulator completes a command and a run, and what it completed runs.
#[test]
fn zsh_completes_a_command_and_a_run() {
    let world = World::new();
    world.run(&[item("it-1", "echo one > n.txt")], &[]);
    let script = r#"
        zmodload zsh/zpty
        zpty terminal zsh -f -i
        zpty -w terminal 'PS1=; autoload -U compinit; compinit -D -u; source <(crealeph completions zsh)'
        zpty -w -n terminal $'crealeph work di\t01\t > shown; exit\n'
        while zpty -r terminal line; do :; done
    "#;
    let output = shell(&world, "zsh").args(["-f", "-c", script]).env("TERM", "xterm").output().unwrap();
    assert!(world.read("shown").contains("+one"), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_configuration_that_is_not_trusted_is_read_for_names_and_not_followed() {
    let world = World::with(&format!("{AGENTS}\n[ledger]\nlocation = \"elsewhere.db\"\n"));
    let entry =
        r#"{"robotId":"shop-17","module":"m","source":"s","type":"signal","state":"final","payload":{}}"#;
    world.write("entries.jsonl", entry);
    for arguments in [&["ledger", "init"][..], &["ledger", "append", "entries.jsonl"]] {
        assert!(world.crealeph(arguments).status.success());
    }
    assert_eq!(offered(&world, &["work", "run", "--agent", "o"]), ["one"]);
    assert_eq!(offered(&world, &["snapshot", "--robot", ""]), Vec::<String>::new());
    assert_eq!(offered(&world, &["snapshot", "--ledger", "elsewhere.db", "--robot", ""]), ["shop-17"]);
    let trusted = world.command(&["trust", "--yes"]).env_remove("CREALEPH_TRUST").output().unwrap();
    assert!(trusted.status.success(), "{}", String::from_utf8_lossy(&trusted.stderr));
    assert_eq!(offered(&world, &["snapshot", "--robot", ""]), ["shop-17"]);
}

#[test]
fn what_cannot_be_read_offers_nothing_and_says_nothing() {
    let world = World::with("this is not TOML");
    world.write(".crealeph/runs/journal.jsonl", "damaged");
    for words in [
        &["work", "show", ""][..],
        &["work", "run", "--agent", ""],
        &["execution", "show", ""],
        &["robot", "status", "--ledger", "missing.db", ""],
        &["person", "revoke", ""],
    ] {
        assert_eq!(offered(&world, words), Vec::<String>::new(), "{words:?}");
    }
}
