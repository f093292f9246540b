//! Why a program could not be started inside the sandbox, and which configuration would provide it. Looks at the machine; the
//! answer is part of the reason in the receipt.

use std::path::Path;

use crealeph_decision::work::{NotStarted, ProcessEnd, not_started};

use crate::agents::process::on_path;

/// How much of an output is searched, from its end.
const SEARCHED_BYTES: usize = 4 << 10;
/// Programs and the preset that grants them.
const PRESETS: [(&str, &[&str]); 4] = [
    ("python", &["python", "python3", "pip", "pip3", "pytest", "uv"]),
    ("node", &["node", "npm", "npx", "corepack", "yarn", "pnpm"]),
    ("go", &["go", "gofmt"]),
    ("rust", &["cargo", "rustc", "rustfmt"]),
];

/// What kept a command from running, if it was a program that could not be started; `table` is the table of the configuration that
/// would grant it.
pub(super) fn cause(end: &ProcessEnd, printed: &str, table: &str, root: &Path) -> Option<String> {
    let ProcessEnd::Exited(code) = end else { return None };
    let start = printed.ceil_char_boundary(printed.len().saturating_sub(SEARCHED_BYTES));
    let NotStarted { program, is_there } = not_started(*code, printed.get(start..)?)?;
    let reason = if is_there { "cannot be executed" } else { "was not found" };
    Some(format!("`{program}` {reason}; {}", remedy(&program, is_there, table, root)))
}

fn remedy(program: &str, is_there: bool, table: &str, root: &Path) -> String {
    let granting = |folder: &Path| format!("add `read = [\"{}\"]` to [{table}]", folder.display());
    if program.contains('/') {
        let path = root.join(program);
        let is_inside = path.starts_with(root);
        return match (path.exists(), path.parent()) {
            (false, _) if is_inside => {
                "there is no such file in the workspace either; create or install it".to_owned()
            }
            (false, _) => "there is no such file on this machine either; install it".to_owned(),
            (true, _) if is_inside && is_there => {
                format!("run `chmod +x {program}`, or name its interpreter")
            }
            (true, _) if is_inside => format!(
                "it is in the workspace, but the interpreter that it names is not in the sandbox: add its folder to `read` in [{table}]"
            ),
            (true, folder) => granting(folder.unwrap_or(&path)),
        };
    }
    let preset = PRESETS.iter().find(|(_, programs)| programs.contains(&program)).map(|(preset, _)| preset);
    match (on_path(program), preset) {
        (None, _) => "it is not on the PATH of this machine either; install it".to_owned(),
        (Some(_), Some(preset)) => format!("add `presets = [\"{preset}\"]` to [{table}]"),
        (Some(path), None) => granting(path.parent().unwrap_or(&path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_is_the_grant_that_provides_it() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("tool"), "#!/no/such\n").unwrap();
        let cause = |code, printed: &str| {
            cause(&ProcessEnd::Exited(code), printed, "work.agents.a.test", root.path()).unwrap_or_default()
        };
        let has =
            |text: String, parts: &[&str]| assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        has(
            cause(127, "sh: 1: ls: not found"),
            &["`ls` was not found", "read = [\"", "[work.agents.a.test]"],
        );
        has(cause(127, "sh: 1: no-such-tool: not found"), &["not on the PATH", "install it"]);
        has(cause(127, "sh: 1: .venv/bin/python: not found"), &["no such file in the workspace"]);
        has(cause(127, "sh: 1: ./tool: not found"), &["interpreter", "`read` in [work.agents.a.test]"]);
        has(cause(126, "sh: 1: ./tool: Permission denied"), &["cannot be executed", "chmod +x ./tool"]);
        has(cause(127, "sh: 1: /bin/sh: not found"), &["read = [\"/bin\"]"]);
        assert_eq!(cause(1, "sh: 1: ls: not found"), "");
    }
}
