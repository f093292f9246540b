//! How many tests passed and failed, read from what the common runners print: cargo test, nextest, pytest, unittest, jest,
//! vitest, mocha, node --test, go test, deno, bun, rspec, minitest, phpunit, Maven, .NET, ctest, TAP. Owns the reading
//! alone; the exit code says whether the tests passed.

/// What a test run says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TestCounts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

/// Reads the counts; nothing if no known runner has printed any.
pub(super) fn read(output: &str) -> Option<TestCounts> {
    let plain = without_colours(output);
    let lines: Vec<&str> = plain.lines().map(str::trim).collect();
    cargo(&lines)
        .or_else(|| nextest(&lines))
        .or_else(|| by_words(&lines))
        .or_else(|| unittest(&lines))
        .or_else(|| labelled(&lines))
        .or_else(|| ctest(&lines))
        .or_else(|| go(&lines))
        .or_else(|| tap(&lines))
}

/// `test result: ok. 3 passed; 1 failed; …`, one for each binary.
fn cargo(lines: &[&str]) -> Option<TestCounts> {
    let results = lines.iter().filter_map(|line| line.strip_prefix("test result:"));
    results
        .map(|line| TestCounts { passed: before(line, "passed"), failed: before(line, "failed") })
        .reduce(sum)
}

/// `Summary [ 0.1s] 5 tests run: 4 passed, 1 failed, 0 skipped`.
fn nextest(lines: &[&str]) -> Option<TestCounts> {
    let line =
        lines.iter().rev().find(|line| line.starts_with("Summary [") && line.contains("tests run:"))?;
    Some(TestCounts { passed: before(line, "passed"), failed: before(line, "failed") })
}

/// Summaries that put the number before a word; the last one in the output is the whole run's.
fn by_words(lines: &[&str]) -> Option<TestCounts> {
    let both = |line: &str, passed: &str, failed: &[&str]| TestCounts {
        passed: before(line, passed),
        failed: failed.iter().map(|word| before(line, word)).sum(),
    };
    for (at, line) in lines.iter().enumerate().rev() {
        let bare = line.trim_matches(['=', ' ']);
        // pytest: `2 failed, 3 passed, 1 error in 0.12s`.
        let is_pytest = bare.contains(" in ") && bare.ends_with('s') && starts_with_number(bare);
        if is_pytest && ["passed", "failed", "error", "errors", "skipped"].iter().any(|word| has(bare, word))
        {
            return Some(both(bare, "passed", &["failed", "error", "errors"]));
        }
        // jest `Tests: 1 failed, 2 passed, 3 total`, vitest `Tests  1 failed | 2 passed (3)`.
        if let Some(rest) = line.strip_prefix("Tests") {
            let is_summary = rest.contains("total") || rest.ends_with(')');
            if is_summary && (has(rest, "passed") || has(rest, "failed")) {
                return Some(both(rest, "passed", &["failed"]));
            }
        }
        // mocha: `5 passing (10ms)`, and on a separate line `1 failing`.
        if starts_with_number(line) && has(line, "passing") {
            let failing = lines.iter().skip(at).find(|line| starts_with_number(line) && has(line, "failing"));
            return Some(TestCounts {
                passed: before(line, "passing"),
                failed: failing.map_or(0, |line| before(line, "failing")),
            });
        }
        // deno: `ok | 5 passed | 0 failed (12ms)`.
        if (line.starts_with("ok |") || line.starts_with("FAILED |")) && has(line, "passed") {
            return Some(both(line, "passed", &["failed"]));
        }
        // bun: `5 pass`, then `0 fail`.
        if starts_with_number(line) && has(line, "fail") {
            let passed =
                lines.iter().take(at).rev().find(|line| starts_with_number(line) && has(line, "pass"));
            if let Some(passed) = passed {
                return Some(TestCounts { passed: before(passed, "pass"), failed: before(line, "fail") });
            }
        }
        // rspec `5 examples, 1 failure`, minitest `5 runs, 7 assertions, 1 failures, 0 errors, 0 skips`.
        for (all, bad) in [("examples", &["failure", "failures"][..]), ("runs", &["failures", "errors"][..])]
        {
            if starts_with_number(line) && has(line, all) {
                let failed = bad.iter().map(|word| before(line, word)).sum();
                return Some(TestCounts { passed: before(line, all).saturating_sub(failed), failed });
            }
        }
    }
    None
}

