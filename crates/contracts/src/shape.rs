//! How a value of a contract is read, written and described: one trait, [`Shape`], and the macros that derive
//! it for objects and words from a single list of fields, so that type, reader, writer and schema cannot diverge.
//!
//! Reading is total: it yields *parts*, every field that could be read, and reports the rest, so that rules
//! across fields still see them (R8). Only a document without violations becomes the whole type.

use serde_json::{Value, json};

use crate::json::{Node, NodeKind};
use crate::violation::{Code, Report};

/// A value that some contract describes.
pub trait Shape: Sized {
    /// The parts of it that could be read; all of it, if nothing was reported.
    type Parts: Default + std::fmt::Debug;

    /// What the contract expects here, for a message: `an integer from 1`.
    const EXPECTED: &'static str;

    /// Whether the key may be absent.
    const OPTIONAL: bool = false;

    /// Reads what can be read and reports what cannot, under the clause of the object that holds it.
    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts;

    /// The whole value, if every part is there.
    fn finish(parts: Self::Parts) -> Option<Self>;

    /// The parts of a whole value.
    fn into_parts(self) -> Self::Parts;

    /// Absent, so that its key is not written.
    fn is_absent(&self) -> bool {
        false
    }

    /// Adds the value to `out` as JSON.
    fn write(&self, out: &mut String);

    /// The JSON Schema of the value.
    fn schema() -> Value;
}

/// Reports a value of another kind than the shape's.
pub(crate) fn wrong_type<T: Shape>(node: Node<'_>, clause: &'static str, report: &mut Report) -> T::Parts {
    if node.kind() == NodeKind::Null && T::OPTIONAL {
        report.at(node, "R5", Code::Null, || "null is not absence; leave the key out".to_owned());
    } else {
        report.at(node, clause, Code::WrongType, || {
            format!("expected {}, found {}", T::EXPECTED, node.kind().described())
        });
    }
    T::Parts::default()
}

/// Reports a field that is not there.
pub(crate) fn missing<T: Shape>(object: Node<'_>, key: &str, clause: &'static str, report: &mut Report) {
    report
        .at_member(object, key, clause, Code::Missing, || format!("`{key}` is missing; add {}", T::EXPECTED));
}

/// Reports a key that the contract does not list, with the nearest one that it does (R4).
pub(crate) fn unknown_key(key: Node<'_>, known: &[&str], clause: &'static str, report: &mut Report) {
    report.at(key, clause, Code::UnknownKey, || {
        let name = key.text_value();
        match nearest(&name, known) {
            Some(near) => {
                format!("the key `{}` is not in the contract; did you mean `{near}`?", shown(&name))
            }
            None => format!("the key `{}` is not in the contract; remove it", shown(&name)),
        }
    });
}

/// The known word nearest to the written one, if any is near: by case, or by a few letters.
pub fn nearest<'a>(written: &str, known: &[&'a str]) -> Option<&'a str> {
    if written.len() > 256 {
        return None;
    }
    let fold = |word: &str| word.to_lowercase().replace(['_', '-'], "");
    let folded = fold(written);
    known
        .iter()
        .map(|word| (strsim::damerau_levenshtein(&folded, &fold(word)), *word))
        .filter(|(distance, word)| *distance <= (word.len() / 3).max(1))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

/// A piece of a document as a message shows it: escaped and cut to a limit.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        shown.push('…');
    }
    shown
}

/// An optional field as it was read.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Maybe<P> {
    /// The key is not there.
    #[default]
    Absent,
    /// The key is there, with what could be read of its value.
    Present(P),
}

impl<P> Maybe<P> {
    /// What was read, if the key is there.
    pub fn present(&self) -> Option<&P> {
        match self {
            Maybe::Absent => None,
            Maybe::Present(parts) => Some(parts),
        }
    }

    /// Whether the key is there.
    pub fn is_present(&self) -> bool {
        matches!(self, Maybe::Present(_))
    }
}

