//! Where a run comes from, for its statement: the agent's program with its digest and version, and the account that started it. Owns
//! finding these out. What cannot be found is left out; only secrets that cannot be redacted from what the agent's program prints keep
//! a run from starting.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use crealeph_contracts::digest::{Blake3, Sha256};
use crealeph_contracts::provenance::{AgentFacts, LocalUser};
use crealeph_contracts::receipt::ProofArtifact;
use crealeph_contracts::scalar::{Literal, Name, Text};
use crealeph_sandbox::{Cancel, ResourceLimits, Sandbox, SandboxError};

use super::config::{Granted, WorkAgent};
use super::confine::{PROMPT, agent_spec};
use super::receipt::Signer;
use super::secrets::{GrantedSecrets, RunSecrets};
use crate::account::Account;
use crate::configuration::absolute;

/// The largest program whose digest is taken.
const MAX_PROGRAM_BYTES: u64 = 1 << 30;
/// How many other files of a command are listed.
const MAX_SCRIPTS: usize = 64;
/// How long a program may take to say its version.
const VERSION_MS: u64 = 10_000;
const VERSION_BYTES: u64 = 4 << 10;
const UNKNOWN: Literal = Literal::new("unknown");
const SSH_KEY_TYPE: &[u8] = b"ssh-ed25519";

/// The account that this process runs under, and the key it signs with.
pub(super) fn local_user(signer: &Signer) -> LocalUser {
    let Account { user, host } = Account::of_this_process();
    LocalUser { user, host, key: signer.verifier_keys().last().and_then(|key| fingerprint(key)) }
}

/// The fingerprint of a public key, as ssh-keygen prints it: `SHA256:` and the digest of the key in SSH's wire format.
fn fingerprint(verifier_key: &str) -> Option<Name> {
    let typed = STANDARD.decode(verifier_key.splitn(3, '+').nth(2)?).ok()?;
    let key = typed.get(1..)?;
    let mut wire = Vec::new();
    for part in [SSH_KEY_TYPE, key] {
        wire.extend_from_slice(&u32::try_from(part.len()).ok()?.to_be_bytes());
        wire.extend_from_slice(part);
    }
    let digest = STANDARD_NO_PAD.encode(Sha256::of(&wire).as_bytes());
    Name::parse(&format!("SHA256:{digest}")).ok()
}

/// The agent as it is configured, and as it is found on this machine. Its program is asked for its version inside the sandbox,
/// without network and without any secret, if the configuration says how.
pub(super) fn agent_facts(
    agent: &WorkAgent,
    sandbox: &Sandbox,
    workspace: &Path,
) -> Result<AgentFacts, SandboxError> {
    let secrets = RunSecrets::read(agent)?;
    let program = agent.program().and_then(|path| path.canonicalize().ok());
    let scripts = agent.command.iter().skip(1).filter(|word| !word.is_empty() && !word.contains(PROMPT));
    let scripts = scripts.filter_map(|word| {
        let path = absolute(&agent.folder, word);
        Some(ProofArtifact { hash: digest(&path)?, path: Text::new(&path.to_string_lossy())? })
    });
    Ok(AgentFacts {
        name: Name::parse(&agent.name).unwrap_or_else(|_| UNKNOWN.into()),
        command: agent.command.iter().map(|word| secrets.redacted(word).into()).collect(),
        program_blake3: program.as_deref().and_then(digest),
        version: program.as_deref().and_then(|_| version(agent, sandbox, workspace)),
        program: program.and_then(|path| Text::new(&path.to_string_lossy())),
        scripts: scripts.take(MAX_SCRIPTS).collect(),
        models: None,
    })
}

/// The digest of a file that is one.
fn digest(path: &Path) -> Option<Blake3> {
    // Opening a pipe would wait for someone to write to it.
    let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
    if metadata.len() > MAX_PROGRAM_BYTES {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(File::open(path).ok()?.take(MAX_PROGRAM_BYTES)).ok()?;
    Some(Blake3::from_bytes(*hasher.finalize().as_bytes()))
}

/// What the program says of its version: the first line that it prints.
pub(super) fn version(agent: &WorkAgent, sandbox: &Sandbox, workspace: &Path) -> Option<Name> {
    let program = agent.command.first().filter(|_| !agent.version.is_empty())?;
    let is_inside = agent.program().is_none_or(|path| path.starts_with(workspace));
    if is_inside {
        // What is in the workspace is only there in a view of it.
        return None;
    }
    let granted = Granted {
        presets: agent.granted.presets.clone(),
        read: agent.granted.read.clone(),
        env: agent.granted.env.clone(),
        ..Granted::default()
    };
    let mut asked = agent.clone();
    asked.command = vec![program.clone()];
    asked.granted = granted;
    let mut spec = agent_spec(&asked, &GrantedSecrets::default(), "", workspace).ok()?;
    // Not as part of the command: there a word that names a file makes it readable.
    spec.command.extend(agent.version.iter().map(Into::into));
    spec.cwd = None;
    spec.limits =
        ResourceLimits { wall_ms: VERSION_MS, stdout_bytes: VERSION_BYTES, ..ResourceLimits::default() };
    let outcome = sandbox.run(&spec, &Cancel::new().ok()?).ok().filter(|outcome| outcome.succeeded())?;
    let text = outcome.stdout.text();
    text.lines().map(str::trim).find(|line| !line.is_empty()).and_then(|line| Name::parse(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_the_one_that_ssh_keygen_prints() {
        // `ssh-keygen -lf` of `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI` and 32 bytes of 1.
        let key = format!("workspace+00000000+{}", STANDARD.encode([[1].as_slice(), &[1; 32]].concat()));
        assert_eq!(fingerprint(&key).unwrap().as_str(), "SHA256:RXm/ruZ0eTzRXKwi1AQEDynB0VgHQ2ac9KPSFdf/YnA");
        assert_eq!(fingerprint("no key"), None);
    }

    #[test]
    fn only_a_file_has_a_digest() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "content").unwrap();
        assert_eq!(digest(&file), Some(Blake3::of(b"content")));
        assert_eq!(digest(folder.path()), None);
        assert_eq!(digest(Path::new("/dev/zero")), None);
    }
}
