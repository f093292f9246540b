//! Schemathesis, which makes requests from the OpenAPI document, all checks on: no failure of the server, no status and no
//! answer that the document does not describe, nothing without a key that needs one.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::events::append;
use crate::metrics::packages;
use crate::running::Running;

/// The operations that are tried. The stream never ends, and has its own tests; what revokes keys is tried alone, because it finds
/// the ids of those in use.
const TRIED: &str = "^/(healthz|readyz|openapi.json|docs|v1/(entries|executions|robots|log|inbox|people|rules|report|usage|signers|work|schemas|keys|approvals|verdicts|builder|policy|validate|webhooks|export|ids).*)$";
const ALONE: &str = "DELETE /v1/keys/{id}";

/// Tries some operations.
fn fuzz(server: &Running, which: &[&str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/schemathesis");
    let tokens = ["operator", "auditor", "admin"].map(|role| (role, server.key("t", &["--role", role])));
    let tokens: serde_json::Map<_, _> =
        tokens.map(|(role, token)| (role.to_owned(), json!(token))).into_iter().collect();
    let paths = std::env::join_paths([packages(), folder.clone()]).unwrap();
    let mut fuzzer = Command::new("timeout");
    // What is sent is the same each time, about 2,000 requests.
    fuzzer.args(["300", "python3", "-c", "from schemathesis.cli import schemathesis; schemathesis()"]);
    fuzzer.arg("--config-file").arg(folder.join("schemathesis.toml")).arg("run");
    fuzzer.arg(format!("{}/openapi.json", server.url));
    fuzzer.args(["--checks", "all", "--phases", "coverage,fuzzing", "--max-examples", "3"]);
    fuzzer.args(["--generation-deterministic", "--continue-on-failure", "--no-shrink", "--no-color"]);
    fuzzer.args(which).env("PYTHONPATH", paths).env("SCHEMATHESIS_HOOKS", "keys");
    fuzzer.env("CREALEPH_TOKENS", json!(tokens).to_string()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = fuzzer.current_dir(server.scratch.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("passed"), "{said}");
}

#[test]
fn the_server_does_what_its_document_says() {
    let server = Running::start("[server]\nmax_requests_per_second = 100000\n");
    let writer = server.key("t", &["--role", "writer"]);
    append(&server, &writer, "0", "0");
    fuzz(&server, &["--include-path-regex", TRIED, "--exclude-name", ALONE]);
    fuzz(&server, &["--include-name", ALONE]);
    server.assert_serves();
    let log = server.log();
    assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
}
