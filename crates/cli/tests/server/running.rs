//! A running server.

use std::io::{BufRead as _, BufReader};
use std::ops::Deref;
use std::process::Child;

use serde_json::Value;

use crate::client::Client;
use crate::scratch::{Scratch, ended, signal};

/// The file of what a server says and logs.
const LOG: &str = "server.log";

/// A server in its own folder, stopped when the test ends.
pub(crate) struct Running {
    pub(crate) scratch: Scratch,
    pub(crate) url: String,
    /// Where its metrics are.
    pub(crate) metrics: Option<String>,
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
        Running::start_with(scratch, &[])
    }

    /// With more flags.
    pub(crate) fn start_with(scratch: Scratch, more: &[&str]) -> Running {
        Running::start_listening(scratch, "127.0.0.1:0", more)
    }

    /// On an address. Everything that it says and logs is in a file.
    pub(crate) fn start_listening(scratch: Scratch, address: &str, more: &[&str]) -> Running {
        let mut command = scratch.command(&[&["serve", "--listen", address, "--json"][..], more].concat());
        let log = std::fs::File::create(scratch.path().join(LOG)).unwrap();
        let mut child = command.env("CREALEPH_LOG", "debug").stderr(log).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        if stdout.read_line(&mut line).unwrap() == 0 {
            child.wait().unwrap();
            panic!("the server does not start: {}", scratch.read(LOG));
        }
        let said: Value = serde_json::from_str(&line).unwrap();
        let url = said["url"].as_str().unwrap().to_owned();
        let place = url.split_once("://").unwrap().1.replace("localhost", "127.0.0.1");
        let metrics = said["metrics"].as_str().map(str::to_owned);
        Running { scratch, url, metrics, client: Client(place.parse().unwrap()), child: Some(child) }
    }

    /// What it has said and logged so far.
    pub(crate) fn log(&self) -> String {
        self.scratch.read(LOG)
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

    /// The folder of a server that was killed, for the next one.
    pub(crate) fn killed(mut self) -> Scratch {
        self.child.take().unwrap().wait().unwrap();
        std::mem::replace(&mut self.scratch, Scratch::new())
    }

    /// Waits for the server's end, and gives its folder, exit code and standard error.
    pub(crate) fn ended_in(mut self) -> (Scratch, i32, String) {
        let status = self.child.take().unwrap().wait().unwrap();
        let log = self.log();
        (std::mem::replace(&mut self.scratch, Scratch::new()), status.code().unwrap_or(-1), log)
    }

    /// Waits for the server's end, and gives its exit code and standard error.
    pub(crate) fn ended(mut self) -> (i32, String) {
        let status = self.child.take().unwrap().wait().unwrap();
        (status.code().unwrap_or(-1), self.log())
    }
}

/// Starts a server in a folder, and waits until it listens.
pub(crate) fn start_process(scratch: &Scratch, more: &[&str]) -> (Child, Client) {
    let arguments = [&["serve", "--listen", "127.0.0.1:0", "--json"][..], more].concat();
    let mut child = scratch.spawn(&arguments, "");
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    if stdout.read_line(&mut line).unwrap() == 0 {
        panic!("the server does not start: {}", ended(child).2);
    }
    let said: Value = serde_json::from_str(&line).unwrap();
    let place = said["url"].as_str().unwrap().split_once("://").unwrap().1.replace("localhost", "127.0.0.1");
    (child, Client(place.parse().unwrap()))
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
