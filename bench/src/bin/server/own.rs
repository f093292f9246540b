//! Our side: the program itself, built as it is released, with a ledger of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crealeph_bench::{FOLDER, Outcome};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::Request;

/// Bounds that a single client on one machine would hit, raised.
const CONFIGURATION: &str = "[server]\nmax_requests_per_second = 1000000\nmax_requests_per_key = 65536\n\
    max_connections = 4096\nmax_streams = 4096\n";

/// Everything that a snapshot shows, of robot `r`.
const KNOWN: [&str; 6] = ["signal", "fusion", "idea", "copy", "benchmark", "playbook"];

pub(crate) struct OwnServer {
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
        let run = |arguments: &[&str]| -> Outcome<String> {
            let output = command(&program, folder.path()).args(arguments).output()?;
            match output.status.success() {
                true => Ok(String::from_utf8(output.stdout)?),
                false => Err(String::from_utf8_lossy(&output.stderr).into()),
            }
        };
        run(&["ledger", "init"])?;
        run(&["ledger", "append", "entries.jsonl"])?;
        let key: Value = serde_json::from_str(&run(&["key", "create", "--role", "operator", "--json"])?)?;
        let token = key["token"].as_str().ok_or("no token")?.to_owned();
        let mut child = command(&program, folder.path())
            .args(["serve", "--listen", "127.0.0.1:0", "--json"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let told: Value = serde_json::from_str(&line)?;
        let port = told["url"].as_str().and_then(|url| url.rsplit(':').next()).ok_or("no address")?;
        let address = SocketAddr::from(([127, 0, 0, 1], port.trim_end_matches('/').parse()?));
        Ok(OwnServer { folder, child, address, token })
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
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib: u64 = resident.and_then(|text| text.split_whitespace().next()).ok_or("no VmRSS")?.parse()?;
        Ok(kib / 1024)
    }
}

impl Drop for OwnServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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

fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("CREALEPH_TRUST", "1").env("XDG_STATE_HOME", folder.join("state"));
    command
}

/// The program as it is released.
fn built() -> Outcome<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let manifest = format!("{FOLDER}/../Cargo.toml");
    let output = Command::new(cargo)
        .args(["build", "--release", "--locked", "--package", "crealeph-cli", "--manifest-path", &manifest])
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()?;
    let lines = String::from_utf8(output.stdout)?;
    let mut messages = lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let program = messages.find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)));
    program.ok_or_else(|| "cargo built no program".into())
}
