//! A server as its clients reach it: where a key may be sent, and how an answer is read. Owns the bounds of a request: its time, the
//! size of its answer, how often it is repeated. Errors from the server keep their stable code; an answer that is not from such a server is
//! never accepted.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use crealeph_contracts::scalar::TenantId;
use crealeph_contracts::text::Shown;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use ureq::Body;
use ureq::http::{Response, Uri, header};
use ureq::tls::{RootCerts, TlsConfig};

use crate::access::tenant_of_token;
use crate::agents::certificates;

/// How long a request may take, and one that runs the Builder: longer than a server's own bound by default.
const REQUEST_TIME: Duration = Duration::from_secs(60);
const RUN_TIME: Duration = Duration::from_secs(900);
/// How long an answer without a bound on its size may take.
const STREAM_TIME: Duration = Duration::from_secs(24 * 3_600);
/// How long it may take to reach the server.
const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How much of an answer is read, and how much of a text in it is quoted.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
const MAX_QUOTED_CHARS: usize = 1_000;
/// How many violations are quoted.
const MAX_VIOLATIONS: usize = 20;
const MAX_URL_BYTES: usize = 2_048;
const MAX_TOKEN_BYTES: usize = 1_024;
/// How often a request is repeated that the server has no room for, and how long it waits before that at most.
const MAX_REPEATS: u32 = 3;
const MAX_PAUSE_S: u64 = 10;

/// The header with the reason of a Builder's answer, percent-encoded.
pub const REASON_HEADER: &str = "crealeph-reason";

const JSON_TYPE: &str = "application/json";
const PROBLEM_TYPE: &str = "application/problem+json";

/// Why a server did not answer a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Not an address that a key may be sent to.
    #[error("`{0}` is not an https address, or an http address of this machine")]
    Address(String),
    /// Not a key.
    #[error("the key is not one that `crealeph key create` printed")]
    Token,
    /// The certificates.
    #[error("{0}")]
    Certificates(String),
    /// It cannot be reached, or does not answer in time.
    #[error("cannot reach the server `{url}`: {why}")]
    Away {
        /// The server.
        url: String,
        /// Why not.
        why: String,
    },
    /// Not the answer of such a server.
    #[error("`{url}` does not answer as a CreAleph server does: {why}")]
    Answer {
        /// The server.
        url: String,
        /// What is wrong with it.
        why: String,
    },
    /// The answer is beyond the bound.
    #[error("the answer of `{url}` is larger than {MAX_ANSWER_BYTES} bytes")]
    TooLarge {
        /// The server.
        url: String,
    },
    /// The server refused it.
    #[error("{}", .0.detail)]
    Refused(Box<ServerRefusal>),
}

impl ClientError {
    /// The stable code; what a server refused has its own.
    pub fn code(&self) -> &'static str {
        match self {
            ClientError::Address(_) => "bad_address",
            ClientError::Token | ClientError::Certificates(_) => "bad_key",
            ClientError::Away { .. } => "server_away",
            ClientError::Answer { .. } => "bad_answer",
            ClientError::TooLarge { .. } => "too_large",
            ClientError::Refused(_) => "server_refused",
        }
    }
}

/// What a server says of a request that it refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerRefusal {
    /// The HTTP status.
    pub status: u16,
    /// The stable code.
    pub code: String,
    /// What is wrong, with every violation that fits.
    pub detail: String,
    /// What to do next.
    pub hint: Option<String>,
}

#[derive(Deserialize)]
struct ProblemDocument {
    code: String,
    detail: String,
    hint: Option<String>,
    #[serde(default)]
    violations: Vec<ProblemViolation>,
}

#[derive(Deserialize)]
struct ProblemViolation {
    pointer: String,
    message: String,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct ServerAnswer {
    url: String,
    media_type: String,
    /// Its status.
    pub status: u16,
    /// Why it is so, if the answer is the Builder's.
    pub reason: Option<String>,
    body: Vec<u8>,
}

/// How a request may be repeated.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repeat {
    /// Whenever the server has no room: it changes nothing, or sending it twice does not.
    Freely,
    /// Only if the server has not looked at it.
    Untouched,
}

/// A server and the key that lets requests in.
#[derive(Clone)]
pub struct ServerClient {
    url: String,
    token: String,
    agent: ureq::Agent,
}

