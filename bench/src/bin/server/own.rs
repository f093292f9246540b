//! Our side: the program itself, built as it is released, with a ledger of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Child;

use crealeph_bench::program::{built, resident_mib, run, serve};
use crealeph_bench::{FOLDER, Outcome};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::Request;

/// Limits that a single client on one machine would reach, raised.
const CONFIGURATION: &str = "[server]\nmax_requests_per_second = 1000000\nmax_requests_per_key = 65536\n\
    max_connections = 4096\nmax_streams = 4096\nmax_runs = 64\n[agents.\"example@1\"]\nkind = \"example\"\n";

/// Everything that a snapshot shows, of robot `r`.
const KNOWN: [&str; 6] = ["signal", "fusion", "idea", "copy", "benchmark", "playbook"];

pub(crate) struct OwnServer {
    program: PathBuf,
    folder: TempDir,
    child: Child,
    address: SocketAddr,
    token: String,
}

impl OwnServer {
    pub(crate) fn start() -> Outcome<OwnServer> {
        let program = built()?;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("crealeph.toml"), CONFIGURATION)?;
        let mut entries = String::new();
        for (place, kind) in KNOWN.iter().enumerate() {
            let on: Vec<String> = KNOWN.iter().take(place).map(|kind| format!("\"key:{kind}\"")).collect();
            entries.push_str(&entry(kind, kind, &on.join(",")));
            entries.push('\n');
        }
        std::fs::write(folder.path().join("entries.jsonl"), entries)?;
        let run = |arguments: &[&str]| run(&program, folder.path(), arguments);
        run(&["ledger", "init"])?;
        run(&["ledger", "append", "entries.jsonl"])?;
        let key: Value = serde_json::from_str(&run(&["key", "create", "--role", "operator", "--json"])?)?;
        let token = key["token"].as_str().ok_or("no token")?.to_owned();
        let (child, address) = serve(&program, folder.path())?;
        Ok(OwnServer { program, folder, child, address, token })
    }

    /// The program's output for this ledger, in addition to the server's.
    pub(crate) fn run(&self, arguments: &[&str]) -> Outcome<String> {
        run(&self.program, self.folder.path(), arguments)
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn request(&self, name: &'static str, method: &str, path: &str, body: &str) -> Request {
        Request::new(name, method, path, &self.token, body)
    }

    /// The requests that are compared; the last one moves the head of the log.
    pub(crate) fn requests(&self) -> Outcome<Vec<Request>> {
        let example = |name: &str| std::fs::read_to_string(format!("{FOLDER}/../examples/{name}"));
        let mut question: Value = serde_json::from_str(&example("policy-input.json")?)?;
        if let Some(question) = question.as_object_mut() {
            question.insert("tenantId".to_owned(), "local".into());
            question.insert("robotId".to_owned(), "r".into());
        }
        Ok(vec![
            self.request("policy evaluate", "POST", "/v1/policy/evaluate", &question.to_string()),
            self.request("validate", "POST", "/v1/validate/agent-output", &example("agent-output.json")?),
            self.request("snapshot", "GET", "/v1/robots/r/snapshot", ""),
            self.request("append", "POST", "/v1/entries", &signal("")),
        ])
    }

    pub(crate) fn resident_mib(&self) -> Outcome<u64> {
        resident_mib(&self.child)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A note under a client key.
pub(crate) fn keyed(key: &str) -> String {
    format!(
        r#"{{"key":"{key}","robotId":"r","module":"m","source":"s","type":"note","state":"final","payload":{{"text":"{}"}}}}"#,
        "words ".repeat(20)
    )
}

/// A new signal with this in its payload.
pub(crate) fn signal(more: &str) -> String {
    format!(
        r#"{{"robotId":"r","module":"m","source":"s","type":"signal","state":"final","payload":{{"text":"{}"{more}}}}}"#,
        "words ".repeat(20)
    )
}

fn entry(kind: &str, key: &str, on: &str) -> String {
    format!(
        r#"{{"key":"{key}","robotId":"r","module":"m","source":"s","type":"{kind}","state":"final","payload":{{"text":"{}"}},"lineage":{{"dependsOnLedgerIds":[{on}]}}}}"#,
        "words ".repeat(20)
    )
}
