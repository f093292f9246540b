//! A statement that is built from parts: its text, and the values of its parameters in their order. A value never becomes
//! part of the text.

/// A statement with parameters of type `V`.
#[derive(Debug)]
pub(crate) struct Query<V> {
    /// The character before the number of a parameter: `?` or `$`.
    mark: char,
    pub text: String,
    pub values: Vec<V>,
}

impl<V> Query<V> {
    /// A statement that begins with a text, in which these values are the first parameters.
    pub(crate) fn new(mark: char, text: impl Into<String>, values: Vec<V>) -> Query<V> {
        Query { mark, text: text.into(), values }
    }

    /// Adds text that has no parameter.
    pub(crate) fn push(&mut self, text: &str) -> &mut Query<V> {
        self.text.push_str(text);
        self
    }

    /// Adds a parameter and its value.
    pub(crate) fn bind(&mut self, value: V) -> &mut Query<V> {
        self.values.push(value);
        self.text.push_str(&format!("{}{}", self.mark, self.values.len()));
        self
    }
}
