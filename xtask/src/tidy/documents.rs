//! Rules about documents: links lead somewhere, and named readings exist.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::manifests::resolve;
use super::repository::Repository;
use super::rust_source::Kind;

const READINGS: &str = "docs/contracts/readings.md";

pub(super) fn links(repository: &Repository<'_>) -> Vec<Violation> {
    let documents: BTreeMap<&str, &str> = repository
        .texts
        .iter()
        .filter(|file| file.path.ends_with(".md"))
        .map(|file| (file.path, file.text))
        .collect();
    let mut violations = Vec::new();
    for (path, text) in &documents {
        for (line, prose) in prose(text) {
            for target in targets(&prose) {
                if let Some(what) = broken(repository, &documents, path, &target) {
                    violations.push(Violation::new(path, line, what));
                }
            }
        }
    }
    violations
}

fn broken(
    repository: &Repository<'_>,
    documents: &BTreeMap<&str, &str>,
    from: &str,
    target: &str,
) -> Option<String> {
    let (relative, anchor) =
        target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let has_scheme = relative.split('/').next().is_some_and(|first| first.contains(':'));
    if has_scheme {
        return None;
    }
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let path = match relative.strip_prefix('/') {
        _ if relative.is_empty() => Some(from.to_owned()),
        Some(from_root) => resolve("", from_root),
        None => resolve(folder, relative),
    };
    let Some(path) = path else {
        return Some(format!(
            "the link `{target}` leaves the repository; link inside it or to a full address"
        ));
    };
    let inside = format!("{path}/");
    let exists =
        path.is_empty() || repository.paths.iter().any(|file| *file == path || file.starts_with(&inside));
    if !exists {
        return Some(format!(
            "the link `{target}` leads to `{path}`, which does not exist; fix or remove it"
        ));
    }
    let (anchor, text) = (anchor?, documents.get(path.as_str())?);
    (!anchors(text).contains(anchor))
        .then(|| format!("the link `{target}` names a heading `{path}` does not have"))
}

/// The lines outside fenced code, with inline code blanked out.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fence: Option<&str> = None;
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, None) => found.push((number, without_code(line))),
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
        }
    }
    found
}

/// The line with every closed code span removed.
fn without_code(line: &str) -> String {
    let mut prose = String::new();
    let mut rest = line;
    while let Some((before, code)) = rest.split_once('`') {
        prose.push_str(before);
        match code.split_once('`') {
            Some((_, after)) => rest = after,
            None => rest = code,
        }
    }
    prose.push_str(rest);
    prose
}

/// The targets of the links, images and link definitions of a line.
fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).map(|rest| {
        let mut depth = 1_usize;
        let closes = |c: char| {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            depth == 0
        };
        rest.split(closes).next().unwrap_or_default()
    });
    let definition =
        line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
    let bare = |target: &str| {
        // A title may follow the target; angle brackets may surround it.
        let target = target.split_whitespace().next().unwrap_or_default();
        target.trim_start_matches('<').trim_end_matches('>').replace("%20", " ")
    };
    inline.chain(definition).map(bare).filter(|target| !target.is_empty()).collect()
}

/// The anchors of a document as GitHub makes them from its headings, and those written as HTML.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut repeats: BTreeMap<String, usize> = BTreeMap::new();
    let outside_code: BTreeSet<usize> = prose(text).into_iter().map(|(number, _)| number).collect();
    for (_, line) in (1..).zip(text.lines()).filter(|(number, _)| outside_code.contains(number)) {
        for written in ["id=\"", "name=\""] {
            found.extend(
                line.split(written)
                    .skip(1)
                    .filter_map(|rest| rest.split_once('"'))
                    .map(|(id, _)| id.to_owned()),
            );
        }
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if (1..=6).contains(&level) && heading.starts_with(' ') {
            let slug = slug(heading.trim());
            let repeat = repeats.entry(slug.clone()).or_default();
            found.insert(if *repeat == 0 { slug } else { format!("{slug}-{repeat}") });
            *repeat += 1;
        }
    }
    found
}

