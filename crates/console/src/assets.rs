//! The files of the console, in the program. A file's URL has its digest, so browsers keep it until it changes.

use std::borrow::Cow;
use std::sync::LazyLock;

use crealeph_contracts::digest::Blake3;
use crealeph_verify::verifier_script;

/// A file that a page loads.
#[derive(Clone, Debug)]
pub struct Asset {
    /// Its name.
    pub name: &'static str,
    /// Its media type.
    pub media_type: &'static str,
    /// Its text.
    pub text: Cow<'static, str>,
}

const SCRIPT_TYPE: &str = "text/javascript; charset=utf-8";

fn assets() -> [Asset; 7] {
    let asset = |name, media_type, text| Asset { name, media_type, text: Cow::Borrowed(text) };
    let proof = [&verifier_script(), include_str!("../assets/proof.js")].concat();
    [
        asset("console.css", "text/css; charset=utf-8", include_str!("../assets/console.css")),
        asset("console.js", SCRIPT_TYPE, include_str!("../assets/console.js")),
        asset("decide.js", SCRIPT_TYPE, include_str!("../assets/decide.js")),
        asset("output.js", SCRIPT_TYPE, include_str!("../assets/output.js")),
        asset("passkeys.js", SCRIPT_TYPE, include_str!("../assets/passkeys.js")),
        asset("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
        Asset { name: "proof.js", media_type: SCRIPT_TYPE, text: Cow::Owned(proof) },
    ]
}

/// Each file's name under which pages load it, and the file.
static NAMED: LazyLock<Vec<(String, Asset)>> = LazyLock::new(|| {
    let named = assets().map(|asset| {
        let digest = Blake3::of(asset.text.as_bytes()).to_string();
        let start = digest.get(..12).unwrap_or(&digest);
        (format!("{start}-{}", asset.name), asset)
    });
    named.into()
});

/// The file of a name that a page has.
pub fn asset(name: &str) -> Option<&'static Asset> {
    NAMED.iter().find(|(known, _)| known == name).map(|(_, asset)| asset)
}

/// Where pages load a file from.
pub fn asset_url(name: &str) -> String {
    let named = NAMED.iter().find(|(_, asset)| asset.name == name).map(|(named, _)| named.as_str());
    format!("/assets/{}", named.unwrap_or(name))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn each_file_is_found_by_the_url_that_pages_have() {
        for known in assets() {
            let url = asset_url(known.name);
            let found = asset(url.strip_prefix("/assets/").unwrap()).unwrap();
            assert_eq!((found.name, &found.text), (known.name, &known.text));
        }
        assert!(asset("console.css").is_none(), "only by its digest, because browsers keep it");
    }
}
