//! Entries as the command line's `--json` and the server both show them: an entry, the result of an append, a
//! page of a list, a lineage, a consistency proof.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crealeph_contracts::entry::with_lost_payload;
use crealeph_contracts::json::{Limits, Node, ObjectWriter, parse};
use crealeph_contracts::scalar::TenantId;
use crealeph_contracts::short_id::NamedKind;
use crealeph_ledger::{
    AppendedEntry, Cursor, EntryPage, Filter, Ledger, LedgerError, LineageEntries, LineageEntry, Order, Seq,
    StoredEntry,
};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};

/// How many entries are read first; how many after that goes by their size.
const FIRST_READ: usize = 16;

/// What the ledger says of an entry that it took.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendedReport {
    /// The entry's id.
    pub id: String,
    /// Its sequence number.
    pub seq: u64,
    /// When the ledger took it.
    pub created_at: String,
    /// It was there already.
    pub repeat: bool,
}

impl AppendedReport {
    /// The report of one entry.
    pub fn of(appended: &AppendedEntry) -> Self {
        AppendedReport {
            id: appended.id.as_str().to_owned(),
            seq: appended.seq.get(),
            created_at: appended.created_at.to_string(),
            repeat: appended.is_repeat,
        }
    }
}

/// What a word stands for that names something: an id, or the start of one.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct FoundId {
    /// The word.
    pub word: String,
    /// The id; absent if there is none.
    pub id: Option<String>,
    /// The shortest start that only this id has; the word itself if there is none.
    pub short: String,
}

/// The ids that words stand for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct FoundIds {
    /// One for each word.
    pub ids: Vec<FoundId>,
}

/// Looks up the ids that words stand for.
///
/// # Errors
/// When a word is the start of several, or the ledger cannot be read.
pub fn find_ids(
    ledger: &Ledger,
    tenant: &TenantId,
    kind: NamedKind,
    words: &[&str],
) -> Result<FoundIds, LedgerError> {
    let find = |word: &&str| ledger.id_of(tenant, kind.into(), word);
    let found = words.iter().map(find).collect::<Result<Vec<_>, _>>()?;
    let known: Vec<&str> = found.iter().filter_map(|id| id.as_deref()).collect();
    let mut short = ledger.short_ids(tenant, kind.into(), &known)?.into_iter();
    let ids = words.iter().zip(found).map(|(word, id)| {
        let short = id.as_ref().and_then(|_| short.next());
        FoundId { word: (*word).to_owned(), short: short.unwrap_or_else(|| (*word).to_owned()), id }
    });
    Ok(FoundIds { ids: ids.collect() })
}

/// How large a tenant's log is.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LogSizeReport {
    /// The tenant.
    pub tenant_id: String,
    /// The log's name.
    pub origin: String,
    /// How many entries it has.
    pub entries: u64,
    /// How often one of them depends on another.
    pub edges: u64,
    /// When the newest was appended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_at: Option<String>,
    /// The root of its tree.
    pub root: String,
    /// How many checkpoints were signed.
    pub checkpoints: usize,
    /// How many entries the newest of them covers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_checkpoint: Option<u64>,
}

/// How large the log of a tenant is; absent if it has none.
///
/// # Errors
/// When the ledger cannot be read.
pub fn log_size(ledger: &Ledger, tenant: &TenantId) -> Result<Option<LogSizeReport>, LedgerError> {
    let stats = ledger.stats(tenant)?;
    Ok(stats.map(|stats| LogSizeReport {
        tenant_id: tenant.to_string(),
        origin: stats.origin,
        entries: stats.entries,
        edges: stats.edges,
        last_at: stats.last_at.map(|at| at.to_string()),
        root: stats.root.to_string(),
        checkpoints: stats.checkpoints,
        last_checkpoint: stats.last_checkpoint,
    }))
}

/// Shows that a log of some entries is the beginning of a longer one (RFC 6962).
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ConsistencyReport {
    /// How many entries the shorter log has.
    pub older: u64,
    /// How many the longer one has.
    pub newer: u64,
    /// The hashes, in base64.
    pub path: Vec<String>,
}

/// The proof that the first `older` entries of a tenant's log are the beginning of its first `newer`.
///
/// # Errors
/// When the log has not that many, or cannot be read.
pub fn consistency(
    ledger: &Ledger,
    tenant: &TenantId,
    older: u64,
    newer: u64,
) -> Result<ConsistencyReport, LedgerError> {
    let path = ledger.consistency_path(tenant, older, newer)?;
    let path = path.iter().map(|hash| STANDARD.encode(hash.as_bytes())).collect();
    Ok(ConsistencyReport { older, newer, path })
}

