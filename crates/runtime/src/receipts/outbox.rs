//! Receipts on their way to a server: written into a folder of the user's state before they are sent, and removed once the server has
//! them. Owns the bound of that folder; what it costs the oldest is said, never done silently. A run's outcome does not depend on it.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::contract::to_json;
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::reported::{ReceiptReport, ReportedFile};
use crealeph_contracts::scalar::Text;
use crealeph_contracts::shape::List;
use crealeph_contracts::text::Shown;
use crealeph_contracts::uuid::Uuid;
use crealeph_verify::read_unproven;
use ureq::http::Uri;
use ureq::tls::{RootCerts, TlsConfig};

use crate::agents::certificates;
use crate::work::receipt::{DIFF_FILE, ENVELOPE_FILE, RECEIPT_FILE};
use crate::work::{RunReader, RunsError};

/// How many reports wait for a server, and how large they are together.
const MAX_PENDING: usize = 1_000;
const MAX_PENDING_BYTES: u64 = 256 << 20;
/// The largest report: what a ledger takes by default, without what surrounds it.
const MAX_REPORT_BYTES: usize = (4 << 20) - (64 << 10);
/// How long one report may take, and all of them together.
const SEND_TIME: Duration = Duration::from_secs(30);
const ALL_TIME: Duration = Duration::from_secs(120);
/// How much of an answer is read, and how much of it is quoted.
const MAX_ANSWER_BYTES: u64 = 64 << 10;
const MAX_QUOTED_CHARS: usize = 300;
const MAX_URL_BYTES: usize = 2_048;
const MAX_TOKEN_BYTES: usize = 1_024;

/// Why reports cannot be kept or sent.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// Not an address that a key may be sent to.
    #[error("`{0}` is not an https address, or an http address of this machine")]
    Address(String),
    /// Not a key.
    #[error("the key is not one that `crealeph key create` printed")]
    Token,
    /// The certificates.
    #[error("{0}")]
    Certificates(String),
    /// The folder.
    #[error("cannot read or write `{}`", .path.display())]
    Folder {
        /// The path.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The run.
    #[error(transparent)]
    Runs(#[from] RunsError),
    /// A run without a receipt, or a receipt that cannot be reported.
    #[error("run `{run}` cannot be reported: {why}")]
    Unreportable {
        /// The run.
        run: Uuid,
        /// Why not.
        why: String,
    },
}

impl OutboxError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            OutboxError::Address(_) => "bad_address",
            OutboxError::Token | OutboxError::Certificates(_) => "bad_key",
            OutboxError::Folder { .. } => "unwritable",
            OutboxError::Runs(_) | OutboxError::Unreportable { .. } => "not_reportable",
        }
    }
}

/// Where receipts are reported to.
#[derive(Debug)]
pub struct ReportTarget {
    url: String,
    token: String,
    client: ureq::Agent,
}

impl ReportTarget {
    /// A server by its address, with the token that lets requests in. HTTP is for servers on this machine alone.
    ///
    /// # Errors
    /// When address, token or certificates cannot be used.
    pub fn new(url: &str, token: &str, ca_file: Option<&Path>) -> Result<Self, OutboxError> {
        let refused = || OutboxError::Address(Shown::line(url).at_most(MAX_QUOTED_CHARS).to_string());
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
            return Err(OutboxError::Token);
        }
        let roots = match ca_file {
            Some(file) => certificates(file).map_err(OutboxError::Certificates)?,
            None => RootCerts::WebPki,
        };
        let config = ureq::Agent::config_builder()
            .tls_config(TlsConfig::builder().root_certs(roots).build())
            .https_only(is_tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .timeout_global(Some(SEND_TIME))
            .user_agent(concat!("crealeph/", env!("CARGO_PKG_VERSION")))
            .build();
        let url = url.trim_end_matches('/').to_owned();
        Ok(ReportTarget { url, token: token.to_owned(), client: config.into() })
    }

    /// The address.
    pub fn url(&self) -> &str {
        &self.url
    }

    fn send(&self, report: &str) -> Result<(), Unsent> {
        let request = self.client.post(format!("{}/v1/work/receipts", self.url));
        let request = request.content_type("application/json");
        let sent = request.header("authorization", format!("Bearer {}", self.token)).send(report);
        let mut answer = sent.map_err(|error| Unsent::Away(error.to_string()))?;
        let status = answer.status().as_u16();
        let mut body = Vec::new();
        let read = answer.body_mut().as_reader().take(MAX_ANSWER_BYTES).read_to_end(&mut body);
        match (status, read) {
            (200, Ok(_)) => Ok(()),
            (200, Err(error)) => Err(Unsent::Away(error.to_string())),
            (status, _) => {
                let said = serde_json::from_slice::<serde_json::Value>(&body).ok();
                let said = said.and_then(|said| Some(said.get("detail")?.as_str()?.to_owned()));
                let said = said.unwrap_or_else(|| "no reason was given".to_owned());
                let why = format!("{}: {}", status, Shown::line(&said).at_most(MAX_QUOTED_CHARS));
                // What is wrong with one report is not wrong with the next.
                let is_about_it = matches!(status, 400 | 409 | 413 | 422);
                Err(if is_about_it { Unsent::Refused(why) } else { Unsent::Away(why) })
            }
        }
    }
}

