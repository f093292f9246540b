//! The cached history answers as if everything were judged again, and only for the log that it was computed from.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::path::Path;

use crealeph_contracts::approval::{
    ApprovalRule, LandingEnd, ProofKind, SignedKind, SignedPayload, SignedStatement,
};
use crealeph_contracts::entry::Draft;
use crealeph_contracts::held_change::HeldChangeRecord;
use crealeph_contracts::json::{JsonObject, Limits};
use crealeph_contracts::scalar::{Name, Text};
use crealeph_decision::approval::{SubjectOutcome, Uncounted, derive};
use crealeph_ledger::{Filter, LedgerOptions, Location, Order};
use crealeph_verify::PersonKey;
use ssh_key::private::Ed25519Keypair;
use ssh_key::{HashAlg, LineEnding, PrivateKey};

use super::*;
use crate::agents::load;
use crate::approvals::{
    ChangeLanding, RejectedSubjects, SubjectCase, SubjectReader, append_outcome, enrolment, first_enrolment,
    held_change_draft, inbox, record, revocation, rule_statement, verdict_statement,
};
use crate::builder::{Builder, Scopes, Settings};
use crate::configuration::Configuration;
use crate::review::count_waiting;

struct Person {
    name: &'static str,
    key: PrivateKey,
    public: PersonKey,
}

fn person(name: &'static str, seed: u8) -> Person {
    let key = PrivateKey::from(Ed25519Keypair::from_seed(&[seed; 32]));
    let public = PersonKey::parse(&key.public_key().to_openssh().unwrap()).unwrap();
    Person { name, key, public }
}

impl Person {
    fn sign<T: SignedStatement>(&self, statement: &T) -> SignedPayload {
        let text = statement.to_canonical().unwrap();
        let signature = self.key.sign(T::KIND.namespace(), HashAlg::Sha512, text.as_bytes()).unwrap();
        SignedPayload {
            statement: JsonObject::of(T::WHAT, statement).unwrap(),
            proof: ProofKind::Ssh,
            signature: Text::new(&signature.to_pem(LineEnding::LF).unwrap()).unwrap(),
            passkey: None,
        }
    }
}

fn tenant() -> TenantId {
    TenantId::parse("t").unwrap()
}

fn run(number: usize) -> LedgerId {
    LedgerId::parse(&format!("00000000-0000-4000-8000-{number:012}")).unwrap()
}

/// A ledger file, what is done to it, and a handle that stays.
struct World {
    folder: tempfile::TempDir,
    ledger: Ledger,
    scopes: Scopes,
}

