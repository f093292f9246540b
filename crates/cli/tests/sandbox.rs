//! `crealeph sandbox` and `crealeph doctor` as a user meets them.

#![cfg(test)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("crealeph-cli-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(path.join("project")).unwrap();
        std::fs::write(path.join("project/a"), "one\n").unwrap();
        Scratch(path)
    }

    fn project(&self) -> String {
        self.0.join("project").to_str().unwrap().to_owned()
    }

    fn crealeph(&self, args: &[&str]) -> Output {
        let state = self.0.join("state");
        Command::new(env!("CARGO_BIN_EXE_crealeph"))
            .args(args)
            .env("XDG_STATE_HOME", state)
            .env("SANDBOX_TEST_SECRET", "a-secret-of-the-test")
            .output()
            .unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn outputs_pass_through_and_the_changes_are_listed() {
    let scratch = Scratch::new("changes");
    let project = scratch.project();
    let view = format!("{project}=/project");
    let ran = scratch.crealeph(&[
        "sandbox",
        "run",
        "--view",
        &view,
        "--",
        "sh",
        "-c",
        "pwd; cat a; rm a; echo two >b; echo aside >&2",
    ]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    assert_eq!(text(&ran.stdout), "/project\none\n");
    let printed = text(&ran.stderr);
    assert!(printed.starts_with("aside\n"), "{printed}");
    assert!(printed.contains("deleted a\n  created b\n"), "{printed}");
    assert!(Path::new(&project).join("a").exists());
    assert!(!Path::new(&project).join("b").exists());
}

#[test]
fn the_outcome_is_json_on_request() {
    let scratch = Scratch::new("json");
    let ran = scratch.crealeph(&[
        "sandbox",
        "run",
        "--json",
        "--secret",
        "SANDBOX_TEST_SECRET",
        "--wall-ms",
        "20000",
        "--",
        "sh",
        "-c",
        "echo $SANDBOX_TEST_SECRET; exit 4",
    ]);
    assert_eq!(ran.status.code(), Some(1));
    let outcome: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(outcome["outcome"]["exit"]["code"], 4);
    assert_eq!(outcome["outcome"]["stdout"]["text"], "[redacted]\n");
    assert_eq!(outcome["outcome"]["strength"]["level"], "full");
}

#[test]
fn what_cannot_be_run_says_why() {
    let scratch = Scratch::new("errors");
    for (args, code, words) in [
        (
            vec!["sandbox", "run", "--json", "--", "no-such-program"],
            "SANDBOX_CANNOT_START",
            "`no-such-program`",
        ),
        (vec!["sandbox", "run", "--json", "--read", "/no/such", "--", "true"], "SANDBOX_PATH", "`/no/such`"),
        (
            vec!["sandbox", "run", "--json", "--preset", "cobol", "--", "true"],
            "SANDBOX_INVALID_REQUEST",
            "`cobol`",
        ),
        (
            vec!["sandbox", "run", "--json", "--env", "NOT_SET_ANYWHERE", "--", "true"],
            "bad_option",
            "`NOT_SET_ANYWHERE`",
        ),
    ] {
        let ran = scratch.crealeph(&args);
        assert_eq!(ran.status.code(), Some(2), "{args:?}");
        let error: Value = serde_json::from_slice(&ran.stderr).unwrap();
        assert_eq!(error["error"]["code"], code, "{args:?}");
        assert!(error["error"]["message"].as_str().unwrap().contains(words), "{error}");
    }
}

#[test]
fn explain_runs_nothing_and_hides_secrets() {
    let scratch = Scratch::new("explain");
    let ran = scratch.crealeph(&[
        "sandbox",
        "explain",
        "--secret",
        "SANDBOX_TEST_SECRET",
        "--host",
        "api.example.com:443",
        "--view",
        &scratch.project(),
        "--",
        "touch",
        "x",
    ]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let shown = text(&ran.stdout);
    assert!(!shown.contains("a-secret-of-the-test"), "{shown}");
    let facts: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(facts["network"][0], "api.example.com:443");
    assert_eq!(facts["secrets"][0], "SANDBOX_TEST_SECRET");
    assert_eq!(facts["views"][0]["inside"], scratch.project().as_str());
}

#[test]
fn doctor_names_every_feature() {
    let scratch = Scratch::new("doctor");
    let ran = scratch.crealeph(&["doctor", "--json"]);
    assert_eq!(ran.status.code(), Some(0), "full strength cannot be had here: {}", text(&ran.stdout));
    let features: Value = serde_json::from_slice(&ran.stdout).unwrap();
    let names: Vec<&str> = features.as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
    let expected = [
        "kernel",
        "namespaces",
        "root_file_system",
        "seccomp",
        "watchdog",
        "landlock",
        "cgroups",
        "overlayfs",
    ];
    assert_eq!(names[..expected.len()], expected);
}

#[test]
fn a_hidden_file_is_not_in_the_view_and_a_seed_is_in_home() {
    let scratch = Scratch::new("hide");
    let project = scratch.project();
    let hidden = format!("{project}/.env");
    std::fs::write(&hidden, "KEY=1").unwrap();
    let seed = format!("{project}/a=/home/agent/.config/a");
    let run = |more: &[&str]| {
        let mut arguments = vec!["sandbox", "run", "--view", &project, "--seed", &seed];
        arguments.extend(more);
        arguments.extend(["--", "sh", "-c", "ls -A; cat ~/.config/a"]);
        scratch.crealeph(&arguments)
    };
    assert_eq!(text(&run(&[]).stdout), ".env\na\none\n");
    assert_eq!(text(&run(&["--hide", &hidden]).stdout), "a\none\n");
    let refused = run(&["--hide", "/etc/passwd"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(text(&refused.stderr).contains("`/etc/passwd`"), "{refused:?}");
}
