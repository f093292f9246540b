//! One POST to a server that is not trusted: bounded in time and size, without redirects or proxies, ended when the
//! request is cancelled. Owns the secret headers and redacts them from every reason.

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use crealeph_contracts::text::with_causes;
use crealeph_sandbox::{Cancel, Redactor};
use ureq::http::{HeaderValue, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::unversioned::transport::{Connector as _, RustlsConnector};

use super::NoAnswer;
use super::config::{Bounds, SecretHeader, SecretSource, Via};
use super::socket::{self, Later, Reach};
use crate::bounded_read::read_whole;

/// How often someone who waits to ask again looks whether to stop waiting.
const LOOK: Duration = Duration::from_millis(20);
/// How many connections of an agent are kept for its next calls.
const MAX_IDLE: usize = 64;
const MAX_SECRET_BYTES: u64 = 64 << 10;
const MAX_CERTIFICATE_BYTES: u64 = 4 << 20;

/// One address and the headers it is called with.
#[derive(Debug)]
pub(super) struct Transport {
    url: String,
    via: Via,
    /// Or why nothing can be called.
    client: Result<ureq::Agent, String>,
}

/// The secret headers of one call, and what takes them out of texts.
pub(super) struct Secrets {
    headers: Vec<(String, HeaderValue)>,
    pub(super) redactor: Redactor,
}

/// When a call has to be over, and how long it had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline {
    at: Instant,
    timeout_ms: u64,
}

impl Deadline {
    pub(super) fn after(timeout_ms: u64) -> Self {
        Deadline { at: Instant::now() + Duration::from_millis(timeout_ms), timeout_ms }
    }

    /// What is left of it.
    pub(super) fn left(self) -> Duration {
        self.at.saturating_duration_since(Instant::now())
    }

    pub(super) fn missed(self) -> String {
        format!("the agent did not answer within {} ms", self.timeout_ms)
    }

    /// Waits, within the deadline; an error when it is missed or the request cancelled.
    pub(super) fn wait(self, how_long: Duration, cancel: &Cancel) -> Result<(), String> {
        if how_long >= self.left() {
            return Err(self.missed());
        }
        let until = Instant::now() + how_long;
        while let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            if cancel.is_cancelled() {
                return Err(CANCELLED.to_owned());
            }
            std::thread::sleep(left.min(LOOK));
        }
        Ok(())
    }
}

const CANCELLED: &str = "the call was abandoned because the request was cancelled";

/// What came back: the body holds at most one byte more than is allowed, so that the reader sees that it is too long.
#[derive(Debug)]
pub(super) struct Reply {
    pub(super) status: u16,
    pub(super) retry_after: Option<Duration>,
    pub(super) body: Vec<u8>,
}

impl Transport {
    pub(super) fn new(url: &str, via: &Via) -> Self {
        let roots = match &via.ca_file {
            Some(file) => certificates(file),
            None => Ok(RootCerts::WebPki),
        };
        let client = roots.map(|roots| Transport::client(url, roots));
        Transport { url: url.to_owned(), via: via.clone(), client }
    }

    fn client(url: &str, roots: RootCerts) -> ureq::Agent {
        let is_tls = url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https"));
        let config = ureq::Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .https_only(is_tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("crealeph/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .max_idle_connections(MAX_IDLE)
            .max_idle_connections_per_host(MAX_IDLE)
            .build();
        ureq::Agent::with_parts(config, ().chain(Reach).chain(RustlsConnector::default()), Later)
    }

    /// Reads the secret headers, as they are now.
    pub(super) fn secrets(&self) -> Result<Secrets, NoAnswer> {
        let mut headers = Vec::new();
        let mut values = Vec::new();
        for (name, header) in &self.via.secret_headers {
            let (value, secret) = secret(name, header).map_err(NoAnswer::uncalled)?;
            headers.push((name.clone(), value));
            values.push(secret);
        }
        let redactor = Redactor::new(values.iter().map(Vec::as_slice));
        let redactor = redactor.map_err(|error| NoAnswer::uncalled(with_causes(&error)))?;
        Ok(Secrets { headers, redactor })
    }

    /// Sends the request and waits for the whole answer.
    pub(super) fn post(
        &self,
        body: &str,
        secrets: &Secrets,
        bounds: &Bounds,
        deadline: Deadline,
        cancel: &Cancel,
    ) -> Result<Reply, NoAnswer> {
        let client = self.client.as_ref().map_err(|why| NoAnswer::uncalled(why.clone()))?;
        let call = || {
            let mut request = client.post(&self.url).content_type("application/json");
            for (name, value) in &self.via.headers {
                request = request.header(name, value);
            }
            for (name, value) in &secrets.headers {
                request = request.header(name, value);
            }
            send(request, body, bounds.max_output_bytes)
        };
        let (mut sent, mut was_on_old) = socket::bounded(cancel, deadline.at, call);
        // An agent has no memory, so that it can be asked again whatever it heard the first time.
        for _ in 0..MAX_IDLE {
            if sent.is_ok() || !was_on_old || cancel.is_cancelled() {
                break;
            }
            (sent, was_on_old) = socket::bounded(cancel, deadline.at, call);
        }
        match sent {
            Ok(reply) => Ok(reply),
            Err(_) if cancel.is_cancelled() => Err(CANCELLED.to_owned().into()),
            Err(ureq::Error::Timeout(_)) => Err(deadline.missed().into()),
            Err(error) => {
                let why = secrets.redactor.text(&format!("the agent could not be reached: {error}"));
                Err(NoAnswer { is_uncalled: is_no_connection(&error), ..NoAnswer::from(why) })
            }
        }
    }
}

/// No one was there to talk to.
fn is_no_connection(error: &ureq::Error) -> bool {
    use std::io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkUnreachable};
    match error {
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => true,
        ureq::Error::Io(error) => {
            matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable)
        }
        _ => false,
    }
}

