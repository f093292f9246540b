//! Who and what stands behind a work run: the agent's program, the person who started it, those who decided about it, and what was
//! hidden. Owns the shape of these facts, which a statement signs (`attestation`); all of them are as this machine knew them.

use crate::contract::{read_own, to_json};
use crate::digest::Blake3;
use crate::instant::Timestamp;
use crate::receipt::ProofArtifact;
use crate::scalar::{Count, LedgerId, Name, Text};
use crate::shape::{List, object, words};
use crate::violation::Violation;

object! {
    /// The agent of a run, as it was configured and as it was found on this machine.
    AgentFacts / AgentFactsParts ["attestation", "R4"] {
        /// Its name in the configuration.
        name: Name = "name",
        /// Program and arguments as configured, secrets redacted; `{prompt}` stands for the prompt.
        command: List<Box<str>> = "command",
        /// Where its program is; absent if it was not found.
        program: Option<Text> = "program",
        /// BLAKE3 of the program's file; absent if it could not be read.
        program_blake3: Option<Blake3> = "program_blake3",
        /// The version that the program reports of itself.
        version: Option<Name> = "version",
        /// The other files that the command names, such as a script.
        scripts: List<ProofArtifact> = "scripts",
        /// The models that it reported to have used, in the order of their first use.
        models: Option<List<Name>> = "models",
    }
}

object! {
    /// An account of an operating system.
    LocalUser / LocalUserParts ["attestation", "R4"] {
        /// Its name, or `uid:1000` if it has none.
        user: Name = "user",
        /// The machine's name.
        host: Name = "host",
        /// The fingerprint of the newest key that the account signs with, as ssh-keygen prints it.
        key: Option<Name> = "key",
    }
}

words! {
    /// What a person decided about a held change.
    VerdictWord {
        /// It may land.
        Approved = "approved",
        /// It may not.
        Rejected = "rejected",
    }
}

object! {
    /// A person's verdict on a held change.
    StatedVerdict / StatedVerdictParts ["attestation", "R4"] {
        /// What was decided.
        decision: VerdictWord = "decision",
        /// Who decided, by the name that was given.
        by: Box<str> = "by",
        /// Why.
        reason: Box<str> = "reason",
        /// When.
        at: Timestamp = "at",
        /// The account that it was entered from; absent if it was signed.
        account: Option<LocalUser> = "account",
        /// The fingerprint of the key that signed it.
        key: Option<Name> = "key",
        /// The ledger's entry of the signed verdict.
        entry: Option<LedgerId> = "entry",
    }
}

object! {
    /// What of the workspace neither the agent nor its tests could see.
    HiddenFacts / HiddenFactsParts ["attestation", "R4"] {
        /// The paths; the first of them if there are too many to list.
        paths: List<Text> = "paths",
        /// How many more there were; absent if all are listed.
        left_off: Option<Count> = "left_off",
    }
}

object! {
    /// What is known when a run starts: kept in its folder until its statement says the same.
    RunOrigin / RunOriginParts ["origin", "R4"] {
        /// The agent.
        agent: AgentFacts = "agent",
        /// Who started it.
        started_by: LocalUser = "started_by",
    }
}

impl RunOrigin {
    /// The record as JSON text.
    pub fn to_json(&self) -> String {
        to_json(self)
    }

    /// Reads a record, or reports everything that is wrong with it.
    ///
    /// # Errors
    /// With every violation.
    pub fn parse(bytes: &[u8]) -> Result<Self, Vec<Violation>> {
        read_own(bytes, usize::MAX, "origin")
    }
}
