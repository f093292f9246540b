//! A server as commands use it: its answers are read into the types that a local ledger returns.

use crealeph_contracts::contract::to_json;
use crealeph_contracts::entry::Draft;
use crealeph_contracts::scalar::{TenantId, Text};
use crealeph_contracts::short_id::{IdRequest, NamedKind};
use crealeph_ledger::{Cursor, EntryRefusal, StoredEntry};
use crealeph_runtime::approvals::InboxPage;
use crealeph_runtime::client::{ClientError, ServerAnswer, ServerClient, ServerRefusal};
use crealeph_runtime::entries::{AppendedReport, FoundId, FoundIds, read_entry};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::{Failure, LedgerFailure, ServerFailure};

/// How many ids are looked up at a time.
const IDS_AT_ONCE: usize = 500;
/// How many items of a list are requested at a time.
const LIST_PAGE: usize = 500;

/// The log of the tenant that a key is for, on a server.
#[derive(Clone, Debug)]
pub(in crate::commands) struct RemoteLog {
    pub(in crate::commands) client: ServerClient,
    pub(in crate::commands) tenant: TenantId,
    pub(in crate::commands) is_json: bool,
}

/// What a server says of something that may not be there.
pub(in crate::commands) fn found(
    answer: Result<ServerAnswer, ClientError>,
) -> Result<Option<ServerAnswer>, ClientError> {
    match answer {
        Err(ClientError::Refused(why)) if why.status == 404 && why.code == "unknown_id" => Ok(None),
        answer => answer.map(Some),
    }
}

pub(super) fn text(value: Option<impl ToString>) -> Option<String> {
    value.map(|value| value.to_string())
}

/// The entries that were appended, and why the next one was not.
pub(in crate::commands) type AppendedStart = (Vec<AppendedReport>, Option<RefusedDraft>);

/// Why an entry was not appended.
pub(in crate::commands) enum RefusedDraft {
    Here(Box<EntryRefusal>),
    Server(Box<ServerRefusal>),
}

impl RefusedDraft {
    /// The failure of a line, before which everything is written.
    pub(in crate::commands) fn of_line(self, name: String) -> Failure {
        match self {
            RefusedDraft::Here(refusal) => LedgerFailure::Refused { name, refusal }.into(),
            RefusedDraft::Server(why) => ServerFailure::Line { name, why }.into(),
        }
    }
}

#[derive(Deserialize)]
struct AppendedList {
    appended: Vec<AppendedReport>,
}

/// The people of a tenant, and what statements about them are bound to.
pub(in crate::commands) struct RemotePeople {
    /// The name of the log.
    pub(in crate::commands) log_origin: Option<String>,
    /// The key of the first admin, if there ever was one.
    pub(in crate::commands) root: Option<String>,
    /// Each as its document.
    pub(in crate::commands) people: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PersonPage {
    tenant_id: String,
    log_origin: Option<String>,
    root: Option<String>,
    people: Vec<Value>,
    next: Option<String>,
}

impl RemoteLog {
    /// Appends entries. If a server refuses a batch, it does not say which entry was refused, and has written none: then one by one.
    pub(super) fn append(&self, drafts: &[Draft]) -> Result<AppendedStart, Failure> {
        if drafts.is_empty() {
            return Ok((Vec::new(), None));
        }
        let send = |drafts: &[Draft]| -> Result<Vec<AppendedReport>, ClientError> {
            let lines: Vec<String> = drafts.iter().map(to_json).collect();
            let body = format!("[{}]", lines.join(","));
            Ok(self.client.post(&["entries"], &[], body.as_bytes())?.read::<AppendedList>()?.appended)
        };
        let is_about_it = |why: &ServerRefusal| matches!(why.status, 400 | 409 | 413 | 422);
        match send(drafts) {
            Err(ClientError::Refused(why)) if is_about_it(&why) => {}
            sent => return Ok((sent?, None)),
        }
        let mut appended = Vec::new();
        for draft in drafts {
            match send(std::slice::from_ref(draft)) {
                Err(ClientError::Refused(why)) if is_about_it(&why) => {
                    return Ok((appended, Some(RefusedDraft::Server(why))));
                }
                sent => appended.extend(sent?),
            }
        }
        Ok((appended, None))
    }

