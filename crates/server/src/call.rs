//! A request as a handler sees it: its identity, parameters and body, all within limits and parsed strictly.

use std::sync::Arc;

use bytes::Bytes;
use crealeph_contracts::instant::Instant;
use crealeph_contracts::scalar::{IdentifierError, Name};
use crealeph_ledger::{Cursor, Ledger};
use crealeph_runtime::access::KeyIdentity;
use crealeph_runtime::work::RunReader;
use percent_encoding::percent_decode_str;

use crate::app::App;
use crate::prefer::Preferences;
use crate::problem::{Problem, ProblemKind};
use crate::route::{ParameterKind, ParameterPlace, Route, Surface};
use crate::settings::ServerBounds;

const SMALL_BODY_BYTES: usize = 16 << 10;
/// The longest text that a parameter may have.
pub(crate) const MAX_TEXT_BYTES: usize = 1_024;
/// How many fields a form may have.
const MAX_FIELDS: usize = 64;

/// A request that may be answered.
pub(crate) struct Call {
    pub app: Arc<App>,
    /// Its id, which its answer and the log name.
    pub request_id: String,
    pub identity: Option<KeyIdentity>,
    pub parameters: Vec<(&'static str, String)>,
    pub body: Bytes,
    /// The page that sent it, if a browser says so; it is one of this server's own.
    pub origin: Option<String>,
    /// Where a stream resumes.
    pub last_event_id: Option<String>,
    /// When the client wants to be answered.
    pub preferences: Preferences,
    /// Whether a browser sent it by HTTPS.
    pub is_https: bool,
    /// The token of the session's cookie, if a page is asked for with one; whether the session counts is another question.
    pub session_token: Option<String>,
    /// The fields of a form.
    pub form: Vec<(String, String)>,
}

impl Call {
    /// The ledger.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.app.ledger
    }

    /// The ledger, whose entries are appended for the key.
    pub(crate) fn acting_ledger(&self) -> Result<Ledger, Problem> {
        Ok(self.app.ledger.acting_for(self.actor()?))
    }

    /// How an entry that is appended for the key names it.
    pub(crate) fn actor(&self) -> Result<Name, Problem> {
        let invalid = |_| Problem::new(ProblemKind::Internal, "the key's id is no name");
        self.who()?.actor().to_name().map_err(invalid)
    }

    /// Who asks.
    pub(crate) fn who(&self) -> Result<&KeyIdentity, Problem> {
        let nobody = || Problem::new(ProblemKind::Internal, "the route needs a key and did not ask for one");
        self.identity.as_ref().ok_or_else(nobody)
    }

    /// The runs of the workspace on this machine, if they are the tenant's. What cannot be read is logged, and as if it were not here.
    pub(crate) fn own_runs(&self) -> Result<Option<RunReader>, Problem> {
        let tenant = &self.who()?.tenant_id;
        let runs = self.app.workspace.as_ref().map(|workspace| workspace.served.runs(tenant));
        Ok(runs.transpose().map(Option::flatten).unwrap_or_else(|error| {
            tracing::warn!("the workspace on this machine is not shown: {error}");
            None
        }))
    }

    /// The bounds.
    pub(crate) fn bounds(&self) -> &ServerBounds {
        &self.app.settings.bounds
    }

    /// Whether the body is so small that parsing and judging it takes less than handing it to another thread and back.
    pub(crate) fn is_small(&self) -> bool {
        self.body.len() <= SMALL_BODY_BYTES
    }

    /// A parameter's text.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }

    /// A field of the form that was sent; empty if it is not there.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.form.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    /// The text of a parameter of the path, which the router found there.
    pub(crate) fn in_path(&self, name: &str) -> Result<&str, Problem> {
        let absent = || Problem::new(ProblemKind::Internal, format!("the route has no `{name}` in its path"));
        self.text(name).ok_or_else(absent)
    }

    /// A parameter as an identifier.
    pub(crate) fn identifier<T>(
        &self,
        name: &str,
        parse: impl Fn(&str) -> Result<T, IdentifierError>,
    ) -> Result<Option<T>, Problem> {
        let value = self.text(name).map(parse).transpose();
        value.map_err(|why| Problem::parameter(name, &format!("is not an identifier: {why}")))
    }

    /// A parameter as an instant.
    pub(crate) fn instant(&self, name: &str) -> Result<Option<Instant>, Problem> {
        let value = self.text(name).map(Instant::parse).transpose();
        value.map_err(|why| Problem::parameter(name, &format!("is not an RFC 3339 instant: {why}")))
    }

