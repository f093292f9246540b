//! Signing with a person's own key: a key file, or ssh-agent for keys with a passphrase and hardware keys. The key stays where
//! it is; what was signed is checked before it is used.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crealeph_contracts::approval::{ProofKind, SignedPayload, SignedStatement};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::Text;
use crealeph_verify::{PersonKey, verify_signature};
use ssh_key::{HashAlg, LineEnding, PrivateKey, PublicKey, Signature, SshSig};

use crate::failure::{Failure, SigningFailure};
use crate::input::Source;

/// The largest key file that is read.
const MAX_KEY_BYTES: usize = 64 << 10;
/// The largest answer of an agent.
const MAX_ANSWER_BYTES: usize = 256 << 10;
/// The most keys of an agent that are looked at.
const MAX_IDENTITIES: u32 = 1_000;
/// How long an agent may take to list its keys; someone may have to touch a key before it signs.
const LIST_TIME: Duration = Duration::from_secs(10);
const SIGN_TIME: Duration = Duration::from_secs(120);
/// The files that are tried if no key is named.
const DEFAULT_FILES: [&str; 4] = ["id_ed25519_sk", "id_ed25519", "id_ecdsa_sk", "id_ecdsa"];

const REQUEST_IDENTITIES: u8 = 11;
const IDENTITIES_ANSWER: u8 = 12;
const SIGN_REQUEST: u8 = 13;
const SIGN_RESPONSE: u8 = 14;

/// A key that can sign.
pub(crate) struct SigningKey {
    public: PersonKey,
    place: KeyPlace,
}

enum KeyPlace {
    File(Box<PrivateKey>),
    Agent,
}

impl SigningKey {
    /// The key that a flag names, else the first that is known: of the agent's keys, then of the usual files.
    pub(crate) fn find(named: Option<&Path>, is_known: impl Fn(&str) -> bool) -> Result<Self, Failure> {
        if let Some(path) = named {
            return Self::open(path);
        }
        // A key in a file does without an agent, also without one that does not answer.
        let (held, unanswered) = match std::env::var_os("SSH_AUTH_SOCK").map(|_| agent_keys()) {
            Some(Ok(held)) => (held, None),
            Some(Err(error)) => (Vec::new(), Some(error)),
            None => (Vec::new(), None),
        };
        if let Some(public) = held.into_iter().find(|key| is_known(key.fingerprint())) {
            return Ok(SigningKey { public, place: KeyPlace::Agent });
        }
        let folder = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".ssh"));
        for name in DEFAULT_FILES {
            let Some(folder) = &folder else { break };
            let public = std::fs::read_to_string(folder.join(format!("{name}.pub"))).ok();
            let public = public.and_then(|line| PersonKey::parse(&line).ok());
            if public.is_some_and(|key| is_known(key.fingerprint())) {
                return Self::open(&folder.join(name));
            }
        }
        Err(unanswered.unwrap_or(SigningFailure::NoKey).into())
    }

    /// A private key file, or the public half of a key that the agent holds or that is next to it.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let bad = |reason: String| SigningFailure::BadKey { path: path.to_owned(), reason };
        let source = Source::new(Some(path.to_owned()));
        let text = source.text(source.read_bounded(MAX_KEY_BYTES)?)?;
        if !text.trim_start().starts_with("-----BEGIN") {
            let public = PersonKey::parse(&text).map_err(|error| bad(error.to_string()))?;
            let is_held = holds(&public);
            if matches!(is_held, Ok(true)) {
                return Ok(SigningKey { public, place: KeyPlace::Agent });
            }
            let private = path.with_extension("");
            if path.extension().is_some_and(|end| end == "pub") && private.is_file() {
                return Self::open(&private);
            }
            is_held?;
            return Err(SigningFailure::NotHeld(public.fingerprint().to_owned()).into());
        }
        let private = PrivateKey::from_openssh(&text).map_err(|error| bad(error.to_string()))?;
        let line = private.public_key().to_openssh().map_err(|error| bad(error.to_string()))?;
        let public = PersonKey::parse(&line).map_err(|error| bad(error.to_string()))?;
        if !private.is_encrypted() && !public.is_hardware() {
            return Ok(SigningKey { public, place: KeyPlace::File(Box::new(private)) });
        }
        match holds(&public)? {
            true => Ok(SigningKey { public, place: KeyPlace::Agent }),
            false => Err(SigningFailure::NeedsAgent(path.to_owned()).into()),
        }
    }

    /// Its public half.
    pub(crate) fn public(&self) -> &PersonKey {
        &self.public
    }

    /// Signs a statement, and checks that the signature holds.
    pub(crate) fn sign<T: SignedStatement>(&self, statement: &T) -> Result<SignedPayload, Failure> {
        let text = statement.to_canonical()?;
        let namespace = T::KIND.namespace();
        let unsigned = |error: ssh_key::Error| SigningFailure::Unsigned(error.to_string());
        let signature = match &self.place {
            KeyPlace::File(key) => key.sign(namespace, HashAlg::Sha512, text.as_bytes()).map_err(unsigned)?,
            KeyPlace::Agent => {
                let data =
                    SshSig::signed_data(namespace, HashAlg::Sha512, text.as_bytes()).map_err(unsigned)?;
                let key =
                    self.public.to_bytes().map_err(|error| SigningFailure::Unsigned(error.to_string()))?;
                let signature = agent_signature(&key, &data)?;
                let public = PublicKey::from_bytes(&key).map_err(unsigned)?;
                SshSig::new(public.key_data().clone(), namespace, HashAlg::Sha512, signature)
                    .map_err(unsigned)?
            }
        };
        payload(&self.public, statement, &signature.to_pem(LineEnding::LF).map_err(unsigned)?)
    }
}

