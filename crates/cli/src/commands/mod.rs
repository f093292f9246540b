//! One file per command; here they are only listed, parsed and run.

mod admin_log;
mod agent;
mod approval;
mod approve;
mod approve_change;
mod approve_remote;
mod backtest;
mod build;
mod complete;
mod completions;
mod demo;
mod doctor;
mod execution;
mod ids;
mod inbox;
mod init;
mod key;
mod ledger;
mod listing;
mod man;
mod on_ledger;
mod person;
mod place;
mod policy;
mod report;
mod review;
mod robot;
mod rule;
mod sandbox;
mod schema;
mod serve;
mod server_args;
mod server_forms;
mod signer;
mod snapshot;
mod stop;
mod trust;
mod typed_line;
mod usage;
mod validate;
mod verdict_page;
mod verify_page;
mod webhook;
mod work;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use serde_json::json;

use self::on_ledger::OnLedger;
use self::server_args::ServerArgs;
use self::typed_line::TypedLine;
use crate::failure::{ArgumentFailure, Failure, OutputFailure};
use crate::logging;
use crate::output::{self, Output};

pub(crate) use self::man::known_code;

/// How a command ended that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandOutcome {
    /// As it should be: exit code 0.
    Good,
    /// Judged and refused: exit code 1.
    Bad,
    /// Some of it could not be judged: exit code 2.
    Unjudged,
    /// With an exit code of the command's own, which its help explains.
    Exit(u8),
}

const EXIT_CODES: &str = "\
Exit codes: 0 valid or done, 1 checked and refused, 2 cannot be checked or done (unreadable input, wrong usage).";

/// Gate, sandbox and record what AI agents do
#[derive(Debug, Parser)]
#[command(name = "crealeph", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,

    /// Log to standard error; -vv logs more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,

    /// Print text instead of JSON into a pipe, as for a pager
    #[arg(short, long, global = true)]
    text: bool,

    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Init(init::Init),
    Validate(validate::Validate),
    Schema(schema::Schema),
    Policy(policy::Policy),
    Snapshot(snapshot::SnapshotCommand),
    Work(work::Work),
    Ledger(Box<ledger::LedgerCommand>),
    Build(Box<build::Build>),
    /// Inspect executions: list, show, explain, replay
    #[command(after_help = execution::EXAMPLES)]
    Execution(Box<OnLedger<execution::ExecutionTask>>),
    Inbox(Box<inbox::Inbox>),
    /// Approve a draft or a held change, signed with your own key
    #[command(after_help = approve::EXAMPLES)]
    Approve(Box<approve::Approve>),
    /// Reject a draft or a held change, signed with your own key
    #[command(after_help = approve::EXAMPLES)]
    Reject(Box<approve::Reject>),
    /// Explain who approved what, with which key, and whether it counts
    #[command(after_help = approval::EXAMPLES)]
    Approval(Box<OnLedger<approval::ApprovalTask>>),
    /// Enrol the people who approve, and revoke their keys
    #[command(after_help = person::EXAMPLES)]
    Person(Box<OnLedger<person::PersonTask>>),
    /// Set and test the rules that say how many approvals are needed
    #[command(after_help = rule::EXAMPLES)]
    Rule(Box<OnLedger<rule::RuleTask>>),
    /// List drafts that await review, and approve or reject them
    #[command(after_help = review::EXAMPLES)]
    Review(Box<OnLedger<review::ReviewTask>>),
    /// Show the status of robots and next steps
    #[command(after_help = robot::EXAMPLES)]
    Robot(Box<OnLedger<robot::RobotTask>>),
    Serve(Box<serve::Serve>),
    /// Manage API keys of the server: create, list, revoke
    #[command(after_help = key::EXAMPLES)]
    Key(Box<OnLedger<key::KeyTask>>),
    /// Manage signers whose receipts from elsewhere the ledger accepts: add, list, revoke
    #[command(after_help = signer::EXAMPLES)]
    Signer(Box<OnLedger<signer::SignerTask>>),
    /// Manage webhooks of the server: create, list, test, delete
    #[command(after_help = webhook::EXAMPLES)]
    Webhook(Box<OnLedger<webhook::WebhookTask>>),
    Report(Box<report::Report>),
    Usage(Box<usage::Usage>),
    Agent(agent::AgentCommand),
    Sandbox(Box<sandbox::SandboxCommand>),
    Trust(trust::Trust),
    Doctor(doctor::Doctor),
    Demo(demo::Demo),
    VerifyPage(verify_page::VerifyPage),
    Completions(completions::Completions),
    Man(man::Man),
}

