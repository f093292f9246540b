//! A dry run of everything that a run of an agent needs except the model: its program and version, its login, its hosts, the workspace's
//! toolchains, the sandbox, and the tests on the unchanged tree. Owns the checks and the advice; never prints a secret.

use std::path::{Path, PathBuf};

use crealeph_contracts::text::with_causes;
use crealeph_sandbox::{
    Cancel, Config, ConnectionVerdict, Host, Level, Sandbox, SandboxError, Spec, find_toolchains, try_hosts,
};
use crealeph_workspace::Workspace;

use super::config::{Granted, WorkAgent, WorkConfig};
use super::engine::paths_inside;
use super::error::WorkError;
use super::interrupt::Interrupt;
use super::origin;
use super::secrets::RunSecrets;
use super::stream::Format;
use super::tests_run::{FailedTests, TestRunner};

/// How many lines of failed tests are shown.
const MAX_TEST_LINES: usize = 20;
/// Where the exam keeps what the tests need meanwhile, next to the runs.
const SCRATCH: &str = ".crealeph/runs/doctor";

/// One thing that was looked at.
#[derive(Clone, Debug)]
pub struct AgentFinding {
    /// What it is called.
    pub name: &'static str,
    /// What it is for.
    pub gives: &'static str,
    /// Whether it is as it should be.
    pub is_good: bool,
    /// Whether a run does not work without it.
    pub is_needed: bool,
    /// What was found.
    pub detail: String,
    /// What would help.
    pub advice: Option<String>,
}

/// What is looked at, and what for.
#[derive(Clone, Copy)]
struct Checked(&'static str, &'static str);

impl Checked {
    fn good(self, detail: impl Into<String>) -> AgentFinding {
        let Checked(name, gives) = self;
        AgentFinding { name, gives, is_good: true, is_needed: true, detail: detail.into(), advice: None }
    }

    fn bad(self, detail: impl Into<String>, advice: impl Into<String>) -> AgentFinding {
        AgentFinding { is_good: false, advice: Some(advice.into()), ..self.good(detail) }
    }

    /// Not there, and a run can do without.
    fn absent(self, detail: impl Into<String>, advice: impl Into<String>) -> AgentFinding {
        AgentFinding { is_needed: false, ..self.bad(detail, advice) }
    }
}

const PROGRAM: Checked = Checked("agent_program", "is started");
const VERSION: Checked = Checked("agent_version", "is named in receipts");
const LOGIN: Checked = Checked("agent_login", "lets it call its model");
const HOST: Checked = Checked("agent_host", "is reached through the proxy");
const TOOLCHAIN: Checked = Checked("toolchain", "builds and tests the workspace");
const SANDBOX: Checked = Checked("agent_sandbox", "holds the agent and its tests");
const TESTS: Checked = Checked("tests", "pass on the tree as it is, so that a failure is the agent's");

/// What a run of an agent needs in a workspace.
#[derive(Debug)]
pub struct AgentExam<'e> {
    /// The agents.
    pub config: &'e WorkConfig,
    /// The workspace, which the user has claimed if tests are to run.
    pub workspace: &'e Path,
    /// Where views are kept while they are open.
    pub state_dir: &'e Path,
    /// Files and folders that no test may see.
    pub private: &'e [PathBuf],
    /// The command that tests the workspace, if it is to be run.
    pub test: Option<&'e str>,
}