/// Why a report was not sent.
enum Unsent {
    /// The server refused this one.
    Refused(String),
    /// The server, or the way to it, does not take any now.
    Away(String),
}

/// What became of reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentReports {
    /// The runs whose receipts the server has now.
    pub sent: Vec<Uuid>,
    /// Those that the server refused, and why; they are kept.
    pub refused: Vec<(Uuid, String)>,
    /// Why the server took no more.
    pub away: Option<String>,
    /// How many are still kept.
    pub pending: usize,
}

/// The reports that wait for one server.
#[derive(Debug)]
pub struct Outbox {
    folder: PathBuf,
}

impl Outbox {
    /// The outbox for a server, in the folder of the user's state.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn open(state: &Path, target: &ReportTarget) -> Result<Self, OutboxError> {
        let digest = Blake3::of(target.url.as_bytes()).to_string();
        let folder = state.join("reports").join(digest.get(..32).unwrap_or(&digest));
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(failed(&folder))?;
        Ok(Outbox { folder })
    }

    /// Keeps the report of a run that is over, and says which older ones had to go for it.
    ///
    /// # Errors
    /// When the run has no receipt, or the folder cannot be written.
    pub fn keep(&self, reader: &RunReader, run: &Uuid) -> Result<Vec<Uuid>, OutboxError> {
        let text = to_json(&report_of(reader, run)?);
        let dropped = self.make_room(run, text.len() as u64, (MAX_PENDING, MAX_PENDING_BYTES))?;
        let (path, temporary) = (self.path(run), self.folder.join(format!("{run}.new")));
        let mut options = fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&temporary);
        let mut file = file.map_err(failed(&temporary))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed(&temporary))?;
        fs::rename(&temporary, &path).map_err(failed(&path))?;
        Ok(dropped)
    }

    /// Drops the oldest reports until there is room for that of a run; those that were dropped.
    fn make_room(
        &self,
        run: &Uuid,
        size: u64,
        (most, most_bytes): (usize, u64),
    ) -> Result<Vec<Uuid>, OutboxError> {
        let mut others = self.pending()?;
        others.retain(|kept| kept.run != *run);
        let mut bytes = others.iter().map(|kept| kept.bytes).sum::<u64>() + size;
        let (mut oldest, mut dropped) = (others.into_iter(), Vec::new());
        while oldest.len() >= most || bytes > most_bytes {
            let Some(kept) = oldest.next() else { break };
            self.remove(&kept.run)?;
            bytes = bytes.saturating_sub(kept.bytes);
            dropped.push(kept.run);
        }
        Ok(dropped)
    }

    /// Sends what is kept, oldest first, within a bound of time.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn send(&self, target: &ReportTarget) -> Result<SentReports, OutboxError> {
        let until = Instant::now() + ALL_TIME;
        let mut result = SentReports::default();
        let pending = self.pending()?;
        result.pending = pending.len();
        for kept in pending {
            if Instant::now() > until {
                result.away = Some(format!("{} s are over", ALL_TIME.as_secs()));
                break;
            }
            let path = self.path(&kept.run);
            let report = fs::read_to_string(&path).map_err(failed(&path))?;
            match target.send(&report) {
                Ok(()) => {
                    self.remove(&kept.run)?;
                    result.pending -= 1;
                    result.sent.push(kept.run);
                }
                Err(Unsent::Refused(why)) => result.refused.push((kept.run, why)),
                Err(Unsent::Away(why)) => {
                    result.away = Some(why);
                    break;
                }
            }
        }
        Ok(result)
    }

    fn path(&self, run: &Uuid) -> PathBuf {
        self.folder.join(format!("{run}.json"))
    }

    fn remove(&self, run: &Uuid) -> Result<(), OutboxError> {
        let path = self.path(run);
        match fs::remove_file(&path) {
            // Another process has sent it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(failed(&path)),
        }
    }

    /// What is kept, in the order of the runs, whose ids are ordered by time.
    fn pending(&self) -> Result<Vec<KeptReport>, OutboxError> {
        let mut pending = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(failed(&self.folder))? {
            let entry = entry.map_err(failed(&self.folder))?;
            let name = entry.file_name();
            let run = name.to_str().and_then(|name| name.strip_suffix(".json")).and_then(Uuid::parse);
            let Some(run) = run else { continue };
            let bytes = entry.metadata().map_err(failed(&entry.path()))?.len();
            pending.push(KeptReport { run, bytes });
        }
        pending.sort_by_key(|kept| kept.run.to_string());
        Ok(pending)
    }
}

