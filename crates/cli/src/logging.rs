//! Logs on standard error: nothing unless `-v`, `-vv` or `CREALEPH_LOG` asks for them. Spans have ids, never payloads.

use std::str::FromStr as _;

use tracing::Level;
use tracing_subscriber::Layer as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::FmtSpan;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::failure::ArgumentFailure;
use crate::output::LogLines;

/// Which levels are logged, of everything or by part; replaces `-v`.
const FILTER: &str = "CREALEPH_LOG";
/// `text` or `json`.
const FORMAT: &str = "CREALEPH_LOG_FORMAT";

/// Starts logging, if enabled.
pub(crate) fn start(verbosity: u8) -> Result<(), ArgumentFailure> {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let filter = match (variable(FILTER), verbosity) {
        (Some(text), _) => {
            let (expected, hint) =
                ("a filter for CREALEPH_LOG", "write `debug`, or `info,crealeph_ledger=trace`");
            Targets::from_str(&text).map_err(|_| ArgumentFailure::option_with_hint(text, expected, hint))?
        }
        (None, 0) => return Ok(()),
        (None, 1) => Targets::new().with_target("crealeph", Level::INFO),
        (None, _) => Targets::new().with_target("crealeph", Level::DEBUG),
    };
    let is_json = match variable(FORMAT).as_deref() {
        None | Some("text") => false,
        Some("json") => true,
        Some(other) => {
            return Err(ArgumentFailure::option(other, "`text` or `json` for CREALEPH_LOG_FORMAT"));
        }
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(LogLines { is_json })
        .with_ansi(false)
        .with_span_events(FmtSpan::NEW | FmtSpan::CLOSE);
    let lines = match is_json {
        true => lines.json().with_filter(filter).boxed(),
        false => lines.with_filter(filter).boxed(),
    };
    // It is set once, here; if it were set already, those logs would continue.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(lines));
    Ok(())
}