impl<T: Shape> Shape for Option<T> {
    type Parts = Maybe<T::Parts>;
    const EXPECTED: &'static str = T::EXPECTED;
    const OPTIONAL: bool = true;

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        if node.kind() == NodeKind::Null {
            wrong_type::<Self>(node, clause, report);
            return Maybe::Present(T::Parts::default());
        }
        Maybe::Present(T::read(node, clause, report))
    }

    fn finish(parts: Self::Parts) -> Option<Self> {
        match parts {
            Maybe::Absent => Some(None),
            Maybe::Present(parts) => T::finish(parts).map(Some),
        }
    }

    fn into_parts(self) -> Self::Parts {
        self.map_or(Maybe::Absent, |value| Maybe::Present(value.into_parts()))
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn write(&self, out: &mut String) {
        match self {
            Some(value) => value.write(out),
            None => out.push_str("null"),
        }
    }

    fn schema() -> Value {
        T::schema()
    }
}

impl Shape for bool {
    scalar_parts!();
    const EXPECTED: &'static str = "true or false";

    fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
        node.boolean().or_else(|| wrong_type::<Self>(node, clause, report))
    }

    fn write(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }

    fn schema() -> Value {
        json!({ "type": "boolean" })
    }
}

/// How an array is read, written and described, for any kind of element. The positions of elements that could
/// not be read are kept.
macro_rules! array_shape {
    ($name:ident of $($bound:tt)+) => {
        impl<T: $($bound)+, const MIN: usize> Shape for $name<T, MIN> {
            type Parts = Option<Vec<T::Parts>>;
            const EXPECTED: &'static str =
                if MIN == 0 { "an array" } else { "an array with at least one element" };

            fn read(node: Node<'_>, clause: &'static str, report: &mut Report) -> Self::Parts {
                if node.kind() != NodeKind::Array {
                    return wrong_type::<Self>(node, clause, report);
                }
                let elements: Vec<T::Parts> =
                    node.elements().map(|element| T::read(element, clause, report)).collect();
                if elements.len() < MIN {
                    report.at(node, clause, Code::Empty, || {
                        "the array is empty; it must hold at least one element".to_owned()
                    });
                }
                Some(elements)
            }

            fn finish(parts: Self::Parts) -> Option<Self> {
                $name::new(parts?.into_iter().map(T::finish).collect::<Option<_>>()?)
            }

            fn into_parts(self) -> Self::Parts {
                Some(self.0.into_iter().map(T::into_parts).collect())
            }

            fn write(&self, out: &mut String) {
                out.push('[');
                for (position, element) in self.0.iter().enumerate() {
                    if position > 0 {
                        out.push(',');
                    }
                    element.write(out);
                }
                out.push(']');
            }

            fn schema() -> Value {
                match MIN {
                    0 => json!({ "type": "array", "items": T::schema() }),
                    least => json!({ "type": "array", "items": T::schema(), "minItems": least }),
                }
            }
        }
    };
}

/// An array in its order, with at least `MIN` elements.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T, const MIN: usize = 0>(Vec<T>);

impl<T, const MIN: usize> List<T, MIN> {
    /// The list, if it has enough elements.
    pub fn new(elements: Vec<T>) -> Option<Self> {
        (elements.len() >= MIN).then_some(List(elements))
    }

    /// The elements in their order.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

impl<T> List<T, 1> {
    /// A list of one.
    pub fn one(element: T) -> Self {
        List(vec![element])
    }
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List(Vec::new())
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        List(elements.into_iter().collect())
    }
}

array_shape!(List of Shape);

/// A set (R7): order and repetition do not matter; kept sorted and without repeats.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Set<T, const MIN: usize = 0>(Vec<T>);

impl<T: Ord, const MIN: usize> Set<T, MIN> {
    /// The set of these elements, if there are enough.
    pub fn new(mut elements: Vec<T>) -> Option<Self> {
        elements.sort();
        elements.dedup();
        (elements.len() >= MIN).then_some(Set(elements))
    }

