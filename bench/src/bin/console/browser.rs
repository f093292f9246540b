//! What chromium needs on loopback: the first page with nothing in its cache, and runs whose diff has 20,000 lines, in many files and in
//! one.

use std::path::Path;
use std::process::Command;

use crealeph_bench::{FOLDER, Outcome};

use crate::ConsoleServer;

const LONGEST_SECONDS: &str = "120";

pub(crate) fn table(server: &ConsoleServer) -> Outcome<()> {
    let root = Path::new(FOLDER).parent().ok_or("no folder")?;
    let tools = root.join("target/tools/browser");
    if !tools.is_dir() {
        return Err(format!("`{}` is missing; run `cargo xtask tools`", tools.display()).into());
    }
    println!("## In chromium, at {} entries\n", server.entries);
    let port = server.visitor.address.port();
    let status = Command::new("timeout")
        .args([LONGEST_SECONDS, "node"])
        .arg(Path::new(FOLDER).join("console.mjs"))
        .env("CREALEPH_BROWSER_TOOLS", tools)
        .env("CREALEPH_URL", format!("http://localhost:{port}"))
        .env("CREALEPH_COOKIE", &server.visitor.cookie)
        .env("CREALEPH_RUN_OF_FILES", &server.marks.long_diff)
        .env("CREALEPH_RUN_OF_ONE_FILE", &server.marks.long_file)
        .current_dir(&server.folder)
        .status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("the browser's part failed: {status}").into()),
    }
}