impl AgentExam<'_> {
    /// Looks at everything that a run of this agent needs; nothing if there is no such agent.
    ///
    /// # Errors
    /// When the workspace cannot be opened for the tests.
    pub fn examine(&self, name: &str) -> Result<Option<Vec<AgentFinding>>, WorkError> {
        let Some(agent) = self.config.agents.get(name) else { return Ok(None) };
        let mut findings = vec![program(agent)];
        let config = Config { accept_reduced: agent.accepts_reduced, ..Config::new(self.state_dir) };
        let sandbox = Sandbox::new(config).and_then(|sandbox| Ok((strength(&sandbox)?, sandbox)));
        match sandbox {
            Ok((level, sandbox)) => {
                if findings.iter().all(|program| program.is_good) {
                    findings.push(version(agent, &sandbox, self.workspace));
                }
                findings.push(match level {
                    Level::Full => SANDBOX.good("full strength"),
                    Level::Reduced => SANDBOX.good("reduced strength, as `accept_reduced` allows"),
                });
                findings.extend(logins(agent));
                findings.extend(hosts(agent));
                findings.extend(self.toolchains(agent));
                if let Some(command) = self.test {
                    findings.push(self.tests(agent, &sandbox, command)?);
                }
            }
            Err(error) => {
                let advice =
                    "fix what `crealeph doctor` lists above, or accept less with `accept_reduced = true`";
                findings.push(SANDBOX.bad(with_causes(&error), advice));
                findings.extend(logins(agent));
                findings.extend(hosts(agent));
            }
        }
        Ok(Some(findings))
    }

    fn toolchains(&self, agent: &WorkAgent) -> Vec<AgentFinding> {
        if !agent.granted.toolchains && !agent.test.toolchains {
            return Vec::new();
        }
        let found = find_toolchains(self.workspace).into_iter().map(|toolchain| {
            let (preset, marker) = (toolchain.preset.name(), toolchain.marker.display().to_string());
            match toolchain.grants {
                Ok(_) => TOOLCHAIN.good(format!("{preset}, for `{marker}`")),
                Err(error) => TOOLCHAIN.absent(
                    format!("`{marker}` asks for {preset}: {}", with_causes(&error)),
                    format!("install {preset}, or set `toolchains = false` if it is not used"),
                ),
            }
        });
        found.collect()
    }

    /// The tests on the tree as it is, in the sandbox that they have in a run.
    fn tests(&self, agent: &WorkAgent, sandbox: &Sandbox, command: &str) -> Result<AgentFinding, WorkError> {
        let workspace = Workspace::open(self.workspace)?;
        let private = paths_inside(workspace.path(), self.private);
        let scratch = workspace.path().join(SCRATCH);
        let secrets = RunSecrets::read(agent)?;
        let tests = TestRunner {
            workspace: &workspace,
            sandbox,
            agent,
            secrets: &secrets.tests,
            private: &private,
            scratch: &scratch,
            log: None,
        };
        let interrupt = Interrupt::default();
        Ok(match tests.run(command, &[], &interrupt, &|text| secrets.redacted(text)) {
            Ok(report) => TESTS.good(match report.counts {
                Some(counts) => format!("`{command}`: {} passed", counts.passed),
                None => format!("`{command}` succeeded"),
            }),
            Err(FailedTests { report, ending }) => {
                let printed = report.map_or_else(String::new, |report| last_lines(&report.output));
                let advice = "make it pass in the sandbox first: grant what it needs in the agent's `test` table, or fix the tree";
                TESTS.bad(format!("{}{printed}", ending.reason()), advice)
            }
        })
    }
}

fn program(agent: &WorkAgent) -> AgentFinding {
    let named = agent.command.first().map_or("", String::as_str);
    match agent.program().filter(|path| path.is_file()) {
        Some(path) => PROGRAM.good(path.display().to_string()),
        None => PROGRAM.bad(
            format!("`{named}` is not there"),
            format!("install `{named}`, or name its file in `command`"),
        ),
    }
}

fn version(agent: &WorkAgent, sandbox: &Sandbox, workspace: &Path) -> AgentFinding {
    if agent.version.is_empty() {
        let advice = "say how its program prints it: `version = [\"--version\"]`";
        return VERSION.absent("not asked", advice);
    }
    match origin::version(agent, sandbox, workspace) {
        Some(version) => VERSION.good(version.as_str()),
        None => VERSION.bad(
            format!("the program did not print it inside the sandbox with `{}`", agent.version.join(" ")),
            "grant what the program needs to start, with `presets` or `read` in its table",
        ),
    }
}

