//! Agents behind a URL: the input is POSTed, the output is the body of the answer. Nothing holds such an agent, so the
//! record says `remote`. Redirects are not followed, and no proxy is used: the answer comes from the address that the
//! configuration names, or there is none. Secret headers are redacted from whatever comes back.

use std::io::Read as _;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crealeph_contracts::json::JsonObject;
use crealeph_contracts::{AgentInput, Valid};
use crealeph_sandbox::{Cancel, Redactor};
use ureq::http::{HeaderValue, Uri};

use super::answer::{bounded, judge, tokens_used};
use super::config::{HttpSettings, SecretHeader, SecretSource};
use super::{Agent, Call};

/// How often a call looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);
/// What the client may take beyond its own limit before it is given up.
const LATE: Duration = Duration::from_secs(1);
/// How much of a refusal's body a reason quotes, in characters.
const QUOTED: usize = 300;
const MAX_SECRET_BYTES: u64 = 64 << 10;

/// A server, ready to be called.
#[derive(Debug)]
pub struct Http {
    name: String,
    settings: HttpSettings,
    client: ureq::Agent,
}

/// What came back: the status and the body's first bytes; or why nothing did.
type Reply = Result<(u16, Vec<u8>), String>;

impl Agent for Http {
    fn call(&self, input: &Valid<AgentInput>, cancel: &Cancel) -> Call {
        let (answer, diagnostics) = match self.secrets() {
            Err(why) => (Err(bounded(why)), String::new()),
            Ok(secrets) => {
                let redactor = Redactor::new(secrets.iter().map(|(_, _, secret)| secret.as_slice()));
                let headers = secrets.into_iter().map(|(name, value, _)| (name, value)).collect();
                match self.reply(input, headers, cancel) {
                    Ok((200, body)) => (self.judged(body, &redactor, input), String::new()),
                    Ok((status, body)) => self.refused(status, &body, &redactor),
                    Err(why) => (Err(bounded(redactor.text(&why))), String::new()),
                }
            }
        };
        Call {
            tokens_used: answer.as_ref().ok().and_then(|output| tokens_used(output)),
            answer,
            identity: JsonObject::build(|object| {
                object.text("name", &self.name).text("kind", "http").text("sandbox", "remote");
                object.text("url", self.settings.url.split(['?', '#']).next().unwrap_or_default());
            }),
            diagnostics,
        }
    }
}

