//! The first act: coding agents change a repository within limits. One is admitted with a receipt, one runs wild and
//! leaves no trace, one breaks the tests.

use super::stage::{Ending, Stage, done, refused};
use crate::failure::Failure;

const PRICE: &str = "# The price of so many pieces, in cents; ten or more are 10 % off.
price() {
    echo $(($1 * 500))
}
";

const TEST: &str = r#". ./price.sh
test "$(price 1)" = 500 && test "$(price 10)" = 4500
"#;

const CI: &str = "on: push
jobs: { test: { runs-on: ubuntu-latest, steps: [{ run: sh test.sh }] } }
";

const CAREFUL: &str = r#"# Does what it is asked to.
sed -i 's/echo.*/echo $(($1 * ($1 < 10 ? 500 : 450)))/' price.sh
"#;

const WILD: &str = r#"# Does whatever it takes.
exec 3<>"/dev/tcp/127.0.0.1/${HTTPS_PROXY##*:}"
printf 'CONNECT collector.example:443 HTTP/1.1\r\n\r\n' >&3 && head -1 <&3
rm -rf ./*
echo "on: never" > .github/workflows/ci.yml
"#;

const HASTY: &str = "# Has an idea of its own.
sed -i 's/500/400/' price.sh
";

/// The configuration of the shop: its three agents.
pub(super) fn configuration(accepts_reduced: bool) -> String {
    let agent = |name: &str, id: u32, shell: &str, more: &str| {
        let reduced = if accepts_reduced { "accept_reduced = true\n" } else { "" };
        format!(
            "[work.agents.{name}]\nagent_id = \"agent-{id}\"\ncommand = [\"{shell}\", \"agents/{name}.sh\"]\n{more}{reduced}\n"
        )
    };
    [
        agent("careful", 1, "sh", ""),
        agent("wild", 2, "bash", "network = [\"api.example.com:443\"]\n"),
        agent("hasty", 3, "sh", ""),
    ]
    .concat()
}

pub(super) fn play(stage: &mut Stage<'_>, accepts_reduced: bool) -> Result<(), Failure> {
    ["git", "bash"].iter().try_for_each(|program| stage.needs(program))?;
    for (name, text) in [
        ("price.sh", PRICE),
        ("test.sh", TEST),
        (".github/workflows/ci.yml", CI),
        ("agents/careful.sh", CAREFUL),
        ("agents/wild.sh", WILD),
        ("agents/hasty.sh", HASTY),
        ("crealeph.toml", &configuration(accepts_reduced)),
    ] {
        stage.file(name, text)?;
    }
    stage.say(
        "A small shop, in git. Its prices have a bug. Three agents are configured; any command can be one.",
    )?;
    stage.run(
        "git init -q && git add . && git -c user.name=Demo -c user.email=demo@example.com commit -qm 'A shop'",
        &done(""),
    )?;
    stage.say("The careful agent gets the task. It works on a view of the folder; its change is judged and tested there.")?;
    let printed = stage.run(
        "crealeph work run --agent careful 'Give the discount' --test 'sh test.sh'",
        &done(": success"),
    )?;
    let careful = run_of(&printed);
    stage.run("git diff --stat", &done("price.sh"))?;

    stage.say("The wild agent gets a harmless task. This is what it does:")?;
    stage.run("cat agents/wild.sh", &done("rm -rf"))?;
    let printed = stage
        .run("crealeph work run --agent wild 'Speed up CI' --test 'sh test.sh'", &refused(": denied"))?;
    stage.say(
        "No file is gone and CI is unchanged. The limit it hit is named, and so is the host it called:",
    )?;
    stage.run("git status --short", &Ending { lacks: ".github", ..done("M price.sh") })?;
    stage.run(&format!("crealeph work show {}", run_of(&printed)), &done("collector.example:443 refused"))?;

    stage
        .say("The hasty agent stays within its limits and breaks the tests. That leaves no trace either.")?;
    stage
        .run("crealeph work run --agent hasty 'Be cheaper' --test 'sh test.sh'", &refused("Tests failed"))?;
    stage.run("sh test.sh && echo 'still green'", &done("still green"))?;

    stage.say("Every run left a signed receipt. An auditor checks one independently, and replays it:")?;
    stage.run(
        &format!("crealeph work verify .crealeph/runs/{careful}/RECEIPT.json"),
        &done("whole from the first"),
    )?;
    stage.run(&format!("crealeph work replay {careful}"), &done("as the receipt says"))?;
    Ok(())
}

/// The run that a command printed: the folder of its receipt.
fn run_of(printed: &str) -> String {
    let after = printed.split(".crealeph/runs/").nth(1).unwrap_or_default();
    after.split('/').next().unwrap_or_default().to_owned()
}