    /// The elements, sorted.
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }

    /// Whether the set holds the element.
    pub fn contains(&self, element: &T) -> bool {
        self.0.binary_search(element).is_ok()
    }
}

impl<T> Set<T, 1> {
    /// A set of one.
    pub fn one(element: T) -> Self {
        Set(vec![element])
    }
}

impl<T> Default for Set<T> {
    fn default() -> Self {
        Set(Vec::new())
    }
}

impl<T: Ord> FromIterator<T> for Set<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements: Vec<T> = elements.into_iter().collect();
        elements.sort();
        elements.dedup();
        Set(elements)
    }
}

array_shape!(Set of Shape + Ord);

/// The parts of a value that is read completely or not at all.
macro_rules! scalar_parts {
    () => {
        type Parts = Option<Self>;

        fn finish(parts: Option<Self>) -> Option<Self> {
            parts
        }

        fn into_parts(self) -> Option<Self> {
            Some(self)
        }
    };
}

/// Defines a closed object (R4) from its fields: the type, its parts, reader, writer and schema.
///
/// `Name / NameParts ["clause of its fields", "clause that closes it"] { field: Type = "key", … }`
macro_rules! object {
    (
        $(#[doc = $about:literal])*
        $name:ident / $parts:ident [$clause:literal, $closed:literal] {
            $( $(#[doc = $doc:literal])* $field:ident : $type:ty = $key:literal, )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $( $(#[doc = $doc])* pub $field: $type, )* }

        #[doc = concat!("What could be read of [`", stringify!($name), "`].")]
        #[derive(Debug, Default)]
        pub struct $parts { $( $(#[doc = $doc])* pub $field: <$type as $crate::shape::Shape>::Parts, )* }

        impl $crate::shape::Shape for $name {
            type Parts = $parts;
            const EXPECTED: &'static str = $crate::shape::listed!("an object with ", "`", $($key),*);

            fn read(
                node: $crate::json::Node<'_>,
                _: &'static str,
                report: &mut $crate::violation::Report,
            ) -> $parts {
                const KNOWN: &[&str] = &[$($key),*];
                let mut parts = $parts::default();
                if node.kind() != $crate::json::NodeKind::Object {
                    report.at(node, $clause, $crate::violation::Code::WrongType, || {
                        format!("expected an object, found {}", node.kind().described())
                    });
                    return parts;
                }
                $( let mut $field = <$type as $crate::shape::Shape>::OPTIONAL; )*
                for (key, value) in node.members() {
                    match &*key.text_value() {
                        $( $key => {
                            $field = true;
                            parts.$field = <$type as $crate::shape::Shape>::read(value, $clause, report);
                        } )*
                        _ => $crate::shape::unknown_key(key, KNOWN, $closed, report),
                    }
                }
                $( if !$field {
                    $crate::shape::missing::<$type>(node, $key, $clause, report);
                } )*
                parts
            }

            fn finish(parts: $parts) -> Option<Self> {
                Some($name { $( $field: <$type as $crate::shape::Shape>::finish(parts.$field)?, )* })
            }

            fn into_parts(self) -> $parts {
                $parts { $( $field: <$type as $crate::shape::Shape>::into_parts(self.$field), )* }
            }

            fn write(&self, out: &mut String) {
                let mut object = $crate::json::ObjectWriter::new(out);
                $( if !<$type as $crate::shape::Shape>::is_absent(&self.$field) {
                    <$type as $crate::shape::Shape>::write(&self.$field, object.key($key));
                } )*
                object.end();
            }

            fn schema() -> serde_json::Value {
                $crate::schema::closed_object(
                    concat!($($about),*),
                    [$( $crate::schema::Field {
                        key: $key,
                        about: concat!($($doc),*),
                        is_optional: <$type as $crate::shape::Shape>::OPTIONAL,
                        schema: <$type as $crate::shape::Shape>::schema(),
                    } ),*],
                )
            }
        }
    };
}

/// Defines a word of a fixed list: the enum, its text, reader, writer and schema.
macro_rules! words {
    (
        $(#[doc = $about:literal])*
        $name:ident { $( $(#[doc = $doc:literal])* $variant:ident = $word:literal, )* }
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name { $( $(#[doc = $doc])* $variant, )* }

        impl $name {
            /// Every word, in the contract's order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }

            /// The variant of a word.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $( $word => Some(Self::$variant), )* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl $crate::shape::Shape for $name {
            $crate::shape::scalar_parts!();
            const EXPECTED: &'static str = $crate::shape::listed!("one of ", "\"", $($word),*);

            fn read(
                node: $crate::json::Node<'_>,
                clause: &'static str,
                report: &mut $crate::violation::Report,
            ) -> Option<Self> {
                if node.kind() != $crate::json::NodeKind::Text {
                    return $crate::shape::wrong_type::<Self>(node, clause, report);
                }
                let word = node.text_value();
                let known = Self::parse(&word);
                if known.is_none() {
                    $crate::shape::unknown_word(node, &word, &[$($word),*], Self::EXPECTED, clause, report);
                }
                known
            }

            fn write(&self, out: &mut String) {
                $crate::json::push_text(out, self.as_str());
            }

            fn schema() -> serde_json::Value {
                $crate::schema::one_of_words(&[$($word),*])
            }
        }
    };
}

/// Quoted words in a row; a list of one word is the word.
macro_rules! listed {
    ("one of ", $quote:literal, $word:literal) => { concat!($quote, $word, $quote) };
    ($lead:literal, $quote:literal, $first:literal $(, $word:literal)*) => {
        concat!($lead, $quote, $first, $quote, $(", ", $quote, $word, $quote,)*)
    };
}

pub(crate) use {listed, object, scalar_parts, words};

/// Reports a word that is not in the contract's list.
pub(crate) fn unknown_word(
    node: Node<'_>,
    word: &str,
    known: &[&str],
    expected: &str,
    clause: &'static str,
    report: &mut Report,
) {
    report.at(node, clause, Code::NotAllowed, || match nearest(word, known) {
        Some(near) => format!("expected {expected}, found \"{}\"; did you mean \"{near}\"?", shown(word)),
        None => format!("expected {expected}, found \"{}\"", shown(word)),
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_near() {
        let known = ["tenantId", "robotId", "on_stale", "ok"];
        for (written, near) in [
            ("tenantid", Some("tenantId")),
            ("TENANT_ID", Some("tenantId")),
            ("tenanId", Some("tenantId")),
            ("onstale", Some("on_stale")),
            ("robottId", Some("robotId")),
            ("k", Some("ok")),
            ("tenancies", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, &known), near, "{written}");
        }
        assert_eq!(nearest(&"_".repeat(256), &["a"]), Some("a"));
        assert_eq!(nearest(&"_".repeat(257), &["a"]), None, "what is that long is not looked at");
    }

    #[test]
    fn a_quote_is_escaped_and_bounded() {
        assert_eq!(shown("a\n\u{1b}"), "a\\n\\u{1b}");
        assert_eq!(shown(&"é".repeat(60)), "é".repeat(60));
        assert_eq!(shown(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }

    #[test]
    fn a_set_has_no_order_and_no_repeats_and_a_list_has_both() {
        let set: Set<u8> = [3, 1, 3, 2].into_iter().collect();
        assert_eq!((set.as_slice(), set.contains(&3), set.contains(&4)), (&[1, 2, 3][..], true, false));
        assert_eq!(Set::<u8>::new(vec![3, 1, 3, 2]), Some(set));
        assert_eq!((Set::<u8, 1>::new(Vec::new()), Set::one(7).as_slice()), (None, &[7][..]));
        let list: List<u8> = [3, 1, 3].into_iter().collect();
        assert_eq!(list.as_slice(), [3, 1, 3]);
        assert_eq!((List::<u8, 1>::new(Vec::new()), List::one(7).as_slice()), (None, &[7][..]));
        assert_eq!((Set::<u8>::default().as_slice().len(), List::<u8>::default().as_slice().len()), (0, 0));
    }
}