/// The key is shown nowhere.
impl std::fmt::Debug for ServerClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerClient").field("url", &self.url).finish_non_exhaustive()
    }
}

impl ServerClient {
    /// A server by its address, with the token that lets requests in. HTTP is for servers on this machine alone.
    ///
    /// # Errors
    /// When address, token or certificates cannot be used.
    pub fn new(url: &str, token: &str, ca_file: Option<&Path>) -> Result<Self, ClientError> {
        let refused = || ClientError::Address(Shown::line(url).at_most(MAX_QUOTED_CHARS).to_string());
        let uri: Uri = url.parse().map_err(|_| refused())?;
        let host = uri.host().ok_or_else(refused)?.trim_matches(['[', ']']);
        let is_here =
            host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
        let has_more = uri.query().is_some() || uri.authority().is_some_and(|at| at.as_str().contains('@'));
        let is_tls = uri.scheme_str() == Some("https");
        let is_plain_here = uri.scheme_str() == Some("http") && is_here;
        if host.is_empty() || has_more || url.len() > MAX_URL_BYTES || !(is_tls || is_plain_here) {
            return Err(refused());
        }
        let is_printable = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.is_empty() || token.len() > MAX_TOKEN_BYTES || !is_printable {
            return Err(ClientError::Token);
        }
        let roots = match ca_file {
            Some(file) => certificates(file).map_err(ClientError::Certificates)?,
            None => RootCerts::WebPki,
        };
        let config = ureq::Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .https_only(is_tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_connect(Some(CONNECT_TIME))
            .user_agent(concat!("crealeph/", env!("CARGO_PKG_VERSION")))
            .build();
        let url = url.trim_end_matches('/').to_owned();
        Ok(ServerClient { url, token: token.to_owned(), agent: config.into() })
    }

    /// The address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The tenant that the key is for, as the key itself says.
    ///
    /// # Errors
    /// When it is not a key.
    pub fn tenant(&self) -> Result<TenantId, ClientError> {
        tenant_of_token(&self.token).ok_or(ClientError::Token)
    }

    /// Reads something. Of the parts of the path each is one name.
    ///
    /// # Errors
    /// When there is no answer, or the server refuses.
    pub fn get(&self, path: &[&str], query: &[(&str, Option<String>)]) -> Result<ServerAnswer, ClientError> {
        let url = self.target(path, query);
        let send = || {
            self.agent
                .get(&url)
                .header("authorization", self.bearer())
                .config()
                .timeout_global(Some(REQUEST_TIME))
                .build()
                .call()
        };
        self.answer(Repeat::Freely, send)
    }

    /// Reads something of any length, as it comes.
    ///
    /// # Errors
    /// When there is no answer, it is not of the media type, or the server refuses.
    pub fn stream(&self, path: &[&str], media_type: &str) -> Result<impl Read + 'static, ClientError> {
        let url = self.target(path, &[]);
        let send = || {
            let request = self.agent.get(&url).header("authorization", self.bearer()).config();
            let request = request.timeout_recv_response(Some(REQUEST_TIME));
            request.timeout_global(Some(STREAM_TIME)).build().call()
        };
        let mut response = self.response(Repeat::Freely, send)?;
        let status = response.status().as_u16();
        let own = response.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match status == 200 && own == Some(media_type) {
            true => Ok(response.into_body().into_reader()),
            false => {
                let answer = self.read(status, &mut response)?;
                Err(answer.bad(format!("it sent `{}` instead of `{media_type}`", answer.media_type)))
            }
        }
    }

    /// Asks something that takes a document and writes nothing, or nothing a second time.
    ///
    /// # Errors
    /// When there is no answer, or the server refuses.
    pub fn ask(
        &self,
        path: &[&str],
        query: &[(&str, Option<String>)],
        body: &[u8],
    ) -> Result<ServerAnswer, ClientError> {
        self.send(path, query, body, REQUEST_TIME, Repeat::Freely)
    }

    /// Has something written. It is not repeated once the server may have looked at it.
    ///
    /// # Errors
    /// When there is no answer, or the server refuses.
    pub fn post(
        &self,
        path: &[&str],
        query: &[(&str, Option<String>)],
        body: &[u8],
    ) -> Result<ServerAnswer, ClientError> {
        self.send(path, query, body, REQUEST_TIME, Repeat::Untouched)
    }