const SUBJECTS: usize = 5;

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let ledger = Ledger::init(&place(folder.path()), LedgerOptions::default()).unwrap();
        World { folder, ledger, scopes: Scopes::from(Settings::default()) }
    }

    /// The same ledger as another process has it, which has judged nothing yet.
    fn other(&self) -> Ledger {
        Ledger::open(&place(self.folder.path()), LedgerOptions::default()).unwrap()
    }

    fn reader<'r>(&'r self, ledger: &'r Ledger, tenant: &'r TenantId) -> SubjectReader<'r> {
        SubjectReader { ledger, tenant, scopes: &self.scopes }
    }

    fn enrol(&self, who: &Person, by: &Person) {
        let other = self.other();
        let history = ApprovalHistory::load_or_start(&other, &tenant()).unwrap();
        let groups = vec![Name::parse("reviewers").unwrap()];
        let name = Name::parse(who.name).unwrap();
        let place = history.statement_place().unwrap();
        let statement = match history.judge.had_people() {
            false => first_enrolment(place, history.judge.root(), name, &who.public, groups).unwrap(),
            true => {
                let signer = history.admin(by.public.fingerprint()).unwrap();
                enrolment(place, name, &who.public, groups, signer).unwrap()
            }
        };
        record(&other, &tenant(), SignedKind::Enrolment, &by.sign(&statement)).unwrap();
    }

    fn rule(&self, name: &str, by: &Person) {
        let other = self.other();
        let history = ApprovalHistory::load(&other, &tenant()).unwrap().unwrap();
        let rule = ApprovalRule {
            name: Name::parse(name).unwrap(),
            group: Some(Name::parse("reviewers").unwrap()),
            ..ApprovalRule::built_in(SubjectKind::Change)
        };
        let signer = history.admin(by.public.fingerprint()).unwrap();
        let statement = rule_statement(history.statement_place().unwrap(), vec![rule], signer).unwrap();
        record(&other, &tenant(), SignedKind::Rules, &by.sign(&statement)).unwrap();
    }

    fn revoke(&self, who: &Person, by: &Person) {
        let other = self.other();
        let history = ApprovalHistory::load(&other, &tenant()).unwrap().unwrap();
        let signer = history.admin(by.public.fingerprint()).unwrap();
        let name = Name::parse(who.name).unwrap();
        let statement = revocation(history.statement_place().unwrap(), name, None, None, signer).unwrap();
        record(&other, &tenant(), SignedKind::Revocation, &by.sign(&statement)).unwrap();
    }

    fn hold(&self, number: usize) {
        let (digest, run) = ("0".repeat(64), run(number));
        let text = format!(
            r#"{{"run":"{run}","item":"i","task":"t","agent":"a","workspace":"w","target":"workspace","since":"2026-11-18T06:00:00.000Z","baseState":"{digest}","afterState":"{digest}","files":1,"paths":[],"protected":false,"tests":false,"diffDigest":"{digest}"}}"#
        );
        let change = HeldChangeRecord::parse(text.as_bytes()).unwrap();
        let draft = held_change_draft(&change, Vec::new()).unwrap();
        self.other().append_as(&tenant(), vec![(None, draft)]).unwrap();
    }

    /// Six drafts of the Builder for robot `r`, oldest first.
    fn drafted(&self) -> Vec<LedgerId> {
        let configuration = self.folder.path().join("crealeph.toml");
        std::fs::write(&configuration, "[agents.'example@1']\nkind = 'example'\n").unwrap();
        let agents = load(&Configuration::find(Some(&configuration)).unwrap(), self.folder.path()).unwrap();
        let builder = Builder::new(self.ledger.clone(), agents, Settings::default());
        let mut before = String::new();
        for kind in ["signal", "fusion", "idea"] {
            let text = format!(
                r#"{{"robotId":"r","module":"m","source":"s","type":"{kind}","state":"final","payload":{{"text":"words"}},"lineage":{{"dependsOnLedgerIds":[{before}]}}}}"#
            );
            let draft = Draft::parse(text.as_bytes(), &Limits::default()).unwrap();
            before = format!("\"{}\"", self.ledger.append(&tenant(), vec![draft]).unwrap()[0].id);
        }
        let request = r#"{"robotId":"r","objective_type":"landing_plan","objective_payload":{"page":"spring sale"},"constraints":{"language":"en"},"coherence_policy":{"on_stale":"block","on_partial":"draft_only"},"dryRun":true,"workflowVersion":"1","agentVersion":"example@1","attempt":1}"#;
        for _ in 0..2 {
            let cancel = crealeph_sandbox::Cancel::new().unwrap();
            let answer = builder.run(&tenant(), request.as_bytes(), None, &cancel).unwrap();
            assert!(answer.response.ok, "{}", answer.detail);
        }
        let drafts = Filter { state: Some(Name::parse("draft").unwrap()), ..Filter::default() };
        let page = self.ledger.list(&tenant(), &drafts, Order::OldestFirst, None, 10).unwrap();
        assert_eq!(page.entries.len(), 6, "{page:?}");
        page.entries.into_iter().map(|entry| entry.id).collect()
    }

    fn decide(&self, ledger: &Ledger, number: usize, who: &Person, decision: ApprovalDecision) {
        let tenant = tenant();
        let reader = self.reader(ledger, &tenant);
        let case = reader.read(&run(number)).unwrap();
        let signer = case.history.signer(who.public.fingerprint()).unwrap();
        let statement = verdict_statement(&case, signer, decision, None, false).unwrap();
        reader.record_verdict(&who.sign(&statement)).unwrap();
    }

    fn land(&self, number: usize, landing: u64, end: LandingEnd) {
        let case = self.case(&self.ledger, number);
        let SubjectOutcome::Approved { verdicts } = case.state.outcome else {
            panic!("{number} is not approved")
        };
        let (run, digest) = (run(number), case.subject.digest);
        let about = ChangeLanding { run: run.clone(), digest, number: landing, verdicts };
        about.append(&self.ledger, &tenant()).unwrap();
        append_outcome(&self.other(), &tenant(), &run, landing, end).unwrap();
    }

    fn case(&self, ledger: &Ledger, number: usize) -> SubjectCase {
        self.reader(ledger, &tenant()).read(&run(number)).unwrap()
    }

    /// The handle that stays and one that starts answer alike, and as all entries say that are judged one after the other.
    fn compare(&self, subjects: usize) {
        let other = self.other();
        assert_eq!(answers(self, &self.ledger, subjects), answers(self, &other, subjects));
        let (judge, log) = plainly(&other);
        for number in 0..subjects {
            let case = self.case(&self.ledger, number);
            let now = case.history.place.now.instant();
            assert_eq!(derive(&log, &case.subject, now).unwrap(), case.state, "subject {number}");
            assert_eq!(format!("{judge:?}"), format!("{:?}", case.history.judge));
        }
    }
}

