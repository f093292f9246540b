//! The files of the console, in the program. A file's URL has its digest, so browsers keep it until it changes.

use std::sync::LazyLock;

use crealeph_contracts::digest::Blake3;

/// A file that a page loads.
#[derive(Clone, Copy, Debug)]
pub struct Asset {
    /// Its name.
    pub name: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Its bytes.
    pub bytes: &'static [u8],
}

const ASSETS: &[Asset] = &[
    Asset {
        name: "console.css",
        media_type: "text/css; charset=utf-8",
        bytes: include_bytes!("../assets/console.css"),
    },
    Asset {
        name: "console.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/console.js"),
    },
    Asset {
        name: "passkeys.js",
        media_type: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../assets/passkeys.js"),
    },
    Asset { name: "icon.svg", media_type: "image/svg+xml", bytes: include_bytes!("../assets/icon.svg") },
];

/// Each file's name under which pages load it, and the file.
static NAMED: LazyLock<Vec<(String, Asset)>> = LazyLock::new(|| {
    let named = ASSETS.iter().map(|asset| {
        let digest = Blake3::of(asset.bytes).to_string();
        let start = digest.get(..12).unwrap_or(&digest);
        (format!("{start}-{}", asset.name), *asset)
    });
    named.collect()
});

/// The file of a name that a page has.
pub fn asset(name: &str) -> Option<Asset> {
    NAMED.iter().find(|(known, _)| known == name).map(|(_, asset)| *asset)
}

/// Where pages load a file from.
pub(crate) fn url(name: &str) -> String {
    let named = NAMED.iter().find(|(_, asset)| asset.name == name).map(|(named, _)| named.as_str());
    format!("/assets/{}", named.unwrap_or(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_file_is_found_by_the_url_that_pages_have() {
        for known in ASSETS {
            let url = url(known.name);
            let found = asset(url.strip_prefix("/assets/").unwrap()).unwrap();
            assert_eq!((found.name, found.bytes), (known.name, known.bytes));
        }
        assert!(asset("console.css").is_none(), "only by its digest, because browsers keep it");
    }
}
