//! Replays: the script of a run in its workspace, and of an exported run where the workspace is not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::world::{World, change_some};

const SCRIPT: &str = "replay-agent-3.sh";

fn git(folder: &Path, arguments: &[&str]) {
    let ran = Command::new("git")
        .args(["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(ran.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
}

/// The script as someone else runs it: elsewhere, with nothing but the program.
fn replay(run: &Path, arguments: &[&str]) -> Output {
    Command::new(run.join(SCRIPT))
        .args(arguments)
        .env_clear()
        .env("PATH", "/usr/bin:/bin")
        .env("CREALEPH", env!("CARGO_BIN_EXE_crealeph"))
        .current_dir("/")
        .output()
        .unwrap()
}

fn printed(ran: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr))
}

/// A repository with a commit, a clone of it, a run on it, and the run exported.
fn exported() -> (World, PathBuf, PathBuf, PathBuf) {
    let mut world = World::new();
    let folder = world.folder.path().to_owned();
    fs::write(folder.join(".gitignore"), "built/\n").unwrap();
    std::os::unix::fs::symlink("kept.txt", folder.join("link")).unwrap();
    git(&folder, &["init", "-q"]);
    git(&folder, &["add", "-A"]);
    git(&folder, &["commit", "-qm", "before"]);
    let elsewhere = tempfile::tempdir().unwrap().keep();
    let clone = elsewhere.join("clone");
    git(&elsewhere, &["clone", "-q", folder.to_str().unwrap(), clone.to_str().unwrap()]);
    let (run, _) = world.run(change_some);
    let exported = elsewhere.join("exported");
    let id = run.file_name().unwrap().to_str().unwrap().to_owned();
    let ran = world.crealeph(&["work", "export", &id, exported.to_str().unwrap()]);
    assert!(ran.status.success(), "{}", printed(&ran));
    (world, elsewhere, clone, exported.join("runs").join(id))
}

#[test]
fn a_replay_gives_the_same_hash_and_leaves_the_workspace_alone() {
    let mut world = World::new();
    let (run, sealed) = world.run(change_some);
    fs::write(world.at("kept.txt"), "a person went on").unwrap();
    let before = world.workspace.snapshot().unwrap().state().hash();
    let ran = replay(&run, &[]);
    let hash = sealed.receipt.after_hash.to_string();
    assert!(ran.status.success() && printed(&ran).contains(&hash), "{}", printed(&ran));
    assert_eq!(world.workspace.snapshot().unwrap().state().hash(), before);
}

#[test]
fn an_exported_run_replays_without_its_workspace_and_on_a_fresh_clone() {
    let (world, elsewhere, clone, run) = exported();
    let workspace = world.folder.path().to_owned();
    drop(world);
    assert!(!workspace.exists());
    let ran = replay(&run, &[]);
    assert!(ran.status.success(), "{}", printed(&ran));
    let ran = replay(&run, &["--on", clone.to_str().unwrap()]);
    assert!(ran.status.success(), "{}", printed(&ran));
    assert!(!clone.join(".crealeph").exists() && clone.join("gone.txt").exists(), "the clone was touched");
    // A file of the clone that is not what it was; what git ignores does not matter.
    fs::create_dir(clone.join("built")).unwrap();
    fs::write(clone.join("built/x"), "x").unwrap();
    assert!(replay(&run, &["--on", clone.to_str().unwrap()]).status.success());
    fs::write(clone.join("kept.txt"), "one\nother\n").unwrap();
    let ran = replay(&run, &["--on", clone.to_str().unwrap()]);
    assert!(!ran.status.success() && printed(&ran).contains("`kept.txt` differs"), "{}", printed(&ran));
    fs::remove_dir_all(elsewhere).unwrap();
}

#[test]
fn an_export_can_be_verified_and_what_was_changed_in_it_is_found() {
    let (world, elsewhere, _, run) = exported();
    let key = elsewhere.join("saved.key");
    fs::write(&key, world.signer().verifier_keys().join("\n")).unwrap();
    let (run_text, key) = (run.to_str().unwrap(), key.to_str().unwrap());
    let (code, said) = world.verify(&[run_text, "--key", key]);
    assert_eq!((code, said["filesCheckedAgainst"].as_str()), (0, Some("states")), "{said}");
    // A recorded content is not what it was.
    let hash = crealeph_contracts::digest::Blake3::of(b"one\n2\n").to_string();
    let object = run.join("../../objects").join(&hash[..2]).join(&hash[2..]);
    fs::write(&object, "one\n3\n").unwrap();
    let ran = replay(&run, &[]);
    assert!(!ran.status.success() && printed(&ran).contains(&hash), "{}", printed(&ran));
    assert_eq!(world.verify(&[run_text, "--key", key]).0, 1);
    fs::write(&object, "one\n2\n").unwrap();
    assert!(replay(&run, &[]).status.success());
    // So is the receipt.
    let receipt = run.join("RECEIPT.json");
    let text = fs::read_to_string(&receipt).unwrap();
    fs::write(&receipt, text.replace("Edit", "Exit")).unwrap();
    assert!(!replay(&run, &[]).status.success());
    fs::remove_dir_all(elsewhere).unwrap();
}

#[test]
fn a_failure_has_nothing_to_replay_and_an_export_overwrites_nothing() {
    let mut world = World::new();
    let (failed, _) = world.failure();
    assert!(!failed.join(SCRIPT).exists());
    let ran = world.crealeph(&["work", "replay", failed.to_str().unwrap()]);
    assert!(ran.status.code() == Some(2) && printed(&ran).contains("succeeded"), "{}", printed(&ran));
    let (run, _) = world.run(change_some);
    let ran = world.crealeph(&["work", "export", run.to_str().unwrap(), "new"]);
    assert!(ran.status.code() == Some(2) && printed(&ran).contains("already exists"), "{}", printed(&ran));
}

#[test]
fn an_agent_that_does_the_same_again_gives_the_same_hash() {
    for (command, is_same) in [("echo more >> kept.txt", true), ("head -c 16 /dev/urandom > random", false)] {
        let world = World::new();
        fs::set_permissions(world.folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let state = world.state.path();
        let config = format!("[work.agents.a]\nagent_id = \"agent-3\"\ncommand = \"{command}\"\n");
        fs::write(world.at("crealeph.toml"), config).unwrap();
        let program = env!("CARGO_BIN_EXE_crealeph");
        let mut crealeph = Command::new(program);
        crealeph.current_dir(world.folder.path()).env("XDG_STATE_HOME", state);
        crealeph.env("CREALEPH_TRUST", "1");
        let ran = crealeph.args(["work", "run", "--json", "--agent", "a", "Do it"]).output().unwrap();
        let result: serde_json::Value =
            serde_json::from_slice(&ran.stdout).unwrap_or_else(|_| panic!("{}", printed(&ran)));
        assert_eq!(result["status"], "success", "{result}");
        let script = result["proof_script"].as_str().unwrap();
        let after = world.workspace.snapshot().unwrap().state().hash();
        let again = |arguments: &[&str]| {
            let mut command = Command::new(script);
            command.args(arguments).env("CREALEPH", program).env("XDG_STATE_HOME", state);
            command.env("CREALEPH_TRUST", "1");
            command.current_dir(world.folder.path()).output().unwrap()
        };
        assert!(again(&[]).status.success(), "{}", printed(&again(&[])));
        let ran = again(&["--rerun"]);
        assert_eq!(ran.status.success(), is_same, "{}", printed(&ran));
        assert_eq!(world.workspace.snapshot().unwrap().state().hash(), after, "the workspace was touched");
    }
}
