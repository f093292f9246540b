//! One delivery: a POST to a place that a user named and no one trusts. The name is resolved once, every address is checked,
//! and the connection goes to a checked address; the name stays for TLS. No redirect is followed, no proxy is used, no
//! connection is kept, and everything is bounded.

use std::fmt;
use std::io::Read as _;
use std::net::SocketAddr;
use std::time::Duration;

use crealeph_ledger::Millis;
use crealeph_sandbox::is_public_address;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{Connector as _, NextTimeout, RustlsConnector, TcpConnector};

use super::message::Message;
use super::settings::WebhookSettings;
use crate::agents::certificates;

/// The longest URL.
const MAX_URL_BYTES: usize = 2_048;
/// How much of an answer is read.
const MAX_ANSWER_BYTES: u64 = 16 << 10;
/// How much of an error is kept.
const MAX_ERROR_CHARS: usize = 300;

/// Where a webhook is delivered to: a URL that may be called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint(String);

impl Endpoint {
    /// Checks what can be known of a URL without asking for its addresses.
    pub(super) fn parse(url: &str, settings: &WebhookSettings) -> Result<Endpoint, String> {
        if url.len() > MAX_URL_BYTES {
            return Err(format!("is longer than {MAX_URL_BYTES} bytes"));
        }
        let uri: Uri = url.parse().map_err(|_| "is not a URL".to_owned())?;
        let (host, port) = place_of(&uri).ok_or("has no host")?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("has a user or password in it; the signature says who sends it".to_owned());
        }
        if url.contains('#') {
            return Err("has a fragment, which is never sent".to_owned());
        }
        let is_granted = settings.is_private_granted(&host, port);
        match uri.scheme_str() {
            Some("https") => {}
            Some("http") if is_granted => {}
            _ => {
                return Err(
                    "is not https; http needs a loopback address that `webhook_private` under [server] grants"
                        .to_owned(),
                );
            }
        }
        let literal = host.trim_matches(['[', ']']).parse();
        if literal.is_ok_and(|ip| !is_public_address(ip)) && !is_granted {
            return Err(not_granted(&host, port));
        }
        Ok(Endpoint(url.to_owned()))
    }
}

fn not_granted(host: &str, port: u16) -> String {
    format!(
        "leads to an address that is not public; grant it with `webhook_private = [\"{host}:{port}\"]` under [server]"
    )
}

/// The host and port of a URL.
fn place_of(uri: &Uri) -> Option<(String, u16)> {
    let host = uri.host().filter(|host| !host.is_empty())?;
    let usual = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    Some((host.to_owned(), uri.port_u16().unwrap_or(usual)))
}

/// Resolves a name once, and lets only permitted addresses through.
#[derive(Debug)]
struct CheckedResolver(WebhookSettings);

impl Resolver for CheckedResolver {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = DefaultResolver::default().resolve(uri, config, timeout)?;
        let addresses: Vec<SocketAddr> = found.iter().copied().collect();
        check(uri, &addresses, &self.0).map_err(|why| ureq::Error::Other(why.into()))?;
        Ok(found)
    }
}

/// Whether all addresses of a place may be called. One that is not permitted refuses all: a name that leads to both is not
/// what it seems.
fn check(uri: &Uri, addresses: &[SocketAddr], settings: &WebhookSettings) -> Result<(), String> {
    let (host, port) = place_of(uri).ok_or("the URL has no host")?;
    let is_granted = settings.is_private_granted(&host, port);
    let is_loopback = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
    if uri.scheme_str() != Some("https") && !(is_granted && addresses.iter().all(is_loopback)) {
        return Err(format!("`{host}` is not a loopback address, and only those may be called without TLS"));
    }
    match is_granted || addresses.iter().all(|address| is_public_address(address.ip())) {
        true => Ok(()),
        false => Err(format!("`{host}` {}", not_granted(&host, port))),
    }
}

/// Why a receiver did not get a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Undelivered {
    /// For a person; nothing of the answer's body is in it.
    pub why: String,
    /// The receiver wants no more.
    pub is_gone: bool,
    /// How long it asks to wait.
    pub retry_after: Option<Duration>,
}

impl Undelivered {
    fn new(why: impl fmt::Display) -> Self {
        let why = why.to_string().chars().take(MAX_ERROR_CHARS).collect();
        Undelivered { why, is_gone: false, retry_after: None }
    }
}

/// Delivers messages.
#[derive(Debug)]
pub(super) struct Courier {
    client: ureq::Agent,
    settings: WebhookSettings,
}

