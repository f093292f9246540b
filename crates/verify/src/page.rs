//! The second verifier: plain JavaScript modules that share nothing with this crate except the published formats, and the one HTML
//! file built from them. It loads nothing, and its policy allows only the script and the style in it, by hash.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::digest::Sha256;

macro_rules! modules {
    ($($name:literal)*) => { &[$(($name, include_str!(concat!("../page/", $name, ".js")))),*] };
}

/// The modules by name, without `.js`, each after those that it imports. The last is the page's own; the others need no document.
pub const VERIFIER_MODULES: &[(&str, &str)] = modules! {
    "bytes" "cbor" "blake3" "json" "finding" "signature" "sha256" "tree" "shape" "entry" "event" "rules" "note" "proof" "receipt_shapes" "receipt"
    "chain" "ssh" "passkey" "statements" "approvals" "grants" "export" "files" "basis" "runs" "report" "shown" "page"
};

const TEMPLATE: &str = include_str!("../page/page.html");
const STYLE: &str = include_str!("../page/page.css");

/// The verifier as one HTML file.
pub fn verifier_page() -> String {
    let script: String = VERIFIER_MODULES.iter().map(|(name, source)| closed(name, source)).collect();
    let hash = |text: &str| STANDARD.encode(Sha256::of(text.as_bytes()).as_bytes());
    let page = TEMPLATE.replace("{style-hash}", &hash(STYLE)).replace("{script-hash}", &hash(&script));
    page.replace("{style}", STYLE).replacen("{script}", &script, 1)
}

/// The part that judges and writes foreign text as people may see it, without the page, as one script: its modules are members of
/// `crealephVerifier`.
pub fn verifier_script() -> String {
    let judging = VERIFIER_MODULES.iter().filter(|(name, _)| *name != "page");
    let (mut script, mut names) = (String::new(), Vec::new());
    for (name, source) in judging {
        script.push_str(&closed(name, source));
        names.push(format!("{name}: module_{name}"));
    }
    format!("globalThis.crealephVerifier = (() => {{\n{script}return {{ {} }};\n}})();\n", names.join(", "))
}

/// A module as a function that returns its exports, so that no two modules share a name.
fn closed(name: &str, source: &str) -> String {
    let (mut body, mut exports, mut import) = (String::new(), Vec::new(), None::<String>);
    for line in source.lines() {
        if import.is_some() || line.starts_with("import ") {
            let statement = import.unwrap_or_default() + line;
            import = (!line.ends_with(';')).then(|| statement.clone());
            if let (None, Some((names, module))) = (&import, import_parts(&statement)) {
                body.push_str(&format!("const {{ {names} }} = module_{module};\n"));
            }
            continue;
        }
        let line = match line.strip_prefix("export ") {
            Some(declared) => {
                exports.push(declared_name(declared));
                declared
            }
            None => line,
        };
        body.push_str(line);
        body.push('\n');
    }
    format!("const module_{name} = (() => {{\n{body}return {{ {} }};\n}})();\n", exports.join(", "))
}

/// The names and the module of `import { names } from './module.js';`.
fn import_parts(statement: &str) -> Option<(&str, &str)> {
    let (names, module) =
        statement.strip_prefix("import {")?.strip_suffix(".js';")?.split_once("} from './")?;
    Some((names.trim().trim_end_matches(','), module))
}

/// The name that a declaration introduces.
fn declared_name(declaration: &str) -> &str {
    let words = ["async ", "function* ", "function ", "class ", "const "];
    let rest = words.iter().fold(declaration, |rest, word| rest.strip_prefix(word).unwrap_or(rest));
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(rest)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]
    use super::*;

    #[test]
    fn every_import_is_of_an_earlier_module_that_exports_it() {
        let exported = |source: &str| -> Vec<String> {
            let lines = source.lines().filter_map(|line| line.strip_prefix("export "));
            lines.map(|line| declared_name(line).to_owned()).collect()
        };
        for (position, (name, source)) in VERIFIER_MODULES.iter().enumerate() {
            for statement in
                source.replace('\n', " ").split(';').filter(|it| it.trim().starts_with("import "))
            {
                let statement = format!("{};", statement.trim());
                let (names, module) =
                    import_parts(&statement).unwrap_or_else(|| panic!("{name}: {statement}"));
                let earlier = VERIFIER_MODULES[..position].iter().find(|(name, _)| *name == module);
                let (_, earlier) = earlier.unwrap_or_else(|| panic!("{name} imports {module}"));
                for word in names.split(',').map(str::trim) {
                    assert!(
                        exported(earlier).iter().any(|it| it == word),
                        "{name} imports {word} from {module}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_page_is_whole_and_its_policy_names_what_is_in_it() {
        let page = verifier_page();
        let between = |from: &str, to: &str| page.split(from).nth(1).unwrap().split(to).next().unwrap();
        let hash =
            |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::of(text.as_bytes()).as_bytes()));
        let policy = between("Content-Security-Policy\" content=\"", "\"");
        for (name, text) in [
            ("script-src", between("<script type=\"module\">", "</script>")),
            ("style-src", between("<style>", "</style>")),
        ] {
            assert!(policy.contains(&format!("{name} {};", hash(text))), "{policy}");
        }
        assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
        let script = between("<script type=\"module\">", "</script>");
        assert!(!script.contains("\nimport ") && !script.contains("\nexport ") && !script.contains("</"));
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(!page.contains("http://"), "it names no other host");
    }

    #[test]
    fn a_module_keeps_its_private_names() {
        let source = "import { a } from './one.js';\nimport {\n  b, c,\n} from './two.js';\nexport async function d() {}\nexport class E {}\nconst f = 1;\nexport const G = f;\nexport async function* h() {}\n";
        assert_eq!(
            closed("x", source),
            "const module_x = (() => {\nconst { a } = module_one;\nconst { b, c } = module_two;\nasync function d() {}\nclass E {}\nconst f = 1;\nconst G = f;\nasync function* h() {}\nreturn { d, E, G, h };\n})();\n"
        );
    }
}
