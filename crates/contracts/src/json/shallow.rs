//! The outermost members of an object as slices of its text, so that a document inside an envelope is
//! judged by its own bytes: its depth is counted from itself, and its faults are its own, not the envelope's.

/// Why a text has no members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ShallowError {
    /// It does not start with a brace.
    #[error("not a JSON object; it must start with an opening brace")]
    NotAnObject,
    /// It is cut off, or its brackets or quotes do not match.
    #[error("the JSON object is cut off, or its quotes and brackets do not match")]
    Unbalanced,
    /// Something follows it.
    #[error("something follows the JSON object; send only one object")]
    Trailing,
}

/// A key and its value, as they are in the text.
pub type ShallowMember<'a> = (&'a [u8], &'a [u8]);

/// The keys and values of the object, both as they are in the text, quotes included. Whether a value is JSON is
/// not checked, only where it ends.
pub fn shallow_members(text: &[u8]) -> Result<Vec<ShallowMember<'_>>, ShallowError> {
    let mut rest =
        text.trim_ascii_start().strip_prefix(b"{").ok_or(ShallowError::NotAnObject)?.trim_ascii_start();
    let mut members = Vec::new();
    if let Some(after) = rest.strip_prefix(b"}") {
        return if after.trim_ascii().is_empty() { Ok(members) } else { Err(ShallowError::Trailing) };
    }
    loop {
        let (key, after) = split_value(rest, b":")?;
        let (value, after) = split_value(after.get(1..).unwrap_or_default(), b",}")?;
        members.push((key, value));
        match after.split_first() {
            Some((b',', after)) => rest = after,
            Some((_, after)) if after.trim_ascii().is_empty() => return Ok(members),
            _ => return Err(ShallowError::Trailing),
        }
    }
}

/// Splits before the first of these bytes that is outside strings and brackets.
fn split_value<'a>(text: &'a [u8], ends: &[u8]) -> Result<ShallowMember<'a>, ShallowError> {
    let mut depth = 0usize;
    let mut bytes = text.iter().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if depth == 0 && ends.contains(byte) {
            let (value, rest) = text.split_at_checked(at).unwrap_or((text, &[]));
            return Ok((value.trim_ascii(), rest));
        }
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1).ok_or(ShallowError::Unbalanced)?,
            b'"' => loop {
                match bytes.next() {
                    Some((_, b'\\')) => {
                        bytes.next();
                    }
                    Some((_, b'"')) => break,
                    Some(_) => {}
                    None => return Err(ShallowError::Unbalanced),
                }
            },
            _ => {}
        }
    }
    Err(ShallowError::Unbalanced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<Vec<(String, String)>, ShallowError> {
        let owned = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Ok(shallow_members(text.as_bytes())?
            .into_iter()
            .map(|(key, value)| (owned(key), owned(value)))
            .collect())
    }

    #[test]
    fn members_are_cut_where_they_end() {
        let pairs = shown(r#" { "a" : [1,{"x":"}]\""}] , "b":NaN,"c": "," } "#).unwrap();
        let expected = [("\"a\"", r#"[1,{"x":"}]\""}]"#), ("\"b\"", "NaN"), ("\"c\"", "\",\"")];
        assert_eq!(pairs, expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
        assert_eq!(shown("{}"), Ok(vec![]));
        let deep = format!("{{\"doc\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
        assert_eq!(shown(&deep).unwrap()[0].1.len(), 100_000);
    }

    #[test]
    fn text_that_is_not_an_object_is_reported() {
        assert_eq!(shown("[1]"), Err(ShallowError::NotAnObject));
        assert_eq!(shown(""), Err(ShallowError::NotAnObject));
        for cut in ["{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":\"x", "{\"a\":]}", "{\"a\":1,"] {
            assert_eq!(shown(cut), Err(ShallowError::Unbalanced), "{cut}");
        }
        assert_eq!(shown("{} {}"), Err(ShallowError::Trailing));
        assert_eq!(shown("{\"a\":1}x"), Err(ShallowError::Trailing));
    }
}
