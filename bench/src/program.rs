//! The program itself, built as it is released, in a folder of its own.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::{FOLDER, Outcome};

/// A command of the program, which trusts the configuration of its folder.
pub fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).env("CREALEPH_TRUST", "1").env("XDG_STATE_HOME", folder.join("state"));
    command
}

/// Runs a command of the program and returns its output.
pub fn run(program: &Path, folder: &Path, arguments: &[&str]) -> Outcome<String> {
    let output = command(program, folder).args(arguments).output()?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(String::from_utf8_lossy(&output.stderr).into()),
    }
}

/// Starts `crealeph serve` in a folder, on a free port of this machine.
pub fn serve(program: &Path, folder: &Path) -> Outcome<(Child, SocketAddr)> {
    let mut child = command(program, folder)
        .args(["serve", "--listen", "127.0.0.1:0", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
    let started: Value = serde_json::from_str(&line)?;
    let port = started["url"].as_str().and_then(|url| url.rsplit(':').next()).ok_or("no address")?;
    Ok((child, SocketAddr::from(([127, 0, 0, 1], port.trim_end_matches('/').parse()?))))
}

/// The resident memory of a process, in MiB.
pub fn resident_mib(child: &Child) -> Outcome<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: u64 = resident.and_then(|text| text.split_whitespace().next()).ok_or("no VmRSS")?.parse()?;
    Ok(kib / 1024)
}

/// Builds the program as it is released.
pub fn built() -> Outcome<PathBuf> {
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