    /// What words stand for, and their short forms. What is empty names nothing.
    pub(in crate::commands) fn find_ids(
        &self,
        kind: NamedKind,
        words: &[&str],
    ) -> Result<Vec<FoundId>, Failure> {
        let words: Vec<Text> = words.iter().filter_map(|word| Text::new(word)).collect();
        let mut all = Vec::new();
        for words in words.chunks(IDS_AT_ONCE) {
            let request = IdRequest { kind, words: words.iter().cloned().collect() };
            let answer = self.client.ask(&["ids"], &[], to_json(&request).as_bytes())?;
            let FoundIds { ids } = answer.read()?;
            // A server could answer with what no one asked for.
            let is_start = |found: &FoundId| found.id.as_ref().is_none_or(|id| id.starts_with(&found.word));
            let is_asked = ids.iter().map(|found| found.word.as_str()).eq(words.iter().map(Text::as_str));
            if !is_asked || !ids.iter().all(is_start) {
                return Err(answer.refuse("it found other ids than were asked for").into());
            }
            all.extend(ids);
        }
        Ok(all)
    }

    /// A page of what awaits approval.
    pub(in crate::commands) fn inbox(
        &self,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<InboxPage, Failure> {
        let query = [("limit", Some(limit.to_string())), ("cursor", text(cursor))];
        let answer = self.client.get(&["inbox"], &query)?;
        let page: InboxPage = answer.read()?;
        // Pages that do not advance would have no end.
        match page.next.as_deref().map(Cursor::parse).transpose()?.zip(cursor) {
            Some((next, from)) if next.seq() >= from.seq() => {
                Err(answer.refuse("its list does not advance").into())
            }
            _ => Ok(page),
        }
    }

    pub(super) fn entry(&self, name: &str) -> Result<Option<StoredEntry>, Failure> {
        let answer = found(self.client.get(&["entries", name], &[]))?;
        Ok(answer.map(|answer| answer.read_with(read_entry)).transpose()?)
    }

    /// The people that a tenant has enrolled.
    pub(in crate::commands) fn people(&self) -> Result<RemotePeople, Failure> {
        let (mut people, mut after) = (Vec::new(), None);
        loop {
            let page: PersonPage = self.client.get(&["people"], &[("after", after.clone())])?.read()?;
            if page.tenant_id != self.tenant.as_str() {
                return Err(ServerFailure::NotShown { what: "the tenant: its people are another's" }.into());
            }
            people.extend(page.people);
            // People come by name; a list that does not advance would have no end.
            if page.next.is_none() || page.next <= after {
                return Ok(RemotePeople { log_origin: page.log_origin, root: page.root, people });
            }
            after = page.next;
        }
    }

    /// A page of a list that goes by cursors, under the name that its items have there; it is as long as asked for, unless the list ends.
    pub(in crate::commands) fn page<T: DeserializeOwned>(
        &self,
        (path, name): (&[&str], &str),
        query: &[(&str, Option<String>)],
        mut cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<(Vec<T>, Option<Cursor>), Failure> {
        let mut items: Vec<T> = Vec::new();
        while items.len() < limit {
            let count = (limit - items.len()).min(LIST_PAGE);
            let place = [("limit", Some(count.to_string())), ("cursor", text(cursor))];
            let answer = self.client.get(path, &[query, &place[..]].concat())?;
            let mut page: Value = answer.read()?;
            let listed = page.get_mut(name).map(Value::take).unwrap_or_default();
            let listed: Vec<T> =
                serde_json::from_value(listed).map_err(|error| answer.refuse(&error.to_string()))?;
            let next = page.get("next").and_then(Value::as_str).map(Cursor::parse).transpose()?;
            // Pages that neither have anything nor move would have no end.
            if listed.len() > count || (next.is_some() && next == cursor) {
                return Err(answer.refuse("its list does not advance").into());
            }
            items.extend(listed);
            cursor = next;
            if cursor.is_none() {
                break;
            }
        }
        Ok((items, cursor))
    }
}
