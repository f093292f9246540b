//! The peer under node: ajv is installed if it is missing, started once, and asked for one turn at a time, so that it
//! takes part in the same race as the contenders that run here.

use std::fs;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::documents::Document;
use crate::{FOLDER, Outcome};

/// A node process that has every document and its compiled schema.
pub struct Ajv {
    child: Child,
    questions: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl Ajv {
    /// Installs ajv if it is missing, and starts it with these documents.
    pub fn start(documents: &[Document]) -> Outcome<Self> {
        install()?;
        let folder = format!("{FOLDER}/target/documents");
        fs::create_dir_all(&folder)?;
        for (number, document) in documents.iter().enumerate() {
            fs::write(format!("{folder}/document-{number}.json"), &document.text)?;
            fs::write(format!("{folder}/schema-{number}.json"), document.contract.schema())?;
        }
        let mut child = Command::new("node")
            .args(["ajv.mjs", &folder, &documents.len().to_string()])
            .current_dir(FOLDER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("node could not be started: {error}; install Node.js 20 or later"))?;
        let questions = child.stdin.take().ok_or("node has no standard input")?;
        let answers = BufReader::new(child.stdout.take().ok_or("node has no standard output")?).lines();
        Ok(Ajv { child, questions, answers })
    }

    /// How long so many iterations of that document took.
    pub fn run(&mut self, number: usize, iterations: u64) -> Outcome<Duration> {
        Ok(Duration::from_nanos(self.ask(&format!("{number} {iterations}"))?.parse()?))
    }

    /// Whether a text is valid by the schema of that document.
    pub fn judge(&mut self, number: usize, text: &str) -> Outcome<bool> {
        Ok(self.ask(&format!("{number} ?{text}"))? == "true")
    }

    fn ask(&mut self, question: &str) -> Outcome<String> {
        writeln!(self.questions, "{question}")?;
        self.questions.flush()?;
        Ok(self.answers.next().ok_or("node ended before it answered")??)
    }
}

impl Drop for Ajv {
    fn drop(&mut self) {
        // It ends by itself when its input does; later failures no longer matter.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn install() -> Outcome<()> {
    if Path::new(FOLDER).join("node_modules/ajv/package.json").is_file() {
        return Ok(());
    }
    eprintln!("installing ajv with npm");
    let status = Command::new("npm")
        .args(["ci", "--no-audit", "--no-fund", "--silent"])
        .current_dir(FOLDER)
        .status()
        .map_err(|error| format!("npm could not be started: {error}; install Node.js 20 or later"))?;
    if status.success() { Ok(()) } else { Err(format!("npm ended with {status}").into()) }
}