/// A statement with a signature over it that holds.
fn payload<T: SignedStatement>(
    key: &PersonKey,
    statement: &T,
    armoured: &str,
) -> Result<SignedPayload, Failure> {
    let text = statement.to_canonical()?;
    let checked = verify_signature(key, T::KIND.namespace(), text.as_bytes(), armoured);
    checked.map_err(|error| SigningFailure::Unsigned(error.to_string()))?;
    let unsigned = || SigningFailure::Unsigned("the signature is empty".to_owned());
    Ok(SignedPayload {
        statement: JsonObject::of(T::WHAT, statement)?,
        proof: ProofKind::Ssh,
        signature: Text::new(armoured).ok_or_else(unsigned)?,
        passkey: None,
    })
}

/// Whether the agent holds a key.
fn holds(key: &PersonKey) -> Result<bool, Failure> {
    if std::env::var_os("SSH_AUTH_SOCK").is_none() {
        return Ok(false);
    }
    Ok(agent_keys()?.iter().any(|held| held == key))
}

/// The keys of the agent that can sign for people.
fn agent_keys() -> Result<Vec<PersonKey>, SigningFailure> {
    listed_keys(&ask_agent(&[REQUEST_IDENTITIES], LIST_TIME)?)
}

fn listed_keys(answer: &[u8]) -> Result<Vec<PersonKey>, SigningFailure> {
    let mut rest = WireReader(answer);
    let broken = || SigningFailure::Agent("its list of keys is broken".to_owned());
    if rest.byte() != Some(IDENTITIES_ANSWER) {
        return Err(SigningFailure::Agent("it does not list its keys".to_owned()));
    }
    let count = rest.number().ok_or_else(broken)?;
    if count > MAX_IDENTITIES {
        return Err(SigningFailure::Agent(format!(
            "it lists {count} keys, and the limit is {MAX_IDENTITIES}"
        )));
    }
    let mut keys = Vec::new();
    for _ in 0..count {
        let blob = rest.string().ok_or_else(broken)?;
        let _comment = rest.string().ok_or_else(broken)?;
        keys.extend(PersonKey::from_bytes(blob).ok());
    }
    Ok(keys)
}

fn agent_signature(key: &[u8], data: &[u8]) -> Result<Signature, SigningFailure> {
    let mut request = vec![SIGN_REQUEST];
    push_string(&mut request, key);
    push_string(&mut request, data);
    request.extend(0u32.to_be_bytes());
    let answer = ask_agent(&request, SIGN_TIME)?;
    let mut rest = WireReader(&answer);
    if rest.byte() != Some(SIGN_RESPONSE) {
        return Err(SigningFailure::Agent("it refused to sign".to_owned()));
    }
    let blob = rest.string().ok_or_else(|| SigningFailure::Agent("its signature is broken".to_owned()))?;
    Signature::try_from(blob).map_err(|error| SigningFailure::Agent(error.to_string()))
}

/// Asks the agent one thing: both sides send a length and that many bytes.
fn ask_agent(request: &[u8], time: Duration) -> Result<Vec<u8>, SigningFailure> {
    let failed = |error: std::io::Error| SigningFailure::Agent(error.to_string());
    let socket = std::env::var_os("SSH_AUTH_SOCK").ok_or(SigningFailure::NoKey)?;
    let mut stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(time)).map_err(failed)?;
    stream.set_write_timeout(Some(LIST_TIME)).map_err(failed)?;
    let mut framed = Vec::new();
    push_string(&mut framed, request);
    stream.write_all(&framed).map_err(failed)?;
    let mut length = [0; 4];
    stream.read_exact(&mut length).map_err(failed)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_ANSWER_BYTES {
        return Err(SigningFailure::Agent(format!("its answer is longer than {MAX_ANSWER_BYTES} bytes")));
    }
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).map_err(failed)?;
    Ok(answer)
}

fn push_string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The agent protocol's numbers and strings, as far as they go.
struct WireReader<'a>(&'a [u8]);

impl<'a> WireReader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk::<4>()?;
        self.0 = rest;
        Some(u32::from_be_bytes(*number))
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let length = self.number()? as usize;
        let (string, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(string)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_sends_is_read_as_far_as_it_goes() {
        let mut rest = WireReader(&[1, 0, 0, 0, 2, b'a', b'b', 0, 0, 0, 9, b'c']);
        assert_eq!((rest.byte(), rest.string(), rest.string()), (Some(1), Some(&b"ab"[..]), None));
        assert_eq!(WireReader(&[0, 0, 0]).number(), None);
    }

    #[test]
    fn an_agent_with_more_keys_than_are_read_is_an_error() {
        let listed = |count: u32| {
            let empty = [0; 8].repeat(count as usize);
            listed_keys(&[&[IDENTITIES_ANSWER][..], &count.to_be_bytes(), &empty].concat())
        };
        assert_eq!(listed(MAX_IDENTITIES).unwrap(), []);
        let said = listed(MAX_IDENTITIES + 1).unwrap_err().to_string();
        assert!(said.contains("it lists 1001 keys, and the limit is 1000"), "{said}");
    }
}
