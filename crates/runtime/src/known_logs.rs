//! The logs that servers showed this user before something was signed for them, kept in the user's own state: one file for each server and
//! tenant. A server that names another log later gets no signature: a statement for one log could be used in another.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crealeph_contracts::digest::Blake3;
use crealeph_contracts::scalar::{Name, TenantId};
use crealeph_contracts::text::Shown;
use crealeph_workspace::{OwnershipError, make_private_folder, replace_private_file};
use serde::{Deserialize, Serialize};

const FOLDER: &str = "servers";
/// The largest file that is read.
const MAX_BYTES: u64 = 64 << 10;

/// Why nothing is signed for a log.
#[derive(Debug, thiserror::Error)]
pub enum KnownLogError {
    /// The folder is not this user's alone, or cannot be written.
    #[error(transparent)]
    Ownership(#[from] OwnershipError),
    /// A file cannot be read.
    #[error("cannot read `{}`", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The server named another log before.
    #[error(
        "`{url}` asks for a signature for the log {}, but tenant `{tenant}` had the log {} there before",
        Shown::line(.shown), Shown::line(.known)
    )]
    OtherLog {
        /// The server.
        url: String,
        /// The tenant.
        tenant: String,
        /// The log that it named first.
        known: String,
        /// The log that it names now.
        shown: String,
        /// Where that is kept.
        path: PathBuf,
    },
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct KnownLog {
    url: String,
    tenant_id: String,
    log_origin: String,
}

/// Checks that a server names the log that it named before, and keeps the first that it names.
///
/// # Errors
/// When it names another one, or the user's state cannot be used.
pub fn check_known_log(
    user_state: &Path,
    url: &str,
    tenant: &TenantId,
    origin: &Name,
) -> Result<(), KnownLogError> {
    make_private_folder(user_state)?;
    let folder = user_state.join(FOLDER);
    make_private_folder(&folder)?;
    let path = folder.join(format!("{}.json", Blake3::of(format!("{url}\n{tenant}").as_bytes())));
    let unreadable = |source| KnownLogError::Unreadable { path: path.clone(), source };
    let own = KnownLog {
        url: url.to_owned(),
        tenant_id: tenant.to_string(),
        log_origin: origin.as_str().to_owned(),
    };
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = serde_json::to_vec(&own).map_err(|error| unreadable(error.into()))?;
            return Ok(replace_private_file(&path, &text)?);
        }
        Err(error) => return Err(unreadable(error)),
        Ok(metadata) if !metadata.is_file() || metadata.len() > MAX_BYTES => {
            return Err(unreadable(io::Error::new(
                io::ErrorKind::InvalidData,
                "not a file that is written here",
            )));
        }
        Ok(_) => {}
    }
    let known: KnownLog = serde_json::from_slice(&fs::read(&path).map_err(unreadable)?)
        .map_err(|error| unreadable(error.into()))?;
    match known.log_origin == own.log_origin {
        true => Ok(()),
        false => Err(KnownLogError::OtherLog {
            url: own.url,
            tenant: own.tenant_id,
            known: known.log_origin,
            shown: own.log_origin,
            path,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_log_of_a_server_and_tenant_stays() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("state");
        let check = |url: &str, tenant: &str, origin: &str| {
            check_known_log(&state, url, &TenantId::parse(tenant).unwrap(), &Name::parse(origin).unwrap())
        };
        check("https://h", "t", "log-1").unwrap();
        check("https://h", "t", "log-1").unwrap();
        check("https://h", "u", "log-2").unwrap();
        check("https://i", "t", "log-3").unwrap();
        let said = check("https://h", "t", "log-2").unwrap_err().to_string();
        assert!(said.contains("log-1") && said.contains("log-2"), "{said}");
        fs::write(fs::read_dir(state.join(FOLDER)).unwrap().next().unwrap().unwrap().path(), "{").unwrap();
        let answers = [("https://h", "t", "log-1"), ("https://h", "u", "log-2"), ("https://i", "t", "log-3")];
        let refused = answers.iter().filter(|(url, tenant, origin)| check(url, tenant, origin).is_err());
        assert_eq!(refused.count(), 1, "what cannot be read is not replaced");
    }
}
