//! The presets with the agents they are for: the real command lines from npm, in the sandbox, against a model server of our
//! own on loopback that calls their tools.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test says what it expects"
)]

mod model;
mod scene;

use std::fs;

use model::Turn;
use scene::Scene;
use serde_json::json;

/// The commands a model has an agent run by shell, one a turn, and then it is done.
fn shell(commands: &'static [&'static str]) -> impl Fn(usize) -> Turn + Send + Sync + 'static {
    move |turn| commands.get(turn).map_or(Turn::Say("Done."), |command| Turn::Shell((*command).to_owned()))
}

#[test]
fn claude_works_in_the_sandbox_and_its_stream_is_the_trace() {
    let scene = Scene::claude(shell(&["printf 'made\n' > made.txt", "cat made.txt >> kept.txt"]));
    let result = scene.run("Make made.txt", &[]);
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(fs::read_to_string(scene.at("kept.txt")).unwrap(), "kept\nmade\n");
    let receipt = scene.receipt(&result);
    let tools: Vec<&str> =
        receipt["tool_trace"].as_array().unwrap().iter().map(|call| call["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["Bash", "Bash"], "{receipt}");
    assert_eq!(receipt["tool_trace"][0]["input"]["command"], "printf 'made\n' > made.txt");
    // Three answers of 100 tokens in and 20 out each.
    assert_eq!(receipt["tokens_used"], 360, "{receipt}");
    assert!(receipt["cost_usd"].as_f64().unwrap() > 0.0, "{receipt}");
    scene.connected_to_the_model_alone(&receipt);
    scene.verifies(&result);
    let asked = scene.model.first_request();
    assert!(asked.to_string().contains("Make made.txt"), "the prompt is in what the model is asked");
    assert_eq!(scene.model.key().as_deref(), Some("sk-test-of-the-suite"), "by the key that was granted");
    assert!(!receipt.to_string().contains("sk-test-of-the-suite"));
}

#[test]
fn claude_that_deletes_everything_and_touches_ci_leaves_the_tree_as_it_was() {
    let scene = Scene::claude(shell(&[
        "rm -rf ./* .[a-fh-z]*",
        "mkdir -p .github && echo 'on: push' > .github/ci.yml",
    ]));
    let before = scene.tree();
    let result = scene.run("Tidy up", &[]);
    assert_eq!(result["status"], "denied", "{result}");
    assert_eq!(result["denial_reason"], "Denied path: .github/ci.yml");
    assert_eq!(scene.tree(), before);
    scene.verifies(&result);
}

#[test]
fn claude_is_stopped_when_it_uses_too_many_tools_or_tokens() {
    let scene = Scene::claude(|turn| Turn::Shell(format!("echo {turn} > {turn}.txt")));
    let before = scene.tree();
    let result = scene.run("Go on for ever", &["--max-tool-ops", "3"]);
    assert_eq!(result["status"], "denied", "{result}");
    assert!(result["denial_reason"].as_str().unwrap().starts_with("Exceeded max tool ops: "), "{result}");
    scene.configure("max_tokens = 500");
    let result = scene.run("Go on for ever", &["--max-tool-ops", "1000"]);
    assert_eq!(result["status"], "denied", "{result}");
    assert!(result["denial_reason"].as_str().unwrap().starts_with("Exceeded max tokens: "), "{result}");
    assert_eq!(scene.tree(), before);
}

#[test]
fn codex_works_in_the_sandbox_and_its_stream_is_the_trace() {
    let scene = Scene::codex(shell(&["printf 'made\n' > made.txt", "cat made.txt >> kept.txt"]));
    let result = scene.run("Make made.txt", &[]);
    assert_eq!(result["status"], "success", "{result}");
    assert_eq!(fs::read_to_string(scene.at("kept.txt")).unwrap(), "kept\nmade\n");
    let receipt = scene.receipt(&result);
    let trace = receipt["tool_trace"].as_array().unwrap();
    assert_eq!(trace.len(), 2, "{receipt}");
    assert_eq!(trace[0]["tool"], "command_execution");
    assert!(trace[0]["input"]["command"].as_str().unwrap().contains("made.txt"));
    assert_eq!(receipt["tokens_used"], 360, "{receipt}");
    assert_eq!(receipt.get("cost_usd"), None, "codex tells no cost");
    scene.connected_to_the_model_alone(&receipt);
    scene.verifies(&result);
    assert_eq!(scene.model.key().as_deref(), Some("sk-test-of-the-suite"), "by the key that was granted");
}

#[test]
fn codex_is_stopped_when_it_uses_too_many_tools() {
    let scene = Scene::codex(|turn| Turn::Shell(format!("echo {turn} > {turn}.txt")));
    let before = scene.tree();
    let result = scene.run("Go on for ever", &["--max-tool-ops", "3"]);
    assert_eq!(result["status"], "denied", "{result}");
    assert!(result["denial_reason"].as_str().unwrap().starts_with("Exceeded max tool ops: "), "{result}");
    assert_eq!(scene.tree(), before);
}

#[test]
fn both_are_known_without_a_configuration() {
    let scene = Scene::claude(shell(&[]));
    fs::remove_file(scene.at("crealeph.toml")).unwrap();
    let ran = scene.crealeph(&["work", "run", "--agent", "nobody", "Do it"]);
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.code() == Some(2) && printed.contains("claude, codex"), "{printed}");
    // Its own hosts are granted, and the one of the test is not: nothing is reached, and the tree stays.
    let before = scene.tree();
    let result = scene.run_with("Do it", &["--timeout", "20s"], &[("ANTHROPIC_MAX_RETRIES", "0")]);
    assert_ne!(result["status"], "success", "{result}");
    assert_eq!(scene.tree(), before);
    let hosts = scene.receipt(&result)["connections"].clone();
    let hosts = hosts.as_array().unwrap();
    assert!(hosts.iter().all(|one| one["host"] != json!(scene.model.address())), "{hosts:?}");
}