    /// Has something ended: a key revoked, a webhook deleted. A second time it changes nothing.
    ///
    /// # Errors
    /// When there is no answer, or the server refuses.
    pub fn delete(
        &self,
        path: &[&str],
        query: &[(&str, Option<String>)],
    ) -> Result<ServerAnswer, ClientError> {
        let url = self.target(path, query);
        let send = || {
            let request = self.agent.delete(&url).header("authorization", self.bearer());
            request.config().timeout_global(Some(REQUEST_TIME)).build().call()
        };
        self.answer(Repeat::Freely, send)
    }

    /// Has something run, and waits for its end.
    ///
    /// # Errors
    /// When there is no answer, or the server refuses.
    pub fn run(
        &self,
        path: &[&str],
        query: &[(&str, Option<String>)],
        body: &[u8],
    ) -> Result<ServerAnswer, ClientError> {
        self.send(path, query, body, RUN_TIME, Repeat::Untouched)
    }

    fn send(
        &self,
        path: &[&str],
        query: &[(&str, Option<String>)],
        body: &[u8],
        time: Duration,
        repeat: Repeat,
    ) -> Result<ServerAnswer, ClientError> {
        let url = self.target(path, query);
        let send = || {
            let request = self.agent.post(&url).header("authorization", self.bearer());
            request.content_type(JSON_TYPE).config().timeout_global(Some(time)).build().send(body)
        };
        self.answer(repeat, send)
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    fn target(&self, path: &[&str], query: &[(&str, Option<String>)]) -> String {
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let mut target = format!("{}/v1", self.url);
        path.iter().for_each(|part| target.extend(["/", &encoded(part)]));
        let given = query.iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
        for (position, (name, value)) in given.enumerate() {
            target.push(if position == 0 { '?' } else { '&' });
            target.extend([name, "=", &encoded(value)]);
        }
        target
    }

    fn answer(
        &self,
        repeat: Repeat,
        send: impl Fn() -> Result<Response<Body>, ureq::Error>,
    ) -> Result<ServerAnswer, ClientError> {
        let mut response = self.response(repeat, send)?;
        self.read(response.status().as_u16(), &mut response)
    }

    /// Sends until there is an answer, a bounded number of times.
    fn response(
        &self,
        repeat: Repeat,
        send: impl Fn() -> Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, ClientError> {
        let mut left = MAX_REPEATS;
        loop {
            let response = send()
                .map_err(|error| ClientError::Away { url: self.url.clone(), why: error.to_string() })?;
            let status = response.status().as_u16();
            let may_repeat = status == 429 || (status == 503 && repeat == Repeat::Freely);
            if may_repeat && left > 0 {
                left -= 1;
                std::thread::sleep(pause(&response));
                continue;
            }
            return Ok(response);
        }
    }

    fn read(&self, status: u16, response: &mut Response<Body>) -> Result<ServerAnswer, ClientError> {
        let url = self.url.clone();
        let bad = |why: String| ClientError::Answer { url: url.clone(), why };
        let media_type = response.headers().get(header::CONTENT_TYPE);
        let media_type = media_type.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let reason = response.headers().get(REASON_HEADER).map(|value| {
            let text = percent_decode(value.as_bytes()).decode_utf8_lossy();
            Shown::block(&text).at_most(MAX_QUOTED_CHARS).to_string()
        });
        if (300..400).contains(&status) {
            return Err(bad("it redirects, which is not followed; name the server itself".to_owned()));
        }
        let mut body = Vec::new();
        let mut reader = response.body_mut().as_reader().take(MAX_ANSWER_BYTES + 1);
        reader
            .read_to_end(&mut body)
            .map_err(|error| ClientError::Away { url: url.clone(), why: error.to_string() })?;
        if body.len() as u64 > MAX_ANSWER_BYTES {
            return Err(ClientError::TooLarge { url: url.clone() });
        }
        let answer = ServerAnswer {
            url: url.clone(),
            media_type: media_type.unwrap_or_default(),
            status,
            reason,
            body,
        };
        match () {
            () if answer.is_of(PROBLEM_TYPE) => Err(answer.refusal()?),
            // A decided answer of the Builder has its own status.
            () if (200..300).contains(&status) || answer.is_of(JSON_TYPE) => Ok(answer),
            () => Err(bad(format!("status {status} without a reason"))),
        }
    }
}

/// How long to wait before a request is repeated.
fn pause(response: &Response<Body>) -> Duration {
    let named = response.headers().get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
    let seconds = named.and_then(|value| value.trim().parse().ok()).unwrap_or(1);
    Duration::from_secs(u64::min(seconds, MAX_PAUSE_S))
}

impl ServerAnswer {
    fn is_of(&self, media_type: &str) -> bool {
        let own = self.media_type.split(';').next().unwrap_or_default().trim();
        own.eq_ignore_ascii_case(media_type)
    }

    /// An answer that is not one to the question.
    pub fn refuse(&self, why: &str) -> ClientError {
        self.bad(why)
    }

    fn bad(&self, why: impl std::fmt::Display) -> ClientError {
        let why = Shown::line(&why.to_string()).at_most(MAX_QUOTED_CHARS).to_string();
        ClientError::Answer { url: self.url.clone(), why }
    }

    /// The JSON text that it is.
    ///
    /// # Errors
    /// When it is something else.
    pub fn json_text(&self) -> Result<&str, ClientError> {
        match self.is_of(JSON_TYPE) {
            true => std::str::from_utf8(&self.body).map_err(|error| self.bad(error)),
            false => Err(self.bad(format!("it sent `{}` instead of JSON", self.media_type))),
        }
    }

    /// The text that it is, of a media type.
    ///
    /// # Errors
    /// When it is something else.
    pub fn text_of(&self, media_type: &str) -> Result<&str, ClientError> {
        match self.is_of(media_type) {
            true => std::str::from_utf8(&self.body).map_err(|error| self.bad(error)),
            false => Err(self.bad(format!("it sent `{}` instead of `{media_type}`", self.media_type))),
        }
    }

    /// What it says, as one of the read models.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_str(self.json_text()?).map_err(|error| self.bad(error))
    }

    /// The same by a reader of the contracts, which says what it cannot read.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read_with<T>(&self, read: impl FnOnce(&str) -> Result<T, String>) -> Result<T, ClientError> {
        read(self.json_text()?).map_err(|why| self.bad(why))
    }