/// The whole command line, its help wrapped to whatever width there is.
pub(crate) fn command_line() -> clap::Command {
    reflowed(Arguments::command())
}

/// The command line whose help of `work run` also has the limits of the configured agents, if requested.
fn with_limits_in_force(command: clap::Command, line: &TypedLine) -> clap::Command {
    let is_asked = ["--help", "-h", "help"].iter().any(|word| line.has(word));
    let limits =
        if is_asked && line.has("work") && line.has("run") { work::limits_in_force(line) } else { None };
    let Some(limits) = limits else { return command };
    command.mut_subcommand("work", |work| {
        work.mut_subcommand("run", |run| {
            let help = run.get_after_help().map(ToString::to_string);
            run.after_help(help.into_iter().chain([limits]).collect::<Vec<_>>().join("\n\n"))
        })
    })
}

/// Joins the lines of each paragraph of the help's end, so that they are broken where the reader's screen ends; what is
/// indented stays as it is.
fn reflowed(command: clap::Command) -> clap::Command {
    let help = command.get_after_help().map(ToString::to_string);
    let command = command.mut_subcommands(reflowed);
    let Some(help) = help else { return command };
    let mut text = String::new();
    let mut is_open = false;
    for line in help.lines() {
        let is_prose = !line.is_empty() && !line.starts_with(' ');
        if !text.is_empty() {
            text.push(if is_open && is_prose { ' ' } else { '\n' });
        }
        text.push_str(line);
        is_open = is_prose && !line.ends_with(':');
    }
    command.after_help(text)
}

/// Runs the command that the arguments name, or answers a shell that asks how its line could continue.
pub(crate) fn run() -> ExitCode {
    if let Some(answer) = complete::answer(command_line) {
        // A shell that went away needs no answer.
        let _ = output::bytes(&answer);
        return ExitCode::SUCCESS;
    }
    let line = TypedLine::new(std::env::args_os().skip(1));
    let parsed = with_limits_in_force(command_line(), &line).try_get_matches();
    let parsed = parsed.and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (arguments, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return not_run(&error),
    };
    let wants_json = arguments.command.wants_json();
    let run = || -> Result<CommandOutcome, Failure> {
        logging::start(arguments.verbose)?;
        if arguments.text {
            if wants_json {
                return Err(
                    ArgumentFailure::Usage("--text and --json cannot be used together".to_owned()).into()
                );
            }
            output::read_by_person();
        }
        if arguments.server.is_named() {
            server_forms::check(&matches)?;
        }
        let mut output = Output::new()?;
        let verdict = arguments.command.run(&mut output)?;
        output.flush()?;
        Ok(verdict)
    };
    let result = run();
    match result {
        Ok(CommandOutcome::Good) => ExitCode::SUCCESS,
        Ok(CommandOutcome::Bad) => ExitCode::from(1),
        Ok(CommandOutcome::Unjudged) => ExitCode::from(2),
        Ok(CommandOutcome::Exit(code)) => ExitCode::from(code),
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            report(&failure, wants_json);
            ExitCode::from(failure.exit_code())
        }
    }
}

/// Help, a version, or arguments that are not understood; these errors are JSON if --json was given.
fn not_run(error: &clap::Error) -> ExitCode {
    let wants_json = std::env::args_os().take_while(|word| word != "--").any(|word| word == "--json");
    let failure = if wants_json && error.use_stderr() {
        let message = error.render().to_string();
        Failure::from(ArgumentFailure::Usage(message.trim_start_matches("error: ").trim_end().to_owned()))
    } else {
        match output::arguments(error) {
            Ok(()) => return ExitCode::from(if error.use_stderr() { 2 } else { 0 }),
            Err(lost) => OutputFailure::Stdout(lost).into(),
        }
    };
    if failure.is_closed_pipe() {
        return ExitCode::SUCCESS;
    }
    report(&failure, wants_json);
    ExitCode::from(failure.exit_code())
}

