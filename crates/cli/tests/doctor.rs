//! `crealeph doctor` finds each thing that can be wrong, says how to fix it, and is content once that is done.

#![cfg(test)]

use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn shell(folder: &Path, line: &str) -> (i32, String, String) {
    let programs = Path::new(env!("CARGO_BIN_EXE_crealeph")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .current_dir(folder)
        .env("PATH", path)
        .env("CREALEPH_TRUST", "1")
        .env("XDG_STATE_HOME", folder.join("state"));
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Exit code and findings.
fn doctor(folder: &Path) -> (i32, Vec<Value>) {
    let (code, printed, said) = shell(folder, "crealeph doctor --json");
    let findings: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}{said}"));
    (code, findings.as_array().unwrap().clone())
}

fn finding<'f>(findings: &'f [Value], name: &str) -> &'f Value {
    findings.iter().find(|finding| finding["name"] == name).expect(name)
}

#[test]
fn nothing_is_wrong_where_nothing_is_yet_nor_after_the_first_steps() {
    let folder = tempfile::tempdir().unwrap();
    let (code, findings) = doctor(folder.path());
    assert_eq!(code, 0, "{findings:?}");
    for (name, advice) in [
        ("configuration", "crealeph init"),
        ("ledger", "crealeph ledger init"),
        ("keys", "crealeph ledger init"),
    ] {
        let finding = finding(&findings, name);
        assert_eq!((&finding["present"], &finding["needed"]), (&false.into(), &false.into()), "{finding}");
        assert!(finding["advice"].as_str().unwrap().contains(advice), "{finding}");
    }
    assert!(!folder.path().join(".crealeph").exists(), "looking makes nothing");

    shell(folder.path(), "crealeph init && crealeph ledger init && crealeph ledger append entries.jsonl");
    let (code, findings) = doctor(folder.path());
    assert_eq!(code, 0, "{findings:?}");
    for name in ["configuration", "ledger", "keys", "clock", "ledger_disk", "state_disk"] {
        assert_eq!(finding(&findings, name)["present"], true, "{name}");
    }
    assert!(finding(&findings, "ledger")["detail"].as_str().unwrap().contains("newest 5 verified"));
}

#[test]
fn each_fault_is_found_with_what_to_do() {
    // What breaks it, which finding, what it says, what it advises.
    let cases = [
        ("chmod 755 .crealeph/ledger.db.keys", "keys", "open to others (mode 755)", "chmod 700"),
        ("chmod 644 .crealeph/ledger.db.keys/*", "keys", "can be read by others (mode 644)", "chmod 600"),
        ("rm -r .crealeph/ledger.db.keys", "keys", "No such file", "restore it"),
        ("echo nonsense > .crealeph/ledger.db", "ledger", "is not a ledger", "give another path"),
        (
            "sed -i 's/\"visits\":1180/\"visits\":9180/' .crealeph/ledger.db",
            "ledger",
            "is damaged",
            "restore a backup",
        ),
        (
            "sed -i 's/^timeout_ms/timeout/' crealeph.toml",
            "configuration",
            "`timeout` is not known",
            "timeout_ms",
        ),
        ("echo '[bad' >> crealeph.toml", "configuration", "TOML", ""),
    ];
    for (breaking, name, detail, advice) in cases {
        let folder = tempfile::tempdir().unwrap();
        shell(folder.path(), "crealeph init && crealeph ledger init && crealeph ledger append entries.jsonl");
        let (code, _, said) = shell(folder.path(), breaking);
        assert_eq!(code, 0, "{breaking}: {said}");
        let (code, findings) = doctor(folder.path());
        assert_eq!(code, 1, "{breaking}: {findings:?}");
        let found = finding(&findings, name);
        let reply = format!("{} {}", found["detail"], found["advice"]);
        assert_eq!(found["present"], false, "{breaking}: {found}");
        assert!(reply.contains(detail) && reply.contains(advice), "{breaking}: {found}");
        let mut others = findings.iter().filter(|other| other["name"] != name && other["needed"] == true);
        let harmed = others.find(|other| other["present"] == false);
        assert_eq!(harmed, None, "{breaking} does no harm to anything else");
    }
}

#[test]
fn a_disk_without_room_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let line = "mkdir small && unshare --mount --map-root-user sh -c \
                'mount -t tmpfs -o size=1m none small && crealeph doctor --json --ledger small/ledger.db'";
    let (code, printed, said) = shell(folder.path(), line);
    let findings: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}{said}"));
    let found = finding(findings.as_array().unwrap(), "ledger_disk");
    assert_eq!((code, &found["present"]), (1, &false.into()), "{found}");
    assert!(found["detail"].as_str().unwrap().contains("MiB free at"), "{found}");
}

