//! Which commands can use a server (`--server`), which cannot and what to type instead, and which need neither a server nor a ledger.
//! Every command has its row; a test compares the rows with the command line.

use crate::failure::ServerFailure;

/// How a command meets `--server`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServerForm {
    /// It asks the server.
    Asks,
    /// It does not, and this is what to do instead.
    Refused(&'static str),
    /// It needs neither a server nor a ledger.
    NeedsNone,
}

use ServerForm::{Asks, NeedsNone, Refused};

const OWNER: ServerForm = Refused("run it on the server's machine, where the ledger and its keys are");
const WORKSPACE: ServerForm = Refused(
    "run it in the workspace, without --server; `work run --report-to URL` reports receipts to a server",
);
const HERE: ServerForm = Refused("leave --server out: it is about this machine and its configuration");

/// Every command that does something.
const FORMS: &[(&str, ServerForm)] = &[
    ("init", HERE),
    ("validate", NeedsNone),
    ("schema", NeedsNone),
    ("policy evaluate", Asks),
    ("policy explain", Asks),
    ("policy rules", NeedsNone),
    ("policy backtest", Asks),
    ("snapshot", Asks),
    ("work run", WORKSPACE),
    ("work retry", WORKSPACE),
    ("work undo", WORKSPACE),
    ("work from-tasks", NeedsNone),
    ("work status", Asks),
    ("work show", Asks),
    ("work logs", Asks),
    ("work diff", Asks),
    ("work approve", Refused("use `crealeph --server URL approve`")),
    ("work reject", Refused("use `crealeph --server URL reject`")),
    ("work recover", WORKSPACE),
    ("work clean", WORKSPACE),
    ("work plan", NeedsNone),
    ("work verify", Asks),
    ("work key", WORKSPACE),
    ("work report-pending", Refused("name the server with --report-to URL")),
    ("work replay", WORKSPACE),
    ("work export", WORKSPACE),
    ("ledger init", OWNER),
    ("ledger migrate", OWNER),
    ("ledger tenants", OWNER),
    ("ledger append", Asks),
    ("ledger import", OWNER),
    ("ledger backup", OWNER),
    ("ledger checkpoint", Asks),
    ("ledger key", OWNER),
    ("ledger get", Asks),
    ("ledger list", Asks),
    ("ledger tail", Asks),
    ("ledger lineage", Asks),
    ("ledger stats", Asks),
    ("ledger export", Asks),
    ("ledger verify", Asks),
    ("ledger prove", Asks),
    ("ledger verify-proof", NeedsNone),
    ("build", Asks),
    ("execution list", Asks),
    ("execution show", Asks),
    ("execution why", Asks),
    ("execution replay", Asks),
    ("inbox", Asks),
    ("approve", Asks),
    ("reject", Asks),
    ("approval why", Asks),
    ("person add", Asks),
    ("person invite", Asks),
    ("person list", Asks),
    ("person revoke", Asks),
    ("rule set", Asks),
    ("rule show", Asks),
    ("rule test", Asks),
    ("review list", Asks),
    ("review show", Refused("use `crealeph --server URL ledger get ID`")),
    ("review approve", Refused("use `crealeph --server URL approve ID`")),
    ("review reject", Refused("use `crealeph --server URL reject ID`")),
    ("robot list", Asks),
    ("robot status", Asks),
    ("serve", HERE),
    ("key create", Asks),
    ("key link", OWNER),
    ("key list", Asks),
    ("key revoke", Asks),
    ("key sessions", Asks),
    ("key end-session", Asks),
    ("signer add", Asks),
    ("signer list", Asks),
    ("signer revoke", Asks),
    ("webhook create", Asks),
    ("webhook list", Asks),
    ("webhook deliveries", Asks),
    ("webhook test", Asks),
    ("webhook enable", Asks),
    ("webhook delete", Asks),
    ("report", Asks),
    ("usage", Asks),
    ("agent example", NeedsNone),
    ("agent check", HERE),
    ("sandbox run", HERE),
    ("sandbox explain", HERE),
    ("trust", HERE),
    ("doctor", HERE),
    ("demo", HERE),
    ("verify-page", NeedsNone),
    ("completions", NeedsNone),
    ("man", NeedsNone),
];

/// Refuses a command that cannot ask the server which a flag names; a command without a row is one of them.
pub(super) fn check(matches: &clap::ArgMatches) -> Result<(), ServerFailure> {
    let typed = path(matches);
    let form = FORMS.iter().find(|(name, _)| *name == typed).map(|(_, form)| *form);
    match form.unwrap_or(HERE) {
        Asks => Ok(()),
        Refused(instead) => Err(ServerFailure::NoServerForm(Some(instead))),
        NeedsNone => Err(ServerFailure::NoServerForm(Some(
            "leave --server out: it needs neither a server nor a ledger",
        ))),
    }
}

/// The command that was typed: its name and those of its subcommands.
fn path(matches: &clap::ArgMatches) -> String {
    let mut names = Vec::new();
    let mut level = matches;
    while let Some((name, below)) = level.subcommand() {
        names.push(name);
        level = below;
    }
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commands that do something: those without commands below them.
    fn leaves(command: &clap::Command, before: &str, found: &mut Vec<String>) {
        for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
            let name = format!("{before}{}", below.get_name());
            match below.has_subcommands() {
                true => leaves(below, &format!("{name} "), found),
                false => found.push(name),
            }
        }
    }

    #[test]
    fn every_command_says_whether_it_asks_a_server() {
        let mut commands = Vec::new();
        leaves(&crate::commands::command_line(), "", &mut commands);
        let rows: Vec<&str> = FORMS.iter().map(|(name, _)| *name).collect();
        assert_eq!(rows, commands, "the rows go in the order of the help");
    }

    #[test]
    fn what_was_typed_is_found_among_the_rows() {
        let typed = |line: &[&str]| crate::commands::command_line().try_get_matches_from(line).unwrap();
        let url = ["crealeph", "--server", "https://h"];
        assert!(check(&typed(&[&url[..], &["ledger", "list"]].concat())).is_ok());
        let refused = check(&typed(&[&url[..], &["ledger", "migrate"]].concat()));
        assert!(matches!(refused, Err(ServerFailure::NoServerForm(Some(_)))), "{refused:?}");
    }
}