impl Command {
    fn run(self, output: &mut Output) -> Result<CommandOutcome, Failure> {
        match self {
            Command::Init(command) => command.run(output),
            Command::Validate(command) => command.run(output),
            Command::Schema(command) => command.run(output),
            Command::Policy(command) => command.run(output),
            Command::Snapshot(command) => command.run(output),
            Command::Work(command) => command.run(output),
            Command::Ledger(command) => command.run(output),
            Command::Build(command) => command.run(output),
            Command::Execution(command) => command.run(output),
            Command::Inbox(command) => command.run(output),
            Command::Approve(command) => command.run(output),
            Command::Reject(command) => command.run(output),
            Command::Approval(command) => command.run(output),
            Command::Person(command) => command.run(output),
            Command::Rule(command) => command.run(output),
            Command::Review(command) => command.run(output),
            Command::Robot(command) => command.run(output),
            Command::Serve(command) => command.run(output),
            Command::Key(command) => command.run(output),
            Command::Usage(command) => command.run(output),
            Command::Signer(command) => command.run(output),
            Command::Webhook(command) => command.run(output),
            Command::Report(command) => command.run(output),
            Command::Agent(command) => command.run(output),
            Command::Sandbox(command) => command.run(output),
            Command::Trust(command) => command.run(output),
            Command::Doctor(command) => command.run(output),
            Command::Demo(command) => command.run(output),
            Command::VerifyPage(command) => command.run(output),
            Command::Completions(command) => command.run(output),
            Command::Man(command) => command.run(output),
        }
    }

    fn wants_json(&self) -> bool {
        match self {
            Command::Validate(command) => command.wants_json(),
            Command::Policy(command) => command.wants_json(),
            Command::Snapshot(command) => command.wants_json(),
            Command::Work(command) => command.wants_json(),
            Command::Ledger(command) => command.wants_json(),
            Command::Build(command) => command.wants_json(),
            Command::Execution(command) => command.wants_json(),
            Command::Inbox(command) => command.wants_json(),
            Command::Approve(command) => command.wants_json(),
            Command::Reject(command) => command.wants_json(),
            Command::Approval(command) => command.wants_json(),
            Command::Person(command) => command.wants_json(),
            Command::Rule(command) => command.wants_json(),
            Command::Review(command) => command.wants_json(),
            Command::Robot(command) => command.wants_json(),
            Command::Serve(command) => command.wants_json(),
            Command::Key(command) => command.wants_json(),
            Command::Usage(command) => command.wants_json(),
            Command::Signer(command) => command.wants_json(),
            Command::Webhook(command) => command.wants_json(),
            Command::Report(command) => command.wants_json(),
            Command::Agent(command) => command.wants_json(),
            Command::Sandbox(command) => command.wants_json(),
            Command::Trust(command) => command.wants_json(),
            Command::Doctor(command) => command.wants_json(),
            Command::Init(_)
            | Command::Schema(_)
            | Command::Demo(_)
            | Command::VerifyPage(_)
            | Command::Completions(_)
            | Command::Man(_) => false,
        }
    }
}

/// Prints on standard error why a command failed, with every cause.
fn report(failure: &Failure, wants_json: bool) {
    match wants_json {
        true => {
            let mut error = json!({ "code": failure.code(), "message": failure.message() });
            if let (Some(hint), Some(members)) = (failure.hint(), error.as_object_mut()) {
                members.insert("hint".to_owned(), hint.into());
            }
            output::note_json(&json!({ "error": error }).to_string());
        }
        false => output::note_page(&failure.page()),
    }
}

/// Prints what a check found wrong; `place` names its position in the JSON.
fn tell_finding(
    finding: &crealeph_verify::Finding,
    place: &str,
    is_json: bool,
    output: &mut Output,
) -> Result<CommandOutcome, Failure> {
    if is_json {
        let mut report = json!({ "ok": false, "kind": finding.kind.as_str(), "message": finding.what });
        if let (Some(number), Some(members)) = (finding.seq, report.as_object_mut()) {
            members.insert(place.to_owned(), json!(number));
        }
        output.report_line(&report)?;
    } else {
        output.line(&finding.to_string())?;
    }
    Ok(CommandOutcome::Bad)
}