#[test]
fn a_person_reads_a_line_for_each() {
    let folder = tempfile::tempdir().unwrap();
    let (code, printed, _) =
        shell(folder.path(), "CREALEPH_OUTPUT=text crealeph doctor --ledger /no/such/place");
    assert_eq!(code, 0, "{printed}");
    assert!(printed.contains("\nledger            no "), "{printed}");
    assert!(printed.contains("to enable it: run `crealeph ledger init`"), "{printed}");
    let of_the_machine = printed.lines().take_while(|line| !line.starts_with("configuration"));
    of_the_machine.for_each(|line| assert!(line.chars().count() <= 80, "wider than 80 columns: {line}"));
}

const AGENT: &str = r#"
[work.agents.one]
agent_id = "agent-1"
command = ["sh", "agent.sh", "{prompt}"]
version = ["-c", "echo 'shell 1.2'"]
secrets = ["DOCTOR_TOKEN"]
network = ["127.0.0.1:9", "localhost:10", "nowhere.invalid:443"]
"#;

/// Exit code and findings of an agent in the folder `ws`.
fn agent_doctor(folder: &Path, words: &str) -> (i32, Vec<Value>) {
    let (code, printed, said) = shell(folder, &format!("cd ws && {words} --json"));
    let findings: Value = serde_json::from_str(&printed).unwrap_or_else(|_| panic!("{printed}{said}"));
    (code, findings.as_array().unwrap().clone())
}

fn agent_workspace(configuration: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("ws")).unwrap();
    std::fs::write(folder.path().join("ws/crealeph.toml"), configuration).unwrap();
    std::fs::write(folder.path().join("ws/agent.sh"), "touch called\n").unwrap();
    folder
}

#[test]
fn what_a_run_of_an_agent_lacks_is_found_without_calling_it() {
    let folder = agent_workspace(AGENT);
    let (code, findings) =
        agent_doctor(folder.path(), "crealeph doctor --agent one --test 'test -e agent.sh && exit 7'");
    assert_eq!(code, 1, "{findings:?}");
    assert_eq!(finding(&findings, "agent_program")["present"], true);
    assert_eq!(finding(&findings, "agent_version")["detail"], "shell 1.2");
    assert_eq!(finding(&findings, "agent_sandbox")["present"], true);
    let login = finding(&findings, "agent_login");
    assert_eq!(login["detail"], "the variable `DOCTOR_TOKEN` is not set");
    let hosts: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["name"] == "agent_host")
        .map(|finding| finding["detail"].as_str().unwrap())
        .collect();
    let expected = [
        "`127.0.0.1:9` cannot be reached",
        "`localhost:10` leads to a private address",
        "the name of `nowhere.invalid:443` does not resolve",
    ];
    assert_eq!(hosts, expected);
    let tests = finding(&findings, "tests");
    assert!(
        tests["detail"].as_str().unwrap().contains("Tests failed") && tests["present"] == false,
        "{tests}"
    );
    let unhelped =
        findings.iter().filter(|finding| finding["present"] == false && finding["advice"].is_null());
    assert_eq!(unhelped.count(), 0, "{findings:?}");
    assert!(!folder.path().join("ws/called").exists(), "the agent itself is not called");
}

#[test]
fn an_agent_that_has_everything_is_well_and_its_tests_change_nothing() {
    let agent = AGENT.lines().filter(|line| !line.starts_with("network")).collect::<Vec<_>>().join("\n");
    let folder = agent_workspace(&agent);
    let words =
        "DOCTOR_TOKEN=hunter2hunter2 crealeph doctor --agent one --test 'touch made && test ! -e .crealeph'";
    let (code, findings) = agent_doctor(folder.path(), words);
    assert_eq!(code, 0, "{findings:?}");
    assert_eq!(finding(&findings, "tests")["present"], true);
    assert!(!folder.path().join("ws/made").exists());
    assert!(!format!("{findings:?}").contains("hunter2hunter2"));
}

#[test]
fn unknown_agents_and_agents_without_a_program_are_distinguished() {
    let folder =
        agent_workspace("[work.agents.one]\nagent_id = \"agent-1\"\ncommand = [\"no-such-program\"]\n");
    let (code, _, said) = shell(folder.path(), "cd ws && crealeph doctor --agent two");
    assert!(code == 2 && said.contains("two") && said.contains("one"), "{code} {said}");
    let (code, findings) = agent_doctor(folder.path(), "crealeph doctor --agent one");
    assert_eq!(code, 1);
    assert_eq!(finding(&findings, "agent_program")["detail"], "`no-such-program` is not there");
    let (code, text, _) = shell(folder.path(), "cd ws && CREALEPH_OUTPUT=text crealeph doctor --agent one");
    assert!(code == 1 && text.contains("agent_program     FAULT") && text.contains("to fix it"), "{text}");
}