impl Courier {
    /// Or why the certificates cannot be read.
    pub(super) fn new(settings: &WebhookSettings) -> Result<Courier, String> {
        let roots = match &settings.ca_file {
            Some(file) => certificates(file)?,
            None => RootCerts::WebPki,
        };
        let config = ureq::Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("crealeph/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(Duration::from_millis(settings.webhook_connect_timeout_ms)))
            .timeout_global(Some(Duration::from_millis(settings.webhook_timeout_ms)))
            .max_idle_connections(0)
            .max_idle_connections_per_host(0)
            .build();
        let connector = ().chain(TcpConnector::default()).chain(RustlsConnector::default());
        let client = ureq::Agent::with_parts(config, connector, CheckedResolver(settings.clone()));
        Ok(Courier { client, settings: settings.clone() })
    }

    /// Sends a message and waits for the answer.
    pub(super) fn deliver(
        &self,
        url: &str,
        secret: &str,
        message: &Message,
        now: Millis,
    ) -> Result<u16, Undelivered> {
        let Endpoint(url) =
            Endpoint::parse(url, &self.settings).map_err(|why| Undelivered::new(format!("the URL {why}")))?;
        let timestamp = now.get() / 1_000;
        let signature = message.signature(secret, timestamp);
        let signature = signature.ok_or_else(|| {
            Undelivered::new("internal error: the secret is damaged; delete the webhook and create it again")
        })?;
        let request = self
            .client
            .post(url)
            .content_type("application/cloudevents+json")
            .header("webhook-id", &message.id)
            .header("webhook-timestamp", timestamp.to_string())
            .header("webhook-signature", signature);
        let mut response = request.send(&message.body).map_err(|error| Undelivered::new(in_words(&error)))?;
        let status = response.status();
        let wait = response.headers().get("retry-after").and_then(|value| value.to_str().ok()?.parse().ok());
        // What it says does not matter, but a receiver that is cut off while it answers may take that for a failure.
        let mut rest = Vec::new();
        let _ = response.body_mut().as_reader().take(MAX_ANSWER_BYTES).read_to_end(&mut rest);
        if status.is_success() {
            return Ok(status.as_u16());
        }
        let why = match status.is_redirection() {
            true => {
                format!("the receiver answered {status}, and redirects are not followed; give the final URL")
            }
            false => format!("the receiver answered {status}"),
        };
        let is_gone = status.as_u16() == 410;
        Err(Undelivered { is_gone, retry_after: wait.map(Duration::from_secs), ..Undelivered::new(why) })
    }
}

fn in_words(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => {
            "the receiver did not answer in time (`webhook_connect_timeout_ms`, `webhook_timeout_ms`)"
                .to_owned()
        }
        ureq::Error::Other(why) => why.to_string(),
        error => format!("the receiver could not be reached: {error}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn settings() -> WebhookSettings {
        let private = ["127.0.0.1:8080", "hook.internal:443", "localhost:80"].map(str::to_owned).to_vec();
        WebhookSettings { private, ..WebhookSettings::default() }
    }

    #[test]
    fn a_url_is_https_or_a_granted_loopback_place() {
        for (url, is_good) in [
            ("https://example.com/hook?x=1", true),
            ("https://93.184.216.34/", true),
            ("https://hook.internal/", true),
            ("http://127.0.0.1:8080/", true),
            ("http://example.com/", false),
            ("http://127.0.0.1:8081/", false),
            ("https://127.0.0.1/", false),
            ("https://[::1]/", false),
            ("https://[::ffff:10.0.0.1]/", false),
            ("https://169.254.169.254/latest", false),
            ("https://user:pass@example.com/", false),
            ("https://example.com/#x", false),
            ("ftp://example.com/", false),
            ("example.com", false),
            ("/hook", false),
            ("", false),
        ] {
            assert_eq!(Endpoint::parse(url, &settings()).is_ok(), is_good, "{url}");
        }
        assert!(Endpoint::parse(&format!("https://e.com/{}", "x".repeat(2_048)), &settings()).is_err());
    }

    #[test]
    fn every_address_of_a_name_is_checked() {
        for (url, addresses, is_good) in [
            ("https://example.com/", &["93.184.216.34:443"][..], true),
            ("https://example.com/", &["93.184.216.34:443", "10.0.0.1:443"], false),
            ("https://example.com/", &["127.0.0.1:443"], false),
            ("https://example.com/", &["[::ffff:169.254.169.254]:443"], false),
            ("https://example.com/", &["[fd00:ec2::254]:443"], false),
            ("https://example.com/", &["224.0.0.1:443"], false),
            ("https://hook.internal/", &["10.0.0.1:443"], true),
            ("https://hook.internal:444/", &["10.0.0.1:444"], false),
            ("http://localhost/", &["127.0.0.1:80", "[::1]:80"], true),
            ("http://localhost/", &["10.0.0.1:80"], false),
        ] {
            let parsed: Vec<SocketAddr> = addresses.iter().map(|address| address.parse().unwrap()).collect();
            let checked = check(&url.parse().unwrap(), &parsed, &settings());
            assert_eq!(checked.is_ok(), is_good, "{url} {addresses:?}: {checked:?}");
        }
    }
}
