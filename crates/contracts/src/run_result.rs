//! RunResult (agent-run, R31): how one run of a work item ended.

use serde_json::{Value, json};

use crate::contract::{Contract, ContractName};
use crate::digest::Blake3;
use crate::json::{Node, NodeKind, ObjectWriter, push_text};
use crate::scalar::{Amount, Count, Text};
use crate::schema::{has, when};
use crate::shape::{List, Shape, object, scalar_parts, words, wrong_type};
use crate::uuid::Uuid;
use crate::violation::{Code, Report};

words! {
    /// How a run ended.
    RunStatus {
        /// Whole.
        Success = "success",
        /// A tool, a test, a conflict or a missing output.
        Failure = "failure",
        /// A bound was exceeded.
        Denied = "denied",
        /// Its time ran out.
        Timeout = "timeout",
    }
}

/// An absolute path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AbsolutePath(Box<str>);

impl AbsolutePath {
    /// Takes a path that starts at the root.
    pub fn parse(path: &str) -> Option<Self> {
        (path.starts_with('/') && !path.contains('\0')).then(|| AbsolutePath(path.into()))
    }

    /// The path.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Shape for AbsolutePath {
    scalar_parts!();
    const EXPECTED: &'static str = "an absolute path";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Text {
            return wrong_type::<Self>(node, clause, report);
        }
        let path = AbsolutePath::parse(&node.text_value());
        if path.is_none() {
            report.at(node, clause, Code::BadForm, || {
                "expected an absolute path, one that starts with `/`".to_owned()
            });
        }
        path
    }

    fn write(&self, out: &mut String) {
        push_text(out, &self.0);
    }

    fn schema() -> Value {
        json!({ "type": "string", "pattern": "^/[^\u{0}]*$" })
    }
}

/// The BLAKE3 of each file that a run left, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArtifactHashes(Vec<(Box<str>, Blake3)>);

impl ArtifactHashes {
    /// The hashes, sorted by path.
    pub fn new(mut hashes: Vec<(Box<str>, Blake3)>) -> Self {
        hashes.sort();
        hashes.dedup_by(|(later, _), (earlier, _)| later == earlier);
        ArtifactHashes(hashes)
    }

    /// Path and hash, sorted by path.
    pub fn as_slice(&self) -> &[(Box<str>, Blake3)] {
        &self.0
    }
}

impl Shape for ArtifactHashes {
    scalar_parts!();
    const EXPECTED: &'static str = "an object of BLAKE3 digests by path";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() != NodeKind::Object {
            return wrong_type::<Self>(node, clause, report);
        }
        let mut hashes = Vec::new();
        for (path, hash) in node.members() {
            if let Some(hash) = Blake3::read(hash, clause, report) {
                hashes.push((path.text_value().into(), hash));
            }
        }
        Some(ArtifactHashes::new(hashes))
    }

    fn write(&self, out: &mut String) {
        let mut object = ObjectWriter::new(out);
        for (path, hash) in &self.0 {
            object.text(path, &hash.to_string());
        }
        object.end();
    }

    fn schema() -> Value {
        json!({ "type": "object", "additionalProperties": Blake3::schema() })
    }
}

object! {
    /// What a run took.
    RunMetrics / RunMetricsParts ["run/output", "R4"] {
        /// How long it took, in milliseconds.
        execution_time_ms: Amount = "execution_time_ms",
        /// How many tool operations it used.
        tool_ops_count: Count = "tool_ops_count",
        /// How many deltas the change has.
        delta_size: Count = "delta_size",
        /// How many files it touched.
        files_touched: Count = "files_touched",
        /// How many tests passed.
        tests_passed: Option<Count> = "tests_passed",
        /// How many failed.
        tests_failed: Option<Count> = "tests_failed",
    }
}

object! {
    /// How one run of a work item ended.
    RunResult / RunResultParts ["run/output", "R4"] {
        /// The outcome.
        status: RunStatus = "status",
        /// Its receipt.
        receipt_id: Uuid = "receipt_id",
        /// Where that is.
        receipt_path: Text = "receipt_path",
        /// The files that changed.
        modified_files: List<AbsolutePath> = "modified_files",
        /// The files that are new.
        created_files: List<AbsolutePath> = "created_files",
        /// The files that are gone.
        deleted_files: List<AbsolutePath> = "deleted_files",
        /// The state of the workspace afterwards.
        output_hash: Blake3 = "output_hash",
        /// The files it left.
        artifact_hashes: ArtifactHashes = "artifact_hashes",
        /// What it took.
        metrics: RunMetrics = "metrics",
        /// What the tests printed.
        test_output: Option<Box<str>> = "test_output",
        /// The script that replays it.
        proof_script: Option<Text> = "proof_script",
        /// What went wrong.
        error: Option<Text> = "error",
        /// The bound that was exceeded.
        denial_reason: Option<Text> = "denial_reason",
    }
}

impl Contract for RunResult {
    const NAME: ContractName = ContractName::RunResult;

    fn rules(parts: &RunResultParts, report: &mut Report) {
        let Some(status) = parts.status else { return };
        let mut demand = |key: &str, is_present: bool, is_wanted: bool| {
            if is_present && !is_wanted {
                let message = format!("a run that ended in {status} has no `{key}`; remove it");
                report.add(format!("/{key}"), "R31", Code::Forbidden, message);
            } else if !is_present && is_wanted {
                let message = format!("a run that ended in {status} must have `{key}`; add it");
                report.add(format!("/{key}"), "R31", Code::Required, message);
            }
        };
        demand("error", parts.error.is_present(), matches!(status, RunStatus::Failure | RunStatus::Timeout));
        demand("denial_reason", parts.denial_reason.is_present(), status == RunStatus::Denied);
        demand("proof_script", parts.proof_script.is_present(), status == RunStatus::Success);
        if status == RunStatus::Success {
            return;
        }
        let lists = [
            ("modified_files", &parts.modified_files),
            ("created_files", &parts.created_files),
            ("deleted_files", &parts.deleted_files),
        ];
        let mut left: Vec<&str> = lists
            .into_iter()
            .filter(|(_, files)| files.as_ref().is_some_and(|files| !files.is_empty()))
            .map(|(key, _)| key)
            .collect();
        if parts.artifact_hashes.as_ref().is_some_and(|hashes| !hashes.as_slice().is_empty()) {
            left.push("artifact_hashes");
        }
        for key in left {
            let message =
                format!("a run that ended in {status} leaves nothing behind; `{key}` must be empty");
            report.add(format!("/{key}"), "R31", Code::Forbidden, message);
        }
    }

    fn schema_rules() -> Vec<Value> {
        let nothing_left = json!({
            "modified_files": { "maxItems": 0 },
            "created_files": { "maxItems": 0 },
            "deleted_files": { "maxItems": 0 },
            "artifact_hashes": { "maxProperties": 0 },
            "proof_script": false,
        });
        vec![
            when(
                has("status", json!({ "const": "success" })),
                json!({
                    "required": ["proof_script"],
                    "properties": { "error": false, "denial_reason": false },
                }),
            ),
            when(
                has("status", json!({ "enum": ["failure", "timeout"] })),
                json!({ "required": ["error"], "properties": { "denial_reason": false } }),
            ),
            when(
                has("status", json!({ "const": "denied" })),
                json!({ "required": ["denial_reason"], "properties": { "error": false } }),
            ),
            when(
                has("status", json!({ "enum": ["failure", "denied", "timeout"] })),
                json!({ "properties": nothing_left }),
            ),
        ]
    }
}