type Request = ureq::RequestBuilder<ureq::typestate::WithBody>;

fn send(request: Request, body: &str, max_bytes: u64) -> Result<Reply, ureq::Error> {
    let mut response = request.send(body)?;
    let mut bytes = Vec::new();
    let bound = max_bytes.saturating_add(1);
    response.body_mut().as_reader().take(bound).read_to_end(&mut bytes)?;
    let wait = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
    let retry_after = wait.and_then(|text| wait_of(text.trim(), SystemTime::now()));
    Ok(Reply { status: response.status().as_u16(), retry_after, body: bytes })
}

/// How long `Retry-After` asks to wait: seconds, or until a date.
fn wait_of(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let until = httpdate::parse_http_date(text).ok()?;
    Some(until.duration_since(now).unwrap_or(Duration::ZERO))
}

/// The certificates of a file.
pub(crate) fn certificates(file: &Path) -> Result<RootCerts, String> {
    let shown = file.display();
    let unreadable = |error| format!("cannot read the certificates in `{shown}`: {error}");
    let opened = std::fs::File::open(file).map_err(unreadable)?;
    let text = read_whole(opened, MAX_CERTIFICATE_BYTES).map_err(unreadable)?;
    let items = parse_pem(&text).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(Ok(certificate)),
        Ok(_) => None,
        Err(error) => Some(Err(format!("`{shown}` contains something that is not a certificate: {error}"))),
    });
    let certificates: Vec<Certificate<'static>> = items.collect::<Result<_, _>>()?;
    match certificates.is_empty() {
        true => Err(format!(
            "`{shown}` has no certificate in PEM form; name the file of your certificate authority"
        )),
        false => Ok(RootCerts::new_with_certs(&certificates)),
    }
}

fn secret(name: &str, header: &SecretHeader) -> Result<(HeaderValue, Vec<u8>), String> {
    let secret = match &header.from {
        SecretSource::Variable(variable) => std::env::var_os(variable)
            .map(|value| value.into_encoded_bytes())
            .ok_or_else(|| format!("the secret `{variable}` is not set in the environment; set it"))?,
        SecretSource::File(path) => {
            let unreadable = |error| format!("cannot read the secret in `{}`: {error}", path.display());
            let file = std::fs::File::open(path).map_err(unreadable)?;
            read_whole(file, MAX_SECRET_BYTES).map_err(unreadable)?.trim_ascii_end().to_vec()
        }
    };
    if secret.len() < crealeph_sandbox::Secret::MIN_BYTES {
        return Err(format!(
            "the secret of the header `{name}` is shorter than {} bytes, so it cannot be redacted; use a longer one",
            crealeph_sandbox::Secret::MIN_BYTES
        ));
    }
    let whole = [header.prefix.as_bytes(), &secret].concat();
    let mut value = HeaderValue::from_bytes(&whole)
        .map_err(|_| format!("the secret of the header `{name}` has characters that a header cannot have"))?;
    value.set_sensitive(true);
    Ok((value, secret))
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    #[test]
    fn a_secret_or_certificate_file_over_its_limit_is_refused_and_not_cut() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let header = SecretHeader { prefix: String::new(), from: SecretSource::File(file.clone()) };
        std::fs::write(&file, "s".repeat(MAX_SECRET_BYTES as usize)).unwrap();
        assert_eq!(secret("A", &header).unwrap().1.len() as u64, MAX_SECRET_BYTES);
        std::fs::write(&file, "s".repeat(MAX_SECRET_BYTES as usize + 1)).unwrap();
        let said = secret("A", &header).unwrap_err();
        assert!(said.contains("file`: it is longer than the limit of 65536 bytes"), "{said}");
        std::fs::write(&file, " ".repeat(MAX_CERTIFICATE_BYTES as usize + 1)).unwrap();
        let said = certificates(&file).unwrap_err();
        assert!(said.contains("longer than the limit of 4194304 bytes"), "{said}");
    }

    #[test]
    fn a_server_says_how_long_to_wait_in_seconds_or_by_a_date() {
        // Sun, 06 Nov 1994 08:49:37 GMT
        let now = UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (text, seconds) in [
            ("0", Some(0)),
            ("120", Some(120)),
            ("Sun, 06 Nov 1994 08:49:47 GMT", Some(10)),
            ("Sunday, 06-Nov-94 08:49:47 GMT", Some(10)),
            ("Sun Nov  6 08:49:47 1994", Some(10)),
            ("Sun, 06 Nov 1994 08:00:00 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            assert_eq!(wait_of(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