fn slug(heading: &str) -> String {
    // Only the text of a link counts.
    let mut parts = heading.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    text.extend(parts.map(|part| part.split_once(')').map_or("", |(_, after)| after)));
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

pub(super) fn readings(repository: &Repository<'_>) -> Vec<Violation> {
    let known: BTreeSet<u32> = repository
        .text(READINGS)
        .unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with("**R"))
        .flat_map(|line| named_readings(line).into_iter().take(1))
        .collect();
    let mut violations = Vec::new();
    let mut judge = |path: &str, first_line: usize, text: &str| {
        for (line, text) in (first_line..).zip(text.lines()) {
            for number in named_readings(text).into_iter().filter(|number| !known.contains(number)) {
                let what =
                    format!("R{number} is not a reading of {READINGS}; name an existing one or add it");
                violations.push(Violation::new(path, line, what));
            }
        }
    };
    for file in &repository.rust {
        let literals = file.code.iter().filter(|token| token.kind == Kind::Literal);
        file.comments.iter().chain(literals).for_each(|token| judge(file.path, token.line, token.text));
    }
    for file in repository.texts.iter().filter(|file| file.path.ends_with(".md")) {
        judge(file.path, 1, file.text);
    }
    violations
}

/// The numbers of words like `R9`.
fn named_readings(text: &str) -> Vec<u32> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let digits = words.filter_map(|word| word.strip_prefix('R'));
    digits
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|word| word.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::findings;
    use super::*;

    const TARGET: &str = "# The first `Thing`, and more\n\n## Twice\n\n## Twice\n\n<a id=\"by-hand\"></a>\n\n```\n# no heading\n```\n";

    fn said(text: &str) -> Vec<String> {
        findings(links, &[("docs/a.md", text), ("docs/b.md", TARGET), ("README.md", ""), ("src/a.rs", "")])
    }

    #[test]
    fn broken_links_are_refused() {
        for text in [
            "\n[x](missing.md)",
            "\n![x](missing.png)",
            "\n[x](../docs/missing.md \"title\")",
            "\n[x](<missing.md>)",
            "\n[x]: missing.md",
            "\n[x](../../outside.md)",
            "\n[x](/docs/missing.md)",
            "\n[x](b.md#missing)",
            "\n[x](b.md#no-heading)",
            "\n[x](b.md#twice-2)",
            "\n[x](#missing)",
            "\n`code` [x](missing.md)",
            "\nit`s [x](missing.md)",
            "\n[x](b.md) and [y](missing.md)",
        ] {
            let found = said(text);
            assert!(found.len() == 1 && found[0].starts_with("docs/a.md:2: "), "{text}: {found:?}");
        }
    }

    #[test]
    fn good_links_and_code_pass() {
        for text in [
            "[x](b.md) [y](../README.md) [z](./b.md) [root](/README.md) [folder](../src) [up](..)",
            "[x](b.md#the-first-thing-and-more) [y](b.md#twice) [z](b.md#twice-1) [w](b.md#by-hand)",
            "# Here\n[x](#here) [y](../src/a.rs#L3)",
            "[x](https://example.org/missing.md#x) [y](mailto:a@example.org)",
            "`[x](missing.md)`",
            "```\n[x](missing.md)\n```",
            "[x]: b.md",
        ] {
            assert_eq!(said(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn unknown_readings_are_refused_in_code_and_documents() {
        let (known, unknown) = (format!("R{}", 9), format!("R{}", 99));
        let readings_file = format!("**{known} States.** See {known}.\n");
        let said = |path: &str, text: &str| findings(readings, &[(READINGS, &readings_file), (path, text)]);
        for (path, text) in [
            ("a.rs", format!("\n// as {unknown} says")),
            ("a.rs", format!("\nlet x = \"({unknown})\";")),
            ("a.rs", format!("/* a\n{known}–{unknown} */")),
            ("a.md", format!("\nsee {unknown}")),
        ] {
            let found = said(path, &text);
            assert!(found.len() == 1 && found[0].starts_with(&format!("{path}:2: ")), "{text}: {found:?}");
        }
        for text in
            [format!("// {known}, RFC 8785, x{unknown}, {unknown}x"), format!("fn f<{unknown}>() {{}}")]
        {
            assert_eq!(said("a.rs", &text), [""; 0], "{text}");
        }
    }
}