/// An entry as JSON: its canonical text. One that an older program stored without its payload has an empty one.
pub fn entry_json(entry: &StoredEntry) -> String {
    let text = entry.canonical();
    with_lost_payload(&text).unwrap_or(text)
}

/// A CloudEvent 1.0 about an entry, with data that is JSON: the same in an event stream and in a webhook.
pub fn cloud_event(entry: &StoredEntry, data: &str) -> String {
    let tenant = utf8_percent_encode(entry.tenant_id.as_str(), NON_ALPHANUMERIC);
    let mut out = String::with_capacity(data.len() + 512);
    let mut event = ObjectWriter::new(&mut out);
    event
        .text("specversion", "1.0")
        .text("id", entry.id.as_str())
        .text("source", &format!("urn:crealeph:log:{tenant}"))
        .text("type", &format!("crealeph.entry.{}", entry.content.kind))
        .text("subject", entry.content.robot_id.as_str())
        .text("time", &entry.created_at.to_string())
        .text("sequence", &entry.seq.to_string())
        .text("datacontenttype", "application/json")
        .raw("data", data);
    event.end();
    out
}

/// An entry as JSON, without its payload and what it depends on.
pub fn entry_head_json(entry: &StoredEntry) -> String {
    let content = &entry.content;
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    if let Some(actor) = &entry.actor {
        object.text("actor", actor.as_str());
    }
    object.text("createdAt", &entry.created_at.to_string()).text("id", entry.id.as_str());
    object.text("module", content.module.as_str()).text("robotId", content.robot_id.as_str());
    object.raw("seq", &entry.seq.to_string()).text("source", content.source.as_str());
    object.text("state", content.state.as_str()).text("type", content.kind.as_str());
    object.end();
    out
}

/// A page of a list as JSON.
pub fn page_json(page: &EntryPage) -> String {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.raw("entries", &array(page.entries.iter().map(entry_json)));
    if let Some(next) = &page.next {
        object.text("next", &next.to_string());
    }
    object.end();
    out
}

/// An entry of a lineage as JSON.
pub fn relative_json(relative: &LineageEntry) -> String {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.raw("distance", &relative.distance.to_string()).raw("entry", &entry_json(&relative.entry));
    object.end();
    out
}

/// A lineage as JSON.
pub fn lineage_json(lineage: &LineageEntries) -> String {
    let mut out = String::new();
    let mut object = ObjectWriter::new(&mut out);
    object.boolean("cut", lineage.is_cut);
    object.raw("entries", &array(lineage.entries.iter().map(relative_json)));
    object.end();
    out
}

/// Reads an entry that [`entry_json`] wrote.
///
/// # Errors
/// With what is wrong first.
pub fn read_entry(text: &str) -> Result<StoredEntry, String> {
    document(text, entry_of)
}

/// Reads a page that [`page_json`] wrote.
///
/// # Errors
/// With what is wrong first.
pub fn read_page(text: &str) -> Result<EntryPage, String> {
    document(text, |page| {
        let next = page.member("next").and_then(Node::string);
        let next = next.map(|next| Cursor::parse(&next)).transpose().map_err(|error| error.to_string())?;
        let entries = page.member("entries").ok_or("it has no `entries`")?.elements();
        Ok(EntryPage { entries: entries.map(entry_of).collect::<Result<_, String>>()?, next })
    })
}

/// Reads a lineage that [`lineage_json`] wrote.
///
/// # Errors
/// With what is wrong first.
pub fn read_lineage(text: &str) -> Result<LineageEntries, String> {
    let relative = |node: Node<'_>| {
        let distance = node.member("distance").and_then(Node::number).ok_or("it has no `distance`")?;
        let entry = entry_of(node.member("entry").ok_or("it has no `entry`")?)?;
        Ok(LineageEntry { distance: distance as usize, entry })
    };
    document(text, |lineage| {
        let is_cut = lineage.member("cut").and_then(Node::boolean).ok_or("it has no `cut`")?;
        let entries = lineage.member("entries").ok_or("it has no `entries`")?.elements();
        Ok(LineageEntries { entries: entries.map(relative).collect::<Result<_, String>>()?, is_cut })
    })
}

