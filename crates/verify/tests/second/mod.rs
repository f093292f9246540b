//! The second verifier, in JavaScript, asked the same questions as the first. It runs in node, as the page runs it in a browser.

use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::Value;

/// The answers to questions, in their order.
pub(crate) fn answers(questions: &[Value]) -> Vec<Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../verify/tests/second/answer.mjs");
    let mut node = Command::new("node");
    node.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = node
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start node, from the Debian package nodejs: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let text: String = questions.iter().map(|question| format!("{question}\n")).collect();
    let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answers: Vec<Value> = String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), questions.len(), "{said}");
    answers
}
