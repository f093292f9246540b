//! The HTTP API: authenticates, bounds and translates. It decides nothing, and writes only as the command line does, through
//! `runtime` and `ledger`.
//!
//! Invariants: a route is a row of one table, from which router, OpenAPI document, `/docs` and test matrix come; the tenant
//! comes from the key alone; a body is read as bytes within a bound and parsed by our own strict parser; everything that a
//! client can use up has a bound that its problem document names; no secret and no payload is logged.

mod accepting;
mod app;
mod call;
mod checkpoints;
mod connection;
mod console;
mod docs_page;
mod follower;
mod hosts;
mod http;
mod limits;
mod membership;
mod metrics;
mod metrics_port;
mod only_tenant;
mod openapi;
mod prefer;
mod problem;
mod reply;
mod ring;
mod route;
mod routes;
mod schemas;
mod serve;
mod session;
mod settings;
mod snapshots;
mod stream;
mod tls;
mod workspace;

pub use console::console_routes;
pub use openapi::document as openapi_document;
pub use routes::ReportRenderer;
pub use serve::{ServeError, Server, ServerParts, StopHandle};
pub use settings::{ServerBounds, ServerSettings};
pub use tls::{TlsError, TlsFiles};
pub use workspace::{OpenWork, ServerWorkspace};
