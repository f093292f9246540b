//! People with SSH keys of their own, the rules that they signed, and their verdicts, as the program writes them: the same statements,
//! signatures and entries, but many to a commit. What was written is judged at the end as an outsider would.

use crealeph_bench::Outcome;
use crealeph_contracts::approval::{
    APPROVALS, ApprovalDecision, ApprovalRule, LANDING, LandingRecord, ProofKind, SignedKind, SignedPayload,
    SignedStatement, SubjectKind, TENANT_ROBOT, VerdictStatement, VerdictType, landing_key, nonce_key,
};
use crealeph_contracts::digest::Blake3;
use crealeph_contracts::entry::{Draft, Lineage};
use crealeph_contracts::json::JsonObject;
use crealeph_contracts::scalar::{ClientKey, Count, LedgerId, Literal, Name, RobotId, TenantId, Text};
use crealeph_contracts::shape::Set;
use crealeph_contracts::uuid::Uuid;
use crealeph_decision::builder::review::planned;
use crealeph_ledger::{Ledger, NewId, StoredEntry};
use crealeph_runtime::approvals::{ApprovalHistory, enrolment, first_enrolment, record, rule_statement};
use crealeph_verify::PersonKey;
use ssh_key::private::Ed25519Keypair;
use ssh_key::{HashAlg, LineEnding, PrivateKey};

const NAMES: [&str; 6] = ["ada", "ben", "cleo", "dan", "eve", "finn"];
const REVIEWERS: &str = "reviewers";
/// Of so many drafts one is rejected.
const REJECTED_EVERY: usize = 6;

struct Person {
    name: Name,
    key: PrivateKey,
    public: PersonKey,
}

/// The people of a tenant, and the rule for drafts.
pub(crate) struct People {
    people: Vec<Person>,
    rule: ApprovalRule,
    verdicts: u64,
}

impl People {
    /// Enrols everybody and sets the rule.
    pub(crate) fn enrol(ledger: &Ledger, tenant: &TenantId) -> Outcome<People> {
        let mut people = Vec::new();
        for (number, name) in (1_u8..).zip(NAMES) {
            let key = PrivateKey::from(Ed25519Keypair::from_seed(&[number; 32]));
            let public = PersonKey::parse(&key.public_key().to_openssh()?)?;
            people.push(Person { name: Name::parse(name)?, key, public });
        }
        let admin = people.first().ok_or("nobody")?;
        for person in &people {
            let history = ApprovalHistory::load_or_start(ledger, tenant)?;
            let groups = vec![Name::parse(REVIEWERS)?];
            let place = history.statement_place()?;
            let statement = match history.judge.root() {
                None => first_enrolment(place, None, person.name.clone(), &person.public, groups)?,
                Some(_) => {
                    let signer = history.admin(admin.public.fingerprint())?;
                    enrolment(place, person.name.clone(), &person.public, groups, signer)?
                }
            };
            record(ledger, tenant, SignedKind::Enrolment, &admin.sign(&statement)?)?;
        }
        let rule = ApprovalRule {
            name: Name::parse("drafts")?,
            group: Some(Name::parse(REVIEWERS)?),
            ..ApprovalRule::built_in(SubjectKind::Draft)
        };
        let history = ApprovalHistory::load_or_start(ledger, tenant)?;
        let signer = history.admin(admin.public.fingerprint())?;
        let statement = rule_statement(history.statement_place()?, vec![rule.clone()], signer)?;
        record(ledger, tenant, SignedKind::Rules, &admin.sign(&statement)?)?;
        Ok(People { people, rule, verdicts: 0 })
    }