/// Reads a document strictly.
fn document<T>(text: &str, read: impl FnOnce(Node<'_>) -> Result<T, String>) -> Result<T, String> {
    let (document, faults) = parse(text.as_bytes(), &Limits::own(text.len()));
    match (document, faults.first()) {
        (Some(document), None) => read(document.root()),
        (_, fault) => Err(fault.map_or("it is not JSON".to_owned(), |fault| fault.message.clone())),
    }
}

/// An entry, if its text is the one that would be written again.
fn entry_of(node: Node<'_>) -> Result<StoredEntry, String> {
    let entry = StoredEntry::read_from(node)?;
    match entry.canonical() == node.source() {
        true => Ok(entry),
        false => Err("an entry is not in canonical form".to_owned()),
    }
}

fn array(items: impl Iterator<Item = String>) -> String {
    format!("[{}]", items.collect::<Vec<_>>().join(","))
}

/// Some items of a list, newest first, and where it continues.
pub type NewestPage<T> = (Vec<T>, Option<Cursor>);

/// Two lists as one, newest first. What is beyond the place that one of them was read to is left for the next page.
pub fn merged_newest<T>(
    one: NewestPage<T>,
    other: NewestPage<T>,
    limit: usize,
    seq: impl Fn(&T) -> Seq,
) -> NewestPage<T> {
    let reached = one.1.into_iter().chain(other.1).max_by_key(|cursor| cursor.seq());
    let mut items: Vec<T> = one.0.into_iter().chain(other.0).collect();
    items.retain(|item| reached.is_none_or(|reached| seq(item) >= reached.seq()));
    items.sort_by_key(|item| std::cmp::Reverse(seq(item)));
    let is_cut = items.len() > limit;
    items.truncate(limit);
    let next = match items.last() {
        Some(last) if is_cut => Some(Cursor::after(seq(last))),
        _ => reached,
    };
    (items, next)
}

/// The requested page of a list.
#[derive(Clone, Debug, PartialEq)]
pub struct PageQuery {
    /// Which entries.
    pub filter: Filter,
    /// In which order.
    pub order: Order,
    /// Where the list continues.
    pub cursor: Option<Cursor>,
    /// How many at most.
    pub limit: usize,
    /// After how many bytes of payloads the page ends.
    pub max_bytes: usize,
}

/// A page of what is shown of a list; it ends early when its payloads reach a number of bytes.
///
/// # Errors
/// When the ledger cannot be read, or the page is beyond its bounds.
pub fn bounded_page(
    ledger: &Ledger,
    tenant: &TenantId,
    query: &PageQuery,
    shows: impl Fn(&StoredEntry) -> bool,
) -> Result<EntryPage, LedgerError> {
    let PageQuery { filter, order, cursor, limit, max_bytes } = query.clone();
    let mut page = EntryPage { entries: Vec::new(), next: cursor };
    let (mut bytes, mut count) = (0usize, limit.min(FIRST_READ));
    loop {
        let part = ledger.list(tenant, &filter, order, page.next, count)?;
        bytes += part.entries.iter().map(|entry| entry.content.payload.len()).sum::<usize>();
        // A filter without an index scans a bounded part of the log for each read.
        let is_scanning = part.entries.is_empty();
        page.entries.extend(part.entries.into_iter().filter(&shows));
        page.next = part.next;
        let left = limit - page.entries.len().min(limit);
        if left == 0 || bytes >= max_bytes || page.next.is_none() || is_scanning {
            return Ok(page);
        }
        let mean = bytes / page.entries.len().max(1) + 1;
        count = ((max_bytes - bytes) / mean).clamp(1, left);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    /// A page of a list, newest first, as the ledger gives it.
    fn page(list: &[u64], cursor: Option<Cursor>, limit: usize) -> NewestPage<u64> {
        let before = |seq: &&u64| cursor.is_none_or(|cursor| **seq < cursor.seq().get());
        let left: Vec<u64> = list.iter().filter(before).copied().collect();
        let items: Vec<u64> = left.iter().take(limit).copied().collect();
        let next =
            items.last().filter(|_| left.len() > limit).map(|last| Cursor::after(Seq::new(*last).unwrap()));
        (items, next)
    }

    #[test]
    fn two_lists_are_one_without_gap_or_repeat() {
        let lists: [(&[u64], &[u64]); 4] =
            [(&[9, 8, 7, 2], &[6, 5, 1]), (&[], &[3, 2, 1]), (&[9, 3], &[8, 7, 6, 5, 4]), (&[], &[])];
        for (one, other) in lists {
            let mut all = [one, other].concat();
            all.sort_unstable_by(|one, other| other.cmp(one));
            for limit in 1..5 {
                let (mut found, mut cursor) = (Vec::new(), None);
                for _ in 0..20 {
                    let pages = (page(one, cursor, limit), page(other, cursor, limit));
                    let (items, next) = merged_newest(pages.0, pages.1, limit, |seq| Seq::new(*seq).unwrap());
                    assert!(items.len() <= limit);
                    found.extend(items);
                    cursor = next;
                    if cursor.is_none() {
                        break;
                    }
                }
                assert_eq!((&found, cursor), (&all, None), "{limit}");
            }
        }
    }
}