/// What full strength this machine gives; an error if it is less than the agent accepts.
fn strength(sandbox: &Sandbox) -> Result<Level, SandboxError> {
    let cancel = Cancel::new().map_err(|source| SandboxError::InvalidSpec { what: source.to_string() })?;
    Ok(sandbox.run(&Spec::new(["/bin/sh", "-c", ":"]), &cancel)?.strength.level)
}

/// Whether everything is there that the agent logs in with. Its values are not looked at.
fn logins(agent: &WorkAgent) -> Vec<AgentFinding> {
    let Granted { secrets, secret_files, home, .. } = &agent.granted;
    let is_set = |name: &&String| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let mut findings: Vec<AgentFinding> = secrets
        .iter()
        .filter(|name| !is_set(name))
        .map(|name| LOGIN.bad(format!("the variable `{name}` is not set"), format!("export {name}=…")))
        .collect();
    let files = secret_files.values().chain(home.iter().map(|(from, _)| from));
    findings.extend(files.filter(|path| std::fs::File::open(path).is_err()).map(|path| {
        let path = path.display();
        LOGIN.bad(format!("`{path}` cannot be read"), "log in, or remove it from the agent's table")
    }));
    let Some(login) = agent.stream.map(Login::of) else { return findings };
    let file = home.iter().find(|(_, inside)| inside.as_path() == Path::new(login.file));
    let variable = secrets.iter().find(is_set);
    findings.push(match (file, variable) {
        (_, Some(name)) => LOGIN.good(format!("by the variable `{name}`")),
        (Some((from, _)), None) => LOGIN.good(format!("by the file `{}`", from.display())),
        (None, None) => {
            LOGIN.bad(format!("neither `~/{}` nor a variable is there", login.file), login.advice)
        }
    });
    findings
}

/// How a known agent logs in.
struct Login {
    /// Below HOME.
    file: &'static str,
    advice: &'static str,
}

impl Login {
    fn of(format: Format) -> Self {
        match format {
            Format::Claude => Login {
                file: ".claude/.credentials.json",
                advice: "log in with `claude` and `/login`, or set ANTHROPIC_API_KEY",
            },
            Format::Codex => {
                Login { file: ".codex/auth.json", advice: "log in with `codex login`, or set OPENAI_API_KEY" }
            }
        }
    }
}

fn hosts(agent: &WorkAgent) -> Vec<AgentFinding> {
    let tried = try_hosts(&agent.granted.hosts, agent.granted.allows_private);
    tried.into_iter().map(|(host, verdict)| host_finding(&host, verdict)).collect()
}

fn host_finding(host: &Host, verdict: ConnectionVerdict) -> AgentFinding {
    match verdict {
        ConnectionVerdict::Connected => HOST.good(host.to_string()),
        ConnectionVerdict::PrivateAddress => HOST.bad(
            format!("`{host}` leads to a private address"),
            "set `allow_private = true` in the agent's table if it is a server of your own",
        ),
        ConnectionVerdict::Unresolved => {
            HOST.bad(format!("the name of `{host}` does not resolve"), "check the name and the network")
        }
        ConnectionVerdict::NotGranted
        | ConnectionVerdict::Unreachable
        | ConnectionVerdict::Malformed
        | ConnectionVerdict::TooMany => HOST.bad(
            format!("`{host}` cannot be reached"),
            "check the network; a proxy of your own is not used, the sandbox connects directly",
        ),
    }
}

/// The end of what tests printed.
fn last_lines(output: &str) -> String {
    let lines: Vec<&str> = output.lines().filter(|line| !line.trim().is_empty()).collect();
    let last = lines.get(lines.len().saturating_sub(MAX_TEST_LINES)..).unwrap_or_default();
    if last.is_empty() { String::new() } else { format!("; it printed: {}", last.join(" | ")) }
}
