//! Who appended an entry, as its `actor` names them. Owns the forms of that name; what they may do is for `decision::access`.

use std::fmt;

use crate::scalar::{IdentifierError, KeyId, Name};

/// Who appends. What a name proves differs: a key and a person were recognised by a credential that an admin granted; a link and an
/// account only say on which machine the user was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Actor {
    /// An API key.
    Key(KeyId),
    /// A person who signed in with a passkey.
    Person(Name),
    /// A session that a link from the terminal opened.
    Link(KeyId),
    /// An account of an operating system, `user@host`.
    Account(Name),
}

impl Actor {
    /// Reads the name of an entry; `None` if no version of this program writes it.
    pub fn of_name(name: &Name) -> Option<Actor> {
        let (kind, rest) = name.as_str().split_once(':')?;
        Some(match kind {
            "key" => Actor::Key(KeyId::parse(rest).ok()?),
            "person" => Actor::Person(Name::parse(rest).ok()?),
            "link" => Actor::Link(KeyId::parse(rest).ok()?),
            "account" => Actor::Account(Name::parse(rest).ok()?),
            _ => return None,
        })
    }

    /// The name that an entry has.
    ///
    /// # Errors
    /// When it would be longer than a name may be.
    pub fn to_name(&self) -> Result<Name, IdentifierError> {
        Name::parse(&self.to_string())
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Actor::Key(id) => write!(f, "key:{id}"),
            Actor::Person(name) => write!(f, "person:{name}"),
            Actor::Link(id) => write!(f, "link:{id}"),
            Actor::Account(name) => write!(f, "account:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_was_written() {
        for text in ["key:k1", "person:ana", "person:a:b", "link:s1", "account:ana@laptop"] {
            let name = Name::parse(text).unwrap();
            assert_eq!(Actor::of_name(&name).unwrap().to_name().unwrap(), name, "{text}");
        }
        for text in ["ana", "robot:r", "person:", "Key:k1"] {
            assert_eq!(Actor::of_name(&Name::parse(text).unwrap()), None, "{text}");
        }
    }

    #[test]
    fn a_name_that_is_too_long_is_refused() {
        let longest = Name::parse(&"n".repeat(256)).unwrap();
        assert!(Actor::Person(longest).to_name().is_err());
    }
}
