//! The page of exit codes, error codes and violation codes. The exit codes come from each command's help; that no code of
//! the program is missing here, and no code here is unknown to the program, is checked by `tests/codes.rs`.

use std::fmt::Write as _;

/// The code of this text, if the program knows it: a server may be newer.
pub(crate) fn known_code(code: &str) -> &'static str {
    ERRORS.iter().map(|(known, _)| *known).find(|known| *known == code).unwrap_or("server_refused")
}

/// The codes of errors, in `{"error":{"code"}}` with `--json`.
const ERRORS: &[(&str, &str)] = &[
    ("not_found", "a file does not exist; check the path"),
    ("is_directory", "a directory was given instead of a file"),
    ("unreadable", "a file cannot be read; check its permissions"),
    ("not_text", "a file that must be text is not UTF-8"),
    ("unwritable", "a file cannot be written; check that the folder exists and its disk has free space"),
    ("output", "standard output cannot be written, a full disk for example"),
    ("taken", "a file or folder is in the way, and nothing was written"),
    ("usage", "the arguments are not valid; see `--help`"),
    ("bad_option", "the value of a flag or variable is not valid"),
    ("bad_name", "an identifier given as an argument is not valid"),
    ("bad_timestamp", "a time given as an argument is not RFC 3339"),
    ("ambiguous_id", "the prefix of several ids, which are listed; give more characters"),
    ("ambiguous", "the entries are of several tenants or robots; name one"),
    ("too_large", "something exceeds a limit, which is named; make it smaller or raise the limit"),
    ("invalid", "a document breaks its contract; the violations are listed"),
    ("bad_context", "the file of `--context` cannot be used"),
    ("bad_rules", "a rules file cannot be used, or its examples do not hold"),
    ("bad_configuration", "`crealeph.toml` cannot be used; the key, section or agent is named"),
    ("untrusted", "the configuration grants what you have not accepted; see `crealeph trust --help`"),
    (
        "foreign_state",
        "a `.crealeph` is not yours: it came with the folder, or others can change it; see `crealeph trust --state`",
    ),
    ("user_state", "your own state directory cannot be used; check owner and mode"),
    ("bad_key", "a public or signing key cannot be used"),
    ("no_entries", "a file of entries is empty"),
    ("cycle", "work items depend on each other in a cycle, which is named"),
    ("duplicate_id", "two work items have the same id"),
    ("unknown_id", "the ledger has no such entry or execution of this tenant"),
    ("other_tenant", "the export is of another tenant; use `--tenant` to import it"),
    ("no_log", "the tenant has nothing in this ledger yet; check `--tenant`"),
    ("unproven", "a proof does not hold"),
    ("unknown_agent", "the configuration names no such agent; those known are listed"),
    (
        "agent_not_called",
        "the agent's program cannot be started, or its server cannot be reached; the cause is named",
    ),
    ("not_a_draft", "the entry is not a draft that awaits review"),
    ("not_a_change", "the entry has the key of a held change, but cannot be read as one"),
    ("not_approved", "a verdict lapsed, or someone rejected the change, before it landed"),
    (
        "not_here",
        "it is elsewhere, and the place is named: the diff and logs of a run are in its workspace, and until someone is enrolled a held change is decided there",
    ),
    ("no_people", "no one is enrolled in the tenant; start with `crealeph person add --first-admin`"),
    ("not_first_admin", "the tenant already has a first admin; an admin enrols everyone else"),
    ("not_admin", "only members of the group `admins` enrol, revoke and set rules"),
    ("unknown_key", "the key is not enrolled, or was revoked"),
    ("bad_invitation", "the link, or its token, is not that of an invitation; open the whole link"),
    (
        "invitation_over",
        "the invitation was used, has expired, or its person was revoked; ask for a new link",
    ),
    ("bad_passkey", "the authenticator's answer cannot be read, or uses an algorithm that is not supported"),
    (
        "no_signing_key",
        "no enrolled key to sign with was found; name one with `--sign-with`, or use ssh-agent",
    ),
    ("ssh_agent", "ssh-agent cannot be used, or does not hold the key"),
    ("bad_signature", "a signature does not match the statement, the key or the namespace"),
    ("unsigned", "people are enrolled in the tenant, so a verdict must be signed"),
    ("nobody_to_ask", "an approval must be confirmed at a terminal, or be given with `--yes`"),
    ("approval_refused", "this log cannot accept the signed statement; the reason is named"),
    (
        "approval_not_counted",
        "the verdict would not count because of the rule, the group, the time or newer evidence; the reason is named",
    ),
    ("approval_ended", "the draft has already landed or was rejected"),
    ("server_away", "the server cannot be reached, or does not answer in time"),
    ("bad_answer", "the answer at a server's address is not that of a CreAleph server of this version"),
    ("server_refused", "the server refused a request with a code that this version does not know"),
    (
        "not_what_was_shown",
        "the server wrote a statement that differs from what it showed; nothing was signed",
    ),
    ("no_server_form", "the command works on a local ledger or workspace, and cannot use a server"),
    ("unknown_signer", "the tenant has enrolled no signer of this id; see `crealeph signer list`"),
    ("signer_revoked", "a revoked key cannot be enrolled again as a signer; enrol another"),
    (
        "receipt_refused",
        "a reported receipt does not verify, or no enrolled key has signed it; nothing was recorded",
    ),
    ("not_reportable", "the run has no receipt that can be reported to a server"),
    ("no_server_key", "there is no key for the server; set CREALEPH_SERVER_KEY or give --server-key"),
    (
        "bad_address",
        "no server is named, or its address is not one that a key may be sent to: https, or http on this machine",
    ),
    ("unknown_api_key", "the tenant has no API key of this id; see `crealeph key list`"),
    ("unknown_session", "the tenant has no session of this id; see `crealeph key sessions`"),
    ("bad_expiry", "an API key would expire before it could be used"),
    ("unknown_webhook", "the tenant has no webhook of this id; see `crealeph webhook list`"),
    (
        "bad_webhook_url",
        "a webhook's URL is not allowed: it is not https, or its address is neither public nor granted",
    ),
    ("bad_start", "a webhook would start after an entry that the log does not have"),
    ("webhook_busy", "another process is delivering or creating this webhook; try again in a few seconds"),
    ("too_many_webhooks", "the tenant has as many webhooks as `max_webhooks` under [server] allows"),
    ("bad_certificates", "the certificates that `webhook_ca` names cannot be used"),
    (
        "unprotected_address",
        "the server would listen without TLS on an address that others can reach; see `crealeph serve --help`",
    ),
    ("bad_certificate", "the server's certificate or key cannot be used; the reason is named"),
    ("listen_failed", "the server cannot listen on the address; another program may be using it"),
    ("server_failed", "the server cannot start; the system refuses threads or sockets"),
    (
        "other_configuration",
        "another server on the same database runs with different rules or agents; stop it, or see `crealeph serve --help`",
    ),
    ("server_replaced", "the server stopped because another one was started with different rules or agents"),
    ("bad_request", "HTTP: the request cannot be answered; the detail says why"),
    ("bad_parameter", "HTTP: a parameter is unknown, repeated, or malformed"),
    ("unauthenticated", "HTTP: there is no key, or it is unknown, expired or revoked"),
    ("forbidden", "HTTP: the key's role or robot does not permit it"),
    ("host_refused", "HTTP: the server does not answer to this `Host`; see `hosts` under `[server]`"),
    ("origin_refused", "HTTP: pages of this `Origin` may not use the server; see `origins` under `[server]`"),
    ("no_route", "HTTP: there is no such path; see `/docs`"),
    ("method_not_allowed", "HTTP: the path does not support this method; `Allow` lists those that it does"),
    ("media_type", "HTTP: the body is not `application/json`, or is compressed"),
    ("rate_limited", "HTTP: the key has sent too many requests; `Retry-After` says when to try again"),
    ("overloaded", "HTTP: the server has too many requests, or is stopping; try again"),
    ("request_timeout", "HTTP: the request was not answered in time; what it writes may still be written"),
    ("internal", "HTTP: the server failed; its log has the cause under the request's id"),
    (
        "other_root",
        "the approvals are based on a different first admin's key than the one given with `--root`",
    ),
    ("cancelled", "the run was cancelled, and nothing was written"),
    ("builder_failed", "the Builder ended in a way that its contracts do not allow; nothing was written"),
    (
        "record_unreadable",
        "the record of the attempt cannot be read, so the request is not answered from it; use a new executionId",
    ),
    ("bad_plan", "work items cannot be planned: ids repeat, or dependencies form a cycle"),
    ("secret_in_request", "a work item or an agent's command holds a secret that the agent is granted"),
    ("overlap", "two items of one level declare the same output file"),
    ("outside_workspace", "a path of a work item leaves the workspace"),
    ("workspace", "the workspace cannot be read, published to or recovered"),
    ("runs", "what is kept of earlier runs under `.crealeph` cannot be used"),
    ("unknown_run", "no run of this workspace has such an id"),
    ("not_held", "the run does not await approval"),
    ("not_submitted", "the ledger has no record of the held change to decide about"),
    ("landed_elsewhere", "the ledger says that the change has landed; the workspace is an older copy"),
    (
        "not_retryable",
        "the change of a run cannot be retried: it was not kept, is no longer kept, or has landed since",
    ),
    ("not_undoable", "a run cannot be undone: it did not land, or the files before it are no longer kept"),
    ("conflict", "a change cannot be applied, because its files were changed by something else"),
    ("altered", "a held change was altered, or the files of a run do not match its receipt"),
    (
        "ledger_in_state",
        "the ledger or its keys are part of the workspace's state; move them to `.crealeph` or ignore them",
    ),
    ("bad_run", "a run cannot be replayed from the given folder"),
    ("receipt", "a receipt could not be written or signed"),
    ("git", "the git repository cannot be used for what was asked"),
    ("policy", "the policy of the robot that the work is bound to does not allow it"),
    ("several_robots", "the items are for several robots; run those of each robot separately"),
    ("random", "the system provided no random numbers"),
    ("signals", "the program cannot handle Ctrl-C, so nothing was started"),
    ("no_program", "a required program, which is named, is not on the PATH"),
    ("demo_failed", "a step of the demo failed"),
    ("SNAPSHOT_EMPTY", "there is no evidence for the robot yet; append entries"),
    (
        "IDEMPOTENCY_CONFLICT",
        "already recorded with different content; send the same content, or use a new identity",
    ),
    ("invalid_entry", "an entry breaks its contract"),
    ("illegal_transition", "an event may not follow the one recorded before it"),
    ("attempt_not_increased", "an event's attempt is not greater than the previous one"),
    ("id_taken", "the generated id of an entry is in use; try again"),
    ("reserved", "only CreAleph itself writes entries of this type"),
    ("no_writer", "the input is a pipe that no one writes to"),
    ("lease_lost", "another process took over in the meantime, and nothing was written; ask again"),
    ("ledger_missing", "there is no ledger; create one with `crealeph ledger init`"),
    ("ledger_exists", "there is already a ledger, and nothing was changed"),
    ("ledger_foreign", "the file or database is not a ledger"),
    ("ledger_newer", "the ledger was created by a newer version; use that version"),
    (
        "ledger_outdated",
        "the ledger was created by an older version; upgrade it with `crealeph ledger migrate`",
    ),
    (
        "ledger_clock",
        "the clock differs too much from the newest entry's time or from the database's clock; set the one that is wrong",
    ),
    (
        "ledger_replaced",
        "the file was replaced or removed while it was in use, and the batch is not acknowledged",
    ),
    ("ledger_moved", "the log has grown since it was read, and nothing was written; try again"),
    ("ledger_busy", "another process has held the lock for too long; nothing is lost, try again"),
    ("ledger_full", "the disk is full; what was acknowledged is kept"),
    ("ledger_read_only", "the ledger cannot be written; check owner and mode"),
    ("ledger_damaged", "stored data is not what was written; verify, and restore a backup"),
    ("ledger_failed", "reading or writing failed; what was acknowledged is kept"),
    (
        "ledger_untrusted",
        "the database's certificate is not trusted; name the ones to trust with `sslrootcert=FILE`",
    ),
    (
        "ledger_outcome_unknown",
        "the connection broke during a commit; send the batch again with the same keys",
    ),
    ("ledger_limit", "a query exceeds a limit, which is named"),
    ("ledger_bad_cursor", "the cursor is not of this ledger; start without one"),
    ("ledger_overloaded", "too many batches are waiting; slow down and try again"),
    ("ledger_closed", "the ledger was closed before the batch was written"),
    (
        "ledger_not_extended",
        "the log does not extend the one that was signed before: it was rolled back or forked; both are named",
    ),
    ("ledger_denied", "the database denies this to the login; the message says what its owner can grant"),
    ("ledger_keys", "the signing keys cannot be used; the file is named"),
    ("ledger_bad_export", "the export cannot be imported beyond a line, which is named"),
    ("SANDBOX_INVALID_REQUEST", "the request to the sandbox contradicts itself"),
    (
        "SANDBOX_REFUSED",
        "the sandbox does not have its full strength here, and reduced strength was not accepted; see `crealeph doctor`",
    ),
    ("SANDBOX_CANNOT_START", "the program cannot be started inside; install it, or grant its directory"),
    ("SANDBOX_PATH", "a path that is granted cannot be used"),
    ("SANDBOX_SETUP", "the sandbox could not be set up; see `crealeph doctor`"),
    ("SANDBOX_HELPER_LOST", "the sandbox's helper ended without an answer; the program may not have run"),
    ("SANDBOX_VIEW_BOUND", "a view holds more than its limit"),
];

