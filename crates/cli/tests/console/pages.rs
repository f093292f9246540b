//! The console over the ledger that the demo leaves: what a person finds who runs `crealeph demo --serve`.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use serde_json::Value;

use crate::scratch::{Scratch, ended, signal};
use crate::stories::tell;

/// Entries that would act, hide or overflow if they were not shown as text.
const HOSTILE: &str = r#"{"robotId":"<img src=x onerror=alert(1)>","module":"</td><script>document.title='hacked'</script>","source":"s","type":"signal","state":"\u202efinal","payload":{"text":"</pre><script>document.title='hacked'</script>"}}"#;

pub(crate) struct Demo {
    scratch: Scratch,
    pub(crate) url: String,
    child: Option<Child>,
}

impl Demo {
    pub(crate) fn serve() -> Demo {
        let scratch = Scratch::new();
        let mut command =
            scratch.command(&["demo", "--folder", "demo", "--serve", "--listen", "127.0.0.1:0"]);
        let log = std::fs::File::create(scratch.path().join("server.log")).unwrap();
        let mut child =
            command.env("HOME", scratch.path()).env("CREALEPH_OUTPUT", "json").stderr(log).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said = lines.map_while(Result::ok).find(|line| line.starts_with("{\"url\""));
        let said: Value = serde_json::from_str(&said.unwrap_or_else(|| {
            panic!("the demo does not serve: {}", scratch.read("server.log"));
        }))
        .unwrap();
        Demo { url: said["url"].as_str().unwrap().to_owned(), scratch, child: Some(child) }
    }

    pub(crate) fn run(&self, args: &[&str]) -> String {
        let mut command = self.scratch.command(args);
        command.current_dir(self.scratch.path().join("demo/decisions")).env("HOME", self.scratch.path());
        let (code, stdout, stderr) = ended(command.spawn().unwrap());
        assert_eq!(code, 0, "{args:?}: {stderr}");
        stdout
    }

    /// An execution that is blocked by outdated evidence, and succeeds when it is tried again with new evidence.
    fn retry_a_blocked_execution(&self) {
        let entry = |key: &str, kind: &str, on: &str| {
            format!(
                r#"{{"key":"{key}","robotId":"retried","module":"m","source":"s","type":"{kind}","state":"final","payload":{{}},"lineage":{{"dependsOnLedgerIds":[{on}]}}}}"#
            )
        };
        let known = [entry("t1", "signal", ""), entry("t2", "idea", "\"key:t1\""), entry("t3", "signal", "")];
        let append = |entries: &[String]| {
            self.scratch.write("demo/decisions/retried.jsonl", &format!("{}\n", entries.join("\n")));
            self.run(&["ledger", "append", "retried.jsonl"]);
        };
        let build = |attempt: u32| {
            let request = format!(
                r#"{{"robotId":"retried","objective_type":"landing_plan","objective_payload":{{}},"constraints":{{}},"coherence_policy":{{"on_stale":"block","on_partial":"draft_only"}},"dryRun":false,"workflowVersion":"1","agentVersion":"example@1","attempt":{attempt},"executionId":"tries-1"}}"#
            );
            self.scratch.write("demo/decisions/retried.json", &request);
            let mut command = self.scratch.command(&["build", "retried.json"]);
            command.current_dir(self.scratch.path().join("demo/decisions")).env("HOME", self.scratch.path());
            ended(command.spawn().unwrap())
        };
        append(&known);
        let (_, blocked, _) = build(1);
        assert!(blocked.contains("COHERENCE_BLOCKED"), "{blocked}");
        append(&[entry("t4", "idea", "\"key:t3\"")]);
        // Drafts, because the evidence is partial.
        let (code, stdout, stderr) = build(2);
        assert_eq!(code, 4, "{stdout}{stderr}");
    }

    pub(crate) fn link(&self, role: &str) -> String {
        let said: Value =
            serde_json::from_str(&self.run(&["key", "link", "--role", role, "--url", &self.url, "--json"]))
                .unwrap();
        said["url"].as_str().unwrap().to_owned()
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            signal(&child, "-TERM");
            ended(child);
        }
    }
}

#[test]
fn people_see_and_decide_in_a_browser() {
    let demo = Demo::serve();
    demo.scratch.write("demo/decisions/hostile.jsonl", &format!("{HOSTILE}\n"));
    demo.run(&["ledger", "append", "hostile.jsonl"]);
    let key: Value =
        serde_json::from_str(&demo.run(&["key", "create", "--role", "writer", "--json"])).unwrap();
    demo.run(&["webhook", "create", "https://hook.invalid/", "--label", "to the chat"]);
    // What the reader kept.
    demo.run(&["ledger", "checkpoint"]);
    let log_key = demo.run(&["ledger", "key", "--text"]).trim().to_owned();
    let stories = |script: &str, roles: &[&str]| {
        let links: Vec<_> = roles.iter().map(|role| demo.link(role)).collect();
        tell(
            script,
            &[
                ("CREALEPH_URL", &demo.url),
                ("CREALEPH_LINKS", &links.join(" ")),
                ("CREALEPH_LOG_KEY", &log_key),
                ("CREALEPH_TOKEN", key["token"].as_str().unwrap()),
            ],
        );
    };
    let each_role = ["reader", "writer", "auditor", "operator", "admin"];
    let others = ["operator", "operator", "operator", "reader", "operator", "admin", "reader"];
    stories("pages.mjs", &[&["operator"; 3][..], &each_role, &others].concat());
    demo.retry_a_blocked_execution();
    stories("attempts.mjs", &["reader"]);
    let again = ["reader", "operator"];
    stories("live.mjs", &[&["reader"; 10][..], &again, &again, &["reader"; 3]].concat());
}