fn place(folder: &Path) -> Location {
    Location::File(folder.join("ledger.db"))
}

/// All that is answered about approvals.
fn answers(world: &World, ledger: &Ledger, subjects: usize) -> Vec<String> {
    let tenant = tenant();
    let reader = world.reader(ledger, &tenant);
    let (items, next) = inbox(reader, None, None, 50).unwrap();
    let items = items.iter().map(|item| format!("{:?} {:?}", item.subject, item.state));
    let rejected = RejectedSubjects::read(ledger, &tenant).unwrap();
    let rejected: Vec<_> = (0..subjects).filter(|number| rejected.contains(&run(*number))).collect();
    let cases = (0..subjects).map(|number| {
        let case = world.case(ledger, number);
        let then = reader.read_at_landing(&case).unwrap().map(|then| (then.subject, then.state));
        format!("{:?} {:?} {then:?}", case.subject, case.state)
    });
    items.chain(cases).chain([format!("{next:?} {rejected:?}")]).collect()
}

/// Every entry, judged one after the other from the first.
fn plainly(ledger: &Ledger) -> (ApprovalLog, Vec<LoggedApproval>) {
    let read = |view: &mut LogView<'_>| Ok((approval_entries(view, Seq::ZERO)?, view.place()));
    let (entries, place) = ledger.view(&tenant(), read).unwrap().unwrap();
    let mut judge = ApprovalLog::new(&place.origin, &tenant());
    let log = entries.iter().filter_map(|entry| judge_next(&mut judge, entry)).collect();
    (judge, log)
}

fn part(ledger: &Ledger) -> JudgedPart {
    ApprovalHistory::load(ledger, &tenant()).unwrap().unwrap();
    ledger.kept::<KeptHistories>().get(&tenant()).unwrap()
}

/// People, rules, verdicts and landings, compared after every step.
#[test]
fn what_is_kept_answers_as_if_everything_were_judged_again() {
    use ApprovalDecision::{Approve, Reject};
    let world = World::new();
    let (ada, ben, cy) = (person("ada", 1), person("ben", 2), person("cy", 3));
    world.enrol(&ada, &ada);
    (0..SUBJECTS).for_each(|number| world.hold(number));
    let check = || world.compare(SUBJECTS);
    check();
    world.enrol(&ben, &ada);
    world.enrol(&cy, &ada);
    check();
    world.rule("first", &ada);
    check();
    world.decide(&world.ledger, 0, &ben, Approve);
    world.decide(&world.other(), 1, &ben, Reject);
    check();
    world.land(0, 1, LandingEnd::Void);
    check();
    world.land(0, 2, LandingEnd::Completed);
    check();
    world.decide(&world.ledger, 2, &ben, Approve);
    world.decide(&world.other(), 3, &cy, Approve);
    check();
    world.rule("second", &ada);
    check();
    world.decide(&world.ledger, 3, &cy, Approve);
    world.land(3, 1, LandingEnd::Completed);
    check();
    world.revoke(&ben, &ada);
    check();
    assert!(world.ledger.kept::<KeptHistories>().get(&tenant()).is_some_and(|part| part.entries.len() > 10));
}

#[test]
fn a_key_that_was_revoked_elsewhere_counts_no_more_at_once() {
    let world = World::new();
    let (ada, ben) = (person("ada", 1), person("ben", 2));
    world.enrol(&ada, &ada);
    world.enrol(&ben, &ada);
    world.hold(0);
    world.hold(1);
    world.decide(&world.ledger, 0, &ben, ApprovalDecision::Approve);
    world.decide(&world.ledger, 1, &ben, ApprovalDecision::Reject);
    assert!(matches!(world.case(&world.ledger, 0).state.outcome, SubjectOutcome::Approved { .. }));
    assert!(RejectedSubjects::read(&world.ledger, &tenant()).unwrap().contains(&run(1)));
    world.revoke(&ben, &ada);
    let state = world.case(&world.ledger, 0).state;
    assert!(matches!(state.outcome, SubjectOutcome::Waiting { .. }));
    assert!(matches!(state.verdicts[0].uncounted, Some(Uncounted::Revoked)), "{state:?}");
    assert!(!RejectedSubjects::read(&world.ledger, &tenant()).unwrap().contains(&run(1)));
    let history = ApprovalHistory::load(&world.ledger, &tenant()).unwrap().unwrap();
    assert!(history.signer(ben.public.fingerprint()).is_err());
}