/// The codes of violations, in what `crealeph validate` reports.
const VIOLATIONS: &[(&str, &str)] = &[
    ("not_utf8", "the text is not UTF-8"),
    ("bom", "the text starts with a byte order mark"),
    ("syntax", "the text is not JSON"),
    ("too_large", "the text is longer than the limit"),
    ("too_deep", "arrays and objects nest deeper than 128"),
    ("duplicate_key", "a key appears twice in one object"),
    ("lone_surrogate", "an escape names half of a surrogate pair"),
    ("inexact_integer", "an integer cannot be represented exactly as a double; send a string"),
    ("not_finite", "a number is beyond the largest double"),
    ("missing", "a required field is missing"),
    ("unknown_key", "a key that the contract does not list; the nearest is named"),
    ("wrong_type", "a value of a different type than the contract requires"),
    ("null", "null where a field may only be absent"),
    ("empty", "a string, array or set that must not be empty is empty"),
    ("too_long", "longer than its limit"),
    ("control_character", "a control character in an identifier"),
    ("not_allowed", "a value that is not one of those in the contract"),
    ("out_of_range", "a number outside its range"),
    ("bad_timestamp", "not an RFC 3339 instant"),
    ("bad_form", "not in the format of its type: a digest, a UUID, a path"),
    ("outside_workspace", "a path that leaves the workspace"),
    ("forbidden", "present although another field forbids it"),
    ("required", "absent although another field requires it"),
    ("mismatch", "contradicts the value of another field"),
    ("context_mismatch", "contradicts the document it answers"),
    ("self_reference", "a document names itself, but must name another"),
    ("unknown_id", "an id that the context does not hold"),
    ("too_late", "later than it may be"),
    ("not_listed", "the list lacks an entry that a rule requires, or has one that it does not allow"),
    ("decision_not_permitted", "a decision that the rules do not permit"),
    ("illegal_transition", "a state that may not follow the previous one"),
    ("attempt_not_increased", "an attempt that is lower than, or does not exceed, the previous one"),
    ("gate_refused", "an outcome that the gate does not permit"),
    ("duplicate_id", "two work items with the same id"),
    ("cycle", "dependencies that lead back to where they started"),
    ("too_many", "there are more violations than are listed"),
    ("INVALID_REQUEST", "every violation of a Builder request"),
    ("COHERENCE_BLOCKED", "an input to execute on a stale snapshot"),
    ("IDEMPOTENCY_CONFLICT", "an event that is already recorded differently"),
];

