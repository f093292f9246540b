//! Any bytes go through the parser; a document without a fault has a canonical text that reads back as itself.
#![no_main]

use crealeph_contracts::json::{Limits, canonical, parse, pretty};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let (document, faults) = parse(bytes, &Limits::default());
    assert!(document.is_some() || !faults.is_empty(), "nothing was read and nothing was said");
    for fault in &faults {
        assert!(fault.span.0 <= bytes.len() && !fault.message.is_empty(), "{fault:?}");
    }
    let Some(document) = document else { return };
    if !faults.is_empty() {
        return;
    }
    let once = canonical(document.root());
    for text in [&once, &pretty(document.root())] {
        let (again, faults) = parse(text.as_bytes(), &Limits::own(usize::MAX));
        assert!(faults.is_empty(), "{faults:?} in {text}");
        let again = again.map(|document| canonical(document.root()));
        assert_eq!(again.as_deref(), Some(once.as_str()));
    }
});
