//! Files that no state can hold are refused, and the path is named.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixListener;

use rustix::fs::{CWD, FileType, Mode};

use crate::place::Place;

#[test]
fn pipes_sockets_and_devices() {
    let place = Place::with(&[("d/a", "")]);
    rustix::fs::mknodat(CWD, place.at("d/pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
    let _socket = UnixListener::bind(place.at("socket")).unwrap();
    let device = rustix::fs::makedev(1, 3);
    let mode = Mode::from_raw_mode(0o600);
    let mut expected = vec![
        "`d/pipe` is a FIFO; remove it or ignore it".to_owned(),
        "`socket` is a socket; remove it or ignore it".to_owned(),
    ];
    // Only root may create a device; everyone else has the two above.
    if rustix::fs::mknodat(CWD, place.at("null"), FileType::CharacterDevice, mode, device).is_ok() {
        expected.insert(1, "`null` is a device node; remove it or ignore it".to_owned());
    }
    assert_eq!(place.refusals(), expected);
    place.write(".gitignore", "/null\n/socket\nd/pipe\n");
    assert_eq!(place.paths(), [".gitignore", "d/a"]);
}

#[test]
fn set_id_bits_on_files_but_not_on_folders() {
    let place = Place::with(&[("d/a", ""), ("b", "")]);
    place.set_mode("d", 0o2755);
    assert_eq!(place.paths(), ["b", "d/a"]);
    place.set_mode("d/a", 0o4755);
    place.set_mode("b", 0o2755);
    let bit = "has a setuid or setgid bit; remove the bit with `chmod u-s,g-s`";
    assert_eq!(place.refusals(), [format!("`b` {bit}"), format!("`d/a` {bit}")]);
}

#[test]
fn links_that_may_lead_outside() {
    let place = Place::with(&[("d/a", "")]);
    place.link("d/inside", "../d/a");
    place.link("d/up", "..");
    assert_eq!(place.paths(), ["d/a", "d/inside", "d/up"]);
    place.link("absolute", "/etc/passwd");
    place.link("d/climbs", "../../x");
    place.link("d/sneaks", "up/../../x");
    let said = |path: &str, target: &str| {
        format!(
            "`{path}` is a link to `{target}`, which may lead outside the workspace; remove it or ignore it"
        )
    };
    let expected =
        [said("absolute", "/etc/passwd"), said("d/climbs", "../../x"), said("d/sneaks", "up/../../x")];
    assert_eq!(place.refusals(), expected);
}

#[test]
fn names_and_targets_that_are_not_utf_8() {
    let place = Place::new();
    let name = place.path().join(OsStr::from_bytes(b"a\xff"));
    std::fs::write(&name, "").unwrap();
    std::os::unix::fs::symlink(OsStr::from_bytes(b"b\xfe"), place.at("link")).unwrap();
    std::fs::create_dir(place.path().join(OsStr::from_bytes(b"d\xff"))).unwrap();
    let why = "has a name or link target that is not UTF-8; rename it or ignore it";
    assert_eq!(
        place.refusals(),
        [format!("`a\u{fffd}` {why}"), format!("`d\u{fffd}` {why}"), format!("`link` {why}")]
    );
}

#[test]
fn a_name_of_white_space_is_refused_and_one_with_line_breaks_is_not() {
    let place = Place::with(&[("a\nb", "")]);
    assert_eq!(place.paths(), ["a\nb"]);
    place.write(" ", "");
    assert!(place.refusals()[0].starts_with("` ` has a name that no receipt can contain"));
}

#[test]
fn at_most_a_hundred_refusals_are_reported() {
    let place = Place::new();
    (0..150).for_each(|number| place.link(&format!("l{number:03}"), "/"));
    assert_eq!(place.refusals().len(), 100);
}