/// A report that waits.
struct KeptReport {
    run: Uuid,
    bytes: u64,
}

fn failed(path: &Path) -> impl Fn(io::Error) -> OutboxError + use<> {
    let path = path.to_owned();
    move |source| OutboxError::Folder { path: path.clone(), source }
}

/// The report of a run: receipt, statement, and of its diff and output what fits, whole files only.
fn report_of(reader: &RunReader, run: &Uuid) -> Result<ReceiptReport, OutboxError> {
    let unreportable = |why: &str| OutboxError::Unreportable { run: *run, why: why.to_owned() };
    let (receipt, envelope) = (reader.file(run, RECEIPT_FILE)?, reader.file(run, ENVELOPE_FILE)?);
    let (Some(receipt), Some(envelope)) = (receipt, envelope) else {
        return Err(unreportable("it has no receipt yet"));
    };
    let read = read_unproven(&receipt, &envelope).map_err(|finding| unreportable(&finding.what))?;
    let object = |bytes: &[u8]| std::str::from_utf8(bytes).ok().and_then(JsonObject::parse_own);
    let parts = object(&receipt).zip(object(&envelope));
    let (receipt, envelope) = parts.ok_or_else(|| unreportable("its receipt is not JSON"))?;
    let size = receipt.as_str().len() + envelope.as_str().len();
    let Some(mut left) = MAX_REPORT_BYTES.checked_sub(size) else {
        return Err(unreportable(&format!("its receipt is larger than {MAX_REPORT_BYTES} bytes")));
    };
    let stated = read.statement.predicate.files.as_ref().map_or(&[][..], |files| files.as_slice());
    let mut names: Vec<&str> = stated.iter().map(|file| file.name.as_str()).collect();
    names.retain(|name| *name == DIFF_FILE || name.ends_with(".log"));
    names.sort_by_key(|name| *name != DIFF_FILE);
    let mut files = Vec::new();
    for name in names {
        let Some(bytes) = reader.file(run, name)? else { continue };
        let content = STANDARD.encode(&bytes);
        let needed = content.len() + name.len() + 64;
        if let (Some(rest), Some(name)) = (left.checked_sub(needed), Text::new(name)) {
            left = rest;
            files.push(ReportedFile { name, content: content.into() });
        }
    }
    Ok(ReceiptReport { receipt, envelope, files: List::from_iter(files) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_oldest_reports_make_room_and_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let target = ReportTarget::new("http://127.0.0.1:9", "crealeph_x", None).unwrap();
        let outbox = Outbox::open(folder.path(), &target).unwrap();
        let run = |number: u8| Uuid::from_bytes([number; 16]);
        for number in [3, 1, 2] {
            fs::write(outbox.path(&run(number)), "0123456789").unwrap();
        }
        assert_eq!(outbox.make_room(&run(4), 10, (4, 40)).unwrap(), []);
        // A report that is written again takes no more room.
        assert_eq!(outbox.make_room(&run(3), 10, (3, 30)).unwrap(), []);
        assert_eq!(outbox.make_room(&run(4), 10, (3, 40)).unwrap(), [run(1)]);
        assert_eq!(outbox.make_room(&run(4), 25, (9, 35)).unwrap(), [run(2)]);
        assert_eq!(outbox.pending().unwrap().iter().map(|kept| kept.run).collect::<Vec<_>>(), [run(3)]);
        // What could not be sent is kept.
        let sent = outbox.send(&target).unwrap();
        assert!(sent.sent.is_empty() && sent.away.is_some() && sent.pending == 1, "{sent:?}");
    }

    #[test]
    fn a_key_is_sent_over_tls_or_within_this_machine_alone() {
        for good in [
            "https://crealeph.example.com",
            "https://h:8443/",
            "http://127.0.0.1:8",
            "http://localhost:1",
            "http://[::1]:80",
        ] {
            assert!(ReportTarget::new(good, "crealeph_x", None).is_ok(), "{good}");
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
            assert!(
                matches!(ReportTarget::new(bad, "crealeph_x", None), Err(OutboxError::Address(_))),
                "{bad}"
            );
        }
        for token in ["", "a b", "a\nb", "ü"] {
            assert!(
                matches!(ReportTarget::new("https://h", token, None), Err(OutboxError::Token)),
                "{token:?}"
            );
        }
    }
}
