//! The operating system account that this process runs under. Its names prove nothing; they are only hints.

use crealeph_contracts::actor::Actor;
use crealeph_contracts::scalar::{IdentifierError, Literal, Name};

const UNKNOWN: Literal = Literal::new("unknown");

/// Account and machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// The account's name, or `uid:1000` if it has none.
    pub(crate) user: Name,
    /// The machine's name.
    pub(crate) host: Name,
}

impl Account {
    /// That of this process.
    pub(crate) fn of_this_process() -> Account {
        let named = |name: String| Name::parse(&name).ok();
        let user = whoami::username().ok().and_then(named);
        let user = user.or_else(|| named(format!("uid:{}", rustix::process::geteuid().as_raw())));
        let host = rustix::system::uname().nodename().to_str().ok().and_then(|name| Name::parse(name).ok());
        Account { user: user.unwrap_or_else(|| UNKNOWN.into()), host: host.unwrap_or_else(|| UNKNOWN.into()) }
    }

    /// How entries name it.
    ///
    /// # Errors
    /// When its names are too long for one.
    pub(crate) fn actor(&self) -> Result<Name, IdentifierError> {
        Actor::Account(Name::parse(&format!("{}@{}", self.user, self.host))?).to_name()
    }
}
