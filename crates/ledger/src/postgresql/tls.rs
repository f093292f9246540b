//! Encrypted connections. A connection is encrypted or not made at all: nothing falls back to plain text, and a
//! certificate is always checked, chain and host name, in every encrypted mode.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::parameters::Parameters;

/// Where systems store their trusted certificates.
const SYSTEM_ROOTS: &[&str] = &["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Reads a URL, with `sslmode` (`disable`, `require`, `verify-ca` or `verify-full`) and `sslrootcert` (a PEM file) as other
/// PostgreSQL programs do. Without a mode, connections to another machine are encrypted and to this one they are not. Parts that the
/// URL leaves out are filled in.
pub(super) fn read(
    url: &str,
    parameters: &Parameters,
) -> Result<(Config, Option<MakeRustlsConnect>), String> {
    let (plain, options) = url.split_once('?').unwrap_or((url, ""));
    let (mut mode, mut roots, mut service, mut rest) = (None, None, None, Vec::new());
    for option in options.split('&').filter(|option| !option.is_empty()) {
        match option.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value.to_owned()),
            Some(("service", value)) => service = Some(percent_decoded(value)?),
            Some(("sslrootcert", value)) => roots = Some(percent_decoded(value)?),
            _ => rest.push(option),
        }
    }
    let plain = if rest.is_empty() { plain.to_owned() } else { format!("{plain}?{}", rest.join("&")) };
    let mut config: Config = plain.parse().map_err(|error: tokio_postgres::Error| error.to_string())?;
    let service = parameters.service(service.as_deref())?;
    parameters.complete(&mut config, &service)?;
    // Modes that fall back to plain text are the default of other programs, not the user's choice.
    let is_ours = |mode: &String| !["prefer", "allow"].contains(&mode.as_str());
    let mode = mode.or_else(|| parameters.get(&service, "sslmode", "PGSSLMODE").filter(is_ours));
    let roots = roots.or_else(|| parameters.get(&service, "sslrootcert", "PGSSLROOTCERT"));
    let is_encrypted = match mode.as_deref() {
        Some("disable") => false,
        Some("require" | "verify-ca" | "verify-full") => true,
        None => config.get_hosts().iter().any(is_elsewhere),
        Some(other) => {
            return Err(format!("sslmode `{other}` is not known; use `disable`, `require` or `verify-full`"));
        }
    };
    // No one else can listen on a socket in the file system, and no server encrypts there.
    let is_socket = config.get_hosts().iter().all(|host| matches!(host, Host::Unix(_)));
    if !is_encrypted || is_socket {
        config.ssl_mode(SslMode::Disable);
        return Ok((config, None));
    }
    config.ssl_mode(SslMode::Require);
    Ok((config, Some(MakeRustlsConnect::new(client(roots.as_deref())?))))
}

fn is_elsewhere(host: &Host) -> bool {
    match host {
        Host::Unix(_) => false,
        Host::Tcp(name) => {
            name != "localhost" && !name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

fn client(file: Option<&str>) -> Result<ClientConfig, String> {
    let file = match file {
        Some(file) => file,
        None => SYSTEM_ROOTS.iter().find(|file| std::fs::exists(file).is_ok_and(|is_there| is_there)).ok_or(
            "this system has no file of trusted certificates; name one with `sslrootcert=FILE` in the URL",
        )?,
    };
    let unreadable =
        |error: &dyn std::fmt::Display| format!("the certificates in `{file}` cannot be read: {error}");
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file).map_err(|error| unreadable(&error))? {
        let certificate = certificate.map_err(|error| unreadable(&error))?;
        // One root that this program cannot use does not invalidate the others.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() {
        return Err(unreadable(&"it holds none"));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn percent_decoded(text: &str) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, tail @ ..] = rest {
        rest = tail;
        if *byte != b'%' {
            bytes.push(*byte);
            continue;
        }
        let digits = tail.split_at_checked(2).and_then(|(digits, after)| {
            rest = after;
            u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
        });
        bytes.push(digits.ok_or_else(|| format!("`{text}` has a `%` that encodes nothing"))?);
    }
    String::from_utf8(bytes).map_err(|_| format!("`{text}` is not UTF-8"))
}

/// The error of the encryption, if it was one.
pub(super) fn distrust(error: &tokio_postgres::Error) -> Option<String> {
    // The client distinguishes kinds of errors only by their text.
    let is_handshake = error.to_string().starts_with("error performing TLS handshake");
    is_handshake.then(|| match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn is_encrypted(url: &str) -> bool {
        read(url, &Parameters::of(&[])).unwrap().1.is_some()
    }

    #[test]
    fn remote_connections_are_encrypted_unless_disabled() {
        let folder = tempfile::tempdir().unwrap();
        let roots = folder.path().join("roots with space.pem");
        // Any first certificate will do: nothing is connected to.
        let made = std::process::Command::new("openssl")
            .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"])
            .args(["-subj", "/CN=x", "-keyout", "/dev/null", "-out"])
            .arg(&roots)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let roots = roots.display().to_string().replace(' ', "%20");
        assert!(is_encrypted(&format!("postgres://u@db.example/x?sslrootcert={roots}")));
        assert!(is_encrypted(&format!("postgres://u@127.0.0.1/x?sslmode=require&sslrootcert={roots}")));
        assert!(!is_encrypted("postgres://u@db.example/x?sslmode=disable&connect_timeout=3"));
        assert!(!is_encrypted("postgres://u@localhost/x"));
        assert!(!is_encrypted("postgres://u@%2Ftmp%2Fsocket/x?sslmode=require"));
        for (wrong, why) in [
            ("postgres://u@h/x?sslmode=prefer", "`prefer`"),
            ("postgres://u@h/x?sslmode=require&sslrootcert=/no/such.pem", "/no/such.pem"),
            ("postgres://u@h/x?sslmode=require&sslrootcert=%zz", "%zz"),
        ] {
            let error = read(wrong, &Parameters::of(&[])).err().unwrap();
            assert!(error.contains(why), "{error}");
        }
    }
}
