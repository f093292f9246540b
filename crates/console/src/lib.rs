//! The pages of the console: HTML from the read models of `runtime`, and the style and scripts that they need, all in the program.
//!
//! Refuses: to query a store, to write, to authenticate, to load anything from another host. A page is a function of a
//! value that was read before; untrusted text is shown as text, with characters that would hide or reorder it escaped; every page
//! works without scripts.

mod assets;
mod compare;
mod diff;
mod executions;
mod frame;
mod graph;
mod inbox;
mod ledger;
mod output;
mod parts;
mod people;
mod policy;
mod robots;
mod search;
mod several;
mod sign_in;
mod subject;
mod usage;
mod work;

pub use assets::{Asset, asset, asset_url};
pub use compare::comparison;
pub use crealeph_verify::verifier_page;
pub use executions::{ExecutionList, execution, executions};
pub use frame::{CONTENT_SECURITY, PageFrame, ProblemPage, Section, Viewer, problem};
pub use inbox::{INBOX_SCOPES, InboxView, inbox};
pub use ledger::{EntryDetail, LedgerList, entries, entry};
pub use output::{OUTPUT_BYTES, RunOutput, output};
pub use people::{AccessList, AccessPage, access};
pub use policy::{BacktestCut, BacktestForm, BacktestPage, policy};
pub use robots::{RobotView, robot, robots};
pub use search::{SearchHit, SearchPage, search};
pub use several::{MAX_SEVERAL, SeveralPage, several};
pub use sign_in::{SignInPage, enrol, sign_in};
pub use subject::{SubjectView, subject};
pub use usage::{UsagePeriod, usage};
pub use work::{OPEN_STATUSES, RUN_STATUSES, RunList, RunPage, UndoOffer, run, runs};
