//! DBOS as a child process that is asked for one turn at a time; installed into a virtual environment of the bench's own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use crealeph_bench::Outcome;
use serde::Deserialize;

use crate::Figures;

const DBOS: &str = "dbos==3.3.0";

pub(crate) struct Peer {
    child: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Turn {
    seconds: f64,
    runs: Vec<f64>,
    overheads: Vec<f64>,
    failures: Vec<String>,
}

impl Peer {
    pub(crate) fn start(database_url: &str, port: u16) -> Outcome<Peer> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("builder_peer.py");
        let mut child = Command::new(python()?)
            .arg(script)
            .args([database_url, &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(asks), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("the peer has no pipes".into());
        };
        let mut peer = Peer { child, asks, answers: BufReader::new(answers) };
        peer.line()?;
        Ok(peer)
    }

    fn line(&mut self) -> Outcome<String> {
        let mut line = String::new();
        match self.answers.read_line(&mut line)? {
            0 => Err("the peer ended; see what it said above".into()),
            _ => Ok(line),
        }
    }

    pub(crate) fn turn(&mut self, clients: usize, time: Duration) -> Outcome<Figures> {
        writeln!(self.asks, "{{\"clients\":{clients},\"seconds\":{}}}", time.as_secs_f64())?;
        let Turn { seconds, runs, overheads, failures } = serde_json::from_str(&self.line()?)?;
        match failures.first() {
            Some(why) => Err(format!("a run of the peer failed: {why}").into()),
            None => Ok(Figures { seconds, runs, overheads }),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The Python that has DBOS, installed if there is none.
fn python() -> Outcome<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python");
    let python = folder.join("bin/python");
    if !python.is_file() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
    }
    run(Command::new(&python).args(["-m", "pip", "install", "--quiet", DBOS]))?;
    Ok(python)
}

fn run(command: &mut Command) -> Outcome<()> {
    match command.status()?.success() {
        true => Ok(()),
        false => Err(format!("{command:?} failed").into()),
    }
}

/// Our URL of a server behind a socket, as SQLAlchemy writes it.
pub(crate) fn sqlalchemy_url(url: &str) -> String {
    let rest = url.trim_start_matches("postgres://");
    let (user, rest) = rest.split_once('@').unwrap_or(("postgres", rest));
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    let (socket, port) = place.split_once(':').unwrap_or((place, "5432"));
    format!("postgresql+psycopg://{user}@/{database}?host={}&port={port}", socket.replace("%2F", "/"))
}
