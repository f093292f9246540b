//! What the console's pages show in detail, over the ledger that the demo leaves: agents, events and replays, search, proofs, diffs.

use serde_json::Value;

use crate::pages::Demo;
use crate::stories::tell;

#[test]
fn people_read_the_details_in_a_browser() {
    let demo = Demo::serve();
    let key: Value =
        serde_json::from_str(&demo.run(&["key", "create", "--role", "writer", "--json"])).unwrap();
    demo.run(&["ledger", "checkpoint"]);
    let log_key = demo.run(&["ledger", "key", "--text"]).trim().to_owned();
    let links = (0..7).map(|_| demo.link("operator")).collect::<Vec<_>>();
    tell(
        "details.mjs",
        &[
            ("CREALEPH_URL", &demo.url),
            ("CREALEPH_LINKS", &links.join(" ")),
            ("CREALEPH_LOG_KEY", &log_key),
            ("CREALEPH_TOKEN", key["token"].as_str().unwrap()),
        ],
    );
}
