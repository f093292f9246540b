//! A newcomer's first steps: what `crealeph init` writes works as it is, in the order it says.

#![cfg(test)]

use std::path::Path;
use std::process::Command;

fn run(folder: &Path, line: &str) -> (i32, String, String) {
    let programs = Path::new(env!("CARGO_BIN_EXE_crealeph")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder).env("PATH", path);
    // Nothing is trusted beforehand, and a newcomer is asked nothing.
    command.env("XDG_STATE_HOME", folder.join(".state")).env_remove("CREALEPH_TRUST");
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn every_step_that_init_names_succeeds() {
    for language in ["python", "node", "shell"] {
        let folder = tempfile::tempdir().unwrap();
        let (code, steps, said) = run(folder.path(), &format!("crealeph init --agent {language}"));
        assert_eq!(code, 0, "{said}");
        assert_eq!(steps.lines().count(), 5, "{steps}");
        // The example agents are checked whole in `agent.rs`; here one stands for the three.
        for step in steps.lines().skip(usize::from(language != "shell")) {
            let (code, printed, said) = run(folder.path(), step);
            assert_eq!(code, 0, "{language}: {step}\n{printed}{said}");
        }
        let (_, listed, _) = run(folder.path(), "crealeph execution list");
        assert!(listed.contains("\"planned\""), "{listed}");
    }
}

#[test]
fn nothing_of_yours_is_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("request.json"), "mine").unwrap();
    let (code, _, said) = run(folder.path(), "crealeph init .");
    assert_eq!(code, 2);
    assert!(said.contains("`./request.json` already exists, and nothing was written"), "{said}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_person_reads_steps_and_notes_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let (_, both, _) = run(folder.path(), "CREALEPH_OUTPUT=text crealeph init . 2>&1");
    let [head, step, note] =
        ["Then, one", "crealeph build", "Each `build`"].map(|words| both.find(words).unwrap());
    assert!(head < step && step < note, "{both}");
}
