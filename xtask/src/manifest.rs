//! The parts of a `Cargo.toml` that the tasks read.

use std::fs;
use std::path::Path;

use crate::failure::{Failure, Outcome};

/// The names of the `[[bin]]` tables of the manifest at `path`, in order.
pub(crate) fn declared_programs(path: &Path) -> Outcome<Vec<String>> {
    let text = fs::read_to_string(path).map_err(Failure::file("read", path))?;
    let manifest = parse(&text, &path.display().to_string())?;
    let bins = manifest.get("bin").and_then(toml::Value::as_array).into_iter().flatten();
    Ok(bins.filter_map(|bin| bin.get("name")?.as_str().map(str::to_owned)).collect())
}

pub(crate) fn parse(text: &str, path: &str) -> Outcome<toml::Table> {
    toml::from_str(text).map_err(|error| Failure::Check(format!("`{path}` is not valid TOML: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::temporary::TemporaryFolder;

    #[test]
    fn programs_are_read_in_order() {
        let folder = TemporaryFolder::create().unwrap();
        let path = folder.path().join("Cargo.toml");
        fs::write(&path, "[[bin]]\nname = \"parse\"\n[[bin]]\nname = \"check\"\n").unwrap();
        assert_eq!(declared_programs(&path).unwrap(), ["parse", "check"]);
    }

    #[test]
    fn broken_toml_is_named_with_its_file() {
        assert!(parse("a = ", "bench/Cargo.toml").unwrap_err().to_string().contains("`bench/Cargo.toml`"));
    }
}