    /// A parameter as a number.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>, Problem> {
        let value = self.text(name).map(str::parse).transpose();
        value.map_err(|_| Problem::parameter(name, "is not a whole number"))
    }

    /// Where a list continues.
    pub(crate) fn cursor(&self) -> Result<Option<Cursor>, Problem> {
        self.cursor_of("cursor")
    }

    /// Where one of several lists continues.
    pub(crate) fn cursor_of(&self, name: &str) -> Result<Option<Cursor>, Problem> {
        Ok(self.text(name).map(Cursor::parse).transpose()?)
    }

    /// The requested number of items of a list.
    pub(crate) fn limit(&self, usual: usize) -> Result<usize, Problem> {
        let most = self.bounds().max_page_entries;
        let limit = self.number("limit")?.unwrap_or((usual as u64).min(most));
        if limit > most {
            let detail = format!("the parameter `limit` is {limit}, and the maximum is {most}");
            return Err(Problem::bound(ProblemKind::BadParameter, "max_page_entries", most, detail));
        }
        Ok(ServerBounds::size(limit))
    }
}

/// Reads the query of a route: each parameter known, once, and of its form.
pub(crate) fn read_query(
    route: &Route,
    surface: Surface,
    query: Option<&str>,
) -> Result<Vec<(&'static str, String)>, Problem> {
    let mut found: Vec<(&'static str, String)> = Vec::new();
    for pair in query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        // Browsers send the empty fields of a form too, and people leave a space in them.
        if surface == Surface::Page && value.trim().is_empty() {
            continue;
        }
        let known = route.parameters.iter().filter(|known| known.place.is_query());
        let Some(parameter) = known.into_iter().find(|known| known.name == name) else {
            return Err(Problem::parameter(&name, "is not known here"));
        };
        if found.iter().any(|(known, _)| *known == parameter.name) {
            return Err(Problem::parameter(&name, "is repeated"));
        }
        check(parameter.name, parameter.kind, &value)?;
        found.push((parameter.name, value));
    }
    let required =
        route.parameters.iter().filter(|parameter| parameter.place == ParameterPlace::RequiredQuery);
    for parameter in required {
        if !found.iter().any(|(known, _)| *known == parameter.name) {
            return Err(Problem::parameter(parameter.name, "is missing"));
        }
    }
    Ok(found)
}

/// Takes the parameters of a route's path, which are decoded already.
pub(crate) fn read_path<'p>(
    route: &Route,
    found: impl IntoIterator<Item = (&'p str, &'p str)>,
) -> Result<Vec<(&'static str, String)>, Problem> {
    let mut read = Vec::new();
    for (name, value) in found {
        let known =
            route.parameters.iter().find(|known| known.place == ParameterPlace::Path && known.name == name);
        let Some(parameter) = known else {
            return Err(Problem::new(ProblemKind::Internal, "a path has a parameter that its route has not"));
        };
        read.push((parameter.name, value.to_owned()));
    }
    Ok(read)
}

/// Reads a form that was sent as a body: each field once.
pub(crate) fn read_form(body: &[u8]) -> Result<Vec<(String, String)>, Problem> {
    let text = std::str::from_utf8(body)
        .map_err(|_| Problem::new(ProblemKind::BadRequest, "the form is not UTF-8"))?;
    let mut fields: Vec<(String, String)> = Vec::new();
    for pair in text.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decoded(name)?, decoded(value)?);
        if fields.iter().any(|(known, _)| *known == name) || fields.len() >= MAX_FIELDS {
            return Err(Problem::new(
                ProblemKind::BadRequest,
                "the form has a repeated field, or too many fields",
            ));
        }
        fields.push((name, value));
    }
    Ok(fields)
}

/// The text that a part of a query stands for; `+` is a space, as forms write it.
fn decoded(text: &str) -> Result<String, Problem> {
    let spaced = text.replace('+', " ");
    let decoded = percent_decode_str(&spaced).decode_utf8();
    let decoded = decoded.map_err(|_| Problem::new(ProblemKind::BadRequest, "the query is not UTF-8"))?;
    Ok(decoded.into_owned())
}

fn check(name: &str, kind: ParameterKind, value: &str) -> Result<(), Problem> {
    match kind {
        ParameterKind::Number(low, high) => {
            let is_plain = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
            let number = value.parse::<u64>().ok().filter(|_| is_plain);
            match number.is_some_and(|number| (low..=high).contains(&number)) {
                true => Ok(()),
                false => {
                    Err(Problem::parameter(name, &format!("is not a whole number from {low} to {high}")))
                }
            }
        }
        ParameterKind::Words(words) if !words.contains(&value) => {
            Err(Problem::parameter(name, &format!("is not one of {}", words.join(", "))))
        }
        ParameterKind::Text if value.trim().is_empty() || value.len() > MAX_TEXT_BYTES => {
            Err(Problem::parameter(name, "is not a string of 1 to 1,024 bytes"))
        }
        _ => Ok(()),
    }
}