impl Http {
    pub(super) fn new(name: &str, settings: HttpSettings) -> Self {
        let is_tls = settings.url.parse::<Uri>().is_ok_and(|uri| uri.scheme_str() == Some("https"));
        let client = ureq::Agent::config_builder()
            .https_only(is_tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .user_agent(concat!("crealeph/", env!("CARGO_PKG_VERSION")))
            .accept("application/json")
            .timeout_global(Some(Duration::from_millis(settings.bounds.timeout_ms)))
            .build()
            .new_agent();
        Http { name: name.to_owned(), settings, client }
    }

    /// The secret headers: name, whole value, and the secret in it.
    fn secrets(&self) -> Result<Vec<(String, HeaderValue, Vec<u8>)>, String> {
        self.settings.secret_headers.iter().map(|(name, header)| secret(name, header)).collect()
    }

    /// Sends the request from a thread of its own, so that the call can end before it does.
    fn reply(
        &self,
        input: &Valid<AgentInput>,
        secrets: Vec<(String, HeaderValue)>,
        cancel: &Cancel,
    ) -> Reply {
        let timeout_ms = self.settings.bounds.timeout_ms;
        let late = || format!("the agent did not answer within {timeout_ms} ms");
        let mut request = self.client.post(&self.settings.url).content_type("application/json");
        for (name, value) in &self.settings.headers {
            request = request.header(name, value);
        }
        for (name, value) in secrets {
            request = request.header(name, value);
        }
        let body = input.to_json();
        let max_bytes = self.settings.bounds.max_output_bytes;
        let (sender, receiver) = sync_channel(1);
        let work = move || send(request, &body, max_bytes, &sender);
        let deadline = Instant::now() + Duration::from_millis(timeout_ms) + LATE;
        if let Err(error) = std::thread::Builder::new().name("agent-http".to_owned()).spawn(work) {
            return Err(format!("the agent could not be called: {error}"));
        }
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(Err(ureq::Error::Timeout(_))) => return Err(late()),
                Ok(Err(error)) => return Err(format!("the agent could not be reached: {error}")),
                Ok(Ok(reply)) => return Ok(reply),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err("the call of the agent was lost".to_owned());
                }
                Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => {
                    return Err("the agent was left because the request was cancelled".to_owned());
                }
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => return Err(late()),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn judged(
        &self,
        body: Vec<u8>,
        redactor: &Redactor,
        input: &Valid<AgentInput>,
    ) -> Result<Valid<crealeph_contracts::AgentOutput>, String> {
        let most = self.settings.bounds.max_output_bytes;
        if body.len() as u64 > most {
            return Err(format!(
                "the answer is longer than the {most} bytes allowed; shorten it or raise `max_output_bytes`"
            ));
        }
        let body = match std::str::from_utf8(&body) {
            Ok(text) => redactor.text(text).into_bytes(),
            // The parser says where it is not.
            Err(_) => body,
        };
        judge(&body, usize::try_from(most).unwrap_or(usize::MAX), input)
    }

    /// What a status other than 200 means.
    fn refused<T>(&self, status: u16, body: &[u8], redactor: &Redactor) -> (Result<T, String>, String) {
        let most = usize::try_from(self.settings.bounds.max_diagnostics_bytes).unwrap_or(usize::MAX);
        let text = redactor.text(&String::from_utf8_lossy(body));
        let diagnostics = text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned();
        let quoted: String = text.trim().chars().take(QUOTED).flat_map(char::escape_debug).collect();
        let reason = match status {
            300..=399 => {
                format!(
                    "the agent's server answered with a redirect ({status}), which is not followed; name the final address in `url`"
                )
            }
            _ if quoted.is_empty() => {
                format!("the agent's server answered with status {status} and nothing else")
            }
            _ => format!("the agent's server answered with status {status}: {quoted}"),
        };
        (Err(bounded(reason)), diagnostics)
    }
}

type Request = ureq::RequestBuilder<ureq::typestate::WithBody>;

fn send(
    request: Request,
    body: &str,
    max_bytes: u64,
    sender: &SyncSender<Result<(u16, Vec<u8>), ureq::Error>>,
) {
    let reply = request.send(body).and_then(|mut response| {
        let mut bytes = Vec::new();
        let bound = max_bytes.saturating_add(1);
        response.body_mut().as_reader().take(bound).read_to_end(&mut bytes).map_err(ureq::Error::from)?;
        Ok((response.status().as_u16(), bytes))
    });
    // Whoever called may have left already.
    let _ = sender.try_send(reply);
}

fn secret(name: &str, header: &SecretHeader) -> Result<(String, HeaderValue, Vec<u8>), String> {
    let secret = match &header.from {
        SecretSource::Variable(variable) => std::env::var_os(variable)
            .map(|value| value.into_encoded_bytes())
            .ok_or_else(|| format!("the secret `{variable}` is not set in the environment; set it"))?,
        SecretSource::File(path) => {
            let unreadable = |error| format!("cannot read the secret in `{}`: {error}", path.display());
            let file = std::fs::File::open(path).map_err(unreadable)?;
            let mut bytes = Vec::new();
            file.take(MAX_SECRET_BYTES).read_to_end(&mut bytes).map_err(unreadable)?;
            bytes.trim_ascii_end().to_vec()
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
        .map_err(|_| format!("the secret of the header `{name}` holds what a header cannot"))?;
    value.set_sensitive(true);
    Ok((name.to_owned(), value, secret))
}
