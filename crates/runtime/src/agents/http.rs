//! Agents behind a URL: the input is POSTed, the output is the body of the answer. Nothing holds such an agent, so the
//! record says `remote`. Redirects are not followed, and no proxy is used: the answer comes from the address that the
//! configuration names, or there is no answer. One that holds a secret header is refused; what else comes back is redacted.

use crealeph_contracts::agent_output::AgentAnswer;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::text::Shown;
use crealeph_contracts::{AgentInput, Valid};
use crealeph_sandbox::{Cancel, Redactor};

use super::answer::{bounded, judge, tokens_used};
use super::config::{Bounds, HttpSettings};
use super::transport::{Deadline, Reply, Transport};
use super::{Agent, Call, NoAnswer};

/// How much of a refusal's body a reason quotes, in characters.
const QUOTED: usize = 300;

/// A server, ready to be called.
#[derive(Debug)]
pub struct Http {
    name: String,
    settings: HttpSettings,
    transport: Transport,
}

impl Agent for Http {
    fn call(&self, input: &Valid<AgentInput>, cancel: &Cancel) -> Call {
        let bounds = &self.settings.bounds;
        let (answer, diagnostics) = match self.transport.secrets() {
            Err(none) => (Err(none), String::new()),
            Ok(secrets) => {
                let sent = self.transport.post(
                    &input.to_json(),
                    &secrets,
                    bounds,
                    Deadline::after(bounds.timeout_ms),
                    cancel,
                );
                match sent {
                    Ok(Reply { status: 200, body, .. }) => {
                        (self.judged(body, &secrets.redactor, input), String::new())
                    }
                    Ok(reply) => {
                        let (reason, diagnostics) = refused(&reply, bounds, &secrets.redactor);
                        (Err(NoAnswer::from(reason)), diagnostics)
                    }
                    Err(none) => (Err(none), String::new()),
                }
            }
        };
        Call {
            tokens_used: answer.as_ref().ok().and_then(|output| tokens_used(output)),
            answer: answer.map_err(NoAnswer::bounded),
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
        let transport = Transport::new(&settings.url, &settings.via);
        Http { name: name.to_owned(), settings, transport }
    }

    fn judged(
        &self,
        body: Vec<u8>,
        redactor: &Redactor,
        input: &Valid<AgentInput>,
    ) -> Result<AgentAnswer, NoAnswer> {
        let most = self.settings.bounds.max_output_bytes;
        if body.len() as u64 > most {
            return Err(NoAnswer::from(format!(
                "the answer is longer than the {most} bytes allowed; shorten it or raise `max_output_bytes`"
            )));
        }
        judge(&body, usize::try_from(most).unwrap_or(usize::MAX), input, redactor)
    }
}

/// What a status other than 200 means: the reason, and the diagnostics.
pub(super) fn refused(reply: &Reply, bounds: &Bounds, redactor: &Redactor) -> (String, String) {
    let Reply { status, body, .. } = reply;
    let most = usize::try_from(bounds.max_diagnostics_bytes).unwrap_or(usize::MAX);
    let text = redactor.text(&String::from_utf8_lossy(body));
    let diagnostics = text.get(..text.floor_char_boundary(most)).unwrap_or_default().to_owned();
    let quoted = Shown::line(text.trim()).at_most(QUOTED);
    let reason = match status {
        300..=399 => format!(
            "the agent's server answered with a redirect ({status}), which is not followed; name the final address in \
             `url`"
        ),
        _ if text.trim().is_empty() => {
            format!("the agent's server answered with status {status} and an empty body")
        }
        _ => format!("the agent's server answered with status {status}: {quoted}"),
    };
    (bounded(reason), diagnostics)
}
