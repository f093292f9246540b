//! TLS of the server's own, as clients meet it: curl trusts the test's authority and nothing else.

use std::io::{Read as _, Write as _};
use std::process::{Command, Output};

use crate::running::Running;
use crate::scratch::{Scratch, signal, wait_until};

/// Makes a self-signed certificate for localhost, in `NAME.pem` and `NAME.key`.
pub(crate) fn make_pair(scratch: &Scratch, name: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", &format!("/CN={name}"), "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        // A certificate of an authority is no server's, for clients that are strict.
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")])
        .current_dir(scratch.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    protect(scratch, &format!("{name}.key"), "600");
}

fn protect(scratch: &Scratch, file: &str, mode: &str) {
    assert!(Command::new("chmod").arg(mode).arg(scratch.path().join(file)).status().unwrap().success());
}

/// Puts one pair in the place of another, as a tool that renews certificates does.
fn replace(scratch: &Scratch, name: &str) {
    for suffix in ["pem", "key"] {
        let new = scratch.path().join(format!("new.{suffix}"));
        std::fs::copy(scratch.path().join(format!("{name}.{suffix}")), &new).unwrap();
        std::fs::rename(new, scratch.path().join(format!("server.{suffix}"))).unwrap();
    }
}

fn curl(server: &Running, trusted: &str, more: &[&str]) -> Output {
    let mut curl = Command::new("curl");
    curl.args(["-sS", "--max-time", "60", "--cacert"]).arg(server.scratch.path().join(trusted));
    curl.args(more).arg(format!("https://localhost:{}/healthz", server.0.port())).output().unwrap()
}

const FILES: &[&str] = &["--tls-cert", "server.pem", "--tls-key", "server.key"];

#[test]
fn clients_are_served_over_tls_and_the_certificate_is_renewed() {
    let scratch = Scratch::new();
    scratch.write("crealeph.toml", "[server]\nhandshake_timeout_ms = 300\n");
    ["a", "b"].iter().for_each(|name| make_pair(&scratch, name));
    replace(&scratch, "a");
    let server = Running::start_with(scratch, FILES);
    assert!(server.url.starts_with("https://localhost:"), "{}", server.url);
    for version in ["--tlsv1.3", "--tls-max"] {
        let more: &[&str] = if version == "--tls-max" { &["--tls-max", "1.2"] } else { &[version] };
        let answer = curl(&server, "a.pem", more);
        assert!(String::from_utf8_lossy(&answer.stdout).contains("ok"), "{version}: {answer:?}");
    }
    let old = curl(&server, "a.pem", &["--tls-max", "1.1"]);
    assert!(!old.status.success(), "TLS 1.1 is spoken by no one: {old:?}");
    assert!(!curl(&server, "b.pem", &[]).status.success(), "another authority");
    // A client that speaks plain HTTP gets the reason.
    let plain = server.request("GET", "/healthz", None, None);
    assert!(
        (plain.status, plain.json()["detail"].as_str().unwrap().contains("HTTPS")) == (400, true),
        "{plain:?}"
    );
    let page = server.request_with("GET", "/", &[("accept", "text/html")], "");
    assert_eq!((page.status, page.header("content-type")), (400, Some("text/html; charset=utf-8")));
    assert!(page.text().contains("use a URL that begins with https://"), "{page:?}");
    // One that begins a handshake and does not continue is cut off.
    let mut slow = server.connect();
    slow.write_all(&[22, 3, 1]).unwrap();
    assert_eq!(slow.read(&mut [0; 1]).unwrap(), 0);
    let mut silent = server.connect();
    assert_eq!(silent.read(&mut [0; 1]).unwrap(), 0);
    // What is no pair changes nothing; a pair does, without a restart.
    server.scratch.write("server.key", "no key");
    wait_until("the log to say so", || server.log().contains("no private key"));
    assert!(curl(&server, "a.pem", &[]).status.success());
    replace(&server.scratch, "b");
    wait_until("the new certificate", || curl(&server, "b.pem", &[]).status.success());
    std::fs::copy(server.scratch.path().join("a.key"), server.scratch.path().join("server.key")).unwrap();
    wait_until("the log to say so", || server.log().contains("cannot be used together"));
    assert!(curl(&server, "b.pem", &[]).status.success(), "the old pair stays");
    signal(server.process(), "-TERM");
    let (code, stderr) = server.ended();
    assert_eq!(code, 0, "{stderr}");
}

#[test]
fn an_address_that_others_reach_needs_tls_whose_key_is_private() {
    let scratch = Scratch::new();
    make_pair(&scratch, "server");
    make_pair(&scratch, "other");
    let refused = |more: &[&str], code: &str, words: &str| {
        let mut bounded = Command::new("timeout");
        bounded.args(["60", env!("CARGO_BIN_EXE_crealeph"), "serve", "--json"]).args(more);
        bounded.env("XDG_STATE_HOME", scratch.path().join("state")).env_remove("CREALEPH_LEDGER");
        let server = bounded.current_dir(scratch.path()).output().unwrap();
        let (status, stderr) = (server.status.code().unwrap(), String::from_utf8(server.stderr).unwrap());
        assert!(status == 2 && stderr.contains(code) && stderr.contains(words), "{more:?}: {stderr}");
        assert!(!scratch.path().join(".crealeph").exists(), "{more:?}: nothing is made for it");
    };
    refused(&["--listen", "0.0.0.0:0"], "unprotected_address", "--tls-cert");
    refused(&["--tls-cert", "server.pem"], "", "--tls-key");
    refused(&["--tls-cert", "server.pem", "--tls-key", "other.key"], "bad_certificate", "together");
    scratch.write("long.pem", &(scratch.read("server.pem") + &"#".repeat(1 << 20)));
    refused(
        &["--tls-cert", "long.pem", "--tls-key", "other.key"],
        "bad_certificate",
        "longer than the limit",
    );
    refused(&["--tls-cert", "absent.pem", "--tls-key", "other.key"], "bad_certificate", "absent.pem");
    refused(&["--tls-cert", "server.key", "--tls-key", "server.key"], "bad_certificate", "no certificate");
    protect(&scratch, "server.key", "644");
    refused(FILES, "bad_certificate", "chmod 600");
    protect(&scratch, "server.key", "600");
    scratch.write("crealeph.toml", "[server]\ntls_cert = \"server.pem\"\ntls_key = \"server.key\"\n");
    let server = Running::start_listening(scratch, "0.0.0.0:0", &[]);
    assert!(server.url.starts_with("https://0.0.0.0:"), "{}", server.url);
    assert_eq!(server.request("GET", "/healthz", None, None).problem(400), "bad_request");
}