/// The same log up to a place, and then another entry: of a copy of the file, of a shorter one, and of another ledger.
#[test]
fn a_log_that_was_rewritten_is_judged_again() {
    let world = World::new();
    let (ada, ben) = (person("ada", 1), person("ben", 2));
    world.enrol(&ada, &ada);
    world.hold(0);
    let shorter = copied(&world);
    world.enrol(&ben, &ada);
    let before = copied(&world);
    world.decide(&world.ledger, 0, &ben, ApprovalDecision::Reject);
    let known = part(&world.ledger);
    // In the copy ben was revoked where he rejected in the other.
    before.revoke(&ben, &ada);
    before.hold(1);
    let stranger = World::new();
    stranger.enrol(&ada, &ada);
    (0..4).for_each(|number| stranger.hold(number));
    for other in [&shorter, &before, &stranger] {
        other.ledger.kept::<KeptHistories>().put(&tenant(), &known, false);
        let history = ApprovalHistory::load(&other.ledger, &tenant()).unwrap().unwrap();
        assert!(
            !history.judge.people().iter().any(|person| person.name == "ben" && !person.keys[0].is_revoked)
        );
        other.compare(1);
        assert_eq!(part(&other.ledger).root, history.place.root, "what is kept is of this log now");
    }
    // The log that it was judged of, or one that continues it, is answered from it: nothing is judged again.
    let same = world.other();
    let marked = JudgedPart { judge: Arc::new(ApprovalLog::new("marked", &tenant())), ..known.clone() };
    same.kept::<KeptHistories>().put(&tenant(), &marked, false);
    world.hold(1);
    assert!(!ApprovalHistory::load(&same, &tenant()).unwrap().unwrap().judge.had_people());
}

fn copied(world: &World) -> World {
    let folder = tempfile::tempdir().unwrap();
    world.ledger.backup(&folder.path().join("ledger.db"), |_, _| ()).unwrap();
    let ledger = Ledger::open(&place(folder.path()), LedgerOptions::default()).unwrap();
    World { folder, ledger, scopes: world.scopes.clone() }
}

#[test]
fn over_the_limit_the_least_recently_used_is_dropped() {
    let world = World::new();
    let ada = person("ada", 1);
    world.enrol(&ada, &ada);
    let known = part(&world.ledger);
    let mut tenants = Tenants::default();
    for (used, name) in (1..).zip(["b", "a", "c"]) {
        let part = JudgedPart { used, ..known.clone() };
        tenants.by_tenant.insert(TenantId::parse(name).unwrap(), part);
    }
    tenants.trim(2);
    let left: Vec<&str> = tenants.by_tenant.keys().map(TenantId::as_str).collect();
    assert_eq!(left, ["a", "c"]);
    tenants.trim(0);
    assert!(tenants.by_tenant.is_empty());
}

/// Drafts that landed or were rejected do not wait, and one whose rejection no longer counts waits again.
#[test]
fn drafts_that_wait_are_counted_without_those_that_were_decided() {
    let world = World::new();
    let (ada, ben) = (person("ada", 1), person("ben", 2));
    world.enrol(&ada, &ada);
    world.enrol(&ben, &ada);
    let drafts = world.drafted();
    let (tenant, robot) = (tenant(), RobotId::parse("r").unwrap());
    let decide = |number: usize, decision| {
        let reader = world.reader(&world.ledger, &tenant);
        let case = reader.read(&drafts[number]).unwrap();
        let signer = case.history.signer(ben.public.fingerprint()).unwrap();
        let statement = verdict_statement(&case, signer, decision, None, false).unwrap();
        reader.record_verdict(&ben.sign(&statement)).unwrap();
    };
    let counts = |ledger: &Ledger| {
        let rejected = RejectedSubjects::read(ledger, &tenant).unwrap();
        let count = |newest| count_waiting(ledger, &tenant, &rejected, &robot, newest).unwrap().count;
        let inbox = inbox(world.reader(ledger, &tenant), None, None, 50).unwrap().0.len() as u64;
        (count(None), inbox, count(Some(3)))
    };
    assert_eq!(counts(&world.ledger), (6, 6, 3));
    decide(0, ApprovalDecision::Approve);
    decide(4, ApprovalDecision::Approve);
    // A handle that has judged nothing looks at each of them.
    assert_eq!(counts(&world.ledger), (4, 4, 2));
    assert_eq!(counts(&world.other()), (4, 4, 2));
    decide(5, ApprovalDecision::Reject);
    assert_eq!(counts(&world.ledger), (3, 3, 1));
    assert_eq!(counts(&world.other()), (3, 3, 1));
    world.revoke(&ben, &ada);
    assert_eq!(counts(&world.ledger), (4, 4, 2), "the rejection no longer counts, the landings do");
    assert_eq!(counts(&world.other()), (4, 4, 2));
}