/// `Ran 5 tests in 0.001s`, then `OK` or `FAILED (failures=1, errors=2, skipped=1)`.
fn unittest(lines: &[&str]) -> Option<TestCounts> {
    let at = lines.iter().rposition(|line| line.starts_with("Ran ") && line.contains(" test"))?;
    let all = lines.get(at)?.split_whitespace().nth(1)?.parse::<u64>().ok()?;
    let verdict = lines.iter().skip(at + 1).find(|line| !line.is_empty()).copied().unwrap_or_default();
    let named = |name: &str| {
        let rest = verdict.split_once(&format!("{name}=")).map_or("", |(_, rest)| rest);
        digits(rest)
    };
    let failed = named("(failures").max(named(" failures")) + named("errors");
    let skipped = named("skipped");
    Some(TestCounts { passed: all.saturating_sub(failed + skipped), failed })
}

/// Summaries with the number after a label.
fn labelled(lines: &[&str]) -> Option<TestCounts> {
    let after = |line: &str, label: &str| line.split_once(label).map(|(_, rest)| digits(rest.trim_start()));
    for line in lines.iter().rev() {
        // Maven: `Tests run: 5, Failures: 1, Errors: 0, Skipped: 0`.
        if let Some(all) = after(line, "Tests run:") {
            let count = |label| after(line, label).unwrap_or(0);
            let failed = count("Failures:") + count("Errors:");
            return Some(TestCounts { passed: all.saturating_sub(failed + count("Skipped:")), failed });
        }
        // .NET: `Passed!  - Failed: 0, Passed: 5, Skipped: 0, Total: 5`.
        if let (Some(failed), Some(passed), true) =
            (after(line, "Failed:"), after(line, "Passed:"), line.contains("Total:"))
        {
            return Some(TestCounts { passed, failed });
        }
        // phpunit: `OK (5 tests, 7 assertions)` or `Tests: 5, Assertions: 7, Failures: 1.`
        if line.starts_with("OK (") && line.contains("assertion") {
            return Some(TestCounts { passed: after(line, "(").unwrap_or(0), failed: 0 });
        }
        if let (Some(all), true) = (after(line, "Tests:"), line.contains("Assertions:")) {
            let failed = after(line, "Failures:").unwrap_or(0) + after(line, "Errors:").unwrap_or(0);
            return Some(TestCounts { passed: all.saturating_sub(failed), failed });
        }
    }
    None
}

/// `100% tests passed, 0 tests failed out of 5`.
fn ctest(lines: &[&str]) -> Option<TestCounts> {
    let line = lines.iter().rev().find(|line| line.contains("tests failed out of "))?;
    let (front, all) = line.split_once("tests failed out of ")?;
    let failed = front.split_whitespace().next_back()?.parse::<u64>().ok()?;
    Some(TestCounts { passed: digits(all).saturating_sub(failed), failed })
}

/// `--- PASS: TestA` with `-v`; without it one line for each package.
fn go(lines: &[&str]) -> Option<TestCounts> {
    let count = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count() as u64;
    let tests = TestCounts { passed: count("--- PASS:"), failed: count("--- FAIL:") };
    let is_package = |line: &&&str, word: &str| {
        let mut words = line.split('\t');
        words.next().is_some_and(|first| first.trim() == word) && words.next().is_some()
    };
    let packages = TestCounts {
        passed: lines.iter().filter(|line| is_package(line, "ok")).count() as u64,
        failed: lines.iter().filter(|line| is_package(line, "FAIL")).count() as u64,
    };
    let is_any = |counts: &TestCounts| counts.passed + counts.failed > 0;
    match is_any(&packages) {
        true if is_any(&tests) => Some(TestCounts {
            passed: tests.passed.max(u64::from(tests.failed == 0) * packages.passed),
            ..tests
        }),
        true => Some(packages),
        false => Some(tests).filter(is_any),
    }
}

/// node's own summary, else every `ok` and `not ok`.
fn tap(lines: &[&str]) -> Option<TestCounts> {
    let summary = |word: &str| {
        lines.iter().rev().find_map(|line| {
            let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?;
            rest.strip_prefix(word)?.trim().parse::<u64>().ok()
        })
    };
    if let (Some(passed), Some(failed)) = (summary("pass "), summary("fail ")) {
        return Some(TestCounts { passed, failed });
    }
    let is_point = |line: &str, start: &str| {
        let rest = line.strip_prefix(start);
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let count = |start: &str| lines.iter().filter(|line| is_point(line, start)).count() as u64;
    let counts = TestCounts { passed: count("ok "), failed: count("not ok ") };
    Some(counts).filter(|counts| counts.passed + counts.failed > 0)
}

fn sum(one: TestCounts, other: TestCounts) -> TestCounts {
    TestCounts { passed: one.passed + other.passed, failed: one.failed + other.failed }
}

/// The words of a line without what separates them.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| c.is_whitespace() || ",;|()[]=".contains(c)).filter(|word| !word.is_empty())
}

