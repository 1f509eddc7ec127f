//! The names of types in a parser's messages, in the words of people.

/// What parsers call types, and what people do.
const TYPES: [(&str, &str); 6] = [
    ("expected f64", "expected a number"),
    ("expected usize", "expected a whole number"),
    ("expected u64", "expected a whole number"),
    ("expected u32", "expected a whole number"),
    ("expected i64", "expected a whole number"),
    ("expected a boolean", "expected true or false"),
];

/// A parser's message without the names of Rust's types.
///
/// ```
/// use rampmeter_protocol::plain_types::in_plain_types;
/// let told = in_plain_types("invalid type: string \"five\", expected f64");
/// assert_eq!(told, "invalid type: string \"five\", expected a number");
/// ```
#[must_use]
pub fn in_plain_types(message: &str) -> String {
    TYPES.iter().fold(message.to_owned(), |told, (of_parser, plain)| told.replace(of_parser, plain))
}
