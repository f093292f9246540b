//! Runs a script of stories with node, bounded in time.

use std::path::Path;
use std::process::Command;

/// Longer than any script takes on a busy machine, in seconds.
const PATIENCE: &str = "180";

/// Runs a script of this folder, and fails with what it printed. Screenshots are left in `console` under cargo's folder for
/// temporary files of tests.
pub(crate) fn tell(script: &str, variables: &[(&str, &str)]) {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let tools = temporary.parent().unwrap().join("tools/browser");
    assert!(tools.is_dir(), "`{}` is missing; run `cargo xtask tools`", tools.display());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/console").join(script);
    let mut node = Command::new("timeout");
    node.args([PATIENCE, "node"]).arg(&script).envs(variables.iter().copied());
    node.env("CREALEPH_BROWSER_TOOLS", tools).env("CREALEPH_SCREENSHOTS", temporary.join("console"));
    let output = node.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{} failed ({}):\n{said}", script.display(), output.status);
}