    /// Decides about drafts: most land, some are rejected.
    pub(crate) fn decide(
        &mut self,
        ledger: &Ledger,
        tenant: &TenantId,
        drafts: &[StoredEntry],
    ) -> Outcome<()> {
        let place = ledger.view(tenant, |view| Ok(view.place()))?.ok_or("no log")?;
        let mut verdicts: Vec<(Option<NewId>, Draft)> = Vec::new();
        let mut approved = Vec::new();
        for (number, draft) in drafts.iter().enumerate() {
            let decision = match number % REJECTED_EVERY {
                0 => ApprovalDecision::Reject,
                _ => ApprovalDecision::Approve,
            };
            self.verdicts += 1;
            let person = self.people.get(self.verdicts as usize % self.people.len()).ok_or("nobody")?;
            let mut nonce = [0; 16];
            nonce[..8].copy_from_slice(&self.verdicts.to_be_bytes());
            let nonce = Uuid::from_bytes(nonce);
            let statement = VerdictStatement {
                kind: VerdictType::Verdict,
                tenant_id: tenant.clone(),
                log_origin: Name::parse(&place.origin)?,
                subject_kind: SubjectKind::Draft,
                subject_id: draft.id.clone(),
                subject_digest: Blake3::of(draft.canonical().as_bytes()),
                target: Name::parse("ledger")?,
                decision,
                reason: Text::new("read and compared with the evidence"),
                person: person.name.clone(),
                key_id: Name::parse(person.public.fingerprint())?,
                rule_digest: self.rule.digest()?,
                evidence_seq: Count::new(place.seq.get()).ok_or("too many entries")?,
                evidence_root: place.root,
                base_state: None,
                nonce,
                time: place.now.timestamp(),
                expires: None,
                unattended: false,
            };
            let payload = JsonObject::of("the signed statement", &person.sign(&statement)?)?;
            let (is_approved, state) = match decision {
                ApprovalDecision::Approve => (true, Literal::new("approve")),
                ApprovalDecision::Reject => (false, Literal::new("reject")),
            };
            let entry = entry(
                SignedKind::Verdict.entry_type(),
                state,
                payload,
                vec![draft.id.clone()],
                &nonce_key(&nonce),
            )?;
            let id = ledger.new_id()?;
            if is_approved {
                approved.push((draft, id.as_id().clone()));
            }
            verdicts.push((Some(id), entry));
        }
        ledger.append_as(tenant, verdicts)?;
        let last = ledger.last_seq(tenant)?;
        let mut landings = Vec::new();
        for (draft, verdict) in approved {
            let because = vec![draft.id.clone(), verdict.clone()];
            let landing = LandingRecord {
                subject_kind: SubjectKind::Draft,
                subject_id: draft.id.clone(),
                subject_digest: Blake3::of(draft.canonical().as_bytes()),
                number: Count::new(1).ok_or("no number")?,
                verdicts: Set::new(vec![verdict]).ok_or("no verdict")?,
                rule_digest: self.rule.digest()?,
                checked_seq: Count::new(last.get() + landings.len() as u64).ok_or("too many entries")?,
            };
            let payload = JsonObject::of("the landing", &landing)?;
            let key = landing_key(&draft.id, 1);
            landings.push((None, entry(LANDING, Literal::new("landed"), payload, because.clone(), &key)?));
            landings.push((None, planned(&draft.to_entry(), because)?));
        }
        ledger.append_at(tenant, last, landings)?;
        Ok(())
    }

    /// Judges everything that was written, as an outsider would.
    pub(crate) fn check(&self, ledger: &Ledger, tenant: &TenantId) -> Outcome<()> {
        let history = ApprovalHistory::load(ledger, tenant)?.ok_or("no log")?;
        match history.judge.verdicts() as u64 == self.verdicts {
            true => Ok(()),
            false => Err(format!("{} of {} verdicts hold", history.judge.verdicts(), self.verdicts).into()),
        }
    }
}

impl Person {
    fn sign<T: SignedStatement>(&self, statement: &T) -> Outcome<SignedPayload> {
        let text = statement.to_canonical()?;
        let signature = self.key.sign(T::KIND.namespace(), HashAlg::Sha512, text.as_bytes())?;
        Ok(SignedPayload {
            statement: JsonObject::of(T::WHAT, statement)?,
            proof: ProofKind::Ssh,
            signature: Text::new(&signature.to_pem(LineEnding::LF)?).ok_or("no signature")?,
            passkey: None,
        })
    }
}

fn entry(kind: Literal, state: Literal, payload: JsonObject, on: Vec<LedgerId>, key: &str) -> Outcome<Draft> {
    Ok(Draft {
        robot_id: RobotId::from(TENANT_ROBOT),
        module: Name::from(APPROVALS),
        source: Name::parse("person")?,
        kind: Name::from(kind),
        state: Name::from(state),
        payload,
        lineage: Some(Lineage { depends_on: Set::new(on), execution_id: None, rerun_of: None }),
        observed_at: None,
        key: Some(ClientKey::parse(key)?),
    })
}
