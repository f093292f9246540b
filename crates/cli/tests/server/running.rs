//! A running server.

use std::io::{BufRead as _, BufReader};
use std::ops::Deref;
use std::process::Child;

use serde_json::Value;

use crate::client::Client;
use crate::scratch::{Scratch, ended, signal};

/// A server in a folder of its own, stopped when the test ends.
pub(crate) struct Running {
    pub(crate) scratch: Scratch,
    client: Client,
    child: Option<Child>,
}

impl Running {
    /// A server on a new ledger, under this configuration.
    pub(crate) fn start(configuration: &str) -> Running {
        let scratch = Scratch::new();
        scratch.write("crealeph.toml", configuration);
        Running::start_in(scratch)
    }

    pub(crate) fn start_in(scratch: Scratch) -> Running {
        let mut child = scratch.spawn(&["serve", "--listen", "127.0.0.1:0", "--json"], "");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        if stdout.read_line(&mut line).unwrap() == 0 {
            panic!("the server does not start: {}", ended(child).2);
        }
        let said: Value = serde_json::from_str(&line).unwrap();
        let address = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().parse().unwrap();
        Running { scratch, client: Client(address), child: Some(child) }
    }

    /// A new key's token.
    pub(crate) fn key(&self, tenant: &str, more: &[&str]) -> String {
        let arguments = [&["key", "create", "--json", "--tenant", tenant][..], more].concat();
        let (code, created) = self.scratch.json(&arguments, "");
        assert_eq!(code, 0, "{created}");
        created["token"].as_str().unwrap().to_owned()
    }

    /// The resident memory of the server, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        let id = self.child.as_ref().unwrap().id();
        let text = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
    }

    pub(crate) fn process(&self) -> &Child {
        self.child.as_ref().unwrap()
    }

    /// Waits for the server's end, and gives its exit code and standard error.
    pub(crate) fn ended(mut self) -> (i32, String) {
        let (code, _, stderr) = ended(self.child.take().unwrap());
        (code, stderr)
    }
}

impl Deref for Running {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            if child.try_wait().unwrap().is_none() {
                signal(&child, "-KILL");
            }
            child.wait().unwrap();
        }
    }
}