const PREFACE: &str = "\
# Exit codes and error codes

Codes are stable: none is ever reused for something else. With `--json` an error is one line on standard error,
`{\"error\":{\"code\":\"…\",\"message\":\"…\",\"hint\":\"…\"}}`. The message says what failed and on what; the hint, if there is one, what to do
next. Both may be reworded. Written by `cargo xtask generate`.

## Exit codes

";

/// The page, given the whole command line.
pub(super) fn page(program: &clap::Command) -> String {
    let mut page = PREFACE.to_owned();
    page.push_str("| command | exit codes |\n|---|---|\n");
    exits(program, "crealeph", &mut page);
    page.push_str(
        "\nA command that is not listed has those of its parent command. A closed pipe is not a failure.\n",
    );
    table(&mut page, "Error codes", ERRORS);
    table(&mut page, "Violation codes", VIOLATIONS);
    page.push_str("\nA work run that is denied has the denial reason itself as its code: its wording is the contract's.\n");
    page
}

fn exits(command: &clap::Command, name: &str, page: &mut String) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    if let Some(exits) = help.lines().find_map(|line| line.strip_prefix("Exit codes: ")) {
        let _ = writeln!(page, "| `{name}` | {} |", exits.trim_end_matches('.'));
    }
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        exits(inner, &format!("{name} {}", inner.get_name()), page);
    }
}

fn table(page: &mut String, title: &str, codes: &[(&str, &str)]) {
    let _ = writeln!(page, "\n## {title}\n\n| code | meaning |\n|---|---|");
    for (code, meaning) in codes {
        let _ = writeln!(page, "| `{code}` | {meaning} |");
    }
}
