//! What a process sees: its program and scripts, what it was granted, and nothing else.

use std::os::unix::fs::PermissionsExt;

use crealeph_runtime::agents::{Agent as _, from_command};
use crealeph_runtime::configuration::Configuration;
use crealeph_sandbox::Cancel;

use crate::world::{Case, World, identity, input, output, reason};

pub(crate) const CASES: &[Case] = &[
    ("only_what_is_named_is_seen", only_named),
    ("secrets_are_given_and_never_kept", secrets),
    ("there_is_no_network_unless_hosts_are_named", network),
    ("a_program_beside_the_configuration_is_found", beside),
    ("a_command_needs_no_configuration", command),
    ("configurations_are_read_whole_or_not_at_all", configurations),
];

fn only_named() {
    let world = World::new();
    world.write("private.txt", "private");
    world.write("granted.txt", "granted");
    let program = "import os, sys\nprint(sorted(os.listdir('.')), os.environ.get('GIVEN'), os.environ.get('CARGO_MANIFEST_DIR'), \
                   file=sys.stderr)\n";
    let call = world.python(program, "read = ['granted.txt']\nenv = { GIVEN = 'yes' }");
    assert_eq!(call.diagnostics, "['agent.py', 'granted.txt'] yes None\n");
    assert!(reason(&call).contains("the answer is empty"));
    let call = world.python("", "read = ['gone.txt']");
    assert!(reason(&call).contains("gone.txt"), "{}", reason(&call));
}

fn secrets() {
    let world = World::new();
    world.write("token", "a-token-in-a-file\n");
    let program = "import sys\ntoken = open('/run/secrets/TOKEN').read()\nprint(token, file=sys.stderr)\nprint(token)\n\
                   sys.exit(len(token))\n";
    let call = world.python(program, "secret_files = { TOKEN = 'token' }");
    assert_eq!(call.diagnostics, "[redacted]\n");
    assert_eq!(reason(&call), "the agent ended with exit code 17; standard error ends with: [redacted]");
    // An artifact is recorded permanently, so an answer that contains the secret, in any encoding, is refused.
    let program = "import base64\ntoken = open('/run/secrets/TOKEN', 'rb').read()\nprint(base64.b64encode(b'x' + token).decode())\n";
    let call = world.python(program, "secret_files = { TOKEN = 'token' }");
    assert_eq!(reason(&call), "the answer contains a secret that the agent was granted; answer without it");
    let call = world.python("", "secrets = ['CREALEPH_TEST_NEVER_SET']");
    assert!(reason(&call).contains("the secret `CREALEPH_TEST_NEVER_SET` is not set in the environment"));
}

fn network() {
    let world = World::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let program = format!(
        "import socket, sys\ntry:\n    socket.create_connection(('127.0.0.1', {port}), 5)\n    print('open', file=sys.stderr)\n\
         except OSError as error:\n    print('closed', file=sys.stderr)\n"
    );
    assert_eq!(world.python(&program, "").diagnostics, "closed\n");
    let call = world.python(&program, "hosts = ['api.example.com:443']");
    assert_eq!(call.diagnostics, "closed\n");
    assert_eq!(identity(&call)["hosts"], serde_json::json!(["api.example.com:443"]));
}

fn beside() {
    let world = World::new();
    world.write("agent", &format!("#!/bin/sh\ncat > /dev/null\necho '{}'\n", output()));
    std::fs::set_permissions(world.path().join("agent"), PermissionsExt::from_mode(0o755)).unwrap();
    let call = world.call("kind = 'process'\ncommand = ['./agent']");
    assert!(call.answer.is_ok(), "{:?}", call.answer);
    // An agent that does not care for its input is no error.
    world.write("agent", &format!("#!/bin/sh\necho '{}'\n", output()));
    assert!(world.call("kind = 'process'\ncommand = ['./agent']").answer.is_ok());
}

fn command() {
    let world = World::new();
    world.write("said", &output().to_string());
    let command = ["cat".to_owned(), "said".to_owned()];
    let agent = from_command(&command, world.path(), &world.path().join("state")).unwrap();
    assert!(agent.call(&input(), &Cancel::new().unwrap()).answer.is_ok());
    let error = from_command(&[], world.path(), &world.path().join("state")).err().unwrap();
    assert!(error.to_string().contains("names no program"));
}

fn configurations() {
    let world = World::new();
    let agents = world
        .load("[ledger]\ntenant = 'x'\n[agents.'b@1']\nkind = 'example'\n[agents.'a@1']\nkind = 'example'");
    let versions: Vec<String> = agents.unwrap().versions().map(ToString::to_string).collect();
    assert_eq!(versions, ["a@1", "b@1"]);
    assert_eq!(world.load("").unwrap().versions().count(), 0);
    let absent = Configuration::find(Some(&world.path().join("absent.toml"))).unwrap_err().to_string();
    assert!(absent.contains("absent.toml`; check the path"), "{absent}");
    for (text, expected) in [
        ("[agent.'a@1']\nkind = 'example'", "the section `agent` is not known here; did you mean `agents`?"),
        ("agents = 1", "`agents` is not a table"),
        ("[agents]\n'a@1' = 1", "the agent `a@1`"),
        ("[agents.'']\nkind = 'example'", "its name is not a valid version"),
        ("[agents.'a@1'\n", "is not TOML"),
        ("[agents.'a@1']\nkind = 'example'\n[agents.'b@1']\nkind = 'exampel'", "did you mean `example`?"),
    ] {
        let error = world.load(text).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