    fn refusal(&self) -> Result<ClientError, ClientError> {
        let document: ProblemDocument =
            serde_json::from_slice(&self.body).map_err(|error| self.bad(error))?;
        let quoted = |text: &str| Shown::line(text).at_most(MAX_QUOTED_CHARS).to_string();
        let mut detail = quoted(&document.detail);
        for ProblemViolation { pointer, message } in document.violations.iter().take(MAX_VIOLATIONS) {
            detail.push_str(&quoted(&format!("; at `{pointer}`: {message}")));
        }
        Ok(ClientError::Refused(Box::new(ServerRefusal {
            status: self.status,
            code: document.code,
            detail,
            hint: document.hint.map(|hint| quoted(&hint)),
        })))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_key_is_sent_over_tls_or_within_this_machine_alone() {
        for good in [
            "https://crealeph.example.com",
            "https://h:8443/",
            "http://127.0.0.1:8",
            "http://localhost:1",
            "http://[::1]:80",
        ] {
            assert!(ServerClient::new(good, "crealeph_x", None).is_ok(), "{good}");
        }
        for bad in [
            "http://example.com",
            "http://10.0.0.1:80",
            "https://u:p@h",
            "https://h?x=1",
            "ftp://h",
            "h",
            "",
            "http://localhost.evil.com",
        ] {
            let refused = ServerClient::new(bad, "crealeph_x", None);
            assert!(matches!(refused, Err(ClientError::Address(_))), "{bad}");
        }
        for token in ["", "a b", "a\nb", "ü"] {
            let refused = ServerClient::new("https://h", token, None);
            assert!(matches!(refused, Err(ClientError::Token)), "{token:?}");
        }
    }

    #[test]
    fn a_name_is_one_part_of_a_path_and_what_is_absent_is_not_sent() {
        let client = ServerClient::new("http://127.0.0.1:8/", "crealeph_x", None).unwrap();
        let target = client.target(&["robots", "a/b?c"], &[("x", None), ("at", Some("1&2".to_owned()))]);
        assert_eq!(target, "http://127.0.0.1:8/v1/robots/a%2Fb%3Fc?at=1%262");
        assert!(!format!("{client:?}").contains("crealeph_x"));
    }
}