fn has(line: &str, wanted: &str) -> bool {
    words(line).any(|word| word == wanted)
}

/// The number before a word, or 0.
fn before(line: &str, wanted: &str) -> u64 {
    let mut last = 0;
    for word in words(line) {
        match word.parse::<u64>() {
            Ok(number) => last = number,
            Err(_) if word == wanted => return last,
            Err(_) => last = 0,
        }
    }
    0
}

fn starts_with_number(line: &str) -> bool {
    words(line).next().is_some_and(|word| word.bytes().all(|byte| byte.is_ascii_digit()))
}

fn digits(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// The text without terminal colours.
fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("\u{1b}[") {
        plain.push_str(before);
        rest = after.split_once(|c: char| c.is_ascii_alphabetic()).map_or("", |(_, rest)| rest);
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_common_runners_print() {
        let cases = [
            (
                "running 4 tests\ntest result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\ntest result: ok. 2 passed; 0 failed; 0 ignored",
                5,
                1,
            ),
            ("     Summary [   0.123s] 5 tests run: 4 passed, 1 failed, 2 skipped", 4, 1),
            ("============ 2 failed, 3 passed, 1 skipped, 1 error in 0.12s ============", 3, 3),
            ("..\n2 passed in 0.01s", 2, 0),
            ("F\n1 failed in 0.01s", 0, 1),
            ("....\n----\nRan 4 tests in 0.001s\n\nOK", 4, 0),
            ("Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=2, skipped=1)", 1, 3),
            ("Ran 3 tests in 0.001s\n\nFAILED (errors=1)", 2, 1),
            (
                "Test Suites: 1 failed, 1 passed, 2 total\nTests:       1 failed, 2 passed, 3 total\nTime: 1 s",
                2,
                1,
            ),
            (
                " \u{1b}[1mTests\u{1b}[22m  \u{1b}[31m1 failed\u{1b}[39m | \u{1b}[32m2 passed\u{1b}[39m (3)\n   Start at 10:00",
                2,
                1,
            ),
            (" Test Files  1 passed (1)\n      Tests  4 passed (4)", 4, 0),
            ("  5 passing (10ms)\n  1 pending\n  2 failing\n\n  1) a test", 5, 2),
            ("--- FAIL: TestA (0.00s)\n--- PASS: TestB (0.00s)\nFAIL\nFAIL\texample.com/a\t0.01s", 1, 1),
            ("ok  \texample.com/a\t0.01s\nok  \texample.com/b\t0.01s", 2, 0),
            ("TAP version 13\nok 1 - a\nnot ok 2 - b\nok 3 - c\n1..3", 2, 1),
            ("TAP version 13\nok 1 - a\n1..1\n# tests 3\n# pass 2\n# fail 1", 2, 1),
            ("✔ a\nℹ tests 2\nℹ pass 2\nℹ fail 0", 2, 0),
            ("ok | 5 passed | 1 failed (12ms)", 5, 1),
            (" 5 pass\n 1 fail\nRan 6 tests across 1 file.", 5, 1),
            ("Finished in 0.01 seconds\n5 examples, 1 failure", 4, 1),
            ("5 runs, 7 assertions, 1 failures, 1 errors, 0 skips", 3, 2),
            ("OK (5 tests, 7 assertions)", 5, 0),
            ("Tests: 5, Assertions: 7, Failures: 1, Errors: 1.", 3, 2),
            ("[INFO] Tests run: 5, Failures: 1, Errors: 1, Skipped: 1", 2, 2),
            ("Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5, Duration: 3 ms", 5, 0),
            ("80% tests passed, 1 tests failed out of 5", 4, 1),
        ];
        for (output, passed, failed) in cases {
            assert_eq!(read(output), Some(TestCounts { passed, failed }), "{output}");
        }
    }

    #[test]
    fn other_output_has_no_counts() {
        for output in ["", "all good\n", "3 files changed in 2 folders", "ok then", "Compiling 5 crates"] {
            assert_eq!(read(output), None, "{output}");
        }
    }
}
