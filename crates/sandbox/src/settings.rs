//! A tool's settings without credentials: the part of the user's configuration of git, cargo and npm that a preset gives
//! a command. Owns which keys pass; refuses everything else, so that unknown keys stay outside.

use toml::{Table, Value};

/// The settings of git that pass, as `section.key`. None of them runs a program, includes a file or contains a credential.
const GIT_KEYS: &[&str] = &[
    "user.name",
    "user.email",
    "init.defaultbranch",
    "core.autocrlf",
    "core.eol",
    "core.safecrlf",
    "core.filemode",
    "core.ignorecase",
    "core.precomposeunicode",
    "core.quotepath",
    "core.whitespace",
    "core.abbrev",
    "color.ui",
    "diff.algorithm",
    "diff.renames",
    "diff.mnemonicprefix",
    "merge.conflictstyle",
    "pull.rebase",
    "pull.ff",
    "push.default",
    "rebase.autosquash",
    "rebase.autostash",
    "rerere.enabled",
    "log.date",
    "i18n.commitencoding",
];

/// The tables of cargo's configuration that pass. `env` does not: it may contain tokens.
const CARGO_TABLES: &[&str] = &[
    "alias",
    "build",
    "net",
    "patch",
    "profile",
    "registries",
    "registry",
    "source",
    "target",
    "term",
    "unstable",
];

/// Keys of cargo's configuration that never pass.
const CARGO_CREDENTIALS: &[&str] =
    &["token", "secret-key", "credential-provider", "global-credential-providers", "username", "password"];

/// Git's configuration with the keys that pass. A section with a name in quotes does not, nor does a value of several lines.
pub(crate) fn git(text: &str) -> String {
    let mut section = None;
    let mut passed = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix('[') {
            let name = rest.split_once(']').map(|(name, _)| name.trim().to_ascii_lowercase());
            section = name.filter(|name| !name.contains(['"', ' ', '.']));
            continue;
        }
        let (Some(section), Some((key, value))) = (&section, line.split_once('=')) else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        if GIT_KEYS.contains(&format!("{section}.{key}").as_str()) && !value.ends_with('\\') {
            passed.push_str(&format!("[{section}]\n\t{key} = {value}\n"));
        }
    }
    passed
}

/// Cargo's configuration with the tables that pass, without credentials in them; nothing if it cannot be read.
pub(crate) fn cargo(text: &str) -> String {
    let Ok(mut all) = text.parse::<Table>() else { return String::new() };
    all.retain(|name, _| CARGO_TABLES.contains(&name));
    all.iter_mut().for_each(|(_, value)| without_credentials(value));
    all.to_string()
}

fn without_credentials(value: &mut Value) {
    match value {
        Value::Table(table) => {
            table.retain(|key, _| !CARGO_CREDENTIALS.contains(&key.to_ascii_lowercase().as_str()));
            table.iter_mut().for_each(|(_, value)| without_credentials(value));
        }
        Value::Array(values) => values.iter_mut().for_each(without_credentials),
        Value::String(text) => *text = without_password(text),
        _ => {}
    }
}

/// The lines of npm's configuration that name a registry, without credentials in them.
pub(crate) fn npm(text: &str) -> String {
    let registries = text.lines().filter_map(|line| {
        let (key, value) = line.split_once('=')?;
        let (key, value) = (key.trim(), value.trim());
        let is_registry = key == "registry" || (key.starts_with('@') && key.ends_with(":registry"));
        let is_plain = !value.contains("${") && !value.contains('?');
        (is_registry && is_plain).then(|| format!("{key}={}\n", without_password(value)))
    });
    registries.collect()
}

/// A URL without the user and password in it.
fn without_password(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_settings_keep_identity_and_line_ends() {
        let text = "[user]\n\tname = Ana\n\tsigningkey = ABC\n[credential]\n\thelper = store\n[http]\n\textraHeader = Authorization: x\n\
                    [url \"https://ana:tok@example.com/\"]\n\tinsteadOf = https://example.com/\n[include]\n\tpath = secret\n\
                    [core]\n\tautocrlf = input\n\tfsmonitor = /bin/x\n\thooksPath = /x\n\tsshCommand = ssh -i key\n[user]\n\temail = ana@x\n\
                    [alias]\n\tp = !curl -H token\n";
        assert_eq!(git(text), "[user]\n\tname = Ana\n[core]\n\tautocrlf = input\n[user]\n\temail = ana@x\n");
        assert_eq!(git("[user]\nname = a \\\n  b\n[x \"user\"]\nname = c\n"), "");
    }

    #[test]
    fn cargo_settings_keep_everything_without_credentials() {
        let text = "[build]\njobs = 2\n[registries.own]\nindex = \"sparse+https://ana:tok@example.com/index\"\ntoken = \"tok\"\n\
                    [env]\nTOKEN = \"tok\"\n[registry]\nglobal-credential-providers = [\"tok\"]\n[http]\nproxy = \"ana:tok@p\"\n\
                    [source.a]\nregistry = \"https://tok@example.com\"\n";
        let passed = cargo(text);
        assert!(!passed.contains("tok"), "{passed}");
        assert!(
            passed.contains("jobs = 2") && passed.contains("sparse+https://example.com/index"),
            "{passed}"
        );
        assert_eq!(cargo("[broken"), "");
    }

    #[test]
    fn npm_settings_keep_the_registries() {
        let text = "registry=https://ana:tok@example.com/npm/\n//example.com/npm/:_authToken=tok\n_auth=tok\n@own:registry = https://own.example.com\nemail=x\n";
        assert_eq!(npm(text), "registry=https://example.com/npm/\n@own:registry=https://own.example.com\n");
    }
}
